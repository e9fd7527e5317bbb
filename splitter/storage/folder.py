"""The output in a folder, on a local or a shared file system."""

import contextlib
import errno
import io
import os
import re
import shutil
import stat
from collections.abc import Collection, Iterable, Iterator
from typing import BinaryIO

from splitter.errors import NameTaken, Refused, StorageError
from splitter.inputs.places import OWN_FOLDER
from splitter.parts import Part
from splitter.storage.base import PATIENCE, STAGING, Storage
from splitter.storage.content import measure
from splitter.storage.locks import FolderLock, unwritable
from splitter.storage.power import sync_file, sync_file_system, sync_folder

LONGEST_PATH, LONGEST_PART = 4000, 255
# so many characters are at most 252 bytes
SHORT_PATH = 63
# more names than this are synced with their whole file system, which is faster
FEW_NAMES = 2
_OF_PARTS = re.compile(r"part-\d+-of-\d+|shares-of-\d+|.*\.part-\d+-of-\d+\.new")


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
        self._lock = FolderLock(self.root, part)

    # -- the steps: every change to what is published is one of these

    def _rename(self, source: str, target: str) -> None:
        os.rename(source, target)

    def _unlink(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            os.unlink(path)

    def _remove_folder(self, path: str) -> None:
        os.rmdir(path)

    def _sync_folder(self, path: str) -> None:
        sync_folder(path)

    # -- taking the output

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
            # what is synced in them is lost where they are not there themselves
            for folder in dict.fromkeys(map(os.path.dirname, self._made)):
                self._sync_folder(folder)
        except OSError as error:
            self._withdraw()
            raise unwritable(self.root, error) from None

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
        if not self._lock.withdraw(with_files=self.path(OWN_FOLDER) in made):
            return
        for folder in sorted(made, reverse=True):
            with contextlib.suppress(OSError):
                os.rmdir(folder)

    @contextlib.contextmanager
    def locked(self, *, elsewhere: bool = False) -> Iterator[None]:
        """Hold the folder for this run."""
        del elsewhere
        with self._lock.held():
            self.run = self._lock.run
            yield

    @property
    def lock_descriptors(self) -> list[int]:
        """What workers hold open."""
        return self._lock.descriptors

    def gate(self) -> contextlib.AbstractContextManager[None]:
        """Alone for a moment: whoever looks at the locks of parts, or at what all of them share."""
        return self._lock.gate()

    def at_work(self) -> contextlib.AbstractContextManager[None]:
        """Be known to work on a batch, in a process that the driver has not forked."""
        return self._lock.at_work()

    def wait_for_workers(self, seconds: float) -> bool:
        """Wait until none of those is at work; says whether that has come."""
        return self._lock.wait_for_workers(seconds)

    def forget_parts(self) -> None:
        """Remove what parts have left, but for their commit records. Only under the lock of a whole run."""
        names = [name for name in self.names(OWN_FOLDER) if _OF_PARTS.fullmatch(name)]
        self.remove(f"{OWN_FOLDER}/{name}" for name in names)

    # -- files of the run's own

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

        One that an earlier run has left stays until `settle`, or until this run has come to its end.
        """
        new = self._new(name)
        try:
            file = open(new, "w+b")  # noqa: SIM115 - closed below
        except OSError as error:
            raise unwritable(self.root, error) from None
        try:
            yield file
        except BaseException:
            # what it could not take has been said when it was written
            with contextlib.suppress(OSError):
                file.close()
            # once it is settled there is none of this name
            with contextlib.suppress(OSError):
                os.unlink(new)
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
            sync_file(self._new(name))
            self._rename(self._new(name), self.path(name))
            self._sync_folder(os.path.dirname(self.path(name)))
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
            return open(self.path(name), "rb", opener=_plain_file)
        except OSError as error:
            reason = f"{error.strerror}; mend that and run the same command again to continue"
            raise StorageError(f"cannot read {self.path(name)}: {reason}") from error

    def exists(self, name: str) -> bool:
        """Whether a name is there."""
        return os.path.lexists(self.path(name))

    # -- outputs

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

    def move(self, source: str, target: str) -> bool:
        """Rename a file, and make the folder that it goes to; False if it is not there."""
        path = self.path(target)
        for patience in reversed(range(PATIENCE)):
            try:
                self._make_folder(os.path.dirname(path))
                self._rename(self.path(source), path)
            except FileNotFoundError as error:
                if not os.path.lexists(self.path(source)):
                    return False
                self._known_folders.clear()
                if not patience:
                    raise StorageError.of(error, path) from error
            except OSError as error:
                raise StorageError.of(error, path) from error
            else:
                return True
        raise AssertionError

    def sync(self, names: Iterable[str]) -> None:
        """Sync files and all folders above them, or the file system where there are many."""
        chosen = list(names)
        try:
            if len(chosen) > FEW_NAMES and sync_file_system(self.root):
                return
            folders = {""}
            for name in chosen:
                with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                    sync_file(self.path(name))
                while name := os.path.dirname(name):
                    folders.add(name)
            for folder in sorted(folders, reverse=True):
                with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                    self._sync_folder(self.path(folder))
        except OSError as error:
            raise StorageError.of(error, self.root) from error

    def sync_all(self) -> bool:
        """Sync the file system, where the platform can."""
        try:
            return sync_file_system(self.root)
        except OSError as error:
            raise StorageError.of(error, self.root) from error

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

    # -- looking at all of it, when no run is at work

    def is_output(self) -> bool:
        """Whether it has a folder of splitter's own."""
        return self.exists(OWN_FOLDER)

    def users(self) -> tuple[str, tuple[bytes, ...]]:
        """Who is at work in the folder, if anybody."""
        return self._lock.users()

    def open_output(self, name: str) -> io.FileIO:
        """A published file to read; an OSError says what is there instead, and nothing can block."""
        return io.FileIO(_plain_file(self.path(name), os.O_RDONLY | os.O_NOFOLLOW))

    def output_size(self, name: str) -> int | None:
        """One look, and nothing opened."""
        try:
            found = os.lstat(self.path(name))
        except OSError:
            return None
        return found.st_size if stat.S_ISREG(found.st_mode) else None

    def near(self, name: str, folder: str) -> str:
        """It is near."""
        del folder
        self.open_output(name).close()
        return self.root

    def walk(self) -> Iterator[str]:
        """The names of all files, and of empty folders, but for splitter's own; links are not followed."""
        folders = [""]
        while folders:
            folder = folders.pop()
            try:
                with os.scandir(f"{self.root}/{folder}") as entries:
                    empty = True
                    for entry in entries:
                        empty = False
                        name = f"{folder}{entry.name}"
                        if entry.is_dir(follow_symlinks=False):
                            if name != OWN_FOLDER:
                                folders.append(f"{name}/")
                        else:
                            yield name
                if empty:
                    yield folder
            except OSError as error:
                raise StorageError(f"cannot read {self.path(folder)}: {error.strerror}") from error

    # -- staging: files on their way

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
        """Sync them where they are."""
        top = self.path("")
        below = os.walk(self.path(f"{self.staging}/{batch}"))
        self.sync(f"{folder}/{name}".removeprefix(top) for folder, _, names in below for name in names)

    def unstage(self, batch: str, *, and_parked: bool = True) -> None:
        """Remove what is left of a batch's staged files."""
        del and_parked
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


def _missing(path: str) -> list[str]:
    """Those of a folder and the folders it is in that are not there."""
    missing = []
    while not os.path.lexists(path):
        missing.append(path)
        path = os.path.dirname(path)
    return missing


def _plain_file(path: str, flags: int) -> int:
    """Open a file; what is no plain one could block."""
    descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "it is not a plain file")
