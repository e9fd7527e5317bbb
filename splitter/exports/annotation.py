"""Annotation formats: a file for each recording, with what its pieces say, in times of the recording."""

import json
import math
import os
import re
import tempfile
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import ClassVar, Literal

from splitter.annotations.rows import CLOCK
from splitter.errors import Refused
from splitter.exports.base import Export
from splitter.exports.corpus import Corpus
from splitter.exports.piece import IN_SOURCE, Piece, PieceLabel
from splitter.exports.sorting import SortedFile
from splitter.exports.target import ExportTarget
from splitter.storage.layout import key_hash, same_name
from splitter.storage.names import shown

Content = Literal["text", "labels", "speaker", "name"]

BILLION = 10**9
_WHERE = IN_SOURCE[:4]
# in subtitles, an empty line ends a cue, and text that looks like a pair of times begins one
NOT_IN_CUES = rf"\r|\n\s*\n|(?am:^[^\S\n]*{CLOCK}[^\w:\n]+{CLOCK}\b)"
# no format can hold NUL, or bytes that are not UTF-8, for which surrogates stand
_NEVER = "[\\0\ud800-\udfff]"


@dataclass(frozen=True, slots=True)
class Mark:
    """An annotation: a stretch of a recording, and a label for it.

    Attributes:
        start: Where it starts in the recording, in nanoseconds.
        end: Where it ends, in nanoseconds.
        label: What it says.
        speaker: Who speaks; empty if unknown, or if the label says it already.
        channel: The channel of the recording, counted from 0.
        piece: The piece that it comes from.
    """

    start: int
    end: int
    label: str
    speaker: str
    channel: int
    piece: Piece


@dataclass(slots=True)
class MarkedRecording:
    """A recording and its annotations, sorted by start and end.

    Attributes:
        name: Its path below the root; without the ending, unless recordings differ only in that.
        path: Its path below the root, with the ending.
        length: Its length, in nanoseconds.
        marks: The annotations.
    """

    name: str
    path: str
    length: int
    marks: list[Mark] = field(default_factory=list)

    @property
    def word(self) -> str:
        """Its name as one field of a line: without white space, and not the start of a comment (`;;`)."""
        plain = not re.search(r"\s|\A;;|\A\Z", self.name)
        return self.name if plain else self.marks[0].piece.source_key


