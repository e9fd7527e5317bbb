"""Encode frames into a file."""

import functools
import io
import itertools
import struct
from collections.abc import Callable, Iterable, Iterator
from typing import Any, BinaryIO

import numpy as np
import soundfile

from splitter.audio.decoders import SoundFormat
from splitter.audio.formats.ogg import Numbered
from splitter.audio.formats.wav import (
    BYTES,
    FLOAT,
    LARGEST_SIZE,
    PCM,
    Aiff,
    RawFormat,
)
from splitter.audio.target import INTEGERS, LARGEST_VORBIS_RATE, LARGEST_WAV, LOSSY, MOST_VORBIS_CHANNELS
from splitter.errors import AudioError
from splitter.records import Content
from splitter.storage.content import Callbacks

LOUDEST = 16.0
# what takes out what libsndfile leaves to chance, or takes from the clock
_SETTLED: dict[str, Callable[[Any], Any]] = {"OGG": Numbered, "AIFF": Aiff}
# encodings whose bytes in a WAV file are those of an array
AS_IN_MEMORY = {"PCM_16": "<i2", "FLOAT": "<f4", "DOUBLE": "<f8"}
_BITS = {"int16": 16, "int32": 32}


def encode(frames: np.ndarray, made: SoundFormat) -> Content:
    """A file with these frames."""
    if made.container == "WAV" and made.subtype in AS_IN_MEMORY:
        # by hand: libsndfile's way to the same bytes costs more than all else about a short piece
        return plain_wav(made.subtype, made.channels, made.rate).header(len(frames)) + _bytes(frames, made)
    return functools.partial(_encode, lambda: [frames], made.container, made)


def encode_blocks(blocks: Callable[[], Iterable[np.ndarray]], frames: int, made: SoundFormat) -> Content:
    """A file with so many frames, which come block after block."""
    if made.container == "WAV" and made.subtype in AS_IN_MEMORY:
        header = plain_wav(made.subtype, made.channels, made.rate).header(frames)
        return lambda file: file.writelines(
            itertools.chain([header], (_bytes(block, made) for block in blocks()))
        )
    is_large = made.container == "WAV" and frames * made.channels * BYTES.get(made.subtype, 0) > LARGEST_WAV
    return functools.partial(_encode, blocks, "RF64" if is_large else made.container, made)


def writable(made: SoundFormat, path: str) -> SoundFormat:
    """Give the format back if a piece can be written so; raise AudioError if not."""
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
    if made.subtype == "VORBIS" and made.rate > LARGEST_VORBIS_RATE:
        raise _cannot_hold(kind, made, f"it has at most {LARGEST_VORBIS_RATE} Hz")
    if made.subtype == "VORBIS" and made.channels > MOST_VORBIS_CHANNELS:
        raise _cannot_hold(kind, made, f"it has at most {MOST_VORBIS_CHANNELS} channels")
    settle = _SETTLED.get(kind)
    try:
        with Callbacks(file) as target:
            sink = settle(target) if settle else target
            with soundfile.SoundFile(sink, "w", made.rate, made.channels, made.subtype, format=kind) as sound:
                count = 0
                for frames in blocks():
                    sound.write(_finite(frames) if kind in LOSSY else _rounded(frames, made.subtype))
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
    frames = scaled(_rounded(frames, made.subtype), AS_IN_MEMORY[made.subtype])
    content: bytes = frames.tobytes()
    return content


def silent(frames: int, like: np.ndarray, made: SoundFormat) -> Iterator[np.ndarray]:
    """So many frames without sound, in blocks."""
    for at in range(0, frames, made.frames_at_once):
        yield np.zeros((min(made.frames_at_once, frames - at), like.shape[1]), like.dtype)


def scaled(frames: np.ndarray, kind: str) -> np.ndarray:
    """Integers as numbers from -1 to 1, where these are wanted; anything else in the bytes of a WAV file."""
    bits = _BITS.get(frames.dtype.name)
    if bits and kind != "<i2":
        frames = frames / np.dtype(kind).type(1 << (bits - 1))
    return frames.astype(kind, copy=False)


def _finite(frames: np.ndarray) -> np.ndarray:
    """Numbers that an encoder can take: LAME ends the process at NaN, and at what is far too loud.

    Never integers: of two channels with 16 bits libsndfile makes an MP3 of mere noise.
    """
    numbers = scaled(frames, "<f4")
    if frames.dtype.kind == "f":
        numbers = np.nan_to_num(numbers).clip(-LOUDEST, LOUDEST)
    return numbers


def _rounded(frames: np.ndarray, subtype: str) -> np.ndarray:
    """The nearest numbers that an encoding with fewer bits holds, where libsndfile takes the next below."""
    bits, have = INTEGERS.get(subtype), _BITS.get(frames.dtype.name)
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
