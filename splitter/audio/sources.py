"""A recording as a stream: mixed, resampled, and cut into pieces."""

import functools
import io
import itertools
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from fractions import Fraction
from tempfile import gettempdir
from typing import BinaryIO, TypeVar

import numpy as np
import soundfile

from splitter.audio.decoders import Decoder, SoundFormat, Truncated, check_mp3, check_whole, read_exactly
from splitter.audio.encode import AS_IN_MEMORY, encode, encode_blocks, plain_wav, scaled, silent, writable
from splitter.audio.formats.flac import FlacError, FlacSource, rate_of
from splitter.audio.formats.mp3 import Mp3Source, seems_mp3
from splitter.audio.formats.wav import (
    Extent,
    RawFormat,
    find_samples_in,
)
from splitter.audio.probe import FLAC_SUBTYPES, LONGEST, ProbedSound
from splitter.audio.resampling import resampler
from splitter.audio.sniff import open_decoder
from splitter.audio.target import LOSSY, Target, made_format
from splitter.audio.window import Folder, Tape
from splitter.errors import AudioError
from splitter.records import Content
from splitter.system.stderr import silenced_stderr

COPY_AT_ONCE = 1 << 18
LARGEST_IN_MEMORY = 1 << 20
# a piece with more samples is written block after block
MANY_SAMPLES = 1 << 22
_FLOATS = ("FLOAT", "DOUBLE")


AnySource = TypeVar("AnySource", bound="SoundSource")


class SoundSource(ABC):
    """A recording as the pieces see it: at the target's rate, with the target's channels.

    Attributes:
        recorded: How the recording is stored.
        made: How the pieces are to be stored.
        resampler: What brings it to another rate, if anything has to.
    """

    recorded: SoundFormat
    made: SoundFormat
    resampler: str | None = None

    @abstractmethod
    def reach(self, frame: int) -> int:
        """Read on until so many frames are known to be there; how many of them there are."""

    @abstractmethod
    def contents(self, start: int, stop: int, silence: int = 0) -> list[Content]:
        """The frames from `start` to `stop` and then some silence as a file, or as one for each channel."""

    @property
    @abstractmethod
    def recorded_frames(self) -> int:
        """How many frames the recording has; known when `reach` has met its end."""

    def way_of_cutting(self, start: int, stop: int, silence: int = 0) -> str:  # noqa: ARG002 - some copy
        """How a piece in a lossy format is made, `copied` or `encoded`; empty in any other format."""
        return "encoded" if self.made.container in LOSSY else ""

    def forget(self, frame: int) -> None:  # noqa: B027 - only some have to
        """Say that nothing before a frame will be asked for again."""

    def finish(self) -> None:
        """Read on to the end, for what is known only there."""
        self.reach(LONGEST)

    @abstractmethod
    def close(self) -> None:
        """Let the file go."""

    def __enter__(self: AnySource) -> AnySource:  # noqa: PYI019 - Self came with Python 3.11
        """Use it as a context."""
        return self

    def __exit__(self, *error: object) -> None:
        """Let the file go."""
        self.close()


def open_source(
    path: str, target: Target, truncated: Truncated = "error", folder: Folder = gettempdir
) -> SoundSource:
    """Open a recording, in the way that loses nothing and costs least; `folder` is for temporary files."""
    with open(path, "rb") as file:
        extent = find_samples_in(file)
        if extent:
            check_whole(path, extent, truncated)
            if extent.raw and extent.raw.description:
                recorded = SoundFormat.of(extent.raw)
                made = made_format(recorded, target, path)
                if made.container == "WAV" and keeps_samples(recorded, made, target):
                    return RawSource(file, extent, extent.raw, made)
        rate = rate_of(file.fileno())
    if rate and target.sample_rate in (None, rate) and target.format in ("same", "flac"):
        source = FramesSource.open(path, truncated)
        if source:
            with ExitStack() as opened:
                opened.enter_context(source)
                if keeps_samples(source.recorded, made_format(source.recorded, target, path), target):
                    opened.pop_all()
                    return source
    if not rate and target.lossy == "copy":
        copied = Mp3FramesSource.open(path, target, truncated)
        if copied:
            return copied
    return DecodedSource.open(path, target, truncated, folder)


def keeps_samples(recorded: SoundFormat, made: SoundFormat, target: Target) -> bool:
    """Whether the samples of the pieces are to be stored just as the recording's are."""
    same = (recorded.subtype, recorded.channels, recorded.rate) == (made.subtype, made.channels, made.rate)
    return same and (target.channels == "keep" or recorded.channels == 1)


