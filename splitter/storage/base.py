"""The output: everything splitter writes goes through here, whole or not at all.

Names are relative to the output folder, with forward slashes. `Storage` is four small seams together:

    Lock         whose output it is, and until when
    RunFiles     the small files that a run keeps for itself
    Publishing   outputs: staged, published, replaced, removed
    Inspection   all that is there, when no run is at work

`splitter.storage.folder` has them for a folder, `splitter.storage.remote` for an object store.
"""

import contextlib
import io
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from typing import Any, BinaryIO, NamedTuple, TypeVar

from splitter.errors import TO_CONTINUE, Refused, StorageError
from splitter.options import RunPart
from splitter.storage.content import measure_file
from splitter.storage.layout import OWN_FOLDER
from splitter.system.pool import in_processes

Item = TypeVar("Item")
Answer = TypeVar("Answer")

STAGING = f"{OWN_FOLDER}/staging"
SHARED = "use an --output on a shared file system that every node can access"
SECONDS_FOR_DEAD_RUN = 15.0
# how often to try to publish into a folder that other workers remove
PATIENCE = 10


class Move(NamedTuple):
    """A staged file that is promised a name, and what it holds; records of earlier versions do not say that.

    Attributes:
        source: Where it is staged.
        target: The name that it gets.
        size: How many bytes it has.
        checksum: Their checksum, as in the manifest.
    """

    source: str
    target: str
    size: int = -1
    checksum: str = ""

    @classmethod
    def of(cls, fields: Any) -> "Move":  # noqa: ANN401 - what stands in a record
        """Return the move that a record holds; raise ValueError where it holds none."""
        kinds = [type(field) for field in fields] if isinstance(fields, list) else []
        if kinds not in ([str, str], [str, str, int, str]):
            raise ValueError("its moves are wrong")
        return cls(*fields)


class Lock(ABC):
    """Whose output it is, and until when.

    Attributes:
        run: A name that no other run has, while the lock is held.
        lock_descriptors: What workers hold open for as long as they live.
    """

    run = ""
    lock_descriptors: Sequence[int] = ()

    @property
    def lost(self) -> str:
        """Say why this run must not go on, once another one has taken its output over."""
        return ""

    @abstractmethod
    def refuse_strange(self) -> None:
        """Refuse a folder that holds something else; write nothing."""

    def prepare(self) -> None:
        """Make the folder; refuse one that holds something else."""
        self.refuse_strange()

    @abstractmethod
    def locked(self, *, elsewhere: bool = False) -> contextlib.AbstractContextManager[None]:
        """Hold the output for this run; `elsewhere` says that workers may be on other machines."""

    @contextlib.contextmanager
    def unless_refused(self) -> Iterator[None]:
        """Leave nothing behind in a folder that was new, should the run be refused. Only under the lock."""
        try:
            yield
        except Refused:
            self.leave_nothing()
            raise

    @abstractmethod
    def leave_nothing(self) -> None:
        """Remove what `prepare` has made, as far as nobody has put anything there."""

    def confirm(self, *, lately: bool = False) -> None:  # noqa: B027 - a lock of the system cannot be lost
        """Raise StorageError if another run has taken the output over.

        With `lately`, a look some seconds ago is enough.
        """

    @abstractmethod
    def at_work(self) -> contextlib.AbstractContextManager[None]:
        """Be known to work on a batch, in a process that the driver has not forked."""

    @abstractmethod
    def wait_for_workers(self, seconds: float) -> bool:
        """Wait until none of those is at work; return whether that has come."""

    def gate(self) -> contextlib.AbstractContextManager[None]:
        """Be alone for a moment, to look at what all parts share."""
        return contextlib.nullcontext()

    @abstractmethod
    def users(self) -> tuple[str, tuple[bytes, ...]]:
        """Return who is at work here, if anybody, and what differs when a run was there meanwhile.

        Nothing is written, and nobody is kept waiting.
        """


class RunFiles(ABC):
    """The small files that a run keeps for itself."""

    @abstractmethod
    def write(self, name: str, content: bytes, *, durable: bool = True) -> None:
        """Store a small file, visible only when it is whole; `durable` ones outlive a power loss."""

    @abstractmethod
    def replacing(self, name: str, *, durable: bool = True) -> contextlib.AbstractContextManager[BinaryIO]:
        """Open a file to write at length, which takes its name when the block ends without an error."""

    @abstractmethod
    def working_file(self, name: str) -> contextlib.AbstractContextManager[BinaryIO]:
        """Open an empty file to write and to read, which is of use to this run only.

        One that an earlier run has left stays until this run ends without being refused, or until
        `publish_file`.
        """

    @abstractmethod
    def publish_file(self, name: str) -> None:
        """Give a working file its name: this run will not be refused any more."""

    @abstractmethod
    def names(self, folder: str) -> list[str]:
        """Return the names in a folder, sorted."""

    @abstractmethod
    def exists(self, name: str) -> bool:
        """Return whether a name is there."""

    @abstractmethod
    def open(self, name: str) -> BinaryIO:
        """Open a file to read."""

    def read(self, name: str) -> bytes:
        """Return the content of a file."""
        with self.open(name) as file:
            return file.read()

    def have_at_hand(self, names: Sequence[str]) -> None:  # noqa: B027 - those of a folder are
        """Be ready to open files that never change, once they are there."""

    def forget_parts(self) -> None:  # noqa: B027 - most know none
        """Remove what parts have left, but for their commit records. Only under the lock of a whole run."""


