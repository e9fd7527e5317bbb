"""Decoders of recordings, each from the first sample to the true end.

RawDecoder       WAV, RF64, W64, AIFF, CAF, AU, NIST, VOC, if samples have a fixed size: the bytes, as numbers
SndfileDecoder   everything else that libsndfile reads
AvDecoder        what libsndfile does not read, through PyAV; in formats/av.py
"""

import functools
import io
import os
import shlex
from abc import ABC, abstractmethod
from contextlib import ExitStack, suppress
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import soundfile

from splitter.audio.formats import flac, ogg
from splitter.audio.formats.base import SoundFormat
from splitter.audio.formats.mp3 import CountedMp3, bit_rate_of, frame
from splitter.audio.formats.ogg.opus import skipped_by
from splitter.audio.formats.ogg.source import MOST_SKIPPED
from splitter.audio.formats.wav import Extent, Order, RawFormat
from splitter.errors import AudioError
from splitter.system.stderr import silenced_stderr

Truncated = Literal["error", "keep"]


class Decoder(ABC):
    """A reader of a recording, from its first sample to its true end.

    Attributes:
        format: How the recording is stored.
        frames: How many frames have been read.
        lacks_sound: Whether the recording is one that `truncated` keeps; known once all has been read.
        may_round: Whether `read`, always asked for `format.frames_at_once` frames, may return some of them as
            integers of 16 bits, rounded as for a file, if that takes less time than rounding later.
    """

    format: SoundFormat
    frames = 0
    lacks_sound = False
    may_round = False

    @abstractmethod
    def read(self, frames: int) -> np.ndarray:
        """Return the next frames, at most `frames`, channels in columns; none at the end."""

    def mixes(self) -> bool:
        """Change to the mean of all channels; return False, unchanged, if mixing later takes no longer."""
        return False

    @abstractmethod
    def close(self) -> None:
        """Close the file."""


# all inputs: the parameters are part of every fingerprint
KEEP_THEM = "use --truncated keep to keep them, which redoes all inputs"


