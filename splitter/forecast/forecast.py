"""`splitter plan`: what a run would do, before it does it. Nothing is written but temporary files.

list -> survey -> compare with the commit records -> headers -> a short trial -> numbers
"""

import contextlib
import copy
import errno
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field

import numpy as np

from splitter.dataset import ProcessorDataset
from splitter.engine.decide import (
    State,
    compare,
    first_inputs,
    other_sinks,
    refuse_another_layout,
    refuse_samples_without_rows,
    refuse_taken,
    refuse_to_lose_shards,
)
from splitter.engine.display import Display
from splitter.engine.main import Engine
from splitter.engine.rounds import NO_INPUTS
from splitter.forecast.estimate import LONGEST_TRIAL, NAMES_SHOWN, Outlook
from splitter.inputs.locations import UNREADABLE
from splitter.inputs.survey import Survey, advice_on_missing, why_unreadable
from splitter.inputs.table import InputTable
from splitter.ledger.journal import Journal
from splitter.ledger.recipe_record import how_before
from splitter.ledger.records import DONE, FAILED, SKIPPED
from splitter.ledger.run_files import inputs_of_part
from splitter.ledger.shard_groups import Groups, deal
from splitter.ledger.tables import refuse_column, refuse_in_the_way
from splitter.ledger.unsynced import Unsynced
from splitter.options import RunOptions
from splitter.storage.base import Storage
from splitter.storage.folder import LocalStorage
from splitter.storage.locks import unwritable
from splitter.text.show import one_line, show_bytes, show_count, show_seconds
from splitter.verification.repair import damaged_entries
from splitter.worker.messages import Job


