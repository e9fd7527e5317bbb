"""Sound: read it to its true end, mix and resample it as a stream, cut and encode it.

Positions are whole samples of all channels. Nothing is planned from what a header says of the length.

    file ── decode ── channels ── resample ── tape ── encode ── pieces
    file ── bytes of a WAV file, frames of FLAC or MP3 ──────── pieces   (nothing to change: exact and fast)
"""

import functools
import io
import itertools
import os
import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from fractions import Fraction
from tempfile import gettempdir
from typing import Any, BinaryIO, Literal, TypeVar

import numpy as np
import soundfile

from splitter.audio.decoders import (
    Decoder,
    SoundFormat,
    Truncated,
    check_mp3,
    check_whole,
    read_exactly,
)
from splitter.audio.flac import FlacError, FlacSource, header_of_flac, rate_of
from splitter.audio.hush import hushed
from splitter.audio.mp3 import CountedMp3, Mp3Source, lacks_bytes, seems_mp3
from splitter.audio.ogg import Numbered
from splitter.audio.recordings import open_decoder
from splitter.audio.resampling import LARGEST_RATIO, resampler
from splitter.audio.tape import Folder, Tape
from splitter.audio.wav import BYTES, FLOAT, LARGEST_SIZE, PCM, Aiff, Extent, RawFormat, find_samples_in
from splitter.errors import AudioError, Refused
from splitter.records import Content
from splitter.storage.content import Callbacks

Channels = Literal["keep", "mono", "split", "first"]
FileFormat = Literal["same", "wav", "flac", "ogg", "mp3"]
Lossy = Literal["copy", "encode"]

COPY_AT_ONCE = 1 << 18
LARGEST_IN_MEMORY = 1 << 20
# a piece with more samples is written block after block
MANY_SAMPLES = 1 << 22
# with room for a header
LARGEST_WAV = LARGEST_SIZE - 4096
LOUDEST = 16.0
# more samples than any recording has
LONGEST = 1 << 62

# bits that an encoding holds exactly; what is not here is lossy, and has no depth
_DEPTHS = {
    "PCM_S8": 8,
    "PCM_U8": 8,
    "PCM_16": 16,
    "ALAW": 14,
    "ULAW": 14,
    "ALAC_16": 16,
    "DWVW_12": 12,
    "DWVW_16": 16,
    "PCM_24": 24,
    "ALAC_20": 20,
    "ALAC_24": 24,
    "DWVW_24": 24,
    "PCM_32": 32,
    "ALAC_32": 32,
    "FLOAT": 33,
    "DOUBLE": 65,
}
_MP3_RATES = (8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000)
_LEAST_RATE, _MOST_RATE = 1000, 1_000_000
# of kilohertz: what is made of the rest is a thousand times as much
_OFTEN_MEANT, _MOST_MEANT = {11: 11_025, 22: 22_050, 44: 44_100}, 400_000
_OPUS_RATES = (8000, 12000, 16000, 24000, 48000)
# what some formats are limited to
_RATES = {
    ("mp3", None): _MP3_RATES,
    ("mp3", "MPEG_LAYER_III"): _MP3_RATES,
    ("ogg", "OPUS"): _OPUS_RATES,
}
# with more of either, libvorbis ends the process
_LARGEST_VORBIS_RATE, _MOST_VORBIS_CHANNELS = 200_000, 255
_LARGEST_RATES = {
    ("flac", None): 655_350,
    ("flac", "PCM_S8"): 655_350,
    ("flac", "PCM_16"): 655_350,
    ("flac", "PCM_24"): 655_350,
    ("ogg", None): _LARGEST_VORBIS_RATE,
    ("ogg", "VORBIS"): _LARGEST_VORBIS_RATE,
}
# what libsndfile reads but does not write, though it says that it could
_NOT_WRITTEN = {("MP3", "MPEG_LAYER_I"), ("MP3", "MPEG_LAYER_II"), ("WAV", "MPEG_LAYER_III")}
_CONTAINERS = {"wav": "WAV", "flac": "FLAC", "ogg": "OGG", "mp3": "MP3"}
# what takes out what libsndfile leaves to chance, or takes from the clock
_SETTLED: dict[str, Callable[[Any], Any]] = {"OGG": Numbered, "AIFF": Aiff}
_LOSSY = {"OGG": "VORBIS", "MP3": "MPEG_LAYER_III"}
# encodings whose bytes in a WAV file are those of an array
_AS_IN_MEMORY = {"PCM_16": "<i2", "FLOAT": "<f4", "DOUBLE": "<f8"}
_FLOATS = ("FLOAT", "DOUBLE")
_FLAC_SUBTYPES = {8: "PCM_S8", 16: "PCM_16", 24: "PCM_24"}
_BITS = {"int16": 16, "int32": 32}
_INTEGERS = {"PCM_S8": 8, "PCM_U8": 8, "PCM_16": 16, "PCM_24": 24, "PCM_32": 32}


