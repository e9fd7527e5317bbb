"""What the tables of a run come to: counts, hours, sizes and failures, by the values of a column.

The rows are read one after the other; only the sums are kept.
"""

import contextlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from splitter.errors import Refused
from splitter.ledger.manifest import ERRORS, MANIFEST
from splitter.ledger.records import ERROR_COLUMNS, OUTPUT_COLUMNS, SKIPPED_COLUMN
from splitter.ledger.run_files import LIST, LISTED
from splitter.ledger.splits import COLUMN, SplitRule
from splitter.outputs.files import Files
from splitter.outputs.tables import location_of, open_table, schema_of
from splitter.storage.checked_file import json_of
from splitter.text.csv import Row
from splitter.text.show import one_line, show_bytes, show_count, show_seconds

SECONDS_IN_HOUR = 3600
LEAST_HOURS = 360
MOST_SHOWN = 40
LONGEST_NAME = 60
# so much more or less of all outputs than a split was to have is worth a word
FAR = 0.05
# how long the outputs of sound are: the first pair that there is
_FRAMES, _TIMES = ("frames", "sample_rate"), ("start_seconds", "end_seconds")


@dataclass
class OutputTally:
    """What some rows come to.

    Attributes:
        done: How many inputs have a row of the manifest that says no reason to leave them out.
        outputs: How many output files.
        bytes: Their sizes.
        seconds: How long they are, as far as they are sound.
        skipped: Inputs that the recipe left out.
        failed: Inputs that stand in errors.csv.
    """

    done: int = 0
    outputs: int = 0
    bytes: int = 0
    seconds: float = 0.0
    skipped: int = 0
    failed: int = 0
    _last: str | None = field(default=None, repr=False)

    def add(self, path: str, size: str, seconds: float, *, skipped: bool) -> None:
        """Add a row of the manifest; those of an input stand together."""
        if path != self._last:
            self._last = path
            self.done += not skipped
            self.skipped += skipped
        if size:
            self.outputs += 1
            self.bytes += int(_number(size))
            self.seconds += seconds

    @property
    def inputs(self) -> int:
        """How many were done, left out, or have failed."""
        return self.done + self.skipped + self.failed

    def to_json(self) -> dict[str, Any]:
        """As it is printed for programs."""
        return {
            "inputs": self.inputs,
            "done": self.done,
            "outputs": self.outputs,
            "bytes": self.bytes,
            "hours": self.seconds / SECONDS_IN_HOUR,
            "skipped": self.skipped,
            "failed": self.failed,
        }


@dataclass
class Stats:
    """The tallies of a run, or of each value of a column.

    Attributes:
        total: Of all rows.
        groups: Of each value, in the order in which they are first seen.
        has_sound: Whether the rows say how long the outputs are.
        failures_known: Whether failures could be told apart by the column.
        not_tried: How many inputs of the run's list stand in none of its tables.
    """

    total: OutputTally = field(default_factory=OutputTally)
    groups: dict[str, OutputTally] = field(default_factory=dict)
    has_sound: bool = False
    failures_known: bool = True
    not_tried: int = 0

    def to_json(self, by: str | None) -> str:
        """As it is printed for programs."""
        content: dict[str, Any] = {"total": self.total.to_json(), "not_tried": self.not_tried}
        if by is not None:
            content["by"] = by
            content["groups"] = [{"value": value, **tally.to_json()} for value, tally in self.groups.items()]
        return json.dumps(content)

    def lines(self, by: str | None) -> list[str]:
        """As a table for a person, the largest first."""
        hours = ["hours"] if self.has_sound else []
        header = ["inputs", "done", "outputs", "size", *hours, "skipped", "failed"]
        known = sorted(self.groups.items(), key=lambda one: (-one[1].outputs, one[0]))
        rows = [[shown(value), *self._cells(tally)] for value, tally in known[:MOST_SHOWN]]
        if not self.failures_known:
            for row in rows:
                row[-1] = "?"
        lines = aligned([[by or "", *header], *rows, ["all", *self._cells(self.total)]])
        if len(known) > MOST_SHOWN:
            lines.insert(-1, f"... and {len(known) - MOST_SHOWN:,} more; --json has them all")
        if not self.failures_known:
            lines.append(
                f"failed ?: {shown(by or '')} is no column of {ERRORS}, so failures are counted in all only"
            )
        if self.not_tried:
            listed = show_count(self.total.inputs + self.not_tried, "input")
            lines.append(f"{self.not_tried:,} of {listed} not tried yet")
        return lines

    def _cells(self, tally: OutputTally) -> list[str]:
        hours = [show_hours(tally.seconds)] if self.has_sound else []
        counts = f"{tally.inputs:,}", f"{tally.done:,}", f"{tally.outputs:,}", show_bytes(tally.bytes)
        return [*counts, *hours, f"{tally.skipped:,}", f"{tally.failed:,}"]


