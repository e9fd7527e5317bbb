"""The rows of an Arrow file as Hugging Face saves it, whose contents can be read in place."""

import contextlib
import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from splitter.errors import Refused
from splitter.inputs.shards.index import (
    EMBED,
    InputShard,
    ShardScan,
    is_kind,
    naming_table,
    no_column,
    refuse_same_columns,
    state_of,
)
from splitter.inputs.shards.parquet import any_bytes, refuse_large_labels, row_names, values_of
from splitter.text.csv import python_text

# the type of the offsets of binary values
_OFFSETS = {"binary": np.int32, "large_binary": np.int64}


@contextlib.contextmanager
def open_arrow(location: str) -> Iterator[tuple[Any, Any]]:
    """Open an Arrow stream, and yield its whole content and a reader; refuse a damaged or too large one."""
    import pyarrow as pa

    with naming_table(location, "Arrow", "save the dataset again"), pa.memory_map(location) as file:
        whole = file.read_buffer()
        with pa.ipc.open_stream(pa.BufferReader(whole)) as reader:
            refuse_same_columns(reader.schema.names, location)
            yield whole, reader


def look_at_arrow(location: str, column: str) -> ShardScan:
    """Return all rows of an Arrow file, without their contents."""
    found = ShardScan(InputShard(location, "arrow", state_of(location), column=column))
    paths: list[str] = []
    spans: list[tuple[int, int]] = []
    rows: list[dict[str, str]] = []
    letters = 0
    with open_arrow(location) as (whole, reader):
        names = reader.schema.names
        labels = [name for name in names if name != column and not any_bytes(reader.schema.field(name).type)]
        for batch in reader:
            batch.validate(full=True)
            contents = contents_of(location, batch, column)
            paths += _paths(batch.column(column))
            spans += _spans(location, contents, whole)
            texts = [[*map(python_text, values_of(batch.column(name)))] for name in labels]
            letters += sum(len(text) for values in texts for text in values)
            refuse_large_labels(letters)
            rows += [dict(zip(labels, values, strict=True)) for values in zip(*texts, strict=True)] or [
                {} for _ in range(len(batch))
            ]
    found.not_text.update({*names} - {column, *labels})
    called = row_names(paths, len(spans))
    for name, (start, length), columns in zip(called, spans, rows, strict=True):
        missing = f"{location}: {name} has no bytes; {EMBED}" if length < 0 else ""
        found.rows.append((name, start, max(0, length), columns, missing))
    return found


def contents_of(location: str, batch: Any, column: str) -> Any:  # noqa: ANN401 - pyarrow says nothing of its types
    """Return the contents in a batch of rows; those that are only paths are null."""
    if column not in batch.schema.names:
        raise no_column(location, column)
    contents = batch.column(column)
    if is_kind(contents.type, "struct") and contents.type.get_field_index("bytes") >= 0:
        contents = contents.field("bytes")
    if str(contents.type) not in _OFFSETS:
        raise Refused(
            f"{location}: column {column!r} holds {contents.type}; save the dataset again, with binary values"
        )
    return contents


def _paths(contents: Any) -> list[str]:  # noqa: ANN401 - pyarrow says nothing of its types
    if not is_kind(contents.type, "struct") or contents.type.get_field_index("path") < 0:
        return []
    return [os.path.basename(path or "") for path in contents.field("path").to_pylist()]


def _spans(location: str, values: Any, whole: Any) -> list[tuple[int, int]]:  # noqa: ANN401 - as above
    """Return the position in the file and the length of each content; the length of a missing one is -1."""
    _, offsets, data = values.buffers()
    ends = np.frombuffer(offsets, _OFFSETS[str(values.type)])[values.offset : values.offset + len(values) + 1]
    # the buffer of an empty content can be anywhere
    begin = data.address - whole.address if data else 0
    if len(values) and not 0 <= begin + int(ends[0]) <= begin + int(ends[-1]) <= whole.size:
        raise Refused(f"{location}: is compressed; save the dataset again, with save_to_disk")
    there = values.is_valid().to_pylist()
    return [
        (begin + first, last - first if is_there else -1)
        for first, last, is_there in zip(ends[:-1].tolist(), ends[1:].tolist(), there, strict=True)
    ]
