"""Inputs that are no longer in the list: a shard never holds a sample without a row in the manifest.

The samples of the shards are read with Python's tarfile and with pyarrow, past splitter.
"""

import tarfile
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from copying import Copy
from doors import SHARED, here, read_table, tree, write_list
from object_store import Bucket

import splitter
from splitter.errors import Refused

COPY = f"{SHARED / 'copying.py'}:Copy"
SINKS = ["webdataset", "parquet"]
WHERE = ("--where", "label < 2")


def samples(out: Path) -> list[str]:
    """What the shards hold."""
    found = []
    for shard in sorted(out.glob("shards/*.tar")):
        with tarfile.open(shard) as archive:
            found += [
                archive.extractfile(one).read().decode() for one in archive if not one.name.endswith(".json")
            ]
    for shard in sorted(out.glob("shards/*.parquet")):
        found += [value["bytes"].decode() for value in pq.read_table(shard)["file"].to_pylist()]
    return sorted(found)


class World:
    """Files with labels, a list of them, and what is said by runs over it."""

    def __init__(self, folder: Path, capfd: pytest.CaptureFixture[str], sink: str) -> None:
        self.folder, self.capfd, self.sink = folder, capfd, sink
        self.out = folder / "out"
        for number in range(8):
            (folder / f"{number}.txt").write_text(f"text {number}")

    def write(self, *numbers: int) -> Path:
        """Write the list; the label of an input is a half of its number."""
        rows = [[f"{number}.txt", str(number // 2)] for number in numbers]
        return write_list(self.folder / "list.csv", [["input", "label"], *rows])

    def run(self, *options: str, command: str = "run"):
        listing = self.folder / "list.csv"
        output = ("--output", self.out, "--sink", self.sink)
        return here(self.capfd, command, listing, "--recipe", COPY, *output, "--workers=0", *options)

    def refused(self, *options: str, names: str = "", **how: str) -> str:
        """Check that a run is refused in one line that names both remedies, and changes nothing."""
        before = tree(self.out)
        said = self.run(*options, **how)
        assert (said.code, len(said.lines)) == (2, 1), said
        assert "--prune" in said.err
        assert "--where" in said.err
        assert names in said.err
        assert tree(self.out) == before
        return said.err

    def agree(self) -> list[str]:
        """Check that shards hold what the manifest has rows for; returns these inputs."""
        rows = read_table(self.out / "manifest.csv")
        assert samples(self.out) == sorted(f"text {row['input'][0]}" for row in rows)
        return [row["input"][0] for row in rows]


@pytest.fixture(params=SINKS)
def world(request, folder, capfd) -> World:
    """With eight inputs that are done."""
    world = World(folder, capfd, request.param)
    world.write(*range(8))
    assert world.run().code == 0
    assert world.agree() == [*"01234567"]
    return world


@pytest.mark.slow
def test_a_narrower_condition_is_refused(world: World):
    """Both remedies work: --prune, and the condition of before."""
    world.refused(*WHERE, names="samples of 4 inputs no longer in the list (4.txt, 5.txt, 6.txt, …)")
    world.refused(*WHERE, "--retry-failed")
    world.refused(*WHERE, "--repair")
    world.refused(*WHERE, "--executor=ray", "--workers=1")
    world.refused(*WHERE, "--quiet")
    world.refused(*WHERE, command="plan")
    assert world.run().code == 0
    assert world.agree() == [*"01234567"]
    assert world.run(*WHERE, "--prune", command="plan").code == 0
    assert world.run(*WHERE, "--prune").code == 0
    assert world.agree() == [*"0123"]
    assert "nothing to do" in world.run(*WHERE).err
    assert world.run(*WHERE, "--fresh").code == 0
    assert world.agree() == [*"0123"]


def test_rows_taken_from_the_list_are_refused(world: World):
    """Also where others are added at the same time, and where all are taken."""
    world.write(*range(7))
    world.refused(names="(7.txt)")
    (world.folder / "8.txt").write_text("text 8")
    world.write(*range(7), 8)
    world.refused(names="samples of 1 input no longer in the list (7.txt)")
    world.write()
    world.refused(names="samples of 8 inputs")
    world.write(*range(9))
    assert world.run().code == 0
    assert world.agree() == [*"012345678"]
    world.write(8, 1)
    assert world.run("--prune").code == 0
    assert world.agree() == [*"81"]
    world.write()
    world.run("--prune")
    assert world.agree() == []


def test_another_sink_or_layout_is_refused_for_its_own_reason(world: World):
    """And a trial of the first few is not: the others are still listed."""
    other = "files" if world.sink == "parquet" else "parquet"
    assert "--sink" in world.run(*WHERE, "--sink", other).err
    assert world.run("--limit=2").code == 0
    assert world.agree() == [*"01234567"]
    world.refused(*WHERE, "--limit=1")


def test_an_input_that_is_missing_keeps_its_samples(world: World):
    """It is still listed."""
    (world.folder / "3.txt").unlink()
    assert world.run().code == 1
    assert world.agree() == [*"01234567"]


def test_what_failed_or_has_no_output_is_no_reason(folder, capfd):
    """Only samples are."""
    world = World(folder, capfd, "webdataset")
    world.write(0, 1, 99)
    assert world.run().code == 1
    world.write(0, 1)
    assert world.run().code == 0
    assert world.agree() == [*"01"]


def test_parts_are_refused(world: World):
    """And told that --prune is for a run as a whole."""
    assert "--prune once, without --part," in world.refused(*WHERE, "--part=1/2")


def test_python_is_told_too(world: World):
    """As a Refused."""
    dataset = Copy(world.folder / "list.csv")
    with pytest.raises(Refused, match="use --prune"):
        dataset.run(world.out, sink=world.sink, where="label < 2", workers=0)


def test_a_prune_that_was_interrupted_is_continued_by_another(world: World, monkeypatch):
    """Until then each command says what the shards still hold."""
    real = splitter.ledger.journal.Journal.promise

    def dies(*_arguments, **_options):
        raise KeyboardInterrupt

    monkeypatch.setattr(splitter.ledger.journal.Journal, "promise", dies)
    assert world.run(*WHERE, "--prune").code == 130
    monkeypatch.setattr(splitter.ledger.journal.Journal, "promise", real)
    told = "kept: the outputs of 4 inputs that are no longer in the list (4.txt, 5.txt, 6.txt, …); --prune"
    assert told in here(world.capfd, "manifest", world.out).err
    assert [row["input"][0] for row in read_table(world.out / "manifest.csv")] == [*"0123"]
    verdict = splitter.verify(world.out)
    assert [finding.kind for finding in verdict.findings] == ["extra"]
    assert "--prune removes them" in verdict.findings[0].message
    world.refused(*WHERE)
    assert world.run(*WHERE, "--prune").code == 0
    assert world.agree() == [*"0123"]
    assert splitter.verify(world.out).ok


@pytest.mark.parametrize("sink", SINKS)
def test_in_a_store(folder: Path, capfd, s3: Bucket, sink):
    """The same check, and the same line."""
    world = World(folder, capfd, sink)
    world.out = s3.url("out")
    world.write(*range(8))
    assert world.run().code == 0
    before = s3.tree("out")
    said = world.run(*WHERE)
    assert (said.code, len(said.lines)) == (2, 1)
    assert "samples of 4 inputs no longer in the list" in said.err
    assert s3.tree("out") == before
    assert world.run(*WHERE, "--prune").code == 0
    assert [row["input"][0] for row in splitter.read_manifest(world.out).to_dict("records")] == [*"0123"]


def test_loose_files_stay_and_are_named(folder, capfd):
    """In every summary: with a condition, a limit, and nothing to do."""
    world = World(folder, capfd, "files")
    world.write(*range(8))
    assert "kept:" not in world.run().err
    told = "kept: the outputs of 4 inputs that are no longer in the list (4.txt, 5.txt, 6.txt, …); --prune"
    for options in (WHERE, WHERE, (*WHERE, "--limit=1"), (*WHERE, "--retry-failed"), (*WHERE, "--part=1/2")):
        said = world.run(*options)
        assert said.code == 0
        assert told in said.err
    assert "--prune, used once without --part, removes them" in said.err
    world.write(*range(7))
    said = world.run()
    assert (
        "kept: the outputs of 1 input that is no longer in the list (7.txt); --prune removes them" in said.err
    )
    assert (world.out / "7" / "copy").exists()
    summary = Copy(world.folder / "list.csv").run(world.out, workers=0).summary
    assert (summary.gone, summary.gone_names) == (1, ["7.txt"])
    assert "kept:" not in world.run("--prune").err
    assert not (world.out / "7").exists()
