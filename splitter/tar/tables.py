"""`create` and `to-csv`: from a plan to samples, and from samples to a table."""

import csv
import io
import os
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import IO

from splitter.archives.members import HELD_BYTES, FilePart, Member, SharedFile, why_unsafe
from splitter.archives.sources import STANDARD
from splitter.errors import Refused, TarError
from splitter.tar.samples import Keys, TarSample
from splitter.tar.targets import writing

KEY = "key"
FIRST_SHOWN = 5
LONGEST_CELL = 1 << 30


@dataclass(frozen=True)
class Plan:
    """A table that says what samples to make.

    Attributes:
        name: What messages call it.
        file: The table, as text that can be read again.
        folder: Where the paths in it start from.
        delimiter: What stands between two columns.
    """

    name: str
    file: IO[str]
    folder: str
    delimiter: str

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """The rows below the header, with their lines."""
        csv.field_size_limit(LONGEST_CELL)
        self.file.seek(0)
        reader = csv.reader(self.file, delimiter=self.delimiter, strict=True)
        try:
            columns = next(reader, [])
            for row in reader:
                if row and len(row) != len(columns):
                    where = f"{self.name}, line {reader.line_num}"
                    raise Refused(f"{where}: has {len(row)} cells, and the header {len(columns)}")
                if row:
                    yield reader.line_num, row
        except csv.Error as error:
            raise Refused(f"{self.name}, line {reader.line_num}: {error}") from None
        except UnicodeDecodeError as error:
            raise Refused(f"{self.name}: is not UTF-8 at byte {error.start}; save it as UTF-8") from None

    def columns(self) -> list[str]:
        """The header, checked."""
        self.file.seek(0)
        try:
            columns = next(csv.reader(self.file, delimiter=self.delimiter, strict=True), [])
        except (csv.Error, UnicodeDecodeError) as error:
            raise Refused(f"{self.name}: its header cannot be read: {error}") from None
        other = next((sign for sign in ",;\t|" if columns and sign in columns[0]), None)
        if len(columns) == 1 and other:
            raise Refused(f"{self.name}: has one column, {columns[0]!r}; is it --delimiter {other!r}?")
        fields = [column.removeprefix("@") for column in columns]
        if not any(column != KEY for column in columns):
            raise Refused(f"{self.name}: has no columns; expected such as {KEY},@wav,cls")
        for column, field in zip(columns, fields, strict=True):
            if fields.count(field) > 1:
                raise Refused(f"{self.name}: has two columns for {field!r}")
            if column != KEY and (not field or "/" in field or "\0" in field):
                raise Refused(f"{self.name}: the column {column!r} cannot be the name of a field")
        return columns


def open_plan(location: str, delimiter: str | None) -> Plan:
    """A plan at a path, or on standard input."""
    between = delimiter or ("\t" if location.endswith(".tsv") else ",")
    if len(between) != 1:
        raise Refused(f"--delimiter {delimiter!r}: must be one character")
    folder = "" if location == STANDARD else os.path.dirname(location)
    name = "standard input" if location == STANDARD else location
    try:
        if location == STANDARD:
            # it is read twice
            copy = tempfile.TemporaryFile(prefix="splitter-")  # noqa: SIM115 - lives as long as the plan
            with open(0, "rb", closefd=False) as standard:
                shutil.copyfileobj(standard, copy)
            file: IO[str] = io.TextIOWrapper(copy, encoding="utf-8-sig", newline="")
        else:
            file = open(location, encoding="utf-8-sig", newline="")  # noqa: SIM115
    except OSError as error:
        raise Refused(f"{name}: cannot be read: {error.strerror}") from None
    return Plan(name, file, folder, between)


def check_plan(plan: Plan) -> int:
    """Look at every row and file of a plan before anything is made; how many rows there are."""
    columns = plan.columns()
    keys = Keys()
    wrong: list[str] = []
    count = others = 0
    for line, row in plan.rows():
        found = _faults(plan, columns, row, count, keys)
        if found and len(wrong) < FIRST_SHOWN:
            wrong.append(f"line {line}: {found}")
        elif found:
            others += 1
        count += 1
    if wrong:
        more = f"; and {others} more rows" if others else ""
        raise Refused(f"{plan.name}: {'; '.join(wrong)}{more}; nothing was written")
    return count


