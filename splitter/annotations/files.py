"""Annotation files: find them beside a recording, read them once, return the annotations of a recording."""

import codecs
import os
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Literal, get_args

from splitter.annotations.audacity import looks_like_audacity, read_audacity
from splitter.annotations.corpora import rows_of_corpus
from splitter.annotations.nist import read_ctm, read_rttm
from splitter.annotations.praat import read_textgrid
from splitter.annotations.rows import Malformed, Row, Word, shown
from splitter.annotations.subtitles import read_srt, read_vtt
from splitter.annotations.tables import (
    is_label,
    looks_like_jsonl,
    looks_like_table,
    read_jsonl,
    read_table,
    row_of,
    same_column,
)
from splitter.annotations.transcribed import text_and_speaker
from splitter.annotations.transcripts import looks_like_transcript, read_transcript
from splitter.errors import AnnotationError, InputError, Refused
from splitter.inputs.locations import look_at
from splitter.storage.tree import is_mostly_nothing

Kind = Literal["rttm", "ctm", "textgrid", "audacity", "srt", "vtt", "table", "jsonl", "json"]
KINDS: tuple[Kind, ...] = get_args(Kind)

_READERS: Mapping[Kind, Callable[[str], Iterable[Row]]] = {
    "rttm": read_rttm,
    "ctm": read_ctm,
    "textgrid": read_textgrid,
    "audacity": read_audacity,
    "srt": read_srt,
    "vtt": read_vtt,
    "table": read_table,
    "jsonl": read_jsonl,
    "json": read_transcript,
}
_KINDS_BY_ENDING: Mapping[str, Kind] = {
    ".rttm": "rttm",
    ".ctm": "ctm",
    ".textgrid": "textgrid",
    ".srt": "srt",
    ".vtt": "vtt",
    ".csv": "table",
    ".tsv": "table",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
}
# how many bytes of a file are read to see whether it holds annotations
HEAD = 1 << 16

# the annotation files that may be beside a recording, in the order of the search
ENDINGS = (
    ".TextGrid",
    ".rttm",
    ".ctm",
    ".Table.1.selections.txt",
    ".Table.2.selections.txt",
    ".selections.txt",
    ".BirdNET.selection.table.txt",
    ".srt",
    ".vtt",
    ".txt",
    ".csv",
    ".tsv",
    ".jsonl",
)
# counts only if there is none of the above: Whisper writes JSON beside its other files
LAST_ENDINGS = (".json",)


@dataclass(frozen=True, slots=True)
class Annotation:
    """A label of a stretch of a recording, made by a person or a program.

    Attributes:
        start: When it starts, in seconds, exactly as written.
        end: When it ends; a point ends when it starts.
        label: The text of the label.
        columns: The other fields of its row as text, such as speaker, channel, tier or confidence.
        text: The spoken text; None if the file does not have it.
        speaker: Who speaks; empty if the file does not say.
        words: The words of the text and their times, if the file has them; joined, they are the text.
    """

    start: Fraction
    end: Fraction
    label: str
    columns: Mapping[str, str] = field(default_factory=dict)
    text: str | None = None
    speaker: str = ""
    words: tuple[Word, ...] = ()


