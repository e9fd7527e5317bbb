"""WAV and its relatives as bytes: where the samples are, how many there really are, and headers for pieces.

A container that binds itself to a size is taken at its word: if the file ends before, it is truncated. A size
that streaming writers leave behind, since they cannot go back, says nothing.
"""

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

# nothing (ffmpeg to a pipe, some recorders), the largest there is, and what sox writes to a pipe
SIZES_OF_STREAMS = frozenset({0, 0xFFFFFFFF, 0x7FFFFFFF, 0x7FFFF000, 0x80000000, 2**64 - 1, 2**63 - 1})
LONGEST_HEADER_CHUNK = 1 << 20

PCM, FLOAT, ALAW, MULAW, EXTENSIBLE = 1, 3, 6, 7, 0xFFFE
# code of the format, bits of a sample -> the name that libsndfile has for it
SUBTYPES = {
    (PCM, 8): "PCM_U8",
    (PCM, 16): "PCM_16",
    (PCM, 24): "PCM_24",
    (PCM, 32): "PCM_32",
    (FLOAT, 32): "FLOAT",
    (FLOAT, 64): "DOUBLE",
    (ALAW, 8): "ALAW",
    (MULAW, 8): "ULAW",
}


@dataclass(frozen=True)
class Extent:
    """Where the samples of a file are.

    Attributes:
        start: The first byte of the samples.
        stated: How many bytes the header says there are; None where it does not bind itself.
        there: How many bytes there are.
        description: The body of a WAV file's chunk `fmt `, empty for other containers.
    """

    start: int
    stated: int | None
    there: int
    description: bytes = b""

    @property
    def is_cut_short(self) -> bool:
        """Whether the file ends before it should."""
        return self.stated is not None and self.there < self.stated


def find_samples(path: str) -> Extent | None:
    """Where the samples of a WAV, RF64, W64, AIFF, CAF or AU file are; None for anything else."""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        start = file.read(40)
        match start[:4]:
            case b"RIFF" | b"RF64" | b"BW64" if start[8:12] == b"WAVE":
                return _in_riff(file, size, "<")
            case b"RIFX" if start[8:12] == b"WAVE":
                return _in_riff(file, size, ">")
            case b"FORM" if start[8:12] in (b"AIFF", b"AIFC"):
                return _in_aiff(file, size)
            case b"caff":
                return _in_caf(file, size)
            case b".snd":
                return _in_au(start, size)
            case b"riff":
                return _in_w64(file, size)
    return None


def _chunks(file: BinaryIO, at: int, layout: str, *, even: bool = True) -> Iterator[tuple[bytes, int, int]]:
    """The name, the place and the stated size of each chunk."""
    head = struct.Struct(layout)
    while True:
        file.seek(at)
        found = file.read(head.size)
        if len(found) < head.size:
            return
        name, size = head.unpack(found)
        yield name, at + head.size, size
        at += head.size + size + (size & 1 if even else 0)


def _in_riff(file: BinaryIO, size: int, order: str) -> Extent | None:
    description, large = b"", None
    for name, at, stated in _chunks(file, 12, f"{order}4sI"):
        if name == b"ds64":
            file.seek(at)
            large = struct.unpack("<QQ", file.read(16).ljust(16, b"\0"))[1]
        elif name == b"fmt ":
            file.seek(at)
            description = file.read(min(stated, LONGEST_HEADER_CHUNK)) if order == "<" else b""
        elif name == b"data":
            if stated == 0xFFFFFFFF and large is not None:  # noqa: PLR2004 - see ds64
                stated = large  # noqa: PLW2901
            return _extent(file, at, stated, size, description, f"{order}4sI")
    return None


def _extent(file: BinaryIO, at: int, stated: int, size: int, description: bytes, layout: str) -> Extent:
    there = max(0, size - at)
    if stated == 0 and _is_chunk_list(file, at, size, layout):
        return Extent(at, 0, 0, description)
    if stated in SIZES_OF_STREAMS:
        return Extent(at, None, there, description)
    return Extent(at, stated, min(stated, there), description)


