"""Several labels in one cell of a table, separated by `|`.

A `|` in a label is written with a backslash before it; a label's own backslashes directly before a `|` are
doubled.
"""

import re
from collections.abc import Iterable

# the column in which recipes for sound put several labels into a cell
COLUMN_OF_LABELS = "labels"
# the prefix of a column that an earlier stage has made
EARLIER = "from_"
_BAR = re.compile(r"(?<!\\)(\\*)\|")
_LAST_BACKSLASHES = re.compile(r"(?<!\\)\\+\Z")


def join_labels(labels: Iterable[str]) -> str:
    """Return labels as the text of one cell."""
    *others, last = [_BAR.sub(r"\1\1\|", label) for label in labels] or [""]
    return "|".join([*(_LAST_BACKSLASHES.sub(r"\g<0>\g<0>", label) for label in others), last])


def name_when_made(column: str) -> str:
    """Return the name that a column had in the stage that made it.

    >>> [name_when_made(column) for column in ("from_from_labels", "labels", "from_")]
    ['labels', 'labels', '']
    """
    while column.startswith(EARLIER):
        column = column.removeprefix(EARLIER)
    return column


def labels_in(column: str, text: str) -> list[str]:
    """Return the labels in a cell; only the column `labels` has several, and an empty cell has none.

    >>> labels_in("from_labels", "a|b"), labels_in("speaker", "a|b"), labels_in("labels", "")
    (['a', 'b'], ['a|b'], [])
    """
    if name_when_made(column) != COLUMN_OF_LABELS:
        return [text] if text else []
    return _divide(text) if text else []


def _divide(text: str) -> list[str]:
    labels, start = [""], 0
    for bar in _BAR.finditer(text):
        backslashes, is_escaped = divmod(len(bar[1]), 2)
        labels[-1] += text[start : bar.start()] + "\\" * backslashes
        start = bar.end()
        if is_escaped:
            labels[-1] += "|"
        else:
            labels.append("")
    labels[-1] += text[start:]
    return labels
