"""The files of an output folder, here or at a URL."""

import contextlib
import io
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

# of a store, what is read at a time, and how much may be read in vain between two outputs
READ_AHEAD, GAP = 16 << 20, 1 << 16


class ByteRange(NamedTuple):
    """Some bytes of a file."""

    name: str
    start: int
    end: int


def _together(parts: Sequence[ByteRange]) -> list[list[ByteRange]]:
    """Those that follow each other closely."""
    groups: list[list[ByteRange]] = []
    for part in parts:
        last = groups[-1][-1] if groups else None
        if last and last.name == part.name and 0 <= part.start - last.end <= GAP:
            groups[-1].append(part)
        else:
            groups.append([part])
    return groups


# -- where the folder is -----------------------------------------------------------------------------------


def files_at(folder: str) -> "Files":
    """The files of an output folder, wherever it is; at a URL its client is of this process only."""
    return RemoteFiles(folder) if is_url(folder) else LocalFiles(folder)


class Files(ABC):
    """The files of an output folder, by their names in it.

    Attributes:
        folder: Where it is, for any process: a whole path, or a URL.
    """

    folder: str

    @abstractmethod
    def exists(self, name: str) -> bool:
        """Whether there is a file or a folder of that name."""

    def refuse_nowhere(self) -> None:  # noqa: B027 - of most places there is nothing to say
        """Refuse a bucket that is not there, where a file was not found."""

    @abstractmethod
    def location(self, name: str) -> str:
        """What messages call a file."""

    @abstractmethod
    def read(self, name: str, *, gaps: bool = False) -> bytes:
        """A whole file; `gaps` are for where its size is known."""

    def size(self, name: str) -> int | None:  # noqa: ARG002 - elsewhere it would be a request
        """The bytes of a file, where that is known before it is read."""
        return None

    @abstractmethod
    def open(self, name: str, *, gaps: bool = True) -> BinaryIO:
        """A file to read and to seek in; without `gaps`, none that is large by what was never written."""

    @abstractmethod
    def table(self, name: str) -> Any:  # noqa: ANN401 - whatever Arrow reads from
        """A file as Arrow takes it, which closes it when it is done with it."""

    @abstractmethod
    def ranges(self, name: str) -> "Ranges":
        """A file of which parts will be read."""


class Ranges(ABC):
    """A file of which parts are read."""

    @abstractmethod
    def read(self, start: int, size: int) -> bytes:
        """Some bytes; fewer at the end of the file."""


class LocalFiles(Files):
    """In a folder of this machine."""

    def __init__(self, folder: str) -> None:
        """Keep to this folder, wherever the process goes; no link in it is followed."""
        self.folder = os.path.abspath(os.path.expanduser(without_scheme(folder)))
        self._tree = Tree(self.folder)
        # a file that the user has named is taken as it is
        self.named = ""

    def location(self, name: str) -> str:
        """The path."""
        return f"{self.folder}/{name}"

    def exists(self, name: str) -> bool:
        """Whether it is there."""
        if name == self.named:
            return os.path.exists(self.location(name))
        try:
            return self._tree.exists(name)
        except OSError as error:
            raise self.fault(name, error) from error

    def read(self, name: str, *, gaps: bool = False) -> bytes:
        """A whole file; `gaps` are for where its size is known."""
        with self.open(name, gaps=gaps) as file:
            try:
                return file.read()
            except OSError as error:
                raise self.fault(name, error) from error

    def size(self, name: str) -> int | None:
        """A look, which opens nothing; None where there is no plain file."""
        with contextlib.suppress(OSError):
            found = self._tree.look(name)
            return found.st_size if stat.S_ISREG(found.st_mode) else None
        return None

    def open(self, name: str, *, gaps: bool = True) -> BinaryIO:
        """A plain file; anything else could block."""
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
        """A file cannot be read."""
        reason = error.strerror or error
        if isinstance(error, FileNotFoundError):
            reason = "is not there"
        elif isinstance(error, InTheWay) and error.is_link:
            where = "it" if error.path == self.location(name) else error.path
            reason = (
                f"{where} is a link, and none in an output folder is followed; put there what it leads to "
                "(git annex unlock; with DVC, cache.type copy)"
            )
        return StorageError(f"cannot read {self.location(name)}: {reason}")

    def table(self, name: str) -> Any:  # noqa: ANN401 - of Arrow
        """A file of Arrow's own."""
        import pyarrow as pa

        self.open(name).close()
        return pa.OSFile(self.location(name))

    def ranges(self, name: str) -> "_LocalRanges":
        """Read by position, which threads may share."""
        with self.open(name) as file:
            return _LocalRanges(self, name, os.dup(file.fileno()))


