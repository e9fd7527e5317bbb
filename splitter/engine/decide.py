"""What a run has to do, what stays and what is removed: the list compared with the commit records.

Nothing here writes or prints, so that `splitter run` and `splitter plan` decide in the same way.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from splitter.engine.assignment import Assignment
from splitter.engine.changes import changed_columns
from splitter.engine.taken_names import refuse_taken
from splitter.errors import Refused
from splitter.ledger.journal import INDEX, Journal
from splitter.ledger.keeping import refuse_keep_column
from splitter.ledger.recipe_record import how_before, what_changed
from splitter.ledger.records import DONE, FAILED, SKIPPED
from splitter.ledger.run_files import COLUMNS, DROPPED, PIPELINE
from splitter.ledger.tables import refuse_column, refuse_in_the_way
from splitter.ledger.unsynced import Unsynced
from splitter.storage.layout import shard_of
from splitter.text.show import NAMES_SHOWN, show_count, show_names

NOTHING = np.empty(0, "u8")


@dataclass(frozen=True)
class State:
    """The inputs to be done and those that stay, by their numbers in the list.

    Attributes:
        entries: For each input of the list its entry in the journal, or -1.
        todo: New, changed, or to be tried again.
        changed: Those of `todo` that were finished before.
        stale: All that have an entry from before a change, including those that a limit leaves for later.
        unreadable: Finished before, but not readable now: they keep their outputs.
        gone: Entries whose inputs are no longer in the list.
        renewed: In shards from before all columns were known, which are made again from their contents.
    """

    entries: np.ndarray
    todo: np.ndarray
    changed: np.ndarray
    stale: np.ndarray
    unreadable: np.ndarray
    gone: np.ndarray
    renewed: np.ndarray


@dataclass(frozen=True)
class Decision:
    """The work of a run, and what it removes first.

    Attributes:
        generation: The run's number; all that it commits has this number or a higher one.
        state: The work that is left once the entries in `forgotten` are gone.
        removed: The entries that --fresh or --prune removes.
        pruned: How many of them have outputs.
        displaced: The entries of inputs whose outputs are in shards of another sink, which cannot stay.
        forgotten: Those entries of `removed` and `displaced` that are removed before the work.
        dropped: The keys of inputs whose samples are removed when their shards are made again.
        damaged: The keys of inputs whose outputs are damaged or missing, and are made again.
        once_more: The keys in `damaged`, and those of inputs whose dropped outputs are needed again.
        unsynced: Which outputs of earlier runs may not be on disk.
        earlier: The other ways in which outputs that may stay for now were made.
        changes: In words, how processing differs from before, and which columns are new or gone.
        replaces: Whether the old tables would be wrong while the run is at work.
    """

    generation: int
    state: State
    removed: np.ndarray
    pruned: int
    displaced: np.ndarray
    forgotten: np.ndarray
    dropped: np.ndarray
    damaged: np.ndarray
    once_more: np.ndarray
    unsynced: Unsynced | None
    earlier: list[dict[str, Any]]
    changes: list[str]
    replaces: bool

    @property
    def has_work(self) -> bool:
        """Whether a worker has anything to do."""
        return bool(len(self.state.todo) or len(self.dropped) or len(self.state.renewed))


def decide(
    run: Assignment,
    journal: Journal,
    tell: Callable[[str], None] = lambda _: None,
    *,
    needed: np.ndarray = NOTHING,
) -> Decision:
    """Decide what a run does, given what is committed; refuse what must not be done.

    The journal is as `recover` leaves it, or will leave it. `tell` is called before anything that takes long.
    `needed` has the keys of inputs whose outputs were dropped, but are needed again.
    """
    storage = run.storage
    generation = journal.next_generation
    before, earlier = how_before(storage)
    earlier = [*earlier, before]
    sinks = (
        set()
        if run.options.fresh
        else {one.get("sink") for one in earlier} - {None, "files", run.how["sink"]}
    )
    _refuse(run, journal, before, sinks)
    removed, dropped = _removed(run, journal)
    left = journal.without(np.setdiff1d(removed, dropped))
    displaced = _in_other_shards(run, left) if sinks else np.empty(0, "i8")
    left = left.without(displaced)
    unsynced = Unsynced.noted(storage)
    damaged = _damaged(run, left, unsynced, tell)
    once_more = np.union1d(damaged, needed)
    state = compare(run, left, once_more, generation)
    refuse_taken(run, left, state, earlier)
    earlier = [one for one in earlier if one and one != run.how]
    stays = len(state.stale) or len(state.unreadable) or (earlier and in_shards(left, state.gone).any())
    redone = len(state.changed) or (run.groups is not None and left.any_outputs)
    return Decision(
        generation=generation,
        state=state,
        removed=removed,
        pruned=len(journal.with_outputs(removed)),
        displaced=displaced,
        forgotten=np.union1d(np.setdiff1d(removed, dropped), displaced),
        dropped=left.entries["key"][np.setdiff1d(dropped, displaced)],
        damaged=damaged,
        once_more=once_more,
        unsynced=unsynced,
        earlier=earlier if stays else [],
        changes=what_changed(run.how, earlier) + changed_columns(run, left, state.entries[state.changed]),
        # when a shard is made again, unchanged outputs in it move, too
        replaces=bool(len(removed) or len(displaced) or (redone and len(state.todo)) or len(state.renewed)),
    )


def _refuse(run: Assignment, journal: Journal, before: dict[str, Any], sinks: set[Any]) -> None:
    """Refuse what must not be done in this output folder; `sinks` are other sinks of earlier runs."""
    options, storage = run.options, run.storage
    if storage.exists(PIPELINE.name):
        raise Refused(
            f"{storage.root}: is the folder of a pipeline, with a folder for each stage; choose another "
            "--output"
        )
    refuse_column(storage, run.table.header)
    refuse_keep_column(storage, run.table.header, options.keep)
    refuse_in_the_way(storage, options.other_tables)
    if not options.fresh:
        _refuse_another_layout(run, journal, before)
        _refuse_lost_columns(run, journal)
    if sinks:
        _refuse_to_lose_shards(run, journal, sinks)
    if run.groups is not None and not (options.fresh or options.prune or run.listed.is_part):
        refuse_samples_without_rows(run, journal)


def compare(run: Assignment, journal: Journal, damaged: np.ndarray, generation: int) -> State:
    """Compare the list with what is committed.

    Inputs whose keys are `damaged`, and with --retry-failed those that failed, are to be done again although
    nothing changed, unless this generation has already done so.
    """
    found, asked = run.survey, run.first_inputs
    entries = journal.find(found.keys)
    known = entries >= 0
    status = journal.status(entries)
    same = np.zeros(len(entries), bool)
    if known.any():
        fingerprints = found.fingerprints(run.table, run.job.marks)
        same[known] = journal.entries["fingerprint"][entries[known]] == fingerprints[known]
    again = damaged_still(journal, damaged, generation)
    if run.options.retry_failed:
        failed = journal.failed()
        again = np.union1d(again, failed[journal.is_older(failed, generation)])
    finished = (status == DONE) | (status == SKIPPED)
    narrow = _narrow(run, journal, entries)
    # such an input may have failed for lack of a column that came later
    once_more = np.isin(entries, again) | (narrow & (status == FAILED))
    unreadable = finished & (~same | once_more) & (found.sizes < 0)
    todo = ~same & ~unreadable
    stale = todo & known
    todo |= once_more & ~unreadable
    if asked is not None:
        todo &= asked
        unreadable &= asked
    return State(
        entries=entries,
        todo=np.flatnonzero(todo).astype(INDEX),
        changed=np.flatnonzero(todo & finished),
        stale=np.flatnonzero(stale).astype(INDEX),
        unreadable=np.flatnonzero(unreadable),
        gone=journal.others(entries),
        renewed=np.flatnonzero(narrow & same & ~todo & journal.has_outputs(entries)),
    )


def _narrow(run: Assignment, journal: Journal, entries: np.ndarray) -> np.ndarray:
    """Return which inputs have rows with other columns than the list has, as in shards made early."""
    narrow = np.zeros(len(entries), bool)
    if run.groups is not None and run.groups.first is not None and not run.listed.is_part:
        columns, there = tuple(run.job.header), entries >= 0
        others = np.array([head.columns != columns for head in journal.heads], bool)
        narrow[there] = others[journal.entries["head"][entries[there]]]
    return narrow


def damaged_still(journal: Journal, damaged: np.ndarray, generation: int) -> np.ndarray:
    """Return the entries of damaged outputs that this generation has not made again."""
    entries = journal.find(damaged)
    entries = entries[entries >= 0]
    return entries[journal.is_older(entries, generation)]


def in_shards(journal: Journal, entries: np.ndarray, *, other_than: str = "") -> np.ndarray:
    """Return which entries have outputs in shards, or with `other_than`, in shards with another suffix."""
    names = journal.outputs_of_each(entries)
    shards = ((shard_of(one[0])[0] if one else "") for one in names)
    return np.fromiter((bool(one) and not (other_than and one.endswith(other_than)) for one in shards), bool)


def _in_other_shards(run: Assignment, journal: Journal) -> np.ndarray:
    """Return the entries whose outputs are in shards of another sink."""
    entries = journal.counting()
    return entries[in_shards(journal, entries, other_than=run.job.sink.suffix)]


def _removed(run: Assignment, journal: Journal) -> tuple[np.ndarray, np.ndarray]:
    """Return the entries that --fresh or --prune removes, and those to leave out of shards made again."""
    nothing = np.empty(0, "i8")
    if not (run.options.fresh or run.options.prune):
        return nothing, nothing
    if run.options.fresh:
        return journal.others(nothing), nothing
    removed = journal.others(journal.find(run.survey.keys))
    return removed, nothing if run.groups is None else removed[in_shards(journal, removed)]


def _damaged(
    run: Assignment, journal: Journal, unsynced: Unsynced | None, tell: Callable[[str], None]
) -> np.ndarray:
    """Return the keys of inputs whose outputs are damaged or missing, as far as this run checks that."""
    entries = np.empty(0, "i8")
    if run.options.fresh:
        pass
    elif run.options.repair:
        # imported here, since it loads libraries for sound
        from splitter.verification.check import damaged_entries

        tell("--repair: reading all outputs")
        entries = damaged_entries(run.storage, journal, run.survey.keys)
    elif unsynced and unsynced.is_restarted and not run.storage.exists(DROPPED.name):
        # if files were dropped on purpose, `needed` says which to make again
        entries = unsynced.lost(run.storage, journal)
    return journal.entries["key"][entries]


def _refuse_lost_columns(run: Assignment, journal: Journal) -> None:
    """Refuse tables whose columns are lost: a trial may find others, so that shards would differ."""
    sink, storage = run.job.sink, run.storage
    if sink.needs_columns and not storage.exists(COLUMNS.name):
        names = journal.outputs_of_each(journal.with_outputs(journal.done()))
        if any(shard_of(one[0])[0].endswith(sink.suffix) for one in names if one):
            raise COLUMNS.missing(storage)


def _refuse_another_layout(run: Assignment, journal: Journal, before: dict[str, Any]) -> None:
    """Refuse to give inputs other folders, which may still belong to other inputs."""
    name = "keep_extension"
    if journal.any_outputs and before.get(name, run.how[name]) != run.how[name]:
        was = "with" if before[name] else "without"
        raise Refused(
            f"{run.storage.root}: was made {was} --keep-extension; keep it that way, use --fresh to "
            "start over, or choose another --output"
        )


def _refuse_to_lose_shards(run: Assignment, journal: Journal, sinks: set[Any]) -> None:
    """Refuse to change the sink if this would lose outputs that cannot be made again."""
    found = run.survey
    entries = journal.find(found.keys)
    gone = journal.others(entries)[: 0 if run.options.prune else None]
    finished = np.isin(journal.status(entries), (DONE, SKIPPED))
    unreadable = finished & (found.sizes < 0)
    if run.first_inputs is not None:
        unreadable &= run.first_inputs
    kept = np.concatenate((entries[unreadable], gone))
    if in_shards(journal, kept, other_than=run.job.sink.suffix).any():
        names = " and ".join(sorted(map(str, sinks)))
        raise Refused(
            f"{run.storage.root}: was made with --sink {names}, and holds outputs of inputs that cannot "
            "be read now or are no longer in the list; keep that sink, use --fresh, or choose "
            "another --output"
        )


def refuse_samples_without_rows(run: Assignment, journal: Journal) -> None:
    """Refuse a list that lacks inputs with samples in shards: readers of a shard take all samples in it."""
    gone = journal.with_outputs(journal.others(journal.find(run.survey.keys)))
    gone = gone[in_shards(journal, gone)]
    if not len(gone):
        return
    names = show_names(journal.listed(gone[:NAMES_SHOWN], run.table.column), len(gone))
    unread = run.survey.members.unread
    why = f"; {unread[0]} cannot be read to its end" if unread else ""
    prune = "--prune once, without --part," if run.storage.part else "--prune"
    raise Refused(
        f"{run.storage.root}: its shards hold samples of {show_count(len(gone), 'input')} no longer in the "
        f"list ({names}){why}; use {prune} to remove these samples, or list those inputs again (see --where "
        "and --pattern) to keep them"
    )
