"""Read and write the pages of Ogg.

Pages from an encoder get another serial number: it chooses one at random, so no two files would be the same.

| OggS | flags | samples so far | serial number | page number | checksum of all of it | sizes | sound |
"""

import os
import struct
import zlib
from collections.abc import Iterator, Sequence
from typing import BinaryIO

PAGE = struct.Struct("<4sBBQIIIB")
_SERIAL_AT, _CHECKSUM_AT, _SEGMENTS_AT, HEAD_BYTES = 14, 22, 26, 27
_LARGEST_PAGE = HEAD_BYTES + 255 + 255 * 255
CONTINUED, FIRST, LAST = 1, 2, 4
# the position of pages in which no packet ends
NO_POSITION = (1 << 64) - 1
_READ_AT_ONCE = 1 << 18
_SERIAL_NUMBER = 1
_ALL = 0xFFFFFFFF
_MIRRORED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))


class Numbered:
    """A file to which libsndfile writes Ogg, and whose pages always get the same serial number."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._pending = b""

    def write(self, content: bytes) -> int:
        """Write the pages that are complete."""
        self._pending += bytes(content)
        whole = max((end for _, end in _whole_pages(self._pending)), default=0)
        self._file.write(with_serial_number(self._pending[:whole]))
        self._pending = self._pending[whole:]
        return len(content)

    def tell(self) -> int:
        return self._file.tell() + len(self._pending)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Seek to the current position, the only one that libsndfile asks for."""
        return self.tell() if self._pending else self._file.seek(offset, whence)


def pages_of(descriptor: int, start: int = 0) -> Iterator[tuple[int, bytes]]:
    """Yield the offset and the bytes of each whole page; skip damaged ones, as decoders do."""
    at, content = 0, os.pread(descriptor, _READ_AT_ONCE, start)
    while True:
        if len(content) == _READ_AT_ONCE and len(content) - at < _LARGEST_PAGE:
            start, at = start + at, 0
            content = os.pread(descriptor, _READ_AT_ONCE, start)
        end = _end_of_page(content, at)
        page = content[at:end]
        if end and _checksum(page) == struct.unpack_from("<I", page, _CHECKSUM_AT)[0]:
            yield start + at, page
            at = end
        else:
            found = content.find(b"OggS", at + 1)
            at = found if found >= 0 else max(at + 1, len(content) - 3)
            if at >= len(content):
                return


def _end_of_page(content: bytes, at: int) -> int:
    """Return where the page that begins at an offset ends; 0 if there is no whole page."""
    if content[at : at + 4] != b"OggS" or len(content) < at + HEAD_BYTES:
        return 0
    segments = content[at + _SEGMENTS_AT]
    end = at + HEAD_BYTES + segments + sum(content[at + HEAD_BYTES : at + HEAD_BYTES + segments])
    return end if end <= len(content) else 0


def _whole_pages(content: bytes) -> Iterator[tuple[int, int]]:
    """Yield where each page begins and ends, as long as they follow each other."""
    at = 0
    while end := _end_of_page(content, at):
        yield at, end
        at = end


def _checksum(page: bytes | bytearray) -> int:
    """Return the checksum of a page, with its own field as zero: zlib's checksum of the mirrored bits."""
    mirrored = (page[:_CHECKSUM_AT] + bytes(4) + page[_CHECKSUM_AT + 4 :]).translate(_MIRRORED)
    crc = zlib.crc32(mirrored, _ALL) ^ _ALL
    return int.from_bytes(crc.to_bytes(4, "little").translate(_MIRRORED), "big")


def page_of(packets: Sequence[bytes], number: int, position: int, flags: int = 0) -> bytes:
    """Return a page with whole packets, which have at most 255 segments."""
    lacing = b"".join(
        bytes((255,)) * (len(packet) // 255) + bytes((len(packet) % 255,)) for packet in packets
    )
    head = PAGE.pack(b"OggS", 0, flags, position, _SERIAL_NUMBER, number, 0, len(lacing))
    page = bytearray(b"".join((head, lacing, *packets)))
    struct.pack_into("<I", page, _CHECKSUM_AT, _checksum(page))
    return bytes(page)


def with_serial_number(content: bytes, number: int = _SERIAL_NUMBER) -> bytes:
    """Return the pages of a file with one stream, with another serial number."""
    changed = bytearray(content)
    for at, end in _whole_pages(content):
        struct.pack_into("<I", changed, at + _SERIAL_AT, number)
        struct.pack_into("<I", changed, at + _CHECKSUM_AT, _checksum(changed[at:end]))
    return bytes(changed)
