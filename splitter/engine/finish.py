"""The end: manifest.csv and errors.csv, made from what is committed.

This is for the end of a run, and for `splitter manifest` and `splitter split`, which process nothing.
"""

import contextlib
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from splitter.engine.assignment import Assignment
from splitter.engine.decide import Decision, damaged_still, in_shards
from splitter.engine.display import Display
from splitter.engine.rounds import Progress
from splitter.engine.summary import Summary
from splitter.errors import Refused, StorageError
from splitter.inputs.survey import why_unreadable
from splitter.ledger.journal import Journal
from splitter.ledger.keeping import KeepTally
from splitter.ledger.list_copy import stored_list
from splitter.ledger.manifest import MANIFEST, columns_of, rows_of
from splitter.ledger.recipe_record import forget_earlier, how_before
from splitter.ledger.records import DONE, FAILED, OUTPUT_COLUMNS, SIZE_AT, STALE
from splitter.ledger.run_files import LAST_RUN, RULE, RUN
from splitter.ledger.splits import COLUMN, GROUPS, SplitRule, group_column
from splitter.ledger.status import InputStatus, forget_stale, keep_stale
from splitter.ledger.tables import refuse_in_the_way, write_tables
from splitter.ledger.unsynced import Unsynced, forget_unsynced
from splitter.outputs.stats import OutputTally, SoundColumns
from splitter.storage.base import Storage
from splitter.text.csv import Row
from splitter.text.show import NAMES_SHOWN, one_line
from splitter.worker.failures import kind_and_line
from splitter.worker.messages import WorkCounts


def finish(  # noqa: PLR0913 - what the commands know
    storage: Storage,
    journal: Journal,
    input_status: InputStatus,
    header: Row,
    *,
    others: Sequence[str] | None,
    tell: Callable[[str], None] | None,
    compact: bool = True,
    unreadable: int = 0,
) -> KeepTally | None:
    """Write the tables, remove notes that only matter until these are complete, and merge the records.

    Return how many loose files --keep keeps; None for shards.
    """
    tables = write_tables(storage, journal, input_status, header, others=others)
    advice = tables.advice()
    if advice and tell:
        tell(advice)
    if not len(input_status.entries_with(STALE)):
        forget_stale(storage)
        _, earlier = how_before(storage)
        if earlier and not unreadable and not in_shards(journal, input_status.gone).any():
            forget_earlier(storage)
    if compact:
        listed = input_status.entries[input_status.entries >= 0]
        journal.compact(np.concatenate((listed, input_status.gone)))
    # shards hold nothing but what is kept
    return None if "keep" in how_before(storage)[0] else tables.keep_tally


# -- after a run ---------------------------------------------------------------------------------------------


def finish_run(
    run: Assignment, decision: Decision, journal: Journal, progress: Progress, display: Display
) -> Summary:
    """Make the tables from what is committed; a failure of the storage only ends the run early."""
    storage, problems, fault = run.storage, progress.problems, ""
    # fields of the summary
    found: dict[str, Any] = {}
    try:
        journal.recover()
        _spare_unreadable(run, journal, problems.unreadable)
    except StorageError as error:
        # the disk may be full: what is committed still counts
        fault = str(error)
    journal.load()
    progress.count_committed(run, decision, journal)
    input_status = InputStatus.of(storage, journal, run.survey.keys)
    unreadable = len(decision.state.unreadable) + len(set(problems.unreadable))
    try:
        if not (fault or progress.is_interrupted):
            _sync_all(run, decision, journal)
            # before `finish` merges the records that this reads
            found["sound"] = _sound_made(run, decision, journal)
        found["gone_names"] = input_status.first_gone(journal, run.table.column)
        found["first_failure"] = (
            next(iter(problems.failures), None)
            if fault
            else _first_failure(run, journal, input_status, decision.state.todo)
        )
        if not fault and run.mine is None:
            found["keep"] = finish(
                storage,
                journal,
                input_status,
                run.table.header,
                others=run.options.other_tables,
                tell=display.alert,
                compact=not progress.is_interrupted,
                unreadable=unreadable,
            )
            _note_what_it_took(storage, progress)
    except StorageError as error:
        fault = str(error)
    stopped = progress.stopped or fault
    return _summary(run, decision, progress, input_status, stopped=stopped, unreadable=unreadable, **found)