class _LocalRanges(Ranges):
    def __init__(self, files: LocalFiles, name: str, descriptor: int) -> None:
        self._files, self._name, self._descriptor = files, name, descriptor
        # closed when the last thread is done with it, or at the end
        weakref.finalize(self, os.close, descriptor)

    def read(self, start: int, size: int) -> bytes:
        try:
            # memory is taken before anything is read
            size = max(0, min(size, os.fstat(self._descriptor).st_size - start))
            content = os.pread(self._descriptor, size, start)
            while 0 < len(content) < size and (more := self._rest(start, size, len(content))):
                content += more
        except OSError as error:
            raise self._files.fault(self._name, error) from error
        return content

    def _rest(self, start: int, size: int, known: int) -> bytes:
        # a system call reads two gigabytes at most
        return os.pread(self._descriptor, size - known, start + known)


class RemoteFiles(Files):
    """At a URL."""

    def __init__(self, folder: str) -> None:
        """The client of the store is made in this process."""
        from splitter.stores.clients import client

        self.folder = folder.rstrip("/")
        self._client, self._root = client(self.folder)
        self._shown = without_secrets(self.folder)
        # elsewhere a name is taken as it is
        self._quoted = folder.lower().startswith(("http:", "https:"))

    def location(self, name: str) -> str:
        """The URL."""
        return f"{self._shown}/{name}"

    def exists(self, name: str) -> bool:
        """Whether it is there; of a folder, whether anything is in it."""
        found: bool = self._asked(name, self._client.exists)
        return found

    def refuse_nowhere(self) -> None:
        """To most clients its objects are just not there."""
        from splitter.stores.objects import NO_BUCKET, NO_SUCH_BUCKET, code_of, objects_at

        try:
            if self.folder.startswith(("s3:", "s3a:")):
                objects_at(self.folder).any_name()
        except Exception as error:  # noqa: BLE001 - the client of a store raises what it likes
            if code_of(error) == NO_SUCH_BUCKET:
                raise Refused(f"{self._shown}: {NO_BUCKET}") from None

    def read(self, name: str, *, gaps: bool = False) -> bytes:  # noqa: ARG002 - an object has none
        """A whole object."""
        return self.part(name, None, None)

    def part(self, name: str, start: int | None, end: int | None) -> bytes:
        """Some bytes of an object, in one request."""
        content: bytes = self._asked(name, self._client.cat_file, start=start, end=end)
        return content

    def open(self, name: str, *, gaps: bool = True) -> BinaryIO:  # noqa: ARG002 - an object has none
        """An object to seek in."""
        return cast(
            "BinaryIO", _RemoteFile(self._asked(name, self._client.open, mode="rb"), self.location(name))
        )

    def parts(self, parts: Sequence[ByteRange]) -> list[bytes]:
        """Many parts, in as few requests as can be, some of them at the same time."""
        from splitter.stores.clients import reason, with_retries

        groups = _together(parts)
        paths = [self._path(group[0].name) for group in groups]
        starts, ends = [group[0].start for group in groups], [group[-1].end for group in groups]
        try:
            found = with_retries(self._client.cat_ranges, paths, starts, ends, on_error="raise")
        except Exception as error:  # the client of a store raises what it likes
            raise StorageError(f"cannot read {self.location(parts[0].name)}: {reason(error)}") from error
        return [
            content[part.start - group[0].start : part.end - group[0].start]
            for group, content in zip(groups, found, strict=True)
            for part in group
        ]

    def _path(self, name: str) -> str:
        return f"{self._root}/{quote(name) if self._quoted else name}"

    def _asked(self, name: str, call: Callable[..., Any], **how: Any) -> Any:  # noqa: ANN401 - as the client
        from splitter.stores.clients import reason, with_retries

        try:
            return with_retries(call, self._path(name), **how)
        except Exception as error:  # the client of a store raises what it likes
            raise StorageError(f"cannot read {self.location(name)}: {reason(error)}") from error

    def table(self, name: str) -> Any:  # noqa: ANN401 - of fsspec
        """The same."""
        return self.open(name)

    def ranges(self, name: str) -> "_RemoteRanges":
        """Each part is one request."""
        return _RemoteRanges(self, name)


class _RemoteFile(io.RawIOBase):
    """An open object; where the store fails for a moment, it is read on from there."""

    def __init__(self, file: Any, location: str) -> None:  # noqa: ANN401 - fsspec says nothing of its types
        self._file, self._location = file, location

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return int(self._file.seek(offset, whence))

    def tell(self) -> int:
        return int(self._file.tell())

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 - a buffer
        from splitter.stores.clients import read_from, reason

        try:
            content = read_from(self._file, self._file.tell(), len(buffer))
        except Exception as error:  # the client of a store raises what it likes
            raise StorageError(f"cannot read {self._location}: {reason(error)}") from error
        buffer[: len(content)] = content
        return len(content)

    def close(self) -> None:
        self._file.close()
        super().close()


class _RemoteRanges(Ranges):
    def __init__(self, files: RemoteFiles, name: str) -> None:
        self._files, self._name = files, name

    def read(self, start: int, size: int) -> bytes:
        # a server takes an empty range for a fault
        return self._files.part(self._name, start, start + size) if size else b""