def check_whole(path: str, extent: Extent, truncated: Truncated) -> None:
    """Refuse a recording that ends early, unless that is allowed, and any with samples of 64-bit integers."""
    if extent.raw and extent.raw.subtype == "PCM_64":
        raise AudioError(
            f"{path}: its samples have 64 bits, which is not supported; convert it first, for example with: "
            f"ffmpeg -i {shlex.quote(os.path.basename(path))} -c:a pcm_s32le 32-bit.wav"
        )
    if not extent.is_cut_short or truncated == "keep":
        return
    unit, size = ("samples", extent.raw.frame_bytes) if extent.raw else ("bytes", 1)
    stated = 0 if extent.ends_in_header else extent.stated or 0
    raise ends_early(path, "ends early", extent.there // size, stated // size, unit)


def check_mp3(path: str, mp3: CountedMp3, truncated: Truncated) -> None:
    """Refuse an MP3 file that has less sound than it states, unless that is allowed."""
    if mp3.loss and truncated == "error":
        raise ends_early(path, mp3.loss, mp3.samples, mp3.stated)


def ends_early(path: str, how: str, there: int, stated: int, unit: str = "samples") -> AudioError:
    """Return the error that says how much of a recording exists."""
    of = f" of {stated:,}" if stated else ""
    return AudioError(f"{path}: {how}: {there:,}{of} {unit} exist; {KEEP_THEM}")


# -- raw samples ---------------------------------------------------------------------------------------------


class RawDecoder(Decoder):
    """A decoder that reads the bytes of fixed-size samples itself, and stops after the last sample."""

    def __init__(self, path: str, extent: Extent, raw: RawFormat) -> None:
        self._file, self._left = extent.open(path), extent.frames
        self.lacks_sound = extent.is_cut_short
        self.format: RawFormat = raw

    def read(self, frames: int) -> np.ndarray:
        frames = min(frames, self._left)
        content = np.empty(frames * self.format.frame_bytes, np.uint8)
        read_exactly(self._file, content.data)
        self._left -= frames
        self.frames += frames
        return numbers(content, self.format.subtype, self.format.order).reshape(-1, self.format.channels)

    def close(self) -> None:
        self._file.close()


def read_exactly(file: Any, buffer: memoryview) -> None:  # noqa: ANN401 - a file
    """Fill a buffer with the next bytes of a file; raise AudioError if the file ends before."""
    while buffer:
        count = file.readinto(buffer)
        if not count:
            raise AudioError(f"{file.name!s}: became shorter while it was read")
        buffer = buffer[count:]


def numbers(content: np.ndarray, subtype: str, order: Order) -> np.ndarray:
    """Return the numbers that bytes stand for; integers are scaled to the full range of the array's type."""
    match subtype:
        case "PCM_U8":
            return (content.astype(np.int16) - 128) << 8
        case "PCM_S8":
            return content.astype(np.int16) << 8
        case "ALAW" | "ULAW":
            return np.take(_law(subtype), content)
        case "PCM_24":
            wide = np.zeros((len(content) // 3, 4), np.uint8)
            wide[:, 1:] = content.reshape(-1, 3)[:, :: 1 if order == "<" else -1]
            return wide.reshape(-1).view("<i4").astype(np.int32, copy=False)
    kind = {"PCM_16": "i2", "PCM_32": "i4", "FLOAT": "f4", "DOUBLE": "f8"}[subtype]
    return content.view(f"{order}{kind}").astype(kind, copy=False)


@functools.cache
def _law(subtype: str) -> np.ndarray:
    """Return the sample that each of the 256 codes of A-law or mu-law stands for."""
    codes = io.BytesIO(bytes(range(256)))
    return soundfile.read(codes, dtype="int16", format="RAW", subtype=subtype, channels=1, samplerate=8000)[0]


# -- libsndfile ----------------------------------------------------------------------------------------------


class SndfileDecoder(Decoder):
    """libsndfile, except that it reads to the true end instead of believing the length in a header."""

    def __init__(self, path: str, truncated: Truncated, *, maybe_mp3: bool = False) -> None:
        self._path, self._truncated, self._maybe_mp3 = path, truncated, maybe_mp3
        self._stated, self._fault, self._broken = 0, "", False
        # of Ogg: the sign that pages are missing, and how many samples there were with those pages
        self._loss, self._with_lost = "", 0
        self._others: list[tuple[int, int]] = []
        with ExitStack() as opened, silenced_stderr():
            self._file = self._open(opened)
            self._opened = opened.pop_all()
        self.format = self._format()

    def _format(self) -> SoundFormat:
        container = "WAV" if self._file.format == "WAVEX" else self._file.format
        return SoundFormat(container, self._file.subtype, self._file.channels, self._file.samplerate)

    def _open(self, opened: ExitStack) -> "_SoundFile":
        # by descriptor: given a name, libsndfile would believe its ending if it does not know the content
        file = opened.enter_context(open(self._path, "rb", buffering=0))  # noqa: SIM115 - closed by the stack
        start = file.read(_START_BYTES)
        file.seek(0)
        begin = flac.beginning(file.fileno())
        if begin is not None:
            unbound = opened.enter_context(_UnboundFlac(self._path, begin))
            self._stated = unbound.stated
            return opened.enter_context(_SoundFile(unbound))
        if start.startswith(b"OggS"):
            counted = ogg.CountedOgg(file.fileno())
            self._loss = counted.loss
            if len(counted.begins) > 1:
                # libsndfile would stop after the first stream
                self._others = list(pairwise([*counted.begins, os.fstat(file.fileno()).st_size]))
                return self._open_stream(opened)
        if self._maybe_mp3 or start.startswith(b"ID3") or frame(start[:4])[0]:
            mp3 = CountedMp3(self._path)
            if mp3.frames:
                return self._open_mp3(mp3, opened)
        sound = opened.enter_context(_SoundFile(file.fileno(), closefd=False))
        _go_to_start(sound, start)
        self._with_lost = sound.frames
        if sound.format != "MP3":
            return sound
        bit_rate = bit_rate_of(self._path)
        if bit_rate == "none":
            # headerless samples may begin like a frame of MP3
            raise soundfile.LibsndfileError(_NOT_RECOGNISED)
        # to find the size of frames with a free bit rate, libmpg123 seeks back, which a pipe does not allow
        return sound if bit_rate == "free" else self._open_mp3(CountedMp3(self._path), opened)

    def _open_stream(self, opened: ExitStack) -> "_SoundFile":
        part = opened.enter_context(_FileWindow(self._path, *self._others.pop(0)))
        start = part.read(_START_BYTES)
        part.seek(0)
        sound: _SoundFile = opened.enter_context(_SoundFile(part))
        _go_to_start(sound, start)
        self._with_lost += sound.frames
        return sound

    def _goes_on(self) -> bool:
        """Continue with the next stream of the file; return whether there is one in the same format."""
        while self._others and not self._fault:
            # one that was cut off within its head has no sound
            with suppress(soundfile.LibsndfileError), ExitStack() as opened:
                self._file = self._open_stream(opened)
                self._opened.close()
                self._opened = opened.pop_all()
                if self._format() != self.format:
                    self._fault = "changes its sample rate or channels"
                return not self._fault
        return False

    def _open_mp3(self, mp3: CountedMp3, opened: ExitStack) -> "_SoundFile":
        check_mp3(self._path, mp3, self._truncated)
        self.lacks_sound = bool(mp3.loss)
        if mp3.changes:
            self._fault = "changes its sample rate or channels"
        pipe = opened.enter_context(open(mp3.open(), "rb", buffering=0))  # noqa: SIM115 - closed by the stack
        return opened.enter_context(_SoundFile(pipe.fileno(), closefd=False))

    def read(self, frames: int) -> np.ndarray:
        block: np.ndarray = np.empty((0 if self._broken else frames, self.format.channels), self.format.dtype)
        try:
            with silenced_stderr():
                block = self._file.read(out=block)
        except soundfile.LibsndfileError as error:
            self._broken = True
            self._fault = f"cannot be decoded any further ({error.error_string.strip('. ')})"
            block = block[: self._read_before_fault()]
        self.frames += len(block)
        if frames and not len(block):
            if self._goes_on():
                return self.read(frames)
            self._check_end()
        return block

    def _read_before_fault(self) -> int:
        try:
            return int(self._file.tell()) - self.frames
        except soundfile.LibsndfileError:
            return 0

    def _check_end(self) -> None:
        fault, stated = self._fault or self._loss, self._stated
        whole = self.frames == stated if stated else not fault
        self.lacks_sound = self.lacks_sound or not whole
        if whole or self._truncated != "error":
            return
        how = "ends early" if self.frames < stated else "holds more than its header says"
        if self._loss and self.frames < self._with_lost:
            stated = self._with_lost
        raise ends_early(self._path, fault or how, self.frames, stated)

    def close(self) -> None:
        self._opened.close()


class _SoundFile(soundfile.SoundFile):  # type: ignore[misc]
    """A file that libsndfile reads, forward only."""

    def seekable(self) -> bool:
        """Return False, so that reading goes on to the true end, without a seek after each block."""
        return False


def _go_to_start(sound: _SoundFile, start: bytes) -> None:
    """Go to the first sample of a file that begins with these bytes.

    If the positions in Opus do not begin with 0, as in a stream recorded from the middle, libsndfile would
    begin a packet too early, and leave out the last one.
    """
    if 0 <= skipped_by(start) <= MOST_SKIPPED:
        sound.seek(0)


class _FileWindow(io.FileIO):
    """A part of a file that looks like a whole file."""

    def __init__(self, path: str, begin: int, end: int | None = None) -> None:
        super().__init__(path)
        self._begin = begin
        self._end = super().seek(0, io.SEEK_END) if end is None else end
        self.seek(0)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        of = {io.SEEK_SET: self._begin, io.SEEK_END: self._end}.get(whence)
        return (super().seek(offset, whence) if of is None else super().seek(of + offset)) - self._begin

    def tell(self) -> int:
        return super().tell() - self._begin

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 - a buffer
        """Read, but not beyond the end of the part."""
        view = memoryview(buffer).cast("B")
        return super().readinto(view[: max(0, self._end - super().tell())])


# where a FLAC file states its number of samples, in the lower 36 bits of five bytes
_FLAC_COUNT, _FLAC_BYTES = 21, 26
_START_BYTES = 512
# libsndfile's error code for a format that it does not know
_NOT_RECOGNISED = 1


class _UnboundFlac(_FileWindow):
    """A FLAC file without its tags and its number of samples, so that libsndfile reads it to the end.

    Attributes:
        stated: The number of samples that the file really states; 0 if it states none.
    """

    def __init__(self, path: str, begin: int) -> None:
        super().__init__(path, begin)
        start = bytearray(_FLAC_BYTES)
        super().readinto(start)
        self.stated = flac.unpacked(bytes(start[18:]))[-1]
        self.seek(0)

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 - a buffer
        """Read, with zeros instead of the number of samples."""
        at = self.tell()
        count = super().readinto(buffer)
        if at < _FLAC_BYTES:
            view = memoryview(buffer).cast("B")
            for position in range(max(at, _FLAC_COUNT), min(at + count, _FLAC_BYTES)):
                view[position - at] = view[position - at] & 0xF0 if position == _FLAC_COUNT else 0
        return count
