"""Tables: CSV, TSV, JSONL, and the selection tables of Raven; columns are found by their names."""

import csv
import functools
import io
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, product
from typing import NamedTuple

from splitter.annotations.rows import Malformed, Row, in_milliseconds, lines, shown, with_point
from splitter.text.csv import json_fields

_IN_SECONDS = ("{}_seconds", "{}_time_seconds", "{}_sec", "{}_s", "{}_time_s", "{}", "{}_time")
_IN_MILLISECONDS = ("{}_milliseconds", "{}_time_milliseconds", "{}_msec", "{}_ms", "{}_time_ms")
# the names of columns of starts, ends, offsets and durations
_WORDS = (
    ("start", "begin", "onset", "tmin", "xmin"),
    ("end", "stop", "tmax", "xmax"),
    ("offset",),
    ("duration", "dur"),
)
# the most explicit names first
_SECONDS, _MILLISECONDS = (
    [[unit.format(word) for unit, word in product(units, words)] for words in _WORDS]
    for units in (_IN_SECONDS, _IN_MILLISECONDS)
)
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
# the columns of Whisper and of programs that took over its formats; the size of times shows their unit
_WHISPER = frozenset(
    (("start", "end", "text"), ("start", "end", "text", "speaker"), ("start", "end", "speaker", "text"))
)
# whole numbers are seconds if the longest cue is below _SHORT, and milliseconds if it is at least _LONG
_SHORT, _LONG = 100, 1000
_is_whole = re.compile("[0-9]{1,12}").fullmatch


class _TableColumns(NamedTuple):
    """The columns that have a known meaning; `others` are the rest."""

    start: str
    end: str
    label: str | None
    recording: str | None
    lasts: bool
    milliseconds: bool
    others: tuple[str, ...]


def read_table(text: str) -> Iterator[Row]:
    """Yield the rows under a line of names, with commas, semicolons or tabs between the columns."""
    first = next((line for _, line in lines(text) if line.strip()), "")
    delimiter = max(",;\t", key=first.count)
    is_raven = _RAVEN.issubset(_plain(name) for name in first.split(delimiter))
    # Raven quotes nothing, and its labels may have quotes; a table that R has rewritten is quoted throughout
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
    if tuple(names) in _WHISPER:
        return _cues(text, names, delimiter, number)
    return _selections(rows) if is_raven else rows


def has_times(names: Iterable[str]) -> bool:
    """Return whether columns of these names say when something starts and ends."""
    try:
        _columns(tuple(names))
    except ValueError:
        return False
    return True


def read_jsonl(text: str) -> Iterator[Row]:
    """Yield one JSON object per line; in a manifest of NeMo, an object without an offset starts at 0."""
    for number, line in lines(text):
        if not line.strip():
            continue
        try:
            fields = json_fields(line)
        except (ValueError, RecursionError) as error:
            raise Malformed(number, f"is not JSON ({error})") from None
        if fields is None:
            raise Malformed(number, "is not a JSON object")
        if "audio_filepath" in fields and "duration" in fields and not has_times(fields):
            fields["offset"] = "0"
        yield row_of(fields, number)


def row_of(fields: Mapping[str, str], line: int) -> Row:
    """Return one row of a table, from its fields by name."""
    try:
        columns = _columns(tuple(fields))
    except ValueError as error:
        raise Malformed(line, str(error)) from None
    recording = None if columns.recording is None else fields[columns.recording]
    if recording == "":
        raise Malformed(line, f"names no recording in its column {shown(columns.recording or '')}")
    start, end = fields[columns.start], fields[columns.end]
    if columns.milliseconds:
        start, end = in_milliseconds(start), in_milliseconds(end)
    return Row(
        line,
        start,
        end,
        # store repeated values only once, since one table may cover many thousand recordings
        "" if columns.label is None else sys.intern(fields[columns.label]),
        columns.others,
        tuple(sys.intern(fields[name]) for name in columns.others),
        recording and sys.intern(recording),
        columns.lasts,
        called=columns.label or "",
    )


def looks_like_table(text: str) -> bool:
    """Return whether the first line names columns of starts and ends."""
    try:
        read_table(text)
    except Malformed:
        return False
    return True


