"""What is shown while a run goes on."""

import os
import re
import signal
import sys
import threading
from pathlib import Path

import pytest
from doors import here, write_files

from splitter import InputFile, OutputFile, ProcessorDataset
from splitter.engine.display import Display
from splitter.errors import Interrupted
from splitter.ledger.journal import Journal
from splitter.ledger.records import RecordWriter
from splitter.worker.messages import WorkCounts

pytestmark = pytest.mark.slow


def test_lines_where_there_is_no_terminal(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    """How much is done, and on what; how long it will take is said only once there is something to go by."""
    monkeypatch.setattr("splitter.engine.progress.SECONDS_BETWEEN_LINES", 0.0)
    with Display() as display:
        display.start(inputs=8, size=80)
        display.update(WorkCounts(), "2 nodes, 3 of 8 CPUs")
        display.update(WorkCounts(inputs=4, outputs=9, bytes=2_000), "2 nodes, 8 of 8 CPUs")
        display.update(WorkCounts(inputs=8, outputs=18, bytes=4_000))
    lines = [line for line in capfd.readouterr().err.splitlines() if " of 8 inputs, " in line]
    assert lines[0] == "0 of 8 inputs, 0 outputs, 0 bytes, 0 inputs/s on 2 nodes, 3 of 8 CPUs"
    assert lines[1].startswith("4 of 8 inputs, 9 outputs, 2 kB, ")
    assert re.search(r" inputs/s on 2 nodes, 8 of 8 CPUs, \d+\.\d+ s left$", lines[1]), lines[1]
    assert "node" not in lines[2]


@pytest.mark.parametrize(
    ("size", "shown"),
    [
        (999, "999 bytes"),
        (999_499, "999 kB"),
        (999_500, "1 MB"),
        (99_960_000, "100 MB"),
        (1_234_000_000_000, "1.23 TB"),
        (1_234_567_000_000_000, "1,235 TB"),
    ],
)
def test_sizes_have_three_digits(capfd: pytest.CaptureFixture[str], size: int, shown: str):
    """Without exponents, which nobody reads in a size."""
    with Display() as display:
        display.start(inputs=1, size=size)
    assert f"1 input ({shown}) to do" in capfd.readouterr().err


class Noting(ProcessorDataset):
    """A recipe about which the run says something in between."""

    def process(self, input_file: InputFile):
        return [OutputFile("0", input_file.read_bytes())], {}

    def process_batch(self, input_files):
        raise ValueError("one by one, please")


@pytest.mark.parametrize("progress", ["auto", "json"])
def test_a_run_goes_on_when_nobody_reads_what_it_says(
    folder: Path, monkeypatch: pytest.MonkeyPatch, progress: str
):
    """As when the program at the other end of a pipe has ended: that is no reason to end a run of days."""
    names = ("a", "b", "c")
    write_files(folder, dict.fromkeys(names, "text"))
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w", encoding="utf-8") as pipe, open(os.dup(writer), "w", encoding="utf-8") as other:
        monkeypatch.setattr(sys, "stderr", pipe)
        monkeypatch.setattr(sys, "stdout", other)
        dataset = Noting([{"input": str(folder / name)} for name in names])
        manifest = dataset.run(folder / "outputs", workers=0, batch_size=1, progress=progress)
    assert len(manifest) == 3


def test_inputs_without_outputs_are_counted(capfd: pytest.CaptureFixture[str], tmp_path: Path):
    """A recording without speech would be missing in the dataset, and nobody would know."""
    write_files(tmp_path / "in", {"a.txt": "simple", "b.txt": "", "c.txt": " "})
    run = ["run", tmp_path / "in", "--recipe", "words", "--num-chars", "6", "--workers", "0", "-o"]
    first = here(capfd, *run, tmp_path / "out").lines[1]
    assert re.fullmatch(r"3 of 3 inputs done; 1 output \(6 bytes\) made in .* s, none from 2 inputs", first)
    (tmp_path / "in/a.txt").unlink()
    # a recipe that makes no files at all may be meant to
    assert "none from" not in here(capfd, *run, tmp_path / "none").err


def test_inputs_without_outputs_are_counted_where_their_report_is_missing(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """As after a signal; their commit records are there."""
    commit = Journal.commit

    def interrupted(self: Journal, batch: str, record: RecordWriter) -> None:
        commit(self, batch, record)
        raise Interrupted(signal.SIGINT)

    monkeypatch.setattr(Journal, "commit", interrupted)
    write_files(tmp_path / "in", {"a.txt": "simple", "b.txt": "", "c.txt": " "})
    run = ["run", tmp_path / "in", "--recipe", "words", "--num-chars", "6", "--workers", "0"]
    said = here(capfd, *run, "--batch-size", "3", "-o", tmp_path / "out")
    assert re.search(r"3 of 3 inputs done; 1 output .*, none from 2 inputs\n", said.err)


def test_a_signal_while_the_wait_for_the_first_begins_leaves_no_traceback(monkeypatch: pytest.MonkeyPatch):
    """The timer is made and not started yet; the display can be taken away all the same."""

    def interrupted(timer: threading.Timer) -> None:
        raise Interrupted(signal.SIGINT)

    monkeypatch.setattr("threading.Timer.start", interrupted)
    display = Display()
    display.start(inputs=1, size=1)
    with pytest.raises(Interrupted):
        display.update(WorkCounts())
    display.stop()


KILLER = '''
import os, signal, time
from splitter import OutputFile, ProcessorDataset

class Killer(ProcessorDataset):
    """Two outputs for each text; four times the guard is killed while one is made."""

    def process(self, input_file):
        if input_file.path.stem in ("07", "15", "20", "33"):
            try:
                os.mkdir(input_file.path.with_suffix(".killed"))
            except FileExistsError:
                pass
            else:
                os.kill(os.getppid(), signal.SIGKILL)
                time.sleep(60)
        return [OutputFile(f"{i}", b"12345") for i in range(2)], {}
'''


@pytest.mark.parametrize("sink", ["files", "webdataset"])
def test_the_numbers_are_right_when_workers_are_lost(folder, capfd, monkeypatch, sink):
    """Never more than there is to do, never less than before, no negative time; all outputs are counted."""
    monkeypatch.setattr("splitter.engine.progress.SECONDS_BETWEEN_LINES", 0.0)
    monkeypatch.setattr("splitter.ledger.shard_groups.MOST_SMALL", 4)
    write_files(folder, {"killer.py": KILLER, **{f"inputs/{number:02d}.txt": "x" for number in range(36)}})
    run = ("run", folder / "inputs", "--pattern=*.txt", f"--recipe={folder}/killer.py:Killer", "--workers=2")
    size = ("--batch-size=4",) if sink == "files" else ()
    said = here(capfd, *run, *size, f"--sink={sink}", "-o", folder / "out")
    assert said.code == 0, said.err
    assert "a worker process was lost" in said.err
    done = [int(line.split()[0]) for line in said.lines if " of 36 inputs, " in line]
    assert done == sorted(done)
    assert done[-1] <= 36
    assert not re.search(r"-\d[\d.]* (s|min) left", said.err)
    assert "36 of 36 inputs done; 72 outputs (360 bytes) made" in said.err
