"""Run a batch in a worker: process, store, commit."""

import contextlib
import errno
import os
import random
import re
import sys
import time
import traceback
from collections.abc import Callable, Sequence, Sized
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from splitter.csv_text import CsvText, Row, in_unicode, parse_rows
from splitter.dataset import ProcessorDataset, Result, checked_result, one_at_a_time
from splitter.errors import (
    BadResult,
    Crashed,
    InputError,
    Interrupted,
    RecipeError,
    SetupError,
    Skip,
    StorageError,
    UnreadableInput,
)
from splitter.fetching import Fetcher, Wanted, local_name
from splitter.groups import Group, Kept
from splitter.inputs import make_input
from splitter.manifest import (
    DONE,
    FAILED,
    SKIPPED,
    Head,
    Journal,
    RecordWriter,
)
from splitter.members import MemberFiles
from splitter.outputs import Address, OutputReader
from splitter.places import UNREADABLE, Layout, fingerprint, look_at, same_name
from splitter.processes import Gate
from splitter.progress import one_line
from splitter.records import InputFile, OutputFile, Scratch
from splitter.rows import Made, RowMaker
from splitter.shards import Place
from splitter.sinks import GroupWriter, Nowhere, Owner, Sink, SinkWriter
from splitter.storage import Storage
from splitter.stores import Found
from splitter.urls import is_url, without_secrets

FAILURES_SHOWN = 3
LONGEST_MESSAGE = 10_000
LONGEST_NAME = 255
BETWEEN_INPUTS = -1
TOGETHER = -2
SECOND = -5
SECOND_NAME = "second"
# a batch begins so much later than the one that shows whether the recipe works, and one in which all inputs
# failed is committed so much later
SECONDS_BEHIND, SECONDS_FOR_VERDICT = 0.2, 10.0


@dataclass(frozen=True)
class Job:
    """All that a worker needs to know, the same for every batch of a run.

    Attributes:
        dataset: The recipe, with its parameters.
        storage: The output folder.
        sink: Where output files go.
        layout: Where inputs are, and which folder of the output is whose.
        header: The columns of the dataset list.
        at: Which of them holds the paths.
        seed: The part of every fingerprint that says how inputs are processed.
        retries: How often a read that failed for a moment is tried again.
    """

    dataset: ProcessorDataset
    storage: Storage
    sink: Sink
    layout: Layout
    header: Row
    at: int
    seed: int
    retries: int


@dataclass(frozen=True)
class Failure:
    """Why an input failed: the fields of its row in errors.csv."""

    error: str
    message: str
    traceback: str = ""
    attempts: int = 1


@dataclass(frozen=True)
class Batch:
    """Inputs that one worker takes at a time.

    Attributes:
        name: Of its commit record; names sort by age.
        texts: The rows of each input, as CSV.
        keys: What each input is called in commit records.
        sizes: The bytes of each file as the survey found it, or UNREADABLE.
        times: When each file last changed.
        stale: By place in the batch, the outputs of an earlier run that are to be replaced.
        failures: By place in the batch, inputs that are known to fail and are not tried.
        one_by_one: Whether to leave `process_batch` aside.
        trial: Whether to try the inputs only, until one gives an output file: nothing is stored.
        second: Another input, to be tried if the first of this batch fails in the recipe's own code: where
            it does so in the same way, the recipe is to blame, and nothing is committed.
        behind: Whether such a batch is still at work.
        group: What is to be known of inputs that share a shard.
        members: By place in the batch, where inputs are that stand in shards.
        step: How many inputs are committed at once; None for all.
    """

    name: str
    texts: list[bytes]
    keys: list[int]
    sizes: list[int]
    times: list[int]
    stale: dict[int, list[str]] = field(default_factory=dict)
    failures: dict[int, Failure] = field(default_factory=dict)
    one_by_one: bool = False
    trial: bool = False
    group: Group | None = None
    members: dict[int, Place] = field(default_factory=dict)
    step: int | None = None
    second: "Batch | None" = None
    behind: bool = False

    def __len__(self) -> int:
        """How many inputs it holds."""
        return len(self.texts)

    def part(self, name: str, start: int, stop: int) -> "Batch":
        """Some of its inputs as a batch of their own."""
        return Batch(
            name,
            self.texts[start:stop],
            self.keys[start:stop],
            self.sizes[start:stop],
            self.times[start:stop],
            {at - start: names for at, names in self.stale.items() if start <= at < stop},
            {at - start: failure for at, failure in self.failures.items() if start <= at < stop},
            self.one_by_one,
            self.trial,
            members={at - start: place for at, place in self.members.items() if start <= at < stop},
            second=None if start else self.second,
            behind=self.behind,
        )

    def steps(self) -> "list[Batch]":
        """The batches that are committed one after the other."""
        step = self.step or len(self)
        if step >= len(self):
            return [self]
        starts = range(0, len(self), step)
        return [self.part(f"{self.name}-{start:06d}", start, start + step) for start in starts]


