"""Run a batch in a worker: process, store, commit."""

import contextlib
import errno
import os
import random
import time
from collections.abc import Callable, Sequence, Sized
from typing import Any, NoReturn

from splitter.dataset import Result, checked_result, one_at_a_time
from splitter.errors import (
    BadResult,
    InputError,
    Interrupted,
    RecipeError,
    SetupError,
    Skip,
    StorageError,
    UnreadableInput,
)
from splitter.inputs.fetching import Fetcher
from splitter.inputs.shards.index import MemberLocation
from splitter.inputs.shards.reader import MemberFiles
from splitter.ledger.journal import Journal
from splitter.ledger.records import DONE
from splitter.ledger.shard_groups import Group
from splitter.records import InputFile, OutputFile, Scratch
from splitter.sinks import DiscardWriter, SinkWriter
from splitter.storage.layout import same_name
from splitter.system.gate import Gate
from splitter.text.show import one_line
from splitter.worker.batch_state import OlderShards, Task
from splitter.worker.failures import (
    Blame,
    after_batch,
    failure_of,
    in_one_line,
    kind_and_line,
    line_of,
    may_pass,
    not_read,
    shown_from_own,
)
from splitter.worker.messages import Batch, Job, Report
from splitter.worker.rows import Made, RowMaker
from splitter.worker.surroundings import Surroundings

LONGEST_NAME = 255
# what a worker says it is at, where that is no input of its batch
BETWEEN_INPUTS = -1
TOGETHER = -2
SECOND = -5
# a batch begins so much later than the one that shows whether the recipe works, and one in which all inputs
# failed is committed so much later
SECONDS_BEHIND, SECONDS_FOR_VERDICT = 0.2, 10.0
_FULL = (errno.ENOSPC, errno.EDQUOT)


