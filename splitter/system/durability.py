"""Force files and folders to disk, and show whether the machine was restarted.

A power cut may undo what is not synced: a file may be absent, empty or short, and a rename or a removal may
not have happened.
"""

import contextlib
import ctypes
import os
import subprocess
import sys
from functools import cache
from typing import Any

_BOOT_ID = "/proc/sys/kernel/random/boot_id"


def sync_folder(path: str) -> None:
    """Force the names in a folder to disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_file_system(path: str) -> bool:
    """Force everything written to a folder's file system to disk; return whether the platform can."""
    function = _syncfs()
    if function is None:
        return False
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
    try:
        if function(descriptor):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
    finally:
        os.close(descriptor)
    return True


@cache
def _syncfs() -> Any:  # noqa: ANN401 - a function of the C library
    """Return the function that syncs a whole file system, if the platform has it."""
    return getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None) if sys.platform == "linux" else None


def boot_id() -> str:
    """Return an identifier that changes whenever the machine is restarted; empty if unknown."""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        if sys.platform == "darwin":
            command = ["/usr/sbin/sysctl", "-n", "kern.bootsessionuuid"]
            told = subprocess.run(command, capture_output=True, check=True, text=True)  # noqa: S603 - a constant
            return told.stdout.strip()
        with open(_BOOT_ID) as file:
            return file.read().strip()
    return ""
