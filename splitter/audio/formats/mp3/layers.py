"""Find out whether a file has frames of MPEG's layers I, II or III, which its first bytes alone do not show.

Headerless samples near zero are full of bytes that look like a header, so frames must follow each other.
"""

import mmap
import os
import re
from typing import Literal

from splitter.audio.formats.mp3.counted import END_TAGS, MOST_BEFORE, after_tags
from splitter.audio.formats.mp3.layout import HEADER_BYTES, any_frame

BitRate = Literal["none", "free", "stated"]

_SYNC = re.compile(rb"\xff[\xe0-\xff]")
# how many frames must follow the first; more if their size is unknown, since more bytes look like frames then
_PROOF, _PROOF_OF_FREE = 3, 20
_LONGEST = 1 << 13


def bit_rate_of(path: str) -> BitRate:
    """Return how frames near the start of a file state their bit rate; `none` if they are not frames."""
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
    size, slot, kind = any_frame(header)
    if size or not kind:
        return []
    padding = slot * (header[2] >> 1 & 1)
    starts = (one.start() for one in _SYNC.finditer(content, HEADER_BYTES, _LONGEST))
    return [
        start - padding for start in starts if any_frame(content[start : start + HEADER_BYTES])[2] == kind
    ]


def _are_frames(content: bytes, at: int, free_size: int, count: int, end: int) -> bool:
    """Return whether `count` frames of one kind follow the one at this offset, or fewer and then the end."""
    kind = 0
    for _ in range(count + 1):
        header = content[at : at + HEADER_BYTES]
        size, slot, found = any_frame(header)
        if not found or (kind and found != kind) or not (size or free_size):
            return False
        kind = found
        at += size or free_size + slot * (header[2] >> 1 & 1)
        if at == end or content[at : at + 3] in END_TAGS:
            return True
    return True
