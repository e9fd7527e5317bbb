"""A file whose lines are sorted in bounded memory, by their bytes, as `LC_ALL=C sort` does."""

import heapq
import os
import tempfile
from typing import IO

# the most lines to sort in memory, of some 200 bytes each, and the most sorted files to merge at a time
MOST_IN_MEMORY, MOST_RUNS = 50_000, 20


class SortedFile:
    """A file that takes lines in any order, and has them sorted when it is closed."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._lines: list[bytes] = []
        self._runs: list[IO[bytes]] = []

    def write(self, line: str) -> None:
        """Add a line, which ends in a newline."""
        self._lines.append(line.encode("utf-8", "surrogateescape"))
        if len(self._lines) == MOST_IN_MEMORY:
            self._spill()

    def _spill(self) -> None:
        """Write the lines to a temporary file; if there are many of these already, merge them into it."""
        few = len(self._runs) < MOST_RUNS
        # next to the file, since its disk is likely to have room for the lines twice
        run = tempfile.TemporaryFile(dir=os.path.dirname(self._path))  # noqa: SIM115 - closed at the end
        earlier, self._runs = (self._runs, []) if few else ([], self._runs)
        self._merge_to(run)
        run.seek(0)
        self._runs = [*earlier, run]

    def close(self) -> None:
        """Write the sorted file."""
        with open(self._path, "wb") as file:
            self._merge_to(file)

    def _merge_to(self, file: IO[bytes]) -> None:
        self._lines.sort()
        file.writelines(heapq.merge(*self._runs, self._lines))
        for run in self._runs:
            run.close()
        self._lines, self._runs = [], []
