"""The work of a run, round after round: one is enough, unless a worker process is lost.

The reports of an executor only show progress. If any are missing, the commit records say what is left.
"""

import contextlib
import time
from dataclasses import dataclass, field, replace

import numpy as np

from splitter.engine.assignment import Assignment
from splitter.engine.batches import BatchPlanner, GroupPlanner, Planner
from splitter.engine.columns import choose_columns
from splitter.engine.decide import Decision, State, compare
from splitter.engine.display import Display
from splitter.engine.lost_workers import LostWorkers
from splitter.errors import RecipeError, RunStopped
from splitter.ledger.journal import INDEX, Journal
from splitter.ledger.part_shares import bytes_together
from splitter.ledger.records import DONE, NOT_DONE, SKIPPED
from splitter.ledger.run_files import COLUMNS
from splitter.sinks.columns import OutputColumns, stored_columns
from splitter.text.show import show_count
from splitter.worker.counts import counts_of, recorded_of
from splitter.worker.messages import Problems, Report, WorkCounts

ROUNDS_WITHOUT_PROGRESS = 3
# up to this many rows of errors.csv say as much as one message
FEW_INPUTS = 8
# bytes of inputs that even a few workers soon finish
LITTLE_WORK = 16_000_000


@dataclass
class Progress:
    """The results of a run so far.

    Attributes:
        began: When the run began, by the monotonic clock.
        counts: The sum of what was reported.
        problems: What went wrong.
        tried: Inputs that were given to workers, while reports on them may be missing.
        losses: Batches that were lost with their workers.
        stopped: Why the run ends early, if it does.
        is_begun: Whether everything that later runs need to know about this one is stored.
        is_interrupted: Whether a signal has ended it.
    """

    began: float = field(default_factory=time.monotonic)
    counts: WorkCounts = field(default_factory=WorkCounts)
    problems: Problems = field(default_factory=Problems)
    tried: np.ndarray = field(default_factory=lambda: np.empty(0, INDEX))
    losses: LostWorkers = field(default_factory=LostWorkers)
    stopped: str = ""
    is_begun: bool = False
    is_interrupted: bool = False

    def count_committed(self, run: Assignment, decision: Decision, journal: Journal) -> None:
        """Count by the records, since reports of workers that were lost or killed are missing."""
        if not len(self.tried):
            return
        entries = journal.find(run.survey.keys[self.tried])
        entries = entries[entries >= 0]
        entries = entries[~journal.is_older(entries, decision.generation)]
        found, total = counts_of(journal, entries, sound=False), self.counts
        if found.done != total.done and not self.is_interrupted:
            # only then, since it reads the rows, and nobody waits for that after a signal
            total.recorded = recorded_of(journal, entries)
        total.done, total.skipped, total.failed = found.done, found.skipped, found.failed
        total.outputs, total.bytes, total.empty = found.outputs, found.bytes, found.empty
        total.inputs = found.inputs + len(set(self.problems.unreadable))


def do_rounds(
    run: Assignment, decision: Decision, journal: Journal, progress: Progress, display: Display
) -> None:
    """Do what was decided, until nothing is left, or several rounds achieve nothing."""
    state, dropped = decision.state, decision.dropped
    careful = is_careful(run, state, journal)
    losses, rounds_without_progress = progress.losses, 0
    progress.tried = state.todo
    allowed = run.options.failures_allowed(len(state.todo))
    if decision.has_work and run.job.sink.needs_columns:
        run = _with_columns(run, progress, careful=careful)
    while (len(state.todo) or len(dropped) or len(state.renewed)) and not progress.stopped:
        left = len(state.todo), len(dropped), len(losses.failures), len(state.renewed)
        undone = progress.counts.undone
        planner = (
            Planner(run, state, journal, losses, careful=careful)
            if run.groups is None
            else GroupPlanner(run, state, journal, run.groups, dropped, losses, careful=careful)
        )
        careful = False
        _start(run, planner.batches, state, journal, progress, display)
        reported = do_round(run, planner, progress, allowed, display)
        is_all = reported == len(state.todo) and not (len(dropped) or len(state.renewed))
        if is_all and progress.counts.undone == undone:
            progress.tried = progress.tried[:0]
            return
        run.hooks.lost()
        journal.recover()
        journal.load()
        state = compare(run, journal, decision.once_more, decision.generation)
        progress.count_committed(run, decision, journal)
        progress.tried = np.union1d(progress.tried, state.todo)
        dropped = dropped[journal.find(dropped) >= 0]
        has_moved = (len(state.todo), len(dropped), len(losses.failures), len(state.renewed)) != left
        rounds_without_progress = 0 if has_moved else rounds_without_progress + 1
        if rounds_without_progress == ROUNDS_WITHOUT_PROGRESS:
            progress.stopped = (
                f"worker processes were lost {rounds_without_progress} times with nothing done in between; "
                "find out what kills them (too little memory for this many --workers?), then run the same "
                "command again"
            )
        elif reported < planner.inputs and not progress.stopped:
            display.warn("a worker process was lost; restarting the work that is not committed")


