"""What happens between two steps of a run: another process, a death, or time that goes by."""

import json
import os
import random
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest
from crashes import Ended, killed, read_rows, undisturbed
from doors import SHARED, here, read_table, tree, write_files, write_list
from engine.test_protocol import World
from faulty import note, noted
from in_between import TIMEOUT
from launcher import Driver, Launcher, check_manifest
from ledger.test_journal import HEAD, done, record
from nightly import NIGHTLY, STRIDE

from splitter.ledger import journal as journal_module
from splitter.ledger.journal import Journal
from splitter.ledger.protocol import BEGUN
from splitter.storage.folder import LocalStorage
from splitter.storage.layout import RECORDS
from splitter.storage.ownership import LockOwner
from splitter.storage.remote import RemoteStorage
from splitter.verification.check import Verification

pytestmark = pytest.mark.slow

# -- another process ---------------------------------------------------------------------------------------


class Race(LocalStorage):
    """A storage where another process removes the folder that a file is about to be moved to."""

    losses = 0

    def rename(self, source: str, target: str) -> None:
        if self.losses:
            self.losses -= 1
            os.rmdir(self.path(os.path.dirname(target)))
        super().rename(source, target)


@pytest.mark.parametrize("losses", [1, 3])
@pytest.mark.parametrize("move", [True, False])
def test_a_folder_that_goes_while_a_file_is_moved_into_it_is_made_again(
    folder: Path, losses: int, *, move: bool
):
    """The file is not taken for one that was moved before; nor is one of the outputs that are published."""
    storage = Race(str(folder / "outputs"))
    storage.prepare()
    for number in range(2):
        staged = storage.stage("batch")
        Path(staged, "0.txt").write_text(str(number))
        storage.losses = losses
        if move:
            assert storage.move(f"{storage.staging}/batch/0.txt", "deep/er/a/0.txt")
        else:
            storage.publish(staged, ["deep/er/a/0.txt"])
        assert tree(folder / "outputs") == {"deep/er/a/0.txt": str(number).encode()}
        # by another process, of which this one knows nothing
        shutil.rmtree(folder / "outputs/deep/er/a")


def words_to(capfd: Any, words: Path, output: object, *options: str) -> Any:
    return here(
        capfd, "run", words, "--recipe=words", "--root=inputs", f"--output={output}", "--workers=0", *options
    )


@pytest.mark.parametrize("sink", ["files", "webdataset"])
def test_a_run_that_is_taken_over_while_it_publishes_commits_nothing(
    words: Path, folder: Path, capfd, monkeypatch: pytest.MonkeyPatch, sink: str
):
    """The new owner has undone what was begun; a commit would say that it is there."""
    store = fsspec.filesystem("memory")
    output = f"memory://taken/{sink}"
    taken: list[str] = []
    publish = RemoteStorage.publish_all

    def publish_slowly(storage: RemoteStorage, folders: Sequence[Any]) -> None:
        publish(storage, folders)
        if not taken:
            taken.append(f"/taken/{sink}/.splitter/lock-{storage.ownership.number + 1:06d}")
            store.pipe_file(taken[0], LockOwner("elsewhere", run="0" * 16).content())

    monkeypatch.setattr(RemoteStorage, "publish_all", publish_slowly)
    said = words_to(capfd, words, output, f"--sink={sink}")
    assert said.code == 1
    assert "was taken over by process 0 on elsewhere" in said.err
    records = [Path(name).name for name in store.ls(f"/taken/{sink}/.splitter/records", detail=False)]
    assert [name for name in records if not name.endswith(".begun")] == []
    store.pipe_file(taken[0], LockOwner("elsewhere", run="0" * 16, free=True).content())
    assert words_to(capfd, words, output, f"--sink={sink}").code == 0
    assert words_to(capfd, words, folder / "local", f"--sink={sink}").code == 0
    names = [name.removeprefix(f"/taken/{sink}/") for name in store.find(f"/taken/{sink}")]
    made = {name: store.cat(f"/taken/{sink}/{name}") for name in names if not name.startswith(".splitter/")}
    assert made == tree(folder / "local")


