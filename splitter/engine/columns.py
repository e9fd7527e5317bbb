"""Find out the columns of a dataset's tables by trying inputs, without storing anything."""

import contextlib
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from splitter.engine.batches import make_batch, second_of
from splitter.errors import RecipeError, RunStopped
from splitter.executors.registry import Executor
from splitter.inputs.survey import Survey
from splitter.inputs.table import InputTable
from splitter.sinks.columns import COLUMNS, ColumnHistory, OutputColumns, stored_columns
from splitter.storage.checked_file import sealed
from splitter.worker.messages import Job, Tried

MORE_EACH_TIME = 8


def try_inputs(  # noqa: PLR0913 - what the engine knows
    job: Job,
    table: InputTable,
    found: Survey,
    executor: Executor,
    chosen: np.ndarray,
    *,
    careful: bool = False,
) -> Iterator[Tried]:
    """What becomes of some inputs, in the order of the list, up to the first that gives an output file.

    The first one is tried alone. Where it fails, the next few are given to one worker, then more at a time.
    An input that takes the whole worker along is left out. Raises RunStopped when no input can be done; to
    be careful means to take that for certain where the first and the last fail alike in the recipe's code.
    """
    start, size = 0, 1
    while start < len(chosen):
        batch = make_batch(f"trial-{start:06d}", table, found, chosen[start : start + size])
        order = {key: index for index, key in enumerate(batch.keys)}
        tried: list[Tried] = []
        trial = replace(batch, one_by_one=True, trial=True)
        if careful and not start and len(chosen) > 1:
            trial = replace(trial, second=second_of(table, found, int(chosen[-1])))
        with contextlib.closing(executor.run(job, [trial], 1)) as reports:
            for report in reports:
                if report.traceback:
                    raise RecipeError(report.stop, report.traceback)
                if report.stop:
                    raise RunStopped(report.stop)
                tried += report.tried
        tried.sort(key=lambda one: order[one.key])
        for one in tried:
            yield one
            if one.outputs:
                return
        start, size = start + size, size * MORE_EACH_TIME


def columns_of(  # noqa: PLR0913 - what the engine knows
    job: Job,
    table: InputTable,
    found: Survey,
    executor: Executor,
    chosen: np.ndarray,
    *,
    careful: bool = False,
) -> OutputColumns | None:
    """The columns of a dataset's tables: those that an earlier run has kept, or what a trial shows.

    They are kept for as long as inputs are processed in the same way. None if no input gives a file.
    """
    known = stored_columns(job.storage, job.seed)
    if known is not None:
        # another release may write now
        return _keep(job, known)
    for tried in try_inputs(job, table, found, executor, chosen, careful=careful):
        if tried.outputs:
            own = dict(job.sink.columns)
            keys = [one for one in (*tried.head.outputs, *tried.head.inputs) if one[0] not in own]
            rate = job.dataset.parameters.get("sample_rate")
            decided = OutputColumns.of(keys, job.dataset.metadata_types, tried.outputs, rate)
            return _keep(job, decided)
    return None


def _keep(job: Job, columns: OutputColumns) -> OutputColumns:
    """Keep what was decided; another part of the run may have done so meanwhile."""
    storage = job.storage
    with storage.gate() if storage.part else contextlib.nullcontext():
        columns = stored_columns(storage, job.seed) or columns
        written = ColumnHistory.of(storage).and_now(columns, job.header)
        content = sealed({"seed": job.seed, **written.to_json()})
        if not storage.exists(COLUMNS) or storage.read(COLUMNS) != content:
            storage.write(COLUMNS, content)
        return columns
