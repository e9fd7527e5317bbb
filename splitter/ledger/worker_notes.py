"""What workers are doing: notes for `splitter serve --watch`, which no run reads.

They are in staging, which every run clears, and are written only while the mark of a watcher exists.
"""

import contextlib
import json
import os
import socket
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace

from splitter.errors import StorageError
from splitter.storage.base import STAGING, Storage
from splitter.storage.checked_file import json_of
from splitter.storage.layout import key_hash
from splitter.text.urls import is_url

WATCHED = f"{STAGING}/watched"
_NOTE = "worker-"
SECONDS, SECONDS_IN_STORE = 2.0, 15.0
LONGEST_TEXT = 1000


@dataclass(frozen=True)
class WorkerNote:
    """What a worker is doing.

    Attributes:
        host: The machine that it is on.
        process: The number of its guard's process.
        doing: The input that it is working on, or `setup()`; empty between batches.
        seconds: How long it has been doing that.
        inputs: How many inputs it has taken, in batches that have ended.
        failed: How many of them failed.
        noted: When this was written, as seconds since 1970.
    """

    host: str
    process: int
    doing: str
    seconds: float
    inputs: int
    failed: int
    noted: float


class Notebook:
    """A place where a worker notes now and then what it is doing, if anybody watches."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        # in a store, each note costs a request
        self._pause = SECONDS_IN_STORE if is_url(storage.root) else SECONDS
        self._due = time.monotonic() + self._pause
        self._is_at_work = False

    @property
    def is_due(self) -> bool:
        """Whether it is time for the next note."""
        return time.monotonic() >= self._due

    def write(self, doing: str, seconds: float, inputs: int, failed: int) -> None:
        """Note what the worker is doing; ignore a note that cannot be written."""
        self._due = time.monotonic() + self._pause
        self._is_at_work = False
        host, process = socket.gethostname(), os.getpid()
        note = WorkerNote(
            host, process, doing[:LONGEST_TEXT], round(seconds, 3), inputs, failed, round(time.time(), 3)
        )
        with contextlib.suppress(StorageError, OSError):
            if self._storage.exists(WATCHED):
                name = f"{STAGING}/{_NOTE}{key_hash(f'{host} {process}'):016x}"
                self._storage.write(name, json.dumps(asdict(note)).encode(), durable=False)
                self._is_at_work = bool(doing)

    def rest(self, inputs: int, failed: int) -> None:
        """Note the end of a batch, if it took long enough to be noted."""
        if self._is_at_work:
            self.write("", 0.0, inputs, failed)
            # the next batch comes soon, if there is one
            self._due = time.monotonic() + self._pause / 8


def ask_for_notes(storage: Storage) -> None:
    """Let workers know that somebody watches."""
    if not storage.exists(WATCHED):
        storage.write(WATCHED, b"", durable=False)


def ask_no_more(storage: Storage) -> None:
    """Let workers know that nobody watches any more."""
    storage.remove([WATCHED])


def worker_notes(storage: Storage) -> Iterator[WorkerNote]:
    """Yield the notes of workers; leave out files that are not notes, or cannot be read."""
    for name in storage.names(STAGING):
        if name.startswith(_NOTE):
            # it may be replaced or removed meanwhile
            with contextlib.suppress(StorageError, ValueError, KeyError, TypeError, OverflowError):
                yield _parsed(storage.read(f"{STAGING}/{name}"))


def _parsed(text: bytes) -> WorkerNote:
    content = json_of(text)
    note = WorkerNote(**{name: kind(content[name]) for name, kind in WorkerNote.__annotations__.items()})
    return replace(note, host=note.host[:LONGEST_TEXT], doing=note.doing[:LONGEST_TEXT])
