"""WAV and its relatives as bytes: where the samples are, how many there really are, and headers for pieces.

A stated size is believed: if the file ends earlier, it is truncated. A size that a streaming writer left in
the header, since it could not go back to correct it, says nothing.
"""

import io
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import BinaryIO, Literal

from splitter.audio.formats.base import AudioFormat, SoundFormat

# zero (ffmpeg to a pipe, some recorders), half of what 32 bits can state, and what sox writes to a pipe
_SIZES_OF_STREAMS = (0, 2**31, 0x7FFFF000, 0x7F000000)
# the largest sizes; some streaming writers subtract a header from them
_LARGEST_SIZES = (2**31 - 1, 2**32 - 1, 2**63 - 1, 2**64 - 1)
_MOST_TAKEN_OFF = 256
MOST_CHUNKS = 10_000
LONGEST_DESCRIPTION = 4096
LARGEST_SIZE = 2**32 - 1
# leaves room for a header
LARGEST_WAV = LARGEST_SIZE - 4096

PCM, FLOAT, ALAW, MULAW, EXTENSIBLE = 1, 3, 6, 7, 0xFFFE
# follows the code of the format in the chunk `fmt ` of an extensible file, if that code is a standard one
STANDARD_GUID = b"\0\0\0\0\x10\0\x80\0\0\xaa\0\x38\x9b\x71"

# libsndfile's names of the encodings, and the bytes of a sample
BYTES = {
    "PCM_S8": 1,
    "PCM_U8": 1,
    "PCM_16": 2,
    "PCM_24": 3,
    "PCM_32": 4,
    "PCM_64": 8,
    "FLOAT": 4,
    "DOUBLE": 8,
    "ALAW": 1,
    "ULAW": 1,
}
# a byte of silence, if it is not zero
SILENCE = {"PCM_U8": b"\x80", "ALAW": b"\xd5", "ULAW": b"\xff"}
_SIGNED = {8: "PCM_S8", 16: "PCM_16", 24: "PCM_24", 32: "PCM_32", 64: "PCM_64"}
_FLOATING = {32: "FLOAT", 64: "DOUBLE"}
_RIFF = {PCM: {**_SIGNED, 8: "PCM_U8"}, FLOAT: _FLOATING, ALAW: {8: "ALAW"}, MULAW: {8: "ULAW"}}
_AU = {
    1: "ULAW",
    2: "PCM_S8",
    3: "PCM_16",
    4: "PCM_24",
    5: "PCM_32",
    6: "FLOAT",
    7: "DOUBLE",
    27: "ALAW",
}
_AU_BYTES = 24
_LAWS = {b"alaw": "ALAW", b"ulaw": "ULAW", b"ALAW": "ALAW", b"ULAW": "ULAW"}
# compression of an AIFC file -> encoding by bits, and whether it is little-endian
_AIFC: dict[bytes, tuple[dict[int, str], bool]] = {
    b"NONE": (_SIGNED, False),
    b"twos": (_SIGNED, False),
    b"sowt": (_SIGNED, True),
    b"raw ": ({8: "PCM_U8"}, False),
    b"in24": ({24: "PCM_24"}, False),
    b"in32": ({32: "PCM_32"}, False),
    b"fl32": ({32: "FLOAT"}, False),
    b"FL32": ({32: "FLOAT"}, False),
    b"fl64": ({64: "DOUBLE"}, False),
    b"FL64": ({64: "DOUBLE"}, False),
}

Order = Literal["<", ">"]


@dataclass(frozen=True)
class RawFormat(SoundFormat):
    """The format of samples with a fixed number of bytes each.

    Attributes:
        order: The byte order of a sample, as in `struct`.
        description: The body of the chunk `fmt `, which is copied to WAV pieces; empty if there is none.
    """

    order: Order = "<"
    description: bytes = b""

    @property
    def frame_bytes(self) -> int:
        """The bytes of a frame: one sample of each channel."""
        return self.channels * BYTES[self.subtype]

    def header(self, frames: int) -> bytes:
        """Return all that comes before the samples of a WAV file with `frames` frames."""
        size = frames * self.frame_bytes
        padded = self.description + b"\0" * (len(self.description) & 1)
        chunks = struct.pack("<4sI", b"fmt ", len(self.description)) + padded
        if not self.subtype.startswith("PCM"):
            chunks += struct.pack("<4sII", b"fact", 4, min(frames, LARGEST_SIZE))
        whole = 4 + len(chunks) + 8 + size + (size & 1)
        if whole > LARGEST_SIZE:
            large = struct.pack("<4sIQQQI", b"ds64", 28, whole + 36, size, frames, 0)
            form = struct.pack("<4sI4s", b"RF64", LARGEST_SIZE, b"WAVE") + large
            return form + chunks + struct.pack("<4sI", b"data", LARGEST_SIZE)
        return struct.pack("<4sI4s", b"RIFF", whole, b"WAVE") + chunks + struct.pack("<4sI", b"data", size)