AnySource = TypeVar("AnySource", bound="Source")


@dataclass(frozen=True, kw_only=True)
class Target:
    """What the pieces are to be.

    Attributes:
        sample_rate: Samples in a second; None keeps the recording's.
        channels: Keep them, mix them to one, put each in a file of its own, or take the first.
        format: The kind of file; `same` is that of the recording.
        subtype: libsndfile's name of the encoding; None is one that loses nothing.
        lossy: Whether pieces of an MP3 with nothing to change are copied, or encoded again.
        device: Where resampling is done: the CPU, or a device of torch.
    """

    sample_rate: int | None = None
    channels: Channels = "keep"
    format: FileFormat = "same"
    subtype: str | None = None
    lossy: Lossy = "copy"
    device: str = "cpu"

    def __post_init__(self) -> None:
        """Refuse what no recording could be made into."""
        if self.sample_rate is not None and not _LEAST_RATE <= self.sample_rate <= _MOST_RATE:
            wanted = _OFTEN_MEANT.get(self.sample_rate, self.sample_rate * 1000)
            hint = f"; did you mean {wanted}?" if _LEAST_RATE < wanted <= _MOST_MEANT else ""
            raise Refused(
                f"--sample-rate {self.sample_rate}: is in Hz, from {_LEAST_RATE:,} to {_MOST_RATE:,}{hint}"
            )
        rates = _RATES.get((self.format, self.subtype))
        if rates and self.sample_rate is not None and self.sample_rate not in rates:
            there = ", ".join(map(str, rates))
            what = self.format if self.subtype != "OPUS" else "OPUS"
            raise Refused(f"--sample-rate {self.sample_rate}: {what} has {there} only")
        most = _LARGEST_RATES.get((self.format, self.subtype))
        if most and self.sample_rate is not None and self.sample_rate > most:
            raise Refused(f"--sample-rate {self.sample_rate}: {self.format} has at most {most}")
        if self.subtype is None:
            return
        known = soundfile.available_subtypes()
        if self.subtype not in known:
            raise Refused(f"--subtype {self.subtype}: is unknown; choose from {', '.join(sorted(known))}")
        container = _CONTAINERS.get(self.format)
        if container and not _can_hold(container, self.subtype):
            subtypes = sorted(soundfile.available_subtypes(container))
            there = ", ".join(subtype for subtype in subtypes if _can_hold(container, subtype))
            raise Refused(f"--subtype {self.subtype}: cannot stand in {self.format}; there is {there}")


class Source(ABC):
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
        return "encoded" if self.made.container in _LOSSY else ""

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
) -> Source:
    """Open a recording, in the way that loses nothing and costs least; `folder` is for temporary files."""
    with open(path, "rb") as file:
        extent = find_samples_in(file)
        if extent:
            check_whole(path, extent, truncated)
            if extent.raw and extent.raw.description:
                recorded = SoundFormat.of(extent.raw)
                made = made_format(recorded, target, path)
                if made.container == "WAV" and _is_kept(recorded, made, target):
                    return RawSource(file, extent, extent.raw, made)
        rate = rate_of(file.fileno())
    if rate and target.sample_rate in (None, rate) and target.format in ("same", "flac"):
        source = FramesSource.open(path, truncated)
        if source:
            with ExitStack() as opened:
                opened.enter_context(source)
                if _is_kept(source.recorded, made_format(source.recorded, target, path), target):
                    opened.pop_all()
                    return source
    if not rate and target.lossy == "copy":
        copied = Mp3FramesSource.open(path, target, truncated)
        if copied:
            return copied
    return DecodedSource.open(path, target, truncated, folder)


# asked once: libsndfile's answers take longer to put together than a short recording takes to cut
_formats = functools.cache(soundfile.available_formats)


