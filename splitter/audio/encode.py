"""Encode frames into a file."""

import functools
import itertools
import struct
from collections.abc import Callable, Iterable, Iterator
from typing import BinaryIO

import numpy as np
import soundfile

from splitter.audio.formats.base import SoundFormat
from splitter.audio.formats.ogg import LARGEST_VORBIS_RATE, MOST_VORBIS_CHANNELS
from splitter.audio.formats.registry import BY_NAME, LOSSY
from splitter.audio.formats.wav import BYTES, FLOAT, LARGEST_SIZE, LARGEST_WAV, PCM, Aiff, RawFormat
from splitter.audio.target import INTEGERS
from splitter.errors import AudioError
from splitter.records import Content, content_bytes
from splitter.storage.content import Callbacks

LOUDEST = 16.0
# encodings whose samples have the same bytes in a WAV file and in an array
AS_IN_MEMORY = {"PCM_16": "<i2", "FLOAT": "<f4", "DOUBLE": "<f8"}
_BITS = {"int16": 16, "int32": 32}
_FLOAT32_BITS = 24
# libvorbis puts its input on the stack, 4 bytes a frame, and a stack has 8 MiB
_FRAMES_AT_ONCE = 1 << 20
_ROUNDED_AT_ONCE = 1 << 16
# a float32 from 256 to 512 has 15 bits after the point: adding 384 rounds a sample to those, halves to even,
# and the last 16 bits of the sum are the nearest 16-bit integer
_ROUNDING, _LEAST_SUM, _LARGEST_SUM = np.float32(384), 383, 384 + 32_767 / 32_768


def encode(blocks: Callable[[], Iterable[np.ndarray]], frames: int, made: SoundFormat) -> Content:
    """Return the content of a file with `frames` frames, all of which are in memory."""
    if raw := plain_wav(made):
        # by hand: for a short piece, libsndfile would take longer than all other steps, for the same bytes
        return b"".join((raw.header(frames), *(_bytes(block, made) for block in blocks())))
    found = list(blocks()) or [np.empty((0, made.channels), np.float32)]
    joined = found[0] if len(found) == 1 else np.concatenate(found)
    return functools.partial(_encode, lambda: [joined], made.container, made)


def encode_blocks(blocks: Callable[[], Iterable[np.ndarray]], frames: int, made: SoundFormat) -> Content:
    """Return the content of a file with `frames` frames, which come in blocks."""
    if raw := plain_wav(made):
        header = raw.header(frames)
        return lambda file: file.writelines(
            itertools.chain([header], (_bytes(block, made) for block in blocks()))
        )
    is_large = made.container == "WAV" and frames * made.channels * BYTES.get(made.subtype, 0) > LARGEST_WAV
    return functools.partial(_encode, blocks, "RF64" if is_large else made.container, made)


def writable(made: SoundFormat, path: str) -> SoundFormat:
    """Return the format if pieces can be written in it; else raise AudioError, which names the recording."""
    if problem := _problem_with(made):
        raise AudioError(f"{path}: {problem}")
    return made


@functools.cache
def _problem_with(made: SoundFormat) -> str:
    """Try to write a piece in a format; return why that fails, or an empty text."""
    silence = np.zeros((1, made.channels), made.dtype)
    try:
        content_bytes(encode(lambda: [silence], len(silence), made))
    except AudioError as error:
        return str(error)
    return ""


def _encode(blocks: Callable[[], Iterable[np.ndarray]], kind: str, made: SoundFormat, file: BinaryIO) -> None:
    if made.subtype == "VORBIS" and made.rate > LARGEST_VORBIS_RATE:
        raise _cannot_hold(kind, made, f"it has at most {LARGEST_VORBIS_RATE} Hz")
    if made.subtype == "VORBIS" and made.channels > MOST_VORBIS_CHANNELS:
        raise _cannot_hold(kind, made, f"it has at most {MOST_VORBIS_CHANNELS} channels")
    about = BY_NAME.get(kind)
    wrapper = about.wrapper if about else None
    try:
        with Callbacks(file) as target:
            sink = wrapper(target) if wrapper else target
            with soundfile.SoundFile(sink, "w", made.rate, made.channels, made.subtype, format=kind) as sound:
                count = 0
                for frames in in_parts(blocks(), _FRAMES_AT_ONCE):
                    numbers = _finite(frames) if kind in LOSSY else rounded(frames, made.subtype)
                    sound.write(_interleaved(numbers))
                    count += len(frames)
                    if target.fault:
                        break
            if isinstance(sink, Aiff):
                sink.state(count, made.channels * BYTES.get(made.subtype, 0))
    except (soundfile.LibsndfileError, OverflowError) as error:
        reason = getattr(error, "error_string", str(error)).removeprefix("Error : ").strip(". ")
        raise _cannot_hold(kind, made, reason) from error


def in_parts(blocks: Iterable[np.ndarray], frames: int) -> Iterator[np.ndarray]:
    """Yield blocks in parts of at most `frames` frames."""
    return (block[at : at + frames] for block in blocks for at in range(0, len(block), frames))


