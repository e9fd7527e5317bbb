"""The commit protocol of shards against the same model: what dies while one is made again loses nothing."""

import io
import json
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from crashes import contents, is_whole, measured, read_rows
from hypothesis import given, settings
from test_protocol import (
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

from splitter import read_manifest

OWN = ("manifest.csv", "errors.csv")


class TarWorld(World):
    """An output of tar shards with a few inputs and samples each."""

    def sink(self, run: Run) -> list[str]:
        return ["--sink=webdataset", "--shard-maxcount=3", "--field=cls=label"]

    def complaints(self) -> list[str]:
        return list(complaints_of_shards(self.output))

    def everything(self, output: Path) -> dict[str, bytes]:
        """Which shard a sample is in depends on what was there first; what it is does not."""
        tables = {}
        for name, path in ((name, output / name) for name in OWN if (output / name).exists()):
            passed_over = {"output": "", "shard_offset": "", "attempts": ""}
            rows = [{**row, **{key: "" for key in passed_over if key in row}} for row in read_rows(path)]
            tables[name] = json.dumps(rows).encode()
        samples = samples_in(output)
        for number, row in enumerate(read_rows(output / "manifest.csv")):
            if row["output"]:
                tables[f"content {number}"] = samples.pop(row["output"])
        # what no row names
        return {**tables, **samples}


class ShuffledWorld(TarWorld):
    """The same, shuffled."""

    def sink(self, run: Run) -> list[str]:
        return [*super().sink(run), "--shuffle=7"]


def samples_in(output: Path) -> dict[str, bytes]:
    """The contents of all samples, by what a manifest calls them."""
    found = {}
    for name, archive in contents(output).items():
        if name not in OWN:
            members = members_of(archive)
            for member, content in members.items():
                if not member.endswith((".json", ".cls")):
                    found[f"{name}/{member}"] = content
                    assert {f"{member[:15]}.json", f"{member[:15]}.cls"} < {*members}
    return found


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


def complaints_of_shards(output: Path) -> Iterator[str]:
    """What is wrong with a folder as a death left it: samples that are not whole, a manifest that lies."""
    made = {name: content for name, content in contents(output).items() if name not in OWN}
    samples = samples_in(output)
    for name, content in samples.items():
        about = json.loads(content.partition(b"\n")[0])
        if not is_whole(f"{about['input']}/{about['name']}", content):
            yield f"{name} is not whole: {content!r}"
    rows = [row for row in read_rows(output / "manifest.csv") if row["output"]]
    told = [json.loads(content) for shard in made.values() for name, content in members_of(shard).items()
            if name.endswith(".json")]  # fmt: skip
    for row in [*rows, *told]:
        shard, start, size = row["output"].rpartition("/")[0], int(row["shard_offset"]), int(row["size"])
        content = samples.get(row["output"], b"")
        if made.get(shard, b"")[start : start + size] != content:
            yield f"{row['output']} is not where the manifest or its own row says"
        elif (str(size), row["checksum"]) != measured(content):
            yield f"{row['output']} is not what the manifest or its own row says"
    if (output / "manifest.csv").exists():
        read_manifest(output)
    read_rows(output / "errors.csv")


@settings(THOROUGH, max_examples=25)
@given(history=histories())
def test_any_history_of_deaths_and_changes_ends_with_the_same_samples(history: list[Run]):
    """Killed anywhere, with other rows, texts, labels and parameters each time: as with loose files."""
    live_through(history, TarWorld)


@settings(THOROUGH, max_examples=10)
@given(history=histories())
def test_and_so_does_one_of_shuffled_samples(history: list[Run]):
    live_through(history, ShuffledWorld)


SCENARIOS = {
    "nothing before": (None, Run(rows_of("a.txt deep/d.txt b.txt"))),
    "changes": CHANGES,
    "pruning": PRUNING,
    "one more row, into a group that is not full": (
        Run(rows_of("a.txt b.txt deep/d.txt")),
        Run(rows_of("a.txt b.txt deep/d.txt deep/er/c.txt")),
    ),
    "a failed one again": (
        Run([Row("a.txt", 4, ""), *rows_of("b.txt")]),
        Run(rows_of("a.txt b.txt")),
    ),
}


@pytest.mark.parametrize("runs", SCENARIOS.values(), ids=SCENARIOS)
def test_a_death_at_each_step_is_made_good_by_the_next_run_over_shards(folder: Path, runs: tuple[Run, ...]):
    """The run is killed at its first change to the disk, at its second, and so on to its last."""
    assert die_at_each_step(Scenario.of(folder, *runs, kind=TarWorld)) > 20


@pytest.mark.parametrize(
    ("runs", "for_good"), [(CHANGES, False), (PRUNING, True)], ids=["changes, once", "pruning, for good"]
)
def test_a_fault_at_each_step_over_shards_stops_the_run_in_one_line_or_is_survived(
    folder: Path, runs: tuple[Run, ...], for_good: bool
):
    """A rename, a write, a sync ... fails, once or from then on; the next run makes it good."""
    fail_at_each_step(Scenario.of(folder, *runs, kind=TarWorld), for_good=for_good)


def test_what_cannot_be_read_keeps_its_samples_while_its_shard_is_made_again(folder: Path):
    """At each step of the run that makes the shard again, and after it: its neighbours have changed."""
    first = Run(rows_of("a.txt b.txt"))
    away = Run([Row("a.txt", MISSING, "new"), Row("b.txt", 2, "")], flavour=1)
    world = TarWorld(folder)
    world.prepare(first)
    assert world.do(first).code == 0
    kept = {row["checksum"] for row in read_rows(world.output / "manifest.csv") if row["input"] == "a.txt"}
    world.prepare(away)
    death = 0
    while True:
        death += 1
        ended = world.do(replace(away, death=death))
        undone = world.do(away)
        assert undone.code == 1
        rows = [row for row in read_rows(world.output / "manifest.csv") if row["input"] == "a.txt"]
        assert {row["checksum"] for row in rows} == kept
        if not ended.died:
            break
        away = replace(away, flavour=away.flavour + 1)
    assert death > 20
