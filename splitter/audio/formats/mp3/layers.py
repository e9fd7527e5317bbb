"""Frames of MPEG's layers I, II and III: whether a file has any, which its first bytes alone do not tell.

Headerless samples near zero are full of what looks like a header. So frames have to follow each other.
"""

import mmap
import os
import re
from functools import lru_cache
from typing import Literal

from splitter.audio.formats.mp3.counted import END_TAGS, MOST_BEFORE, after_tags
from splitter.audio.formats.mp3.layout import HEADER_BYTES

BitRate = Literal["none", "free", "stated"]

# kbit/s by the code in a header, for layers I, II and III of MPEG 1, then of MPEG 2 and 2.5
_BITRATES = {
    (True, 1): (0, *range(32, 449, 32)),
    (True, 2): (0, 32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384),
    (True, 3): (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    (False, 1): (0, 32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256),
    (False, 2): (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
    (False, 3): (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
}
_RATES = (44100, 48000, 32000)
_DIVISORS = {3: 1, 2: 2, 0: 4}
_SYNC = re.compile(rb"\xff[\xe0-\xff]")
# frames that follow the first; where their size has to be found out, too, chance has more ways to make some
_PROOF, _PROOF_OF_FREE = 3, 20
_LONGEST = 1 << 13


def bit_rate_of(path: str) -> BitRate:
    """Return whether frames follow each other near the start of a file, or to its end, with a bit rate."""
    with open(path, "rb") as file:
        if os.fstat(file.fileno()).st_size <= HEADER_BYTES:
            return "none"
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            start = after_tags(content)
            head = content[start : start + MOST_BEFORE + (_PROOF_OF_FREE + 1) * _LONGEST]
            end = len(content) - start
    if any(_are_frames(head, 0, size, _PROOF_OF_FREE, end) for size in _free_sizes(head)):
        return "free"
    found = _SYNC.finditer(head, 0, MOST_BEFORE + 2)
    return "stated" if any(_are_frames(head, one.start(), 0, _PROOF, end) for one in found) else "none"


def _free_sizes(content: bytes) -> list[int]:
    """Return the possible sizes of a first frame that states no bit rate, without padding."""
    header = content[:HEADER_BYTES]
    size, slot, kind = _frame(header)
    if size or not kind:
        return []
    padding = slot * (header[2] >> 1 & 1)
    starts = (one.start() for one in _SYNC.finditer(content, HEADER_BYTES, _LONGEST))
    return [start - padding for start in starts if _frame(content[start : start + HEADER_BYTES])[2] == kind]


def _are_frames(content: bytes, at: int, free_size: int, count: int, end: int) -> bool:
    """Return whether so many frames of one kind follow the one at this offset, or the end comes before."""
    kind = 0
    for _ in range(count + 1):
        header = content[at : at + HEADER_BYTES]
        size, slot, found = _frame(header)
        if not found or (kind and found != kind) or not (size or free_size):
            return False
        kind = found
        at += size or free_size + slot * (header[2] >> 1 & 1)
        if at == end or content[at : at + 3] in END_TAGS:
            return True
    return True


@lru_cache(maxsize=4096)
def _frame(header: bytes) -> tuple[int, int, int]:
    """Return the size of a frame (0: it states no bit rate), its possible padding, its kind (0: no frame)."""
    if len(header) < HEADER_BYTES or header[0] != 0xFF or header[1] < 0xE0:  # noqa: PLR2004
        return 0, 0, 0
    version, layer = header[1] >> 3 & 3, 4 - (header[1] >> 1 & 3)
    code, rate = header[2] >> 4, header[2] >> 2 & 3
    if version not in _DIVISORS or layer > 3 or code > 14 or rate > 2:  # noqa: PLR2004
        return 0, 0, 0
    hertz = _RATES[rate] // _DIVISORS[version]
    bits = _BITRATES[version == 3, layer][code] * 1000  # noqa: PLR2004
    slot = 4 if layer == 1 else 1
    slots = (12 if layer == 1 else 72 if layer == 3 and version != 3 else 144) * bits // hertz  # noqa: PLR2004
    size = (slots + (header[2] >> 1 & 1)) * slot if bits else 0
    return size, slot, version << 20 | layer << 18 | (not bits) << 17 | hertz