class Aiff:
    """A file to which libsndfile writes AIFF, without the time, and without counting a padding byte."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._header = b""
        self.seek, self.tell = file.seek, file.tell

    def write(self, content: bytes) -> int:
        """Write; libsndfile writes the header in one piece, at first and again at the end."""
        written = bytes(content)
        if written.startswith(b"FORM"):
            peak = written.find(b"PEAK", 0, written.find(b"SSND"))
            if peak >= 0:
                # the time comes after the name, the size and the version of the chunk
                written = written[: peak + 12] + bytes(4) + written[peak + 16 :]
            self._header = written
        return self._file.write(written)

    def state(self, frames: int, frame_bytes: int) -> None:
        """Correct the number and size of frames, if a padding byte comes after them."""
        if frames * frame_bytes & 1:
            # the first comes after name, size and number of channels of the chunk; the second after its name
            for name, behind, number in ((b"COMM", 10, frames), (b"SSND", 4, 8 + frames * frame_bytes)):
                self._file.seek(self._header.index(name) + behind)
                self._file.write(struct.pack(">I", number))


@dataclass(frozen=True)
class Extent:
    """The location of the samples of a file.

    Attributes:
        start: The first byte of the samples.
        stated: How many bytes the header states; None if it states no reliable size.
        there: How many bytes really exist.
        raw: The format of these bytes; None if another decoder is needed.
        ends_in_header: Whether the file ends within its header, or within the head of a later block.
    """

    start: int
    stated: int | None
    there: int
    raw: RawFormat | None = None
    ends_in_header: bool = False

    @property
    def is_cut_short(self) -> bool:
        """Whether the file ends early."""
        return self.ends_in_header or (self.stated is not None and self.there < self.stated)

    @property
    def frames(self) -> int:
        """How many whole frames exist."""
        return self.there // self.raw.frame_bytes if self.raw else 0

    def open(self, path: str) -> io.RawIOBase:
        """Open the file at its first sample."""
        file = open(path, "rb", buffering=0)  # noqa: SIM115 - closed by the reader
        file.seek(self.start)
        return file


class _Chunks:
    """A file of chunks, each of which begins with its name and its size."""

    def __init__(self, file: BinaryIO, size: int, layout: str, *, even: bool = True) -> None:
        self._file, self._size, self._even = file, size, even
        self._head = struct.Struct(layout)

    def from_(self, at: int) -> Iterator[tuple[bytes, int, int]]:
        """Yield the name, offset and stated size of each chunk, until something does not look like one.

        The size is -1 if the file ends after the name, before the end of the size.
        """
        for _ in range(MOST_CHUNKS):
            if at > self._size - len(b"name"):
                return
            self._file.seek(at)
            head = self._file.read(self._head.size)
            name, stated = self._head.unpack(head.ljust(self._head.size, b"\0"))
            if not all(32 <= byte < 127 for byte in name):  # noqa: PLR2004 - printable
                return
            if len(head) < self._head.size:
                yield name, self._size, -1
                return
            yield name, at + self._head.size, stated
            at += self._head.size + stated + (stated & 1 if self._even else 0)

    def extent(self, at: int, stated: int, raw: RawFormat | None) -> Extent:
        """Return the extent of a chunk of samples, from its stated size and the size of the file."""
        if stated < 0:
            return Extent(at, None, 0, raw, ends_in_header=True)
        there = max(0, self._size - at)
        if _is_of_stream(stated, raw) and not self._are_all_from(at + stated):
            return Extent(at, None, there, raw)
        if there - stated > LARGEST_SIZE:
            # so much cannot follow the samples: 32 bits were too few for their size
            stated += (there - stated) // 2**32 * 2**32
        return Extent(at, stated, min(stated, there), raw)

    def _are_all_from(self, at: int) -> bool:
        """Return whether only chunks follow, up to the end: then the size stated before them is true."""
        end = at = at + (at & 1 if self._even else 0)
        for _, start, stated in self.from_(at):
            end = start + stated if stated >= 0 else at
        return self._size - 1 <= end <= self._size


def _is_of_stream(stated: int, raw: RawFormat | None) -> bool:
    """Return whether a size is one that streaming writers leave; some round it down to whole frames."""
    frame = raw.frame_bytes if raw else 1
    if any(size - frame < stated <= size for size in _SIZES_OF_STREAMS):
        return True
    return any(size - _MOST_TAKEN_OFF - frame < stated <= size for size in _LARGEST_SIZES)


# -- one function for each container -------------------------------------------------------------------------


def _in_riff(file: BinaryIO, size: int, order: Order = "<", container: str = "WAV") -> Extent | None:
    raw: RawFormat | None = None
    large: int | None = None
    chunks = _Chunks(file, size, f"{order}4sI")
    for name, at, stated in chunks.from_(12):
        file.seek(at)
        if name == b"ds64":
            large = struct.unpack("<QQ", file.read(16).ljust(16, b"\0"))[1]
        elif name == b"fmt " and stated <= LONGEST_DESCRIPTION:
            raw = _described(file.read(stated), order, container)
        elif name == b"data":
            if stated == LARGEST_SIZE and large is not None:
                stated = large  # noqa: PLW2901
            return chunks.extent(at, stated, raw)
    return None


def _described(description: bytes, order: Order, container: str) -> RawFormat | None:
    """Return the format that a chunk `fmt ` describes; None if samples have no fixed number of bytes."""
    if len(description) < 16:  # noqa: PLR2004 - the shortest there is
        return None
    code, channels, rate, _, frame_bytes, bits = struct.unpack(f"{order}HHIIHH", description[:16])
    if code == EXTENSIBLE and description[26:40] == STANDARD_GUID:
        code = struct.unpack(f"{order}H", description[24:26])[0]
    subtype = _RIFF.get(code, {}).get(bits)
    if subtype is None or frame_bytes != channels * bits // 8:
        return None
    return _raw(container, subtype, channels, rate, order, description if order == "<" else b"")


def _raw(  # noqa: PLR0913, PLR0917 - the fields of a RawFormat
    container: str,
    subtype: str | None,
    channels: int,
    rate: float,
    order: Order = ">",
    description: bytes = b"",
) -> RawFormat | None:
    if subtype is None or channels < 1 or not 1 <= rate <= LARGEST_SIZE or rate != int(rate):
        return None
    return RawFormat(container, subtype, channels, int(rate), order, description)


def _in_aiff(file: BinaryIO, size: int) -> Extent | None:
    raw, frames, found = None, 0, None
    chunks = _Chunks(file, size, ">4sI")
    for name, at, stated in chunks.from_(12):
        file.seek(at)
        if name == b"COMM":
            chunk = file.read(min(stated, 22))
            raw, frames = _common(chunk), int.from_bytes(chunk[2:6], "big")
        elif name == b"SSND":
            # two numbers come before the samples; the first says how many more bytes do
            found = at, 8 + int.from_bytes(file.read(4), "big"), stated
        if found and raw:
            break
    if not found:
        return None
    at, skipped, stated = found
    if stated < 0:
        return chunks.extent(at, stated, raw)
    # if more bytes come before the samples than the chunk has, the samples are missing
    inside = _without(skipped if skipped <= stated else 8, stated)
    if raw and inside == frames * raw.frame_bytes + 1:
        # libsndfile counts the padding byte
        inside -= 1
    return chunks.extent(at + skipped, inside, raw)


def _common(chunk: bytes) -> RawFormat | None:
    """Return the format that the chunk `COMM` describes."""
    if len(chunk) < 18:  # noqa: PLR2004
        return None
    channels, _, bits, exponent, mantissa = struct.unpack(">hIhHQ", chunk[:18])
    encodings, intel = _AIFC.get(chunk[18:22] or b"NONE", ({}, False))
    # a floating-point number of 80 bits
    rate = mantissa * 2.0 ** (exponent - 16383 - 63) if 16383 <= exponent < 16383 + 32 else 0.0  # noqa: PLR2004
    subtype = _LAWS.get(chunk[18:22]) or encodings.get(bits)
    return _raw("AIFF", subtype, channels, rate, "<" if intel else ">")


def _without(skipped: int, stated: int) -> int:
    """Return the size of samples from that of their chunk, which counts `skipped` bytes before them."""
    return stated if _is_of_stream(stated, None) else max(0, stated - skipped)


def _in_caf(file: BinaryIO, size: int) -> Extent | None:
    raw = None
    chunks = _Chunks(file, size, ">4sQ", even=False)
    for name, at, stated in chunks.from_(8):
        if name == b"desc":
            file.seek(at)
            raw = _caf_description(file.read(32))
        elif name == b"data":
            # a number comes before the samples
            return chunks.extent(at + 4, _without(4, stated) if stated >= 0 else stated, raw)
    return None


def _caf_description(chunk: bytes) -> RawFormat | None:
    if len(chunk) < 32:  # noqa: PLR2004
        return None
    rate, kind, flags, frame_bytes, _, channels, bits = struct.unpack(">d4sIIIII", chunk)
    encodings = _FLOATING if flags & 1 else _SIGNED
    subtype = encodings.get(bits) if kind == b"lpcm" else _LAWS.get(kind)
    raw = _raw("CAF", subtype, channels, rate, "<" if flags & 2 else ">")
    return raw if raw and raw.frame_bytes == frame_bytes else None


def _in_au(file: BinaryIO, size: int) -> Extent:
    file.seek(4)
    at, stated, code, rate, channels = struct.unpack(">5I", file.read(20).ljust(20, b"\0"))
    raw = _raw("AU", _AU.get(code), channels, rate)
    there = max(0, size - at)
    bound = None if _is_of_stream(stated, raw) else stated
    cut = size < (max(at, _AU_BYTES) if bound is None else _AU_BYTES)
    return Extent(at, bound, there if bound is None else min(bound, there), raw, ends_in_header=cut)


def _in_w64(file: BinaryIO, size: int) -> Extent | None:
    # a chunk begins with a name of 16 bytes; its size includes this head of 24, and chunks are padded to 8
    at, raw = 40, None
    for _ in range(MOST_CHUNKS):
        if at > size - 16:
            break
        file.seek(at)
        name, stated = struct.unpack("<4s12xQ", file.read(24).ljust(24, b"\0"))
        if name == b"data" and at > size - 24:
            return Extent(size, None, 0, raw, ends_in_header=True)
        if name == b"fmt " and stated <= LONGEST_DESCRIPTION:
            raw = _described(file.read(max(0, stated - 24)), "<", "W64")
        elif name == b"data":
            there = size - at - 24
            if _is_of_stream(stated, raw) or stated < 24:  # noqa: PLR2004
                return Extent(at + 24, None, there, raw)
            return Extent(at + 24, stated - 24, min(stated - 24, there), raw)
        at += max(24, stated + 7 & ~7)
    return None


FINDERS: dict[tuple[bytes, bytes], Callable[[BinaryIO, int], Extent | None]] = {
    (b"RIFF", b"WAVE"): _in_riff,
    (b"RIFX", b"WAVE"): lambda file, size: _in_riff(file, size, ">"),
    (b"RF64", b"WAVE"): lambda file, size: _in_riff(file, size, "<", "RF64"),
    (b"BW64", b"WAVE"): lambda file, size: _in_riff(file, size, "<", "RF64"),
    (b"FORM", b"AIFF"): _in_aiff,
    (b"FORM", b"AIFC"): _in_aiff,
    (b"caff", b""): _in_caf,
    (b"riff", b""): _in_w64,
    (b".snd", b""): _in_au,
}

_WAVE = tuple((first, 8, b"WAVE") for first in (b"RIFF", b"RIFX", b"RF64"))
FORMATS = (
    AudioFormat("WAV", "wav", _WAVE, is_exact=True, not_written=frozenset({"MPEG_LAYER_III"})),
    AudioFormat("WAVEX", "wavex", is_exact=True),
    AudioFormat("RF64", "rf64", is_exact=True),
    AudioFormat("W64", "w64", ((b"riff", 0, b""),), is_exact=True),
    AudioFormat("AIFF", "aiff", ((b"FORM", 8, b"AIF"),), is_exact=True, wrapper=Aiff),
    AudioFormat("CAF", "caf", ((b"caff", 0, b""),), is_exact=True),
    AudioFormat("AU", "au", ((b".snd", 0, b""),), is_exact=True),
)
