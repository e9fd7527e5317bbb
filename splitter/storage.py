"""The output folder: everything splitter writes goes through here, whole or not at all.

Names are relative to the output folder, with forward slashes. `Storage` is the seam; `LocalStorage` is a
folder, and `splitter.remote` has its twin for object stores.
"""

import contextlib
import errno
import fcntl
import io
import os
import re
import secrets
import shutil
import socket
import stat
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from typing import BinaryIO, TypeVar

from splitter.content import measure
from splitter.errors import NameTaken, Refused, StorageError
from splitter.parts import Part
from splitter.places import OWN_FOLDER
from splitter.processes import in_processes, is_at_work

Item = TypeVar("Item")
Answer = TypeVar("Answer")

STAGING = f"{OWN_FOLDER}/staging"
LOCK = f"{OWN_FOLDER}/lock"
WORKERS = f"{OWN_FOLDER}/workers"
GATE = f"{OWN_FOLDER}/gate"
SHARES = f"{OWN_FOLDER}/shares-of-"
SHARED = "give an --output that every node sees, on a shared file system"
SECONDS_FOR_DEAD_RUN = 15.0
PATIENCE = 10
LONGEST_PATH, LONGEST_PART = 4000, 255
# so many characters are at most 252 bytes
SHORT_PATH = 63
_PART_LOCK = re.compile(r"part-(\d+)-of-(\d+)")
_OF_PARTS = re.compile(r"part-\d+-of-\d+|shares-of-\d+|.*\.part-\d+-of-\d+\.new")


