"""Batches processed apart from the run's output: into temporary space, which is then gone."""

import contextlib
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace

from splitter.executors.registry import Cluster, Executor, Limits, executor_class
from splitter.options import RunOptions
from splitter.sinks import FilesSink
from splitter.storage.folder import LocalStorage
from splitter.system.temporary_folders import temporary_folder
from splitter.worker.messages import Batch, Job, Report


@dataclass(frozen=True)
class TemporaryOutput:
    """A place for batches that no run has asked for.

    Attributes:
        job: What workers are told, with an output folder of its own.
        executor: What runs the batches: guarded processes on this machine.
        storage: Where the outputs are, until it is left.
    """

    job: Job
    executor: Executor
    storage: LocalStorage

    def reports(self, batches: Sequence[Batch]) -> Generator[Report, None, None]:
        """Do some batches; what stops a run stops them."""
        yield from self.executor.run(self.job, batches, min(len(batches), self.executor.workers))


@contextlib.contextmanager
def temporary_output(job: Job, limits: Limits) -> Iterator[TemporaryOutput]:
    """Temporary space in the shape of an output folder, for loose files."""
    executor = executor_class("local")(replace(limits, workers=limits.workers or 1), Cluster())
    with temporary_folder() as folder:
        storage = LocalStorage(f"{folder}/outputs")
        storage.prepare()
        with storage.locked(), contextlib.closing(executor):
            yield TemporaryOutput(
                replace(job, storage=storage, sink=FilesSink(RunOptions())), executor, storage
            )
