"""Labels from another file, joined to the rows of a list by the values of a column, never by position."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from splitter.errors import Refused
from splitter.text.csv import Row
from splitter.text.show import NAMES_SHOWN, show_count, show_names
from splitter.text.spelling import nearest


@dataclass
class RowTally:
    """Counts of rows that were left out or have no labels, made while the list is read.

    Attributes:
        left_out: How many rows `--where` has left out.
        not_kept: How many outputs of an earlier run its `--keep` has left out.
        chosen: Whether `--pattern` chose among the files of a folder.
        passed_over: How many files in folders match the pattern but are not inputs, by kind.
        unlabelled: How many rows have no match in the file of labels, and so have empty labels.
        unlabelled_names: The paths of the first few of them.
        unused: How many rows of that file belong to no input.
        unused_names: The first few of their keys.
    """

    left_out: int = 0
    not_kept: int = 0
    chosen: bool = False
    passed_over: Counter[str] = field(default_factory=Counter)
    unlabelled: int = 0
    unlabelled_names: list[str] = field(default_factory=list)
    unused: int = 0
    unused_names: list[str] = field(default_factory=list)


class LabelTable:
    """The columns of a file of labels, by key."""

    def __init__(self, name: str, header: Row, rows: Iterable[Row], column: str) -> None:
        """Read all rows; refuse a key that occurs twice, since either row could be meant."""
        if column not in header:
            hint = nearest(column, header) or f"; it has {', '.join(map(repr, header[:10]))}"
            raise Refused(
                f"{name}: has no column {column!r} to join by{hint} (--on COLUMN, or --on COLUMN=ITS-COLUMN)"
            )
        self.name, self._column = name, column
        at = header.index(column)
        self.header = header[:at] + header[at + 1 :]
        self._labels: dict[str, Row] = {}
        twice: dict[str, None] = {}
        for row in rows:
            if row[at] in self._labels:
                twice[row[at]] = None
            self._labels[row[at]] = row[:at] + row[at + 1 :]
        if twice:
            occur = "occurs" if len(twice) == 1 else "occur"
            raise Refused(
                f"{name}: {show_count(len(twice), 'key')} in column {column!r} {occur} more than once "
                f"({show_names([*map(repr, [*twice][:NAMES_SHOWN])], len(twice))}); keep one row of each"
            )

    def joined(self, header: Row, rows: Iterable[Row], on: str, path: str, tally: RowTally) -> Iterator[Row]:
        """Yield the rows with their labels at the end, and count rows and labels without a match."""
        at, name_at = header.index(on), header.index(path)
        unused = dict.fromkeys(self._labels)
        empty = [""] * len(self.header)
        example = ""
        for row in rows:
            labels = self._labels.get(row[at])
            if labels is None:
                tally.unlabelled += 1
                example = example or row[at]
                if len(tally.unlabelled_names) < NAMES_SHOWN:
                    tally.unlabelled_names.append(row[name_at])
                yield row + empty
            else:
                unused.pop(row[at], None)
                yield row + labels
        if tally.unlabelled and len(unused) == len(self._labels):
            own = f"such as {next(iter(self._labels))!r}" if self._labels else "(none)"
            theirs = f"the column {on!r} of the list has values such as {example!r}; name others with --on"
            why = f"its column {self._column!r} has keys {own}, {theirs}"
            raise Refused(f"{self.name}: no row belongs to an input: {why}")
        tally.unused += len(unused)
        tally.unused_names += [*unused][:NAMES_SHOWN]


def columns_to_join_by(asked: str | None, path_column: str) -> tuple[str, str]:
    """Return the columns that `--on` names: that of the list, and that of the file of labels."""
    own, sign, other = (asked or path_column).partition("=")
    if not own or (sign and not other):
        raise Refused(f"--on {asked!r}: write COLUMN, or COLUMN=COLUMN-OF-THE-FILE")
    return own, other or own
