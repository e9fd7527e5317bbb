"""The rows of manifest.csv and errors.csv, made from the journal."""

import csv
import functools
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from splitter.errors import StorageError
from splitter.ledger.journal import Journal
from splitter.ledger.keeping import COLUMN as KEPT
from splitter.ledger.keeping import KeepRule, KeepTally, is_left_out
from splitter.ledger.records import (
    DONE,
    ERROR_COLUMNS,
    FAILED,
    OUTPUT_COLUMNS,
    SKIPPED,
    SKIPPED_COLUMN,
    RowColumns,
)
from splitter.ledger.run_files import SCHEMA
from splitter.ledger.split_balance import FEW_GROUPS, GroupTally
from splitter.ledger.splits import COLUMN, OUTPUT, SplitRule
from splitter.ledger.status import InputStatus
from splitter.text.csv import CsvText, Row, parse_rows

MANIFEST = "manifest.csv"
ERRORS = "errors.csv"


class ManifestTables:
    """The rows of manifest.csv and errors.csv; inputs that are stale or not done are in neither.

    Attributes:
        keep_tally: With --keep, the count of what it keeps in the rows made so far.
    """

    def __init__(self, journal: Journal, input_status: InputStatus, columns: Sequence[str]) -> None:
        self._journal, self._storage = journal, journal.storage
        self._columns = tuple(columns)
        self.keep_tally: KeepTally | None = None
        self._made = input_status.entries_with(DONE, SKIPPED)
        self._failed = input_status.entries_with(FAILED)
        self._is_complete = input_status.is_complete
        self._union = union_of(self._columns, journal.heads_in_order(self._made))

    def write(self) -> None:
        """Write manifest.csv, and errors.csv if any input failed."""
        storage = self._storage
        storage.confirm()
        self._assign_new_groups()
        content = self.schema()
        if not storage.exists(SCHEMA.name) or storage.read(SCHEMA.name) != content:
            # the previous manifest could not be read with these types
            storage.remove([MANIFEST])
            storage.sync([MANIFEST])
            storage.write(SCHEMA.name, content)
        with storage.replacing(MANIFEST) as file:
            file.writelines(self.rows())
        if len(self._failed):
            with storage.replacing(ERRORS) as file:
                file.writelines(self.errors())
        elif storage.exists(ERRORS):
            storage.remove([ERRORS])
            storage.sync([ERRORS])

    def _assign_new_groups(self) -> None:
        """Assign the groups that are new since `splitter split` to splits, before the column is written.

        Once any group is assigned, do so only when all inputs are done: otherwise, the splits would depend
        on where a run was interrupted.
        """
        rule = SplitRule.stored(self._storage)
        if rule is None or not rule.is_open or rule.by not in self._union.names:
            return
        if self._is_complete or not rule.groups:
            extended = rule.extended(self._group_tally(rule))
            if extended is not rule:
                extended.keep(self._storage)

    def _group_tally(self, rule: SplitRule) -> GroupTally:
        """Count the rows and outputs of each group; stop when there are too many groups to balance."""
        tally, names = GroupTally(), self._union.names
        balance = rule.balance if rule.balance in names else None
        group, output, label = (names.index(name) for name in (rule.by, OUTPUT, balance or OUTPUT))
        keep = KeepRule.stored(self._storage)
        kept = keep.of(names, self._storage.root) if keep else None
        positions_of = [positions_in_union(head, self._union) for head in self._journal.heads]
        for head, record, piece in self._journal.pieces(self._made):
            for row in rows_of(self._journal, record, piece, positions_of[head]):
                # a group with nothing kept is assigned, too, so that another condition moves no group
                counts = not (kept and is_left_out(kept(row)))
                tally.add_row(row[group], row[output] if counts else "", balance, row[label])
            if len(tally.rows) > FEW_GROUPS:
                break
        return tally

    def advice(self) -> str:
        """Return what to do if the column `kept` or `split` is empty in every row; nothing if neither is."""
        if not len(self._made):
            return ""
        return "; ".join(filter(None, (self._advice_on_keep(), self._advice_on_split())))

    def _advice_on_keep(self) -> str:
        rule = KeepRule.stored(self._storage)
        missing = rule.missing(self._union.names) if rule else []
        if not missing:
            return ""
        return (
            f"the column {KEPT!r} is empty in every row: --keep names {missing[0]!r}, which the manifest "
            "does not have; run again with another --keep, or with an option that makes it, such as --measure"
        )

    def _advice_on_split(self) -> str:
        rule = SplitRule.stored(self._storage)
        if rule is None or rule.by in self._union.names:
            return ""
        split = f"splitter split {self._storage.root}"
        return (
            f"the column {COLUMN!r} is empty in every row: it depends on {rule.by!r}, which the "
            f"manifest no longer has; split again by another column (as in {split} --by COLUMN), or "
            f"run: {split} "
            "--remove"
        )

    def schema(self) -> bytes:
        """Return the content of schema.json: the manifest's columns and their types."""
        types = self._union.types
        schema: dict[str, Any] = {"columns": self._columns, "types": types}
        if KeepRule.stored(self._storage):
            schema["rule"], types[KEPT] = KEPT, "bool"
        return json.dumps(schema).encode()

    def rows(self) -> Iterator[bytes]:
        """Yield manifest.csv in pieces of whole rows."""
        union = self._union
        positions = [positions_in_union(head, union) for head in self._journal.heads]
        added: AddedColumns = {}
        if keep := KeepRule.stored(self._storage):
            self.keep_tally = None if keep.missing(union.names) else KeepTally()
            added[KEPT] = keep.of(union.names, self._storage.root, self.keep_tally)
        if rule := SplitRule.stored(self._storage):
            added[COLUMN] = _split_of(rule, union.names, self._storage.root, has_kept=bool(added))
        return _table(union.names, self._journal, self._made, positions, added)

    def errors(self) -> Iterator[bytes]:
        """Yield errors.csv in pieces of whole rows."""
        names = [*self._columns, *ERROR_COLUMNS]
        positions = [_positions(names, [*head.columns, *ERROR_COLUMNS]) for head in self._journal.heads]
        return _table(names, self._journal, self._failed, positions)


