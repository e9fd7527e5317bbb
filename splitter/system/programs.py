"""Run programs on inputs: they die with this process, and all messages describe their end in the same way."""

import ctypes
import os
import signal
import sys
from collections.abc import Callable, Mapping
from typing import BinaryIO

from splitter.system.children import PR_SET_PDEATHSIG

LONGEST_COMPLAINT = 2000


def dying_with(parent: int) -> Callable[[], None] | None:
    """Return a function for a child to call before it runs a program, so that it dies with its parent."""
    if sys.platform != "linux":
        return None
    # load it now: it is not safe to load anything after the fork
    libc = ctypes.CDLL(None)

    def prepare() -> None:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)

    return prepare


def complaint(code: int, printed: BinaryIO, names: Mapping[bytes, bytes]) -> str:
    """Describe how a program ended, beginning with the last line it printed, which usually has the cause.

    `names` says how to replace the names of folders, since random ones must not be published.
    """
    how = f"was killed by {signal_name(-code)}" if code < 0 else f"ended with exit code {code}"
    printed.seek(max(0, printed.seek(0, os.SEEK_END) - LONGEST_COMPLAINT))
    text = printed.read()
    for folder, name in names.items():
        text = text.replace(folder, name)
    *lines, last = text.decode("utf-8", "backslashreplace").strip().splitlines() or [""]
    how = f"{how}: {last.strip()}" if last else how
    before = "\n".join(lines).rstrip()
    return f"{how}; before that, it printed:\n{before}" if before else how


def signal_name(number: int) -> str:
    """Return the name of a signal."""
    try:
        return signal.Signals(number).name
    except ValueError:
        # most of the real-time signals have no name
        return f"signal {number}"
