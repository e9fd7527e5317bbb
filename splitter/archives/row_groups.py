"""How many rows of a Parquet file to read at a time, so that any file fits in memory.

A few kilobytes may unpack to gigabytes: zeros compress a thousandfold, and a million rows may share one value
in the dictionary of a column. The sizes in the footer are checked first.
"""

from collections.abc import Collection, Iterator, Sequence
from itertools import accumulate
from typing import Any

# in bytes: a good and the maximum size of rows read at once, and the maximum for the contents of a row group
GOOD_SIZE, MOST_AT_ONCE, MOST_IN_GROUP = 256 << 20, 1 << 30, 4 << 30
# the most rows of text, and of contents, to convert to Python objects at once
MOST_ROWS, MOST_CONTENTS = 256, 64
# text and numbers rarely compress better than this, and contents not at all
_USUAL_RATIO = 32
# splitting the file would not make its rows smaller
_WITHOUT = "leave out large columns"
_SMALLER = "write it with smaller row groups, split it into several files, or leave out large columns"


class TooMuchMemory(ValueError):
    """A part of a file that would need more memory than it may; the file need not be damaged.

    Attributes:
        remedy: What to do about it.
    """

    def __init__(
        self, what: str, remedy: str = "split it into several files, or leave out large columns"
    ) -> None:
        super().__init__(what)
        self.remedy = remedy


def row_batches(
    file: Any,  # noqa: ANN401 - pyarrow has no types
    columns: Sequence[str],
    most: int,
    groups: Sequence[int] | None = None,
) -> Iterator[Any]:
    """Yield batches of some columns, at most `most` rows at once, and fewer if a row may need much memory.

    The rows come from all row groups, or from `groups`. If a column is in a struct, the whole struct counts.
    """
    groups = range(file.metadata.num_row_groups) if groups is None else groups
    names = {name.split(".")[0] for name in columns}
    largest = max((sum(_largest_row(file.metadata.row_group(group), names)) for group in groups), default=0)
    rows = max(1, min(most, GOOD_SIZE // max(1, largest)))
    return file.iter_batches(batch_size=rows, row_groups=groups, columns=columns, use_threads=False)


def batches_of(file: Any, columns: Sequence[str]) -> Iterator[Any]:  # noqa: ANN401 - as above
    """Yield rows of some columns, a few at a time; raise TooMuchMemory if they need too much memory."""
    for group in range(file.metadata.num_row_groups):
        own, shared = _largest_row(file.metadata.row_group(group), columns)
        for what, size, remedy in (("a row", own, _WITHOUT), ("rows", own + shared, _SMALLER)):
            if size > MOST_AT_ONCE:
                said = f"{what} of row group {group} may unpack to {size:,} bytes"
                raise TooMuchMemory(f"{said}, more than the limit of {MOST_AT_ONCE:,}", remedy)
    for batch in row_batches(file, columns, MOST_ROWS):
        if batch.nbytes > MOST_AT_ONCE:
            raise TooMuchMemory(f"{len(batch)} rows unpack to {batch.nbytes:,} bytes", _WITHOUT)
        yield batch


def _refuse(group: int, size: int, most: int) -> None:
    if size > most:
        raise TooMuchMemory(f"row group {group} unpacks to {size:,} bytes, more than the limit of {most:,}")


def _largest_row(group: Any, columns: Collection[str]) -> tuple[int, int]:  # noqa: ANN401 - as above
    """Return the size of a row's share of some columns, and the size of others that it may be all of.

    The others have a dictionary and pack well, so rows may share a value.
    """
    own = shared = 0
    for chunk in _chunks(group, columns):
        size, packed = chunk.total_uncompressed_size, chunk.total_compressed_size
        if chunk.has_dictionary_page and size > _USUAL_RATIO * packed:
            shared += size
        else:
            own += size // max(1, group.num_rows)
    return own, shared


def _chunks(group: Any, columns: Collection[str]) -> Iterator[Any]:  # noqa: ANN401 - as above
    """Yield the footer's metadata of some columns in a row group."""
    for chunk in map(group.column, range(group.num_columns)):
        # the name of a column may have dots, too
        names = accumulate(chunk.path_in_schema.split("."), "{}.{}".format)
        if any(name in columns for name in names):
            yield chunk


def stated_size(group: Any, column: str) -> int:  # noqa: ANN401 - as above
    """Return the unpacked size of a column in a row group in bytes, as the footer states it."""
    return sum(chunk.total_uncompressed_size for chunk in _chunks(group, [column]))


def read_group(file: Any, group: int, column: str) -> Iterator[Any]:  # noqa: ANN401 - as above
    """Read a column of a row group, a few rows at a time; raise TooMuchMemory if it needs too much memory."""
    _refuse(group, stated_size(file.metadata.row_group(group), column), MOST_IN_GROUP)
    read = 0
    for batch in row_batches(file, [column], MOST_CONTENTS, [group]):
        # the footer may be wrong
        read += batch.nbytes
        _refuse(group, read, MOST_IN_GROUP)
        yield batch.column(0)
