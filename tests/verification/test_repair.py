"""`--repair` makes again what is damaged or gone, and nothing else."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from doors import Said, here, read_table, tree, write_files, write_list
from launcher import FAULTY
from object_store import Bucket

import splitter
from splitter.storage.layout import shard_of

TEXTS = {f"in/{number}.txt": f"text {number} " * 20 for number in range(6)}


class Outputs:
    """A run's outputs, and what a run that nothing has happened to has made."""

    def __init__(self, folder: Path, capfd: pytest.CaptureFixture[str], *options: str) -> None:
        write_files(folder, TEXTS)
        self.dataset = write_list(folder / "list.csv", [["input"], *([name] for name in TEXTS)])
        self.out, self._capfd, self._log, self._options = folder / "out", capfd, folder / "log", options
        assert self.run().code == 0
        self.whole = tree(self.out)

    def run(self, *options: str, command: str = "run") -> Said:
        self._log.unlink(missing_ok=True)
        recipe = ("--recipe", f"{FAULTY}:Faulty", "--log", self._log, "--workers", "1")
        return here(
            self._capfd, command, self.dataset, *recipe, "--output", self.out, *self._options, *options
        )

    @property
    def processed(self) -> list[str]:
        """The inputs that the last run processed."""
        lines = self._log.read_text().splitlines() if self._log.exists() else []
        return sorted(line.removeprefix("process ") for line in lines)

    def path(self, number: int) -> Path:
        """The first file with outputs of an input."""
        rows = [row for row in read_table(self.out / "manifest.csv") if row["input"] == f"in/{number}.txt"]
        return self.out / (shard_of(rows[0]["output"])[0] or rows[0]["output"])


def flip(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


def one_is_quick(damages: dict[str, Callable[[Path], None]], quick: str):
    """Return the parameters of a test; but for one of them it is slow."""
    slow = pytest.mark.slow
    return [
        pytest.param(damage, id=name, marks=() if name == quick else slow) for name, damage in damages.items()
    ]


LOOSE: dict[str, Callable[[Path], None]] = {
    "a byte": lambda path: flip(path, 7),
    "cut": lambda path: os.truncate(path, 5),
    "gone": Path.unlink,
    "its folder gone": lambda path: shutil.rmtree(path.parent),
    "a link": lambda path: (path.unlink(), path.symlink_to(os.devnull)),
}


@pytest.mark.parametrize("damage", one_is_quick(LOOSE, "gone"))
def test_a_loose_output_is_made_again(folder, capfd, damage):
    """Its input alone is processed; the tree is that of a run that nothing has happened to."""
    outputs = Outputs(folder, capfd)
    damage(outputs.path(2))
    damage(outputs.path(4))
    assert "next: run the same 'splitter run' command with --repair" in here(capfd, "verify", outputs.out).out
    # a run that is not asked to look sees nothing
    assert "nothing to do" in outputs.run().err
    plan = json.loads(outputs.run("--repair", "--json", command="plan").out)
    assert (plan["changed"], plan["done"]) == (2, 4)
    said = outputs.run("--repair")
    assert said.code == 0
    assert "--repair: outputs of 2 inputs are damaged or missing (in/2.txt, in/4.txt)" in said.err
    assert "changed" not in said.err
    assert outputs.processed == ["in/2.txt", "in/4.txt"]
    assert tree(outputs.out) == outputs.whole
    assert here(capfd, "verify", outputs.out).code == 0
    assert "nothing to do: 6 inputs, all finished" in outputs.run("--repair").err


IN_SHARDS: dict[str, Callable[[Path], None]] = {
    "a byte of a content": lambda path: flip(path, path.read_bytes().index(b"text 2")),
    "a byte of what stands around": lambda path: flip(path, 5),
    "cut": lambda path: os.truncate(path, path.stat().st_size // 2),
    "gone": Path.unlink,
}


@pytest.mark.parametrize("sink", ["webdataset", "parquet"])
@pytest.mark.parametrize("damage", one_is_quick(IN_SHARDS, "a byte of a content"))
def test_a_shard_is_made_again(folder, capfd, sink, damage):
    """With all that is good in it, where that can still be read."""
    outputs = Outputs(folder, capfd, "--sink", sink, "--shard-maxcount", "8")
    assert len(list((outputs.out / "shards").iterdir())) > 1
    damage(outputs.path(2))
    said = outputs.run("--repair")
    assert said.code == 0, said.err
    assert "in/2.txt" in outputs.processed
    assert tree(outputs.out) == outputs.whole
    assert here(capfd, "verify", outputs.out).code == 0


def test_an_input_that_is_gone_keeps_what_is_left_of_it(folder, capfd):
    """And is named, so that it can be brought back."""
    outputs = Outputs(folder, capfd)
    outputs.path(2).unlink()
    (folder / "in/2.txt").rename(folder / "elsewhere")
    said = outputs.run("--repair")
    assert said.code == 1
    assert "make in/2.txt readable" in said.err
    assert sorted(path.name for path in (outputs.out / "in/2").iterdir()) == ["right half.txt"]
    (folder / "elsewhere").rename(folder / "in/2.txt")
    assert outputs.run("--repair").code == 0
    assert tree(outputs.out) == outputs.whole


def test_what_failed_and_what_changed_is_told_apart(folder, capfd):
    outputs = Outputs(folder, capfd)
    outputs.path(2).unlink()
    (folder / "in/3.txt").write_text("another text")
    said = outputs.run("--repair")
    assert "note: 1 finished input changed and will be redone" in said.err
    assert "--repair: outputs of 1 input are damaged or missing (in/2.txt)" in said.err
    assert outputs.processed == ["in/2.txt", "in/3.txt"]
    assert here(capfd, "verify", outputs.out).code == 0


def test_in_a_store(folder, capfd, s3: Bucket):
    write_files(folder, TEXTS)
    run = ("run", folder / "in", "--recipe", "words", "--output", s3.url("out"), "--workers", "1", "--quiet")
    assert here(capfd, *run, "--num-chars", "3", "--sink", "webdataset").code == 0
    before = {key: s3.read(key) for key in s3.keys("out/") if ".splitter" not in key}
    verdict = splitter.verify(s3.url("out"))
    assert verdict.ok
    assert here(capfd, *run, "--num-chars", "3", "--sink", "webdataset", "--repair").code == 0
    assert {key: s3.read(key) for key in s3.keys("out/") if ".splitter" not in key} == before
