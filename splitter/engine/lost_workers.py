"""Inputs whose worker was lost with them."""

from splitter.errors import Crashed
from splitter.worker.messages import Failure


class LostWorkers:
    """Who is to blame when a worker is lost is found by smaller and smaller batches.

    The guard finds the input that ends a runner. This is for what takes the guard along, such as a cluster
    that ends a worker for its memory.
    """

    TIMES = 3
    PARTS = 8

    def __init__(self) -> None:
        """Nothing is lost yet."""
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
            message = f"its worker was ended {times} times with this input alone (out of memory?)"
            self.failures[keys[0]] = Failure(Crashed.__name__, message, attempts=times)