def _summary(
    run: Assignment,
    decision: Decision,
    progress: Progress,
    input_status: InputStatus,
    **others: Any,  # noqa: ANN401 - the other fields
) -> Summary:
    """Return the summary of a run, or of a part of one."""
    problems, at_first = progress.problems, decision.state.unreadable
    names = [run.table.listed(int(index)) for index in at_first[:NAMES_SHOWN]]
    names += problems.unreadable_names
    return Summary.of(
        input_status.status if run.mine is None else input_status.status[run.mine],
        output=run.storage.root,
        unreadable_names=[one_line(name) for name in names[:NAMES_SHOWN]],
        unreadable_why=_why_unreadable(run, at_first) or problems.unreadable_why,
        gone=len(input_status.gone_with_outputs),
        pruned=decision.pruned,
        work=progress.counts,
        traceback=problems.traceback,
        seconds=time.monotonic() - progress.began,
        limited=run.options.limit is not None,
        part=run.storage.part,
        tally=run.tally,
        has_manifest=_has_manifest(run.storage),
        **others,
    )


def _spare_unreadable(run: Assignment, journal: Journal, unreadable: list[int]) -> None:
    """Let inputs that could not be read keep their rows, although they may have changed."""
    if unreadable:
        journal.load()
        stale = InputStatus.of(run.storage, journal, run.survey.keys).entries_with(STALE)
        spared = journal.find(np.array(unreadable, "u8"))
        keep_stale(run.storage, journal, stale[~np.isin(stale, spared)])


def _sync_all(run: Assignment, decision: Decision, journal: Journal) -> None:
    """Sync all outputs before the tables that name them are written, so that a power cut loses nothing."""
    if not (Unsynced.noted(run.storage) and run.storage.sync_all()):
        return
    if not len(damaged_still(journal, decision.damaged, decision.generation)):
        forget_unsynced(run.storage)


def _first_failure(
    run: Assignment, journal: Journal, input_status: InputStatus, tried: np.ndarray
) -> tuple[str, str] | None:
    """Return the first input of the list that failed, and why; preferably one that this run tried."""
    failed = input_status.status == FAILED
    if run.mine is not None:
        failed &= run.mine
    numbers = np.concatenate((tried[failed[tried]], np.flatnonzero(failed)))
    kind = partial(kind_and_line, dataset=run.job.dataset)
    return journal.first_failure(input_status.entries[numbers], run.table.column, kind)


def _sound_made(run: Assignment, decision: Decision, journal: Journal) -> OutputTally | None:
    """Add up the sound that this run read and the sound it made from that; None if rows do not say."""
    entries = journal.find(run.survey.keys[decision.state.todo])
    entries = entries[entries >= 0]
    entries = entries[~journal.is_older(entries, decision.generation)]
    entries = entries[journal.status(entries) == DONE]
    headers = [head.names for head in journal.heads]
    columns = [SoundColumns(header) for header in headers]
    # other rows need not be read
    tells = np.array([sound.has_recordings for sound in columns], bool)
    total = OutputTally()
    for head, record, piece in journal.pieces(entries[tells[journal.entries["head"][entries]]]):
        header, sound = headers[head], columns[head]
        path, output = header.index(run.table.column), header.index(OUTPUT_COLUMNS[0])
        for row in rows_of(journal, record, piece, range(len(header))):
            total.add(
                row[path],
                row[output],
                row[output + SIZE_AT],
                sound.seconds_of(row),
                sound.recorded_of(row),
                skipped=False,
            )
    return total if total.recorded else None


def _note_what_it_took(storage: Storage, progress: Progress) -> None:
    """Store the run's duration and counts for the report: published files contain no times."""
    counts = progress.counts
    if counts.inputs:
        seconds = round(time.monotonic() - progress.began, 3)
        took = {"seconds": seconds, "inputs": counts.inputs, "outputs": counts.outputs, "bytes": counts.bytes}
        if counts.recorded:
            took["sound_seconds"] = round(counts.recorded, 3)
        with contextlib.suppress(OSError):
            # in a copy of the folder, run.json has another time
            took["noted"] = os.stat(storage.path(RUN.name)).st_mtime_ns
        LAST_RUN.save(storage, took)


