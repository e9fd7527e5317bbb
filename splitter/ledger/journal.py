"""The journal: all commit records of an output folder, and what they say of each input.

`<id>.begun` names what a batch is about to publish and to remove, and for which inputs. It is written
before the first change and dropped after the commit, so one without its commit is a batch to undo. A batch
that takes along what older records have, as a shard that is made again does, is not undone but brought to
its end: its begun record holds the record that is to be committed.
"""

import contextlib
import csv
import io
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import IO, Any

import numpy as np
import xxhash

from splitter.errors import StorageError
from splitter.ledger.records import (
    DONE,
    ENTRY,
    ERROR_COLUMNS,
    FAILED,
    NOT_DONE,
    Record,
    RecordWriter,
    RowColumns,
    first_line,
)
from splitter.storage.base import STAGING, Move, Storage
from splitter.storage.checked_file import sealed, unsealed
from splitter.storage.layout import RECORDS, file_with
from splitter.storage.names import is_clean, is_output, shown
from splitter.text.csv import Row, parse_rows
from splitter.text.show import one_line

BEGUN = ".begun"
_MOST_KEYS = 1 << 64
# a place in a list of inputs or of entries, which has at most two thousand million
PLACE = np.dtype("i4")
# so many are read as fast as one
FEW_RECORDS = 64
# a number that 64 bits can hold
_RECORD_NAME = re.compile(r"[0-9]{6,18}-")
_COPY_AT_ONCE = 8 << 20
_ENTRIES_AT_ONCE, _KEYS_AT_ONCE = 1 << 18, 1 << 20


