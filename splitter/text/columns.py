"""Tables for a terminal: aligned columns that fit its width."""

import textwrap
from collections.abc import Collection, Sequence

FEWEST_CHARACTERS = 16
# a space at which no line is broken
NO_BREAK = "\N{NO-BREAK SPACE}"


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Align columns: names to the left, numbers to the right."""
    widths = _widths(rows)
    return [
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip() for row in rows
    ]


def fitted(rows: Sequence[Sequence[str]], width: int, without_zeros: Collection[str]) -> list[str]:
    """Align columns, whose titles are the first row, and make them fit into `width`.

    If they are too wide, drop the columns `without_zeros` that hold only zeros, then cut long names. If that
    is not enough, write the numbers below their names.
    """
    if _width(rows) > width:
        columns = [*zip(*rows, strict=True)]
        columns = [one for one in columns if one[0] not in without_zeros or {*one[1:]} - {"0"}]
        rows = [*zip(*columns, strict=True)]
    room = width - (_width(rows) - _widths(rows)[0])
    if room >= min(FEWEST_CHARACTERS, _widths(rows)[0]):
        return aligned([[cut_to(row[0], room), *row[1:]] for row in rows])
    lines, titles = [], rows[0][1:]
    for name, *cells in rows[1:]:
        # do not break a line between a title and its number
        pairs = (f"{title} {cell}".replace(" ", NO_BREAK) for title, cell in zip(titles, cells, strict=True))
        numbers = textwrap.wrap(", ".join(pairs), width, initial_indent="  ", subsequent_indent="  ")
        lines += [cut_to(name, width), *(line.replace(NO_BREAK, " ") for line in numbers)]
    return lines


def cut_to(text: str, length: int) -> str:
    """Return a text, cut to at most `length` characters."""
    return text if len(text) <= length else f"{text[: max(0, length - 3)]}..."


def _widths(rows: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(len, column)) for column in zip(*rows, strict=True)]


def _width(rows: Sequence[Sequence[str]]) -> int:
    widths = _widths(rows)
    return sum(widths) + 2 * (len(widths) - 1)
