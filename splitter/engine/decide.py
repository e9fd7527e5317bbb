"""What a run has to do, and what stays: the list held against the journal."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from splitter.engine.display import show_names
from splitter.errors import Refused
from splitter.inputs.survey import Survey
from splitter.inputs.table import InputTable
from splitter.ledger.journal import PLACE, Journal
from splitter.ledger.records import DONE, SKIPPED
from splitter.storage.base import Storage
from splitter.storage.layout import Layout, folders_around, same_name, shard_of
from splitter.text.show import show_count
from splitter.worker.messages import Job

NAMES_SHOWN = 3


@dataclass(frozen=True)
class State:
    """What is to be done, and what stays: numbers of inputs, in the order of the list.

    Attributes:
        entries: For each input of the list its entry in the journal, or -1.
        todo: New, changed, or to be tried again.
        changed: Those of `todo` that were finished before.
        stale: All that have something from before a change, also those that a limit leaves for later.
        unreadable: Finished before and cannot be read now: they keep what they have.
        gone: Entries whose inputs are no longer in the list.
    """

    entries: np.ndarray
    todo: np.ndarray
    changed: np.ndarray
    stale: np.ndarray
    unreadable: np.ndarray
    gone: np.ndarray


def compare(
    journal: Journal,
    found: Survey,
    fingerprints: np.ndarray | None,
    *,
    asked: np.ndarray | None,
    again: np.ndarray,
) -> State:
    """Compare the list with what is committed; `asked` says which inputs the run is for, if not for all.

    `again` has entries that are to be done once more, though nothing changed: they failed, or are damaged.
    """
    entries = journal.find(found.keys)
    known = entries >= 0
    numbers = entries[known]
    status = journal.status(entries)
    same = np.zeros(len(entries), bool)
    if fingerprints is not None:
        same[known] = journal.entries["fingerprint"][numbers] == fingerprints[known]
    finished = (status == DONE) | (status == SKIPPED)
    once_more = np.isin(entries, again)
    unreadable = finished & (~same | once_more) & (found.sizes < 0)
    todo = ~same & ~unreadable
    stale = todo & known
    todo |= once_more & ~unreadable
    if asked is not None:
        todo &= asked
        unreadable &= asked
    return State(
        entries=entries,
        todo=np.flatnonzero(todo).astype(PLACE),
        changed=np.flatnonzero(todo & finished),
        stale=np.flatnonzero(stale).astype(PLACE),
        unreadable=np.flatnonzero(unreadable),
        gone=journal.others(entries),
    )


def refuse_taken(journal: Journal, table: InputTable, layout: Layout, found: Survey, state: State) -> None:
    """Refuse an input whose outputs would meet those of one that is no longer in the list."""
    holders: dict[int, int] = {}
    around: dict[int, int] = {}
    for entry, names in zip(state.gone.tolist(), journal.outputs_of_each(state.gone), strict=True):
        if names:
            folder, *above = folders_around(same_name(names[0]))
            holders[hash(folder)] = entry
            around.update((hash(parent), entry) for parent in above)
    suspects = np.isin(found.folders[state.todo], [*holders, *around])
    suspects |= np.isin(found.outer_folders, [*holders]).any()
    for index in state.todo[suspects].tolist():
        listed = table.listed(index)
        folder = layout.folder(layout.key(listed))
        own, *outer = (hash(parent) for parent in folders_around(same_name(folder) + "/"))
        met = [holders[parent] for parent in (own, *outer) if parent in holders]
        if met or own in around:
            (gone,) = journal.listed(np.array(met[:1] or [around[own]]), table.column)
            raise Refused(
                f"{listed}: its outputs would go to {folder}/, among those of {gone}, which is no longer "
                "in the list; use --prune to remove those"
            )


def refuse_another_layout(
    journal: Journal, storage: Storage, before: dict[str, Any], how: dict[str, Any]
) -> None:
    """Refuse to give inputs other folders, which may be those that other inputs have still."""
    name = "keep_extension"
    if journal.any_outputs and before.get(name, how[name]) != how[name]:
        was = "with" if before[name] else "without"
        raise Refused(
            f"{storage.root}: was made {was} --keep-extension; stay with that, use --fresh to start over, or "
            "choose another --output"
        )


def in_shards(journal: Journal, entries: np.ndarray, *, other_than: str = "") -> np.ndarray:
    """Which entries have outputs in shards, or in those of another kind."""
    names = journal.outputs_of_each(entries)
    shards = ((shard_of(one[0])[0] if one else "") for one in names)
    return np.fromiter((bool(one) and not (other_than and one.endswith(other_than)) for one in shards), bool)


def other_sinks(how: dict[str, Any], earlier: list[dict[str, Any]]) -> set[Any]:
    """The sinks of earlier runs whose shards cannot stay."""
    return {one.get("sink") for one in earlier} - {None, "files", how["sink"]}


def refuse_to_lose_shards(journal: Journal, job: Job, state: State, others: set[Any], *, prune: bool) -> None:
    """Before anything is removed: of shards of another kind nothing can stay."""
    gone = state.gone[: 0 if prune else None]
    kept = np.concatenate((state.entries[state.unreadable], gone))
    if in_shards(journal, kept, other_than=job.sink.suffix).any():
        names = " and ".join(sorted(map(str, others)))
        raise Refused(
            f"{job.storage.root}: was made with --sink {names}, and holds outputs of inputs that cannot "
            "be read now or are no longer in the list; stay with that sink, use --fresh, or choose "
            "another --output"
        )


def refuse_samples_without_rows(
    journal: Journal, job: Job, table: InputTable, found: Survey, gone: np.ndarray
) -> None:
    """Refuse a list without inputs that shards hold samples of: readers of a shard take all that is in it."""
    gone = gone[journal.entries["outputs"][gone] > 0]
    gone = gone[in_shards(journal, gone)]
    if not len(gone):
        return
    names = show_names(journal.listed(gone[:NAMES_SHOWN], table.column), len(gone))
    unread = found.members.unread
    why = f"; {unread[0]} cannot be read to its end" if unread else ""
    prune = "--prune once, without --part," if job.storage.part else "--prune"
    raise Refused(
        f"{job.storage.root}: its shards hold samples of {show_count(len(gone), 'input')} no longer in the "
        f"list ({names}){why}; use {prune} to remove these samples, or list those inputs again (see --where "
        "and --pattern) to keep them"
    )


def first_inputs(limit: int | None, inputs: int, mine: np.ndarray | None) -> np.ndarray | None:
    """Which inputs a run is for: its part of the first few; None if it is for all."""
    if limit is None:
        return mine
    first = np.arange(inputs) < limit
    return first if mine is None else first & mine
