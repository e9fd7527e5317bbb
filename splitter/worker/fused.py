"""Stages of a pipeline that run in the workers of the stage before, on files that need not be stored.

    parent   process ─┐                              ┌─ commit, without files that all have used
    child             └─ process ── publish ── commit ─┘

The child's work is an ordinary batch of its own run, in its own folder. Anything unusual is left to the
child's own workers: then the files of the parent are published, as if the stages were not fused.
"""

import contextlib
import os
import pickle
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from splitter.errors import NameTaken, SetupError, SplitterError, StorageError
from splitter.inputs.listing import InputList
from splitter.inputs.reading import ListSource, read_source
from splitter.inputs.stages import AboutToBeCommitted, stated
from splitter.ledger.journal import Journal
from splitter.ledger.protocol import BEGUN, generation_of
from splitter.records import Content, InputFile, Scratch
from splitter.sinks.base import SinkWriter, StoredOutput
from splitter.sinks.files import FilesWriter
from splitter.storage.base import Storage
from splitter.storage.layout import key_hash, same_name
from splitter.system.recipe_code import TextImporter
from splitter.text.csv import CsvText, Row
from splitter.text.urls import without_secrets
from splitter.worker.batch import BETWEEN_INPUTS, FUSED, TOGETHER, BatchInProgress
from splitter.worker.messages import Batch, Failure, Fused, Job
from splitter.worker.rows import RowMaker
from splitter.worker.tools import WorkerTools

if TYPE_CHECKING:
    from splitter.inputs.fetching import RemoteInput
    from splitter.worker.worker import Worker

# in names of records, after the generation: these sort before the records of the stage's own batches
MARK = "--fused-"


class LeftToOwnWorkers(StorageError):
    """An unusual case, which leaves this batch to the stage's own workers."""


class LeftHalfDone(StorageError):
    """A failure to undo what was begun in the stage's folder: nothing may continue as if it were undone."""


@dataclass(frozen=True)
class FusedOrder:
    """What a worker of the stage before needs to know about a stage.

    It is sent with the code of the recipe, if a worker may not have that, and with the output folder and the
    generation, which are all that a worker needs to undo what another one began.

    Attributes:
        job: The job that its own workers have; rows may have other columns.
        listing: How the rows of the stage before become its own.
        generation: The generation of its run.
        timeout: Seconds for one input.
        step: How many inputs are processed, and committed, at once; None for all.
    """

    job: Job
    listing: InputList
    generation: int
    timeout: float | None
    step: int | None

    @property
    def takes_files(self) -> bool:
        """Whether its inputs are the outputs of the stage before; otherwise, they are that stage's inputs."""
        return not self.listing.source.adds_columns


class FusingInProgress(BatchInProgress):
    """A batch of a stage with which other stages are fused."""

    def __init__(
        self, batch: Batch, tools: WorkerTools, stages: "FusedStages", files: Mapping[str, str] | None = None
    ) -> None:
        """Take the paths of inputs that are not stored as `files`, by their names in the list."""
        self._stages, self._files = stages, files or {}
        # whether no other worker will need the outputs of this batch, and whether none will need its inputs
        self._is_used, self._is_passed = False, True
        super().__init__(batch, tools)

    def _commit(self) -> None:
        if self.batch.fused is not None and isinstance(self.sink, FilesWriter) and not self.batch.stale:
            self._do_fused(self.sink.staged(), self.batch.fused)
        super()._commit()

    def _do_fused(self, staged: Mapping[str, str], fused: Fused) -> None:
        made = AboutToBeCommitted(tuple(self.job.header), tuple(self.record.done()))
        # for each stage that is left to its own workers, whether it takes the outputs of this one
        left: list[bool] = []
        for content, inner in fused.stages:
            stage = self._stages.of(content)
            takes_files = stage is not None and stage.order.takes_files
            files = staged if takes_files else self._files
            if stage is None or not stage.do(made, files, self.batch.name, inner):
                left.append(takes_files)
        self._is_used, self._is_passed = fused.drops and not left, all(left)
        self.tools.surroundings.after_user_code()
        self.tools.mark(BETWEEN_INPUTS)

    def publish(self, keys: list[int], vanish: list[str], *, durable: bool) -> None:
        """Publish and commit; only commit if all stages that read the files have used them."""
        if not self._is_used:
            super().publish(keys, vanish, durable=durable)
            return
        self.job.storage.confirm()
        self.tools.journal.commit(self.batch.name, self.record)
        self.job.storage.unstage(self.batch.name)


