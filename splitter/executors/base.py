"""The seam for executors: batches in, reports out."""

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from splitter.worker.messages import Batch, Job, Report


@dataclass(frozen=True)
class Limits:
    """How many workers there are, and what each may use.

    Attributes:
        workers: How many work at a time; 0 means in this process, without a guard; None means as many as
            there is room for.
        least: How many batches to ask for at a time even if there is room for fewer; 0 to ask for no more
            than there is room for.
        timeout: Seconds for one input.
        memory: Bytes for one worker, above what it holds after setup().
    """

    workers: int | None
    least: int = 0
    timeout: float | None = None
    memory: int | None = None


@dataclass(frozen=True)
class Cluster:
    """The cluster where batches run, and what each batch takes there.

    Attributes:
        address: The address of a running cluster; None for a private one.
        cpus: CPUs for a batch.
        gpus: GPUs for a batch; fractions are allowed.
        resources: Other resources for a batch, by name.
        runtime_env: The runtime environment that the cluster prepares for the workers.
        verbose: Whether to show the cluster's own log.
    """

    address: str | None = None
    cpus: float = 1
    gpus: float = 0
    resources: Mapping[str, float] = field(default_factory=dict)
    runtime_env: Mapping[str, Any] = field(default_factory=dict)
    verbose: bool = False


class Executor(ABC):
    """The base class of executors, which run batches somewhere.

    Their reports only show progress: the commit records decide what is done. An executor that loses workers
    may end early, or leave batches out; the run then looks at what is committed, and calls the executor
    again for the rest.

    Attributes:
        elsewhere: Whether workers may be on other machines, or outlive the driver.
    """

    elsewhere = False

    def __init__(self, limits: Limits, cluster: Cluster) -> None:
        self.limits, self.cluster = limits, cluster

    @property
    def advice(self) -> str:
        """Return one line that the user must know before the work begins; empty if there is nothing."""
        return ""

    @property
    @abstractmethod
    def workers(self) -> int:
        """Return how many batches can be at work now."""

    @property
    def most_workers(self) -> int:
        """Return how many batches may be at work later: more than now if a cluster can grow."""
        return self.workers

    def device(self, requested: str) -> str:
        """Return the device that `auto` means where batches run; refuse one that does not exist there."""
        return requested

    def check(self, job: Job, inputs: int) -> None:  # noqa: B027 - most have nothing to refuse
        """Refuse a run that cannot work here, before anything is removed."""

    @abstractmethod
    def run(self, job: Job, batches: Iterable[Batch | None], busy: int) -> Generator[Report, None, None]:
        """Run the batches, in any order, and yield their reports; `busy` workers have something to do.

        None instead of a batch means that there is none now, but that more will come. When the generator
        ends, or is closed, no batch is at work any more.
        """

    def status(self) -> str:
        """Describe what is in use, for the display."""
        return ""

    def close(self) -> None:  # noqa: B027 - most have nothing to end
        """End all processes that the executor started."""
