"""Ranges of the first stage's inputs, each passed on as soon as everything made from it is done.

A stage that makes shards follows ranges, not single batches: which outputs share a shard must not depend on
which were ready first. Like following batches, this is only an early start.
"""

import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from splitter.engine.assignment import listing_of
from splitter.errors import SplitterError
from splitter.inputs.reading import read_source
from splitter.inputs.stages import Committed
from splitter.ledger.journal import Journal
from splitter.ledger.keeping import KeepRule
from splitter.ledger.list_copy import list_description, stored_list
from splitter.ledger.records import DONE
from splitter.ledger.shard_groups import Groups
from splitter.ledger.shard_ranges import Descent, inputs_in_range, with_later
from splitter.pipeline.definition import Stage
from splitter.pipeline.neighbours import (
    AT_WORK,
    COMPLETE,
    MOST_ROWS,
    ColumnsSoFar,
    StageState,
    bytes_of,
    seconds_between_looks,
)
from splitter.sorted_arrays import index_of
from splitter.storage.base import Storage
from splitter.storage.layout import Layout, key_hash
from splitter.storage.opening import storage_of

# looking at records takes at most one part in this many of the time
_SHARE_OF_TIME = 10


class StageProgress:
    """How far a stage is: which of its inputs are done, skipped or failed, and so give nothing more."""

    def __init__(self, stage: Stage, state: StageState) -> None:
        self.stage, self.state = stage, state
        self.storage = storage_of(stage.outputs.folder)
        self.journal = Journal(self.storage)
        self._valid = np.empty(0, "u8")
        self._has_ended = False

    def look(self) -> None:
        """Read new records."""
        if self._has_ended or not self.state.generation:
            return
        if self.state.end == COMPLETE:
            # its records may have been merged
            journal = Journal(self.storage)
            journal.load()
            self.journal, self._has_ended = journal, True
            return
        self.journal.load_new(merged=False)
        self._valid = np.concatenate((self._valid, self.state.valid_after(len(self._valid))))

    def are_over(self, keys: np.ndarray) -> np.ndarray:
        """Return which inputs give nothing more in this run."""
        entries = self.journal.find(keys)
        over = entries >= 0
        if not self._has_ended:
            is_old = self.journal.is_older(entries[over], self.state.generation)
            over[over] = ~is_old | np.isin(keys[over], self._valid)
        return over

    def takes(self, committed: Committed, keys: np.ndarray) -> np.ndarray:
        """Return which outputs of the stage before are inputs of this one: those that meet its conditions."""
        listing = listing_of(self.stage.dataset.inputs, self.stage.options)
        if listing.where is None and KeepRule.stored(storage_of(listing.source.folder)) is None:
            return np.ones(len(keys), bool)
        source = read_source(replace(listing, source=replace(listing.source, committed=committed)))
        layout, at = Layout(source.root), source.header.index(source.column)
        return np.isin(keys, np.array([key_hash(layout.key(row[at])) for row in source.rows], "u8"))


@dataclass(frozen=True)
class _Made:
    """Inputs of a stage, and for each the index of the first stage's input that it was made from."""

    keys: np.ndarray
    ancestors: np.ndarray

    def chosen(self, which: np.ndarray) -> "_Made":
        return _Made(self.keys[which], self.ancestors[which])

    def and_also(self, other: "_Made") -> "_Made":
        return _Made(
            np.concatenate((self.keys, other.keys)), np.concatenate((self.ancestors, other.ancestors))
        )


NOTHING_MADE = _Made(np.empty(0, "u8"), np.empty(0, "i8"))


@dataclass(frozen=True)
class _Ready:
    """Inputs of the stage before, the outputs made from them, and for each output the index of its input."""

    journal: Journal
    entries: np.ndarray
    outputs: _Made
    indices: np.ndarray

    def chosen(self, which: np.ndarray) -> "_Ready":
        """Return some of the outputs, with their inputs."""
        used, indices = np.unique(self.indices[which], return_inverse=True)
        return _Ready(self.journal, self.entries[used], self.outputs.chosen(which), indices)


