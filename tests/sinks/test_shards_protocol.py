"""The commit protocol of shards against the same model: what dies while one is made again loses nothing."""

import io
import json
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from crashes import contents, is_whole, measured, read_rows
from doors import Said, here, write_files, write_list
from engine.test_protocol import (
    CHANGES,
    MISSING,
    PRUNING,
    THOROUGH,
    Row,
    Run,
    Scenario,
    World,
    die_at_each_step,
    fail_at_each_step,
    histories,
    live_through,
    rows_of,
)
from hypothesis import given, settings
from nightly import depth

from splitter import read_manifest, read_output

pytestmark = pytest.mark.slow

OWN = ("manifest.csv", "errors.csv")


class ShardWorld(World):
    """An output of shards with a few inputs and samples each."""

    def samples(self, shard: bytes) -> dict[str, bytes]:
        """The contents of the samples in a shard that must be whole, by their names there."""
        raise NotImplementedError

    def samples_in(self, output: Path) -> dict[str, bytes]:
        """The contents of all samples, by what a manifest calls them."""
        made = ((name, content) for name, content in contents(output).items() if name not in OWN)
        return {
            f"{name}/{member}": content
            for name, shard in made
            for member, content in self.samples(shard).items()
        }

    def complaints(self) -> list[str]:
        """What is wrong with a folder as a death left it: samples not whole, a manifest that lies."""
        samples = self.samples_in(self.output)
        found = []
        for name, content in samples.items():
            about = json.loads(content.partition(b"\n")[0])
            if not is_whole(f"{about['input']}/{about['name']}", content):
                found.append(f"{name} is not whole: {content!r}")
        for row in read_rows(self.output / "manifest.csv"):
            if row["output"] and row["output"] not in samples:
                found.append(f"{row['output']} does not exist")
            elif row["output"] and not self.agrees(row, samples[row["output"]]):
                found.append(f"the manifest lies about {row['output']}")
        if (self.output / "manifest.csv").exists():
            read_manifest(self.output)
        read_rows(self.output / "errors.csv")
        return found

    def agrees(self, row: dict[str, Any], content: bytes) -> bool:
        """Whether a row says what is there, and where."""
        there = read_output(row, self.output)
        return there == content and (str(row["size"]), row["checksum"]) == measured(content)

    def everything(self, output: Path) -> dict[str, bytes]:
        """Which shard a sample is in depends on what was there first; what it is does not."""
        tables = {}
        for name, path in ((name, output / name) for name in OWN if (output / name).exists()):
            passed_over = {"output": "", "shard_offset": "", "attempts": ""}
            rows = [{**row, **{key: "" for key in passed_over if key in row}} for row in read_rows(path)]
            tables[name] = json.dumps(rows).encode()
        samples = self.samples_in(output)
        for number, row in enumerate(read_rows(output / "manifest.csv")):
            if row["output"]:
                tables[f"content {number}"] = samples.pop(row["output"])
        # what no row names
        return {**tables, **samples}


class TarWorld(ShardWorld):
    """Tar archives, whose own rows must agree with them as well."""

    def sink(self, run: Run) -> list[str]:
        return ["--sink=webdataset", "--shard-maxcount=3", "--field=cls=label"]

    def samples(self, shard: bytes) -> dict[str, bytes]:
        found = {}
        members = members_of(shard)
        for name, content in members.items():
            if not name.endswith((".json", ".cls")):
                row = json.loads(members[f"{name[:15]}.json"])
                assert shard[row["shard_offset"] :][: row["size"]] == content
                assert (str(row["size"]), row["checksum"]) == measured(content)
                assert row["output"].endswith(f"/{name}")
                assert members[f"{name[:15]}.cls"].decode() == row["label"]
                found[name] = content
        return found

    def agrees(self, row: dict[str, Any], content: bytes) -> bool:
        shard = (self.output / row["output"]).parent.read_bytes()
        at_its_place = shard[int(row["shard_offset"]) :][: len(content)] == content
        return at_its_place and super().agrees(row, content)


class ParquetWorld(ShardWorld):
    """Tables."""

    def sink(self, run: Run) -> list[str]:
        return ["--sink=parquet", "--shard-maxcount=3"]

    def samples(self, shard: bytes) -> dict[str, bytes]:
        rows = pq.read_table(io.BytesIO(shard)).to_pylist()
        for row in rows:
            assert (str(row["size"]), row["checksum"]) == measured(row["file"]["bytes"])
        found = {row["file"]["path"]: row["file"]["bytes"] for row in rows}
        assert len(found) == len(rows)
        return found


class ShuffledWorld(TarWorld):
    """The same, shuffled."""

    def sink(self, run: Run) -> list[str]:
        return [*super().sink(run), "--shuffle=7"]


