"""Read back output files from any sink, in a folder or at a URL.

The column `output` of a manifest, and what it refers to:

    speech/a/0.wav                                        a loose file; without `size`, a piece to cut
    shards/shard-000000.tar/00000000-000000.wav           bytes of an archive, from `shard_offset` on
    shards/shard-000000.parquet/00000000-000000.wav       row `shard_offset` of a table
"""

import bisect
import contextlib
import functools
import io
import itertools
import os
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import xxhash

from splitter.archives.reader import read_members
from splitter.archives.row_groups import read_group, row_batches
from splitter.errors import Refused, StorageError
from splitter.inputs.pieces import CUT, SOURCE_CHECKSUM, SOURCE_SIZE, PieceAddress
from splitter.outputs.files import READ_AHEAD, ByteRange, Files, RemoteFiles, files_at
from splitter.outputs.pieces import PieceReader, have_virtual, is_virtual
from splitter.storage.content import checksum_of
from splitter.storage.layout import shard_of
from splitter.storage.names import is_output
from splitter.text.urls import is_url, without_scheme

# the columns of a shard's table that may hold contents
CONTENTS = ("audio", "file")
FOLDER = "splitter output folder"
# the number of shards that stay open; fewer tables, since each keeps a row group in memory
MOST_OPEN = {".tar": 16, ".parquet": 4}
MOST_AT_ONCE = 64
MOST_FOLDERS = 4
# the number of keys of a table to read at a time
MOST_KEYS = 1024
READ_ANEW = "if the outputs were redone, read the manifest again; if not, restore the file"


def read_output(row: Any, output: str | os.PathLike[str] | None = None) -> bytes:  # noqa: ANN401 - see below
    """Return the content of the output file in a row of the manifest, from any sink.

    Args:
        row: A row of `splitter.read_manifest`: a Series, a namedtuple of `itertuples`, or a dict.
        output: The output folder. Not needed for a Series from the manifest itself, which knows it.
    """
    values = _values(row)
    attributes = getattr(row, "attrs", None)
    folder = attributes.get(FOLDER) if output is None and isinstance(attributes, Mapping) else output
    if folder is None:
        raise Refused(
            "read_output: the row does not know its output folder; pass it, as in read_output(row, 'outputs')"
        )
    name = values.get("output")
    if not isinstance(name, str) or not name:
        listed = next((value for value in values.values() if isinstance(value, str)), "?")
        raise Refused(f"read_output: the row of {listed} has no output file; leave out rows without `output`")
    reader = _reader(os.fspath(folder))
    return reader.read(reader.address(values))


def _values(row: Any) -> Mapping[str, Any]:  # noqa: ANN401 - whatever a caller gave
    values = row._asdict() if isinstance(row, tuple) and hasattr(row, "_asdict") else row
    if isinstance(values, Mapping):
        return values
    # a Series; the to_dict of a DataFrame returns columns instead
    if getattr(values, "ndim", None) == 1 and hasattr(values, "to_dict"):
        return values.to_dict()
    kind = type(row).__name__
    raise Refused(f"read_output: {kind} is not a row of the manifest; pass one row, such as manifest.iloc[0]")


def number_of(value: Any) -> int | None:  # noqa: ANN401 - a number of any library, or text, or missing
    """Return the integer in a cell of a manifest; None if it has none."""
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError):
        return None


def offset_of(output: str, value: Any) -> int | None:  # noqa: ANN401 - as above
    """Return a cell of `shard_offset`; None for a loose file, for which that is a label or metadata."""
    return number_of(value) if shard_of(output)[0] else None


class Address(NamedTuple):
    """The address of an output, from its row of the manifest; only `output` is required."""

    output: str
    size: int | None = None
    checksum: str = ""
    shard_offset: int | None = None
    piece: PieceAddress | None = None


@functools.lru_cache(MOST_FOLDERS)
def _reader(folder: str) -> "OutputReader":
    return OutputReader(folder)


