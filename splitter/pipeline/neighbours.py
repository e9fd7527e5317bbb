"""What the drivers of stages tell each other while they are at work: a few numbers, and keys.

All this only saves time, since the commit records decide: without it, a stage would begin when the one
before has ended.
"""

import contextlib
import mmap
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from splitter.errors import SplitterError
from splitter.inputs.stages import Committed, StageOutputs
from splitter.ledger.journal import INDEX, MERGED, Journal
from splitter.ledger.list_copy import stored_rows
from splitter.ledger.manifest import union_of
from splitter.ledger.protocol import BEGUN, generation_of
from splitter.ledger.records import DONE, RowColumns
from splitter.pipeline.definition import Pipeline, Stage
from splitter.storage.opening import storage_of
from splitter.system.memory import nameless_file
from splitter.text.urls import is_url

# a stage that has not ended; that has ended with all inputs done, skipped or failed; with something left
AT_WORK, COMPLETE, INCOMPLETE = range(3)
_DECLINED = -1
# seconds between looks at the records of a stage; requests to a store cost money
_OFTEN, _SELDOM = 0.2, 2.0
# about how many outputs are passed on at once, since their rows are then in memory
MOST_ROWS = 20_000


class StageState:
    """Memory that all drivers share: how far a stage is.

    Attributes:
        valid: A file with the keys of inputs that were done, skipped or failed before this run, and have not
            changed.
    """

    def __init__(self) -> None:
        self._numbers = memoryview(mmap.mmap(-1, 4 * 8)).cast("q")
        self.valid = nameless_file()
        self._offer, self._order = nameless_file(), b""

    def close(self) -> None:
        """Give the memory back."""
        self._numbers.release()
        self.valid.close()
        self._offer.close()

    @property
    def generation(self) -> int:
        """The number of its run; 0 before its work has begun."""
        return self._numbers[0]

    @property
    def end(self) -> int:
        """Whether it is AT_WORK, or has ended COMPLETE or INCOMPLETE."""
        return self._numbers[1]

    @end.setter
    def end(self, how: int) -> None:
        self._numbers[1] = how

    @property
    def waiting(self) -> int:
        """How many bytes of inputs it has seen and not done."""
        return self._numbers[2]

    @waiting.setter
    def waiting(self, size: int) -> None:
        self._numbers[2] = size

    def begin(self, generation: int) -> None:
        """Let later stages look at the records."""
        if not self.generation:
            self._numbers[0] = generation

    def note_valid(self, keys: np.ndarray) -> None:
        """Note inputs that were done, skipped or failed before and have not changed."""
        os.write(self.valid.fileno(), keys.astype("<u8").tobytes())

    def valid_after(self, number: int) -> np.ndarray:
        """Return the keys that were noted after the first `number`."""
        text = os.pread(self.valid.fileno(), 1 << 23, 8 * number)
        return np.frombuffer(text[: len(text) // 8 * 8], "<u8")

    def offer(self, order: bytes) -> None:
        """Let the workers of the stage before do the work of this one, fused with their own."""
        os.pwrite(self._offer.fileno(), order, 0)
        self._numbers[3] = len(order)

    def decline(self) -> None:
        """Leave the work of this stage to its own workers."""
        self._numbers[3] = _DECLINED

    @property
    def is_decided(self) -> bool:
        """Whether a stage that may be fused has offered its work or declined, or has ended."""
        return self._numbers[3] != 0 or self.end != AT_WORK

    @property
    def order(self) -> bytes:
        """What the workers of the stage before need to know about this one; empty if it is not fused."""
        size = max(0, self._numbers[3])
        if len(self._order) != size:
            self._order = os.pread(self._offer.fileno(), size, 0)
        return self._order


@dataclass(frozen=True)
class PipelineRun:
    """Stages of a pipeline that run together.

    Attributes:
        pipeline: The pipeline of the stages.
        stages: The stages that run now.
        states: By name, how far these stages are, and those whose outputs they take.
        needed: For each stage, the keys of inputs whose files were dropped and are needed now.
    """

    pipeline: Pipeline
    stages: Sequence[Stage]
    states: Mapping[str, StageState]
    needed: Mapping[str, np.ndarray]


class ColumnsSoFar:
    """The columns of everything that was passed on, so that no later part has fewer."""

    def __init__(self) -> None:
        self._columns: dict[str, None] = {}
        self._heads: dict[RowColumns, None] = {}

    def committed(self, journal: Journal, entries: np.ndarray) -> Committed:
        """Return some inputs of a stage, with their columns and those of all before."""
        for head in journal.heads_in_order(entries):
            self._columns |= dict.fromkeys(head.columns)
            self._heads[head] = None
        return Committed(((journal, entries),), union_of(tuple(self._columns), self._heads))


class Upstream:
    """The stage before, as its records appear: what it has committed since the last look.

    Attributes:
        waiting: How many bytes it has made in this run that nobody has taken yet.
    """

    def __init__(self, outputs: StageOutputs, state: StageState) -> None:
        self._storage, self._state = storage_of(outputs.folder), state
        self.seconds = seconds_between_looks(outputs)
        self._before: Journal | None = None
        self._valid, self._told = 0, np.empty(0, INDEX)
        self._seen: set[str] = set()
        self._columns = ColumnsSoFar()
        self._looked_at = -_SELDOM
        # what was found and not taken, and whether this run has made it
        self._found: list[tuple[Journal, np.ndarray, bool]] = []
        self.waiting = 0

    @property
    def end(self) -> int:
        """Whether the stage has ended, and how."""
        return self._state.end

    def nothing(self) -> Committed | None:
        """Wait until the stage before begins its work, and return an empty wave; None if it ends first."""
        while not self._state.generation:
            if self.end != AT_WORK:
                return None
            time.sleep(_OFTEN)
        _, header, _ = stored_rows(self._storage)
        return Committed((), union_of(tuple(header), ()))

    def look(self) -> Committed | None:
        """Return what is new, or a part of it; None if nothing is, or if the records are being merged.

        While the stage is at work, there are `seconds` between looks at its records.
        """
        self.gather()
        taken, left = None, MOST_ROWS
        while self._found and left > 0:
            journal, entries, is_new = self._found.pop(0)
            rows = np.cumsum(np.maximum(journal.entries["outputs"][entries], 1))
            stop = max(1, int(np.searchsorted(rows, left, side="right")))
            if stop < len(entries):
                self._found.insert(0, (journal, entries[stop:], is_new))
            left -= int(rows[:stop][-1])
            if is_new:
                self.waiting -= bytes_of(journal, entries[:stop])
            with contextlib.suppress(SplitterError):
                wave = self._columns.committed(journal, entries[:stop])
                taken = taken.with_later(wave) if taken else wave
        return taken

    def gather(self) -> None:
        """Find what is new, and count it."""
        generation, now = self._state.generation, time.monotonic()
        if not generation or (self.end == AT_WORK and now - self._looked_at < self.seconds):
            return
        self._looked_at = now
        with contextlib.suppress(SplitterError, OSError):
            names = [name for name in Journal(self._storage).record_names() if not name.endswith(BEGUN)]
            self._before_this_run(names, generation)
            self._of_this_run(names, generation)

    def _add(self, journal: Journal, entries: np.ndarray, *, is_new: bool) -> None:
        if len(entries):
            self._found.append((journal, entries, is_new))
            self.waiting += bytes_of(journal, entries) if is_new else 0

    def _before_this_run(self, names: Sequence[str], generation: int) -> None:
        """Add inputs that were done before this run, as far as they are known by now to be unchanged."""
        if self._before is None:
            before = Journal(self._storage)
            before.load_only([name for name in names if generation_of(name) < generation])
            self._before = before
        keys = self._state.valid_after(self._valid)
        self._valid += len(keys)
        entries = self._before.find(keys)
        entries = entries[self._before.status(entries) == DONE]
        # a key is noted both when the stage begins to follow, and when it does the rest
        entries = np.setdiff1d(entries, self._told)
        self._told = np.union1d(self._told, entries)
        self._add(self._before, entries, is_new=False)

    def _of_this_run(self, names: Iterable[str], generation: int) -> None:
        # a record that merges others brings nothing new
        unseen = [name for name in names if name not in self._seen and not name.endswith(MERGED)]
        fresh = [name for name in unseen if generation_of(name) >= generation]
        if not fresh:
            return
        journal = Journal(self._storage)
        journal.load_only(fresh)
        self._seen.update(fresh)
        self._add(journal, journal.done(), is_new=True)


def seconds_between_looks(outputs: StageOutputs) -> float:
    """Return how long to wait between looks at the records of a stage."""
    return _SELDOM if is_url(outputs.folder) else _OFTEN


def bytes_of(journal: Journal, entries: np.ndarray) -> int:
    """Return the bytes of the outputs of some inputs."""
    return int(journal.entries["bytes"][entries].sum())
