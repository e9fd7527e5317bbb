"""Commit records -> what is done, manifest.csv, errors.csv.

A record is one file that a batch leaves on storage. It is a line of JSON, then one `ENTRY` for each
input, then for each input its rows of manifest.csv (or its row of errors.csv) as CSV, ready to copy, and at
the end the digest of all that:

    {"heads": [...], "entries": 2, "text": 41, "digest": "xxh128"}
    entry entry
    a.txt,a/0.txt,2,xxh128:…,si
    …
    16 bytes

`<id>.begun` names what a batch is about to publish and to remove, and for which inputs. It is written
before the first change and dropped after the commit, so one without its commit is a batch to undo. A batch
that takes along what older records have, as a shard that is made again does, is not undone but brought to
its end: its begun record holds the record that is to be committed.
"""

import contextlib
import functools
import json
import os
import re
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import IO, Any, BinaryIO

import numpy as np
import xxhash

from splitter.csv_text import CsvText, Row, parse_rows
from splitter.errors import Refused, StorageError
from splitter.inputs import Survey, Table
from splitter.places import OWN_FOLDER, Layout, file_with, folders_around, same_name
from splitter.sealed import sealed, unsealed
from splitter.splits import COLUMN, SplitRule
from splitter.storage import Storage

RECORDS = f"{OWN_FOLDER}/records"
SCHEMA = f"{OWN_FOLDER}/schema.json"
MANIFEST = "manifest.csv"
ERRORS = "errors.csv"
BEGUN = ".begun"

OUTPUT_COLUMNS = ("output", "size", "checksum")
SKIPPED_COLUMN = "skipped"
ERROR_COLUMNS = ("error", "message", "traceback", "attempts")
OWN_COLUMNS = (*OUTPUT_COLUMNS, SKIPPED_COLUMN, *ERROR_COLUMNS)

# so many are read as fast as one
FEW_RECORDS = 64

NOT_DONE, DONE, SKIPPED, FAILED = range(4)
# no commit record has this one: what it says is of before a change
STALE = 255

ENTRY = np.dtype(
    [
        ("key", "<u8"),
        ("fingerprint", "<u8"),
        ("status", "u1"),
        ("head", "<u4"),
        ("outputs", "<u4"),
        ("bytes", "<u8"),
        ("text", "<u8"),
    ]
)
_PACK = struct.Struct("<QQBIIQQ").pack
# a place in a list of inputs or of entries, which has at most two thousand million
PLACE = np.dtype("i4")
_RECORD_NAME = re.compile(r"\d{6,}-")
_COPY_AT_ONCE = 8 << 20
# how a record ends
DIGEST, DIGEST_BYTES = "xxh128", 16
_ENTRIES_AT_ONCE = 1 << 18

assert struct.calcsize("<QQBIIQQ") == ENTRY.itemsize  # noqa: S101 - two descriptions of one layout


@dataclass(frozen=True)
class Head:
    """The columns of some inputs' rows.

    Attributes:
        columns: The dataset's columns.
        outputs: The keys and types of per-output metadata, in the order they were first seen.
        inputs: The keys and types of per-input metadata.
    """

    columns: tuple[str, ...]
    outputs: tuple[tuple[str, str], ...] = ()
    inputs: tuple[tuple[str, str], ...] = ()

    @property
    def names(self) -> Row:
        """The header of the rows."""
        return [*self.columns, *OUTPUT_COLUMNS, *self.keys]

    @property
    def keys(self) -> Row:
        """The keys of all metadata."""
        return [key for key, _ in (*self.outputs, *self.inputs)]

    def to_json(self) -> list[Any]:
        """As it stands in a record."""
        return [self.columns, self.outputs, self.inputs]

    @classmethod
    def from_json(cls, value: list[Any]) -> "Head":
        """As it is read from a record."""
        columns, outputs, inputs = value
        return cls(tuple(columns), tuple(map(tuple, outputs)), tuple(map(tuple, inputs)))