class Storage(ABC):
    """Where a run writes: what the rest of splitter calls.

    Attributes:
        root: The output folder, as messages name it.
        part: Which part of the run this is for, if not for all.
        run: A name that no other run has, while the lock is held.
        staging: Where files on their way are, or are parked.
        only_here: Whether nothing is seen of it outside of this process.
    """

    root: str
    staging = STAGING
    part: Part | None = None
    run = ""
    only_here = False

    def path(self, name: str) -> str:
        """Where a name is, for a message."""
        return f"{self.root}/{name}"

    @property
    def lost(self) -> str:
        """Why this run must not go on, once that is so: another one has taken its output over."""
        return ""

    # -- taking the output

    @abstractmethod
    def refuse_strange(self) -> None:
        """Refuse a folder that holds something else; nothing is written."""

    @abstractmethod
    def prepare(self) -> None:
        """Make the folder; refuse one that holds something else."""

    @abstractmethod
    def locked(self, *, elsewhere: bool = False) -> contextlib.AbstractContextManager[None]:
        """Hold the output for this run; `elsewhere` says that workers may be on other machines."""

    @abstractmethod
    def unless_refused(self) -> contextlib.AbstractContextManager[None]:
        """Leave nothing behind in a folder that was new, should the run be refused. Only under the lock."""

    @property
    def lock_descriptors(self) -> list[int]:
        """What workers hold open for as long as they live."""
        return []

    def confirm(self, *, lately: bool = False) -> None:  # noqa: B027 - a lock of the system cannot be lost
        """Make sure that the output is this run's still; raises StorageError if another has taken it over.

        With `lately`, to have looked some seconds ago is enough.
        """

    @abstractmethod
    def at_work(self) -> contextlib.AbstractContextManager[None]:
        """Be known to work on a batch, in a process that the driver has not forked."""

    @abstractmethod
    def wait_for_workers(self, seconds: float) -> bool:
        """Wait until none of those is at work; says whether that has come."""

    def gate(self) -> contextlib.AbstractContextManager[None]:
        """Alone for a moment: whoever looks at what all parts share."""
        return contextlib.nullcontext()

    def forget_parts(self) -> None:  # noqa: B027 - most know none
        """Remove what parts have left, but for their commit records. Only under the lock of a whole run."""

    # -- files of the run's own

    @abstractmethod
    def write(self, name: str, content: bytes, *, durable: bool = True) -> None:
        """Store a small file, visible only when it is whole; `durable` ones outlive a power loss."""

    @abstractmethod
    def replacing(self, name: str, *, durable: bool = True) -> contextlib.AbstractContextManager[BinaryIO]:
        """A file to write at length, which takes its name when the block ends without an error."""

    @abstractmethod
    def working_file(self, name: str) -> contextlib.AbstractContextManager[BinaryIO]:
        """An empty file to write and to read, which is of use to this run only.

        One that an earlier run has left stays until this run has ended without being refused, or until
        `settle`.
        """

    @abstractmethod
    def settle(self, name: str) -> None:
        """Give a working file its name: this run will not be refused any more."""

    @abstractmethod
    def on_disk(self, name: str) -> str:
        """The path of a file on this machine, for as long as the lock is held."""

    @abstractmethod
    def names(self, folder: str) -> list[str]:
        """The names in a folder, sorted."""

    @abstractmethod
    def exists(self, name: str) -> bool:
        """Whether a name is there."""

    @abstractmethod
    def open(self, name: str) -> BinaryIO:
        """A file to read from."""

    def read(self, name: str) -> bytes:
        """A whole file."""
        with self.open(name) as file:
            return file.read()

    def have_at_hand(self, names: Sequence[str]) -> None:  # noqa: B027 - those of a folder are
        """Be ready to open files that never change, once they are there."""

    # -- outputs

    @abstractmethod
    def remove(self, names: Iterable[str]) -> None:
        """Delete files, and the folders that this leaves empty; missing ones are no error."""

    def withdraw(self, names: Iterable[str]) -> None:
        """Delete what a worker that is gone was about to publish, and what is half-way there."""
        self.remove(names)

    @abstractmethod
    def publish(self, staged: str, names: list[str]) -> None:
        """Give the files of a staged folder their final names, all of them in one folder."""

    def publish_all(self, folders: Sequence[tuple[str, list[str]]]) -> None:
        """Publish several staged folders."""
        for staged, names in folders:
            self.publish(staged, names)

    @abstractmethod
    def move(self, source: str, target: str) -> None:
        """Give a file another name, in place of what has it; one that is not there was moved before."""

    @abstractmethod
    def unfit(self, name: str) -> str:
        """Why an output cannot have a name here; nothing if it can."""

    @abstractmethod
    def may_hold(self, folder: str) -> bool:
        """Whether an input's folder may have something in it that no run has made.

        Raises NameTaken where there can be no such folder.
        """

    @abstractmethod
    def refuse_taken(self, name: str, size: int, checksum: str, own: Collection[str]) -> None:
        """Raise NameTaken where an output would replace what is none of `own`, unless it is the same."""

    # -- looking at all of it, when no run is at work

    # how many bytes of outputs are looked at together
    look_at_once = 1 << 26

    @abstractmethod
    def is_output(self) -> bool:
        """Whether a run has worked here; refused where that cannot be seen."""

    @abstractmethod
    def users(self) -> tuple[str, tuple[bytes, ...]]:
        """Who is at work here, if anybody, and what differs when a run was there meanwhile.

        Nothing is written, and nobody is kept waiting.
        """

    @abstractmethod
    def open_output(self, name: str) -> io.RawIOBase:
        """A published file to read; an OSError says what is there instead, and nothing can block."""

    @abstractmethod
    def walk(self) -> Iterator[str]:
        """The names of all files, but for splitter's own."""

    @abstractmethod
    def near(self, name: str, folder: str) -> str:
        """The output folder; where that is far away, `folder` with a copy of a published file in it.

        An OSError says what is there instead.
        """

    def of_each_output(
        self, function: Callable[[Item], Answer], items: Iterable[Item]
    ) -> Generator[Answer, None, None]:
        """The function of each item, in their order; several at a time where reading is waiting."""
        yield from map(function, items)

    def of_each_shard(
        self, function: Callable[[Item], Answer], items: Sequence[Item], workers: int | None
    ) -> Generator[Answer, None, None]:
        """The same, where each item takes the time of a processor."""
        return in_processes(function, items, workers)

    # -- staging: files on their way

    @abstractmethod
    def stage(self, batch: str) -> str:
        """A new empty folder on this machine for a batch's files."""

    @abstractmethod
    def park(self, batch: str) -> None:
        """Make a batch's staged files outlive this machine, as `.splitter/staging/<batch>/...`."""

    @abstractmethod
    def unstage(self, batch: str) -> None:
        """Remove what is left of a batch's staged files, and of those that were parked."""

    @abstractmethod
    def clear_staging(self) -> None:
        """Remove what earlier runs left on its way; a part, what is its own. Only under the lock."""

    @abstractmethod
    def scratch(self) -> str:
        """A folder on this machine for temporary files, when there is no guard to make one."""

    def driver_is_gone(self) -> None:  # noqa: B027 - the next run clears up in a folder
        """Remove what the driver has left outside of the output. Only by a worker that does nothing more."""


