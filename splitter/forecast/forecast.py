"""`splitter plan`: what a run would do, before it does it. Only temporary files are written.

list -> survey -> compare with the commit records -> headers -> a short trial -> numbers
"""

import contextlib
import errno
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from splitter.dataset import ProcessorDataset
from splitter.engine.assignment import Assignment, read_assignment, read_request
from splitter.engine.begin import why_no_inputs
from splitter.engine.changes import changed_code, changed_inputs
from splitter.engine.decide import Decision, decide
from splitter.engine.display import Display
from splitter.forecast.estimate import LONGEST_TRIAL, Outlook
from splitter.inputs.locations import UNREADABLE
from splitter.inputs.survey import why_unreadable
from splitter.ledger.journal import Journal
from splitter.ledger.records import DONE, FAILED, SKIPPED
from splitter.options import RunOptions
from splitter.storage.base import Storage
from splitter.storage.folder import LocalStorage
from splitter.storage.folder_steps import unwritable
from splitter.text.csv import parse_rows
from splitter.text.show import NAMES_SHOWN, one_line, show_bytes, show_count, show_seconds


@dataclass
class Forecast:
    """A forecast of what a run would do.

    Attributes:
        output: The output folder.
        inputs: How many inputs the run is for.
        new: How many of them neither finished nor failed in an earlier run.
        changed: How many were finished or failed, and would be done again.
        done: How many are finished, done or skipped, and would be left alone.
        failed: How many failed before; they are left alone, too, unless --retry-failed is given.
        missing: How many cannot be read now.
        to_do: How many would be processed.
        input_bytes: The size of those that would be processed and can be read.
        outputs: How many output files would be made.
        bytes: The size of these files.
        exact: Whether the number of outputs is certain, not only likely.
        seconds: How long the run would take; None if unknown.
        workers: How many workers there would be.
        tried: How many inputs were tried for these numbers.
        tried_failed: How many of them failed, though their headers are good.
        unfinished: How many more were given up in the trial because they take too long for one.
        removed: For how many inputs --fresh or --prune would remove the outputs.
        free: The free bytes where the outputs would go; None if unknown.
        missing_first: The first few that cannot be read, with the reason.
        faulty: How many will fail, according to their headers.
        faulty_first: The first few of them, with the reason.
        failed_first: The first few that failed when they were tried, with the reason.
        no_inputs: Why the list has no inputs, if it has none.
        changes: What differs from the runs that made the outputs that exist.
        first_name: With --name, the name of the first output, as far as it follows from the list.
    """

    output: str
    inputs: int = 0
    new: int = 0
    changed: int = 0
    done: int = 0
    failed: int = 0
    missing: int = 0
    to_do: int = 0
    input_bytes: int = 0
    outputs: int = 0
    bytes: int = 0
    exact: bool = True
    seconds: float | None = None
    workers: int = 0
    tried: int = 0
    tried_failed: int = 0
    unfinished: int = 0
    removed: int = 0
    free: int | None = None
    missing_first: list[str] = field(default_factory=list)
    faulty: int = 0
    faulty_first: list[str] = field(default_factory=list)
    failed_first: list[str] = field(default_factory=list)
    no_inputs: str = ""
    changes: list[str] = field(default_factory=list)
    first_name: str = ""

    def to_json(self) -> str:
        """Return one JSON object, for scripts."""
        return json.dumps(self.fields())

    def fields(self) -> dict[str, Any]:
        """Return the numbers, for other programs."""
        return asdict(self)

    def lines(self, *, gives_columns: bool = False) -> Iterator[str]:
        """Yield the lines for a person; `gives_columns` says that the recipe is to make metadata only."""
        kinds = ("new", "changed", "done", "failed", "missing")
        counts = ", ".join(f"{getattr(self, kind):,} {kind}" for kind in kinds if getattr(self, kind))
        yield f"{show_count(self.inputs, 'input')}{counts and ': '}{counts}"
        if self.changes:
            yield f"what changed: {'; '.join(self.changes)}"
        if self.removed:
            yield f"the outputs of {show_count(self.removed, 'input')} would be removed first"
        if not self.to_do:
            again = " (--retry-failed tries failed inputs again)" if self.failed else ""
            yield f"nothing to do{again}" if self.inputs else f"nothing to do: {self.no_inputs}"
        else:
            about = "" if self.exact else "about "
            gives = f"{about}{show_count(self.outputs, 'output')} (about {show_bytes(self.bytes)})"
            if gives_columns and not self.outputs:
                gives = "columns, no files"
            known = self.exact or self.tried
            to_do = f"to do: {show_count(self.to_do, 'input')} ({show_bytes(self.input_bytes)})"
            yield f"{to_do}, which give {gives}" if known else f"{to_do}; number of outputs unknown"
            yield self._time()
            if self.first_name:
                yield f"first name: {one_line(self.first_name)}"
        if self.free is not None:
            yield f"{self.output}: {show_bytes(self.free)} free"
            if self.bytes > self.free:
                yield f"not enough disk space: {show_bytes(self.bytes - self.free)} more needed"
        yield from self._failing()

    def _failing(self) -> Iterator[str]:
        """Yield how many inputs will fail, with the first few."""
        for count, names, what in (
            (self.missing, self.missing_first, "cannot be read"),
            (self.faulty, self.faulty_first, "will fail, according to the header"),
            (self.tried_failed, self.failed_first, f"of {self.tried:,} tried failed"),
        ):
            # several get a line each, since their reasons are long
            reasons = [*names, *([f"and {count - len(names):,} more"] if count > len(names) else [])]
            if count:
                yield f"{show_count(count, 'input')} {what}:{f' {reasons[0]}' if len(reasons) == 1 else ''}"
            if len(reasons) > 1:
                yield from (f"  {reason}" for reason in reasons)

    def _time(self) -> str:
        with_workers = f"with {show_count(self.workers, 'worker')}"
        if self.unfinished:
            given_up = (
                f"{show_count(self.unfinished, 'input')} abandoned in a trial after {LONGEST_TRIAL:g} s"
            )
            if self.seconds is None:
                return f"time: not known, {with_workers}; {given_up}"
            return f"time: at least {show_seconds(self.seconds)} {with_workers}, {given_up}"
        if self.seconds is None:
            return f"time: not known, {with_workers}"
        tried = f"from a trial of {show_count(self.tried, 'input')}"
        return f"time: about {show_seconds(self.seconds)} {with_workers}, {tried}"