def columns_of(journal: Journal, entries: np.ndarray, columns: Sequence[str]) -> Row:
    """Return the columns of a manifest of some entries, whatever their status."""
    return union_of(tuple(columns), journal.heads_in_order(entries)).names


def union_of(columns: tuple[str, ...], heads: Iterable[RowColumns]) -> RowColumns:
    """Return the columns of all heads in the order first seen, except keys that hide a dataset column."""
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
    """Return the type that holds values of both: float for int and float, text for other pairs."""
    if one == other or not other:
        return one
    if not one:
        return other
    return "float" if {one, other} == {"int", "float"} else "str"


ColumnPositions = list[int | None]
# for each added column, in order, the function that makes its value from the row so far
AddedColumns = dict[str, Callable[[Row], str]]


def positions_in_union(head: RowColumns, union: RowColumns) -> ColumnPositions:
    """Return where the columns of the union are in the rows of a head; a key is never a dataset column."""
    outputs_at = len(head.columns)
    keys_at = outputs_at + len(OUTPUT_COLUMNS)
    columns, keys = _positions(union.columns, head.columns), _positions(union.keys, head.keys, keys_at)
    return [*columns, *range(outputs_at, keys_at), *keys]


def _positions(names: Iterable[str], there: Iterable[str], start: int = 0) -> ColumnPositions:
    positions = {name: at for at, name in enumerate(there, start)}
    return [positions.get(name) for name in names]


def _split_of(rule: SplitRule, header: Row, root: str, *, has_kept: bool) -> Callable[[Row], str]:
    """Return a function that gives `split` for a row; with `has_kept`, the row already ends in `kept`."""
    if COLUMN in header:
        raise StorageError(
            f"{root}: the metadata has a key {COLUMN!r}, which is a column of 'splitter split'; rename the "
            f"key, or run: splitter split {root} --remove"
        )
    if rule.by not in header:
        # no row has a group; `advice` tells the user
        return lambda _: ""
    at = header.index(rule.by)
    cached = functools.lru_cache(1 << 16)(rule.of)
    if not has_kept:
        return lambda row: cached(row[at])
    return lambda row: "" if is_left_out(row[len(header)]) else cached(row[at])


def _table(
    header: Row,
    journal: Journal,
    entries: np.ndarray,
    positions_of: list[ColumnPositions],
    added: AddedColumns | None = None,
) -> Iterator[bytes]:
    """Yield a table of entries, whose own columns may be fewer or in another order."""
    csv_text = CsvText()
    added = added or {}
    yield csv_text.encode([[*header, *added]])
    as_they_are = [*range(len(header))]
    for head, record, piece in journal.pieces(entries):
        positions = positions_of[head]
        if not added and positions == as_they_are:
            yield piece
            continue
        rows = rows_of(journal, record, piece, positions)
        for value_of in added.values():
            for row in rows:
                row.append(value_of(row))
        yield csv_text.encode(rows)


def in_columns(rows: Iterable[Row], positions: Sequence[int | None]) -> list[Row]:
    """Return rows rearranged to the given positions; None stands for an empty value."""
    return [["" if at is None else row[at] for at in positions] for row in rows]


def rows_of(journal: Journal, record: int, piece: bytes, positions: Sequence[int | None]) -> list[Row]:
    """Return some columns of the rows in a piece of a record; None stands for an empty value."""
    try:
        return in_columns(parse_rows(piece), positions)
    except (IndexError, csv.Error):
        raise journal.damaged(record, "its rows are wrong") from None
