"""The content of an output, of whatever kind, to a file; its size and checksum are taken on the way."""

import contextlib
import io
import os
import shutil

import xxhash

from splitter.errors import BadResult, StorageError
from splitter.records import Content, Scratch

READ_AT_ONCE = 1 << 20
# small writes are gathered; what is larger goes to the file as it is, without a copy
GATHERED = 1 << 16


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
    return len(content), checksum_of(xxhash.xxh3_128(content))


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
        return raw.end, checksum_of(raw.digest)
    return measure(path)


def _take_file(path: str, source: str, scratch: Scratch) -> tuple[int, str]:
    """Move a file that lies in scratch; copy any other, which may be somebody's original."""
    if not os.path.isfile(source):
        raise BadResult(f"the content of {os.path.basename(path)!r} is the path {source!r}, where no file is")
    if not os.path.islink(source) and os.stat(source).st_nlink == 1 and scratch.holds(source):
        try:
            os.rename(source, path)
        except OSError:
            return _copy(source, path)
        return measure(path)
    return _copy(source, path)


def _copy(source: str, path: str) -> tuple[int, str]:
    with open(source, "rb") as reader:
        return _write_with(path, lambda file: shutil.copyfileobj(reader, file, READ_AT_ONCE))


def measure(path: str) -> tuple[int, str]:
    """The size and the checksum of a file."""
    digest = xxhash.xxh3_128()
    size = 0
    try:
        with open(path, "rb", buffering=0) as file:
            while block := file.read(READ_AT_ONCE):
                digest.update(block)
                size += len(block)
    except OSError as error:
        raise StorageError.of(error, path) from error
    return size, checksum_of(digest)


def checksum_of(digest: xxhash.xxh3_128) -> str:
    """As the manifest has it."""
    return f"xxh128:{digest.hexdigest()}"
