"""The seam for executors: batches in, reports out."""

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable
from dataclasses import dataclass

from splitter.batch import Batch, Job, Report


@dataclass(frozen=True)
class Limits:
    """What a worker may use, and how many there are.

    Attributes:
        workers: How many work at a time; 0 is in this process, without a guard.
        timeout: Seconds for one input.
        memory: Bytes for one worker, above what it starts with.
    """

    workers: int
    timeout: float | None = None
    memory: int | None = None


class Executor(ABC):
    """Runs batches somewhere.

    What it returns is only progress: the commit records tell what is done. It may end early when it
    loses workers; the run then looks at what is committed, and calls it again for the rest.
    """

    def __init__(self, limits: Limits) -> None:
        """Prepare nothing that needs to be undone."""
        self.limits = limits

    def check(self, inputs: int) -> None:  # noqa: B027 - most have nothing to refuse
        """Refuse a run over so many inputs that could not work here; called before anything is removed."""

    @abstractmethod
    def run(self, job: Job, batches: Iterable[Batch]) -> Generator[Report, None, None]:
        """Do the batches, in any order; closing the generator leaves no process behind."""
