"""The output folder: whole or not at all."""

import contextlib
import errno
import os
import shutil
import signal
from pathlib import Path

import pytest

from splitter.errors import Interrupted, Refused, StorageError
from splitter.storage.base import STAGING
from splitter.storage.folder import LocalStorage

NUMBERS = ("one", "two", "three")


@pytest.fixture
def storage(folder: Path) -> LocalStorage:
    storage = LocalStorage(str(folder / "outputs"))
    storage.prepare()
    return storage


def stage(storage: LocalStorage, **files: str) -> str:
    """A staged folder with some files."""
    staged = Path(storage.stage("batch"), "0")
    staged.mkdir()
    for name, content in files.items():
        (staged / name).write_text(content)
    return str(staged)


def found(storage: LocalStorage) -> dict[str, str]:
    """The files of the output but splitter's own."""
    root = Path(storage.root)
    names = [path.relative_to(root) for path in root.rglob("*") if path.is_file()]
    return {str(name): (root / name).read_text() for name in names if name.parts[0] != ".splitter"}


# -- one file --------------------------------------------------------------------------------------------


def test_a_file_takes_its_name_when_it_is_whole(storage: LocalStorage):
    """Until the block ends there is nothing, or what was there before."""
    with storage.replacing("manifest.csv") as file:
        file.write(b"first")
        file.flush()
        assert not storage.exists("manifest.csv")
    with storage.replacing("manifest.csv") as file:
        file.write(b"second")
        file.flush()
        assert storage.read("manifest.csv") == b"first"
    assert storage.read("manifest.csv") == b"second"


@pytest.mark.parametrize("kind", [KeyboardInterrupt, ValueError, Refused])
def test_a_working_file_that_is_left_by_an_error_takes_nothing_away(storage: LocalStorage, kind):
    """Half a list never stands in the place of a whole one; once it is settled it stays."""
    with storage.working_file(".splitter/dataset.csv") as file:
        file.write(b"before")
    with contextlib.suppress(kind), storage.working_file(".splitter/other.csv") as file:
        file.write(b"whole")
        file.flush()
        storage.publish_file(".splitter/other.csv")
        raise kind
    again = LocalStorage(storage.root)
    with contextlib.suppress(kind), again.working_file(".splitter/dataset.csv") as file:
        file.write(b"half of")
        raise kind
    assert storage.read(".splitter/dataset.csv") == b"before"
    assert storage.read(".splitter/other.csv") == b"whole"
    assert not [name for name in storage.names(".splitter") if ".new" in name]


def test_a_file_that_is_left_by_an_error_never_takes_its_name(storage: LocalStorage):
    storage.write("manifest.csv", b"before")
    with contextlib.suppress(ZeroDivisionError), storage.replacing("manifest.csv") as file:
        file.write(b"half of")
        _ = 1 / 0
    assert storage.read("manifest.csv") == b"before"
    storage.clear_staging()
    assert storage.names(STAGING) == []


def test_what_cannot_be_written_is_named_with_the_reason_and_what_to_do(storage: LocalStorage):
    (Path(storage.root) / "manifest.csv" / "in the way").mkdir(parents=True)
    with pytest.raises(
        StorageError, match=r"cannot write .*/manifest\.csv: Is a directory; fix it, then run"
    ):
        storage.write("manifest.csv", b"content")


def test_what_cannot_be_read_is_named_with_the_reason(storage: LocalStorage):
    with pytest.raises(StorageError, match=r"cannot read .*/missing: No such file or directory"):
        storage.read("missing")


# -- a folder of outputs ---------------------------------------------------------------------------------


def test_a_new_folder_appears_with_all_its_files_in_one_step(storage: LocalStorage):
    """It is the staged folder itself, under its final name."""
    staged = stage(storage, one="1", two="2")
    itself = os.stat(staged).st_ino
    storage.publish(staged, ["deep/er/a/one", "deep/er/a/two"])
    assert os.stat(storage.path("deep/er/a")).st_ino == itself
    assert found(storage) == {"deep/er/a/one": "1", "deep/er/a/two": "2"}


