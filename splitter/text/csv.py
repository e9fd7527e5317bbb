"""CSV, written and read so that every text comes back as it went in."""

import csv
import io
import json
import os
from collections.abc import Generator, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np

from splitter.errors import Refused

ENCODING = "utf-8"
# bytes that are not UTF-8 come through as they are
ESCAPE = "surrogateescape"
LINES_AT_ONCE = 1 << 22

csv.field_size_limit(2**31 - 1)

Row = list[str]


def in_unicode(text: str) -> str:
    """The text with what cannot be written as UTF-8 spelled out."""
    return text.encode("utf-8", "backslashreplace").decode()


class CsvText:
    """Turns rows into CSV whose lines end in a bare newline, with a lone carriage return quoted."""

    def __init__(self) -> None:
        """Start with no rows."""
        self._buffer = io.StringIO(newline="")
        # the csv module quotes a carriage return only when it is part of the line terminator
        self._write = csv.writer(self._buffer, lineterminator="\r\n").writerows

    def lines(self, rows: Sequence[Sequence[object]]) -> list[str]:
        """Each row as a line, without its end."""
        text = self._text(rows)
        if text.count("\r") == len(rows):
            return text.split("\r\n")[:-1]
        # some field holds a carriage return, so line ends have to be found one by one
        return [self._text([row])[:-2] for row in rows]

    def encode(self, rows: Sequence[Sequence[object]]) -> bytes:
        """All rows, as they stand in a file."""
        text = self._text(rows)
        if text.count("\r") == len(rows):
            return text.replace("\r", "").encode(ENCODING, ESCAPE)
        return "\n".join([*self.lines(rows), ""]).encode(ENCODING, ESCAPE)

    def _text(self, rows: Sequence[Sequence[object]]) -> str:
        self._buffer.seek(0)
        self._buffer.truncate()
        self._write(rows)
        return self._buffer.getvalue()


def parse_rows(text: bytes) -> list[Row]:
    """The rows of a piece of CSV that `CsvText` made."""
    return list(csv.reader(io.StringIO(text.decode(ENCODING, ESCAPE), newline="")))


class CsvFile:
    """The rows of a CSV file, whose bytes may often be copied as they are."""

    def __init__(self, path: str, delimiter: str, width: int, name: str = "") -> None:
        """A row has `width` fields; messages call the file by its `name`."""
        self._path, self._delimiter, self._width, self._name = path, delimiter, width, name or path

    def __iter__(self) -> Iterator[Row]:
        """The rows below the header."""
        return islice(csv_rows(self._path, self._delimiter, self._name), 1, None)

    def plain_blocks(self) -> Iterator[tuple[bytes, np.ndarray] | None]:
        """Whole lines and where each ends, first the header, as `CsvText` would write them.

        None where it would not.
        """
        if self._delimiter != ",":
            yield None
            return
        with open(self._path, "rb") as file:
            header = file.readline().removeprefix(b"\xef\xbb\xbf")
            yield self._lines(header)
            while block := file.read(LINES_AT_ONCE):
                block += file.readline()
                yield self._lines(block if block[-1:] == b"\n" else block + b"\n")

    def _lines(self, block: bytes) -> tuple[bytes, np.ndarray] | None:
        block = block.replace(b"\r\n", b"\n")
        if any(sign in block for sign in (b'"', b"\r", b"\0")):
            return None
        numbers = np.frombuffer(block, np.uint8)
        ends = np.flatnonzero(numbers == ord("\n")) + 1
        delimiters = np.searchsorted(np.flatnonzero(numbers == ord(",")), ends)
        whole = (np.diff(delimiters, prepend=0) == self._width - 1).all()
        return (block, ends) if whole and (np.diff(ends, prepend=0) > 1).all() else None


def rows_of_csv(path: str) -> tuple[Row, Iterator[Row]]:
    """The header and the rows of the copy of a list."""
    rows = csv_rows(path, ",")
    return next(rows), rows


def empty_list(path: str) -> Refused:
    """For a dataset list that has not even a header."""
    return Refused(f"{path}: is empty; a dataset list starts with a line of column names")


def csv_rows(path: str, delimiter: str, name: str = "") -> Generator[Row, None, None]:
    """The rows of a CSV file, the header first; refuses a line that has more or fewer columns."""
    width, name = 0, name or path
    with open(path, newline="", encoding=ENCODING, errors=ESCAPE) as file:
        if file.read(1) != "\ufeff":
            file.seek(0)
        reader = csv.reader(file, delimiter=delimiter, strict=True)
        try:
            for row in reader:
                if not row:
                    continue
                width = width or len(row)
                if len(row) != width:
                    message = f"has {len(row)} columns where the first line has {width}"
                    raise Refused(f"{name}: line {reader.line_num} {message}; mend that line")
                yield row
        except csv.Error as error:
            raise Refused(f"{name}: line {reader.line_num} is not CSV ({error}); mend that line") from None


class _Number(str):
    """A number of JSON, as it is written: 1e5 and 2.50."""

    __slots__ = ()


def json_value(text: str) -> Any:  # noqa: ANN401 - whatever JSON holds
    """What JSON says, with its numbers as text; raises ValueError or RecursionError."""
    return json.loads(text, parse_int=_Number, parse_float=_Number, parse_constant=_Number)


def json_fields(text: str) -> dict[str, str] | None:
    """The values of a JSON object as text, None if it is not one; raises ValueError or RecursionError."""
    value = json_value(text)
    return {name: json_text(one) for name, one in value.items()} if isinstance(value, dict) else None


def json_text(value: Any) -> str:  # noqa: ANN401 - whatever JSON holds
    """What `json_value` gave as text, with numbers as they are written; what is missing is the empty text."""
    if isinstance(value, str):
        return str(value)
    return "" if value is None else _json_of(value)


def _json_of(value: Any) -> str:  # noqa: ANN401 - whatever JSON holds
    if isinstance(value, _Number):
        return str(value)
    if isinstance(value, list):
        return f"[{', '.join(map(_json_of, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_json_of(name)}: {_json_of(one)}' for name, one in value.items())}}}"
    return json.dumps(value, ensure_ascii=False)


def python_text(value: Any) -> str:  # noqa: ANN401 - whatever a table holds
    """A value of a table as text; what is missing is the empty text."""
    if isinstance(value, str):
        return value
    if value is None or (isinstance(value, float) and value != value):  # noqa: PLR0124 - not a number
        return ""
    if isinstance(value, (dict, list, tuple)):
        return json.dumps(value, ensure_ascii=False, default=_plain)
    if hasattr(value, "tolist") and not isinstance(value, np.generic):
        # their own text is abbreviated
        return python_text(_plain(value))
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)


def _plain(value: Any) -> Any:  # noqa: ANN401 - whatever a table holds
    """Python's own value of a NumPy scalar, an array or a tensor; the text of what has none."""
    if not hasattr(value, "tolist"):
        return str(value)
    is_time = getattr(getattr(value, "dtype", None), "kind", None) in ("m", "M")
    # a time of nanoseconds would become a bare number
    return (value.astype(str) if is_time else value).tolist()
