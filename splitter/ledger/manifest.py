"""The journal -> manifest.csv, errors.csv."""

import functools
import json
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from splitter.errors import StorageError
from splitter.ledger.journal import Journal
from splitter.ledger.records import (
    DONE,
    ERROR_COLUMNS,
    FAILED,
    OUTPUT_COLUMNS,
    SKIPPED,
    SKIPPED_COLUMN,
    RowColumns,
)
from splitter.ledger.splits import COLUMN, SplitRule
from splitter.ledger.status import InputStatus
from splitter.storage.layout import OWN_FOLDER
from splitter.text.csv import CsvText, Row, parse_rows

SCHEMA = f"{OWN_FOLDER}/schema.json"
MANIFEST = "manifest.csv"
ERRORS = "errors.csv"


class ManifestTables:
    """The tables of what inputs have come to; those that are stale, or not done, stand in none."""

    def __init__(self, journal: Journal, input_status: InputStatus, columns: Sequence[str]) -> None:
        """Take how the inputs stand, and the list's columns."""
        self._journal, self._storage = journal, journal.storage
        self._columns = tuple(columns)
        self._made = input_status.entries_with(DONE, SKIPPED)
        self._failed = input_status.entries_with(FAILED)
        self._union = _union(self._columns, journal.heads_in_order(self._made))

    def write(self) -> None:
        """Write manifest.csv, and errors.csv if there is to be one."""
        storage = self._storage
        storage.confirm()
        content = self.schema()
        if not storage.exists(SCHEMA) or storage.read(SCHEMA) != content:
            # with these types the manifest of the run before could not be read
            storage.remove([MANIFEST])
            storage.sync([MANIFEST])
            storage.write(SCHEMA, content)
        with storage.replacing(MANIFEST) as file:
            file.writelines(self.rows())
        if not len(self._failed):
            if storage.exists(ERRORS):
                storage.remove([ERRORS])
                storage.sync([ERRORS])
            return
        with storage.replacing(ERRORS) as file:
            file.writelines(self.errors())

    def advice(self) -> str:
        """What to do about a column `split` that is empty in every row; nothing if it is not."""
        rule = SplitRule.stored(self._storage)
        if rule is None or not len(self._made) or rule.by in self._union.names:
            return ""
        split = f"splitter split {self._storage.root}"
        return (
            f"the column {COLUMN!r} is empty in every row: it goes by {rule.by!r}, and the manifest has no "
            f"such column any more; divide again, by another (as in {split} --by COLUMN), or run: {split} "
            "--remove"
        )

    def schema(self) -> bytes:
        """What is kept of the manifest's columns and their types."""
        types = dict((*self._union.outputs, *self._union.inputs))
        return json.dumps({"columns": self._columns, "types": types}).encode()

    def rows(self) -> Iterator[bytes]:
        """manifest.csv in pieces of whole rows: of the inputs that are done."""
        union = self._union
        positions = [_positions_in_union(head, union) for head in self._journal.heads]
        rule = SplitRule.stored(self._storage)
        split_of = None if rule is None else _split_of(rule, union.names, self._storage.root)
        return _table(union.names, self._journal.pieces(self._made), positions, split_of)

    def errors(self) -> Iterator[bytes]:
        """errors.csv, likewise: of the inputs that failed."""
        names = [*self._columns, *ERROR_COLUMNS]
        positions = [_positions(names, [*head.columns, *ERROR_COLUMNS]) for head in self._journal.heads]
        return _table(names, self._journal.pieces(self._failed), positions)


def columns_of(journal: Journal, entries: np.ndarray, columns: Sequence[str]) -> Row:
    """The columns that the manifest of some entries has, whatever became of them."""
    return _union(tuple(columns), journal.heads_in_order(entries)).names


def _union(columns: tuple[str, ...], heads: Iterable[RowColumns]) -> RowColumns:
    """The columns of all heads, each where it is first seen; but none that hides one of the dataset's."""
    outputs: dict[str, str] = {}
    inputs: dict[str, str] = {}
    for head in heads:
        for first, second, types in ((outputs, inputs, head.outputs), (inputs, outputs, head.inputs)):
            for key, kind in types:
                if key not in columns:
                    target = second if key in second else first
                    target[key] = merged_type(target.get(key, ""), kind)
    if SKIPPED_COLUMN in inputs:
        inputs[SKIPPED_COLUMN] = inputs.pop(SKIPPED_COLUMN)
    return RowColumns(columns, tuple(outputs.items()), tuple(inputs.items()))


def merged_type(one: str, other: str) -> str:
    """The type that holds values of both: int and float are float, all else that differs is text."""
    if one == other or not other:
        return one
    if not one:
        return other
    return "float" if {one, other} == {"int", "float"} else "str"


ColumnPositions = list[int | None]


def _positions_in_union(head: RowColumns, union: RowColumns) -> ColumnPositions:
    """Where the columns of the union are in the rows of a head; a key is never taken for a dataset column."""
    outputs_at = len(head.columns)
    keys_at = outputs_at + len(OUTPUT_COLUMNS)
    columns, keys = _positions(union.columns, head.columns), _positions(union.keys, head.keys, keys_at)
    return [*columns, *range(outputs_at, keys_at), *keys]


def _positions(names: Iterable[str], there: Iterable[str], start: int = 0) -> ColumnPositions:
    positions = {name: at for at, name in enumerate(there, start)}
    return [positions.get(name) for name in names]


def _split_of(rule: SplitRule, header: Row, root: str) -> Callable[[Row], str]:
    """What the column `split` has in a row."""
    if COLUMN in header:
        raise StorageError(
            f"{root}: the metadata has a key {COLUMN!r}, which is a column of 'splitter split'; rename the "
            f"key, or run: splitter split {root} --remove"
        )
    if rule.by not in header:
        # of no row is the group known, as `advice` says
        return lambda _: ""
    at = header.index(rule.by)
    known = functools.lru_cache(1 << 16)(rule.of)
    return lambda row: known(row[at])


def _table(
    header: Row,
    pieces: Iterator[tuple[int, bytes]],
    positions_of: list[ColumnPositions],
    split_of: Callable[[Row], str] | None = None,
) -> Iterator[bytes]:
    """A table from pieces whose columns may be fewer or in another order."""
    csv_text = CsvText()
    if split_of is not None:
        yield csv_text.encode([[*header, COLUMN]])
        for number, piece in pieces:
            positions = positions_of[number]
            rows = [["" if at is None else row[at] for at in positions] for row in parse_rows(piece)]
            yield csv_text.encode([[*row, split_of(row)] for row in rows])
        return
    yield csv_text.encode([header])
    as_they_are = [*range(len(header))]
    for number, piece in pieces:
        positions = positions_of[number]
        if positions == as_they_are:
            yield piece
            continue
        rows = [["" if at is None else row[at] for at in positions] for row in parse_rows(piece)]
        yield csv_text.encode(rows)
