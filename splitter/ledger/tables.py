"""The tables of a run: manifest.csv and errors.csv, and the manifest in other formats.

All of them are made from the commit records each time.
"""

import json
from collections.abc import Sequence
from typing import Any

from splitter.errors import Refused
from splitter.ledger.formats import write_format
from splitter.ledger.journal import Journal
from splitter.ledger.manifest import MANIFEST, ManifestTables
from splitter.ledger.run_files import OTHER_TABLES, RULE, SCHEMA
from splitter.ledger.splits import COLUMN
from splitter.ledger.status import InputStatus
from splitter.options import OTHERS
from splitter.storage.base import Storage
from splitter.text.csv import Row


def write_tables(
    storage: Storage,
    journal: Journal,
    input_status: InputStatus,
    columns: Row,
    *,
    others: Sequence[str] | None = None,
) -> ManifestTables:
    """Write all tables, without inputs that are stale or not done; return the maker of their rows.

    `others` names the files beside manifest.csv and errors.csv; by default, those that exist are rewritten.
    """
    before = checksums_of_others(storage)
    old = [*before]
    names = old if others is None else list(others)
    # a table made from a manifest never outlives it
    storage.remove(old)
    if old:
        storage.sync(old)
    manifest = ManifestTables(journal, input_status, columns)
    manifest.write()
    if names != old:
        _note(storage, dict.fromkeys(names, ""))
    if names:
        types = json.loads(storage.read(SCHEMA.name))["types"]
        made = {name: write_format(storage, name, MANIFEST, types) for name in names}
        if made != before:
            _note(storage, made)
    return manifest


def _note(storage: Storage, checksums: dict[str, str]) -> None:
    OTHER_TABLES.save(storage, {"tables": checksums})


def take_away(storage: Storage) -> None:
    """Remove manifest.csv and its copies before work is redone: no table is better than a wrong one."""
    names = [MANIFEST, *checksums_of_others(storage)]
    storage.remove(names)
    storage.sync(names)


def refuse_in_the_way(storage: Storage, others: Sequence[str]) -> None:
    """Refuse to replace a file that no run made."""
    for name in others:
        if storage.exists(name) and name not in checksums_of_others(storage):
            raise Refused(f"{storage.path(name)}: already exists, but no run made it; move it away")


def refuse_column(storage: Storage, columns: Row) -> None:
    """Refuse a dataset list that already has the column that `splitter split` added."""
    if COLUMN in columns and storage.exists(RULE.name):
        raise Refused(
            f"the dataset list has a column {COLUMN!r}, which 'splitter split' added to the manifest; "
            f"use --rename {COLUMN}=NEW, or run: splitter split {storage.root} --remove"
        )


def checksums_of_others(storage: Storage) -> dict[str, str]:
    """Return the checksum of each table that runs made beside manifest.csv and errors.csv.

    The checksum of a table that was not written to its end is empty.
    """
    return OTHER_TABLES.load(storage, _checksums) or {}


def _checksums(content: dict[str, Any], _: bytes) -> dict[str, str]:
    return {name: str(checksum) for name, checksum in content["tables"].items() if name in OTHERS}
