"""The files of an output folder, local or at a URL."""

import contextlib
import os
import stat
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, BinaryIO, NamedTuple, cast
from urllib.parse import quote

from splitter.errors import Refused, StorageError, UnreadableInput
from splitter.inputs.locations import look_at
from splitter.storage.tree import InTheWay, Tree, is_mostly_nothing
from splitter.text.urls import is_url, without_scheme, without_secrets

# in a store: how many bytes to read at a time, and the largest gap between two outputs that is read, too
READ_AHEAD, GAP = 16 << 20, 1 << 16


# takes a position and a size; returns fewer bytes at the end of the file
ReadRange = Callable[[int, int], bytes]


class ByteRange(NamedTuple):
    """A range of bytes in a file."""

    name: str
    start: int
    end: int


def _together(parts: Sequence[ByteRange]) -> list[list[ByteRange]]:
    """Group ranges that follow each other closely."""
    groups: list[list[ByteRange]] = []
    for part in parts:
        last = groups[-1][-1] if groups else None
        if last and last.name == part.name and 0 <= part.start - last.end <= GAP:
            groups[-1].append(part)
        else:
            groups.append([part])
    return groups


def files_at(folder: str) -> "Files":
    """Return the files of an output folder, local or at a URL; another process cannot use them."""
    return RemoteFiles(folder) if is_url(folder) else LocalFiles(folder)


class Files(ABC):
    """The files of an output folder, by name.

    Attributes:
        folder: Its location, which is valid in any process: an absolute path, or a URL.
    """

    folder: str

    @abstractmethod
    def exists(self, name: str) -> bool:
        """Return whether a file or a folder of that name exists."""

    def refuse_nowhere(self) -> None:  # noqa: B027 - only stores have buckets
        """Refuse a missing bucket; to be called after a file was not found."""

    @abstractmethod
    def location(self, name: str) -> str:
        """Return the name of a file in messages."""

    @abstractmethod
    def read(self, name: str, *, gaps: bool = False) -> bytes:
        """Return a whole file; pass `gaps` if its size is known, so that holes cannot make it too large."""

    def size(self, name: str) -> int | None:  # noqa: ARG002 - elsewhere it would be a request
        """Return the size of a file; None if it is not known before reading."""
        return None

    @abstractmethod
    def open(self, name: str, *, gaps: bool = True) -> BinaryIO:
        """Open a seekable file; without `gaps`, refuse one that is large because of holes."""

    @abstractmethod
    def table(self, name: str) -> Any:  # noqa: ANN401 - whatever Arrow reads from
        """Open a file for Arrow, which closes it."""

    @abstractmethod
    def ranges(self, name: str) -> ReadRange:
        """Open a file; return a function that reads ranges of it, which threads may share."""


class LocalFiles(Files):
    """The files in a folder on this machine."""

    def __init__(self, folder: str) -> None:
        """Remember the absolute path, since the working folder may change; follow no links in the folder."""
        self.folder = os.path.abspath(os.path.expanduser(without_scheme(folder)))
        self._tree = Tree(self.folder)
        # the file that the user named, which may also be a link
        self.named = ""

    def location(self, name: str) -> str:
        return f"{self.folder}/{name}"

    def exists(self, name: str) -> bool:
        if name == self.named:
            return os.path.exists(self.location(name))
        try:
            return self._tree.exists(name)
        except OSError as error:
            raise self.fault(name, error) from error

    def read(self, name: str, *, gaps: bool = False) -> bytes:
        with self.open(name, gaps=gaps) as file:
            try:
                return file.read()
            except OSError as error:
                raise self.fault(name, error) from error

    def size(self, name: str) -> int | None:
        """Return the size without opening anything; None if there is no plain file."""
        with contextlib.suppress(OSError):
            found = self._tree.look(name)
            return found.st_size if stat.S_ISREG(found.st_mode) else None
        return None

    def open(self, name: str, *, gaps: bool = True) -> BinaryIO:
        """Open a plain file; refuse anything else, which could block."""
        file = self._open(name)
        if not gaps and is_mostly_nothing(file.fileno()):
            file.close()
            raise StorageError(f"{self.location(name)}: is damaged (most of it was never written)")
        return file

    def _open(self, name: str) -> BinaryIO:
        try:
            if name == self.named:
                look_at(self.location(name))
                return open(self.location(name), "rb", buffering=0)
            return open(name, "rb", buffering=0, opener=self._tree.open)
        except UnreadableInput as error:
            raise StorageError(f"cannot read {error}") from None
        except OSError as error:
            raise self.fault(name, error) from error

    def fault(self, name: str, error: OSError) -> StorageError:
        """Return the error of a file that cannot be read."""
        reason = error.strerror or error
        if isinstance(error, FileNotFoundError):
            reason = "does not exist"
        elif isinstance(error, InTheWay) and error.is_link:
            where = "it" if error.path == self.location(name) else error.path
            reason = (
                f"{where} is a link, and links in an output folder are not followed; replace it with "
                "the file it points to "
                "(git annex unlock; with DVC, cache.type copy)"
            )
        return StorageError(f"cannot read {self.location(name)}: {reason}")

    def table(self, name: str) -> Any:  # noqa: ANN401 - a file of Arrow
        import pyarrow as pa

        self.open(name).close()
        return pa.OSFile(self.location(name))

    def ranges(self, name: str) -> ReadRange:
        with self.open(name) as file:
            descriptor = os.dup(file.fileno())

        def read(start: int, size: int) -> bytes:
            try:
                # do not ask for more than there is: memory for all of it is allocated before reading
                size = max(0, min(size, os.fstat(descriptor).st_size - start))
                content = os.pread(descriptor, size, start)
                # a system call reads at most two gigabytes
                while 0 < len(content) < size and (
                    more := os.pread(descriptor, size - len(content), start + len(content))
                ):
                    content += more
            except OSError as error:
                raise self.fault(name, error) from error
            return content

        # closed when the last thread is done with it, or at exit
        weakref.finalize(read, os.close, descriptor)
        return read