class AnnotationFile:
    """An annotation file, read once; it may cover many recordings.

    Times are parsed when a recording is asked for, so a bad time fails only its recording.

    Attributes:
        path: Where the file is.
        recordings: The recordings, as the file names them; empty if it covers one without naming it.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, kind: Kind | None = None, label_column: str | None = None
    ) -> None:
        """Read the file; take the labels from `label_column`, or where its format has them."""
        self.path = os.fspath(path)
        self._rows: dict[str | None, list[Row]] = {}
        try:
            rows: Iterable[Row] | None = rows_of_corpus(self.path) if kind is None else None
            if rows is None:
                text = _read_text(self.path)
                rows = _READERS[kind or _kind_of(self.path, text)](text)
            for row in rows if label_column is None else self._labelled(rows, label_column):
                self._rows.setdefault(row.recording, []).append(row)
        except Malformed as error:
            raise AnnotationError(f"{self.path}: {error}") from None
        except Refused as error:
            raise AnnotationError(str(error)) from None
        self.recordings = tuple(filter(None, self._rows))
        self._by_name: dict[str, list[str]] = {}
        for recording in self.recordings:
            for name in _names(recording):
                self._by_name.setdefault(name, []).append(recording)

    @property
    def fits_any(self) -> bool:
        """Whether it does not say which recording it is about, so that any recording gets its annotations."""
        return None in self._rows

    def of(self, recording: str | os.PathLike[str] | None = None) -> list[Annotation]:
        """Return the annotations of a recording, sorted by start and end; all if the file names none.

        The file may name the recording with or without its extension and its folders; an absolute path may
        come from another machine. Without `recording`, refuse a file that names several.
        """
        rows = self._all() if recording is None or self.fits_any else self._named(os.fspath(recording))
        return sorted(map(self._annotation, rows), key=_order)

    def _labelled(self, rows: Iterable[Row], label_column: str) -> list[Row]:
        rows = list(rows)
        names = dict.fromkeys(name for row in rows for name in (row.called, *row.names) if name)
        name = same_column(label_column, names)
        if rows and name is None:
            raise AnnotationError(
                f"{self.path}: has no column {label_column!r} for --label-column; "
                f"it has {', '.join(map(shown, [*names][:10]))}"
            )
        return [row.labelled_by(name or label_column) for row in rows]

    def _annotation(self, row: Row) -> Annotation:
        try:
            return _annotation(row)
        except ValueError as error:
            raise AnnotationError(f"{self.path}: line {row.line}: {error}") from None

    def _all(self) -> list[Row]:
        if len(self._rows) > 1:
            first, second, *_ = (rows[0].line for rows in self._rows.values())
            raise AnnotationError(
                f"{self.path}: line {second}: is for another recording than line {first}; this file "
                "may only cover one recording"
            )
        return [row for rows in self._rows.values() for row in rows]

    def _named(self, recording: str) -> list[Row]:
        """Return the rows whose recording name agrees best with a recording; refuse two different names."""
        agreements: dict[tuple[bool, int, bool], list[str]] = {}
        similar = (written for name in _names(recording) for written in self._by_name.get(name, ()))
        for written in dict.fromkeys(similar):
            if agreement := _agreement(written, recording):
                agreements.setdefault(agreement, []).append(written)
        if not agreements:
            return []
        names = max(agreements.items())[1]
        first, *others = names
        for other in others:
            if _parts(other) != _parts(first):
                line = self._rows[other][0].line
                both = f"{shown(first)} and {shown(other)}"
                raise AnnotationError(f"{self.path}: line {line}: {both} could both be {recording}")
        return [row for name in names for row in self._rows[name]]


def annotations_of_rows(rows: Iterable[Mapping[str, str]], *, source: str) -> list[Annotation]:
    """Return one annotation for each row of a dataset list, in the same order.

    Errors name `source` as the origin of the rows.
    """
    found = []
    for number, row in enumerate(rows, 1):
        try:
            found.append(_annotation(row_of(row, number)))
        except ValueError as error:
            # quote the row, since its number in the list is not known here
            problem = error.problem if isinstance(error, Malformed) else error
            raise AnnotationError(f"{source}: row {shown(','.join(row.values()))}: {problem}") from None
    return found


def find_annotations(recording: str | os.PathLike[str]) -> Path | None:
    """Return the annotation file beside a recording: its name, with or without extension, plus an ending.

    Text files, tables and JSON count only if they begin like annotations, since many other files have these
    endings; JSON counts only if there is nothing else. Refuse two files.
    """
    recording = os.fspath(recording)
    return _only_one(recording, ENDINGS) or _only_one(recording, LAST_ENDINGS)


def advice_on_labels(path: str | os.PathLike[str]) -> str:
    """Return advice about --label-column if no column, or more than one, could hold a table's labels."""
    path = os.fspath(path)
    if rows_of_corpus(path) is not None:
        return ""
    try:
        text = _read_head(path)
        kind = _kind_of(path, text)
        row = next(iter(_READERS[kind](text)), None) if kind in {"table", "jsonl"} else None
    except (InputError, Malformed, OSError):
        # reading the whole file reports what is wrong
        return ""
    if row is None:
        return ""
    others = [name for name in row.names if is_label(name) or not row.called]
    names = ", ".join(map(shown, others[:10]))
    if not others:
        return ""
    if row.called:
        return f"{path}: labels are from column {shown(row.called)}; --label-column can name another: {names}"
    return (
        f"{path}: no column is known to hold labels, so they are empty; name one with --label-column: {names}"
    )


# -- reading ------------------------------------------------------------------------------------------------


def _read_text(path: str) -> str:
    look_at(path)
    with open(path, "rb") as file:
        if is_mostly_nothing(file.fileno()):
            raise AnnotationError(f"{path}: is damaged (most of it was never written)")
        data = file.read()
    encoding = _encoding(data)
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        line = data[: error.start].decode(encoding, "ignore").count("\n") + 1
        raise AnnotationError(f"{path}: line {line}: is not {encoding}; save the file as UTF-8") from None