def forecast(dataset: ProcessorDataset, storage: Storage, options: RunOptions, display: Display) -> Forecast:
    """Return what a run would do; refuse what the run would refuse."""
    began = time.monotonic()
    request = read_request(dataset, storage, options, display)
    storage.refuse_strange()
    free = _free_if_writable(storage)
    with contextlib.closing(request.executor), tempfile.TemporaryFile() as file:
        run = read_assignment(request, file, display, keep=False)
        if run.advice:
            display.warn(run.advice)
        if not run.executor.elsewhere:
            run.executor.check(run.job, len(run.table))
        journal = Journal(storage)
        journal.peek(with_promises=True)
        decision = decide(run, journal)
        if hint := changed_code(run, decision.state, journal):
            display.warn(hint)
        plan = Forecast(storage.root, free=free, removed=decision.pruned)
        _count(plan, run, decision, journal)
        plan.changes = _changes(run, decision, journal)
        plan.no_inputs = "" if len(run.table) else why_no_inputs(run.tally)
        plan.first_name = _first_name(run, decision)
        sizes = run.survey.sizes[decision.state.todo]
        todo = decision.state.todo[sizes != UNREADABLE]
        shards = 0
        if run.groups is not None:
            shards = len(np.unique(run.groups.groups_of(run.groups.ranks(run.survey.keys[todo]))))
        Outlook(plan, run, todo, groups=shards, known_seconds=time.monotonic() - began).look()
    return plan


def _count(plan: Forecast, run: Assignment, decision: Decision, journal: Journal) -> None:
    """Count each input as one of new, changed, done, failed and missing."""
    state, sizes = decision.state, run.survey.sizes
    mine = np.ones(len(sizes), bool) if run.first_inputs is None else run.first_inputs
    # the present state, without what --fresh removes
    entries = journal.without(decision.removed).find(run.survey.keys)
    status = journal.status(entries)
    stale = np.isin(entries, decision.displaced)
    stale[state.stale] = True
    # also unchanged inputs whose outputs are missing or damaged, as with --repair
    stale[state.changed] = True
    missing = mine & (sizes == UNREADABLE)
    there = mine & ~missing
    finished, failed = (status == DONE) | (status == SKIPPED), status == FAILED
    plan.inputs, plan.missing = int(mine.sum()), int(missing.sum())
    plan.done = int((there & finished & ~stale).sum())
    plan.failed = int((there & failed & ~stale).sum())
    plan.changed = int((there & (finished | failed) & stale).sum())
    plan.new = plan.inputs - plan.missing - plan.done - plan.failed - plan.changed
    plan.to_do = len(state.todo)
    for index in np.flatnonzero(missing)[:NAMES_SHOWN].tolist():
        listed = run.table.listed(index)
        plan.missing_first.append(one_line(why_unreadable(run.job.layout.location(listed)) or listed))


def _changes(run: Assignment, decision: Decision, journal: Journal) -> list[str]:
    """Return why finished inputs would be done again."""
    changed = np.intersect1d(decision.state.changed, decision.state.stale)
    if not len(changed) or decision.changes:
        return decision.changes if len(changed) or len(decision.displaced) else []
    return changed_inputs(run, journal, changed)


def _first_name(run: Assignment, decision: Decision) -> str:
    """Return the name that --name gives to the first output, without extension; empty without --name."""
    layout, todo = run.job.layout, decision.state.todo
    if layout.naming is None or not len(todo):
        return ""
    row = parse_rows(run.table.text(int(todo[0])))[0]
    return layout.naming.example(row, layout.folder(layout.key(row[run.table.at])))


def _free_if_writable(storage: Storage) -> int | None:
    """Return the free bytes on the disk of an output folder, which may not exist yet; None for a store.

    Refuse a folder that cannot be made or written, which a run finds out by trying.
    """
    if not isinstance(storage, LocalStorage):
        return None
    there = storage.root
    while not os.path.lexists(there):
        there = os.path.dirname(there)
    number = 0
    if not os.path.isdir(there):
        number = errno.ENOTDIR
    elif not os.access(there, os.W_OK | os.X_OK):
        number = errno.EROFS if os.statvfs(there).f_flag & os.ST_RDONLY else errno.EACCES
    if number:
        raise unwritable(storage.root, OSError(number, os.strerror(number)))
    with contextlib.suppress(OSError):
        return shutil.disk_usage(there).free
    return None
