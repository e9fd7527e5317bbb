"""Try inputs before the work begins: in a guarded worker like all others, and without storing anything."""

import contextlib
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from splitter.batch import Job, Tried
from splitter.errors import RunStopped
from splitter.executors import Executor
from splitter.inputs import Survey, Table
from splitter.plan import make_batch

MORE_EACH_TIME = 8


def try_inputs(
    job: Job, table: Table, found: Survey, executor: Executor, chosen: np.ndarray
) -> Iterator[Tried]:
    """What becomes of some inputs, in the order of the list, up to the first that gives an output file.

    The first one is tried alone. Where it fails, the next few are given to one worker, then more at a time.
    An input that takes the whole worker along is left out. Raises RunStopped when no input can be done.
    """
    start, size = 0, 1
    while start < len(chosen):
        batch = make_batch(f"trial-{start:06d}", table, found, chosen[start : start + size])
        order = {key: place for place, key in enumerate(batch.keys)}
        tried: list[Tried] = []
        trial = replace(batch, one_by_one=True, trial=True)
        with contextlib.closing(executor.run(job, [trial], 1)) as reports:
            for report in reports:
                if report.stop:
                    raise RunStopped(report.stop)
                tried += report.tried
        tried.sort(key=lambda one: order[one.key])
        for one in tried:
            yield one
            if one.outputs:
                return
        start, size = start + size, size * MORE_EACH_TIME
