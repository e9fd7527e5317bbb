"""Recordings whose pieces are copied: byte ranges of WAV, frames of FLAC and MP3, packets of Opus."""

import functools
import io
import os
from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import BinaryIO

import numpy as np
import soundfile

from splitter.audio.base import MANY_SAMPLES, SoundSource, wav_header
from splitter.audio.decoders import KEEP_THEM, Truncated, check_mp3, numbers, read_exactly
from splitter.audio.encode import encode_blocks, silent
from splitter.audio.formats.base import SoundFormat
from splitter.audio.formats.flac import FlacError, FlacSource
from splitter.audio.formats.flac.stream import SUBTYPES
from splitter.audio.formats.mp3 import Mp3Source, seems_mp3
from splitter.audio.formats.ogg.source import OpusSource
from splitter.audio.formats.registry import LOSSY
from splitter.audio.formats.wav import SILENCE, Extent, RawFormat
from splitter.audio.target import Target
from splitter.errors import AudioError
from splitter.records import Content
from splitter.system.stderr import silenced_stderr

COPY_AT_ONCE = 1 << 18
LARGEST_IN_MEMORY = 1 << 20


class RawSource(SoundSource):
    """A WAV file whose pieces are byte ranges after a new header."""

    def __init__(self, file: BinaryIO, extent: Extent, raw: RawFormat, made: SoundFormat) -> None:
        """Read the samples at `extent` of an open file, which the caller closes."""
        self._file = io.FileIO(os.dup(file.fileno()))
        # else errors would name the descriptor
        self._file.name = file.name
        self._start, self._frames = extent.start, extent.frames
        self.recorded: RawFormat = raw
        self.made = made
        self.lacks_sound = extent.is_cut_short

    def reach(self, frame: int) -> int:
        return min(frame, self._frames)

    def content(self, start: int, stop: int, silence: int = 0, channel: int | None = None) -> Content:  # noqa: ARG002 - all
        """Return the bytes of a small piece, or a function that copies those of a large one."""
        raw = self.recorded
        header = wav_header(raw, stop - start + silence)
        at, size = self._start + start * raw.frame_bytes, (stop - start) * raw.frame_bytes
        silent = SILENCE.get(raw.subtype, b"\0")
        more = silence * raw.frame_bytes
        even = b"\0" * (size + more & 1)
        if size + more <= LARGEST_IN_MEMORY:
            return header + self._read(at, size) + silent * more + even

        def copy(file: BinaryIO) -> None:
            file.write(header)
            file.writelines(self._blocks(at, size))
            file.writelines(silent * min(COPY_AT_ONCE, more - done) for done in range(0, more, COPY_AT_ONCE))
            file.write(even)

        return copy

    def frames(self, start: int, stop: int) -> Iterator[np.ndarray]:
        raw = self.recorded
        at_once = self.made.frames_at_once
        for at in range(start, stop, at_once):
            size = (min(stop, at + at_once) - at) * raw.frame_bytes
            content = np.frombuffer(self._read(self._start + at * raw.frame_bytes, size), np.uint8)
            yield numbers(content, raw.subtype, raw.order).reshape(-1, raw.channels)

    def _read(self, at: int, size: int) -> bytes:
        content: bytes = os.pread(self._file.fileno(), size, at)
        if len(content) != size:
            raise AudioError(f"{self._file.name!s}: became shorter while it was read")
        return content

    def _blocks(self, at: int, size: int) -> Iterator[memoryview]:
        """Yield a byte range in blocks, which share one buffer."""
        buffer = _copy_buffer()
        self._file.seek(at)
        while size:
            block = buffer[: min(size, COPY_AT_ONCE)]
            read_exactly(self._file, block)
            yield block
            size -= len(block)

    def close(self) -> None:
        self._file.close()


