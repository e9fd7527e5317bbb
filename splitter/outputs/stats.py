"""Totals of the tables of a run: counts, hours, sizes and failures, by the values of a column.

The rows are read one by one; only the sums are kept in memory.
"""

import contextlib
import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from splitter.ledger.keeping import is_left_out
from splitter.ledger.manifest import ERRORS, MANIFEST
from splitter.ledger.records import ERROR_COLUMNS, OUTPUT_COLUMNS, RECORDED, SKIPPED_COLUMN
from splitter.ledger.run_files import LIST, LISTED
from splitter.ledger.split_balance import FEW_GROUPS
from splitter.ledger.splits import COLUMN, SplitRule
from splitter.outputs.files import Files
from splitter.outputs.tables import column_index, keep_column, location_of, open_table, schema_of
from splitter.storage.checked_file import json_of
from splitter.text.columns import aligned, cut_to, fitted
from splitter.text.csv import Row
from splitter.text.labels import labels_in
from splitter.text.show import SECONDS_IN_HOUR, one_line, show_bytes, show_count, show_hours

MOST_SHOWN = 40
LONGEST_NAME = 60
# mention a split whose share differs by more than this
FAR = 0.05
# mention a group that is larger than the average by this factor
LARGE = 2
# the columns that give the length of sound: the first pair that exists
_FRAMES, _TIMES = ("frames", "sample_rate"), ("start_seconds", "end_seconds")


@dataclass
class OutputTally:
    """The totals of some rows.

    Attributes:
        done: Number of inputs in the manifest that are not skipped.
        outputs: Number of output files.
        bytes: Their total size.
        seconds: Their total length, if they are sound.
        recorded: The total length of the recordings that they were cut from, in seconds.
        skipped: Number of inputs that the recipe skipped.
        failed: Number of inputs in errors.csv.
    """

    done: int = 0
    outputs: int = 0
    bytes: int = 0
    seconds: float = 0.0
    recorded: float = 0.0
    skipped: int = 0
    failed: int = 0
    _last: str | None = field(default=None, repr=False)

    def add(  # noqa: PLR0913 - the columns that count
        self, path: str, output: str, size: str, seconds: float, recorded: float, *, skipped: bool
    ) -> None:
        """Add a row of the manifest; rows of an input must be together. Virtual pieces have no size."""
        if path != self._last:
            self._last = path
            self.done += not skipped
            self.skipped += skipped
            self.recorded += recorded
        if output:
            self.outputs += 1
            self.bytes += int(_number(size or "0"))
            self.seconds += seconds

    @property
    def inputs(self) -> int:
        """Number of inputs that were done or skipped, or that failed."""
        return self.done + self.skipped + self.failed

    @property
    def share_of_recordings(self) -> str:
        """The share of the recordings that is in the outputs, as text."""
        return f"{self.seconds / self.recorded:.1%}" if self.recorded else "-"

    def to_json(self) -> dict[str, Any]:
        """Return the values for JSON."""
        return {
            "inputs": self.inputs,
            "done": self.done,
            "outputs": self.outputs,
            "bytes": self.bytes,
            "hours": self.seconds / SECONDS_IN_HOUR,
            "recorded_hours": self.recorded / SECONDS_IN_HOUR,
            "skipped": self.skipped,
            "failed": self.failed,
        }


@dataclass
class Stats:
    """The totals of a run, or of each value of a column.

    Attributes:
        total: The totals of all rows.
        groups: The totals of each value, in the order in which the values are first seen.
        has_sound: Whether the rows give the length of outputs.
        has_recordings: Whether they also give the length of the recordings that outputs were cut from.
        failures_known: Whether failures could be counted by the column.
        not_tried: Number of inputs of the run's list that are in none of its tables.
    """

    total: OutputTally = field(default_factory=OutputTally)
    groups: dict[str, OutputTally] = field(default_factory=dict)
    has_sound: bool = False
    has_recordings: bool = False
    failures_known: bool = True
    not_tried: int = 0

    def to_json(self, by: str | None) -> str:
        """Return the values for JSON."""
        content: dict[str, Any] = {"total": self.total.to_json(), "not_tried": self.not_tried}
        if by is not None:
            content["by"] = by
            content["groups"] = [{"value": value, **tally.to_json()} for value, tally in self.groups.items()]
        return json.dumps(content)

    def lines(self, by: str | None, width: int = 80) -> list[str]:
        """Return a table as lines that fit into `width`, values with the most outputs first."""
        length = (
            ["recorded"] * self.has_recordings + ["length"] * self.has_sound + ["kept"] * self.has_recordings
        )
        header = ["inputs", "done", "outputs", "size", *length, "skipped", "failed"]
        known = sorted(self.groups.items(), key=lambda one: (-one[1].outputs, one[0]))
        rows = [[shown(value), *self._cells(tally)] for value, tally in known[:MOST_SHOWN]]
        if not self.failures_known:
            for row in rows:
                row[-1] = "?"
        rows = [[by or "", *header], *rows, ["all", *self._cells(self.total)]]
        lines = fitted(rows, width, without_zeros=("skipped", "failed"))
        if len(known) > MOST_SHOWN:
            lines.insert(-1, f"... and {len(known) - MOST_SHOWN:,} more; --json has them all")
        if not self.failures_known:
            lines.append(
                f"failed ?: {shown(by or '')} is not a column of {ERRORS}, so failures are only "
                "counted in total"
            )
        if self.not_tried:
            listed = show_count(self.total.inputs + self.not_tried, "input")
            lines.append(f"{self.not_tried:,} of {listed} not tried yet")
        return lines

    def _cells(self, tally: OutputTally) -> list[str]:
        length = [show_hours(tally.seconds)] if self.has_sound else []
        if self.has_recordings:
            length = [show_hours(tally.recorded), *length, tally.share_of_recordings]
        counts = f"{tally.inputs:,}", f"{tally.done:,}", f"{tally.outputs:,}", show_bytes(tally.bytes)
        return [*counts, *length, f"{tally.skipped:,}", f"{tally.failed:,}"]


