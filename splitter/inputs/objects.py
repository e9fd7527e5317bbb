"""Inputs that Python gives: lists of paths or rows, DataFrames, datasets."""

import os
from collections.abc import Iterator, Mapping
from typing import Any

from splitter.errors import Refused
from splitter.inputs.item_content import LABEL
from splitter.inputs.items import is_dataset, rows_of_items, rows_of_paths
from splitter.inputs.listing import InputList
from splitter.inputs.lists import column_advice, names_shown
from splitter.inputs.source import InputSource, ListReading, SourceRows
from splitter.text.csv import Row, python_text


class ObjectSource(InputSource):
    """What Python code gives: a list of paths or rows, a DataFrame, a dataset of paths."""

    takes = frozenset({"root"})

    def is_meant(self, location: Any, listing: InputList) -> bool:  # noqa: ANN401, ARG002 - as the seam
        return not isinstance(location, str)

    def read(self, location: Any, listing: InputList, reading: ListReading) -> SourceRows:  # noqa: ANN401
        if is_dataset(location):
            found = rows_of_paths(location, listing.column) or rows_of_items(
                location, listing.column, reading
            )
            if found:
                return SourceRows(*found, os.getcwd())
        return SourceRows(*read_object(location, listing.column), os.getcwd())


def read_object(source: Any, column: str) -> tuple[Row, Iterator[Row]]:  # noqa: ANN401 - what a user has
    """Return the columns and rows of what Python code gave as inputs."""
    rows: Iterator[Row]
    if hasattr(source, "itertuples"):
        header = [str(name) for name in source.columns]
        cells = source.astype(object).where(source.notna(), None)
        rows = ([python_text(value) for value in row] for row in cells.itertuples(index=False, name=None))
    else:
        sequence = hasattr(source, "__len__") and hasattr(source, "__getitem__")
        if not sequence or isinstance(source, Mapping):
            kind = type(source).__name__
            raise Refused(
                f"inputs is of type {kind}; pass a file, a folder, a list, a DataFrame or a dataset of paths"
            )
        # a torch dataset need not say where it ends, and a pandas Series may count from anywhere
        values = list(source) if hasattr(source, "__iter__") else [source[at] for at in range(len(source))]
        header, rows = _rows_of_values(values, column)
    if column not in header:
        raise Refused(
            f"inputs: has no column {column!r}; it has {names_shown(header)}; {column_advice(header)}"
        )
    return header, rows


def _rows_of_values(values: list[Any], column: str) -> tuple[Row, Iterator[Row]]:
    if any(isinstance(value, Mapping) for value in values):
        for value in values:
            if not isinstance(value, Mapping):
                raise Refused(f"inputs: {value!r} is among dicts; pass either paths or rows")
        # of a DataFrame they may be numbers; 1 and '1' are two columns of one name, and refused as such
        names = [*dict.fromkeys(name for value in values for name in value)] or [column]
        return [*map(str, names)], ([python_text(value.get(name)) for name in names] for value in values)
    if values and all(map(_is_pair, values)):
        if column == LABEL:
            raise Refused(
                f"inputs: pairs of a path and a label have the columns {LABEL!r} and that of the paths"
            )
        return [column, LABEL], ([os.fspath(path), python_text(label)] for path, label in values)
    for value in values:
        if not isinstance(value, (str, os.PathLike)):
            raise Refused(
                f"inputs: {value!r} is of type {type(value).__name__}; pass paths, or dicts as "
                "rows, or pairs of a path and a label"
            )
    return [column], ([os.fspath(value)] for value in values)


def _is_pair(value: Any) -> bool:  # noqa: ANN401 - what a user has
    two = isinstance(value, (tuple, list)) and len(value) == 2  # noqa: PLR2004
    return two and isinstance(value[0], (str, os.PathLike))
