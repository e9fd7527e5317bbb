"""The manifest in other formats: the rows of manifest.csv, with the types of their metadata."""

import csv
import io
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO

import xxhash

from splitter.options import FOLDER_CSV, FOLDER_PARQUET, JSONL, PARQUET
from splitter.storage.base import Storage
from splitter.storage.content import checksum_of
from splitter.text.csv import ENCODING, ESCAPE, CsvText, Row

FILE_NAME = "file_name"
# Hugging Face takes columns of these names for the files themselves
_NOT_LABELS = {"audio", "image", "video", "output"}
_FILE_ENDINGS = ("file_name", "file_names")
ROWS_AT_ONCE, TEXT_AT_ONCE = 20_000, 32 << 20

_in_json = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode

Types = Mapping[str, str]
Blocks = Iterator[list[Row]]


def write_format(storage: Storage, name: str, manifest: str, types: Types) -> str:
    """Write the manifest in another format, whole or not at all; return the checksum of the file."""
    write = _WRITERS[name]
    types = {**types, "size": "int"}
    while True:
        try:
            with (
                io.TextIOWrapper(storage.open(manifest), ENCODING, ESCAPE, newline="") as text,
                storage.replacing(name) as target,
            ):
                rows = csv.reader(text, strict=True)
                file = _Digesting(target)
                write(file, *_chosen(name, next(rows), _in_blocks(rows)), types)
        except TooLarge as error:
            types = {**types, str(error): "str"}
        else:
            return checksum_of(file.digest)


class _Digesting(io.BufferedIOBase):
    """A file that computes the checksum of everything written to it."""

    def __init__(self, file: BinaryIO) -> None:
        self.digest = xxhash.xxh3_128()
        self._file = file

    def writable(self) -> bool:
        return True

    def write(self, data: "io.ReadableBuffer") -> int:  # type: ignore[name-defined]
        self.digest.update(data)
        return self._file.write(data)


class TooLarge(Exception):
    """An integer beyond 64 bits: the column that the error names must be text."""


def _in_blocks(rows: Iterator[Row]) -> Blocks:
    """Yield the rows in blocks, bounded in number and in size."""
    block: list[Row] = []
    size = 0
    for row in rows:
        block.append(row)
        size += sum(map(len, row))
        if len(block) == ROWS_AT_ONCE or size > TEXT_AT_ONCE:
            yield block
            block, size = [], 0
    if block:
        yield block


def _chosen(name: str, header: Row, blocks: Blocks) -> tuple[Row, Blocks]:
    """Return the table as it is; for Hugging Face only rows with files: the file first, then the labels."""
    if name not in (FOLDER_CSV, FOLDER_PARQUET):
        return header, blocks
    file = header.index("output")
    labels = [at for at, one in enumerate(header) if is_label(one)]
    positions = [file, *labels]
    rows = ([[row[at] for at in positions] for row in block if row[file]] for block in blocks)
    # a block without files becomes empty
    return [FILE_NAME, *(header[at] for at in labels)], filter(None, rows)


def is_label(column: str) -> bool:
    """Return whether Hugging Face takes a column for a label, and not for the files themselves."""
    return not (column in _NOT_LABELS or column.endswith(_FILE_ENDINGS))


# -- CSV ---------------------------------------------------------------------------------------------------


def _write_csv(file: _Digesting, header: Row, blocks: Blocks, _: Types) -> None:
    csv_text = CsvText()
    file.write(csv_text.encode([header]))
    file.writelines(map(csv_text.encode, blocks))


# -- with types --------------------------------------------------------------------------------------------

# for each type of metadata, the function that makes the value from its text
VALUES: dict[str, Callable[[str], Any]] = {"int": int, "float": float, "bool": "True".__eq__}


def typed_values(texts: Sequence[str], kind: str) -> Sequence[Any]:
    """Return the values of a column; missing text is empty, any other missing value is None."""
    convert = VALUES.get(kind)
    return texts if convert is None else [convert(text) if text else None for text in texts]


def _write_jsonl(file: _Digesting, header: Row, blocks: Blocks, types: Types) -> None:
    for block in blocks:
        columns = [typed_values(texts, types.get(name, "str")) for name, texts in _columns(header, block)]
        columns = [[*map(_finite, values)] if types.get(name) == "float" else values
                   for name, values in zip(header, columns, strict=True)]  # fmt: skip
        for values in zip(*columns, strict=True):
            file.write(json_bytes(dict(zip(header, values, strict=True))) + b"\n")


def _columns(header: Row, block: list[Row]) -> Iterator[tuple[str, Sequence[str]]]:
    return zip(header, zip(*block, strict=True), strict=True)


def _finite(value: float | None) -> float | None:
    """Return a finite number, or None, since JSON has no other numbers."""
    return value if value is None or math.isfinite(value) else None


def json_bytes(row: dict[str, Any]) -> bytes:
    """Return a row as JSON; its numbers must be finite."""
    try:
        return _in_json(row).encode()
    except UnicodeEncodeError:
        # bytes that are not UTF-8, which JSON can only have as ASCII escapes
        return json.dumps(row).encode()


def _write_parquet(file: _Digesting, header: Row, blocks: Blocks, types: Types) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = arrow_columns(header, types)
    schema = pa.schema(columns)
    with pq.ParquetWriter(file, schema, compression="zstd") as writer:
        for block in blocks:
            arrays = [
                arrow_array(name, typed_values(texts, types.get(name, "str")), kind)
                for (name, texts), (_, kind) in zip(_columns(header, block), columns, strict=True)
            ]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))


def arrow_columns(header: Row, types: Types) -> list[tuple[str, Any]]:
    """Return the names and the Arrow types of columns."""
    import pyarrow as pa

    kinds = {"int": pa.int64(), "float": pa.float64(), "bool": pa.bool_()}
    return [(_in_utf8(name), kinds.get(types.get(name, "str"), pa.string())) for name in header]


def _in_utf8(text: str) -> str:
    """Return a text that Parquet can store: bytes that are not UTF-8 become escapes as in Python."""
    return text.encode(ENCODING, ESCAPE).decode(ENCODING, "backslashreplace")


def arrow_array(name: str, values: Sequence[Any], kind: Any) -> Any:  # noqa: ANN401 - pyarrow has no type hints
    """Return the values of a column as an Arrow array; raise TooLarge for an integer beyond 64 bits."""
    import pyarrow as pa

    try:
        return pa.array(values, kind)
    except UnicodeEncodeError:
        return pa.array([*map(_in_utf8, values)])
    except (OverflowError, pa.ArrowInvalid):
        raise TooLarge(name) from None


_WRITERS = {
    PARQUET: _write_parquet,
    JSONL: _write_jsonl,
    FOLDER_CSV: _write_csv,
    FOLDER_PARQUET: _write_parquet,
}
