"""One run at a time in a folder."""

import contextlib
import errno
import fcntl
import os
import re
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import pytest

from splitter.errors import Refused, StorageError
from splitter.storage import locks
from splitter.storage.folder import LocalStorage
from splitter.storage.tree import Tree


@pytest.fixture
def storage(folder: Path) -> LocalStorage:
    storage = LocalStorage(str(folder / "outputs"))
    storage.prepare()
    return storage


@dataclass
class Driver:
    """A driver that holds the lock, and its worker: both end when their pipe is closed."""

    pid: int
    pipe: int

    def end(self) -> None:
        if self.pipe >= 0:
            os.close(self.pipe)
        self.pipe = -1


@contextlib.contextmanager
def driver(storage: LocalStorage, *, lives: bool, reaped: bool = True, owner: str = "") -> Iterator[Driver]:
    """Unless the driver `lives`, only its worker is left."""
    ready, tell = os.pipe()
    stay, pipe = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(pipe)
        _drive(storage, tell, stay, lives=lives, owner=owner)
    os.close(tell)
    os.close(stay)
    assert os.read(ready, 1) == b"!"
    os.close(ready)
    if not lives:
        os.waitid(os.P_PID, pid, os.WEXITED | (0 if reaped else os.WNOWAIT))
    running = Driver(pid, pipe)
    try:
        yield running
    finally:
        running.end()
        if lives or not reaped:
            os.waitpid(pid, 0)


def _drive(storage: LocalStorage, tell: int, stay: int, *, lives: bool, owner: str) -> NoReturn:
    with storage.locked():
        if owner:
            os.pwrite(storage.lock_descriptors[0], owner.encode(), 0)
        worker = os.fork()
        if worker:
            os.write(tell, b"!")
        if lives or not worker:
            os.read(stay, 1)
        os._exit(0)


def take(storage: LocalStorage) -> None:
    with storage.locked():
        pass


def test_a_folder_in_use_is_refused_and_the_process_is_named(storage: LocalStorage):
    with driver(storage, lives=True) as running:
        said = (
            f"is in use by process {running.pid} on {re.escape(socket.gethostname())}; wait for it or choose"
        )
        with pytest.raises(Refused, match=said):
            take(storage)
    take(storage)


def test_a_folder_in_use_on_another_machine_is_refused_at_once(storage: LocalStorage):
    """Whether that process lives cannot be seen from here."""
    owner = f"elsewhere 4711\n{' ' * 100}"
    said = "is in use by process 4711 on elsewhere"
    with driver(storage, lives=False, owner=owner), pytest.raises(Refused, match=said):
        take(storage)


def test_a_folder_that_somebody_asks_about_is_not_in_use(storage: LocalStorage, monkeypatch):
    """The run before was of this process, as in a notebook; `serve --watch` asks whether it is at work."""
    with storage.locked():
        pass
    asking = storage.tree.open(locks.LOCK, os.O_RDONLY)
    fcntl.flock(asking, fcntl.LOCK_SH)
    # the answer comes in no time
    monkeypatch.setattr(time, "sleep", lambda _: os.close(asking))
    with storage.locked():
        pass


@pytest.mark.parametrize("reaped", [True, False])
def test_a_new_run_waits_for_the_workers_of_a_dead_one(
    storage: LocalStorage, monkeypatch: pytest.MonkeyPatch, reaped: bool
):
    """Also when nobody has asked yet how the dead one ended."""
    looks = []
    with driver(storage, lives=False, reaped=reaped) as running:
        # the worker is there when the new run first looks
        monkeypatch.setattr(time, "sleep", lambda seconds: looks.append(seconds) or running.end())
        take(storage)
    assert looks


