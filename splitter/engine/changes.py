"""Why inputs are redone, in words: which column, label or file has changed."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from splitter.engine.assignment import Assignment
from splitter.ledger.journal import Journal
from splitter.ledger.recipe_record import code_before
from splitter.ledger.records import DONE, SKIPPED
from splitter.system.recipe_code import code_state
from splitter.text.csv import parse_rows
from splitter.text.show import NAMES_SHOWN, one_line, shortened, show_count

if TYPE_CHECKING:
    from splitter.engine.decide import State

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


def changed_code(run: Assignment, state: "State", journal: Journal) -> str:
    """Return a hint if the recipe's code has changed since the last run, but finished inputs stay."""
    finished = np.isin(journal.status(state.entries), (DONE, SKIPPED))
    finished[state.todo] = finished[state.stale] = False
    recipe = type(run.job.dataset)
    now = code_state(recipe) if finished.any() else ""
    before = code_before(run.storage) if now else ""
    # other versions of Python read code in other ways
    if not before or now == before or now.split()[0] != before.split()[0]:
        return ""
    count = show_count(int(finished.sum()), "finished input")
    return (
        f"the code of {recipe.__name__} has changed since the last run, but not its version: {count} will "
        "not be redone, unless you increase `version`"
    )


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
