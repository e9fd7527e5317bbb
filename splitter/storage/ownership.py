"""Ownership of an output in an object store, in place of a lock.

A store has no locks, but if several processes create the same object, only one succeeds. So locks are
numbered objects, `.splitter/lock-000001` and so on, and the highest one owns the output. A run that takes it
over creates the next one. While a run is alive, it keeps writing its lock with a new beat; if the beat has
not changed for a long time, the run is dead.

    lock-000001 free      lock-000002 of a dead run      lock-000003 beat 17: the owner
"""

import contextlib
import json
import os
import re
import secrets
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, astuple, dataclass, replace
from typing import Any

from splitter.errors import Refused, StorageError
from splitter.storage.checked_file import json_of
from splitter.storage.layout import OWN_FOLDER
from splitter.stores.objects import Objects, objects_at
from splitter.system.children import lives, process_space, started

SECONDS_BETWEEN_BEATS = 5.0
# a run whose beat has not changed for this long is dead, or has lost its connection to the store
SECONDS_OF_SILENCE = 30.0
SECONDS_BETWEEN_LOOKS = 0.5
SECONDS_TO_LEAVE = 10.0
# the start time that the system reports for a process may vary by this much
SECONDS_OF_CLOCK = 2.0
# how many locks of finished runs remain, so that a worker that was away for long still sees later runs
LOCKS_KEPT = 3
_MOST_PROCESSES = 1 << 31
_LOCK = re.compile(r"lock-(\d{6,})")

# held while a beat is sent, so that no process is forked in the middle of a request
_beating = threading.Lock()
os.register_at_fork(
    before=_beating.acquire, after_in_parent=_beating.release, after_in_child=_beating.release
)


@dataclass(frozen=True)
class LockOwner:
    """The content of a lock.

    Attributes:
        host: The machine of the driver.
        space: The process namespace of the driver: a container may have its host's name, but not its space.
        process: The process number of the driver.
        started: When the driver began, since another process may get its number later.
        run: The unique name of the run.
        elsewhere: Whether workers may be on other machines, or outlive the driver.
        beat: A number that changes with each beat.
        free: Whether the run is over.
    """

    host: str = ""
    space: int = 0
    process: int = 0
    started: float = 0.0
    run: str = ""
    elsewhere: bool = False
    beat: int = 0
    free: bool = False

    @classmethod
    def read(cls, content: bytes) -> "LockOwner":
        """Parse the content of a lock; return an unknown owner if it is damaged."""
        try:
            owner = cls(**json_of(content))
        except (ValueError, TypeError):
            return cls()
        same = all(
            isinstance(value, (int, float) if isinstance(usual, float) else type(usual))
            for value, usual in zip(astuple(owner), astuple(cls()), strict=True)
        )
        return owner if same and 0 <= owner.process < _MOST_PROCESSES else cls()

    def content(self) -> bytes:
        """Return the content of the lock file."""
        return json.dumps(asdict(self)).encode()

    @property
    def who(self) -> str:
        """The driver's process, for messages."""
        return f"process {self.process} on {self.host}" if self.host else "another run"

    @property
    def is_gone(self) -> bool:
        """Return whether its driver was on this machine and is dead, together with its workers."""
        return self._is_of_here() and not self.elsewhere and not self._is_there()

    @property
    def is_here(self) -> bool:
        """Return whether its driver is at work on this machine."""
        return self._is_of_here() and self._is_there()

    def _is_of_here(self) -> bool:
        return (self.host, self.space) == (socket.gethostname(), process_space())

    def _is_there(self) -> bool:
        same = abs(started(self.process) - self.started) < SECONDS_OF_CLOCK
        return same and lives(self.process)


