"""One run at a time in an object store, which has no locks."""

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import fsspec
import pytest

from splitter.errors import Refused, StorageError
from splitter.storage import ownership, remote
from splitter.storage.ownership import LOCKS_KEPT, LockOwner, Ownership
from splitter.storage.remote import RemoteStorage
from splitter.stores.objects import Objects, objects_at
from splitter.system.children import process_space, started

ROOT = "memory://owned"


@pytest.fixture
def objects() -> Iterator[Objects]:
    yield objects_at(ROOT)
    fsspec.filesystem("memory").rm("/owned", recursive=True)


def locks() -> list[str]:
    """The names of the locks that are there."""
    found = fsspec.filesystem("memory").ls("/owned/.splitter", detail=False)
    return sorted(os.path.basename(name) for name in found)


def test_the_locks_of_the_last_few_runs_are_kept(objects: Objects):
    """However many runs there were: each looks at all of them again and again."""
    for number in range(1, 9):
        owned = Ownership(objects)
        owned.take(elsewhere=False)
        there = range(max(1, number - LOCKS_KEPT + 1), number + 1)
        assert locks() == [f"lock-{one:06d}" for one in there]
        owned.leave()


def test_a_process_of_this_machine_that_lives_is_in_use_without_a_beat(
    objects: Objects, monkeypatch: pytest.MonkeyPatch
):
    """It may be stopped, or the store may have been away for long; once it is dead nobody waits for it."""
    monkeypatch.setattr(ownership, "SECONDS_OF_SILENCE", 1.0)
    other = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    here = (socket.gethostname(), process_space(), other.pid, started(other.pid))
    objects.write(".splitter/lock-000007", LockOwner(*here, "0" * 16).content())
    owned = Ownership(objects)
    try:
        with pytest.raises(Refused, match=f"is in use by process {other.pid} on "):
            owned.take(elsewhere=False)
    finally:
        other.communicate()
    owned.take(elsewhere=False)
    assert owned.number == 8
    owned.leave()


def test_a_run_that_is_killed_before_it_buries_a_dead_one_leaves_that_to_the_next(objects: Objects):
    """It has not become the owner yet: otherwise, the staged files of the dead run would stay on disk."""
    dead = LockOwner("elsewhere", process=4711, run="0" * 16, free=True)
    objects.write(".splitter/lock-000007", dead.content())

    def killed(_: LockOwner) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Ownership(objects).take(elsewhere=False, bury=killed)
    buried: list[LockOwner] = []
    owned = Ownership(objects)
    owned.take(elsewhere=False, bury=buried.append)
    assert buried == [dead]
    owned.leave()


def test_a_store_that_lets_two_create_the_same_lock(objects: Objects, monkeypatch: pytest.MonkeyPatch):
    """The one whose lock was written over notices it at its next beat, and does nothing more."""
    monkeypatch.setattr(ownership, "SECONDS_BETWEEN_BEATS", 0.05)
    owned = Ownership(objects)
    owned.take(elsewhere=False)
    owned.confirm()
    mark = LockOwner("elsewhere", process=4711, run="0" * 16).content()

    def write_over() -> None:
        """Again and again: a beat that was on its way may come after it."""
        give_up = time.monotonic() + 100
        while time.monotonic() < give_up:
            if not owned.lost:
                objects.write(".splitter/lock-000001", mark)
            time.sleep(0.2)
            owned.confirm()

    try:
        with pytest.raises(StorageError, match="was taken over by process 4711 on elsewhere"):
            write_over()
        assert objects.read(".splitter/lock-000001") == mark
    finally:
        owned.leave()


def test_a_beat_that_waited_long_for_the_store_is_not_a_loss(
    objects: Objects, monkeypatch: pytest.MonkeyPatch
):
    """A run that moves on to its next lock does not wait for it; the beat may know only the one before."""
    monkeypatch.setattr(ownership, "SECONDS_BETWEEN_BEATS", 0.01)
    monkeypatch.setattr(ownership, "SECONDS_TO_LEAVE", 0.05)
    owned = Ownership(objects)
    owned.take(elsewhere=False)
    asked, moved = threading.Event(), threading.Event()
    numbers_of = ownership._numbers

    def slow(objects: Objects) -> list[int]:
        if asked.is_set() or threading.current_thread() is threading.main_thread():
            return numbers_of(objects)
        asked.set()
        moved.wait(10)
        return [1]

    monkeypatch.setattr(ownership, "_numbers", slow)
    try:
        assert asked.wait(10)
        late = owned._thread
        owned.advance()
        moved.set()
        assert late is not None
        late.join(10)
        assert (owned.number, owned.lost) == (2, "")
        owned.confirm()
    finally:
        owned.leave()


def test_a_worker_looks_again_before_a_batch_when_some_time_has_gone_by(
    objects: Objects, monkeypatch: pytest.MonkeyPatch
):
    """It does not process for a run that was taken over, and does not ask the store for each small batch."""
    monkeypatch.setattr(remote, "SECONDS_OF_TRUST", 1e6)
    storage = RemoteStorage(ROOT)
    with storage.locked():
        number = storage.ownership.number
        storage.confirm()
        objects.write(
            f".splitter/lock-{number + 1:06d}", LockOwner("elsewhere", run="0" * 16, free=True).content()
        )
        storage.confirm(lately=True)
        monkeypatch.setattr(remote, "SECONDS_OF_TRUST", 0.0)
        with pytest.raises(StorageError, match="was taken over by process 0 on elsewhere"):
            storage.confirm(lately=True)
