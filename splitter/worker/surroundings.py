"""Undo what user code changes in its process, so that the next input finds it as it was."""

import contextlib
import os
import resource
import select
import signal
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn, TextIO

CLOSED, RIGHTS, LIMITS = 1, 2, 3
# what an input may do that makes its process useless
HARM = {
    CLOSED: "closed file descriptors that it had not opened",
    RIGHTS: "changed the user that its process belongs to",
    LIMITS: "lowered limits of its process (open files, or the size of a file)",
}
_LIMITS = (resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE)


class Surroundings:
    """The working folder, the umask, standard streams and limits that every input finds.

    They are noted after setup(), since its changes are meant for all inputs.
    """

    def __init__(self, needed: Sequence[int] = (), give_up: Callable[[int], NoReturn] | None = None) -> None:
        """Note the present state; `needed` are descriptors that a runner cannot do without, the pipe first.

        `give_up` ends a runner that has become useless. Without it, this process is not a runner, and fewer
        changes are undone.
        """
        self._process, self._give_up = os.getpid(), give_up
        self._umask = os.umask(0o077)
        os.umask(self._umask)
        self._folder = -1
        with contextlib.suppress(OSError):
            self._folder = os.open(".", getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC)
        self._streams = sys.stdout, sys.stderr
        self._listeners = select.poll()
        for number in (1, 2):
            self._listeners.register(number, 0)
        self._needed = tuple(needed)
        self._pipe = _identity(needed[0]) if needed else None
        self._user = os.geteuid()
        self._limits = {which: resource.getrlimit(which) for which in _LIMITS}
        # an alarm that setup() has set is left alone
        self._ends_alarms = not any(signal.getitimer(signal.ITIMER_REAL))

    def before_output(self) -> None:
        """Restore the umask for the next file; end this process if it is a forked copy."""
        self._end_if_forked()
        os.umask(self._umask)

    def after_user_code(self) -> None:
        """Undo what an input has done to this process; end it if that cannot be undone."""
        self._end_if_forked()
        os.umask(self._umask)
        if self._folder >= 0:
            with contextlib.suppress(OSError):
                os.fchdir(self._folder)
        if self._give_up is not None:
            self._restore_process()
        self.end_if_harmed()

    def end_if_harmed(self) -> None:
        """End this process if an input has made it useless to others."""
        if self._give_up is not None and (harm := self._harm()):
            self._give_up(harm)

    def _end_if_forked(self) -> None:
        """End this process if user code forked it from the runner: a copy must not do the batch as well."""
        if os.getpid() != self._process:
            os._exit(1)

    def _restore_process(self) -> None:
        if self._ends_alarms:
            signal.alarm(0)
        # pipes that nobody reads any more, so that whatever is printed would raise an error
        unheard = {number for number, event in self._listeners.poll(0) if event & select.POLLERR}
        for number in range(3):
            if number in unheard or not _is_open(number):
                # otherwise the next file to be opened would get this number, and what others print
                descriptor = os.open(os.devnull, os.O_RDWR)
                if descriptor != number:
                    os.dup2(descriptor, number)
                    os.close(descriptor)
        sys.stdout, sys.stderr = _usable(self._streams[0], 1), _usable(self._streams[1], 2)
        self._streams = sys.stdout, sys.stderr
        if self._lowered():
            for which, limit in self._limits.items():
                with contextlib.suppress(OSError, ValueError):
                    resource.setrlimit(which, limit)

    def _harm(self) -> int:
        if self._needed and (
            _identity(self._needed[0]) != self._pipe or not all(map(_is_open, self._needed))
        ):
            return CLOSED
        if os.geteuid() != self._user:
            return RIGHTS
        return LIMITS if self._lowered() else 0

    def _lowered(self) -> bool:
        return any(_height(resource.getrlimit(which)) < _height(at) for which, at in self._limits.items())

    def close(self) -> None:
        with contextlib.suppress(OSError):
            os.close(self._folder)
        self._folder = -1


def _height(limit: tuple[int, int]) -> float:
    """Return how much a limit allows."""
    return float("inf") if limit[0] == resource.RLIM_INFINITY else limit[0]


def _identity(descriptor: int) -> tuple[int, int] | None:
    """Return the device and inode of a descriptor's file; None if it is closed."""
    try:
        found = os.fstat(descriptor)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _is_open(descriptor: int) -> bool:
    try:
        os.get_inheritable(descriptor)
    except OSError:
        return False
    return True


def _usable(stream: TextIO | None, number: int) -> TextIO:
    """Return a standard stream, or a new one if it was closed."""
    if stream is not None and not stream.closed:
        return stream
    return open(number, "w", encoding="utf-8", errors="backslashreplace", closefd=False)
