"""`splitter plan` says what `splitter run` then does, and does nothing itself."""

import json
import os
import re
import shutil
import signal
from pathlib import Path

import numpy as np
import psutil
import pytest
import soundfile
from doors import CHECKOUT, here, read_table, tree, write_files, write_list
from launcher import eventually
from tar_archives import write_tar

from splitter.ledger.journal import Journal
from splitter.recipes.words import Words

pytestmark = pytest.mark.slow

SAMPLES = CHECKOUT / "data_samples"
HALF = """
from splitter import OutputFile, ProcessorDataset
from splitter.records import Expected

class Half(ProcessorDataset):
    def expect(self, input_file):
        size = input_file.path.stat().st_size
        return None if input_file.input[1] in "05" else Expected(size, size)

    def process(self, input_file):
        return [OutputFile(f"{n}.txt", sign) for n, sign in enumerate(input_file.read_text())], {}
"""
FAULTY = """
import os, time
from splitter import OutputFile, ProcessorDataset
from splitter.records import Expected

class Faulty(ProcessorDataset):
    def expect(self, input_file):
        return Expected(7, 700)

    def process(self, input_file):
        raise ValueError("as always")

class Unknowing(Faulty):
    def expect(self, input_file):
        raise KeyError("no idea")

class Deadly(ProcessorDataset):
    def expect(self, input_file):
        os._exit(1)

    def process(self, input_file):
        return [OutputFile("0.txt", "x")], {}

class Slow(ProcessorDataset):
    def process(self, input_file):
        time.sleep(600 * (input_file.path.stat().st_size > 8))
        return [OutputFile("0.txt", "x")], {}
"""


def planned(capfd, *arguments) -> dict:
    """What `plan` says; it has to leave everything as it was."""
    said = here(capfd, "plan", *arguments, "--json")
    assert said.code == 0, said.err
    return json.loads(said.out)


def made(output: Path) -> tuple[int, int]:
    """How many outputs a run has made, and their bytes."""
    rows = [row for row in read_table(output / "manifest.csv") if row["output"]]
    return len(rows), sum(int(row["size"]) for row in rows)


@pytest.mark.parametrize(
    "options",
    [
        ["--seconds", "3", "--overlap", "1"],
        ["--seconds", "4", "--sink", "webdataset"],
        ["--seconds", "2.5", "--tail", "pad"],
        ["--seconds", "4", "--tail", "shift"],
        ["--seconds", "4", "--tail", "merge", "--min-seconds", "1"],
        ["--seconds", "2", "--tail", "drop", "--format", "flac"],
        ["--seconds", "5", "--sample-rate", "11025", "--channels", "mono", "--format", "wav"],
        ["--seconds", "5", "--channels", "split", "--format", "wav", "--subtype", "PCM_16"],
        ["--recipe", "silence"],
        ["--recipe", "segments"],
    ],
)
def test_the_plan_for_the_audio_samples_is_what_the_run_does(folder, options, capfd):
    """Few inputs are all tried, so the numbers are exact."""
    run = [SAMPLES / "dataset.csv", *options, "--output", folder / "out"]
    plan = planned(capfd, *run)
    here(capfd, "run", *run)
    outputs, size = made(folder / "out")
    shards = [*(folder / "out").glob("shards/*")]
    in_shards = sum(one.stat().st_size for one in shards)
    assert plan["outputs"] == outputs
    assert plan["bytes"] == (pytest.approx(in_shards, rel=0.02) if shards else size)
    assert (plan["exact"], plan["inputs"], plan["new"]) == (True, 8, 8)


def test_the_plan_for_the_words_is_what_the_run_does(folder, words, capfd):
    run = [words, "--root", "inputs", "--recipe", "words", "--output", folder / "out"]
    plan = planned(capfd, *run)
    assert here(capfd, "run", *run).code == 0
    assert (plan["outputs"], plan["bytes"]) == made(folder / "out")
    assert plan["seconds"] > 0