class RecordWriter:
    """Collects the entries of a batch, then gives the record's bytes."""

    def __init__(self) -> None:
        """Start empty."""
        self._heads: dict[Head, int] = {}
        self._entries: list[bytes] = []
        self._texts: list[bytes] = []
        self._last: tuple[Head | None, int] = (None, 0)

    def add(  # noqa: PLR0913 - the fields of an entry
        self, key: int, fingerprint: int, status: int, *, head: Head, outputs: int, size: int, text: bytes
    ) -> None:
        """Add what became of one input."""
        last, number = self._last
        if head is not last:
            number = self._heads.setdefault(head, len(self._heads))
            self._last = head, number
        self._entries.append(_PACK(key, fingerprint, status, number, outputs, size, len(text)))
        self._texts.append(text)

    def add_not_done(self, key: int) -> None:
        """Say that an input is not done, whatever older records say."""
        self.add(key, 0, NOT_DONE, head=Head(()), outputs=0, size=0, text=b"")

    def to_bytes(self) -> bytes:
        """The record."""
        text = b"".join(self._texts)
        first = _first_line(self._heads, len(self._entries), len(text))
        record = b"".join((first, *self._entries, text))
        return record + xxhash.xxh3_128_digest(record)


def _first_line(heads: Iterable[Head], entries: int, text: int) -> bytes:
    content = {
        "heads": [head.to_json() for head in heads],
        "entries": entries,
        "text": text,
        "digest": DIGEST,
    }
    return json.dumps(content).encode() + b"\n"


@dataclass(frozen=True)
class Record:
    """A record's entries, and where its texts start in the file."""

    heads: list[Head]
    entries: np.ndarray
    texts_at: int

    @classmethod
    def read(cls, storage: Storage, name: str) -> "Record":
        """Read all but the texts."""
        with storage.open(f"{RECORDS}/{name}") as file:
            try:
                return cls._parse(file)
            except (ValueError, KeyError, TypeError) as error:
                place = storage.path(f"{RECORDS}/{name}")
                remedy = "remove it to do its inputs again, or start over with --fresh"
                raise StorageError(f"{place}: is damaged ({error}); {remedy}") from None

    @classmethod
    def fault(cls, storage: Storage, name: str) -> str:
        """What is wrong with a record, if anything; all of it is read."""
        with storage.open(f"{RECORDS}/{name}") as file:
            try:
                cls._parse(file)
            except (ValueError, KeyError, TypeError) as error:
                return f"is damaged ({error})"
            file.seek(0)
            if DIGEST not in file.readline().decode():
                # of before there was one
                return ""
            end = file.seek(-DIGEST_BYTES, os.SEEK_END)
            stated = file.read()
            file.seek(0)
            digest = xxhash.xxh3_128()
            while left := end - file.tell():
                digest.update(file.read(min(left, _COPY_AT_ONCE)))
        return "" if digest.digest() == stated else "is damaged (its checksum is another)"

    @classmethod
    def _parse(cls, file: BinaryIO) -> "Record":
        first = json.loads(file.readline())
        heads = [Head.from_json(head) for head in first["heads"]]
        entries = np.frombuffer(bytearray(file.read(first["entries"] * ENTRY.itemsize)), ENTRY)
        texts_at = file.tell()
        end = texts_at + first["text"] + (DIGEST_BYTES if first.get("digest") == DIGEST else 0)
        # found now, not when all the work is done and the manifest is made
        if len(entries) != first["entries"] or file.seek(0, os.SEEK_END) != end:
            raise ValueError("its size is wrong")
        if len(entries) and entries["head"].max() >= len(heads):
            raise ValueError("its entries are wrong")
        return cls(heads, entries, texts_at)