class Journal:
    """All commit records of an output folder: for each input the newest one counts.

    The names of records sort by age, and the newest entry of an input is its last.
    """

    def __init__(self, storage: Storage) -> None:
        """Use the records of an output folder; call `recover` before anything else."""
        self.storage = storage
        self._names: list[str] = []
        self.heads: list[RowColumns] = []
        # of all records one after the other; the numbers of heads are made to count through all of them
        self.entries = np.empty(0, ENTRY)
        # for each entry the number of its record, and the place of its text there
        self._where, self._text_at = np.empty(0, "i4"), np.empty(0, "i8")
        # the entries that count, sorted by key
        self._by_key = np.empty(0, PLACE)

    def _record_names(self) -> list[str]:
        """Not what a file manager or a network file system has left there."""
        return [name for name in self.storage.names(RECORDS) if _RECORD_NAME.match(name)]

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
        self.storage.have_at_hand([f"{RECORDS}/{name}" for name in records])
        for name in records:
            if problem := Record.fault(self.storage, name):
                yield f"{RECORDS}/{name}", f"{problem}; remove it to do its inputs again, or use --fresh"
        for name in begun:
            try:
                _parse_begun(name, self.storage.read(f"{RECORDS}/{name}"), strict=True)
            except (ValueError, KeyError, TypeError) as error:
                yield f"{RECORDS}/{name}", f"is damaged ({error}); remove it, and run with --fresh"

    def begin(self, batch: str, keys: Sequence[int], names: Sequence[str]) -> None:
        """Say what is about to be published and removed."""
        content = {"keys": [int(key) for key in keys], "names": list(names)}
        self.storage.write(f"{RECORDS}/{batch}{BEGUN}", sealed(content))

    def commit(self, batch: str, record: RecordWriter) -> None:
        """Say what is done; from now on it counts."""
        self.storage.write(f"{RECORDS}/{batch}", record.to_bytes())

    def end(self, batch: str) -> None:
        """Drop the begun record of a committed batch."""
        self.storage.remove([f"{RECORDS}/{batch}{BEGUN}"])

    def promise(
        self,
        batch: str,
        keys: Sequence[int],
        names: Sequence[str],
        *,
        moves: Sequence[Move],
        record: RecordWriter,
    ) -> None:
        """Say what will be done in any case: what is staged is moved to its names, and the record counts.

        For a batch that takes along what older records have: to undo it would lose that. From now on what it
        has staged is the only copy, so nobody but `settle` may remove it.
        """
        content = {"keys": [int(key) for key in keys], "names": [*names], "moves": [*moves]}
        self.storage.write(f"{RECORDS}/{batch}{BEGUN}", sealed(content, record.to_bytes()))

    def keep_own(self, batch: str) -> None:
        """Keep a promise right after it was made, by whoever has staged the files."""
        if not self._finish_batch(batch, trusted=True):
            path = self.storage.path(f"{self.storage.staging}/{batch}")
            raise StorageError(
                f"{path}: what was staged there is gone; whatever removes it must leave .splitter alone; "
                "run the same command again to continue"
            )

    def finish_batch(self, batch: str) -> bool:
        """Bring to its end a batch that was begun: as promised, else undone; says whether it counts."""
        return self._finish_batch(batch, trusted=False)

    def _finish_batch(self, batch: str, *, trusted: bool) -> bool:
        begun = f"{RECORDS}/{batch}{BEGUN}"
        committed = self.storage.exists(f"{RECORDS}/{batch}")
        if not committed and self.storage.exists(begun):
            content, record = self._begun(begun)
            committed = "moves" in content and self._moved(content["moves"], trusted=trusted)
            if committed:
                there = {move.target for move in content["moves"]}
                self.storage.remove(name for name in content["names"] if name not in there)
                # the commit must not be there after a power cut without what it speaks of
                self.storage.sync(content["names"])
                self.storage.write(f"{RECORDS}/{batch}", record)
            else:
                self._undo(batch, content)
        self.storage.remove([begun])
        return committed

    def _moved(self, moves: Sequence[Move], *, trusted: bool) -> bool:
        """Move what was promised; says whether all of it is there now, as it was promised.

        What is not trusted to be in staging is looked at before anything is moved.
        """
        left = [move for move in moves if trusted or self._holds(move.source, move)]
        moved_before = [move for move in moves if move not in left]
        if not all(self._holds(move.target, move) for move in moved_before):
            return False
        return all(
            self.storage.move(move.source, move.target) or self._holds(move.target, move) for move in left
        )

    def _holds(self, name: str, move: Move) -> bool:
        """Whether a name has what was promised; earlier versions have only promised that it is in staging."""
        if not move.checksum:
            return name == move.source and self.storage.exists(name)
        return self.storage.measured(name) == (move.size, move.checksum)

    def release(self, batch: str) -> None:
        """Remove what a batch has staged on this machine, unless that is the only copy of what was promised.

        For whoever ends a batch at any moment; asks no object store.
        """
        if self.storage.parks_copies:
            self.storage.unstage(batch, and_parked=False)
        elif not self._is_promised(batch):
            self.storage.unstage(batch)

    def _is_promised(self, batch: str) -> bool:
        begun = f"{RECORDS}/{batch}{BEGUN}"
        if self.storage.exists(f"{RECORDS}/{batch}") or not self.storage.exists(begun):
            return False
        content, _ = self._begun(begun)
        return "moves" in content

    def _undo(self, batch: str, content: dict[str, Any]) -> None:
        self.storage.withdraw(content["names"])
        # else a power cut would bring back what no record names any more
        self.storage.sync(content["names"])
        record = RecordWriter()
        for key in content["keys"]:
            record.add_not_done(key)
        self.commit(batch, record)

    def _begun(self, name: str) -> tuple[dict[str, Any], bytes]:
        try:
            return _parse_begun(name.rpartition("/")[2], self.storage.read(name))
        except (ValueError, KeyError, TypeError) as error:
            message = f"{self.storage.path(name)}: is damaged ({error})"
            raise StorageError(f"{message}; remove it, and run with --fresh") from None

    def recover(self) -> None:
        """Settle every batch that was begun and not committed. Only under the lock, with no worker left.

        A part leaves alone what may be of another one that is at work.
        """
        self.storage.confirm()
        part = self.storage.part
        with self.storage.gate() if part else contextlib.nullcontext():
            begun = [
                name
                for name in self._record_names()
                if name.endswith(BEGUN) and (part is None or part.may_undo(name))
            ]
            for name in begun:
                # nothing is touched where one of them is of a stranger
                self._begun(f"{RECORDS}/{name}")
            for name in begun:
                self.finish_batch(name.removesuffix(BEGUN))
        self.storage.clear_staging()
        if part is None:
            self.storage.forget_parts()

    def forget(self, entries: np.ndarray, batch: str) -> int:
        """Remove the outputs of some inputs, and that they were done; returns how many files went."""
        names = [*dict.fromkeys(map(file_with, self.outputs(entries)))]
        self.begin(batch, self.entries["key"][entries].tolist(), names)
        self.finish_batch(batch)
        return len(names)

    # -- what is done --------------------------------------------------------------------------------

    def load(self) -> None:
        """Read the index of every record."""
        self._names = [name for name in self._record_names() if not name.endswith(BEGUN)]
        self.storage.have_at_hand([f"{RECORDS}/{name}" for name in self._names])
        heads: dict[RowColumns, int] = {}
        entries, where, text_at = [np.empty(0, ENTRY)], [np.empty(0, "i4")], [np.empty(0, "i8")]
        for number, name in enumerate(self._names):
            record = Record.read(self.storage, name)
            numbers = np.array([heads.setdefault(head, len(heads)) for head in record.heads], "u4")
            lengths = record.entries["text"].astype("i8")
            record.entries["head"] = numbers[record.entries["head"]]
            entries.append(record.entries)
            where.append(np.full(len(lengths), number, "i4"))
            text_at.append(record.texts_at + np.cumsum(lengths) - lengths)
        self.heads = list(heads)
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
        if not (len(keys) and len(self._by_key)):
            return found
        known = self.entries["key"][self._by_key]
        for start in range(0, len(keys), _KEYS_AT_ONCE):
            block = keys[start : start + _KEYS_AT_ONCE]
            # in order, since steps through all of a large table take many times as long
            order = np.argsort(block)
            block = block[order]
            at = np.minimum(np.searchsorted(known, block), len(known) - 1)
            same = known[at] == block
            found[start + order[same]] = self._by_key[at[same]]
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

    def failed(self) -> np.ndarray:
        """The entries that are failures."""
        return np.flatnonzero(self.entries["status"] == FAILED)

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
        done = self.entries["status"][entries] == DONE
        for is_done, (head, rows) in zip(done.tolist(), self.rows_of_each(entries), strict=True):
            at = len(head.columns)
            yield [row[at] for row in rows if row[at]] if is_done else []

    def rows_of_each(self, entries: np.ndarray) -> Iterator[tuple[RowColumns, list[Row]]]:
        """The rows of each entry as they stand in its record, and what their columns are."""
        entries = np.asarray(entries, "i8")
        for number, text in zip(entries.tolist(), self._texts(entries), strict=True):
            yield self.heads[self.entries["head"][number]], self._rows(number, text)

    def _rows(self, number: int, text: bytes) -> list[Row]:
        """The rows of an entry; what no run has written is used for nothing."""
        head, failed = self.heads[self.entries["head"][number]], self.entries["status"][number] == FAILED
        at = len(head.columns)
        width = at + len(ERROR_COLUMNS) if failed else len(head.names)
        problem = ""
        try:
            rows = parse_rows(text)
        except csv.Error as error:
            rows, problem = [], str(error)
        for row in rows:
            if len(row) != width:
                problem = "its rows are wrong"
            elif not failed and row[at] and not is_output(row[at]):
                problem = f"it names the output {shown(row[at])}"
        if problem:
            path = self.storage.path(f"{RECORDS}/{self._names[self._where[number]]}")
            raise StorageError(f"{path}: is damaged ({problem}); remove it to do its inputs again")
        return rows

    def listed(self, entries: np.ndarray, column: str) -> list[str]:
        """Some inputs as they were written in the list."""
        names = []
        for head, rows in self.rows_of_each(entries):
            known = rows and column in head.columns
            names.append(rows[0][head.columns.index(column)] if known else "?")
        return names

    def first_failure(
        self, failed: np.ndarray, column: str, kind: Callable[[str, str], str] = lambda error, _: error
    ) -> tuple[str, str] | None:
        """The first of some entries that have failed: what was listed, and why; None if there is none.

        `kind` makes of the error and its traceback what is said of them.
        """
        for head, rows in self.rows_of_each(failed[:1]):
            if not rows:
                continue
            error, message, traceback = rows[0][len(head.columns) :][:3]
            said = kind(error, traceback)
            listed = rows[0][head.columns.index(column)] if column in head.columns else "?"
            return one_line(listed), f"{said}: {message}" if message else said
        return None

    def _texts(self, entries: np.ndarray) -> Iterator[bytes]:
        """The text of each entry."""
        with _OpenRecords(self.storage, self._names) as opened:
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
        first = first_line(self.heads, len(entries), size)
        with self.storage.replacing(f"{RECORDS}/{name}") as file:
            digest = xxhash.xxh3_128()
            blocks = (self.entries[block].tobytes() for block in _blocks(entries))
            for piece in chain([first], blocks, (piece for _, piece in self.pieces(entries))):
                digest.update(piece)
                file.write(piece)
            file.write(digest.digest())
        # what says that inputs are not done goes last, the oldest first: never before what it has made void
        voiding = {*np.unique(self._where[self.entries["status"] == NOT_DONE]).tolist()}
        names = [f"{RECORDS}/{old}" for old in self._names]
        self.storage.remove(name for number, name in enumerate(names) if number not in voiding)
        for number in sorted(voiding):
            # a power cut keeps to no order but this
            self.storage.sync([names[number]])
            self.storage.remove([names[number]])

    def heads_in_order(self, entries: np.ndarray) -> list[RowColumns]:
        """The columns that some entries have, as they are first met."""
        seen: dict[int, None] = {}
        for block in _blocks(entries):
            numbers, first = np.unique(self.entries["head"][block], return_index=True)
            seen.update(dict.fromkeys(numbers[np.argsort(first)].tolist()))
        return [self.heads[number] for number in seen]

    def pieces(self, entries: np.ndarray) -> Iterator[tuple[int, bytes]]:
        """The texts of the entries with the number of their head, neighbours in one piece."""
        with _OpenRecords(self.storage, self._names) as opened:
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