@pytest.mark.parametrize(
    "options",
    [
        ["--seconds", "0.3"],
        ["--seconds", "0.3", "--overlap", "0.1", "--tail", "pad"],
        ["--seconds", "0.7", "--tail", "shift", "--sample-rate", "11025", "--format", "wav"],
        ["--seconds", "0.4", "--tail", "merge", "--channels", "split"],
    ],
)
def test_windows_are_counted_without_being_cut(folder, options, capfd, monkeypatch):
    """Of more recordings than are tried: by their headers, exactly; sizes too where samples are bytes."""
    monkeypatch.setattr("splitter.forecast.estimate.ENOUGH_SECONDS", 0)
    chance = np.random.default_rng(3)
    (folder / "in").mkdir()
    for number in range(60):
        sound = chance.uniform(-0.5, 0.5, (chance.integers(0, 20_000), 2))
        kind = ("wav", "flac", "ogg", "aiff")[number % 4]
        soundfile.write(folder / f"in/{number:02d}.{kind}", sound, int(chance.choice([8000, 16000])))
    run = [folder / "in", *options, "--output", folder / "out"]
    plan = planned(capfd, *run)
    assert plan["tried"] < 60
    assert here(capfd, "run", *run, "--quiet").code == 0
    outputs, size = made(folder / "out")
    assert (plan["exact"], plan["outputs"]) == (True, outputs)
    assert plan["bytes"] == pytest.approx(size, rel=0.05)


def test_other_recipes_are_foretold_by_a_trial(folder, capfd):
    """From a small part of the inputs, evenly spread."""
    chance = np.random.default_rng(4)
    names = {f"{n % 7}/{n}.txt": "x" * int(size) for n, size in enumerate(chance.integers(3, 30, 1200))}
    write_files(folder / "in", names)
    run = [
        folder / "in",
        "--recipe",
        "words",
        "--num-chars",
        "3",
        "--overlap",
        "1",
        "--output",
        folder / "out",
    ]
    plan = planned(capfd, *run)
    assert here(capfd, "run", *run, "--quiet").code == 0
    outputs, size = made(folder / "out")
    assert plan["outputs"] == pytest.approx(outputs, rel=0.05)
    assert plan["bytes"] == pytest.approx(size, rel=0.05)


def test_what_headers_do_not_tell_is_tried(folder, capfd, monkeypatch):
    """Of some inputs: the others are counted all the same, and not twice where time for headers ran out."""
    monkeypatch.setattr("splitter.forecast.estimate.ENOUGH_SECONDS", 0)
    write_files(folder, {"half.py": HALF})
    write_files(folder / "in", {f"{n:02d}.txt": "x" * (n % 5) for n in range(60)})
    run = [folder / "in", "--recipe", f"{folder}/half.py:Half", "--output", folder / "out"]
    plan = planned(capfd, *run)
    monkeypatch.setattr("splitter.forecast.estimate.HEADERS_AT_ONCE", 10)
    monkeypatch.setattr("splitter.forecast.estimate.SECONDS_FOR_HEADERS", 0)
    hurried = planned(capfd, *run)
    here(capfd, "run", *run, "--quiet")
    for numbers in (plan, hurried):
        assert numbers["tried"] < 60
        assert (numbers["outputs"], numbers["exact"]) == (
            pytest.approx(made(folder / "out")[0], rel=0.05),
            False,
        )
        assert numbers["bytes"] == pytest.approx(made(folder / "out")[1], rel=0.05)


@pytest.mark.parametrize("sink", ["webdataset", "parquet"])
def test_shards_are_larger_than_what_they_hold(folder, sink, capfd, monkeypatch):
    """By the rows that stand beside outputs, and more so the smaller these are; a trial tells that, too."""
    monkeypatch.setattr("splitter.forecast.estimate.MOST_TRIED", 128)
    # however slow the machine is
    for limit in ("ENOUGH_SECONDS", "LONGEST_TRIAL", "SECONDS_OF_QUICK_INPUT"):
        monkeypatch.setattr(f"splitter.forecast.estimate.{limit}", 100.0)
    write_files(folder / "in", {f"{n:04d}.txt": f"{n:03d}" * (1 + n % 9) for n in range(1200)})
    run = [folder / "in", "--recipe", "words", "--output", folder / "out", "--sink", sink]
    plan = planned(capfd, *run)
    assert here(capfd, "run", *run, "--quiet").code == 0
    shards = [one.stat().st_size for one in (folder / "out/shards").iterdir()]
    assert len(shards) == 2
    assert plan["tried"] < 1200
    assert plan["bytes"] == pytest.approx(sum(shards), rel=0.05)
    assert plan["bytes"] > 2 * made(folder / "out")[1]


