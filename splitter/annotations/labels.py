"""Find the annotations that overlap a window of a recording.

            a            b
    ........[  window    )........
       |------|                     overlaps: in this window, and in the one before
            |                       a point at a: in this window
                         |          a point at b: in the next

Windows are counted in samples; times stay exact fractions, so rounding never decides what overlaps.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Generic, TypeVar

import numpy as np

from splitter.annotations.files import Annotation
from splitter.annotations.rows import seconds, shown
from splitter.errors import Refused

AnyAnnotation = TypeVar("AnyAnnotation", bound=Annotation)


@dataclass(frozen=True, slots=True)
class MinOverlap:
    """The least overlap that puts an annotation into a window: in seconds, and as a share of its length."""

    seconds: Fraction = Fraction(0)
    share: Fraction = Fraction(0)

    @classmethod
    def parse(cls, value: str | float | Fraction) -> "MinOverlap":
        """Read `0.25` as seconds and `50%` as a share.

        >>> MinOverlap.parse("50%")
        MinOverlap(seconds=Fraction(0, 1), share=Fraction(1, 2))
        """
        if isinstance(value, Fraction) and value >= 0:
            return cls(seconds=value)
        text = str(value).strip()
        number, is_share = text.removesuffix("%"), text.endswith("%")
        try:
            amount = seconds(number) / (100 if is_share else 1)
        except ValueError:
            amount = Fraction(-1)
        if amount < 0 or (is_share and amount > 1):
            raise Refused(f"--min-overlap {shown(text)}: expected seconds (0.25) or a share (50%)")
        return cls(share=amount) if is_share else cls(seconds=amount)

    def holds(self, overlap: Fraction, annotation: Annotation) -> bool:
        """Return whether an overlap is long enough; a point needs no length."""
        length = annotation.end - annotation.start
        return not length or (overlap >= self.seconds and overlap >= self.share * length)


class AnnotationIndex(Generic[AnyAnnotation]):
    """The annotations of a recording, to look up those in a window; windows may come in any order."""

    def __init__(self, annotations: Iterable[AnyAnnotation], *, rate: int) -> None:
        self._annotations = sorted(annotations, key=lambda annotation: annotation.start)
        # For integers a and b, start * rate < b is the same as floor(start * rate) < b, and end * rate > a
        # the same as ceil(end * rate) > a, so 64-bit integers give exact answers.
        self._firsts = np.array([_floor(entry.start, rate) for entry in self._annotations], "i8")
        self._stops = np.array([_stop(entry, rate) for entry in self._annotations], "i8")
        self._latest = np.maximum.accumulate(self._stops)

    def of(self, start: int, stop: int) -> list[AnyAnnotation]:
        """Return the annotations that overlap the window [start, stop), in samples, sorted by start."""
        first = int(np.searchsorted(self._latest, start, side="right"))
        last = int(np.searchsorted(self._firsts, stop))
        if start >= stop or first >= last:
            return []
        found = np.flatnonzero(self._stops[first:last] > start) + first
        return [self._annotations[at] for at in found.tolist()]


def _floor(time: Fraction, rate: int) -> int:
    return time.numerator * rate // time.denominator


def _stop(annotation: Annotation, rate: int) -> int:
    """Return the end in samples, rounded up; for a point, one sample after its start."""
    if annotation.start == annotation.end:
        return _floor(annotation.end, rate) + 1
    return -_floor(-annotation.end, rate)
