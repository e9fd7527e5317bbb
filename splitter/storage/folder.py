"""The output in a folder, on a local or a shared file system."""

import contextlib
import errno
import io
import os
import re
import stat
from collections.abc import Collection, Iterable, Iterator
from typing import BinaryIO

from splitter.errors import NameTaken, Refused, StorageError
from splitter.options import RunPart
from splitter.storage.base import PATIENCE, STAGING, Storage
from splitter.storage.content import measure
from splitter.storage.durability import sync_file_system, sync_folder
from splitter.storage.layout import OWN_FOLDER, RECORDS
from splitter.storage.locks import FolderLock, unwritable
from splitter.storage.names import refuse_unclean
from splitter.storage.tree import InTheWay, Tree, is_mostly_nothing

LONGEST_PATH, LONGEST_PART = 4000, 255
# so many characters are at most 252 bytes
SHORT_PATH = 63
# more names than this are synced with their whole file system, which is faster
FEW_NAMES = 2
_OF_PARTS = re.compile(r"part-\d+-of-\d+|shares-of-\d+|.*\.part-\d+-of-\d+\.new")


class LocalStorage(Storage):
    """An output folder on a local or a shared file system.

    The folder that the user names may be a link. What is in it may come from a stranger: it is reached by
    descriptors, so that no link in it is followed (see `splitter.storage.tree`).
    """

    def __init__(self, root: str, part: RunPart | None = None) -> None:
        """Use the folder `root`, which need not exist yet; as one of several parts, or alone."""
        self.root = os.path.abspath(root)
        self.part = part
        # files on their way: those of a part are apart from those of the others
        self.staging = f"{STAGING}/{part.name}" if part else STAGING
        self._tree = Tree(self.root)
        self._known_folders: set[str] = set()
        self._made: list[str] = []
        self._settled: set[str] = set()
        self._lock = FolderLock(self._tree, part)

    # -- the steps: every change to what is published is one of these

    def _rename(self, source: str, target: str) -> None:
        self._tree.rename(source, target)

    def _unlink(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            self._tree.unlink(name)

    def _remove_folder(self, name: str) -> None:
        self._tree.rmdir(name)

    def _sync_folder(self, name: str) -> None:
        with self._tree.listing(name) as descriptor:
            os.fsync(descriptor)

    def _sync_file(self, name: str) -> None:
        descriptor = self._tree.open(name, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    # -- taking the output

    def refuse_strange(self) -> None:
        """Refuse a folder that holds something else, or in whose own folder there is what no run leaves."""
        try:
            found = self._tree.names("")
        except FileNotFoundError:
            return
        except NotADirectoryError:
            if not os.path.lexists(self.root):
                # what it would be in is a file
                return
            raise Refused(f"{self.root}: is a file, not a folder; choose another --output") from None
        except OSError as error:
            raise Refused(f"{self.root}: cannot be read: {error.strerror}; choose another --output") from None
        if found and OWN_FOLDER not in found:
            message = (
                f"{self.root}: holds something else ({min(found)}); choose an empty or new folder as --output"
            )
            raise Refused(message)
        self._refuse_links()

    def _refuse_links(self) -> None:
        """Refuse links, and what else is neither a file nor a folder, among the files of splitter's own."""
        for folder in (OWN_FOLDER, RECORDS):
            try:
                self._tree.refuse_strangers(folder)
            except FileNotFoundError:
                continue
            except OSError as error:
                raise unwritable(self.root, error) from None

    def prepare(self) -> None:
        """Make the folder; refuse one that holds something else."""
        self.refuse_strange()
        try:
            self._made += _missing(self.root)
            os.makedirs(self.root, exist_ok=True)
            for name in (RECORDS, self.staging):
                self._made += _missing(self.path(name))
                self._tree.make_folder(name)
            # what is synced in them is lost where they are not there themselves
            for folder in dict.fromkeys(map(os.path.dirname, self._made)):
                sync_folder(folder)
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
        with self._lock.hold():
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
        refuse_unclean(self.root, (name,))
        temporary = f"{self.staging}/{name.replace('/', '+')}"
        try:
            with open(temporary, "wb", buffering=1 << 20, opener=self._tree.create) as file:
                yield file
                file.flush()
                if durable:
                    os.fsync(file.fileno())
            self._rename(temporary, name)
            if durable:
                self._sync_folder(os.path.dirname(name))
        except OSError as error:
            raise StorageError.of(error, self.path(name)) from error

    @contextlib.contextmanager
    def working_file(self, name: str) -> Iterator[BinaryIO]:
        """An empty file to write and to read, which is of use to this run only.

        One that an earlier run has left stays until `settle`, or until this run has come to its end.
        """
        new = self._new(name)
        try:
            file = open(new, "w+b", opener=self._tree.create)  # noqa: SIM115 - closed below
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
                self._tree.unlink(new)
            raise
        try:
            file.close()
        except OSError as error:
            raise StorageError.of(error, self.path(name)) from error
        self.publish_file(name)

    def publish_file(self, name: str) -> None:
        """Give a working file its name: this run will not be refused any more."""
        if name in self._settled:
            return
        try:
            # a signal may have come right after it was renamed
            if self._tree.exists(self._new(name)):
                self._sync_file(self._new(name))
                self._rename(self._new(name), name)
            self._settled.add(name)
            self._sync_folder(os.path.dirname(name))
        except OSError as error:
            raise StorageError.of(error, self.path(name)) from error

    def _new(self, name: str) -> str:
        return f"{name}.{self.part.name}.new" if self.part else f"{name}.new"

    def names(self, folder: str) -> list[str]:
        """The names in a folder, sorted."""
        with self._reading(folder):
            try:
                return sorted(self._tree.names(folder))
            except FileNotFoundError:
                return []

    def on_disk(self, name: str) -> str:
        """The file itself."""
        self.open(name).close()
        return self.path(name)

    def open(self, name: str) -> BinaryIO:
        """A file to read from; none of a run's own has a gap, where a few bytes could take all memory."""
        with self._reading(name):
            file = open(name, "rb", opener=self._tree.open)  # noqa: SIM115 - for whoever asks
            if is_mostly_nothing(file.fileno()):
                size = os.fstat(file.fileno()).st_size
                file.close()
                what = f"is damaged ({size:,} bytes, of which most were never written)"
                raise StorageError(f"{self.path(name)}: {what}; remove it, and start over with --fresh")
            return file

    @contextlib.contextmanager
    def _reading(self, name: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            reason = f"{error.strerror}; mend that and run the same command again to continue"
            raise StorageError(f"cannot read {self.path(name)}: {reason}") from error

    def exists(self, name: str) -> bool:
        """Whether a name is there."""
        with self._reading(name):
            return self._tree.exists(name)

    # -- outputs

    def remove(self, names: Iterable[str]) -> None:
        """Delete files, and the folders that this leaves empty; missing ones are no error."""
        folders = set()
        try:
            for name in names:
                self._unlink(name)
                folders.add(os.path.dirname(name))
            for folder in sorted(folders, reverse=True):
                self._remove_empty(folder)
        except OSError as error:
            raise StorageError.of(error, self.root) from error

    def _remove_empty(self, folder: str) -> None:
        while folder and folder.partition("/")[0] != OWN_FOLDER:
            try:
                self._remove_folder(folder)
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
        folder, source = os.path.dirname(names[0]), self._name_of(staged)
        left = names[::-1]
        for patience in reversed(range(PATIENCE)):
            try:
                self._make_folder(os.path.dirname(folder))
                # what has its name already cannot be staged any more
                if len(left) < len(names) or not self._publish_whole(source, folder):
                    self._publish_into(source, left)
            except FileNotFoundError as error:
                # another worker removed it, or what it is in, which its stale outputs had left empty
                self._known_folders.clear()
                if not patience:
                    raise StorageError.of(error, self.path(folder)) from error
            except OSError as error:
                raise StorageError.of(error, self.path(folder)) from error
            else:
                return

    def _name_of(self, staged: str) -> str:
        """What a staged folder is called in the output folder."""
        return staged.removeprefix(f"{self.root}/")

    def _publish_whole(self, source: str, folder: str) -> bool:
        """Give a staged folder its name; False if something is in a folder of that name."""
        try:
            self._rename(source, folder)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            return False
        return True

    def _publish_into(self, source: str, left: list[str]) -> None:
        """Move the files that are left, from the end on, into a folder; FileNotFoundError if it is gone."""
        while left:
            try:
                self._rename(f"{source}/{os.path.basename(left[-1])}", left[-1])
            except FileNotFoundError:
                raise
            except OSError as error:
                raise StorageError.of(error, self.path(left[-1])) from error
            left.pop()

    def _make_folder(self, name: str) -> None:
        if name not in self._known_folders:
            self._tree.make_folder(name)
            self._known_folders.add(name)

    def move(self, source: str, target: str) -> bool:
        """Rename a file, and make the folder that it goes to; False if it is not there."""
        for patience in reversed(range(PATIENCE)):
            try:
                self._make_folder(os.path.dirname(target))
                self._rename(source, target)
            except FileNotFoundError as error:
                if not self.exists(source):
                    return False
                self._known_folders.clear()
                if not patience:
                    raise StorageError.of(error, self.path(target)) from error
            except OSError as error:
                raise StorageError.of(error, self.path(target)) from error
            else:
                return True
        raise AssertionError

    def sync(self, names: Iterable[str]) -> None:
        """Sync files and all folders above them, or the file system where there are many."""
        chosen = sorted(names)
        try:
            if len(chosen) > FEW_NAMES and sync_file_system(self.root):
                return
            folders = {""}
            for name in chosen:
                with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                    self._sync_file(name)
                while name := os.path.dirname(name):
                    folders.add(name)
            for folder in sorted(folders, reverse=True):
                with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                    self._sync_folder(folder)
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
            found = self._tree.look(folder)
        except FileNotFoundError:
            return False
        except NotADirectoryError:
            raise NameTaken.of(folder, "lies below a file") from None
        except InTheWay as error:
            raise NameTaken.of(folder, f"cannot be used ({error.strerror})") from None
        if not stat.S_ISDIR(found.st_mode):
            what = "link" if stat.S_ISLNK(found.st_mode) else "file"
            raise NameTaken.of(folder, f"is a {what}, where its folder must be")
        return True

    def refuse_taken(self, name: str, size: int, checksum: str, own: Collection[str]) -> None:
        """Look at the file that has the name, if there is one."""
        try:
            found = self._tree.look(name)
        except FileNotFoundError:
            return
        beside = [other for other in own if os.path.dirname(other) == os.path.dirname(name)]
        there = (self._tree.look(other) for other in beside if self._tree.exists(other))
        if any(os.path.samestat(found, other) for other in there):
            # another name of it, where case does not count
            return
        same = stat.S_ISREG(found.st_mode) and found.st_size == size
        if not same or measure(self.on_disk(name))[1] != checksum:
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
        return io.FileIO(self._tree.open(name, os.O_RDONLY))

    def output_size(self, name: str) -> int | None:
        """One look, and nothing opened."""
        try:
            found = self._tree.look(name)
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
                listing = self._tree.listing(folder.rstrip("/"))
                with listing as descriptor, os.scandir(descriptor) as entries:
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
        name = f"{self.staging}/{batch}"
        try:
            self._tree.remove_tree(name)
            self._tree.make_folder(os.path.dirname(name))
            self._tree.mkdir(name)
        except OSError as error:
            raise StorageError.of(error, self.path(name)) from error
        return self.path(name)

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
        self._tree.remove_tree(f"{self.staging}/{batch}")

    def clear_staging(self) -> None:
        """Remove what earlier runs left on its way; a part, what is its own. Only under the lock."""
        for name in [f"{self.staging}/{one}" for one in self.names(self.staging)]:
            try:
                if stat.S_ISDIR(self._tree.look(name).st_mode):
                    self._tree.remove_tree(name)
                else:
                    self._unlink(name)
            except OSError as error:
                raise StorageError.of(error, self.path(name)) from error


def _missing(path: str) -> list[str]:
    """Those of a folder and the folders it is in that are not there."""
    missing = []
    while not os.path.lexists(path):
        missing.append(path)
        path = os.path.dirname(path)
    return missing