class Ownership:
    """The ownership of an output by one run; workers have a copy, which can only check it.

    Attributes:
        objects: The objects of the output.
        owner: The content of this run's lock.
        number: The number of this run's lock; 0 if it has none.
        lost: Why this run must stop, if another one has taken over the output; empty otherwise.
    """

    def __init__(self, objects: Objects) -> None:
        self.objects = objects
        self.owner = LockOwner()
        self.number = 0
        self.lost = ""
        self._dead: tuple[bytes, ...] = ()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle only what a worker needs."""
        return Ownership, (self.objects,), {"owner": self.owner, "number": self.number}

    # -- taking and releasing

    def take(self, *, elsewhere: bool, bury: Callable[[LockOwner], None] | None = None) -> None:
        """Become the owner, and begin to send beats. Refuse an output in use.

        Before that, `bury` what the previous owner left: the next run after one that is killed in between
        finds that owner again.
        """
        process = os.getpid()
        here = (socket.gethostname(), process_space(), process, started(process))
        mine = LockOwner(*here, secrets.token_hex(8), elsewhere)
        while True:
            number, before = self._highest()
            if who := self._user_after_waiting(number, before):
                root = self.objects.root
                raise Refused(f"{root}: is in use by {who}; wait for it or choose another --output")
            if bury:
                bury(before)
            if self.objects.create(_name(number + 1), mine.content()):
                break
        self.owner, self.number = mine, number + 1
        old = [number for number in _numbers(self.objects) if number <= self.number - LOCKS_KEPT]
        self.objects.delete(map(_name, old))
        self._begin_to_beat()

    def advance(self) -> None:
        """Move to the next lock number, so that workers that know only the old one do nothing more."""
        self._end_beats()
        if self.lost:
            return
        if not self.objects.create(_name(self.number + 1), self.owner.content()):
            self._note_loss(self.number + 1)
            return
        self.number += 1
        self._begin_to_beat()

    def leave(self, *, nothing_there: bool = False) -> None:
        """Mark this run as over; delete the lock if there is nothing else in the output."""
        self._end_beats()
        if not self.lost:
            hasty = objects_at(self.objects.root, SECONDS_TO_LEAVE)
            # if the lock cannot be freed, the next run takes it for a dead run's
            with contextlib.suppress(Exception):
                if nothing_there:
                    hasty.delete([_name(self.number)])
                else:
                    hasty.write(_name(self.number), replace(self.owner, free=True).content())
        self.number = 0

    def _user_after_waiting(self, number: int, owner: LockOwner) -> str:
        """Wait until it is clear whether the owner is dead; return its name if it is alive."""
        give_up = time.monotonic() + SECONDS_OF_SILENCE
        while not owner.free and not owner.is_gone:
            time.sleep(SECONDS_BETWEEN_LOOKS)
            now = self._read(number)
            if (now != owner or now.is_here) and not now.free:
                return now.who
            if now.free or time.monotonic() > give_up:
                break
        return ""

    # -- looking

    def user(self) -> tuple[str, tuple[bytes, ...]]:
        """Return who is at work (empty if nobody) and the lock; watch a run that may be dead until clear."""
        number, owner = self._highest()
        sign = (_name(number).encode(), owner.content())
        if sign != self._dead:
            if who := self._user_after_waiting(number, owner):
                return who, sign
            self._dead = sign
        return "", sign

    def _highest(self) -> tuple[int, LockOwner]:
        number = max(_numbers(self.objects), default=0)
        return number, self._read(number) if number else LockOwner(free=True)

    def _read(self, number: int) -> LockOwner:
        if self.objects.size(_name(number)) is None:
            return LockOwner(free=True)
        return LockOwner.read(self.objects.read(_name(number)))

    def confirm(self) -> None:
        """Raise StorageError if another run has taken over the output."""
        if self.number and not self.lost:
            self._compare(self.objects)
        if self.lost:
            raise StorageError(self.lost)

    def _compare(self, objects: Objects, stop: threading.Event | None = None) -> None:
        highest = max(_numbers(objects), default=0)
        # a beat that has waited long for the store may see the lock that this run itself has moved on to
        if highest != self.number and not (stop and stop.is_set()):
            self._note_loss(highest)

    def _note_loss(self, number: int) -> None:
        owner = LockOwner()
        with contextlib.suppress(Exception):
            owner = self._read(number)
        self.lost = f"{self.objects.root}: was taken over by {owner.who}, so this run stops writing there"

    # -- beats

    def _begin_to_beat(self) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._beat, args=(self._stop,), daemon=True)
        self._thread.start()

    def _end_beats(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join(SECONDS_TO_LEAVE)
            self._thread = None

    def _beat(self, stop: threading.Event) -> None:
        objects = objects_at(self.objects.root, patience=0)
        beat = 0
        while not stop.wait(SECONDS_BETWEEN_BEATS) and not self.lost:
            # if this beat fails, the next one will do
            with _beating, contextlib.suppress(Exception):
                self._compare(objects, stop)
                # a store that ignores "create only if missing" may have let another run overwrite this lock
                if LockOwner.read(objects.read(_name(self.number))).run != self.owner.run:
                    self._note_loss(self.number)
                beat += 1
                if not (stop.is_set() or self.lost):
                    objects.write(_name(self.number), replace(self.owner, beat=beat).content())


def _name(number: int) -> str:
    return f"{OWN_FOLDER}/lock-{number:06d}"


def _numbers(objects: Objects) -> list[int]:
    """Return the numbers of the existing locks."""
    matches = map(_LOCK.fullmatch, objects.listed(OWN_FOLDER, "lock-"))
    return [int(match[1]) for match in matches if match]
