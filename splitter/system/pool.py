"""Run a function over many items in forked processes."""

import contextlib
import multiprocessing
import pickle
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
    always_fork: bool = False,
    patience: float | None = None,
) -> Generator[Result, None, None]:
    """Yield the function's result for each item, in order; divide many items among as many processes as CPUs.

    With `always_fork`, even a single item goes to another process, for functions that leave threads behind.
    With `patience`, the seconds that an item may take, an item whose process is lost is not repeated in this
    process: ChildProcessError or TimeoutError is raised.
    """
    cpus = workers or usable_cpus()
    few = not always_fork and (len(items) < FEW_ITEMS or cpus == 1)
    # with `patience`, user code must not run in this process, so fork even if there are other threads
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
            yield helpers[number % count].result_of(item, patience)
    finally:
        for helper in helpers:
            helper.end()


def _can_fork() -> bool:
    return sys.platform == "linux" and threading.active_count() == 1


def from_process(generate: Callable[[], Iterable[Item]]) -> Generator[Item, None, None]:
    """Yield what a function yields in another process, so that its memory and threads end with it."""
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
        raise ChildProcessError("a helper process was killed (out of memory?)") from None
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
    except Exception as error:  # noqa: BLE001 - raised in the process that reads the items
        pipe.send((None, _portable(error), False))


def _portable(error: Exception) -> Exception:
    """Return an error that survives pickling: this one, or one with the same text."""
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 - pickled just now
    except Exception:  # noqa: BLE001 - a class may raise anything
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


class _Helper(Generic[Item, Result]):
    """A process that works through some items; if it dies, this process does the rest.

    multiprocessing's Pool would wait forever if one of its processes were killed.
    """

    def __init__(self, function: Callable[[Item], Result], items: Sequence[Item]) -> None:
        self._function, self._left = function, len(items)
        context = multiprocessing.get_context("fork")
        self._results, theirs = context.Pipe(duplex=False)
        # the function is inherited, not sent, so it need not be picklable
        self._process = context.Process(target=_help, args=(function, items, theirs), daemon=True)
        self._process.start()
        theirs.close()

    def result_of(self, item: Item, patience: float | None) -> Result:
        """Return the result for `item`, which must be the next one."""
        if patience is not None and not self._results.poll(patience):
            raise TimeoutError(f"a helper process took more than {patience:g} s for an item")
        try:
            result: Result = self._results.recv()
        except (EOFError, OSError):
            # the process is dead, or the function raised
            if patience is not None:
                raise ChildProcessError("a helper process ended too early") from None
            return self._function(item)
        self._left -= 1
        return result

    def end(self) -> None:
        """End the process, even if it is at work."""
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
        # if this ends early, the parent calls the function itself, and gets the error
        for item in items:
            results.send(function(item))
