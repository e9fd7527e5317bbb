"""Sound: read it to its true end, mix and resample it as a stream, cut and encode it.

Positions are whole samples of all channels. Nothing is planned from what a header says of the length.

    file ── decode ── channels ── resample ── tape ── encode ── pieces
    file ── bytes of a WAV file, or frames of a FLAC file ───── pieces      (nothing to change: exact and fast)
"""

import functools
import io
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, BinaryIO, Literal, TypeVar

import numpy as np
import soundfile

from splitter.errors import InputError, Refused
from splitter.flac import FlacError, FlacSource
from splitter.mp3 import CountedMp3, frame_bytes
from splitter.records import Content
from splitter.wav import Extent, RawFormat, find_samples

Channels = Literal["keep", "mono", "split", "first"]
FileFormat = Literal["same", "wav", "flac", "ogg", "mp3"]
Truncated = Literal["error", "keep"]

SECONDS_AT_ONCE = 2
COPY_AT_ONCE = 1 << 18
LARGEST_IN_MEMORY = 1 << 20

# what an array must hold so that no encoding loses anything
_DTYPES = {
    "PCM_S8": "int16",
    "PCM_U8": "int16",
    "PCM_16": "int16",
    "ALAW": "int16",
    "ULAW": "int16",
    "PCM_24": "int32",
    "PCM_32": "int32",
    "DOUBLE": "float64",
}
# bits that an encoding holds exactly; what is not here is lossy, and has no depth
_DEPTHS = {
    "PCM_S8": 8,
    "PCM_U8": 8,
    "PCM_16": 16,
    "ALAW": 14,
    "ULAW": 14,
    "PCM_24": 24,
    "PCM_32": 32,
    "FLOAT": 33,
    "DOUBLE": 65,
}
_CONTAINERS = {"wav": "WAV", "flac": "FLAC", "ogg": "OGG", "mp3": "MP3"}
_SAME_CONTAINER = {"WAVEX": "WAV", "RF64": "WAV"}
_ENDINGS = {
    "WAV": "wav",
    "FLAC": "flac",
    "OGG": "ogg",
    "MP3": "mp3",
    "AIFF": "aiff",
    "CAF": "caf",
    "AU": "au",
}
_LOSSY = {"OGG": "VORBIS", "MP3": "MPEG_LAYER_III"}
_DEEPEST_FLAC = 24
_FLAC_SUBTYPES = {8: "PCM_S8", 16: "PCM_16", 24: "PCM_24"}
# more samples than any recording has
LONGEST = 1 << 62


AnySource = TypeVar("AnySource", bound="Source")


class AudioError(InputError):
    """A recording cannot be read, or cannot be written as asked."""


@dataclass(frozen=True, kw_only=True)
class Target:
    """What the pieces are to be.

    Attributes:
        sample_rate: Samples in a second; None keeps the recording's.
        channels: Keep them, mix them to one, put each in a file of its own, or take the first.
        format: The kind of file; `same` is that of the recording.
        subtype: libsndfile's name of the encoding; None is one that loses nothing.
        device: Where resampling is done.
    """

    sample_rate: int | None = None
    channels: Channels = "keep"
    format: FileFormat = "same"
    subtype: str | None = None
    device: str = "cpu"

    def __post_init__(self) -> None:
        """Refuse what no recording could be made into."""
        if self.sample_rate is not None and not 1 <= self.sample_rate <= 1_000_000:  # noqa: PLR2004
            raise Refused(f"--sample-rate {self.sample_rate}: must be from 1 to 1,000,000")
        if self.subtype is None:
            return
        known = soundfile.available_subtypes()
        if self.subtype not in known:
            raise Refused(f"--subtype {self.subtype}: is not known; there is {', '.join(sorted(known))}")
        container = _CONTAINERS.get(self.format)
        if container and not soundfile.check_format(container, self.subtype):
            there = ", ".join(sorted(soundfile.available_subtypes(container)))
            raise Refused(f"--subtype {self.subtype}: cannot stand in {self.format}; there is {there}")


@dataclass(frozen=True)
class SoundFormat:
    """How sound is stored."""

    container: str
    subtype: str
    channels: int
    rate: int

    @property
    def dtype(self) -> str:
        """The kind of array that holds its samples exactly."""
        return _DTYPES.get(self.subtype, "float32")

    @property
    def ending(self) -> str:
        """What the names of such files end with."""
        return _ENDINGS.get(self.container, self.container.lower())