class Journal:
    """All commit records of an output folder: for each input the newest one counts.

    The names of records sort by age, and the newest entry of an input is its last.
    """

    def __init__(self, storage: Storage) -> None:
        """Use the records of an output folder; call `recover` before anything else."""
        self._storage = storage
        self._names: list[str] = []
        self._heads: list[Head] = []
        # of all records one after the other; the numbers of heads are made to count through all of them
        self.entries = np.empty(0, ENTRY)
        # for each entry the number of its record, and the place of its text there
        self._where, self._text_at = np.empty(0, "i4"), np.empty(0, "i8")
        # the entries that count, sorted by key
        self._by_key = np.empty(0, PLACE)

    def _record_names(self) -> list[str]:
        """Not what a file manager or a network file system has left there."""
        return [name for name in self._storage.names(RECORDS) if _RECORD_NAME.match(name)]

    # -- the protocol ------------------------------------------------------------------------------

    @property
    def next_generation(self) -> int:
        """A number above that of every record."""
        return max(map(_generation_of, self._record_names()), default=0) + 1

    @property
    def is_begun(self) -> bool:
        """Whether there is any record."""
        return bool(self._record_names())

    def faults(self) -> Iterator[tuple[str, str]]:
        """Which records are damaged, by their names in the output folder, and what is wrong with them."""
        names = self._record_names()
        # one that is committed has only its mark left to drop
        begun = [name for name in names if name.endswith(BEGUN) and name.removesuffix(BEGUN) not in names]
        records = [name for name in names if not name.endswith(BEGUN)]
        self._storage.have_at_hand([f"{RECORDS}/{name}" for name in records])
        for name in records:
            if problem := Record.fault(self._storage, name):
                yield f"{RECORDS}/{name}", f"{problem}; remove it to do its inputs again, or use --fresh"
        for name in begun:
            try:
                unsealed(self._storage.read(f"{RECORDS}/{name}"), strict=True)
            except ValueError as error:
                yield f"{RECORDS}/{name}", f"is damaged ({error}); remove it, and run with --fresh"

    def begin(self, batch: str, keys: Sequence[int], names: Sequence[str]) -> None:
        """Say what is about to be published and removed."""
        content = {"keys": [int(key) for key in keys], "names": list(names)}
        self._storage.write(f"{RECORDS}/{batch}{BEGUN}", sealed(content))

    def commit(self, batch: str, record: RecordWriter) -> None:
        """Say what is done; from now on it counts."""
        self._storage.write(f"{RECORDS}/{batch}", record.to_bytes())

    def end(self, batch: str) -> None:
        """Drop the begun record of a committed batch."""
        self._storage.remove([f"{RECORDS}/{batch}{BEGUN}"])

    def promise(
        self,
        batch: str,
        keys: Sequence[int],
        names: Sequence[str],
        *,
        moves: Sequence[tuple[str, str]],
        record: RecordWriter,
    ) -> None:
        """Say what will be done in any case: what is staged is moved to its names, and the record counts.

        For a batch that takes along what older records have: to undo it would lose that.
        """
        content = {"keys": [int(key) for key in keys], "names": [*names], "moves": [*moves]}
        self._storage.write(f"{RECORDS}/{batch}{BEGUN}", sealed(content, record.to_bytes()))

    def settle(self, batch: str) -> bool:
        """Bring to its end a batch that was begun: as promised, else undone; says whether it counts."""
        begun = f"{RECORDS}/{batch}{BEGUN}"
        committed = self._storage.exists(f"{RECORDS}/{batch}")
        if not committed and self._storage.exists(begun):
            content, record = self._begun(begun)
            committed = "moves" in content
            if committed:
                self._keep_promise(batch, content, record)
            else:
                self._undo(batch, content)
        self._storage.remove([begun])
        return committed

    def _keep_promise(self, batch: str, content: dict[str, Any], record: bytes) -> None:
        for source, target in content["moves"]:
            self._storage.move(source, target)
        there = {target for _, target in content["moves"]}
        self._storage.remove(name for name in content["names"] if name not in there)
        self._storage.write(f"{RECORDS}/{batch}", record)

    def _undo(self, batch: str, content: dict[str, Any]) -> None:
        self._storage.withdraw(content["names"])
        record = RecordWriter()
        for key in content["keys"]:
            record.add_not_done(key)
        self.commit(batch, record)

    def _begun(self, name: str) -> tuple[dict[str, Any], bytes]:
        try:
            content, record = unsealed(self._storage.read(name))
            _ = content["keys"], content["names"]
        except (ValueError, KeyError, TypeError) as error:
            message = f"{self._storage.path(name)}: is damaged ({error})"
            raise StorageError(f"{message}; remove it, and run with --fresh") from None
        return content, record

    def recover(self) -> None:
        """Settle every batch that was begun and not committed. Only under the lock, with no worker left.

        A part leaves alone what may be of another one that is at work.
        """
        self._storage.confirm()
        part = self._storage.part
        with self._storage.gate() if part else contextlib.nullcontext():
            for name in self._record_names():
                if name.endswith(BEGUN) and (part is None or part.may_undo(name)):
                    self.settle(name.removesuffix(BEGUN))
        self._storage.clear_staging()
        if part is None:
            self._storage.forget_parts()

    def forget(self, entries: np.ndarray, batch: str) -> int:
        """Remove the outputs of some inputs, and that they were done; returns how many files went."""
        names = [*dict.fromkeys(map(file_with, self.outputs(entries)))]
        self.begin(batch, self.entries["key"][entries].tolist(), names)
        self.settle(batch)
        return len(names)

    # -- what is done --------------------------------------------------------------------------------

    def load(self) -> None:
        """Read the index of every record."""
        self._names = [name for name in self._record_names() if not name.endswith(BEGUN)]
        self._storage.have_at_hand([f"{RECORDS}/{name}" for name in self._names])
        heads: dict[Head, int] = {}
        entries, where, text_at = [np.empty(0, ENTRY)], [np.empty(0, "i4")], [np.empty(0, "i8")]
        for number, name in enumerate(self._names):
            record = Record.read(self._storage, name)
            numbers = np.array([heads.setdefault(head, len(heads)) for head in record.heads], "u4")
            lengths = record.entries["text"].astype("i8")
            record.entries["head"] = numbers[record.entries["head"]]
            entries.append(record.entries)
            where.append(np.full(len(lengths), number, "i4"))
            text_at.append(record.texts_at + np.cumsum(lengths) - lengths)
        self._heads = list(heads)
        self.entries = np.concatenate(entries)
        self._where, self._text_at = np.concatenate(where), np.concatenate(text_at)
        self._keep_newest()

    def peek(self) -> list[str] | None:
        """Read the index as it will be when `recover` is called, and change nothing.

        Returns what the batches that were begun and not committed may have published; None if there are none.
        """
        # one that is committed has only its mark left to drop
        names = self._record_names()
        begun = [name for name in names if name.endswith(BEGUN) and name.removesuffix(BEGUN) not in names]
        batches = [self._begun(f"{RECORDS}/{name}") for name in begun]
        self.load()
        keys = np.array([key for content, _ in batches for key in content["keys"]], "u8")
        self._by_key = self._by_key[~np.isin(self.entries["key"][self._by_key], keys)]
        return [name for content, _ in batches for name in content["names"]] if batches else None

    def _keep_newest(self) -> None:
        keys = self.entries["key"].copy()
        order = np.argsort(keys, kind="stable")
        keys = keys[order]
        newest = order[np.append(keys[1:] != keys[:-1], True)[: len(order)]]
        self._by_key = newest[self.entries["status"][newest] != NOT_DONE].astype(PLACE)

    def find(self, keys: np.ndarray) -> np.ndarray:
        """The number of each key's entry, or -1."""
        found = np.full(len(keys), -1, PLACE)
        known = self.entries["key"][self._by_key]
        if len(known):
            at = np.minimum(np.searchsorted(known, keys), len(known) - 1)
            same = known[at] == keys
            found[same] = self._by_key[at[same]]
        return found

    def status(self, entries: np.ndarray) -> np.ndarray:
        """What inputs have come to, by the numbers of their entries."""
        status = np.full(len(entries), NOT_DONE, "u1")
        known = entries >= 0
        status[known] = self.entries["status"][entries[known]]
        return status

    def others(self, entries: np.ndarray) -> np.ndarray:
        """The entries that count, but for the given ones."""
        chosen = np.zeros(len(self.entries), bool)
        chosen[self._by_key] = True
        chosen[entries[entries >= 0]] = False
        return np.flatnonzero(chosen)

    def is_older(self, entries: np.ndarray, generation: int) -> np.ndarray:
        """Which of some entries were committed before a generation."""
        generations = np.array([_generation_of(name) for name in self._names], "i8")
        older: np.ndarray = generations[self._where[entries]] < generation
        return older

    @property
    def any_outputs(self) -> bool:
        """Whether any input has an output file."""
        return bool(self.entries["outputs"][self._by_key].any())

    def outputs(self, entries: np.ndarray) -> list[str]:
        """The names of the output files that some entries hold."""
        return [name for names in self.outputs_of_each(entries) for name in names]

    def outputs_of_each(self, entries: np.ndarray) -> Iterator[list[str]]:
        """The names of the output files of each entry."""
        entries = np.asarray(entries, "i8")
        for number, text in zip(entries.tolist(), self._texts(entries), strict=True):
            if self.entries["status"][number] != DONE:
                yield []
                continue
            at = len(self._heads[self.entries["head"][number]].columns)
            yield [row[at] for row in parse_rows(text) if row[at]]

    def rows_of_each(self, entries: np.ndarray) -> Iterator[tuple[Head, list[Row]]]:
        """The rows of each entry as they stand in its record, and what their columns are."""
        entries = np.asarray(entries, "i8")
        for number, text in zip(entries.tolist(), self._texts(entries), strict=True):
            yield self._heads[self.entries["head"][number]], parse_rows(text)

    def listed(self, entries: np.ndarray, column: str) -> list[str]:
        """Some inputs as they were written in the list."""
        names = []
        for number, text in zip(entries.tolist(), self._texts(entries), strict=True):
            columns = self._heads[self.entries["head"][number]].columns
            names.append(parse_rows(text)[0][columns.index(column)] if column in columns else "?")
        return names

    def first_failure(self, failed: np.ndarray, column: str) -> tuple[str, str] | None:
        """The first of some entries that have failed: what was listed, and why; None if there is none."""
        for head, rows in self.rows_of_each(failed[:1]):
            error, message = rows[0][len(head.columns) :][:2]
            listed = rows[0][head.columns.index(column)] if column in head.columns else "?"
            return listed, f"{error}: {message}" if message else error
        return None

    def _texts(self, entries: np.ndarray) -> Iterator[bytes]:
        """The text of each entry."""
        with _OpenRecords(self._storage, self._names) as opened:
            for number in entries.tolist():
                yield opened.read(
                    int(self._where[number]), int(self._text_at[number]), int(self.entries["text"][number])
                )

    # -- what comes out --------------------------------------------------------------------------------

    def compact(self, entries: np.ndarray) -> None:
        """Merge the records into one that holds the entries in the order given, where that is worth it."""
        superseded = len(self.entries) - len(entries)
        if len(self._names) <= FEW_RECORDS and superseded <= len(entries):
            return
        name = f"{self.next_generation:06d}-compact"
        size = sum(int(self.entries["text"][block].sum(dtype="i8")) for block in _blocks(entries))
        first = _first_line(self._heads, len(entries), size)
        with self._storage.replacing(f"{RECORDS}/{name}") as file:
            digest = xxhash.xxh3_128()
            blocks = (self.entries[block].tobytes() for block in _blocks(entries))
            for piece in chain([first], blocks, (piece for _, piece in self._pieces(entries))):
                digest.update(piece)
                file.write(piece)
            file.write(digest.digest())
        # what says that inputs are not done goes last, the oldest first: never before what it has made void
        voiding = {*np.unique(self._where[self.entries["status"] == NOT_DONE]).tolist()}
        names = [f"{RECORDS}/{old}" for old in self._names]
        self._storage.remove(name for number, name in enumerate(names) if number not in voiding)
        for number in sorted(voiding):
            self._storage.remove([names[number]])

    def write_tables(self, entries: np.ndarray, status: np.ndarray, columns: Sequence[str]) -> None:
        """Write manifest.csv and errors.csv; inputs that are stale, or not done, stand in neither."""
        self._storage.confirm()
        content = self.schema(entries, status, columns)
        if not self._storage.exists(SCHEMA) or self._storage.read(SCHEMA) != content:
            # with these types the manifest of the run before could not be read
            self._storage.remove([MANIFEST])
            self._storage.write(SCHEMA, content)
        with self._storage.replacing(MANIFEST, durable=False) as file:
            file.writelines(self.manifest(entries, status, columns))
        if not (status == FAILED).any():
            self._storage.remove([ERRORS])
            return
        with self._storage.replacing(ERRORS, durable=False) as file:
            file.writelines(self.errors(entries, status, columns))

    def schema(self, entries: np.ndarray, status: np.ndarray, columns: Sequence[str]) -> bytes:
        """What is kept of the manifest's columns and their types."""
        union = _union(tuple(columns), self._heads_in_order(entries[_is_in_manifest(status)]))
        schema = {"columns": list(columns), "types": dict((*union.outputs, *union.inputs))}
        return json.dumps(schema).encode()

    def manifest(self, entries: np.ndarray, status: np.ndarray, columns: Sequence[str]) -> Iterator[bytes]:
        """manifest.csv in pieces of whole rows: of the inputs that are done, in the order given."""
        entries = entries[_is_in_manifest(status)]
        union = _union(tuple(columns), self._heads_in_order(entries))
        places = [_places(head, union) for head in self._heads]
        rule = SplitRule.kept(self._storage)
        split_of = None if rule is None else _split_of(rule, union.names, self._storage.root)
        return _table(union.names, self._pieces(entries), places, split_of)

    def errors(self, entries: np.ndarray, status: np.ndarray, columns: Sequence[str]) -> Iterator[bytes]:
        """errors.csv, likewise: of the inputs that failed."""
        names = [*columns, *ERROR_COLUMNS]
        places = [_positions(names, [*head.columns, *ERROR_COLUMNS]) for head in self._heads]
        return _table(names, self._pieces(entries[status == FAILED]), places)

    def columns(self, entries: np.ndarray, columns: Sequence[str]) -> Row:
        """The columns that the manifest of some entries has."""
        return _union(tuple(columns), self._heads_in_order(entries)).names

    def _heads_in_order(self, entries: np.ndarray) -> list[Head]:
        seen: dict[int, None] = {}
        for block in _blocks(entries):
            numbers, first = np.unique(self.entries["head"][block], return_index=True)
            seen.update(dict.fromkeys(numbers[np.argsort(first)].tolist()))
        return [self._heads[number] for number in seen]

    def _pieces(self, entries: np.ndarray) -> Iterator[tuple[int, bytes]]:
        """The texts of the entries with the number of their head, neighbours in one piece."""
        with _OpenRecords(self._storage, self._names) as opened:
            for block in _blocks(entries):
                yield from self._pieces_of(block, opened)

    def _pieces_of(self, entries: np.ndarray, opened: "_OpenRecords") -> Iterator[tuple[int, bytes]]:
        where, at, heads = self._where[entries], self._text_at[entries], self.entries["head"][entries]
        lengths = self.entries["text"][entries].astype("i8")
        ends = at + lengths
        portion = np.cumsum(lengths) // _COPY_AT_ONCE
        broken = (where[1:] != where[:-1]) | (at[1:] != ends[:-1]) | (heads[1:] != heads[:-1])
        broken |= portion[1:] != portion[:-1]
        starts = np.concatenate(([0], np.flatnonzero(broken) + 1))
        stops = np.append(starts[1:], len(entries)) - 1
        for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
            length = int(ends[stop] - at[start])
            yield int(heads[start]), opened.read(int(where[start]), int(at[start]), length)


