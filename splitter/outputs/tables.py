"""Read back the tables of a run, row by row, from its folder or a URL.

Tables may have been edited, truncated or replaced.
"""

import io
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

from splitter.errors import Refused, StorageError
from splitter.ledger.keeping import COLUMN
from splitter.ledger.manifest import MANIFEST
from splitter.ledger.run_files import OF_A_PIPELINE, PIPELINE, SCHEMA
from splitter.outputs.files import Files, LocalFiles, files_at
from splitter.storage.checked_file import json_of
from splitter.storage.layout import OWN_FOLDER
from splitter.text.csv import ENCODING, ESCAPE, CsvReader, Row
from splitter.text.spelling import nearest
from splitter.text.urls import is_url, without_scheme

READ_AT_ONCE = 1 << 20
AGAIN = "run again with the same output folder to write it again"


@dataclass(frozen=True)
class ManifestLocation:
    """The location of a manifest.

    Attributes:
        files: The files of the folder that it is in.
        name: Its name there.
        is_home: Whether that folder is the output folder of the run, as far as can be seen.
    """

    files: Files
    name: str
    is_home: bool


def location_of(path: str | os.PathLike[str], who: str) -> ManifestLocation:
    """Return the location of a manifest, given its output folder or its path; errors begin with `who`."""
    try:
        text = os.fsdecode(path)
    except TypeError:
        kind = type(path).__name__
        raise Refused(f"{who}: {path!r:.100} is of type {kind}; pass the path of an output folder") from None
    if "\0" in text:
        raise Refused(f"{who}: {text!r} cannot be a file; pass the path of an output folder")
    folder, name = _folder_and_file(text)
    files = files_at(folder)
    if isinstance(files, LocalFiles):
        files.named = name
    is_home = not name or files.exists(SCHEMA.name) or files.exists(OWN_FOLDER)
    return ManifestLocation(files, name or MANIFEST, is_home)


def folder_of(output: str) -> str:
    """Return the output folder that a user names, directly or by its manifest.csv."""
    folder, name = _folder_and_file(output)
    return folder if name == MANIFEST else output


def _folder_and_file(text: str) -> tuple[str, str]:
    """Return a folder, and the file in it if one is named."""
    if is_url(text):
        is_file = text.lower().endswith(".csv")
    else:
        text = os.path.expanduser(without_scheme(text))
        is_file = not os.path.isdir(text)
    folder, name = os.path.split(text) if is_file else (text, "")
    return folder or ".", name


def schema_of(files: Files) -> tuple[dict[str, str], list[str]]:
    """Return the types of metadata, and the columns of the dataset."""
    if not files.exists(SCHEMA.name):
        # a manifest copied away from its folder: all columns are text, except one that is always a number
        return {"size": "int"}, []
    try:
        content = json_of(files.read(SCHEMA.name))
        types, columns = content["types"], content["columns"]
        if not all(isinstance(one, str) for one in (*types, *types.values(), *columns)):
            raise ValueError("its types are wrong")  # noqa: TRY301 - reported like bad JSON
    except (StorageError, ValueError, KeyError, TypeError, AttributeError) as error:
        path = files.location(SCHEMA.name)
        raise Refused(f"{path}: cannot be read ({error}); run again with the same output folder") from None
    return {**types, "size": "int"}, columns


def open_table(
    files: Files, name: str, needed: Sequence[str], columns: Sequence[str]
) -> tuple[Row, Iterator[Row]]:
    """Return the header and the rows of a table; refuse one that lacks a column or is incomplete.

    `needed` are the required columns, `columns` those of the dataset.
    """
    path = files.location(name)
    if not files.exists(name):
        files.refuse_nowhere()
        if files.exists(OWN_FOLDER):
            if files.exists(PIPELINE.name):
                raise Refused(f"{path.rpartition('/')[0]}: {OF_A_PIPELINE}")
            _refuse_in_use(files)
            raise Refused(f"{path}: there is no manifest, because the run has not ended; {AGAIN}")
        raise Refused(f"{path}: there is no manifest; pass the output folder of a finished run")
    rows = _rows(files, name, path)
    header = next(rows, [])
    if header and header[0] not in columns:
        # spreadsheets begin a UTF-8 file with a byte order mark
        header[0] = header[0].removeprefix("\ufeff")
    _check_header(path, header, needed)
    return header, rows


def _refuse_in_use(files: Files) -> None:
    """Refuse a folder that a run is using, because the manifest is written when the run ends."""
    from splitter.storage.opening import storage_of

    who, _ = storage_of(files.folder, None).users()
    if who:
        raise Refused(
            f"{files.folder}: is in use by {who}; its manifest is written when that ends, and "
            "'splitter serve --watch' shows how far it is"
        )


def _rows(files: Files, name: str, path: str) -> Iterator[Row]:
    """Yield the header, then the rows."""
    try:
        with files.open(name, gaps=False) as raw:
            buffered = io.BufferedReader(cast("io.RawIOBase", raw), READ_AT_ONCE)
            with io.TextIOWrapper(buffered, ENCODING, ESCAPE, newline="") as file:
                yield from CsvReader(
                    file, fault=lambda line, why: Refused(f"{path}: line {line} {why}; {AGAIN}")
                )
    except StorageError as error:
        raise Refused(f"{path}: cannot be read: {error}") from None
    except OSError as error:
        raise Refused(f"{path}: cannot be read: {error.strerror or error}") from None


def _check_header(path: str, header: Row, needed: Sequence[str]) -> None:
    if not header:
        raise Refused(f"{path}: is empty; {AGAIN}")
    missing = [name for name in needed if name not in header]
    if missing:
        raise Refused(
            f"{path}: has no column {missing[0]!r}, so it is not a manifest; pass the output folder of a run"
        )
    for name in header:
        if header.count(name) > 1:
            raise Refused(f"{path}: has two columns {name!r}; {AGAIN}")


def column_index(header: Row, column: str, option: str) -> int:
    """Return the index of a manifest column that an option names; refuse an unknown one."""
    if column not in header:
        hint = nearest(column, list(header)) or f"; it has {', '.join(header)}"
        raise Refused(f"{option} {column}: the manifest has no such column{hint}")
    return header.index(column)


def keep_column(files: Files, header: Sequence[str]) -> int | None:
    """Return the index of the column that says what `--keep` has kept; None if there is no such column."""
    if COLUMN not in header or not files.exists(SCHEMA.name):
        return None
    return header.index(COLUMN) if json_of(files.read(SCHEMA.name)).get("rule") == COLUMN else None
