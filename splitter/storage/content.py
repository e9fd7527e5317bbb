"""Write the content of an output, of any kind, to a file or to memory, with its size and checksum."""

import contextlib
import errno
import io
import os
import shutil
from collections.abc import Callable
from typing import BinaryIO

import xxhash

from splitter.errors import BadResult, StorageError
from splitter.records import Content, Deferred, Scratch

READ_AT_ONCE = 1 << 20
# smaller writes are buffered; larger ones go straight to the file, without a copy
GATHERED = 1 << 16


class _Hashing(io.FileIO):
    """A file that computes its checksum while it is written, as long as it is written in sequence."""

    def __init__(self, path: str) -> None:
        super().__init__(path, "w+")
        self.digest = xxhash.xxh3_128()
        self.end = 0
        self.in_sequence = True
        self.fault: OSError | None = None

    def measured(self) -> tuple[int, str]:
        """Return the size and the checksum of the file, once it is closed."""
        return (self.end, checksum_of(self.digest)) if self.in_sequence else measure(str(self.name))

    def write(self, data: "io.ReadableBuffer") -> int:  # type: ignore[name-defined]
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
        """Change the file's size; the checksum is then computed by reading the whole file."""
        self.in_sequence = False
        return super().truncate(size)

    def fileno(self) -> int:
        """Return the descriptor, through which a program or NumPy may write unnoticed."""
        self.in_sequence = False
        return super().fileno()


class Callbacks:
    """A file for C code that writes through callbacks, where a raised error would only be printed.

    The first error is kept, nothing is written after it, and it is raised when the block ends.

    Attributes:
        fault: The first error, if any.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.fault: BaseException | None = None

    def write(self, data: bytes) -> int:
        return self._tried(lambda: self._file.write(data))

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return self._tried(lambda: self._file.seek(offset, whence))

    def tell(self) -> int:
        return self._tried(self._file.tell)

    def _tried(self, call: Callable[[], int]) -> int:
        try:
            return 0 if self.fault else call()
        except BaseException as error:  # noqa: BLE001 - __exit__ raises it
            self.fault = error
            return 0

    def __enter__(self) -> "Callbacks":
        return self

    def __exit__(self, *error: object) -> None:
        """Raise the first error, whatever the code made of it."""
        if self.fault:
            raise self.fault


def write_content(path: str, content: Content, scratch: Scratch) -> tuple[int, str]:
    """Write an output's content to a new file; return its size and checksum.

    The last component of `path` is the name that the recipe gave the output, since errors mention it.
    """
    if isinstance(content, Deferred):
        content = content.made()
    if isinstance(content, str):
        content = _encoded(content, path)
    if isinstance(content, memoryview):
        content = content.tobytes()
    if isinstance(content, (bytes, bytearray)):
        return _write_bytes(path, content)
    if isinstance(content, os.PathLike):
        return _take_file(path, os.fsdecode(content), scratch)
    if callable(content):
        return _write_with(path, content)
    kind = type(content).__name__
    name = os.path.basename(path)
    raise BadResult(f"the content of {name!r} is of type {kind}; expected bytes, str, a path or a callable")


def _encoded(text: str, path: str) -> bytes:
    """Encode a text; refuse one that is the path of a file with the output's name, which is a mistake."""
    name = os.path.basename(path)
    if text.endswith(name) and os.path.basename(text) == name and os.path.isfile(text):
        raise BadResult(
            f"the content of {name!r} is the text {text!r}, and there is a file of that name; "
            f"to store the file itself, give a path: Path({text!r})"
        )
    return text.encode()


def _write_bytes(path: str, content: bytes | bytearray) -> tuple[int, str]:
    # plain system calls: for a short piece, a file object costs as much as the write itself
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
    return len(content), checksum_of(xxhash.xxh3_128(content))


def _write_with(path: str, writer: "Content") -> tuple[int, str]:
    with StorageError.naming(path):
        raw = _Hashing(path)
    _have_written(raw, writer, path)
    return raw.measured()


def _have_written(raw: "_Hashing | _InMemory", writer: "Content", path: str) -> None:
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
        # raised even if the user's code swallowed it: the disk is full, or broken
        raise StorageError.of(raw.fault, path) from raw.fault


# -- content in memory --------------------------------------------------------------------------------------


