"""A first frame without sound, as LAME writes it: how many frames follow, and what to leave out of them.

| header | side information: zeros | Info | flags | frames | bytes | 100 offsets | quality | extension |
                                                        the name of an encoder, delay, padding, a CRC-16 |
"""

import struct
from functools import cache

import numpy as np

from splitter.audio.formats.mp3.layout import FrameLayout

TAG_BYTES = 156
# the delay of a decoder itself, in samples
LATE = 529
# there are 12 bits for each of delay and padding
MOST_LEFT_OUT = (1 << 12) - 1
_ALL_FLAGS, _PLACES = 15, 100
# their offsets in the tag
_ENCODER, _DELAYS, _LENGTH, _CHECKSUM = 120, 141, 148, 154


def info_frame(  # noqa: PLR0913 - each is a field of it
    layout: FrameLayout,
    like: bytes,
    *,
    constant: bool,
    delay: int,
    padding: int,
    anchors: list[tuple[int, int]],
) -> bytes:
    """Return a first frame that describes the frames after it.

    Args:
        layout: What all frames have in common.
        like: The header of one of them.
        constant: Whether they all have the same bit rate.
        delay: How many samples to leave out at the start, minus the delay of a decoder.
        padding: How many samples to leave out at the end, plus the delay of a decoder.
        anchors: The numbers of some frames, and the bytes between this frame and them; last, the number of
            all frames, and their bytes.
    """
    made = bytearray(layout.silent(like, TAG_BYTES))
    frames, size = anchors[-1][0], len(made) + anchors[-1][1]
    tag = bytearray(TAG_BYTES)
    struct.pack_into(">4sIII", tag, 0, b"Info" if constant else b"Xing", _ALL_FLAGS, frames, size)
    numbers, offsets = zip((0, len(made)), *((number, len(made) + at) for number, at in anchors), strict=True)
    parts = np.interp(np.arange(_PLACES) * frames / _PLACES, numbers, offsets)
    tag[16 : 16 + _PLACES] = (parts * 256 // size).astype(np.uint8).tobytes()
    # readers other than libmpg123 believe only this name
    tag[_ENCODER : _ENCODER + 9] = b"LAME3.100"
    tag[_DELAYS : _DELAYS + 3] = (delay << 12 | padding).to_bytes(3, "big")
    struct.pack_into(">I", tag, _LENGTH, size)
    made[layout.head : layout.head + TAG_BYTES] = tag
    end = layout.head + _CHECKSUM
    made[end : end + 2] = _crc16(made[:end]).to_bytes(2, "big")
    return bytes(made)


def _crc16(data: bytes | bytearray) -> int:
    checksum, table = 0, _table()
    for byte in data:
        checksum = checksum >> 8 ^ table[(checksum ^ byte) & 0xFF]
    return checksum


@cache
def _table() -> list[int]:
    table = []
    for byte in range(256):
        checksum = byte
        for _ in range(8):
            checksum = checksum >> 1 ^ (0xA001 if checksum & 1 else 0)
        table.append(checksum)
    return table