# -- channels and rate ---------------------------------------------------------------------------------------


def _mixer(target: Target, channels: int) -> Callable[[np.ndarray], np.ndarray]:
    """What makes the target's channels of a block."""
    if channels == 1 or target.channels in ("keep", "split"):
        return lambda block: block
    if target.channels == "first":
        return lambda block: block[:, :1]
    return _mean


def _mean(block: np.ndarray) -> np.ndarray:
    """One channel from all: their mean, by sums over columns, which costs a fraction of a mean over rows."""
    wide = np.float32 if block.dtype in (np.int16, np.float32) else np.float64
    total = block[:, 0].astype(wide)
    for channel in range(1, block.shape[1]):
        total += block[:, channel]
    total /= block.shape[1]
    if np.issubdtype(block.dtype, np.integer):
        np.rint(total, out=total)
    return total.astype(block.dtype, copy=False)[:, np.newaxis]


class DecodedSource(SoundSource):
    """A recording that is decoded, mixed, resampled and encoded."""

    def __init__(self, decoder: Decoder, made: SoundFormat, target: Target, folder: Folder) -> None:
        """Set up the way that samples take; `folder` is for what is too long to stand in memory."""
        self._decoder, self.recorded, self.made = decoder, decoder.format, made
        self._split = target.channels == "split" and decoder.format.channels > 1
        mix = _mixer(target, decoder.format.channels)
        channels = decoder.format.channels if target.channels in ("keep", "split") else 1
        read: Callable[[int], np.ndarray] = lambda frames: mix(decoder.read(frames))  # noqa: E731
        computed = decoder.format
        if made.subtype in _FLOATS:
            # nothing is rounded to the bits of the recording on the way
            kind = AS_IN_MEMORY[made.subtype]
            read = lambda frames: mix(scaled(decoder.read(frames), kind))  # noqa: E731
            computed = replace(computed, subtype=made.subtype, holding="")
        if made.rate != decoder.format.rate:
            resample = resampler(read, computed, made.rate, channels, target.device)
            read, self.resampler = resample.read, resample.name
        self._tape = Tape(read, decoder.format.frames_at_once, folder)

    @classmethod
    def open(
        cls, path: str, target: Target, truncated: Truncated, folder: Folder = gettempdir
    ) -> "DecodedSource":
        """Decode a recording, whatever could be copied of it."""
        decoder = open_decoder(path, truncated)
        try:
            return cls(decoder, writable(made_format(decoder.format, target, path), path), target, folder)
        except BaseException:
            decoder.close()
            raise

    def blocks(self) -> Iterator[np.ndarray]:
        """All of it, as numbers from -1 to 1, channels in columns; instead of cutting it."""
        stop = 0
        while self._tape.reach(stop + 1) > stop:
            start, stop = stop, self._tape.stop
            yield scaled(self._tape.take(start, stop), "<f4")
            self._tape.forget(stop)

    def reach(self, frame: int) -> int:
        """Decode on."""
        return self._tape.reach(frame)

    def forget(self, frame: int) -> None:
        """Let blocks go."""
        self._tape.forget(frame)

    def finish(self) -> None:
        """Decode the rest, and keep none of it."""
        self._tape.forget(LONGEST)
        self._tape.reach(LONGEST)

    def contents(self, start: int, stop: int, silence: int = 0) -> list[Content]:
        """Each file as what encodes it."""
        count = stop - start + silence
        if count * self.recorded.channels > MANY_SAMPLES:
            channels: Iterable[int | None] = range(self.recorded.channels) if self._split else [None]
            read = functools.partial(self._blocks, start, stop, silence)
            return [encode_blocks(functools.partial(read, channel), count, self.made) for channel in channels]
        frames = self._tape.take(start, stop)
        if silence:
            frames = np.concatenate((frames, np.zeros((silence, frames.shape[1]), frames.dtype)))
        columns = np.hsplit(frames, frames.shape[1]) if self._split else [frames]
        return [encode(column, self.made) for column in columns]

    def _blocks(self, start: int, stop: int, silence: int, channel: int | None) -> Iterator[np.ndarray]:
        """A long piece, part after part; of one channel, or of all."""
        columns = slice(None) if channel is None else slice(channel, channel + 1)
        none = self._tape.take(stop, stop)
        for block in itertools.chain(self._tape.blocks(start, stop), silent(silence, none, self.made)):
            yield block[:, columns]

    @property
    def recorded_frames(self) -> int:
        """What was decoded."""
        return self._decoder.frames

    def close(self) -> None:
        """Let the file go."""
        self._decoder.close()


