"""The sink of Parquet shards: tables whose rows hold the output files themselves.

key    audio (or file)    dataset columns, as text    size  checksum    metadata, typed    other_metadata
       {bytes, path}

Contents are not compressed. A row group is small enough to be read whole to get one content.
"""

import contextlib
import copy
import json
import os
from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from splitter.archives.members import FilePart
from splitter.errors import BadResult
from splitter.records import Scalar
from splitter.sinks.columns import OutputColumns
from splitter.sinks.shards import NAME, OFFSET, NewShard, ShardSample, ShardSink, as_json
from splitter.text.csv import in_unicode

KEY, SOUND, FILE, OTHERS = "key", "audio", "file", "other_metadata"
GROUP_BYTES, GROUP_ROWS = 16 << 20, 10_000
# a page holds about this many bytes, or one larger content: larger pages take new memory each time
PAGE_BYTES, PAGE_ROWS = 1 << 20, 1024
# the length of a value, and that of its page, must fit into 31 bits
LARGEST = (1 << 31) - (1 << 20)
_LEAST_INT, _MOST_INT = -(1 << 63), (1 << 63) - 1
_OF_ALL: dict[str, type] = {"size": int, "checksum": str, NAME: str}


def schema_of(header: Sequence[str], columns: OutputColumns) -> Any:  # noqa: ANN401 - pyarrow is untyped
    """Return the Arrow schema of every shard of a dataset, with the features for Hugging Face's datasets."""
    import pyarrow as pa

    arrow = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
    words = {str: "string", int: "int64", float: "float64", bool: "bool"}
    content = SOUND if columns.sound else FILE
    kinds = {**dict.fromkeys(header, str), **_OF_ALL, **columns.types, OTHERS: str}
    struct = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    features: dict[str, Any] = {
        name: {"dtype": words[kind], "_type": "Value"} for name, kind in kinds.items()
    }
    if columns.sound:
        rate = {"sampling_rate": columns.rate} if columns.rate else {}
        features[content] = {**rate, "_type": "Audio"}
    metadata = {"huggingface": json.dumps({"info": {"features": features}})}
    fields = [(name, arrow[kind]) for name, kind in kinds.items()]
    return pa.schema([(KEY, pa.string()), (content, struct), *fields], metadata)


class ParquetSink(ShardSink):
    """A sink that makes each output a row: its content, and its row of the manifest."""

    suffix = ".parquet"
    needs_columns = True
    own_columns = (KEY, SOUND, FILE, OTHERS)
    table: OutputColumns | None = None
    # whether the columns are decided for new outputs, and not only those of older shards
    is_decided = False
    header: tuple[str, ...] = ()

    @property
    def types(self) -> Mapping[str, type]:
        """Return the types that metadata must have, since every shard has the same columns."""
        return self.table.types if self.table and self.is_decided else {}

    def with_columns(
        self, columns: OutputColumns, header: Sequence[str], *, are_earlier: bool = False
    ) -> "ParquetSink":
        sink = copy.copy(self)
        sink.table, sink.header, sink.is_decided = columns, tuple(header), not are_earlier
        return sink

    def check(self, row: Mapping[str, Scalar]) -> None:
        """Refuse an output that is too large for Parquet, and any output if the columns are not decided."""
        if not self.is_decided:
            raise BadResult(
                "the columns of the shards come from the first input that makes a file, and none "
                "did in the trial; run again with --retry-failed"
            )
        size = row["size"]
        if isinstance(size, int) and size > LARGEST:
            raise BadResult(
                f"output {row[NAME]!r} has {size:,} bytes; Parquet holds up to {LARGEST:,} in one value: use "
                "--sink webdataset"
            )


