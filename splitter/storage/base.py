"""The interface to the output: splitter writes everything through it, each file whole or not at all.

Names are relative to the output folder, with forward slashes. `Storage` combines four small interfaces:

    Lock         which run the output belongs to
    RunFiles     the small files that a run keeps for itself
    Publishing   stage, publish, replace and remove outputs
    Inspection   look at the whole output when no run is at work

`splitter.storage.folder` implements them for a folder, `splitter.storage.remote` for an object store.
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
# how many times to try to publish into a folder that other workers keep removing
PATIENCE = 10


class Move(NamedTuple):
    """A staged file, and the final name that a commit record promises for it.

    Attributes:
        source: Where it is staged.
        target: Its final name.
        size: Its size in bytes; -1 in records of earlier versions.
        checksum: Its checksum, as in the manifest; empty in records of earlier versions.
    """

    source: str
    target: str
    size: int = -1
    checksum: str = ""

    @classmethod
    def of(cls, fields: Any) -> "Move":  # noqa: ANN401 - any JSON of a record
        """Return the move that a field of a record describes; raise ValueError if it describes none."""
        kinds = [type(field) for field in fields] if isinstance(fields, list) else []
        if kinds not in ([str, str], [str, str, int, str]):
            raise ValueError("its moves are wrong")
        return cls(*fields)


class Lock(ABC):
    """The lock of the output, which keeps other runs out of it.

    Attributes:
        run: A unique name of the run, while it holds the lock.
        lock_descriptors: The descriptors that workers hold open for as long as they live.
    """

    run = ""
    lock_descriptors: Sequence[int] = ()

    @property
    def lost(self) -> str:
        """Say why this run must stop, if another one has taken over its output; empty otherwise."""
        return ""

    @abstractmethod
    def refuse_strange(self) -> None:
        """Refuse a folder that contains anything but an output; write nothing."""

    def prepare(self) -> None:
        """Create the folder; refuse one that contains anything but an output."""
        self.refuse_strange()

    @abstractmethod
    def locked(self, *, elsewhere: bool = False) -> contextlib.AbstractContextManager[None]:
        """Lock the output for this run; `elsewhere` says that workers may be on other machines."""

    @contextlib.contextmanager
    def unless_refused(self) -> Iterator[None]:
        """Remove what `prepare` created if the run is refused within the block; only under the lock."""
        try:
            yield
        except Refused:
            self.leave_nothing()
            raise

    @abstractmethod
    def leave_nothing(self) -> None:
        """Remove what `prepare` created, unless something has been put there."""

    def confirm(self, *, lately: bool = False) -> None:  # noqa: B027 - a lock of the system cannot be lost
        """Raise StorageError if another run has taken over the output.

        With `lately`, a check made a few seconds ago is enough.
        """

    @abstractmethod
    def at_work(self) -> contextlib.AbstractContextManager[None]:
        """Register as working on a batch, in a process that the driver did not fork."""

    @abstractmethod
    def wait_for_workers(self, seconds: float) -> bool:
        """Wait until no process is registered by `at_work`; return False if time runs out."""

    def leave_to_next_run(self) -> None:  # noqa: B027 - a store keeps workers from writing that it waits for
        """Make `confirm` fail from now on, since a worker of this run may still be at work."""

    def gate(self) -> contextlib.AbstractContextManager[None]:
        """Keep all other parts out for a moment, to look at files that the parts share."""
        return contextlib.nullcontext()

    @abstractmethod
    def users(self) -> tuple[str, tuple[bytes, ...]]:
        """Return who is at work here (empty if nobody), and a mark that changes if a run comes and goes.

        This writes nothing, and makes no run wait.
        """


class RunFiles(ABC):
    """The small files that a run keeps for itself."""

    @abstractmethod
    def write(self, name: str, content: bytes, *, durable: bool = True) -> None:
        """Store a small file, which appears only when it is whole; a `durable` one survives a power cut."""

    @abstractmethod
    def replacing(self, name: str, *, durable: bool = True) -> contextlib.AbstractContextManager[BinaryIO]:
        """Open a file for writing; it gets its name when the block ends without an error."""

    @abstractmethod
    def working_file(self, name: str) -> contextlib.AbstractContextManager[BinaryIO]:
        """Open an empty file for this run to write and read; it gets its name when the block ends.

        It replaces the file of an earlier run only then, or when `publish_file` is called. If the block fails
        before that, the earlier file stays.
        """

    @abstractmethod
    def publish_file(self, name: str) -> None:
        """Give a working file its name now, since this run can no longer be refused."""

    @abstractmethod
    def names(self, folder: str) -> list[str]:
        """Return the names in a folder, sorted."""

    @abstractmethod
    def exists(self, name: str) -> bool:
        """Return whether there is a file or folder of that name."""

    @abstractmethod
    def open(self, name: str) -> BinaryIO:
        """Open a file for reading."""

    def read(self, name: str) -> bytes:
        """Return the content of a file."""
        with self.open(name) as file:
            return file.read()

    def have_at_hand(self, names: Sequence[str]) -> None:  # noqa: B027 - those of a folder are
        """Prepare to open several files, which must never change once they exist."""

    def forget_parts(self) -> None:  # noqa: B027 - most know none
        """Remove what parts have left, except commit records; only under the lock of a whole run."""


class Publishing(ABC):
    """Operations on outputs: stage, publish, replace, remove.

    Attributes:
        staging: The folder where files are staged, or parked.
        parks_copies: Whether `park` makes copies, so that staged files on this machine may always be removed.
        always_durable: Whether everything written survives a power cut without being synced.
    """

    staging = STAGING
    parks_copies = False
    always_durable = False

    @abstractmethod
    def stage(self, batch: str) -> str:
        """Make an empty folder on this machine for a batch's files, and return its path."""

    @abstractmethod
    def park(self, batch: str) -> None:
        """Make a batch's staged files survive this machine, at `.splitter/staging/<batch>/` in the output."""

    @abstractmethod
    def unstage(self, batch: str, *, and_parked: bool = True) -> None:
        """Remove a batch's remaining staged files, and the parked copies too unless told otherwise."""

    @abstractmethod
    def clear_staging(self) -> None:
        """Remove what earlier runs staged; a part removes only its own. Call it only under the lock."""

    @abstractmethod
    def scratch(self) -> str:
        """Return a folder on this machine for temporary files, used where no guard has made one."""

    def driver_is_gone(self) -> None:  # noqa: B027 - the next run clears up in a folder
        """Remove what a dead driver has left outside the output. Only for a worker that does no more work."""

    @abstractmethod
    def publish(self, staged: str, names: list[str]) -> None:
        """Give the files of a staged folder their final names, which are all in one folder."""

    def publish_all(self, folders: Sequence[tuple[str, list[str]]]) -> None:
        """Publish several staged folders."""
        for staged, names in folders:
            self.publish(staged, names)

    @abstractmethod
    def publish_files(self, files: Sequence[tuple[str, str]]) -> None:
        """Give staged files their final names, in any folders; other workers may publish there as well."""

    @abstractmethod
    def move(self, source: str, target: str) -> bool:
        """Rename a file, replacing the target if it exists; return False if the source is missing."""

    @abstractmethod
    def remove(self, names: Iterable[str]) -> None:
        """Delete files, and the folders that become empty; ignore missing files."""

    def withdraw(self, names: Iterable[str]) -> None:
        """Delete the files that a dead worker was publishing, including unfinished uploads."""
        self.remove(names)

    @abstractmethod
    def unfit(self, name: str) -> str:
        """Say why an output cannot have a name here; empty if it can."""

    @abstractmethod
    def may_hold(self, folder: str, beginning: str = "") -> bool:
        """Return whether a folder may contain a file that no run made, whose name starts with `beginning`.

        Raises NameTaken if the folder cannot be created.
        """

    @abstractmethod
    def refuse_taken(self, name: str, size: int, checksum: str, own: Collection[str]) -> None:
        """Raise NameTaken if an output would replace a file not in `own` whose content differs."""

    def sync(self, names: Iterable[str]) -> None:  # noqa: B027 - some are durable always
        """Make changes to these names survive a power cut: files with their contents, and removals."""

    def sync_all(self) -> bool:
        """Make everything this machine wrote survive a power cut; return False if the platform cannot."""
        return True


