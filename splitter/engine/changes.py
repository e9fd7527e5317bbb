"""Why inputs are done again, in words: which column, label or file is not as it was."""

from collections.abc import Iterator

import numpy as np

from splitter.engine.assignment import Assignment
from splitter.ledger.journal import Journal
from splitter.text.csv import parse_rows
from splitter.text.show import one_line

INPUTS_SHOWN = 3
_LONGEST_VALUE = 40


def changed_columns(run: Assignment, journal: Journal, entries: np.ndarray) -> list[str]:
    """Return which columns of the list are other ones than when these inputs were done."""
    there = run.table.header
    found: dict[str, None] = {}
    for head in journal.heads_in_order(entries):
        before = [*head.columns]
        new, gone = (
            [name for name in one if name not in other] for one, other in ((there, before), (before, there))
        )
        found |= dict.fromkeys(f"column {name} is new" for name in new)
        found |= dict.fromkeys(f"column {name} is gone" for name in gone)
        if before != there and not (new or gone):
            found["the columns are in another order"] = None
    return [*found]


def changed_inputs(run: Assignment, journal: Journal, indexes: np.ndarray) -> list[str]:
    """Return the first of some changed inputs, and which label or file of each is another one."""
    more = ["…"] if len(indexes) > INPUTS_SHOWN else []
    return [*_changed(run, journal, indexes[:INPUTS_SHOWN]), *more]


def _changed(run: Assignment, journal: Journal, indexes: np.ndarray) -> Iterator[str]:
    entries = journal.find(run.survey.keys[indexes])
    for index, (head, rows) in zip(indexes.tolist(), journal.rows_of_each(entries), strict=True):
        now = parse_rows(run.table.text(index))
        before = dict(zip(head.columns, rows[0], strict=False)) if rows else {}
        labels = [
            f"{name} was {_shown(before[name])}, is {_shown(value)}"
            for name, value in zip(run.table.header, now[0], strict=True)
            if value != before.get(name, value)
        ]
        # of an input with several rows, the others may have changed, too
        file = "its file" if len(now) == 1 else "its file or its rows"
        yield f"{one_line(run.table.listed(index))}: {', '.join(labels) or file}"


def _shown(value: str) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}…"