class Source(ABC):
    """A recording as the pieces see it: at the target's rate, with the target's channels.

    Attributes:
        recorded: How the recording is stored.
        made: How the pieces are to be stored.
    """

    recorded: SoundFormat
    made: SoundFormat

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

    def forget(self, frame: int) -> None:
        """Say that nothing before a frame will be asked for again."""

    def close(self) -> None:
        """Let the file go."""

    def __enter__(self: "AnySource") -> "AnySource":
        """Use it as a context."""
        return self

    def __exit__(self, *error: object) -> None:
        """Let the file go."""
        self.close()


def open_source(path: str, target: Target, truncated: Truncated = "error") -> Source:
    """Open a recording, in the way that loses nothing and costs least."""
    extent = find_samples(path)
    if extent and extent.is_cut_short and truncated == "error":
        raise _cut_short(path, extent)
    raw = RawFormat.of(extent.description) if extent else None
    if raw and extent:
        recorded = SoundFormat("WAV", raw.subtype, raw.channels, raw.rate)
        if _is_kept(recorded, target, path):
            return RawSource(path, extent, raw)
    with open(path, "rb") as file:
        is_flac = file.read(4) == b"fLaC"
    if is_flac and target.sample_rate is None and target.format in ("same", "flac"):
        source = FramesSource.open(path, truncated)
        if source and _is_kept(source.recorded, target, path):
            return source
        if source:
            source.close()
    return DecodedSource.open(path, target, truncated)


def _is_kept(recorded: SoundFormat, target: Target, path: str) -> bool:
    """Whether the pieces are to be just as the recording is."""
    same_channels = target.channels == "keep" or recorded.channels == 1
    return same_channels and made_format(recorded, target, path) == recorded


def _cut_short(path: str, extent: Extent) -> AudioError:
    raw = RawFormat.of(extent.description)
    unit, size = ("samples", raw.frame_bytes) if raw else ("bytes", 1)
    there, stated = extent.there // size, (extent.stated or 0) // size
    return AudioError(
        f"{path}: ends early: {there:,} of {stated:,} {unit} are there; --truncated keep takes what is there"
    )


def made_format(recorded: SoundFormat, target: Target, path: str) -> SoundFormat:
    """How the pieces of a recording are to be stored; an error where that would lose bits unasked."""
    container = _CONTAINERS.get(target.format) or _SAME_CONTAINER.get(recorded.container, recorded.container)
    channels = recorded.channels if target.channels == "keep" else 1
    rate = target.sample_rate or recorded.rate
    subtype = target.subtype or _usual_subtype(container, recorded, path)
    if not soundfile.check_format(container, subtype):
        raise AudioError(f"{path}: {container} cannot hold {subtype}; choose another --format or --subtype")
    return SoundFormat(container, subtype, channels, rate)


def _usual_subtype(container: str, recorded: SoundFormat, path: str) -> str:
    """The encoding that holds the recording's samples exactly, if the container has one."""
    if container in _LOSSY:
        same = container == recorded.container
        return recorded.subtype if same else _LOSSY[container]
    depth = _DEPTHS.get(recorded.subtype)
    if depth is None:
        return "PCM_16"
    if container == "FLAC":
        if depth > _DEEPEST_FLAC:
            raise AudioError(
                f"{path}: FLAC holds at most 24 bits, and this is {recorded.subtype}; "
                "choose --subtype PCM_16 or PCM_24, or --format wav"
            )
        return {8: "PCM_S8", 14: "PCM_16"}.get(depth, recorded.subtype)
    if soundfile.check_format(container, recorded.subtype):
        return recorded.subtype
    return "PCM_U8" if recorded.subtype == "PCM_S8" else "PCM_S8"


# -- decoding --------------------------------------------------------------------------------------------------


class _SoundFile(soundfile.SoundFile):  # type: ignore[misc]
    """libsndfile's reader without the belief in the length that the header states."""

    def seekable(self) -> bool:
        """Never: so reading goes on to the true end, and does not seek after each block."""
        return False