def _is_chunk_list(file: BinaryIO, at: int, size: int, layout: str) -> bool:
    """Whether the rest of a file is chunks to its end: then a size of 0 means that there are no samples."""
    end = at
    for _, start, stated in _chunks(file, at, layout):
        end = start + stated
    return size - 1 <= end <= size


def _in_aiff(file: BinaryIO, size: int) -> Extent | None:
    for name, at, stated in _chunks(file, 12, ">4sI"):
        if name == b"SSND":
            return _extent(file, at + 8, max(0, stated - 8), size, b"", ">4sI")
    return None


def _in_caf(file: BinaryIO, size: int) -> Extent | None:
    for name, at, stated in _chunks(file, 8, ">4sQ", even=False):
        if name == b"data":
            stated = stated - 4 if stated not in SIZES_OF_STREAMS and stated >= 4 else stated  # noqa: PLR2004, PLW2901
            return _extent(file, at + 4, stated, size, b"", ">4sQ")
    return None


def _in_au(start: bytes, size: int) -> Extent:
    at, stated = struct.unpack(">II", start[4:12])
    there = max(0, size - at)
    return Extent(at, None, there) if stated in SIZES_OF_STREAMS else Extent(at, stated, min(stated, there))


def _in_w64(file: BinaryIO, size: int) -> Extent | None:
    # every chunk has a name of 16 bytes and counts its own head of 24, in multiples of 8
    at = 40
    while True:
        file.seek(at)
        head = file.read(24)
        if len(head) < 24:  # noqa: PLR2004
            return None
        stated = struct.unpack("<Q", head[16:])[0]
        if head[:4] == b"data":
            bound = None if stated in SIZES_OF_STREAMS else max(0, stated - 24)
            there = max(0, size - at - 24)
            return Extent(at + 24, bound, there if bound is None else min(bound, there))
        at += max(24, stated + 7 & ~7)


# -- pieces of a WAV file, byte by byte ------------------------------------------------------------------------


@dataclass(frozen=True)
class RawFormat:
    """The samples of a WAV file as bytes of a fixed number each.

    Attributes:
        description: The body of the chunk `fmt `, which goes into each piece as it is.
        subtype: libsndfile's name for the encoding.
        channels: How many samples a frame has.
        rate: Frames in a second.
        frame_bytes: Bytes of one sample of all channels.
    """

    description: bytes
    subtype: str
    channels: int
    rate: int
    frame_bytes: int

    @classmethod
    def of(cls, description: bytes) -> "RawFormat | None":
        """What a chunk `fmt ` says; None if it is not one whose frames can be copied."""
        if len(description) < 16:  # noqa: PLR2004 - the shortest there is
            return None
        code, channels, rate, _, frame_bytes, bits = struct.unpack("<HHIIHH", description[:16])
        if code == EXTENSIBLE and len(description) >= 26:  # noqa: PLR2004
            code = struct.unpack("<H", description[24:26])[0]
        subtype = SUBTYPES.get((code, bits))
        if subtype is None or not channels or not rate or frame_bytes != channels * bits // 8:
            return None
        return cls(description, subtype, channels, rate, frame_bytes)

    def header(self, frames: int) -> bytes:
        """All that comes before the samples of a file with so many frames."""
        size = frames * self.frame_bytes
        padded = self.description + b"\0" * (len(self.description) & 1)
        chunks = struct.pack("<4sI", b"fmt ", len(self.description)) + padded
        if not self.subtype.startswith("PCM"):
            chunks += struct.pack("<4sII", b"fact", 4, frames)
        return struct.pack("<4sI4s", b"RIFF", 4 + len(chunks) + 8 + size + (size & 1), b"WAVE") + (
            chunks + struct.pack("<4sI", b"data", size)
        )
