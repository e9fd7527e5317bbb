"""What a terminal shows of a run on Ray."""

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

from executors.ray_nodes import PATH_OF_WORKERS

# until the live line was drawn in between
SLOW = """
import os, time
from splitter import OutputFile, ProcessorDataset

class Slow(ProcessorDataset):
    def process(self, input_file):
        while not os.path.exists(os.environ["GO"]):
            time.sleep(0.05)
        return [OutputFile("copy.txt", input_file.read_bytes())], {}
"""
BUSY = "  1 node, 2 of 2 CPUs"
CONTROL = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


def shown_on_a_terminal(go: Path, *arguments: object) -> str:
    """All that a run has written to a terminal, without what moves the cursor; it ends once it was busy."""
    ours, theirs = pty.openpty()
    environ = {**os.environ, "PYTHONPATH": PATH_OF_WORKERS, "TERM": "xterm", "COLUMNS": "160"}
    environ["GO"] = str(go)
    command = [sys.executable, "-m", "splitter", "run", *map(str, arguments)]
    with subprocess.Popen(command, stderr=theirs, stdout=theirs, env=environ) as process:
        os.close(theirs)
        seen = b""
        try:
            while part := os.read(ours, 1 << 16):
                seen += part
                if BUSY in CONTROL.sub("", seen.decode(errors="replace")):
                    go.touch()
        except OSError:
            # Linux says so when the last writer is gone
            pass
        os.close(ours)
    assert process.returncode == 0, seen
    return CONTROL.sub("", seen.decode())


def test_nodes_and_cpus_in_use(folder: Path):
    """They stand in the live line from the start, before anything is done; nothing of Ray's own log does."""
    words = folder / "inputs"
    words.mkdir()
    for number in range(6):
        (words / f"{number}.txt").write_text("preprocessing")
    recipe = folder / "slow.py"
    recipe.write_text(SLOW)
    options = ["--recipe", f"{recipe}:Slow", "--executor", "ray", "--workers", 2]
    options += ["--output", folder / "outputs"]
    shown = shown_on_a_terminal(folder / "go", words, *options)
    lines = [line.strip() for line in re.split(r"[\r\n]+", shown) if line.strip(" ━╸╺")]
    assert lines[:2] == ["starting: executor ray on this machine", "6 inputs (78 bytes) to do"]
    live = [re.sub(r"^[━╸╺]+ ", "", line) for line in lines[2:-3]]
    wanted = r"0/6 {2}0 inputs/s {2}0 outputs, 0 bytes {2}1 node, [0-2] of 2 CPUs"
    assert any(re.match(wanted, line) for line in live), live
    assert any(line.endswith(BUSY) for line in live), live
    assert lines[-3].startswith("6 of 6 inputs done; 6 outputs"), lines
    # on a slow machine that is said as well
    assert all(re.match(r"\d/6 |.*still on the first inputs", line) for line in live), live