@dataclass
class Forecast:
    """What a run would do.

    Attributes:
        output: The output folder.
        inputs: How many inputs the run is for.
        new: How many of them no run has finished.
        changed: How many were finished and would be done again.
        done: How many are finished, done or skipped, and would be left alone.
        failed: How many failed before; they are left alone, too, unless --retry-failed is given.
        missing: How many cannot be read now.
        to_do: How many would be processed.
        input_bytes: The size of those that would be processed and can be read.
        outputs: How many output files would be made.
        bytes: Their size.
        exact: Whether the number of outputs is certain, not only likely.
        seconds: How long the run would take; None where nothing can tell.
        workers: How many workers there would be.
        tried: How many inputs were tried for these numbers.
        tried_failed: How many of them failed, though their headers are good.
        unfinished: How many more were given up in the trial, since they take too long for one.
        removed: How many inputs' outputs --fresh or --prune would remove.
        free: The free bytes where the outputs would go; None where nobody knows.
        missing_first: The first few that cannot be read, with the reason.
        faulty: How many have a header that cannot be read.
        faulty_first: The first few of them, with the reason.
        failed_first: The first few that failed when they were tried, with the reason.
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

    def to_json(self) -> str:
        """For scripts."""
        return json.dumps(asdict(self))

    def lines(self) -> Iterator[str]:
        """For a person."""
        kinds = ("new", "changed", "done", "failed", "missing")
        counts = ", ".join(f"{getattr(self, kind):,} {kind}" for kind in kinds if getattr(self, kind))
        yield f"{show_count(self.inputs, 'input')}{counts and ': '}{counts}"
        if self.removed:
            yield f"the outputs of {show_count(self.removed, 'input')} would be removed first"
        if not self.to_do:
            again = " (--retry-failed tries again what failed)" if self.failed else ""
            yield f"nothing to do{again}" if self.inputs else f"nothing to do: {NO_INPUTS}"
        else:
            about = "" if self.exact else "about "
            gives = f"{about}{show_count(self.outputs, 'output')} (about {show_bytes(self.bytes)})"
            known = self.exact or self.tried
            to_do = f"to do: {show_count(self.to_do, 'input')} ({show_bytes(self.input_bytes)})"
            yield f"{to_do}, which give {gives}" if known else f"{to_do}; how many outputs is not known"
            yield self._time()
        if self.free is not None:
            yield f"{self.output}: {show_bytes(self.free)} are free there"
            if self.bytes > self.free:
                yield f"too little room: {show_bytes(self.bytes - self.free)} more are needed"
        for count, names, what in (
            (self.missing, self.missing_first, "cannot be read"),
            (self.faulty, self.faulty_first, "will fail, by the header"),
            (self.tried_failed, self.failed_first, f"of {self.tried:,} tried failed"),
        ):
            if count:
                more = [f"and {count - len(names):,} more"] if count > len(names) else []
                yield f"{show_count(count, 'input')} {what}: {'; '.join([*names, *more])}"

    def _time(self) -> str:
        with_workers = f"with {show_count(self.workers, 'worker')}"
        if self.unfinished:
            given_up = f"{show_count(self.unfinished, 'input')} given up in a trial after {LONGEST_TRIAL:g} s"
            if self.seconds is None:
                return f"time: not known, {with_workers}; {given_up}"
            return f"time: at least {show_seconds(self.seconds)} {with_workers}, {given_up}"
        if self.seconds is None:
            return f"time: not known, {with_workers}"
        tried = f"by a trial of {show_count(self.tried, 'input')}"
        return f"time: about {show_seconds(self.seconds)} {with_workers}, {tried}"


def forecast(dataset: ProcessorDataset, storage: Storage, options: RunOptions, display: Display) -> Forecast:
    """What a run would do; refuses what the run would refuse."""
    began = time.monotonic()
    engine = Engine(dataset, storage, options, display)
    asked = engine.asked()
    storage.refuse_strange()
    _refuse_unwritable(storage)
    with contextlib.closing(asked.executor), tempfile.TemporaryFile() as file:
        job, table, found, how = engine.surveyed(asked, file)
        advice = advice_on_missing(asked.listing, table, job.layout, found)
        if advice:
            display.warn(advice)
        if not asked.executor.elsewhere:
            asked.executor.check(job, len(table))
        groups = None if job.sink.divisible else _dealt(job, found, options)
        state, status, mine, removed = _state(job, table, found, options, how, groups)
        plan = Forecast(storage.root, free=_free(storage), removed=removed)
        _count(plan, table, job, found, state, status, mine)
        todo = state.todo[found.sizes[state.todo] != UNREADABLE]
        shards = 0
        if groups is not None:
            shards = len(np.unique(groups.ranks(found.keys[todo]) // groups.size))
        known_seconds = time.monotonic() - began
        Outlook(plan, job, table, found, todo, options, groups=shards, known_seconds=known_seconds).look()
    return plan


def _state(  # noqa: PLR0913, PLR0917 - what is known
    job: Job,
    table: InputTable,
    found: Survey,
    options: RunOptions,
    how: dict[str, object],
    groups: Groups | None,
) -> tuple[State, np.ndarray, np.ndarray, int]:
    """What is to be done, what inputs have come to, which the run is for, and how many lose their outputs."""
    journal, before = Journal(job.storage), Journal(job.storage)
    before.peek()
    refuse_column(job.storage, table.header)
    refuse_in_the_way(job.storage, options.other_tables)
    if not options.fresh:
        journal = before
        refuse_another_layout(journal, job.storage, how_before(job.storage)[0], how)
    mine = _of_part(job, found, groups)
    asked = first_inputs(options.limit, len(table), mine)
    marks = found.fingerprints(table, job.seed) if len(journal.entries) else None
    again = journal.failed() if options.retry_failed else np.empty(0, "i8")
    if options.repair and not options.fresh:
        again = np.union1d(again, damaged_entries(job.storage, journal, found.keys, table.header))
    elif (unsynced := Unsynced.noted(job.storage)) and unsynced.is_restarted and not options.fresh:
        again = np.union1d(again, unsynced.lost(job.storage, journal))
    state = compare(journal, found, marks, asked=asked, again=again)
    latest, earlier = ({}, []) if options.fresh else how_before(job.storage)
    others = other_sinks(how, [*earlier, latest])
    if others:
        refuse_to_lose_shards(journal, job, state, others, prune=options.prune)
    if not options.prune:
        if groups is not None:
            refuse_samples_without_rows(journal, job, table, found, state.gone)
        refuse_taken(journal, table, job.layout, found, state)
    everyone = np.ones(len(table), bool) if asked is None else asked
    gone = before.others(np.empty(0, "i8")) if options.fresh else state.gone[: None if options.prune else 0]
    removed = int((before.entries["outputs"][gone] > 0).sum())
    return state, journal.status(state.entries), everyone, removed


def _dealt(job: Job, found: Survey, options: RunOptions) -> Groups:
    """Which inputs would share a shard."""
    alone = copy.copy(job.storage)
    # what is dealt out is kept by a part only
    alone.part = None
    return deal(alone, found, shard_bytes=options.shard_bytes, seed=options.shuffle, afresh=options.fresh)


def _of_part(job: Job, found: Survey, groups: Groups | None) -> np.ndarray | None:
    """Which inputs are for this part, as the run will divide them."""
    part = job.storage.part
    if part is None or groups is None:
        return inputs_of_part(job.storage, found, keep=False)
    return groups.of_part(found.keys, part)


def _count(  # noqa: PLR0913, PLR0917 - what is known
    plan: Forecast,
    table: InputTable,
    job: Job,
    found: Survey,
    state: State,
    status: np.ndarray,
    mine: np.ndarray,
) -> None:
    """Each input is one of new, changed, done, failed and missing."""
    stale = np.zeros(len(table), bool)
    stale[state.stale] = True
    # with --repair also what is as it was, but for its outputs
    stale[state.changed] = True
    missing = mine & (found.sizes == UNREADABLE)
    there = mine & ~missing
    finished = (status == DONE) | (status == SKIPPED)
    plan.inputs, plan.missing = int(mine.sum()), int(missing.sum())
    plan.done = int((there & finished & ~stale).sum())
    plan.failed = int((there & (status == FAILED) & ~stale).sum())
    plan.changed = int((there & finished & stale).sum())
    plan.new = plan.inputs - plan.missing - plan.done - plan.failed - plan.changed
    plan.to_do = len(state.todo)
    for index in np.flatnonzero(missing)[:NAMES_SHOWN].tolist():
        listed = table.listed(index)
        plan.missing_first.append(one_line(why_unreadable(job.layout.location(listed)) or listed))


def _free(storage: Storage) -> int | None:
    """The free bytes on the disk of an output folder, which need not be there yet; None for a store."""
    if not isinstance(storage, LocalStorage):
        return None
    try:
        return shutil.disk_usage(_existing(storage.root)).free
    except OSError:
        return None


def _existing(folder: str) -> str:
    """The folder itself, or the first one around it that is there."""
    while not os.path.isdir(folder) and os.path.dirname(folder) != folder:
        folder = os.path.dirname(folder)
    return folder


def _refuse_unwritable(storage: Storage) -> None:
    """Refuse a folder that could not be made or written, as a run finds out by trying."""
    if isinstance(storage, LocalStorage):
        there = storage.root
        while not os.path.lexists(there):
            there = os.path.dirname(there)
        if not os.path.isdir(there):
            raise unwritable(storage.root, OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)))
        if not os.access(there, os.W_OK | os.X_OK):
            number = errno.EROFS if os.statvfs(there).f_flag & os.ST_RDONLY else errno.EACCES
            raise unwritable(storage.root, OSError(number, os.strerror(number)))
