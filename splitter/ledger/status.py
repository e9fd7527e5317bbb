"""How the inputs of a list stand: what the tables, the summary and `splitter verify` go by."""

from dataclasses import dataclass

import numpy as np

from splitter.errors import StorageError
from splitter.ledger.journal import Journal
from splitter.ledger.records import STALE
from splitter.storage.base import Storage
from splitter.storage.checked_file import sealed, unsealed
from splitter.storage.layout import OWN_FOLDER
from splitter.text.show import one_line

NAMES_SHOWN = 3
STALE_MARKS = f"{OWN_FOLDER}/stale"
# an input, and what it was when its outputs were made
_MARK = np.dtype([("key", "<u8"), ("fingerprint", "<u8")])


def keep_stale(storage: Storage, journal: Journal, entries: np.ndarray) -> None:
    """Keep which entries hold what was made before a change; tables have rows for none of them."""
    marks = np.empty(len(entries), _MARK)
    for name in ("key", "fingerprint"):
        marks[name] = journal.entries[name][entries]
    if len(marks):
        storage.write(STALE_MARKS, sealed({"inputs": len(marks)}, marks.tobytes()))
    else:
        forget_stale(storage)


def forget_stale(storage: Storage) -> None:
    """Nothing is left from before a change."""
    if storage.exists(STALE_MARKS):
        storage.remove([STALE_MARKS])


@dataclass(frozen=True)
class InputStatus:
    """What each input of the list has come to, and what is there of others.

    Attributes:
        entries: For each input its entry in the journal, or -1.
        status: What each has come to; STALE if that was before a change.
        gone: Entries whose inputs are no longer in the list.
        gone_with_outputs: Those of them that have outputs.
    """

    entries: np.ndarray
    status: np.ndarray
    gone: np.ndarray
    gone_with_outputs: np.ndarray

    @classmethod
    def of(cls, storage: Storage, journal: Journal, keys: np.ndarray) -> "InputStatus":
        """How the inputs with these keys stand in the journal, as it was loaded last."""
        entries = journal.find(keys)
        status = journal.status(entries)
        known = np.flatnonzero(entries >= 0)
        status[known[_is_stale(storage, journal, entries[known])]] = STALE
        gone = journal.others(entries)
        return cls(entries, status, gone, gone[journal.entries["outputs"][gone] > 0])

    def first_gone(self, journal: Journal, column: str) -> list[str]:
        """The first few inputs that have outputs and are no longer in the list."""
        names = journal.listed(self.gone_with_outputs[:NAMES_SHOWN], column)
        return [*map(one_line, names)]

    def entries_with(self, *status: int) -> np.ndarray:
        """The entries of the inputs that have come to one of these, in the order of the list."""
        chosen: np.ndarray = self.entries[np.isin(self.status, status)]
        return chosen

    @property
    def all_entries(self) -> np.ndarray:
        """All entries that count, those of the list first."""
        return np.concatenate((self.entries[self.entries >= 0], self.gone))


def _is_stale(storage: Storage, journal: Journal, entries: np.ndarray) -> np.ndarray:
    """Which entries hold what was made before a change, when the last run began, and are not done since."""
    if not storage.exists(STALE_MARKS):
        return np.zeros(len(entries), bool)
    try:
        marks = np.frombuffer(unsealed(storage.read(STALE_MARKS), strict=True)[1], _MARK)
    except ValueError as error:
        raise StorageError(
            f"{storage.path(STALE_MARKS)}: is damaged ({error}); give the same 'splitter run' command again, "
            "which makes it anew"
        ) from None
    if not len(marks):
        return np.zeros(len(entries), bool)
    marks = marks[np.argsort(marks["key"], kind="stable")]
    there = journal.entries[entries]
    at = np.minimum(np.searchsorted(marks["key"], there["key"]), len(marks) - 1)
    same: np.ndarray = (marks["key"][at] == there["key"]) & (marks["fingerprint"][at] == there["fingerprint"])
    return same
