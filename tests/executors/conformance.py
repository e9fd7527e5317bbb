"""What every executor must do, and what only these tests can look at: servers, and leftover processes."""

import gzip
import uuid
from pathlib import Path

import pytest
from doors import write_files, write_list
from faulty import noted
from launcher import (
    FAULTY,
    Driver,
    Launcher,
    eventually,
    make_inputs,
    published,
    with_argument,
)
from nightly import NIGHTLY
from tar_archives import tar_bytes
from web_server import web_server

from splitter.testing.executors import TEN, TIMEOUT, ExecutorConformance, good_inputs
from splitter.testing.published import read_table

# what goes wrong only in a batch that is done together, or there as well
TOGETHER = [
    *("one result too few", "one result too many", "no results", "generator that raises"),
    *("raise", "sys.exit", "segfault", "os._exit", "hang in C"),
]
SIZE = 3


class LaunchedConformance(ExecutorConformance):
    """The suite in processes that are forked, which is quicker, and known."""

    @pytest.fixture(autouse=True)
    def _in_a_folder(self, folder: Path, launcher: Launcher, tmp_path: Path) -> None:
        self.folder, self.launcher = folder, launcher
        self.output = folder / "outputs"
        self.log = tmp_path / "log"

    def command(
        self, recipe: str, dataset: Path, *options: object, output: Path | None = None
    ) -> tuple[object, ...]:
        """Return the arguments of a run."""
        fixed = ("--recipe", f"{FAULTY}:{recipe}", "--executor", self.executor)
        return "run", dataset, *fixed, "--output", output or self.output, *self.options, *options

    def start(self, recipe: str, dataset: Path, *options: object, output: Path | None = None) -> Driver:
        return self.launcher.start(*self.command(recipe, dataset, *options, output=output))

    def splitter(self, *arguments: object) -> Driver:
        return self.launcher.run(*arguments)

    def run(self, recipe: str, dataset: Path, *options: object, output: Path | None = None) -> Driver:
        driver = self.start(recipe, dataset, *options, output=output)
        driver.wait()
        return driver

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
            said = "did not answer 6 times"
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

    # -- the same, however it is run ---------------------------------------------------------------------

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
            f"{shard}/00000001-000000.txt: its checksum differs from the manifest's; "
            "its input will be done again" in (run.stderr)
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

    def test_a_batch_done_together(self):
        """process_batch gives one result for each input, as a list or a generator; process is not called."""
        texts = {**good_inputs(10), "part 0/wörd-0003.txt": "generator"}
        dataset = make_inputs(self.folder / "data", texts)
        run = self.run("Together", dataset, "--workers", 2, "--batch-size", 4, "--log", self.log)
        assert run.code == 0, run.stderr
        self.check_split(texts)
        assert noted(self.log, "process") == []
        together = [line.count(".txt") for line in noted(self.log, "together")]
        assert sorted(together) == [2, 4, 4]

    def test_batches_that_go_wrong_together(self):
        """When process_batch raises, crashes, hangs or miscounts, only its inputs are tried, one by one."""
        texts = good_inputs(2 * SIZE * len(TOGETHER))
        batches = [list(texts)[start : start + SIZE] for start in range(0, len(texts), SIZE)]
        # every other batch is good
        wrong = dict(zip(TOGETHER, batches[1::2], strict=True))
        texts |= {names[2]: text for text, names in wrong.items()}
        dataset = make_inputs(self.folder / "data", texts)
        # the time for a batch that is done together is that of all its inputs
        options = ("--workers", 2, "--batch-size", SIZE, "--timeout", TIMEOUT, "--log", self.log)
        run = self.run("Together", dataset, *options, "--max-failures", "100%")
        assert run.code == 1, run.stderr
        self.check_split(texts)
        alone = set(noted(self.log, "process"))
        assert alone.isdisjoint(name for names in batches[::2] for name in names)
        for text, names in wrong.items():
            assert names[2] in alone
            if text not in TEN and text != "generator that raises":
                assert alone >= set(names)

    # -- what user code starts -----------------------------------------------------------------------------

    def test_children_end_with_their_input(self):
        """When an input is killed, or crashes, what it had started is gone before the next input is tried."""
        token = uuid.uuid4().hex
        texts = {"a.txt": "hang", "b.txt": "look", "c.txt": "segfault", "d.txt": "look"}
        dataset = make_inputs(self.folder / "data", texts)
        options = ("--workers", 1, "--batch-size", 4, "--timeout", 4, "--log", self.log, "--token", token)
        run = self.run("Parent", dataset, *options)
        assert run.code == 1, run.stderr
        assert list(self.errors()) == ["a.txt", "c.txt"]
        assert len(noted(self.log, "child")) == 8
        assert {name: [row["alive"] for row in rows] for name, rows in self.done().items()} == {
            "b.txt": ["0"],
            "d.txt": ["0"],
        }

    def test_children_end_with_the_run(self):
        """What inputs have left running is gone when the run ends."""
        token = uuid.uuid4().hex
        dataset = make_inputs(self.folder / "data", {"a.txt": "one", "b.txt": "two"})
        run = self.run("Parent", dataset, "--workers", 2, "--log", self.log, "--token", token)
        assert run.code == 0, run.stderr
        assert len(noted(self.log, "child")) == 8
        eventually(lambda: not with_argument(token), lambda: str(with_argument(token)))
        run.check_gone()