def test_recordings_in_shards_are_tried(folder, capfd):
    """Their headers are not where an input's path points to, and so they are not looked at."""
    (folder / "in").mkdir()
    for name in ("a", "b"):
        soundfile.write(folder / f"in/{name}.wav", np.zeros(20_000), 8000)
    write_tar(folder / "in.tar", [(one.name, one.read_bytes()) for one in (folder / "in").iterdir()])
    run = [folder / "in.tar", "--seconds", "1", "--output", folder / "out"]
    plan = planned(capfd, *run)
    here(capfd, "run", *run)
    assert (plan["outputs"], plan["bytes"]) == made(folder / "out")
    assert (plan["faulty"], plan["outputs"]) == (0, 6)


def test_nothing_is_written(folder, words, capfd, monkeypatch, tmp_path):
    """Not into the output folder, whether it is there or not, nor for good into temporary space."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    run = [words, "--root", "inputs", "--recipe", "words", "--output", folder / "out"]
    planned(capfd, *run)
    assert not (folder / "out").exists()
    here(capfd, "run", *run, "--limit", "2")
    (folder / "inputs/a.txt").write_text("another")
    before = {path: path.stat().st_mtime_ns for path in (folder / "out").rglob("*")}
    contents = tree(folder / "out")
    planned(capfd, *run, "--fresh")
    planned(capfd, *run)
    assert before == {path: path.stat().st_mtime_ns for path in (folder / "out").rglob("*")}
    assert contents == tree(folder / "out")
    assert not [*temporary.iterdir()]


def test_each_input_is_new_changed_done_failed_or_missing(folder, words, capfd):
    run = [folder / "list.csv", "--root", "inputs", "--recipe", "words", "--output", folder / "out"]
    (folder / "inputs/bad.txt").write_bytes(b"\xff")
    names = ["a.txt", "b.txt", "c.txt", "bad.txt", "lost.txt"]
    write_list(folder / "list.csv", [["input"], *([name] for name in names)])
    here(capfd, "run", *run)
    (folder / "inputs/b.txt").write_text("changed")
    (folder / "inputs/c.txt").unlink()
    write_list(folder / "list.csv", [["input"], *([name] for name in [*names, "d.txt"])])
    plan = planned(capfd, *run)
    counts = {name: plan[name] for name in ("inputs", "new", "changed", "done", "failed", "missing", "to_do")}
    # what failed is left alone, and what is missing keeps what it has
    assert counts == {"inputs": 6, "new": 1, "changed": 1, "done": 1, "failed": 1, "missing": 2, "to_do": 2}
    assert "c.txt: does not exist" in plan["missing_first"][0]
    assert planned(capfd, *run, "--retry-failed")["to_do"] == 4
    # with another parameter, it is tried again, so it has changed, too
    plan = planned(capfd, *run, "--num-chars", "4")
    assert [plan[name] for name in ("new", "changed", "done", "failed", "missing")] == [1, 3, 0, 0, 2]
    assert planned(capfd, *run, "--fresh")["new"] == 4
    assert planned(capfd, *run, "--limit", "1")["to_do"] == 0


def test_a_batch_that_was_not_committed_counts_as_not_done(folder, words, capfd):
    """As the run will find, which undoes it first."""
    run = [words, "--root", "inputs", "--recipe", "words", "--output", folder / "out"]
    here(capfd, "run", *run)
    records = folder / "out/.splitter/records"
    record = max(records.iterdir())
    record.rename(record.with_name(f"{record.name}.begun"))
    (records / f"{record.name}.begun").write_text(json.dumps({"keys": [], "names": []}))
    plan = planned(capfd, *run)
    assert plan["done"] < 4
    assert (records / f"{record.name}.begun").exists()


@pytest.mark.parametrize("shard", ["staged", "moved", "lost"])
def test_what_a_dead_run_has_promised_counts_if_it_can_be_kept(folder, words, capfd, monkeypatch, shard):
    """As the run will find, which keeps it first."""
    run = [words, "--root", "inputs", "--recipe", "words", "--sink", "webdataset", "--workers", "0"]
    assert here(capfd, "run", *run, "--output", folder / "out", "--limit", "3").code == 0
    keep = Journal.keep_own

    def copy_as_if_dead(journal: Journal, batch: str) -> None:
        shutil.copytree(folder / "out", folder / "dead")
        keep(journal, batch)

    monkeypatch.setattr(Journal, "keep_own", copy_as_if_dead)
    assert here(capfd, "run", *run, "--output", folder / "out").code == 0
    dead = [*run, "--output", folder / "dead"]
    (staged,) = (folder / "dead/.splitter/staging").glob("*/shards/*")
    if shard == "moved":
        staged.rename(folder / "dead/shards" / staged.name)
    elif shard == "lost":
        staged.unlink()
    before = tree(folder / "dead")
    plan = planned(capfd, *dead)
    assert (plan["done"], plan["new"], plan["to_do"]) == ((0, 4, 4) if shard == "lost" else (4, 0, 0))
    assert tree(folder / "dead") == before
    said = here(capfd, "run", *dead)
    assert said.code == 0
    assert ("nothing to do: 4 inputs, all finished" in said.err) == (shard != "lost")
    assert tree(folder / "dead") == tree(folder / "out")


def test_a_part_is_planned_as_it_would_be_run(folder, words, capfd):
    run = [words, "--root", "inputs", "--recipe", "words", "--output", folder / "out"]
    plans = [planned(capfd, *run, "--part", f"{number}/3") for number in (1, 2, 3)]
    assert sum(plan["inputs"] for plan in plans) == 4
    assert not (folder / "out").exists()


def test_a_person_is_told_the_same(folder, words, capfd):
    """By `plan`, and by `run --dry-run`."""
    run = [words, "--root", "inputs", "--recipe", "words", "--output", folder / "out"]
    (folder / "inputs/b.txt").unlink()
    said = here(capfd, "run", *run, "--dry-run")
    lines = said.out.splitlines()
    assert (said.code, said.err) == (0, "")
    assert lines[0] == "4 inputs: 3 new, 1 missing"
    assert lines[1].startswith("to do: 4 inputs (26 bytes), which give ")
    assert lines[2].startswith("time: about ")
    assert lines[-1] == f"1 input cannot be read: {folder}/inputs/b.txt: does not exist"
    assert here(capfd, "plan", *run).out.splitlines()[0] == lines[0]
    assert not (folder / "out").exists()


def test_recordings_that_will_fail_are_named(folder, capfd):
    (folder / "in").mkdir()
    soundfile.write(folder / "in/whole.wav", np.zeros(8000), 8000)
    (folder / "in/cut.wav").write_bytes((folder / "in/whole.wav").read_bytes()[:999])
    (folder / "in/text.wav").write_text("no sound")
    plan = planned(capfd, folder / "in", "--output", folder / "out")
    # and not again as failures of the trial
    assert (plan["faulty"], plan["tried_failed"], plan["failed_first"]) == (2, 0, [])
    assert "cut.wav: ends early" in plan["faulty_first"][0]
    assert "text.wav: is not sound: it is text" in plan["faulty_first"][1]
    lines = here(capfd, "plan", folder / "in", "--output", folder / "out").out.splitlines()
    assert lines[-3:] == [
        "2 inputs will fail, according to the header:",
        f"  {plan['faulty_first'][0]}",
        f"  {plan['faulty_first'][1]}",
    ]


def test_too_little_room_is_said(folder, words, capfd, monkeypatch):
    usage = shutil.disk_usage(folder)
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage._replace(free=3))
    said = here(capfd, "plan", words, "--root", "inputs", "--recipe", "words", "--output", folder / "out")
    assert "not enough disk space: " in said.out


def test_a_recipe_that_fails_says_so_in_the_trial(folder, words, capfd):
    """User code runs in a guarded process, here as in a run."""
    write_files(folder, {"faulty.py": FAULTY})
    run = [words, "--root", "inputs", "--output", folder / "out", "--recipe"]
    plan = planned(capfd, *run, f"{folder}/faulty.py:Faulty")
    assert (plan["tried"], plan["tried_failed"]) == (4, 4)
    assert plan["failed_first"][0] == "a.txt: ValueError in line 11 of faulty.py: as always"
    assert planned(capfd, *run, f"{folder}/faulty.py:Unknowing")["faulty"] == 4
    plan = planned(capfd, *run, f"{folder}/faulty.py:Deadly")
    assert (plan["outputs"], plan["bytes"], plan["tried_failed"]) == (4, 4, 0)


def test_inputs_that_take_longer_than_a_trial_are_no_failures(folder, words, capfd, monkeypatch):
    """They are given up, and the time is said to be at least what they were given."""
    monkeypatch.setattr("splitter.forecast.estimate.LONGEST_TRIAL", 3)
    monkeypatch.setattr("splitter.forecast.forecast.LONGEST_TRIAL", 3)
    write_files(folder, {"faulty.py": FAULTY})
    run = [words, "--root", "inputs", "--output", folder / "out", "--recipe", f"{folder}/faulty.py:Slow"]
    plan = planned(capfd, *run, "--workers", "4")
    assert (plan["tried"], plan["tried_failed"], plan["exact"], plan["outputs"]) == (2, 0, False, 4)
    assert plan["unfinished"]
    # with a limit of one's own they are failures, as in the run
    plan = planned(capfd, *run, "--workers", "4", "--timeout", "1.5")
    assert plan["unfinished"] == 0
    assert plan["tried_failed"]
    write_files(folder / "inputs", dict.fromkeys(["a.txt", "b.txt", "c.txt", "d.txt"], "x" * 9))
    said = here(capfd, "plan", *run, "--workers", "4").out
    assert "; number of outputs unknown" in said
    # four inputs, each by a worker of its own, and each takes at least that
    least = re.search(r"time: at least ([0-9.]+) s with 4 workers, ", said)
    assert least
    assert float(least[1]) >= 3
    assert " abandoned in a trial after 3 s" in said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_plan_that_is_interrupted_leaves_nothing(launcher, folder, words, tmp_path, number):
    """It ends with the exit code of the signal, and with all that it has started."""
    temporary, told = tmp_path / "temporary", folder / "told"
    temporary.mkdir()
    write_files(folder, {"faulty.py": FAULTY.replace("time.sleep", f"open({str(told)!r}, 'w'); time.sleep")})
    run = ["plan", words, "--root", "inputs", "--output", folder / "out"]
    plan = launcher.start(*run, "--recipe", f"{folder}/faulty.py:Slow", environ={"TMPDIR": str(temporary)})
    eventually(told.exists, lambda: "the trial has not begun")
    children = psutil.Process(plan.pid).children(recursive=True)
    plan.signal(number, group=False)
    assert plan.wait() == 128 + number
    assert not (folder / "out").exists()
    eventually(lambda: not any(one.is_running() for one in children), lambda: f"still there: {children}")
    assert not [*temporary.iterdir()]


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["a.txt", "a.txt"], "a.txt: is listed twice"),
        (["a.txt", "a.wav"], "its outputs would go to the same folder"),
    ],
)
def test_what_the_run_would_refuse_is_refused(folder, words, names, text, capfd):
    write_list(words, [["input"], *([name] for name in names)])
    said = here(capfd, "plan", words, "--root", "inputs", "--recipe", "words", "--output", folder / "out")
    assert (said.code, said.out) == (2, "")
    assert text in said.err


def test_a_folder_of_something_else_is_refused(folder, words, capfd):
    said = here(capfd, "plan", words, "--root", "inputs", "--recipe", "words", "--output", folder)
    assert said.code == 2
    assert "contains something else" in said.err


def test_what_earlier_runs_left_is_refused_in_the_same_words(folder, words, capfd):
    """Shards that would be lost, a column that the manifest has, a folder that cannot be written."""
    run = [words, "--root", "inputs", "--recipe", "words", "--output", folder / "out"]
    assert here(capfd, "run", *run, "--sink", "webdataset").code == 0
    here(capfd, "split", folder / "out", "--train", "0.5", "--test", "0.5")
    write_list(words, [["input", "split"], ["a.txt", "x"], ["b.txt", "x"]])
    for options in (["--rename", "split=fold", "--sink", "parquet"], [], ["--output", "/proc/version/x"]):
        said = [here(capfd, command, *run, *options) for command in ("plan", "run")]
        assert (said[0].code, said[0].err) == (2, said[1].err)
    assert planned(capfd, *run, "--rename", "split=fold", "--sink", "webdataset", "--prune")["removed"] == 2
    assert planned(capfd, *run, "--rename", "split=fold", "--fresh")["removed"] == 4


def test_python_has_the_same_numbers(folder, words):
    plan = Words(os.fspath(words)).plan(folder / "out", root="inputs")
    assert (plan.inputs, plan.new, plan.exact) == (4, 4, True)
    assert not (folder / "out").exists()


def test_nothing_to_do_is_said_quickly(folder, words, capfd):
    run = [words, "--root", "inputs", "--recipe", "words", "--output", folder / "out"]
    here(capfd, "run", *run)
    said = here(capfd, "plan", *run)
    assert said.out.splitlines()[:2] == ["4 inputs: 4 done", "nothing to do"]
