"""Times of other tools, as exact text."""

import re
from decimal import Context, Decimal

_is_number = re.compile(
    r"[+-]?(?:\d{1,12}(?:\.\d{0,40})?|\.\d{1,40})(?:[eE][+-]?\d{1,2})?", re.ASCII
).fullmatch
# more digits than the sum of any two such numbers has
_EXACT = Context(prec=300)


def seconds(value: object) -> Decimal:
    """Return a time as a number of seconds; raise ValueError if it is not one."""
    text = str(value).strip()
    if not _is_number(text):
        raise ValueError(f"{text[:40]!r} is not a time in seconds")
    return Decimal(text)


def span(start: object, duration: object) -> tuple[str, str]:
    """Return when something starts and ends, as text.

    >>> span("7.10", "0.2")
    ('7.1', '7.3')
    """
    first, length = seconds(start), seconds(duration)
    return written(first), written(_EXACT.add(first, length))


def written(time: Decimal) -> str:
    """Return a number as text without needless digits: 1 for 1.0 and 1e0."""
    text = format(time, "f")
    return text.rstrip("0").rstrip(".") or "0" if "." in text else text