def test_a_run_that_is_taken_over_while_it_keeps_a_promise_leaves_the_shards_of_the_next_alone(
    words: Path, folder: Path, capfd, monkeypatch: pytest.MonkeyPatch
):
    """The new owner has kept the promise, and made the shards once more, in another way."""
    store, output = fsspec.filesystem("memory"), "memory://taken/promised"
    lock = "/taken/promised/.splitter/lock-{:06d}"
    rows = words.read_text().splitlines(keepends=True)
    words.write_text("".join(rows[:-1]))
    assert words_to(capfd, words, output, "--sink=webdataset").code == 0
    words.write_text("".join(rows))
    move, later = RemoteStorage.move, []

    def move_late(storage: RemoteStorage, source: str, target: str) -> bool:
        if not later:
            later.append("begun")
            free = LockOwner("elsewhere", run="0" * 16, free=True)
            store.pipe_file(lock.format(storage.ownership.number + 1), free.content())
            later.append(words_to(capfd, words, output, "--sink=webdataset", "--num-chars=3"))
        return move(storage, source, target)

    monkeypatch.setattr(RemoteStorage, "move", move_late)
    said = words_to(capfd, words, output, "--sink=webdataset")
    assert (said.code, later[1].code) == (1, 0), later[1].err
    assert "was taken over" in said.err
    assert words_to(capfd, words, folder / "local", "--sink=webdataset", "--num-chars=3").code == 0
    names = [name.removeprefix("/taken/promised/") for name in store.find("/taken/promised")]
    made = {name: store.cat(f"/taken/promised/{name}") for name in names if not name.startswith(".splitter/")}
    assert made == tree(folder / "local")


@pytest.mark.parametrize("where", ["folder", "store"])
@pytest.mark.parametrize("change", ["a new row", "nothing"])
def test_a_run_that_comes_and_goes_while_another_process_verifies(  # noqa: PLR0913, PLR0917
    words: Path, folder: Path, capfd, monkeypatch: pytest.MonkeyPatch, where: str, change: str
):
    """What was read before it does not fit what is there after it, so nothing is said of either."""
    output = folder / "outputs" if where == "folder" else f"memory://verified/{change}"
    assert words_to(capfd, words, output).code == 0
    assert here(capfd, "verify", output).code == 0
    look = Verification._look

    def look_later(check: Verification, deeper: Any) -> None:
        if change == "a new row":
            write_files(folder / "inputs", {"new.txt": "new"})
            words.write_text(words.read_text() + "new.txt\n")
        assert words_to(capfd, words, output).code == 0
        look(check, deeper)

    monkeypatch.setattr(Verification, "_look", look_later)
    said = here(capfd, "verify", output)
    assert said.code == 2
    assert said.lines[-1].endswith("a run has started there since; verify it when that run has ended")
    monkeypatch.undo()
    assert here(capfd, "verify", output).code == 0


# -- time, and work that is done twice ---------------------------------------------------------------------

RECIPES = SHARED / "in_between.py"
MARKED = [f"--recipe={SHARED / 'marked.py'}:Marked", "--root=inputs", "--workers=0"]


def write_inputs(folder: Path, texts: Mapping[str, str]) -> None:
    """Write inputs with these texts, and their list."""
    write_files(folder / "inputs", dict(texts))
    write_list(folder / "list.csv", [["input"], *([name] for name in texts)])


def work(launcher: Launcher, folder: Path, recipe: str, *options: object) -> Driver:
    """Run one of the recipes with one worker over the list; it notes in folder/log."""
    given = ("--recipe", f"{RECIPES}:{recipe}", "--log", folder / "log", "--root", folder / "inputs")
    output = ("--workers", 1, "--output", folder / "outputs")
    return launcher.run("run", folder / "list.csv", *given, *output, *options)


@pytest.mark.parametrize("sink", ["files", "webdataset"])
def test_a_commit_may_take_longer_than_an_input(launcher: Launcher, folder: Path, sink: str):
    """`--timeout` is for what is processed: no input fails by the store's slowness, none is done twice."""
    names = [f"{number}.txt" for number in range(3)]
    write_inputs(folder, {name: name for name in names})
    run = work(launcher, folder, "SlowStore", "--timeout", TIMEOUT, *in_one_batch(sink))
    assert run.code == 0, run.stderr
    assert [row["input"] for row in read_table(folder / "outputs/manifest.csv")] == names
    assert sorted(noted(folder / "log", "process")) == names