class Worker:
    """Processes, stores and commits batches: in a runner, or in the driver when there are no workers."""

    def __init__(  # noqa: PLR0913, PLR0917 - what a runner has beside its job
        self,
        job: Job,
        mark: Callable[[int], None] = lambda _: None,
        scratch: str | None = None,
        announce: Callable[[int], None] = lambda _: None,
        gate: Gate | None = None,
        needed: Sequence[int] = (),
        give_up: Callable[[int], NoReturn] | None = None,
    ) -> None:
        """`mark` is told the place of each input that is begun; `scratch` is a folder for temporary files.

        With one, remote inputs are fetched ahead by another process, and `announce` is told which. The
        `gate` is open when the recipe is known not to fail on everything. `needed` are descriptors without
        which this process is of no use; when an input has made it so, `give_up` ends it.
        """
        self._needed, self._give_up = needed, give_up
        self._surroundings = Surroundings()
        self._gate, self._announce = gate, announce
        self._job = job
        self._mark = mark
        self._journal = Journal(job.storage)
        self._process = one_at_a_time(job.dataset)
        self._process_id = os.getpid()
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
        self._surroundings.close()

    def _end_if_forked(self) -> None:
        """End a copy of this process that user code has forked and let go: it must not do the batch too."""
        if os.getpid() != self._process_id:
            os._exit(1)

    def _after_user_code(self) -> None:
        """Undo what an input has done to this process; end it if that cannot be undone."""
        self._end_if_forked()
        self._surroundings.restore()
        self._end_if_harmed()

    def _end_if_harmed(self) -> None:
        if self._give_up is not None and (harm := self._surroundings.harm()):
            self._give_up(harm)

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
            what = f"{type(dataset).__name__}: setup() raised {in_one_line(error)}"
            where = line_of(error, dataset)
            in_line = f" ({where})" if where else ""
            message = f"{what}{in_line}; mend that and run the same command again to continue"
            raise SetupError(message, shown_from_own(error)) from error
        self._surroundings.close()
        self._surroundings = Surroundings(self._needed, of_runner=self._give_up is not None)

    def run(self, batch: Batch) -> Report:
        """Do a batch to its end; raises StorageError when the output cannot be written."""
        if batch.waits_for_verdict and self._gate:
            self._gate.wait(SECONDS_BEHIND)
        began = time.perf_counter()
        self._job.storage.confirm(lately=True)
        with contextlib.closing(self._writer(batch)) as writer:
            task = Task(batch, self._job, writer, self._fetcher, self._members)
            try:
                self._do(task)
            except RecipeError as error:
                self._job.storage.unstage(batch.name)
                return Report.stopped(error, batch.name)
        task.report.seconds = time.perf_counter() - began
        return task.report

    def _do(self, task: Task) -> None:
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
            return DiscardWriter(storage, batch.name)
        stale = [name for names in batch.stale.values() for name in names]
        if batch.group is None:
            return self._job.sink.open(storage, batch.name, stale)
        return self._job.sink.open(storage, batch.name, [*stale, *batch.group.shards], batch.group.number)

    def _process_all(self, task: Task) -> None:
        for index in range(len(task.batch)):
            self._process_next(task, index)
            if task.batch.trial and task.report.outputs:
                return

    def _process_next(self, task: Task, index: int) -> None:
        if index not in task.finished:
            self._mark(index)
            self._process_one(task, index)
        self._fetcher.drop(index)
        self._members.drop(index)
        if task.batch.second is not None and not task.is_judged:
            task.is_judged = True
            self._judge(task, task.batch.second, index)

    def _judge(self, task: Task, second: Batch, index: int) -> None:
        """Raise RecipeError if another input fails just as the first one has."""
        blame = task.blame
        if blame is not None:
            self._mark(SECOND)
            storage = self._job.storage
            fetcher = Fetcher(Scratch(self._folder), apart=False, announce=self._announce)
            members = MemberFiles(Scratch(self._folder), fetcher)
            with contextlib.closing(fetcher), contextlib.closing(members):
                other = Task(second, self._job, DiscardWriter(storage, second.name), fetcher, members)
                self._process_one(other, 0)
            storage.unstage(second.name)
            if other.blame is not None and other.blame.is_like(blame):
                tried = (task.rows[index][0], other.rows[0][0])
                names = " and ".join(one_line(row[self._job.at]) for row in tried)
                raise RecipeError(
                    f"{type(self._job.dataset).__name__} fails alike on the first two inputs it is given, "
                    f"{names}: {blame}; mend that and run the same command again, or say --max-failures 100% "
                    "to go on whatever fails",
                    blame.traceback,
                )
        if self._gate:
            self._gate.open()

    def _process_group(self, task: Task, group: Group) -> None:
        """Process inputs, and take along what others have, in the order of the group as far as it can be."""
        index_of = {rank: index for index, rank in enumerate(group.ranks)}
        kept_of = {kept.rank: kept for kept in group.members}
        ranks = sorted({**index_of, **kept_of})
        members = {
            rank: member for rank in ranks if (member := task.batch.members.get(index_of.get(rank, -1)))
        }
        passed, finished = 0, set()
        older = OlderShards(self._job.storage, f"{self._folder}/older")
        with contextlib.closing(older):
            for rank in _as_they_are_read(ranks, members):
                index = index_of.get(rank)
                if index is not None:
                    self._process_next(task, index)
                if rank in kept_of and index not in task.finished:
                    self._mark(BETWEEN_INPUTS)
                    task.carry(kept_of[rank], older)
                finished.add(rank)
                while passed < len(ranks) and ranks[passed] in finished:
                    task.group_sink.advance(ranks[passed])
                    passed += 1

    def _process_one(self, task: Task, index: int) -> None:
        batch = task.batch
        known = batch.failures.get(index)
        if known:
            task.fail(index, known)
            return
        for attempt in range(1, self._job.retries + 2):
            try:
                input_file = task.take(index, self._scratch)
                result = checked_result(self._process(input_file))
                self._store(task, index, result, self._scratch)
            except (StorageError, Interrupted):
                # an input that has closed descriptors is to blame itself
                self._end_if_harmed()
                raise
            except Skip as reason:
                self._after_user_code()
                task.skip(index, str(reason), self._rows)
            except BaseException as error:
                self._after_user_code()
                task.sink.drop_input()
                if isinstance(error, OSError) and error.errno in _FULL:
                    raise StorageError.of(error, error.filename or "a temporary file") from error
                if attempt <= self._job.retries and may_pass(error):
                    time.sleep(0.1 * 2 ** (attempt - 1) * random.uniform(0.75, 1.25))  # noqa: S311
                    continue
                unreadable = not_read(error, task.path(index))
                if unreadable and isinstance(error, OSError):
                    error = UnreadableInput(f"{task.path(index)}: cannot be read: {error.strerror}")
                failure = failure_of(error, attempt, task.in_hand.get(index))
                if not unreadable and (batch.trial or batch.second is not None):
                    task.blame = Blame.of(error, failure, self._job.dataset)
                failure = task.named(index, after_batch(task.fault, failure))
                kind = kind_and_line(failure.error, failure.traceback, self._job.dataset)
                task.fail(index, failure, kind, unreadable=unreadable)
            finally:
                self._scratch.remove()
            return

    def _process_together(self, task: Task, together: Callable[[Sequence[InputFile]], Any]) -> None:
        """Give the batch to `process_batch`; what it leaves undone is then tried one by one."""
        scratch = self._scratch
        indexes, inputs = [], []
        for index in range(len(task.batch)):
            if index not in task.batch.failures:
                try:
                    inputs.append(task.take(index, scratch))
                    indexes.append(index)
                except (OSError, InputError):
                    continue
        self._mark(TOGETHER)
        try:
            results = together(inputs)
            if isinstance(results, Sized) and len(results) != len(inputs):
                raise BadResult(f"process_batch gave {len(results)} results for {len(inputs)} inputs")  # noqa: TRY301
            for index, result in zip(indexes, results, strict=True):
                self._store(task, index, checked_result(result), scratch)
        except (StorageError, Interrupted):
            self._end_if_harmed()
            raise
        except BaseException as error:  # noqa: BLE001 - a user's method may raise anything
            self._after_user_code()
            task.sink.drop_input()
            # as text, since the error itself keeps alive what the batch held, such as a GPU's memory
            task.fault = failure_of(error, 1)
            task.report.apart, task.report.apart_why = 1, f"raised {in_one_line(error)}"
        finally:
            scratch.remove()

    def _store(self, task: Task, index: int, result: Result, scratch: Scratch) -> None:
        outputs, metadata = result
        rows = task.rows[index]
        made: list[Made] = []
        names: set[str] = set()
        folder = ""
        size = files = 0
        for output in outputs:
            self._end_if_forked()
            self._surroundings.restore_umask()
            if not isinstance(output, OutputFile):
                raise BadResult(
                    f"process gave a {type(output).__name__} among its outputs; expected OutputFile"
                )
            name, content, own, row = output
            if content is None:
                where: Sequence[str] = self._rows.no_file
            else:
                _check_name(name, names)
                folder = folder or task.folder(index)
                stored = task.sink.store(folder, name, content, scratch)
                where = stored.output, str(stored.size), stored.checksum, *self._unknown
                size += stored.size
                files += 1
            if not 0 <= row < len(rows):
                raise BadResult(f"an output says it is of row {row}; the input has {len(rows)}")
            made.append((where, own, rows[row]))
        self._after_user_code()
        head, text = self._rows.make(rows[0], made, metadata)
        if task.batch.group is None:
            task.sink.keep_input()
            task.add(index, DONE, head=head, outputs=files, size=size, text=text)
        else:
            task.keep(index, head=head, outputs=files, size=size, text=text)

    def _commit(self, task: Task) -> None:
        """Begin, remove what is stale, publish, commit: the order that makes every crash recoverable."""
        batch = task.batch
        if not task.finished:
            return
        if batch.waits_for_verdict and self._gate and task.report.failed == len(batch):
            # if the recipe is to blame, none of these is to stand in errors.csv
            self._gate.wait(SECONDS_FOR_VERDICT)
        vanish = [name for index, names in batch.stale.items() if index in task.finished for name in names]
        self._publish(task, [batch.keys[index] for index in sorted(task.finished)], vanish)

    def _publish(self, task: Task, keys: list[int], vanish: list[str]) -> None:
        batch, storage = task.batch, self._job.storage
        appear = task.sink.names()
        storage.confirm()
        if appear or vanish:
            self._journal.begin(batch.name, keys, [*appear, *vanish])
            storage.remove(vanish)
            task.sink.publish()
            if self._job.durable or vanish or batch.group is not None:
                storage.sync([*appear, *vanish])
            # it may have taken long
            storage.confirm()
        self._journal.commit(batch.name, task.record)
        if appear or vanish:
            self._journal.end(batch.name)
            storage.unstage(batch.name)

    def _commit_group(self, task: Task, group: Group) -> None:
        """Publish the shards of a group in the place of those that there are.

        Where something is taken along from those, the batch is promised, and brought to its end in any case.
        """
        batch, sink, storage = task.batch, task.group_sink, self._job.storage
        if not (task.finished or group.dropped or task.report.undone):
            return
        loose = [name for index in sorted(task.finished) for name in batch.stale.get(index, [])]
        if not (task.made or loose or group.dropped or task.report.undone):
            # nothing comes to the shards, and nothing goes
            self._journal.commit(batch.name, task.record)
            storage.unstage(batch.name)
            return
        sink.finish()
        task.complete()
        for key in group.dropped:
            task.record.add_not_done(key)
        vanish = [*dict.fromkeys([*group.shards, *loose])]
        # what cannot be taken along goes with the shard that it was in
        keys = [batch.keys[index] for index in sorted(task.finished)] + group.dropped
        keys += [kept.key for kept in group.members]
        if not task.carried:
            self._publish(task, keys, vanish)
            return
        storage.park(batch.name)
        storage.confirm()
        names = [*dict.fromkeys([*sink.names(), *vanish])]
        self._journal.promise(batch.name, keys, names, moves=sink.moves(), record=task.record)
        self._journal.keep_own(batch.name)
        storage.unstage(batch.name)


def _as_they_are_read(ranks: list[int], members: dict[int, MemberLocation]) -> list[int]:
    """The ranks of a group, those in shards that are read on and on as they stand there.

    Where inputs are shuffled, each would else be sought from the beginning of its shard.
    """
    number_of: dict[str, int] = {}
    starts = {
        rank: (number_of.setdefault(member.shard.location, len(number_of)), member.start)
        for rank, member in members.items()
        if member.shard.kind != "tar"
    }
    in_sequence = iter(sorted(starts, key=starts.__getitem__))
    return [next(in_sequence) if rank in starts else rank for rank in ranks]


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
