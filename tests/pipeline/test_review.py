"""What a review of pipelines has found: stages that do not run now, dropped files, inputs in shards."""

import contextlib
import multiprocessing
import os
import signal
import tarfile
import time
from pathlib import Path

import pytest
from doors import write_files

import splitter
from splitter import InputFile, OutputFile, Pipeline, ProcessorDataset
from splitter.cli.main import exit_code
from splitter.errors import Refused, RunStopped, StorageError
from splitter.ledger import journal
from splitter.ledger.recipe_record import code_before
from splitter.pipeline import driver, neighbours, running
from splitter.pipeline.following import _Waves
from splitter.pipeline.neighbours import INCOMPLETE, StageState, Upstream
from splitter.pipeline.running import StageEnd, run_stages
from splitter.pipeline.status import plan_lines, status_lines
from splitter.recipes.copy import Copy
from splitter.storage.opening import storage_of
from splitter.system.recipe_code import code_state

pytestmark = pytest.mark.slow


class Halves(ProcessorDataset):
    """Both halves of a text."""

    def __init__(self, inputs: object, mark: str = "") -> None:
        super().__init__(inputs)
        self.mark = mark

    def process(self, input_file: InputFile):
        text = input_file.read_text()
        return [OutputFile(f"{at}.txt", text[at::2] + self.mark) for at in range(2)], {}


class Broken(ProcessorDataset):
    """Works for nothing."""

    def process(self, input_file: InputFile):
        raise KeyError(input_file.input)


class Length(ProcessorDataset):
    """The length of a text."""

    def process(self, input_file: InputFile):
        return [], {"length": len(input_file.read_bytes())}


def _files(folder: Path) -> dict[str, str]:
    """All outputs below a folder."""
    return {
        str(path.relative_to(folder)): path.read_text()
        for path in folder.rglob("*.txt")
        if ".splitter" not in path.parts
    }


@pytest.fixture
def inputs(folder: Path) -> Path:
    write_files(folder, {f"in/{number}.txt": f"{number} text" for number in range(24)})
    return folder / "in"


def _chain(inputs: Path, mark: str = "", *, until_used: bool = False) -> Pipeline:
    pipeline = Pipeline(inputs.parent / "out")
    first = pipeline.stage("first", Halves(str(inputs)), until_used=until_used, workers=1)
    second = pipeline.stage("second", Halves(first, mark), workers=1)
    pipeline.stage("third", Copy(second), workers=1)
    return pipeline


