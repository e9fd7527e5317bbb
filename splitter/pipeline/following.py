"""Process what the stage before commits, as it commits it.

This is only an early start: what it does is in the records of an ordinary run, which comes afterwards,
finds most of its work done, and makes the manifest.
"""

import contextlib
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from splitter.engine.assignment import Assignment, RunRequest, read_assignment
from splitter.engine.batches import BatchPlanner, GroupPlanner, Pace, Planner
from splitter.engine.begin import begin
from splitter.engine.decide import NOTHING, State, compare, decide
from splitter.engine.display import Display
from splitter.engine.lost_workers import LostWorkers
from splitter.engine.rounds import FEW_INPUTS, ROUNDS_WITHOUT_PROGRESS, Progress, do_round, is_careful
from splitter.engine.taken_names import TakenFolders
from splitter.errors import Refused, StorageError, UnknownColumn
from splitter.inputs.reading import read_source
from splitter.inputs.source import ListReading
from splitter.inputs.stages import Committed
from splitter.ledger.journal import Journal
from splitter.ledger.part_shares import bytes_together
from splitter.ledger.recipe_record import how_before
from splitter.ledger.run_files import LIST
from splitter.ledger.tables import take_away
from splitter.pipeline.neighbours import AT_WORK, Upstream
from splitter.pipeline.ranges import Ranges
from splitter.text.conditions import columns_in
from splitter.worker.messages import Batch, Report

if TYPE_CHECKING:
    from splitter.pipeline.driver import StageDriver
    from splitter.text.csv import Row

# raised by reading a wave when its records have been merged, which the stage before does at its end: the run
# that comes after this finds the inputs
WHILE_MERGED = (StorageError, OSError)
# while nothing new has come: the pause between looks at what the workers report
SECONDS_TO_WAIT = 0.02


def follow(driver: "StageDriver", upstream: Upstream | Ranges) -> Progress:
    """Process inputs as they come, until the stage before has ended, or something stops this one."""
    progress, fused = Progress(), driver.fused
    early = _early_request(driver, upstream) if fused and isinstance(upstream, Upstream) else None
    request = early or _first_request(driver.request, upstream, driver.display)
    if request is None:
        return progress
    storage = request.storage
    storage.prepare()
    with (
        storage.locked(elsewhere=request.executor.elsewhere),
        storage.unless_refused(),
        contextlib.closing(request.executor),
        storage.working_file(LIST.name) as file,
        contextlib.closing(_Waves(driver, upstream, request)) as waves,
    ):
        try:
            if waves.begin(progress, file) and (early is None or waves.wait_for_work()):
                waves.do_rounds(progress)
        finally:
            if fused:
                fused.leave(storage, upstream, is_stopped=bool(progress.stopped))
    return progress


def _early_request(driver: "StageDriver", upstream: Upstream) -> RunRequest | None:
    """Return a request without inputs; None if only inputs can show whether the request makes sense."""
    nothing = upstream.nothing()
    with contextlib.suppress(Refused):
        if nothing:
            return driver.request(nothing)
    driver.state.decline()
    return None


def _first_request(
    request_of: Callable[[Committed], RunRequest | None],
    upstream: Upstream | Ranges,
    display: Display,
) -> RunRequest | None:
    """Wait for enough inputs to see whether the recipe works; return None if none come.

    A column that an option names may come late; if it never does, the run that comes after this says so.
    """
    first: Committed | None = None
    is_told = False
    while True:
        end, wave = upstream.end, upstream.look()
        if wave is None and end == AT_WORK:
            time.sleep(upstream.seconds)
            continue
        first = first.with_later(wave) if first else wave
        if first is None:
            return None
        request: RunRequest | None = None
        rows: list[Row] = []
        with contextlib.suppress(*WHILE_MERGED):
            try:
                request = request_of(first)
                rows = [*request.source.rows] if request else []
            except UnknownColumn as error:
                if not is_told:
                    display.warn(f"{error}; waiting, as it may come later")
                is_told = True
        if request and (len(rows) > FEW_INPUTS or (wave is None and rows)):
            request.source.rows = rows
            return request
        if wave is None:
            return None


