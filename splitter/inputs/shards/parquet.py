"""The rows of a Parquet file that hold contents: their names and labels."""

import contextlib
import os
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any

from splitter.archives.row_groups import MOST_ROWS, TooMuchMemory, batches_of, row_batches, stated_size
from splitter.errors import Refused, UnreadableInput
from splitter.inputs.shards.archives import MOST_LABELS, is_too_long, safe_name
from splitter.inputs.shards.index import (
    FIELDS_SHOWN,
    InputShard,
    ShardScan,
    is_kind,
    naming_table,
    no_column,
    open_parquet,
    open_shard,
    refuse_same_columns,
    state_of,
)
from splitter.text.csv import python_text
from splitter.text.urls import LONGEST_NAME, is_url, without_secrets

_CONTENTS = ("audio", "image", "file", "bytes")


def contents_column(location: str, path_column: str, asked: str | None) -> str | None:
    """Return the column that holds contents; None if there is none, or if the file is a list of paths."""
    with _parquet(location) as file:
        schema = file.schema_arrow
    return column_of_contents(schema, location, path_column, asked)


def column_of_contents(schema: Any, location: str, path_column: str, asked: str | None) -> str | None:  # noqa: ANN401
    """Return the column that holds contents, by the schema of a file; None as for `contents_column`."""
    kinds = {name: schema.field(name).type for name in schema.names}
    # as Hugging Face's datasets writes them: the bytes, and the name of the file
    files = [name for name, kind in kinds.items() if is_kind(kind, "struct") and _holds_bytes(kind)]
    plain = [name for name, kind in kinds.items() if _is_binary(kind)]
    if asked is not None:
        if asked not in (*files, *plain):
            there = (
                f"; it has {', '.join(map(repr, (*files, *plain)))}" if files or plain else ", and no other"
            )
            raise Refused(f"--member {asked}: {without_secrets(location)} has no such column of bytes{there}")
        return asked
    is_list = path_column in kinds and not _is_binary(kinds[path_column])
    candidates = files or ([] if is_list else plain)
    usual = [name for name in _CONTENTS if name in candidates]
    if len(candidates) > 1 and not usual:
        there = ", ".join(map(repr, candidates[:FIELDS_SHOWN]))
        raise Refused(f"{without_secrets(location)}: has bytes in {there}; choose the input with --member")
    return next(iter((*usual, *candidates)), None)


def _is_binary(kind: Any) -> bool:  # noqa: ANN401 - pyarrow says nothing of its types
    return is_kind(kind, "binary", "large_binary", "binary_view", "fixed_size_binary")


def _holds_bytes(kind: Any) -> bool:  # noqa: ANN401 - pyarrow says nothing of its types
    at = kind.get_field_index("bytes")
    return at >= 0 and _is_binary(kind.field(at).type)


@contextlib.contextmanager
def _parquet(location: str) -> Iterator[Any]:
    """Open a Parquet file; refuse one that is damaged or too large."""
    name = without_secrets(location)
    try:
        with naming_table(name), open_shard(location) as raw, open_parquet(location, raw) as file:
            refuse_same_columns(file.schema_arrow.names, name)
            yield file
    except UnreadableInput as error:
        raise Refused(str(error)) from None


def look_at_parquet(location: str, column: str) -> ShardScan:
    """Return all rows of a Parquet file, without their contents."""
    state = state_of(location)
    with _parquet(location) as file:
        names = file.schema_arrow.names
        if column not in names:
            raise no_column(without_secrets(location), column)
        groups = [file.metadata.row_group(number) for number in range(file.num_row_groups)]
        cuts = [0, *accumulate(group.num_rows for group in groups)]
        found = ShardScan(InputShard(location, "parquet", state, is_url(location), column, tuple(cuts[:-1])))
        labels = [
            name for name in names if name != column and not any_bytes(file.schema_arrow.field(name).type)
        ]
        found.not_text.update(name for name in names if name not in (column, *labels))
        columns = _label_columns(file, labels)
        paths = _paths(file, column, cuts[-1])
        sizes: list[int] = []
        for group in groups:
            sizes += [stated_size(group, column) // max(1, group.num_rows)] * group.num_rows
        for number, size_of_row in enumerate(sizes):
            values = {name: texts[number] for name, texts in columns.items()}
            found.rows.append((paths[number], number, size_of_row, values, ""))
    return found


def values_of(column: Any) -> list[Any]:  # noqa: ANN401 - pyarrow says nothing of its types
    """Return the values of a column for Python; dates and times out of Python's range become text."""
    try:
        return list(column.to_pylist())
    except (ValueError, OverflowError):
        return [_value(one) for one in column]


def _value(scalar: Any) -> Any:  # noqa: ANN401 - pyarrow says nothing of its types
    import pyarrow as pa

    try:
        return scalar.as_py()
    except (ValueError, OverflowError):
        return scalar.cast(pa.string()).as_py()


def any_bytes(kind: Any) -> bool:  # noqa: ANN401 - pyarrow says nothing of its types
    """Return whether a type contains bytes, also deep inside."""
    return _is_binary(kind) or any(
        any_bytes(kind.field(number).type) for number in range(getattr(kind, "num_fields", 0))
    )


def _label_columns(file: Any, labels: Sequence[str]) -> dict[str, list[str]]:  # noqa: ANN401
    columns: dict[str, list[str]] = {name: [] for name in labels}
    held = 0
    if labels:
        for batch in batches_of(file, labels):
            for name, values in zip(batch.schema.names, batch.columns, strict=True):
                texts = [*map(python_text, values_of(values))]
                columns[name] += texts
                held += sum(map(len, texts))
            refuse_large_labels(held)
    return columns


def refuse_large_labels(characters: int) -> None:
    """Refuse labels that would not fit in memory."""
    if characters > MOST_LABELS:
        raise TooMuchMemory(f"the labels next to the bytes have more than {MOST_LABELS:,} characters")


def _paths(file: Any, column: str, rows: int) -> list[str]:  # noqa: ANN401
    """Return the name of each row: its path if every row has a different one, else its number."""
    kind = file.schema_arrow.field(column).type
    paths: list[str] = []
    at = kind.get_field_index("path") if is_kind(kind, "struct") else -1
    if at >= 0 and is_kind(kind.field(at).type, "string", "large_string", "string_view"):
        held = 0
        for batch in row_batches(file, [f"{column}.path"], MOST_ROWS):
            held += batch.nbytes
            if held > MOST_LABELS:
                raise TooMuchMemory(f"its paths are more than {MOST_LABELS:,} bytes")
            paths += [(value and value.get("path")) or "" for value in batch.column(0).to_pylist()]
    return row_names(paths, rows)


def row_names(paths: list[str], rows: int) -> list[str]:
    """Return the paths of rows if all are different and can be names of files, else the rows' numbers."""
    safe = [path and safe_name(path) for path in paths]
    good = all(path and not path.startswith("%2F") and not is_too_long(path.split("/")) for path in safe)
    if safe and good and len({*safe}) == rows:
        return safe
    endings = [os.path.splitext(path)[1] for path in paths] or [""] * rows
    return [f"{number:08d}{ending[: LONGEST_NAME // 8]}" for number, ending in enumerate(endings)]