class LocalStorage(Storage):
    """An output folder on a local or a shared file system."""

    def __init__(self, root: str, part: Part | None = None) -> None:
        """Use the folder `root`, which need not exist yet; as one of several parts, or alone."""
        self.root = os.path.abspath(root)
        self.part = part
        # files on their way: those of a part are apart from those of the others
        self.staging = f"{STAGING}/{part.name}" if part else STAGING
        self._known_folders: set[str] = set()
        self._made: list[str] = []
        self._settled: set[str] = set()
        self.lock_descriptor = self.part_descriptor = -1

    # -- the steps: every change to the folder is one of these --------------------------------

    def _rename(self, source: str, target: str) -> None:
        os.rename(source, target)

    def _unlink(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            os.unlink(path)

    def _remove_folder(self, path: str) -> None:
        os.rmdir(path)

    def _sync_folder(self, path: str) -> None:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    # -- what the rest of splitter calls --------------------------------------------------------

    def refuse_strange(self) -> None:
        """Refuse a folder that holds something else."""
        try:
            found = os.listdir(self.root) if os.path.lexists(self.root) else []
        except NotADirectoryError:
            raise Refused(f"{self.root}: is a file, not a folder; choose another --output") from None
        except OSError as error:
            raise Refused(f"{self.root}: cannot be read: {error.strerror}; choose another --output") from None
        if found and OWN_FOLDER not in found:
            message = (
                f"{self.root}: holds something else ({min(found)}); choose an empty or new folder as --output"
            )
            raise Refused(message)

    def prepare(self) -> None:
        """Make the folder; refuse one that holds something else."""
        self.refuse_strange()
        try:
            for name in (f"{OWN_FOLDER}/records", self.staging):
                self._made += _missing(self.path(name))
                os.makedirs(self.path(name), exist_ok=True)
        except OSError as error:
            self._withdraw()
            raise self._unwritable(error) from None

    @contextlib.contextmanager
    def unless_refused(self) -> Iterator[None]:
        """Leave nothing behind in a folder that was new, should the run be refused. Only under the lock."""
        try:
            yield
        except Refused:
            self._withdraw()
            raise

    def _withdraw(self) -> None:
        """Remove what `prepare` has made, as far as nobody has put anything there."""
        made, self._made = self._made, []
        if self.part and self.lock_descriptor >= 0:
            try:
                fcntl.flock(self.lock_descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                # another part has come meanwhile
                return
        for name in (LOCK, GATE, *([f"{OWN_FOLDER}/{self.part.name}"] if self.part else [])):
            with contextlib.suppress(OSError):
                if self.path(OWN_FOLDER) in made:
                    os.unlink(self.path(name))
        for folder in sorted(made, reverse=True):
            with contextlib.suppress(OSError):
                os.rmdir(folder)

    def _unwritable(self, error: OSError) -> Refused:
        reason = f"cannot be written: {error.strerror}"
        return Refused(f"{self.root}: {reason}; choose another --output or free some room")

    def write(self, name: str, content: bytes, *, durable: bool = True) -> None:
        """Store a small file, visible only when it is whole; `durable` ones outlive a power loss."""
        with self.replacing(name, durable=durable) as file:
            file.write(content)

    @contextlib.contextmanager
    def replacing(self, name: str, *, durable: bool = True) -> Iterator[BinaryIO]:
        """A file to write at length, which takes its name when the block ends without an error."""
        target = self.path(name)
        temporary = self.path(f"{self.staging}/{name.replace('/', '+')}")
        try:
            with open(temporary, "wb", buffering=1 << 20) as file:
                yield file
                file.flush()
                if durable:
                    os.fsync(file.fileno())
            self._rename(temporary, target)
            if durable:
                self._sync_folder(os.path.dirname(target))
        except OSError as error:
            raise StorageError.of(error, target) from error

    @contextlib.contextmanager
    def working_file(self, name: str) -> Iterator[BinaryIO]:
        """An empty file to write and to read, which is of use to this run only.

        One that an earlier run has left stays until this run has ended without being refused, or until
        `settle`.
        """
        new = self._new(name)
        try:
            file = open(new, "w+b")  # noqa: SIM115 - closed below
        except OSError as error:
            raise self._unwritable(error) from None
        try:
            yield file
        except BaseException as error:
            # what it could not take has been said when it was written
            with contextlib.suppress(OSError):
                file.close()
            with contextlib.suppress(OSError):
                os.unlink(new) if isinstance(error, Refused) else os.rename(new, self.path(name))
            raise
        try:
            file.close()
        except OSError as error:
            raise StorageError.of(error, self.path(name)) from error
        self.settle(name)

    def settle(self, name: str) -> None:
        """Give a working file its name: this run will not be refused any more."""
        if name in self._settled:
            return
        try:
            self._rename(self._new(name), self.path(name))
        except OSError as error:
            raise StorageError.of(error, self.path(name)) from error
        self._settled.add(name)

    def _new(self, name: str) -> str:
        return self.path(f"{name}.{self.part.name}.new" if self.part else f"{name}.new")

    def names(self, folder: str) -> list[str]:
        """The names in a folder, sorted."""
        try:
            return sorted(os.listdir(self.path(folder)))
        except FileNotFoundError:
            return []

    def on_disk(self, name: str) -> str:
        """The file itself."""
        return self.path(name)

    def open(self, name: str) -> BinaryIO:
        """A file to read from."""
        try:
            return open(self.path(name), "rb")
        except OSError as error:
            reason = f"{error.strerror}; mend that and run the same command again to continue"
            raise StorageError(f"cannot read {self.path(name)}: {reason}") from error

    def exists(self, name: str) -> bool:
        """Whether a name is there."""
        return os.path.lexists(self.path(name))

    def is_output(self) -> bool:
        """Whether it has a folder of splitter's own."""
        return self.exists(OWN_FOLDER)

    def open_output(self, name: str) -> io.FileIO:
        """A published file to read; an OSError says what is there instead, and nothing can block."""
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        descriptor = os.open(self.path(name), flags)
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            return io.FileIO(descriptor)
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is not a plain file")

    def near(self, name: str, folder: str) -> str:
        """It is near."""
        del folder
        self.open_output(name).close()
        return self.root

    def walk(self) -> Iterator[str]:
        """The names of all files, but for splitter's own folder; links are not followed."""
        folders = [""]
        while folders:
            folder = folders.pop()
            try:
                with os.scandir(f"{self.root}/{folder}") as entries:
                    for entry in entries:
                        name = f"{folder}{entry.name}"
                        if entry.is_dir(follow_symlinks=False):
                            if name != OWN_FOLDER:
                                folders.append(f"{name}/")
                        else:
                            yield name
            except OSError as error:
                raise StorageError(f"cannot read {self.path(folder)}: {error.strerror}") from error

    def remove(self, names: Iterable[str]) -> None:
        """Delete files, and the folders that this leaves empty; missing ones are no error."""
        folders = set()
        try:
            for name in names:
                self._unlink(self.path(name))
                folders.add(os.path.dirname(name))
            for folder in sorted(folders, reverse=True):
                self._remove_empty(folder)
        except OSError as error:
            raise StorageError.of(error, self.root) from error

    def _remove_empty(self, folder: str) -> None:
        while folder and folder.partition("/")[0] != OWN_FOLDER:
            try:
                self._remove_folder(self.path(folder))
            except OSError as error:
                if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                    return
                if error.errno not in (errno.ENOENT, errno.ENOTDIR):
                    raise
            self._known_folders.clear()
            folder = os.path.dirname(folder)

    def publish(self, staged: str, names: list[str]) -> None:
        """Give the files of a staged folder their final names, all of them in one folder.

        A folder that is not there yet appears with all its files in a single step.
        """
        folder = os.path.dirname(names[0])
        target = self.path(folder)
        for patience in reversed(range(PATIENCE)):
            try:
                self._make_folder(os.path.dirname(target))
                self._rename(staged, target)
            except FileNotFoundError as error:
                # another worker removed the parent, which its stale outputs had left empty
                self._known_folders.clear()
                if not patience:
                    raise StorageError.of(error, target) from error
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise StorageError.of(error, target) from error
                self._publish_into(staged, names)
                return
            else:
                return

    def _publish_into(self, staged: str, names: list[str]) -> None:
        for name in names:
            try:
                self._rename(f"{staged}/{os.path.basename(name)}", self.path(name))
            except OSError as error:
                raise StorageError.of(error, self.path(name)) from error

    def _make_folder(self, path: str) -> None:
        if path not in self._known_folders:
            os.makedirs(path, exist_ok=True)
            self._known_folders.add(path)

    def move(self, source: str, target: str) -> None:
        """Rename a file, and make the folder that it goes to."""
        path = self.path(target)
        for patience in reversed(range(PATIENCE)):
            try:
                self._make_folder(os.path.dirname(path))
                self._rename(self.path(source), path)
            except FileNotFoundError as error:
                if not os.path.lexists(self.path(source)):
                    return
                self._known_folders.clear()
                if not patience:
                    raise StorageError.of(error, path) from error
            except OSError as error:
                raise StorageError.of(error, path) from error
            else:
                return

    def unfit(self, name: str) -> str:
        """What a file system does not take: the path, or one of its parts."""
        if len(name) <= SHORT_PATH:
            return ""
        path = self.path(name).encode("utf-8", "surrogateescape")
        long = len(path) > LONGEST_PATH or max(map(len, path.split(b"/"))) > LONGEST_PART
        return "is too long" if long else ""

    def may_hold(self, folder: str) -> bool:
        """Whether the folder is there."""
        try:
            found = os.lstat(self.path(folder))
        except FileNotFoundError:
            return False
        except NotADirectoryError:
            raise NameTaken.of(folder, "lies below a file") from None
        if not stat.S_ISDIR(found.st_mode):
            raise NameTaken.of(folder, "is a file, where its folder must be")
        return True

    def refuse_taken(self, name: str, size: int, checksum: str, own: Collection[str]) -> None:
        """Look at the file that has the name, if there is one."""
        path = self.path(name)
        try:
            found = os.lstat(path)
        except FileNotFoundError:
            return
        beside = [other for other in own if os.path.dirname(other) == os.path.dirname(name)]
        if any(os.path.samestat(found, os.lstat(self.path(other))) for other in beside if self.exists(other)):
            # another name of it, where case does not count
            return
        if not stat.S_ISREG(found.st_mode) or found.st_size != size or measure(path)[1] != checksum:
            raise NameTaken.of(name, "is there already")

    # -- staging: files on their way --------------------------------------------------------------

    def stage(self, batch: str) -> str:
        """A new empty folder for a batch's files, on the same file system as the output."""
        path = self.path(f"{self.staging}/{batch}")
        try:
            shutil.rmtree(path, ignore_errors=True)
            os.makedirs(path)
        except OSError as error:
            raise StorageError.of(error, path) from error
        return path

    def scratch(self) -> str:
        """The folder of staging, which is there as long as the lock is held."""
        return self.path(self.staging)

    def park(self, batch: str) -> None:
        """They are where they outlive the machine already."""

    def unstage(self, batch: str) -> None:
        """Remove what is left of a batch's staged files."""
        shutil.rmtree(self.path(f"{self.staging}/{batch}"), ignore_errors=True)

    def clear_staging(self) -> None:
        """Remove what earlier runs left on its way; a part, what is its own. Only under the lock."""
        folder = self.path(self.staging)
        for name in self.names(self.staging):
            path = f"{folder}/{name}"
            if os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path, ignore_errors=True)
                continue
            try:
                self._unlink(path)
            except OSError as error:
                raise StorageError.of(error, path) from error

    # -- the lock ---------------------------------------------------------------------------------

    @contextlib.contextmanager
    def locked(self, *, elsewhere: bool = False) -> Iterator[None]:
        """Hold the folder for this run.

        Workers inherit the lock on purpose: it is free only when the last of them is gone, so a new
        run never meets a dead run's workers. Those on other machines have a lock of their own.
        """
        del elsewhere
        self.run = f"{socket.gethostname()} {os.getpid()} {secrets.token_hex(8)}"
        descriptor, own = self._lock_file(LOCK), -1
        try:
            if self.part is None:
                self._take(descriptor)
                self._sign(descriptor, self.run)
            else:
                self._take(descriptor, fcntl.LOCK_SH)
                own = self._take_part(self.part)
                # workers of an earlier run on other machines do nothing more
                self._sign(descriptor, "")
            if not self.wait_for_workers(SECONDS_FOR_DEAD_RUN):
                raise Refused(f"{self.root}: workers of an earlier run are at work in it; wait for them")
            self.lock_descriptor, self.part_descriptor = descriptor, own
            yield
        finally:
            self.lock_descriptor = self.part_descriptor = -1
            os.close(descriptor)
            if own >= 0:
                os.close(own)

    def users(self) -> tuple[str, tuple[bytes, ...]]:
        """Who is at work in the folder, if anybody, and what differs when a run was there meanwhile.

        Nothing is written, and nobody is kept waiting.
        """
        parts = (f"{OWN_FOLDER}/{name}" for name in self.names(OWN_FOLDER) if _PART_LOCK.fullmatch(name))
        signs = []
        for name in (LOCK, *parts, WORKERS):
            try:
                descriptor = os.open(self.path(name), os.O_RDONLY)
            except OSError:
                continue
            try:
                signs.append(os.pread(descriptor, 1000, 0))
                # workers on other machines hold it together
                fcntl.flock(descriptor, (fcntl.LOCK_EX if name == WORKERS else fcntl.LOCK_SH) | fcntl.LOCK_NB)
            except BlockingIOError:
                owner = _owner(descriptor)
                who = f"process {owner[1]} on {owner[0]}" if len(owner) > 1 else "another run"
                return who, tuple(signs)
            finally:
                os.close(descriptor)
        return "", tuple(signs)

    @property
    def lock_descriptors(self) -> list[int]:
        """What workers hold open."""
        return [one for one in (self.lock_descriptor, self.part_descriptor) if one >= 0]

    def _lock_file(self, name: str) -> int:
        try:
            return os.open(self.path(name), os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise self._unwritable(error) from None

    def _sign(self, descriptor: int, name: str) -> None:
        try:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{name}\n".encode() if name else b"", 0)
        except OSError as error:
            raise self._unwritable(error) from None

    @contextlib.contextmanager
    def gate(self) -> Iterator[None]:
        """Alone for a moment: whoever looks at the locks of parts, or at what all of them share."""
        descriptor = self._lock_file(GATE)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            fcntl.flock(descriptor, fcntl.LOCK_UN)
            os.close(descriptor)

    def _take_part(self, part: Part) -> int:
        """The lock of a part; refuses to work beside parts that divide the inputs in another way."""
        with self.gate():
            for other, owner in self._parts_at_work():
                if other.of != part.of:
                    message = f"{self.root}: is in use by {other}{_by(owner)}; wait for it, or give --part"
                    raise Refused(f"{message} K/{other.of} as there")
            descriptor = self._lock_file(f"{OWN_FOLDER}/{part.name}")
            try:
                self._take(descriptor, in_gate=True)
                self._sign(descriptor, self.run)
            except BaseException:
                os.close(descriptor)
                raise
            return descriptor

    def _parts_at_work(self) -> list[tuple[Part, list[str]]]:
        """The parts whose locks are held, and by whom. Only in the gate."""
        found = []
        for name in self.names(OWN_FOLDER):
            match = _PART_LOCK.fullmatch(name)
            if match is None:
                continue
            with (
                contextlib.suppress(FileNotFoundError),
                open(self.path(f"{OWN_FOLDER}/{name}"), "rb") as file,
            ):
                try:
                    fcntl.flock(file.fileno(), fcntl.LOCK_SH | fcntl.LOCK_NB)
                except BlockingIOError:
                    found.append((Part(int(match[1]), int(match[2])), _owner(file.fileno())))
        return found

    def forget_parts(self) -> None:
        """Remove what parts have left, but for their commit records. Only under the lock of a whole run."""
        names = [name for name in self.names(OWN_FOLDER) if _OF_PARTS.fullmatch(name)]
        self.remove(f"{OWN_FOLDER}/{name}" for name in names)

    @contextlib.contextmanager
    def at_work(self) -> Iterator[None]:
        """Be known to work on a batch, in a process that the driver has not forked.

        It may be on another machine, and outlive its driver. A run that comes later waits for it, and it
        does nothing more once there is a later run.
        """
        place = f"{socket.gethostname()}: {self.root}"
        try:
            descriptor = os.open(self.path(WORKERS), os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise StorageError(f"{place}: cannot be written there: {error.strerror}; {SHARED}") from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH)
            with open(self.path(LOCK)) as file:
                if file.read().strip() != self.run:
                    raise StorageError(f"{place}: is taken over by another run, or is another folder there")
            yield
        finally:
            # a runner that was forked meanwhile holds the descriptor as well
            fcntl.flock(descriptor, fcntl.LOCK_UN)
            os.close(descriptor)

    def wait_for_workers(self, seconds: float) -> bool:
        """Wait until none of those is at work; says whether that has come."""
        give_up = time.monotonic() + seconds
        try:
            descriptor = os.open(self.path(WORKERS), os.O_RDWR)
        except FileNotFoundError:
            return True
        except OSError as error:
            raise self._unwritable(error) from None
        try:
            while True:
                with contextlib.suppress(BlockingIOError):
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    return True
                if time.monotonic() > give_up:
                    return False
                time.sleep(0.02)
        finally:
            os.close(descriptor)

    def _take(self, descriptor: int, kind: int = fcntl.LOCK_EX, *, in_gate: bool = False) -> None:
        give_up = time.monotonic() + SECONDS_FOR_DEAD_RUN
        while True:
            try:
                fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
            except BlockingIOError:
                owner = _owner(descriptor)
                who = f"process {owner[1]} on {owner[0]}" if len(owner) > 1 else "another run"
                if not owner and not in_gate:
                    # parts sign their own locks
                    owner, who = self._part_at_work() or (owner, who)
                if is_at_work(owner) or time.monotonic() > give_up:
                    message = f"{self.root}: is in use by {who}; wait for it or choose another --output"
                    raise Refused(message) from None
                time.sleep(0.05)
            else:
                return

    def _part_at_work(self) -> tuple[list[str], str] | None:
        """Who holds the lock of a part, and which; one whose driver lives, if there is one."""
        with self.gate():
            found = self._parts_at_work()
        found.sort(key=lambda one: not is_at_work(one[1]))
        return next(((owner, f"{part}{_by(owner)}") for part, owner in found), None)


def _owner(descriptor: int) -> list[str]:
    """What stands in a lock: a machine, a process, and a name that no other run has."""
    return os.pread(descriptor, 1000, 0).decode(errors="replace").split()


def _by(owner: list[str]) -> str:
    return f", process {owner[1]} on {owner[0]}" if len(owner) > 1 else ""


def _missing(path: str) -> list[str]:
    """Those of a folder and the folders it is in that are not there."""
    missing = []
    while not os.path.lexists(path):
        missing.append(path)
        path = os.path.dirname(path)
    return missing
