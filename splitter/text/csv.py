"""CSV, written and read so that every text survives a round trip."""

import csv
import io
import json
import os
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, BinaryIO

import numpy as np

from splitter.errors import Refused

ENCODING = "utf-8"
# bytes that are not UTF-8 pass through unchanged
ESCAPE = "surrogateescape"
LINES_AT_ONCE = 1 << 22

csv.field_size_limit(2**31 - 1)

Row = list[str]


def in_unicode(text: str) -> str:
    """Return the text with characters that UTF-8 cannot encode written as escapes."""
    return text.encode("utf-8", "backslashreplace").decode()


class CsvText:
    """A writer of CSV text whose lines end in a bare newline, with a lone carriage return quoted."""

    def __init__(self, delimiter: str = ",") -> None:
        self._buffer = io.StringIO(newline="")
        # the csv module quotes a carriage return only when it is part of the line terminator
        self._write = csv.writer(self._buffer, delimiter=delimiter, lineterminator="\r\n").writerows

    def lines(self, rows: Sequence[Sequence[object]]) -> list[str]:
        """Return each row as a line, without its line ending."""
        text = self._text(rows)
        if text.count("\r") == len(rows):
            return text.split("\r\n")[:-1]
        # some field contains a carriage return, so line endings must be found one by one
        return [self._text([row])[:-2] for row in rows]

    def encode(self, rows: Sequence[Sequence[object]]) -> bytes:
        """Return all rows as the bytes of a file."""
        text = self._text(rows)
        if text.count("\r") == len(rows):
            return text.replace("\r", "").encode(ENCODING, ESCAPE)
        return "\n".join([*self.lines(rows), ""]).encode(ENCODING, ESCAPE)

    def _text(self, rows: Sequence[Sequence[object]]) -> str:
        self._buffer.seek(0)
        self._buffer.truncate()
        self._write(rows)
        return self._buffer.getvalue()


def parse_rows(text: bytes, most: int | None = None) -> list[Row]:
    """Return the rows, or the first few, of a piece of CSV that `CsvText` made."""
    return list(islice(csv.reader(io.StringIO(text.decode(ENCODING, ESCAPE), newline="")), most))


class CsvFile:
    """The rows of a CSV file, whose bytes can often be copied unchanged."""

    def __init__(self, path: str, delimiter: str, width: int, name: str = "") -> None:
        """Take a file whose rows have `width` fields, and the `name` that messages use."""
        self._path, self._delimiter, self._width, self._name = path, delimiter, width, name or path

    def __iter__(self) -> Iterator[Row]:
        """Return the rows below the header."""
        return islice(csv_rows(self._path, self._delimiter, self._name), 1, None)

    def plain_blocks(self) -> Iterator[tuple[bytes, np.ndarray] | None]:
        """Yield blocks of whole lines, the header first, each with the positions where its lines end.

        Yield None instead of a block that `CsvText` would write differently.
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


def empty_list(path: str) -> Refused:
    """Return the refusal of a dataset list without a header."""
    return Refused(f"{path}: is empty; a dataset list starts with a line of column names")


def csv_rows(source: str | BinaryIO, delimiter: str, name: str = "") -> Generator[Row, None, None]:
    """Yield the rows of a CSV file, the header first; refuse a line that has more or fewer columns."""

    def fault(line: int, why: str) -> Refused:
        return Refused(f"{name or source}: line {line} {why}; fix that line")

    binary = open(source, "rb") if isinstance(source, str) else source  # noqa: SIM115 - closed with the text
    with io.TextIOWrapper(binary, ENCODING, ESCAPE, newline="") as file:
        if file.read(1) != "\ufeff":
            file.seek(0)
        yield from CsvReader(file, delimiter, fault=fault)


class CsvReader:
    """The rows of CSV text, which must all have the same width; empty lines are skipped."""

    def __init__(
        self, lines: Iterable[str], delimiter: str = ",", *, fault: Callable[[int, str], Exception]
    ) -> None:
        """Read text whose lines end as they do in the file.

        Args:
            lines: A file, or lines.
            delimiter: The character between two columns.
            fault: Returns the error to raise for the number of a line and what is wrong there.
        """
        self._reader = csv.reader(lines, delimiter=delimiter, strict=True)
        self._fault = fault

    @property
    def line(self) -> int:
        """The number of the line in which the last row ends."""
        return self._reader.line_num

    def __iter__(self) -> Iterator[Row]:
        width = 0
        try:
            for row in self._reader:
                if not row:
                    continue
                width = width or len(row)
                if len(row) != width:
                    raise self._fault(self.line, f"has {len(row)} columns where the first line has {width}")
                yield row
        except csv.Error as error:
            raise self._fault(self.line, f"is not CSV ({error})") from None


class _Number(str):
    """A JSON number as written, such as 1e5 or 2.50."""

    __slots__ = ()


def json_value(text: str) -> Any:  # noqa: ANN401 - whatever JSON holds
    """Parse JSON, with numbers as text; raise ValueError or RecursionError."""
    return json.loads(text, parse_int=_Number, parse_float=_Number, parse_constant=_Number)


def json_fields(text: str) -> dict[str, str] | None:
    """Return the values of a JSON object as text, or None for another value; raise as `json_value` does."""
    value = json_value(text)
    return {name: json_text(one) for name, one in value.items()} if isinstance(value, dict) else None


def json_text(value: Any) -> str:  # noqa: ANN401 - whatever JSON holds
    """Return a value of `json_value` as text, with numbers as written; null becomes the empty text."""
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
    """Return a value of a table as text; a missing value becomes the empty text."""
    if isinstance(value, str):
        return value
    if value is None or (isinstance(value, float) and value != value):  # noqa: PLR0124 - not a number
        return ""
    if isinstance(value, (dict, list, tuple)):
        return json.dumps(value, ensure_ascii=False, default=_plain)
    if hasattr(value, "tolist") and not isinstance(value, np.generic):
        # str() abbreviates arrays
        return python_text(_plain(value))
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)


def _plain(value: Any) -> Any:  # noqa: ANN401 - whatever a table holds
    """Return the Python value of a NumPy scalar, an array or a tensor, or else its text."""
    if not hasattr(value, "tolist"):
        return str(value)
    is_time = getattr(getattr(value, "dtype", None), "kind", None) in ("m", "M")
    # nanoseconds would become a bare number
    return (value.astype(str) if is_time else value).tolist()
