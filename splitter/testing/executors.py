"""What every executor must do: inherit the suite in a test file, and name the executor.

class TestTheirs(ExecutorConformance):
    executor = "theirs"
"""

import csv
import os
import subprocess
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

from splitter import read_output
from splitter.testing import faults
from splitter.testing.faults import noted
from splitter.testing.published import check_manifest, published, read_table

TIMEOUT = 3
MEMORY = "300MB"

# the text of the input -> the error, and the cause that its message must name
TEN: dict[str, tuple[str, str]] = {
    "raise": ("ValueError", "no good"),
    "segfault": ("Crashed", "killed by SIGSEGV"),
    "hang": ("TimedOut", "no result in {timeout} s (--timeout)"),
    "hang in C": ("TimedOut", "no result in {timeout} s (--timeout)"),
    "os._exit": ("Crashed", "exited with code 7"),
    "sys.exit": ("SystemExit", "this input ends here"),
    "allocate": ("MemoryExceeded", "--memory"),
    "ten then raise": ("RuntimeError", "no more than ten"),
    "garbage": ("BadResult", "int 42"),
    "metadata that does not pickle": ("BadResult", "metadata 'lock' is of type lock"),
}
OTHERS: dict[str, tuple[str, str]] = {
    "hang in a regex": ("TimedOut", "no result in {timeout} s (--timeout)"),
    "os._exit(0)": ("Crashed", "exited with code 0"),
    "garbage among outputs": ("BadResult", "str among its outputs"),
    "metadata of an output that does not pickle": ("BadResult", "metadata 'lock' is of type lock"),
    "error that does not pickle": ("Unpicklable", "it holds a lock"),
    "error that does not print": ("Unprintable", "cannot be shown"),
    "error that exits when printed": ("Unspeakable", "cannot be shown"),
    "MemoryError": ("MemoryError", ""),
    "KeyboardInterrupt": ("KeyboardInterrupt", ""),
    "GeneratorExit": ("GeneratorExit", ""),
    "StopIteration": ("StopIteration", ""),
    "recursion": ("RecursionError", "maximum recursion depth"),
    "abort": ("Crashed", "killed by SIGABRT"),
    "SIGKILL": ("Crashed", "killed by SIGKILL"),
    "SIGTERM": ("Crashed", "killed by SIGTERM"),
    "crash in a thread": ("Crashed", "killed by SIGSEGV"),
    "allocate in a child": ("MemoryExceeded", "--memory"),
    "close all files": ("Crashed", ""),
    "kill its group": ("Crashed", "killed by SIGTERM"),
}


def good_inputs(count: int) -> dict[str, str]:
    """Return inputs that cause no trouble, in a few folders."""
    return {
        f"part {number % 3}/wörd-{number:04d}.txt": f"good {number} " * (number % 5)
        for number in range(count)
    }


