"""What the stages of pipelines.py do, for every contender."""

import time
from collections.abc import Iterator


def cut(pieces: int, size: int, cost: float) -> Iterator[tuple[str, bytes]]:
    """Yield pieces, each after some CPU time."""
    for number in range(pieces):
        spend(cost)
        yield f"{number:04d}.bin", bytes([number % 256]) * size


def spend(seconds: float) -> None:
    """Keep a CPU busy for so long, not counting what others take of it."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass
