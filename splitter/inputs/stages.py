"""The outputs of a stage as the inputs of the next one in a pipeline, straight from its commit records.

records of "cut"                label  input       output  size       checksum       part
dataset list of the next stage  label  from_input  input   from_size  from_checksum  from_part

A stage that adds columns makes no files: it passes on its own inputs, with its metadata as more columns.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from splitter.errors import Refused
from splitter.inputs.listing import InputList
from splitter.inputs.manifests import INPUT, OUTPUT, names_after_columns, names_in_next_stage
from splitter.inputs.shards.scan import add_members
from splitter.inputs.source import InputSource, ListReading, SourceRows
from splitter.ledger.journal import Journal
from splitter.ledger.keeping import KeepRule
from splitter.ledger.list_copy import list_description, list_is_whole, stored_list
from splitter.ledger.manifest import in_columns, positions_in_union, rows_of, union_of
from splitter.ledger.records import DONE, RowColumns
from splitter.ledger.shard_ranges import Descent
from splitter.ledger.status import InputStatus
from splitter.storage.base import Storage
from splitter.storage.layout import Layout, key_hash
from splitter.storage.opening import storage_of
from splitter.stores.files import Found
from splitter.text.csv import Row, parse_rows


@dataclass(frozen=True)
class Committed:
    """Some inputs of a stage that are done.

    Attributes:
        parts: Journals, each with the entries of these inputs in it.
        union: All columns of their rows.
        descent: The inputs of the first stage that they are made of, if already known.
    """

    parts: tuple[tuple[Journal, np.ndarray], ...]
    union: RowColumns
    descent: Descent | None = None

    @classmethod
    def all_of(cls, storage: Storage) -> "Committed":
        """Return all inputs that are or will be in the manifest of a stage, in the order of its list."""
        listed, is_whole = list_description(storage), list_is_whole(storage)
        journal = Journal(storage)
        journal.load()
        if is_whole and not listed.is_part:
            columns, _, keys = stored_list(storage)
            entries = InputStatus.of(storage, journal, keys).entries_with(DONE)
            heads = journal.heads_in_order(entries)
        else:
            # the stage was killed: its stored list is only a part, or that of an earlier run
            entries = journal.done()
            heads = journal.heads_in_order(entries)
            columns = [listed.column, *(name for head in heads for name in head.columns)]
        return cls(((journal, entries),), union_of(tuple(dict.fromkeys(columns)), heads))

    def rows(self) -> Iterator[Row]:
        """Yield their rows of the manifest."""
        for journal, entries in self.parts:
            positions = [positions_in_union(head, self.union) for head in journal.heads]
            for head, record, piece in journal.pieces(entries):
                yield from rows_of(journal, record, piece, positions[head])

    def with_later(self, other: "Committed | None") -> "Committed":
        """Return these and the inputs committed later, whose columns include all earlier ones."""
        if other is None:
            return self
        again = np.concatenate([journal.entries["key"][entries] for journal, entries in other.parts])
        earlier = (
            (journal, entries[~np.isin(journal.entries["key"][entries], again)])
            for journal, entries in self.parts
        )
        return Committed((*earlier, *other.parts), other.union, other.descent)


@dataclass(frozen=True)
class AboutToBeCommitted:
    """Inputs of a stage that a worker has done but not committed yet.

    Attributes:
        columns: The columns of their list.
        texts: The columns of each input, and its rows as CSV text.
    """

    columns: tuple[str, ...]
    texts: tuple[tuple[RowColumns, bytes], ...]

    @property
    def union(self) -> RowColumns:
        """All columns of their rows."""
        return union_of(self.columns, dict.fromkeys(head for head, _ in self.texts))

    def rows(self) -> Iterator[Row]:
        """Yield their rows of the manifest."""
        union = self.union
        for head, text in self.texts:
            yield from in_columns(parse_rows(text), positions_in_union(head, union))


@dataclass(frozen=True, eq=False)
class StageOutputs:
    """The committed outputs of a stage, as inputs.

    Attributes:
        name: The name of the stage.
        folder: Its output folder.
        adds_columns: Whether the stage passes on its own inputs, with its metadata as more columns.
        committed: The part of the outputs to take; None for everything committed when they are read.
        before: The outputs that the stage takes; None if it takes a list.
    """

    name: str
    folder: str
    adds_columns: bool = False
    committed: Committed | AboutToBeCommitted | None = None
    before: "StageOutputs | None" = None

    @property
    def without_files(self) -> str:
        """Advice if the stage has done inputs, but made no files for another stage; else empty."""
        journal = Journal(storage_of(self.folder))
        journal.load()
        done = journal.done()
        if self.adds_columns or not len(done) or journal.entries["outputs"][done].any():
            return ""
        return (
            f"{self.name} has made no files to work on; if it makes metadata only, describe the stages in a "
            'file, with adds = "columns" for that one'
        )

    def where(self, condition: str) -> InputList:
        """Return the outputs that meet a condition, such as `quality > 0.6`."""
        return InputList(self, where=condition)

    def made_of(self, journal: Journal, entries: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the keys that some entries give the next stage, and for each the index of its entry."""
        if self.adds_columns:
            return journal.entries["key"][entries], np.arange(len(entries))
        layout, keys, indices = Layout(storage_of(self.folder).root), list[int](), list[int]()
        for index, (head, rows) in enumerate(journal.rows_of_each(entries)):
            at = len(head.columns)
            made = [key_hash(layout.key(row[at])) for row in rows if row[at]]
            keys += made
            indices += [index] * len(made)
        return np.array(keys, "u8"), np.array(indices, "i8")

    def descent(self) -> Descent:
        """Return which inputs of the first stage the outputs are made of."""
        if isinstance(self.committed, Committed) and self.committed.descent:
            return self.committed.descent
        line = [self]
        while line[0].before:
            line.insert(0, line[0].before)
        storage = storage_of(line[0].folder)
        _, _, first = stored_list(storage)
        keys, ancestors = first, np.arange(len(first))
        for stage in line:
            journal = Journal(storage_of(stage.folder))
            journal.load()
            entries = journal.find(keys)
            done = journal.status(entries) == DONE
            keys, indices = stage.made_of(journal, entries[done])
            ancestors = ancestors[done][indices]
        return Descent(first, list_description(storage).total_bytes, keys, ancestors)