def in_one_batch(sink: str) -> list[object]:
    """The options of a sink, so that a few inputs share a batch."""
    return ["--sink", sink, *(["--batch-size", 10] if sink == "files" else [])]


def test_a_batch_done_together_may_take_as_long_as_all_of_it(launcher: Launcher, folder: Path):
    write_inputs(folder, {f"{number}.txt": "" for number in range(8)})
    run = work(launcher, folder, "SlowTogether", "--timeout", TIMEOUT, "--batch-size", 8)
    assert run.code == 0, run.stderr
    assert "one by one" not in run.stderr
    assert noted(folder / "log", "alone") == []


@pytest.mark.parametrize("sink", ["files", "webdataset"])
def test_a_batch_whose_worker_dies_after_its_commit_is_not_done_again(
    launcher: Launcher, folder: Path, sink: str
):
    """And it is counted once."""
    names = [f"{number}.txt" for number in range(6)]
    write_inputs(folder, {name: name for name in names})
    run = work(launcher, folder, "DiesAfterCommit", *in_one_batch(sink))
    assert run.code == 0, run.stderr
    assert "6 of 6 inputs done" in run.stderr
    assert "was lost" not in run.stderr
    assert len(noted(folder / "log", "died")) == 1
    assert sorted(noted(folder / "log", "process")) == names


DEATHS = {
    "one": ["", "", "", "exit", "", ""],
    "the first": ["exit", "", "", ""],
    "the last": ["", "", "exit"],
    "two": ["", "", "exit", "", "", "exit", "", ""],
    "neighbours": ["", "exit", "exit", "exit", ""],
    "killed": ["", "", "kill", "", ""],
    "killed, and another": ["", "kill", "", "exit", "", "kill", ""],
    "killed once": ["", "", "kill once", "", ""],
}
TRIES = {"": 2, "exit": 2, "kill": 3, "kill once": 2}


@pytest.mark.parametrize("texts", DEATHS.values(), ids=DEATHS)
def test_what_shares_a_batch_with_a_death_is_done_twice_at_most(
    launcher: Launcher, folder: Path, texts: list[str]
):
    """However many deaths there are; only one that may have been killed for another's sake is tried again."""
    inputs = {f"{number}.txt": text for number, text in enumerate(texts)}
    write_inputs(folder, inputs)
    run = work(launcher, folder, "Deadly", "--max-failures", "100%", "--batch-size", 20)
    failed = {name for name, text in inputs.items() if text in ("exit", "kill")}
    assert run.code == bool(failed), run.stderr
    assert {row["input"] for row in read_table(folder / "outputs/errors.csv")} == failed
    assert {row["input"] for row in check_manifest(folder / "outputs")} == set(inputs) - failed
    began = noted(folder / "log", "process")
    times = {name: began.count(name) for name in inputs}
    assert all(1 <= times[name] <= TRIES[text] for name, text in inputs.items()), times
    attempts = {row["input"]: int(row["attempts"]) for row in read_table(folder / "outputs/errors.csv")}
    assert attempts == {name: 3 if inputs[name] == "kill" else 1 for name in failed}


# -- inputs that come and go -------------------------------------------------------------------------------


def meddle(launcher: Launcher, folder: Path, texts: dict[str, str], *options: object) -> Driver:
    """Run over all inputs that stand in the list, after some of them were written anew."""
    write_files(folder / "inputs", texts)
    return work(launcher, folder, "Meddles", *options)


@pytest.mark.parametrize("batch_size", [1, 3])
def test_an_input_that_goes_before_its_turn_keeps_what_it_had(
    launcher: Launcher, folder: Path, batch_size: int
):
    """Its outputs and its rows stay, whatever becomes of those that share its batch."""
    names = ["a.txt", "b.txt", "c.txt"]
    write_list(folder / "list.csv", [["input"], *([name] for name in names)])
    size = ("--batch-size", batch_size)
    first = meddle(launcher, folder, dict.fromkeys(names, "old"), *size)
    assert first.code == 0, first.stderr
    again = meddle(launcher, folder, {"a.txt": "remove b.txt", "b.txt": "newer", "c.txt": "new"}, *size)
    assert again.code == 1
    assert "b.txt" in again.stderr
    made = {"a.txt": "remove b.txt", "b.txt": "old", "c.txt": "new"}
    assert {row["input"]: row["text"] for row in check_manifest(folder / "outputs")} == made
    assert read_table(folder / "outputs/errors.csv") == []
    write_files(folder / "inputs", {"b.txt": "there again"})
    assert meddle(launcher, folder, {}, *size).code == 0
    rows = check_manifest(folder / "outputs")
    assert {row["input"]: row["text"] for row in rows} == {**made, "b.txt": "there again"}