class _FusedInProgress(FusingInProgress):
    """A batch of a fused stage, whose inputs are files that are not stored."""

    def __init__(
        self, batch: Batch, tools: WorkerTools, stage: "FusedStage", files: Mapping[str, str]
    ) -> None:
        self._stage = stage
        super().__init__(batch, tools, stage.stages, files)

    @property
    def is_finished(self) -> bool:
        """Whether no other worker will need its inputs."""
        return self._is_passed and not self.report.counts.failed and len(self.finished) == len(self.batch)

    def _open_sink(self) -> SinkWriter:
        return _NewFilesWriter(self.job.storage, self.batch.name)

    def _remote_inputs(self) -> "dict[int, RemoteInput]":
        return {}

    def _path(self, index: int) -> str:
        return self._files[self.rows[index][0][self.job.at]]

    def _take(self, index: int) -> InputFile:
        return super()._take(index)._replace(local_path=self._path(index))

    def _in_words_of_the_list(self, index: int, failure: Failure) -> Failure:
        """Return the failure with the folder where the file would be if it were stored."""
        location = self.job.layout.location(self.rows[index][0][self.job.at])
        here, there = (os.path.dirname(path) for path in (self._path(index), without_secrets(location)))
        return replace(failure, message=failure.message.replace(here, there))

    def _commit(self) -> None:
        self._stage.see_whether_it_works(self)
        super()._commit()


class _NewFilesWriter(FilesWriter):
    """A writer that leaves the batch to the stage's own workers if a name is taken."""

    def store(self, folder: str, name: str, content: Content, scratch: Scratch) -> StoredOutput:
        try:
            return super().store(folder, name, content, scratch)
        except NameTaken as error:
            raise LeftToOwnWorkers(str(error)) from error

    def _refuse_taken(self, stored: StoredOutput) -> None:
        raise LeftToOwnWorkers(f"{stored.output}: its folder exists")


class FusedStage:
    """A fused stage, in a worker of the stage before."""

    def __init__(self, order: FusedOrder, stages: "FusedStages") -> None:
        self.order, self.stages = order, stages
        self._worker: Worker | None = None
        self._inputs = 1
        # whether its recipe has worked here, and whether its setup() has failed
        self._works = self._is_broken = False
        self._tools: dict[tuple[str, ...], WorkerTools] = {}
        self._keys_before: np.ndarray | None = None

    def do(self, made: AboutToBeCommitted, files: Mapping[str, str], batch: str, fused: Fused) -> bool:
        """Process the files of a batch of the stage before; return whether no other worker will need them."""
        if self._is_broken:
            return False
        self.stages.mark(FUSED)
        try:
            listing = self.order.listing
            source = read_source(replace(listing, source=replace(listing.source, committed=made)))
            rows = [*source.rows]
            if not rows:
                return True
            at = source.header.index(source.column)
            if not all(row[at] in files for row in rows):
                return False
            tools = self._tools_for(source)
            whole = replace(
                _batch_of(_name_of(batch, self.order.generation), source, rows, tools),
                fused=fused,
                step=self.order.step,
            )
            if np.isin(np.array(whole.keys, "u8"), self._done_before()).any():
                # stale outputs must go even if nothing replaces them: the stage's own workers see to that
                return False
            with tools.job.storage.at_work():
                finished = [self._do_step(step, tools, files) for step in whole.steps()]
            return all(finished)
        except LeftHalfDone:
            raise
        except SetupError:
            self._is_broken = True
        except (SplitterError, OSError):
            # the stage's own workers will find out what is wrong
            pass
        return False

    def _do_step(self, batch: Batch, tools: WorkerTools, files: Mapping[str, str]) -> bool:
        self._inputs = len(batch)
        tools.surroundings.after_user_code()
        in_progress = _FusedInProgress(batch, tools, self, files)
        try:
            in_progress.run()
        except (SplitterError, OSError):
            tools.job.storage.unstage(batch.name)
            try:
                tools.journal.finish_batch(batch.name)
            except SplitterError as error:
                raise LeftHalfDone(str(error)) from error
            raise
        return in_progress.is_finished

    def _done_before(self) -> np.ndarray:
        """Return the keys of inputs from which an earlier run made files."""
        if self._keys_before is None:
            journal = Journal(self.order.job.storage)
            names = [name for name in journal.record_names() if not name.endswith(BEGUN)]
            journal.load_only([name for name in names if generation_of(name) < self.order.generation])
            self._keys_before = journal.entries["key"][journal.with_outputs(journal.done())]
        return self._keys_before

    def see_whether_it_works(self, batch: BatchInProgress) -> None:
        """Raise LeftToOwnWorkers if all inputs failed and the recipe has never worked here."""
        counts = batch.report.counts
        self._works = self._works or counts.done + counts.skipped > 0
        if not self._works:
            raise LeftToOwnWorkers(f"{batch.batch.name}: everything failed")

    def _tools_for(self, source: ListSource) -> WorkerTools:
        """Return the tools for rows with these columns; further columns may come during a run."""
        if self._worker is None:
            worker = self.stages.begin(replace(self.order.job, cpus=self.stages.cpus), self._mark)
            try:
                worker.setup()
            except BaseException:
                worker.close()
                raise
            self._worker = worker
            self.stages.workers.append(worker)
        header = tuple(source.header)
        if header not in self._tools:
            job, at = self.order.job, source.header.index(source.column)
            job = replace(job, header=source.header, at=at, marks=replace(job.marks, header=source.header))
            self._tools[header] = replace(self._worker.tools, job=job, rows=RowMaker(job))
        return self._tools[header]

    def _mark(self, index: int) -> None:
        """Note how long the work that begins now may take."""
        inputs = self._inputs if index == TOGETHER else int(index >= 0)
        self.stages.mark(FUSED - int(1000 * inputs * (self.order.timeout or 0)))


