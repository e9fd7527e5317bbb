"""Keep libmpg123's warnings of damage off the terminal: they name no file and cannot be turned off."""

import ctypes
import os
import sys
import threading
from contextlib import AbstractContextManager, nullcontext
from functools import cache


class _Stderr(AbstractContextManager[None]):
    """The C library's variable `stderr`, which points to the null device until the last thread leaves.

    Python and other programs write to the descriptor, so none of their output is lost.
    """

    def __init__(self, library: ctypes.CDLL) -> None:
        library.fopen.restype = ctypes.c_void_p
        self._variable = ctypes.c_void_p.in_dll(library, "stderr")
        self._real = self._variable.value
        self._nowhere = library.fopen(os.devnull.encode(), b"w") or self._real
        self._in_new_process()
        os.register_at_fork(after_in_child=self._in_new_process)

    def _in_new_process(self) -> None:
        """Reset everything, since threads that were inside do not exist in this process."""
        self._variable.value = self._real
        self._lock, self._within = threading.Lock(), 0

    def __enter__(self) -> None:
        with self._lock:
            self._within += 1
            self._variable.value = self._nowhere

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._within -= 1
            if not self._within:
                self._variable.value = self._real


@cache
def _stderr() -> _Stderr | None:
    """Return the variable of glibc, which can be assigned to; in other libraries it may be a constant."""
    library = ctypes.CDLL(None) if sys.platform == "linux" else None
    return _Stderr(library) if library and hasattr(library, "gnu_get_libc_version") else None


def silenced_stderr() -> AbstractContextManager[None]:
    """Drop what C code prints to stderr within the block, where possible."""
    return _stderr() or nullcontext()
