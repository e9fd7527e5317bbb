"""What every executor must do: a new one inherits `ExecutorConformance` in its test file and passes.

class TestLocal(ExecutorConformance):
    executor = "local"
"""

import gzip
import os
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest
from doors import read_table, write_files, write_list
from faulty import noted
from launcher import (
    FAULTY,
    Driver,
    Launcher,
    check_manifest,
    eventually,
    make_inputs,
    published,
    with_argument,
)
from nightly import NIGHTLY
from tar_archives import tar_bytes
from web_server import web_server

from splitter import read_output

TIMEOUT = 3
MEMORY = "300MB"

# the text of the input -> the error, and what its message says of the cause
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
    """Inputs that give no trouble, in a few folders."""
    return {
        f"part {number % 3}/wörd-{number:04d}.txt": f"good {number} " * (number % 5)
        for number in range(count)
    }


def with_faults(texts: Mapping[str, str], faults: Mapping[str, object]) -> dict[str, str]:
    """The texts with a fault here and there among them."""
    every = len(texts) // len(faults)
    names = list(texts)[every // 2 :: every]
    return {**texts, **dict(zip(names, faults, strict=False))}


class ExecutorConformance:
    """The suite. Every test goes through the command line, so it sees what a user sees."""

    executor: ClassVar[str]
    options: ClassVar[list[str]] = []
    # over how many worker processes the batches of two at a time may be spread
    places: ClassVar[int] = 2
    # how long after the driver its workers may end
    seconds_to_end: ClassVar[float] = 0

    @pytest.fixture(autouse=True)
    def _place(self, folder: Path, launcher: Launcher, tmp_path: Path) -> None:
        self.folder, self.launcher = folder, launcher
        self.output = folder / "outputs"
        self.log = tmp_path / "log"

    def start(self, recipe: str, dataset: Path, *options: object, output: Path | None = None) -> Driver:
        fixed = (
            "--recipe",
            f"{FAULTY}:{recipe}",
            "--executor",
            self.executor,
            "--output",
            output or self.output,
        )
        return self.launcher.start("run", dataset, *fixed, *self.options, *options)

    def run(self, recipe: str, dataset: Path, *options: object, output: Path | None = None) -> Driver:
        driver = self.start(recipe, dataset, *options, output=output)
        driver.wait()
        return driver

    def done(self) -> dict[str, list[dict[str, str]]]:
        """The rows of the manifest by input, each checked against its file."""
        found: dict[str, list[dict[str, str]]] = {}
        for row in check_manifest(self.output):
            found.setdefault(row["input"], []).append(row)
        return found

    def errors(self) -> dict[str, dict[str, str]]:
        """The rows of errors.csv by input."""
        rows = read_table(self.output / "errors.csv")
        assert len({row["input"] for row in rows}) == len(rows)
        return {row["input"]: row for row in rows}

    def test_inputs_at_urls(self):
        """Each worker fetches its own, and names the one that is not there."""
        texts = {f"{number}.txt": f"good {number}" for number in range(8)}
        with web_server() as web:
            web.files.update({f"/{name}": text.encode() for name, text in texts.items()})
            rows = [["input"], *([name] for name in [*texts, "none.txt"])]
            dataset = write_list(self.folder / "list.csv", rows)
            run = self.run("Parts", dataset, "--root", web.url(), "--batch-size", 2)
            assert run.code == 1, run.stderr
            assert set(self.done()) == set(texts)
            assert {name: row["error"] for name, row in self.errors().items()} == {
                "none.txt": "UnreadableInput"
            }
            assert web.count("GET") == len(texts) + sum("none" in one for one in web.requests) // 2

    def test_urls_that_nothing_can_look_at(self):
        """However strangely a client fails, also while it is made: that is an error which names the URL."""
        texts = good_inputs(3)
        listed = make_inputs(self.folder / "data", texts)
        urls = {
            "zip://*.csv::file:///nope.zip": "there is no such file",
            f"zip://a.wav::file://{listed}": "BadZipFile: File is not a zip file",
            "zip://folder": "Is a directory",
            "github://user/repository": "missing 2 required positional arguments",
            "dir://x": "AttributeError",
            "memory://m/y": "there is no such file",
            "nobody://y": "Protocol not known",
            "ftp://127.0.0.1:99999/y": "Port out of range",
        }
        if NIGHTLY:
            # which are waited for
            said = "did not answer, 6 times"
            urls |= {"ftp://127.0.0.1:1/ftp": said, "http://127.0.0.1:1/http": said}
        rows = [["input", "label"], *([name, f"label of {name}"] for name in [*urls, *texts])]
        run = self.run("Faulty", write_list(self.folder / "data/list.csv", rows), "--batch-size", 2)
        assert run.code == 1, run.stderr
        assert set(self.done()) == set(texts)
        errors = self.errors()
        assert list(errors) == list(urls)
        for url, row in errors.items():
            assert row["error"] == "UnreadableInput", row
            assert row["message"].startswith(f"{url}: "), row
            assert urls[url] in row["message"], row

    def check_split(self, texts: Mapping[str, str], timeout: int = TIMEOUT) -> None:
        """Exactly the faulty inputs are in errors.csv, with the cause; all others are done and whole."""
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

    # -- bad inputs ------------------------------------------------------------------------------------

    def test_ten_bad_inputs_among_a_thousand(self):
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

        mended = {name: "mended" for name, text in texts.items() if text in TEN}
        write_files(self.folder / "data", mended)
        self.log.unlink()
        last = self.run("Faulty", dataset, *limits)
        assert last.code == 0, last.stderr
        assert sorted(noted(self.log, "process")) == sorted(mended)
        self.check_split({**texts, **mended})
        assert not (self.output / "errors.csv").exists()

    def test_the_strangest_ends(self):
        """However an input ends its process, whatever its error is: one row, and its batch mates are done."""
        texts = with_faults(good_inputs(2 * len(OTHERS)), OTHERS)
        dataset = make_inputs(self.folder / "data", texts)
        limits = ("--workers", 2, "--timeout", TIMEOUT, "--memory", MEMORY)
        run = self.run("Faulty", dataset, *limits, "--batch-size", 8)
        assert run.code == 1, run.stderr
        self.check_split(texts)

    def test_a_batch_of_nothing_but_faults(self):
        """A batch comes to its end when each of its inputs ends the process."""
        faults = ["segfault", "os._exit", "abort", "segfault", "crash in a thread", "os._exit(0)"]
        texts = {f"{number}.txt": fault for number, fault in enumerate(faults)}
        dataset = make_inputs(self.folder / "data", texts)
        run = self.run("Faulty", dataset, "--workers", 1, "--batch-size", len(texts))
        assert run.code == 1, run.stderr
        self.check_split(texts)

    def test_skip_is_not_an_error(self):
        """Skip leaves an input out with its reason, in the manifest, and with exit code 0."""
        dataset = make_inputs(self.folder / "data", {"a.txt": "one", "b.txt": "skip", "c.txt": "two"})
        run = self.run("Faulty", dataset, "--workers", 2)
        assert run.code == 0, run.stderr
        assert [row["skipped"] for row in self.done()["b.txt"]] == ["not wanted"]
        assert self.errors() == {}

    # -- the same, however it is run ---------------------------------------------------------------------

    def test_workers_and_batch_size_do_not_show(self):
        """The same tree and the same manifest for any number of workers and any batch size."""
        texts = with_faults(good_inputs(60), ["raise", "ten then raise", "skip", "garbage"])
        dataset = make_inputs(self.folder / "data", texts)
        found = []
        for number, (workers, size) in enumerate([(1, 60), (2, 1), (2, 7), (2, None), (1, None), (3, 25)]):
            output = self.folder / f"outputs {number}"
            options = ["--workers", workers, *([] if size is None else ["--batch-size", size])]
            run = self.run("Faulty", dataset, *options, output=output)
            assert run.code == 1, run.stderr
            found.append(published(output))
        assert len(found[0]) == 2 * (60 - 4) + 2
        assert all(one == found[0] for one in found[1:])

    def test_shards_do_not_show_how_they_were_made(self):
        """An input that ends its process leaves no trace in its shard; mended, it stands in its place."""
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
        faults = {name: "mended" for name, text in texts.items() if text in TEN}
        write_files(self.folder / "data", faults)
        run = self.run("Faulty", dataset, "--workers", 2, *sink)
        assert run.code == 0, run.stderr
        whole = self.folder / "whole"
        local = self.launcher.run(
            "run", dataset, "--recipe", f"{FAULTY}:Faulty", "--workers", 0, *sink, "--output", whole
        )
        assert local.code == 0, local.stderr
        assert published(self.output) == published(whole)
        rows = [row for row in read_table(self.output / "manifest.csv") if row["output"]]
        assert len(rows) == 2 * 2099
        for row in rows:
            # refuses what has not the size and the checksum of the row
            read_output(row, self.output)

    def test_a_damaged_shard_is_named_and_what_it_held_done_again(self):
        """What a good input has in a shard that is damaged does not vanish: it is made again, and told."""
        texts = {"a.txt": "first text", "b.txt": "second text", "c.txt": "third text"}
        dataset = make_inputs(self.folder / "data", texts)
        sink = ("--workers", 2, "--sink", "webdataset")
        assert self.run("Faulty", dataset, *sink).code == 0
        shard = self.output / "shards" / "shard-000000.tar"
        shard.write_bytes(shard.read_bytes().replace(b"secon", b"SECON", 1))
        write_files(self.folder / "data", {"a.txt": "another first text"})
        run = self.run("Faulty", dataset, *sink)
        assert run.code == 0, run.stderr
        assert (
            f"{shard}/00000001-000000.txt: its checksum differs from the manifest's; its input is done again"
            in (run.stderr)
        )
        assert "3 of 3 inputs done" in run.stderr
        whole = self.folder / "whole"
        assert self.run("Faulty", dataset, *sink, output=whole).code == 0
        assert published(self.output) == published(whole)

    def test_inputs_in_shards(self):
        """Inputs that stand in archives, plain and packed: the same bytes as in one process."""
        folder = self.folder / "archives"
        folder.mkdir()
        for number in range(3):
            members = [(f"{key} {number}.txt", f"text {key} {number}".encode()) for key in range(20)]
            content = tar_bytes(members)
            (folder / f"s-{number}.tar").write_bytes(gzip.compress(content) if number == 1 else content)
        shards = folder / "s-{0..2}.tar"
        run = self.run("Faulty", shards, "--workers", 2)
        assert run.code == 0, run.stderr
        whole = self.folder / "whole"
        recipe = ("--recipe", f"{FAULTY}:Faulty", "--workers", 0)
        local = self.launcher.run("run", shards, *recipe, "--output", whole)
        assert local.code == 0, local.stderr
        assert published(self.output) == published(whole)
        assert len({row["input"] for row in read_table(self.output / "manifest.csv")}) == 60

    # -- process_batch -----------------------------------------------------------------------------------

    @pytest.mark.parametrize("text", ["plain", "generator"])
    def test_a_batch_done_together(self, text: str):
        """process_batch gives one result for each input, as a list or a generator; process is not called."""
        texts = {**good_inputs(10), "part 0/wörd-0003.txt": text}
        dataset = make_inputs(self.folder / "data", texts)
        run = self.run("Together", dataset, "--workers", 2, "--batch-size", 4, "--log", self.log)
        assert run.code == 0, run.stderr
        self.check_split(texts)
        assert noted(self.log, "process") == []
        together = [line.count(".txt") for line in noted(self.log, "together")]
        assert sorted(together) == [2, 4, 4]

    @pytest.mark.parametrize(
        "text",
        [
            "one result too few",
            "one result too many",
            "no results",
            "generator that raises",
            "raise",
            "sys.exit",
            "segfault",
            "os._exit",
            "hang in C",
        ],
    )
    def test_a_batch_that_goes_wrong_together(self, text: str):
        """When process_batch raises, crashes, hangs or miscounts, only its inputs are tried, one by one."""
        texts = {**good_inputs(8), "part 0/wörd-0006.txt": text}
        dataset = make_inputs(self.folder / "data", texts)
        # the time for a batch that is done together is that of all its inputs
        options = ("--workers", 2, "--batch-size", 4, "--timeout", 1, "--log", self.log)
        run = self.run("Together", dataset, *options)
        assert run.code == (text in TEN), run.stderr
        self.check_split(texts, timeout=1)
        alone = set(noted(self.log, "process"))
        assert "part 0/wörd-0006.txt" in alone
        assert alone.isdisjoint(list(texts)[:4])
        if text not in TEN and text != "generator that raises":
            assert alone == set(list(texts)[4:])

    # -- setup ---------------------------------------------------------------------------------------------

    def test_setup_once_per_worker(self):
        """setup() is called in each worker, before its first input, and once."""
        dataset = make_inputs(self.folder / "data", good_inputs(30))
        run = self.run("SetUp", dataset, "--workers", 2, "--batch-size", 2, "--log", self.log)
        assert run.code == 0, run.stderr
        assert {row["ready"] for rows in self.done().values() for row in rows} == {"work"}
        where = noted(self.log, "setup")
        assert len(where) == len(set(where))
        assert set(noted(self.log, "worked")) <= set(where)
        assert 1 <= len(where) <= self.places

    @pytest.mark.parametrize(
        ("fault", "cause"), [("raise", "ValueError: no good"), ("sys.exit", "SystemExit")]
    )
    def test_setup_that_raises(self, fault: str, cause: str):
        """When setup() raises, the run ends with one clear line, exit code 1, and no input is to blame."""
        dataset = make_inputs(self.folder / "data", good_inputs(10))
        run = self.run("NeverSetUp", dataset, "--workers", 2, "--fault", fault, "--quiet")
        assert run.code == 1
        assert run.stderr.count("\n") == 1, run.stderr
        assert "NeverSetUp: setup() raised" in run.stderr
        assert cause in run.stderr
        assert self.errors() == {}

    def test_setup_that_crashes(self):
        """A setup() that ends the process ends the run too, and says how it ended."""
        dataset = make_inputs(self.folder / "data", good_inputs(10))
        run = self.run("NeverSetUp", dataset, "--workers", 2, "--fault", "os._exit", "--quiet")
        assert run.code == 1
        assert "exited with code 7" in run.stderr
        assert "Traceback" not in run.stderr
        assert self.errors() == {}

    def test_a_recipe_that_declares_nothing(self):
        """A class with nothing but process runs."""
        texts = good_inputs(3)
        dataset = make_inputs(self.folder / "data", texts)
        run = self.run("Plain", dataset, "--workers", 2)
        assert run.code == 0, run.stderr
        contents = {name: rows[0]["output"] for name, rows in self.done().items()}
        assert {name: (self.output / place).read_text() for name, place in contents.items()} == texts

    # -- what user code starts -----------------------------------------------------------------------------

    @pytest.mark.parametrize("fault", ["hang", "segfault"])
    def test_children_end_with_their_input(self, fault: str):
        """When an input is killed, or crashes, what it had started is gone before the next input is tried."""
        token = uuid.uuid4().hex
        dataset = make_inputs(self.folder / "data", {"a.txt": fault, "b.txt": "look"})
        options = ("--workers", 1, "--batch-size", 2, "--timeout", 2, "--log", self.log, "--token", token)
        run = self.run("Parent", dataset, *options)
        assert run.code == 1, run.stderr
        assert list(self.errors()) == ["a.txt"]
        assert len(noted(self.log, "child")) == 4
        assert [row["alive"] for row in self.done()["b.txt"]] == ["0"]

    def test_children_end_with_the_run(self):
        """What inputs have left running is gone when the run ends."""
        token = uuid.uuid4().hex
        dataset = make_inputs(self.folder / "data", {"a.txt": "one", "b.txt": "two"})
        run = self.run("Parent", dataset, "--workers", 2, "--log", self.log, "--token", token)
        assert run.code == 0, run.stderr
        assert len(noted(self.log, "child")) == 8
        eventually(lambda: not with_argument(token), lambda: str(with_argument(token)), self.seconds_to_end)
        run.check_gone()


def stamps(output: Path) -> dict[str, tuple[int, int]]:
    """When each output was written, and where: both change when it is written again."""
    found: dict[str, Any] = {}
    for path in output.rglob("*.txt"):
        if ".splitter" not in path.parts:
            status = os.stat(path)
            found[str(path)] = (status.st_ino, status.st_mtime_ns)
    return found
