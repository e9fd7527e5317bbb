"""Merge neighboring annotations into pieces of a given length.

    cues       |--a--|  |-b-|        |---c---|             |--d--|
    pieces   |---------------|--------------------|      |---------|
                      least : most          not merged: a longer gap than is allowed

A border is in the middle of a gap, but at most half of the longest allowed gap from the nearest cue. Of all
ways to divide the cues, the best one cuts through the fewest cues that overlap; if several do, it has the
fewest pieces that are too short, then the fewest pieces, then the longest gaps at its borders.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from typing import NamedTuple

from splitter.annotations.files import Annotation
from splitter.annotations.rows import seconds, shown
from splitter.errors import Refused


class MergedPiece(NamedTuple):
    """A stretch of a recording, and the numbers of its annotations: from `first` to just before `last`."""

    start: Fraction
    stop: Fraction
    first: int
    last: int


@dataclass(frozen=True)
class Merge:
    """The rules by which annotations are merged.

    Attributes:
        least: The shortest length that pieces should have, in seconds.
        most: The longest length that a piece of several annotations may have.
        gap: The longest silence between two annotations of a piece.
        speakers: Whether a piece may have several speakers.
    """

    least: Fraction
    most: Fraction
    gap: Fraction = Fraction(2)
    speakers: bool = False

    @classmethod
    def parse(cls, value: str, *, gap: Fraction, speakers: bool = False) -> "Merge":
        """Parse a range of lengths in seconds, such as `5:15`.

        >>> Merge.parse("5:15", gap=Fraction(1)).most
        Fraction(15, 1)
        """
        try:
            # with a second colon, it would be a clock time
            least, most = value.split(":")
            found = cls(seconds(least), seconds(most), gap, speakers)
        except ValueError:
            found = cls(Fraction(1), Fraction(0))
        if not 0 <= found.least <= found.most or not found.most:
            raise Refused(f"--merge {shown(value)}: expected MIN:MAX in seconds, such as 5:15")
        return found

    def pieces(self, annotations: Sequence[Annotation]) -> list[MergedPiece]:
        """Return the pieces of a recording, from its annotations in order of start and end."""
        cues = _CueTimes(self, annotations)
        # for each cue, the lowest cost of the cues before it, and the cue that starts their last piece
        costs: list[tuple[int, ...]] = [(0, 0, 0, 0)]
        firsts = [0]
        for last in range(len(annotations)):
            best = min(
                (_sum(costs[first], cues.cost(last, length)), first) for first, length in cues.firsts(last)
            )
            costs.append(best[0])
            firsts.append(best[1])
        found = []
        stop = len(annotations)
        while stop:
            found.append(cues.piece(firsts[stop], stop - 1))
            stop = firsts[stop]
        return found[::-1]


class _CueTimes:
    """The times of annotations in whole ticks, so that sums are exact and fast; half a gap is whole, too."""

    def __init__(self, merge: Merge, annotations: Sequence[Annotation]) -> None:
        times = [time for one in annotations for time in (one.start, one.end)]
        given = merge.least, merge.most, merge.gap
        self._second = 2 * math.lcm(*(time.denominator for time in (*times, *given)))
        self._least, self._most, longest_gap = map(self._ticks, given)
        self._starts = [self._ticks(one.start) for one in annotations]
        self._ends = [self._ticks(one.end) for one in annotations]
        self._latest = list(accumulate(self._ends, max))
        self._gaps = [start - end for start, end in zip(self._starts[1:], self._latest, strict=False)]
        speakers = [one.speaker for one in annotations]
        self._may_merge = [
            gap <= longest_gap and (merge.speakers or before == after)
            for gap, before, after in zip(self._gaps, speakers, speakers[1:], strict=False)
        ]
        half = longest_gap // 2
        gaps = [min(max(0, gap) // 2, half) for gap in self._gaps]
        first = min(self._starts[0], half) if self._starts else 0
        # how much a piece extends before its first cue, and after its last
        self._before, self._after = [first, *gaps], [*gaps, half]

    def _ticks(self, time: Fraction) -> int:
        return time.numerator * (self._second // time.denominator)

    def firsts(self, last: int) -> Iterator[tuple[int, int]]:
        """Yield each cue that can start a piece whose last cue is `last`, and the length of that piece."""
        first, stop = last, self._ends[last]
        while stop - self._starts[first] <= self._most or first == last:
            start, end = self._edges(first, last, stop)
            if end - start <= self._most or first == last:
                yield first, end - start
            first -= 1
            if first < 0 or not self._may_merge[first]:
                return
            stop = max(stop, self._ends[first])

    def cost(self, last: int, length: int) -> tuple[int, ...]:
        """Return the cost of a piece and the border after it; the division with the least sum is the best."""
        gap = self._gaps[last] if last < len(self._gaps) else 0
        cuts = gap < 0 and self._may_merge[last]
        return cuts, length < self._least, 1, -max(0, gap)

    def piece(self, first: int, last: int) -> MergedPiece:
        """Return the piece from the cue `first` to the cue `last`, including both."""
        edges = self._edges(first, last, max(self._ends[first : last + 1]))
        start, stop = (Fraction(edge, self._second) for edge in edges)
        return MergedPiece(start, stop, first, last + 1)

    def _edges(self, first: int, last: int, stop: int) -> tuple[int, int]:
        """Return the edges of a piece; around a single cue, add no more than fits into `most`."""
        start = self._starts[first]
        # add nothing after the last cue if a cue of an earlier piece has not ended by then
        before, after = self._before[first], self._after[last] if stop == self._latest[last] else 0
        if first == last:
            room = max(0, self._most - (stop - start))
            before, after = (
                min(before, max(room // 2, room - after)),
                min(after, max(room // 2, room - before)),
            )
        return start - before, stop + after


def _sum(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(map(sum, zip(one, other, strict=True)))
