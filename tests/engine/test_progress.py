"""How far a run is: on terminals of any width, in a notebook, for other programs."""

import io
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
from fcntl import ioctl
from pathlib import Path

import numpy as np
import pytest
from doors import here, write_files
from hypothesis import given
from hypothesis import strategies as st
from in_between import die_once

from splitter import InputFile, OutputFile, Pipeline, ProcessorDataset
from splitter.engine.display import Display
from splitter.engine.progress import LiveLine, Snapshot, is_notebook, write_event
from splitter.errors import Interrupted
from splitter.ledger.journal import Journal
from splitter.ledger.records import DONE, RECORDED, RecordWriter, RowColumns
from splitter.storage.folder import LocalStorage
from splitter.worker.counts import recorded_of
from splitter.worker.messages import WorkCounts

FAILING = '''
import time
from splitter import OutputFile, ProcessorDataset

class Failing(ProcessorDataset):
    """An hour of sound each; every tenth input fails."""

    def process(self, input_file):
        time.sleep(0.01)
        if input_file.path.stem.endswith("7"):
            raise ValueError("bad")
        return [OutputFile("0", b"x" * 1000)], {"source_seconds": 3600.0}
'''


@pytest.fixture
def run(folder: Path) -> tuple[object, ...]:
    """The command line of a run over 100 inputs, 10 of which fail."""
    texts = {f"inputs/{number:02d}.txt": "x" for number in range(100)}
    write_files(folder, {"failing.py": FAILING, **texts})
    recipe = f"--recipe={folder}/failing.py:Failing"
    return "run", folder / "inputs", "--pattern=*.txt", recipe, "--workers=1", "-o", folder / "out"


def on_terminal(columns: int, *arguments: object) -> list[str]:
    """Run the program on a terminal; return the lines it drew, one after the other, without colours."""
    ours, theirs = pty.openpty()
    ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    without = {name: value for name, value in os.environ.items() if name not in {"COLUMNS", "CI", "NO_COLOR"}}
    command = [sys.executable, "-m", "splitter", *map(str, arguments)]
    with subprocess.Popen(command, stdout=theirs, stderr=theirs, env={**without, "TERM": "xterm-256color"}):
        os.close(theirs)
        drawn = b""
        while True:
            try:
                drawn += os.read(ours, 1 << 16)
            except OSError:
                break
    os.close(ours)
    assert b"\x1b[31m" in drawn, "failures are red"
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", drawn.decode())
    return [line for line in re.split(r"[\r\n]+", plain) if line]


@pytest.mark.slow
def test_a_narrow_terminal_shows_what_matters(run: tuple[object, ...]):
    """At 60 columns: counts, failures, the time left with its name, and the rate in hours of sound."""
    lines = on_terminal(60, *run)
    live = [line for line in lines if "━" in line]
    assert max(map(len, live)) <= 60
    last = live[-1].rstrip()
    assert re.search(r"━ 100/100  10 failed  0:00 left  [\d,]+ h of sound/h$", last), last
    assert "90 of 100 inputs done, 10 failed; 90 outputs (90 kB) made" in "\n".join(lines)