class _InMemory(io.RawIOBase):
    """A file in memory, which moves to disk if it outgrows its room or its descriptor is needed."""

    def __init__(self, room: memoryview, path: str) -> None:
        self._room, self._path = room, path
        self._at = self.end = 0
        self.file: _Hashing | None = None
        # why there is no file, if it could not be made
        self._unmade: OSError | None = None

    @property
    def fault(self) -> OSError | None:
        return self._unmade or (self.file.fault if self.file else None)

    def readable(self) -> bool:
        return True

    writable = seekable = readable

    def write(self, data: "io.ReadableBuffer") -> int:  # type: ignore[name-defined]
        content = memoryview(data).cast("B")
        stop = self._at + len(content)
        if self.file is None and stop <= len(self._room):
            self._fill_up_to(self._at)
            self._room[self._at : stop] = content
            self._at, self.end = stop, max(stop, self.end)
            return len(content)
        return self._in_file().write(data)

    def readinto(self, buffer: "io.WriteableBuffer") -> int:  # type: ignore[name-defined]
        if self.file is not None:
            return self.file.readinto(buffer) or 0
        view = memoryview(buffer).cast("B")
        count = max(0, min(len(view), self.end - self._at))
        view[:count] = self._room[self._at : self._at + count]
        self._at += count
        return count

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move to a position, which may be past the end."""
        if self.file is not None:
            return self.file.seek(offset, whence)
        at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self.end}[whence]
        if at < 0:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        self._at = at
        return at

    def truncate(self, size: int | None = None) -> int:
        """Cut the file, or extend it with zeros."""
        size = self._at if size is None else size
        if self.file is not None or size > len(self._room):
            return self._in_file().truncate(size)
        self._fill_up_to(size)
        self.end = size
        return size

    def fileno(self) -> int:
        """Move the file to disk, and return its descriptor: programs may write through it."""
        return self._in_file().fileno()

    def close(self) -> None:
        if self.file is not None:
            self.file.close()
        super().close()

    def _fill_up_to(self, end: int) -> None:
        if end > self.end:
            self._room[self.end : end] = bytes(end - self.end)
            self.end = end

    def _in_file(self) -> _Hashing:
        if self.file is None:
            try:
                self.file = _Hashing(self._path)
            except OSError as error:
                self._unmade = error
                raise
            rest = self._room[: self.end]
            while rest:
                # a disk that is nearly full takes a part of it, and refuses the next
                rest = rest[self.file.write(rest) :]
            self.file.seek(self._at)
        return self.file


def hold_content(room: memoryview, path: str, content: Content, scratch: Scratch) -> tuple[int, str, bool]:
    """Write content to memory if it fits, else to a file; return size, checksum, and if it is in memory."""
    if isinstance(content, Deferred):
        content = content.made()
    if isinstance(content, str):
        content = _encoded(content, path)
    if isinstance(content, (bytes, bytearray, memoryview)):
        size = content.nbytes if isinstance(content, memoryview) else len(content)
        if size <= len(room):
            room[:size] = memoryview(content).cast("B") if size else b""
            return size, checksum_of(xxhash.xxh3_128(room[:size])), True
    elif callable(content):
        raw = _InMemory(room, path)
        _have_written(raw, content, path)
        if raw.file is None:
            return raw.end, checksum_of(xxhash.xxh3_128(room[: raw.end])), True
        return (*raw.file.measured(), False)
    elif (
        isinstance(content, os.PathLike) and os.path.isfile(content) and os.path.getsize(content) <= len(room)
    ):
        with open(content, "rb", buffering=0) as file:
            held = hold_content(room, path, lambda target: shutil.copyfileobj(file, target), scratch)
        if _is_left_to_us(os.fsdecode(content), scratch):
            os.unlink(content)
        return held
    return (*write_content(path, content, scratch), False)


def _take_file(path: str, source: str, scratch: Scratch) -> tuple[int, str]:
    """Move a file that is in scratch; copy any other, which may be somebody's original."""
    if not os.path.isfile(source):
        raise BadResult(
            f"the content of {os.path.basename(path)!r} is the path {source!r}, where there is no file"
        )
    if _is_left_to_us(source, scratch):
        with contextlib.suppress(OSError):
            os.rename(source, path)
            return measure(path)
    return _copy(source, path)


def _is_left_to_us(path: str, scratch: Scratch) -> bool:
    return not os.path.islink(path) and os.stat(path).st_nlink == 1 and scratch.holds(path)


def _copy(source: str, path: str) -> tuple[int, str]:
    with open(source, "rb") as reader:
        return _write_with(path, lambda file: shutil.copyfileobj(reader, file, READ_AT_ONCE))


def measure(path: str) -> tuple[int, str]:
    """Return the size and the checksum of a file."""
    with StorageError.naming(path), open(path, "rb", buffering=0) as file:
        return measure_file(file)


def measure_file(file: io.RawIOBase | BinaryIO) -> tuple[int, str]:
    """Return the size and the checksum of a file from its current position to its end."""
    digest = xxhash.xxh3_128()
    size = 0
    while block := file.read(READ_AT_ONCE):
        digest.update(block)
        size += len(block)
    return size, checksum_of(digest)


def checksum_of(digest: xxhash.xxh3_128) -> str:
    """Return a checksum as it appears in the manifest."""
    return f"xxh128:{digest.hexdigest()}"
