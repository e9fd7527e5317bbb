"""The pieces of a recording, in exact seconds."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from splitter.errors import Refused
from splitter.records import Scalar


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of a recording: from `start` up to `stop`, in exact seconds, then `silence`.

    `frames` rounds both ends to samples of a rate, halves to even.

    Attributes:
        about: Other metadata of the piece.
        row: The number of the input's row that it comes from.
        labels: Metadata from annotations of the piece.
    """

    start: Fraction
    stop: Fraction
    silence: Fraction = Fraction(0)
    about: Mapping[str, Scalar] = field(default_factory=dict)
    row: int = 0
    labels: Mapping[str, Scalar] = field(default_factory=dict)

    def frames(self, rate: int) -> tuple[int, int]:
        """Return the first sample, and the one after the last."""
        return nearest(self.start, rate), nearest(self.stop, rate)


def nearest(seconds: Fraction, rate: int) -> int:
    """Return `round(seconds * rate)`, in a tenth of the time that Fraction takes."""
    divisor = seconds.denominator
    whole, rest = divmod(seconds.numerator * rate, divisor)
    return whole + (2 * rest > divisor or (2 * rest == divisor and whole & 1))


def exactly(seconds: float) -> Fraction:
    """Return a number exactly as it was written: 7.3 is 73/10."""
    return Fraction(repr(float(seconds)))


def refuse_negative(**seconds: float) -> None:
    """Refuse options that are negative, infinite or NaN."""
    for name, value in seconds.items():
        if not 0 <= value < float("inf"):
            raise Refused(f"--{name.replace('_', '-')} {value:g}: must be at least 0")