# pieces are of one length, but for the last
_header = functools.lru_cache(maxsize=64)(RawFormat.header)


class RawSource(SoundSource):
    """A WAV file whose pieces are byte ranges behind a new header."""

    _SILENCE = {"PCM_U8": b"\x80", "ALAW": b"\xd5", "ULAW": b"\xff"}  # noqa: RUF012

    def __init__(self, file: BinaryIO, extent: Extent, raw: RawFormat, made: SoundFormat) -> None:
        """Use the samples at `extent` of an open file, which the caller closes."""
        self._path = file.name
        self._file = io.FileIO(os.dup(file.fileno()))
        self._raw, self._start, self._frames = raw, extent.start, extent.frames
        self.recorded, self.made = SoundFormat.of(raw), made

    def reach(self, frame: int) -> int:
        """The file says how much there is, by its true size."""
        return min(frame, self._frames)

    @property
    def recorded_frames(self) -> int:
        """As many as there are bytes for."""
        return self._frames

    def contents(self, start: int, stop: int, silence: int = 0) -> list[Content]:
        """The piece itself if it is small, else what copies it."""
        raw = self._raw
        header = _header(raw, stop - start + silence)
        at, size = self._start + start * raw.frame_bytes, (stop - start) * raw.frame_bytes
        silent = self._SILENCE.get(raw.subtype, b"\0")
        more = silence * raw.frame_bytes
        even = b"\0" * (size + more & 1)
        if size + more <= LARGEST_IN_MEMORY:
            return [header + self._read(at, size) + silent * more + even]

        def copy(file: BinaryIO) -> None:
            file.write(header)
            file.writelines(self._blocks(at, size))
            file.writelines(silent * min(COPY_AT_ONCE, more - done) for done in range(0, more, COPY_AT_ONCE))
            file.write(even)

        return [copy]

    def _read(self, at: int, size: int) -> bytes:
        content: bytes = os.pread(self._file.fileno(), size, at)
        if len(content) != size:
            raise AudioError(f"{self._path}: has become shorter while it was read")
        return content

    def _blocks(self, at: int, size: int) -> Iterator[memoryview]:
        """A byte range through one buffer."""
        buffer = _copy_buffer()
        self._file.seek(at)
        while size:
            block = buffer[: min(size, COPY_AT_ONCE)]
            read_exactly(self._file, block)
            yield block
            size -= len(block)

    def close(self) -> None:
        """Let the file go."""
        self._file.close()


class FramesSource(SoundSource):
    """A FLAC file whose pieces are made of its own frames; only those at both ends are encoded anew."""

    def __init__(self, path: str, flac: FlacSource, truncated: Truncated) -> None:
        """Use an opened file."""
        self._path, self._flac, self._truncated = path, flac, truncated
        self.recorded = self.made = SoundFormat("FLAC", FLAC_SUBTYPES[flac.bits], flac.channels, flac.rate)

    @classmethod
    def open(cls, path: str, truncated: Truncated) -> "FramesSource | None":
        """Open a file; None if its frames cannot be copied, though it may be decoded."""
        try:
            flac = FlacSource(path)
        except FlacError:
            return None
        if flac.bits not in FLAC_SUBTYPES:
            flac.close()
            return None
        return cls(path, flac, truncated)

    def reach(self, frame: int) -> int:
        """Look at frames until so many samples are there."""
        try:
            return self._flac.reach(frame)
        except FlacError as error:
            if self._truncated == "error":
                raise AudioError(f"{self._path}: {error}; --truncated keep takes what is there") from error
            return min(frame, error.samples)

    @property
    def recorded_frames(self) -> int:
        """As many as the frames hold."""
        return self.reach(LONGEST)

    def contents(self, start: int, stop: int, silence: int = 0) -> list[Content]:
        """What copies the frames; with silence after them it has to be encoded."""
        if not silence:
            return [functools.partial(self._flac.cut, start, stop)]
        blocks = functools.partial(self._with_silence, start, stop, silence)
        return [encode_blocks(blocks, stop - start + silence, self.made)]

    def _with_silence(self, start: int, stop: int, silence: int) -> Iterator[np.ndarray]:
        at_once = MANY_SAMPLES // self.made.channels
        frames = np.empty((0, self.made.channels), self.made.dtype)
        for at in range(start, stop, at_once):
            piece = io.BytesIO()
            self._flac.cut(at, min(stop, at + at_once), piece)
            piece.seek(0)
            frames, _ = soundfile.read(piece, dtype=self.made.dtype, always_2d=True)
            yield frames
        yield from silent(silence, frames, self.made)

    def close(self) -> None:
        """Let the file go."""
        self._flac.close()