def test_files_are_moved_into_a_folder_that_is_there(storage: LocalStorage):
    """What has the same name is replaced, what else is there stays."""
    storage.publish(stage(storage, one="old", three="3"), ["a/one", "a/three"])
    storage.publish(stage(storage, one="1", two="2"), ["a/one", "a/two"])
    assert found(storage) == {"a/one": "1", "a/two": "2", "a/three": "3"}


def test_an_empty_folder_is_no_obstacle(storage: LocalStorage):
    (Path(storage.root) / "a").mkdir()
    storage.publish(stage(storage, one="1"), ["a/one"])
    assert found(storage) == {"a/one": "1"}


def test_a_file_in_the_place_of_a_folder_stops_the_run(storage: LocalStorage):
    (Path(storage.root) / "a").write_text("in the way")
    with pytest.raises(StorageError, match=r"cannot write .*/outputs/a: Not a directory"):
        storage.publish(stage(storage, one="1"), ["a/one"])


class Race(LocalStorage):
    """Another worker removes the last stale output beside, and with it the parent, at the worst moment."""

    losses = 1

    def rename(self, source: str, target: str) -> None:
        if self.losses:
            self.losses -= 1
            self.remove([f"{os.path.dirname(target)}/stale/0.txt"])
        super().rename(source, target)


def test_a_parent_that_another_worker_removes_is_made_again(storage: LocalStorage):
    racing = Race(storage.root)
    racing.losses = 3
    racing.publish(stage(storage, one="1"), ["parent/a/one"])
    assert found(storage) == {"parent/a/one": "1"}


def test_a_parent_that_always_goes_is_named_in_the_end(storage: LocalStorage):
    racing = Race(storage.root)
    racing.losses = 10**6
    with pytest.raises(StorageError, match=r"cannot write .*/parent/a: No such file"):
        racing.publish(stage(storage, one="1"), ["parent/a/one"])


class LateRace(LocalStorage):
    """Another worker removes the folder itself, once it was found to be there."""

    losses = 1

    def _publish_into(self, source: str, left: list[str]) -> None:
        if self.losses:
            self.losses -= 1
            self.remove([f"{os.path.dirname(left[0])}/stale.txt"])
        super()._publish_into(source, left)


def test_a_folder_that_another_worker_removes_is_made_again(storage: LocalStorage):
    """All files are in it, as if it had never been there."""
    storage.publish(stage(storage, **{"stale.txt": "old"}), ["parent/a/stale.txt"])
    LateRace(storage.root).publish(stage(storage, one="1", two="2"), ["parent/a/one", "parent/a/two"])
    assert found(storage) == {"parent/a/one": "1", "parent/a/two": "2"}


class Interfered(LocalStorage):
    """One file cannot be moved at first, though the one before it was."""

    losses = 1

    def rename(self, source: str, target: str) -> None:
        if target.endswith("/two") and self.losses:
            self.losses -= 1
            raise FileNotFoundError(errno.ENOENT, "No such file or directory")
        super().rename(source, target)


def test_what_was_moved_before_is_not_moved_again(storage: LocalStorage):
    storage.publish(stage(storage, there="0"), ["a/there"])
    Interfered(storage.root).publish(stage(storage, one="1", two="2", three="3"), [f"a/{n}" for n in NUMBERS])
    assert found(storage) == {"a/there": "0", "a/one": "1", "a/two": "2", "a/three": "3"}


def test_a_folder_that_goes_with_a_file_of_the_batch_is_named(storage: LocalStorage):
    """The rest alone never appears as if it were all."""

    class Robbed(LocalStorage):
        def rename(self, source: str, target: str) -> None:
            if target.endswith("/two"):
                shutil.rmtree(self.path("a"), ignore_errors=True)
            super().rename(source, target)

    storage.publish(stage(storage, there="0"), ["a/there"])
    with pytest.raises(StorageError, match=r"cannot write .*/outputs/a: No such file"):
        Robbed(storage.root).publish(stage(storage, one="1", two="2"), ["a/one", "a/two"])
    assert found(storage) == {}


