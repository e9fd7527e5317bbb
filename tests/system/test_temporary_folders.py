"""Temporary folders: those of dead processes go, those of others stay; they serve without locks, too."""

import errno
import fcntl
import os
from pathlib import Path

import pytest

from splitter.system import temporary_folders
from splitter.system.temporary_folders import NoTemporarySpace, sweep, temporary_folder


@pytest.fixture(autouse=True)
def shared(tmp_path: Path, monkeypatch) -> Path:
    """The system's temporary folder, for this test alone."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def left_behind(folder: str) -> Path:
    """A folder like this one, of a process that is dead."""
    left = Path(f"{folder}-left")
    left.mkdir()
    (left / "file").touch()
    return left


def test_what_is_left_is_swept_and_what_is_in_use_is_not(shared):
    with temporary_folder() as folder:
        left = left_behind(folder)
        sweep()
        assert not left.exists()
        assert [*shared.iterdir()] == [Path(folder)]
    assert not [*shared.iterdir()]


@pytest.mark.parametrize("what", ["socket.gethostname", "splitter.system.temporary_folders.boot_id"])
def test_a_folder_of_another_machine_is_not_swept(what, monkeypatch):
    """A machine that shares the temporary folder may know nothing of the lock."""
    with temporary_folder() as folder:
        left = left_behind(folder)
        monkeypatch.setattr(what, lambda: "another")
        temporary_folders._prefix.cache_clear()
        try:
            sweep()
            with temporary_folder() as other:
                assert os.path.dirname(other) == os.path.dirname(folder)
            assert left.exists()
        finally:
            temporary_folders._prefix.cache_clear()


@pytest.mark.parametrize("number", [errno.ENOTSUP, errno.ENOLCK, errno.EMFILE, errno.EBADF])
def test_without_locks_there_is_one_folder_that_nobody_sweeps(number, shared, monkeypatch):
    def fails(*_):
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patched:
        patched.setattr(fcntl, "flock", fails)
        with temporary_folder() as folder:
            assert [*shared.iterdir()] == [Path(folder)]
            # another process, which may lock
            patched.undo()
            sweep()
            assert [*shared.iterdir()] == [Path(folder)]
    assert not [*shared.iterdir()]


def test_where_files_belong_to_another_user(shared, monkeypatch):
    """A mount may say of all files that they are somebody's: the folder serves, and none is swept."""
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with temporary_folder() as folder:
        left = left_behind(folder)
        sweep()
        assert {*shared.iterdir()} == {Path(folder), left}
    assert [*shared.iterdir()] == [left]


@pytest.mark.parametrize("always", [False, True])
def test_a_folder_that_another_process_is_about_to_remove_is_not_used(always, shared, monkeypatch):
    flock, asked = fcntl.flock, []

    def taken(*lock):
        asked.append(lock)
        if always or len(asked) < 3:
            raise BlockingIOError
        flock(*lock)

    monkeypatch.setattr(fcntl, "flock", taken)
    monkeypatch.setattr(temporary_folders, "sweep", lambda: None)
    with temporary_folder() as folder:
        assert Path(folder).is_dir()
        assert [*shared.iterdir()] == [Path(folder)]
        assert folder.startswith(f"{shared}/{temporary_folders.UNLOCKED}") == always


def test_a_temporary_folder_that_cannot_be_made_is_named(shared, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", f"{shared}/gone")
    with pytest.raises(NoTemporarySpace, match=f"cannot write temporary files in {shared}/gone: No such"):
        temporary_folder().__enter__()
