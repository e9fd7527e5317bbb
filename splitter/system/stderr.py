"""Keep libmpg123's warnings of damage off the terminal: they name no file and cannot be turned off."""

import ctypes
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache


class _Stderr:
    """The C library's variable `stderr`, made to lead nowhere for a while.

    Python and other programs write to the descriptor, so nothing of theirs is lost.
    """

    def __init__(self, library: ctypes.CDLL) -> None:
        library.fopen.restype = ctypes.c_void_p
        self._variable = ctypes.c_void_p.in_dll(library, "stderr")
        self._real = self._variable.value
        self._nowhere = library.fopen(os.devnull.encode(), b"w") or self._real
        self._in_new_process()
        os.register_at_fork(after_in_child=self._in_new_process)

    def _in_new_process(self) -> None:
        """Reset everything: threads that were within are not in this process."""
        self._variable.value = self._real
        self._lock, self._within = threading.Lock(), 0

    def enter(self) -> None:
        """Make it lead nowhere."""
        with self._lock:
            self._within += 1
            self._variable.value = self._nowhere

    def leave(self) -> None:
        """Restore it when the last thread leaves."""
        with self._lock:
            self._within -= 1
            if not self._within:
                self._variable.value = self._real


@cache
def _stderr() -> _Stderr | None:
    """Return the one of glibc, which may be assigned to; elsewhere it may be a constant."""
    library = ctypes.CDLL(None) if sys.platform == "linux" else None
    return _Stderr(library) if library and hasattr(library, "gnu_get_libc_version") else None


@contextmanager
def silenced_stderr() -> Iterator[None]:
    """Drop what C code prints to stderr within this, where possible."""
    stderr = _stderr()
    if stderr is None:
        yield
        return
    stderr.enter()
    try:
        yield
    finally:
        stderr.leave()