def shown(value: str) -> str:
    """Return a value as a table shows it: on one line, and shortened if it is long."""
    return cut_to(one_line(value) or '""', LONGEST_NAME)


class ManifestRows:
    """The rows of a manifest, and the meaning of their columns."""

    def __init__(self, folder: str, *, all_rows: bool = False) -> None:
        """Open the manifest; outputs that `--keep` left out count only with `all_rows`."""
        location = location_of(folder, "OUTPUT")
        self.files, self.name = location.files, location.name
        _, self.columns = schema_of(self.files)
        self.header, self._rows = open_table(self.files, location.name, OUTPUT_COLUMNS, self.columns)
        self._path = self.header.index(path_column(self.files, self.header))
        self._output, self._size = map(self.header.index, OUTPUT_COLUMNS[:2])
        self._kept = None if all_rows else keep_column(self.files, self.header)
        self._skipped = self.header.index(SKIPPED_COLUMN) if SKIPPED_COLUMN in self.header else None
        self.sound = SoundColumns(self.header)

    def __iter__(self) -> Iterator[Row]:
        """Yield the rows; without output and size if `--keep` left them out."""
        if self._kept is None:
            yield from self._rows
            return
        for row in self._rows:
            if self.has_left_out(row):
                row[self._output] = row[self._size] = ""
            yield row

    def has_left_out(self, row: Row) -> bool:
        """Return whether `--keep` has left out a row."""
        return self._kept is not None and is_left_out(row[self._kept])

    def add(self, row: Row, tallies: Iterable[OutputTally]) -> None:
        """Add a row to several totals."""
        seconds, recorded = self.sound.seconds_of(row), self.sound.recorded_of(row)
        skipped = self._skipped is not None and bool(row[self._skipped])
        for tally in tallies:
            tally.add(row[self._path], row[self._output], row[self._size], seconds, recorded, skipped=skipped)


class SoundColumns:
    """The columns that give the length of sound.

    Attributes:
        has_sound: Whether rows give the length of outputs.
        has_recordings: Whether they also give the length of the recordings that outputs were cut from.
        seconds_of: A function that returns the length of the output in a row.
    """

    def __init__(self, header: Row) -> None:
        """Find the columns in a header."""
        self.seconds_of, self.has_sound = _length(header)
        self._recorded = header.index(RECORDED) if self.has_sound and RECORDED in header else None
        self.has_recordings = self._recorded is not None

    def recorded_of(self, row: Row) -> float:
        """Return the length of the recording of a row."""
        return 0.0 if self._recorded is None else _number(row[self._recorded])


def path_column(files: Files, header: Row) -> str:
    """Return the column that holds the paths of the inputs."""
    if files.exists(LISTED.name):
        with contextlib.suppress(ValueError, KeyError, TypeError):
            column = json_of(files.read(LISTED.name))["column"]
            if column in header:
                return str(column)
    return "input" if "input" in header else header[0]


def _length(header: Row) -> tuple[Callable[[Row], float], bool]:
    """Return a function that gives the seconds of the output in a row, and whether any column says them."""
    if {*_FRAMES} <= {*header}:
        frames, rate = map(header.index, _FRAMES)
        return lambda row: _number(row[frames]) / (_number(row[rate]) or math.inf), True
    if {*_TIMES} <= {*header}:
        start, end = map(header.index, _TIMES)
        return lambda row: max(0.0, _number(row[end]) - _number(row[start])), True
    return lambda _: 0.0, False


def _number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        # a row without an output, or a user's own column
        return 0.0
    return number if math.isfinite(number) else 0.0


def stats_of(folder: str, by: str | None = None, *, all_rows: bool = False) -> Stats:
    """Return the totals of a run, from its folder or a URL."""
    rows = ManifestRows(folder, all_rows=all_rows)
    stats = Stats(has_sound=rows.sound.has_sound, has_recordings=rows.sound.has_recordings)
    at = None if by is None else column_index(rows.header, by, "--by")
    for row in rows:
        # a piece with several labels counts for each
        values = [] if by is None or at is None else dict.fromkeys(labels_in(by, row[at]) or [""])
        groups = [stats.groups.setdefault(value, OutputTally()) for value in values]
        rows.add(row, [stats.total, *groups])
    _add_failures(rows, by, stats)
    stats.not_tried = max(0, _listed(rows) - stats.total.inputs)
    return stats