@functools.cache
def _can_hold(container: str, subtype: str) -> bool:
    """Whether there is a writer for it."""
    return (container, subtype) not in _NOT_WRITTEN and soundfile.check_format(container, subtype)


def _is_kept(recorded: SoundFormat, made: SoundFormat, target: Target) -> bool:
    """Whether the samples of the pieces are to be stored just as the recording's are."""
    same = (recorded.subtype, recorded.channels, recorded.rate) == (made.subtype, made.channels, made.rate)
    return same and (target.channels == "keep" or recorded.channels == 1)


def made_format(recorded: SoundFormat, target: Target, path: str) -> SoundFormat:
    """How the pieces of a recording are to be stored; an error where that would lose bits unasked."""
    container = _CONTAINERS.get(target.format) or _same_container(recorded)
    channels = recorded.channels if target.channels == "keep" else 1
    rate = target.sample_rate or recorded.rate
    subtype = target.subtype or _usual_subtype(container, recorded, path)
    if not _can_hold(container, subtype):
        raise AudioError(f"{path}: {container} cannot hold {subtype}; choose another --format or --subtype")
    if not 1 / LARGEST_RATIO <= rate / recorded.rate <= LARGEST_RATIO:
        raise AudioError(f"{path}: cannot be resampled from {recorded.rate} Hz to {rate} Hz")
    return SoundFormat(container, subtype, channels, rate)


def _same_container(recorded: SoundFormat) -> str:
    """That of the recording; WAV where it would lose something, or come out with other bytes each time."""
    known = recorded.container in _formats()
    lossless_in_lossy = recorded.container in _LOSSY and bool(recorded.holding)
    changing = recorded.container in {"RF64", "MAT5"}
    return "WAV" if not known or lossless_in_lossy or changing else recorded.container


def _usual_subtype(container: str, recorded: SoundFormat, path: str) -> str:
    """The encoding that holds the recording's samples exactly, if the container has one."""
    if container in _LOSSY:
        return "OPUS" if (container, recorded.subtype) == ("OGG", "OPUS") else _LOSSY[container]
    depth = _DEPTHS.get(recorded.holding or recorded.subtype)
    if depth is None:
        return "PCM_16"
    for subtype in (recorded.subtype, recorded.holding):
        if _can_hold(container, subtype):
            return subtype
    for subtype, bits in _INTEGERS.items():
        if bits >= depth and _can_hold(container, subtype):
            return subtype
    raise AudioError(
        f"{path}: {container} cannot hold all of {recorded.subtype}; choose what it can with --subtype, "
        "or --format wav"
    )


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


class DecodedSource(Source):
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
            kind = _AS_IN_MEMORY[made.subtype]
            read = lambda frames: mix(_scaled(decoder.read(frames), kind))  # noqa: E731
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
            return cls(decoder, _writable(made_format(decoder.format, target, path), path), target, folder)
        except BaseException:
            decoder.close()
            raise

    def blocks(self) -> Iterator[np.ndarray]:
        """All of it, as numbers from -1 to 1, channels in columns; instead of cutting it."""
        stop = 0
        while self._tape.reach(stop + 1) > stop:
            start, stop = stop, self._tape.stop
            yield _scaled(self._tape.take(start, stop), "<f4")
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


def encode(frames: np.ndarray, made: SoundFormat) -> Content:
    """A file with these frames."""
    if made.container == "WAV" and made.subtype in _AS_IN_MEMORY:
        # by hand: libsndfile's way to the same bytes costs more than all else about a short piece
        return plain_wav(made.subtype, made.channels, made.rate).header(len(frames)) + _bytes(frames, made)
    return functools.partial(_encode, lambda: [frames], made.container, made)


def encode_blocks(blocks: Callable[[], Iterable[np.ndarray]], frames: int, made: SoundFormat) -> Content:
    """A file with so many frames, which come block after block."""
    if made.container == "WAV" and made.subtype in _AS_IN_MEMORY:
        header = plain_wav(made.subtype, made.channels, made.rate).header(frames)
        return lambda file: file.writelines(
            itertools.chain([header], (_bytes(block, made) for block in blocks()))
        )
    is_large = made.container == "WAV" and frames * made.channels * BYTES.get(made.subtype, 0) > LARGEST_WAV
    return functools.partial(_encode, blocks, "RF64" if is_large else made.container, made)


