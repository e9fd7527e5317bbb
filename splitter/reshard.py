"""A shard checked: every content by its checksum, and the whole against what its rows would make of them.

The sink writes the shard again, from the rows of the commit records and the contents that are there. So no
byte of a shard goes unseen: not of a header, of the JSON beside a content, of what fills up.
"""

import filecmp
import io
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, cast

import xxhash

from splitter.columns import Columns
from splitter.content import checksum_of
from splitter.csv_text import Row
from splitter.errors import RunStopped
from splitter.headers import header_columns, header_fault, header_of
from splitter.manifest import Head, Journal
from splitter.options import RunOptions
from splitter.outputs import Address, OutputReader
from splitter.places import OWN_FOLDER, shard_of
from splitter.sinks import SINKS, Owner
from splitter.sinks.shards import CHECKSUM_AT, OFFSET_AT, SIZE_AT, Sample, ShardSink, typed_row
from splitter.storage import Storage

# as the trial before a run keeps it
_COLUMNS = f"{OWN_FOLDER}/columns.json"
HEADER_BYTES = 1 << 16
Find = Callable[[str, str, str], None]


@dataclass(frozen=True)
class Reshard:
    """The sink that made the shards of a folder."""

    storage: Storage
    sink: ShardSink

    @classmethod
    def of(cls, storage: Storage, how: dict[str, Any], header: Row) -> "Reshard":
        """From what the last run has kept."""
        fields = [f"{name}={column}" for name, column in how.get("field", {}).items()]
        sink = SINKS[how["sink"]](RunOptions(sink=how["sink"], field=fields))
        assert isinstance(sink, ShardSink)  # noqa: S101 - rows point into shards
        if sink.needs_columns and storage.exists(_COLUMNS):
            columns = Columns.from_json(json.loads(storage.read(_COLUMNS))["columns"])
            sink = cast("ShardSink", sink.with_columns(columns, header))
        return cls(storage, sink)

    def check(self, journal: Journal, shard: str, entries: Any, find: Find) -> tuple[int, int]:  # noqa: ANN401
        """Look at one shard, whose rows the entries have; how many outputs it has, and their bytes.

        An OSError says what is there instead.
        """
        rows = sorted(_rows(journal, shard, entries), key=lambda one: int(one[1][one[2] + OFFSET_AT]))
        size = 0
        with tempfile.TemporaryDirectory(prefix="splitter-verify-") as folder:
            root = self.storage.near(shard, f"{folder}/copy")
            path = f"{folder}/{os.path.basename(shard)}"
            reader = OutputReader(root)
            again = self.sink.shard(path, shard, self.sink)
            unreadable: dict[str, str] = {}
            for head, row, at in rows:
                output, wanted, offset = row[at], int(row[at + SIZE_AT]), int(row[at + OFFSET_AT])
                try:
                    content = reader.read(Address(output, wanted, shard_offset=offset))
                except RunStopped as error:
                    unreadable[output] = str(error).replace(root, self.storage.root)
                    continue
                size += len(content)
                _check_content(head, row, at, content, find)
                if not unreadable:
                    again.add(_sample(head, row, at, content))
            if unreadable:
                again.discard()
                _tell_unreadable(shard, unreadable, len(rows), find)
                return len(rows), size
            again.close()
            # comparing reads both to their ends
            there = f"{root}/{shard}"
            if not filecmp.cmp(path, there, shallow=False):
                find("shard", shard, _first_difference(path, there))
        return len(rows), size


def _rows(journal: Journal, shard: str, entries: Any) -> Iterator[tuple[Head, Row, int]]:  # noqa: ANN401
    for head, rows in journal.rows_of_each(entries):
        at = len(head.columns)
        yield from ((head, row, at) for row in rows if shard_of(row[at])[0] == shard)


def _check_content(head: Head, row: Row, at: int, content: bytes, find: Find) -> None:
    output, stated = row[at], row[at + CHECKSUM_AT]
    found = checksum_of(xxhash.xxh3_128(content))
    if found != stated:
        find("checksum", output, f"has the checksum {found} where the manifest says {stated}")
        return
    sound = header_columns(head)
    header = header_of(output, content[:HEADER_BYTES], len(content), io.BytesIO(content)) if sound else None
    problem = header_fault(header, row, sound) if header else None
    if problem:
        find(problem[0], output, problem[1])


def _tell_unreadable(shard: str, reasons: dict[str, str], outputs: int, find: Find) -> None:
    """Name what cannot be read: each output, or the shard if that is all of them."""
    if len(reasons) == outputs > 1:
        find("unreadable", shard, f"{next(iter(reasons.values()))}; {outputs:,} outputs are in it")
        return
    for output, reason in reasons.items():
        find("unreadable", output, reason)


def _sample(head: Head, row: Row, at: int, content: bytes) -> Sample:
    key, _, extension = shard_of(row[at])[1].partition(".")
    types = {"size": "int", **dict((*head.outputs, *head.inputs))}
    blank = [*row]
    blank[at] = blank[at + OFFSET_AT] = ""
    typed = typed_row(Owner(0, 0, head.names, types, at, [blank]), blank)
    return Sample(key, extension, len(content), row[at + CHECKSUM_AT], content, typed)


def _first_difference(one: str, other: str) -> str:
    """Where a shard differs from what it was."""
    at = 0
    with open(one, "rb") as made, open(other, "rb") as there:
        while (block := made.read(1 << 16)) == (found := there.read(1 << 16)) and block:
            at += len(block)
    same = zip(block, found, strict=False)
    at += next(
        (place for place, (one_byte, byte) in enumerate(same) if one_byte != byte),
        min(len(block), len(found)),
    )
    return f"is not, from byte {at:,} on, what was written from its rows"
