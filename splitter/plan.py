"""Plan batches: which inputs a worker takes at a time."""

import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from splitter.batch import Batch, Failure, Job, Report
from splitter.inputs import Survey, Table
from splitter.manifest import Journal, State


class Planner:
    """Makes batches of what is to be done, the largest inputs first.

    Without a fixed size it starts with small batches, learns from their reports how long an input
    takes, and makes batches long enough that dispatch and commit cost little, and small enough that
    the work stays spread to the end and little is lost in a crash.
    """

    MOST_INPUTS = 50_000
    SHORTEST_SECONDS, LONGEST_SECONDS = 1.0, 60.0
    TOGETHER_INPUTS = 32
    ALIKE_BYTES = 1 << 16

    def __init__(  # noqa: PLR0913
        self,
        job: Job,
        table: Table,
        found: Survey,
        state: State,
        journal: Journal,
        *,
        workers: int,
        size: int | None,
        failures: Mapping[int, Failure] | None = None,
    ) -> None:
        """Plan the inputs that `state` says are to be done."""
        self._table, self._found, self._state, self._journal = table, found, state, journal
        self._generation, self._workers = journal.next_generation, max(1, workers)
        # parts do not know each other's generation
        self._mark = f"{job.storage.part.mark}-" if job.storage.part else ""
        self._size = size or (self.TOGETHER_INPUTS if job.dataset.process_batch else None)
        self._failures = failures or {}
        self._began = time.monotonic()
        self._seconds_per_input = 0.0
        self._order = self._largest_first(state.todo, found.sizes[state.todo])
        self._stale = np.isin(self._order, state.changed)

    @classmethod
    def _largest_first(cls, inputs: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        """Sorted by size, except that what is small or nearly the same stays in list order."""
        steps = np.where(sizes < cls.ALIKE_BYTES, 0, np.log2(np.maximum(sizes, 1)).astype("i8"))
        return inputs[np.argsort(-steps, kind="stable")]

    @property
    def batches(self) -> int:
        """How many batches there will be: exact for a fixed size, else at least so many."""
        return math.ceil(len(self._order) / (self._size or self._first_size()))

    def learn(self, report: Report) -> None:
        """Take the time of a finished batch into account."""
        if report.inputs:
            self._seconds_per_input = report.seconds / report.inputs

    def __iter__(self) -> Iterator[Batch]:
        """The batches, each made when a worker is free to take it."""
        start = number = 0
        while start < len(self._order):
            stop = min(len(self._order), start + self._next_size(len(self._order) - start))
            yield self._batch(f"{self._generation:06d}-{self._mark}{number:06d}", start, stop)
            start, number = stop, number + 1

    def _first_size(self) -> int:
        return max(1, min(32, len(self._order) // (self._workers * 32)))

    def _next_size(self, left: int) -> int:
        if self._size:
            return self._size
        if not self._seconds_per_input:
            return self._first_size()
        elapsed = time.monotonic() - self._began
        seconds = min(self.LONGEST_SECONDS, max(self.SHORTEST_SECONDS, elapsed / 50))
        spread = math.ceil(left / (self._workers * 4))
        return max(1, min(int(seconds / self._seconds_per_input), spread, self.MOST_INPUTS))

    def _batch(self, name: str, start: int, stop: int) -> Batch:
        chosen = np.sort(self._order[start:stop])
        stale: dict[int, list[str]] = {}
        if self._stale[start:stop].any():
            places = np.flatnonzero(np.isin(chosen, self._state.changed))
            outputs = self._journal.outputs_of_each(self._state.entries[chosen[places]])
            stale = dict(zip(places.tolist(), outputs, strict=True))
        batch = make_batch(name, self._table, self._found, chosen)
        known = self._failures
        if known:
            failures = {place: known[key] for place, key in enumerate(batch.keys) if key in known}
            batch = replace(batch, failures=failures)
        return replace(batch, stale=stale)


def make_batch(name: str, table: Table, found: Survey, chosen: np.ndarray) -> Batch:
    """Some inputs of the list, by their numbers in ascending order."""
    texts = [text for first, last in _runs(chosen) for text in table.texts(first, last + 1)]
    keys, sizes, times = (column[chosen].tolist() for column in (found.keys, found.sizes, found.changed_ns))
    return Batch(name, texts, keys, sizes, times)


def _runs(numbers: np.ndarray) -> Iterator[tuple[int, int]]:
    """The first and the last of each run of successive numbers."""
    breaks = np.flatnonzero(np.diff(numbers) != 1)
    firsts = np.concatenate((numbers[:1], numbers[breaks + 1]))
    lasts = np.concatenate((numbers[breaks], numbers[-1:]))
    return zip(firsts.tolist(), lasts.tolist(), strict=True)
