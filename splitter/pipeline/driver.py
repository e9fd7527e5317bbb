"""Drive one stage: follow the stage before, then do the rest as an ordinary run, and make the manifest."""

import contextlib
import copy
import time
from collections.abc import Generator, Iterable, Sequence
from dataclasses import replace

from splitter.engine.assignment import Assignment, RunHooks, RunRequest, read_request
from splitter.engine.decide import Decision, State
from splitter.engine.main import run_to_end
from splitter.engine.rounds import Progress
from splitter.engine.summary import Summary
from splitter.errors import Interrupted, Refused, RunStopped, StorageError, UnknownColumn
from splitter.executors.base import Executor
from splitter.inputs.stages import Committed
from splitter.inputs.survey import Survey
from splitter.ledger.journal import Journal
from splitter.ledger.part_shares import bytes_together
from splitter.ledger.records import NOT_DONE
from splitter.ledger.shard_ranges import inputs_in_range
from splitter.pipeline.contents import Contents
from splitter.pipeline.definition import Stage
from splitter.pipeline.display import StageDisplay
from splitter.pipeline.following import follow
from splitter.pipeline.fusing import FusedUsers, FusedWork
from splitter.pipeline.neighbours import AT_WORK, COMPLETE, INCOMPLETE, PipelineRun, StageState, Upstream
from splitter.pipeline.ranges import Ranges
from splitter.storage.opening import storage_of
from splitter.text.labels import EARLIER
from splitter.worker.messages import Batch, Job, Report

SECONDS_TO_WAIT = 0.05


class StageHooks(RunHooks):
    """The hooks of a stage's run, which inform the stages after it and let them hold it back."""

    def __init__(self, stage: Stage, run: PipelineRun) -> None:
        self._state, self._queue = run.states[stage.name], run.pipeline.queue
        self._after = [run.states[one.name] for one in run.stages if one.before is stage]
        self.contents, self._fused = Contents(stage, run.pipeline.stages), FusedUsers(stage, run)
        # the shard size of the first stage that makes shards of ranges of the inputs of this one
        makers = (one for one in run.stages if one.takes_ranges and stage in one.line[:1])
        self._shard_bytes = next((one.options.shard_bytes for one in makers), None)
        self._journal: Journal | None = None

    def paced(self, batches: Iterable[Batch | None]) -> Generator[Batch | None, None, None]:
        """Give out no batch while later stages have too much to do, or have yet to say if they are fused."""
        for batch in batches:
            while self._is_full() or not self._fused.are_decided:
                time.sleep(SECONDS_TO_WAIT)
                yield None
            yield self._fused.with_them(batch, self._journal) if batch and self._journal else batch

    def lost(self) -> None:
        """Fuse no stage any more, since a worker was lost."""
        self._fused.stop()

    def _is_full(self) -> bool:
        return any(state.waiting > self._queue and state.end == AT_WORK for state in self._after)

    def begun(self, run: Assignment, decision: Decision, journal: Journal) -> None:
        """Let the stages after this one begin."""
        self._journal = journal
        self.contents.begin(run.storage)
        self.note_valid(run, decision.state, journal)
        self._state.begin(decision.generation)

    def note_valid(self, run: Assignment, state: State, journal: Journal) -> None:
        """Tell later stages which inputs were done before; they find what this run does in its records."""
        valid = journal.status(state.entries) != NOT_DONE
        valid[state.todo] = valid[state.stale] = False
        if self._state.generation:
            valid[valid] = journal.is_older(state.entries[valid], self._state.generation)
        self._state.note_valid(run.survey.keys[valid])

    def inputs_in_range(self, found: Survey) -> int | None:
        """Return how many inputs are done together if a later stage makes shards of ranges of them."""
        if self._shard_bytes is None:
            return None
        return inputs_in_range(len(found.keys), bytes_together(found.sizes), self._shard_bytes)


class _EndedEarly(Executor):
    """An executor for a run that has already ended early: it runs nothing, and only says why."""

    def __init__(self, like: Executor, why: Interrupted | Report) -> None:
        super().__init__(like.limits, like.cluster)
        self.elsewhere, self._why = like.elsewhere, why

    @property
    def workers(self) -> int:
        return 1

    def run(self, job: Job, batches: Iterable[Batch | None], busy: int) -> Generator[Report, None, None]:
        del job, batches, busy
        if isinstance(self._why, Interrupted):
            raise self._why
        yield self._why