class OutputReader:
    """A reader of the outputs of one folder; in each process, the shards that it used last stay open."""

    def __init__(self, folder: str | os.PathLike[str], remedy: str = READ_ANEW) -> None:
        """Open nothing before the first output is read; messages about damage end with `remedy`."""
        self._remedy = remedy
        text = os.fspath(folder)
        self.folder = text if is_url(text) else os.path.abspath(os.path.expanduser(without_scheme(text)))
        self._process = 0
        self._files: Files
        self._pieces: PieceReader
        self._shards: OrderedDict[str, _OpenShard] = OrderedDict()

    def __reduce__(self) -> tuple[Any, ...]:
        """Leave out open files, which stay in their process."""
        return type(self), (self.folder, self._remedy)

    def address(self, row: Mapping[str, Any]) -> Address:
        """Return the address of the output in a row of the manifest."""
        name, checksum = str(row["output"]), row.get("checksum")
        if is_virtual(row):
            self._be_here()
            return Address(name, piece=self._pieces.address(row))
        size, offset = number_of(row.get("size")), offset_of(name, row.get("shard_offset"))
        return Address(name, size, checksum if isinstance(checksum, str) else "", offset)

    def columns_of_address(self, columns: Sequence[str]) -> list[str]:
        """Return the columns of a manifest that `address` needs."""
        needed = ["output", "size", "checksum", "shard_offset"]
        if have_virtual(columns):
            self._be_here()
            needed += [CUT, SOURCE_SIZE, SOURCE_CHECKSUM, self._pieces.column]
        return [name for name in needed if name in columns]

    def read(self, wanted: Address) -> bytes:
        """Return the content of an output; check its size and checksum if they are given."""
        self._be_here()
        if wanted.piece is not None:
            return self._pieces.read(wanted.piece)
        shard, name = shard_of(_checked(wanted.output))
        if not shard:
            there = self._files.size(name)
            if None not in (there, wanted.size) and there != wanted.size:
                # check this before memory is allocated for the content
                raise self._differs(wanted, self._of_size(there, wanted.size))
            return self._as_stated(wanted, self._files.read(name, gaps=wanted.size is not None))
        known = self._shards.get(shard)
        if known is not None:
            # behind the others: if there are too many, the first is closed, perhaps by another thread
            with contextlib.suppress(KeyError):
                self._shards.move_to_end(shard)
            try:
                return self._as_stated(wanted, known.read(name, wanted.size, wanted.shard_offset))
            except StorageError:
                # it may have been rewritten since it was opened
                self._shards.pop(shard, None)
        return self._as_stated(wanted, self._opened(shard).read(name, wanted.size, wanted.shard_offset))

    def read_in_order(self, many: Iterable[Address]) -> Iterator[bytes]:
        """Yield the contents of many outputs; in a store, one request reads those next to each other."""
        self._be_here()
        for some in _portions(many):
            parts = [_part_of(wanted) for wanted in some]
            if isinstance(self._files, RemoteFiles) and None not in parts:
                contents = self._files.parts([part for part in parts if part is not None])
                yield from map(self._as_stated, some, contents)
            else:
                yield from map(self.read, some)

    def plain_path(self, output: str) -> str:
        """Return the local path of a loose file; raise StorageError for anything else."""
        self._be_here()
        self._files.open(_checked(output)).close()
        return self._files.location(output)

    def _be_here(self) -> None:
        """Replace open files and clients of stores after a fork, which makes them useless."""
        if self._process != os.getpid():
            self._shards = OrderedDict()
            self._files = files_at(self.folder)
            self._pieces = PieceReader(self._files)
            self._process = os.getpid()

    def _opened(self, shard: str) -> "_OpenShard":
        kind = TarShardReader if shard.endswith(".tar") else ParquetShardReader
        found = kind(self._files, shard, self._remedy)
        if len(self._shards) >= MOST_OPEN[os.path.splitext(shard)[1]]:
            self._shards.popitem(last=False)
        self._shards[shard] = found
        return found

    def _as_stated(self, wanted: Address, content: bytes) -> bytes:
        if wanted.size is not None and len(content) != wanted.size:
            what = self._of_size(len(content), wanted.size)
        elif wanted.checksum and checksum_of(xxhash.xxh3_128(content)) != wanted.checksum:
            what = "its checksum differs from the manifest's"
        else:
            return content
        raise self._differs(wanted, what)

    @staticmethod
    def _of_size(there: int | None, stated: int | None) -> str:
        return f"has {there:,} bytes where the manifest says {stated:,}"

    def _differs(self, wanted: Address, what: str) -> StorageError:
        return StorageError(f"{self._files.location(wanted.output)}: {what}; {self._remedy}")