def _is_in_manifest(status: np.ndarray) -> np.ndarray:
    """Which inputs have rows there; those that are stale, or not done, have none."""
    chosen: np.ndarray = (status == DONE) | (status == SKIPPED)
    return chosen


def _generation_of(record: str) -> int:
    return int(record.partition("-")[0])


def _blocks(entries: np.ndarray) -> Iterator[np.ndarray]:
    """Parts of a long list of entries, so that what is worked out for each stays small."""
    for start in range(0, len(entries), _ENTRIES_AT_ONCE):
        yield entries[start : start + _ENTRIES_AT_ONCE]


class _OpenRecords:
    """Reads texts from records with few files open at a time."""

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
            place = self._storage.path(f"{RECORDS}/{self._names[number]}")
            raise StorageError(f"{place}: is cut short; remove it to do its inputs again")
        return text


def _union(columns: tuple[str, ...], heads: Iterable[Head]) -> Head:
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
    return Head(columns, tuple(outputs.items()), tuple(inputs.items()))


def merged_type(one: str, other: str) -> str:
    """The type that holds values of both: int and float are float, all else that differs is text."""
    if one == other or not other:
        return one
    if not one:
        return other
    return "float" if {one, other} == {"int", "float"} else "str"


Places = list[int | None]


def _places(head: Head, union: Head) -> Places:
    """Where the columns of the union are in the rows of a head; a key is never taken for a dataset column."""
    outputs_at = len(head.columns)
    keys_at = outputs_at + len(OUTPUT_COLUMNS)
    columns, keys = _positions(union.columns, head.columns), _positions(union.keys, head.keys, keys_at)
    return [*columns, *range(outputs_at, keys_at), *keys]


