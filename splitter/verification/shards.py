"""A shard checked: every content by its checksum, and the whole against what its rows would make of them.

The sink writes the shard again, from the rows of the commit records and the contents that are there. So no
byte of a shard goes unseen: not of a header, of the JSON beside a content, of what fills up. Another release
of pyarrow may write other bytes for the same table: of one that it wrote, the values are compared.
"""

import filecmp
import io
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, cast

import xxhash

from splitter.audio.headers import header_columns, header_fault, header_of
from splitter.errors import RunStopped
from splitter.ledger.journal import Journal
from splitter.ledger.recipe_record import how_before
from splitter.ledger.records import RowColumns
from splitter.options import RunOptions
from splitter.outputs.reader import Address, OutputReader
from splitter.sinks import SINKS, OutputOwner
from splitter.sinks.columns import ColumnHistory, OutputColumns, earlier_columns
from splitter.sinks.parquet import ParquetSink
from splitter.sinks.shards import CHECKSUM_AT, OFFSET_AT, SIZE_AT, ShardSample, ShardSink, typed_row
from splitter.storage.base import Storage
from splitter.storage.content import checksum_of, measure_file
from splitter.storage.layout import shard_of
from splitter.system.temporary_folders import temporary_errors, temporary_folder
from splitter.text.csv import Row

HEADER_BYTES = 1 << 16
Find = Callable[[str, str, str], None]


@dataclass(frozen=True)
class Reshard:
    """The sinks that made the shards of a folder.

    Attributes:
        storage: The folder.
        sinks: As the last run had it, then as earlier ones; none if that cannot be told.
        writers: The releases of pyarrow that have written tables there.
    """

    storage: Storage
    sinks: tuple[ShardSink, ...] = ()
    writers: frozenset[str] = frozenset()

    @classmethod
    def of(cls, storage: Storage, header: Row, *, whole: bool) -> "Reshard":
        """From what runs have kept, if that is whole."""
        if not whole:
            return cls(storage)
        written = ColumnHistory.of(storage)
        columns = written.columns or ((earlier_columns(storage), header),)
        before, earlier = how_before(storage)
        sinks = [one for how in (before, *earlier) for one in _sinks(how, columns)]
        return cls(storage, tuple(sinks), frozenset(written.writers))

    def check(self, journal: Journal, shard: str, entries: Any, find: Find) -> tuple[int, int]:  # noqa: ANN401
        """Look at one shard, whose rows the entries have; how many outputs it has, and their bytes.

        An OSError says what is there instead; a NoTemporarySpace, that it cannot be told.
        """
        rows = sorted(_rows(journal, shard, entries), key=lambda one: int(one[1][one[2] + OFFSET_AT]))
        sinks = [sink for sink in self.sinks if shard.endswith(sink.suffix)]
        with temporary_folder() as folder:
            root = self.storage.near(shard, f"{folder}/copy")
            there, path = f"{root}/{shard}", f"{folder}/{os.path.basename(shard)}"
            contents = _Contents(OutputReader(root), rows)
            samples = contents.checked(find)
            if sinks:
                _write(sinks[0], path, shard, samples)
            # where there is no sink; else there are none left
            sum(1 for _ in samples)
            size = contents.bytes
            if contents.unreadable:
                if root != self.storage.root:
                    with temporary_errors():
                        # the copy is still there
                        os.stat(there)
                reasons = {
                    output: text.replace(root, self.storage.root)
                    for output, text in contents.unreadable.items()
                }
                _tell_unreadable(shard, reasons, len(rows), find)
            elif sinks and (problem := self._difference(path, there)):
                for sink in sinks[1:]:
                    _write(sink, path, shard, contents)
                    if not self._difference(path, there):
                        break
                else:
                    find("shard", shard, problem)
        return len(rows), size

    def _difference(self, made: str, there: str) -> str:
        """How a shard differs from what was written from its rows, if it does."""
        try:
            return self._compared(made, there)
        except OSError:
            # also of a shard that is near as a copy
            for path in (made, there):
                if path.startswith(f"{os.path.dirname(made)}/"):
                    with temporary_errors(), open(path, "rb", buffering=0) as file:
                        measure_file(file)
            raise

    def _compared(self, made: str, there: str) -> str:
        # comparing reads both to their ends
        if filecmp.cmp(made, there, shallow=False):
            return ""
        if there.endswith(".parquet"):
            wrote, own = (str(ParquetSink.writer_of(path)) for path in (there, made))
            if wrote in self.writers - {own} and ParquetSink.same_values(made, there):
                return ""
        return _first_difference(made, there)


