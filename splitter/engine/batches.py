"""Plan batches: which inputs a worker takes at a time."""

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from splitter.engine.assignment import Assignment
from splitter.engine.decide import State
from splitter.engine.lost_workers import LostWorkers
from splitter.errors import UnreadableInput
from splitter.inputs.shards.index import InputShard
from splitter.ledger.journal import Journal
from splitter.ledger.manifest import in_columns, positions_in_union
from splitter.ledger.records import DONE
from splitter.ledger.shard_groups import Group, GroupMember, Groups
from splitter.storage.layout import file_with, shard_of
from splitter.worker.messages import SECOND_NAME, Batch, Failure, Report


class BatchPlanner(ABC):
    """A planner of the batches of a round, which the executor takes one after the other.

    Attributes:
        batches: How many batches there are: exact for a fixed size, otherwise the most there can be.
        inputs: How many inputs are in all batches.
    """

    batches: int
    inputs: int

    @abstractmethod
    def learn(self, report: Report) -> None:
        """Learn from the report of a batch."""

    @abstractmethod
    def __iter__(self) -> Iterator[Batch | None]:
        """Yield the batches, each made when a worker is free to take it."""


class _StatePlanner(BatchPlanner):
    """A planner of the work that a state lists."""

    def __init__(self, run: Assignment, state: State, journal: Journal, losses: LostWorkers) -> None:
        self._run, self._state, self._journal = run, state, journal
        # parts do not know each other's generation, so the names of their batches include the part
        mark = f"{run.storage.part.mark}-" if run.storage.part else ""
        self._prefix, self._failures = f"{journal.next_generation:06d}-{mark}", losses.failures
        self._changed = np.zeros(len(run.survey.keys), bool)
        self._changed[state.changed] = True

    def _batch_of(self, number: int, chosen: np.ndarray) -> Batch:
        """Return a batch of some inputs, with the files that it replaces."""
        batch = make_batch(f"{self._prefix}{number:06d}", self._run, chosen)
        positions = np.flatnonzero(self._changed[chosen])
        outputs = (
            self._journal.outputs_of_each(self._state.entries[chosen[positions]]) if len(positions) else ()
        )
        files = ([*dict.fromkeys(map(file_with, names))] for names in outputs)
        known = self._failures
        failures = {at: known[key] for at, key in enumerate(batch.keys) if key in known} if known else {}
        return replace(
            batch,
            stale=dict(zip(positions.tolist(), files, strict=True)),
            failures={**batch.failures, **failures},
        )


@dataclass
class Pace:
    """The facts that a run has learned about its inputs, for its later plans.

    Attributes:
        began: When the work began, by the monotonic clock.
        seconds_per_input: As measured in the last batch; 0 before there is one.
        largest_done: The number of inputs in the largest batch that is done.
        number: The number of the next batch.
    """

    began: float = field(default_factory=time.monotonic)
    seconds_per_input: float = 0.0
    largest_done: int = 0
    number: int = 0