def with_faults(texts: Mapping[str, str], names: Collection[str]) -> dict[str, str]:
    """Return the texts, some of them replaced by the faults at even distances."""
    every = len(texts) // len(names)
    return {**texts, **dict(zip(list(texts)[every // 2 :: every], names, strict=False))}


def make_inputs(folder: Path, texts: Mapping[str, str]) -> Path:
    """Write input files and their list, with a label for each; return the list."""
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    with (folder / "dataset.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("input", "label"), *((name, f"label of {name}") for name in texts)])
    return folder / "dataset.csv"


@dataclass(frozen=True)
class Ended:
    """A command line that has ended."""

    code: int | None
    stderr: str


class ExecutorConformance:
    """Tests that go through the command line, so that they see what a user sees.

    Attributes:
        executor: The name of the executor.
        options: Options of every run.
        most_workers: How many worker processes may share the batches of a run with `--workers 2`.
    """

    executor: ClassVar[str]
    options: ClassVar[list[str]] = []
    most_workers: ClassVar[int] = 2

    @pytest.fixture(autouse=True)
    def _in_a_folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path / "it's a naïve folder"
        self.folder.mkdir(exist_ok=True)
        self.output, self.log = self.folder / "outputs", tmp_path / "log"

    def run(self, recipe: str, dataset: Path, *options: object, output: Path | None = None) -> Ended:
        """Run a recipe of `splitter.testing.faults` to its end."""
        return self.splitter(
            *("run", dataset, "--recipe", f"{faults.__file__}:{recipe}"),
            *("--executor", self.executor, "--output", output or self.output, *self.options, *options),
        )

    def splitter(self, *arguments: object) -> Ended:
        """Run a command line to its end."""
        done = subprocess.run(
            [sys.executable, "-m", "splitter", *map(str, arguments)],
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        return Ended(done.returncode, done.stderr)

    def done(self) -> dict[str, list[dict[str, str]]]:
        """Return the rows of the manifest by input, each checked against its file."""
        found: dict[str, list[dict[str, str]]] = {}
        for row in check_manifest(self.output):
            found.setdefault(row["input"], []).append(row)
        return found

    def errors(self) -> dict[str, dict[str, str]]:
        """Return the rows of errors.csv by input."""
        rows = read_table(self.output / "errors.csv")
        assert len({row["input"] for row in rows}) == len(rows)
        return {row["input"]: row for row in rows}

    def check_split(self, texts: Mapping[str, str], timeout: int = TIMEOUT) -> None:
        """Check that errors.csv has exactly the faulty inputs, with causes; all others are done and whole."""
        causes = {**TEN, **OTHERS}
        errors, done = self.errors(), self.done()
        bad = {name: text for name, text in texts.items() if text in causes}
        assert {name: texts[name] for name in errors} == bad
        for name, row in errors.items():
            error, cause = causes[texts[name]]
            assert row["error"] == error, row
            assert cause.format(timeout=timeout) in row["message"], row
            assert row["label"] == f"label of {name}"
        good = {name: text for name, text in texts.items() if name not in bad}
        assert list(done) == list(good)
        expected = {}
        for name, text in good.items():
            middle = len(text) // 2
            own = Path(name).with_suffix("").as_posix()
            outputs = {f"{own}/left.txt": text[:middle], f"{own}/right half.txt": text[middle:]}
            assert [row["output"] for row in done[name]] == list(outputs)
            assert {row["length"] for row in done[name]} == {str(len(text))}
            expected.update({output: content.encode() for output, content in outputs.items()})
        found = published(self.output)
        del found["manifest.csv"]
        found.pop("errors.csv", None)
        assert found == expected

    def test_ten_bad_inputs_among_a_thousand(self) -> None:
        """Ten faults are ten rows in errors.csv, 990 are done; --retry-failed tries the ten and no other."""
        texts = with_faults(good_inputs(1000), TEN)
        dataset = make_inputs(self.folder / "data", texts)
        limits = ("--workers", 2, "--timeout", TIMEOUT, "--memory", MEMORY, "--log", self.log)

        run = self.run("Faulty", dataset, *limits)
        assert run.code == 1, run.stderr
        assert "990 of 1,000 inputs done, 10 failed" in run.stderr
        assert "--retry-failed" in run.stderr
        self.check_split(texts)
        assert len(self.errors()) == len(TEN)
        first = published(self.output)
        before = stamps(self.output)

        self.log.unlink()
        again = self.run("Faulty", dataset, *limits)
        assert again.code == 1, again.stderr
        assert noted(self.log, "process") == []
        assert published(self.output) == first

        retried = self.run("Faulty", dataset, *limits, "--retry-failed")
        assert retried.code == 1, retried.stderr
        assert set(noted(self.log, "process")) == {name for name, text in texts.items() if text in TEN}
        assert published(self.output) == first
        assert stamps(self.output) == before

        fixed = {name: "fixed" for name, text in texts.items() if text in TEN}
        for name, text in fixed.items():
            (self.folder / "data" / name).write_text(text)
        self.log.unlink()
        last = self.run("Faulty", dataset, *limits)
        assert last.code == 0, last.stderr
        assert sorted(noted(self.log, "process")) == sorted(fixed)
        self.check_split({**texts, **fixed})
        assert not (self.output / "errors.csv").exists()

    def test_the_strangest_ends(self) -> None:
        """However an input ends its process, it gets one row, and the others in its batch are done."""
        texts = with_faults(good_inputs(2 * len(OTHERS)), OTHERS)
        dataset = make_inputs(self.folder / "data", texts)
        limits = ("--workers", 2, "--timeout", TIMEOUT, "--memory", MEMORY)
        run = self.run("Faulty", dataset, *limits, "--batch-size", 8)
        assert run.code == 1, run.stderr
        self.check_split(texts)

    def test_a_batch_of_nothing_but_faults(self) -> None:
        """A batch finishes even if each of its inputs ends the process."""
        names = ["segfault", "os._exit", "abort", "segfault", "crash in a thread", "os._exit(0)"]
        texts = {f"{number}.txt": fault for number, fault in enumerate(names)}
        dataset = make_inputs(self.folder / "data", texts)
        run = self.run("Faulty", dataset, "--workers", 1, "--batch-size", len(texts))
        assert run.code == 1, run.stderr
        self.check_split(texts)

    def test_skip_is_not_an_error(self) -> None:
        """A skipped input is in the manifest with its reason, and the exit code is 0."""
        dataset = make_inputs(self.folder / "data", {"a.txt": "one", "b.txt": "skip", "c.txt": "two"})
        run = self.run("Faulty", dataset, "--workers", 2)
        assert run.code == 0, run.stderr
        assert [row["skipped"] for row in self.done()["b.txt"]] == ["not wanted"]
        assert self.errors() == {}

    def test_workers_and_batch_size_do_not_show(self) -> None:
        """The files and the manifest are the same for any number of workers and any batch size."""
        texts = with_faults(good_inputs(60), ["raise", "ten then raise", "skip", "garbage"])
        dataset = make_inputs(self.folder / "data", texts)
        found = []
        for number, (workers, size) in enumerate([(1, 60), (2, 7), (2, None), (3, 25)]):
            output = self.folder / f"outputs {number}"
            options = ["--workers", workers, *([] if size is None else ["--batch-size", size])]
            run = self.run("Faulty", dataset, *options, output=output)
            assert run.code == 1, run.stderr
            found.append(published(output))
        assert len(found[0]) == 2 * (60 - 4) + 2
        assert all(one == found[0] for one in found[1:])

    def test_shards_do_not_show_how_they_were_made(self) -> None:
        """An input that ends its process leaves no trace in its shard; once fixed, it is where it belongs."""
        # groups of a thousand
        texts = with_faults(good_inputs(2100), ["raise", "segfault", "os._exit", "skip"])
        dataset = make_inputs(self.folder / "data", texts)
        sink = ("--sink", "webdataset", "--shard-maxcount", 700)
        run = self.run("Faulty", dataset, "--workers", 2, *sink)
        assert run.code == 1, run.stderr
        shards = {name for name in published(self.output) if name.startswith("shards/")}
        parts = ("000000", "000000-1", "000000-2", "000001", "000001-1", "000001-2", "000002")
        assert shards == {f"shards/shard-{part}.tar" for part in parts}
        assert {texts[name] for name in self.errors()} == {"raise", "segfault", "os._exit"}
        for name, text in texts.items():
            if text in TEN:
                (self.folder / "data" / name).write_text("fixed")
        run = self.run("Faulty", dataset, "--workers", 2, *sink)
        assert run.code == 0, run.stderr
        whole = self.folder / "whole"
        recipe = ("--recipe", f"{faults.__file__}:Faulty")
        local = self.splitter("run", dataset, *recipe, "--workers", 0, *sink, "--output", whole)
        assert local.code == 0, local.stderr
        assert published(self.output) == published(whole)
        rows = [row for row in read_table(self.output / "manifest.csv") if row["output"]]
        assert len(rows) == 2 * 2099
        for row in rows:
            # refuses content whose size or checksum is not that of the row
            read_output(row, self.output)

    def test_setup_once_per_worker(self) -> None:
        """setup() is called once in each worker, before its first input."""
        dataset = make_inputs(self.folder / "data", good_inputs(30))
        run = self.run("SetUp", dataset, "--workers", 2, "--batch-size", 2, "--log", self.log)
        assert run.code == 0, run.stderr
        assert {row["ready"] for rows in self.done().values() for row in rows} == {"work"}
        where = noted(self.log, "setup")
        assert len(where) == len(set(where))
        assert set(noted(self.log, "worked")) <= set(where)
        assert 1 <= len(where) <= self.most_workers

    @pytest.mark.parametrize(
        ("fault", "cause"), [("raise", "ValueError: no good"), ("sys.exit", "SystemExit")]
    )
    def test_setup_that_raises(self, fault: str, cause: str) -> None:
        """When setup() raises, the run ends with one clear line and exit code 1, and no input fails."""
        dataset = make_inputs(self.folder / "data", good_inputs(10))
        run = self.run("NeverSetUp", dataset, "--workers", 2, "--fault", fault, "--quiet")
        assert run.code == 1
        assert run.stderr.count("\n") == 1, run.stderr
        assert "NeverSetUp: setup() raised" in run.stderr
        assert cause in run.stderr
        assert self.errors() == {}

    def test_setup_that_crashes(self) -> None:
        """A setup() that ends its process ends the run, too, and the message says how the process ended."""
        dataset = make_inputs(self.folder / "data", good_inputs(10))
        run = self.run("NeverSetUp", dataset, "--workers", 2, "--fault", "os._exit", "--quiet")
        assert run.code == 1
        assert "exited with code 7" in run.stderr
        assert "Traceback" not in run.stderr
        assert self.errors() == {}


def stamps(output: Path) -> dict[str, tuple[int, int]]:
    """Return the inode number and the time of each output: both change when it is written again."""
    found: dict[str, Any] = {}
    for path in output.rglob("*.txt"):
        if ".splitter" not in path.parts:
            status = os.stat(path)
            found[str(path)] = (status.st_ino, status.st_mtime_ns)
    return found