class Decoder:
    """Reads a recording from its first sample to its true end."""

    def __init__(self, path: str, truncated: Truncated) -> None:
        """Open a file, whatever its name says it is."""
        self._path, self._truncated = path, truncated
        self._file = self._open()
        file = self._file
        self.format = SoundFormat(file.format, file.subtype, file.channels, file.samplerate)
        self._stated = file.frames if file.format == "FLAC" and file.frames < 1 << 62 else 0
        self.frames = 0

    def _open(self) -> _SoundFile:
        try:
            with open(self._path, "rb") as file:
                start = file.read(12)
            if start[:3] == b"ID3" or (len(start) >= 4 and frame_bytes(start)):  # noqa: PLR2004
                return self._open_mp3()
            return _SoundFile(self._path)
        except soundfile.LibsndfileError as error:
            kind = _kind_of(self._path, start)
            raise AudioError(f"{self._path}: is not sound that can be read: {kind}") from error

    def _open_mp3(self) -> _SoundFile:
        descriptor = CountedMp3(self._path).open()
        try:
            return _SoundFile(descriptor, closefd=True)
        except soundfile.LibsndfileError:
            with open(descriptor, "rb"):
                # another format behind an ID3 tag, FLAC for one
                return _SoundFile(self._path)

    def read(self, frames: int) -> np.ndarray:
        """The next frames, channels in columns; fewer at the end, and none after it."""
        try:
            block: np.ndarray = self._file.read(frames, dtype=self.format.dtype, always_2d=True)
        except soundfile.LibsndfileError as error:
            return self._end(f"cannot be decoded any further ({error.error_string.strip('. ')})")
        self.frames += len(block)
        if not len(block) and self.frames < self._stated:
            return self._end("ends early")
        return block

    def _end(self, how: str) -> np.ndarray:
        if self._truncated == "error":
            of = f" of {self._stated:,}" if self._stated else ""
            raise AudioError(
                f"{self._path}: {how}: {self.frames:,}{of} samples are there; --truncated keep takes what is there"
            )
        return np.empty((0, self.format.channels), self.format.dtype)

    def close(self) -> None:
        """Let the file go."""
        self._file.close()


def _kind_of(path: str, start: bytes) -> str:
    """What a file seems to be, and what would read it."""
    if not start:
        return "it is empty"
    if start[4:8] == b"ftyp" or start[:4] in (b"\x1aE\xdf\xa3", b"0&\xb2u"):
        kind = {b"\x1aE\xdf\xa3": "WebM or Matroska", b"0&\xb2u": "WMA"}.get(start[:4], "MP4 or M4A")
        return f"it is {kind}; convert it with ffmpeg first"
    if all(32 <= byte < 127 or byte in b"\r\n\t" for byte in start):  # noqa: PLR2004 - printable
        return "it is text"
    return f"its format is not known (it starts with {start[:8].hex(' ')}, its name ends with {os.path.splitext(path)[1]!r})"


# -- channels and rate -----------------------------------------------------------------------------------------


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


class Resampler:
    """soxr as a stream: the same samples as if the whole recording had been resampled at once."""

    def __init__(
        self, read: Callable[[int], np.ndarray], recorded: SoundFormat, rate: int, channels: int
    ) -> None:
        """Resample what `read` gives, block after block."""
        import soxr

        self._read = read
        self._dtype = recorded.dtype
        self._soxr = soxr.ResampleStream(recorded.rate, rate, channels, self._dtype, "HQ")
        self._block = recorded.rate * SECONDS_AT_ONCE
        self._ratio = Fraction(rate, recorded.rate)
        self._empty = np.empty((0, channels), self._dtype)
        self._taken = self._given = 0
        self._ended = False

    def read(self, _frames: int) -> np.ndarray:
        """Some more frames; none after the end."""
        while not self._ended:
            block = self._read(self._block)
            self._ended = not len(block)
            self._taken += len(block)
            made = self._soxr.resample_chunk(np.ascontiguousarray(block), last=self._ended)
            made = made.reshape(-1, self._empty.shape[1])
            if self._ended:
                made = self._to_length(made)
            self._given += len(made)
            if len(made):
                return made
        return self._empty

    def _to_length(self, made: np.ndarray) -> np.ndarray:
        """The rule for lengths: n samples become round(n * ratio), halves to even."""
        missing = round(self._taken * self._ratio) - self._given - len(made)
        if missing <= 0:
            return made[: len(made) + missing]
        return np.concatenate((made, np.zeros((missing, made.shape[1]), made.dtype)))


