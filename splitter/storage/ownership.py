"""Which run an output in an object store belongs to.

A store has no locks. What it has is that of many who create the same object only one succeeds. So the owners
of an output are numbered, `.splitter/lock-000001` and on, and the highest number owns it. A run that takes
the output over creates the next one. While a run lives it writes its own again and again, with a beat that
changes; one that has not changed for long is of a dead run.

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
from dataclasses import asdict, astuple, dataclass, replace
from typing import Any

from splitter.errors import Refused, StorageError
from splitter.storage.checked_file import json_of
from splitter.storage.layout import OWN_FOLDER
from splitter.stores.objects import Objects, objects_at
from splitter.system.children import lives, process_space, started

SECONDS_BETWEEN_BEATS = 5.0
# a run whose beat has not changed for so long is dead, or has lost the store
SECONDS_OF_SILENCE = 30.0
SECONDS_BETWEEN_LOOKS = 0.5
SECONDS_TO_LEAVE = 10.0
# by so much the time when a process began may be told differently
SECONDS_OF_CLOCK = 2.0
# of runs that are over; so that a worker that was away for long still sees how far the numbers have come
LOCKS_KEPT = 3
_MOST_PROCESSES = 1 << 31
_LOCK = re.compile(r"lock-(\d{6,})")

# held while a beat is sent: no process is forked in the middle of a request
_beating = threading.Lock()
os.register_at_fork(
    before=_beating.acquire, after_in_parent=_beating.release, after_in_child=_beating.release
)


@dataclass(frozen=True)
class LockOwner:
    """What stands in a lock.

    Attributes:
        host: The machine of the driver.
        space: Among whose processes that is: a container has its own, maybe under the name of its host.
        process: Its number there.
        started: When that began; another process may have its number later.
        run: A name that no other run has.
        elsewhere: Whether workers may be on other machines, or outlive the driver.
        beat: Another one each time.
        free: Whether that run is over.
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
        """Return the owner as it stands there; nobody known if it is damaged."""
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
        """Return it as a lock holds it."""
        return json.dumps(asdict(self)).encode()

    @property
    def who(self) -> str:
        """The process, for a message."""
        return f"process {self.process} on {self.host}" if self.host else "another run"

    @property
    def is_gone(self) -> bool:
        """Return whether its driver was on this machine and is dead, and its workers with it."""
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


class InUse(Refused):
    """Another run is at work."""


class Ownership:
    """That of one run over an output; workers have a copy, which can only look.

    Attributes:
        objects: The objects of the output.
        owner: What stands in this run's lock.
        number: The number of that; 0 without one.
        lost: Why this run must not go on, once another one has taken the output over.
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
        """Return what a worker needs."""
        return Ownership, (self.objects,), {"owner": self.owner, "number": self.number}

    # -- taking and leaving

    def take(self, *, elsewhere: bool) -> LockOwner:
        """Become the owner, and stay it; returns the one before. Refuses an output that is in use."""
        process = os.getpid()
        here = (socket.gethostname(), process_space(), process, started(process))
        mine = LockOwner(*here, secrets.token_hex(8), elsewhere)
        while True:
            number, before = self._highest()
            if who := self._user_after_waiting(number, before):
                root = self.objects.root
                raise InUse(f"{root}: is in use by {who}; wait for it or choose another --output")
            if self.objects.create(_name(number + 1), mine.content()):
                break
        self.owner, self.number = mine, number + 1
        old = [number for number in _numbers(self.objects) if number <= self.number - LOCKS_KEPT]
        self.objects.delete(map(_name, old))
        self._begin_to_beat()
        return before

    def advance(self) -> None:
        """Stay the owner under the next number: workers that know only this one do nothing more."""
        self._end_beats()
        if self.lost:
            return
        if not self.objects.create(_name(self.number + 1), self.owner.content()):
            self._note_loss(self.number + 1)
            return
        self.number += 1
        self._begin_to_beat()

    def leave(self, *, nothing_there: bool = False) -> None:
        """Say that this run is over; where nothing else is in the output, leave no lock either."""
        self._end_beats()
        if not self.lost:
            hasty = objects_at(self.objects.root, SECONDS_TO_LEAVE)
            # a lock that cannot be freed is one of a dead run
            with contextlib.suppress(Exception):
                if nothing_there:
                    hasty.delete([_name(self.number)])
                else:
                    hasty.write(_name(self.number), replace(self.owner, free=True).content())
        self.number = 0

    def _user_after_waiting(self, number: int, owner: LockOwner) -> str:
        """Wait until it is clear whether the owner is dead; return who it is if it lives."""
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
        """Return who is at work, if anybody, and what stands in the lock; one that may be dead is watched."""
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
        """Raise StorageError if another run has taken the output over."""
        if self.number and not self.lost:
            self._compare(self.objects)
        if self.lost:
            raise StorageError(self.lost)

    def _compare(self, objects: Objects) -> None:
        highest = max(_numbers(objects), default=0)
        if highest != self.number:
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
            # without an answer the next beat will do
            with _beating, contextlib.suppress(Exception):
                self._compare(objects)
                # a store that does not know how to create only what is not there has let another one in
                if LockOwner.read(objects.read(_name(self.number))).run != self.owner.run:
                    self._note_loss(self.number)
                beat += 1
                if not (stop.is_set() or self.lost):
                    objects.write(_name(self.number), replace(self.owner, beat=beat).content())


def _name(number: int) -> str:
    return f"{OWN_FOLDER}/lock-{number:06d}"


def _numbers(objects: Objects) -> list[int]:
    """Return the numbers of the locks that there are."""
    matches = map(_LOCK.fullmatch, objects.listed(OWN_FOLDER, "lock-"))
    return [int(match[1]) for match in matches if match]