class FramesSource(SoundSource):
    """A recording whose pieces are made of its own frames or packets, if they sound the same."""

    def __init__(self, cutter: FlacSource | Mp3Source | OpusSource, recorded: SoundFormat) -> None:
        self._cutter = cutter
        self.recorded = self.made = recorded

    def reach(self, frame: int) -> int:
        """Return how many frames exist, at most `frame`; all were counted when the file was opened."""
        return min(frame, self._cutter.samples)

    def is_exact(self, start: int, stop: int) -> bool:  # noqa: ARG002 - subclasses need them
        """Return whether a piece made of the recording's own frames sounds like that part of it."""
        return True

    def way_of_cutting(self, start: int, stop: int, silence: int = 0) -> str:
        """Return `encoded` if there is silence, or a copy would sound different; else `copied`."""
        if self.made.container not in LOSSY:
            return ""
        return "encoded" if silence or not self.is_exact(start, stop) else "copied"

    def content(self, start: int, stop: int, silence: int = 0, channel: int | None = None) -> Content:  # noqa: ARG002 - all
        """Return content that copies the frames, or encodes the piece if it cannot be made of them."""
        if not silence and self.is_exact(start, stop):
            return functools.partial(self._cutter.cut, start, stop)
        blocks = functools.partial(self._with_silence, start, stop, silence)
        return encode_blocks(blocks, stop - start + silence, self.made)

    def frames(self, start: int, stop: int) -> Iterator[np.ndarray]:
        return self._with_silence(start, stop, 0)

    def _with_silence(self, start: int, stop: int, silence: int) -> Iterator[np.ndarray]:
        """Yield a piece, decoded in parts, and then silence."""
        made = self.made
        at_once = MANY_SAMPLES // made.channels
        frames = np.empty((0, made.channels), made.dtype)
        for at in range(start, stop, at_once):
            piece = io.BytesIO()
            self._cutter.cut(at, min(stop, at + at_once), piece)
            piece.seek(0)
            with silenced_stderr():
                frames, _ = soundfile.read(piece, dtype=made.dtype, always_2d=True)
            yield frames
        yield from silent(silence, frames, made)

    def close(self) -> None:
        self._cutter.close()


class FlacFramesSource(FramesSource):
    """A FLAC file whose pieces are made of its own frames; only its ends are encoded again."""

    _cutter: FlacSource

    def __init__(self, path: str, flac: FlacSource, truncated: Truncated) -> None:
        super().__init__(flac, SoundFormat("FLAC", SUBTYPES[flac.bits], flac.channels, flac.rate))
        self._path, self._truncated = path, truncated

    @classmethod
    def open(cls, path: str, truncated: Truncated) -> "FlacFramesSource | None":
        """Open a file; return None if its frames cannot be copied."""
        try:
            return cls(path, FlacSource(path), truncated)
        except FlacError:
            return None

    def reach(self, frame: int) -> int:
        """Find frames up to sample `frame`; return how many samples exist, at most `frame`."""
        try:
            return self._cutter.reach(frame)
        except FlacError as error:
            if self._truncated == "error":
                raise AudioError(f"{self._path}: {error}; {KEEP_THEM}") from error
            self.lacks_sound = True
            return min(frame, error.samples)


class Mp3FramesSource(FramesSource):
    """An MP3 file whose pieces are made of its own frames."""

    _cutter: Mp3Source

    @classmethod
    def open(cls, path: str, target: Target, truncated: Truncated) -> "Mp3FramesSource | None":
        """Open a file; return None unless it is an MP3 whose frames can be copied as they are."""
        if target.format not in ("same", "mp3") or not seems_mp3(path):
            return None
        with ExitStack() as opened:
            mp3 = opened.enter_context(closing(Mp3Source(path)))
            if not mp3.cuttable:
                return None
            check_mp3(path, mp3, truncated)
            opened.pop_all()
            source = cls(mp3, SoundFormat("MP3", LOSSY["MP3"], mp3.layout.channels, mp3.layout.rate))
            source.lacks_sound = bool(mp3.loss)
            return source

    def is_exact(self, start: int, stop: int) -> bool:
        """Return whether a piece has more than one frame: ffmpeg cannot drop samples at both ends of one."""
        return not self._cutter.is_within_a_frame(start, stop)


@functools.cache
def _copy_buffer() -> memoryview:
    """Return a buffer that is made once in each process."""
    return memoryview(bytearray(COPY_AT_ONCE))
