"""MP4, the container of M4A: edit lists that only leave out what an encoder put before the sound.

ftyp   moov (mvhd   trak (edts (elst)   mdia (mdhd   hdlr   minf (stbl (stsd   stts ...))))   mdat

If there is an edit list, FFmpeg makes its list of packets a second time, which takes 5 MB more for each hour.
For edit lists that only leave out the start, it need not do so.
"""

import os
import re
import struct
from collections.abc import Iterator
from contextlib import suppress
from typing import BinaryIO

Span = tuple[int, int]
Boxes = dict[bytes, list[Span]]

# more boxes in a box, or larger contents to read, are damage
_MOST_BOXES, _MOST_BYTES, _HEAD_BYTES = 1000, 1 << 16, 8
# the first description of a track of AAC
_AAC = re.compile(rb"mp4a.*esds\0{4}\x03[\x80-\xff]*[\0-\x7f]..\0\x04[\x80-\xff]*[\0-\x7f]\x40", re.DOTALL)
_SOUND_AT, _USUAL_SPEED = 8, 1 << 16


def seconds_of_plain_edit(path: str) -> float:
    """Return the seconds of AAC that an edit list keeps, if it leaves out only the first samples; else 0."""
    with open(path, "rb") as file:
        try:
            return _seconds(file) if file.read(_HEAD_BYTES).endswith(b"ftyp") else 0.0
        except (struct.error, LookupError, ValueError, ZeroDivisionError):
            # no edit list, or several; no track of sound, or several; or damage
            return 0.0


def lacks_index(path: str) -> bool:
    """Return whether an MP4 has no `moov`, which says where its sound is: many recorders write it last."""
    with open(path, "rb") as file:
        if not file.read(_HEAD_BYTES).endswith(b"ftyp"):
            return False
        with suppress(struct.error, ValueError):
            return all(kind != b"moov" for kind, _ in _each_box(file, 0, os.fstat(file.fileno()).st_size))
    return True


def _seconds(file: BinaryIO) -> float:
    movie = _inside(file, _boxes(file, 0, os.fstat(file.fileno()).st_size), b"moov")
    tracks = [_boxes(file, *span) for span in movie[b"trak"]]
    ((track, media),) = [
        (track, media)
        for track, media in ((track, _inside(file, track, b"mdia")) for track in tracks)
        if _content(file, media, b"hdlr")[_SOUND_AT:].startswith(b"soun")
    ]
    table = _inside(file, _inside(file, media, b"minf"), b"stbl")
    if b"mvex" in movie or b"ctts" in table or not _AAC.search(_content(file, table, b"stsd")):
        return 0.0
    start, lasts, speed = _only_edit(_content(file, _inside(file, track, b"edts"), b"elst"))
    scale, movie_scale = _scale(_content(file, media, b"mdhd")), _scale(_content(file, movie, b"mvhd"))
    # as FFmpeg rounds
    lasts = (2 * lasts * scale + movie_scale) // (2 * movie_scale)
    lengths = list(struct.iter_unpack(">II", _content(file, table, b"stts")[8:]))
    there = sum(count * length for count, length in lengths)
    # FFmpeg begins to decode a second before the start, and stops after the packet that contains the end
    is_all = start <= scale and start + lasts > there - lengths[-1][1]
    return min(lasts, there) / scale if is_all and start >= 0 and speed == _USUAL_SPEED else 0.0


def _only_edit(content: bytes) -> tuple[int, int, int]:
    """Return the start, the duration and the speed of a single edit."""
    lasts, start, speed = struct.unpack(">QqI" if content[0] else ">IiI", content[8:])
    return start, lasts, speed


def _scale(content: bytes) -> int:
    """Return how many units of time make a second."""
    (scale,) = struct.unpack_from(">I", content, 20 if content[0] else 12)
    return int(scale)


def _inside(file: BinaryIO, boxes: Boxes, kind: bytes) -> Boxes:
    ((start, end),) = boxes[kind]
    return _boxes(file, start, end)


def _content(file: BinaryIO, boxes: Boxes, kind: bytes) -> bytes:
    ((start, end),) = boxes[kind]
    if end - start > _MOST_BYTES:
        raise ValueError("is too large")
    file.seek(start)
    return file.read(end - start)


def _boxes(file: BinaryIO, at: int, end: int) -> Boxes:
    """Return where the contents of the boxes are, by kind."""
    found: Boxes = {}
    for kind, span in _each_box(file, at, end):
        found.setdefault(kind, []).append(span)
    return found


def _each_box(file: BinaryIO, at: int, end: int) -> Iterator[tuple[bytes, Span]]:
    for _ in range(_MOST_BOXES):
        if at + _HEAD_BYTES > end:
            return
        file.seek(at)
        size, kind = struct.unpack(">I4s", file.read(_HEAD_BYTES))
        head = _HEAD_BYTES
        if size == 1:
            (size,), head = struct.unpack(">Q", file.read(8)), 2 * _HEAD_BYTES
        size = size or end - at
        if not head <= size <= end - at:
            raise ValueError("is damaged")
        yield kind, (at + head, at + size)
        at += size
    raise ValueError("has too many boxes")
