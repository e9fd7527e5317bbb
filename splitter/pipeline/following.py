"""Do what the stage before commits, as it commits it.

This is only an early start: all that it does stands in the records of an ordinary run, which comes after it,
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

# what reading a wave raises when its records have been merged, as the stage before does at its end: then
# the run that comes after this finds its inputs
WHILE_MERGED = (StorageError, OSError)
# while nothing has come: so often the driver hears what its workers have to say
SECONDS_TO_WAIT = 0.02


def follow(driver: "StageDriver", upstream: Upstream | Ranges) -> Progress:
    """Do inputs as they come, until the stage before has ended, or something stops this one."""
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
    """Return a request for no input yet; None if there must be some to see whether it makes sense."""
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
    """Wait for enough inputs to see whether the recipe works; return None if there is none in the end.

    A column that an option names may come late: that it never does, the run that comes after this says.
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
    """The batches of wave after wave of inputs, each of which the stage before has just committed."""

    def __init__(self, driver: "StageDriver", upstream: Upstream | Ranges, request: RunRequest) -> None:
        self._upstream, self._request, self._contents = upstream, request, driver.hooks.contents
        self._state, self._fused = driver.state, driver.fused
        self._display, self._quiet = driver.display, Display(quiet=True)
        self._journal = Journal(request.storage)
        self._journal.recover()
        self._journal.load()
        self._files = contextlib.ExitStack()
        # those that workers have, by name, and what they are of
        self._given: dict[str, tuple[Assignment, Batch]] = {}
        self._pace = Pace()
        # nobody knows how many will come
        self.batches, self.inputs = sys.maxsize, 0
        # bytes of inputs that are in the present waves, and not done
        self._size = 0
        self._is_over = False

    def close(self) -> None:
        """Close the lists."""
        self._files.close()
        self._state.waiting = 0

    # -- rounds ----------------------------------------------------------------------------------------------

    def begin(self, progress: Progress, file: BinaryIO) -> bool:
        """Begin as a run does; return False if a part of the list cannot tell what is to be removed first."""
        self._progress = progress
        run = read_assignment(self._request, file, self._quiet)
        run = self._run = replace(run, listed=replace(run.listed, is_part=True))
        try:
            decision = decide(run, self._journal)
        except Refused:
            # what is gone, and in the way, is only known when the list is whole
            return False
        before, earlier = how_before(run.storage)
        changes_sink = bool(before) and before.get("sink") != run.how["sink"]
        if changes_sink or len(decision.forgotten) or len(decision.once_more):
            return False
        if run.job.layout.naming is not None and len(decision.state.gone):
            return False
        to_do = self._untouched(decision.state)
        if len(decision.state.todo) and not len(to_do.todo):
            # all of it was made before a change
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
        """Wait for something that other workers have left; return False if they have done everything."""
        allowed = self._run.options.failures_allowed(0)
        while not self._planner.inputs and self._progress.counts.failed <= allowed:
            # nobody is to be held back by what others do
            self._state.waiting = 0
            request = _first_request(self._request_for, self._upstream, self._display)
            if request is None or self._is_cut_off:
                return False
            self._take(request, careful=True)
        self._run.executor.check(self._run.job, len(self._run.table))
        return True

    def do_rounds(self, progress: Progress) -> None:
        """Do wave after wave; a round ends early if a worker is lost, or if a column comes that is new."""
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
            # of earlier waves the run that comes after this finds what a lost worker has left
            self._given.clear()
            self._size = 0
            self._planner = self._plan(self._compared())

    def _compared(self) -> State:
        """Return what is to be done now; what may meet outputs of another input waits for the whole list."""
        self._count_fused()
        state = self._untouched(compare(self._run, self._journal, NOTHING, self._generation))
        meets = self._taken.meet(self._run.survey, state.todo)
        return replace(state, todo=state.todo[~meets]) if meets.any() else state

    def _untouched(self, state: State) -> State:
        """Return what is to be done without groups that have shards: these wait for the whole list."""
        groups, journal = self._run.groups, self._journal
        if groups is None:
            return state
        ranks = groups.ranks(journal.entries["key"][journal.with_outputs(journal.done())])
        made = groups.groups_of(ranks[ranks >= 0])
        of_each = groups.groups_of(groups.ranks(self._run.survey.keys[state.todo]))
        return replace(state, todo=state.todo[~np.isin(of_each, made)])

    def _count_fused(self) -> None:
        """Take note of what other workers have done."""
        if self._fused is not None:
            self._journal.load_new()
            counts = self._fused.count()
            self.inputs += counts.inputs
            self._progress.counts += counts

    def _plan(self, to_do: State, *, careful: bool = False) -> Planner | GroupPlanner:
        """Plan the present wave, and say how much more there is to do."""
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
        # known before any of it is committed, also if the list has changed meanwhile
        run.groups.write(run.storage)
        return GroupPlanner(run, to_do, journal, run.groups, NOTHING, losses, careful=careful)

    @property
    def _is_cut_off(self) -> bool:
        """Whether what comes now may be half done here: that is for the run that comes after this."""
        return self._fused is not None and self._fused.is_cut_off

    def _tell_waiting(self) -> None:
        """Tell the stage before how much waits, also of what is in no wave yet."""
        self._state.waiting = self._size + self._upstream.waiting

    # -- what a round asks -----------------------------------------------------------------------------------

    def learn(self, report: Report) -> None:
        """Take note of the time, and of the inputs that are used now."""
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
        """Wait for more; return False if workers must know of a new column first, or if no more will come."""
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
        # of which everything has been given out
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
    """Return whether the columns that make samples are there, and none of them may come later."""
    header, keys_of = run.job.header, getattr(run.job.dataset, "metadata_keys", None)
    names = {*run.options.fields_asked.values(), *(columns_in(run.job.keep) if run.job.keep else ())}
    return names <= {*header, *(keys_of(header) if keys_of else ())}