def _cannot_hold(kind: str, made: SoundFormat, reason: str) -> AudioError:
    what = f"{made.channels} channels at {made.rate} Hz"
    choose = "choose another --format, --channels or --sample-rate"
    return AudioError(f"{kind} {made.subtype} cannot hold {what}: {reason}; {choose}")


def _bytes(frames: np.ndarray, made: SoundFormat) -> memoryview:
    """Return samples as the bytes of a WAV file."""
    frames = scaled(rounded(frames, made.subtype), AS_IN_MEMORY[made.subtype])
    return np.ascontiguousarray(_interleaved(frames)).reshape(-1).view(np.uint8).data


def _is_planar(frames: np.ndarray) -> bool:
    """Return whether frames are in memory channel by channel."""
    return frames.shape[1] > 1 and frames.strides[0] == frames.itemsize


def _interleaved(frames: np.ndarray) -> np.ndarray:
    """Return frames in memory frame by frame; `np.stack` takes a quarter of the time of a usual copy."""
    return np.stack(frames.T, axis=1) if _is_planar(frames) else frames


def silent(frames: int, like: np.ndarray, made: SoundFormat) -> Iterator[np.ndarray]:
    """Yield `frames` silent frames, in blocks."""
    for at in range(0, frames, made.frames_at_once):
        yield np.zeros((min(made.frames_at_once, frames - at), like.shape[1]), like.dtype)


def scaled(frames: np.ndarray, kind: str) -> np.ndarray:
    """Return frames as numbers of type `kind`; if that is a float, integers become numbers from -1 to 1."""
    bits = _BITS.get(frames.dtype.name)
    if bits and kind != "<i2":
        frames = frames / np.dtype(kind).type(1 << (bits - 1))
    return frames.astype(kind, copy=False)


def _finite(frames: np.ndarray) -> np.ndarray:
    """Return floats that a lossy encoder accepts: LAME ends the process at NaN and at samples far too loud.

    Never return integers: from two channels of 16 bits, libsndfile would make an MP3 of pure noise.
    """
    numbers = scaled(frames, "<f4")
    if frames.dtype.kind == "f":
        numbers = np.nan_to_num(numbers).clip(-LOUDEST, LOUDEST)
    return numbers


def rounded(frames: np.ndarray, subtype: str) -> np.ndarray:
    """Return the nearest numbers that an encoding with fewer bits holds; libsndfile would round down."""
    name = frames.dtype.name
    bits, have = INTEGERS.get(subtype), _BITS.get(name)
    if bits is None or (have and bits >= min(have, 24)):
        return frames
    largest = 1 << (bits - 1)
    # 24 bits are exact in a float32, more are not
    kind = "float32" if name == "float32" and bits <= _FLOAT32_BITS else "float64"
    factor = 2.0 ** (bits - have) if have else largest
    array = "int16" if bits <= _BITS["int16"] else "int32"
    found: np.ndarray = np.empty(frames.shape, array)
    is_usual = (name, bits) == ("float32", _BITS["int16"])
    channels = zip(frames.T, found.T, strict=True) if _is_planar(frames) else [(frames, found)]
    for exact, nearest in channels:
        # in parts that stay in the processor's cache
        for at in range(0, len(frames), _ROUNDED_AT_ONCE):
            part = slice(at, at + _ROUNDED_AT_ONCE)
            if is_usual and _round_to_16(exact[part], nearest[part]):
                continue
            with np.errstate(over="ignore"):
                wide = np.multiply(exact[part], factor, dtype=kind)
            # the comparisons are false for NaN, too
            if not (-largest <= wide.min() and wide.max() <= largest - 1):
                wide[np.isnan(wide)] = 0
                np.clip(wide, -largest, largest - 1, out=wide)
            nearest[part] = np.rint(wide, out=wide)
    if bits < _BITS[array]:
        found <<= _BITS[array] - bits
    return found


def _round_to_16(exact: np.ndarray, nearest: np.ndarray) -> bool:
    """Round in three steps instead of five; return False, without rounding, at NaN and what is too loud."""
    sums = exact + _ROUNDING
    if not (sums.min() >= _LEAST_SUM and sums.max() <= _LARGEST_SUM):
        return False
    nearest[...] = sums.view(np.int32)
    return True


@functools.cache
def plain_wav(made: SoundFormat) -> RawFormat | None:
    """Return the format of WAV with the simplest header; None unless samples are the bytes of an array."""
    subtype, channels, rate = made.subtype, made.channels, made.rate
    if made.container != "WAV" or subtype not in AS_IN_MEMORY:
        return None
    code, size = PCM if subtype.startswith("PCM") else FLOAT, BYTES[subtype]
    per_second = min(rate * channels * size, LARGEST_SIZE)
    description = struct.pack("<HHIIHH", code, channels, rate, per_second, channels * size, size * 8)
    return RawFormat("WAV", subtype, channels, rate, "<", description)