def _sinks(how: dict[str, Any], written: Iterable[tuple[OutputColumns | None, Row]]) -> Iterator[ShardSink]:
    """The sink of a run; where tables have been written with different columns, one for each."""
    fields = [f"{name}={column}" for name, column in how.get("field", {}).items()]
    sink = SINKS[how["sink"]](RunOptions(sink=how["sink"], field=fields))
    if not isinstance(sink, ShardSink):
        return
    if not sink.needs_columns:
        yield sink
        return
    for columns, header in written:
        if columns is not None:
            yield cast("ShardSink", sink.with_columns(columns, header))


class _Contents:
    """What stands in a shard, output by output."""

    def __init__(self, reader: OutputReader, rows: list[tuple[RowColumns, Row, int]]) -> None:
        self._reader, self._rows = reader, rows
        self.bytes = 0
        # the outputs that cannot be read, and why
        self.unreadable: dict[str, str] = {}

    def __iter__(self) -> Iterator[ShardSample]:
        yield from self.checked(lambda *_: None)

    def checked(self, find: Find) -> Iterator[ShardSample]:
        """Each as it was given to the sink; notes what is wrong with it."""
        for head, row, at in self._rows:
            output, size, offset = row[at], int(row[at + SIZE_AT]), int(row[at + OFFSET_AT])
            try:
                content = self._reader.read(Address(output, size, shard_offset=offset))
            except RunStopped as error:
                self.unreadable[output] = str(error)
                continue
            self.bytes += len(content)
            _check_content(head, row, at, content, find)
            yield _sample(head, row, at, content)


def _write(sink: ShardSink, path: str, shard: str, samples: Iterable[ShardSample]) -> None:
    with temporary_errors():
        again = sink.shard(path, shard, sink)
    try:
        for sample in samples:
            with temporary_errors():
                again.add(sample)
        with temporary_errors():
            again.close()
    except BaseException:
        again.discard()
        raise


def _rows(journal: Journal, shard: str, entries: Any) -> Iterator[tuple[RowColumns, Row, int]]:  # noqa: ANN401
    for head, rows in journal.rows_of_each(entries):
        at = len(head.columns)
        yield from ((head, row, at) for row in rows if shard_of(row[at])[0] == shard)


def _check_content(head: RowColumns, row: Row, at: int, content: bytes, find: Find) -> None:
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


def _sample(head: RowColumns, row: Row, at: int, content: bytes) -> ShardSample:
    key, _, extension = shard_of(row[at])[1].partition(".")
    types = {"size": "int", **dict((*head.outputs, *head.inputs))}
    blank = [*row]
    blank[at] = blank[at + OFFSET_AT] = ""
    typed = typed_row(OutputOwner(0, 0, head.names, types, at, [blank]), blank)
    return ShardSample(key, extension, len(content), row[at + CHECKSUM_AT], content, typed)


def _first_difference(one: str, other: str) -> str:
    """Where a shard differs from what it was."""
    at = 0
    with open(one, "rb") as made, open(other, "rb") as there:
        while (block := made.read(1 << 16)) == (found := there.read(1 << 16)) and block:
            at += len(block)
    same = zip(block, found, strict=False)
    at += next(
        (index for index, (one_byte, byte) in enumerate(same) if one_byte != byte),
        min(len(block), len(found)),
    )
    return f"is not, from byte {at:,} on, what was written from its rows"
