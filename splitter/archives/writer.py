"""Write tar archives so that the same members give the same bytes."""

import functools
from typing import BinaryIO

from splitter.archives.members import BLOCK, END, HEADER_FIELDS, Member
from splitter.errors import TarError

LONGEST_NAME = 100
_LARGEST_OCTAL = 8**11 - 1


class ArchiveWriter:
    """A writer of archives in which time, owner and mode are always the same."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.size = 0

    def add(self, member: Member) -> None:
        self._write(header(member.name, member.size))
        written = 0
        for piece in member.pieces():
            written += len(piece)
            self._write(piece)
        if written != member.size:
            raise TarError(
                f"member {member.name!r} has {written} bytes instead of {member.size}: it has changed"
            )
        self._write(bytes(-member.size % BLOCK))

    def finish(self) -> None:
        self._write(END)

    def _write(self, data: bytes) -> None:
        self._file.write(data)
        self.size += len(data)


def size_in_archive(member: Member) -> int:
    """Return the bytes that a member takes in an archive, including headers and padding."""
    return len(header(member.name, member.size)) + member.size + -member.size % BLOCK


@functools.lru_cache(maxsize=64)
def header(name: str, size: int) -> bytes:
    """Return the POSIX header of a member, after an extended one if a plain one cannot hold name and size."""
    records = {}
    plain = name.encode("utf-8", "surrogateescape")
    if len(plain) > LONGEST_NAME or not plain.isascii():
        if plain.decode(errors="ignore").encode() != plain:
            # it is not UTF-8
            records["hdrcharset"] = b"BINARY"
        records["path"] = plain
        plain = name.encode("ascii", "replace")[:LONGEST_NAME]
    if size > _LARGEST_OCTAL:
        records["size"] = b"%d" % size
    before = b""
    if records:
        text = b"".join(map(_record, records, records.values()))
        before = _block(b"././@PaxHeader", len(text), b"x") + text + bytes(-len(text) % BLOCK)
    return before + _block(plain, size if size <= _LARGEST_OCTAL else 0, b"0")


def _record(name: str, value: bytes) -> bytes:
    """Return a record of an extended header; it begins with its own length, which includes these digits."""
    rest = b" %s=%s\n" % (name.encode(), value)
    length = len(rest)
    while length != len(rest) + len(str(length)):
        length = len(rest) + len(str(length))
    return b"%d%s" % (length, rest)


def _block(name: bytes, size: int, kind: bytes) -> bytes:
    fields = [name, b"0000644\0", b"0000000\0", b"0000000\0", b"%011o\0" % size, b"00000000000\0", b" " * 8]
    owner = [b"", b"", b"0000000\0", b"0000000\0", b""]
    block = HEADER_FIELDS.pack(*fields, kind, b"", b"ustar\0", b"00", *owner)
    return block[:148] + b"%06o\0 " % sum(block) + block[156:]