def test_a_stage_that_is_killed_while_it_follows_has_noted_its_code(
    inputs: Path, monkeypatch: pytest.MonkeyPatch
):
    """Otherwise, nobody would hear that it has changed before the next run."""
    monkeypatch.setattr(_Waves, "do_rounds", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
    with pytest.raises(RunStopped, match="SIGKILL"):
        _chain(inputs).run(quiet=True)
    assert code_before(storage_of(str(inputs.parent / "out" / "second"))) == code_state(Halves) != ""


def test_a_stage_alone_removes_nothing_after_a_kill(inputs: Path, monkeypatch: pytest.MonkeyPatch):
    """The list of the stage before is only a part of one, and not all of it is done."""
    _chain(inputs).run(quiet=True)
    before = _files(inputs.parent / "out" / "third")
    with monkeypatch.context() as patch:
        patch.setattr(_Waves, "do_rounds", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
        (inputs / "0.txt").write_text("another text")
        with pytest.raises(RunStopped, match="SIGKILL"):
            _chain(inputs).run(quiet=True)
    _chain(inputs).run(only="third", quiet=True)
    assert len(before) == 24 * 4
    assert _files(inputs.parent / "out" / "third") == before
    _chain(inputs).run(quiet=True)
    assert len(_files(inputs.parent / "out" / "third")) == 24 * 4


def test_a_stage_alone_says_why_it_makes_no_shards(inputs: Path):
    """Inputs that the stage before has not done yet would share them."""
    pipeline = Pipeline(inputs.parent / "out")
    first = pipeline.stage("first", Halves(str(inputs)), workers=0, limit=1)
    pipeline.stage("shards", Copy(first), workers=0, sink="webdataset")
    pipeline.run(until="first", quiet=True)
    why = "stage shards: makes shards, but first has not finished; run that first, or leave --only out"
    with pytest.raises(Refused, match=why):
        pipeline.run(only="shards", quiet=True)
    assert not (inputs.parent / "out" / "shards").exists()


class SlowlyHalves(Halves):
    """The same; the last input takes longer than anybody waits."""

    def process(self, input_file: InputFile):
        time.sleep(1000 if input_file.name == "9.txt" else 0)
        return super().process(input_file)


def test_a_stage_interrupted_with_nothing_left_to_do_says_what_it_did(
    inputs: Path, monkeypatch: pytest.MonkeyPatch
):
    pipeline = Pipeline(inputs.parent / "out")
    first = pipeline.stage("first", SlowlyHalves(str(inputs)), workers=1, batch_size=1)
    pipeline.stage("second", Copy(first), workers=1)
    tell_waiting = _Waves._tell_waiting
    interrupted = False

    def interrupt(waves: _Waves) -> None:
        nonlocal interrupted
        tell_waiting(waves)
        if waves._progress.counts.done == 23 * 2 and not interrupted:
            interrupted = True
            os.kill(os.getppid(), signal.SIGINT)

    note, ends = running._Drivers._note_end, {}

    def noted(drivers: running._Drivers, name: str, end: StageEnd) -> None:
        note(drivers, name, end)
        ends[name] = drivers._states[name].end

    monkeypatch.setattr(_Waves, "_tell_waiting", interrupt)
    monkeypatch.setattr(running._Drivers, "_note_end", noted)
    end = run_stages(pipeline, pipeline.stages)
    # more inputs are to come, so a stage after it must not take its list for complete
    assert ends == {"first": INCOMPLETE, "second": INCOMPLETE}
    assert end.signal == signal.SIGINT
    assert {name: stage.summary.done for name, stage in end.stages.items()} == {"first": 23, "second": 46}


def test_a_signal_right_after_a_driver_is_started_reaches_it(inputs: Path, monkeypatch: pytest.MonkeyPatch):
    """Otherwise it goes on, and nobody tells it to end."""
    pipe, this = multiprocessing.Pipe, os.getpid()

    def striking(*, duplex: bool) -> tuple:
        ours, theirs = pipe(duplex=duplex)
        close = theirs.close

        def strike() -> None:
            close()
            if os.getpid() == this:
                os.kill(this, signal.SIGINT)

        theirs.close = strike
        return ours, theirs

    monkeypatch.setattr(running.multiprocessing, "Pipe", striking)
    pipeline = Pipeline(inputs.parent / "out")
    pipeline.stage("first", SlowlyHalves(str(inputs)), workers=1)
    try:
        assert run_stages(pipeline, pipeline.stages).signal == signal.SIGINT
        assert not multiprocessing.active_children()
    finally:
        for process in multiprocessing.active_children():
            process.kill()


def test_files_that_were_dropped_are_missed_by_name(inputs: Path):
    """A stage alone does not go through all of them to find out; a plan changes nothing."""
    for path in sorted(inputs.iterdir())[3:]:
        path.unlink()
    output = inputs.parent / "out"
    _chain(inputs, until_used=True).run(quiet=True)
    made = _files(output / "second")
    with pytest.raises(Refused, match="stage second: needs 6 files of stage first, dropped after use"):
        _chain(inputs, "!", until_used=True).run(only="second", quiet=True)
    assert (_files(output / "first"), _files(output / "second")) == ({}, made)
    # kept from now on
    _chain(inputs).run(until="first", quiet=True)
    assert len(_files(output / "first")) == 6
    assert [*plan_lines(_chain(inputs).stages)]
    assert (output / "first" / ".splitter" / "dropped.json").exists()


def test_more_is_kept_of_files_that_were_dropped(inputs: Path, capfd: pytest.CaptureFixture[str]):
    """Files that --keep left out were used by none, and dropped as well; a stage without any says why."""

    def pipeline(keep: str) -> Pipeline:
        pipeline = Pipeline(inputs.parent / "out")
        first = pipeline.stage(
            "first", Halves([str(inputs / "0.txt")]), until_used=True, keep=keep, workers=1
        )
        pipeline.stage("second", Copy(first), workers=1)
        return pipeline

    pipeline("size > 3").run()
    said = capfd.readouterr().err
    assert "second: nothing to do: --keep of the earlier run keeps none of its 2 outputs" in said
    assert "made no files" not in said
    assert len(_files(inputs.parent / "out" / "second")) == 0
    pipeline("size > 2").run(quiet=True)
    assert len(_files(inputs.parent / "out" / "second")) == 2


def test_what_is_taken_at_once_is_bounded(inputs: Path, monkeypatch: pytest.MonkeyPatch):
    """What waits is counted, also while nobody takes it, and is handed on once, in parts."""
    pipeline = _chain(inputs)
    first = pipeline.stages[0].outputs
    manifest = pipeline.run(until="first", quiet=True)["first"]
    monkeypatch.setattr(neighbours, "MOST_ROWS", 10)
    with contextlib.closing(StageState()) as state:
        upstream = Upstream(first, state)
        assert upstream.look() is None
        state.begin(1)
        upstream.gather()
        assert upstream.waiting == sum(manifest["size"])
        parts = [[*part.rows()] for part in iter(upstream.look, None)]
        assert upstream.waiting == 0
    rows = [row for part in parts for row in part]
    assert rows == [[*map(str, row)] for row in manifest.values.tolist()]
    assert [len(part) for part in parts] == [10, 10, 10, 10, 8]


def test_a_folder_is_of_a_run_or_of_a_pipeline(inputs: Path):
    """Else the outputs of a run could lie among those of a stage."""
    pipeline, output = _chain(inputs), inputs.parent / "out"
    pipeline.run(until="first", quiet=True)
    with pytest.raises(Refused, match="out: is the folder of a pipeline"):
        splitter.run(Length(str(inputs)), output, quiet=True)
    with pytest.raises(Refused, match="first: holds the outputs of a single run"):
        _within(output / "first", inputs).run(quiet=True)


def _within(output: Path, inputs: Path) -> Pipeline:
    pipeline = Pipeline(output)
    pipeline.stage("only", Length(str(inputs)))
    return pipeline


@pytest.mark.parametrize("other", ["Stra\u00dfe", "stra\u00dfe", "STRASSE"])
def test_folders_of_stages_differ_everywhere(folder: Path, other: str):
    """Also where case and Unicode form do not count."""
    pipeline = Pipeline(folder)
    first = pipeline.stage("stra\u00dfe", Length(["a.txt"]))
    with pytest.raises(Refused, match="two stages have this name"):
        pipeline.stage(other, Copy(first))


def test_inputs_in_shards_go_on_after_columns(folder: Path):
    """What follows finds them, as it would after the stage had run alone."""
    write_files(folder, {f"{number}.txt": "text" * number for number in range(3)})
    with tarfile.open(folder / "shard.tar", "w") as shard:
        for number in range(3):
            shard.add(folder / f"{number}.txt", f"{number}.txt")
    pipeline = Pipeline(folder / "out")
    lengths = pipeline.columns("lengths", Length(str(folder / "shard.tar")), workers=1)
    pipeline.stage("copies", Copy(lengths.where("length > 0")), workers=1)
    manifest = pipeline.run(quiet=True)["copies"]
    assert [(str(row.length), row.output) for row in manifest.itertuples()] == [
        ("4", "shard.tar/1/1.txt"),
        ("8", "shard.tar/2/2.txt"),
    ]


@pytest.mark.parametrize("command", ["report", "stats", "verify", "manifest"])
def test_the_folder_of_a_pipeline_is_no_output_folder(inputs: Path, capfd, command: str):
    """Each command says so, instead of how to continue a run."""
    _chain(inputs).run(until="first", quiet=True)
    assert exit_code([command, str(inputs.parent / "out")]) == 2
    assert "out: is the folder of a pipeline" in capfd.readouterr().err


def test_a_list_that_is_not_the_one_it_says_it_is(inputs: Path):
    """A stage was killed between what says how to read its list and the list, still its first part."""
    for path in sorted(inputs.iterdir())[3:]:
        path.unlink()

    def pipeline(mark: str = "") -> Pipeline:
        pipeline = Pipeline(inputs.parent / "out")
        first = pipeline.stage("first", Halves(str(inputs)), workers=1)
        second = pipeline.stage("second", Halves(first), until_used=True, workers=1)
        pipeline.stage("third", Halves(second, mark), workers=1)
        return pipeline

    pipeline().run(quiet=True)
    stored = inputs.parent / "out" / "second" / ".splitter" / "dataset.csv"
    stored.write_text("".join(stored.read_text().splitlines(keepends=True)[:2]))
    manifest = pipeline("!").run(quiet=True)["third"]
    made = _files(inputs.parent / "out" / "third")
    assert (len(manifest), len(made)) == (24, 24)
    assert all(text.endswith("!") for text in made.values())


def test_records_are_merged_while_they_are_read(inputs: Path, monkeypatch: pytest.MonkeyPatch):
    """The stage before ends just then: what follows finds its inputs in the merged record."""
    pipeline = Pipeline(inputs.parent / "out")
    lengths = pipeline.columns("lengths", Length(str(inputs)), workers=1)
    pipeline.stage("copies", Copy(lengths), workers=1)
    look, records = Upstream.look, inputs.parent / "out" / "lengths" / ".splitter" / "records"

    def look_too_late(upstream: Upstream):
        wave = look(upstream)
        while wave and not [*records.glob("*-compact")]:
            time.sleep(0.01)
        return wave

    monkeypatch.setattr(journal, "FEW_RECORDS", 1)
    monkeypatch.setattr(Upstream, "look", look_too_late)
    assert len(pipeline.run(quiet=True)["copies"]) == 24


def test_records_are_merged_while_a_stage_ends_early(inputs: Path, monkeypatch: pytest.MonkeyPatch):
    """It looks once more, and says why it has ended."""
    pipeline = Pipeline(inputs.parent / "out")
    first = pipeline.stage("first", Halves(str(inputs)), workers=1)
    pipeline.stage("second", Broken(first), workers=1)
    run_to_end, merged = driver.run_to_end, []

    def merging(request, *given, **more):
        if request.executor.__class__.__name__ == "_EndedEarly" and not merged:
            merged.append(request)
            raise StorageError("cannot read a record")
        return run_to_end(request, *given, **more)

    monkeypatch.setattr(driver, "run_to_end", merging)
    with pytest.raises(RunStopped, match=r"stage second: .*KeyError"):
        pipeline.run(quiet=True)


def test_records_are_merged_while_the_status_is_read(inputs: Path, monkeypatch: pytest.MonkeyPatch):
    """As happened to one call in two hundred beside a pipeline at work."""
    pipeline = _chain(inputs)
    pipeline.run(until="first", quiet=True)
    names, gone = journal.Journal.record_names, ["000001-000099"]
    monkeypatch.setattr(journal.Journal, "record_names", lambda of: [*names(of), *(gone.pop() for _ in gone)])
    assert next(iter(status_lines(pipeline, command=""))) == "first: 24 done; 48 outputs (158 bytes)"
    assert not gone