def _faults(plan: Plan, columns: Sequence[str], row: Sequence[str], number: int, keys: Keys) -> str | None:
    key = _key(columns, row, number)
    base = key.rpartition("/")[2]
    if not base or "." in base:
        return f"the key {key!r} {'has a dot in it' if base else 'is empty or ends with a slash'}"
    if wrong := why_unsafe(key):
        return f"the key {key!r} {wrong}"
    if key.startswith("./") or not keys.add(key):
        return f"the key {key!r} {'begins with a dot' if key.startswith('./') else 'is there twice'}"
    if not any(cell for column, cell in zip(columns, row, strict=True) if column != KEY):
        return f"the sample {key!r} has no fields"
    for column, cell in zip(columns, row, strict=True):
        if column.startswith("@") and cell and (why := _unreadable(os.path.join(plan.folder, cell))):
            return f"{cell}: {why}"
    return None


def _key(columns: Sequence[str], row: Sequence[str], number: int) -> str:
    return row[columns.index(KEY)] if KEY in columns else f"{number:09d}"


def _unreadable(path: str) -> str | None:
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError) as error:
        return getattr(error, "strerror", None) or str(error)
    if not stat.S_ISREG(mode):
        return "is not a file"
    return None if os.access(path, os.R_OK) else "Permission denied"


def planned(plan: Plan) -> Iterator[TarSample]:
    """The samples of a plan that was checked."""
    columns = plan.columns()
    for number, (_, row) in enumerate(plan.rows()):
        key = _key(columns, row, number)
        cells = [pair for pair in zip(columns, row, strict=True) if pair[0] != KEY and pair[1]]
        members = [_member(plan, key, column, cell) for column, cell in cells]
        yield TarSample(key, tuple(members), plan.name)


def _member(plan: Plan, key: str, column: str, cell: str) -> Member:
    name = f"{key}.{column.removeprefix('@')}"
    if not column.startswith("@"):
        content = cell.encode()
        return Member(name, len(content), content)
    try:
        with open(os.path.join(plan.folder, cell), "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size > HELD_BYTES:
                return Member(name, size, FilePart(SharedFile(os.dup(file.fileno())), 0, size))
            content = file.read()
            return Member(name, len(content), content)
    except OSError as error:
        raise TarError(f"{cell}: cannot be read: {error.strerror}") from None


# -- to-csv -----------------------------------------------------------------------------------------------


def write_table(
    samples: Iterable[TarSample],
    fields: Sequence[str],
    target: str,
    *,
    delimiter: str | None = None,
    missing: str | None = None,
) -> int:
    """Write the key and some fields of each sample as a table; how many samples there were."""
    between = delimiter or ("\t" if target.endswith((".tsv", ".tsv.gz")) else ",")
    if len(between) != 1:
        raise Refused(f"--delimiter {delimiter!r}: must be one character")
    count = 0
    with writing(target) as raw:
        # a name of bytes that are not UTF-8 stays as it is
        file = io.TextIOWrapper(raw, encoding="utf-8", errors="surrogateescape", newline="")
        file.write(csv_line([KEY, *fields], between))
        for sample in samples:
            cells = [_cell(sample, field, missing) for field in fields]
            file.write(csv_line([sample.key, *cells], between))
            count += 1
        file.flush()
        file.detach()
    return count


def csv_line(cells: Sequence[str], delimiter: str = ",") -> str:
    """A line of a table."""
    text = io.StringIO(newline="")
    # with "\n" as its end, Python before 3.13 leaves a cell that has a carriage return without quotes
    csv.writer(text, delimiter=delimiter, lineterminator="\r\n").writerow(cells)
    return text.getvalue()[:-2] + "\n"


def _cell(sample: TarSample, field: str, missing: str | None) -> str:
    text = sample.text(field)
    if text is not None:
        return text.removesuffix("\n").removesuffix("\r")
    text = missing
    if text is None:
        where = f"{sample.location}: sample {sample.key!r}"
        raise TarError(f"{where} has no field {field!r}; with --missing '' its cell is left empty")
    return text
