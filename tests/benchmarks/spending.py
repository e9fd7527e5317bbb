"""The work of the stages of pipelines.py, the same for every contender."""

import time
from collections.abc import Iterator


def cut(pieces: int, size: int, cost: float) -> Iterator[tuple[str, bytes]]:
    """Yield pieces, each after some CPU time."""
    for number in range(pieces):
        spend(cost)
        yield f"{number:04d}.bin", bytes([number % 256]) * size


def spend(seconds: float) -> None:
    """Use this much CPU time, without counting what other processes use."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass
