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


def rate_of(descriptor: int) -> int:
    """Return the sample rate that a FLAC file states; 0 for any other file."""
    begin = beginning(descriptor)
    return 0 if begin is None else int.from_bytes(os.pread(descriptor, 3, begin + 18), "big") >> 4


def header_of_flac(descriptor: int) -> tuple[int, int, int, int] | None:
    """Return the bits, channels, rate and samples that a FLAC file states; None without rate or samples."""
    begin = beginning(descriptor)
    stated = b"" if begin is None else os.pread(descriptor, 8, begin + 18)
    if len(stated) < 8:
        return None
    packed = int.from_bytes(stated, "big")
    rate, samples = packed >> 44, packed & (1 << 36) - 1
    return ((packed >> 36 & 31) + 1, (packed >> 41 & 7) + 1, rate, samples) if rate and samples else None