def _writable(made: SoundFormat, path: str) -> SoundFormat:
    if problem := _problem_with(made):
        raise AudioError(f"{path}: {problem}")
    return made


@functools.cache
def _problem_with(made: SoundFormat) -> str:
    """Why no piece can be written so; tried once, and where the recording can be named."""
    silence = np.zeros((1, made.channels), made.dtype)
    piece = encode(silence, made)
    try:
        if callable(piece):
            piece(io.BytesIO())
    except AudioError as error:
        return str(error)
    return ""


def _encode(blocks: Callable[[], Iterable[np.ndarray]], kind: str, made: SoundFormat, file: BinaryIO) -> None:
    if made.subtype == "VORBIS" and made.rate > _LARGEST_VORBIS_RATE:
        raise _cannot_hold(kind, made, f"it has at most {_LARGEST_VORBIS_RATE} Hz")
    if made.subtype == "VORBIS" and made.channels > _MOST_VORBIS_CHANNELS:
        raise _cannot_hold(kind, made, f"it has at most {_MOST_VORBIS_CHANNELS} channels")
    settle = _SETTLED.get(kind)
    try:
        with Callbacks(file) as target:
            sink = settle(target) if settle else target
            with soundfile.SoundFile(sink, "w", made.rate, made.channels, made.subtype, format=kind) as sound:
                count = 0
                for frames in blocks():
                    sound.write(_finite(frames) if kind in _LOSSY else _rounded(frames, made.subtype))
                    count += len(frames)
                    if target.fault:
                        break
            if isinstance(sink, Aiff):
                sink.state(count, made.channels * BYTES.get(made.subtype, 0))
    except (soundfile.LibsndfileError, OverflowError) as error:
        reason = getattr(error, "error_string", str(error)).removeprefix("Error : ").strip(". ")
        raise _cannot_hold(kind, made, reason) from error


def _cannot_hold(kind: str, made: SoundFormat, reason: str) -> AudioError:
    what = f"{made.channels} channels at {made.rate} Hz"
    choose = "choose another --format, --channels or --sample-rate"
    return AudioError(f"{kind} {made.subtype} cannot hold {what}: {reason}; {choose}")


def _bytes(frames: np.ndarray, made: SoundFormat) -> bytes:
    """The samples as they stand in a WAV file."""
    frames = _scaled(_rounded(frames, made.subtype), _AS_IN_MEMORY[made.subtype])
    content: bytes = frames.tobytes()
    return content


def silent(frames: int, like: np.ndarray, made: SoundFormat) -> Iterator[np.ndarray]:
    """So many frames without sound, in blocks."""
    for at in range(0, frames, made.frames_at_once):
        yield np.zeros((min(made.frames_at_once, frames - at), like.shape[1]), like.dtype)


def _scaled(frames: np.ndarray, kind: str) -> np.ndarray:
    """Integers as numbers from -1 to 1, where these are wanted; anything else in the bytes of a WAV file."""
    bits = _BITS.get(frames.dtype.name)
    if bits and kind != "<i2":
        frames = frames / np.dtype(kind).type(1 << (bits - 1))
    return frames.astype(kind, copy=False)


def _finite(frames: np.ndarray) -> np.ndarray:
    """Numbers that an encoder can take: LAME ends the process at NaN, and at what is far too loud.

    Never integers: of two channels with 16 bits libsndfile makes an MP3 of mere noise.
    """
    numbers = _scaled(frames, "<f4")
    if frames.dtype.kind == "f":
        numbers = np.nan_to_num(numbers).clip(-LOUDEST, LOUDEST)
    return numbers


def _rounded(frames: np.ndarray, subtype: str) -> np.ndarray:
    """The nearest numbers that an encoding with fewer bits holds, where libsndfile takes the next below."""
    bits, have = _INTEGERS.get(subtype), _BITS.get(frames.dtype.name)
    if bits is None or (have and bits >= min(have, 24)):
        return frames
    largest = 1 << (bits - 1)
    wide = np.nan_to_num(frames.astype(np.float64), copy=False).clip(-(2.0**31), 2.0**31)
    whole = np.rint(wide * (2.0 ** (bits - have) if have else largest)).clip(-largest, largest - 1)
    kind = "int16" if bits <= 16 else "int32"  # noqa: PLR2004
    rounded: np.ndarray = whole.astype(kind) << (_BITS[kind] - bits)
    return rounded


