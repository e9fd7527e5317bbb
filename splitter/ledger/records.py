"""Commit records: what became of the inputs of a batch.

A record is one file that a batch leaves on storage: a line of JSON, then one `ENTRY` for each input, then
each input's rows of manifest.csv (or its row of errors.csv) as CSV, ready to copy, and at the end the digest
of all this:

    {"heads": [...], "entries": 2, "text": 41, "digest": "xxh128"}
    entry entry
    a.txt,a/0.txt,2,xxh128:…,si
    …
    16 bytes

If the batch publishes shards, the first line also has their sizes and checksums:

    {..., "shards": {"shards/shard-000000.tar": [10240, "xxh128:…"]}}
"""

import json
import os
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import xxhash

from splitter.ledger.run_files import RECORD
from splitter.storage.base import Storage
from splitter.storage.checked_file import json_of
from splitter.storage.layout import RECORDS
from splitter.text.csv import Row

OUTPUT_COLUMNS = ("output", "size", "checksum")
# the positions of these columns in a row, counted from `output`
SIZE_AT, CHECKSUM_AT = map(OUTPUT_COLUMNS.index, ("size", "checksum"))
SKIPPED_COLUMN = "skipped"
# the metadata key of the length of a recording
RECORDED = "source_seconds"
ERROR_COLUMNS = ("error", "message", "traceback", "attempts")
OWN_COLUMNS = (*OUTPUT_COLUMNS, SKIPPED_COLUMN, *ERROR_COLUMNS)

NOT_DONE, DONE, SKIPPED, FAILED = range(4)
# never in a commit record: for an input whose entry is from before a change
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
_ENTRY = struct.Struct("<QQBIIQQ")
_PACK, _UNPACK = _ENTRY.pack, _ENTRY.unpack
# the digest at the end of a record
DIGEST, DIGEST_BYTES = "xxh128", 16
_READ_AT_ONCE = 8 << 20
# of the first line, which has some hundred thousand bytes if there are thousands of columns
_LONGEST_LINE = 1 << 26
# the types of metadata; empty if all values were None
_TYPES = ("", "str", "int", "float", "bool")

assert _ENTRY.size == ENTRY.itemsize  # noqa: S101 - two descriptions of one layout


class RowColumns(NamedTuple):
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

    @property
    def types(self) -> dict[str, str]:
        """The types of all metadata, by key."""
        return dict((*self.outputs, *self.inputs))

    @classmethod
    def from_json(cls, value: list[Any]) -> "RowColumns":
        """Parse the columns of a record; raise ValueError or TypeError if no run can have written them."""
        columns, outputs, inputs = value
        head = cls(tuple(columns), tuple(map(tuple, outputs)), tuple(map(tuple, inputs)))
        if not isinstance(columns, list) or not all(isinstance(name, str) for name in columns):
            raise ValueError("its columns are wrong")
        if not all(isinstance(key, str) and kind in _TYPES for key, kind in (*outputs, *inputs)):
            raise ValueError("its columns are wrong")
        return head


# the size and the checksum of each shard, by its name
ShardSums = dict[str, tuple[int, str]]


class RecordWriter:
    """The entries of a batch, collected one by one into a record.

    Attributes:
        shards: The size and the checksum of each shard that the batch publishes.
    """

    def __init__(self) -> None:
        self.shards: ShardSums = {}
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
        """Add the entry that an input is not done, whatever older records say."""
        self.add(key, 0, NOT_DONE, head=RowColumns(()), outputs=0, size=0, text=b"")

    def done(self) -> Iterator[tuple[RowColumns, bytes]]:
        """Yield the columns and the rows of each input that is done."""
        heads = [*self._heads]
        for entry, text in zip(self._entries, self._texts, strict=True):
            _, _, status, head, *_ = _UNPACK(entry)
            if status == DONE:
                yield heads[head], text

    def to_bytes(self) -> bytes:
        """Return the record."""
        text = b"".join(self._texts)
        first = first_line(self._heads, len(self._entries), len(text), self.shards)
        record = b"".join((first, *self._entries, text))
        return record + xxhash.xxh3_128_digest(record)


