"""What commit records say about the work of batches, where the reports on it are missing."""

import math

import numpy as np

from splitter.ledger.journal import Journal
from splitter.ledger.records import DONE, FAILED, RECORDED, SKIPPED, RowColumns
from splitter.worker.messages import WorkCounts


def counts_of(journal: Journal, entries: np.ndarray, *, sound: bool = True) -> WorkCounts:
    """Return the counts of some entries; those of `sound` come from rows, which must be read for them."""
    made = journal.entries[entries]
    status = made["status"]
    return WorkCounts(
        inputs=len(entries),
        done=int((status == DONE).sum()),
        skipped=int((status == SKIPPED).sum()),
        failed=int((status == FAILED).sum()),
        outputs=int(made["outputs"].sum()),
        bytes=int(made["bytes"].sum()),
        recorded=recorded_of(journal, entries) if sound else 0.0,
        empty=int(((status == DONE) & (made["outputs"] == 0)).sum()),
    )


def recorded_of(journal: Journal, entries: np.ndarray) -> float:
    """Return the length of the recordings that are done; without any, no row is read."""
    entries = entries[journal.status(entries) == DONE]
    at = np.array([_recorded_at(head) for head in journal.heads], "i8")
    # sorted, so that each record is opened once
    entries = np.sort(entries[at[journal.entries["head"][entries]] >= 0])
    columns = at[journal.entries["head"][entries]].tolist()
    rows = (rows[0] for _, rows in journal.rows_of_each(entries, most=1))
    seconds = (float(row[column] or 0) for column, row in zip(columns, rows, strict=True))
    return sum(filter(math.isfinite, seconds))


def _recorded_at(head: RowColumns) -> int:
    """Return the column with the length of the recording, or -1."""
    return head.names.index(RECORDED) if dict(head.inputs).get(RECORDED) == "float" else -1
