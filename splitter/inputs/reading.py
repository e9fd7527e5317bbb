"""Sources of inputs -> one header, and the rows below it."""

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from splitter.errors import Refused, UnknownColumn
from splitter.inputs.labels import LabelTable, RowTally, columns_to_join_by
from splitter.inputs.listing import InputList, ListSequence
from splitter.inputs.lists import names_shown, read_list, refuse_twins
from splitter.inputs.manifests import OUTPUT, columns_to_join
from splitter.inputs.objects import read_object
from splitter.inputs.roots import absolute_path, common_root, path_mover, root_below
from splitter.inputs.source import ListReading
from splitter.inputs.sources import rows_of
from splitter.text.conditions import Condition, condition
from splitter.text.csv import Row
from splitter.text.labels import EARLIER
from splitter.text.urls import without_secrets


@dataclass
class ListSource:
    """A source whose rows can be read, with the columns and the root that the user asks for.

    Attributes:
        header: The names of the columns.
        rows: The rows, which can be read once.
        root: The folder or URL that relative paths start from.
        column: The column that holds the paths.
        reading: What is learned while the rows are read.
        size_column: As in `SourceRows`.
    """

    header: Row
    rows: Iterable[Row]
    root: str
    column: str
    reading: ListReading
    size_column: str | None = None


def read_source(listing: InputList, reading: ListReading | None = None, *, more: bool = False) -> ListSource:
    """Return the header and rows of a list; `more` means that labels will be joined to it later."""
    reading, has_labels = reading or ListReading(), listing.labels is not None
    if isinstance(listing.source, ListSequence):
        found = _read_several(listing, reading, more=more or has_labels)
    else:
        found = _read_one(listing, reading)
    if has_labels:
        _join(found, listing)
    for old in () if more else reading.unnamed:
        there = names_shown(found.header)
        raise UnknownColumn(f"--rename {old}=…: the dataset list has no column {old!r}; it has {there}")
    if listing.where is not None:
        matches = _condition_on(found.header, listing.where)
        found.rows = _matching(found.rows, matches, reading.tally)
    return found


def _condition_on(header: Row, where: str) -> Condition:
    """Return the condition of --where; if it uses names that only --column output gives, say so."""
    try:
        return condition(where, header)
    except Refused as error:
        # with --column output, that column is called input
        if OUTPUT not in header or EARLIER not in where:
            raise
        raise Refused(f"{error}; names with {EARLIER} need --column {OUTPUT}") from None


def _join(found: ListSource, listing: InputList) -> None:
    own, other = columns_to_join_by(listing.on, found.column)
    if own not in found.header:
        raise UnknownColumn(
            f"--on {own}: the dataset list has no column {own!r}; it has {names_shown(found.header)}"
        )
    if isinstance(listing.labels, (str, bytes, os.PathLike)):
        name = os.fsdecode(listing.labels)
        path = absolute_path(name, "--labels")
        header, rows, _, _ = read_list(path, None, found.reading.held)
        name = without_secrets(name)
        refuse_twins(header, name)
        chosen = columns_to_join(path, header, other, found.header, found.reading.unnamed)
        if chosen != header:
            at = [header.index(column) for column in chosen]
            header, rows = chosen, ([row[column] for column in at] for row in rows)
    else:
        name = "labels"
        header, rows = read_object(listing.labels, other)
        refuse_twins(header, name)
    labels = LabelTable(name, header, rows, other)
    header = [found.reading.unnamed.pop(column, column) for column in labels.header]
    refuse_twins(header, name)
    taken = [column for column in header if column in found.header]
    if taken:
        raise Refused(
            f"{name}: has a column {taken[0]!r}, as does the dataset list; use --rename {taken[0]}=NEW"
        )
    found.rows = labels.joined(found.header, found.rows, own, found.column, found.reading.tally)
    found.header = found.header + header


def _matching(rows: Iterable[Row], matches: Callable[[Row], bool], tally: RowTally) -> Iterator[Row]:
    for row in rows:
        if matches(row):
            yield row
        else:
            tally.left_out += 1


def refuse_no_match(condition: str | None, left_out: int) -> None:
    """Refuse a condition that matches no row, unless there was no row to match."""
    if left_out:
        rows = "the only row does not match" if left_out == 1 else f"none of {left_out:,} rows matches"
        raise Refused(f"--where {condition!r}: {rows}; fix the condition")


# -- several sources --------------------------------------------------------------------------------------


def _read_several(listing: InputList, reading: ListReading, *, more: bool) -> ListSource:
    """Read lists one after the other; make relative paths relative to the root that all have in common."""
    found = [read_source(part, reading, more=more) for part in listing.source.parts]
    column = found[0].column
    for part in found:
        if part.column != column:
            part.header = [column if name == part.column else name for name in part.header]
            refuse_twins(part.header)
    header = list(dict.fromkeys(name for part in found for name in part.header))
    root = common_root([part.root for part in found])
    return ListSource(header, _one_after_the_other(found, header, column, root), root, column, reading)


def _one_after_the_other(found: list[ListSource], header: Row, column: str, root: str) -> Iterator[Row]:
    for part in found:
        positions = [header.index(name) for name in part.header]
        at, move = header.index(column), path_mover(part.root, root)
        for row in part.rows:
            full = [""] * len(header)
            for position, value in zip(positions, row, strict=True):
                full[position] = value
            full[at] = move(full[at])
            yield full


# -- one source -------------------------------------------------------------------------------------------


def _read_one(listing: InputList, reading: ListReading) -> ListSource:
    found = rows_of(listing, reading)
    if found.rename is not None:
        listing = replace(listing, rename=found.rename)
    root = root_below(found.home, os.fspath(listing.root or ""))
    header, column = _renamed(found.header, listing, reading), found.column or listing.path_column
    return ListSource(header, found.rows, root, column, reading, found.size_column)


def _renamed(header: Row, listing: InputList, reading: ListReading) -> Row:
    names = listing.rename or {}
    reading.unnamed |= {old: new for old, new in names.items() if old not in header}
    header = [names.get(name, name) for name in header]
    refuse_twins(header)
    return header
