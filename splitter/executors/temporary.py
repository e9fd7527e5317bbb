"""Process a few batches into a temporary output folder, which is removed afterwards."""

import contextlib
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace

from splitter.executors.base import Cluster, Executor, Limits
from splitter.options import RunOptions
from splitter.registry import EXECUTORS
from splitter.sinks.files import FilesSink
from splitter.storage.folder import LocalStorage
from splitter.system.temporary_folders import temporary_folder
from splitter.worker.messages import Batch, Job, Report


@dataclass(frozen=True)
class TemporaryOutput:
    """An output folder for batches that belong to no run.

    Attributes:
        job: The job of the run, with the temporary output folder.
        executor: Runs the batches in guarded processes on this machine.
        storage: The temporary output folder.
    """

    job: Job
    executor: Executor
    storage: LocalStorage

    def reports(self, batches: Sequence[Batch]) -> Generator[Report, None, None]:
        """Run some batches, and yield their reports."""
        yield from self.executor.run(self.job, batches, min(len(batches), self.executor.workers))


@contextlib.contextmanager
def temporary_output(job: Job, limits: Limits) -> Iterator[TemporaryOutput]:
    """Make a temporary output folder; outputs there are loose files, even if the sink makes shards."""
    executor: Executor = EXECUTORS.load("local", Executor)(
        replace(limits, workers=limits.workers or 1), Cluster()
    )
    with temporary_folder() as folder:
        storage = LocalStorage(f"{folder}/outputs")
        storage.prepare()
        with storage.locked(), contextlib.closing(executor):
            sink = FilesSink(RunOptions()) if job.sink.makes_files else job.sink
            yield TemporaryOutput(replace(job, storage=storage, sink=sink), executor, storage)