def test_removing_files_removes_the_folders_that_this_leaves_empty(storage: LocalStorage):
    for name in ("deep/er/a", "deep/b", ".splitter-notes/c"):
        storage.publish(stage(storage, one="1", two="2"), [f"{name}/one", f"{name}/two"])
    storage.remove(["deep/er/a/one", "deep/er/a/two", "deep/b/one", ".splitter-notes/c/one"])
    assert found(storage) == {"deep/b/two": "2", ".splitter-notes/c/two": "2"}
    assert not storage.exists("deep/er")
    storage.remove(["deep/b/two", ".splitter-notes/c/two"])
    assert os.listdir(storage.root) == [".splitter"]


def test_removing_what_is_not_there_is_no_error(storage: LocalStorage):
    """It was removed before a crash; its folder may have gone, or be a file by now."""
    storage.write("file", b"")
    storage.remove(["missing", "missing/too", "file/below"])
    assert found(storage) == {"file": ""}


def test_records_are_removed_and_their_folder_stays(storage: LocalStorage):
    storage.write(".splitter/records/000001-000000", b"")
    storage.remove([".splitter/records/000001-000000"])
    assert storage.names(".splitter/records") == []
    assert storage.exists(".splitter/records")


# -- staging ---------------------------------------------------------------------------------------------


def test_staging_begins_empty_whatever_was_left(storage: LocalStorage):
    stage(storage, one="left by an earlier run")
    assert os.listdir(storage.stage("batch")) == []


def test_clearing_staging_follows_no_link(storage: LocalStorage, folder: Path):
    stage(storage, one="1")
    (folder / "mine").mkdir()
    (folder / "mine" / "file").write_text("mine")
    Path(storage.path(STAGING), "link").symlink_to(folder / "mine")
    storage.clear_staging()
    assert storage.names(STAGING) == []
    assert (folder / "mine" / "file").read_text() == "mine"


# -- which folders are taken -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["missing", "empty"])
def test_a_new_or_empty_folder_is_taken(folder: Path, name: str):
    (folder / "empty").mkdir()
    LocalStorage(str(folder / name)).prepare()
    LocalStorage(str(folder / name)).prepare()
    assert os.listdir(folder / name) == [".splitter"]


def test_a_folder_that_holds_something_else_is_refused_and_left_alone(folder: Path):
    (folder / "thesis.doc").write_text("years of work")
    with pytest.raises(
        Refused, match=r"contains something else \(thesis\.doc\); choose an empty or new folder"
    ):
        LocalStorage(str(folder)).prepare()
    assert os.listdir(folder) == ["thesis.doc"]


def test_a_file_is_refused(folder: Path):
    (folder / "file").write_text("")
    with pytest.raises(Refused, match="/file: is a file, not a folder"):
        LocalStorage(str(folder / "file")).prepare()


def test_a_folder_below_a_file_is_refused(folder: Path):
    (folder / "file").write_text("")
    with pytest.raises(Refused, match="/file/outputs: cannot be written"):
        LocalStorage(str(folder / "file" / "outputs")).prepare()


@pytest.mark.parametrize("step", ["rename", "sync_folder"])
def test_a_signal_right_after_a_working_file_was_renamed_does_no_harm(folder: Path, monkeypatch, step: str):
    """The run that is interrupted gives it its name again, to keep what it has done."""
    storage = LocalStorage(str(folder / "out"))
    storage.prepare()
    done = getattr(storage, step)
    with storage.locked(), storage.working_file(".splitter/list") as file:
        file.write(b"content")
        file.flush()

        def interrupted(*names: str) -> None:
            monkeypatch.undo()
            done(*names)
            raise Interrupted(signal.SIGINT)

        monkeypatch.setattr(storage, step, interrupted)
        with pytest.raises(Interrupted):
            storage.publish_file(".splitter/list")
        storage.publish_file(".splitter/list")
    assert (folder / "out" / ".splitter" / "list").read_bytes() == b"content"