class ParquetShard(NewShard):
    """A table that is being written, one row group after another."""

    def __init__(self, path: str, name: str, sink: ParquetSink) -> None:  # noqa: ARG002 - the seam's signature
        assert sink.table is not None  # noqa: S101 - without columns, no sample gets here
        self._schema = schema_of(sink.header, sink.table)
        columns = {**dict.fromkeys(sink.header, str), **_OF_ALL, **sink.table.types}
        self._names = [KEY, "path", *columns, OTHERS]
        self._columns = columns
        # leave out the address of an output: a shard may be moved or copied, so only the manifest has it
        self._handled = {*columns, "output", OFFSET}
        self._rows = self._waiting = 0
        self._buffer = memoryview(bytearray(GROUP_BYTES))
        self._begin_group()
        with _plain_errors():
            import pyarrow as pa

            self._file = pa.OSFile(os.fsencode(path), "wb")
        self._writer: Any = None

    def _open(self, content_bytes: int) -> Any:  # noqa: ANN401 - pyarrow is untyped
        """Begin the table; the contents in its first row group have `content_bytes` bytes."""
        import pyarrow.parquet as pq

        content = self._schema.names[1]
        others = [f"{content}.path", *(name for name in self._schema.names if name != content)]
        unique = (KEY, f"{content}.path", "checksum")
        return pq.ParquetWriter(
            self._file,
            self._schema,
            # sound is compressed already, or would hardly shrink
            compression={f"{content}.bytes": "none", **dict.fromkeys(others, "zstd")},
            use_dictionary=[name for name in others if name not in unique],
            write_statistics=others,
            write_page_index=True,
            data_page_size=PAGE_BYTES,
            write_batch_size=min(PAGE_ROWS, max(1, PAGE_BYTES * self._waiting // max(1, content_bytes))),
        )

    @property
    def size(self) -> int:
        """Return the number of bytes written or waiting."""
        return int(self._file.tell()) + self._ends[-1] + self._texts

    def add(self, sample: ShardSample) -> int:
        _, size, content = sample.member
        if self._waiting == GROUP_ROWS or (self._waiting and self._ends[-1] + size > GROUP_BYTES):
            self._write_group()
        start, end = self._ends[-1], self._ends[-1] + size
        if isinstance(content, FilePart):
            content = content.read()
        if end <= GROUP_BYTES:
            self._buffer[start:end] = content
        self._ends.append(end)
        self._add_values(sample)
        self._waiting += 1
        self._rows += 1
        if end > GROUP_BYTES:
            self._write_group(content)
        return self._rows - 1

    def _begin_group(self) -> None:
        self._values: list[list[Any]] = [[] for _ in self._names]
        self._ends: array[int] = array("i", [0])
        self._waiting = self._texts = 0

    def _add_values(self, sample: ShardSample) -> None:
        row = sample.row
        others = {name: value for name, value in row.items() if name not in self._handled}
        values: list[Any] = [sample.key, sample.member.name]
        for column, kind in self._columns.items():
            value = _fitting(row.get(column), kind)
            if value is None and row.get(column) is not None:
                others[column] = row[column]
            values.append(value)
        values.append(as_json(others).decode() if others else None)
        for column_values, value in zip(self._values, values, strict=True):
            column_values.append(value)
            if type(value) is str:
                self._texts += len(value)

    def _write_group(self, alone: bytes | None = None) -> None:
        import pyarrow as pa

        if not self._waiting:
            return
        fields = [*self._schema]
        key, paths, *others = self._values
        buffers = [None, pa.py_buffer(self._ends), pa.py_buffer(self._buffer if alone is None else alone)]
        contents = pa.Array.from_buffers(pa.binary(), self._waiting, buffers)
        struct = pa.StructArray.from_arrays([contents, _texts(paths)], fields=[*fields[1].type])
        arrays = [_texts(key), struct]
        for field, values in zip(fields[2:], others, strict=True):
            arrays.append(_texts(values) if field.type == pa.string() else pa.array(values, field.type))
        table = pa.Table.from_arrays(arrays, schema=self._schema)
        with self._giving_up():
            self._writer = self._writer or self._open(self._ends[-1])
            self._writer.write_table(table, row_group_size=self._waiting)
        self._begin_group()

    def close(self) -> None:
        """Write the rows that are waiting, and the end of the file."""
        self._write_group()
        with self._giving_up():
            # a table without rows must be complete, too
            self._writer = self._writer or self._open(0)
            self._writer.close()
            self._file.close()

    def discard(self) -> None:
        self._give_up()
        with contextlib.suppress(OSError):
            self._file.close()

    @contextlib.contextmanager
    def _giving_up(self) -> Iterator[None]:
        """Write nothing more after an error, not even the end of the file."""
        try:
            with _plain_errors():
                yield
        except OSError:
            self._give_up()
            raise

    def _give_up(self) -> None:
        if self._writer is not None:
            self._writer.is_open = False


@contextlib.contextmanager
def _plain_errors() -> Iterator[None]:
    """Raise system errors of Arrow with the message of the system."""
    try:
        yield
    except OSError as error:
        raise (OSError(error.errno, os.strerror(error.errno)) if error.errno else error) from error


def _fitting(value: Scalar, kind: type) -> Scalar:
    """Return a value in the type of its column; None if the column cannot hold it."""
    if value is None or type(value) is kind:
        return None if type(value) is int and not _LEAST_INT <= value <= _MOST_INT else value
    if kind is str:
        return str(value)
    if kind is float and type(value) is int:
        try:
            return float(value)
        except OverflowError:
            return None
    return None


def _texts(values: list[str | None]) -> Any:  # noqa: ANN401 - an array
    import pyarrow as pa

    try:
        return pa.array(values, pa.string())
    except UnicodeEncodeError:
        return pa.array([value if value is None else in_unicode(value) for value in values], pa.string())


ParquetSink.shard = ParquetShard
