"""Read the header of a FLAC file, without looking at its frames."""

# ruff: noqa: PLR2004 - a file format is made of numbers

import os


def beginning(descriptor: int) -> int | None:
    """Return where FLAC begins in a file, after any ID3 tags; None if it is not FLAC."""
    at = 0
    while (tag := os.pread(descriptor, 10, at))[:3] == b"ID3" and len(tag) == 10:
        at += 10 + sum((byte & 0x7F) << 7 * index for index, byte in enumerate(reversed(tag[6:])))
        at += 10 if tag[5] & 0x10 else 0
    return at if tag[:4] == b"fLaC" else None


def header_of_flac(descriptor: int) -> tuple[int, int, int, int]:
    """Return the bits, channels, rate and samples that a FLAC file states; for any other file, no rate."""
    begin = beginning(descriptor)
    packed = b"" if begin is None else os.pread(descriptor, 8, begin + 18)
    return unpacked(packed if len(packed) == 8 else b"")


def unpacked(packed: bytes) -> tuple[int, int, int, int]:
    """Return the bits, channels, rate and samples in eight bytes of STREAMINFO, after its first ten."""
    number = int.from_bytes(packed, "big")
    return (number >> 36 & 31) + 1, (number >> 41 & 7) + 1, number >> 44, number & (1 << 36) - 1
