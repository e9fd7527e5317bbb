"""How many rows of a Parquet file to read at a time, so that any file fits in memory.

A few kilobytes may unpack to gigabytes: zeros compress a thousandfold, and a single value in the
dictionary of a column may be that of a million rows. The sizes in the footer are checked first.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Any

# good and maximum size of rows read at once, and maximum size of the contents of a row group
GOOD_SIZE, MOST_AT_ONCE, MOST_IN_GROUP = 256 << 20, 1 << 30, 4 << 30
# rows of text, and of contents, that are converted to Python objects at once
MOST_ROWS, MOST_CONTENTS = 256, 64
# text and numbers rarely compress better, and contents not at all
_USUAL_RATIO = 32


def row_batches(
    file: Any,  # noqa: ANN401 - pyarrow has no types
    columns: Sequence[str],
    most: int,
    groups: Sequence[int] | None = None,
) -> Iterator[Any]:
    """Yield rows of some columns, at most so many at once, and fewer where one may need much memory.

    They are those of all row groups, or of some. Of a column in a struct, all of the struct counts.
    """
    groups = range(file.metadata.num_row_groups) if groups is None else groups
    names = {name.split(".")[0] for name in columns}
    largest = max((_largest_row(file.metadata.row_group(group), names) for group in groups), default=0)
    rows = max(1, min(most, GOOD_SIZE // max(1, largest)))
    return file.iter_batches(batch_size=rows, row_groups=groups, columns=columns, use_threads=False)


def batches_of(file: Any, columns: Sequence[str]) -> Iterator[Any]:  # noqa: ANN401 - as above
    """Yield rows of some columns of a file, a few at a time; ValueError if they need too much memory."""
    for group in range(file.metadata.num_row_groups):
        _refuse(group, _largest_row(file.metadata.row_group(group), columns), MOST_AT_ONCE)
    for batch in row_batches(file, columns, MOST_ROWS):
        if batch.nbytes > MOST_AT_ONCE:
            raise ValueError(f"{len(batch)} rows unpack to {batch.nbytes:,} bytes")
        yield batch


def _refuse(group: int, size: int, most: int) -> None:
    if size > most:
        raise ValueError(f"row group {group} unpacks to {size:,} bytes, and {most:,} are read at once")


def _largest_row(group: Any, columns: Collection[str]) -> int:  # noqa: ANN401 - pyarrow says nothing of its types
    """Return the size of the largest possible row: its share, or everything if each may be the same value."""
    total = 0
    for chunk in _chunks(group, columns):
        size, packed = chunk.total_uncompressed_size, chunk.total_compressed_size
        shared = chunk.has_dictionary_page and size > _USUAL_RATIO * packed
        total += size if shared else size // max(1, group.num_rows)
    return int(total)


def _chunks(group: Any, columns: Collection[str]) -> Iterator[Any]:  # noqa: ANN401 - as above
    """Yield what the footer says of some columns in a row group."""
    chunks = map(group.column, range(group.num_columns))
    return (chunk for chunk in chunks if chunk.path_in_schema.split(".")[0] in columns)


def stated_size(group: Any, column: str) -> int:  # noqa: ANN401 - as above
    """Return the bytes that a column takes in a row group, as its footer says."""
    return sum(chunk.total_uncompressed_size for chunk in _chunks(group, [column]))


def read_group(file: Any, group: int, column: str) -> Iterator[Any]:  # noqa: ANN401 - as above
    """Read a column of a row group, a few rows at a time; raise ValueError if it needs too much memory."""
    _refuse(group, stated_size(file.metadata.row_group(group), column), MOST_IN_GROUP)
    read = 0
    for batch in row_batches(file, [column], MOST_CONTENTS, [group]):
        # regardless of the footer
        read += batch.nbytes
        _refuse(group, read, MOST_IN_GROUP)
        yield batch.column(0)
