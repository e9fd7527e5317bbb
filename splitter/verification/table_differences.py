"""Find the rows in which a table differs from what it should hold."""

import csv
import io
from collections.abc import Iterator
from contextlib import suppress

import numpy as np
import xxhash

from splitter.ledger.manifest import MANIFEST
from splitter.ledger.records import OUTPUT_COLUMNS
from splitter.sorted_arrays import index_of
from splitter.storage.content import READ_AT_ONCE
from splitter.text.csv import Row, parse_rows

MAKE_TABLES = "'splitter manifest' makes it again from the commit records"


def has_same_bytes(pieces: Iterator[bytes], file: io.RawIOBase) -> bool:
    """Return whether a file holds exactly these pieces."""
    reader = io.BufferedReader(file, READ_AT_ONCE)
    try:
        return all(reader.read(len(piece)) == piece for piece in pieces) and not reader.read(1)
    finally:
        reader.detach()


def blocks_of(file: io.RawIOBase) -> Iterator[bytes]:
    """Yield the content of a file in blocks."""
    while block := file.read(READ_AT_ONCE):
        yield block


def _lines(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield lines with their line endings, which only the last line may lack."""
    rest = b""
    for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        yield from (line + b"\n" for line in lines)
    if rest:
        yield rest


def hashes_of_lines(pieces: Iterator[bytes]) -> np.ndarray:
    """Return a hash of each line."""
    return np.fromiter(map(xxhash.xxh3_64_intdigest, _lines(pieces)), "u8")


def numbers_only_in(some: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return the indices of the lines that the others lack, or have fewer times."""
    order = np.argsort(some, kind="stable")
    values, first, counts = np.unique(some[order], return_index=True, return_counts=True)
    there, how_often = np.unique(others, return_counts=True)
    # values that the others lack have the index -1, so the last count is theirs
    allowed = np.append(how_often, 0)[index_of(there, values)]
    rank = np.arange(len(order)) - np.repeat(first, counts)
    return np.sort(order[rank >= np.repeat(allowed, counts)])


def pick_lines(pieces: Iterator[bytes], numbers: np.ndarray) -> list[tuple[int, bytes]]:
    """Return some lines, with their numbers counted from 1."""
    chosen = set(numbers.tolist())
    return [(number + 1, line) for number, line in enumerate(_lines(pieces)) if number in chosen]


def row_differences(
    table: str, header: Row, lost: list[tuple[int, bytes]], more: list[tuple[int, bytes]]
) -> Iterator[str]:
    """Yield a description of each row that differs from what was committed."""
    committed: dict[str, list[Row]] = {}
    for number, line in lost:
        row = _parsed(line) if number > 1 else []
        committed.setdefault(_named(table, header, row) or f"line {number:,}", []).append(row)
    for number, line in more:
        row = _parsed(line)
        name = _named(table, header, row)
        before = committed.get(name, [])
        if number == 1 and committed.pop("line 1", []):
            yield f"line 1 has different columns from those committed; {MAKE_TABLES}"
        elif before:
            yield f"line {number:,}, the row of {name}: {_edited(header, before.pop(0), row)}"
        else:
            yield f"line {number:,}{name and f', the row of {name},'} was never committed"
    for name, rows in committed.items():
        for _ in rows:
            yield f"the row of {name} does not exist"


def _parsed(line: bytes) -> Row:
    """Return the row on a line, or an empty one if it is not a whole row."""
    with suppress(csv.Error, IndexError):
        return parse_rows(line)[0]
    return []


def _named(table: str, header: Row, row: Row) -> str:
    """Return the name of what a row is about: its output file, or else its input."""
    if len(row) != len(header):
        return ""
    output = row[header.index(OUTPUT_COLUMNS[0])] if table == MANIFEST else ""
    return output or row[0]


def _edited(header: Row, before: Row, now: Row) -> str:
    for name, one, other in zip(header, before, now, strict=True):
        if one != other:
            return f"{name} is {other[:100]!r} where {one[:100]!r} is committed"
    return "is not written as it was committed"