class Ranges:
    """What a stage that makes shards follows instead of `Upstream`: whole ranges of outputs.

    Attributes:
        waiting: How many bytes of complete ranges nobody has taken yet.
        seconds: How long to wait between looks.
    """

    def __init__(self, line: Sequence[tuple[Stage, StageState]], storage: Storage, shard_bytes: int) -> None:
        """Take the stages before, from the first on, and where the shards go and how large they are."""
        self._line = [StageProgress(*one) for one in line]
        self._storage, self._shard_bytes = storage, shard_bytes
        self.waiting = 0
        self._least = self.seconds = seconds_between_looks(line[-1][0].outputs)
        self._looked_at, self._end_then = -self._least, AT_WORK
        self._columns = [ColumnsSoFar() for _ in line]
        # for each stage, the inputs of ranges that have come to it and are not passed on
        self._reached = [NOTHING_MADE for _ in line]
        self._ready: list[_Ready] = []
        # the outputs that were passed on
        self._handed = NOTHING_MADE
        self._has_begun = False
        # the inputs of the first stage, their bytes, and the range of each
        self._first, self._size, self._ranges = NOTHING_MADE.keys, 0, NOTHING_MADE.ancestors

    @property
    def end(self) -> int:
        """Whether the stage before has ended, and how."""
        return self._line[-1].state.end

    def look(self) -> Committed | None:
        """Return new ranges, or some of them; None if there are none."""
        self.gather()
        taken, left = list[_Ready](), MOST_ROWS
        while self._ready and left > 0:
            one = self._ready.pop(0)
            ranges = self._ranges_of(one.outputs)
            now = np.isin(ranges, ranges[:left])
            if not now.all():
                self._ready.insert(0, one.chosen(~now))
                one = one.chosen(now)
            taken.append(one)
            left -= len(one.outputs.keys)
            self.waiting -= bytes_of(one.journal, one.entries)
        if not taken:
            return None
        for one in taken:
            self._handed = self._handed.and_also(one.outputs)
        parts = tuple((one.journal, one.entries) for one in taken)
        for part in parts:
            union = self._columns[-1].committed(*part).union
        descent = Descent(self._first, self._size, self._handed.keys, self._handed.ancestors)
        return Committed(parts, union, descent)

    def gather(self) -> None:
        """Find what is new, and count it."""
        end, now = self.end, time.monotonic()
        if end == self._end_then and now - self._looked_at < self.seconds:
            return
        with contextlib.suppress(SplitterError, OSError):
            if not self._has_begun:
                self._begin()
        # without ranges there is nothing to follow, and the stage waits for the end
        for number, one in enumerate(self._line if len(self._first) else ()):
            # records may be merged at this moment
            with contextlib.suppress(SplitterError, OSError):
                one.look()
                self._advance(number)
        self._looked_at, self._end_then = time.monotonic(), end
        self.seconds = max(self._least, (self._looked_at - now) * _SHARE_OF_TIME)

    def _begin(self) -> None:
        """Divide the inputs of the first stage into ranges, as soon as its list is whole."""
        first = self._line[0]
        if not first.state.generation:
            return
        _, _, keys = stored_list(first.storage)
        size, before = list_description(first.storage).total_bytes, Groups.stored(self._storage)
        numbers = index_of(with_later(before.first if before else None, keys), keys)
        in_range = before.size if before else inputs_in_range(len(keys), size, self._shard_bytes)
        self._has_begun = True
        if in_range and (before is None or before.first is not None):
            self._first, self._size, self._ranges = keys, size, numbers // in_range
            order = np.argsort(numbers)
            self._reached[0] = _Made(keys[order], order)

    def _advance(self, number: int) -> None:
        """Pass on to the next stage the ranges in which this stage has nothing more to do."""
        stage, inputs = self._line[number], self._reached[number]
        ranges = self._ranges_of(inputs)
        whole = ~np.isin(ranges, ranges[~stage.are_over(inputs.keys)])
        entries = stage.journal.find(inputs.keys[whole])
        done = stage.journal.status(entries) == DONE
        entries, used = entries[done], inputs.chosen(whole).chosen(done)
        keys, indices = stage.stage.outputs.made_of(stage.journal, entries)
        made = _Made(keys, used.ancestors[indices])
        if number + 1 == len(self._line):
            if len(keys):
                ready = _Ready(stage.journal, entries, made, indices).chosen(np.arange(len(keys)))
                self._ready.append(ready)
                self.waiting += bytes_of(ready.journal, ready.entries)
        elif len(keys):
            committed = self._columns[number].committed(stage.journal, entries)
            taken = self._line[number + 1].takes(committed, keys)
            self._reached[number + 1] = self._reached[number + 1].and_also(made.chosen(taken))
        self._reached[number] = inputs.chosen(~whole)

    def _ranges_of(self, made: _Made) -> np.ndarray:
        return self._ranges[made.ancestors]
