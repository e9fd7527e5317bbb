"""Programs that are run on inputs: they end with this process, and how they ended is told in one way."""

import ctypes
import os
import signal
import sys
from collections.abc import Callable, Mapping
from typing import BinaryIO

from splitter.system.children import PR_SET_PDEATHSIG

LONGEST_COMPLAINT = 2000


def dying_with(parent: int) -> Callable[[], None] | None:
    """What a program calls before it begins, so that it is killed when the process that started it dies."""
    if sys.platform != "linux":
        return None
    # after the fork nothing may be loaded
    libc = ctypes.CDLL(None)

    def prepare() -> None:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)

    return prepare


def complaint(code: int, printed: BinaryIO, names: Mapping[bytes, bytes]) -> str:
    """How a program ended, and what it said last.

    Folders whose names are random must not be published: `names` says what to call them.
    """
    how = f"was killed by {signal_name(-code)}" if code < 0 else f"ended with exit code {code}"
    printed.seek(max(0, printed.seek(0, os.SEEK_END) - LONGEST_COMPLAINT))
    said = printed.read()
    for folder, name in names.items():
        said = said.replace(folder, name)
    text = said.decode("utf-8", "backslashreplace").strip()
    return f"{how}: {text}" if text else how


def signal_name(number: int) -> str:
    """What a signal is called."""
    try:
        return signal.Signals(number).name
    except ValueError:
        # most of the real-time signals have no name
        return f"signal {number}"
