"""What the benchmarks share: fresh processes, their environment, the machine, and tables."""

import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

BENCHMARKS = Path(__file__).resolve().parent
CHECKOUT = BENCHMARKS.parents[1]
PARTS_RECIPE = f"{BENCHMARKS / 'parts.py'}:Parts"
SPLITTER = (sys.executable, "-m", "splitter")
DEFAULT_SCRATCH = Path(tempfile.gettempdir(), "splitter-benchmarks")
TIME_LIMIT_SECONDS = 1800


class CommandFailedError(Exception):
    """A measured command ended with an exit code other than 0; the message has the end of its output."""


def environment() -> dict[str, str]:
    """Return an environment in which `python -m splitter` runs from this checkout, without writing to it."""
    paths = [str(CHECKOUT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | {"PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1"}


@contextmanager
def running(command: Sequence[str], log: Path, temporary: str = "") -> Iterator[subprocess.Popen[bytes]]:
    """Run a command in a new process group, wait for it, and check that it succeeds.

    Its output goes to the log. If it hangs, or if this script is interrupted, its group is killed.
    """
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            env={**environment(), **({"TMPDIR": temporary} if temporary else {})},
            cwd=CHECKOUT,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield process
        process.wait(TIME_LIMIT_SECONDS)
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise
    if process.returncode != 0:
        end = log.read_text(encoding="utf-8", errors="replace")[-2000:]
        raise CommandFailedError(f"exit code {process.returncode}: {end.strip()}")


def time_command(command: Sequence[str], log: Path) -> float:
    """Return the wall time in seconds of a fresh process, which must succeed."""
    # some tools leave a temporary folder for each input, which is removed after the measurement
    with tempfile.TemporaryDirectory(prefix="bench") as temporary:
        began = time.perf_counter()
        with running(command, log, temporary):
            pass
        return time.perf_counter() - began


def clear(folder: Path) -> Path:
    """Remove what an earlier run left, and write everything to disk, outside of the measured time."""
    shutil.rmtree(folder, ignore_errors=True)
    os.sync()
    return folder


def describe_machine(*packages: str) -> str:
    """Return the versions and the number of CPUs behind the results."""
    versions = " ".join(f"{package} {installed_version(package) or '-'}" for package in packages)
    return f"Python {platform.python_version()}, {versions}\n{platform.system()}, {os.cpu_count()} CPUs"


def installed_version(package: str) -> str | None:
    """Return a package's version, or None if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def format_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Align columns: the first to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    lines = [
        "  ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])])
        for line in (header, ["-" * width for width in widths], *rows)
    ]
    return "\n".join(lines)
