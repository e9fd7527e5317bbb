"""The manifest as a pandas DataFrame."""

import csv
import json
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pandas as pd

from splitter.errors import Refused
from splitter.inputs import ENCODING, ESCAPE
from splitter.manifest import ERRORS, MANIFEST, SCHEMA

if TYPE_CHECKING:
    from splitter.engine import Summary


class Manifest(pd.DataFrame):
    """The rows of manifest.csv; what is selected from it is an ordinary DataFrame.

    Attributes:
        failed: The rows of errors.csv.
        summary: The numbers of the run, when it comes from one.
    """

    _metadata = ("failed", "summary")
    failed: pd.DataFrame
    summary: "Summary | None"


def read_manifest(path: str | os.PathLike[str], *, summary: "Summary | None" = None) -> Manifest:
    """Read the manifest of an output folder, or a manifest.csv.

    Dataset columns are text, exactly as they were in the list. Metadata has the types it was made with.
    """
    path = os.fspath(path)
    file = os.path.join(path, MANIFEST) if os.path.isdir(path) else path
    home = os.path.dirname(file)
    manifest: Manifest = Manifest(_read(file, _types(os.path.join(home, SCHEMA))))
    manifest.failed = _failed(os.path.join(home, ERRORS))
    manifest.summary = summary
    return manifest


def _types(schema: str) -> dict[str, str]:
    try:
        with open(schema, encoding="utf-8") as file:
            types: dict[str, str] = json.load(file)["types"]
    except FileNotFoundError:
        # a manifest that was copied away from its folder: all text, but for what is always a number
        types = {}
    return {**types, "size": "int"}


def _failed(path: str) -> pd.DataFrame:
    return _read(path, {"attempts": "int"}) if os.path.exists(path) else pd.DataFrame()


def _read(path: str, types: dict[str, str]) -> pd.DataFrame:
    try:
        with open(path, newline="", encoding=ENCODING, errors=ESCAPE) as file:
            rows = csv.reader(file)
            header = next(rows)
            columns = list(zip(*rows, strict=True)) or [()] * len(header)
    except FileNotFoundError:
        raise Refused(f"{path}: there is no manifest; give the output folder of a finished run") from None
    frame: pd.DataFrame = pd.DataFrame(
        {name: _column(values, types.get(name, "str")) for name, values in zip(header, columns, strict=True)}
    )
    return frame


def _column(texts: tuple[str, ...], kind: str) -> "pd.Series[Any]":
    convert, dtypes = _KINDS.get(kind, (str, ()))
    values = [None if not text and dtypes else convert(text) for text in texts]
    missing = None in values
    for dtype in dtypes[missing:] if dtypes else ("str",):
        try:
            return pd.Series(values, dtype=dtype)
        except (OverflowError, UnicodeEncodeError, TypeError):
            # a whole number beyond 64 bits, or a name that is not UTF-8: the values as they are
            continue
    return pd.Series(values, dtype=object)


_KINDS: dict[str, tuple[Callable[[str], Any], tuple[str, ...]]] = {
    "int": (int, ("int64", "Int64")),
    "float": (float, ("float64", "float64")),
    "bool": (lambda text: text == "True", ("bool", "boolean")),
}
