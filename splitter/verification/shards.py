"""Check a shard by its size and checksum and, if these differ, each output in it by its own.

The commit records of earlier versions have no checksums of shards. For these, only the outputs are checked,
not the bytes between them.
"""

import contextlib
import io
import os
from collections.abc import Callable, Iterator

import numpy as np
import xxhash

from splitter.audio.headers import header_columns, header_fault, header_of
from splitter.errors import RunStopped
from splitter.ledger.journal import Journal
from splitter.ledger.records import CHECKSUM_AT, SIZE_AT, RowColumns
from splitter.outputs.reader import Address, OutputReader
from splitter.sinks.shards import OFFSET_AT
from splitter.storage.base import Storage
from splitter.storage.content import checksum_of, measure_file
from splitter.storage.layout import shard_of
from splitter.system.temporary_folders import temporary_errors, temporary_folder
from splitter.text.csv import Row

HEADER_BYTES = 1 << 16
Find = Callable[[str, str, str], None]
# the columns of a row, the row, and the index of the column that names the output
_ShardRow = tuple[RowColumns, Row, int]


def check_shard(
    storage: Storage, journal: Journal, shard: str, entries: np.ndarray, find: Find
) -> tuple[int, int]:
    """Check a shard that holds the outputs of some entries; return the number of outputs and their bytes.

    Raise OSError if the shard does not exist or cannot be read, and NoTemporarySpace if it cannot be copied.
    """
    rows = sorted(_rows_in(shard, journal, entries), key=lambda one: int(one[1][one[2] + OFFSET_AT]))
    stated = journal.stated_shard(shard, entries)
    with temporary_folder() as folder:
        root = storage.near(shard, folder)
        copy_errors = contextlib.nullcontext if root == storage.root else temporary_errors
        with copy_errors(), open(f"{root}/{shard}", "rb", buffering=0) as file:
            is_whole = stated is not None and measure_file(file) == stated
        if is_whole and not any(header_columns(head) for head, _, _ in rows):
            return len(rows), sum(int(row[at + SIZE_AT]) for _, row, at in rows)
        size, faults, unreadable = _check_outputs(OutputReader(root), rows, find)
        if unreadable:
            with copy_errors():
                # raises if the reason is that the copy is gone
                os.stat(f"{root}/{shard}")
            reasons = {name: why.replace(root, storage.root) for name, why in unreadable.items()}
            _tell_unreadable(shard, reasons, len(rows), find)
        elif stated is not None and not (is_whole or faults):
            find("shard", shard, "is not what was written, though each output in it is whole")
    return len(rows), size


def _rows_in(shard: str, journal: Journal, entries: np.ndarray) -> Iterator[_ShardRow]:
    for head, rows in journal.rows_of_each(entries):
        at = len(head.columns)
        yield from ((head, row, at) for row in rows if shard_of(row[at])[0] == shard)


def _check_outputs(
    reader: OutputReader, rows: list[_ShardRow], find: Find
) -> tuple[int, int, dict[str, str]]:
    """Compare each output in a shard with its row.

    Return the number of bytes read, the number of outputs that differ, and why others cannot be read.
    """
    read = faults = 0
    unreadable: dict[str, str] = {}
    for head, row, at in rows:
        output, size, offset = row[at], int(row[at + SIZE_AT]), int(row[at + OFFSET_AT])
        try:
            content = reader.read(Address(output, size, shard_offset=offset))
        except RunStopped as error:
            unreadable[output] = str(error)
            continue
        read += len(content)
        if fault := _fault(head, row, at, content):
            faults += 1
            find(fault[0], output, fault[1])
    return read, faults, unreadable


def _fault(head: RowColumns, row: Row, at: int, content: bytes) -> tuple[str, str] | None:
    output, stated = row[at], row[at + CHECKSUM_AT]
    found = checksum_of(xxhash.xxh3_128(content))
    if found != stated:
        return "checksum", f"has the checksum {found} where the manifest says {stated}"
    sound = header_columns(head)
    header = header_of(output, content[:HEADER_BYTES], len(content), io.BytesIO(content)) if sound else None
    return header_fault(header, row, sound) if header else None


def _tell_unreadable(shard: str, reasons: dict[str, str], outputs: int, find: Find) -> None:
    """Add a finding for each output that cannot be read, or for the shard if none can."""
    if len(reasons) == outputs > 1:
        find("unreadable", shard, f"{next(iter(reasons.values()))}; {outputs:,} outputs are in it")
        return
    for output, reason in reasons.items():
        find("unreadable", output, reason)
