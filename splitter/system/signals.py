"""Signals during a run: blocked, or raised as `Interrupted`."""

import _thread
import contextlib
import itertools
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import CodeType, FrameType
from typing import Any, TypeVar

from splitter.errors import Interrupted

ASKING_TO_END = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
SECONDS_TO_RAISE_AGAIN = 0.01
MOST_DELAYS = 100
# raised in one of these, Interrupted would leave a lock taken forever, and a thread that needs it would wait
_WHOLE: set[CodeType] = {threading.Condition.__enter__.__code__, threading.Condition.__exit__.__code__}
# not empty while signals are blocked: another thread may receive one, but this is where it is raised
_blocks: list[None] = []

Function = TypeVar("Function", bound=Callable[..., Any])


def not_interrupted(function: Function) -> Function:
    """Let a short function return before a signal raises Interrupted."""
    _WHOLE.add(function.__code__)
    return function


@contextlib.contextmanager
def signals_blocked() -> Iterator[None]:
    """Block signals for a while, since Python would lose one that arrives during a fork."""
    old = signal.pthread_sigmask(signal.SIG_BLOCK, ASKING_TO_END)
    _blocks.append(None)
    try:
        yield
    finally:
        del _blocks[-1:]
        signal.pthread_sigmask(signal.SIG_SETMASK, old)


def unblock_signals() -> None:
    """Unblock signals, in a process that was started while they were blocked."""
    _blocks.clear()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ASKING_TO_END)


def forget_handlers() -> None:
    """In a forked process, replace the signal handlers of its parent with ones that do nothing."""
    for number in ASKING_TO_END:
        if signal.getsignal(number) not in (signal.SIG_IGN, None):
            signal.signal(number, lambda *_: None)


# the signal that has asked this process to end
_asked: list[int] = []


@contextlib.contextmanager
def signals_raise() -> Iterator[None]:
    """Raise Interrupted at the first signal that asks to end; exit at once at the second."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _asked.clear()
    delays = itertools.count()

    def interrupt(number: int, frame: FrameType | None) -> None:
        if _asked:
            # nothing is lost: what is done is on storage, and the workers end with this process
            os._exit(128 + number)
        if not _may_raise(frame) and next(delays) < MOST_DELAYS:
            _send_later(number)
            return
        _asked.append(number)
        raise Interrupted(number)

    # signals that nohup, or a shell's `&`, has set to be ignored stay ignored; C code keeps its handlers
    numbers = [number for number in ASKING_TO_END if signal.getsignal(number) not in (signal.SIG_IGN, None)]
    old = {number: signal.signal(number, interrupt) for number in numbers}
    try:
        with still_interrupted(), _nothing_lost():
            yield
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _nothing_lost() -> Iterator[None]:
    """Raise Interrupted again when Python has ignored it.

    Python does so if a signal arrives in a `__del__`, or in a function called after each fork; this happens
    while Ray starts.
    """
    before = sys.unraisablehook

    def look(ignored: "sys.UnraisableHookArgs") -> None:
        if not isinstance(ignored.exc_value, Interrupted):
            before(ignored)
            return
        # raised here, it would be ignored again; sent later, it must not count as the second signal
        _asked.clear()
        _send_later(ignored.exc_value.signal_number)

    sys.unraisablehook = look
    try:
        yield
    finally:
        sys.unraisablehook = before


def _may_raise(frame: FrameType | None) -> bool:
    """Return whether it is safe to raise in a frame: not in functions that must end, nor in this module."""
    while frame and not _blocks:
        if frame.f_code in _WHOLE or frame.f_globals is globals():
            return False
        frame = frame.f_back
    return not _blocks


def _send_later(number: int) -> None:
    # not by threading.Timer, which waits for its thread to start
    _thread.start_new_thread(_send, (number,))


def _send(number: int) -> None:
    time.sleep(SECONDS_TO_RAISE_AGAIN)
    os.kill(os.getpid(), number)


@contextlib.contextmanager
def still_interrupted() -> Iterator[None]:
    """Raise Interrupted where C code, such as Ray's, has turned it into a plain KeyboardInterrupt."""
    try:
        yield
    except KeyboardInterrupt as error:
        if isinstance(error, Interrupted) or not _asked:
            raise
        raise Interrupted(_asked[0]) from None
