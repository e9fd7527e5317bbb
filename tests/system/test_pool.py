"""What the operating system does for processes."""

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing.process import BaseProcess

import pytest

from splitter.system import pool
from splitter.system.pool import from_process, in_processes

HERE = os.getpid()


@pytest.fixture(autouse=True)
def _two_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Helpers are used whatever machine this is, also where a library has started a thread."""
    monkeypatch.setattr(pool, "usable_cpus", lambda: 2)
    monkeypatch.setattr(pool.threading, "active_count", lambda: 1)


@pytest.fixture
def left() -> Callable[[], list[BaseProcess]]:
    """Which processes there are that were not there before the test."""
    before = {*multiprocessing.active_children()}
    return lambda: [child for child in multiprocessing.active_children() if child not in before]


def squared_elsewhere(number: int) -> tuple[int, bool]:
    return number**2, os.getpid() != HERE


def test_results_come_in_order_and_from_other_processes(left):
    """Each result stands at the place of its item."""
    assert list(in_processes(squared_elsewhere, range(11))) == [(number**2, True) for number in range(11)]
    assert left() == []


def test_few_items_are_done_here():
    """A helper for three items would cost more than it saves."""
    assert list(in_processes(squared_elsewhere, range(3))) == [(number**2, False) for number in range(3)]


def test_what_a_killed_helper_leaves_undone_is_done_here():
    """When a helper is killed, by the kernel or by a signal to the group, no result is missing."""

    def deadly(number: int) -> tuple[int, bool]:
        if number == 4 and os.getpid() != HERE:
            os.kill(os.getpid(), signal.SIGKILL)
        return squared_elsewhere(number)

    found = list(in_processes(deadly, range(11)))
    assert found == [(number**2, number % 2 == 1 or number < 4) for number in range(11)]


def test_an_error_is_raised_here(left):
    """An error of the function reaches the caller as it is."""

    def faulty(number: int) -> int:
        if number == 5:
            raise ValueError(f"{number} is no good")
        return number

    found = []
    with pytest.raises(ValueError, match="5 is no good"):
        found.extend(in_processes(faulty, range(11)))
    assert left() == []


class TwoParts(ValueError):
    """An error that pickle cannot make again, since it has other arguments than its text."""

    def __init__(self, what: str, why: str) -> None:
        super().__init__(f"{what}: {why}")


class WithLock(ValueError):
    """An error that cannot be pickled."""

    def __init__(self, what: str, why: str) -> None:
        super().__init__(f"{what}: {why}")
        self.lock = threading.Lock()


@pytest.mark.parametrize("kind", [TwoParts, WithLock])
def test_an_error_that_cannot_be_pickled_keeps_its_text(left, kind: type[ValueError]):
    """It does not look as if the helper had been killed."""

    def faulty() -> Iterator[int]:
        yield 1
        raise kind("x.csv", "is no good")

    found = []
    with pytest.raises(RuntimeError, match=f"^{kind.__name__}: x.csv: is no good$"):
        found.extend(from_process(faulty))
    assert found == [1]
    assert left() == []


@pytest.mark.parametrize("enough", [0, 1, 5])
def test_helpers_that_are_at_work_are_not_waited_for(left, enough: int):
    """Closing the generator ends helpers, whatever they are at."""
    results = in_processes(_endless_from(7), range(11))
    assert [next(results) for _ in range(enough)] == list(range(enough))
    results.close()
    assert left() == []


def _endless_from(last: int) -> Callable[[int], int]:
    def function(number: int) -> int:
        while number >= last:
            time.sleep(60)
        return number

    return function
