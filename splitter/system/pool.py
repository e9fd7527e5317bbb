"""A function over many items, in forked processes."""

import contextlib
import multiprocessing
import signal
import sys
import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from multiprocessing.connection import Connection
from typing import Any, Generic, TypeVar

from splitter.system.children import die_with_parent, parent_process
from splitter.system.cpus import usable_cpus
from splitter.system.signals import signals_blocked, unblock_signals

FEW_ITEMS = 4

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_processes(
    function: Callable[[Item], Result],
    items: Sequence[Item],
    workers: int | None = None,
    *,
    apart: bool = False,
    patience: float | None = None,
) -> Generator[Result, None, None]:
    """The function of each item, in order; with many items in as many processes as there are CPUs.

    `apart`: even a single item is for another process, since the function leaves threads behind. With
    `patience`, the seconds that an item may take, it is not done again here where a process was lost:
    raises ChildProcessError, or TimeoutError.
    """
    cpus = workers or usable_cpus()
    few = not apart and (len(items) < FEW_ITEMS or cpus == 1)
    # a user's code is not for this process, though threads of others are there as well: workers fork, too
    safe = _can_fork() or (patience is not None and sys.platform == "linux")
    if few or not safe:
        yield from map(function, items)
        return
    helpers: list[_Helper[Item, Result]] = []
    try:
        with signals_blocked():
            count = min(cpus, len(items))
            helpers += (_Helper(function, items[number::count]) for number in range(count))
        for number, item in enumerate(items):
            helper = helpers[number % count]
            yield helper.result_of(item) if patience is None else helper.result_within(patience)
    finally:
        for helper in helpers:
            helper.end()


def _can_fork() -> bool:
    return sys.platform == "linux" and threading.active_count() == 1


def from_process(generate: Callable[[], Iterable[Item]]) -> Generator[Item, None, None]:
    """What a function yields in a process of its own: its memory and the threads it starts end with it."""
    if not _can_fork():
        yield from generate()
        return
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    with signals_blocked():
        process = context.Process(target=_yield_to, args=(generate, theirs), daemon=True)
        process.start()
    theirs.close()
    try:
        while True:
            item, error, more = ours.recv()
            if error is not None:
                raise error
            if not more:
                return
            yield item
    except EOFError:
        raise ChildProcessError("a process that helps was killed (out of memory?)") from None
    finally:
        process.kill()
        ours.close()
        process.join()


def _yield_to(generate: Callable[[], Iterable[Any]], pipe: Connection) -> None:
    _become_helper()
    try:
        for item in generate():
            pipe.send((item, None, True))
        pipe.send((None, None, False))
    except Exception as error:  # noqa: BLE001 - raised where the items are wanted
        pipe.send((None, error, False))


class _Helper(Generic[Item, Result]):
    """A process that works through some items; what it leaves undone when it dies is done in this one.

    multiprocessing's own Pool waits for ever when one of its processes is killed.
    """

    def __init__(self, function: Callable[[Item], Result], items: Sequence[Item]) -> None:
        self._function, self._left = function, len(items)
        context = multiprocessing.get_context("fork")
        self._results, theirs = context.Pipe(duplex=False)
        # the function is inherited, not sent, so it may hold what cannot be sent
        self._process = context.Process(target=_help, args=(function, items, theirs), daemon=True)
        self._process.start()
        theirs.close()

    def result_of(self, item: Item) -> Result:
        """The function of the next of the items, which is this one."""
        try:
            result: Result = self._results.recv()
        except (EOFError, OSError):
            # it is dead, or its function has raised
            return self._function(item)
        self._left -= 1
        return result

    def result_within(self, seconds: float) -> Result:
        """The same; raises an OSError if it is not there in time, or will never be."""
        if not self._results.poll(seconds):
            raise TimeoutError(f"a process that helps has taken {seconds:g} s for an item")
        try:
            result: Result = self._results.recv()
        except EOFError:
            raise ChildProcessError("a process that helps has ended before its time") from None
        self._left -= 1
        return result

    def end(self) -> None:
        """Leave nothing behind; one that is at work is not waited for."""
        if self._left:
            self._process.kill()
        self._results.close()
        self._process.join()


def _become_helper() -> None:
    die_with_parent(parent_process(), signal.SIGKILL)
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    unblock_signals()


def _help(function: Callable[[Any], Any], items: Sequence[Any], results: Connection) -> None:
    _become_helper()
    with contextlib.suppress(Exception):
        # the other end calls the function again where this one ends
        for item in items:
            results.send(function(item))
