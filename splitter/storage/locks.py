"""The locks in an output folder, held by runs, their parts, and workers.

    .splitter/lock            held by a run; the parts of a run share it
    .splitter/part-1-of-4     held by a part
    .splitter/gate            held for a moment, to look at the locks of parts
    .splitter/workers         shared by the workers that no driver forked

A lock file contains the name of its holder. The system frees a lock when its last holder ends.
"""

import contextlib
import errno
import fcntl
import os
import re
import secrets
import socket
import time
from collections.abc import Iterator
from typing import Any

from splitter.errors import Refused, StorageError
from splitter.options import RunPart
from splitter.storage.base import SECONDS_FOR_DEAD_RUN, SHARED
from splitter.storage.folder_steps import FolderSteps, unwritable
from splitter.storage.layout import OWN_FOLDER
from splitter.storage.tree import InTheWay
from splitter.system.children import is_at_work

LOCK = f"{OWN_FOLDER}/lock"
WORKERS = f"{OWN_FOLDER}/workers"
GATE = f"{OWN_FOLDER}/gate"
_PART_LOCK = re.compile(r"part-(\d+)-of-(\d+)")


class FolderLock(FolderSteps):
    """The locks that keep other runs out of an output folder."""

    _left = ""

    @property
    def lost(self) -> str:
        return self._left

    def confirm(self, *, lately: bool = False) -> None:
        del lately
        if self._left:
            raise StorageError(self._left)

    def leave_to_next_run(self) -> None:
        wait = "wait for them, then run the same command to continue"
        self._left = f"{self.root}: workers of this run are still at work there; {wait}"

    def __getstate__(self) -> dict[str, Any]:
        """Leave out descriptors: their numbers mean something else in a worker that was not forked."""
        return {**self.__dict__, "lock_descriptors": ()}

    @contextlib.contextmanager
    def locked(self, *, elsewhere: bool = False) -> Iterator[None]:
        """Lock the folder for this run; raise Refused if another run is using it.

        Workers inherit the lock on purpose: it is free only when the last of them has ended, so a new run
        never meets the workers of a dead run. Workers on other machines have a separate lock.
        """
        del elsewhere
        self.run = f"{socket.gethostname()} {os.getpid()} {secrets.token_hex(8)}"
        with contextlib.ExitStack() as locks:
            descriptor = self._taken(LOCK, fcntl.LOCK_SH if self.part else fcntl.LOCK_EX)
            locks.callback(os.close, descriptor)
            held = [descriptor]
            if self.part is None:
                self._sign(descriptor, self.run)
            else:
                held.append(self._take_part(self.part, locks))
                # tells an earlier run's workers on other machines to do nothing more
                self._sign(descriptor, "")
            if not self.wait_for_workers(SECONDS_FOR_DEAD_RUN):
                raise Refused(f"{self.root}: workers of an earlier run still use it; wait for them")
            self.lock_descriptors = held
            try:
                yield
            finally:
                self.lock_descriptors = ()

    def withdraw_lock(self, *, with_files: bool) -> bool:
        """Give up the folder, `with_files` also its lock files; return False if another part is using it."""
        if self.part and self.lock_descriptors:
            try:
                fcntl.flock(self.lock_descriptors[0], fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
        if with_files:
            # the run's lock goes last: whoever then creates a new one finds no old locks about to be deleted
            for name in (*([f"{OWN_FOLDER}/{self.part.name}"] if self.part else []), GATE, LOCK):
                with contextlib.suppress(OSError):
                    self.tree.unlink(name)
        return True

    def users(self) -> tuple[str, tuple[bytes, ...]]:
        signs = []
        for name in (LOCK, *self._part_locks(), WORKERS):
            try:
                descriptor = self._opened_to_ask(name)
            except OSError:
                continue
            # workers share their lock, so only an exclusive request notices them; an OSError is raised here,
            # since a lock that cannot be tested is not taken to be free
            sign, owner = _asked(descriptor, fcntl.LOCK_EX if name == WORKERS else fcntl.LOCK_SH)
            signs.append(sign)
            if owner is not None:
                return _who(owner), tuple(signs)
        return "", tuple(signs)

    def _opened_to_ask(self, name: str) -> int:
        if name == WORKERS:
            # NFS grants an exclusive lock only on a file that is open for writing
            with contextlib.suppress(OSError):
                return self.tree.open(name, os.O_RDWR)
        return self.tree.open(name, os.O_RDONLY)

    @contextlib.contextmanager
    def gate(self) -> Iterator[None]:
        """Keep all other parts out for a moment, to look at their locks or at files that they share."""
        descriptor = self._opened(GATE)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            fcntl.flock(descriptor, fcntl.LOCK_UN)
            os.close(descriptor)

    # -- workers that no driver forked

    @contextlib.contextmanager
    def at_work(self) -> Iterator[None]:
        """Register as working on a batch, in a process that the driver did not fork.

        The process may be on another machine, and may outlive its driver. A later run waits for it, and once
        there is a later run, it does no more work.
        """
        location = f"{socket.gethostname()}: {self.root}"
        try:
            descriptor = self._opened_lock(WORKERS)
        except OSError as error:
            raise StorageError(f"{location}: cannot be written there: {error.strerror}; {SHARED}") from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH)
            if self._owner_of(LOCK) != self.run:
                raise StorageError(f"{location}: was taken over by another run, or is another folder there")
            yield
        finally:
            # closing is not enough: a runner forked meanwhile also holds the descriptor
            fcntl.flock(descriptor, fcntl.LOCK_UN)
            os.close(descriptor)

    def wait_for_workers(self, seconds: float) -> bool:
        try:
            descriptor = self.tree.open(WORKERS, os.O_RDWR)
        except FileNotFoundError:
            return True
        except OSError as error:
            raise unwritable(self.root, error) from None
        try:
            return lock_within(descriptor, seconds)
        finally:
            os.close(descriptor)

    # -- the lock of a run

    def _owner_of(self, name: str) -> str:
        with open(name, "rb", opener=self.tree.open) as file:
            return " ".join(_owner(file.fileno()))

    def _opened(self, name: str) -> int:
        with self.refusing():
            return self._opened_lock(name)

    def _opened_lock(self, name: str) -> int:
        return self.tree.open(name, os.O_RDWR | os.O_CREAT)

    def _sign(self, descriptor: int, name: str) -> None:
        with self.refusing():
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{name}\n".encode() if name else b"", 0)

    def _taken(self, name: str, kind: int = fcntl.LOCK_EX, *, in_gate: bool = False) -> int:
        """Take a lock; try again if its file was deleted meanwhile, since it then keeps nobody out."""
        while True:
            descriptor = self._opened(name)
            try:
                self._take(descriptor, kind, in_gate=in_gate)
                if self._is_at(descriptor, name):
                    return descriptor
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)

    def _is_at(self, descriptor: int, name: str) -> bool:
        with contextlib.suppress(FileNotFoundError):
            return os.path.samestat(os.fstat(descriptor), self.tree.look(name))
        return False

    def _take(self, descriptor: int, kind: int, *, in_gate: bool) -> None:
        give_up = time.monotonic() + SECONDS_FOR_DEAD_RUN
        # whoever asks who is at work holds the lock for a moment, and the last run may be of a living process
        is_certain = False
        while True:
            try:
                fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
            except BlockingIOError:
                owner = _owner(descriptor)
                who = _who(owner)
                if not owner and not in_gate:
                    # parts sign their own locks, not the one they share
                    owner, who = self._part_at_work() or (owner, who)
                if (is_certain and is_at_work(owner)) or time.monotonic() > give_up:
                    message = f"{self.root}: is in use by {who}; wait for it or choose another --output"
                    raise Refused(message) from None
                is_certain = True
                time.sleep(0.05)
            else:
                return

    # -- the locks of parts

    def _take_part(self, part: RunPart, locks: contextlib.ExitStack) -> int:
        """Take the lock of a part; refuse if parts are at work that divide the inputs differently."""
        with self.gate():
            for other, owner in self._parts_at_work():
                if other.of != part.of:
                    message = f"{self.root}: is in use by {other}{_by(owner)}; wait for it, or use --part"
                    raise Refused(f"{message} K/{other.of}, as that run does")
            descriptor = self._taken(f"{OWN_FOLDER}/{part.name}", in_gate=True)
            locks.callback(os.close, descriptor)
            self._sign(descriptor, self.run)
            return descriptor

    def _part_at_work(self) -> tuple[list[str], str] | None:
        """Return the owner of a held part lock, and a text that names both; prefer one with a live driver."""
        with self.gate():
            found = self._parts_at_work()
        found.sort(key=lambda one: not is_at_work(one[1]))
        return next(((owner, f"{part}{_by(owner)}") for part, owner in found), None)

    def _parts_at_work(self) -> list[tuple[RunPart, list[str]]]:
        """Return the parts whose locks are held, and their owners. Call it only inside the gate."""
        found = []
        for name, part in self._part_locks().items():
            with self.refusing(), contextlib.suppress(FileNotFoundError):
                _, owner = _asked(self.tree.open(name, os.O_RDONLY), fcntl.LOCK_SH)
                if owner is not None:
                    found.append((part, owner))
        return found

    def _part_locks(self) -> dict[str, RunPart]:
        """Return the existing lock files of parts, whether held or not."""
        try:
            names = sorted(self.tree.names(OWN_FOLDER))
        except (FileNotFoundError, NotADirectoryError, InTheWay):
            return {}
        matches = [match for name in names if (match := _PART_LOCK.fullmatch(name))]
        return {f"{OWN_FOLDER}/{match[0]}": RunPart(int(match[1]), int(match[2])) for match in matches}


def lock_within(descriptor: int, seconds: float) -> bool:
    """Lock a file, waiting for at most `seconds`; return whether it worked."""
    give_up = time.monotonic() + seconds
    while True:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        if time.monotonic() > give_up:
            return False
        time.sleep(0.02)


def _asked(descriptor: int, kind: int) -> tuple[bytes, list[str] | None]:
    """Return the content of a lock file, and its owner if the lock is held; close the file."""
    with open(descriptor, "rb", buffering=0) as file:
        sign = file.read(1000)
        try:
            fcntl.flock(file, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            return sign, _owner(file.fileno())
        except OSError as error:
            # a folder on NFS that may only be read: workers without a driver are not noticed there
            if error.errno != errno.EBADF:
                raise
        return sign, None


def _owner(descriptor: int) -> list[str]:
    """Return the words in a lock file: the machine, the process number, and the unique name of the run."""
    return os.pread(descriptor, 1000, 0).decode(errors="replace").split()


def _who(owner: list[str]) -> str:
    return f"process {owner[1]} on {owner[0]}" if len(owner) > 1 else "another run"


def _by(owner: list[str]) -> str:
    return f", {_who(owner)}" if len(owner) > 1 else ""