class AnnotationExport(Export):
    """A format with a file of annotations for each recording.

    Attributes:
        name: The name of the format.
        ending: The ending of a file, after the name of the recording.
        contents: What annotations say by default: the first of these that the manifest has.
        cannot_hold: A pattern that matches what a label must not contain.
        holds_empty: Whether a label may be empty.
        names_speakers: Whether the format says who speaks, besides the label.
    """

    unused: ClassVar[frozenset[str]] = frozenset({"absolute"})

    name: ClassVar[str]
    ending: ClassVar[str] = ""
    contents: ClassVar[tuple[Content, ...]] = ("text", "labels", "name")
    cannot_hold: ClassVar[str] = _NEVER
    holds_empty: ClassVar[bool] = False
    names_speakers: ClassVar[bool] = False

    def __init__(self, corpus: Corpus, content: Content | None = None) -> None:
        """Refuse a manifest that does not say where the pieces are in their recordings.

        Args:
            corpus: The pieces.
            content: What an annotation says: the text of a piece; its labels, each with its own times; who
                speaks; or the name of the piece. Default: the first of these that the manifest has.
        """
        super().__init__(corpus)
        advice = "export the outputs of a recipe for sound, such as chunk, which says where its pieces are"
        corpus.need(self.name, *_WHERE, advice=advice)
        there = {
            "text": corpus.has_texts,
            "labels": bool(corpus.label_column),
            "speaker": corpus.has_speakers,
            "name": True,
        }
        if content is not None and not there[content]:
            raise Refused(f"{self.name}: --content {content}: the manifest has no such column; leave it out")
        usual = next(one for one in self.contents if there[one])
        self.content: Content = usual if content is None else content
        self._forbidden = re.compile(f"{_NEVER}|{self.cannot_hold}")
        # hashes of the names that several recordings share, because they differ only in their endings
        self._ambiguous: set[int] = set()

    @abstractmethod
    def lines(self, recording: MarkedRecording) -> Iterable[str]:
        """Yield the text of a recording's file; refuse what the format cannot hold."""

    def write(self, target: ExportTarget) -> None:
        """Write a file for each recording that has annotations."""
        for recording in self.recordings():
            path = target.path(f"{recording.name}{self.ending}")
            if os.path.lexists(path):
                raise Refused(
                    f"{self.name}: {recording.path}: another recording would have the same file "
                    f"{recording.name}{self.ending}; leave one of them out with --where"
                )
            with open(path, "w", encoding="utf-8", newline="\n") as file:
                file.writelines(self.lines(recording))

    def recordings(self) -> Iterator[MarkedRecording]:
        """Yield the recordings with annotations, one at a time; refuse a corpus that has no annotations."""
        found = False
        pieces = self.corpus.pieces() if self._look() else self._sorted_pieces()
        for key, group in groupby(pieces, key=self._source_of):
            name = self.corpus.sources.folder(key)
            if key_hash(same_name(name)) in self._ambiguous:
                name = key
            recording = MarkedRecording(name, key, 0)
            for piece in group:
                recording.length, marks = self._marks(piece)
                recording.marks.extend(marks)
            if recording.marks:
                found = True
                recording.marks.sort(key=lambda mark: (mark.start, mark.end))
                yield recording
        if self.corpus.count and not found:
            raise Refused(
                f"{self.name}: nothing to write, since the {self.content} of all pieces is empty; choose "
                "something else with --content"
            )

    # -- pieces by recording ---------------------------------------------------------------------------------

    def _source_of(self, piece: Piece) -> str:
        """Return the path of a piece's recording below the root; refuse a piece of an unknown recording."""
        name = self.corpus.source_name_of(piece.values)
        if not name:
            raise Refused(
                f"{self.name}: {piece.name}: the manifest does not say which recording it comes from; leave "
                "it out with --where"
            )
        return self.corpus.sources.key(name)

    def _look(self) -> bool:
        """Return whether the pieces of each recording are consecutive; find names that recordings share."""
        together = True
        # hashes take less memory than names
        seen: set[int] = set()
        names: set[int] = set()
        sources = self.corpus.sources
        for key, _ in groupby(map(sources.key, self.corpus.source_names())):
            number, name = key_hash(key), key_hash(same_name(sources.folder(key)))
            if number in seen:
                together = False
            elif name in names:
                self._ambiguous.add(name)
            seen.add(number)
            names.add(name)
        return together

    def _sorted_pieces(self) -> Iterator[Piece]:
        """Yield the pieces grouped by recording, sorted on disk."""
        with tempfile.TemporaryDirectory(prefix="splitter-") as folder:
            file = SortedFile(f"{folder}/pieces")
            for number, piece in enumerate(self.corpus.pieces()):
                order = f"{json.dumps(self._source_of(piece))}\t{number:015d}"
                file.write(f"{order}\t{json.dumps([piece.values, piece.name, piece.key])}\n")
            file.close()
            with open(f"{folder}/pieces", encoding="utf-8") as lines:
                for line in lines:
                    yield Piece(self.corpus, *json.loads(line.split("\t", 2)[2]))

    # -- what a piece says -----------------------------------------------------------------------------------

    def _marks(self, piece: Piece) -> tuple[int, list[Mark]]:
        """Return the length of a piece's recording, and the annotations from the piece."""
        start, stop, rate, frames = map(piece.number, _WHERE)
        # silence that was added at the end of a piece is not in the recording
        stop = min(stop, frames)
        if start > stop:
            raise Refused(
                f"{self.name}: {piece.name}: is at samples {start} to {stop} of a recording of {frames}, "
                "which is impossible; leave it out with --where"
            )
        first, last, length = ((one * BILLION + rate // 2) // rate for one in (start, stop, frames))
        channel = piece.source_channel or 0
        marks = []
        for label in self._labels(piece):
            text, speaker = label.name.strip(), self._speaker(piece)
            if not text and not self.holds_empty:
                continue
            begins, ends = first, last
            if label.start is not None and label.end is not None:
                begins, ends = (
                    min(max(round((start / rate + time) * BILLION), first), last)
                    for time in (label.start, label.end)
                )
            marks.append(Mark(begins, max(begins, ends), self.checked(text, piece), speaker, channel, piece))
        return length, marks

    def _labels(self, piece: Piece) -> list[PieceLabel]:
        """Return what annotations of a piece say, with their times in the piece if known."""
        if self.content == "text":
            return [PieceLabel(piece.text)]
        if self.content == "name":
            return [PieceLabel(piece.name)]
        labels = self._timed(piece)
        if self.content == "labels":
            return labels
        speakers = dict.fromkeys(filter(None, piece.speaker.split("|")))
        # labels read from RTTM are the speakers, with the times when they speak
        if labels and all(label.name in speakers for label in labels):
            return labels
        return [PieceLabel(speaker) for speaker in speakers]

    def _timed(self, piece: Piece) -> list[PieceLabel]:
        """Return the labels of a piece; refuse times that are not finite."""
        labels = piece.labels
        if not all(math.isfinite(time or 0) for label in labels for time in (label.start, label.end)):
            raise Refused(
                f"{self.name}: {piece.name}: not all label_starts and label_ends are times; leave it out "
                "with --where"
            )
        return labels

    def _speaker(self, piece: Piece) -> str:
        """Return who speaks, if the format says it besides the label; otherwise, nothing."""
        if not self.names_speakers or self.content == "speaker":
            return ""
        speaker = (piece.speaker or piece["annotation_speaker"]).strip()
        if "\n" in speaker:
            self.refuse(speaker, piece, "is the name of a speaker, but has several lines")
        # if there are several speakers, it is unknown which of them a label belongs to
        return "" if self.content == "labels" and "|" in speaker else self.checked(speaker, piece)

    def checked(self, text: str, piece: Piece) -> str:
        """Return a text; refuse one that the format cannot hold."""
        if found := self._forbidden.search(text):
            self.refuse(text, piece, f"has {shown(found[0])}, which the format cannot hold")
        return text

    def refuse(self, text: str, piece: Piece, why: str) -> None:
        """Refuse a piece because of a text, and say what to do."""
        raise Refused(
            f"{self.name}: {shown(text)} of {piece.name}: {why}; leave the piece out with --where, choose "
            "what is written with --content, or another format"
        )


def seconds(time: int) -> str:
    """Return nanoseconds as seconds, with as many digits as needed.

    >>> seconds(1_500_000_000), seconds(2_000_000_000)
    ('1.5', '2.0')
    """
    whole, rest = divmod(time, BILLION)
    digits = f"{rest:09d}".rstrip("0")
    return f"{whole}.{digits or 0}"


def clock(time: int, comma: str) -> str:
    """Return a time as subtitles write it, to the millisecond.

    >>> clock(3_723_004_500_000, ",")
    '01:02:03,004'
    """
    total, milliseconds = divmod(milliseconds_of(time), 1000)
    minutes, rest = divmod(total, 60)
    return f"{minutes // 60:02d}:{minutes % 60:02d}:{rest:02d}{comma}{milliseconds:03d}"


def milliseconds_of(time: int) -> int:
    """Round a time to milliseconds, halves to even."""
    whole, rest = divmod(time, 10**6)
    return whole + (2 * rest > 10**6 or (2 * rest == 10**6 and whole & 1))