class StageDriver:
    """The driver of one stage."""

    def __init__(self, stage: Stage, run: PipelineRun, display: StageDisplay) -> None:
        self._stage, self.display, self.hooks = stage, display, StageHooks(stage, run)
        self.state, self._needed = run.states[stage.name], run.needed[stage.name]
        line = [(one, run.states[one.name]) for one in stage.line if one.name in run.states]
        self._upstream = self._followed(line) if line else None
        self.fused = FusedWork(stage, self.state, storage_of(stage.outputs.folder)) if stage.fuse else None

    def _followed(self, line: Sequence[tuple[Stage, StageState]]) -> Upstream | Ranges:
        stage, (before, state) = self._stage, line[-1]
        if stage.takes_ranges:
            return Ranges(line, storage_of(stage.outputs.folder), stage.options.shard_bytes)
        return Upstream(before.outputs, state)

    def drive(self) -> Summary | None:
        """Run the stage and return its summary; None if the stage before has not come far enough."""
        progress, follows = Progress(), self._stage.follows and not len(self._needed)
        try:
            if self._upstream and follows and self._upstream.end == AT_WORK:
                self._tell_wait()
                progress = follow(self, self._upstream)
            elif self.fused:
                self.state.decline()
            end = self._wait() if not progress.stopped else INCOMPLETE
            if self.fused:
                progress.counts += self.fused.count()
        except Interrupted as interruption:
            if self.state.generation:
                # with nothing left to do, this ends as if there had been no interruption
                interruption.summary = self._rest(progress, INCOMPLETE, interruption)
            raise
        why = progress.stopped
        if end == INCOMPLETE and self._stage.options.sink != "files":
            if not progress.is_begun:
                return None
            # the inputs that share a shard are not complete
            why = why or "the stage before has not finished; run the same command to continue"
        problems = progress.problems
        stopped = Report(problems=replace(problems, stop=why)) if why else None
        summary = self._rest(progress, end, stopped)
        if summary is None:
            return None
        # a run with nothing left to do does not say why the stage stopped
        shown = problems.traceback or summary.traceback
        return replace(summary, stopped=why or summary.stopped, traceback=shown)

    def _wait(self) -> int:
        """Wait until the stage before has ended, and return how it did."""
        if self._upstream is None or self._stage.before is None:
            return COMPLETE
        self._tell_wait()
        while self._upstream.end == AT_WORK:
            time.sleep(SECONDS_TO_WAIT)
        return self._upstream.end

    def _tell_wait(self) -> None:
        if self._upstream and self._stage.before and self._upstream.end == AT_WORK:
            self.display.send("waits", stage=self._stage.before.name)

    def _rest(self, progress: Progress, end: int, why_ended: Interrupted | Report | None) -> Summary | None:
        """Do what is left, and make the manifest; remove unlisted outputs if the list is complete."""
        # if the stage before is complete, what it has not made is gone; otherwise, that may still come
        prunes = self._stage.options.prune if self._upstream is None else end == COMPLETE
        try:
            summary = self._run_to_end(progress, why_ended, prune=prunes)
        except StorageError:
            if self._upstream is None or why_ended is None:
                raise
            # this stage ends early, and the stage before was perhaps merging its records: now they are merged
            summary = self._run_to_end(progress, why_ended, prune=prunes)
        if summary is None:
            return None
        before_stage = self._stage.before
        if before_stage and not summary.inputs and (advice := before_stage.outputs.without_files):
            self.display.warn(advice)
        return summary

    def _run_to_end(
        self, progress: Progress, why_ended: Interrupted | Report | None, *, prune: bool
    ) -> Summary | None:
        request = self.request(prune=prune)
        if why_ended is not None:
            request = replace(request, executor=_EndedEarly(request.executor, why_ended))
        before = Progress(began=progress.began, counts=progress.counts, problems=progress.problems)
        try:
            return run_to_end(request, self.display, progress=before, needed=self._needed)
        except Refused:
            if prune or self._upstream is None or self._stage.options.sink == "files":
                raise
            # shards hold inputs that an incomplete list does not have: only a complete one says which must go
            if progress.stopped:
                raise RunStopped(progress.stopped) from None
            return None

    def request(self, committed: Committed | None = None, *, prune: bool = False) -> RunRequest:
        """Return the request for a run of this stage, on all that is committed or on a part of it."""
        dataset, stage = copy.copy(self._stage.dataset), self._stage
        options = replace(stage.options, prune=prune)
        if committed is not None:
            source = replace(dataset.inputs.source, committed=committed)
            dataset.inputs = replace(dataset.inputs, source=source)
            if not committed.parts:
                # the condition may be about columns that are not known yet
                dataset.inputs, options = replace(dataset.inputs, where=None), replace(options, where=None)
        try:
            request = read_request(dataset, storage_of(stage.outputs.folder), options, self.display)
        except UnknownColumn as error:
            raise UnknownColumn(self._advised(str(error))) from None
        return replace(request, hooks=self.hooks)

    def _advised(self, why: str) -> str:
        """Return why a column is missing; if the stage before made no files, advise on that."""
        said, hint, _ = why.partition(f"; did you mean '{EARLIER}")
        advice = ""
        if hint and self._stage.before:
            # its records may be merged at this moment
            with contextlib.suppress(StorageError):
                advice = self._stage.before.outputs.without_files
        return f"{said}; {advice}" if advice else why


def is_complete(summary: Summary | None) -> bool:
    """Return whether a stage has come to its end: each of its inputs is done, skipped or failed."""
    if summary is None or summary.stopped:
        return False
    return summary.limited or not (summary.left or summary.stale)
