"""The files below a folder, reached by descriptors that may go stale."""

import errno
import gc
import os
import threading
from pathlib import Path

import pytest

from splitter.storage import tree as tree_module
from splitter.storage.tree import Tree, is_mostly_nothing

LARGE = 17 << 20


@pytest.fixture
def tree(folder: Path) -> Tree:
    tree = Tree(str(folder))
    tree.make_folder("a/b")
    (folder / "a/b/old").write_text("content")
    return tree


def descriptors(folder: Path) -> int:
    """How many of this process lead into a folder."""
    found = 0
    for number in os.listdir("/proc/self/fd"):
        try:
            found += os.readlink(f"/proc/self/fd/{number}").startswith(str(folder))
        except FileNotFoundError:
            continue
    return found


# -- folders that are open -----------------------------------------------------------------------------------


STEPS = {
    "rename": lambda tree: tree.rename("a/b/old", "a/b/new"),
    "unlink": lambda tree: tree.unlink("a/b/old"),
    "lstat": lambda tree: tree.look("a/b/old"),
    "open": lambda tree: os.close(tree.open("a/b/old", os.O_RDONLY)),
    "mkdir": lambda tree: tree.make_folder("a/c/d"),
    "listdir": lambda tree: tree.names("a/b"),
    "scandir": lambda tree: tree.refuse_strangers("a/b"),
}


@pytest.mark.parametrize("call", STEPS)
def test_a_folder_that_is_stale_is_opened_again(tree: Tree, monkeypatch, call: str):
    """Another machine has removed it on NFS, and made it again: by its name it is there."""
    tree.look("a/b/old")
    real, stale = getattr(os, call), []

    def failing(*args, **options):
        if not stale:
            stale.append(True)
            raise OSError(errno.ESTALE, "Stale file handle")
        return real(*args, **options)

    monkeypatch.setattr(os, call, failing)
    STEPS[call](tree)
    assert stale


def test_what_is_gone_from_a_stale_folder_is_not_there(tree: Tree, folder: Path, monkeypatch):
    """Whoever would try again, or let it be, hears what it would hear of a path."""
    tree.look("a/b/old")
    (folder / "a/b/old").unlink()
    (folder / "a/b").rmdir()
    still_open = Tree._still_open
    # the system has not heard of it yet
    monkeypatch.setattr(
        Tree, "_still_open", lambda tree, name: _believed(tree, name) or still_open(tree, name)
    )

    def stale(*args, **options):
        raise OSError(errno.ESTALE, "Stale file handle")

    monkeypatch.setattr(os, "unlink", stale)
    with pytest.raises(FileNotFoundError):
        tree.unlink("a/b/old")


def _believed(tree: Tree, name: str) -> int | None:
    opened = tree._open.folders.get(name)
    return opened[0] if opened else None


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="the system does not list what is open")
def test_a_folder_of_which_nothing_can_be_known_is_closed(tree: Tree, folder: Path, monkeypatch):
    """It would stay open as long as the process."""
    tree.look("a/b/old")
    before, real = descriptors(folder), os.fstat
    mine = {opened[0] for opened in tree._open.folders.values()}

    def stale(descriptor: int) -> os.stat_result:
        if descriptor in mine:
            mine.discard(descriptor)
            raise OSError(errno.ESTALE, "Stale file handle")
        return real(descriptor)

    monkeypatch.setattr(os, "fstat", stale)
    for _ in range(20):
        mine |= {opened[0] for opened in tree._open.folders.values()}
        tree.look("a/b/old")
    assert descriptors(folder) <= before + 1


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="the system does not list what is open")
def test_what_a_thread_has_open_is_closed_with_it(tree: Tree, folder: Path):
    """So is what the tree has open."""
    before = descriptors(folder)
    for _ in range(20):
        thread = threading.Thread(target=tree.look, args=("a/b/old",))
        thread.start()
        thread.join()
    gc.collect()
    assert descriptors(folder) == before > 0
    tree.forget()
    assert not descriptors(folder)


def test_what_is_open_at_the_end_of_the_program_is_left_in_silence(tree: Tree, monkeypatch):
    """Modules may be empty by then; what is raised there would be printed."""
    open_folders = tree._open.folders
    assert open_folders
    with monkeypatch.context() as emptied:
        emptied.setattr(tree_module, "contextlib", None)
        open_folders.__del__()


# -- files that are large by a gap ---------------------------------------------------------------------------


def sought(answer: int | OSError):
    """What a file system says of the first gap."""
    real = os.lseek

    def seek(descriptor: int, offset: int, whence: int) -> int:
        if whence != os.SEEK_HOLE:
            return real(descriptor, offset, whence)
        if isinstance(answer, OSError):
            raise answer
        return answer

    return seek


def test_a_file_that_is_a_gap_is_mostly_nothing(folder: Path):
    """It is read from its start afterwards."""
    with (folder / "gap").open("w+b", buffering=0) as file:
        file.write(b"x")
        file.truncate(LARGE)
        assert is_mostly_nothing(file.fileno())
        assert file.tell() == 0


@pytest.mark.parametrize("answer", [0, LARGE, OSError(errno.EINVAL, "Invalid argument")], ids=str)
def test_a_file_system_that_knows_of_no_gaps_damages_nothing(folder: Path, monkeypatch, answer):
    """A compressing one has little room taken; one in user space may name the start, or refuse."""
    with (folder / "file").open("w+b", buffering=0) as file:
        file.write(b"x")
        file.truncate(LARGE)
        monkeypatch.setattr(os, "lseek", sought(answer))
        assert not is_mostly_nothing(file.fileno())


def test_one_gap_in_a_file_damages_nothing(folder: Path):
    """A copy may have made it of zeros."""
    with (folder / "file").open("w+b", buffering=0) as file:
        file.write(b"x" * (LARGE - (4 << 20)))
        file.seek(3 << 20, os.SEEK_CUR)
        file.write(b"x" * (1 << 20))
        assert not is_mostly_nothing(file.fileno())