def test_the_rate_is_that_of_the_present_round(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    """After a lost worker, the sound that was done before does not count for the time since."""
    monkeypatch.setattr("splitter.engine.progress.SECONDS_BETWEEN_LINES", 0.0)
    work = WorkCounts(inputs=2, recorded=1e9)
    with Display() as display:
        display.start(inputs=4, size=40)
        display.update(work)
        display.start(inputs=2, size=20, done=2)
        display.update(work)
    rates = re.findall(r"([\d,]+) h of sound/h", capfd.readouterr().err)
    assert (rates[0] != "0", rates[-1]) == (True, "0")


NUMBERS = st.integers(0, 10**9)


@given(columns=st.integers(20, 300), counts=st.tuples(NUMBERS, NUMBERS, NUMBERS), recorded=st.floats(0, 1e12))
def test_the_line_fits_any_width(columns: int, counts: tuple[int, int, int], recorded: float):
    """The counts are always there, the rest as far as it fits, and the line never breaks."""
    from rich.console import Console

    inputs, failed, outputs = counts
    work = WorkCounts(inputs=inputs, failed=failed, outputs=outputs, recorded=recorded)
    view = object.__new__(LiveLine)
    view.show(Snapshot(inputs * 2, 0, work, "3 nodes, 12 of 24 CPUs"))
    paper = io.StringIO()
    Console(file=paper, width=columns, color_system=None).print(view)
    lines = paper.getvalue().splitlines()
    if columns >= len(f"{inputs:,}/{inputs * 2:,}") + 2:
        assert len(lines) == 1
        assert f"{inputs:,}/{inputs * 2:,}" in lines[0]
    assert max(map(len, lines)) <= columns


def test_json_for_other_programs(run: tuple[object, ...], capfd: pytest.CaptureFixture[str]):
    """One object per line on the standard output stream; the last progress and the end have all numbers."""
    said = here(capfd, *run, "--progress=json", "--quiet")
    events = [json.loads(line) for line in said.out.splitlines()]
    assert [event["event"] for event in events[-2:]] == ["progress", "end"]
    progress, end = events[-2:]
    counts = {"inputs": 100, "done": 90, "skipped": 0, "failed": 10, "outputs": 90, "bytes": 90_000}
    assert {name: progress[name] for name in counts} == counts
    assert (progress["tried"], progress["sound_seconds"], progress["seconds_left"]) == (100, 90 * 3600.0, 0.0)
    assert {name: end[name] for name in counts} == counts
    assert Path(end["manifest"]).is_file()
    tried = [event["tried"] for event in events[:-1]]
    assert tried == sorted(tried)


class Hour(ProcessorDataset):
    """An hour of sound in each input."""

    def process(self, input_file: InputFile):
        return [OutputFile("0.txt", "sound")], {"source_seconds": 3600.0}


@pytest.fixture
def hours(folder: Path) -> Hour:
    """Inputs of an hour each."""
    return Hour(str(write_files(folder / "in", {f"{number}.txt": "sound" for number in range(4)})))


def sound_seconds(output: Path) -> float:
    """The length of the recordings that the last run has done."""
    return json.loads((output / ".splitter/last_run.json").read_text())["sound_seconds"]


@pytest.mark.parametrize("sink", ["webdataset", "parquet"])
def test_sound_in_shards_counts(hours: Hour, folder: Path, sink: str):
    """As in loose files."""
    hours.run(folder / "out", sink=sink, workers=0, quiet=True)
    assert sound_seconds(folder / "out") == 4 * 3600.0


@pytest.mark.slow
@pytest.mark.parametrize("sink", ["files", "webdataset"])
@pytest.mark.parametrize("generations", [0, 1])
def test_sound_of_a_runner_or_a_guard_that_dies_counts(
    hours: Hour, folder: Path, monkeypatch: pytest.MonkeyPatch, sink: str, generations: int
):
    """Its report is missing, and its commit record says what it did."""
    commit = Journal.commit

    def dies(self: Journal, batch: str, record: RecordWriter) -> None:
        commit(self, batch, record)
        die_once(folder, generations)

    monkeypatch.setattr(Journal, "commit", dies)
    hours.run(folder / "out", sink=sink, workers=1, quiet=True)
    assert (folder / "died").exists()
    assert sound_seconds(folder / "out") == 4 * 3600.0


def test_nothing_is_read_to_count_the_sound_of_a_run_that_is_interrupted(
    hours: Hour, folder: Path, monkeypatch: pytest.MonkeyPatch
):
    """Reports are missing then, and in a large folder it would take minutes until the run ends."""
    commit = Journal.commit

    def interrupted(self: Journal, batch: str, record: RecordWriter) -> None:
        commit(self, batch, record)
        raise Interrupted(signal.SIGINT)

    monkeypatch.setattr(Journal, "commit", interrupted)
    monkeypatch.setattr("splitter.engine.rounds.recorded_of", lambda *_: pytest.fail("rows are read"))
    with pytest.raises(Interrupted) as caught:
        hours.run(folder / "out", workers=0, quiet=True)
    assert caught.value.summary.work.done > 0


def test_each_record_is_opened_once_to_count_sound(folder: Path, monkeypatch: pytest.MonkeyPatch):
    """Whatever the order of the list is: the inputs here come from 40 records in turn."""
    storage = LocalStorage(str(folder / "out"))
    storage.prepare()
    journal, head = Journal(storage), RowColumns(("input",), (), ((RECORDED, "float"),))
    for number in range(40):
        record = RecordWriter()
        for key in (number, 40 + number):
            text = f"{key}.txt,,,,2.5\n" * 2
            record.add(key, 0, DONE, head=head, outputs=0, size=0, text=text.encode())
        journal.commit(f"000001-{number:06d}", record)
    journal.load()
    opened, opening = [], LocalStorage.open

    def counted(self: LocalStorage, name: str):
        opened.append(name)
        return opening(self, name)

    monkeypatch.setattr(LocalStorage, "open", counted)
    assert recorded_of(journal, journal.find(np.arange(80, dtype="u8"))) == 80 * 2.5
    assert len(opened) == 40


def test_sound_of_a_fused_stage_counts(hours: Hour, folder: Path):
    """Other workers do its work, and report it to their own driver."""
    pipeline = Pipeline(folder / "out")
    pipeline.stage("last", Hour(pipeline.stage("first", hours, workers=0)), fuse=True, workers=0)
    pipeline.run(quiet=True)
    assert sound_seconds(folder / "out/last") == 4 * 3600.0


def test_a_dry_run_says_its_plan_in_json(run: tuple[object, ...], capfd: pytest.CaptureFixture[str]):
    """As `splitter plan --json` does, as an event."""
    (line,) = here(capfd, *run, "--dry-run", "--progress=json", "--quiet").out.splitlines()
    plan = json.loads(line)
    assert plan.pop("event") == "plan"
    assert plan.keys() == json.loads(here(capfd, "plan", *run[1:], "--json", "--quiet").out).keys()
    assert plan["to_do"] == plan["inputs"] > 0


def test_a_program_that_reads_no_more(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]):
    """It does not end the run; that is said once."""
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "w", encoding="utf-8") as pipe:
        monkeypatch.setattr(sys, "stdout", pipe)
        for tried in range(3):
            write_event("progress", {"tried": tried})
    assert capfd.readouterr().err == (
        "note: --progress json: the standard output stream: Broken pipe; the run continues\n"
    )


