"""Outputs in a folder: staged in `.splitter`, renamed to their final names, removed."""

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TypeVar

from splitter.errors import NameTaken, StorageError
from splitter.options import RunPart
from splitter.storage.base import PATIENCE, staged_is_gone
from splitter.storage.folder_steps import FolderSteps
from splitter.storage.layout import OWN_FOLDER, folders_around
from splitter.storage.tree import InTheWay
from splitter.system.durability import sync_file_system

Done = TypeVar("Done")

LONGEST_PATH, LONGEST_PART = 4000, 255
# in characters, each of at most 4 bytes: always shorter than LONGEST_PART
SHORT_PATH = 63
# for more names than this, syncing the whole file system is faster
FEW_NAMES = 2


class FolderPublishing(FolderSteps):
    """Publishing in a folder, by single renames."""

    def __init__(self, root: str, part: RunPart | None = None) -> None:
        super().__init__(root, part)
        self._known_folders: set[str] = set()

    def stage(self, batch: str) -> str:
        name = f"{self.staging}/{batch}"
        with StorageError.naming(self.path(name)):
            self.tree.remove_tree(name)
            self.tree.make_folder(os.path.dirname(name))
            self.tree.mkdir(name)
        return self.path(name)

    def scratch(self) -> str:
        return self.path(self.staging)

    def park(self, batch: str) -> None:
        top = self.path("")
        below = os.walk(self.path(f"{self.staging}/{batch}"))
        self.sync(f"{folder}/{name}".removeprefix(top) for folder, _, names in below for name in names)

    def unstage(self, batch: str, *, and_parked: bool = True) -> None:
        del and_parked
        self.tree.remove_tree(f"{self.staging}/{batch}")

    def clear_staging(self) -> None:
        for name in [f"{self.staging}/{one}" for one in self.names(self.staging)]:
            # `splitter serve --watch` may remove its mark here at any time
            with StorageError.naming(self.path(name)), contextlib.suppress(FileNotFoundError):
                if stat.S_ISDIR(self.tree.look(name).st_mode):
                    self.tree.remove_tree(name)
                else:
                    self.unlink(name)

    def publish(self, staged: str, names: list[str]) -> None:
        """Publish a folder's files; a folder that does not exist appears with all of them in one step."""
        folder, source = os.path.dirname(names[0]), staged.removeprefix(f"{self.root}/")
        left = names[::-1]

        def step() -> None:
            self._make_folder(os.path.dirname(folder))
            # after some files were moved, the staged folder is no longer complete
            if len(left) < len(names) or not self._publish_whole(source, folder):
                self._publish_into(source, left)

        self._patiently(folder, step)

    def publish_files(self, files: Sequence[tuple[str, str]]) -> None:
        for path, name in files:
            is_moved = self.move(path.removeprefix(f"{self.root}/"), name)
            # on NFS, a rename that was asked for twice has succeeded, and says that there is no such file
            if not (is_moved or self.exists(name)):
                raise staged_is_gone(os.path.dirname(path))

    def _patiently(self, name: str, step: Callable[[], Done]) -> Done:
        """Repeat a step that fails because another worker removed the folder, left empty by stale outputs."""
        with StorageError.naming(self.path(name)):
            for _ in range(PATIENCE - 1):
                with contextlib.suppress(FileNotFoundError):
                    return step()
                self._known_folders.clear()
            return step()

    def _publish_whole(self, source: str, folder: str) -> bool:
        """Give a staged folder its name; return False if a folder of that name exists and is not empty."""
        try:
            self.rename(source, folder)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            return False
        return True

    def _publish_into(self, source: str, left: list[str]) -> None:
        """Move the files in `left` into a folder, last first; raise FileNotFoundError if it is gone."""
        while left:
            try:
                self.rename(f"{source}/{os.path.basename(left[-1])}", left[-1])
            except FileNotFoundError:
                raise
            except OSError as error:
                raise StorageError.of(error, self.path(left[-1])) from error
            left.pop()

    def _make_folder(self, name: str) -> None:
        if name not in self._known_folders:
            self.tree.make_folder(name)
            self._known_folders.add(name)

    def move(self, source: str, target: str) -> bool:
        def step() -> bool:
            try:
                self._make_folder(os.path.dirname(target))
                self.rename(source, target)
            except FileNotFoundError:
                if self.exists(source):
                    raise
                return False
            return True

        return self._patiently(target, step)

    def remove(self, names: Iterable[str]) -> None:
        folders = set()
        with StorageError.naming(self.root):
            for name in names:
                self.unlink(name)
                folders.add(os.path.dirname(name))
            for folder in sorted(folders, reverse=True):
                self._remove_empty(folder)

    def _remove_empty(self, folder: str) -> None:
        while folder and folder.partition("/")[0] != OWN_FOLDER:
            try:
                self.tree.rmdir(folder)
            except OSError as error:
                if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                    return
                if error.errno not in (errno.ENOENT, errno.ENOTDIR):
                    raise
            self._known_folders.clear()
            folder = os.path.dirname(folder)

    def unfit(self, name: str) -> str:
        if len(name) <= SHORT_PATH:
            return ""
        path = self.path(name).encode("utf-8", "surrogateescape")
        long = len(path) > LONGEST_PATH or max(map(len, path.split(b"/"))) > LONGEST_PART
        return "is too long" if long else ""

    def may_hold(self, folder: str, beginning: str = "") -> bool:
        del beginning
        if not folder:
            return True
        try:
            found = self.tree.look(folder)
        except FileNotFoundError:
            return False
        except NotADirectoryError:
            raise NameTaken.of(folder, "is below a file") from None
        except InTheWay as error:
            raise NameTaken.of(folder, f"cannot be used ({error.strerror})") from None
        if not stat.S_ISDIR(found.st_mode):
            what = "link" if stat.S_ISLNK(found.st_mode) else "file"
            raise NameTaken.of(folder, f"is a {what} where a folder must be")
        return True

    def refuse_taken(self, name: str, size: int, checksum: str, own: Collection[str]) -> None:
        try:
            found = self.tree.look(name)
        except FileNotFoundError:
            return
        beside = [other for other in own if os.path.dirname(other) == os.path.dirname(name)]
        there = (self.tree.look(other) for other in beside if self.tree.exists(other))
        if any(os.path.samestat(found, other) for other in there):
            # one of the run's own files under another spelling: this file system ignores case
            return
        same = stat.S_ISREG(found.st_mode) and found.st_size == size
        if not same or self.measured(name) != (size, checksum):
            raise NameTaken.of(name, "already exists")

    def sync(self, names: Iterable[str]) -> None:
        chosen = sorted(names)
        with StorageError.naming(self.root):
            if len(chosen) > FEW_NAMES and sync_file_system(self.root):
                return
            folders = {""}
            for name in chosen:
                with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                    self.sync_file(name)
                folders.update(folders_around(name))
            for folder in sorted(folders, reverse=True):
                with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                    self.sync_folder(folder)

    def sync_all(self) -> bool:
        with StorageError.naming(self.root):
            return sync_file_system(self.root)
