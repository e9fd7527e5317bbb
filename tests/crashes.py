"""Runs that die, or meet a faulty disk, at their Nth change to the disk.

A run is a fork of the test process and uses no workers, so its changes come in one order. It is really
killed: no `finally` and no `except` of the program has a say in what is left.
"""

import builtins
import csv
import io
import json
import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import xxhash

# what a fork would otherwise import each time
import splitter.engine
import splitter.executors.local
import splitter.recipes.words
import splitter.remote
import splitter.work  # noqa: F401
from splitter import content as contents_module
from splitter import groups, manifest, read_manifest
from splitter.cli import exit_code

RECIPE = Path(__file__).with_name("marked.py")
CHANGES = {"os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.truncate", "os.link", "os.symlink"}
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC

Step = Callable[[str, int], None]


@dataclass(frozen=True)
class Ended:
    """How a run ended: its exit code, or minus the signal that killed it.

    Attributes:
        steps: The changes to the disk that it began, by kind.
        said: What it printed.
    """

    code: int
    steps: list[str]
    said: str

    @property
    def died(self) -> bool:
        return self.code == -signal.SIGKILL


def undisturbed(arguments: Sequence[str], **environment: str) -> Ended:
    """A run to its end."""
    return _run(arguments, environment, lambda kind, number: None)


def killed(arguments: Sequence[str], at: int | None, **environment: str) -> Ended:
    """A run that is killed instead of its change number `at`; a write is cut in the middle."""

    def step(kind: str, number: int) -> None:
        if number == at:
            os.kill(os.getpid(), signal.SIGKILL)

    return _run(arguments, environment, step)


def faulty(arguments: Sequence[str], at: int, number: int, *, for_good: bool, **environment: str) -> Ended:
    """A run in which change number `at` fails with an error, and the ones after it too if it is for good."""

    def step(kind: str, count: int) -> None:
        if count == at or (for_good and count > at):
            raise OSError(number, os.strerror(number))

    return _run(arguments, environment, step)


def _run(arguments: Sequence[str], environment: dict[str, str], step: Step) -> Ended:
    with tempfile.TemporaryDirectory(prefix="splitter-test-") as folder:
        said, steps = Path(folder, "said"), Path(folder, "steps")
        sys.stdout.flush()
        sys.stderr.flush()
        child = os.fork()
        if not child:
            _be_the_run(arguments, environment, step, said, steps)
        _, status = os.waitpid(child, 0)
        return Ended(os.waitstatus_to_exitcode(status), steps.read_text().split(), said.read_text())


def _be_the_run(
    arguments: Sequence[str], environment: dict[str, str], step: Step, said: Path, steps: Path
) -> NoReturn:
    code = 99
    try:
        os.environ.update(environment)
        out, log = (os.open(path, os.O_WRONLY | os.O_CREAT) for path in (said, steps))
        os.dup2(out, 1)
        os.dup2(out, 2)
        # so that small runs merge their records, too
        manifest.FEW_RECORDS = 2
        # and so that there are several shards
        groups.MOST_SMALL = 2
        sys.stdout = sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
        _Watch(step, log)
        code = exit_code(list(arguments))
    except BaseException:  # noqa: BLE001 - the test process must not go on twice
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


class _Watch:
    """Calls `step` before each change to the disk."""

    def __init__(self, step: Step, log: int) -> None:
        self._step, self._log = step, log
        self._count = 0
        sys.addaudithook(self._audit)
        # what Python raises no audit event for
        os.pwrite = self._before("pwrite", os.pwrite)
        # it is a process that dies, not the machine: what is written is there, and nothing waits for the disk
        os.fsync = self._before("fsync", os.fstat)
        watch = self

        class Watched(io.FileIO):
            def write(self, data: Any) -> int:
                # a full disk, and a death, may leave half of what was to be written
                super().write(memoryview(data).cast("B")[: memoryview(data).nbytes // 2])
                self.seek(-(memoryview(data).nbytes // 2), os.SEEK_CUR)
                watch.count("write")
                return super().write(data)

        class WatchedHashing(contents_module._Hashing, Watched):
            pass

        contents_module._Hashing = WatchedHashing
        builtins.open = _opener(builtins.open, Watched)

    def count(self, kind: str) -> None:
        self._count += 1
        os.write(self._log, f"{kind}\n".encode())
        self._step(kind, self._count)

    def _before(self, kind: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any) -> Any:
            self.count(kind)
            return function(*arguments)

        return counted

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = arguments
            if flags & WRITING and "__pycache__" not in str(path):
                self.count("open")
        elif event in CHANGES:
            self.count(event.removeprefix("os."))


def _opener(plain: Callable[..., Any], watched: type[io.FileIO]) -> Callable[..., Any]:
    def watching(file: Any, mode: str = "r", buffering: int = -1, **options: Any) -> Any:
        if "b" not in mode or not set(mode) & set("wax+"):
            return plain(file, mode, buffering, **options)
        raw = watched(file, mode.replace("b", ""))
        if not buffering:
            return raw
        return (io.BufferedRandom if "+" in mode else io.BufferedWriter)(raw, max(buffering, 8192))

    return watching


# -- what must hold of an output folder at every moment ------------------------------------------------


def complaints(output: Path) -> list[str]:
    """What is wrong with a folder as a death left it: outputs that are not whole, a manifest that lies."""
    found = []
    for name, content in contents(output).items():
        if name in ("manifest.csv", "errors.csv"):
            continue
        if not is_whole(name, content):
            found.append(f"{name} is not whole: {content!r}")
    for row in read_rows(output / "manifest.csv"):
        path = output / row["output"]
        if not path.exists():
            found.append(f"manifest.csv names {row['output']}, which is not there")
        elif row["output"] and (row["size"], row["checksum"]) != measured(path.read_bytes()):
            found.append(f"manifest.csv is wrong about {row['output']}: {path.read_bytes()!r}")
    if (output / "manifest.csv").exists():
        # its types stand in another file, which may be of another moment
        read_manifest(output)
    read_rows(output / "errors.csv")
    return found


def measured(content: bytes) -> tuple[str, str]:
    """The size and the checksum of an output, as they are to stand in the manifest."""
    return str(len(content)), f"xxh128:{xxhash.xxh3_128_hexdigest(content)}"


def is_whole(name: str, content: bytes) -> bool:
    """Whether an output of the recipe in marked.py is all there, under its own name."""
    body, _, mark = content.rpartition(b"\n")
    if xxhash.xxh3_64_hexdigest(body).encode() != mark:
        return False
    made = json.loads(body.partition(b"\n")[0])
    return name in (f"{made['input']}/{made['name']}", f"{os.path.splitext(made['input'])[0]}/{made['name']}")


def contents(output: Path) -> dict[str, bytes]:
    """The files below a folder but splitter's own."""
    return {str(path.relative_to(output)): path.read_bytes() for path in _below(output) if path.is_file()}


def folders(output: Path) -> set[str]:
    """The folders below a folder but splitter's own."""
    return {str(path.relative_to(output)) for path in _below(output) if path.is_dir()}


def _below(output: Path) -> list[Path]:
    return [path for path in output.rglob("*") if path.relative_to(output).parts[0] != ".splitter"]


def read_rows(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file, each as wide as its header; none if there is no file."""
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file, strict=True)
    return [dict(zip(header, row, strict=True)) for row in rows]
