"""Run batches in a worker: process, store, commit."""

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NoReturn

from splitter.dataset import one_at_a_time
from splitter.errors import BadResult, Interrupted, RecipeError, SetupError
from splitter.inputs.fetching import Fetcher
from splitter.inputs.shards.reader import MemberFiles
from splitter.ledger.journal import Journal
from splitter.records import Scratch
from splitter.system.cpus import take_cpus
from splitter.system.gate import Gate
from splitter.text.conditions import Value, condition_over
from splitter.worker.batch import BatchInProgress, TrialInProgress
from splitter.worker.failures import in_one_line, line_of, shown_from_own
from splitter.worker.fused import FusedStages, FusingInProgress
from splitter.worker.group import GroupInProgress
from splitter.worker.messages import Batch, Job, Report
from splitter.worker.rows import Metadata, RowMaker
from splitter.worker.surroundings import Surroundings
from splitter.worker.tools import WorkerTools

# how long a batch waits, before it begins, for the one that shows whether the recipe works
SECONDS_BEHIND = 0.2


class Worker:
    """The code that processes, stores and commits batches: in a runner, or in the driver without workers."""

    def __init__(  # noqa: PLR0913, PLR0917 - what a runner has besides its job
        self,
        job: Job,
        mark: Callable[[int], None] = lambda _: None,
        scratch: str | None = None,
        announce: Callable[[int], None] = lambda _: None,
        gate: Gate | None = None,
        needed: Sequence[int] = (),
        give_up: Callable[[int], NoReturn] | None = None,
    ) -> None:
        """Prepare for batches; `mark` is called with the index of each input that is begun.

        `scratch` is a folder for temporary files. If it is given, another process fetches remote inputs
        ahead, and `announce` is called with the number of that process. The `gate` opens when the recipe is
        known not to fail on everything. `needed` are descriptors that this process cannot do without;
        `give_up` ends the process when an input has made it useless.
        """
        self._needed, self._give_up = needed, give_up
        folder = scratch or job.storage.scratch()
        fetcher = Fetcher(Scratch(folder), ahead=scratch is not None, announce=announce)
        rows = RowMaker(job)
        self.tools = WorkerTools(
            job=job,
            process=one_at_a_time(job.dataset),
            rows=rows,
            journal=Journal(job.storage),
            surroundings=Surroundings(),
            folder=folder,
            fetcher=fetcher,
            members=MemberFiles(Scratch(folder), fetcher, job.items),
            holds=condition_over(job.keep, partial(_value_of, rows), option="--keep") if job.keep else None,
            mark=mark,
            gate=gate,
        )
        # a fused stage fetches nothing, so these workers start no process for it
        others = partial(Worker, scratch=folder, announce=announce, needed=needed, give_up=give_up)
        self._fused = FusedStages(others, mark, job.cpus)

    def close(self) -> None:
        """Remove fetched files, and close what is open."""
        self._fused.close()
        self.tools.members.close()
        self.tools.fetcher.close()
        self.tools.surroundings.close()

    def setup(self) -> None:
        """Set the recipe up, so that it loads what it needs; raise SetupError if it cannot."""
        # now, so that the memory of a store's client does not count as an input's
        self.tools.job.storage.confirm()
        dataset = self.tools.job.dataset
        take_cpus(self.tools.job.cpus)
        try:
            dataset.ready()
        except Interrupted:
            raise
        except BaseException as error:
            what = f"{type(dataset).__name__}: setup() raised {in_one_line(error)}"
            where = line_of(error, dataset)
            in_line = f" ({where})" if where else ""
            message = f"{what}{in_line}; fix it, then run the same command to continue"
            raise SetupError(message, shown_from_own(error)) from error
        self.tools.surroundings.close()
        self.tools = replace(self.tools, surroundings=Surroundings(self._needed, self._give_up))

    def run(self, batch: Batch) -> Report:
        """Process, store and commit a batch; raise StorageError if the output cannot be written."""
        if batch.waits_for_verdict and self.tools.gate:
            self.tools.gate.wait(SECONDS_BEHIND)
        began = time.perf_counter()
        storage = self.tools.job.storage
        storage.confirm(lately=True)
        with contextlib.closing(self._begin(batch)) as in_progress:
            try:
                in_progress.run()
            except RecipeError as error:
                storage.unstage(batch.name)
                return Report.stopped(error, batch.name)
        in_progress.report.counts.seconds = time.perf_counter() - began
        return in_progress.report

    def _begin(self, batch: Batch) -> BatchInProgress:
        if batch.trial:
            return TrialInProgress(batch, self.tools)
        if batch.group is not None:
            return GroupInProgress(batch, self.tools, batch.group)
        if batch.fused is not None and batch.fused.dead:
            self._fused.undo(batch.fused, batch.fused.dead)
        elif batch.fused is not None:
            return FusingInProgress(batch, self.tools, self._fused)
        return BatchInProgress(batch, self.tools)


def _value_of(rows: RowMaker, name: str) -> Value:
    """Return a function that reads a column of an output as the manifest will have it."""

    def read(output: tuple[Mapping[str, str], Metadata]) -> str:
        columns, metadata = output
        if name not in columns and name not in metadata:
            raise BadResult(
                f"--keep names {name!r}, which this output does not have; with shards it can name columns of "
                "the dataset list and of outputs"
            )
        return columns[name] if name in columns else rows.text_of(name, metadata[name])

    return read