class _Tape:
    """The frames of a stream that may still be asked for."""

    def __init__(self, read: Callable[[int], np.ndarray], block: int) -> None:
        self._read, self._block = read, block
        self._parts: list[np.ndarray] = []
        self.start = self.stop = 0
        self.ended = False

    def reach(self, frame: int) -> int:
        while self.stop < frame and not self.ended:
            part = self._read(self._block)
            self.ended = not len(part)
            self.stop += len(part)
            if len(part):
                self._parts.append(part)
        return min(self.stop, frame)

    def take(self, start: int, stop: int) -> np.ndarray:
        pieces, at = [], self.start
        for part in self._parts:
            piece = part[max(0, start - at) : max(0, stop - at)]
            if len(piece):
                pieces.append(piece)
            at += len(part)
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces or self._parts[:1] or [np.empty(0)])

    def forget(self, frame: int) -> None:
        while self._parts and self.start + len(self._parts[0]) <= frame:
            self.start += len(self._parts.pop(0))


class DecodedSource(Source):
    """A recording that is decoded, mixed, resampled and encoded."""

    def __init__(self, decoder: Decoder, made: SoundFormat, target: Target) -> None:
        """Set up the way that samples take."""
        self._decoder, self.recorded, self.made = decoder, decoder.format, made
        self._split = target.channels == "split" and decoder.format.channels > 1
        mix = _mixer(target, decoder.format.channels)
        channels = decoder.format.channels if target.channels in ("keep", "split") else 1
        read: Callable[[int], np.ndarray] = lambda frames: mix(decoder.read(frames))  # noqa: E731
        if made.rate != decoder.format.rate:
            read = Resampler(read, decoder.format, made.rate, channels).read
        self._tape = _Tape(read, max(1, made.rate * SECONDS_AT_ONCE))

    @classmethod
    def open(cls, path: str, target: Target, truncated: Truncated) -> "DecodedSource":
        """Decode a recording, whatever could be copied of it."""
        decoder = Decoder(path, truncated)
        try:
            return cls(decoder, made_format(decoder.format, target, path), target)
        except BaseException:
            decoder.close()
            raise

    def blocks(self) -> Iterator[np.ndarray]:
        """All of it, as numbers from -1 to 1, channels in columns; instead of cutting it."""
        scale = {"int16": 1 << 15, "int32": 1 << 31}.get(self.recorded.dtype, 1)
        stop = 0
        while self._tape.reach(stop + 1) > stop:
            start, stop = stop, self._tape.stop
            yield self._tape.take(start, stop).astype(np.float32) / np.float32(scale)
            self._tape.forget(stop)

    def reach(self, frame: int) -> int:
        """Decode on."""
        return self._tape.reach(frame)

    def forget(self, frame: int) -> None:
        """Let blocks go."""
        self._tape.forget(frame)

    def contents(self, start: int, stop: int, silence: int = 0) -> list[Content]:
        """Each file as what encodes it."""
        frames = self._tape.take(start, stop)
        if silence:
            frames = np.concatenate((frames, np.zeros((silence, frames.shape[1]), frames.dtype)))
        columns = np.hsplit(frames, frames.shape[1]) if self._split else [frames]
        return [encode(column, self.made) for column in columns]

    @property
    def recorded_frames(self) -> int:
        """What was decoded."""
        return self._decoder.frames

    def close(self) -> None:
        """Let the file go."""
        self._decoder.close()


def encode(frames: np.ndarray, made: SoundFormat) -> Content:
    """A file with these frames."""
    if made.container == "WAV" and frames.dtype == np.int16 and made.subtype == "PCM_16":
        # by hand: libsndfile's way to the same bytes costs more than all else about a short piece
        raw = plain_wav(made.channels, made.rate)
        return raw.header(len(frames)) + np.ascontiguousarray(frames, "<i2").tobytes()

    def write(file: BinaryIO) -> None:
        with soundfile.SoundFile(
            file, "w", made.rate, frames.shape[1], made.subtype, format=made.container
        ) as sound:
            sound.write(frames)

    return write


@functools.cache
def plain_wav(channels: int, rate: int) -> RawFormat:
    """16 bits, as the simplest header has them."""
    import struct

    description = struct.pack("<HHIIHH", 1, channels, rate, rate * channels * 2, channels * 2, 16)
    return RawFormat(description, "PCM_16", channels, rate, channels * 2)