def test_an_input_that_comes_before_its_turn_is_done_once(launcher: Launcher, folder: Path):
    """It is known as it was read: the next run has nothing to do."""
    write_list(folder / "list.csv", [["input"], ["a.txt"], ["b.txt"]])
    for _ in range(2):
        ended = (
            meddle(launcher, folder, {})
            if noted(folder / "log", "process")
            else meddle(launcher, folder, {"a.txt": "write b.txt"}, "--batch-size", 2)
        )
        assert ended.code == 0, ended.stderr
        assert noted(folder / "log", "process") == ["a.txt", "b.txt"]
    texts = {"a.txt": "write b.txt", "b.txt": "has come"}
    assert {row["input"]: row["text"] for row in check_manifest(folder / "outputs")} == texts


def test_an_input_that_is_gone_is_no_fault_of_a_run_for_others(launcher: Launcher, folder: Path):
    """Only a run that is for it says that it keeps what it had."""
    write_list(folder / "list.csv", [["input"], ["a.txt"], ["b.txt"]])
    assert meddle(launcher, folder, {"a.txt": "one", "b.txt": "two"}).code == 0
    (folder / "inputs/b.txt").unlink()
    ended = meddle(launcher, folder, {}, "--limit", 1)
    assert (ended.code, "b.txt" in ended.stderr) == (0, False), ended.stderr
    ended = meddle(launcher, folder, {}, "--limit", 2)
    assert (ended.code, "b.txt" in ended.stderr) == (1, True), ended.stderr


def test_what_fails_again_is_tried_once_though_a_worker_is_lost(launcher: Launcher, folder: Path):
    """--retry-failed is for what an earlier run has left."""
    log = folder / "log"
    write_inputs(folder, {"a.txt": "fail", "b.txt": "lose", "c.txt": "fail"})
    options = ("--batch-size", 1, "--max-failures", "100%")
    assert work(launcher, folder, "Loses", *options).code == 1
    assert sorted(noted(log, "process")) == ["a.txt", "b.txt", "c.txt"]
    log.unlink()
    note(log, "lose", "now")
    again = work(launcher, folder, "Loses", *options, "--retry-failed")
    assert again.code == 1, again.stderr
    assert len(noted(log, "lose")) == 2
    assert sorted(noted(log, "process")) == ["a.txt", "b.txt", "b.txt", "c.txt"]
    assert len(read_table(folder / "outputs/errors.csv")) == 3


# -- marks and promises --------------------------------------------------------------------------------------


def test_a_batch_that_is_committed_leaves_no_mark(words: Path, folder: Path, capfd, monkeypatch):
    """While the run goes on: each that is there is read by whoever looks."""
    begin, there = Journal.begin, []

    def begin_and_look(journal: Journal, batch: str, keys: Sequence[int], names: Sequence[str]) -> None:
        begin(journal, batch, keys, names)
        there.append([name for name in journal.storage.names(RECORDS) if name.endswith(BEGUN)])

    monkeypatch.setattr(Journal, "begin", begin_and_look)
    assert words_to(capfd, words, folder / "outputs", "--batch-size=1").code == 0
    assert [len(marks) for marks in there] == [1, 1, 1, 1]