class Planner(_StatePlanner):
    """A planner for loose outputs: first inputs in shards, shard by shard, then others, the largest first.

    Without a fixed size, it starts with batches of one input and learns from their reports how long an input
    takes. Then it makes batches large enough that dispatch and commit cost little, and small enough that the
    work stays spread to the end and a crash loses little. Since the first inputs may be quicker than others,
    no batch is more than `GROWTH` times as large as the largest one done before.
    """

    MOST_INPUTS = 50_000
    SHORTEST_SECONDS, LONGEST_SECONDS = 1.0, 60.0
    TOGETHER_INPUTS = 32
    GROWTH = 8
    ALIKE_BYTES = 1 << 16
    STRETCHES_PER_WORKER = 2
    FIRST_STEP, STEP_SECONDS = 64, 10.0

    def __init__(  # noqa: PLR0913 - what is known
        self,
        run: Assignment,
        state: State,
        journal: Journal,
        losses: LostWorkers,
        *,
        careful: bool = False,
        pace: Pace | None = None,
    ) -> None:
        """Plan the inputs that `state` lists as to be done.

        If `careful`, begin with one input, because nobody knows yet whether the recipe works. `pace` comes
        from an earlier plan of the same run.
        """
        super().__init__(run, state, journal, losses)
        found = run.survey
        self._workers = max(1, run.executor.most_workers)
        together = self.TOGETHER_INPUTS if run.job.dataset.process_batch else None
        self._size = losses.size or run.options.batch_size or together
        self.pace = pace or Pace()
        in_shards = found.at[state.todo] >= 0
        self._stretches = [*self._stretches_of(state.todo[in_shards])]
        apart = state.todo[~in_shards]
        apart = self._largest_first(apart, found.sizes[apart])
        if in_range := run.hooks.inputs_in_range(found):
            apart = _together(apart, apart // in_range)
        self._alone, self._second = False, None
        if careful:
            first, second = _to_try(state.todo if self._stretches else apart, found.sizes)
            self._second = second_of(run, second)
            if not self._stretches and not self._size:
                # a small input first, since the other batches wait for it
                self._alone, apart = True, np.concatenate(([first], apart[apart != first]))
        self._order = np.concatenate((*self._stretches, apart))
        self.inputs = len(self._order)
        self.batches = len(self._stretches) + math.ceil(len(apart) / (self._size or 1))

    @classmethod
    def _largest_first(cls, inputs: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        """Sort by size; inputs that are small or of nearly the same size stay in list order."""
        steps = np.where(sizes < cls.ALIKE_BYTES, 0, np.log2(np.maximum(sizes, 1)).astype("i8"))
        return inputs[np.argsort(-steps, kind="stable")]

    def _stretches_of(self, inputs: np.ndarray) -> Iterator[np.ndarray]:
        """Yield inputs that are read one after the other: those of a shard, the largest shard first.

        If there are few shards, divide those that can be read from any position.
        """
        found = self._run.survey
        at = found.at[inputs]
        of_shard, starts = found.members.shard_of[at], found.members.starts[at]
        inputs = inputs[np.lexsort((starts, of_shard))]
        of_shard = np.sort(of_shard)
        groups = np.split(inputs, np.flatnonzero(np.diff(of_shard)) + 1) if len(inputs) else []
        parts = math.ceil(self.STRETCHES_PER_WORKER * self._workers / max(1, len(groups)))
        for group in sorted(groups, key=lambda group: -int(found.sizes[group].sum())):
            shard = found.members.shards[found.members.shard_of[found.at[group[0]]]]
            yield from _divided(group, found.members.starts[found.at[group]], shard, parts)

    def learn(self, report: Report) -> None:
        """Take the time of a finished batch into account."""
        counts = report.counts
        if counts.inputs:
            self.pace.seconds_per_input = counts.seconds / counts.inputs
            self.pace.largest_done = max(self.pace.largest_done, counts.inputs)

    def __iter__(self) -> Iterator[Batch]:
        start = number = 0
        while start < len(self._order):
            in_shard = number < len(self._stretches)
            left = len(self._order) - start
            size = len(self._stretches[number]) if in_shard else self._next_size(left)
            stop = min(len(self._order), start + (size if number or not self._alone else 1))
            batch = self._batch_of(self.pace.number, np.sort(self._order[start:stop]))
            self.pace.number += 1
            if self._second is not None and not self.pace.seconds_per_input:
                batch = (
                    replace(batch, waits_for_verdict=True) if number else replace(batch, second=self._second)
                )
            yield replace(batch, step=self._step()) if in_shard else batch
            start, number = stop, number + 1

    def _step(self) -> int:
        """Return how many inputs of a shard are committed at once, so that a crash loses little."""
        if self._size or not self.pace.seconds_per_input:
            return self._size or self.FIRST_STEP
        return max(1, min(int(self.STEP_SECONDS / self.pace.seconds_per_input), self.MOST_INPUTS))

    def _next_size(self, left: int) -> int:
        if self._size:
            return self._size
        if not self.pace.seconds_per_input:
            return 1
        elapsed = time.monotonic() - self.pace.began
        seconds = min(self.LONGEST_SECONDS, max(self.SHORTEST_SECONDS, elapsed / 50))
        spread = math.ceil(left / (self._workers * 4))
        most = min(spread, self.GROWTH * self.pace.largest_done, self.MOST_INPUTS)
        return max(1, min(int(seconds / self.pace.seconds_per_input), most))


def _together(inputs: np.ndarray, ranges: np.ndarray) -> np.ndarray:
    """Sort inputs so that those of a range come together, in the position of the first of them."""
    _, first, range_of = np.unique(ranges, return_index=True, return_inverse=True)
    return inputs[np.argsort(first[range_of], kind="stable")]


def _divided(inputs: np.ndarray, starts: np.ndarray, shard: InputShard, parts: int) -> list[np.ndarray]:
    """Divide the inputs of a shard into stretches for several workers; a row group stays whole."""
    if shard.whole:
        return [inputs]
    if shard.kind in ("tar", "arrow", "items", "pieces"):
        parts = max(parts, math.ceil(len(inputs) / Planner.MOST_INPUTS))
        return [part for part in np.array_split(inputs, parts) if len(part)]
    if shard.kind == "parquet":
        groups = np.searchsorted(np.array(shard.cuts), starts, "right")
        whole = np.split(inputs, np.flatnonzero(np.diff(groups)) + 1)
        chosen = np.array_split(np.arange(len(whole)), parts)
        return [np.concatenate([whole[number] for number in some]) for some in chosen if len(some)]
    return [inputs]


def make_batch(name: str, run: Assignment, chosen: np.ndarray) -> Batch:
    """Return a batch of the inputs with these numbers in the list."""
    table, found = run.table, run.survey
    texts = [text for first, last in _runs(chosen) for text in table.texts(first, last + 1)]
    keys, sizes, times = (column[chosen].tolist() for column in (found.keys, found.sizes, found.changed_ns))
    batch = Batch(name, texts, keys, sizes, times)
    if not len(found.members):
        return batch
    at = found.at[chosen].tolist()
    positions = {number: where for number, one in enumerate(at) if (where := found.members.location(one))}
    faults = found.members.faults
    failures = {
        number: Failure(UnreadableInput.__name__, faults[one])
        for number, one in enumerate(at)
        if one in faults
    }
    return replace(batch, members=positions, failures=failures)


def second_of(run: Assignment, index: int) -> Batch:
    """Return a batch of one input, to be tried if another input fails."""
    return replace(make_batch(SECOND_NAME, run, np.array([index])), one_by_one=True, trial=True)


def _to_try(inputs: np.ndarray, sizes: np.ndarray) -> tuple[int, int]:
    """Choose two inputs far from each other, neither of them large, so that the result comes soon."""
    some = np.sort(inputs)
    small = some[(sizes[some] >= 0) & (sizes[some] <= np.median(sizes[some]))]
    return (int(small[0]), int(small[-1])) if len(small) > 1 else (int(some[0]), int(some[-1]))


def _runs(numbers: np.ndarray) -> Iterator[tuple[int, int]]:
    """Yield the first and the last of each run of successive numbers."""
    breaks = np.flatnonzero(np.diff(numbers) != 1)
    firsts = np.concatenate((numbers[:1], numbers[breaks + 1]))
    lasts = np.concatenate((numbers[breaks], numbers[-1:]))
    return zip(firsts.tolist(), lasts.tolist(), strict=True)


class GroupPlanner(_StatePlanner):
    """A planner for shards: each group with something to do is a batch, the largest first.

    A batch also says what else is in the shards of its group, so that they can be made again.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - what is known
        self,
        run: Assignment,
        state: State,
        journal: Journal,
        groups: Groups,
        dropped: np.ndarray,
        losses: LostWorkers,
        *,
        careful: bool = False,
    ) -> None:
        """Plan the work that `state` lists, and remove the inputs with `dropped` keys from their shards."""
        super().__init__(run, state, journal, losses)
        self._groups = groups
        positions = groups.ranks(run.survey.keys)
        self._input_at = np.full(len(groups.keys), -1, "i8")
        self._input_at[positions] = np.arange(len(positions))
        # found once for all groups: a group may be a single input, and there may be millions of those
        self._entries = journal.find(groups.keys)
        self._todo = self._first_of_each(np.sort(positions[state.todo]), losses.size)
        self._dropped = np.sort(groups.ranks(dropped))
        self._renewed = np.unique(groups.groups_of(positions[state.renewed]))
        self._numbers = self._largest_first()
        self.batches, self.inputs = len(self._numbers), len(self._todo)
        self._careful = careful

    def _largest_first(self) -> np.ndarray:
        """Return the groups with something to do, largest first; those of similar size stay in order."""
        of_todo, of_dropped = map(self._groups.groups_of, (self._todo, self._dropped))
        numbers = np.unique(np.concatenate((of_todo, of_dropped, self._renewed)))
        sizes = np.maximum(self._run.survey.sizes[self._input_at[self._todo]], 0)
        of_each = np.bincount(np.searchsorted(numbers, of_todo), sizes, minlength=len(numbers))
        return numbers[np.argsort(-np.log2(np.maximum(of_each, 1)).astype("i8"), kind="stable")]

    def learn(self, report: Report) -> None:
        """End the careful start with the first report; a group is one batch, however long it takes."""
        self._careful = self._careful and not report.counts.inputs

    def __iter__(self) -> Iterator[Batch]:
        first = True
        for number in self._numbers.tolist():
            batch = self._batch(number)
            if self._careful and first and len(batch):
                others = self._state.todo[self._run.survey.keys[self._state.todo] != batch.keys[0]]
                batch = replace(batch, second=second_of(self._run, int(others[-1])))
            yield replace(batch, waits_for_verdict=self._careful and not first)
            # a batch that only removes inputs does not test the recipe
            first = first and not len(batch)

    def _batch(self, number: int) -> Batch:
        groups, members = self._groups, self._groups.members(number)
        first = members.start
        todo, dropped = (
            positions[slice(*np.searchsorted(positions, [first, members.stop]))]
            for positions in (self._todo, self._dropped)
        )
        ranks, numbers = (todo - first).tolist(), groups.as_text(todo.tolist())
        group = Group(
            number,
            ranks,
            numbers,
            *self._members_of_group(number, dropped),
            dropped=groups.keys[dropped].tolist(),
            renews=number in self._renewed,
        )
        return replace(self._batch_of(number, self._input_at[todo]), group=group)

    def _members_of_group(self, number: int, dropped: np.ndarray) -> tuple[list[GroupMember], list[str]]:
        """Return the inputs of a group that already have outputs in its shards, and these shards."""
        journal, groups = self._journal, self._groups
        members = groups.members(number)
        first = members.start
        keys, entries = groups.keys[members], self._entries[members]
        there = np.flatnonzero(entries >= 0)
        made = journal.entries[entries[there]]
        there = there[(made["status"] == DONE) & (made["outputs"] > 0)]
        gone = set((dropped - first).tolist())
        kept: list[GroupMember] = []
        shards: dict[str, None] = {}
        for rank, (head, rows) in zip(there.tolist(), journal.rows_of_each(entries[there]), strict=True):
            at = len(head.columns)
            found = dict.fromkeys(shard_of(row[at])[0] for row in rows if row[at])
            # outputs that an earlier run stored as loose files stay where they are
            if all(found):
                shards |= found
                if rank not in gone:
                    mark = int(journal.entries["fingerprint"][entries[rank]])
                    (called,) = groups.as_text([first + rank])
                    member = GroupMember(rank, called, int(keys[rank]), mark, head, rows)
                    kept.append(self._with_columns(member))
        return kept, [*shards]

    def _with_columns(self, member: GroupMember) -> GroupMember:
        """Return a member with all columns of the list; its shard may be from before all were known."""
        columns = tuple(self._run.job.header)
        if self._groups.first is None or member.head.columns == columns:
            return member
        head = member.head._replace(columns=columns)
        return replace(member, head=head, rows=in_columns(member.rows, positions_in_union(member.head, head)))

    def _first_of_each(self, positions: np.ndarray, most: int | None) -> np.ndarray:
        """Return the first few positions of each group, or all of them."""
        if most is None or not len(positions):
            return positions
        groups = self._groups.groups_of(positions)
        starts = np.searchsorted(groups, groups)
        return positions[np.arange(len(positions)) - starts < most]
