"""Tables: CSV, TSV, JSONL, and the selection tables of Raven; columns are found by their names."""

import csv
import functools
import io
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import NamedTuple

from splitter.annotations.rows import Malformed, Row, lines, shown, with_point
from splitter.text.csv import json_fields

_UNITS = ("{}_seconds", "{}_time_seconds", "{}_sec", "{}_s", "{}_time_s", "{}", "{}_time")


def _times(*words: str) -> tuple[str, ...]:
    """What a column of times may be called, the most explicit names first."""
    return tuple(unit.format(word) for unit, word in product(_UNITS, words))


STARTS = _times("start", "begin", "onset", "tmin", "xmin")
ENDS = _times("end", "stop", "tmax", "xmax")
OFFSETS = _times("offset")
DURATIONS = _times("duration", "dur")
LABELS = (
    *("label", "labels", "event_label", "annotation", "text", "transcript", "transcription", "sentence"),
    *("word", "species", "common_name", "scientific_name", "class", "class_name", "category", "event"),
    *("tag", "call_type", "sound_type", "speaker"),
)
RECORDINGS = (
    *("recording", "input", "begin_path", "begin_file", "file", "filename", "file_name", "recording_id"),
    *("file_id", "audio", "audio_file", "audio_filepath", "audio_path", "path"),
)
_RAVEN = frozenset(("selection", "begin_time_s", "end_time_s"))
_FILE_OFFSET = "file_offset_s"


class _TableColumns(NamedTuple):
    """Which column is what; `others` are left over."""

    start: str
    end: str
    label: str | None
    recording: str | None
    lasts: bool
    others: tuple[str, ...]


def read_table(text: str) -> Iterator[Row]:
    """Rows under a line of names, with commas, semicolons or tabs between the columns."""
    first = next((line for _, line in lines(text) if line.strip()), "")
    delimiter = max(",;\t", key=first.count)
    is_raven = _RAVEN.issubset(_plain(name) for name in first.split(delimiter))
    # Raven quotes nothing, and labels may have quotes; what R has written again is quoted throughout
    records = _records(text, delimiter, quoted=not is_raven or '"' in first)
    number, header = next(records, (1, []))
    names = [_plain(name) for name in header] if is_raven else header
    twice = next((name for name, count in Counter(names).items() if name and count > 1), None)
    if twice:
        raise Malformed(number, f"names two columns {shown(twice)}")
    try:
        _columns(tuple(names))
    except ValueError as error:
        raise Malformed(number, str(error)) from None
    rows = _rows(records, names, delimiter)
    return _selections(rows) if is_raven else rows


def has_times(names: Iterable[str]) -> bool:
    """Whether columns of these names say when something starts and ends."""
    try:
        _columns(tuple(names))
    except ValueError:
        return False
    return True


def read_jsonl(text: str) -> Iterator[Row]:
    """A JSON object a line."""
    for number, line in lines(text):
        if not line.strip():
            continue
        try:
            fields = json_fields(line)
        except (ValueError, RecursionError) as error:
            raise Malformed(number, f"is not JSON ({error})") from None
        if fields is None:
            raise Malformed(number, "is not a JSON object")
        yield row_of(fields, number)


def row_of(fields: Mapping[str, str], line: int) -> Row:
    """One row of a table, from its fields by name."""
    try:
        columns = _columns(tuple(fields))
    except ValueError as error:
        raise Malformed(line, str(error)) from None
    recording = None if columns.recording is None else fields[columns.recording]
    if recording == "":
        raise Malformed(line, f"names no recording in its column {shown(columns.recording or '')}")
    return Row(
        line,
        fields[columns.start],
        fields[columns.end],
        # what repeats is kept once, since one table may be about many thousand recordings
        "" if columns.label is None else sys.intern(fields[columns.label]),
        columns.others,
        tuple(sys.intern(fields[name]) for name in columns.others),
        recording and sys.intern(recording),
        columns.lasts,
    )


def looks_like_table(text: str) -> bool:
    """Whether the first line names columns of starts and ends."""
    try:
        read_table(text)
    except Malformed:
        return False
    return True


def looks_like_jsonl(text: str) -> bool:
    """Whether the first line is an object with a start and an end."""
    try:
        next(read_jsonl(text), None)
    except Malformed:
        return False
    return True


@functools.lru_cache
def _columns(names: tuple[str, ...]) -> _TableColumns:
    by_plain_name = {_plain(name): name for name in reversed(names)}

    def first(candidates: Iterable[str]) -> str | None:
        return next((by_plain_name[name] for name in candidates if name in by_plain_name), None)

    start, end, duration, offset = map(first, (STARTS, ENDS, DURATIONS, OFFSETS))
    # an offset ends what has an onset, and starts what has no other start
    if start is None:
        start = offset
    elif _plain(start).startswith("onset"):
        end = end or offset
    last = end or duration
    if start is None or last is None:
        missing = "start" if start is None else "end or duration"
        raise ValueError(f"has no column {missing}; it has {', '.join(map(shown, names[:10]))}")
    label, recording = first(LABELS), first(RECORDINGS)
    others = tuple(name for name in names if name and name not in (start, last, label, recording))
    return _TableColumns(start, last, label, recording, end is None, others)


def _plain(name: str) -> str:
    """A name of letters, digits and underscores only: `Low Freq (Hz)` is `low_freq_hz`."""
    return re.sub(r"\W+", "_", name.strip().lower()).strip("_")


def _records(text: str, delimiter: str, *, quoted: bool) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(
        io.StringIO(text, newline=""),
        delimiter=delimiter,
        quoting=csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE,
        strict=True,
    )
    number = 1
    try:
        for cells in reader:
            if any(cells):
                yield number, cells
            number = reader.line_num + 1
    except csv.Error as error:
        raise Malformed(number, f"is not CSV ({error})") from None


def _rows(records: Iterable[tuple[int, list[str]]], names: Sequence[str], delimiter: str) -> Iterator[Row]:
    width = len(names)
    for number, cells in records:
        # editors take the tabs at the end of a line away, and spreadsheets add more
        missing = width - len(cells)
        if any(cells[width:]) or (missing > 0 and delimiter == ","):
            raise Malformed(number, f"has {len(cells)} columns where the first line has {width}")
        row = row_of(dict(zip(names, cells + [""] * missing, strict=False)), number)
        yield row if delimiter == "," else row._replace(start=with_point(row.start), end=with_point(row.end))


def _selections(rows: Iterable[Row]) -> Iterator[Row]:
    """Each selection of Raven once, though it has a row for each view, and where it is in its own file."""
    found: dict[tuple[str | None, ...], Row] = {}
    for row in rows:
        fields = dict(zip(row.names, row.values, strict=True))
        view, offset = fields.pop("view", None) or "", fields.pop(_FILE_OFFSET, None) or ""
        key = row.start, row.end, row.label, row.recording, fields["selection"], fields.get("channel")
        # the spectrogram is the view that was annotated in: it has the frequencies
        if key not in found or view.startswith("Spectrogram"):
            names, values = tuple(fields), tuple(fields.values())
            found[key] = row._replace(names=names, values=values, offset=with_point(offset))
    yield from found.values()
