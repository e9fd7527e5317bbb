"""Runs that die, or meet a faulty disk, at their Nth change to the disk.

A run is a fork of a process that has imported what it needs (see dying.py), and uses no workers, so its
changes always come in the same order. It is really killed: no `finally` or `except` of the program can affect
what is left.
"""

import csv
import functools
import json
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import xxhash
from launcher import environment
from served import Server

from splitter import read_manifest

RECIPE = Path(__file__).with_name("marked.py")
SERVER = Path(__file__).with_name("dying.py")


@dataclass(frozen=True)
class Ended:
    """The end of a run.

    Attributes:
        code: Its exit code, or minus the signal that killed it.
        steps: The kinds of the changes to the disk that it began, in order.
        said: What it printed.
    """

    code: int
    steps: list[str]
    said: str

    @property
    def died(self) -> bool:
        return self.code == -signal.SIGKILL


def undisturbed(arguments: Sequence[str], **environ: str) -> Ended:
    """Run to the end."""
    return _run(arguments, environ)


def killed(arguments: Sequence[str], at: int | None, **environ: str) -> Ended:
    """Run, and die instead of change number `at`; if that is a write, in the middle of it."""
    return _run(arguments, environ, at=at)


def traced(
    arguments: Sequence[str],
    output: Path,
    trace: Path,
    at: int | None = None,
    *,
    boot: str = "the first start",
    **environ: str,
) -> Ended:
    """Run, and write a trace of all changes to the output for power_cuts.py; die at change `at`, if given."""
    return _run(arguments, environ, output=str(output), trace=str(trace), at=at, boot=boot)


def restarted(arguments: Sequence[str], **environ: str) -> Ended:
    """Run to the end, after one more restart of the machine."""
    return _run(arguments, environ, boot="the last start")


def faulty(arguments: Sequence[str], at: int, number: int, *, for_good: bool, **environ: str) -> Ended:
    """Run, but let change number `at` fail with an error and, if `for_good`, all changes after it."""
    return _run(arguments, environ, at=at, error=number, for_good=for_good)


def _run(arguments: Sequence[str], environ: dict[str, str], **fate: Any) -> Ended:
    with tempfile.TemporaryDirectory(prefix="splitter-test-") as folder:
        said, steps = Path(folder, "said"), Path(folder, "steps")
        request = {"arguments": [*arguments], "environ": environ, "folder": os.getcwd(), **fate}
        code = _server().ask({**request, "said": str(said), "steps": str(steps)})
        return Ended(code, steps.read_text().split(), said.read_text())


@functools.cache
def _server() -> Server:
    """Start the process that forks runs; it ends with this one, when its standard input is closed."""
    return Server([sys.executable, SERVER], environment())


# -- what must be true of an output folder at every moment ---------------------------------------------


def complaints(output: Path, is_named: Callable[[str, dict[str, Any]], bool] | None = None) -> list[str]:
    """Return what is wrong with a folder after a death: incomplete outputs, a manifest that lies.

    `is_named` tells from the content of an output whether it may have its name.
    """
    found = []
    for name, content in contents(output).items():
        if name in ("manifest.csv", "errors.csv"):
            continue
        if not is_whole(name, content, is_named or in_folder):
            found.append(f"{name} is not whole: {content!r}")
    for row in read_rows(output / "manifest.csv"):
        path = output / row["output"]
        if not path.exists():
            found.append(f"manifest.csv names {row['output']}, which does not exist")
        elif row["output"] and (row["size"], row["checksum"]) != measured(path.read_bytes()):
            found.append(f"manifest.csv is wrong about {row['output']}: {path.read_bytes()!r}")
    if (output / "manifest.csv").exists():
        # the types of its columns are in another file, which may be older or newer
        read_manifest(output)
    read_rows(output / "errors.csv")
    return found


def measured(content: bytes) -> tuple[str, str]:
    """Return the size and the checksum of an output, as the manifest must have them."""
    return str(len(content)), f"xxh128:{xxhash.xxh3_128_hexdigest(content)}"


def in_folder(name: str, made: dict[str, Any]) -> bool:
    """Return whether an output is in the folder of its input."""
    return name in (f"{made['input']}/{made['name']}", f"{os.path.splitext(made['input'])[0]}/{made['name']}")


def is_whole(name: str, content: bytes, is_named: Callable[[str, dict[str, Any]], bool] = in_folder) -> bool:
    """Return whether an output of the recipe in marked.py is complete, and has its own name."""
    body, _, mark = content.rpartition(b"\n")
    if xxhash.xxh3_64_hexdigest(body).encode() != mark:
        return False
    return is_named(name, json.loads(body.partition(b"\n")[0]))


def contents(output: Path) -> dict[str, bytes]:
    """Return the files below a folder, without splitter's own."""
    return {str(path.relative_to(output)): path.read_bytes() for path in _below(output) if path.is_file()}


def folders(output: Path) -> set[str]:
    """Return the folders below a folder, without splitter's own."""
    return {str(path.relative_to(output)) for path in _below(output) if path.is_dir()}


def _below(output: Path) -> list[Path]:
    return [path for path in output.rglob("*") if path.relative_to(output).parts[0] != ".splitter"]


def read_rows(path: Path) -> list[dict[str, str]]:
    """Return the rows of a CSV file, which must be as wide as its header; none if there is no file."""
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file, strict=True)
    return [dict(zip(header, row, strict=True)) for row in rows]
