"""Commit records: what has become of the inputs of a batch.

A record is one file that a batch leaves on storage. It is a line of JSON, then one `ENTRY` for each
input, then for each input its rows of manifest.csv (or its row of errors.csv) as CSV, ready to copy, and at
the end the digest of all that:

    {"heads": [...], "entries": 2, "text": 41, "digest": "xxh128"}
    entry entry
    a.txt,a/0.txt,2,xxh128:…,si
    …
    16 bytes
"""

import json
import os
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
import xxhash

from splitter.errors import StorageError
from splitter.storage.base import Storage
from splitter.storage.checked_file import json_of
from splitter.storage.layout import RECORDS
from splitter.text.csv import Row

OUTPUT_COLUMNS = ("output", "size", "checksum")
SKIPPED_COLUMN = "skipped"
ERROR_COLUMNS = ("error", "message", "traceback", "attempts")
OWN_COLUMNS = (*OUTPUT_COLUMNS, SKIPPED_COLUMN, *ERROR_COLUMNS)

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
# how a record ends
DIGEST, DIGEST_BYTES = "xxh128", 16
_READ_AT_ONCE = 8 << 20
# of a head; of thousands of columns it has some hundred thousand bytes
_LONGEST_LINE = 1 << 26
# what metadata is; nothing of what was always None
_TYPES = ("", "str", "int", "float", "bool")

assert struct.calcsize("<QQBIIQQ") == ENTRY.itemsize  # noqa: S101 - two descriptions of one layout


@dataclass(frozen=True)
class RowColumns:
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
    def from_json(cls, value: list[Any]) -> "RowColumns":
        """As it is read from a record."""
        columns, outputs, inputs = value
        head = cls(tuple(columns), tuple(map(tuple, outputs)), tuple(map(tuple, inputs)))
        if not isinstance(columns, list) or not all(isinstance(name, str) for name in columns):
            raise ValueError("its columns are wrong")
        if not all(isinstance(key, str) and kind in _TYPES for key, kind in (*outputs, *inputs)):
            raise ValueError("its columns are wrong")
        return head


class RecordWriter:
    """Collects the entries of a batch, then gives the record's bytes."""

    def __init__(self) -> None:
        """Start empty."""
        self._heads: dict[RowColumns, int] = {}
        self._entries: list[bytes] = []
        self._texts: list[bytes] = []
        self._last: tuple[RowColumns | None, int] = (None, 0)

    def add(  # noqa: PLR0913 - the fields of an entry
        self,
        key: int,
        fingerprint: int,
        status: int,
        *,
        head: RowColumns,
        outputs: int,
        size: int,
        text: bytes,
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
        self.add(key, 0, NOT_DONE, head=RowColumns(()), outputs=0, size=0, text=b"")

    def to_bytes(self) -> bytes:
        """The record."""
        text = b"".join(self._texts)
        first = first_line(self._heads, len(self._entries), len(text))
        record = b"".join((first, *self._entries, text))
        return record + xxhash.xxh3_128_digest(record)


def first_line(heads: Iterable[RowColumns], entries: int, text: int) -> bytes:
    """What stands at the head of a record."""
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

    heads: list[RowColumns]
    entries: np.ndarray
    texts_at: int

    @classmethod
    def read(cls, storage: Storage, name: str) -> "Record":
        """Read all but the texts."""
        with storage.open(f"{RECORDS}/{name}") as file:
            try:
                return cls.parse(file)
            except (ValueError, KeyError, TypeError) as error:
                path = storage.path(f"{RECORDS}/{name}")
                remedy = "remove it to do its inputs again, or start over with --fresh"
                raise StorageError(f"{path}: is damaged ({error}); {remedy}") from None

    @classmethod
    def fault(cls, storage: Storage, name: str) -> str:
        """What is wrong with a record, if anything; all of it is read."""
        with storage.open(f"{RECORDS}/{name}") as file:
            try:
                cls.parse(file)
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
                digest.update(file.read(min(left, _READ_AT_ONCE)))
        return "" if digest.digest() == stated else "is damaged (its checksum does not match)"

    @classmethod
    def parse(cls, file: BinaryIO) -> "Record":
        """Read all but the texts; a ValueError, KeyError or TypeError says that no run has written it."""
        line = file.readline(_LONGEST_LINE)
        first = json_of(line)
        if not line.endswith(b"\n") or not isinstance(first, dict):
            raise ValueError("its first line is wrong")
        heads = [RowColumns.from_json(head) for head in first["heads"]]
        count, text = first["entries"], first["text"]
        if type(count) is not int or type(text) is not int or count < 0 or text < 0:
            raise ValueError("its first line is wrong")
        texts_at = len(line) + count * ENTRY.itemsize
        end = texts_at + text + (DIGEST_BYTES if first.get("digest") == DIGEST else 0)
        # found now, not when all the work is done and the manifest is made; and before anything is read
        if file.seek(0, os.SEEK_END) != end:
            raise ValueError("its size is wrong")
        file.seek(len(line))
        entries = np.frombuffer(bytearray(file.read(count * ENTRY.itemsize)), ENTRY)
        if count and (entries["head"].max() >= len(heads) or entries["status"].max() > FAILED):
            raise ValueError("its entries are wrong")
        # one by one, since their sum might go round
        if (entries["text"] > text).any() or int(entries["text"].sum(dtype="f8")) > 2 * text:
            raise ValueError("its entries are wrong")
        if int(entries["text"].sum(dtype="i8")) != text:
            raise ValueError("its entries are wrong")
        return cls(heads, entries, texts_at)
