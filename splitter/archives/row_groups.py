"""How many rows of a Parquet file are read at a time, so that they fit into memory whoever wrote it.

A few kilobytes may unpack to gigabytes: zeros compress a thousandfold, and a value that stands once in the
dictionary of a column may be that of a million rows. What the footer states of sizes is looked at first.
"""

from collections.abc import Collection, Iterable, Iterator
from typing import Any

# what rows that are read at once should take and may take, and the contents of a whole row group
GOOD_SIZE, MOST_AT_ONCE, MOST_IN_GROUP = 256 << 20, 1 << 30, 4 << 30
# rows of texts that are made Python's together
MOST_ROWS = 256
# text and numbers seldom compress better, and a content not at all
_USUAL_RATIO = 32


def rows_at_once(metadata: Any, groups: Iterable[int], columns: Collection[str], most: int) -> int:  # noqa: ANN401
    """How many rows of some columns are read at once, so that they do not take too much memory.

    Args:
        metadata: That of the file.
        groups: The row groups that are read.
        columns: The names of the columns; those in a struct by the name of the struct.
        most: How many rows, if they are small.
    """
    largest = max((_largest_row(metadata.row_group(group), columns) for group in groups), default=0)
    return max(1, min(most, GOOD_SIZE // max(1, largest)))


def batches_of(file: Any, columns: Collection[str]) -> Iterator[Any]:  # noqa: ANN401 - pyarrow has no types
    """Rows of some columns of a file, a few at a time; a ValueError if they are too much for memory."""
    groups = range(file.metadata.num_row_groups)
    for group in groups:
        _refuse(group, _largest_row(file.metadata.row_group(group), columns), MOST_AT_ONCE)
    rows = rows_at_once(file.metadata, groups, columns, MOST_ROWS)
    for batch in file.iter_batches(batch_size=rows, columns=[*columns], use_threads=False):
        if batch.nbytes > MOST_AT_ONCE:
            raise ValueError(f"{len(batch)} rows unpack to {batch.nbytes:,} bytes")
        yield batch


def _refuse(group: int, size: int, most: int) -> None:
    if size > most:
        raise ValueError(f"row group {group} unpacks to {size:,} bytes, and {most:,} are read at once")


def _largest_row(group: Any, columns: Collection[str]) -> int:  # noqa: ANN401 - pyarrow says nothing of its types
    """What a row may take: its share, or all there is where each row may be the same large value."""
    total = 0
    for chunk in map(group.column, range(group.num_columns)):
        if chunk.path_in_schema.split(".")[0] in columns:
            size, packed = chunk.total_uncompressed_size, chunk.total_compressed_size
            shared = chunk.has_dictionary_page and size > _USUAL_RATIO * packed
            total += size if shared else size // max(1, group.num_rows)
    return int(total)


def read_group(file: Any, group: int, column: str, most: int = 64) -> Iterator[Any]:  # noqa: ANN401 - as above
    """A column of a row group, a few rows at a time; a ValueError if all of it is too much for memory."""
    said = file.metadata.row_group(group)
    chunks = map(said.column, range(said.num_columns))
    stated = sum(one.total_uncompressed_size for one in chunks if one.path_in_schema.split(".")[0] == column)
    _refuse(group, stated, MOST_IN_GROUP)
    read = 0
    rows = rows_at_once(file.metadata, [group], [column], most)
    for batch in file.iter_batches(batch_size=rows, row_groups=[group], columns=[column], use_threads=False):
        # whatever the footer states
        read += batch.nbytes
        _refuse(group, read, MOST_IN_GROUP)
        yield batch.column(0)
