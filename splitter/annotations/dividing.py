"""Decide which pieces of a recording have an annotation that crosses a border, and which of its words.

            first piece     second piece    gap      third piece
    ...[-------------------|----------------]     [--------------]...
              |-- a cue with words --|                               divided: each word is in one piece
                         |-- a cue without --|                       assigned: whole, to the second piece

The units that are assigned are words, or whole annotations that are not divided. Each piece has the units
that it contains entirely; if pieces overlap, several can contain the same unit. Any other unit goes to the
piece that contains the most of it, or to the first of those that tie. A word outside all pieces goes with
the word before it, or with the word after it if it is the first.
"""

import math
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from splitter.annotations.files import Annotation
from splitter.annotations.labels import AnnotationIndex, MinOverlap
from splitter.annotations.rows import Word

Cross = Literal["assign", "both", "divide"]

Piece = TypeVar("Piece")
# the first sample, and the one after the last
Edges = tuple[int, int]
Time = tuple[Fraction, Fraction]


class Upcoming(Iterator[Piece], Generic[Piece]):
    """An iterator over pieces, in order, that can look ahead.

    Attributes:
        index: The number of the piece that was taken last.
    """

    def __init__(self, pieces: Iterable[Piece], edges_of: Callable[[Piece], Edges]) -> None:
        self._pieces, self._edges_of = iter(pieces), edges_of
        self._next: deque[Piece] = deque()
        self.index = -1

    def __next__(self) -> Piece:
        piece = self._next.popleft() if self._next else next(self._pieces)
        self.index += 1
        return piece

    def starting_before(self, sample: int) -> Iterator[Edges]:
        """Look ahead: yield the edges of pieces, until one starts at this sample or later."""
        number = 0
        while number < len(self._next) or self._look():
            edges = self._edges_of(self._next[number])
            if edges[0] >= sample:
                return
            yield edges
            number += 1

    def _look(self) -> bool:
        """Look ahead by one more piece; return whether there was one."""
        for piece in self._pieces:
            self._next.append(piece)
            return True
        return False


class Share(NamedTuple):
    """The part of an annotation that is in a piece.

    Attributes:
        annotation: The whole annotation, in the time of the recording.
        start: When it starts in the piece, in seconds; 0 if it started before.
        end: When it ends in the piece; the length of the piece if it continues after it.
        text: The part of its text that the piece has; None if the file has no text.
    """

    annotation: Annotation
    start: Fraction
    end: Fraction
    text: str | None

    @property
    def label(self) -> str:
        """The label of the annotation in this piece: the part of the text, if the text is the label."""
        is_text = self.text is not None and self.annotation.label == self.annotation.text
        return (self.text or "") if is_text else self.annotation.label


@dataclass(frozen=True, slots=True)
class _Cue(Annotation):
    """An annotation, extended to cover all of its words, and the units that are assigned to pieces.

    Attributes:
        whole: The annotation as the file has it.
        units: Its words or, if it is not to be divided, all of it as one unit.
        held: The units of each piece, by the number of the piece; empty before a piece asks for its units.
    """

    whole: Annotation = field(kw_only=True)
    units: tuple[Word, ...] = ()
    held: dict[int, list[Word]] = field(default_factory=dict)

    @classmethod
    def of(cls, one: Annotation, *, rate: int, divided: bool) -> "_Cue":
        units = one.words if divided and one.text is not None else ()
        units = units or (Word(one.start, one.end, one.text or ""),)
        start, end = min(unit.start for unit in units), max(unit.end for unit in units)
        start, end = min(one.start, start), max(one.end, end)
        if any(unit.start == unit.end == end for unit in units):
            # a point at the very end is in the sample that starts there
            end = Fraction(math.floor(end * rate) + 1, rate)
        return cls(start, end, "", whole=one, units=units)


class Shares:
    """The annotations of a recording, divided between its pieces; ask for the pieces in order."""

    def __init__(
        self,
        annotations: Iterable[Annotation],
        pieces: Upcoming[Any],
        *,
        rate: int,
        cross: Cross = "divide",
        min_overlap: MinOverlap | None = None,
    ) -> None:
        self._pieces, self._rate, self._cross = pieces, rate, cross
        self._min_overlap = min_overlap or MinOverlap()
        cues = (_Cue.of(one, rate=rate, divided=cross == "divide") for one in annotations)
        self._cues = AnnotationIndex(cues, rate=rate)

    def of(self, start: int, stop: int) -> list[Share]:
        """Return the shares of the piece [start, stop), in samples; it must be the piece taken last."""
        opens, closes = self._time((start, stop))
        shares = []
        for cue in self._cues.of(start, stop):
            units = self._units(cue, (start, stop))
            one = cue.whole
            begins = min(max(one.start, opens), closes)
            ends = max(min(one.end, closes), begins)
            if units and self._min_overlap.holds(ends - begins, one):
                text = None if one.text is None else "".join(unit.text for unit in units).strip()
                shares.append(Share(one, begins - opens, ends - opens, text))
        return shares

    def _units(self, cue: _Cue, piece: Edges) -> Sequence[Word]:
        """Return the units of a cue that a piece has."""
        if self._cross == "both":
            return cue.units
        if not cue.held:
            self._deal_out(cue, piece)
        return cue.held.get(self._pieces.index, ())

    def _deal_out(self, cue: _Cue, piece: Edges) -> None:
        """Assign all units of a cue to pieces at once; `piece` is the first that overlaps the cue."""
        times = [self._time(piece)]
        if cue.end > times[0][1]:
            times += map(self._time, self._pieces.starting_before(math.ceil(cue.end * self._rate)))
        opens, closes = zip(*times, strict=True)
        owners: list[int | None] = []
        # for each unit, the pieces that contain all of it
        inside: list[list[int]] = []
        for unit in cue.units:
            first = bisect_right(closes, unit.start)
            shares = [_share(unit, time) for time in times[first : bisect_right(opens, unit.end)]]
            most = max(shares, default=Fraction(0))
            before = owners[-1] if owners else None
            number = self._pieces.index + first
            owners.append(number + shares.index(most) if most else before)
            inside.append([at for at, share in enumerate(shares, number) if share == 1])
        earliest = next((owner for owner in owners if owner is not None), self._pieces.index)
        for unit, owner, others in zip(cue.units, owners, inside, strict=True):
            for at in {earliest if owner is None else owner, *others}:
                cue.held.setdefault(at, []).append(unit)

    def _time(self, piece: Edges) -> Time:
        return Fraction(piece[0], self._rate), Fraction(piece[1], self._rate)


def _share(unit: Word, piece: Time) -> Fraction:
    """Return the fraction of a unit that is in a piece; a point is not in a piece that ends there."""
    opens, closes = piece
    if unit.start == unit.end:
        return Fraction(opens <= unit.start < closes)
    return max(Fraction(0), min(unit.end, closes) - max(unit.start, opens)) / (unit.end - unit.start)
