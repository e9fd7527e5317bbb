"""Outputs that may have been lost in a power cut: which they are, and which of them are missing or short.

Without --durable, the system decides when loose outputs reach the disk, until the run ends. So before its
first batch, a run notes from which generation on there are such outputs, and which boots of which machines
made them. The note is removed when everything is synced. A run that finds a note with another boot looks at
the outputs before it counts them as done.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from splitter.errors import StorageError
from splitter.ledger.journal import Journal
from splitter.ledger.records import SIZE_AT
from splitter.ledger.run_files import UNSYNCED
from splitter.storage.base import Storage
from splitter.storage.layout import shard_of
from splitter.system.durability import boot_id


@dataclass(frozen=True)
class Unsynced:
    """A note of the outputs that may not be on disk.

    Attributes:
        generation: The first generation whose outputs may not be.
        boots: The boots of machines during which they were made.
    """

    generation: int
    boots: tuple[str, ...]

    @property
    def is_restarted(self) -> bool:
        """Whether the machine was restarted since, or another one made the outputs, or this is unknown."""
        now = boot_id()
        return not now or any(boot != now for boot in self.boots)

    @classmethod
    def noted(cls, storage: Storage) -> "Unsynced | None":
        """Return the note, if there is one; a damaged note stands for all outputs."""
        if storage.always_durable:
            return None
        try:
            return UNSYNCED.load(
                storage,
                lambda content, _: cls(int(content["generation"]), tuple(map(str, content["boots"]))),
                strict=True,
            )
        except StorageError:
            return cls(0, ("",))

    def lost(self, storage: Storage, journal: Journal) -> np.ndarray:
        """Find the entries with a loose output that is missing, or has another size than was written."""
        entries = journal.done()
        entries = entries[~journal.is_older(entries, self.generation)]
        found = journal.rows_of_each(entries)
        lost = (_is_lost(storage, len(head.columns), rows) for head, rows in found)
        return entries[np.fromiter(lost, bool, len(entries))]


def noted_now(storage: Storage, generation: int, before: Unsynced | None, *, lost: bool) -> None:
    """Note that outputs from a generation on are unsynced, until all are synced.

    The note `before` is extended; after a restart, it is only kept while some of its outputs are `lost`.
    """
    if before is None or (before.is_restarted and not lost):
        before = Unsynced(generation, ())
    boots = [*dict.fromkeys((*before.boots, boot_id()))]
    UNSYNCED.save(storage, {"generation": min(before.generation, generation), "boots": boots})


def forget_unsynced(storage: Storage) -> None:
    """Remove the note: all outputs are synced."""
    storage.remove([UNSYNCED.name])


def _is_lost(storage: Storage, at: int, rows: Sequence[Sequence[str]]) -> bool:
    """Return whether any loose output of an input is missing or short; shards are always synced."""
    loose = ((row[at], row[at + SIZE_AT]) for row in rows if not shard_of(row[at])[0])
    return any(name and size and storage.output_size(name) != int(size) for name, size in loose)
