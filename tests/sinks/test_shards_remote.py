"""Shards on an object store: the same as in a folder, and whole after any death."""

import random
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from doors import program, tree, write_files, write_list
from launcher import Launcher
from object_store import Bucket

import splitter
from splitter.ledger.journal import Journal
from splitter.ledger.records import DONE, RecordWriter, RowColumns
from splitter.storage.base import Move
from splitter.storage.remote import RemoteStorage

RECIPE = '''
import os, time
from splitter import OutputFile, ProcessorDataset

class Pieces(ProcessorDataset):
    """Three outputs for each text; some texts fail unless MENDED is set."""

    def process(self, input_file):
        text = input_file.read_text()
        time.sleep(float(os.environ.get("SLOW", 0)))
        if text.startswith("fail") and "MENDED" not in os.environ:
            raise ValueError(text)
        return [OutputFile(f"{i}.txt", f"{text} {i}" * 100, {"i": i}) for i in range(3)], {"text": text}
'''


@pytest.fixture
def pieces(folder: Path) -> Path:
    """Twelve inputs, two of which fail at first."""
    texts = {f"{number:02d}.txt": f"text {number}" for number in range(12)}
    texts |= {"03.txt": "fail 3", "10.txt": "fail 10"}
    write_files(folder, texts)
    write_files(folder, {"pieces.py": RECIPE})
    return write_list(folder / "list.csv", [["input"], *([name] for name in sorted(texts))])


def arguments(pieces: Path, output: str | Path, *more: str) -> list[str]:
    recipe = f"--recipe={pieces.parent / 'pieces.py'}:Pieces"
    # a group of one input for each megabyte: see `small_groups`
    return ["run", str(pieces), recipe, "--sink=webdataset", f"--output={output}", "--workers=2", *more]


@pytest.fixture
def small_groups(launcher: Launcher) -> Launcher:
    """Starts runs in which groups have four inputs."""
    launcher.environ = {"SPLITTER_TEST_GROUP": "4"}
    return launcher


def test_shards_on_an_object_store_are_those_of_a_folder(
    s3: Bucket, pieces: Path, folder: Path, small_groups: Launcher
):
    """Also those of groups that were made again, for which what was good was taken along."""
    small_groups.environ |= s3.environment
    for output in (folder / "out", s3.url("out")):
        assert small_groups.run(*arguments(pieces, output)).code == 1
    assert s3.tree("out") == tree_of(folder / "out")
    assert len([name for name in s3.tree("out") if name.startswith("shards/")]) == 3
    for output in (folder / "out", s3.url("out")):
        again = small_groups.run(*arguments(pieces, output, "--retry-failed"), environ={"MENDED": "1"})
        assert again.code == 0, again.stderr
    assert s3.tree("out") == tree_of(folder / "out")
    manifest = splitter.read_manifest(s3.url("out"))
    assert len(manifest) == 36
    assert [splitter.read_output(row).decode() for _, row in manifest.iterrows()] == [
        f"{row.text} {row.i}" * 100 for row in manifest.itertuples()
    ]
    assert s3.uploads() == []
    assert s3.keys("out/.splitter/staging") == []


@pytest.mark.parametrize("harm", ["none", "other bytes", "gone"])
def test_what_is_parked_is_looked_at_before_it_counts(s3: Bucket, folder: Path, harm: str):
    """A promise in an object store is kept only if all that it speaks of is there, and as it was."""
    storage = RemoteStorage(s3.url("out"))
    batch = "000001-000000"
    record = RecordWriter()
    record.add(7, 0, DONE, head=RowColumns(("input",)), outputs=0, size=0, text=b"a\n")
    with storage.locked():
        journal = Journal(storage)
        write_files(Path(storage.stage(batch)), {"shards/a.tar": "a", "shards/b.tar": "b"})
        storage.park(batch)
        names = ["shards/a.tar", "shards/b.tar"]
        staged = [f"{storage.staging}/{batch}/{name}" for name in names]
        moves = [
            Move(source, name, *(storage.measured(source) or ()))
            for source, name in zip(staged, names, strict=True)
        ]
        journal.promise(batch, [7], names, moves=moves, record=record)
        # as a run that dies leaves it
        assert storage.move(staged[0], names[0])
        if harm == "other bytes":
            s3.write(f"out/{staged[1]}", b"c")
        elif harm == "gone":
            s3.client.delete_object(Bucket=s3.name, Key=f"out/{staged[1]}")
        # a guard that ends asks the store for nothing, and removes nothing there
        journal.release(batch)
        assert bool(s3.keys(f"out/{staged[1]}")) == (harm != "gone")
        journal.recover()
        journal.load()
        [entry] = journal.find(np.array([7], "u8"))
    assert (entry >= 0) == (harm == "none")
    assert sorted(s3.tree("out")) == (names if harm == "none" else [])
    assert s3.keys("out/.splitter/staging") == []


