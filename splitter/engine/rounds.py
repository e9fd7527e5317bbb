"""A run under the lock of its output folder.

What an executor returns is only progress. After every round the commit records say what is left.
"""

import contextlib
import functools
import time
from dataclasses import replace
from typing import Any

import numpy as np

from splitter.engine.batches import GroupPlanner, Planner
from splitter.engine.columns import columns_of
from splitter.engine.decide import (
    State,
    compare,
    first_inputs,
    in_shards,
    other_sinks,
    refuse_another_layout,
    refuse_samples_without_rows,
    refuse_taken,
    refuse_to_lose_shards,
)
from splitter.engine.display import Display, show_names
from splitter.engine.lost_workers import LostWorkers
from splitter.engine.summary import Summary
from splitter.errors import Interrupted, RecipeError, RunStopped, StorageError
from splitter.executors.registry import Executor
from splitter.inputs.labels import RowTally
from splitter.inputs.survey import Survey, why_unreadable
from splitter.inputs.table import InputTable
from splitter.ledger.journal import PLACE, Journal
from splitter.ledger.manifest import MANIFEST
from splitter.ledger.recipe_record import how_before, note_how, what_changed
from splitter.ledger.records import DONE, FAILED, NOT_DONE, SKIPPED, STALE
from splitter.ledger.run_files import LAST_RUN, ListDescription, inputs_of_part, keep_list
from splitter.ledger.shard_groups import Groups, deal
from splitter.ledger.status import InputStatus, forget_stale, keep_stale
from splitter.ledger.tables import refuse_column, refuse_in_the_way, take_away, write_tables
from splitter.ledger.unsynced import Unsynced, forget_unsynced, noted_now
from splitter.options import RunOptions
from splitter.sinks.columns import OutputColumns, earlier_columns, forget_columns
from splitter.storage.checked_file import sealed
from splitter.text.show import one_line, show_count
from splitter.verification.repair import damaged_entries
from splitter.worker.failures import kind_and_line
from splitter.worker.messages import Job, Report

ROUNDS_WITHOUT_PROGRESS = 3
# so many rows of errors.csv say as much as one message
FEW_INPUTS = 8
NAMES_SHOWN = 3
# so many bytes of inputs are done soon, also by few workers
LITTLE_WORK = 16_000_000
NO_INPUTS = "the dataset list has no inputs"


