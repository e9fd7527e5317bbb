"""Temporary folders; what a killed process leaves is removed by the next that makes such a folder."""

import contextlib
import fcntl
import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from functools import cache

import xxhash

from splitter.errors import StorageError
from splitter.storage.durability import boot_id

PREFIX = "splitter-tmp-"
# no name of a machine
UNLOCKED = f"{PREFIX}unlocked-"
# of folders that somebody else takes for left behind
MOST_TRIES = 100


class NoTemporarySpace(StorageError):
    """Temporary files cannot be written or read, which says nothing of any output."""


@contextlib.contextmanager
def temporary_errors() -> Iterator[None]:
    """Within this an OSError is one of the system's temporary folder."""
    try:
        yield
    except OSError as error:
        where = f" in {tempfile.tempdir}" if tempfile.tempdir else ""
        raise NoTemporarySpace.of(error, f"temporary files{where}") from error


@contextlib.contextmanager
def temporary_folder() -> Iterator[str]:
    """A folder that is gone afterwards.

    It is locked for as long as this process lives, or one that was forked from it meanwhile: one that is
    not belongs to nobody. Where it cannot be locked, it has a name that nobody sweeps.
    """
    sweep()
    with temporary_errors():
        folder, lock = _new_folder()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if lock is not None:
            with contextlib.suppress(OSError):
                os.close(lock)


def _new_folder() -> tuple[str, int | None]:
    """A new folder, and a descriptor that holds its lock; None if there is no locking here."""
    for _ in range(MOST_TRIES):
        folder = tempfile.mkdtemp(prefix=_prefix())
        try:
            return folder, _lock(folder)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.rmdir(folder)
            # another process may have taken it for one that is left behind
            if not isinstance(error, (BlockingIOError, FileNotFoundError)):
                break
    return tempfile.mkdtemp(prefix=UNLOCKED), None


@cache
def _prefix() -> str:
    """How the folders of this machine begin: of a lock, others that share them may know nothing."""
    machine = f"{socket.gethostname()} {boot_id()}"
    return f"{PREFIX}{xxhash.xxh3_64_hexdigest(machine.encode())}-"


def sweep() -> None:
    """Remove such folders of this machine whose processes are dead."""
    with contextlib.suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        names = [entry.path for entry in entries if entry.name.startswith(_prefix())]
        for path in names:
            _remove_if_left(path)


def _remove_if_left(path: str) -> None:
    with contextlib.suppress(OSError):
        lock = _lock(path)
        try:
            if os.fstat(lock).st_uid == os.geteuid():
                shutil.rmtree(path, ignore_errors=True)
        finally:
            os.close(lock)


def _lock(path: str) -> int:
    """A descriptor that holds the lock of a folder; an OSError says why there is none."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not os.path.samestat(os.fstat(descriptor), os.lstat(path)):
            raise FileNotFoundError(path)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