class Mp3FramesSource(SoundSource):
    """An MP3 file whose pieces are made of its own frames: no sound is decoded, and none is lost."""

    def __init__(self, path: str, mp3: Mp3Source) -> None:
        """Use an opened file."""
        self._path, self._mp3 = path, mp3
        layout = mp3.layout
        self.recorded = self.made = SoundFormat("MP3", LOSSY["MP3"], layout.channels, layout.rate)

    @classmethod
    def open(cls, path: str, target: Target, truncated: Truncated) -> "Mp3FramesSource | None":
        """Open a file; None if it is no MP3, or its frames cannot be copied, or are not what is wanted."""
        if target.format not in ("same", "mp3") or not seems_mp3(path):
            return None
        mp3 = Mp3Source(path)
        try:
            if mp3.cuttable:
                check_mp3(path, mp3, truncated)
                source = cls(path, mp3)
                if keeps_samples(source.recorded, made_format(source.recorded, target, path), target):
                    return source
        except BaseException:
            mp3.close()
            raise
        mp3.close()
        return None

    def reach(self, frame: int) -> int:
        """All frames have been counted."""
        return min(frame, self._mp3.samples)

    @property
    def recorded_frames(self) -> int:
        """As many as the frames hold."""
        return self._mp3.samples

    def way_of_cutting(self, start: int, stop: int, silence: int = 0) -> str:
        """Copied, but for silence, and what is shorter than a frame."""
        return "encoded" if silence or self._mp3.is_within_a_frame(start, stop) else "copied"

    def contents(self, start: int, stop: int, silence: int = 0) -> list[Content]:
        """What copies the frames, or encodes a piece that cannot be made of them."""
        if self.way_of_cutting(start, stop, silence) == "copied":
            return [functools.partial(self._mp3.cut, start, stop)]
        blocks = functools.partial(self._with_silence, start, stop, silence)
        return [encode_blocks(blocks, stop - start + silence, self.made)]

    def _with_silence(self, start: int, stop: int, silence: int) -> Iterator[np.ndarray]:
        at_once = MANY_SAMPLES // self.made.channels
        frames = np.empty((0, self.made.channels), self.made.dtype)
        for at in range(start, stop, at_once):
            piece = io.BytesIO()
            self._mp3.cut(at, min(stop, at + at_once), piece)
            piece.seek(0)
            with silenced_stderr():
                frames, _ = soundfile.read(piece, dtype=self.made.dtype, always_2d=True)
            yield frames
        yield from silent(silence, frames, self.made)

    def close(self) -> None:
        """Let the file go."""
        self._mp3.close()


class UnreadSource(SoundSource):
    """A recording of a known length that nobody reads: to find out what will be made of it."""

    def __init__(self, known: ProbedSound, made: SoundFormat, target: Target) -> None:
        """Pieces are to be stored as `made`."""
        self.recorded, self.made = known.format, made
        self._recorded_frames = known.frames
        # as the resamplers do: halves to even
        self._frames = round(Fraction(known.frames * made.rate, known.format.rate))
        is_split = target.channels == "split" and known.format.channels > 1
        self.files = known.format.channels if is_split else 1
        kept = made.container == "WAV" and keeps_samples(known.format, made, target)
        self._raw = known.raw if kept else None
        if self._raw is None and made.container == "WAV" and made.subtype in AS_IN_MEMORY:
            self._raw = plain_wav(made.subtype, made.channels, made.rate)

    @property
    def is_sized(self) -> bool:
        """Whether the bytes of a piece follow from its length."""
        return self._raw is not None

    def size_of(self, frames: int) -> int:
        """The bytes of a piece with so many frames; 0 if only encoding it tells."""
        if self._raw is None:
            return 0
        size = frames * self._raw.frame_bytes
        return len(_header(self._raw, frames)) + size + (size & 1)

    def reach(self, frame: int) -> int:
        """As far as the recording goes."""
        return min(frame, self._frames)

    @property
    def recorded_frames(self) -> int:
        """What the header says."""
        return self._recorded_frames

    def contents(self, start: int, stop: int, silence: int = 0) -> list[Content]:
        """There are none."""
        raise NotImplementedError

    def close(self) -> None:
        """Nothing is open."""


@functools.cache
def _copy_buffer() -> memoryview:
    """One for the whole life of a worker."""
    return memoryview(bytearray(COPY_AT_ONCE))
