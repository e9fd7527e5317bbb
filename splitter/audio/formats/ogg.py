"""Ogg as it really is: its pages are looked at, since a decoder passes over those that are damaged.

Pages are also given another serial number: encoders choose one by chance, so that no two files are the same.

| OggS | flags | samples so far | serial number | page number | checksum of all of it | sizes | sound |
"""

import os
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

_PAGE = struct.Struct("<4sBBQIIIB")
_SERIAL_AT, _CHECKSUM_AT, _SEGMENTS_AT, _HEAD_BYTES = 14, 22, 26, 27
_LARGEST_PAGE = _HEAD_BYTES + 255 + 255 * 255
_FIRST, _LAST = 2, 4
# how those streams begin that are sound
_SOUND = (b"\x01vorbis", b"OpusHead", b"Speex   ")
_READ_AT_ONCE = 1 << 20
# of pages with the head of a stream, and of those in which nothing ends
_NO_SAMPLES = (0, (1 << 64) - 1)
_ALL = 0xFFFFFFFF
_MIRRORED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))


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


@dataclass
class _Stream:
    """How far a stream of pages has come."""

    number: int
    has_sound: bool = False
    has_ended: bool = False


class CountedOgg:
    """An Ogg file whose pages have been looked at.

    Attributes:
        begins: Where its streams begin, of those that follow each other.
        loss: How sound is seen to be missing; empty if it is not.
    """

    def __init__(self, descriptor: int) -> None:
        """Look at the pages of a file."""
        self.begins: list[int] = []
        self.loss = ""
        self._streams: dict[int, _Stream] = {}
        self._beginning = False
        end = 0
        for at, page in _pages(descriptor):
            self._look_at(at, page, after_others=at > end)
            end = at + len(page)
        rest = os.pread(descriptor, 4, end)
        # what follows the end of a stream may be a tag
        if rest == b"OggS" or (rest and self._are_open()):
            self.loss = self.loss or "ends early"

    def _look_at(self, at: int, page: bytes, *, after_others: bool) -> None:
        """Look at a page; `after_others` if it follows bytes that are no page, or none any more."""
        _, _, flags, samples, serial, number, _, segments = _PAGE.unpack_from(page)
        if flags & _FIRST:
            if not self._beginning:
                self.begins.append(at)
                if after_others and self._are_open():
                    self.loss = self.loss or "is damaged within"
                self._streams = {}
            if page[_HEAD_BYTES + segments :].startswith(_SOUND):
                self._streams[serial] = _Stream(number)
        elif stream := self._streams.get(serial):
            # what was caught somewhere has its head, and goes on with a later page
            if number > stream.number + 1 and (after_others or stream.has_sound):
                self.loss = self.loss or "is damaged within"
            stream.number = number
            stream.has_sound = stream.has_sound or samples not in _NO_SAMPLES
            stream.has_ended = bool(flags & _LAST)
        # streams that lie side by side begin together
        self._beginning = bool(flags & _FIRST)

    def _are_open(self) -> bool:
        return not all(stream.has_ended for stream in self._streams.values())


def _pages(descriptor: int) -> Iterator[tuple[int, bytes]]:
    """Where each whole page begins, and its bytes; what is damaged is passed over, as decoders do."""
    start, at, content = 0, 0, os.pread(descriptor, _READ_AT_ONCE, 0)
    while True:
        if len(content) == _READ_AT_ONCE and len(content) - at < _LARGEST_PAGE:
            start, at = start + at, 0
            content = os.pread(descriptor, _READ_AT_ONCE, start)
        size = _page_size(content, at)
        if size:
            yield start + at, content[at : at + size]
            at += size
        else:
            found = content.find(b"OggS", at + 1)
            at = found if found >= 0 else max(at + 1, len(content) - 3)
            if at >= len(content):
                return


def _page_size(content: bytes, at: int) -> int:
    """The bytes of the page that begins there; 0 if there is none that is whole and undamaged."""
    if content[at : at + 4] != b"OggS" or len(content) < at + _HEAD_BYTES:
        return 0
    segments = content[at + _SEGMENTS_AT]
    lacing = content[at + _HEAD_BYTES : at + _HEAD_BYTES + segments]
    size = _HEAD_BYTES + segments + sum(lacing)
    page = content[at : at + size]
    if len(page) < size:
        return 0
    return size if _checksum(page) == struct.unpack_from("<I", page, _CHECKSUM_AT)[0] else 0


def _checksum(page: bytes | bytearray) -> int:
    """The checksum of a page, its own field taken as zero: zlib's polynomial, but of the mirrored bits."""
    mirrored = (page[:_CHECKSUM_AT] + bytes(4) + page[_CHECKSUM_AT + 4 :]).translate(_MIRRORED)
    crc = zlib.crc32(mirrored, _ALL) ^ _ALL
    return int.from_bytes(crc.to_bytes(4, "little").translate(_MIRRORED), "big")


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
        if end > len(content):
            break
        struct.pack_into("<I", changed, at + _SERIAL_AT, number)
        struct.pack_into("<I", changed, at + _CHECKSUM_AT, _checksum(changed[at:end]))
        at = end
    return bytes(changed)