@dataclass(frozen=True)
class Tried:
    """What became of an input in a trial.

    Attributes:
        key: What it is called in commit records.
        status: Whether it is done, skipped or failed.
        head: The columns of its rows.
        outputs: The names of its output files.
        failure: Why it failed, if it did.
    """

    key: int
    status: int
    head: Head
    outputs: list[str]
    failure: Failure | None


@dataclass
class Report:
    """What became of a batch: numbers for the display. The truth is the commit record.

    `unreadable` has the keys of inputs that cannot be read now, and keep what they had. `lost` has those of a
    batch whose worker was lost with it, and `said` what user code printed, by input. `apart` counts batches
    that `process_batch` did not do, so that their inputs were tried one by one. `tried` is of a trial,
    and `batch` the name of the batch.
    """

    batch: str = ""
    inputs: int = 0
    done: int = 0
    skipped: int = 0
    failed: int = 0
    outputs: int = 0
    bytes: int = 0
    seconds: float = 0.0
    failures: list[tuple[str, str]] = field(default_factory=list)
    unreadable: list[int] = field(default_factory=list)
    unreadable_names: list[str] = field(default_factory=list)
    unreadable_why: str = ""
    stop: str = ""
    traceback: str = ""
    apart: int = 0
    apart_why: str = ""
    lost: list[int] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    said: list[tuple[str, str]] = field(default_factory=list)
    tried: list[Tried] = field(default_factory=list)

    def __iadd__(self, other: "Report") -> "Report":
        """Add up two reports."""
        for name in ("inputs", "done", "skipped", "failed", "outputs", "bytes", "seconds", "apart"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.failures = (self.failures + other.failures)[:FAILURES_SHOWN]
        # in place: over many batches a new list each time would take longer and longer
        self.unreadable += other.unreadable
        self.unreadable_names = (self.unreadable_names + other.unreadable_names)[:FAILURES_SHOWN]
        self.unreadable_why = self.unreadable_why or other.unreadable_why
        self.stop = self.stop or other.stop
        self.traceback = self.traceback or other.traceback
        self.apart_why = self.apart_why or other.apart_why
        self.tried += other.tried
        return self


class Losses:
    """Inputs whose worker was lost with them: who is to blame is found by smaller and smaller batches.

    The guard finds the input that ends a runner. This is for what takes the guard along, such as a cluster
    that ends a worker for its memory.
    """

    TIMES = 3
    PARTS = 8

    def __init__(self) -> None:
        """Nothing is lost yet."""
        self.size: int | None = None
        self.failures: dict[int, Failure] = {}
        self._alone: dict[int, int] = {}

    def add(self, keys: list[int]) -> None:
        """Note the inputs of a lost batch."""
        if not keys:
            return
        self.size = min(self.size or len(keys), max(1, len(keys) // self.PARTS))
        if len(keys) > 1:
            return
        times = self._alone[keys[0]] = self._alone.get(keys[0], 0) + 1
        if times == self.TIMES:
            message = f"its worker was ended {times} times with this input alone (out of memory?)"
            self.failures[keys[0]] = Failure(Crashed.__name__, message, attempts=times)


# -- one batch --------------------------------------------------------------------------------------------


class Worker:
    """Processes, stores and commits batches: in a runner, or in the driver when there are no workers."""

    def __init__(
        self,
        job: Job,
        mark: Callable[[int], None] = lambda _: None,
        scratch: str | None = None,
        announce: Callable[[int], None] = lambda _: None,
        gate: Gate | None = None,
    ) -> None:
        """`mark` is told the place of each input that is begun; `scratch` is a folder for temporary files.

        With one, remote inputs are fetched ahead by another process, and `announce` is told which. The
        `gate` is open when the recipe is known not to fail on everything.
        """
        self._gate, self._announce = gate, announce
        self._job = job
        self._mark = mark
        self._journal = Journal(job.storage)
        self._process = one_at_a_time(job.dataset)
        self._process_id = os.getpid()
        self._outputs = OutputReader(job.storage.root)
        # of an output whose place is known when the batch is finished
        self._unknown = ("",) * len(job.sink.columns)
        sink = job.sink
        self._rows = RowMaker(
            job.header, job.dataset.metadata_types, sink.columns, sink.types, sink.own_columns
        )
        self._folder = folder = scratch or job.storage.scratch()
        self._scratch = Scratch(folder)
        self._fetcher = Fetcher(Scratch(folder), apart=scratch is not None, announce=announce)
        self._members = MemberFiles(Scratch(folder), self._fetcher)

    def close(self) -> None:
        """Leave nothing behind of what was fetched."""
        self._members.close()
        self._fetcher.close()

    def _end_if_forked(self) -> None:
        """End a copy of this process that user code has forked and let go: it must not do the batch too."""
        if os.getpid() != self._process_id:
            os._exit(1)

    def setup(self) -> None:
        """Let the recipe load what it needs."""
        # now, since what the client of a store needs of memory is not an input's
        self._job.storage.confirm()
        dataset = self._job.dataset
        try:
            dataset.ready()
        except Interrupted:
            raise
        except BaseException as error:
            what = f"{type(dataset).__name__}: setup() raised {_one_line(error)}"
            raise SetupError(f"{what}; mend that and run the same command again to continue") from error

    def run(self, batch: Batch) -> Report:
        """Do a batch to its end; raises StorageError when the output cannot be written."""
        if batch.behind and self._gate:
            self._gate.wait(SECONDS_BEHIND)
        began = time.perf_counter()
        self._job.storage.confirm(lately=True)
        with contextlib.closing(self._writer(batch)) as writer:
            task = _Task(batch, self._job, writer, self._fetcher, self._members)
            try:
                self._do(task)
            except RecipeError as error:
                self._job.storage.unstage(batch.name)
                return Report(batch.name, stop=error.message, traceback=error.traceback)
        task.report.seconds = time.perf_counter() - began
        return task.report

    def _do(self, task: "_Task") -> None:
        batch, together = task.batch, self._job.dataset.process_batch
        if together and not batch.one_by_one and len(batch):
            self._process_together(task, together)
        if batch.group is not None:
            self._process_group(task, batch.group)
            self._mark(BETWEEN_INPUTS)
            self._commit_group(task, batch.group)
            return
        self._process_all(task)
        self._mark(BETWEEN_INPUTS)
        if batch.trial:
            self._job.storage.unstage(batch.name)
        else:
            self._commit(task)

    def _writer(self, batch: Batch) -> SinkWriter:
        storage = self._job.storage
        if batch.trial:
            return Nowhere(storage, batch.name)
        stale = [name for names in batch.stale.values() for name in names]
        if batch.group is None:
            return self._job.sink.open(storage, batch.name, stale)
        return self._job.sink.open(storage, batch.name, [*stale, *batch.group.shards], batch.group.number)

    def _process_all(self, task: "_Task") -> None:
        for place in range(len(task.batch)):
            self._process_next(task, place)
            if task.batch.trial and task.report.outputs:
                return

    def _process_next(self, task: "_Task", place: int) -> None:
        if place not in task.finished:
            self._mark(place)
            self._process_one(task, place)
        self._fetcher.drop(place)
        self._members.drop(place)
        if task.batch.second is not None and not task.is_judged:
            task.is_judged = True
            self._judge(task, task.batch.second, place)

    def _judge(self, task: "_Task", second: Batch, place: int) -> None:
        """Raise RecipeError if another input fails just as the first one has."""
        blame = task.blame
        if blame is not None:
            self._mark(SECOND)
            storage = self._job.storage
            fetcher = Fetcher(Scratch(self._folder), apart=False, announce=self._announce)
            members = MemberFiles(Scratch(self._folder), fetcher)
            with contextlib.closing(fetcher), contextlib.closing(members):
                other = _Task(second, self._job, Nowhere(storage, second.name), fetcher, members)
                self._process_one(other, 0)
            storage.unstage(second.name)
            if other.blame is not None and other.blame.is_like(blame):
                tried = (task.rows[place][0], other.rows[0][0])
                names = " and ".join(one_line(row[self._job.at]) for row in tried)
                raise RecipeError(
                    f"{type(self._job.dataset).__name__} fails alike on the first two inputs it is given, "
                    f"{names}: {blame}; mend that and run the same command again, or say --max-failures 100% "
                    "to go on whatever fails",
                    blame.traceback,
                )
        if self._gate:
            self._gate.open()

    def _process_group(self, task: "_Task", group: Group) -> None:
        """Process inputs, and take along what others have, in the order of the group as far as it can be."""
        place_of = {rank: place for place, rank in enumerate(group.ranks)}
        kept_of = {kept.rank: kept for kept in group.kept}
        ranks = sorted({**place_of, **kept_of})
        members = {
            rank: member for rank in ranks if (member := task.batch.members.get(place_of.get(rank, -1)))
        }
        passed, finished = 0, set()
        for rank in _as_they_are_read(ranks, members):
            place = place_of.get(rank)
            if place is not None:
                self._process_next(task, place)
            if rank in kept_of and place not in task.finished:
                self._mark(BETWEEN_INPUTS)
                task.carry(kept_of[rank], self._outputs)
            finished.add(rank)
            while passed < len(ranks) and ranks[passed] in finished:
                task.group_sink.passed(ranks[passed])
                passed += 1

    def _process_one(self, task: "_Task", place: int) -> None:
        batch = task.batch
        known = batch.failures.get(place)
        if known:
            task.fail(place, known)
            return
        for attempt in range(1, self._job.retries + 2):
            try:
                input_file = task.take(place, self._scratch)
                result = checked_result(self._process(input_file))
                self._store(task, place, result, self._scratch)
            except (StorageError, Interrupted):
                raise
            except Skip as reason:
                self._end_if_forked()
                task.skip(place, str(reason), self._rows)
            except BaseException as error:
                self._end_if_forked()
                task.sink.drop_input()
                if isinstance(error, OSError) and error.errno in _FULL:
                    raise StorageError.of(error, error.filename or "a temporary file") from error
                if attempt <= self._job.retries and _may_pass(error):
                    time.sleep(0.1 * 2 ** (attempt - 1) * random.uniform(0.75, 1.25))  # noqa: S311
                    continue
                failure = failure_of(error, attempt, task.in_hand.get(place))
                unreadable = _not_read(error, task.path(place))
                if not unreadable and (batch.trial or batch.second is not None):
                    task.blame = Blame.of(error, failure, self._job.dataset)
                failure = task.named(place, _after_batch(task.fault, failure))
                task.fail(place, failure, unreadable=unreadable)
            finally:
                self._scratch.remove()
            return

    def _process_together(self, task: "_Task", together: Callable[[Sequence[InputFile]], Any]) -> None:
        """Give the batch to `process_batch`; what it leaves undone is then tried one by one."""
        scratch = self._scratch
        places, inputs = [], []
        for place in range(len(task.batch)):
            if place not in task.batch.failures:
                try:
                    inputs.append(task.take(place, scratch))
                    places.append(place)
                except (OSError, InputError):
                    continue
        self._mark(TOGETHER)
        try:
            results = together(inputs)
            if isinstance(results, Sized) and len(results) != len(inputs):
                raise BadResult(f"process_batch gave {len(results)} results for {len(inputs)} inputs")  # noqa: TRY301
            for place, result in zip(places, results, strict=True):
                self._store(task, place, checked_result(result), scratch)
        except (StorageError, Interrupted):
            raise
        except BaseException as error:  # noqa: BLE001 - a user's method may raise anything
            self._end_if_forked()
            task.sink.drop_input()
            # as text, since the error itself keeps alive what the batch held, such as a GPU's memory
            task.fault = failure_of(error, 1)
            task.report.apart, task.report.apart_why = 1, f"raised {_one_line(error)}"
        finally:
            scratch.remove()

    def _store(self, task: "_Task", place: int, result: Result, scratch: Scratch) -> None:
        outputs, metadata = result
        rows = task.rows[place]
        made: list[Made] = []
        names: set[str] = set()
        folder = ""
        size = files = 0
        for output in outputs:
            self._end_if_forked()
            if not isinstance(output, OutputFile):
                raise BadResult(
                    f"process gave a {type(output).__name__} among its outputs; expected OutputFile"
                )
            name, content, own, row = output
            if content is None:
                where: Sequence[str] = self._rows.no_file
            else:
                _check_name(name, names)
                folder = folder or task.folder(place)
                stored = task.sink.store(folder, name, content, scratch)
                where = stored.output, str(stored.size), stored.checksum, *self._unknown
                size += stored.size
                files += 1
            if not 0 <= row < len(rows):
                raise BadResult(f"an output says it is of row {row}; the input has {len(rows)}")
            made.append((where, own, rows[row]))
        self._end_if_forked()
        head, text = self._rows.make(rows[0], made, metadata)
        if task.batch.group is None:
            task.sink.keep_input()
            task.add(place, DONE, head=head, outputs=files, size=size, text=text)
        else:
            task.keep(place, head=head, outputs=files, size=size, text=text)

    def _commit(self, task: "_Task") -> None:
        """Begin, remove what is stale, publish, commit: the order that makes every crash recoverable."""
        batch = task.batch
        if not task.finished:
            return
        if batch.behind and self._gate and task.report.failed == len(batch):
            # if the recipe is to blame, none of these is to stand in errors.csv
            self._gate.wait(SECONDS_FOR_VERDICT)
        vanish = [name for place, names in batch.stale.items() if place in task.finished for name in names]
        self._publish(task, [batch.keys[place] for place in sorted(task.finished)], vanish)

    def _publish(self, task: "_Task", keys: list[int], vanish: list[str]) -> None:
        batch, storage = task.batch, self._job.storage
        appear = task.sink.names()
        storage.confirm()
        if appear or vanish:
            self._journal.begin(batch.name, keys, [*appear, *vanish])
            storage.remove(vanish)
            task.sink.publish()
            # it may have taken long
            storage.confirm()
        self._journal.commit(batch.name, task.record)
        if appear or vanish:
            self._journal.end(batch.name)
            storage.unstage(batch.name)

    def _commit_group(self, task: "_Task", group: Group) -> None:
        """Publish the shards of a group in the place of those that there are.

        Where something is taken along from those, the batch is promised, and brought to its end in any case.
        """
        batch, sink, storage = task.batch, task.group_sink, self._job.storage
        if not (task.finished or group.dropped):
            return
        loose = [name for place in sorted(task.finished) for name in batch.stale.get(place, [])]
        if not (task.made or loose or group.dropped or task.lost):
            # nothing comes to the shards, and nothing goes
            self._journal.commit(batch.name, task.record)
            storage.unstage(batch.name)
            return
        sink.finish()
        task.complete()
        for key in group.dropped:
            task.record.add_not_done(key)
        vanish = [*dict.fromkeys([*group.shards, *loose])]
        keys = [batch.keys[place] for place in sorted(task.finished)] + group.dropped
        if not task.carried:
            self._publish(task, keys, vanish)
            return
        storage.park(batch.name)
        storage.confirm()
        keys += [kept.key for kept, _ in task.carried]
        names = [*dict.fromkeys([*sink.names(), *vanish])]
        self._journal.promise(batch.name, keys, names, moves=sink.moves(), record=task.record)
        self._journal.settle(batch.name)
        storage.unstage(batch.name)


def _as_they_are_read(ranks: list[int], members: dict[int, Place]) -> list[int]:
    """The ranks of a group, those in shards that are read on and on as they stand there.

    Where inputs are shuffled, each would else be sought from the beginning of its shard.
    """
    number_of: dict[str, int] = {}
    places = {
        rank: (number_of.setdefault(member.shard.place, len(number_of)), member.start)
        for rank, member in members.items()
        if member.shard.kind != "tar"
    }
    in_sequence = iter(sorted(places, key=places.__getitem__))
    return [next(in_sequence) if rank in places else rank for rank in ranks]


class InHand(NamedTuple):
    """A member of a shard: what the list calls it, and the file that it becomes."""

    listed: str
    path: str


class _Task:
    """A batch on its way: what is known of its inputs so far."""

    def __init__(
        self, batch: Batch, job: Job, sink: SinkWriter, fetcher: Fetcher, members: MemberFiles
    ) -> None:
        self.batch = batch
        self.sink = sink
        self._fetcher, self._members = fetcher, members
        self.record = RecordWriter()
        self.report = Report(batch.name, inputs=len(batch))
        self.fault: Failure | None = None
        self.blame: Blame | None = None
        self.is_judged = False
        self.finished: set[int] = set()
        self.in_hand: dict[int, InHand] = {}
        # of a group: what was made, and taken along from older shards; the rows are complete at the end
        self.carried: list[tuple[Kept, Owner]] = []
        self.made: list[tuple[int, Owner, Head, int, int]] = []
        self.lost = False
        self._job = job
        self.rows = [[row] for row in parse_rows(b"".join(batch.texts))]
        if job.dataset.group_rows:
            self.rows = [parse_rows(text) for text in batch.texts]
        self._remote = self._remote_files()
        fetcher.begin({**self._remote, **members.begin(batch.members, len(batch))})

    def _remote_files(self) -> dict[int, Wanted]:
        """What is to be fetched, by place."""
        batch = self.batch
        if not is_url(self._job.layout.root) and not any(b"://" in text for text in batch.texts):
            return {}
        found = {}
        for place in range(len(batch)):
            url = self.path(place)
            if is_url(url) and place not in batch.failures and place not in batch.members:
                size = batch.sizes[place]
                found[place] = Wanted(url, Found(size, batch.times[place]) if size != UNREADABLE else None)
        return found

    def take(self, place: int, scratch: Scratch) -> InputFile:
        """The input as `process` takes it."""
        job, batch = self._job, self.batch
        input_file = make_input(self.rows[place], job.header, job.at, job.layout, scratch)
        if place in batch.members:
            member = self._members.take(input_file, place, batch.members[place])
            self.in_hand[place] = InHand(member.input, self._members.path_of(member))
            return member
        if place in self._remote:
            fetched = self._fetcher.take(place)
            # what was read, should it have changed since the survey: a version may come back, a time may not
            batch.sizes[place], batch.times[place] = fetched.found
            return input_file._replace(local_path=fetched.path)
        if batch.sizes[place] == UNREADABLE:
            # it may have come since; if not, this says why
            batch.sizes[place], batch.times[place] = look_at(input_file.local_path)
        return input_file

    def named(self, place: int, failure: Failure) -> Failure:
        """The failure in words that name a remote file, and not the copy of it."""
        if place not in self._remote:
            return failure
        url = self._remote[place].url
        copy = f"{SCRATCH_SHOWN}/{local_name(url)}"
        return replace(failure, message=failure.message.replace(copy, without_secrets(url)))

    def path(self, place: int) -> str:
        """Where the input is on this machine."""
        return self._job.layout.place(self.rows[place][0][self._job.at])

    def folder(self, place: int) -> str:
        """The folder of the output that is this input's own."""
        layout = self._job.layout
        return layout.folder(layout.key(self.rows[place][0][self._job.at]))

    def add(  # noqa: PLR0913 - the fields of an entry
        self,
        place: int,
        status: int,
        *,
        head: Head,
        outputs: int,
        size: int,
        text: bytes,
        failure: Failure | None = None,
    ) -> None:
        """Note what became of an input."""
        batch = self.batch
        if batch.trial:
            names = self.sink.names() if outputs else []
            self.report.tried.append(Tried(batch.keys[place], status, head, names, failure))
        # as the survey found the file: if it has changed since, the next run does it again
        mark = fingerprint(batch.texts[place], batch.sizes[place], batch.times[place], self._job.seed)
        self.record.add(batch.keys[place], mark, status, head=head, outputs=outputs, size=size, text=text)
        self.finished.add(place)
        self.report.done += status == DONE
        self.report.outputs += outputs
        self.report.bytes += size

    # -- of a group ------------------------------------------------------------------------------------------

    @property
    def group_sink(self) -> GroupWriter:
        """The sink, which takes the outputs of a group."""
        assert isinstance(self.sink, GroupWriter)  # noqa: S101 - what an indivisible sink opens
        return self.sink

    def keep(self, place: int, *, head: Head, outputs: int, size: int, text: bytes) -> None:
        """Note that an input is done, whose rows are complete when all of the group are."""
        group = self.batch.group
        assert group is not None  # noqa: S101 - given to an indivisible sink
        owner = _owner(group.ranks[place], group.numbers[place], head, parse_rows(text))
        self.sink.keep_input(owner)
        self.made.append((place, owner, head, outputs, size))
        self.finished.add(place)

    def carry(self, kept: Kept, outputs: OutputReader) -> None:
        """Take along what an input has in an older shard."""
        owner = _owner(kept.rank, kept.number, kept.head, kept.rows)
        try:
            contents = [
                outputs.read(Address(name, size, checksum, offset))
                for name, size, checksum, offset in _outputs_of(owner)
            ]
        except StorageError as error:
            # somebody has damaged or removed the shard: what was in it is lost
            self.record.add_not_done(kept.key)
            self.report.notes.append(f"{error}; run again to make what it held")
            self.lost = True
            return
        self.group_sink.carry(owner, contents)
        self.carried.append((kept, owner))

    def complete(self) -> None:
        """Note what became of the inputs of a group, now that it is known where their outputs are."""
        for place, owner, head, outputs, size in self.made:
            text = CsvText().encode(owner.rows)
            self.add(place, DONE, head=head, outputs=outputs, size=size, text=text)
        for kept, owner in self.carried:
            text = CsvText().encode(owner.rows)
            sizes = [size for _, size, _, _ in _outputs_of(owner)]
            count, total = len(sizes), sum(sizes)
            self.record.add(
                kept.key, kept.fingerprint, DONE, head=kept.head, outputs=count, size=total, text=text
            )

    def skip(self, place: int, reason: str, rows: "RowMaker") -> None:
        """Leave an input out, with the reason."""
        self.sink.drop_input()
        head, text = rows.skipped(self.rows[place][0], in_unicode(reason) or "skipped")
        self.add(place, SKIPPED, head=head, outputs=0, size=0, text=text)
        self.report.skipped += 1

    def fail(self, place: int, failure: Failure, *, unreadable: bool = False) -> None:
        """Note a failed input; one that cannot be read now keeps what it had."""
        row = self.rows[place][0]
        listed = row[self._job.at]
        if unreadable and place in self.batch.stale:
            self.report.unreadable.append(self.batch.keys[place])
            self.report.unreadable_names = [*self.report.unreadable_names, listed][:FAILURES_SHOWN]
            self.report.unreadable_why = self.report.unreadable_why or failure.message
            return
        text = CsvText().encode([[*row, failure.error, failure.message, failure.traceback, failure.attempts]])
        head = Head(tuple(self._job.header))
        self.add(place, FAILED, head=head, outputs=0, size=0, text=text, failure=failure)
        self.report.failed += 1
        if len(self.report.failures) < FAILURES_SHOWN:
            self.report.failures.append((one_line(listed), f"{failure.error}: {failure.message}"))


def _owner(rank: int, number: int, head: Head, rows: list[Row]) -> Owner:
    types = {"size": "int", **dict((*head.outputs, *head.inputs))}
    return Owner(rank, number, head.names, types, len(head.columns), rows)


def _outputs_of(owner: Owner) -> list[tuple[str, int, str, int]]:
    """Where each output of an input is: its name, size, checksum, and place in its shard."""
    at = owner.at
    there = (row[at : at + 5] for row in owner.rows if row[at])
    return [(name, int(size), checksum, int(offset)) for name, size, checksum, _, offset in there]


def _check_name(name: Any, names: set[str]) -> None:  # noqa: ANN401
    """Refuse an output name that is not one path component, or that was taken."""
    if not isinstance(name, str) or name in ("", ".", "..") or "/" in name or "\0" in name:
        raise BadResult(f"output name {name!r} is not one path component")
    try:
        length = len(name.encode("utf-8", "surrogateescape"))
    except UnicodeEncodeError:
        raise BadResult(f"output name {name!r} cannot be a file name") from None
    if length > LONGEST_NAME:
        raise BadResult(
            f"output name {name[:40]!r}… has {length} bytes; a file name has at most {LONGEST_NAME}"
        )
    same = same_name(name)
    if same in names:
        raise BadResult(f"output name {name!r} is given twice (case and Unicode form do not count)")
    names.add(same)


@dataclass(frozen=True)
class Blame:
    """A failure that may be the fault of the recipe's own code.

    Attributes:
        kind: Of the exception.
        where: The line that it came from.
        message: What it says.
        traceback: As in errors.csv.
    """

    kind: str
    where: str
    message: str
    traceback: str

    @classmethod
    def of(cls, error: BaseException, failure: Failure, dataset: ProcessorDataset) -> "Blame | None":
        """None for what splitter itself has found to be wrong with an input."""
        if isinstance(error, InputError) and not isinstance(error, BadResult):
            return None
        steps = traceback.extract_tb(error.__traceback__)
        code = getattr(sys.modules.get(type(dataset).__module__), "__file__", None)
        own = [step for step in steps if step.filename == code] or steps[-1:]
        where = f"line {own[-1].lineno} of {own[-1].filename}" if failure.traceback and own else ""
        return cls(failure.error, where, failure.message, failure.traceback)

    def is_like(self, other: "Blame") -> bool:
        """Whether it is the same error from the same line."""
        return (self.kind, self.where) == (other.kind, other.where)

    def __str__(self) -> str:
        """For a message of one line."""
        where = f" ({self.where})" if self.where else ""
        return f"{self.kind}: {' '.join(self.message.split())}{where}"


# -- failures ---------------------------------------------------------------------------------------------

_WILL_NOT_PASS = (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError, FileExistsError)
SCRATCH_SHOWN = "{scratch}"
_SCRATCH = re.compile(
    r"[^\s'\"]*(?:/\.splitter/staging(?:/part-\d+-of-\d+)?|/splitter-staging-\w+)(?:/splitter-\w+)+"
)
_FULL = (errno.ENOSPC, errno.EDQUOT)
_OF_READING = (errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.ENODEV, errno.ENXIO, errno.ENOTCONN)


def _may_pass(error: BaseException) -> bool:
    """Whether a read may succeed when it is tried again."""
    return isinstance(error, OSError) and not isinstance(error, _WILL_NOT_PASS)


def _not_read(error: BaseException, path: str) -> bool:
    """Whether it is the input that could not be read, and not another file, nor its content that is wrong."""
    if isinstance(error, OSError) and error.errno is not None:
        if not isinstance(error.filename, (str, bytes, os.PathLike)):
            # a descriptor has no name; but a connection refused, say, is not about the input
            return error.errno in _OF_READING
        return os.path.normpath(os.fsdecode(error.filename)) == os.path.normpath(path)
    return isinstance(error, UnreadableInput)


def failure_of(error: BaseException, attempts: int, in_hand: "InHand | None" = None) -> Failure:
    """The row of errors.csv for an exception; a member of a shard is called what the list calls it."""
    shown = "" if isinstance(error, InputError) else "".join(traceback.format_exception(_without_own(error)))
    message = _message(error, in_hand)
    return Failure(type(error).__name__, message, in_unicode(shown[-LONGEST_MESSAGE:]), attempts)


def _after_batch(fault: Failure | None, failure: Failure) -> Failure:
    """The failure of an input that was tried alone after its batch, with the error of that before it."""
    if fault is None or not failure.traceback or failure.message == fault.message:
        return failure
    before = f"{fault.traceback}\nThat was process_batch; then this input was tried alone:\n\n"
    return replace(failure, traceback=before + failure.traceback)


def _without_own(error: BaseException) -> BaseException:
    """The exception with a traceback that starts in the user's code."""
    step = error.__traceback__
    while step and step.tb_frame.f_code.co_filename == __file__:
        step = step.tb_next
    return error.with_traceback(step)


def _message(error: BaseException, in_hand: "InHand | None" = None) -> str:
    try:
        text = str(error)
    except BaseException:  # noqa: BLE001 - a user's __str__ may do anything
        text = "its message cannot be shown"
    if in_hand is not None:
        text = text.replace(in_hand.path, in_hand.listed)
    # the names of scratch folders are random, and what is published must not be
    return in_unicode(_SCRATCH.sub(SCRATCH_SHOWN, text[:LONGEST_MESSAGE]))


def _one_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(_message(error).split())}"
