"""A member of a tar archive: its name and its content, in memory or in a file."""

import functools
import os
import struct
import tempfile
from collections.abc import Iterable, Iterator
from typing import NamedTuple

BLOCK = 512
END = bytes(2 * BLOCK)
# how everything begins that gzip has compressed
GZIP = b"\x1f\x8b"
PIECE = 1 << 20
HELD_BYTES = 4 << 20  # larger content goes to a temporary file

HEADER_FIELDS = struct.Struct("100s 8s 8s 8s 12s 12s 8s 1s 100s 6s 2s 32s 32s 8s 8s 155s 12x")


class SharedFile:
    """A file that is closed when nothing refers to it any more."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @classmethod
    def of(cls, pieces: Iterable[bytes], folder: str | None = None) -> "SharedFile":
        """Create a nameless temporary file, on the disk of a folder or in the system's temporary folder."""
        with tempfile.TemporaryFile(prefix="splitter-", dir=folder) as file:
            file.writelines(pieces)
            file.flush()
            return cls(os.dup(file.fileno()))

    def read(self, size: int, at: int) -> bytes:
        return os.pread(self._descriptor, size, at)

    def write(self, content: bytes, at: int) -> None:
        """Write a piece of the file, in as many calls as the system needs."""
        while content:
            written = os.pwrite(self._descriptor, content, at)
            content, at = content[written:], at + written

    def __del__(self) -> None:
        os.close(self._descriptor)


class FilePart(NamedTuple):
    """A part of a shared file, for content that is not in memory."""

    file: SharedFile
    start: int
    size: int

    def read(self) -> bytes:
        return b"".join(self.pieces())

    def pieces(self) -> Iterator[bytes]:
        """Yield the content, piece by piece."""
        at, end = self.start, self.start + self.size
        while piece := self.file.read(min(PIECE, end - at), at):
            at += len(piece)
            yield piece


class Member(NamedTuple):
    """A file of an archive.

    Attributes:
        name: Its name as written, without a leading `./`.
        size: Size of its content in bytes.
        content: The content, or the part of a file that contains it.
    """

    name: str
    size: int
    content: bytes | FilePart

    @property
    def key(self) -> str:
        """The key of the sample that it belongs to."""
        return split_name(self.name)[0]

    @property
    def field(self) -> str:
        """The name of the field that it is in its sample."""
        return split_name(self.name)[1]

    def pieces(self) -> Iterator[bytes]:
        """Yield the content, piece by piece."""
        if isinstance(self.content, FilePart):
            yield from self.content.pieces()
        else:
            yield self.content

    def read(self) -> bytes:
        return b"".join(self.pieces())


def member_of_file(path: str, name: str) -> Member:
    """Return a file as a member; a large one is kept open, so that it may be deleted meanwhile."""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size > HELD_BYTES:
            return Member(name, size, FilePart(SharedFile(os.dup(file.fileno())), 0, size))
        content = file.read()
        return Member(name, len(content), content)


@functools.lru_cache(maxsize=64)
def split_name(name: str) -> tuple[str, str]:
    """Split a name into key and field at the first dot of the last path component, as WebDataset does.

    If that component has no dot, or begins with one, the whole name is the key.

    >>> split_name("dogs.v2/rex.seg.png"), split_name("README"), split_name("a/.hidden")
    (('dogs.v2/rex', 'seg.png'), ('README', ''), ('a/.hidden', ''))
    """
    start = name.rfind("/") + 1
    dot = name.find(".", start)
    return (name, "") if dot in (-1, start) else (name[:dot], name[dot + 1 :])


def why_unsafe(name: str) -> str | None:
    """Return why the name of a member is unsafe; None if it is safe."""
    if name.startswith("/"):
        return "begins with a slash"
    if ".." in name.split("/"):
        return "leads out of its folder"
    if "\0" in name:
        return "contains a NUL"
    if not name.rpartition("/")[2] or name == ".":
        return "has no file name at the end"
    return None
