"""Lines of a file, sorted in bounded memory as `LC_ALL=C sort` does: by their bytes."""

import heapq
import os
import tempfile
from typing import IO

# lines that are sorted at a time, each of some 200 bytes, and sorted files that are merged at a time
MOST_IN_MEMORY, MOST_RUNS = 50_000, 20


class SortedFile:
    """A file whose lines are written in any order."""

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
        """Write the lines to a temporary file, with those of earlier ones if these are many."""
        few = len(self._runs) < MOST_RUNS
        # beside the file, where there is room for as much again
        run = tempfile.TemporaryFile(dir=os.path.dirname(self._path))  # noqa: SIM115 - closed at the end
        earlier, self._runs = (self._runs, []) if few else ([], self._runs)
        self._merge_to(run)
        run.seek(0)
        self._runs = [*earlier, run]

    def close(self) -> None:
        """Write the file."""
        with open(self._path, "wb") as file:
            self._merge_to(file)

    def _merge_to(self, file: IO[bytes]) -> None:
        self._lines.sort()
        file.writelines(heapq.merge(*self._runs, self._lines))
        for run in self._runs:
            run.close()
        self._lines, self._runs = [], []
