"""The status of each input of a list, for the tables, the summary and `splitter verify`."""

from dataclasses import dataclass

import numpy as np

from splitter.ledger.journal import Journal
from splitter.ledger.records import NOT_DONE, STALE
from splitter.ledger.run_files import STALE_MARKS
from splitter.sorted_arrays import index_of
from splitter.storage.base import Storage
from splitter.text.show import NAMES_SHOWN, one_line

# an input, and its fingerprint when its outputs were made
_MARK = np.dtype([("key", "<u8"), ("fingerprint", "<u8")])


def keep_stale(storage: Storage, journal: Journal, entries: np.ndarray) -> None:
    """Store which entries are from before a change; the tables have no rows for them."""
    marks = np.empty(len(entries), _MARK)
    for name in ("key", "fingerprint"):
        marks[name] = journal.entries[name][entries]
    if len(marks):
        STALE_MARKS.save(storage, {"inputs": len(marks)}, marks.tobytes())
    else:
        forget_stale(storage)


def forget_stale(storage: Storage) -> None:
    """Record that no entries from before a change are left."""
    if storage.exists(STALE_MARKS.name):
        storage.remove([STALE_MARKS.name])


@dataclass(frozen=True)
class InputStatus:
    """The status of each input of the list, and the entries of inputs that are no longer in it.

    Attributes:
        entries: For each input its entry in the journal, or -1.
        status: The status of each; STALE if its entry is from before a change.
        gone: Entries whose inputs are no longer in the list.
        gone_with_outputs: Those of them that have outputs.
    """

    entries: np.ndarray
    status: np.ndarray
    gone: np.ndarray
    gone_with_outputs: np.ndarray

    @classmethod
    def of(cls, storage: Storage, journal: Journal, keys: np.ndarray) -> "InputStatus":
        """Return the status of the inputs with these keys, by the journal as last loaded."""
        entries = journal.find(keys)
        status = journal.status(entries)
        found = np.flatnonzero(entries >= 0)
        status[found[_is_stale(storage, journal, entries[found])]] = STALE
        gone = journal.others(entries)
        return cls(entries, status, gone, journal.with_outputs(gone))

    @property
    def is_complete(self) -> bool:
        """Whether each input, in its current state, is done, skipped or failed."""
        return not np.isin(self.status, (NOT_DONE, STALE)).any()

    def first_gone(self, journal: Journal, column: str) -> list[str]:
        """Return the first few inputs that have outputs and are no longer in the list."""
        names = journal.listed(self.gone_with_outputs[:NAMES_SHOWN], column)
        return [*map(one_line, names)]

    def entries_with(self, *status: int) -> np.ndarray:
        """Return the entries of the inputs with one of these statuses, in the order of the list."""
        return self.entries[np.isin(self.status, status)]


def _is_stale(storage: Storage, journal: Journal, entries: np.ndarray) -> np.ndarray:
    """Return which entries are from before a change, and have not been redone since."""
    marks = STALE_MARKS.load(storage, lambda _, rest: np.frombuffer(rest, _MARK), strict=True)
    if marks is None or not len(marks):
        return np.zeros(len(entries), bool)
    there = journal.entries[entries]
    at = index_of(marks["key"], there["key"])
    return (at >= 0) & (marks["fingerprint"][at] == there["fingerprint"])
