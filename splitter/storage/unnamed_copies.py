"""Copies of files in one file without a name, which is gone with the process."""

import io
import os
import shutil
import tempfile
from collections.abc import Iterable
from typing import BinaryIO, cast

READ_AT_ONCE = 1 << 20


class Pack:
    """Copies of files, one after the other."""

    def __init__(self) -> None:
        """Make no file before there is a first copy."""
        self._file: BinaryIO | None = None
        self._positions: dict[str, tuple[int, int]] = {}
        self._end = 0

    def __contains__(self, name: str) -> bool:
        """Whether a file was copied."""
        return name in self._positions

    def reserve(self, name: str, size: int) -> None:
        """Make room for a copy."""
        if self._file is None:
            self._file = cast("BinaryIO", tempfile.TemporaryFile(prefix="splitter-", buffering=0))  # noqa: SIM115
        self._positions[name] = self._end, size
        self._end += size

    def forget(self, names: Iterable[str]) -> None:
        """Copies that were not finished."""
        for name in names:
            self._positions.pop(name, None)

    def write(self, name: str, at: int, content: bytes) -> None:
        """Some bytes of a copy."""
        assert self._file is not None  # noqa: S101 - made with the room
        start, _ = self._positions[name]
        while content:
            written = os.pwrite(self._file.fileno(), content, start + at)
            content, at = content[written:], at + written

    def open(self, name: str) -> BinaryIO:
        """A copy to read from."""
        assert self._file is not None  # noqa: S101 - made with the room
        return cast("BinaryIO", io.BufferedReader(Slice(self._file, *self._positions[name])))

    def close(self) -> None:
        """Give back the disk."""
        if self._file is not None:
            self._file.close()

    def __del__(self) -> None:
        """Whoever only looks closes nothing."""
        if hasattr(self, "_file"):
            self.close()


class Copy:
    """The copy of one file, for what asks for a path."""

    def __init__(self, content: BinaryIO) -> None:
        """Copy what there is to read."""
        self._file = cast("BinaryIO", tempfile.TemporaryFile(prefix="splitter-"))  # noqa: SIM115 - see close
        shutil.copyfileobj(content, self._file, READ_AT_ONCE)

    @property
    def path(self) -> str:
        """Its descriptor's, which is good for this process, as long as this object is there."""
        self._file.seek(0)
        return f"/dev/fd/{self._file.fileno()}"

    def close(self) -> None:
        """Give back the disk."""
        self._file.close()

    def __del__(self) -> None:
        """Whoever only looks closes nothing."""
        if hasattr(self, "_file"):
            self.close()


class Slice(io.RawIOBase):
    """Some bytes of a file, as a file."""

    def __init__(self, file: BinaryIO, start: int, size: int) -> None:
        """They must be there as long as this is read."""
        self._file, self._start, self._size = file, start, size
        self._at = 0

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """As in a file."""
        origin = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        self._at = max(0, origin + offset)
        return self._at

    def tell(self) -> int:
        """As in a file."""
        return self._at

    def readinto(self, buffer: "io.WriteableBuffer") -> int:  # type: ignore[name-defined]
        """As in a file."""
        view = memoryview(buffer)
        content = os.pread(
            self._file.fileno(), max(0, min(len(view), self._size - self._at)), self._start + self._at
        )
        view[: len(content)] = content
        self._at += len(content)
        return len(content)