def _parse_begun(name: str, text: bytes, *, strict: bool = False) -> tuple[dict[str, Any], bytes]:
    """What a begun record says; a ValueError, KeyError or TypeError says that no run has written it."""
    content, record = unsealed(text, strict=strict)
    keys, names, moves = content["keys"], content["names"], content.get("moves", [])
    if not isinstance(keys, list) or not all(type(key) is int and 0 <= key < _MOST_KEYS for key in keys):
        raise ValueError("its keys are wrong")
    if not (isinstance(names, list) and isinstance(moves, list)):
        raise ValueError("its names are wrong")  # noqa: TRY004 - as of what is no JSON
    moves = [*map(Move.of, moves)]
    # of a part there is a folder in between
    batch = re.escape(name.removesuffix(BEGUN))
    staged = re.compile(rf"{re.escape(STAGING)}/(part-[0-9]+-of-[0-9]+/)?{batch}/")
    for one in (*names, *(move.target for move in moves)):
        if not is_output(one):
            raise ValueError(f"it names {shown(one)}, which no run writes")
    for move in moves:
        if not (is_clean(move.source) and staged.match(move.source)):
            raise ValueError(f"it moves {shown(move.source)}, which no run has staged")
    if "moves" in content:
        content["moves"] = moves
        Record.parse(io.BytesIO(record))
    return content, record


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
            path = self._storage.path(f"{RECORDS}/{self._names[number]}")
            raise StorageError(f"{path}: is cut short; remove it to do its inputs again")
        return text