def _positions(names: Iterable[str], there: Iterable[str], start: int = 0) -> Places:
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
        # of no row is the group known
        return lambda _: ""
    at = header.index(rule.by)
    known = functools.lru_cache(1 << 16)(rule.of)
    return lambda row: known(row[at])


def _table(
    header: Row,
    pieces: Iterator[tuple[int, bytes]],
    places_of: list[Places],
    split_of: Callable[[Row], str] | None = None,
) -> Iterator[bytes]:
    """A table from pieces whose columns may be fewer or in another order."""
    csv_text = CsvText()
    if split_of is not None:
        yield csv_text.encode([[*header, COLUMN]])
        for number, piece in pieces:
            places = places_of[number]
            rows = [["" if at is None else row[at] for at in places] for row in parse_rows(piece)]
            yield csv_text.encode([[*row, split_of(row)] for row in rows])
        return
    yield csv_text.encode([header])
    as_they_are = [*range(len(header))]
    for number, piece in pieces:
        places = places_of[number]
        if places == as_they_are:
            yield piece
            continue
        rows = [["" if at is None else row[at] for at in places] for row in parse_rows(piece)]
        yield csv_text.encode(rows)


@dataclass(frozen=True)
class State:
    """What is to be done, and what stays: numbers of inputs, in the order of the list.

    Attributes:
        entries: For each input of the list its entry in the journal, or -1.
        todo: New, changed, or to be tried again.
        changed: Those of `todo` that were finished before.
        stale: All that have something from before a change, also those that a limit leaves for later.
        unreadable: Finished before and cannot be read now: they keep what they have.
        gone: Entries whose inputs are no longer in the list.
    """

    entries: np.ndarray
    todo: np.ndarray
    changed: np.ndarray
    stale: np.ndarray
    unreadable: np.ndarray
    gone: np.ndarray


