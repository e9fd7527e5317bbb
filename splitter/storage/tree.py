"""The files below a folder, reached by descriptors: no link below it is ever followed.

    outputs -> /big/disk/outputs       the folder that the user names may be a link, and is followed once
    outputs/.splitter -> /home/me      links in it are refused: an output folder may come from a stranger

Every name is walked from the folder down, each step relative to the descriptor of the one before. The most
recently used folders stay open, separately in each thread.
"""

import contextlib
import errno
import functools
import os
import secrets
import stat
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, cast

from splitter.storage.names import refuse_unclean

# enough for walking through a folder, without permission to list it
_SEARCH = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_LIST = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
# the errors that a link in place of a folder or file causes, on various systems
_MAYBE_LINK = (errno.ELOOP, errno.ENOTDIR, errno.EMLINK, errno.ENXIO, errno.ENODEV)
_KINDS = {
    stat.S_IFLNK: "a link",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
# how many folders stay open in the first thread, and in each other thread, of which there may be many; a
# step with two names needs both their folders, and the one that the walk starts from
_MOST_OPEN, _MOST_OPEN_IN_A_THREAD = 8, 3
_MOST_NESTED = 32
# smaller files may be read whole, whatever is in them
_SMALL = 16 << 20
# the unit in which stat counts room on disk; no gap is smaller
_BLOCK = 512
# whether the descriptor of an open folder shows that the folder was removed
_TELLS_REMOVAL = sys.platform == "linux"


class InTheWay(OSError):
    """A link, a device or the like found where splitter expects one of its files or folders."""

    def __init__(self, path: str, kind: str) -> None:
        what = (
            "is a link, and links in an output folder are not followed" if kind == "a link" else f"is {kind}"
        )
        super().__init__(errno.ELOOP, f"{path} {what}: remove it")
        self.path, self.is_link = path, kind == "a link"


class _OpenFolders(OrderedDict[str, tuple[int, int, int]]):
    """The open folders of a thread, by name: descriptor, device and inode; closed when the thread ends."""

    def __init__(self) -> None:
        super().__init__()
        first = threading.current_thread() is threading.main_thread()
        self.most = _MOST_OPEN if first else _MOST_OPEN_IN_A_THREAD

    def __del__(self) -> None:
        try:  # noqa: SIM105 - at the end of the program there may be no contextlib left, nor what closes them
            self.close()
        except (AttributeError, TypeError):
            pass

    def close(self) -> None:
        while self:
            _close(self.popitem()[1])


class _OfThread(threading.local):
    """The folders that one thread has open, which no other closes in the middle of a step."""

    def __init__(self) -> None:
        self.folders = _OpenFolders()


_Step = TypeVar("_Step", bound=Callable[..., Any])


def _with_new_descriptors(step: _Step) -> _Step:
    """Repeat a step with newly opened folders, since on NFS another machine may have removed an open one."""

    @functools.wraps(step)
    def done(tree: "Tree", *args: Any) -> Any:  # noqa: ANN401 - as the step
        try:
            return step(tree, *args)
        except OSError as error:
            if error.errno != errno.ESTALE:
                raise
        tree.forget()
        return step(tree, *args)

    return cast("_Step", done)


class Tree:
    """The files below a folder, by names with forward slashes; threads may share it."""

    def __init__(self, root: str) -> None:
        self.root = root
        self._open = _OfThread()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle without the open folders, which belong to this process."""
        return Tree, (self.root,)

    # -- folders

    def _folder(self, name: str) -> int:
        """Return the descriptor of a folder; it stays open at least until another one is requested."""
        opened = self._still_open(name)
        if opened is not None:
            return opened
        steps = name.split("/") if name else []
        start = len(steps)
        opened = None
        while opened is None and start > 0:
            start -= 1
            opened = self._still_open("/".join(steps[:start]))
        if opened is None:
            opened = self._keep("", os.open(self.root, _SEARCH & ~os.O_NOFOLLOW))
        inner = opened
        try:
            for number, step in enumerate(steps[start:], start):
                outer, inner = inner, self._step(inner, step, steps[: number + 1])
                if outer != opened:
                    os.close(outer)
        except BaseException:
            if inner != opened:
                os.close(inner)
            raise
        return self._keep(name, inner) if steps else inner

    def _step(self, folder: int, step: str, way: list[str]) -> int:
        try:
            return os.open(step, _SEARCH, dir_fd=folder)
        except OSError as error:
            self._tell_what_is_there(error, folder, step, "/".join(way))
            raise

    def _still_open(self, name: str) -> int | None:
        """Return the descriptor of a folder if it is open, and still belongs to the folder of that name.

        User code in this process may have closed the descriptor and opened another file with its number, and
        another process may have removed the folder and created it again.
        """
        folders = self._open.folders
        opened = folders.get(name)
        if opened is None:
            return None
        try:
            found = os.fstat(opened[0])
            is_same = opened[1:] == (found.st_dev, found.st_ino)
        except OSError:
            is_same = False
        if is_same and found.st_nlink and self._is_still_there(name, found):
            folders.move_to_end(name)
            return opened[0]
        _close(folders.pop(name))
        return None

    def _is_still_there(self, name: str, found: os.stat_result) -> bool:
        """Return whether a name still leads to an open folder, where the descriptor does not show it."""
        if _TELLS_REMOVAL:
            return True
        with contextlib.suppress(OSError):
            return os.path.samestat(found, os.stat(f"{self.root}/{name}"))
        return False

    def _keep(self, name: str, descriptor: int) -> int:
        found = _stat_or_close(descriptor)
        folders = self._open.folders
        folders[name] = descriptor, found.st_dev, found.st_ino
        if len(folders) > folders.most:
            _close(folders.popitem(last=False)[1])
        return descriptor

    def forget(self) -> None:
        """Close all folders, so that each name is walked again: it may lead to another folder now."""
        self._open.folders.close()

    def _at(self, name: str) -> tuple[int, str]:
        """Return the descriptor of the folder that contains a name, and the last component of the name."""
        refuse_unclean(self.root, (name,))
        folder, _, last = name.rpartition("/")
        return self._folder(folder), last

    def _tell_what_is_there(self, error: OSError, folder: int, step: str, name: str) -> None:
        """Raise InTheWay if a link or the like caused the error."""
        if error.errno not in _MAYBE_LINK:
            return
        with contextlib.suppress(FileNotFoundError):
            if kind := _KINDS.get(stat.S_IFMT(os.lstat(step, dir_fd=folder).st_mode)):
                raise InTheWay(f"{self.root}/{name}", kind) from error

    # -- what is there

    def _refuse_stranger(self, name: str) -> None:
        """Raise InTheWay if a name is neither a file nor a folder."""
        if kind := _KINDS.get(stat.S_IFMT(self.look(name).st_mode)):
            raise InTheWay(f"{self.root}/{name}", kind)

    @_with_new_descriptors
    def look(self, name: str) -> os.stat_result:
        """Return the status of a name; if it is a link, of the link itself."""
        folder, last = self._at(name)
        return os.lstat(last, dir_fd=folder)

    def exists(self, name: str) -> bool:
        """Return whether a name exists."""
        try:
            self.look(name)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    @_with_new_descriptors
    def names(self, folder: str) -> list[str]:
        """Return the names in a folder."""
        with self.listing(folder) as descriptor:
            return os.listdir(descriptor)

    @_with_new_descriptors
    def refuse_strangers(self, folder: str) -> None:
        """Raise InTheWay if a folder contains anything but files and folders."""
        with self.listing(folder) as descriptor, os.scandir(descriptor) as entries:
            for entry in entries:
                if entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False):
                    continue
                # it may be gone by now
                with contextlib.suppress(FileNotFoundError):
                    self._refuse_stranger(f"{folder}/{entry.name}")

    @contextlib.contextmanager
    def listing(self, folder: str) -> Iterator[int]:
        """Open a new descriptor for listing or syncing a folder, and close it afterwards."""
        descriptor = self._list(folder)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    @_with_new_descriptors
    def _list(self, folder: str) -> int:
        return os.open(".", _LIST, dir_fd=self._folder(folder))

    # -- files

    @_with_new_descriptors
    def open(self, name: str, flags: int, mode: int = 0o666) -> int:
        """Open a plain file; raise OSError for anything else, which could block or lead elsewhere."""
        folder, last = self._at(name)
        try:
            descriptor = os.open(
                last, flags | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, mode, dir_fd=folder
            )
        except OSError as error:
            self._tell_what_is_there(error, folder, last, name)
            raise
        found = _stat_or_close(descriptor).st_mode
        if stat.S_ISREG(found):
            return descriptor
        os.close(descriptor)
        raise OSError(errno.EINVAL, f"it is {_KINDS.get(stat.S_IFMT(found), 'a folder')}, not a plain file")

    def create(self, name: str, flags: int) -> int:
        """Create an empty file, replacing one that a dead run left; raise InTheWay for a link or the like."""
        flags |= os.O_CREAT | os.O_EXCL
        try:
            return self.open(name, flags)
        except FileExistsError:
            self._refuse_stranger(name)
            self.unlink(name)
            return self.open(name, flags)

    # -- changes

    @_with_new_descriptors
    def make_folder(self, name: str) -> None:
        """Create a folder and the folders above it, as far as they do not exist."""
        if name:
            refuse_unclean(self.root, (name,))
        steps = name.split("/")
        there = len(steps)
        while not self._is_folder("/".join(steps[:there])):
            there -= 1
        for number in range(there, len(steps)):
            with contextlib.suppress(FileExistsError):
                self.mkdir("/".join(steps[: number + 1]))

    def _is_folder(self, name: str) -> bool:
        """Return whether a folder exists; raise FileNotFoundError if the root is missing."""
        try:
            self._folder(name)
        except FileNotFoundError:
            if not name:
                raise
            return False
        return True

    @_with_new_descriptors
    def mkdir(self, name: str) -> None:
        """Create one folder, which must not exist."""
        folder, last = self._at(name)
        os.mkdir(last, dir_fd=folder)

    @_with_new_descriptors
    def rename(self, source: str, target: str) -> None:
        """Rename a file or folder; if the target is a link, replace the link without following it."""
        folder, last = self._at(source)
        new_folder, new_last = self._at(target)
        try:
            os.rename(last, new_last, src_dir_fd=folder, dst_dir_fd=new_folder)
        except OSError as error:
            self._tell_what_is_there(error, new_folder, new_last, target)
            raise

    @_with_new_descriptors
    def unlink(self, name: str) -> None:
        """Remove a file or a link; never what a link leads to."""
        folder, last = self._at(name)
        os.unlink(last, dir_fd=folder)

    @_with_new_descriptors
    def rmdir(self, name: str) -> None:
        """Remove an empty folder."""
        folder, last = self._at(name)
        os.rmdir(last, dir_fd=folder)

    def remove_tree(self, name: str) -> None:
        """Remove a file, or a folder with its contents, as far as possible; links are not followed."""
        with contextlib.suppress(OSError):
            self.look(name)
            folder, last = self._at(name)
            left = [last]
            while left:
                _remove(folder, left.pop(), folder, left)


def _remove(folder: int, name: str, top: int, later: list[str], depth: int = 0) -> None:
    """Remove a name in a folder and everything below; move what is nested too deep to the top, for later."""
    with contextlib.suppress(OSError):
        if not stat.S_ISDIR(os.lstat(name, dir_fd=folder).st_mode):
            os.unlink(name, dir_fd=folder)
            return
        if depth == _MOST_NESTED:
            later.append(f"removing-{secrets.token_hex(8)}")
            os.rename(name, later[-1], src_dir_fd=folder, dst_dir_fd=top)
            return
        inner = os.open(name, _LIST | os.O_NOFOLLOW, dir_fd=folder)
        try:
            for one in os.listdir(inner):
                _remove(inner, one, top, later, depth + 1)
        finally:
            os.close(inner)
        os.rmdir(name, dir_fd=folder)


def is_mostly_nothing(descriptor: int) -> bool:
    """Return whether a file is large because of a gap, which takes no room on disk but does in memory.

    Little room on disk alone proves nothing, since some file systems compress; nor does a gap alone, since
    copying may turn zeros into one. And some file systems without gaps report one at the start.
    """
    found = os.fstat(descriptor)
    size = found.st_size
    if size <= _SMALL or found.st_blocks * _BLOCK >= size // 2 or not hasattr(os, "SEEK_HOLE"):
        return False
    try:
        hole = os.lseek(descriptor, 0, os.SEEK_HOLE)
        os.lseek(descriptor, 0, os.SEEK_SET)
        return hole < size and not any(os.pread(descriptor, _BLOCK, hole))
    except OSError:
        return False


def _stat_or_close(descriptor: int) -> os.stat_result:
    try:
        return os.fstat(descriptor)
    except OSError:
        os.close(descriptor)
        raise


def _close(opened: tuple[int, int, int]) -> None:
    """Close a folder, unless its descriptor number belongs to another file by now."""
    with contextlib.suppress(OSError):
        try:
            found = os.fstat(opened[0])
        except OSError as error:
            # fstat fails on a stale NFS folder, which is still open
            is_same = error.errno != errno.EBADF
        else:
            is_same = (found.st_dev, found.st_ino) == opened[1:]
        if is_same:
            os.close(opened[0])