class RawSource(Source):
    """A WAV file whose pieces are byte ranges behind a new header."""

    _SILENCE = {"PCM_U8": b"\x80", "ALAW": b"\xd5", "ULAW": b"\xff"}  # noqa: RUF012

    def __init__(self, path: str, extent: Extent, raw: RawFormat) -> None:
        """Use the samples at `extent`."""
        self._file = open(path, "rb", buffering=0)  # noqa: SIM115 - closed by close()
        self._raw, self._start = raw, extent.start
        self._frames = extent.there // raw.frame_bytes
        self.recorded = self.made = SoundFormat("WAV", raw.subtype, raw.channels, raw.rate)

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
        header = raw.header(stop - start + silence)
        at, size = self._start + start * raw.frame_bytes, (stop - start) * raw.frame_bytes
        after = self._SILENCE.get(raw.subtype, b"\0") * (silence * raw.frame_bytes)
        after += b"\0" * (size + len(after) & 1)
        if size <= LARGEST_IN_MEMORY:
            return [header + self._read(at, size) + after]

        def copy(file: BinaryIO) -> None:
            file.write(header)
            for block in self._blocks(at, size):
                file.write(block)
            file.write(after)

        return [copy]

    def _read(self, at: int, size: int) -> bytes:
        content = os.pread(self._file.fileno(), size, at)
        if len(content) != size:
            raise AudioError(f"{self._file.name}: has become shorter while it was read")
        return content

    def _blocks(self, at: int, size: int) -> Iterator[memoryview]:
        """A byte range through one buffer."""
        buffer = _copy_buffer()
        self._file.seek(at)
        while size:
            count = self._file.readinto(buffer[: min(size, COPY_AT_ONCE)])
            if not count:
                raise AudioError(f"{self._file.name}: has become shorter while it was read")
            yield buffer[:count]
            size -= count

    def close(self) -> None:
        """Let the file go."""
        self._file.close()


class FramesSource(Source):
    """A FLAC file whose pieces are made of its own frames; only those at both ends are encoded anew."""

    def __init__(self, path: str, flac: FlacSource, truncated: Truncated) -> None:
        """Use an opened file."""
        self._path, self._flac, self._truncated = path, flac, truncated
        self.recorded = self.made = SoundFormat("FLAC", _FLAC_SUBTYPES[flac.bits], flac.channels, flac.rate)

    @classmethod
    def open(cls, path: str, truncated: Truncated) -> "FramesSource | None":
        """Open a file; None if its frames cannot be copied, though it may be decoded."""
        try:
            flac = FlacSource(path)
        except FlacError:
            return None
        if flac.bits not in _FLAC_SUBTYPES:
            flac.close()
            return None
        return cls(path, flac, truncated)

    def reach(self, frame: int) -> int:
        """Look at frames until so many samples are there."""
        try:
            there = self._flac.reach(frame)
        except FlacError as error:
            return min(frame, self._end(error.samples, str(error)))
        stated = self._flac.declared or 0
        return self._end(there, "ends early") if there < min(frame, stated) else there

    def _end(self, samples: int, how: str) -> int:
        if self._truncated == "error":
            of = f" of {self._flac.declared:,}" if self._flac.declared else ""
            there = f"{samples:,}{of} samples are there"
            raise AudioError(f"{self._path}: {how}: {there}; --truncated keep takes what is there")
        return samples

    @property
    def recorded_frames(self) -> int:
        """As many as the frames hold."""
        return self.reach(LONGEST)

    def contents(self, start: int, stop: int, silence: int = 0) -> list[Content]:
        """What copies the frames; with silence after them it has to be encoded."""
        if not silence:
            return [functools.partial(self._flac.cut, start, stop)]
        piece = io.BytesIO()
        self._flac.cut(start, stop, piece)
        piece.seek(0)
        frames, _ = soundfile.read(piece, dtype=self.made.dtype, always_2d=True)
        return [encode(np.pad(frames, ((0, silence), (0, 0))), self.made)]

    def close(self) -> None:
        """Let the file go."""
        self._flac.close()


@functools.cache
def _copy_buffer() -> memoryview:
    """One for the whole life of a worker."""
    return memoryview(bytearray(COPY_AT_ONCE))
