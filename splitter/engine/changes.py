"""Why inputs are redone, in words: which column, label or file has changed."""

from collections.abc import Iterator

import numpy as np

from splitter.engine.assignment import Assignment
from splitter.ledger.journal import Journal
from splitter.text.csv import parse_rows
from splitter.text.show import NAMES_SHOWN, one_line, shortened

COLUMNS_SHOWN = 5


def changed_columns(run: Assignment, journal: Journal, entries: np.ndarray) -> list[str]:
    """Return which columns were added to the list, removed or moved since these inputs were done."""
    there = run.table.header
    all_new: dict[str, None] = {}
    all_gone: dict[str, None] = {}
    moved = False
    for head in journal.heads_in_order(entries):
        before = [*head.columns]
        new, gone = (
            [name for name in one if name not in other] for one, other in ((there, before), (before, there))
        )
        all_new |= dict.fromkeys(new)
        all_gone |= dict.fromkeys(gone)
        moved |= before != there and not (new or gone)
    order = ["the columns are in a different order"] if moved else []
    return [*_together([*all_new], "new"), *_together([*all_gone], "gone"), *order]


def _together(names: list[str], what: str) -> list[str]:
    if len(names) <= 1:
        return [f"column {name} is {what}" for name in names]
    more = len(names) - COLUMNS_SHOWN
    others = f" and {more:,} more" if more > 0 else ""
    return [f"columns {', '.join(names[:COLUMNS_SHOWN])}{others} are {what}"]


def changed_inputs(run: Assignment, journal: Journal, indexes: np.ndarray) -> list[str]:
    """Return the first few of some changed inputs, each with the labels or the file that changed."""
    more = ["…"] if len(indexes) > NAMES_SHOWN else []
    return [*_changed(run, journal, indexes[:NAMES_SHOWN]), *more]


def _changed(run: Assignment, journal: Journal, indexes: np.ndarray) -> Iterator[str]:
    entries = journal.find(run.survey.keys[indexes])
    for index, (head, rows) in zip(indexes.tolist(), journal.rows_of_each(entries), strict=True):
        now = parse_rows(run.table.text(index))
        before = dict(zip(head.columns, rows[0], strict=False)) if rows else {}
        labels = [
            f"{name} was {shortened(repr(before[name]), 40)}, is {shortened(repr(value), 40)}"
            for name, value in zip(run.table.header, now[0], strict=True)
            if value != before.get(name, value)
        ]
        # if an input has several rows, the others may have changed, too
        file = "its file" if len(now) == 1 else "its file or its rows"
        yield f"{one_line(run.table.listed(index))}: {', '.join(labels) or file}"
