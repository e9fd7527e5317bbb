"""The row that every format of annotations is read into, and the parsing of times.

Times stay text, as written, until they become exact numbers. splitter has its own readers because existing
libraries turn times into floats or whole milliseconds, and skip lines that they cannot read.
"""

import io
import re
from collections.abc import Iterator
from fractions import Fraction
from typing import NamedTuple

from splitter.text.show import shortened

# three hundred years; it keeps positions in samples within 64 bits
LONGEST_SECONDS = 10**10

CLOCK = r"(?:\d{1,4}:)?\d{1,2}:\d{1,2}(?:[.,]\d{1,9})?"
_NUMBER = r"[+-]?(?:\d{1,12}(?:\.\d{0,40})?|\.\d{1,40})(?:[eE][+-]?\d{1,2})?"
_is_clock = re.compile(CLOCK, re.ASCII).fullmatch
is_number = re.compile(_NUMBER, re.ASCII).fullmatch


class Word(NamedTuple):
    """A word of a text: when it is spoken, and the text from its start to the start of the next word."""

    start: Fraction
    end: Fraction
    text: str


class Row(NamedTuple):
    """One annotation, still as text, as its file has it.

    Attributes:
        line: The line on which it starts, counted from 1.
        start: When it starts.
        end: When it ends, or with `lasts` how long it is.
        label: The text of its label.
        names: The names of its other fields.
        values: The values of those fields; None if a field is to be left out.
        recording: The recording that it belongs to; None if the file does not say.
        lasts: Whether `end` is a duration.
        offset: When it starts in its own recording, if `start` counts through several.
        called: The name of the field that the label is from; empty if it has none.
        words: The words of the label, if their times are known.
        spoken: Whether the label is spoken text although its field has no name that says so.
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
    called: str = "label"
    words: tuple[Word, ...] = ()
    spoken: bool = False

    def labelled_by(self, name: str) -> "Row":
        """Return the row with another field as its label; the label is empty if there is no such field."""
        if name == self.called:
            return self
        others = dict(zip(self.names, self.values, strict=True))
        label = others.pop(name, None) or ""
        if self.called:
            others[self.called] = self.label
        return self._replace(
            label=label, names=tuple(others), values=tuple(others.values()), called=name, spoken=False
        )

    def times(self) -> tuple[Fraction, Fraction]:
        """Return the exact start and end; raise ValueError if they make no sense."""
        start, end = seconds(self.start), seconds(self.end)
        if self.lasts:
            end += start
        if self.offset:
            shift = start - seconds(self.offset)
            # an offset has fewer digits than the start: a difference below its last digit is only rounding
            if abs(shift) > last_digit(self.offset):
                start, end = start - shift, end - shift
        if start < 0:
            raise ValueError(f"starts at {shown(self.start)}, before the recording does")
        if end < start:
            verb = "lasts" if self.lasts else f"starts at {shown(self.start)} and ends at"
            raise ValueError(f"{verb} {shown(self.end)}, so it ends before it starts")
        return start, end


class Malformed(ValueError):
    """A line that does not follow its format; `line` is None if the problem says where it is."""

    def __init__(self, line: int | None, problem: str) -> None:
        super().__init__(problem if line is None else f"line {line}: {problem}")
        self.problem = problem


def seconds(text: str) -> Fraction:
    """Return the exact time that a text says: `7.3`, `1e-3`, `01:02.5` or `00:01:02,500`.

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
        raise ValueError(f"{shown(text)} is not a time in a recording")
    return time


def in_milliseconds(number: str) -> str:
    """Convert the text of a number from milliseconds to seconds.

    >>> seconds(in_milliseconds("7960"))
    Fraction(199, 25)
    """
    return f"{number.strip()}e-3"


def last_digit(number: str) -> Fraction:
    """Return the value of one step in the last digit of a number: 1/1000 for `1.250`."""
    return Fraction(1, 10 ** len(number.strip().partition(".")[2]))


def with_point(number: str) -> str:
    """Return a number with a decimal point instead of a decimal comma."""
    return number.strip().replace(",", ".", 1)


def shown(text: str) -> str:
    """Return a text for an error message: in quotes, and cut if it is long."""
    return repr(shortened(text, 60))


def lines(text: str) -> Iterator[tuple[int, str]]:
    """Return the lines of a text, numbered from 1, with line ends of any kind."""
    return enumerate((line.rstrip("\n") for line in io.StringIO(text, newline=None)), 1)
