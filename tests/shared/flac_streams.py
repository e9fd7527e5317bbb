"""FLAC streams made by hand, byte by byte, which no encoder writes; no code is shared with splitter."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

import numpy as np

RATE_CODES = {
    88200: 1,
    176400: 2,
    192000: 3,
    8000: 4,
    16000: 5,
    22050: 6,
    24000: 7,
    32000: 8,
    44100: 9,
    48000: 10,
    96000: 11,
}
SIZE_CODES = {192: 1, 576: 2, 1152: 3, 2304: 4, 4608: 5, **{256 << n: 8 + n for n in range(8)}}
BITS_CODES = {8: 1, 12: 2, 16: 4, 20: 5, 24: 6}


@cache
def crc_table(polynomial: int, bits: int) -> list[int]:
    table = []
    for byte in range(256):
        value = byte << bits - 8
        for _ in range(8):
            value = value << 1 ^ (polynomial if value >> bits - 1 else 0)
            value &= (1 << bits) - 1
        table.append(value)
    return table


def crc(data: bytes, polynomial: int, bits: int) -> bytes:
    table, value, mask = crc_table(polynomial, bits), 0, (1 << bits) - 1
    for byte in data:
        value = value << 8 & mask ^ table[value >> bits - 8 ^ byte]
    return value.to_bytes(bits // 8, "big")


def crc8(data: bytes) -> bytes:
    return crc(data, 0x07, 8)


def crc16(data: bytes) -> bytes:
    return crc(data, 0x8005, 16)


def coded(number: int) -> bytes:
    """Encode a number as UTF-8 does, but with up to 36 bits."""
    if number < 0x80:
        return bytes([number])
    tail = []
    room = 6
    while number >> room:
        tail.insert(0, 0x80 | number & 0x3F)
        number >>= 6
        room -= 1
    return bytes([0xFF << room + 1 & 0xFF | number, *tail])


@dataclass(frozen=True)
class Coding:
    """The way in which the headers of a stream state its properties.

    Attributes:
        rate: Samples per second.
        bits: Bits per sample.
        rate_in: Where a header has the rate: "code", "khz", "hz", "10hz", or nowhere ("streaminfo").
        bits_in_header: Whether a header has the bits per sample.
        size_in: How a header states the size: "code" (if there is one for it), or "bytes".
    """

    rate: int = 44100
    bits: int = 16
    rate_in: str = "code"
    bits_in_header: bool = True
    size_in: str = "code"


def frame(samples: np.ndarray, number: int, coding: Coding, *, variable: bool = False) -> bytes:
    """Return one frame of (samples, channels); a channel is verbatim, or one value if all are equal."""
    size, channels = samples.shape
    rate_code, rate_bytes = {
        "streaminfo": lambda: (0, b""),
        "code": lambda: (RATE_CODES[coding.rate], b""),
        "khz": lambda: (12, bytes([coding.rate // 1000])),
        "hz": lambda: (13, coding.rate.to_bytes(2, "big")),
        "10hz": lambda: (14, (coding.rate // 10).to_bytes(2, "big")),
    }[coding.rate_in]()
    if coding.size_in == "code" and size in SIZE_CODES:
        size_code, size_bytes = SIZE_CODES[size], b""
    elif size <= 256:
        size_code, size_bytes = 6, bytes([size - 1])
    else:
        size_code, size_bytes = 7, (size - 1).to_bytes(2, "big")
    bits_code = BITS_CODES[coding.bits] if coding.bits_in_header else 0
    kind = bytes([size_code << 4 | rate_code, channels - 1 << 4 | bits_code << 1])
    header = bytes([0xFF, 0xF9 if variable else 0xF8]) + kind + coded(number) + size_bytes + rate_bytes
    header += crc8(header)
    body = b""
    for channel in samples.T:
        stored = channel.astype(">i4").view(np.uint8).reshape(-1, 4)[:, 4 - coding.bits // 8 :].tobytes()
        is_constant = (channel == channel[0]).all()
        body += b"\x00" + stored[: coding.bits // 8] if is_constant else b"\x02" + stored
    return header + body + crc16(header + body)


def head(
    coding: Coding,
    channels: int,
    total: int,
    sizes: tuple[int, int],
    more: Iterable[tuple[int, bytes]] = (),
) -> bytes:
    """Return what comes before the frames: the STREAMINFO, and more blocks, each a type and its content."""
    packed = coding.rate << 44 | channels - 1 << 41 | coding.bits - 1 << 36 | total
    smallest, largest = (size.to_bytes(2, "big") for size in sizes)
    blocks = [(0, smallest + largest + bytes(6) + packed.to_bytes(8, "big") + bytes(16)), *more]
    made = b"fLaC"
    for place, (kind, content) in enumerate(blocks):
        last = 0x80 if place == len(blocks) - 1 else 0
        made += bytes([last | kind]) + len(content).to_bytes(3, "big") + content
    return made


def frames_of(samples: np.ndarray, block: int, coding: Coding) -> list[bytes]:
    """Return all frames of a stream whose blocks have one size."""
    return [
        frame(samples[at : at + block], number, coding)
        for number, at in enumerate(range(0, len(samples), block))
    ]


def stream(samples: np.ndarray, block: int, coding: Coding, *, total: int | None = None) -> bytes:
    """Return a whole file whose blocks have one size; `total` is a false length for its header."""
    total = len(samples) if total is None else total
    return head(coding, samples.shape[1], total, (block, block)) + b"".join(frames_of(samples, block, coding))
