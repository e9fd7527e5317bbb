"""The sink of loose files: `<path of the input, without extension>/<output name>`."""

import contextlib
import io
import os
import shutil
import stat
from collections.abc import Collection

import xxhash

from splitter.errors import BadResult, NameTaken, StorageError
from splitter.records import Content, Scratch
from splitter.sinks.base import Sink, SinkWriter, Stored
from splitter.storage import LocalStorage

LONGEST_PATH, LONGEST_PART = 4000, 255
# so many characters are at most 252 bytes
SHORT_PATH = 63
READ_AT_ONCE = 1 << 20
# small writes are gathered; what is larger goes to the file as it is, without a copy
GATHERED = 1 << 16


class FilesSink(Sink):
    """Each output is a file of its own, in the folder of its input."""

    def open(self, storage: LocalStorage, batch: str, stale: Collection[str] = ()) -> "FilesWriter":
        """Begin a batch."""
        return FilesWriter(storage, batch, stale)


class FilesWriter(SinkWriter):
    """Stages each input's outputs in a numbered folder, which publishing renames to its final name."""

    def __init__(self, storage: LocalStorage, batch: str, stale: Collection[str] = ()) -> None:
        """Nothing is made on disk before there is a first output."""
        self._stale = set(stale)
        self._there = False
        self._storage = storage
        self._batch = batch
        self._staging = ""
        self._number = 0
        self._current: list[str] = []
        self._kept: list[tuple[str, list[str]]] = []

    def store(self, folder: str, name: str, content: Content, scratch: Scratch) -> Stored:
        """Write one output to staging."""
        output = f"{folder}/{name}"
        if len(output) > SHORT_PATH and _is_too_long(self._storage.path(output)):
            raise BadResult(f"the output's path is too long: {output[:80]}…")
        path = f"{self._folder()}/{name}"
        if not self._current:
            self._there = self._is_there(folder)
        size, checksum = write_content(path, content, scratch)
        if self._there and output not in self._stale:
            self._refuse_taken(output, size, checksum)
        self._current.append(output)
        return Stored(output, size, checksum)

    def _is_there(self, folder: str) -> bool:
        """Whether the folder of an input has something in it, which may be a stranger's."""
        try:
            found = os.lstat(self._storage.path(folder))
        except FileNotFoundError:
            return False
        except NotADirectoryError:
            raise _taken(folder, "lies below a file") from None
        if not stat.S_ISDIR(found.st_mode):
            raise _taken(folder, "is a file, where its folder must be")
        return True

    def _refuse_taken(self, output: str, size: int, checksum: str) -> None:
        """Refuse to replace what no run has made, unless it is the same."""
        path = self._storage.path(output)
        try:
            found = os.lstat(path)
        except FileNotFoundError:
            return
        beside = (name for name in self._stale if os.path.dirname(name) == os.path.dirname(output))
        if any(os.path.samestat(found, os.lstat(self._storage.path(name))) for name in beside
               if self._storage.exists(name)):  # fmt: skip
            # another name of it, where case does not count
            return
        if not stat.S_ISREG(found.st_mode) or found.st_size != size or _measure(path)[1] != checksum:
            raise _taken(output, "is there already")

    def _folder(self) -> str:
        if not self._staging:
            self._staging = self._storage.stage(self._batch)
        path = f"{self._staging}/{self._number}"
        if not self._current:
            try:
                os.makedirs(path, exist_ok=True)
            except OSError as error:
                raise StorageError.of(error, path) from error
        return path

    def drop_input(self) -> None:
        """Remove the input's staged files."""
        if self._staging:
            shutil.rmtree(f"{self._staging}/{self._number}", ignore_errors=True)
            # the next input has a folder of its own, even if this one could not be removed
            self._number += 1
        self._current = []

    def keep_input(self) -> None:
        """Remember the input's files for publishing."""
        if self._current:
            self._kept.append((f"{self._staging}/{self._number}", self._current))
            self._current = []
            self._number += 1

    def names(self) -> list[str]:
        """All outputs of the inputs that were kept."""
        return [name for _, names in self._kept for name in names]

    def publish(self) -> None:
        """Move each input's folder into place."""
        for staged, names in self._kept:
            self._storage.publish(staged, names)


def _taken(name: str, why: str) -> NameTaken:
    return NameTaken(
        f"{name} in the output folder {why}, and no run has made it; move it away, and run again with "
        "--retry-failed"
    )


