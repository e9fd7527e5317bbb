"""The tables of a run read back, row after row, from its folder or a URL.

Somebody may have edited them, cut them short, or put another file in their place.
"""

import csv
import io
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO, cast

from splitter.errors import Refused, StorageError
from splitter.ledger.manifest import MANIFEST, SCHEMA
from splitter.outputs.files import Files, LocalFiles, files_at
from splitter.storage.checked_file import json_of
from splitter.storage.layout import OWN_FOLDER
from splitter.text.csv import ENCODING, ESCAPE, Row
from splitter.text.urls import is_url, without_scheme

READ_AT_ONCE = 1 << 20
AGAIN = "run again with the same output folder to have it made anew"


@dataclass(frozen=True)
class ManifestLocation:
    """Where a manifest is.

    Attributes:
        files: The folder that it is in.
        name: What it is called there.
        is_home: Whether that is the output folder, as far as can be told.
    """

    files: Files
    name: str
    is_home: bool


def location_of(path: str | os.PathLike[str], who: str) -> ManifestLocation:
    """The manifest of an output folder, or a file that is named."""
    try:
        text = os.fsdecode(path)
    except TypeError:
        kind = type(path).__name__
        raise Refused(f"{who}: {path!r:.100} is of type {kind}; give the path of an output folder") from None
    if "\0" in text:
        raise Refused(f"{who}: {text!r} cannot be a file; give the path of an output folder")
    folder, name = _folder_and_file(text)
    files = files_at(folder)
    if isinstance(files, LocalFiles):
        files.named = name
    is_home = not name or files.exists(SCHEMA) or files.exists(OWN_FOLDER)
    return ManifestLocation(files, name or MANIFEST, is_home)


def folder_of(output: str) -> str:
    """The output folder that a user names, or whose manifest.csv."""
    folder, name = _folder_and_file(output)
    return folder if name == MANIFEST else output


def _folder_and_file(text: str) -> tuple[str, str]:
    """A folder, and the file in it that is named, if one is."""
    if is_url(text):
        is_file = text.lower().endswith(".csv")
    else:
        text = os.path.expanduser(without_scheme(text))
        is_file = not os.path.isdir(text)
    folder, name = os.path.split(text) if is_file else (text, "")
    return folder or ".", name


def schema_of(files: Files) -> tuple[dict[str, str], list[str]]:
    """The types of metadata, and the columns of the dataset."""
    if not files.exists(SCHEMA):
        # a manifest that was copied away from its folder: all text, but for what is always a number
        return {"size": "int"}, []
    try:
        content = json_of(files.read(SCHEMA))
        types, columns = content["types"], content["columns"]
        if not all(isinstance(one, str) for one in (*types, *types.values(), *columns)):
            raise ValueError("its types are wrong")  # noqa: TRY301 - as of what is no JSON
    except (StorageError, ValueError, KeyError, TypeError, AttributeError) as error:
        path = files.location(SCHEMA)
        raise Refused(f"{path}: cannot be read ({error}); run again with the same output folder") from None
    return {**types, "size": "int"}, columns


def open_table(
    files: Files, name: str, needed: Sequence[str], columns: Sequence[str]
) -> tuple[Row, Iterator[Row]]:
    """The header and the rows of a table; refuses one that lacks a column, or is no longer whole.

    `needed` are columns that it must have, `columns` those of the dataset.
    """
    path = files.location(name)
    if not files.exists(name):
        files.refuse_nowhere()
        if files.exists(OWN_FOLDER):
            _refuse_in_use(files)
            raise Refused(f"{path}: there is no manifest, as the run has not ended; {AGAIN}")
        raise Refused(f"{path}: there is no manifest; give the output folder of a finished run")
    rows = _rows(files, name, path)
    header = next(rows, [])
    if header and header[0] not in columns:
        # spreadsheets mark a file as UTF-8
        header[0] = header[0].removeprefix("\ufeff")
    _check_header(path, header, needed)
    return header, rows


def _refuse_in_use(files: Files) -> None:
    """Refuse a folder that a run is at work in, where the manifest is made when that ends."""
    from splitter.storage.remote import storage_of

    who, _ = storage_of(files.folder, None).users()
    if who:
        raise Refused(f"{files.folder}: is in use by {who}; its manifest is made when that has ended")


def _rows(files: Files, name: str, path: str) -> Iterator[Row]:
    """The header, then the rows."""
    try:
        with files.open(name, gaps=False) as raw, _text_of(raw) as file:
            reader = csv.reader(file, strict=True)
            header = next(reader, [])
            yield header
            for row in reader:
                if len(row) == len(header):
                    yield row
                elif row:
                    widths = f"{len(row)} columns where the first line has {len(header)}"
                    raise Refused(f"{path}: line {reader.line_num} has {widths}; {AGAIN}")
    except StorageError as error:
        raise Refused(f"{path}: cannot be read: {error}") from None
    except OSError as error:
        raise Refused(f"{path}: cannot be read: {error.strerror or error}") from None
    except csv.Error as error:
        raise Refused(f"{path}: line {reader.line_num} is not CSV ({error}); {AGAIN}") from None


def _text_of(raw: BinaryIO) -> io.TextIOWrapper:
    buffered = io.BufferedReader(cast("io.RawIOBase", raw), READ_AT_ONCE)
    return io.TextIOWrapper(buffered, ENCODING, ESCAPE, newline="")


def _check_header(path: str, header: Row, needed: Sequence[str]) -> None:
    if not header:
        raise Refused(f"{path}: is empty; {AGAIN}")
    missing = [name for name in needed if name not in header]
    if missing:
        raise Refused(
            f"{path}: has no column {missing[0]!r}, so it is not of splitter; give the output folder of a run"
        )
    for name in header:
        if header.count(name) > 1:
            raise Refused(f"{path}: has two columns {name!r}; {AGAIN}")