def first_line(
    heads: Iterable[RowColumns], entries: int, text: int, shards: ShardSums | None = None
) -> bytes:
    """Return the first line of a record, without the shards if these make it too long to be read back."""
    content: dict[str, Any] = {
        "heads": [*heads],
        "entries": entries,
        "text": text,
        "digest": DIGEST,
    }
    with_shards = json.dumps({**content, "shards": shards} if shards else content).encode() + b"\n"
    return with_shards if len(with_shards) <= _LONGEST_LINE else json.dumps(content).encode() + b"\n"


@dataclass(frozen=True)
class Record:
    """The index of a record.

    Attributes:
        heads: Its columns.
        entries: Its entries.
        texts_at: Where its texts start in the file.
        shards: The sizes and checksums of shards that it states.
        has_digest: Whether it ends with its own checksum, which the earliest versions did not write.
    """

    heads: list[RowColumns]
    entries: np.ndarray
    texts_at: int
    shards: ShardSums
    has_digest: bool

    @classmethod
    def read(cls, storage: Storage, name: str) -> "Record":
        """Read a record, except for its texts."""
        with storage.open(f"{RECORDS}/{name}") as file:
            try:
                return cls.parse(file)
            except (ValueError, KeyError, TypeError) as error:
                raise RECORD.named(f"{RECORDS}/{name}").damaged(storage, error) from None

    @classmethod
    def fault(cls, storage: Storage, name: str) -> str:
        """Read all of a record; return what is wrong with it, and what to do, or nothing if it is whole."""
        with storage.open(f"{RECORDS}/{name}") as file:
            try:
                if not cls.parse(file).has_digest:
                    return ""
            except (ValueError, KeyError, TypeError) as error:
                return RECORD.fault_of(error)
            end = file.seek(-DIGEST_BYTES, os.SEEK_END)
            stated = file.read()
            file.seek(0)
            digest = xxhash.xxh3_128()
            while left := end - file.tell():
                digest.update(file.read(min(left, _READ_AT_ONCE)))
        return "" if digest.digest() == stated else RECORD.fault_of("its checksum does not match")

    @classmethod
    def parse(cls, file: BinaryIO) -> "Record":
        """Read all but the texts; raise ValueError, KeyError or TypeError if no run can have written it."""
        line = file.readline(_LONGEST_LINE)
        first = json_of(line)
        if not line.endswith(b"\n") or not isinstance(first, dict):
            raise ValueError("its first line is wrong")
        heads = [RowColumns.from_json(head) for head in first["heads"]]
        count, text = first["entries"], first["text"]
        if type(count) is not int or type(text) is not int or count < 0 or text < 0:
            raise ValueError("its first line is wrong")
        texts_at = len(line) + count * ENTRY.itemsize
        has_digest = first.get("digest") == DIGEST
        end = texts_at + text + (DIGEST_BYTES if has_digest else 0)
        # check this before reading more, and not only when all the work is done and the manifest is made
        if file.seek(0, os.SEEK_END) != end:
            raise ValueError("its size is wrong")
        file.seek(len(line))
        entries = np.frombuffer(bytearray(file.read(count * ENTRY.itemsize)), ENTRY)
        lengths = entries["text"]
        if (
            (count and (entries["head"].max() >= len(heads) or entries["status"].max() > FAILED))
            # each one first, since their sum might overflow
            or (lengths > text).any()
            or int(lengths.sum(dtype="f8")) > 2 * text
            or int(lengths.sum(dtype="i8")) != text
        ):
            raise ValueError("its entries are wrong")
        return cls(heads, entries, texts_at, _shards_of(first.get("shards", {})), has_digest)


def _shards_of(value: Any) -> ShardSums:  # noqa: ANN401 - whatever JSON holds
    if not isinstance(value, dict):
        raise ValueError("its shards are wrong")  # noqa: TRY004 - as for invalid JSON
    shards = {name: (size, checksum) for name, (size, checksum) in value.items()}
    if not all(type(size) is int and isinstance(checksum, str) for size, checksum in shards.values()):
        raise ValueError("its shards are wrong")
    return shards