def _has_manifest(storage: Storage) -> bool:
    # a store that does not answer was already reported
    with contextlib.suppress(StorageError):
        return storage.exists(MANIFEST)
    return False


def _why_unreadable(run: Assignment, unreadable: np.ndarray) -> str:
    for index in unreadable[:1].tolist():
        return why_unreadable(run.job.layout.location(run.table.listed(index))) or "it is readable again"
    return ""


# -- without a run -------------------------------------------------------------------------------------------


def assemble_manifest(
    storage: Storage,
    *,
    others: Sequence[str] | None = None,
    change: Callable[[Row, str], None] | None = None,
    tell: Callable[[str], None] | None = None,
) -> Summary:
    """Make manifest.csv and errors.csv from what is committed; process nothing.

    `others` names the files to write beside them. `change` is called before they are written, with the
    columns of the manifest and the name of the one with the paths; `tell` afterwards, if there is advice.
    """
    began = time.monotonic()
    if not storage.is_output():
        raise Refused(f"{storage.root}: is not a splitter output folder; use the --output of a run")
    storage.prepare()
    with storage.locked():
        header, path_column, keys = stored_list(storage)
        refuse_in_the_way(storage, others or [])
        journal = Journal(storage)
        journal.recover()
        journal.load()
        input_status = InputStatus.of(storage, journal, keys)
        if change:
            change(columns_of(journal, input_status.entries[input_status.entries >= 0], header), path_column)
        failure = journal.first_failure(input_status.entries_with(FAILED), path_column)
        gone_names = input_status.first_gone(journal, path_column)
        # a skipped input has no outputs, and so no bytes
        made = journal.entries[input_status.entries_with(DONE)]
        keep = finish(storage, journal, input_status, header, others=others, tell=tell)
        return Summary.of(
            input_status.status,
            output=storage.root,
            gone=len(input_status.gone_with_outputs),
            gone_names=gone_names,
            first_failure=failure,
            work=WorkCounts(outputs=int(made["outputs"].sum()), bytes=int(made["bytes"].sum())),
            seconds=time.monotonic() - began,
            keep=keep,
            assembled=True,
        )


def split_manifest(
    storage: Storage, rule: SplitRule, label: str | None = None, *, rebalance: bool = False
) -> tuple[SplitRule, bool]:
    """Give the manifest a column `split`, now and whenever it is made again.

    Return the rule with the groups that it assigned, and whether an earlier split had assigned them.

    Args:
        storage: The output folder.
        rule: The requested rule; its `by` is empty if all pieces of a recording are to be a group.
        label: A column that the caller will show counts for.
        rebalance: Whether to assign groups again that are already in a split.
    """
    stays = False

    def change(columns: Row, path_column: str) -> None:
        nonlocal stays
        if COLUMN in columns:
            raise Refused(
                f"{storage.root}: the manifest already has a column {COLUMN!r}, which comes from the dataset "
                "list or the metadata and is not replaced; to add a split, rename that column: run again "
                f"with --rename {COLUMN}=NEW, which redoes the inputs (metadata: in the recipe)"
            )
        for option, name in (("--label", label), ("--balance", rule.balance)):
            if name is not None and name not in columns:
                raise Refused(
                    f"{option} {name}: the manifest has no such column; it has {', '.join(columns)}"
                )
        by = group_column(columns, rule.by or None, (GROUPS[0], path_column))
        asked = replace(rule, by=by, is_open=True)
        before = _split_before(storage)
        stays = before is not None and before.asks_the_same(asked) and not rebalance
        if not stays:
            asked.keep(storage)

    assemble_manifest(storage, change=change)
    return SplitRule.stored(storage) or rule, stays


def _split_before(storage: Storage) -> SplitRule | None:
    """Return the rule of an earlier split, if any; a damaged one does not count, and is replaced."""
    with contextlib.suppress(StorageError):
        return SplitRule.stored(storage)
    return None


def unsplit_manifest(storage: Storage) -> None:
    """Remove the column `split` from the manifest."""

    def change(*_: object) -> None:
        storage.remove([RULE.name])
        storage.sync([RULE.name])

    assemble_manifest(storage, change=change)
