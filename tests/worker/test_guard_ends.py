"""A guard takes along what its runner has started, whatever signal comes while it ends."""

import uuid
from pathlib import Path

import pytest
from doors import SHARED, read_table, write_files, write_list
from launcher import Launcher, eventually, make_inputs, with_argument

# the signal comes just when the guard has closed the pipe to its runner, as it does on a busy machine
RECIPE = f"""
import os, signal, sys
from multiprocessing.connection import Connection

sys.path.insert(0, {str(SHARED)!r})
from faulty import Parent

close = Connection._close

def closing(self, *rest):
    close(self, *rest)
    handler = signal.getsignal(signal.SIGTERM)
    if getattr(handler, "__name__", "") == "_leave" and os.path.exists(os.environ["A_LOG"]):
        os.kill(os.getpid(), signal.SIGTERM)

Connection._close = closing

class Interrupted(Parent):
    pass
"""


def test_a_signal_while_a_guard_hangs_up(launcher: Launcher, folder: Path, tmp_path: Path):
    """Children of inputs are gone with the run, though the guard is told twice to end."""
    (folder / "interrupted.py").write_text(RECIPE)
    token, log = uuid.uuid4().hex, tmp_path / "log"
    dataset = make_inputs(folder / "data", {"a.txt": "one"})
    recipe = (
        "--recipe",
        f"{folder}/interrupted.py:Interrupted",
        "--workers",
        1,
        "--log",
        log,
        "--token",
        token,
    )
    run = launcher.run("run", dataset, *recipe, environ={"A_LOG": str(log)})
    assert run.code == 0, run.stderr
    eventually(lambda: not with_argument(token), lambda: str(with_argument(token)))


# killed from outside, as by the kernel, at the starts and the commits that are named
UNLUCKY = """
import os, signal
from splitter import ProcessorDataset
from splitter.ledger.journal import Journal


class Unlucky(ProcessorDataset):
    def __init__(self, inputs, log: str, killed: str):
        super().__init__(inputs)
        self.log, self.killed = log, killed.split()

    def count(self, what):
        with open(self.log + what, "a") as log:
            log.write("x")
        if f"{what}{os.path.getsize(self.log + what)}" in self.killed:
            os.kill(os.getpid(), signal.SIGKILL)

    def setup(self):
        self.count("start")
        commit = Journal.commit

        def counted(*fields):
            self.count("commit")
            commit(*fields)

        Journal.commit = counted

    def process(self, input_file):
        if input_file.read_text() == "bad":
            os._exit(7)
        return [], {}
"""
TWICE_EACH = "start1 start2 start4 start5 start7 start8"
IN_A_ROW = "start1 start3 start4 start5"


@pytest.mark.parametrize(
    ("sink", "bad", "killed", "starts"),
    [
        *[(sink, "b d", TWICE_EACH, 9) for sink in ("files", "webdataset")],
        *[(sink, "b d", IN_A_ROW, 5) for sink in ("files", "webdataset")],
        # what comes before b is committed between the second and the third
        ("files", "b", "commit1 commit2 commit4", 5),
    ],
)
def test_a_worker_killed_outside_of_any_input(  # noqa: PLR0913, PLR0917
    launcher: Launcher, folder: Path, sink: str, bad: str, killed: str, starts: int
):
    """Three times in a row ends the run, at once; an input reached in between, or a commit, is progress."""
    (folder / "unlucky.py").write_text(UNLUCKY)
    texts = {f"{name}.txt": "bad" if name in bad else "good" for name in "abcde"}
    dataset = make_inputs(folder / "data", texts)
    recipe = ("--recipe", folder / "unlucky.py:Unlucky", "--log", folder / "log ", "--killed", killed)
    # all in one batch, and nobody asks first whether the recipe works
    options = ("--workers", 1, "--max-failures", "100%", "--sink", sink)
    options += ("--batch-size", 5) if sink == "files" else ()
    run = launcher.run("run", dataset, *recipe, *options, "--output", folder / "outputs")
    assert run.code == 1
    assert (folder / "log start").stat().st_size == starts, run.stderr
    in_a_row = "a worker died 3 times in a row outside of any input: killed by SIGKILL (out of memory?); use"
    assert (in_a_row in run.stderr) == (killed == IN_A_ROW)
    if killed != IN_A_ROW:
        failed = [row["input"] for row in read_table(folder / "outputs" / "errors.csv")]
        assert failed == [f"{name}.txt" for name in bad.split()]


# a setup() that is killed the first time, and leaves behind a process that holds all its files open
LEAVING = """
import os, signal, time
from splitter import ProcessorDataset


class Leaving(ProcessorDataset):
    def __init__(self, inputs, log: str):
        super().__init__(inputs)
        self.log = log

    def setup(self):
        if not os.path.exists(self.log):
            open(self.log, "x").close()
            if not os.fork():
                time.sleep(1000)
            os.kill(os.getpid(), signal.SIGKILL)

    def process(self, input_file):
        return [], {}
"""


def test_a_large_batch_for_a_worker_that_dies_in_setup(launcher: Launcher, folder: Path):
    """More than a pipe holds: nobody takes it, and nothing says that nobody will."""
    (folder / "leaving.py").write_text(LEAVING)
    write_files(folder, {"a.txt": "one"})
    dataset = write_list(folder / "list.csv", [["input", "label"], ["a.txt", "x" * 1_000_000]])
    recipe = ("--recipe", folder / "leaving.py:Leaving", "--log", folder / "log", "--workers", 1)
    run = launcher.start("run", dataset, *recipe, "--output", folder / "outputs")
    assert run.wait(60) == 0, run.stderr