class _Waves(BatchPlanner):
    """The batches of wave after wave of inputs; a wave is what the stage before has just committed."""

    def __init__(self, driver: "StageDriver", upstream: Upstream | Ranges, request: RunRequest) -> None:
        self._upstream, self._request, self._contents = upstream, request, driver.hooks.contents
        self._state, self._fused = driver.state, driver.fused
        self._display, self._quiet = driver.display, Display(quiet=True)
        self._journal = Journal(request.storage)
        self._journal.recover()
        self._journal.load()
        self._files = contextlib.ExitStack()
        # the batches that workers have, by name, each with its assignment
        self._given: dict[str, tuple[Assignment, Batch]] = {}
        self._pace = Pace()
        # nobody knows how many will come
        self.batches, self.inputs = sys.maxsize, 0
        # the bytes of inputs in the present waves that are not done
        self._size = 0
        self._is_over = False

    def close(self) -> None:
        """Close the lists."""
        self._files.close()
        self._state.waiting = 0

    # -- rounds ----------------------------------------------------------------------------------------------

    def begin(self, progress: Progress, file: BinaryIO) -> bool:
        """Begin as a run does; return False if it needs the whole list, such as to remove outputs first."""
        self._progress = progress
        run = read_assignment(self._request, file, self._quiet)
        run = self._run = replace(run, listed=replace(run.listed, is_part=True))
        try:
            decision = decide(run, self._journal)
        except Refused:
            # outputs may be in the way, and only the whole list shows which of their inputs are gone
            return False
        before, earlier = how_before(run.storage)
        changes_sink = bool(before) and before.get("sink") != run.how["sink"]
        if changes_sink or len(decision.forgotten) or len(decision.once_more):
            return False
        if run.job.layout.naming is not None and len(decision.state.gone):
            return False
        to_do = self._untouched(decision.state)
        if len(decision.state.todo) and not len(to_do.todo):
            # all groups to do already have shards, from before a change
            return False
        if run.groups is not None and not _has_columns(run):
            return False
        run.executor.check(run.job, len(run.table))
        take_away(run.storage)
        earlier = [one for one in (*earlier, before) if one and one != run.how]
        begin(run, replace(decision, earlier=earlier), self._journal, progress)
        run.hooks.begun(run, decision, self._journal)
        self._generation = decision.generation
        # outputs in shards take no folders
        gone = decision.state.gone if run.groups is None else NOTHING
        self._taken = TakenFolders(self._journal, gone)
        self._planner = self._plan(to_do, careful=is_careful(run, to_do, self._journal))
        if self._fused:
            listing = replace(self._request.listing, where=self._fused.where)
            self._request = replace(self._request, listing=listing)
            self._fused.offer(run, listing, decision.generation)
        return True

    def wait_for_work(self) -> bool:
        """Wait for inputs that other workers have left; return False if they have done everything."""
        allowed = self._run.options.failures_allowed(0)
        while not self._planner.inputs and self._progress.counts.failed <= allowed:
            # the stage before must not be held back by work that its own workers do
            self._state.waiting = 0
            request = _first_request(self._request_for, self._upstream, self._display)
            if request is None or self._is_cut_off:
                return False
            self._take(request, careful=True)
        self._run.executor.check(self._run.job, len(self._run.table))
        return True

    def do_rounds(self, progress: Progress) -> None:
        """Do wave after wave; a round ends early if a worker is lost, or if a new column comes."""
        idle = 0
        while idle < ROUNDS_WITHOUT_PROGRESS:
            inputs = progress.counts.inputs
            do_round(self._run, self, progress, self._run.options.failures_allowed(0), self._display)
            idle = idle + 1 if progress.counts.inputs == inputs else 0
            if self._is_over or progress.stopped:
                return
            if self._given:
                self._run.hooks.lost()
            if self._fused is None:
                self._journal.recover()
                self._journal.load()
            elif self._given:
                # nothing is recovered while other workers are at work here
                return
            # the run that comes after this finds what a lost worker has left undone in earlier waves
            self._given.clear()
            self._size = 0
            self._planner = self._plan(self._compared())

    def _compared(self) -> State:
        """Return what to do now; inputs that may collide with others' outputs wait for the whole list."""
        self._count_fused()
        state = self._untouched(compare(self._run, self._journal, NOTHING, self._generation))
        meets = self._taken.meet(self._run.survey, state.todo)
        return replace(state, todo=state.todo[~meets]) if meets.any() else state

    def _untouched(self, state: State) -> State:
        """Return what to do, without groups that have shards: these wait for the whole list."""
        groups, journal = self._run.groups, self._journal
        if groups is None:
            return state
        ranks = groups.ranks(journal.entries["key"][journal.with_outputs(journal.done())])
        made = groups.groups_of(ranks[ranks >= 0])
        of_each = groups.groups_of(groups.ranks(self._run.survey.keys[state.todo]))
        return replace(state, todo=state.todo[~np.isin(of_each, made)])

    def _count_fused(self) -> None:
        """Count what other workers have done."""
        if self._fused is not None:
            self._journal.load_new()
            counts = self._fused.count()
            self.inputs += counts.inputs
            self._progress.counts += counts

    def _plan(self, to_do: State, *, careful: bool = False) -> Planner | GroupPlanner:
        """Plan the present wave, and show how much more there is to do."""
        sizes = self._run.survey.sizes[to_do.todo]
        size = bytes_together(sizes)
        self._size += size
        self._tell_waiting()
        self.inputs += len(sizes)
        self._display.start(inputs=self.inputs, size=size)
        self._display.update(self._progress.counts)
        run, journal, losses = self._run, self._journal, LostWorkers()
        if run.groups is None:
            return Planner(run, to_do, journal, losses, careful=careful, pace=self._pace)
        # groups must be stored before any of their inputs is committed, even if the list changes meanwhile
        run.groups.write(run.storage)
        return GroupPlanner(run, to_do, journal, run.groups, NOTHING, losses, careful=careful)

    @property
    def _is_cut_off(self) -> bool:
        """Whether inputs that come now may be half done here: they are left to the run that comes after."""
        return self._fused is not None and self._fused.is_cut_off

    def _tell_waiting(self) -> None:
        """Tell the stage before how many bytes wait, including those that are in no wave yet."""
        self._state.waiting = self._size + self._upstream.waiting

    # -- called by a round -----------------------------------------------------------------------------------

    def learn(self, report: Report) -> None:
        """Take note of the time that a batch took, and of the inputs that are used now."""
        self._planner.learn(report)
        if report.batch not in self._given:
            return
        run, batch = self._given.pop(report.batch)
        self._size = max(0, self._size - sum(size for size in batch.sizes if size > 0))
        self._upstream.gather()
        self._tell_waiting()
        if report.counts.done + report.counts.skipped == len(batch):
            self._contents.used(run, batch)

    def __iter__(self) -> Iterator[Batch | None]:
        """Yield batches, and None while there is nothing to do."""
        while True:
            for batch in self._planner:
                self._given[batch.name] = self._run, batch
                yield batch
            has_same_columns = yield from self._next_wave()
            if not has_same_columns:
                return

    def _next_wave(self) -> Generator[None, None, bool]:
        """Wait for inputs; return False if none will come, or if workers must learn of a new column first."""
        while True:
            end, wave = self._upstream.end, self._upstream.look()
            if self._is_cut_off or (wave is None and end != AT_WORK):
                self._is_over = True
                return False
            request = self._request_for(wave) if wave else None
            self._tell_waiting()
            if request is None:
                time.sleep(SECONDS_TO_WAIT)
                yield None
                continue
            return self._take(request)

    def _take(self, request: RunRequest, *, careful: bool = False) -> bool:
        """Take up a wave; return whether it has the same columns as the one before."""
        # the list of the wave before, of which everything has been given out
        self._files.close()
        file = self._files.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 - closed with the next
        run = read_assignment(request, file, self._quiet, keep=False)
        run = replace(run, listed=replace(run.listed, is_part=True))
        has_same_columns = run.job.header == self._run.job.header
        self._run = replace(run, job=self._run.job) if has_same_columns else run
        to_do = self._compared()
        run.hooks.note_valid(run, to_do, self._journal)
        careful = careful and is_careful(run, to_do, self._journal)
        self._planner = self._plan(to_do, careful=careful)
        return has_same_columns

    def _request_for(self, wave: Committed) -> RunRequest | None:
        """Return the request for a wave; None if no row of it meets the condition of the stage."""
        request = self._request
        listing = replace(request.listing, source=replace(request.listing.source, committed=wave))
        rows: list[Row] = []
        with contextlib.suppress(*WHILE_MERGED):
            reading = ListReading(request.storage.root, request.dataset.group_rows)
            source = read_source(listing, reading)
            source.rows = rows = [*source.rows]
        return replace(request, listing=listing, source=source) if rows else None


def _has_columns(run: Assignment) -> bool:
    """Return whether all columns that samples are made of are there, so that none may come later."""
    header, keys_of = run.job.header, getattr(run.job.dataset, "metadata_keys", None)
    names = {*run.options.fields_asked.values(), *(columns_in(run.job.keep) if run.job.keep else ())}
    return names <= {*header, *(keys_of(header) if keys_of else ())}