@functools.cache
def plain_wav(subtype: str, channels: int, rate: int) -> RawFormat:
    """A WAV file as the simplest header has it."""
    code, size = PCM if subtype.startswith("PCM") else FLOAT, BYTES[subtype]
    per_second = min(rate * channels * size, LARGEST_SIZE)
    try:
        description = struct.pack("<HHIIHH", code, channels, rate, per_second, channels * size, size * 8)
    except struct.error:
        raise AudioError(f"WAV {subtype} cannot hold {channels} channels at {rate} Hz") from None
    return RawFormat("WAV", subtype, channels, rate, "<", description)


# pieces are of one length, but for the last
_header = functools.lru_cache(maxsize=64)(RawFormat.header)


class RawSource(Source):
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


class Mp3FramesSource(Source):
    """An MP3 file whose pieces are made of its own frames: no sound is decoded, and none is lost."""

    def __init__(self, path: str, mp3: Mp3Source) -> None:
        """Use an opened file."""
        self._path, self._mp3 = path, mp3
        layout = mp3.layout
        self.recorded = self.made = SoundFormat("MP3", _LOSSY["MP3"], layout.channels, layout.rate)

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
                if _is_kept(source.recorded, made_format(source.recorded, target, path), target):
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
            with hushed():
                frames, _ = soundfile.read(piece, dtype=self.made.dtype, always_2d=True)
            yield frames
        yield from silent(silence, frames, self.made)

    def close(self) -> None:
        """Let the file go."""
        self._mp3.close()


# -- what will come of a recording, by its header ------------------------------------------------------------


@dataclass(frozen=True)
class Known:
    """What a header says of a recording.

    Attributes:
        format: How it is stored.
        frames: How many there are.
        exact: Whether that is certain.
        raw: Its bytes, where they are samples of a fixed size that pieces of a WAV file are made of.
    """

    format: SoundFormat
    frames: int
    exact: bool = True
    raw: RawFormat | None = None


def known_length(path: str, truncated: Truncated = "error") -> Known | None:
    """How long a recording is, without decoding it; None where nothing tells."""
    with open(path, "rb") as file:
        extent = find_samples_in(file)
        if extent and extent.raw:
            check_whole(path, extent, truncated)
            raw = extent.raw if extent.raw.description else None
            return Known(SoundFormat.of(extent.raw), extent.frames, raw=raw)
        flac = header_of_flac(file.fileno())
    if flac:
        bits, channels, rate, frames = flac
        return Known(SoundFormat("FLAC", _FLAC_SUBTYPES.get(bits, "PCM_24"), channels, rate), frames)
    return _length_of(path, truncated)


def _length_of(path: str, truncated: Truncated) -> Known | None:
    """By whoever would decode it."""
    try:
        with hushed():
            found = soundfile.info(path)
    except soundfile.LibsndfileError:
        # another reader, or an error that says what it is
        open_decoder(path, truncated).close()
        return None
    frames = found.frames
    if found.format == "MP3" and lacks_bytes(path):
        # a file that was cut still states what it had
        mp3 = CountedMp3(path)
        check_mp3(path, mp3, truncated)
        frames = mp3.samples
    if frames <= 0 or frames >= LONGEST:
        return None
    recorded = SoundFormat(found.format, found.subtype, found.channels, found.samplerate)
    return Known(recorded, frames, exact=recorded.container in _EXACTLY_LONG)


# formats whose header, or last page, libsndfile takes the exact length from
_EXACTLY_LONG = {"WAV", "WAVEX", "RF64", "W64", "AIFF", "CAF", "AU", "OGG", "FLAC"}


class Unread(Source):
    """A recording of a known length that nobody reads: to find out what will be made of it."""

    def __init__(self, known: Known, made: SoundFormat, target: Target) -> None:
        """Pieces are to be stored as `made`."""
        self.recorded, self.made = known.format, made
        self._recorded_frames = known.frames
        # as the resamplers do: halves to even
        self._frames = round(Fraction(known.frames * made.rate, known.format.rate))
        is_split = target.channels == "split" and known.format.channels > 1
        self.files = known.format.channels if is_split else 1
        kept = made.container == "WAV" and _is_kept(known.format, made, target)
        self._raw = known.raw if kept else None
        if self._raw is None and made.container == "WAV" and made.subtype in _AS_IN_MEMORY:
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
