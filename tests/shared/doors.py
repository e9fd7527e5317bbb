"""What all tests share: the entry points that users have, and ways to look at results."""

import csv
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import forked

from splitter.cli.main import exit_code
from splitter.testing.published import read_table as read_table  # noqa: PLC0414 - for the tests
from splitter.testing.published import tree as tree  # noqa: PLC0414

CHECKOUT = Path(__file__).resolve().parents[2]
# has recipes, too
SHARED = CHECKOUT / "tests" / "shared"

WORDS = {"a.txt": "simple", "b.txt": "scaleable", "c.txt": "preprocessing", "d.txt": "pytorch"}


@dataclass(frozen=True)
class Said:
    """The result of a command line: its exit code, and what it printed."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.err.splitlines()


def program(
    *arguments: str | os.PathLike[str],
    cwd: Path | None = None,
    python: Sequence[str] | None = None,
    stdin: str | None = None,
    **environment: str,
) -> Said:
    """Run splitter, or another Python program, in a separate process."""
    # Python reads these variables when it starts, so a fork would ignore them
    is_own = any(
        name.startswith(("PYTHON", "LC_")) and value != os.environ.get(name)
        for name, value in environment.items()
    )
    is_fork = forked.AVAILABLE and not is_own and python is None
    own = [sys.executable, *(("-m", "splitter") if python is None else python)]
    done = subprocess.run(
        [*(forked.command() if is_fork else own), *map(os.fspath, arguments)],
        cwd=cwd,
        input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT), **environment},
        capture_output=True,
        text=True,
        errors="surrogateescape",
        timeout=120,
        check=False,
    )
    return Said(done.returncode, done.stdout, done.stderr)


def here(capfd, *arguments: str | os.PathLike[str]) -> Said:
    """Run the command line in this process: quick, and the same code except for the start of Python."""
    capfd.readouterr()
    code = exit_code([os.fspath(argument) for argument in arguments])
    return Said(code, *capfd.readouterr())


def run_words(capfd, dataset: Path, *options: str) -> Said:
    """Run the recipe `words` over a list with `here`; the output folder is beside the list."""
    output = dataset.parent / "outputs"
    return here(
        capfd,
        "run",
        dataset,
        "--recipe=words",
        "--root=inputs",
        f"--output={output}",
        "--workers=0",
        *options,
    )


def write_files(folder: Path, files: dict[str, str | bytes]) -> Path:
    """Write files below a folder, and make the folders they need."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def write_list(path: Path, rows: Iterable[Sequence[str]]) -> Path:
    """Write a dataset list with Python's csv module."""
    with path.open("w", newline="", encoding="utf-8", errors="surrogateescape") as file:
        csv.writer(file).writerows(rows)
    return path