def show_hours(seconds: float) -> str:
    """Hours for a table; what is too short for that with its own unit."""
    return show_seconds(seconds) if 0 < seconds < LEAST_HOURS else f"{seconds / SECONDS_IN_HOUR:,.2f}"


def shown(value: str) -> str:
    """A value for a table."""
    text = one_line(value) or '""'
    return text if len(text) <= LONGEST_NAME else f"{text[: LONGEST_NAME - 3]}..."


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns one below the other: names to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip() for row in rows
    ]


class ManifestRows:
    """The rows of the manifest of a folder, and what their columns mean."""

    def __init__(self, folder: str) -> None:
        """Open it."""
        location = location_of(folder, "OUTPUT")
        self.files, self.name = location.files, location.name
        _, self.columns = schema_of(self.files)
        self.header, self._rows = open_table(self.files, location.name, OUTPUT_COLUMNS, self.columns)
        self._path = self.header.index(path_column(self.files, self.header))
        self._size = self.header.index("size")
        self._skipped = self.header.index(SKIPPED_COLUMN) if SKIPPED_COLUMN in self.header else None
        self.seconds_of, self.has_sound = _length(self.header)

    def index_of(self, column: str, option: str) -> int:
        """Where a column is; refuses one that is not there."""
        if column not in self.header:
            raise Refused(
                f"{option} {column}: the manifest has no such column; it has {', '.join(self.header)}"
            )
        return self.header.index(column)

    def __iter__(self) -> Iterator[Row]:
        """Row after row."""
        yield from self._rows

    def add(self, row: Row, tallies: Iterable[OutputTally]) -> None:
        """Add a row to some tallies."""
        seconds = self.seconds_of(row)
        skipped = self._skipped is not None and bool(row[self._skipped])
        for tally in tallies:
            tally.add(row[self._path], row[self._size], seconds, skipped=skipped)


def path_column(files: Files, header: Row) -> str:
    """Which column has the paths of the inputs."""
    if files.exists(LISTED):
        with contextlib.suppress(ValueError, KeyError, TypeError):
            column = json_of(files.read(LISTED))["column"]
            if column in header:
                return str(column)
    return "input" if "input" in header else header[0]


def _length(header: Row) -> tuple[Callable[[Row], float], bool]:
    """How many seconds the output of a row lasts."""
    if {*_FRAMES} <= {*header}:
        frames, rate = map(header.index, _FRAMES)
        return lambda row: _number(row[frames]) / (_number(row[rate]) or 1.0), True
    if {*_TIMES} <= {*header}:
        start, end = map(header.index, _TIMES)
        return lambda row: max(0.0, _number(row[end]) - _number(row[start])), True
    return lambda _: 0.0, False


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        # of a row without an output, or somebody's own column
        return 0.0


def stats_of(folder: str, by: str | None = None) -> Stats:
    """The tallies of a run, from its folder or a URL."""
    rows = ManifestRows(folder)
    stats = Stats(has_sound=rows.has_sound)
    at = None if by is None else rows.index_of(by, "--by")
    for row in rows:
        if at is None:
            rows.add(row, [stats.total])
            continue
        group = stats.groups.get(row[at])
        if group is None:
            group = stats.groups[row[at]] = OutputTally()
        rows.add(row, [stats.total, group])
    _add_failures(rows, by, stats)
    stats.not_tried = max(0, _listed(rows) - stats.total.inputs)
    return stats


