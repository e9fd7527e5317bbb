"""Find the samples of a file, whatever its container is."""

import os
from collections.abc import Callable
from typing import BinaryIO

from splitter.audio.formats import nist, voc, wav
from splitter.audio.formats.wav import Extent

# by the first four bytes, and by the four at offset 8, which are empty here if they do not matter
_FINDERS: dict[tuple[bytes, bytes], Callable[[BinaryIO, int], Extent | None]] = {
    **wav.FINDERS,
    (b"NIST", b""): nist.find_in_nist,
    (b"Crea", b""): voc.find_in_voc,
}


def find_samples(path: str) -> Extent | None:
    """Return where the samples of a WAV, RF64, W64, AIFF, CAF, AU, NIST or VOC file are; None for others."""
    with open(path, "rb") as file:
        return find_samples_in(file)


def find_samples_in(file: BinaryIO) -> Extent | None:
    """Return the same for an open file that was not read yet."""
    size = os.fstat(file.fileno()).st_size
    start = file.read(12)
    find = _FINDERS.get((start[:4], start[8:])) or _FINDERS.get((start[:4], b""))
    return find(file, size) if find else None
