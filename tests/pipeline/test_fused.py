"""Stages that are fused with the one before: nothing is stored in between, and what comes out is the same."""

import os
import shutil
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from doors import write_files
from in_between import die_once
from launcher import check_manifest, eventually

import splitter
from splitter import InputFile, OutputFile, Pipeline, ProcessorDataset, Skip
from splitter.errors import RecipeError, Refused, RunStopped
from splitter.ledger.journal import Journal
from splitter.ledger.records import RecordWriter
from splitter.pipeline.running import run_stages
from splitter.recipes.copy import Copy
from splitter.testing.published import published, read_table
from splitter.worker.fused import MARK, FusedStages, FusingInProgress
from splitter.worker.runner import Runner

INPUTS = 12


class Halves(ProcessorDataset):
    """Both halves of a text."""

    def process(self, input_file: InputFile):
        text = input_file.read_text()
        return [OutputFile(f"{at}.txt", text[at::2], {"half": at}) for at in range(2)], {"length": len(text)}


class Judge(ProcessorDataset):
    """The first digit of a text."""

    def process(self, input_file: InputFile):
        return [], {"first": int(input_file.read_text()[:1] or 0)}

    def process_batch(self, input_files):
        return [self.process(one) for one in input_files]


class Fate(ProcessorDataset):
    """Copies a text, unless that says what becomes of it."""

    def process(self, input_file: InputFile):
        text = input_file.read_text()
        if os.environ.get("REPAIRED"):
            text = "repaired"
        if "r" in text and text != "repaired":
            raise ValueError(f"no good: {input_file.path}")
        if "c" in text:
            os._exit(3)
        if "h" in text:
            time.sleep(60)
        return [OutputFile("copy.txt", text)], {}


class Broken(ProcessorDataset):
    """Works for nothing."""

    def process(self, input_file: InputFile):
        raise KeyError("broken")


@pytest.fixture
def inputs(folder: Path) -> Path:
    write_files(folder, {f"in/{number:02}.txt": f"{number:02}" * 3 for number in range(INPUTS)})
    return folder / "in"


def _pipeline(inputs: Path, output: str, recipe: type[ProcessorDataset] = Copy, **more: Any) -> Pipeline:
    """Three stages, the second of columns, all fused unless said otherwise."""
    options = {"fuse": True, "workers": 2, **more}
    pipeline = Pipeline(inputs.parent / output)
    halves = pipeline.stage("halves", Halves(str(inputs)), workers=2)
    judged = pipeline.columns("judge", Judge(halves), **options)
    pipeline.stage("last", recipe(judged.where("first >= 0")), **options)
    return pipeline


def _records(pipeline: Pipeline, stage: str) -> list[str]:
    return [*os.listdir(Path(pipeline.output, stage, ".splitter", "records"))]


def _texts(folder: Path) -> list[str]:
    """The texts that a stage has there."""
    return [path.read_text() for path in folder.rglob("*.txt") if ".splitter" not in path.parts]


def _check(pipeline: Pipeline) -> None:
    for stage in pipeline.stages:
        assert not splitter.verify(stage.outputs.folder, workers=1).findings, stage.name


def test_a_chain(inputs: Path):
    """All is done in the workers of the first stage, and nothing of that is stored."""
    fused, alone = _pipeline(inputs, "fused"), _pipeline(inputs, "alone", fuse=False)
    fused = fused.with_options({"quiet": True})
    end = run_stages(fused, fused.stages)
    alone.run(quiet=True)
    for name in ("halves", "judge", "last"):
        wanted = published(Path(alone.output, name))
        if name == "halves":
            wanted = {"manifest.csv": wanted["manifest.csv"]}
        assert published(Path(fused.output, name)) == wanted
    for name in ("judge", "last"):
        summary = end.stages[name].summary
        assert summary
        assert (summary.inputs, summary.work.done) == (2 * INPUTS, 2 * INPUTS)
        assert all(MARK in record for record in _records(fused, name))
    _check(fused)
    # and again, with nothing to do
    fused.run(quiet=True)
    assert _texts(Path(fused.output, "halves")) == []


