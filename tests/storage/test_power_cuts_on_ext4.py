"""Power cuts on a real file system: ext4 in a file, which is copied at the cut, and mounted again.

What the kernel had not written by then is not in the copy.
"""

import contextlib
import filecmp
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from crashes import RECIPE, measured, read_rows, restarted, undisturbed
from doors import write_list
from launcher import environment
from nightly import NIGHTLY

from splitter import read_output

IMAGES = 40 if NIGHTLY else 1
INPUTS = 24


class Disk:
    """An ext4 file system in a file, mounted beside it."""

    def __init__(self, file: Path) -> None:
        self.file, self.folder = file, file.with_name(f"{file.name} mounted")

    def __enter__(self) -> "Disk":
        self.folder.mkdir(exist_ok=True)
        _tool("mount", "-o", "loop", self.file, self.folder)
        return self

    def __exit__(self, *error: object) -> None:
        for _ in range(600):
            # what was killed may be about to end
            with contextlib.suppress(subprocess.CalledProcessError):
                _tool("umount", self.folder)
                return
            time.sleep(0.1)
        _tool("umount", self.folder)

    @property
    def output(self) -> Path:
        return self.folder / "outputs"

    def copied(self, name: str) -> "Disk":
        """The disk as it is at one moment, whatever the kernel still holds in memory.

        Two equal copies show the disk as it was between them: the kernel may write while one is made.
        """
        copy, second = self.file.with_name(name), self.file.with_name(f"{name} once more")
        _tool("cp", "--sparse=always", self.file, copy)
        _tool("cp", "--sparse=always", self.file, second)
        while not filecmp.cmp(copy, second, shallow=False):
            copy, second = second, copy
            _tool("cp", "--sparse=always", self.file, second)
        second.unlink()
        return Disk(copy)


def _tool(*arguments: object) -> None:
    subprocess.run([*map(str, arguments)], check=True, capture_output=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    """An empty one."""
    disk = Disk(tmp_path / "disk")
    try:
        _tool("truncate", "-s", "64M", disk.file)
        _tool("mkfs.ext4", "-q", "-F", disk.file)
        with disk:
            yield disk
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no file system can be mounted here: {error}")


def arguments(folder: Path, output: Path, inputs: int, *options: str) -> list[str]:
    """A run over so many inputs."""
    (folder / "inputs").mkdir(exist_ok=True)
    names = [f"{number}.txt" for number in range(inputs)]
    for name in names:
        text = {"outputs": 3, "end": "ok", "salt": name, "metadata": {"count": 1}}
        if not (folder / "inputs" / name).exists():
            (folder / "inputs" / name).write_text(json.dumps(text))
    write_list(folder / "list.csv", [["input"], *([name] for name in names)])
    chosen = [f"--recipe={RECIPE}:Marked", f"--root={folder}/inputs", f"--output={output}"]
    return ["run", str(folder / "list.csv"), *chosen, *options]


def outputs_of(output: Path) -> set[tuple[str, str]]:
    """What is there, by input and checksum; all of it must be whole."""
    rows = read_rows(output / "manifest.csv")
    for row in rows:
        assert measured(read_output(row, output)) == (row["size"], row["checksum"]), row
    return {(row["input"], row["checksum"]) for row in rows}


CASES = {
    "loose files": [],
    "durable files": ["--durable"],
    "shards": ["--sink=webdataset", "--shard-maxcount=9"],
}


FEW = [("loose files", "after it"), ("durable files", "in the run"), ("shards", "in the run")]
ALL = [(kind, when) for kind in CASES for when in ("in the run", "after it")]


@pytest.mark.parametrize(("kind", "when"), ALL if NIGHTLY else FEW)
def test_after_a_power_cut_a_run_makes_good_what_it_took(folder: Path, disk: Disk, kind: str, when: str):
    """New inputs are done when there are others already, so shards are exchanged."""
    options = CASES[kind]
    reference = folder / "reference"
    assert undisturbed([*arguments(folder, reference, INPUTS, *options), "--workers=0"]).code == 0
    expected = outputs_of(reference)
    chance = random.Random(f"{options} {when}")
    for number in range(IMAGES):
        _tool("rm", "-rf", disk.output)
        before = arguments(folder, disk.output, INPUTS // 2, *options)
        assert undisturbed([*before, "--workers=0"]).code == 0
        os.sync()
        again = arguments(folder, disk.output, INPUTS, *options)
        image = cut(disk, [*again, "--workers=1"], when, chance, f"image {number}")
        found = folder / f"found {number}"
        with image:
            shutil.copytree(image.output, found)
        image.file.unlink()
        ended = restarted([*arguments(folder, found, INPUTS, *options), "--workers=0"])
        assert ended.code == 0, ended.said
        assert outputs_of(found) == expected, ended.said


def cut(disk: Disk, run: list[str], when: str, chance: random.Random, name: str) -> Disk:
    """Cut the power while a run is at work, or after it."""
    records = disk.output / ".splitter" / "records"
    before = set(records.iterdir())
    command = [sys.executable, "-m", "splitter", *run]
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(command, env=environment(), start_new_session=True, **silent)
    try:
        if when == "after it":
            assert process.wait(120) == 0
        while process.poll() is None and set(records.iterdir()) <= before:
            time.sleep(0.001)
        time.sleep(chance.uniform(0, 0.2) if when == "in the run" else chance.uniform(0, 2))
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGSTOP)
        return disk.copied(name)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
