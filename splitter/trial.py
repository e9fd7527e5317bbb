"""Try inputs before the work begins: in a guarded worker like all others, and without storing anything."""

import contextlib
import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import Any

import numpy as np

from splitter.columns import Columns
from splitter.csv_text import Row
from splitter.errors import RecipeError, RunStopped, StorageError
from splitter.executors import Executor
from splitter.inputs.places import OWN_FOLDER
from splitter.inputs.table import Survey, Table
from splitter.jobs import Job, Tried
from splitter.plan import make_batch, second_of
from splitter.storage.base import Storage
from splitter.storage.sealed import sealed, unsealed

COLUMNS = f"{OWN_FOLDER}/columns.json"
MORE_EACH_TIME = 8


def try_inputs(  # noqa: PLR0913 - what the engine knows
    job: Job,
    table: Table,
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
        order = {key: place for place, key in enumerate(batch.keys)}
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
    table: Table,
    found: Survey,
    executor: Executor,
    chosen: np.ndarray,
    *,
    careful: bool = False,
) -> Columns | None:
    """The columns of a dataset's tables: those that an earlier run has kept, or what a trial shows.

    They are kept for as long as inputs are processed in the same way. None if no input gives a file.
    """
    known = _kept(job.storage, job.seed)
    if known is not None:
        # another release may write now
        return _keep(job, known)
    for tried in try_inputs(job, table, found, executor, chosen, careful=careful):
        if tried.outputs:
            own = dict(job.sink.columns)
            keys = [one for one in (*tried.head.outputs, *tried.head.inputs) if one[0] not in own]
            rate = job.dataset.parameters.get("sample_rate")
            decided = Columns.of(keys, job.dataset.metadata_types, tried.outputs, rate)
            return _keep(job, decided)
    return None


def earlier_columns(storage: Storage) -> Columns | None:
    """Those that were kept last, however inputs were processed then."""
    return _kept(storage, None)


def forget_columns(storage: Storage) -> None:
    """Have them decided anew."""
    storage.remove([COLUMNS])


def _kept(storage: Storage, seed: int | None) -> Columns | None:
    if not storage.exists(COLUMNS):
        return None
    try:
        content = _content(storage)
        return Columns.from_json(content["columns"]) if seed in (None, content["seed"]) else None
    except (ValueError, KeyError, TypeError) as error:
        message = f"{storage.path(COLUMNS)}: is damaged ({error})"
        raise StorageError(f"{message}; remove it, and run the same command again") from None


@dataclass(frozen=True)
class Written:
    """What has been written into tables.

    Attributes:
        columns: Those of metadata and of the dataset: as the last run has them, then as earlier ones.
        writers: The releases of pyarrow.
    """

    columns: tuple[tuple[Columns, Row], ...] = ()
    writers: tuple[str, ...] = ()

    @classmethod
    def of(cls, storage: Storage) -> "Written":
        """What runs have kept of it."""
        if not storage.exists(COLUMNS):
            return cls()
        content = _content(storage)
        try:
            columns = [
                (Columns.from_json(one["columns"]), [*map(str, one["header"])])
                for one in (content, *content["earlier"])
            ]
            return cls(tuple(columns), tuple(map(str, content["writers"])))
        except (ValueError, KeyError, TypeError):
            # of before more than the last columns were kept
            return cls()

    def and_now(self, columns: Columns, header: Row) -> "Written":
        """With what is written now."""
        now = (columns, header)
        others = [one for one in self.columns if one != now]
        return Written((now, *others), tuple(dict.fromkeys((*self.writers, version("pyarrow")))))

    def to_json(self) -> dict[str, Any]:
        """As it is kept."""
        first, *others = (
            {"columns": dataclasses.asdict(columns), "header": header} for columns, header in self.columns
        )
        return {**first, "writers": self.writers, "earlier": others}


def _content(storage: Storage) -> dict[str, Any]:
    return unsealed(storage.read(COLUMNS))[0]


def _keep(job: Job, columns: Columns) -> Columns:
    """Keep what was decided; another part of the run may have done so meanwhile."""
    storage = job.storage
    with storage.gate() if storage.part else contextlib.nullcontext():
        columns = _kept(storage, job.seed) or columns
        written = Written.of(storage).and_now(columns, job.header)
        content = sealed({"seed": job.seed, **written.to_json()})
        if not storage.exists(COLUMNS) or storage.read(COLUMNS) != content:
            storage.write(COLUMNS, content)
        return columns
