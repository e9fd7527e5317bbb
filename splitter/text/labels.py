"""Several labels in one cell of a table, separated by `|`; a `|` in a label has a backslash before it."""

import re
from collections.abc import Iterable

# the column in which recipes for sound put several labels into a cell
COLUMN_OF_LABELS = "labels"
# the prefix of a column that an earlier stage has made
EARLIER = "from_"
_BETWEEN = re.compile(r"(?<!\\)\|")


def join_labels(labels: Iterable[str]) -> str:
    """Return labels as the text of one cell."""
    return "|".join(label.replace("|", "\\|") for label in labels)


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
    return [one.replace("\\|", "|") for one in _BETWEEN.split(text)] if text else []