def _is_too_long(path: str) -> bool:
    """Whether a file system would not take the path, or one of its parts."""
    name = path.encode("utf-8", "surrogateescape")
    return len(name) > LONGEST_PATH or max(map(len, name.split(b"/"))) > LONGEST_PART


# -- content of any kind, to a file ------------------------------------------------------------------------


class _Hashing(io.FileIO):
    """A file that takes the checksum of what is written, as long as it is written in sequence."""

    def __init__(self, path: str) -> None:
        super().__init__(path, "w+")
        self.digest = xxhash.xxh3_128()
        self.end = 0
        self.in_sequence = True
        self.fault: OSError | None = None

    def write(self, data: "io.ReadableBuffer") -> int:  # type: ignore[name-defined]
        """Write, and hash what was written."""
        self.in_sequence = self.in_sequence and self.tell() == self.end
        try:
            written = super().write(data)
        except OSError as error:
            self.fault = error
            raise
        if self.in_sequence:
            self.digest.update(memoryview(data)[:written])
            self.end += written
        return written

    def truncate(self, size: int | None = None) -> int:
        """Cut the file; the checksum is then taken from the whole."""
        self.in_sequence = False
        return super().truncate(size)

    def fileno(self) -> int:
        """Give the descriptor, to which a program or NumPy may write past this object."""
        self.in_sequence = False
        return super().fileno()


def write_content(path: str, content: Content, scratch: Scratch) -> tuple[int, str]:
    """Write an output's content to a new file; returns its size and checksum."""
    if isinstance(content, str):
        content = content.encode()
    if isinstance(content, memoryview):
        content = content.tobytes()
    if isinstance(content, (bytes, bytearray)):
        return _write_bytes(path, content)
    if isinstance(content, os.PathLike):
        return _take_file(path, os.fsdecode(content), scratch)
    if callable(content):
        return _write_with(path, content)
    kind = type(content).__name__
    raise BadResult(
        f"the content of {os.path.basename(path)!r} is a {kind}; expected bytes, str, a path or a callable"
    )


def _write_bytes(path: str, content: bytes | bytearray) -> tuple[int, str]:
    # in the fewest calls: for a short piece a file object costs as much as the writing
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
        try:
            written = os.write(descriptor, content)
            while written < len(content):
                written += os.write(descriptor, memoryview(content)[written:])
        finally:
            os.close(descriptor)
    except OSError as error:
        raise StorageError.of(error, path) from error
    return len(content), _checksum(xxhash.xxh3_128(content))


def _write_with(path: str, writer: "Content") -> tuple[int, str]:
    try:
        raw = _Hashing(path)
    except OSError as error:
        raise StorageError.of(error, path) from error
    file = io.BufferedRandom(raw, GATHERED)
    try:
        with file:
            writer(file)  # type: ignore[operator,misc]
    except BaseException:
        with contextlib.suppress(OSError):
            raw.close()
        if raw.fault is None:
            raise
    if raw.fault is not None:
        # whatever the user's code made of it: the disk is full, or broken
        raise StorageError.of(raw.fault, path) from raw.fault
    if raw.in_sequence:
        return raw.end, _checksum(raw.digest)
    return _measure(path)


def _take_file(path: str, source: str, scratch: Scratch) -> tuple[int, str]:
    """Move a file that lies in scratch; copy any other, which may be somebody's original."""
    if not os.path.isfile(source):
        raise BadResult(f"the content of {os.path.basename(path)!r} is the path {source!r}, where no file is")
    if not os.path.islink(source) and os.stat(source).st_nlink == 1 and scratch.holds(source):
        try:
            os.rename(source, path)
        except OSError:
            return _copy(source, path)
        return _measure(path)
    return _copy(source, path)


def _copy(source: str, path: str) -> tuple[int, str]:
    with open(source, "rb") as reader:
        return _write_with(path, lambda file: shutil.copyfileobj(reader, file, READ_AT_ONCE))


def _measure(path: str) -> tuple[int, str]:
    digest = xxhash.xxh3_128()
    size = 0
    try:
        with open(path, "rb", buffering=0) as file:
            while block := file.read(READ_AT_ONCE):
                digest.update(block)
                size += len(block)
    except OSError as error:
        raise StorageError.of(error, path) from error
    return size, _checksum(digest)


def _checksum(digest: xxhash.xxh3_128) -> str:
    return f"xxh128:{digest.hexdigest()}"