class Work:
    """A run under the lock of its output folder."""

    def __init__(  # noqa: PLR0913, PLR0917 - what the engine has found out
        self,
        job: Job,
        table: InputTable,
        found: Survey,
        listed: ListDescription,
        options: RunOptions,
        executor: Executor,
        display: Display,
        began: float,
    ) -> None:
        self.job, self.table, self.found, self.listed = job, table, found, listed
        self.options, self.executor, self.display = options, executor, display
        self.storage = job.storage
        self.groups = self._dealt()
        self.mine = self._of_part()
        self.request = first_inputs(options.limit, len(table), self.mine)
        self.journal = Journal(self.storage)
        self.done = Report()
        self.began = began
        self.pruned = 0
        # what this run has tried, as long as there may be reports missing of it
        self.tried = np.empty(0, PLACE)
        self.gone_names: list[str] = []
        self.losses = LostWorkers()
        # keys of inputs whose outputs are to go from shards
        self.dropped = np.empty(0, "u8")
        self.tally = RowTally()
        self.stopped = ""
        self.how: dict[str, Any] = {}
        # in which other ways the outputs were made that this run may not replace
        self.earlier: list[dict[str, Any]] = []
        self.begun = False
        self.changes_told = False
        # which outputs of earlier runs may not be on disk
        self.unsynced: Unsynced | None = None
        # keys of inputs whose outputs are damaged and made again, unless they were committed by this run
        self.damaged = np.empty(0, "u8")
        self.generation = 0
        # how things stood before this run did anything
        self.first: State | None = None

    def _dealt(self) -> Groups | None:
        """Which inputs share a shard, if any do."""
        if self.job.sink.divisible:
            return None
        return deal(
            self.storage,
            self.found,
            shard_bytes=self.options.shard_bytes,
            seed=self.options.shuffle,
            afresh=self.options.fresh,
        )

    def _of_part(self) -> np.ndarray | None:
        """Which inputs are for this part of the run; None if it is for all."""
        if self.groups is None or self.storage.part is None:
            return inputs_of_part(self.storage, self.found)
        return self.groups.of_part(self.found.keys, self.storage.part)

    def through(self, how: dict[str, Any], advice: str) -> Summary:
        """From what is committed to the manifest; `advice` is given unless the run is refused."""
        self.how = how
        try:
            state = self._plan(how, advice)
            self._begin(state)
            self._do(state)
            return self._finish(state, compact=True)
        except Interrupted as interruption:
            if self.first is not None:
                # what was interrupted of these is done again: the tables are those of this run
                self._begin(self.first)
                interruption.summary = self._finish(self.first)
            raise

    def _plan(self, how: dict[str, Any], advice: str) -> State:
        """Find out what is to be done, and refuse what must not be."""
        self._look()
        self.generation = self.journal.next_generation
        refuse_column(self.storage, self.table.header)
        refuse_in_the_way(self.storage, self.options.other_tables)
        self.executor.check(self.job, len(self.table))
        before, earlier = how_before(self.storage)
        if not self.options.fresh:
            refuse_another_layout(self.journal, self.storage, before, how)
        others = other_sinks(how, [*earlier, before])
        if others and not self.options.fresh:
            refuse_to_lose_shards(self.journal, self.job, self._compare(), others, prune=self.options.prune)
        if self.groups is not None and not (self.options.fresh or self.options.prune):
            gone = self.journal.others(self.journal.find(self.found.keys))
            refuse_samples_without_rows(self.journal, self.job, self.table, self.found, gone)
        self._remove_what_is_asked()
        earlier = [one for one in (*earlier, before) if one and one != how]
        if others:
            self._leave_other_shards(how, earlier)
        self.unsynced = Unsynced.noted(self.storage)
        if self.options.repair:
            self._find_damaged()
        elif self.unsynced and self.unsynced.is_restarted and not self.options.fresh:
            self._find_lost(self.unsynced)
        state = self._compare()
        refuse_taken(self.journal, self.table, self.job.layout, self.found, state)
        self.first, self.earlier = state, earlier
        if advice:
            self.display.warn(advice)
        self._announce(state, how, earlier)
        return state

    def _begin(self, state: State) -> None:
        """Keep what tells a later run, and other commands, what this one is about."""
        if self.begun:
            return
        # before the list: a death in between makes a manifest with too little in it, never with too much
        keep_stale(self.storage, self.journal, state.entries[state.stale])
        if not (len(state.stale) or len(state.unreadable) or self._left_in_shards(state.gone)):
            self.earlier = []
        note_how(self.storage, self.how, self.earlier)
        if self.groups is not None:
            self.groups.write(self.storage)
        self._note_unsynced(state)
        keep_list(self.storage, self.listed, self.table.checksum())
        self.begun = True

    def _note_unsynced(self, state: State) -> None:
        """Before the first batch: note what a power cut may take from now on."""
        damaged = bool(len(self._damaged_still()))
        before = self.unsynced
        if len(state.todo) and not self.job.durable and self.job.sink.divisible:
            noted_now(self.storage, self.generation, before, lost=damaged)
        elif before and before.is_restarted and not damaged:
            forget_unsynced(self.storage)

    def _sync_all(self) -> None:
        """Leave nothing that a power cut could take: outputs are synced before tables that name them."""
        if Unsynced.noted(self.storage) and self.storage.sync_all() and not len(self._damaged_still()):
            forget_unsynced(self.storage)

    def _left_in_shards(self, gone: np.ndarray) -> bool:
        """Whether shards of inputs that are no longer listed stay, which were made in an earlier way."""
        return bool(self.earlier) and bool(in_shards(self.journal, gone).any())

    def _look(self) -> None:
        """Undo what a dead worker left half done, and read what is committed."""
        self.journal.recover()
        self.journal.load()

    def _remove_what_is_asked(self) -> None:
        """--fresh and --prune: removal goes through the same records as everything else."""
        if not (self.options.fresh or self.options.prune):
            return
        kept = self.journal.find(self.found.keys[: 0 if self.options.fresh else None])
        chosen = self.journal.others(kept)
        if len(chosen):
            take_away(self.storage)
            self._tell_removal(chosen[self.journal.entries["outputs"][chosen] > 0])
            if self.groups is not None and not self.options.fresh:
                # what else is in their shards stays: these are made again
                shared = in_shards(self.journal, chosen)
                self.dropped, chosen = self.journal.entries["key"][chosen[shared]], chosen[~shared]
            self._forget(chosen)

    def _tell_removal(self, entries: np.ndarray) -> None:
        self.pruned = len(entries)
        if self.pruned:
            count, option = show_count(self.pruned, "input"), "--fresh" if self.options.fresh else "--prune"
            where = "" if self.options.fresh else " no longer in the list"
            names = self._names(entries)
            self.display.say(f"{option}: removing the outputs of {count}{where} ({names})")

    def _names(self, entries: np.ndarray) -> str:
        """The first few of some inputs, for a message."""
        return show_names(self.journal.listed(entries[:NAMES_SHOWN], self.table.column), len(entries))

    def _forget(self, entries: np.ndarray) -> None:
        """Remove what inputs have, and that they were done."""
        if len(entries):
            self.journal.forget(entries, f"{self.journal.next_generation:06d}-forget")
            self.journal.load()

    def _leave_other_shards(self, how: dict[str, Any], earlier: list[dict[str, Any]]) -> None:
        """After a change of the sink, remove shards of another kind first: they cannot be changed in part."""
        entries = self.journal.others(np.empty(0, "i8"))
        entries = entries[in_shards(self.journal, entries, other_than=self.job.sink.suffix)]
        if len(entries):
            self._tell_changes(how, earlier)
            count = show_count(len(entries), "finished input")
            self.display.alert(f"{count} to be done again; their shards of another sink are removed now")
            take_away(self.storage)
            self._forget(entries)
            self.dropped = self.dropped[self.journal.find(self.dropped) >= 0]

    def _find_damaged(self) -> None:
        """--repair: read all outputs of inputs that are done; what is not as it was is made again."""
        self.display.say("--repair: reading the outputs that there are")
        entries = damaged_entries(self.storage, self.journal, self.found.keys, self.table.header)
        self.damaged = self.journal.entries["key"][entries]
        if len(entries):
            count = show_count(len(entries), "input")
            self.display.alert(f"--repair: outputs of {count} are damaged or gone ({self._names(entries)})")

    def _find_lost(self, unsynced: Unsynced) -> None:
        """After a restart: what is not there as it was, as far as it was not synced, is made again."""
        entries = unsynced.lost(self.storage, self.journal)
        self.damaged = self.journal.entries["key"][entries]
        listed = np.isin(self.damaged, self.found.keys)
        for some, remedy in (
            (entries[listed], ""),
            (entries[~listed], "; list them again to have them made again, or use --prune"),
        ):
            if len(some):
                count = show_count(len(some), "input") + (" no longer in the list" if remedy else "")
                self.display.alert(
                    f"the machine was restarted before all was on disk: outputs of {count} are lost "
                    f"({self._names(some)}){remedy}"
                )

    def _damaged_still(self) -> np.ndarray:
        """The entries of damaged outputs that this run has not made again."""
        damaged = self.journal.find(self.damaged)
        damaged = damaged[damaged >= 0]
        still: np.ndarray = damaged[self.journal.is_older(damaged, self.generation)]
        return still

    def _compare(self) -> State:
        again = self._damaged_still()
        if self.options.retry_failed:
            failed = self.journal.failed()
            # once: not what this run has done already
            again = np.union1d(again, failed[self.journal.is_older(failed, self.generation)])
        marks = None
        if len(self.journal.entries):
            marks = self.found.fingerprints(self.table, self.job.seed)
        return compare(self.journal, self.found, marks, asked=self.request, again=again)

    def _announce(self, state: State, how: dict[str, Any], earlier: list[dict[str, Any]]) -> None:
        """Say what will be done, before it is done; loudly where finished work is done again."""
        changed = np.intersect1d(state.changed, state.stale)
        if len(changed):
            self._tell_changes(how, earlier)
            count = show_count(len(changed), "finished input")
            self.display.alert(f"{count} changed, to be done again")
        again = len(state.changed) or (self.groups is not None and self.journal.any_outputs)
        if again and len(state.todo):
            # where shards are made again, also what was good is in another place then
            take_away(self.storage)
        if not len(state.todo) and not len(self.dropped):
            self.display.say(self._why_nothing(state))

    def _tell_changes(self, how: dict[str, Any], earlier: list[dict[str, Any]]) -> None:
        """Name what is another than when finished work was done; once."""
        if self.changes_told:
            return
        self.changes_told = True
        changes = what_changed(how, earlier)
        if changes:
            self.display.alert("; ".join(changes))

    def _why_nothing(self, state: State) -> str:
        numbers = state.entries if self.request is None else state.entries[self.request]
        failed = int((self.journal.entries["status"][numbers[numbers >= 0]] == FAILED).sum())
        if not len(numbers):
            return f"nothing to do: {NO_INPUTS if self.mine is None else 'no input is for this part'}"
        tried = f"nothing to do: {show_count(len(numbers), 'input')}, all finished"
        return f"{tried}, {failed:,} of them failed (--retry-failed tries these again)" if failed else tried

    # -- rounds: one is enough, unless a worker process is lost --------------------------------------------

    def _do(self, state: State) -> None:
        careful = self._is_careful(state)
        if (len(state.todo) or len(self.dropped)) and self.job.sink.needs_columns:
            self._choose_columns(careful=careful)
        # without an input done, and without one found that is to blame
        stalled = known = 0
        self.tried = state.todo
        allowed = self.options.failures_allowed(len(state.todo))
        while (len(state.todo) or len(self.dropped)) and not self.stopped:
            planner = self._planner(state, careful=careful)
            careful = False
            undone = self.done.undone
            reported = self._round(planner, state, allowed)
            if reported == len(state.todo) and not len(self.dropped) and self.done.undone == undone:
                self.tried = self.tried[:0]
                return
            left = len(state.todo), len(self.dropped), known
            self._look()
            state = self._compare()
            self._count_committed()
            self.tried = np.union1d(self.tried, state.todo)
            self.dropped = self.dropped[self.journal.find(self.dropped) >= 0]
            known = len(self.losses.failures)
            stalled = stalled + 1 if (len(state.todo), len(self.dropped), known) == left else 0
            if stalled == ROUNDS_WITHOUT_PROGRESS:
                self.stopped = (
                    f"worker processes were lost {stalled} times with nothing done in between; find out what "
                    "ends them (too little memory for so many --workers?) and run the same command again"
                )
            elif reported < planner.inputs and not self.stopped:
                self.display.warn("a worker process was lost; starting again with what is not committed")

    def _count_committed(self) -> None:
        """Count what the records say: of workers that were lost or ended some reports are missing."""
        if not len(self.tried):
            return
        entries = self.journal.find(self.found.keys[self.tried])
        entries = entries[entries >= 0]
        entries = entries[~self.journal.is_older(entries, self.generation)]
        made, status = self.journal.entries[entries], self.journal.status(entries)
        done = self.done
        done.done, done.skipped, done.failed = (int((status == one).sum()) for one in (DONE, SKIPPED, FAILED))
        done.inputs = len(entries) + len(set(done.unreadable))
        done.outputs, done.bytes = (int(made[name].sum()) for name in ("outputs", "bytes"))

    def _choose_columns(self, *, careful: bool) -> None:
        """Have all tables of the dataset agree, before the first of them is written."""
        among = first_inputs(self.options.limit, len(self.table), None)
        chosen = np.arange(len(self.table)) if among is None else np.flatnonzero(among)
        try:
            if self.options.fresh:
                forget_columns(self.storage)
            columns = columns_of(self.job, self.table, self.found, self.executor, chosen, careful=careful)
        except RecipeError as error:
            self.stopped, self.done.traceback = error.message, error.traceback
        except RunStopped as error:
            self.stopped = str(error)
        else:
            sink, header = self.job.sink, self.job.header
            if columns is None:
                sink = sink.with_earlier_columns(earlier_columns(self.storage) or OutputColumns(), header)
            else:
                sink = sink.with_columns(columns, header)
            self.job = replace(self.job, sink=sink)

    def _is_careful(self, state: State) -> bool:
        """Whether to see first that the recipe works: it has not done any of these inputs as it is now."""
        if len(state.todo) <= FEW_INPUTS or self.options.max_failures is not None:
            return False
        status = self.journal.status(state.entries)
        status[state.stale] = NOT_DONE
        return not ((status == DONE) | (status == SKIPPED)).any()

    def _planner(self, state: State, *, careful: bool) -> Planner | GroupPlanner:
        what = self.job, self.table, self.found, state, self.journal
        known = self.losses.failures
        if self.groups is not None:
            dropped = self.journal.find(self.dropped)
            return GroupPlanner(
                *what,
                groups=self.groups,
                dropped=dropped,
                most=self.losses.size,
                failures=known,
                careful=careful,
            )
        size = self.losses.size or self.options.batch_size
        workers = self.executor.workers
        return Planner(*what, workers=workers, size=size, failures=known, careful=careful)

    def _round(self, planner: Planner | GroupPlanner, state: State, allowed: float) -> int:
        """Run all batches once; returns how many inputs were reported on."""
        reported = 0
        sizes = self.found.sizes[state.todo]
        self.display.start(inputs=len(state.todo), size=int(sizes[sizes > 0].sum()), done=self.done.inputs)
        busy = self._busy(planner.batches, sizes)
        with contextlib.closing(self.executor.run(self.job, planner, busy)) as reports:
            for report in reports:
                planner.learn(report)
                if report.apart and not self.done.apart:
                    what = f"{type(self.job.dataset).__name__}: process_batch {report.apart_why}"
                    self.display.warn(f"{what}; the inputs of that batch were tried one by one")
                self._tell(report)
                self.done += report
                self.display.update(self.done, self.executor.status())
                reported += report.inputs
                self.stopped = report.stop or self.storage.lost
                if self.done.failed > allowed:
                    limit = f"more than --max-failures {self.options.max_failures}"
                    remedy = "look into errors.csv, mend the cause, and run again with --retry-failed"
                    self.stopped = f"{show_count(self.done.failed, 'input')} failed, {limit}; {remedy}"
                if self.stopped:
                    break
        return reported

    def _busy(self, batches: int, sizes: np.ndarray) -> int:
        """How many workers can be busy; said where more of them would be, were a batch not so large."""
        workers = self.executor.workers
        if self.groups is None:
            # otherwise batches are as small as they need be
            option, matters = "--batch-size", self.options.batch_size is not None
        else:
            # of shards that are there already each is made again as it was
            matters = not len(self.journal.entries) and sizes.sum() > LITTLE_WORK
            option = "--shard-size"
        if batches < min(workers, len(sizes)) and matters and not self.done.inputs:
            self.display.say(
                f"{show_count(batches, 'batch')} for {workers} workers: at most {batches} will be busy; "
                f"a smaller {option} makes more"
            )
        return min(batches, workers)

    def _tell(self, report: Report) -> None:
        """Pass on what a batch had to say, and note what was lost with it: none of that is to be kept."""
        for name, text in report.said:
            self.display.print(name, text)
        for note in report.notes:
            self.display.warn(note)
        self.losses.add(report.lost)
        report.said, report.notes, report.lost = [], [], []

    # -- the end ---------------------------------------------------------------------------------------------

    def _finish(self, first: State, *, compact: bool = False) -> Summary:
        """Bring manifest.csv and errors.csv together from what is committed."""
        try:
            self.journal.recover()
            self._spare_unreadable()
            fault = ""
        except StorageError as error:
            # the disk is full: what is committed still counts
            fault = str(error)
        self.journal.load()
        self._count_committed()
        input_status = InputStatus.of(self.storage, self.journal, self.found.keys)
        why = None
        try:
            if compact and not fault:
                self._sync_all()
            self.gone_names = input_status.first_gone(self.journal, self.table.column)
            if fault:
                why = next(iter(self.done.failures), None)
            else:
                why = self._first_failure(input_status, first.todo) or self._first_failure(input_status)
            if not fault and self.mine is None:
                others = self.options.other_tables
                advice = write_tables(
                    self.storage, self.journal, input_status, self.table.header, others=others
                )
                if advice:
                    self.display.alert(advice)
                if not len(input_status.entries_with(STALE)):
                    forget_stale(self.storage)
                    if not (self._unreadable(first) or self._left_in_shards(input_status.gone)):
                        note_how(self.storage, self.how, [])
                if compact:
                    self.journal.compact(input_status.all_entries)
                self._note_what_it_took()
        except StorageError as error:
            fault = str(error)
        self.stopped = self.stopped or fault
        return self._summary(input_status, first, why)

    def _spare_unreadable(self) -> None:
        """Let inputs that could not be read keep their rows, though they may be others now."""
        if self.done.unreadable:
            self.journal.load()
            stale = InputStatus.of(self.storage, self.journal, self.found.keys).entries_with(STALE)
            spared = self.journal.find(np.array(self.done.unreadable, "u8"))
            keep_stale(self.storage, self.journal, stale[~np.isin(stale, spared)])

    def _first_failure(
        self, input_status: InputStatus, among: np.ndarray | None = None
    ) -> tuple[str, str] | None:
        """The first in the list of the inputs that failed, of all or `among` some, and why."""
        failed = input_status.status == FAILED
        if self.mine is not None:
            failed &= self.mine
        numbers = np.flatnonzero(failed) if among is None else among[failed[among]]
        kind = functools.partial(kind_and_line, dataset=self.job.dataset)
        return self.journal.first_failure(
            input_status.entries[numbers], self.table.header[self.table.at], kind
        )

    def _note_what_it_took(self) -> None:
        """For the report: what is published has no clock."""
        if self.done.inputs:
            took = {
                "seconds": round(time.monotonic() - self.began, 3),
                "inputs": self.done.inputs,
                "outputs": self.done.outputs,
                "bytes": self.done.bytes,
            }
            self.storage.write(LAST_RUN, sealed(took))

    def _unreadable(self, first: State) -> int:
        """How many inputs could not be read, then or when they were to be processed."""
        return len(first.unreadable) + len(set(self.done.unreadable))

    def _summary(self, input_status: InputStatus, first: State, why: tuple[str, str] | None) -> Summary:
        status = input_status.status if self.mine is None else input_status.status[self.mine]
        names = [self.table.listed(int(index)) for index in first.unreadable[:NAMES_SHOWN]]
        names += self.done.unreadable_names
        return Summary.of(
            status,
            output=self.storage.root,
            unreadable=self._unreadable(first),
            unreadable_names=[one_line(name) for name in names[:NAMES_SHOWN]],
            first_failure=why,
            unreadable_why=self._why_unreadable(first.unreadable),
            gone=len(input_status.gone_with_outputs),
            gone_names=self.gone_names,
            pruned=self.pruned,
            work=self.done,
            seconds=time.monotonic() - self.began,
            limited=self.options.limit is not None,
            stopped=self.stopped,
            part=self.storage.part,
            tally=self.tally,
            has_manifest=self._has_manifest(),
        )

    def _has_manifest(self) -> bool:
        try:
            return self.storage.exists(MANIFEST)
        except StorageError:
            # a store that does not answer has been complained of already
            return False

    def _why_unreadable(self, unreadable: np.ndarray) -> str:
        for index in unreadable[:1].tolist():
            return why_unreadable(self.job.layout.location(self.table.listed(index))) or "it is there again"
        return self.done.unreadable_why
