"""What every format of annotations is read into, and how a time is read.

Times stay the text that was written until they become exact numbers. The readers are splitter's own, since
the libraries there are turn times into floats or whole milliseconds, and pass over lines they cannot read.
"""

import io
import re
from collections.abc import Iterator
from fractions import Fraction
from typing import NamedTuple

# three hundred years; it keeps positions in samples within 64 bits
LONGEST_SECONDS = 10**10
LONGEST_SHOWN = 60

CLOCK = r"(?:\d{1,4}:)?\d{1,2}:\d{1,2}(?:[.,]\d{1,9})?"
_NUMBER = r"[+-]?(?:\d{1,12}(?:\.\d{0,40})?|\.\d{1,40})(?:[eE][+-]?\d{1,2})?"
_is_clock = re.compile(CLOCK, re.ASCII).fullmatch
is_number = re.compile(_NUMBER, re.ASCII).fullmatch


class Row(NamedTuple):
    """One annotation, as the text that a file has for it.

    Attributes:
        line: Where it starts in the file, from 1.
        start: When it starts.
        end: When it ends, or with `lasts` how long it is.
        label: What it says.
        names: The names of its other fields.
        values: What stands in them; None is left out.
        recording: Which recording it belongs to; None in a file that does not say.
        lasts: Whether `end` is a duration.
        offset: When it starts in its own recording, where `start` counts through several.
    """

    line: int
    start: str
    end: str
    label: str
    names: tuple[str, ...] = ()
    values: tuple[str | None, ...] = ()
    recording: str | None = None
    lasts: bool = False
    offset: str = ""

    def times(self) -> tuple[Fraction, Fraction]:
        """The exact start and end; raises ValueError where they make no sense."""
        start, end = seconds(self.start), seconds(self.end)
        if self.lasts:
            end += start
        if self.offset:
            shift = start - seconds(self.offset)
            # an offset is written with fewer digits than the start: one that says the same changes nothing
            if abs(shift) > last_digit(self.offset):
                start, end = start - shift, end - shift
        if start < 0:
            raise ValueError(f"starts at {shown(self.start)}, before the recording does")
        if end < start:
            said = "lasts" if self.lasts else f"starts at {shown(self.start)} and ends at"
            raise ValueError(f"{said} {shown(self.end)}, so it ends before it starts")
        return start, end


class Malformed(ValueError):
    """A line that does not follow its format."""

    def __init__(self, line: int, problem: str) -> None:
        """Say which line, and what is wrong with it."""
        super().__init__(f"line {line}: {problem}")
        self.problem = problem


def seconds(text: str) -> Fraction:
    """The exact time that is written: `7.3`, `1e-3`, `01:02.5` or `00:01:02,500`.

    >>> seconds("7.3"), seconds("00:01:02,500")
    (Fraction(73, 10), Fraction(125, 2))
    """
    text = text.strip()
    if is_number(text):
        time = Fraction(text)
    elif _is_clock(text):
        *units, rest = text.replace(",", ".").split(":")
        time = Fraction(rest) + sum(60**power * int(unit) for power, unit in enumerate(units[::-1], 1))
    else:
        raise ValueError(f"{shown(text)} is not a time in seconds")
    if abs(time) > LONGEST_SECONDS:
        raise ValueError(f"{shown(text)} is no time in a recording")
    return time


def last_digit(number: str) -> Fraction:
    """What one step of the last digit that is written comes to: 1/1000 for `1.250`."""
    return Fraction(1, 10 ** len(number.strip().partition(".")[2]))


def with_point(number: str) -> str:
    """A number with a decimal point, where its writer's country has a comma."""
    return number.strip().replace(",", ".", 1)


def shown(text: str) -> str:
    """A text as an error shows it."""
    return repr(text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…")


def lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines of a text, numbered from 1, whatever ends them."""
    return enumerate((line.rstrip("\n") for line in io.StringIO(text, newline=None)), 1)