@pytest.mark.slow
def test_inputs_that_fail(inputs: Path, monkeypatch: pytest.MonkeyPatch):
    """Each is an input of its own stage that fails; what it was made of stays, until it is done."""
    for number, fate in enumerate("rch"):
        (inputs / f"{number:02}.txt").write_text(f"11{fate}")
    pipeline = _pipeline(inputs, "out", Fate, timeout=1).with_options({"quiet": True})
    end = run_stages(pipeline, pipeline.stages)
    assert [stage.code for stage in end.stages.values()] == [0, 0, 1]
    rows = read_table(Path(pipeline.output, "last", "errors.csv"))
    assert [row["error"] for row in rows] == ["ValueError", "Crashed", "TimedOut"]
    assert rows[0]["message"] == f"no good: {pipeline.output}/halves/00/0.txt"
    assert {"1r", "1c", "1h"} <= {*_texts(Path(pipeline.output, "halves"))}
    assert any(MARK in record for record in _records(pipeline, "last"))
    _check(pipeline)
    monkeypatch.setenv("REPAIRED", "1")
    pipeline.run(quiet=True, retry_failed=True)
    assert _texts(Path(pipeline.output, "halves")) == []
    assert len(_texts(Path(pipeline.output, "last"))) == 2 * INPUTS
    _check(pipeline)


@pytest.mark.slow
def test_a_broken_recipe(inputs: Path):
    """It ends all stages as it would if it were not fused, and no input is told to have failed."""
    pipeline = _pipeline(inputs, "out", Broken)
    with pytest.raises(RecipeError, match="stage last: Broken fails with the same error"):
        pipeline.run(quiet=True)
    assert not Path(pipeline.output, "last", "errors.csv").exists()


@pytest.mark.slow
def test_too_many_failures(inputs: Path):
    """What fails in other workers counts, too."""
    for path in inputs.iterdir():
        path.write_text("1r1")
    pipeline = Pipeline(inputs.parent / "out")
    halves = pipeline.stage("halves", Halves(str(inputs)), workers=1)
    pipeline.stage("last", Fate(halves), fuse=True, workers=1, max_failures=3)
    with pytest.raises(RunStopped, match=r"stage last: [0-9]+ inputs failed, more than --max-failures 3"):
        pipeline.run(quiet=True)


@pytest.mark.slow
@pytest.mark.parametrize("generations", [0, 2], ids=["runner", "driver"])
@pytest.mark.parametrize("moment", ["before the commit of the last", "before the commit of the first"])
def test_a_death_between_commits(
    inputs: Path, monkeypatch: pytest.MonkeyPatch, moment: str, generations: int
):
    """Whatever is committed then, the result is the same."""
    pipeline = _pipeline(inputs, "out")

    def dies(method: Callable[..., None], when: Callable[..., bool]) -> Callable[..., None]:
        def run(self: Any, *args: Any, **more: Any) -> None:
            if when(self, *args):
                die_once(inputs.parent, generations)
            method(self, *args, **more)

        return run

    if moment == "before the commit of the last":
        commit = dies(Journal.commit, lambda _, batch, *__: batch.count(MARK) == 2)
        monkeypatch.setattr(Journal, "commit", commit)
    else:
        publish = dies(FusingInProgress.publish, lambda self, *_: MARK not in self.batch.name)
        monkeypatch.setattr(FusingInProgress, "publish", publish)
    if generations:
        with pytest.raises(RunStopped, match="SIGKILL"):
            pipeline.run(quiet=True)
    pipeline.run(quiet=True)
    assert (inputs.parent / "died").exists()
    _check(pipeline)
    assert _texts(Path(pipeline.output, "halves")) == []
    assert len(check_manifest(Path(pipeline.output, "last"))) == 2 * INPUTS


