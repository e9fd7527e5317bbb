"""Make temporary folders, and remove those that killed processes left behind."""

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
from splitter.system.durability import boot_id

PREFIX = "splitter-tmp-"
# a name without the hash of a machine, so that `sweep` never removes the folder
UNLOCKED = f"{PREFIX}unlocked-"
# retries, since another process may remove a folder that is not locked yet as abandoned
MOST_TRIES = 100


class NoTemporarySpace(StorageError):
    """A temporary file that cannot be written or read; the fault is not with the output."""

    more_space = "free space on that disk, or set TMPDIR to a folder on a larger one"


@contextlib.contextmanager
def temporary_errors() -> Iterator[None]:
    """Raise NoTemporarySpace for each OSError within the block."""
    try:
        yield
    except OSError as error:
        where = f" in {tempfile.tempdir}" if tempfile.tempdir else ""
        raise NoTemporarySpace.of(error, f"temporary files{where}") from error


@contextlib.contextmanager
def temporary_folder() -> Iterator[str]:
    """Make a temporary folder, and remove it afterwards.

    The folder is locked while this process, or one forked from it meanwhile, is alive; an unlocked folder is
    abandoned. Where folders cannot be locked, its name protects it from `sweep`.
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
    """Return a new folder and the descriptor of its lock; None where folders cannot be locked."""
    for _ in range(MOST_TRIES):
        folder = tempfile.mkdtemp(prefix=_prefix())
        try:
            return folder, _lock(folder)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.rmdir(folder)
            # try again only if another process has taken the folder to be abandoned
            if not isinstance(error, (BlockingIOError, FileNotFoundError)):
                break
    return tempfile.mkdtemp(prefix=UNLOCKED), None


@cache
def _prefix() -> str:
    """Return the prefix of this machine's folders: other machines may not see their locks."""
    machine = f"{socket.gethostname()} {boot_id()}"
    return f"{PREFIX}{xxhash.xxh3_64_hexdigest(machine.encode())}-"


def sweep() -> None:
    """Remove the folders of this machine whose processes are dead."""
    with contextlib.suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        names = [entry.path for entry in entries if entry.name.startswith(_prefix())]
        for path in names:
            _remove_if_abandoned(path)


def _remove_if_abandoned(path: str) -> None:
    with contextlib.suppress(OSError):
        lock = _lock(path)
        try:
            if os.fstat(lock).st_uid == os.geteuid():
                shutil.rmtree(path, ignore_errors=True)
        finally:
            os.close(lock)


def _lock(path: str) -> int:
    """Lock a folder and return the descriptor that holds the lock; raises OSError if that fails."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not os.path.samestat(os.fstat(descriptor), os.lstat(path)):
            raise FileNotFoundError(path)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