def members_of(archive: bytes) -> dict[str, bytes]:
    """The members of an archive that must be whole, by their names."""
    assert archive.endswith(bytes(1024))
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:", errorlevel=2) as tar:
        found = {}
        for member in tar:
            assert member.name not in found
            found[member.name] = tar.extractfile(member).read()
        assert tar.offset + 1024 == len(archive)
        return found


@settings(THOROUGH, max_examples=depth(5))
@given(history=histories())
def test_any_history_of_deaths_and_changes_ends_with_the_same_samples(history: list[Run]):
    """Killed anywhere, with other rows, texts, labels and parameters each time: as with loose files."""
    live_through(history, TarWorld)


@settings(THOROUGH, max_examples=depth(2))
@given(history=histories())
def test_and_so_does_one_of_shuffled_samples(history: list[Run]):
    live_through(history, ShuffledWorld)


SCENARIOS = {
    # what is no longer listed may stay in no shard
    "changes": (CHANGES[0], replace(CHANGES[1], flags=("--prune",))),
    "a failed one again": (
        Run([Row("a.txt", 4, ""), *rows_of("b.txt")]),
        Run(rows_of("a.txt b.txt")),
    ),
}


@pytest.mark.parametrize("runs", SCENARIOS.values(), ids=SCENARIOS)
def test_a_death_at_each_step_is_made_good_by_the_next_run_over_shards(folder: Path, runs: tuple[Run, ...]):
    """The run is killed at its first change to the disk, at its second, and so on to its last."""
    assert die_at_each_step(Scenario.of(folder, *runs, kind=TarWorld)) > 20


def test_a_death_at_each_step_is_made_good_by_the_next_run_over_tables(folder: Path):
    """Every input has metadata of the same types, which a table needs."""
    before = Run([*rows_of("a.txt b.txt"), Row("deep/er/c.txt", 4, "")])
    after = Run([Row("a.txt", 0, ""), *rows_of("b.txt", label="new"), Row("deep/er/c.txt", 1, "")])
    assert die_at_each_step(Scenario.of(folder, before, after, kind=ParquetWorld)) > 20


def test_a_fault_at_each_step_over_shards_stops_the_run_in_one_line_or_is_survived(folder: Path):
    """A rename, a write, a sync ... fails, and from then on they all do; the next run makes it good."""
    fail_at_each_step(Scenario.of(folder, *PRUNING, kind=TarWorld), for_good=True)


def test_what_cannot_be_read_keeps_its_samples_while_its_shard_is_made_again(folder: Path):
    """At each step of the run that makes the shard again, and after it: its neighbours have changed."""
    first = Run(rows_of("a.txt b.txt"))
    away = Run([Row("a.txt", MISSING, "new"), Row("b.txt", 2, "")], flavour=1)
    world = TarWorld(folder)
    world.prepare(first)
    assert world.do(first).code == 0
    kept = {row["checksum"] for row in read_rows(world.output / "manifest.csv") if row["input"] == "a.txt"}
    world.prepare(away)
    death = -5
    while True:
        death += 6
        ended = world.do(replace(away, death=death))
        undone = world.do(away)
        assert undone.code == 1
        rows = [row for row in read_rows(world.output / "manifest.csv") if row["input"] == "a.txt"]
        assert {row["checksum"] for row in rows} == kept
        if not ended.died:
            break
        away = replace(away, flavour=away.flavour + 1)
    assert death > 20


LEAVING = """
import os
from splitter import OutputFile, ProcessorDataset

class Leaving(ProcessorDataset):
    \"\"\"An input that is there when the run begins, and gone when it is processed.\"\"\"

    def setup(self):
        if os.environ.get("LEAVING") and os.path.exists(os.environ["LEAVING"]):
            os.unlink(os.environ["LEAVING"])

    def process(self, input_file):
        return [OutputFile("0.txt", input_file.read_text())], {}
"""


def test_a_lost_shard_is_made_again_though_the_only_input_to_do_has_left(folder: Path, capfd, monkeypatch):
    """What was good in it is done again; it took three rounds, and workers were said to be lost."""
    write_files(folder, {"leaving.py": LEAVING, "a.txt": "text of a", "b.txt": "text of b"})
    recipe = ("--recipe", folder / "leaving.py:Leaving")
    options = (*recipe, "--sink=webdataset", "--workers=0", "-o", folder / "out")

    def run(label: str) -> Said:
        listing = write_list(folder / "list.csv", [["input", "label"], ["a.txt", ""], ["b.txt", label]])
        return here(capfd, "run", listing, *options)

    assert run("").code == 0
    (folder / "out" / "shards" / "shard-000000.tar").unlink()
    monkeypatch.setenv("LEAVING", str(folder / "b.txt"))
    said = run("new")
    assert said.code == 1
    assert "lost 3 times" not in said.err
    rows = read_rows(folder / "out" / "manifest.csv")
    assert [row["input"] for row in rows] == ["a.txt"]
    made = members_of((folder / "out" / "shards" / "shard-000000.tar").read_bytes())
    assert next(iter(made.values())) == b"text of a"
