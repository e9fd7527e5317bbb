"""Measure the bytes that shards take beyond the files in them, by writing shards of some files and of half.

bytes of a shard = those of its outputs + of_each * outputs + of_shard
"""

import os
from collections.abc import Iterator

import numpy as np

from splitter.executors.temporary import TemporaryOutput
from splitter.ledger.journal import Journal
from splitter.ledger.records import OUTPUT_COLUMNS, RowColumns
from splitter.ledger.shard_groups import DIGITS
from splitter.sinks.base import OutputOwner, Sink
from splitter.sinks.columns import OutputColumns
from splitter.sinks.shards import NAME_AT, ShardsWriter
from splitter.system.pool import from_process
from splitter.worker.messages import Job

MOST_BYTES, MOST_OUTPUTS = 64 << 20, 2000
BATCH = "rehearsal"


def more_in_shards(
    job: Job, temporary: TemporaryOutput, journal: Journal, entries: np.ndarray
) -> tuple[float, float]:
    """Measure `of_each` and `of_shard` with outputs of a trial; both are 0 if the sink makes no shards."""
    made = journal.entries[entries]
    few = (np.cumsum(made["bytes"]) <= MOST_BYTES) & (np.cumsum(made["outputs"]) <= MOST_OUTPUTS)
    some = entries[(made["outputs"] > 0) & few]
    if job.sink.divisible or not len(some):
        return 0.0, 0.0
    # in another process, since Arrow starts threads
    (more,) = from_process(lambda: _measured(job, temporary, journal, some))
    return more


def _measured(
    job: Job, temporary: TemporaryOutput, journal: Journal, entries: np.ndarray
) -> Iterator[tuple[float, float]]:
    sink = job.sink
    if sink.needs_columns:
        sink = sink.with_columns(_columns(job, journal, entries), job.header)
    outputs, beside = _written(sink, temporary, journal, entries)
    if len(entries) == 1:
        yield beside / outputs, 0.0
        return
    fewer, beside_fewer = _written(sink, temporary, journal, entries[: len(entries) // 2])
    of_each = (beside - beside_fewer) / (outputs - fewer)
    yield of_each, max(0.0, beside - of_each * outputs)


def _columns(job: Job, journal: Journal, entries: np.ndarray) -> OutputColumns:
    head, rows = next(journal.rows_of_each(entries[:1]))
    names = [row[len(head.columns)] for row in rows]
    rate = job.dataset.parameters.get("sample_rate")
    return OutputColumns.of(
        (*head.outputs, *head.inputs), job.dataset.metadata_types, filter(None, names), rate
    )


def _written(
    sink: Sink, temporary: TemporaryOutput, journal: Journal, entries: np.ndarray
) -> tuple[int, int]:
    """Write outputs into shards; return their number, and the bytes that the shards take beyond them."""
    writer = sink.open(temporary.storage, BATCH)
    assert isinstance(writer, ShardsWriter)  # noqa: S101 - what an indivisible sink opens
    outputs = size = 0
    try:
        for rank, (head, rows) in enumerate(journal.rows_of_each(entries)):
            contents = []
            for name in (row[len(head.columns)] for row in rows):
                if name:
                    with open(temporary.storage.path(name), "rb") as file:
                        contents.append(file.read())
            writer.carry(_owner(sink, rank, head, rows), contents)
            writer.advance(rank)
            outputs, size = outputs + len(contents), size + sum(map(len, contents))
        writer.finish()
        in_shards = sum(move.size for move in writer.moves())
        return outputs, in_shards - size
    finally:
        writer.close()
        temporary.storage.unstage(BATCH)


def _owner(sink: Sink, rank: int, head: RowColumns, rows: list[list[str]]) -> OutputOwner:
    """Return the owner of an input's outputs, whose rows have the columns of the sink as well."""
    at = len(head.columns)
    stop = at + len(OUTPUT_COLUMNS)
    own = [""] * len(sink.columns)
    with_own = [[*row[:stop], *own, *row[stop:]] for row in rows]
    for row in with_own:
        row[at + NAME_AT] = os.path.basename(row[at])
    there = RowColumns(head.columns, (*sink.columns, *head.outputs), head.inputs)
    return OutputOwner(rank, f"{rank:0{DIGITS}d}", there, with_own)
