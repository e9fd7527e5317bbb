"""How long splitter takes to start: its help and four words, compared with Python and `import torch`."""

import argparse
import subprocess
import sys
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from harness import CHECKOUT, SPLITTER, clear, describe_machine, environment, format_table, time_command

HEAVY = frozenset({"torch", "pandas", "ray", "librosa"})
WORDS = CHECKOUT / "data_samples" / "words" / "dataset.csv"
AIMS_SECONDS = {"splitter --help": 0.25, "splitter run, four words": 2.0}


def main() -> None:
    """Measure, then print the table; exit with 1 if the help imports heavy packages."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    with TemporaryDirectory(prefix="splitter-startup-") as folder:
        times = measure(Path(folder), rounds)
    print(describe_machine("torch", "pandas", "ray", "click", "rich"))
    print(f"median of {rounds} fresh processes\n")
    rows = [table_row(name, times[name]) for name in times]
    print(format_table(("command", "seconds", "range", "aim"), rows))
    check_help_imports()


def measure(folder: Path, rounds: int) -> dict[str, list[float]]:
    """Let the commands take turns; a first turn, which only fills the disk cache, does not count."""
    output, log = folder / "outputs", folder / "log"
    commands = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "python -c 'import torch'": [sys.executable, "-c", "import torch"],
        "splitter --help": [*SPLITTER, "--help"],
        "splitter run, four words": [
            *(*SPLITTER, "run", str(WORDS), "--root", "inputs", "--recipe", "words"),
            *("--output", str(output)),
        ],
    }
    times: dict[str, list[float]] = {name: [] for name in commands}
    for turn in range(rounds + 1):
        for name, command in commands.items():
            clear(output)
            seconds = time_command(command, log)
            if turn:
                times[name].append(seconds)
    return times


def table_row(name: str, times: list[float]) -> list[str]:
    """Return the row of one command."""
    aim = AIMS_SECONDS.get(name)
    verdict = "" if aim is None else f"under {aim} s: {'met' if median(times) < aim else 'MISSED'}"
    return [name, f"{median(times):.3f}", f"{min(times):.3f}-{max(times):.3f}", verdict]


def check_help_imports() -> None:
    """Check that `splitter --help` imports no heavy package; exit with 1 if it does."""
    command = [sys.executable, "-X", "importtime", "-m", "splitter", "--help"]
    said = subprocess.run(
        command, env=environment(), cwd=CHECKOUT, capture_output=True, text=True, check=True
    ).stderr
    lines = [line for line in said.splitlines() if line.startswith("import time:")]
    packages = {line.rpartition("|")[2].strip().partition(".")[0] for line in lines}
    if "splitter" not in packages:
        sys.exit("cannot tell what `splitter --help` imports: Python named no module of splitter")
    heavy = sorted(HEAVY & packages)
    found = ", ".join(heavy) or "none"
    print(f"\n`splitter --help` imports {len(lines)} modules, of the heavy ones: {found}")
    sys.exit(bool(heavy))


if __name__ == "__main__":
    main()
