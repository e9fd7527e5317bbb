"""The manifest of an earlier run: its columns, their names in the next run, what `--keep` left out.

manifest of the first stage     label  input       output  size       checksum       part
dataset list of the second      label  from_input  input   from_size  from_checksum  from_part

A stage that makes only metadata has no files, so the second takes the same inputs, with more columns:

manifest of the first stage     label  input       output  size       checksum       quality
dataset list of the second      label  input                                         quality
"""

import contextlib
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from splitter.errors import Refused
from splitter.inputs.lists import read_list
from splitter.inputs.source import ListReading
from splitter.ledger.keeping import COLUMN as KEPT
from splitter.ledger.keeping import is_left_out
from splitter.ledger.manifest import MANIFEST
from splitter.ledger.records import OUTPUT_COLUMNS, SKIPPED_COLUMN
from splitter.stores.listings import content_beside
from splitter.text.labels import EARLIER
from splitter.text.show import show_count
from splitter.text.urls import is_url, joined, parent

OUTPUT, INPUT = "output", "input"
_OF_FILES = (*OUTPUT_COLUMNS, SKIPPED_COLUMN)
SCHEMA_BESIDE = ".splitter/schema.json"


def schema_of(path: str) -> dict[str, Any]:
    """Return what a run has recorded about the columns of its manifest; empty for other tables."""
    try:
        content = beside(path, SCHEMA_BESIDE)
        if content is None:
            return {}
        fields = json.loads(content)
        return {"types": {*fields["types"]}, "columns": {*fields["columns"]}, "rule": fields.get("rule")}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise Refused(
            f"{_name_beside(path, SCHEMA_BESIDE)}: cannot be read ({error}); run that stage again"
        ) from None


def _name_beside(path: str, name: str) -> str:
    return f"{parent(path)}/{name}" if is_url(path) else os.path.join(os.path.dirname(path), name)


def beside(path: str, name: str) -> bytes | None:
    """Return the content of a file in the folder of a manifest; None if there is no such file."""
    there = _name_beside(path, name)
    if is_url(path):
        return content_beside(there)
    with contextlib.suppress(FileNotFoundError, NotADirectoryError), open(there, "rb") as file:
        return file.read()
    return None


def keep_column(path: str, header: Sequence[str]) -> int | None:
    """Return the index of the column that says what --keep kept; None if the manifest has no such column."""
    return header.index(KEPT) if KEPT in header and schema_of(path).get("rule") == KEPT else None


def manifest_in(folder: str) -> str:
    """Return the path or URL of the manifest of an output folder."""
    return joined(folder, MANIFEST) if is_url(folder) else os.path.join(folder, MANIFEST)


def note_left_out(count: int, reading: ListReading) -> None:
    """Count the outputs that --keep left out, and tell the user how many, if any."""
    if count:
        reading.tally.not_kept += count
        are, them = ("is", "it") if count == 1 else ("are", "them")
        reading.tell(
            f"{show_count(count, 'output')} {are} not kept, as --keep says: left out; --all-rows takes "
            f"{them}, too"
        )


def left_out_of(folder: str, held: contextlib.ExitStack) -> set[int]:
    """Return the hashes of the names of the outputs in a folder that --keep left out."""
    manifest = manifest_in(folder)
    if schema_of(manifest).get("rule") != KEPT:
        return set()
    if not is_url(folder) and not os.path.exists(manifest):
        raise Refused(
            f"{folder}: --keep left out some of its outputs, but the manifest, which says which, is missing; "
            "finish the run that made it, or use --all-rows"
        )
    header, rows, *_ = read_list(manifest, None, held)
    if KEPT not in header or OUTPUT_COLUMNS[0] not in header:
        return set()
    at, kept = header.index(OUTPUT_COLUMNS[0]), header.index(KEPT)
    # numbers take less memory than names
    return {hash(row[at]) for row in rows if row[at] and is_left_out(row[kept])}


# -- what its columns are called -----------------------------------------------------------------------------


def labels_of_manifest(path: str, header: Sequence[str]) -> list[str] | None:
    """Return the dataset columns of a manifest in its output folder; None for any other list."""
    if not {OUTPUT, "size", "checksum"} <= {*header}:
        return None
    fields = schema_of(path)
    if not fields:
        return None
    own = {OUTPUT, "size", "checksum", "skipped", *fields["types"]} - {*fields["columns"]}
    # a column that a user has added is a label
    return [name for name in header if name not in own]


def names_in_next_stage(
    header: Sequence[str], labels: Sequence[str], rename: Mapping[str, str]
) -> dict[str, str]:
    """Return the new names of columns: those of the stage get a prefix, and its outputs become the inputs.

    Names in `rename` take precedence. Labels keep their names, and so do columns of earlier stages, which are
    labels by now. If a name is taken, the prefix is added once more.
    """
    kept = [name for name in labels if name != INPUT]
    names = {OUTPUT: INPUT, **rename}
    taken = {*(name for name in kept if name not in names), *names.values()}
    for name in header:
        if name in names or name in kept:
            continue
        new = EARLIER + name
        while new in taken:
            new = EARLIER + new
        taken.add(new)
        names[name] = new
    return names


def names_after_columns(header: Sequence[str], rename: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the columns that the next stage gets from one that makes only metadata, with their new names.

    Labels and metadata keep their names, unless `rename` has others. Columns about output files are left out,
    since there are no such files, unless `rename` names them.
    """
    names = rename or {}
    return {name: names.get(name, name) for name in header if name not in _OF_FILES or name in names}


def columns_to_join(
    path: str, header: Sequence[str], key: str, there: Sequence[str], rename: Mapping[str, str]
) -> list[str]:
    """Return the columns of a file of labels to join, by the column `key`, to the columns `there`.

    Of a manifest, leave out columns about its output files, and labels that the list has, too.
    """
    labels = labels_of_manifest(path, header)
    if labels is None:
        return [*header]
    gone = {*header} - {*names_after_columns(header, rename)} | {*labels} & {*there} - {*rename}
    return [name for name in header if name == key or name not in gone]
