"""The copy of the dataset list: rows on disk, a few numbers for each in memory."""

import os
from collections.abc import Iterable, Iterator
from itertools import islice, pairwise
from typing import BinaryIO

import numpy as np
import xxhash

from splitter.errors import Refused, StorageError
from splitter.records import InputFile, Scratch
from splitter.storage.content import READ_AT_ONCE, checksum_of
from splitter.storage.layout import Layout
from splitter.text.csv import ENCODING, ESCAPE, CsvFile, CsvText, Row, parse_rows

BLOCK = 10_000


class InputTable:
    """The copy of the dataset list: rows on disk, a few numbers for each in memory.

    Attributes:
        header: The names of the columns.
        column: The column that holds the paths.
        names_urls: Whether any row names a URL.
    """

    def __init__(
        self, file: BinaryIO, header: Row, column: str, offsets: np.ndarray, *, names_urls: bool = False
    ) -> None:
        self.names_urls = names_urls
        self._file = file
        self.header = header
        self.column = column
        self.at = header.index(column)
        self._offsets = offsets
        self._order: np.ndarray | None = None
        self._starts = np.empty(0, "i8")

    def __len__(self) -> int:
        """Return how many inputs there are: the rows, unless rows were grouped."""
        return len(self._offsets) - 1 if self._order is None else len(self._starts) - 1

    def group(self, keys: np.ndarray) -> np.ndarray:
        """Make one input of all rows with the same key; return the index of each input's first row."""
        _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
        rank = np.empty(len(first), "i8")
        rank[np.argsort(first)] = np.arange(len(first))
        self._order = np.argsort(rank[inverse], kind="stable")
        self._starts = np.concatenate(([0], np.cumsum(np.bincount(rank[inverse], minlength=len(first)))))
        return np.sort(first)

    def texts(self, start: int, stop: int) -> list[bytes]:
        """Return the CSV text of each input from `start` to before `stop`."""
        if self._order is None:
            return self._rows(start, stop)
        groups = (self._order[self._starts[index] : self._starts[index + 1]] for index in range(start, stop))
        return [b"".join(self._rows(row, row + 1)[0] for row in group.tolist()) for group in groups]

    def text(self, index: int) -> bytes:
        """Return the CSV text of one input: its row, or all of them."""
        return self.texts(index, index + 1)[0]

    def listed(self, index: int) -> str:
        """Return the path of an input as written in the list."""
        return parse_rows(self.text(index))[0][self.at]

    def checksum(self) -> str:
        """Return the checksum of the whole copy."""
        self._file.flush()
        digest, at = xxhash.xxh3_128(), 0
        while block := os.pread(self._file.fileno(), READ_AT_ONCE, at):
            digest.update(block)
            at += len(block)
        return checksum_of(digest)

    def input_file(self, index: int, layout: Layout) -> InputFile:
        """Return an input in the form that `process` takes."""
        return make_input(parse_rows(self.text(index)), self.header, self.at, layout, Scratch())

    def _rows(self, start: int, stop: int) -> list[bytes]:
        bounds = self._offsets[start : stop + 1]
        first = int(bounds[0])
        block = os.pread(self._file.fileno(), int(bounds[-1]) - first, first)
        cuts = (bounds - first).tolist()
        return [block[a:b] for a, b in pairwise(cuts)]


def make_input(rows: list[Row], header: Row, at: int, layout: Layout, scratch: Scratch) -> InputFile:
    """Return the value that `process` takes, from the parsed rows of one input."""
    text = rows[0][at]
    columns = [dict(zip(header, row, strict=True)) for row in rows]
    return InputFile(text, layout.location(text), columns[0], tuple(columns), scratch)


def copy_list(header: Row, rows: Iterable[Row], file: BinaryIO, column: str) -> InputTable:
    """Write the rows as plain CSV, and return them as a table."""
    begin = _append(file, CsvText().encode([header]))
    copied = _copy_plain(rows, file, begin) if isinstance(rows, CsvFile) else None
    if copied is None:
        file.seek(begin)
        file.truncate()
        copied = _copy_rows(rows, file, begin)
    pieces, names_urls = copied
    return InputTable(file, header, column, np.concatenate(pieces), names_urls=names_urls)


def _copy_rows(rows: Iterable[Row], file: BinaryIO, position: int) -> tuple[list[np.ndarray], bool]:
    """Write rows; return the positions where they end, and whether any contains a URL."""
    csv_text, urls = CsvText(), False
    pieces = [np.array([position])]
    for number, block in enumerate(_blocks(rows)):
        lines = csv_text.lines(block)
        text = "\n".join([*lines, ""])
        try:
            _append(file, text.encode(ENCODING, ESCAPE))
        except UnicodeEncodeError:
            raise _not_text(lines, number * BLOCK + 1) from None
        texts = lines if text.isascii() else [line.encode(ENCODING, ESCAPE) for line in lines]
        ends = np.cumsum(np.fromiter(map(len, texts), "i8", len(texts)) + 1) + position
        pieces.append(ends)
        position = int(ends[-1])
        urls = urls or "://" in text
    return pieces, urls


def _copy_plain(rows: CsvFile, file: BinaryIO, position: int) -> tuple[list[np.ndarray], bool] | None:
    """Copy lines unchanged; return the same as `_copy_rows`, or None if lines must be written differently."""
    pieces, urls = [np.array([position])], False
    for number, block in enumerate(rows.plain_blocks()):
        if block is None:
            return None
        lines, ends = block
        if not number:
            continue
        pieces.append(ends + position)
        position += _append(file, lines)
        urls = urls or b"://" in lines
    return pieces, urls


def _append(file: BinaryIO, content: bytes) -> int:
    with StorageError.naming("the copy of the dataset list"):
        written = file.write(content)
        file.flush()
        return written


def _not_text(lines: list[str], first: int) -> Refused:
    for number, line in enumerate(lines, first):
        try:
            line.encode(ENCODING, ESCAPE)
        except UnicodeEncodeError as error:
            part = error.object[error.start : error.end]
            return Refused(f"row {number} of the dataset list: {part!r} is not text; fix that row")
    raise AssertionError("all lines can be written")


def _blocks(rows: Iterable[Row]) -> Iterator[list[Row]]:
    left = iter(rows)
    while block := [*islice(left, BLOCK)]:
        yield block