class FusedStages:
    """The fused stages of a worker, each loaded when there is something to do."""

    def __init__(
        self,
        begin: "Callable[[Job, Callable[[int], None]], Worker]",
        mark: Callable[[int], None],
        cpus: int,
    ) -> None:
        """Take `begin`, which makes a worker for a job, and `mark`, which notes what that worker is at."""
        self.begin, self.mark, self.cpus = begin, mark, cpus
        self._stages: dict[bytes, FusedStage | None] = {}
        self.workers: list[Worker] = []

    def of(self, content: bytes) -> FusedStage | None:
        """Return the stage that is pickled in `content`; None if its recipe cannot be loaded here."""
        if content not in self._stages:
            order, sources, _, _ = pickle.loads(content)  # noqa: S301 - from the driver of this pipeline
            if sources:
                sys.meta_path.insert(0, TextImporter(sources))
            self._stages[content] = None
            # a user's module may raise anything while it is imported
            with contextlib.suppress(Exception):
                self._stages[content] = FusedStage(pickle.loads(order), self)  # noqa: S301 - the same
        return self._stages[content]

    def undo(self, fused: Fused, batch: str) -> None:
        """Undo what a dead runner began in these stages, with a batch of this name; load no recipe."""
        for content, inner in fused.stages:
            _, _, storage, generation = pickle.loads(content)  # noqa: S301 - as above
            name = _name_of(batch, generation)
            _undo(storage, name)
            self.undo(inner, name)

    def close(self) -> None:
        """Close the workers of the stages."""
        for worker in self.workers:
            worker.close()


def _name_of(batch: str, generation: int) -> str:
    """Return the name of the batch that a stage makes from one of the stage before."""
    return f"{generation:06d}{MARK}{batch}"


def _undo(storage: Storage, batch: str) -> None:
    """Undo the batches begun under this name, or as steps of it."""
    journal = Journal(storage)
    with storage.at_work():
        for begun in journal.open_batches(journal.record_names()):
            if begun.startswith(batch):
                journal.finish_batch(begun.removesuffix(BEGUN))


def _batch_of(name: str, source: ListSource, rows: list[Row], tools: WorkerTools) -> Batch:
    """Return the inputs of a stage as a batch, as its own driver would make it."""
    job, csv = tools.job, CsvText()
    keys = [job.layout.key(row[job.at]) for row in rows]
    folders = {same_name(job.layout.folder(key)) for key in keys}
    if len(folders) < len(keys) or len(source.reading.members) or not source.size_column:
        raise LeftToOwnWorkers(f"{name}: its inputs are no plain files")
    size_at = source.header.index(source.size_column)
    found = [stated(row[size_at]) for row in rows]
    texts = [csv.encode([row]) for row in rows]
    return Batch(
        name, texts, [*map(key_hash, keys)], [one.size for one in found], [one.changed for one in found]
    )