class StageSource(InputSource):
    """An earlier stage of a pipeline."""

    def is_meant(self, location: Any, listing: InputList) -> bool:  # noqa: ANN401, ARG002 - as the seam
        return isinstance(location, StageOutputs)

    def read(self, location: StageOutputs, listing: InputList, reading: ListReading) -> SourceRows:
        """Return the rows that the stage has committed, and the new names of their columns."""
        storage = storage_of(location.folder)
        listed = list_description(storage)
        committed = location.committed or Committed.all_of(storage)
        union = committed.union
        header, rows = union.names, committed.rows()
        if keep := KeepRule.stored(storage):
            kept = keep.of(header, storage.root)
            rows = _counting_others(rows, kept, header.index(OUTPUT), reading)
        if location.adds_columns:
            rename = names_after_columns(header, listing.rename)
            stay = [at for at, name in enumerate(header) if name in rename]
            rows = _without_files(rows, header.index(OUTPUT), stay, location.name)
            header = [header[at] for at in stay]
            # of a stage that was killed before it committed anything, only the column of paths is known
            size_column = listed.size_column if listed.size_column in header else ""
            home, column = listed.root, listed.column
            at, layout = union.names.index(column), Layout(home)
            locations = (layout.location(row[at]) for row in committed.rows())
            add_members(locations, listed.member, reading.members)
        else:
            at = header.index(OUTPUT)
            rows = (row for row in rows if row[at])
            rename = names_in_next_stage(header, union.columns, listing.rename or {})
            home, column, size_column = storage.root, INPUT, rename["size"]
        if size_column:
            layout = Layout(home)
            new = [rename.get(name, name) for name in header]
            rows = _noted(rows, layout, new.index(column), new.index(size_column), reading)
        return SourceRows(header, rows, home, rename, column, size_column)


def _counting_others(
    rows: Iterable[Row], kept: Callable[[Row], str], output: int, reading: ListReading
) -> Iterator[Row]:
    """Yield the rows that --keep keeps, and count the files that it leaves out."""
    for row in rows:
        if kept(row) == "True":
            yield row
        elif row[output]:
            reading.tally.not_kept += 1


def _without_files(rows: Iterable[Row], output: int, stay: Sequence[int], name: str) -> Iterator[Row]:
    """Yield the columns `stay` of rows; refuse a row with a file, since the stage must not make any."""
    for row in rows:
        if row[output]:
            raise Refused(
                f"stage {name}: has made the file {row[output]}, but may only add columns; leave "
                "'adds' out, so that the next stage takes its files"
            )
        yield [row[at] for at in stay]


def _noted(rows: Iterable[Row], layout: Layout, at: int, size_at: int, reading: ListReading) -> Iterator[Row]:
    """Yield rows, noting the sizes of their files, so that nobody has to look at each file."""
    for row in rows:
        reading.known.add(layout.location(row[at]), stated(row[size_at]))
        yield row


def stated(size: str) -> Found:
    """Return the size that a row states, without a version: the checksum counts as a column."""
    return Found(int(size) if size.isdecimal() else 0, 0)