def test_a_worker_that_stays_is_not_waited_for_without_end(
    storage: LocalStorage, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(locks, "SECONDS_FOR_DEAD_RUN", 0.2)
    with driver(storage, lives=False), pytest.raises(Refused, match="is in use by process"):
        take(storage)


def test_a_lock_that_is_withdrawn_while_another_run_opens_it(storage: LocalStorage, monkeypatch):
    """A refused run takes its files away: one that has them open already keeps others out all the same."""
    refused, second, third = (LocalStorage(storage.root) for _ in range(3))
    holding = contextlib.ExitStack()
    holding.enter_context(refused.locked())
    opened = second._opened

    def opening(name: str) -> int:
        descriptor = opened(name)
        if refused.withdraw_lock(with_files=True):
            holding.close()
        monkeypatch.undo()
        return descriptor

    monkeypatch.setattr(second, "_opened", opening)
    with second.locked(), pytest.raises(Refused, match="is in use by process"), third.locked():
        pass


def test_a_worker_that_no_driver_has_forked_is_seen(storage: LocalStorage):
    """Whoever only looks is told of it as long as it is at work; several may be."""
    worker = LocalStorage(storage.root)
    with storage.locked():
        worker.run = storage.run
        with worker.at_work():
            pass
    with worker.at_work(), worker.at_work():
        assert storage.users()[0]
    assert not storage.users()[0]


def test_a_lock_that_cannot_be_asked_is_not_taken_for_free(storage: LocalStorage, monkeypatch):
    """As where the file system has lost its service for locks: nobody says that no run is there."""

    def unserved(*_: object) -> NoReturn:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    with storage.locked():
        monkeypatch.setattr(fcntl, "flock", unserved)
        with pytest.raises(OSError, match="No locks available"):
            LocalStorage(storage.root).users()
        monkeypatch.undo()


def test_locks_are_asked_for_on_nfs(storage: LocalStorage, monkeypatch):
    """There, only a file that is open for writing can be locked for one process: see flock(2)."""
    flock, opened = fcntl.flock, Tree.open

    def flock_of_nfs(file, kind: int) -> None:
        descriptor = file if isinstance(file, int) else file.fileno()
        is_read_only = fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY
        if kind & fcntl.LOCK_EX and is_read_only:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        flock(descriptor, kind)

    def open_read_only(tree: Tree, name: str, flags: int, mode: int = 0o666) -> int:
        if flags & os.O_ACCMODE != os.O_RDONLY:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        return opened(tree, name, flags, mode)

    worker = LocalStorage(storage.root)
    with storage.locked():
        worker.run = storage.run
        with worker.at_work():
            pass
    monkeypatch.setattr(fcntl, "flock", flock_of_nfs)
    with worker.at_work():
        assert storage.users()[0]
    assert not storage.users()[0]
    with storage.locked():
        # also where nothing may be written
        monkeypatch.setattr(Tree, "open", open_read_only)
        assert LocalStorage(storage.root).users()[0]
        monkeypatch.setattr(Tree, "open", opened)
    monkeypatch.setattr(Tree, "open", open_read_only)
    assert not storage.users()[0]


def test_a_worker_that_no_driver_has_forked_does_nothing_for_a_run_that_is_over(storage: LocalStorage):
    """Once there is a later run it does no more batches."""
    worker = LocalStorage(storage.root)
    with storage.locked():
        worker.run = storage.run
    later = LocalStorage(storage.root)
    with later.locked(), pytest.raises(StorageError, match="was taken over by another run"), worker.at_work():
        pass


def test_a_gate_opens_though_a_process_was_forked_in_it(storage: LocalStorage):
    """That has the descriptor as well, for as long as it lives."""
    stay, pipe = os.pipe()
    with storage.gate():
        pid = os.fork()
        if not pid:
            os.close(pipe)
            os.read(stay, 1)
            os._exit(0)
    try:
        other = Tree(storage.root).open(locks.GATE, os.O_RDWR)
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(other)
    finally:
        os.close(stay)
        os.close(pipe)
        os.waitpid(pid, 0)
