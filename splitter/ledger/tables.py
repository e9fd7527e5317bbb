"""What a run leaves to be read: manifest.csv and errors.csv, and the same in other formats.

All of it is made from the commit records, each time anew.
"""

import json
from collections.abc import Sequence

from splitter.errors import Refused, StorageError
from splitter.ledger.formats import write_format
from splitter.ledger.journal import Journal
from splitter.ledger.manifest import MANIFEST, SCHEMA, ManifestTables
from splitter.ledger.splits import COLUMN, RULE
from splitter.ledger.status import InputStatus
from splitter.options import OTHERS
from splitter.storage.base import Storage
from splitter.storage.checked_file import json_of, sealed, unsealed
from splitter.storage.layout import OWN_FOLDER
from splitter.text.csv import Row

# which of the other formats are there
OTHER_TABLES = f"{OWN_FOLDER}/tables.json"


def write_tables(
    storage: Storage,
    journal: Journal,
    input_status: InputStatus,
    columns: Row,
    *,
    others: Sequence[str] | None = None,
) -> str:
    """Write them all; inputs that are stale, or not done, stand in none. Returns advice for the user, if any.

    `others` names the files beside manifest.csv and errors.csv. Without it those that there were are made
    anew.
    """
    before = checksums_of_others(storage)
    there = [*before]
    wanted = there if others is None else list(others)
    # what is made from a manifest never outlives it
    storage.remove(there)
    if there:
        storage.sync(there)
    manifest = ManifestTables(journal, input_status, columns)
    manifest.write()
    if wanted != there:
        _note(storage, dict.fromkeys(wanted, ""))
    if wanted:
        types = json.loads(storage.read(SCHEMA))["types"]
        made = {name: write_format(storage, name, MANIFEST, types) for name in wanted}
        if made != before:
            _note(storage, made)
    return manifest.advice()


def _note(storage: Storage, checksums: dict[str, str]) -> None:
    storage.write(OTHER_TABLES, sealed({"tables": checksums}))


def take_away(storage: Storage) -> None:
    """Finished work is done again: none of them beats a wrong one."""
    names = [MANIFEST, *others_of(storage)]
    storage.remove(names)
    storage.sync(names)


def refuse_in_the_way(storage: Storage, others: Sequence[str]) -> None:
    """Refuse to replace what no run has made."""
    for name in others:
        if storage.exists(name) and name not in others_of(storage):
            raise Refused(f"{storage.path(name)}: is there already, and no run has made it; move it away")


def refuse_column(storage: Storage, columns: Row) -> None:
    """Refuse a dataset list whose column would stand where `splitter split` has put its own."""
    if COLUMN in columns and storage.exists(RULE):
        raise Refused(
            f"the dataset list has a column {COLUMN!r}, as the manifest has by 'splitter split'; "
            f"use --rename {COLUMN}=NEW, or run: splitter split {storage.root} --remove"
        )


def others_of(storage: Storage) -> list[str]:
    """The files beside manifest.csv and errors.csv that runs have made."""
    return [*checksums_of_others(storage)]


def checksums_of_others(storage: Storage) -> dict[str, str]:
    """Those files, and the checksum of each; none of one that was not written to its end."""
    if not storage.exists(OTHER_TABLES):
        return {}
    try:
        text = storage.read(OTHER_TABLES)
        if text.startswith(b"["):
            # as it was kept before there were checksums
            return dict.fromkeys((name for name in json_of(text) if name in OTHERS), "")
        tables = unsealed(text)[0]["tables"]
        return {name: str(checksum) for name, checksum in tables.items() if name in OTHERS}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StorageError(f"{storage.path(OTHER_TABLES)}: is damaged ({error}); remove it") from None