def compare(
    journal: Journal,
    found: Survey,
    fingerprints: np.ndarray | None,
    *,
    asked: np.ndarray | None,
    retry_failed: bool,
) -> State:
    """Compare the list with what is committed; `asked` says which inputs the run is for, if not for all."""
    entries = journal.find(found.keys)
    known = entries >= 0
    numbers = entries[known]
    status = journal.status(entries)
    same = np.zeros(len(entries), bool)
    if fingerprints is not None:
        same[known] = journal.entries["fingerprint"][numbers] == fingerprints[known]
    finished = (status == DONE) | (status == SKIPPED)
    unreadable = finished & ~same & (found.sizes < 0)
    again = ~same & ~unreadable
    stale = again & known
    if retry_failed:
        again |= status == FAILED
    if asked is not None:
        again &= asked
        unreadable &= asked
    return State(
        entries=entries,
        todo=np.flatnonzero(again).astype(PLACE),
        changed=np.flatnonzero(again & finished),
        stale=np.flatnonzero(stale).astype(PLACE),
        unreadable=np.flatnonzero(unreadable),
        gone=journal.others(entries),
    )


def refuse_taken(journal: Journal, table: Table, layout: Layout, found: Survey, state: State) -> None:
    """Refuse an input whose outputs would meet those of one that is no longer in the list."""
    holders: dict[int, int] = {}
    around: dict[int, int] = {}
    for entry, names in zip(state.gone.tolist(), journal.outputs_of_each(state.gone), strict=True):
        if names:
            folder, *above = folders_around(same_name(names[0]))
            holders[hash(folder)] = entry
            around.update((hash(parent), entry) for parent in above)
    suspects = np.isin(found.folders[state.todo], [*holders, *around])
    suspects |= np.isin(found.outer_folders, [*holders]).any()
    for index in state.todo[suspects].tolist():
        listed = table.listed(index)
        folder = layout.folder(layout.key(listed))
        own, *outer = (hash(parent) for parent in folders_around(same_name(folder) + "/"))
        met = [holders[parent] for parent in (own, *outer) if parent in holders]
        if met or own in around:
            (gone,) = journal.listed(np.array(met[:1] or [around[own]]), table.column)
            raise Refused(
                f"{listed}: its outputs would go to {folder}/, among those of {gone}, which is no longer "
                "in the list; use --prune to remove those"
            )
