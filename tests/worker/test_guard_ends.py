"""A guard takes along what its runner has started, whatever signal comes while it ends."""

import uuid
from pathlib import Path

from doors import SHARED
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
    eventually(lambda: not with_argument(token), lambda: str(with_argument(token)), 5)
