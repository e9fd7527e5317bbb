"""Numbers, sizes, durations and failures, as people read them."""

import re
from collections.abc import Sequence

from splitter.text.urls import without_secrets

# how many of several names a message shows
NAMES_SHOWN = 3
SECONDS_IN_HOUR = 3600
# sizes below this are rounded to at most 999
_MOST_IN_UNIT = 999.5
# all control characters except tab
_CONTROL = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029]")


def show_failure(listed: str, message: str) -> str:
    """Return the message about an input, preceded by its name if the message does not name it."""
    return message if f"{listed}: " in message else f"{listed}: {message}"


def one_line(text: str) -> str:
    """Return a text on one line, with control characters escaped and secrets removed."""
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), without_secrets(text))


def shortened(text: str, longest: int = 100) -> str:
    """Return a text, with an ellipsis in place of what is beyond its longest length."""
    return text if len(text) <= longest else f"{text[:longest]}…"


def show_count(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural unless the number is 1."""
    plural = "es" if noun.endswith("ch") else "s"
    return f"{number:,} {noun}{'' if number == 1 else plural}"


def show_names(names: Sequence[str], number: int) -> str:
    """Join the first of `number` names, with an ellipsis for the others."""
    return ", ".join(names) + (", …" if number > len(names) else "")


def show_bytes(size: float) -> str:
    """Return a size with its unit."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < _MOST_IN_UNIT:
            return show_count(round(size), "byte") if unit == "bytes" else f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB" if size < _MOST_IN_UNIT else f"{size:,.0f} TB"


def show_seconds(seconds: float) -> str:
    """Return a duration with its unit."""
    if seconds < 60:  # noqa: PLR2004
        return f"{seconds:.1f} s"
    clock = show_clock(seconds)
    return clock if round(seconds) >= SECONDS_IN_HOUR else f"{clock} min"


def show_clock(seconds: float) -> str:
    """Return a duration in minutes and seconds, and in hours if it has any."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"


def show_hours(seconds: float) -> str:
    """Return a duration in hours, or in smaller units if it is short."""
    return show_seconds(seconds) if seconds < SECONDS_IN_HOUR else f"{seconds / SECONDS_IN_HOUR:,.2f} h"