def _portions(many: Iterable[Address]) -> Iterator[list[Address]]:
    """Yield groups of outputs that fit in memory together."""
    some: list[Address] = []
    size = 0
    for wanted in many:
        some.append(wanted)
        size += wanted.size or 0
        if size >= READ_AHEAD or len(some) == MOST_AT_ONCE:
            yield some
            some, size = [], 0
    if some:
        yield some


def _part_of(wanted: Address) -> ByteRange | None:
    """Return the byte range of an output; None if the manifest does not tell it."""
    shard, name = shard_of(_checked(wanted.output))
    if not wanted.size or (shard and not shard.endswith(".tar")):
        return None
    if not shard:
        return ByteRange(name, 0, wanted.size)
    start = wanted.shard_offset
    return None if start is None or start < 0 else ByteRange(shard, start, start + wanted.size)


def _checked(output: str) -> str:
    """Return a name that stays in its folder, because a manifest may have been edited."""
    if not is_output(output):
        raise Refused(f"{output!r:.200}: cannot be an output file: the name leads out of the output folder")
    return output


# -- shards ------------------------------------------------------------------------------------------------


class _OpenShard(ABC):
    """An open shard."""

    def __init__(self, files: Files, shard: str, remedy: str) -> None:
        self._files, self._shard, self._remedy = files, shard, remedy

    @abstractmethod
    def read(self, name: str, size: int | None, offset: int | None) -> bytes:
        """Return the content of an output; without an offset, find it by name."""

    def _missing(self, name: str) -> StorageError:
        location = self._files.location(self._shard)
        return StorageError(f"{location}: does not contain {name!r:.200}; {self._remedy}")


class TarShardReader(_OpenShard):
    """An open tar archive."""

    def __init__(self, files: Files, shard: str, remedy: str) -> None:
        super().__init__(files, shard, remedy)
        self._read_range = files.ranges(shard)

    def read(self, name: str, size: int | None, offset: int | None) -> bytes:
        if size is not None and offset is not None and offset >= 0:
            return self._read_range(offset, size)
        with self._files.open(self._shard) as file:
            stream = io.BufferedReader(file)  # type: ignore[type-var]
            for member in read_members(stream, self._files.location(self._shard)):
                if member.name == name:
                    return member.read()
        raise self._missing(name)


class ParquetShardReader(_OpenShard):
    """An open table that keeps the row group it used last."""

    def __init__(self, files: Files, shard: str, remedy: str) -> None:
        super().__init__(files, shard, remedy)
        import pyarrow.parquet as pq

        with self._telling():
            self._table = pq.ParquetFile(files.table(shard), pre_buffer=True)
            schema = self._table.schema_arrow
            self._column = next((name for name in CONTENTS if name in schema.names), "")
            groups = self._table.metadata
        rows = (groups.row_group(number).num_rows for number in range(groups.num_row_groups))
        self._ends = list(itertools.accumulate(rows))
        self._kept: tuple[int, Any] = (-1, None)

    @contextlib.contextmanager
    def _telling(self) -> Iterator[None]:
        """Turn exceptions from Arrow into one error that names the shard."""
        import pyarrow as pa

        try:
            yield
        except (pa.ArrowException, OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            location = self._files.location(self._shard)
            raise StorageError(f"{location}: cannot be read: {' '.join(str(error).split())}") from error

    def read(self, name: str, size: int | None, offset: int | None) -> bytes:  # noqa: ARG002 - the seam's signature
        import pyarrow as pa

        row = self._row_of(name) if offset is None else offset
        group = bisect.bisect_right(self._ends, row)
        if row < 0 or group == len(self._ends) or not self._column:
            raise self._missing(name)
        kept, contents = self._kept
        with self._telling():
            if kept != group:
                self._kept = -1, None
                contents = pa.chunked_array([*read_group(self._table, group, self._column)])
                self._kept = group, contents
            start = self._ends[group - 1] if group else 0
            value = contents[row - start].as_py()
            content = None if value is None else value["bytes"]
        if not isinstance(content, bytes):
            raise self._missing(name)
        return content

    def _row_of(self, name: str) -> int:
        key = name.rpartition(".")[0]
        row = 0
        with self._telling():
            for batch in row_batches(self._table, ["key"], MOST_KEYS):
                keys: list[str] = batch.column("key").to_pylist()
                if key in keys:
                    return row + keys.index(key)
                row += len(keys)
        raise self._missing(name)