def _listed(rows: ManifestRows) -> int:
    """Return the number of inputs in the last run's list; 0 if unknown."""
    if rows.name != MANIFEST or not (rows.files.exists(LIST.name) and rows.files.exists(LISTED.name)):
        return 0
    header, listed = open_table(rows.files, LIST.name, [], rows.columns)
    if not _is_grouped(rows.files):
        return sum(1 for _ in listed)
    at = header.index(path_column(rows.files, header))
    # hashes take less memory than a million names
    return len({hash(row[at]) for row in listed})


def _is_grouped(files: Files) -> bool:
    try:
        return bool(json_of(files.read(LISTED.name))["group_rows"])
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
        if by is not None and at is not None:
            for value in dict.fromkeys(labels_in(by, row[at]) or [""]):
                stats.groups.setdefault(value, OutputTally()).failed += 1


# -- splits ------------------------------------------------------------------------------------------------


def split_lines(folder: str, rule: SplitRule, label: str | None, *, stays: bool = False) -> list[str]:
    """Return the summary of `splitter split`: the size of each split, and the distribution of classes.

    `stays` says that an earlier split has assigned the groups.
    """
    by, names = rule.by, rule.names
    rows = ManifestRows(folder)
    split, group = (column_index(rows.header, name, "--by") for name in (COLUMN, by))
    at = None if label is None else column_index(rows.header, label, "--label")
    output = rows.header.index("output")
    tallies: dict[str, OutputTally] = {name: OutputTally() for name in names}
    # outputs of each group, by its hash, which takes less memory than a million names
    groups: dict[str, Counter[int]] = {name: Counter() for name in names}
    classes: Counter[tuple[str, str]] = Counter()
    waiting: set[int] = set()
    for row in rows:
        name = row[split]
        if not name:
            if rows.has_left_out(row):
                continue
            waiting.add(hash(row[group]))
            continue
        rows.add(row, [tallies[name]])
        groups[name][hash(row[group])] += bool(row[output])
        if label is not None and at is not None and row[output]:
            classes.update((one, name) for one in dict.fromkeys(labels_in(label, row[at]) or [""]))
    lines = aligned(_split_rows(tallies, groups, by, has_sound=rows.sound.has_sound))
    lines += _far_from(rule, tallies, [*chain(*(counts.values() for counts in groups.values()))], stays=stays)
    if waiting:
        lines.append(
            f"{show_count(len(waiting), 'new group')} not in a split yet; finish the run that adds them, "
            "or assign all groups again with --rebalance"
        )
    return [*lines, "", *aligned(_class_rows(classes, names, label))] if label else lines


def _far_from(
    rule: SplitRule, tallies: Mapping[str, OutputTally], groups: Sequence[int], *, stays: bool
) -> list[str]:
    """Return a line that says why shares are far from the requested ones; none if they are close."""
    outputs = sum(tally.outputs for tally in tallies.values())
    asked = {name: fraction for name, fraction in rule.fractions if fraction}
    far = [
        f"{name} got {_share(tally.outputs, outputs)} (asked for {asked[name]:.1%})"
        for name, tally in tallies.items()
        if outputs and (not tally.outputs or abs(tally.outputs / outputs - asked[name]) > FAR)
    ]
    if not far:
        return []
    line = f"{', '.join(far)}: {_why_far(rule.by, groups, outputs)}"
    if stays and len(groups) <= FEW_GROUPS:
        return [f"{line}; they stay in their splits, --rebalance assigns them again"]
    return [line if rule.is_open else f"{line}; try another --seed"]


def _why_far(by: str, groups: Sequence[int], outputs: int) -> str:
    """Return why the groups do not allow the requested shares: there are few, or one is large."""
    count = (
        show_count(len(groups), by) if by.isalpha() else f"{show_count(len(groups), 'group')} by {shown(by)}"
    )
    few = f"there {'is' if len(groups) == 1 else 'are'} only {count}"
    largest = max(groups)
    if len(groups) > 1 and largest / outputs > max(FAR, LARGE / len(groups)):
        return f"{few}, and the largest has {_share(largest, outputs)}"
    return few


def _split_rows(
    tallies: Mapping[str, OutputTally], groups: Mapping[str, Counter[int]], by: str, *, has_sound: bool
) -> list[list[str]]:
    outputs = sum(tally.outputs for tally in tallies.values())
    table = [[COLUMN, by, "outputs", "share", *(["length"] if has_sound else [])]]
    for name, tally in tallies.items():
        row = [name, f"{len(groups[name]):,}", f"{tally.outputs:,}", _share(tally.outputs, outputs)]
        table.append([*row, *([show_hours(tally.seconds)] if has_sound else [])])
    return table


def _class_rows(classes: Counter[tuple[str, str]], names: Sequence[str], label: str) -> list[list[str]]:
    """Return the share of each class in each split, the largest classes first."""
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