class Inspection(ABC):
    """A view of the whole output, for use when no run is at work.

    Attributes:
        look_at_once: How many bytes of outputs to check together.
    """

    look_at_once = 1 << 26

    @abstractmethod
    def is_output(self) -> bool:
        """Return whether a run has worked here; refuse if this cannot be determined."""

    @abstractmethod
    def open_output(self, name: str) -> io.RawIOBase:
        """Open a published file without ever blocking; raise OSError if it is missing or not a plain file."""

    def output_size(self, name: str) -> int | None:
        """Return the size of a published file in bytes; None if there is no plain file."""
        try:
            with self.open_output(name) as file:
                return file.seek(0, io.SEEK_END)
        except OSError:
            return None

    @abstractmethod
    def walk(self) -> Iterator[str]:
        """Yield the names of all files except splitter's own, and of empty folders, which end in a slash."""

    @abstractmethod
    def near(self, name: str, folder: str) -> str:
        """Return a local folder that contains a published file: the output folder, or `folder` with a copy.

        Raises OSError if the file is missing or not a plain file.
        """

    def of_each_output(
        self, function: Callable[[Item], Answer], items: Iterable[Item]
    ) -> Generator[Answer, None, None]:
        """Yield the function's result for each item, in order; several at a time where reads have to wait."""
        yield from map(function, items)

    def of_each_shard(
        self, function: Callable[[Item], Answer], items: Sequence[Item], workers: int | None
    ) -> Generator[Answer, None, None]:
        """Yield the function's result for each item, in order, where each item takes CPU time."""
        return in_processes(function, items, workers)


class Storage(Lock, RunFiles, Publishing, Inspection):
    """The output that a run writes to: a folder, or a URL in an object store.

    Attributes:
        root: The output folder, as messages name it.
        part: The part of the run that this belongs to; None for a whole run.
        only_here: Whether no other process can see it.
    """

    root: str
    part: RunPart | None = None
    only_here = False

    def path(self, name: str) -> str:
        """Return the full path of a name, for messages."""
        return f"{self.root}/{name}"

    def measured(self, name: str) -> tuple[int, str] | None:
        """Return the size and the checksum of a file; None if it does not exist."""
        try:
            with self.open_output(name) as file:
                return measure_file(file)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise unreadable(self.path(name), error.strerror or error) from error


def staged_is_gone(path: str) -> StorageError:
    """Return the error for staged files that something else has removed."""
    return StorageError(
        f"{path}: the files staged there are gone; whatever removes them must leave .splitter alone; run the "
        "same command again to continue"
    )


def unreadable(path: str, reason: object) -> StorageError:
    """Return the error for a file of the run that cannot be read."""
    return StorageError(f"cannot read {path}: {reason}; {TO_CONTINUE}")
