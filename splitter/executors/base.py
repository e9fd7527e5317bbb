"""The seam for executors: batches in, reports out."""

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from splitter.worker.messages import Batch, Job, Report


@dataclass(frozen=True)
class Limits:
    """What a worker may use, and how many there are.

    Attributes:
        workers: How many work at a time; 0 is in this process, without a guard. None: as many as there
            is room for.
        least: How many batches are asked for at a time, however little room there is; 0: no more than that.
        timeout: Seconds for one input.
        memory: Bytes for one worker, above what it starts with.
    """

    workers: int | None
    least: int = 0
    timeout: float | None = None
    memory: int | None = None


@dataclass(frozen=True)
class Cluster:
    """Where batches run when it is not this machine alone, and what each needs there.

    Attributes:
        address: Of a running cluster; None is a private one.
        cpus: CPUs that a batch takes.
        gpus: GPUs that a batch takes; parts of one are allowed.
        resources: Other resources that a batch takes, by name.
        runtime_env: What the cluster prepares for the workers.
        verbose: Whether the cluster's own log is shown.
    """

    address: str | None = None
    cpus: float = 1
    gpus: float = 0
    resources: Mapping[str, float] = field(default_factory=dict)
    runtime_env: Mapping[str, Any] = field(default_factory=dict)
    verbose: bool = False


class Executor(ABC):
    """Runs batches somewhere.

    What it returns is only progress: the commit records tell what is done. It may end early, or leave
    batches out, when it loses workers; the run then looks at what is committed, and calls it again for
    the rest.

    Attributes:
        elsewhere: Whether workers may be on other machines, or outlive the driver.
    """

    elsewhere = False

    def __init__(self, limits: Limits, cluster: Cluster) -> None:
        """Prepare nothing that needs to be undone."""
        self.limits, self.cluster = limits, cluster

    @property
    @abstractmethod
    def workers(self) -> int:
        """How many batches can be at work now."""

    def device(self, wanted: str) -> str:
        """What `auto` comes to, where the batches are run; refuses what is not there."""
        return wanted

    def check(self, job: Job, inputs: int) -> None:  # noqa: B027 - most have nothing to refuse
        """Refuse a run over so many inputs that could not work here; called before anything is removed."""

    @abstractmethod
    def run(self, job: Job, batches: Iterable[Batch], busy: int) -> Generator[Report, None, None]:
        """Do the batches, in any order, with as many workers as can be busy.

        When the generator ends, or is closed, none of them is at work any more.
        """

    def status(self) -> str:
        """What is in use, for the display."""
        return ""

    def close(self) -> None:  # noqa: B027 - most have nothing to end
        """Leave no process behind."""
