"""Connect a Ray worker with the guard that it starts: a task passes the batch on, and the report back.

    Ray worker ── stand-in ── guard ── runner

A Ray worker has threads, sockets and another parent, so it must neither fork nor run user code. It starts
a guard as a fresh process, once, and keeps it for later tasks. When the worker ends, for whatever reason,
the system ends the guard, and the guard ends its runner and what the runner has started. When Ray ends a
worker, it kills the worker's children before they can clean up, so it gets a stand-in to kill instead.
"""

import atexit
import contextlib
import json
import multiprocessing
import os
import pickle
import signal
import socket
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

from splitter.system.children import adopt_orphans, die_with_parent, end_descendants
from splitter.system.reaper import is_reaper
from splitter.system.recipe_code import ModuleText, TextImporter
from splitter.worker.messages import Report

if TYPE_CHECKING:
    from splitter.storage.base import Storage
    from splitter.worker.guard import Guard
    from splitter.worker.messages import Batch, Job

_SECONDS_TO_LEAVE = 1.5
# sys.path does not go through PYTHONPATH, which programs that user code starts would inherit
_START = f"""
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from {__name__} import main
main(int(sys.argv[2]))
"""

# by run, and by the GPUs that Ray has given to this worker, since the recipe's setup() was for these GPUs
_guards: dict[tuple[str, str], "_GuardProcess"] = {}


@dataclass(frozen=True)
class Mission:
    """What a guard needs to know before its first batch.

    Attributes:
        versions: The driver's versions.
        folder: The driver's working directory.
        sources: The recipe's code.
        job: The job of the run, pickled.
        timeout: Seconds for one input.
        memory: Bytes for one worker.
        threads: How many threads a worker may use.
    """

    versions: Mapping[str, str]
    folder: str
    sources: Mapping[str, ModuleText]
    job: bytes
    timeout: float | None
    memory: int | None
    threads: int


def work(mission: bytes, run: str, batch: bytes) -> bytes | None:
    """Run a batch in this worker's guard, as a Ray task; return its report, or None if the guard was lost."""
    key = run, os.environ.get("CUDA_VISIBLE_DEVICES", "")
    for other in [other for other in _guards if other[0] != run]:
        _guards.pop(other).end()
    if key not in _guards:
        _guards[key] = _GuardProcess(mission)
    report = None
    try:
        report = _guards[key].run(batch)
    finally:
        # the guard is dead, or the task is canceled
        if report is None:
            _guards.pop(key).end()
    return report


def look_around(storage: bytes, name: str) -> tuple[str, str, dict[str, str]]:
    """Return, as a Ray task, what a node reads in the output folder, or why it cannot, and its versions."""
    from splitter.errors import Refused, StorageError

    try:
        found: Storage = pickle.loads(storage)  # noqa: S301 - from the driver of this run
        return found.read(name).decode(), "", versions()
    except (StorageError, Refused) as error:
        return "", str(error), versions()


def versions() -> dict[str, str]:
    """Return the versions that must be the same everywhere."""
    return {
        "splitter": sys.modules["splitter"].__version__,
        "Python": ".".join(map(str, sys.version_info[:2])),
        "Ray": version("ray"),
    }


def difference(there: Mapping[str, str], here: Mapping[str, str]) -> str:
    """Describe the first difference between a node's versions and ours; empty if there is none."""
    for name, needed in here.items():
        if there.get(name) != needed:
            return f"has {name} {there.get(name)}, but the run has {needed}; install the same version there"
    return ""


@dataclass(frozen=True, kw_only=True)
class Errand(ABC):
    """Work other than a run, with installed code only, done by a process in place of a guard.

    Attributes:
        storage: Lets the executor find out whether nodes see the output, and whether workers still write.
        versions: The driver's versions.
        folder: The driver's working directory.
    """

    storage: Any
    versions: Mapping[str, str] = field(default_factory=versions)
    folder: str = field(default_factory=os.getcwd)

    @abstractmethod
    def answer(self, batch: Any) -> Report:  # noqa: ANN401 - what the errand is about
        """Do a part of the errand; the part has `keys`, as a batch does."""


