"""Keep the frames of a stream that may still be needed: in memory, and in files if they are too many.

start                                        stop
  | in files | in files | in memory | in memory |
"""

import os
import tempfile
from collections.abc import Callable, Iterator

import numpy as np

from splitter.audio.decoders import read_exactly

IN_MEMORY = 1 << 26
# a file frees its disk space only when all of it is forgotten, so files are limited to this size
FILE_BYTES = 1 << 28

Folder = Callable[[], str | os.PathLike[str] | None]


class Tape:
    """A stream that is read, and forgotten, on demand.

    Attributes:
        start: The first frame that is not forgotten.
        stop: The frame after the last one that was read.
        ended: Whether the stream has no more frames.
    """

    def __init__(self, read: Callable[[int], np.ndarray], block: int, folder: Folder) -> None:
        """Read `block` frames at a time; `folder` returns the folder for temporary files."""
        self._read, self._block, self._folder = read, block, folder
        # parts in files come first
        self._parts: list[np.ndarray | _FileBlock] = []
        self._stored = self._in_memory = 0
        self._file: _File | None = None
        self._needed = 0
        self._none = np.empty((0, 0))
        self.start = self.stop = 0
        self.ended = False

    def reach(self, frame: int) -> int:
        """Read on until `frame` frames have been read; return how many exist, at most `frame`."""
        while self.stop < frame and not self.ended:
            part = self._read(self._block)
            self.ended = not len(part)
            self.stop += len(part)
            self._none = part[:0]
            if not self.ended:
                self._parts.append(part)
                self._in_memory += part.nbytes
            self.forget(self._needed)
            if self._in_memory > IN_MEMORY:
                self._store()
        return min(self.stop, frame)

    def take(self, start: int, stop: int) -> np.ndarray:
        """Return the frames [start, stop) as one array."""
        blocks = list(self.blocks(start, stop))
        if len(blocks) == 1:
            return blocks[0]
        return np.concatenate(blocks) if blocks else self._none

    def blocks(self, start: int, stop: int) -> Iterator[np.ndarray]:
        """Yield the frames [start, stop) in parts."""
        if not self.start <= start <= stop <= self.stop:
            raise ValueError(f"frames {start} to {stop} of {self.start} to {self.stop}")
        at = self.start
        for part in self._parts:
            first, last = max(0, start - at), min(len(part), stop - at)
            if first < last:
                yield part[first:last]
            at += len(part)

    def forget(self, frame: int) -> None:
        """Drop the parts that end before a frame, which nobody will need again."""
        self._needed = max(self._needed, frame)
        while len(self._parts) > 1 and self.start + len(self._parts[0]) <= self._needed:
            part = self._parts.pop(0)
            self.start += len(part)
            if isinstance(part, np.ndarray):
                self._in_memory -= part.nbytes
            else:
                self._stored -= 1
        if not self._stored:
            # the newest file goes with its last part, too
            self._file = None

    def _store(self) -> None:
        """Move the older half of the frames in memory to files."""
        while self._in_memory > IN_MEMORY // 2 and self._stored < len(self._parts) - 1:
            part = self._parts[self._stored]
            assert isinstance(part, np.ndarray)  # noqa: S101 - parts in files come first
            if self._file is None or self._file.size >= FILE_BYTES:
                self._file = _File(self._folder())
            self._parts[self._stored] = _FileBlock(part, self._file)
            self._stored += 1
            self._in_memory -= part.nbytes


class _File:
    """A temporary file without a name, which disappears with the last part that is in it."""

    def __init__(self, folder: str | os.PathLike[str] | None) -> None:
        self._file = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115 - see __del__
        self.size: int = 0

    def append(self, content: memoryview) -> int:
        """Append bytes; return where they begin."""
        at = self.size
        self._file.seek(at)
        while content:
            written: int = self._file.write(content)
            self.size += written
            content = content[written:]
        return at

    def read(self, at: int, buffer: memoryview) -> None:
        self._file.seek(at)
        read_exactly(self._file, buffer)

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            self._file.close()


class _FileBlock:
    """A part of a stream that is in a file."""

    def __init__(self, frames: np.ndarray, file: _File) -> None:
        self._count, self._dtype = len(frames), frames.dtype
        self._channels = frames.shape[1]
        self._file = file
        self._at = file.append(np.ascontiguousarray(frames).reshape(-1).view(np.uint8).data)

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, frames: slice) -> np.ndarray:
        first, last, _ = frames.indices(self._count)
        found = np.empty((last - first, self._channels), self._dtype)
        at = self._at + first * self._channels * self._dtype.itemsize
        self._file.read(at, found.reshape(-1).view(np.uint8).data)
        return found
