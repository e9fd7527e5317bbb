"""Find out the columns of a dataset's tables by trying inputs, without storing anything."""

import contextlib
import dataclasses
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from splitter.engine.assignment import Assignment
from splitter.engine.batches import make_batch, second_of
from splitter.ledger.run_files import COLUMNS
from splitter.sinks.columns import OutputColumns, stored_columns
from splitter.worker.messages import Job, Tried

MORE_EACH_TIME = 8


def try_inputs(run: Assignment, chosen: np.ndarray, *, careful: bool = False) -> Iterator[Tried]:
    """Yield what becomes of some inputs, in the order of the list, to the first that gives a file.

    The first one is tried alone. If it fails, the next few are given to one worker, then more at a time.
    An input that ends the whole worker is left out. Raises RunStopped when no input can be done, and if
    `careful` when the first and the last fail alike in the recipe's code.
    """
    start, size = 0, 1
    while start < len(chosen):
        batch = make_batch(f"trial-{start:06d}", run, chosen[start : start + size])
        order = {key: index for index, key in enumerate(batch.keys)}
        tried: list[Tried] = []
        trial = replace(batch, one_by_one=True, trial=True)
        if careful and not start and len(chosen) > 1:
            trial = replace(trial, second=second_of(run, int(chosen[-1])))
        with contextlib.closing(run.executor.run(run.job, [trial], 1)) as reports:
            for report in reports:
                report.problems.raise_stop()
                tried += report.tried
        tried.sort(key=lambda one: order[one.key])
        for one in tried:
            yield one
            if one.outputs:
                return
        start, size = start + size, size * MORE_EACH_TIME


def choose_columns(run: Assignment, chosen: np.ndarray, *, careful: bool = False) -> OutputColumns | None:
    """Return the columns of a dataset's tables: those of an earlier run, or what a trial shows.

    They stay as long as inputs are processed in the same way. None if no input gives a file.
    """
    job = run.job
    earlier = stored_columns(job.storage, job.marks.seed)
    if earlier is not None:
        return earlier
    for tried in try_inputs(run, chosen, careful=careful):
        if tried.outputs:
            own = dict(job.sink.columns)
            keys = [one for one in (*tried.head.outputs, *tried.head.inputs) if one[0] not in own]
            rate = job.dataset.parameters.get("sample_rate")
            columns = OutputColumns.of(keys, job.dataset.metadata_types, tried.outputs, rate)
            return _keep(job, columns)
    return None


def _keep(job: Job, columns: OutputColumns) -> OutputColumns:
    """Store the columns, unless another part of the run has stored some meanwhile."""
    storage = job.storage
    with storage.gate() if storage.part else contextlib.nullcontext():
        columns = stored_columns(storage, job.marks.seed) or columns
        COLUMNS.save(storage, {"seed": job.marks.seed, "columns": dataclasses.asdict(columns)})
        return columns