@pytest.mark.slow
def test_a_death_before_the_first_commit(
    inputs: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    """A stage that is told to end, and whose inputs are unknown, ends like the others."""
    pipeline = _pipeline(inputs, "out")

    def dies(*_: object) -> None:
        die_once(inputs.parent, 2)
        time.sleep(10)

    monkeypatch.setattr(Journal, "commit", dies)
    with pytest.raises(RunStopped, match="SIGKILL"):
        pipeline.run(quiet=True)
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("step", [1, 2])
def test_a_death_in_a_step_of_a_batch(inputs: Path, monkeypatch: pytest.MonkeyPatch, step: int):
    """Inputs in a shard are committed in steps: what a fused stage began in one of them is undone."""
    with tarfile.open(inputs.parent / "in.tar", "w") as archive:
        archive.add(inputs, ".")
    pipeline = Pipeline(inputs.parent / "out")
    halves = pipeline.stage("halves", Halves(str(inputs.parent / "in.tar")), workers=1, batch_size=2)
    pipeline.stage("last", Copy(halves), fuse=True, workers=1)
    commit, commits = Journal.commit, inputs.parent / "commits"

    def dies(self: Journal, batch: str, record: RecordWriter) -> None:
        if MARK in batch:
            with commits.open("a") as file:
                file.write(".")
            if commits.stat().st_size == step + 1:
                die_once(inputs.parent, 0)
        commit(self, batch, record)

    monkeypatch.setattr(Journal, "commit", dies)
    pipeline.run(quiet=True)
    assert (inputs.parent / "died").exists()
    _check(pipeline)
    assert len(check_manifest(Path(pipeline.output, "last"))) == 2 * INPUTS


def test_a_death_after_which_the_stage_cannot_be_loaded(inputs: Path, monkeypatch: pytest.MonkeyPatch):
    """What it began is undone before its own workers do the same inputs, and not when they have."""
    commit, load, died = Journal.commit, FusedStages.of, inputs.parent / "died"

    def dies(self: Journal, batch: str, record: RecordWriter) -> None:
        if MARK in batch:
            die_once(inputs.parent, 0)
        commit(self, batch, record)

    monkeypatch.setattr(Journal, "commit", dies)
    monkeypatch.setattr(FusedStages, "of", lambda *given: None if died.exists() else load(*given))
    pipeline = Pipeline(inputs.parent / "out")
    halves = pipeline.stage("halves", Halves(str(inputs)), workers=1, batch_size=2)
    pipeline.stage("last", Copy(halves), fuse=True, workers=1)
    pipeline.run(quiet=True)
    assert died.exists()
    _check(pipeline)
    assert len(check_manifest(Path(pipeline.output, "last"))) == 2 * INPUTS


class Slow(Halves):
    """Takes longer than it may with the second input."""

    def process(self, input_file: InputFile):
        folder, name = os.path.split(input_file.local_path)
        if name == "01.txt":
            eventually(Path(folder, "../asked").exists, lambda: "the guard has not asked")
        return super().process(input_file)


@pytest.mark.slow
def test_a_death_later_than_asked_for(inputs: Path, monkeypatch: pytest.MonkeyPatch):
    """An input that takes too long may end, and a fused stage begin, before its runner is killed."""
    asked, begun = inputs.parent / "asked", inputs.parent / "begun"
    commit = Journal.commit

    def ask(_: Runner) -> None:
        asked.touch()
        # the runner ignores the signal
        eventually(begun.exists, lambda: "no fused stage has begun")

    def dies(self: Journal, batch: str, record: RecordWriter) -> None:
        if MARK in batch and not begun.exists():
            begun.touch()
            time.sleep(10)
        commit(self, batch, record)

    monkeypatch.setattr(Runner, "ask_where_it_is", ask)
    monkeypatch.setattr(Journal, "commit", dies)
    pipeline = Pipeline(inputs.parent / "out")
    files = [f"{inputs}/00.txt", f"{inputs}/01.txt"]
    halves = pipeline.stage("halves", Slow(files), workers=1, batch_size=2, timeout=1)
    pipeline.stage("last", Copy(halves), fuse=True, workers=1)
    pipeline.run(quiet=True)
    _check(pipeline)
    assert len(_texts(Path(pipeline.output, "last"))) == 4


@pytest.mark.slow
@pytest.mark.parametrize(
    ("until_used", "fuse_both", "kept"), [(None, False, 24), (True, False, 0), (None, True, 0)]
)
def test_other_users(inputs: Path, until_used: bool | None, fuse_both: bool, kept: int):
    """Files that a stage reads which is not fused are there for it, and stay unless they are to go."""
    pipeline = Pipeline(inputs.parent / "out", queue="1B")
    halves = pipeline.stage("halves", Halves(str(inputs)), until_used=until_used, workers=2)
    pipeline.stage("one", Copy(halves), fuse=True, workers=2)
    pipeline.stage("other", Copy(halves), fuse=fuse_both, workers=2)
    manifests = pipeline.run(quiet=True)
    assert (len(manifests["one"]), len(manifests["other"])) == (2 * INPUTS, 2 * INPUTS)
    assert len(_texts(Path(pipeline.output, "halves"))) == kept
    assert all(MARK in record for record in _records(pipeline, "one"))
    _check(pipeline)


def test_without_workers_and_with_changes(inputs: Path):
    """What was made before goes the usual way, what is new does not."""
    _pipeline(inputs, "out", workers=0).run(quiet=True)
    (inputs / "00.txt").write_text("99changed")
    write_files(inputs, {"new.txt": "77 new"})
    pipeline = _pipeline(inputs, "out", workers=0)
    manifest = pipeline.run(quiet=True)["last"]
    assert len(manifest) == 2 * INPUTS + 2
    assert _texts(Path(pipeline.output, "halves")) == []
    records = _records(pipeline, "last")
    assert any(MARK not in record for record in records)
    assert any(MARK in record for record in records if not record.startswith("000001"))
    _check(pipeline)


class Gone(ProcessorDataset):
    """Makes a copy, or nothing any more."""

    def process(self, input_file: InputFile):
        text = input_file.read_text()
        if "skip" in text:
            raise Skip("not wanted")
        return [] if "none" in text else [OutputFile("copy.txt", text)], {}


def test_stale_outputs_of_a_stage_before_that_is_new(inputs: Path):
    """What the stage has made of files that the one before has no record of goes with these, too."""
    pipeline = Pipeline(inputs.parent / "out")
    pipeline.stage("last", Gone(pipeline.stage("all", Copy(str(inputs)), workers=0)), fuse=True, workers=0)
    pipeline.run(quiet=True)
    shutil.rmtree(Path(pipeline.output, "all"))
    for number, fate in enumerate(("skip", "none")):
        (inputs / f"{number:02}.txt").write_text(fate)
    pipeline.run(quiet=True)
    assert len(_texts(Path(pipeline.output, "last"))) == INPUTS - 2
    _check(pipeline)


@pytest.mark.slow
def test_an_input_that_changes_after_a_death(inputs: Path, monkeypatch: pytest.MonkeyPatch):
    """What was made of it before is stale, also for the next runner."""
    publish = FusingInProgress.publish

    def dies(self: FusingInProgress, *args: Any, **more: Any) -> None:
        if MARK not in self.batch.name and not (inputs.parent / "died").exists():
            for (row,) in self.rows:
                (inputs / row[0]).write_text("skip")
            die_once(inputs.parent, 0)
        publish(self, *args, **more)

    monkeypatch.setattr(FusingInProgress, "publish", dies)
    pipeline = Pipeline(inputs.parent / "out")
    pipeline.stage("last", Gone(pipeline.stage("all", Copy(str(inputs)), workers=1)), fuse=True, workers=1)
    pipeline.run(quiet=True)
    assert len(_texts(Path(pipeline.output, "last"))) < INPUTS
    _check(pipeline)


class Twins(ProcessorDataset):
    """Two files whose names differ by their endings."""

    def process(self, input_file: InputFile):
        return [OutputFile(f"a.{ending}", ending) for ending in ("txt", "md")], {}


def test_files_whose_outputs_would_meet(inputs: Path):
    """They are refused as without fuse, and nothing is published before."""
    pipeline = Pipeline(inputs.parent / "out")
    pipeline.stage("last", Copy(pipeline.stage("twins", Twins(str(inputs)), workers=0)), fuse=True, workers=0)
    with pytest.raises(Refused, match=r"stage last: .* use --keep-extension, or rename one"):
        pipeline.run(quiet=True)
    assert _texts(Path(pipeline.output, "last")) == []


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ({}, {"sink": "parquet"}, "stage b: fuse, but its sink parquet makes shards of many inputs"),
        ({"memory": "1GB"}, {}, "stage b: fuse, but a has --memory: it is that of a single recipe"),
        ({}, {"name": "{half}.txt"}, "stage b: fuse, but b has --name: names are given at the end"),
        ({}, {"labels": "labels.csv"}, "stage b: fuse, but it has --labels; give these to the first stage"),
        ({}, {"executor": "ray", "address": "auto"}, "stage b: fuse, but its executor is not that of a"),
        ({"adds_columns": True}, {}, "stage b: fuse, but a makes no files and is not fused itself"),
        ({"fuse": True}, {}, "stage a: fuse is for a stage that takes what another one makes"),
    ],
)
def test_what_cannot_be_fused(folder: Path, first: dict[str, Any], second: dict[str, Any], message: str):
    pipeline = Pipeline(folder / "out")
    with pytest.raises(Refused, match=message):
        pipeline.stage("b", Copy(pipeline.stage("a", Halves(["a.txt"]), **first)), fuse=True, **second)


def test_more_gpus_than_the_stage_before(folder: Path):
    """On a cluster a worker has what the first of the stages asks for."""
    pipeline = Pipeline(folder / "out")
    ray = {"executor": "ray", "address": "auto"}
    first = pipeline.stage("a", Halves(["a.txt"]), **ray)
    with pytest.raises(
        Refused, match=r"the workers of a do its work, and take 0 GPUs, not 0\.25; give a num_gpus"
    ):
        pipeline.columns("b", Judge(first), fuse=True, num_gpus=0.25, **ray)
