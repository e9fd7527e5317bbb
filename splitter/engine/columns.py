"""Find the columns of a dataset's tables by trying inputs, without storing their outputs."""

import contextlib
import dataclasses
from dataclasses import replace

import numpy as np

from splitter.engine.assignment import Assignment
from splitter.engine.batches import make_batch, second_of
from splitter.ledger.run_files import COLUMNS
from splitter.sinks.columns import OutputColumns, stored_columns
from splitter.worker.messages import Job, Tried

MORE_EACH_TIME = 8


def try_inputs(run: Assignment, chosen: np.ndarray, *, careful: bool = False) -> Tried | None:
    """Return the result of the first of some inputs that makes a file; None if none does.

    The first input is tried alone. If it makes no file, one worker gets the next few, then more at a time.
    An input that kills its worker is skipped. Raise RunStopped if no input can be done, or, if `careful`, if
    the first and the last input fail in the same way in the recipe's code.
    """
    start, size = 0, 1
    while start < len(chosen):
        batch = make_batch(f"trial-{start:06d}", run, chosen[start : start + size])
        tried: list[Tried] = []
        trial = replace(batch, one_by_one=True, trial=True)
        if careful and not start and len(chosen) > 1:
            trial = replace(trial, second=second_of(run, int(chosen[-1])))
        with contextlib.closing(run.executor.run(run.job, [trial], 1)) as reports:
            for report in reports:
                report.problems.raise_stop()
                tried += report.tried
        if tried:
            return min(tried, key=lambda one: batch.keys.index(one.key))
        start, size = start + size, size * MORE_EACH_TIME
    return None


def choose_columns(run: Assignment, chosen: np.ndarray, *, careful: bool = False) -> OutputColumns | None:
    """Return the columns of a dataset's tables: those of an earlier run, or else those that a trial finds.

    They stay as long as inputs are processed in the same way. Return None if no input makes a file.
    """
    job = run.job
    earlier = stored_columns(job.storage, job.marks.seed)
    if earlier is not None:
        return earlier
    tried = try_inputs(run, chosen, careful=careful)
    if tried is None:
        return None
    own = dict(job.sink.columns)
    keys = [one for one in (*tried.head.outputs, *tried.head.inputs) if one[0] not in own]
    rate = job.dataset.parameters.get("sample_rate")
    return _keep(job, OutputColumns.of(keys, job.dataset.metadata_types, tried.outputs, rate))


def _keep(job: Job, columns: OutputColumns) -> OutputColumns:
    """Store the columns, unless another part of the run stored some meanwhile; return those stored."""
    storage = job.storage
    with storage.gate() if storage.part else contextlib.nullcontext():
        columns = stored_columns(storage, job.marks.seed) or columns
        COLUMNS.save(storage, {"seed": job.marks.seed, "columns": dataclasses.asdict(columns)})
        return columns
