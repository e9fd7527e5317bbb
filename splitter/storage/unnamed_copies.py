"""Copies of files in one file without a name, which is gone with the process."""

import io
import os
import tempfile
from collections.abc import Iterable
from typing import BinaryIO, cast

from splitter.stores.files import RangeFile


def write_at(descriptor: int, content: bytes, at: int) -> None:
    """Write all of some bytes, in as many calls as the system needs."""
    while content:
        written = os.pwrite(descriptor, content, at)
        content, at = content[written:], at + written


class Pack:
    """Copies of files, one after the other."""

    def __init__(self) -> None:
        self._file: BinaryIO | None = None
        self._positions: dict[str, tuple[int, int]] = {}
        self._end = 0

    def __contains__(self, name: str) -> bool:
        """Return whether a file was copied."""
        return name in self._positions

    def reserve(self, name: str, size: int) -> None:
        """Make room for a copy."""
        if self._file is None:
            self._file = cast("BinaryIO", tempfile.TemporaryFile(prefix="splitter-", buffering=0))  # noqa: SIM115
        self._positions[name] = self._end, size
        self._end += size

    def forget(self, names: Iterable[str]) -> None:
        """Forget copies that were not finished."""
        for name in names:
            self._positions.pop(name, None)

    def write(self, name: str, at: int, content: bytes) -> None:
        """Write some bytes of a copy."""
        assert self._file is not None  # noqa: S101 - made with the room
        start, _ = self._positions[name]
        write_at(self._file.fileno(), content, start + at)

    def open(self, name: str) -> BinaryIO:
        """Open a copy to read."""
        assert self._file is not None  # noqa: S101 - made with the room
        file, (start, size) = self._file, self._positions[name]

        def read_at(position: int, most: int) -> bytes:
            return os.pread(file.fileno(), max(0, min(most, size - position)), start + position)

        return cast("BinaryIO", io.BufferedReader(RangeFile(read_at, lambda: size)))

    def close(self) -> None:
        """Give back the disk."""
        if self._file is not None:
            self._file.close()

    def __del__(self) -> None:
        """Close, since whoever only looks does not."""
        if hasattr(self, "_file"):
            self.close()
