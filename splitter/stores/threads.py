"""Run requests in threads, since the clients of stores wait most of the time."""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

AT_A_TIME = 10

Item = TypeVar("Item")
Answer = TypeVar("Answer")


def in_threads(
    function: Callable[[Item], Answer], items: Sequence[Item], at_a_time: int = AT_A_TIME
) -> list[Answer]:
    """Return the function's result for each item, several at a time; at the first error, start no more."""
    if len(items) <= 1:
        return [function(item) for item in items]
    with ThreadPoolExecutor(min(at_a_time, len(items))) as pool:
        return list(pool.map(function, items))


def each_in_threads(
    function: Callable[[Item], Answer], items: Iterable[Item], at_a_time: int = AT_A_TIME
) -> Generator[Answer, None, None]:
    """Yield the function's result for each item, in order; takes any number of items, a few at a time."""
    waiting: deque[Future[Answer]] = deque()
    with ThreadPoolExecutor(at_a_time) as pool:
        try:
            for item in items:
                waiting.append(pool.submit(function, item))
                if len(waiting) > 2 * at_a_time:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