class RemoteFiles(Files):
    """The files at a URL."""

    def __init__(self, folder: str) -> None:
        from splitter.stores.clients import client

        self.folder = folder.rstrip("/")
        self._client, self._root = client(self.folder)
        self._shown = without_secrets(self.folder)
        # only HTTP needs quoted names
        self._quoted = folder.lower().startswith(("http:", "https:"))

    def location(self, name: str) -> str:
        return f"{self._shown}/{name}"

    def exists(self, name: str) -> bool:
        """Return whether a file exists; for a folder, whether it contains anything."""
        return self._asked(name, self._client.exists)

    def refuse_nowhere(self) -> None:
        """Refuse a missing bucket, because most clients only say that the object is missing."""
        from splitter.stores.faults import code_of
        from splitter.stores.objects import NO_BUCKET, NO_SUCH_BUCKET, objects_at

        try:
            if self.folder.startswith(("s3:", "s3a:")):
                objects_at(self.folder).any_name()
        except Exception as error:  # noqa: BLE001 - clients of stores may raise anything
            if code_of(error) == NO_SUCH_BUCKET:
                raise Refused(f"{self._shown}: {NO_BUCKET}") from None

    def read(self, name: str, *, gaps: bool = False) -> bytes:  # noqa: ARG002 - an object has no gaps
        return self.part(name, None, None)

    def part(self, name: str, start: int | None, end: int | None) -> bytes:
        """Return the bytes of an object from `start` to `end`, in one request."""
        return self._asked(name, self._client.cat_file, start=start, end=end)

    def open(self, name: str, *, gaps: bool = True) -> BinaryIO:  # noqa: ARG002 - an object has no gaps
        """Open a seekable object."""
        from splitter.stores.files import open_remote

        file = open_remote(self._client, self._path(name), lambda error: self._fault(name, error))
        return cast("BinaryIO", file)

    def parts(self, parts: Sequence[ByteRange]) -> list[bytes]:
        """Read many ranges, in as few requests as possible, several at the same time."""
        from splitter.stores.retries import with_retries

        groups = _together(parts)
        paths = [self._path(group[0].name) for group in groups]
        starts, ends = [group[0].start for group in groups], [group[-1].end for group in groups]
        try:
            found = with_retries(self._client.cat_ranges, paths, starts, ends, on_error="raise")
        except Exception as error:  # clients of stores may raise anything
            raise self._fault(parts[0].name, error) from error
        return [
            content[part.start - group[0].start : part.end - group[0].start]
            for group, content in zip(groups, found, strict=True)
            for part in group
        ]

    def _path(self, name: str) -> str:
        return f"{self._root}/{quote(name) if self._quoted else name}"

    def _asked(self, name: str, call: Callable[..., Any], **how: Any) -> Any:  # noqa: ANN401 - what the client returns
        from splitter.stores.retries import with_retries

        try:
            return with_retries(call, self._path(name), **how)
        except Exception as error:  # clients of stores may raise anything
            raise self._fault(name, error) from error

    def _fault(self, name: str, error: Exception) -> StorageError:
        from splitter.stores.faults import reason

        return StorageError(f"cannot read {self.location(name)}: {reason(error)}")

    def table(self, name: str) -> Any:  # noqa: ANN401 - a file of fsspec
        return self.open(name)

    def ranges(self, name: str) -> ReadRange:
        # servers treat an empty range as an error
        return lambda start, size: self.part(name, start, start + size) if size else b""
