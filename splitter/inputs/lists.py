"""Dataset lists: CSV, TSV, JSONL and Parquet."""

import contextlib
import glob
import os
import shlex
from collections.abc import Iterable, Iterator
from typing import Any

from splitter.archives.row_groups import MOST_AT_ONCE, TooMuchMemory, batches_of
from splitter.errors import Refused
from splitter.inputs.listing import InputList
from splitter.inputs.shards.index import naming_table
from splitter.inputs.shards.parquet import values_of
from splitter.inputs.source import InputSource, ListReading, SourceRows, refuse_option
from splitter.stores.listings import fetched_list
from splitter.text.csv import CsvFile, Row, csv_rows, empty_list, json_fields, python_text
from splitter.text.urls import file_name, is_url, parent, without_secrets

_WORKBOOKS = {".xlsx", ".xls", ".ods"}
# the marks at the beginning of a text in UTF-16, as they are read
_UTF_16 = ("\udcff\udcfe", "\udcfe\udcff")
# rows that are in memory at once, and that must fit together
ROWS_TOGETHER = 10_000


def suffix_of(path: str) -> str:
    """Return the extension of a path or URL, in lower case."""
    return os.path.splitext(file_name(path) if is_url(path) else path)[1].lower()


def read_list(
    path: str, delimiter: str | None, held: contextlib.ExitStack
) -> tuple[Row, Iterable[Row], str, str]:
    """Return the header and rows of a list, its name for messages, and the folder or URL around it."""
    suffix, name, home = suffix_of(path), path, os.path.dirname(path)
    if is_url(path):
        name, home = without_secrets(path), parent(path)
        file, path = fetched_list(path)
        held.enter_context(file)
    elif os.path.exists(path) and not os.path.isfile(path):
        raise Refused(f"{path}: is not a plain file, but a dataset list is read more than once")
    reader = READERS.get(suffix)
    if reader:
        refuse_option(delimiter, "--delimiter", "a list in a CSV file")
    if delimiter is None:
        delimiter = "\t" if suffix == ".tsv" else ","
    try:
        header, rows = reader(path, name) if reader else _read_csv(path, name, delimiter)
    except OSError as error:
        advice = "; check its path" if isinstance(error, FileNotFoundError) else ""
        raise Refused(f"{name}: cannot be read: {error.strerror or error}{advice}") from None
    return header, rows, name, home


def names_shown(header: Row) -> str:
    """Return the first names of a header, for a message."""
    return ", ".join(repr(name) for name in header[:10])


def column_advice(header: Row) -> str:
    """Return advice for a list without the column of paths."""
    if "".join(header[:1]).startswith("sep="):
        return "remove the first line, which only Excel reads"
    for sign in (";", "\t", "|", ",") if len(header) == 1 else ():
        if sign in header[0]:
            return f"is it --delimiter {sign!r}?"
    meant = [name for name in header if name.strip().lower() == "input"]
    if meant:
        return f"is it --column {meant[0]!r}?"
    return "name the column of the paths with --column; the first line must hold the names of the columns"


def _read_csv(path: str, name: str, delimiter: str) -> tuple[Row, Iterable[Row]]:
    # a shell passes '\t' on as two characters
    delimiter = "\t" if delimiter == "\\t" else delimiter
    if len(delimiter) != 1 or delimiter in '"\r\n':
        raise Refused(f"--delimiter {delimiter!r}: must be one character, but not a quote or line break")
    with contextlib.closing(csv_rows(path, delimiter, name)) as rows:
        header = next(rows, None)
    if header is None:
        raise empty_list(name)
    # opened again when rows are read, so that nothing is left open if the list is refused
    return header, CsvFile(path, delimiter, len(header), name)


def _read_jsonl(path: str, name: str) -> tuple[Row, Iterator[Row]]:
    header: dict[str, None] = {}
    for entry in _json_objects(path, name):
        header.update(dict.fromkeys(entry))
    if not header:
        raise empty_list(name)
    rows = ([entry.get(key, "") for key in header] for entry in _json_objects(path, name))
    return list(header), rows


def _json_objects(path: str, name: str) -> Iterator[dict[str, str]]:
    with open(path, encoding="utf-8-sig", errors="surrogateescape", newline="\n") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                fields = json_fields(line)
            except (ValueError, RecursionError) as error:
                raise Refused(f"{name}: line {number} is not JSON ({error}); fix that line") from None
            if fields is None:
                raise Refused(f"{name}: line {number} is not a JSON object; write one object per line")
            yield fields


def _read_parquet(path: str, name: str) -> tuple[Row, Iterator[Row]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(path)
    except pa.ArrowInvalid as error:
        raise Refused(f"{name}: is not Parquet ({error})") from None
    return file.schema_arrow.names, _parquet_rows(name, file)


def _parquet_rows(name: str, file: Any) -> Iterator[Row]:  # noqa: ANN401 - pyarrow says nothing of its types
    with naming_table(name):
        rows = size = 0
        for batch in batches_of(file, file.schema_arrow.names):
            rows, size = rows + len(batch), size + batch.nbytes
            if size > MOST_AT_ONCE:
                raise TooMuchMemory(f"{rows:,} rows unpack to {size:,} bytes")
            if rows >= ROWS_TOGETHER:
                rows = size = 0
            columns = map(values_of, batch.columns)
            yield from ([python_text(value) for value in row] for row in zip(*columns, strict=True))


READERS = {".jsonl": _read_jsonl, ".ndjson": _read_jsonl, ".parquet": _read_parquet}
LISTS = {".csv", ".tsv", ".txt", *READERS}


def refuse_twins(header: Row, name: str = "the dataset list") -> None:
    """Refuse a header with two columns of the same name."""
    for column in header:
        if header.count(column) > 1:
            raise Refused(f"the column {column!r} occurs twice in {name}; rename one")


def _without_column(column: str, header: Row, name: str) -> Refused:
    """Return the refusal of a list without the column of paths, which may not be a list at all."""
    if "".join(header[:1]).startswith(_UTF_16):
        return Refused(f"{name}: is UTF-16 text; save it as UTF-8, which Excel calls CSV UTF-8")
    # the beginning of a recording or a workbook cannot be printed
    if not all(sign.isprintable() or sign.isspace() for title in header for sign in title):
        file = shlex.quote(glob.escape(os.path.basename(name)))
        advice = f"to process only that file, pass its folder and --pattern {file}"
        if suffix_of(name) in _WORKBOOKS:
            advice = "save it as CSV UTF-8, and pass that"
        return Refused(f"{name}: is not a dataset list, because it is not text; {advice}")
    return Refused(f"{name}: has no column {column!r}; it has {names_shown(header)}; {column_advice(header)}")


class ListFileSource(InputSource):
    """A list in a file: CSV, TSV, JSONL or Parquet."""

    takes = frozenset({"root", "delimiter"})

    def is_meant(self, location: Any, listing: InputList) -> bool:  # noqa: ANN401, ARG002 - as the seam
        """Accept any path: only its content can show that it is not a list."""
        return isinstance(location, str)

    def options(self, location: Any) -> set[str]:  # noqa: ANN401
        """Return its options, with `delimiter` only for a CSV list."""
        return super().options(location) - ({"delimiter"} if suffix_of(location) in READERS else set())

    def read(self, location: Any, listing: InputList, reading: ListReading) -> SourceRows:  # noqa: ANN401
        header, rows, name, home = read_list(location, listing.delimiter, reading.held)
        if listing.column not in header:
            raise _without_column(listing.column, header, name)
        return SourceRows(header, rows, home)
