"""Find the input that kills its worker, by retrying lost batches in smaller pieces."""

from splitter.errors import Crashed
from splitter.worker.messages import Failure


class LostWorkers:
    """The inputs of batches that were lost with their workers, and the size of the batches to retry.

    The guard finds an input that kills its runner. This is for cases where the guard dies, too, as when a
    cluster kills a worker that takes too much memory.
    """

    TIMES = 3
    PARTS = 8

    def __init__(self) -> None:
        self.size: int | None = None
        self.failures: dict[int, Failure] = {}
        self._alone: dict[int, int] = {}

    def add(self, keys: list[int]) -> None:
        """Note the inputs of a lost batch."""
        if not keys:
            return
        self.size = min(self.size or len(keys), max(1, len(keys) // self.PARTS))
        if len(keys) > 1:
            return
        times = self._alone[keys[0]] = self._alone.get(keys[0], 0) + 1
        if times == self.TIMES:
            message = f"its worker was killed {times} times with only this input (out of memory?)"
            self.failures[keys[0]] = Failure(Crashed.__name__, message, attempts=times)
