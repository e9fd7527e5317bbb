"""`create` and `to-csv`: from a plan to samples, and from samples to a table."""

import io
import os
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import IO

from splitter.archives.members import Member, member_of_file, why_unsafe
from splitter.archives.sources import STANDARD
from splitter.errors import Refused, TarError
from splitter.tar.samples import Keys, TarSample
from splitter.tar.targets import writing
from splitter.text.csv import CsvReader, CsvText

KEY = "key"
FIRST_SHOWN = 5


@dataclass(frozen=True)
class Plan:
    """A table of samples to make.

    Attributes:
        name: Its name in messages.
        file: The table, as seekable text.
        folder: The folder that its paths start from.
        delimiter: The column delimiter.
    """

    name: str
    file: IO[str]
    folder: str
    delimiter: str

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """Yield the rows below the header, with their line numbers."""
        return islice(self._lines(), 1, None)

    def _lines(self) -> Iterator[tuple[int, list[str]]]:
        self.file.seek(0)
        rows = CsvReader(self.file, self.delimiter, fault=self._fault)
        try:
            for row in rows:
                yield rows.line, row
        except UnicodeDecodeError as error:
            raise Refused(f"{self.name}: is not UTF-8 at byte {error.start}; save it as UTF-8") from None

    def _fault(self, line: int, why: str) -> Refused:
        return Refused(f"{self.name}: line {line} {why}; fix that line")

    def columns(self) -> list[str]:
        """Return the header; refuse one whose columns cannot be a key and fields."""
        _, columns = next(self._lines(), (0, []))
        other = next((sign for sign in ",;\t|" if columns and sign in columns[0]), None)
        if len(columns) == 1 and other:
            raise Refused(f"{self.name}: has one column, {columns[0]!r}; is it --delimiter {other!r}?")
        fields = [column.removeprefix("@") for column in columns]
        if not any(column != KEY for column in columns):
            raise Refused(f"{self.name}: has no columns; expected for example {KEY},@wav,cls")
        for column, field in zip(columns, fields, strict=True):
            if fields.count(field) > 1:
                raise Refused(f"{self.name}: has two columns for {field!r}")
            if column != KEY and (not field or "/" in field or "\0" in field):
                raise Refused(f"{self.name}: the column {column!r} cannot be the name of a field")
        return columns


def open_plan(location: str, delimiter: str | None) -> Plan:
    """Open a plan at a path, or on standard input."""
    between = _delimiter(delimiter, is_tsv=location.endswith(".tsv"))
    folder = "" if location == STANDARD else os.path.dirname(location)
    name = "standard input" if location == STANDARD else location
    try:
        if location == STANDARD:
            # a copy, because a plan is read twice
            copy = tempfile.TemporaryFile(prefix="splitter-")  # noqa: SIM115 - lives as long as the plan
            with open(0, "rb", closefd=False) as standard:
                shutil.copyfileobj(standard, copy)
            file: IO[str] = io.TextIOWrapper(copy, encoding="utf-8-sig", newline="")
        else:
            file = open(location, encoding="utf-8-sig", newline="")  # noqa: SIM115
    except OSError as error:
        raise Refused(f"{name}: cannot be read: {error.strerror}") from None
    return Plan(name, file, folder, between)


def _delimiter(asked: str | None, *, is_tsv: bool) -> str:
    between = asked or ("\t" if is_tsv else ",")
    if len(between) != 1:
        raise Refused(f"--delimiter {asked!r}: must be one character")
    return between


def check_plan(plan: Plan) -> None:
    """Check every row and file of a plan before anything is made."""
    columns = plan.columns()
    keys = Keys()
    wrong: list[str] = []
    others = 0
    for number, (line, row) in enumerate(plan.rows()):
        found = _faults(plan, columns, row, number, keys)
        if found and len(wrong) < FIRST_SHOWN:
            wrong.append(f"line {line}: {found}")
        elif found:
            others += 1
    if wrong:
        more = f"; and {others} more rows" if others else ""
        raise Refused(f"{plan.name}: {'; '.join(wrong)}{more}; nothing was written")


def _faults(plan: Plan, columns: Sequence[str], row: Sequence[str], number: int, keys: Keys) -> str | None:
    key = _key(columns, row, number)
    base = key.rpartition("/")[2]
    if not base or "." in base:
        return f"the key {key!r} {'has a dot in it' if base else 'is empty or ends with a slash'}"
    if wrong := why_unsafe(key):
        return f"the key {key!r} {wrong}"
    if key.startswith("./") or not keys.add(key):
        return f"the key {key!r} {'begins with a dot' if key.startswith('./') else 'occurs twice'}"
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
    """Yield the samples of a checked plan."""
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
        return member_of_file(os.path.join(plan.folder, cell), name)
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
) -> None:
    """Write the key and some fields of each sample as a table."""
    between = _delimiter(delimiter, is_tsv=target.endswith((".tsv", ".tsv.gz")))
    with writing(target) as raw:
        lines = CsvText(between)
        raw.write(lines.encode([[KEY, *fields]]))
        for sample in samples:
            raw.write(lines.encode([[sample.key, *(_cell(sample, field, missing) for field in fields)]]))


def _cell(sample: TarSample, field: str, missing: str | None) -> str:
    text = sample.text(field)
    if text is not None:
        return text.removesuffix("\n").removesuffix("\r")
    if missing is None:
        where = f"{sample.location}: sample {sample.key!r}"
        raise TarError(f"{where} has no field {field!r}; use --missing '' to leave its cell empty")
    return missing