def test_a_bar_in_a_notebook(monkeypatch: pytest.MonkeyPatch):
    """A cell shows one bar, which is replaced as the run goes on and taken away at its end."""
    from IPython.core.interactiveshell import InteractiveShell
    from IPython.utils.capture import capture_output

    assert not is_notebook()
    shell = InteractiveShell.instance()
    try:
        monkeypatch.setattr(shell, "kernel", object(), raising=False)
        assert is_notebook()
        with capture_output() as cell, Display() as display:
            display.start(inputs=4, size=40)
            display.update(WorkCounts(inputs=2, done=1, failed=1, outputs=3, bytes=30))
            display.update(WorkCounts(inputs=4, done=3, failed=1, outputs=9, bytes=90), "2 nodes")
    finally:
        InteractiveShell.clear_instance()
    shown = [output.data["text/html"] for output in cell.outputs]
    assert (shown[0], shown[-1]) == ("", "")
    assert shown[1].startswith('<progress max="4" value="2"></progress> 2/4 · 1 failed · 0:00 left · ')
    assert shown[2].endswith(" · 9 outputs, 90 bytes · 2 nodes")
    assert len({output.transient["display_id"] for output in cell.outputs}) == 1
    assert [output.update for output in cell.outputs] == [False, True, True, True]
