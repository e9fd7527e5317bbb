"""The manifest as a pandas DataFrame."""

import csv
import json
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import pandas as pd

from splitter.csv_text import ENCODING, ESCAPE, Row
from splitter.errors import Refused
from splitter.manifest import ERROR_COLUMNS, ERRORS, MANIFEST, OUTPUT_COLUMNS, SCHEMA
from splitter.outputs import FOLDER
from splitter.places import CANNOT_READ_URLS, OWN_FOLDER, is_url

if TYPE_CHECKING:
    from splitter.engine import Summary


class Manifest(pd.DataFrame):
    """The rows of manifest.csv; what is selected from it is an ordinary DataFrame.

    Attributes:
        failed: The rows of errors.csv.
        summary: The numbers of the run, when it comes from one.
    """

    # a list, or it cannot be unpickled
    _metadata: ClassVar[list[str]] = ["failed", "summary"]
    failed: pd.DataFrame
    summary: "Summary | None"


def read_manifest(path: str | os.PathLike[str], *, summary: "Summary | None" = None) -> Manifest:
    """Read the manifest of an output folder, or a manifest.csv.

    Dataset columns are text, exactly as they were in the list. Metadata has the types it was made with.
    Its rows know the folder that their output files are in.
    """
    file, home = _place(path)
    types, columns = _schema(os.path.join(home, SCHEMA))
    manifest: Manifest = Manifest(_read(file, types, OUTPUT_COLUMNS, columns))
    manifest.failed = _failed(os.path.join(home, ERRORS), columns)
    manifest.summary = summary
    if os.path.isdir(os.path.expanduser(path)) or os.path.exists(os.path.join(home, OWN_FOLDER)):
        # pandas passes it on to what is selected
        manifest.attrs[FOLDER] = os.path.abspath(home)
    return manifest


def no_manifest(summary: "Summary") -> Manifest:
    """Of a part: the manifest comes when all parts are done."""
    manifest: Manifest = Manifest()
    manifest.failed = pd.DataFrame()
    manifest.summary = summary
    return manifest


def _place(path: str | os.PathLike[str]) -> tuple[str, str]:
    """The manifest, and the folder that it is in."""
    try:
        text = os.path.expanduser(os.fsdecode(path))
    except TypeError:
        kind = type(path).__name__
        raise Refused(
            f"read_manifest: {path!r:.100} is a {kind}; give the path of an output folder"
        ) from None
    if is_url(text) or "\0" in text:
        reason = CANNOT_READ_URLS if is_url(text) else "cannot be a file"
        raise Refused(f"read_manifest: {text!r} {reason}; give the path of an output folder")
    file = os.path.join(text, MANIFEST) if os.path.isdir(text) else text
    return file, os.path.dirname(file)


def _schema(path: str) -> tuple[dict[str, str], list[str]]:
    """The types of metadata, and the columns of the dataset."""
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
            return {**content["types"], "size": "int"}, content["columns"]
    except (FileNotFoundError, NotADirectoryError):
        # a manifest that was copied away from its folder: all text, but for what is always a number
        return {"size": "int"}, []
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Refused(f"{path}: cannot be read ({error}); run again with the same output folder") from None


def _failed(path: str, columns: Sequence[str]) -> pd.DataFrame:
    there = os.path.exists(path)
    return _read(path, {"attempts": "int"}, ERROR_COLUMNS, columns) if there else pd.DataFrame()


def _read(path: str, types: Mapping[str, str], needed: Sequence[str], columns: Sequence[str]) -> pd.DataFrame:
    """A table of splitter's own, which somebody may have edited, cut short, or put another in its place."""
    rows: list[Row] = []
    try:
        with open(path, newline="", encoding=ENCODING, errors=ESCAPE) as file:
            reader = csv.reader(file, strict=True)
            header = next(reader, [])
            if header and header[0] not in columns:
                # spreadsheets mark a file as UTF-8
                header[0] = header[0].removeprefix("\ufeff")
            _check_header(path, header, needed)
            for row in reader:
                if len(row) == len(header):
                    rows.append(row)
                elif row:
                    widths = f"{len(row)} columns where the first line has {len(header)}"
                    raise Refused(f"{path}: line {reader.line_num} has {widths}; {_AGAIN}")
    except FileNotFoundError:
        raise Refused(f"{path}: there is no manifest; give the output folder of a finished run") from None
    except OSError as error:
        raise Refused(f"{path}: cannot be read: {error.strerror}") from None
    except csv.Error as error:
        raise Refused(f"{path}: line {reader.line_num} is not CSV ({error}); {_AGAIN}") from None
    values = zip(*rows, strict=True) if rows else [()] * len(header)
    frame: pd.DataFrame = pd.DataFrame(
        {
            name: _column(texts, types.get(name, "str"), f"{path}: column {name!r}")
            for name, texts in zip(header, values, strict=True)
        }
    )
    return frame


_AGAIN = "run again with the same output folder to have it made anew"


def _check_header(path: str, header: Row, needed: Sequence[str]) -> None:
    if not header:
        raise Refused(f"{path}: is empty; {_AGAIN}")
    missing = [name for name in needed if name not in header]
    if missing:
        raise Refused(
            f"{path}: has no column {missing[0]!r}, so it is not of splitter; give the output folder of a run"
        )
    for name in header:
        if header.count(name) > 1:
            raise Refused(f"{path}: has two columns {name!r}; {_AGAIN}")


def _column(texts: tuple[str, ...], kind: str, where: str) -> "pd.Series[Any]":
    convert, dtypes = _KINDS.get(kind, (str, ()))
    try:
        values = [None if not text and dtypes else convert(text) for text in texts]
    except ValueError:
        odd = next(text for text in texts if text and not _converts(convert, text))
        raise Refused(f"{where} has {odd[:100]!r} where {_WORDS[kind]} is due; {_AGAIN}") from None
    missing = None in values
    for dtype in dtypes[missing:] if dtypes else ("str",):
        try:
            return pd.Series(values, dtype=dtype)
        except (OverflowError, UnicodeEncodeError, TypeError):
            # a whole number beyond 64 bits, or a name that is not UTF-8: the values as they are
            continue
    return pd.Series(values, dtype=object)


def _converts(convert: Callable[[str], Any], text: str) -> bool:
    try:
        convert(text)
    except ValueError:
        return False
    return True


def _truth(text: str) -> bool:
    # spreadsheets write it in capitals
    if text.lower() not in ("true", "false"):
        raise ValueError(text)
    return text.lower() == "true"


_KINDS: dict[str, tuple[Callable[[str], Any], tuple[str, ...]]] = {
    "int": (int, ("int64", "Int64")),
    "float": (float, ("float64", "float64")),
    "bool": (_truth, ("bool", "boolean")),
}
_WORDS = {"int": "a whole number", "float": "a number", "bool": "True or False"}
