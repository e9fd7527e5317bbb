"""Whether the files of the run's own, in .splitter, are whole: for `splitter verify`."""

from collections.abc import Iterator

from splitter.errors import Refused, StorageError
from splitter.ledger.journal import Journal
from splitter.ledger.run_files import LAST_RUN, LIST, LISTED, RUN, list_is_whole
from splitter.ledger.shard_groups import GROUPS
from splitter.ledger.splits import RULE
from splitter.ledger.status import STALE_MARKS
from splitter.ledger.tables import OTHER_TABLES
from splitter.ledger.unsynced import UNSYNCED
from splitter.sinks.columns import COLUMNS
from splitter.storage.base import SHARES, Storage
from splitter.storage.checked_file import unsealed
from splitter.storage.layout import OWN_FOLDER
from splitter.verification.findings import RUN_AGAIN

_FRESH = "restore it, or start over with --fresh"
_AGAIN = f"remove it, and {RUN_AGAIN}"
_REMEDIES = {
    LISTED: RUN_AGAIN,
    STALE_MARKS: RUN_AGAIN,
    RUN: _AGAIN,
    LAST_RUN: "remove it; only the report uses it",
    RULE: "remove it, and run 'splitter split' again",
    UNSYNCED: RUN_AGAIN,
    OTHER_TABLES: "remove it and the tables beside manifest.csv, and make them anew with 'splitter manifest'",
    GROUPS: _FRESH,
    COLUMNS: _FRESH,
}


class OwnFiles:
    """Looks at them, and knows which are of no use."""

    def __init__(self, storage: Storage, journal: Journal) -> None:
        """Nothing is looked at yet."""
        self._storage, self._journal = storage, journal
        self.damaged: set[str] = set()

    @property
    def can_tell(self) -> bool:
        """Whether what is whole is enough to say what must be in the folder."""
        from_records = any(name.startswith(f"{OWN_FOLDER}/records/") for name in self.damaged)
        return not (from_records or self.damaged & {LIST, LISTED, RULE, STALE_MARKS})

    def faults(self) -> Iterator[tuple[str, str]]:
        """What is wrong with which file."""
        for name, message in self._faults():
            self.damaged.add(name)
            yield name, message

    def _faults(self) -> Iterator[tuple[str, str]]:
        storage = self._storage
        missing = [name for name in (LIST, LISTED) if not storage.exists(name)]
        if missing and not self._journal.is_begun:
            raise Refused(
                f"{storage.root}: no run has begun its work there yet; start one with 'splitter run'"
            )
        shares = [f"{OWN_FOLDER}/{name}" for name in storage.names(OWN_FOLDER)]
        others = {name: "remove it, and run all parts again" for name in shares if name.startswith(SHARES)}
        for name, remedy in {**_REMEDIES, **others}.items():
            if storage.exists(name) and (problem := self._fault(name)):
                yield name, f"{problem}; {remedy}"
        records = list(self._journal.faults())
        yield from records
        if not storage.exists(RUN):
            yield RUN, f"is not there; {RUN_AGAIN}"
        for name in missing:
            yield name, f"is not there; {RUN_AGAIN}"
        if not (missing or LISTED in self.damaged or list_is_whole(storage)):
            yield LIST, f"is not the list that was kept; {RUN_AGAIN}"

    def _fault(self, name: str) -> str:
        try:
            unsealed(self._storage.read(name), strict=True)
        except ValueError as error:
            return f"is damaged ({error})"
        except StorageError as error:
            return str(error)
        return ""

    def missing_of_shards(self, *, tables: bool) -> Iterator[tuple[str, str]]:
        """What there must be where there are shards, and is not."""
        for name in (GROUPS, *([COLUMNS] if tables else [])):
            if not self._storage.exists(name):
                yield name, f"is not there; {_FRESH}"
