"""What a run leaves to be read: manifest.csv and errors.csv, and the same in other formats.

All of it is made from the commit records, each time anew.
"""

import json
from collections.abc import Sequence

import numpy as np

from splitter.csv_text import Row
from splitter.errors import Refused, StorageError
from splitter.formats import write_format
from splitter.manifest import MANIFEST, SCHEMA, Journal
from splitter.places import OWN_FOLDER
from splitter.splits import COLUMN, RULE
from splitter.storage import Storage
from splitter.table_names import OTHERS

# which of the other formats are there
_OTHERS = f"{OWN_FOLDER}/tables.json"


def write_tables(  # noqa: PLR0913 - what a run has come to
    storage: Storage,
    journal: Journal,
    entries: np.ndarray,
    status: np.ndarray,
    columns: Row,
    *,
    others: Sequence[str] | None = None,
) -> None:
    """Write them all; inputs that are stale, or not done, stand in none.

    `others` names the files beside manifest.csv and errors.csv. Without it those that there were are made
    anew.
    """
    there = others_of(storage)
    wanted = there if others is None else list(others)
    # what is made from a manifest never outlives it
    storage.remove(there)
    journal.write_tables(entries, status, columns)
    if wanted != there:
        storage.write(_OTHERS, json.dumps(wanted).encode())
    if wanted:
        types = json.loads(storage.read(SCHEMA))["types"]
        for name in wanted:
            write_format(storage, name, MANIFEST, types)


def take_away(storage: Storage) -> None:
    """Finished work is done again: none of them beats a wrong one."""
    storage.remove([MANIFEST, *others_of(storage)])


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
    if not storage.exists(_OTHERS):
        return []
    try:
        return [name for name in json.loads(storage.read(_OTHERS)) if name in OTHERS]
    except (ValueError, TypeError) as error:
        raise StorageError(f"{storage.path(_OTHERS)}: is damaged ({error}); remove it") from None
