"""Refuse inputs whose outputs would collide with those of other inputs from earlier runs."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from splitter.engine.assignment import Assignment
from splitter.errors import Refused
from splitter.inputs.survey import Survey
from splitter.inputs.table import BLOCK
from splitter.ledger.journal import Journal
from splitter.sorted_arrays import index_in_sorted
from splitter.storage.layout import folders_around, same_name, shard_of
from splitter.text.csv import parse_rows

if TYPE_CHECKING:
    from splitter.engine.decide import State


def refuse_taken(run: Assignment, journal: Journal, state: "State", earlier: list[dict[str, Any]]) -> None:
    """Refuse names that still belong to another input, which is gone, or is yet to be redone.

    `earlier` says how the existing outputs were made.
    """
    if run.job.layout.naming is None:
        _refuse_folders_of_gone(run, journal, state)
    # if each input has a folder, it keeps that
    if run.job.layout.naming or any("name" in one or not one for one in earlier):
        _refuse_names_of_others(run, journal, state)


def _refuse_folders_of_gone(run: Assignment, journal: Journal, state: "State") -> None:
    """Refuse an input whose outputs would be among those of one that is no longer in the list."""
    found, table, layout = run.survey, run.table, run.job.layout
    holders: dict[int, int] = {}
    around: dict[int, int] = {}
    for entry, names in zip(state.gone.tolist(), journal.outputs_of_each(state.gone), strict=True):
        for folder in _folders_of(names):
            holders[hash(folder)] = entry
            around.update((hash(parent), entry) for parent in folders_around(folder))
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


def _refuse_names_of_others(run: Assignment, journal: Journal, state: "State") -> None:
    """Refuse an input that may get a name which another one, gone or not redone yet, still has."""
    held = np.unique(
        np.concatenate((state.gone, state.entries[state.stale], state.entries[state.unreadable]))
    )
    hashes, holders = list[int](), list[int]()
    for entry, names in zip(held.tolist(), journal.outputs_of_each(held), strict=True):
        claims = {claim for name in names if not shard_of(name)[0] for claim in _claims_in(run, name)}
        hashes += claims
        holders += [entry] * len(claims)
    order = np.argsort(np.array(hashes, "i8"), kind="stable")
    claimed, entries = np.array(hashes, "i8")[order], np.array(holders, "i8")[order]
    for start in range(0, len(state.todo), BLOCK) if len(claimed) else ():
        wanted = [
            pair for index in state.todo[start : start + BLOCK].tolist() for pair in _claims_of(run, index)
        ]
        numbers = np.array([number for number, _ in wanted], "i8")
        bounds = (np.searchsorted(claimed, numbers, side).tolist() for side in ("left", "right"))
        for (_, index), first, last in zip(wanted, *bounds, strict=True):
            for entry in entries[first:last].tolist():
                if journal.entries["key"][entry] != run.survey.keys[index]:
                    _refuse_name(run, journal, index, entry, is_gone=entry in state.gone)


def _refuse_name(run: Assignment, journal: Journal, index: int, entry: int, *, is_gone: bool) -> None:
    (other,) = journal.listed(np.array([entry]), run.table.column)
    remedy = (
        "use --prune to remove those" if is_gone else "use --fresh to start over, or choose another --output"
    )
    raise Refused(
        f"{run.table.listed(index)}: its outputs could get names that outputs of {other} still have"
        f"{', which is no longer in the list' if is_gone else ''}; {remedy}"
    )


def _claims_in(run: Assignment, name: str) -> Iterator[int]:
    """Yield the claims, one of which an input must have for an output of it to get this name."""
    naming = run.job.layout.naming
    if naming is None:
        yield from map(hash, folders_around(same_name(name)))
    elif (claim := naming.claim_in(name)) is not None:
        yield hash(claim)


def _claims_of(run: Assignment, index: int) -> Iterator[tuple[int, int]]:
    """Yield the claims of an input, each with its index."""
    layout, table = run.job.layout, run.table
    if layout.naming is None:
        yield int(run.survey.folders[index]), index
        return
    for row in parse_rows(table.text(index)):
        yield hash(layout.naming.claim(row, layout.folder(layout.key(row[table.at])))), index


def _folders_of(names: Iterable[str]) -> set[str]:
    """Return the folders that hold outputs: one without --name, otherwise several, or none at the top."""
    folders = {name.rpartition("/")[0] for name in names}
    return {same_name(folder) for folder in folders if folder}


class TakenFolders:
    """The folders with outputs of earlier inputs, while only a part of the list is known."""

    def __init__(self, journal: Journal, entries: np.ndarray) -> None:
        """Take the entries of inputs that may be gone, or may come later in the list."""
        folders, keys, around = list[int](), list[int](), set[int]()
        of_each = zip(entries.tolist(), journal.outputs_of_each(entries), strict=True)
        for entry, folder in ((entry, folder) for entry, names in of_each for folder in _folders_of(names)):
            folders.append(hash(folder))
            keys.append(int(journal.entries["key"][entry]))
            around.update(map(hash, folders_around(folder)))
        order = np.argsort(np.array(folders, "i8"), kind="stable")
        self._folders, self._keys = np.array(folders, "i8")[order], np.array(keys, "u8")[order]
        self._around = np.fromiter(around, "i8", len(around))

    def meet(self, found: Survey, inputs: np.ndarray) -> np.ndarray:
        """Return which inputs would have outputs among those of another input."""
        if not len(self._folders):
            return np.zeros(len(inputs), bool)
        folders = found.folders[inputs]
        at = index_in_sorted(self._folders, folders)
        of_another = (at >= 0) & (self._keys[at] != found.keys[inputs])
        return of_another | np.isin(folders, self._around) | np.isin(found.outer_folders, self._folders).any()
