"""The manifest as a pandas DataFrame."""

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd

from splitter.errors import Refused
from splitter.ledger.keeping import KEPT, is_left_out_in
from splitter.ledger.manifest import ERRORS, MANIFEST
from splitter.ledger.records import ERROR_COLUMNS, OUTPUT_COLUMNS
from splitter.ledger.splits import BARE
from splitter.outputs.files import Files
from splitter.outputs.reader import FOLDER
from splitter.outputs.tables import AGAIN, keep_column, location_of, open_table, schema_of
from splitter.text.csv import Row, in_unicode

if TYPE_CHECKING:
    from splitter.engine.summary import Summary


class Manifest(pd.DataFrame):
    """The rows of manifest.csv; selections from it are ordinary DataFrames.

    Attributes:
        failed: The rows of errors.csv.
        summary: The numbers of the run, if a run has just made the manifest.
    """

    # a list, because otherwise it cannot be unpickled
    _metadata: ClassVar[list[str]] = ["failed", "summary"]
    failed: pd.DataFrame
    summary: "Summary | None"


def read_manifest(path: str | os.PathLike[str], *, summary: "Summary | None" = None) -> Manifest:
    """Read the manifest of an output folder, or a manifest.csv.

    Dataset columns are text, exactly as in the list. Metadata keeps its types.
    The rows know the folder of their output files.
    """
    location = location_of(path, "read_manifest")
    types, columns = schema_of(location.files)
    frame = _read(location.files, location.name, types, OUTPUT_COLUMNS, columns)
    manifest: Manifest = Manifest(frame)
    # pandas passes these attributes on to selections
    manifest.attrs |= frame.attrs
    manifest.failed = (
        _read(location.files, ERRORS, _ERROR_TYPES, ERROR_COLUMNS, columns)
        if location.files.exists(ERRORS)
        else _no_failures(columns)
    )
    manifest.summary = summary
    if keep_column(location.files, list(manifest.columns)) is not None:
        manifest.attrs[KEPT] = True
    if location.is_home:
        manifest.attrs[FOLDER] = location.files.folder
    return manifest


def without_left_out(manifest: Manifest, column: str) -> Manifest:
    """Return the manifest without the outputs that `--keep` has left out; each input keeps a row."""
    left_out = is_left_out_in(manifest) & (manifest["output"].to_numpy(object) != "")
    if not left_out.any():
        return manifest
    inputs = manifest[column] if column in manifest.columns else manifest.iloc[:, 0]
    first = ~inputs.duplicated() & ~inputs.isin(inputs[~left_out])
    blank = {
        "output": manifest["output"].mask(left_out, ""),
        "size": manifest["size"].astype("Int64").mask(left_out),
    }
    rows = manifest.assign(**blank)[~left_out | first.to_numpy(bool)]
    found: Manifest = Manifest(rows.reset_index(drop=True))
    found.attrs |= manifest.attrs
    found.failed, found.summary = manifest.failed, manifest.summary
    return found


def no_manifest(summary: "Summary") -> Manifest:
    """Return an empty manifest for a part of a run; the manifest is written when all parts are done."""
    manifest: Manifest = Manifest(_frame(MANIFEST, [*OUTPUT_COLUMNS], [], {"size": "int"}))
    manifest.failed = _no_failures([])
    manifest.summary = summary
    return manifest


def _no_failures(columns: Sequence[str]) -> pd.DataFrame:
    """Return errors.csv without any rows."""
    return _frame(ERRORS, [*columns, *ERROR_COLUMNS], [], _ERROR_TYPES)


def _read(
    files: Files, name: str, types: Mapping[str, str], needed: Sequence[str], columns: Sequence[str]
) -> pd.DataFrame:
    header, rows = open_table(files, name, needed, columns)
    return _frame(files.location(name), header, [*rows], types)


def _frame(path: str, header: Row, rows: Sequence[Row], types: Mapping[str, str]) -> pd.DataFrame:
    values = [*zip(*rows, strict=True)] if rows else [()] * len(header)
    frame: pd.DataFrame = pd.DataFrame(
        {
            number: _column(texts, types.get(name, "str"), f"{path}: column {name!r}")
            for number, (name, texts) in enumerate(zip(header, values, strict=True))
        }
    )
    unicode = all(name == in_unicode(name) for name in header)
    # pandas does not accept text that is not UTF-8
    frame.columns = pd.Index(header, dtype=None if unicode else object)
    mixed = {
        name: _all_bare(texts, bare)
        for name, texts in zip(header, values, strict=True)
        if types.get(name) == "float"
        and (bare := {text for text in texts if text.removeprefix("-").isdigit()})
    }
    if mixed:
        frame.attrs[BARE] = mixed
    return frame


def _all_bare(texts: Iterable[str], bare: Collection[str]) -> bool:
    """Return whether every whole number in a float column has no point, and survives a round trip."""
    others = (float(text) for text in texts if text and text not in bare)
    return all(f"{float(text):.0f}" == text for text in bare) and not any(map(float.is_integer, others))


def _column(texts: tuple[str, ...], kind: str, where: str) -> "pd.Series[Any]":
    convert, dtypes = _KINDS.get(kind, (str, ()))
    try:
        values = [None if not text and dtypes else convert(text) for text in texts]
    except ValueError:
        odd = next(text for text in texts if text and not _converts(convert, text))
        raise Refused(f"{where} has {odd[:100]!r} where {_WORDS[kind]} is expected; {AGAIN}") from None
    missing = None in values
    for dtype in dtypes[missing:] if dtypes else ("str",):
        try:
            # pandas tries floats first, and warns about values that they cannot hold
            with np.errstate(invalid="ignore"):
                return pd.Series(values, dtype=dtype)
        except (OverflowError, UnicodeEncodeError, TypeError):
            # an integer beyond 64 bits, or a name that is not UTF-8: keep the values as they are
            continue
    return pd.Series(values, dtype=object)


def _converts(convert: Callable[[str], Any], text: str) -> bool:
    try:
        convert(text)
    except ValueError:
        return False
    return True


def _truth(text: str) -> bool:
    # spreadsheets write TRUE and FALSE
    if text.lower() not in ("true", "false"):
        raise ValueError(text)
    return text.lower() == "true"


_KINDS: dict[str, tuple[Callable[[str], Any], tuple[str, ...]]] = {
    "int": (int, ("int64", "Int64")),
    "float": (float, ("float64", "float64")),
    "bool": (_truth, ("bool", "boolean")),
}
_ERROR_TYPES = {"attempts": "int"}
_WORDS = {"int": "a whole number", "float": "a number", "bool": "True or False"}