def tree_of(output: Path) -> dict[str, bytes]:
    found = {name: content for name, content in tree(output).items() if not name.startswith(".splitter")}
    return {
        name: content.encode() if isinstance(content, str) else content for name, content in found.items()
    }


def test_a_killed_run_is_continued_to_the_same_shards(
    faulty_s3: Bucket, pieces: Path, folder: Path, small_groups: Launcher, chance: random.Random
):
    """Killed at random moments, the exchange of shards among them, with a fifth of the requests failing."""
    small_groups.environ |= faulty_s3.environment
    assert small_groups.run(*arguments(pieces, folder / "out")).code == 1
    first = arguments(pieces, faulty_s3.url("out"))
    die_and_continue(small_groups, first, {"SLOW": "0.1"}, chance, 1)
    assert (
        faulty_s3.tree("out")["shards/shard-000000.tar"] == tree_of(folder / "out")["shards/shard-000000.tar"]
    )
    mended = {"MENDED": "1"}
    assert small_groups.run(*arguments(pieces, folder / "out", "--retry-failed"), environ=mended).code == 0
    die_and_continue(small_groups, [*first, "--retry-failed"], {**mended, "SLOW": "0.3"}, chance, 0)
    assert faulty_s3.tree("out") == tree_of(folder / "out")
    assert faulty_s3.uploads() == []


def die_and_continue(
    launcher: Launcher, command: list[str], environ: dict[str, str], chance: random.Random, code: int
) -> None:
    run = launcher.start(*command, environ=environ)
    time.sleep(chance.uniform(0.3, 2.5))
    run.signal(signal.SIGKILL)
    run.wait()
    again = launcher.run(*command, environ=environ)
    assert again.code == code, again.stderr


@pytest.mark.parametrize(("sink", "shuffle"), [("webdataset", ("--shuffle=7",)), ("parquet", ())])
def test_what_is_taken_along_is_read_in_large_pieces(recorded_s3: Bucket, pieces: Path, sink, shuffle):
    """A request for eight megabytes of an older shard, not one for each sample; in any order."""
    options = (f"--sink={sink}", "--shard-maxcount=20", *shuffle)
    url, twin = recorded_s3.url("out"), pieces.parent / "twin"
    for output in (url, twin):
        assert program(*arguments(pieces, output, *options), MENDED="1").code == 0
        (pieces.parent / "07.txt").write_text("changed")
        recorded_s3.requests()
        said = program(*arguments(pieces, output, *options), MENDED="1")
        assert said.code == 0, said.err
        if output is url:
            asked = [one for one in recorded_s3.requests() if one.startswith("GET") and "/shards/" in one]
            assert len(asked) == len(set(asked)) == 2
        (pieces.parent / "07.txt").write_text("text 7")
    assert recorded_s3.tree("out") == tree(twin)


def test_a_store_that_fails_is_no_damage_of_what_is_taken_along(faulty_s3: Bucket, s3: Bucket, pieces: Path):
    """Only a shard that is gone or damaged is; its inputs are named, and done again."""
    url = faulty_s3.url("out")
    assert program(*arguments(pieces, url), MENDED="1", **faulty_s3.environment).code == 0
    (pieces.parent / "07.txt").write_text("changed")
    said = program(*arguments(pieces, url), MENDED="1", **faulty_s3.environment)
    assert said.code == 0, said.err
    assert "redone" not in said.err.replace("will be redone", "")
    whole = faulty_s3.tree("out")
    faulty_s3.client.delete_object(Bucket=faulty_s3.name, Key="out/shards/shard-000000.tar")
    (pieces.parent / "07.txt").write_text("text 7")
    said = program(*arguments(pieces, url), MENDED="1", **s3.environment)
    assert said.code == 0, said.err
    assert "shard-000000.tar: does not exist, or cannot be read; its input will be done again" in said.err
    assert faulty_s3.tree("out").keys() == whole.keys()
    assert len(splitter.read_manifest(url)) == 36
