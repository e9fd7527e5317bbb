"""The journal: all commit records of an output folder, and what they say about each input."""

import csv
import io
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import replace
from itertools import chain
from typing import IO

import numpy as np
import xxhash

from splitter.errors import SplitterError
from splitter.ledger.protocol import BEGUN, CommitProtocol, generation_of
from splitter.ledger.records import (
    DONE,
    ENTRY,
    ERROR_COLUMNS,
    FAILED,
    NOT_DONE,
    SIZE_AT,
    Record,
    RowColumns,
    ShardSums,
    first_line,
)
from splitter.ledger.run_files import RECORD
from splitter.sorted_arrays import index_in_sorted
from splitter.storage.base import Storage
from splitter.storage.layout import RECORDS, file_with, shard_of
from splitter.storage.names import is_output, shown
from splitter.text.csv import Row, parse_rows
from splitter.text.show import one_line

# an index in a list of inputs or of entries, of which there are at most two billion
INDEX = np.dtype("i4")
# this many records can be read as fast as one
FEW_RECORDS = 64
# the end of the name of a record that others were merged into
MERGED = "-compact"
_COPY_AT_ONCE = 8 << 20
_ENTRIES_AT_ONCE, _KEYS_AT_ONCE = 1 << 18, 1 << 20


class Journal(CommitProtocol):
    """All commit records of an output folder; the newest entry of each input counts.

    The names of records sort by age, so the newest entry of an input is its last.

    Attributes:
        heads: The different sets of columns that entries have.
        entries: The entries of all records, oldest first; the `head` of each is its index in `heads`.
    """

    def __init__(self, storage: Storage) -> None:
        super().__init__(storage)
        self.load_only([])

    def forget(self, entries: np.ndarray, batch: str) -> None:
        """Remove the outputs of some inputs, and record that these are not done."""
        names = [*dict.fromkeys(map(file_with, self.outputs(entries)))]
        self.begin(batch, self.entries["key"][entries].tolist(), names)
        self.finish_batch(batch)

    # -- what is done --------------------------------------------------------------------------------

    def load(self) -> None:
        """Read the index of every record."""
        self.load_only([name for name in self.record_names() if not name.endswith(BEGUN)])

    def load_new(self, *, merged: bool = True) -> np.ndarray:
        """Read the index of the records added since the last time; return the numbers of their entries.

        Entries of records that were merged meanwhile stay valid. Without `merged`, merged records are left
        out, because their names are newer than their contents.
        """
        known, before = {*self._names}, len(self.entries)
        left_out = (BEGUN,) if merged else (BEGUN, MERGED)
        names = self.record_names()
        self._append([name for name in names if not (name in known or name.endswith(left_out))])
        return np.arange(before, len(self.entries))

    def by_record(self, entries: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
        """Yield the name of each record that holds some of the entries, and these entries."""
        numbers = self._where[entries]
        for number in np.unique(numbers).tolist():
            yield self._names[number], entries[numbers == number]

    def load_only(self, names: list[str]) -> None:
        """Read the index of some records; a begun one stands for the record that it promises."""
        self._names: list[str] = []
        self.heads: list[RowColumns] = []
        self.entries = np.empty(0, ENTRY)
        # for each entry, the number of its record, and where its text starts there
        self._where, self._text_at = np.empty(0, "i4"), np.empty(0, "i8")
        # the sizes and checksums of shards that each record states
        self._shards: list[ShardSums] = []
        # the entries that count, sorted by key
        self._by_key = np.empty(0, INDEX)
        self._append(names)

    def _append(self, names: list[str]) -> None:
        """Read the index of more records, which must be newer than those read so far."""
        self.storage.have_at_hand([f"{RECORDS}/{name}" for name in names])
        heads = {head: number for number, head in enumerate(self.heads)}
        shards = [*self._shards]
        entries, where, text_at = [self.entries], [self._where], [self._text_at]
        for number, name in enumerate(names, len(self._names)):
            record = self._promised(name) if name.endswith(BEGUN) else Record.read(self.storage, name)
            numbers = np.array([heads.setdefault(head, len(heads)) for head in record.heads], "u4")
            lengths = record.entries["text"].astype("i8")
            record.entries["head"] = numbers[record.entries["head"]]
            entries.append(record.entries)
            shards.append(record.shards)
            where.append(np.full(len(lengths), number, "i4"))
            text_at.append(record.texts_at + np.cumsum(lengths) - lengths)
        self._names = [*self._names, *names]
        self.heads, self._shards = list(heads), shards
        self.entries = np.concatenate(entries)
        self._where, self._text_at = np.concatenate(where), np.concatenate(text_at)
        self._keep_newest()

    def _promised(self, begun: str) -> Record:
        _, text = self.read_begun(begun)
        record = Record.parse(io.BytesIO(text))
        # the promised record is at the end of the file
        size = len(self.storage.read(f"{RECORDS}/{begun}"))
        return replace(record, texts_at=record.texts_at + size - len(text))

    def peek(self, *, with_promises: bool = False) -> list[str] | None:
        """Read the index without recovering anything: leave out the inputs of batches without a commit.

        Return the names that such batches may have published; None if there is no such batch. With
        `with_promises`, read the index as `recover` will leave it: include the promises that can be kept.
        """
        names = self.record_names()
        batches = {name: self.read_begun(name)[0] for name in self.open_batches(names)}
        kept = {name for name, content in batches.items() if with_promises and self.can_keep(content)}
        committed = (name for name in names if not name.endswith(BEGUN))
        self.load_only(sorted((*committed, *kept), key=lambda name: name.removesuffix(BEGUN)))
        undone = (content["keys"] for name, content in batches.items() if name not in kept)
        keys = np.fromiter(chain.from_iterable(undone), "u8")
        self._by_key = self._by_key[~np.isin(self.entries["key"][self._by_key], keys)]
        return [name for content in batches.values() for name in content["names"]] if batches else None

    def without(self, entries: np.ndarray) -> "Journal":
        """Return the journal as it would be if these entries were forgotten."""
        journal = copy(self)
        journal._by_key = self._by_key[~np.isin(self._by_key, entries)]  # noqa: SLF001 - its own class
        return journal

    def _keep_newest(self) -> None:
        keys = self.entries["key"].copy()
        order = np.argsort(keys, kind="stable")
        keys = keys[order]
        newest = order[np.append(keys[1:] != keys[:-1], True)[: len(order)]]
        self._by_key = newest[self.entries["status"][newest] != NOT_DONE].astype(INDEX)

    def find(self, keys: np.ndarray) -> np.ndarray:
        """Return the number of each key's entry, or -1."""
        found = np.full(len(keys), -1, INDEX)
        if not (len(keys) and len(self._by_key)):
            return found
        sorted_keys = self.entries["key"][self._by_key]
        for start in range(0, len(keys), _KEYS_AT_ONCE):
            block = keys[start : start + _KEYS_AT_ONCE]
            # sorted, because random access to a large table takes many times as long
            order = np.argsort(block)
            block = block[order]
            at = index_in_sorted(sorted_keys, block)
            same = at >= 0
            found[start + order[same]] = self._by_key[at[same]]
        return found

    def status(self, entries: np.ndarray) -> np.ndarray:
        """Return the status of each entry; that of -1 is NOT_DONE."""
        status = np.full(len(entries), NOT_DONE, "u1")
        found = entries >= 0
        status[found] = self.entries["status"][entries[found]]
        return status

    def others(self, entries: np.ndarray) -> np.ndarray:
        """Return the entries that count, except the given ones."""
        chosen = np.zeros(len(self.entries), bool)
        chosen[self._by_key] = True
        chosen[entries[entries >= 0]] = False
        return np.flatnonzero(chosen)

    def counting(self) -> np.ndarray:
        """Return the entries that count: the newest of each input."""
        return self.others(np.empty(0, "i8"))

    def done(self) -> np.ndarray:
        """Return the entries that count and are done."""
        entries = self.counting()
        return entries[self.entries["status"][entries] == DONE]

    def with_outputs(self, entries: np.ndarray) -> np.ndarray:
        """Return those of the given entries that have output files."""
        return entries[self.entries["outputs"][entries] > 0]

    def has_outputs(self, entries: np.ndarray) -> np.ndarray:
        """Return which of the given entries are done and have output files; -1 is not."""
        found = self.status(entries) == DONE
        found[found] = self.entries["outputs"][entries[found]] > 0
        return found

    def failed(self) -> np.ndarray:
        """Return all entries of failures, including those that no longer count."""
        return np.flatnonzero(self.entries["status"] == FAILED)

    def is_older(self, entries: np.ndarray, generation: int) -> np.ndarray:
        """Return which of the given entries were committed before a generation."""
        generations = np.array([generation_of(name) for name in self._names], "i8")
        return generations[self._where[entries]] < generation

    @property
    def any_outputs(self) -> bool:
        """Whether any input has an output file."""
        return bool(self.entries["outputs"][self._by_key].any())

    def outputs(self, entries: np.ndarray) -> list[str]:
        """Return the names of the output files of the given entries."""
        return [name for names in self.outputs_of_each(entries) for name in names]

    def outputs_of_each(self, entries: np.ndarray) -> Iterator[list[str]]:
        """Yield the names of each entry's output files; a virtual piece has no size, and is not a file."""
        entries = np.asarray(entries, "i8")
        done = self.entries["status"][entries] == DONE
        for is_done, (head, rows) in zip(done.tolist(), self.rows_of_each(entries), strict=True):
            at = len(head.columns)
            yield [row[at] for row in rows if row[at] and row[at + SIZE_AT]] if is_done else []

    def rows_of_each(
        self, entries: np.ndarray, most: int | None = None
    ) -> Iterator[tuple[RowColumns, list[Row]]]:
        """Yield the columns and the rows of each entry, or the first few, as they are in its record."""
        entries = np.asarray(entries, "i8")
        for number, text in zip(entries.tolist(), self._texts(entries), strict=True):
            yield self.heads[self.entries["head"][number]], self._rows(number, text, most)

    def _rows(self, number: int, text: bytes, most: int | None) -> list[Row]:
        """Parse the rows of an entry; refuse rows that no run can have written."""
        head, failed = self.heads[self.entries["head"][number]], self.entries["status"][number] == FAILED
        at = len(head.columns)
        width = at + len(ERROR_COLUMNS) if failed else len(head.names)
        problem = ""
        try:
            rows = parse_rows(text, most)
        except csv.Error as error:
            rows, problem = [], str(error)
        for row in rows:
            if len(row) != width:
                problem = "its rows are wrong"
            elif not failed and row[at] and not is_output(row[at]):
                problem = f"it names the output {shown(row[at])}"
        if problem:
            raise self.damaged(int(self._where[number]), problem)
        return rows

    def damaged(self, number: int, why: object) -> SplitterError:
        """Return the error which says that a record is damaged, given its number."""
        return RECORD.named(f"{RECORDS}/{self._names[number]}").damaged(self.storage, why)

    def stated_shard(self, shard: str, entries: np.ndarray) -> tuple[int, str] | None:
        """Return the size and checksum of a shard by the newest record of its entries; None if not stated."""
        return self._shards[int(self._where[entries].max())].get(shard)

    def _stated_shards(self, entries: np.ndarray) -> ShardSums:
        """Return the stated sizes and checksums of the shards that hold the given entries."""
        entries = self.with_outputs(entries)
        where, stated = self._where[entries], ShardSums()
        for number in np.unique(where).tolist():
            stated |= self._shards[number]
        if stated:
            # an earlier version may have replaced a shard since, and does not state its checksum
            silent = [number for number, shards in enumerate(self._shards) if not shards]
            for names in self.outputs_of_each(entries[np.isin(where, silent)]):
                for name in names:
                    stated.pop(shard_of(name)[0], None)
        return stated

    def listed(self, entries: np.ndarray, column: str) -> list[str]:
        """Return the inputs of some entries as the list had them; "?" if a record does not say."""
        names = []
        for head, rows in self.rows_of_each(entries):
            is_named = rows and column in head.columns
            names.append(rows[0][head.columns.index(column)] if is_named else "?")
        return names

    def first_failure(
        self, failed: np.ndarray, column: str, kind: Callable[[str, str], str] = lambda error, _: error
    ) -> tuple[str, str] | None:
        """Return the first of some failed inputs as the list had it, and why it failed, or None.

        `kind` turns the name and the traceback of an error into the words for it.
        """
        for head, rows in self.rows_of_each(failed[:1]):
            if not rows:
                continue
            error, message, traceback = rows[0][len(head.columns) :][:3]
            why = kind(error, traceback)
            listed = rows[0][head.columns.index(column)] if column in head.columns else "?"
            return one_line(listed), f"{why}: {message}" if message else why
        return None

    def _texts(self, entries: np.ndarray) -> Iterator[bytes]:
        """Yield the text of each entry."""
        with _OpenRecords(self.storage, self._names) as opened:
            for number in entries.tolist():
                yield opened.read(
                    int(self._where[number]), int(self._text_at[number]), int(self.entries["text"][number])
                )

    # -- what comes out --------------------------------------------------------------------------------

    def compact(self, entries: np.ndarray) -> None:
        """Merge the records into one that holds these entries, in this order, if that is worth it."""
        superseded = len(self.entries) - len(entries)
        if len(self._names) <= FEW_RECORDS and superseded <= len(entries):
            return
        name = f"{self.next_generation:06d}{MERGED}"
        size = sum(int(self.entries["text"][block].sum(dtype="i8")) for block in _blocks(entries))
        first = first_line(self.heads, len(entries), size, self._stated_shards(entries))
        with self.storage.replacing(f"{RECORDS}/{name}") as file:
            digest = xxhash.xxh3_128()
            blocks = (self.entries[block].tobytes() for block in _blocks(entries))
            for piece in chain([first], blocks, (piece for *_, piece in self.pieces(entries))):
                digest.update(piece)
                file.write(piece)
            file.write(digest.digest())
        # records that say 'not done' go last, the oldest first: never before the records they override
        voiding = {*np.unique(self._where[self.entries["status"] == NOT_DONE]).tolist()}
        names = [f"{RECORDS}/{old}" for old in self._names]
        self.storage.remove(name for number, name in enumerate(names) if number not in voiding)
        for number in sorted(voiding):
            # else a power cut could undo the removals in any order
            self.storage.sync([names[number]])
            self.storage.remove([names[number]])

    def heads_in_order(self, entries: np.ndarray) -> list[RowColumns]:
        """Return the different columns of some entries, in the order of the entries."""
        seen: dict[int, None] = {}
        for block in _blocks(entries):
            numbers, first = np.unique(self.entries["head"][block], return_index=True)
            seen.update(dict.fromkeys(numbers[np.argsort(first)].tolist()))
        return [self.heads[number] for number in seen]

    def pieces(self, entries: np.ndarray) -> Iterator[tuple[int, int, bytes]]:
        """Yield the texts of entries, adjacent ones joined, each with the numbers of its head and record."""
        with _OpenRecords(self.storage, self._names) as opened:
            for block in _blocks(entries):
                yield from self._pieces_of(block, opened)

    def _pieces_of(self, entries: np.ndarray, opened: "_OpenRecords") -> Iterator[tuple[int, int, bytes]]:
        where, at, heads = self._where[entries], self._text_at[entries], self.entries["head"][entries]
        lengths = self.entries["text"][entries].astype("i8")
        ends = at + lengths
        portion = np.cumsum(lengths) // _COPY_AT_ONCE
        broken = (where[1:] != where[:-1]) | (at[1:] != ends[:-1]) | (heads[1:] != heads[:-1])
        broken |= portion[1:] != portion[:-1]
        starts = np.concatenate(([0], np.flatnonzero(broken) + 1))
        stops = np.append(starts[1:], len(entries)) - 1
        for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
            number, length = int(where[start]), int(ends[stop] - at[start])
            yield int(heads[start]), number, opened.read(number, int(at[start]), length)


def _blocks(entries: np.ndarray) -> Iterator[np.ndarray]:
    """Yield a long list of entries in parts, so that arrays computed from them stay small."""
    for start in range(0, len(entries), _ENTRIES_AT_ONCE):
        yield entries[start : start + _ENTRIES_AT_ONCE]


class _OpenRecords:
    """A reader of records that keeps few files open at a time."""

    MOST = 16

    def __init__(self, storage: Storage, names: list[str]) -> None:
        self._storage, self._names = storage, names
        self._files: dict[int, IO[bytes]] = {}

    def __enter__(self) -> "_OpenRecords":
        return self

    def __exit__(self, *error: object) -> None:
        for file in self._files.values():
            file.close()

    def read(self, number: int, start: int, length: int) -> bytes:
        file = self._files.get(number)
        if file is None:
            if len(self._files) == self.MOST:
                self._files.pop(next(iter(self._files))).close()
            file = self._files[number] = self._storage.open(f"{RECORDS}/{self._names[number]}")
        file.seek(start)
        text = file.read(length)
        if len(text) != length:
            name = f"{RECORDS}/{self._names[number]}"
            raise RECORD.named(name).damaged(self._storage, "it is cut short")
        return text