def _listed(rows: ManifestRows) -> int:
    """How many inputs the list of the last run has; 0 if that is not known."""
    if rows.name != MANIFEST or not (rows.files.exists(LIST) and rows.files.exists(LISTED)):
        return 0
    header, listed = open_table(rows.files, LIST, [], rows.columns)
    if not _is_grouped(rows.files):
        return sum(1 for _ in listed)
    at = header.index(path_column(rows.files, header))
    # of a million names their numbers take less
    return len({hash(row[at]) for row in listed})


def _is_grouped(files: Files) -> bool:
    try:
        return bool(json_of(files.read(LISTED))["group_rows"])
    except (ValueError, KeyError, TypeError):
        return False


def _add_failures(rows: ManifestRows, by: str | None, stats: Stats) -> None:
    if not rows.files.exists(ERRORS):
        return
    header, errors = open_table(rows.files, ERRORS, ERROR_COLUMNS, rows.columns)
    at = header.index(by) if by in header else None
    stats.failures_known = by is None or at is not None
    for row in errors:
        stats.total.failed += 1
        if at is not None:
            stats.groups.setdefault(row[at], OutputTally()).failed += 1


# -- splits ------------------------------------------------------------------------------------------------


def split_lines(folder: str, rule: SplitRule, label: str | None) -> list[str]:
    """What `splitter split` has come to: how much is in each split, and how its classes are shared."""
    by, names = rule.by, rule.names
    rows = ManifestRows(folder)
    split, group = rows.index_of(COLUMN, "--by"), rows.index_of(by, "--by")
    at = None if label is None else rows.index_of(label, "--label")
    tallies: dict[str, OutputTally] = {name: OutputTally() for name in names}
    groups: dict[str, set[int]] = {name: set() for name in names}
    classes: Counter[tuple[str, str]] = Counter()
    for row in rows:
        name = row[split]
        rows.add(row, [tallies[name]])
        # of a million names their numbers take less
        groups[name].add(hash(row[group]))
        if at is not None and row[rows.header.index("output")]:
            classes[row[at], name] += 1
    lines = aligned(_split_rows(tallies, groups, by, has_sound=rows.has_sound))
    lines += _far_from(rule, tallies, sum(map(len, groups.values())))
    return [*lines, "", *aligned(_class_rows(classes, names, label))] if label else lines


def _far_from(rule: SplitRule, tallies: Mapping[str, OutputTally], groups: int) -> list[str]:
    """A line if the shares are not what was asked for."""
    outputs = sum(tally.outputs for tally in tallies.values())
    asked = {name: fraction for name, fraction in rule.fractions if fraction}
    far = [
        f"{_share(tally.outputs, outputs)} is in {name} where {asked[name]:.1%} was asked for"
        for name, tally in tallies.items()
        if outputs and (not tally.outputs or abs(tally.outputs / outputs - asked[name]) > FAR)
    ]
    if not far:
        return []
    count = f"{show_count(groups, 'group')} of {shown(rule.by)}"
    return [f"{', '.join(far)}: chance deals out {count}, each as a whole; try another --seed"]


def _split_rows(
    tallies: Mapping[str, OutputTally], groups: Mapping[str, set[int]], by: str, *, has_sound: bool
) -> list[list[str]]:
    outputs = sum(tally.outputs for tally in tallies.values())
    table = [[COLUMN, by, "outputs", "share", *(["hours"] if has_sound else [])]]
    for name, tally in tallies.items():
        row = [name, f"{len(groups[name]):,}", f"{tally.outputs:,}", _share(tally.outputs, outputs)]
        table.append([*row, *([show_hours(tally.seconds)] if has_sound else [])])
    return table


def _class_rows(classes: Counter[tuple[str, str]], names: Sequence[str], label: str) -> list[list[str]]:
    """For each class how much of each split it is, the largest first."""
    totals: Counter[str] = Counter()
    of_split: Counter[str] = Counter()
    for (one, name), count in classes.items():
        totals[one] += count
        of_split[name] += count
    table = [[label, "outputs", *names]]
    for one, count in sorted(totals.items(), key=lambda pair: (-pair[1], pair[0]))[:MOST_SHOWN]:
        shares = [_share(classes[one, name], of_split[name]) for name in names]
        table.append([shown(one), f"{count:,}", *shares])
    return table


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "-"