def is_careful(run: Assignment, state: State, journal: Journal) -> bool:
    """Return whether to test the recipe first, because as it is now, it has done none of these inputs."""
    if len(state.todo) <= FEW_INPUTS or run.options.max_failures is not None:
        return False
    status = journal.status(state.entries)
    status[state.stale] = NOT_DONE
    return not ((status == DONE) | (status == SKIPPED)).any()


def _with_columns(run: Assignment, progress: Progress, *, careful: bool) -> Assignment:
    """Return the run with columns that all tables of the dataset share, before the first is written."""
    limit = run.options.limit
    chosen = np.arange(len(run.table))[:limit]
    try:
        if run.options.fresh:
            run.storage.remove([COLUMNS.name])
        columns = choose_columns(run, chosen, careful=careful)
    except RecipeError as error:
        progress.stopped, progress.problems.traceback = error.message, error.traceback
        return run
    except RunStopped as error:
        progress.stopped = str(error)
        return run
    of_table = columns or stored_columns(run.storage) or OutputColumns()
    sink = run.job.sink.with_columns(of_table, run.job.header, are_earlier=columns is None)
    return replace(run, job=replace(run.job, sink=sink))


def _start(  # noqa: PLR0913, PLR0917 - what is known
    run: Assignment, batches: int, state: State, journal: Journal, progress: Progress, display: Display
) -> None:
    """Say how much there is to do, and if smaller batches would keep more workers busy."""
    sizes = run.survey.sizes[state.todo]
    display.start(inputs=len(sizes), size=bytes_together(sizes), done=progress.counts.inputs)
    workers = run.executor.workers
    if run.groups is None:
        # if no size is given, batches are as small as they have to be
        option, matters = "--batch-size", run.options.batch_size is not None
    else:
        # a shard that already exists is made again from the same inputs
        option, matters = "--shard-size", not len(journal.entries) and sizes.sum() > LITTLE_WORK
    if batches < min(workers, len(sizes)) and matters and not progress.counts.inputs:
        display.say(
            f"{show_count(batches, 'batch')} for {workers} workers: at most {batches} will be busy; "
            f"use a smaller {option} for more batches"
        )


def do_round(
    run: Assignment, planner: BatchPlanner, progress: Progress, allowed: float, display: Display
) -> int:
    """Run all batches once; return how many inputs were reported on."""
    total, reported = progress.counts, 0
    busy = min(planner.batches, run.executor.workers)
    with contextlib.closing(run.executor.run(run.job, run.hooks.paced(planner), busy)) as reports:
        for report in reports:
            planner.learn(report)
            if report.counts.one_by_one and not total.one_by_one:
                what = f"{type(run.job.dataset).__name__}: process_batch {report.problems.one_by_one_why}"
                display.warn(f"{what}; the inputs of that batch were tried one by one")
            _tell(report, progress.losses, display)
            total += report.counts
            progress.problems += report.problems
            display.update(total, run.executor.status())
            reported += report.counts.inputs
            progress.stopped = report.problems.stop or run.storage.lost
            if total.failed > allowed:
                limit = f"more than --max-failures {run.options.max_failures}"
                remedy = "see errors.csv, fix the cause, and run again with --retry-failed"
                progress.stopped = f"{show_count(total.failed, 'input')} failed, {limit}; {remedy}"
            if progress.stopped:
                break
    return reported


def _tell(report: Report, losses: LostWorkers, display: Display) -> None:
    """Print the notes of a batch, and note which inputs were lost."""
    # printed by user code on another machine
    for name, text in report.said:
        for line in text.splitlines():
            display.error(f"[{name}] {line}")
    for note in report.notes:
        display.warn(note)
    losses.add(report.lost)