def looks_like_jsonl(text: str) -> bool:
    """Return whether the first line is an object with a start and an end."""
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

    def times(unit: list[list[str]]) -> tuple[str | None, str | None, bool]:
        """Return the column of starts, the column of ends or durations, and whether that is of durations."""
        start, end, offset, duration = map(first, unit)
        # an offset is the end if there is an onset, and the start if there is no other start
        if start is None:
            start = offset
        elif _plain(start).startswith("onset"):
            end = end or offset
        return start, end or duration, end is None

    (start, last, lasts), milliseconds = times(_SECONDS), False
    if start is None or last is None:
        found = times(_MILLISECONDS)
        if milliseconds := None not in found:
            start, last, lasts = found
    if start is None or last is None:
        missing = "start" if start is None else "end or duration"
        raise ValueError(f"has no column {missing}; it has {', '.join(map(shown, names[:10]))}")
    label, recording = first(LABELS), first(RECORDINGS)
    others = tuple(name for name in names if name and name not in (start, last, label, recording))
    return _TableColumns(start, last, label, recording, lasts, milliseconds, others)


def is_label(name: str) -> bool:
    """Return whether a column of this name would give the labels, if it were the only one."""
    return _plain(name) in LABELS[:-1]


def same_column(name: str, names: Iterable[str]) -> str | None:
    """Return the one of `names` that is meant: it may differ in case, spaces or signs."""
    among = [*names]
    return name if name in among else next((one for one in among if _plain(one) == _plain(name)), None)


def _plain(name: str) -> str:
    """Return a name reduced to letters, digits and underscores: `Low Freq (Hz)` is `low_freq_hz`."""
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
        # editors remove tabs at the end of a line, and spreadsheets add some
        missing = width - len(cells)
        if any(cells[width:]) or (missing > 0 and delimiter == ","):
            raise Malformed(number, f"has {len(cells)} columns where the first line has {width}")
        row = row_of(dict(zip(names, cells + [""] * missing, strict=False)), number)
        yield row if delimiter == "," else row._replace(start=with_point(row.start), end=with_point(row.end))


def _cues(text: str, names: Sequence[str], delimiter: str, head: int) -> Iterator[Row]:
    """Yield the rows of a table that has Whisper's columns; if its times are milliseconds, convert them."""

    def rows(*, quoted: bool) -> list[Row]:
        records = _records(text, delimiter, quoted=quoted)
        return list(_rows(islice(records, 1, None), names, delimiter))

    try:
        # Whisper does not quote the fields between tabs
        cues = rows(quoted=delimiter != "\t")
    except Malformed:
        cues = []
    whole = all(_is_whole(row.start) and _is_whole(row.end) for row in cues)
    longest = max((int(row.end) - int(row.start) for row in cues), default=0) if whole else 0
    # Whisper puts tabs between columns, and whisper.cpp a space before each text; others may mean seconds
    is_as_written = delimiter == "\t" or all(row.label.startswith(" ") for row in cues)
    if longest >= _SHORT and (longest < _LONG or not is_as_written):
        raise Malformed(
            head,
            "has whole numbers below it that could be seconds, or milliseconds as Whisper writes them; call "
            "the columns start_seconds and end_seconds, or start_ms and end_ms",
        )
    if longest < _LONG:
        yield from rows(quoted=True)
    else:
        for row in cues:
            start, end = in_milliseconds(row.start), in_milliseconds(row.end)
            yield row._replace(start=start, end=end, label=row.label.strip())


def _selections(rows: Iterable[Row]) -> Iterator[Row]:
    """Yield each selection of Raven once, although it has a row per view, with the offset in its own file."""
    found: dict[tuple[str | None, ...], Row] = {}
    for row in rows:
        fields = dict(zip(row.names, row.values, strict=True))
        view, offset = fields.pop("view", None) or "", fields.pop(_FILE_OFFSET, None) or ""
        key = row.start, row.end, row.label, row.recording, fields["selection"], fields.get("channel")
        # people annotate in the spectrogram view, so its row has the frequencies
        if key not in found or view.startswith("Spectrogram"):
            names, values = tuple(fields), tuple(fields.values())
            found[key] = row._replace(names=names, values=values, offset=with_point(offset))
    yield from found.values()