def _read_head(path: str) -> str:
    """Return the beginning of a file; replace bytes that are not in its encoding."""
    look_at(path)
    with open(path, "rb") as file:
        head = file.read(HEAD)
    return head.decode(_encoding(head), "replace")


def _encoding(data: bytes) -> str:
    """Return UTF-8, or UTF-16 as Praat and Windows write it, with or without a byte order mark."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    if data[:1] == b"\0":
        return "utf-16-be"
    return "utf-16-le" if data[1:2] == b"\0" else "utf-8-sig"


def _kind_of(path: str, text: str) -> Kind:
    ending = os.path.splitext(path)[1].lower()
    if ending in _KINDS_BY_ENDING:
        return _KINDS_BY_ENDING[ending]
    if looks_like_audacity(text):
        return "audacity"
    if looks_like_table(text):
        return "table"
    raise AnnotationError(
        f"{path}: line 1: is neither an Audacity label nor the header of a table with start and end;"
        f" expected one of these, or a file that ends in {', '.join(_KINDS_BY_ENDING)}"
    )


def _annotation(row: Row) -> Annotation:
    start, end = row.times()
    columns = {name: value for name, value in zip(row.names, row.values, strict=True) if value is not None}
    return Annotation(start, end, row.label, columns, *text_and_speaker(row), row.words)


def _order(annotation: Annotation) -> tuple[float, Fraction, float, Fraction]:
    """Return a key that sorts by start, then end; floats decide most comparisons, at a tenth of the cost."""
    return float(annotation.start), annotation.start, float(annotation.end), annotation.end


# -- which recording ----------------------------------------------------------------------------------------


def _parts(name: str) -> list[str]:
    """Return the parts of a path, last first: the name, its folder, and so on; split Windows paths, too."""
    parts = unicodedata.normalize("NFC", name).replace("\\", "/").split("/")
    return [part for part in reversed(parts) if part not in ("", ".", "..")]


def _names(recording: str) -> list[str]:
    """Return the last part of a path, with its extension and without."""
    last = next(iter(_parts(recording)), "")
    return list(dict.fromkeys((last, os.path.splitext(last)[0])))


def _agreement(written: str, recording: str) -> tuple[bool, int, bool] | None:
    """Return how well a name in a file agrees with a recording; None if it names another one.

    Most important is whether all folders agree, then how many do, then whether the extension does. Folders
    may differ only in an absolute path, written where the recording was in another folder.
    """
    (name, *folders), (own_name, *own_folders) = _parts(written), _parts(recording)
    if name != own_name and name != os.path.splitext(own_name)[0] and os.path.splitext(name)[0] != own_name:
        return None
    pairs = list(zip(folders, own_folders, strict=False))
    same = next((at for at, (folder, own) in enumerate(pairs) if folder != own), len(pairs))
    agrees = same == len(pairs)
    return (agrees, same, name == own_name) if agrees or _is_absolute(written) else None


def _is_absolute(path: str) -> bool:
    return re.match(r"[a-zA-Z]:[\\/]|[\\/]|[a-z0-9]+://", path) is not None


# -- beside a recording -------------------------------------------------------------------------------------


def _only_one(recording: str, endings: Sequence[str]) -> Path | None:
    """Return the annotation file with one of these endings, if there is one; refuse two."""
    found: dict[tuple[int, int], str] = {}
    own = _identity(recording)
    for path in _candidates(recording, endings):
        identity = _identity(path)
        # if the file system ignores case, one file is found under several names
        if identity and identity != own and identity not in found and _may_be_annotations(path):
            found[identity] = path
    paths = list(found.values())
    if len(paths) > 1:
        raise AnnotationError(f"{paths[0]} and {paths[1]} both annotate {recording}; keep one, or name it")
    return Path(paths[0]) if paths else None


def _candidates(recording: str, endings: Sequence[str]) -> Iterator[str]:
    for stem in dict.fromkeys((os.path.splitext(recording)[0], recording)):
        for ending in endings:
            for spelled in dict.fromkeys((ending, ending.lower(), ending.upper())):
                yield stem + spelled


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino


def _may_be_annotations(path: str) -> bool:
    kind = _KINDS_BY_ENDING.get(os.path.splitext(path)[1].lower())
    if kind == "json":
        # its first lines may hold anything, so read all of it
        try:
            return looks_like_transcript(_read_text(path))
        except InputError:
            return False
    if kind not in (None, "table", "jsonl"):
        return True
    text = _read_head(path)
    if kind == "jsonl":
        return looks_like_jsonl(text)
    return looks_like_table(text) or (kind is None and looks_like_audacity(text))