@pytest.mark.parametrize("interrupted", [False, True])
@pytest.mark.parametrize("listed", ["a b c d", "a b c"])
def test_samples_whose_new_shard_goes_before_it_is_moved_are_made_again(  # noqa: PLR0913, PLR0917
    words: Path, folder: Path, capfd, monkeypatch: pytest.MonkeyPatch, listed: str, interrupted: bool
):
    """Those that were to be taken along as well, whatever is listed then."""
    before = [["input"], ["a.txt"], ["b.txt"], ["c.txt"]]
    write_list(words, before)
    assert words_to(capfd, words, folder / "outputs", "--sink=webdataset").code == 0
    write_list(words, [*before, ["d.txt"]])
    promise = Journal.promise

    def promise_and_lose(journal: Journal, batch: str, *args: Any, **fields: Any) -> None:
        promise(journal, batch, *args, **fields)
        shutil.rmtree(journal.storage.path(f"{journal.storage.staging}/{batch}"))
        if interrupted:
            # so that another one finds the promise
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Journal, "promise", promise_and_lose)
        said = words_to(capfd, words, folder / "outputs", "--sink=webdataset")
    assert said.code == (130 if interrupted else 1)
    assert interrupted or "the files staged there are gone" in said.err
    write_list(words, [["input"], *([f"{letter}.txt"] for letter in listed.split())])
    assert words_to(capfd, words, folder / "outputs", "--sink=webdataset").code == 0
    assert words_to(capfd, words, folder / "fresh", "--sink=webdataset").code == 0
    assert tree(folder / "outputs") == tree(folder / "fresh")


# -- a death while records are merged ------------------------------------------------------------------------


class Mortal(LocalStorage):
    """A storage whose process dies before it removes one more file than it may."""

    left = 10**9

    def unlink(self, path: str) -> None:
        self.left -= 1
        if self.left < 0:
            raise SystemExit
        super().unlink(path)


@pytest.mark.parametrize("seed", range(200 if NIGHTLY else 25))
def test_a_death_while_records_are_merged_brings_nothing_back(
    folder: Path, monkeypatch: pytest.MonkeyPatch, seed: int
):
    """Records that make others void go last, the oldest first: at each step what is done is the same."""
    monkeypatch.setattr(journal_module, "FEW_RECORDS", 2)
    chance = random.Random(seed)
    writers = []
    for _ in range(chance.randint(3, 7)):
        made: dict[int, list[str] | None] = {
            key: chance.choice([[f"{key}/a"], [f"{key}/b", f"{key}/c"], None])
            for key in chance.sample(range(4), chance.randint(0, 2))
        }
        writer = record(made, HEAD)
        for key in {*chance.sample(range(4), chance.randint(0, 2))} - {*made}:
            writer.add_not_done(key)
        writers.append(writer)
    deaths = 0
    while True:
        storage = Mortal(str(folder / f"outputs {deaths}"))
        storage.prepare()
        for number, writer in enumerate(writers):
            Journal(storage).commit(f"{number + 1:06d}-000000", writer)
        before = done(storage)
        journal = Journal(storage)
        journal.load()
        entries = journal.others(np.empty(0, "i8"))
        storage.left = deaths
        try:
            journal.compact(entries)
        except SystemExit:
            assert done(storage) == before
            deaths += 1
        else:
            assert done(storage) == before
            break
    assert deaths == len(writers)
    assert storage.names(RECORDS) == [f"{len(writers) + 1:06d}-compact"]


def test_a_death_while_a_batch_is_undone_leaves_nothing_of_it(folder: Path):
    """Whatever the moment: its names go, and no record brings its inputs back."""
    names = ["a/0", "a/1", "b/0"]
    for deaths in range(len(names) + 2):
        storage = Mortal(str(folder / f"outputs {deaths}"))
        storage.prepare()
        Journal(storage).commit("000001-000000", record({1: ["a/0", "a/1"], 2: ["b/0"], 3: ["c/0"]}, HEAD))
        write_files(Path(storage.root), {**dict.fromkeys(names, "half"), "c/0": "whole"})
        Journal(storage).begin("000002-000000", [1, 2], names)
        storage.left = deaths
        try:
            Journal(storage).recover()
        except SystemExit:
            storage.left = 10**9
            Journal(storage).recover()
        assert done(storage) == {3: ["c/0"]}
        assert tree(folder / f"outputs {deaths}") == {"c/0": b"whole"}
        assert storage.names(RECORDS) == ["000001-000000", "000002-000000"]


# -- a death, and then a command that only reads ------------------------------------------------------------