class _GuardProcess:
    """A guard in a separate process."""

    def __init__(self, mission: bytes) -> None:
        ours, theirs = multiprocessing.Pipe()
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603 - this package
                [sys.executable, "-c", _START, json.dumps(sys.path), str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )
        self._connection = ours
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._connection.send_bytes(mission)

    def run(self, batch: bytes) -> bytes | None:
        """Give the guard a batch, and return its report; None if the guard is dead."""
        try:
            self._connection.send_bytes(batch)
            return self._connection.recv_bytes()
        except (EOFError, BrokenPipeError, ConnectionResetError):
            return None

    def end(self) -> None:
        """End the guard, and the processes that belong to it."""
        self._connection.close()
        try:
            self._process.wait(_SECONDS_TO_LEAVE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


# -- the guard's process, and the stand-in before it --------------------------------------------------------


def main(descriptor: int) -> None:
    """Run as the process that a Ray worker starts."""
    with Connection(descriptor) as connection:
        stand_before_a_guard(connection)
        serve(connection)


def stand_before_a_guard(connection: Connection) -> None:
    """Fork the guard, and become the stand-in that Ray may kill; only the guard returns from this."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    stand_in, worker = os.getpid(), os.getppid()
    guard = os.fork()
    if not guard:
        die_with_parent(stand_in, signal.SIGTERM)
        return
    die_with_parent(worker, signal.SIGKILL)
    # if the guard is killed, this process ends its processes, except a reaper, which ends on its own
    adopt_orphans()
    connection.close()
    while os.wait()[0] != guard:
        pass
    end_descendants(spared=is_reaper)
    os._exit(0)


def serve(connection: Connection) -> None:
    """Run as a guard: take batches and return reports until the Ray worker closes the connection."""
    mission: Mission | Errand = pickle.loads(connection.recv_bytes())  # noqa: S301 - from the driver of this run
    answer = _ready(mission)
    while True:
        try:
            batch = pickle.loads(connection.recv_bytes())  # noqa: S301 - from the driver of this run
        except (EOFError, ConnectionResetError):
            return
        connection.send_bytes(pickle.dumps(answer(batch)))


def _ready(mission: Mission | Errand) -> Callable[["Batch"], Report]:
    """Become a guard, or a process for an errand; return the function that answers a batch."""
    from splitter.errors import RunStopped

    fault = difference(versions(), mission.versions)
    if fault:
        # this node joined after the others were checked
        return lambda _: Report.stopped(f"node {socket.gethostname()}: {fault}")
    with contextlib.suppress(OSError):
        # relative paths among the recipe's parameters mean the same as for the driver
        os.chdir(mission.folder)
    if isinstance(mission, Errand):
        return mission.answer
    # imported before the recipe's folder can hide what a guard itself needs
    import splitter.worker.guard  # noqa: F401

    sys.meta_path.insert(0, TextImporter(mission.sources))
    try:
        job = pickle.loads(mission.job)  # noqa: S301 - from the driver of this run
        guard = _guard(job, mission)
    except Exception as error:  # noqa: BLE001 - a user's module may raise anything while it is imported
        reason = f"{type(error).__name__}: {error}"
        fault = f"node {socket.gethostname()}: the recipe cannot be loaded there: {reason}"
        return lambda _: Report.stopped(
            f"{fault}; install the packages it needs on that node, or name them with --pip"
        )

    def answer(batch: "Batch") -> Report:
        try:
            with job.storage.at_work():
                return guard.run(batch)
        except (RunStopped, OSError) as error:
            return Report.stopped(error)

    return answer


def _guard(job: "Job", mission: Mission) -> "Guard":
    import torch

    from splitter.worker.guard import Guard

    torch.set_num_threads(mission.threads)
    guard = Guard(job, timeout=mission.timeout, memory=mission.memory, listens=True)
    guard.protect()
    atexit.register(guard.stop)
    return guard
