"""Ogg pages with another serial number: encoders choose one by chance, so that no two files are the same.

Every page has the number, and a checksum over all of the page. That is a CRC, which is linear: what another
number changes in it depends only on how many bytes come after the number.
"""

import os
import struct
from functools import cache
from typing import BinaryIO

_POLYNOMIAL = 0x104C11DB7
_FLAGS_AT, _SERIAL_AT, _CHECKSUM_AT, _SEGMENTS_AT, _HEAD_BYTES = 5, 14, 22, 26, 27
_FIRST = 2


class Numbered:
    """A file to which libsndfile writes Ogg, and whose pages have a number that is always the same."""

    def __init__(self, file: BinaryIO) -> None:
        """Write to a file."""
        self._file = file
        self._pending = b""

    def write(self, content: bytes) -> int:
        """Write the pages that are complete."""
        self._pending += bytes(content)
        whole = _end_of_pages(self._pending)
        self._file.write(with_serial_number(self._pending[:whole]))
        self._pending = self._pending[whole:]
        return len(content)

    def tell(self) -> int:
        """Where the next byte comes."""
        return self._file.tell() + len(self._pending)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go to where it was, which is all that is asked for."""
        return self.tell() if self._pending else self._file.seek(offset, whence)


def streams(descriptor: int) -> list[int]:
    """Where each stream of a file begins, of those that follow each other."""
    found, at, beginning = [], 0, False
    while (head := os.pread(descriptor, _HEAD_BYTES + 255, at))[:4] == b"OggS" and len(head) >= _HEAD_BYTES:
        if head[_FLAGS_AT] & _FIRST and not beginning:
            found.append(at)
        # streams that lie side by side begin together
        beginning = bool(head[_FLAGS_AT] & _FIRST)
        segments = head[_SEGMENTS_AT]
        at += _HEAD_BYTES + segments + sum(head[_HEAD_BYTES : _HEAD_BYTES + segments])
    return found


def _end_of_pages(content: bytes) -> int:
    """Where the last complete page ends."""
    at = 0
    while len(content) >= at + _HEAD_BYTES:
        lacing = content[at + _HEAD_BYTES :][: content[at + _SEGMENTS_AT]]
        end = at + _HEAD_BYTES + content[at + _SEGMENTS_AT] + sum(lacing)
        if end > len(content) or len(lacing) < content[at + _SEGMENTS_AT]:
            break
        at = end
    return at


def with_serial_number(content: bytes, number: int = 1) -> bytes:
    """The pages of a file with one stream, as if they had this number."""
    changed = bytearray(content)
    at = 0
    while content[at : at + 4] == b"OggS" and at + _HEAD_BYTES <= len(content):
        lacing = content[at + _HEAD_BYTES :][: content[at + _SEGMENTS_AT]]
        end = at + _HEAD_BYTES + len(lacing) + sum(lacing)
        old = struct.unpack_from("<I", content, at + _SERIAL_AT)[0]
        checksum = struct.unpack_from("<I", content, at + _CHECKSUM_AT)[0]
        struct.pack_into("<I", changed, at + _SERIAL_AT, number)
        difference = int.from_bytes(struct.pack("<I", old ^ number), "big")
        checksum ^= _times(difference, _power(8 * (end - at - _SERIAL_AT - 4) + 32))
        struct.pack_into("<I", changed, at + _CHECKSUM_AT, checksum)
        at = end
    return bytes(changed)


def _times(a: int, b: int) -> int:
    """The product of two polynomials modulo that of the checksum."""
    product = 0
    for bit in range(b.bit_length()):
        if b >> bit & 1:
            product ^= a << bit
    for bit in range(product.bit_length() - 1, 31, -1):
        if product >> bit & 1:
            product ^= _POLYNOMIAL << (bit - 32)
    return product


@cache
def _power(exponent: int) -> int:
    """That power of x modulo the polynomial."""
    if exponent == 0:
        return 1
    half = _power(exponent // 2)
    square = _times(half, half)
    return _times(square, 2) if exponent & 1 else square