@pytest.mark.parametrize("sink", ["files", "webdataset"])
def test_after_the_death_of_a_later_run_a_manifest_has_nothing_of_before_its_changes(folder: Path, sink: str):
    """`splitter manifest` goes by the list that is kept: its rows are all of that list, and as they are now.

    Other commands that only read say what is wrong in words, whenever the run has died.
    """
    world = World(folder)
    names = ["a.txt", "b.txt", "deep/c.txt", "d.txt"]
    make = {"outputs": 2, "end": "ok", "metadata": {"count": 1}}
    write_files(folder / "inputs", {name: json.dumps({**make, "salt": "old"}) for name in names})
    dataset = folder / "dataset.csv"
    options = [
        *MARKED,
        f"--sink={sink}",
        *(["--shard-maxcount=2"] if sink != "files" else ["--batch-size=1"]),
    ]

    def run(output: Path, at: int | None = None) -> Ended:
        return killed(["run", str(dataset), *options, f"--output={output}"], at)

    write_list(dataset, [["input", "label"], *([name, "old"] for name in names[:3])])
    assert run(folder / "first").code == 0
    before = rows(folder / "first")
    write_list(
        dataset, [["input", "label", "more"], *([name, "new", name] for name in (names[0], *names[2:]))]
    )
    # a shard never keeps the samples of an input that is not listed any more
    options += ["--prune"] * (sink != "files")
    assert run(folder / "expected").code == 0
    after = rows(folder / "expected")
    seen = set()
    at = 0
    while True:
        at += STRIDE
        output = world.output
        undisturbed_copy(folder / "first", output)
        if not run(output, at).died:
            break
        left = [row["output"].partition("/shard-")[0] for row in read_rows(output / "manifest.csv")]
        assert all((output / name).exists() for name in left), at
        said = undisturbed(["manifest", str(output)])
        assert "Traceback" not in said.said
        if said.code in (0, 1):
            found = rows(output)
            header = (output / "manifest.csv").read_text().partition("\n")[0].split(",")
            is_new = "more" in header
            seen.add((is_new, len(found)))
            assert found <= (after if is_new else before), at
        read_by_others(output, at)
    assert at > 40
    # the list was kept before the first batch, and after it
    assert {is_new for is_new, _ in seen} == {False, True}
    # what is done anew counts again at once
    assert (True, 4) in seen
    assert len(seen) > 3


def test_a_run_that_makes_a_death_good_leaves_nothing_of_it_in_its_own_folder(folder: Path):
    """`.splitter` has the same files as after a run that nobody has killed, but for what that took."""
    make = {"outputs": 2, "end": "ok", "metadata": {"count": 1}}
    names = ["a.txt", "b.txt", "deep/c.txt"]
    write_files(folder / "inputs", {name: json.dumps({**make, "salt": "old"}) for name in names})
    dataset = write_list(folder / "dataset.csv", [["input"], *([name] for name in names)])
    command = ["run", str(dataset), *MARKED, "--sink=webdataset", "--shard-maxcount=2"]
    assert undisturbed([*command, f"--output={folder / 'whole'}"]).code == 0
    for at in range(1, 200, 1 if NIGHTLY else 9):
        output = folder / f"outputs {at}"
        died = killed([*command, f"--output={output}"], at).died
        assert undisturbed([*command, f"--output={output}"]).code == 0
        assert own_files(output) == own_files(folder / "whole"), at
        assert tree(output) == tree(folder / "whole")
        if not died:
            break
    assert at > 40


def own_files(output: Path) -> set[str]:
    """The names in `.splitter`, but for records that are committed."""
    own = output / ".splitter"
    found = {str(path.relative_to(own)) for path in own.rglob("*")}
    return {
        name for name in found if not name.startswith(("records/0", "last_run")) or name.endswith(".begun")
    }


def rows(output: Path) -> set[tuple[tuple[str, str], ...]]:
    """The rows of a manifest, but for where samples are in shards."""
    passed_over = ("output", "shard_offset")
    return {
        tuple(
            (name, text) for name, text in row.items() if "shard_offset" not in row or name not in passed_over
        )
        for row in read_rows(output / "manifest.csv")
    }


def undisturbed_copy(source: Path, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)


OTHERS = (
    ["verify"],
    ["stats"],
    ["report"],
    ["manifest", "--table", "manifest.parquet"],
    ["verify", "--json"],
)


def read_by_others(output: Path, at: int) -> None:
    """One of the other commands, or all of them: each ends in its own words."""
    for command in OTHERS if NIGHTLY else [OTHERS[at % len(OTHERS)]]:
        said = undisturbed([command[0], str(output), *command[1:]])
        assert said.code in (0, 1, 2), said.said
        assert "Traceback" not in said.said, said.said
