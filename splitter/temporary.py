"""Temporary folders; what a killed process leaves is removed by the next that makes such a folder."""

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator

PREFIX = "splitter-tmp-"


@contextlib.contextmanager
def temporary_folder() -> Iterator[str]:
    """A folder that is gone afterwards.

    It is locked for as long as this process lives, or one that was forked from it meanwhile: one that is
    not belongs to nobody.
    """
    sweep()
    folder, lock = _locked_folder()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        with contextlib.suppress(OSError):
            os.close(lock)


def _locked_folder() -> tuple[str, int]:
    while True:
        folder = tempfile.mkdtemp(prefix=PREFIX)
        lock = _lock(folder)
        if lock is not None:
            return folder, lock
        # another process took it for one that is left behind, and has removed it


def sweep() -> None:
    """Remove such folders whose processes are dead."""
    with contextlib.suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        names = [entry.path for entry in entries if entry.name.startswith(PREFIX)]
        for path in names:
            _remove_if_left(path)


def _remove_if_left(path: str) -> None:
    lock = _lock(path)
    if lock is not None:
        try:
            shutil.rmtree(path, ignore_errors=True)
        finally:
            os.close(lock)


def _lock(path: str) -> int | None:
    """A descriptor that holds the lock of a folder; None if another has it, or it is not ours."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        found, there = os.fstat(descriptor), os.lstat(path)
        if stat.S_ISDIR(there.st_mode) and found.st_ino == there.st_ino and found.st_uid == os.geteuid():
            return descriptor
    except OSError:
        pass
    os.close(descriptor)
    return None