class Publishing(ABC):
    """Outputs on their way: staged, published, replaced, removed.

    Attributes:
        staging: Where files on their way are, or are parked.
        parks_copies: Whether `park` makes copies, so that what is staged on this machine may always go.
        always_durable: Whether whatever it takes outlives a power cut, without being synced.
    """

    staging = STAGING
    parks_copies = False
    always_durable = False

    @abstractmethod
    def stage(self, batch: str) -> str:
        """Make a new empty folder on this machine for a batch's files."""

    @abstractmethod
    def park(self, batch: str) -> None:
        """Make a batch's staged files outlive this machine, as `.splitter/staging/<batch>/...`."""

    @abstractmethod
    def unstage(self, batch: str, *, and_parked: bool = True) -> None:
        """Remove what is left of a batch's staged files, and of the copies that were parked."""

    @abstractmethod
    def clear_staging(self) -> None:
        """Remove what earlier runs have staged; of a part, only its own. Only under the lock."""

    @abstractmethod
    def scratch(self) -> str:
        """Return a folder on this machine for temporary files, when there is no guard to make one."""

    def driver_is_gone(self) -> None:  # noqa: B027 - the next run clears up in a folder
        """Remove what the driver has left outside of the output. Only by a worker that does nothing more."""

    @abstractmethod
    def publish(self, staged: str, names: list[str]) -> None:
        """Give the files of a staged folder their final names, all of them in one folder."""

    def publish_all(self, folders: Sequence[tuple[str, list[str]]]) -> None:
        """Publish several staged folders."""
        for staged, names in folders:
            self.publish(staged, names)

    @abstractmethod
    def publish_files(self, files: Sequence[tuple[str, str]]) -> None:
        """Give staged files their final names, in any folders, which others may be filling too."""

    @abstractmethod
    def move(self, source: str, target: str) -> bool:
        """Rename a file, replacing any of that name; return False if it is not there."""

    @abstractmethod
    def remove(self, names: Iterable[str]) -> None:
        """Delete files, and the folders that this leaves empty; ignore missing ones."""

    def withdraw(self, names: Iterable[str]) -> None:
        """Delete what a dead worker was about to publish, and what is half-way there."""
        self.remove(names)

    @abstractmethod
    def unfit(self, name: str) -> str:
        """Say why an output cannot have a name here; nothing if it can."""

    @abstractmethod
    def may_hold(self, folder: str, beginning: str = "") -> bool:
        """Return whether a folder may have something in it that no run has made, with a name that begins so.

        Raises NameTaken where there can be no such folder.
        """

    @abstractmethod
    def refuse_taken(self, name: str, size: int, checksum: str, own: Collection[str]) -> None:
        """Raise NameTaken where an output would replace what is none of `own`, unless it is the same."""

    def sync(self, names: Iterable[str]) -> None:  # noqa: B027 - some are durable always
        """Make names outlive a power cut, there with their contents or gone."""

    def sync_all(self) -> bool:
        """Make all that this machine has written outlive a power cut; return whether the platform can."""
        return True


class Inspection(ABC):
    """All that is there, when no run is at work.

    Attributes:
        look_at_once: How many bytes of outputs are looked at together.
    """

    look_at_once = 1 << 26

    @abstractmethod
    def is_output(self) -> bool:
        """Return whether a run has worked here; refuse where that cannot be seen."""

    @abstractmethod
    def open_output(self, name: str) -> io.RawIOBase:
        """Open a published file; an OSError says what is there instead, and nothing can block."""

    def output_size(self, name: str) -> int | None:
        """Return the bytes of a published file; None where there is no plain file."""
        try:
            with self.open_output(name) as file:
                return file.seek(0, io.SEEK_END)
        except OSError:
            return None

    @abstractmethod
    def walk(self) -> Iterator[str]:
        """Yield the names of all files but splitter's own; of an empty folder, with a slash at the end."""

    @abstractmethod
    def near(self, name: str, folder: str) -> str:
        """Return the output folder; where that is far away, `folder` with a copy of a published file in it.

        An OSError says what is there instead.
        """

    def of_each_output(
        self, function: Callable[[Item], Answer], items: Iterable[Item]
    ) -> Generator[Answer, None, None]:
        """Yield the function of each item, in their order; several at a time where reading is waiting."""
        yield from map(function, items)

    def of_each_shard(
        self, function: Callable[[Item], Answer], items: Sequence[Item], workers: int | None
    ) -> Generator[Answer, None, None]:
        """Yield the same, where each item takes the time of a processor."""
        return in_processes(function, items, workers)


class Storage(Lock, RunFiles, Publishing, Inspection):
    """Where a run writes.

    Attributes:
        root: The output folder, as messages name it.
        part: Which part of the run this is for, if not for all.
        only_here: Whether other processes cannot see it.
    """

    root: str
    part: RunPart | None = None
    only_here = False

    def path(self, name: str) -> str:
        """Return where a name is, for a message."""
        return f"{self.root}/{name}"

    def measured(self, name: str) -> tuple[int, str] | None:
        """Return the size and the checksum of a file; None if there is none."""
        try:
            with self.open_output(name) as file:
                return measure_file(file)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise unreadable(self.path(name), error.strerror or error) from error


def unreadable(path: str, reason: object) -> StorageError:
    """Return the error for a file of the run that cannot be read."""
    return StorageError(f"cannot read {path}: {reason}; {TO_CONTINUE}")
