"""The job that every contender does, and the files for it."""

import csv
import random
import string
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

NUM_CHARS = 3
FILES_PER_FOLDER = 1000
COLUMNS = ("input", "label", "part", "word")

Row = tuple[str, str]
PartRow = tuple[str, str, str, str]


class Digest(NamedTuple):
    """A summary of a result that does not depend on the order of its rows."""

    rows: int
    checksum: int


def split_word(word: str) -> list[str]:
    """Split a word into parts of three characters that overlap by two; return a short word as it is.

    With a step of one character the last window always ends at the last character: none is shifted back.
    """
    last = len(word) - NUM_CHARS
    if last <= 0:
        return [word]
    return [word[start : start + NUM_CHARS] for start in range(last + 1)]


def read_parts(root: str, row: Row) -> list[PartRow]:
    """Open, read, strip and split one file."""
    name, label = row
    with open(f"{root}/{name}", encoding="utf-8") as file:
        word = file.read().strip()
    return [(name, label, part, word) for part in split_word(word)]


def read_list(dataset: Path) -> list[Row]:
    """Read the columns input and label."""
    with dataset.open(encoding="utf-8", newline="") as file:
        rows = csv.reader(file)
        next(rows)
        return [(name, label) for name, label in rows]


def make_words(folder: Path, files: int) -> Path:
    """Make a dataset list of tiny files with one word each, once; return the path of the list."""
    dataset = folder / "dataset.csv"
    if not dataset.exists():
        folder.mkdir(parents=True, exist_ok=True)
        write_list(dataset, _write_words(folder, files))
    return dataset


def write_list(dataset: Path, rows: Iterable[Row]) -> None:
    """Write the dataset list; it gets its name when it is complete, and then the set counts as made."""
    partial = dataset.with_suffix(".partial")
    with partial.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("input", "label"))
        writer.writerows(rows)
    partial.replace(dataset)


def _write_words(folder: Path, files: int) -> Iterator[Row]:
    generator = random.Random(0)
    for index in range(files):
        directory = f"{index // FILES_PER_FOLDER:05d}"
        if index % FILES_PER_FOLDER == 0:
            (folder / directory).mkdir(exist_ok=True)
        name = f"{directory}/{index % FILES_PER_FOLDER:03d}.txt"
        word = "".join(generator.choices(string.ascii_lowercase, k=generator.randint(2, 12)))
        (folder / name).write_text(word + "\n", encoding="utf-8")
        yield name, f"label-{len(word)}"


def expected_digest(dataset: Path) -> Digest:
    """Do the job in this process, which also fills the cache; return the result that all must have."""
    root = str(dataset.parent)
    return digest_rows(part for row in read_list(dataset) for part in read_parts(root, row))


def result_digest(results: Iterable[Path]) -> Digest:
    """Summarize what a contender wrote: CSV files with a header, which may have other columns, too."""
    return digest_rows(row for path in results for row in _read_columns(path))


def digest_rows(rows: Iterable[PartRow]) -> Digest:
    """Count the rows and add up their checksums."""
    count = checksum = 0
    for row in rows:
        count += 1
        checksum += crc32("\t".join(row).encode())
    return Digest(count, checksum)


def _read_columns(path: Path) -> Iterator[PartRow]:
    with path.open(encoding="utf-8", newline="") as file:
        rows = csv.reader(file)
        header = next(rows)
        name, label, part, word = (header.index(column) for column in COLUMNS)
        for row in rows:
            yield row[name], row[label], row[part], row[word]
