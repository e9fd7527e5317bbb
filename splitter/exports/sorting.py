"""Lines of a file, sorted in bounded memory as `LC_ALL=C sort` does: by their bytes."""

import heapq
import os
import tempfile
from typing import BinaryIO

# lines that are sorted at a time; each takes some 200 bytes
MOST_IN_MEMORY = 200_000


class SortedFile:
    """A file whose lines are written in any order."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._lines: list[bytes] = []
        self._runs: list[BinaryIO] = []

    def write(self, line: str) -> None:
        """Add a line, which ends in a newline."""
        self._lines.append(line.encode("utf-8", "surrogateescape"))
        if len(self._lines) == MOST_IN_MEMORY:
            self._spill()

    def _spill(self) -> None:
        # beside the file, where there is room for as much again
        run = tempfile.TemporaryFile(dir=os.path.dirname(self._path))  # noqa: SIM115 - closed at the end
        self._lines.sort()
        run.writelines(self._lines)
        run.seek(0)
        self._runs.append(run)
        self._lines = []

    def close(self) -> None:
        """Write the file."""
        self._lines.sort()
        with open(self._path, "wb") as file:
            file.writelines(heapq.merge(*self._runs, self._lines))
        for run in self._runs:
            run.close()
        self._lines, self._runs = [], []
