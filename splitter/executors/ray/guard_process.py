"""Between a Ray worker and the guard that it starts: the Ray task hands a batch on, and the report back.

    Ray worker ── stand-in ── guard ── runner

A Ray worker has threads, sockets and a parent of its own, so it is no place to fork from or to run a user's
code in. It starts a guard as a fresh process, once, and keeps it for the tasks to come. When the worker is
ended, by Ray or by anything else, the system ends the guard, and the guard its runner and what that has
started. Ray kills the children of a worker that it ends before they can do any such thing, so there is a
process in between to be killed.
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

from splitter.executors.ray.code import ModuleText, TextImporter
from splitter.system.children import adopt_orphans, die_with_parent, end_descendants
from splitter.system.reaper import is_reaper
from splitter.worker.messages import Report

if TYPE_CHECKING:
    from splitter.storage.base import Storage
    from splitter.worker.guard import Guard
    from splitter.worker.messages import Batch, Job

_SECONDS_TO_LEAVE = 1.5
# not through PYTHONPATH, which all that user code starts would inherit
_START = f"""
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from {__name__} import main
main(int(sys.argv[2]))
"""

# by run, and by the devices that Ray has given to this worker: a recipe's setup() is for these
_guards: dict[tuple[str, str], "_GuardProcess"] = {}


@dataclass(frozen=True)
class Mission:
    """What a guard needs to know before its first batch.

    Attributes:
        versions: What the driver runs.
        folder: The driver's working directory.
        sources: The recipe's code.
        job: The job of the run, pickled.
        timeout: Seconds for one input.
        memory: Bytes for one worker.
        threads: How many threads a worker may compute with.
    """

    versions: Mapping[str, str]
    folder: str
    sources: Mapping[str, ModuleText]
    job: bytes
    timeout: float | None
    memory: int | None
    threads: int


def work(mission: bytes, run: str, batch: bytes) -> bytes | None:
    """The task: do a batch in this worker's guard; its report, or None when the guard was lost."""
    key = run, os.environ.get("CUDA_VISIBLE_DEVICES", "")
    for other in [other for other in _guards if other[0] != run]:
        _guards.pop(other).end()
    if key not in _guards:
        _guards[key] = _GuardProcess(mission)
    report = None
    try:
        report = _guards[key].run(batch)
    finally:
        # it is dead, or the task is cancelled
        if report is None:
            _guards.pop(key).end()
    return report


def look_around(storage: bytes, name: str) -> tuple[str, str, dict[str, str]]:
    """Another task: what a node sees of the output, or why it sees nothing, and its versions."""
    from splitter.errors import Refused, StorageError

    try:
        found: Storage = pickle.loads(storage)  # noqa: S301 - from the driver of this run
        return found.read(name).decode(), "", versions()
    except (StorageError, Refused) as error:
        return "", str(error), versions()


def versions() -> dict[str, str]:
    """Of what must be the same everywhere."""
    return {
        "splitter": sys.modules["splitter"].__version__,
        "Python": ".".join(map(str, sys.version_info[:2])),
        "Ray": version("ray"),
    }


def difference(there: Mapping[str, str], here: Mapping[str, str]) -> str:
    """What is different on a node, in words; nothing if all is the same."""
    for name, wanted in here.items():
        if there.get(name) != wanted:
            return f"has {name} {there.get(name)}, and the run has {wanted}; install the same there"
    return ""


@dataclass(frozen=True, kw_only=True)
class Errand(ABC):
    """Other work than that of a run, of which no code travels; a process in a guard's place does it.

    Attributes:
        storage: Where the executor looks whether nodes see the output, and whether workers still write.
        versions: What the driver runs.
        folder: The driver's working directory.
    """

    storage: Any
    versions: Mapping[str, str] = field(default_factory=versions)
    folder: str = field(default_factory=os.getcwd)

    @abstractmethod
    def answer(self, batch: Any) -> Report:  # noqa: ANN401 - what the errand is about
        """Do a part of it, which has `keys` as a batch has."""


class _GuardProcess:
    """A guard in a process of its own."""

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
        """The report on a batch; None if the guard is dead."""
        try:
            self._connection.send_bytes(batch)
            return self._connection.recv_bytes()
        except (EOFError, BrokenPipeError, ConnectionResetError):
            return None

    def end(self) -> None:
        """Let the guard go, and what belonged to it."""
        self._connection.close()
        try:
            self._process.wait(_SECONDS_TO_LEAVE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


# -- the guard's process, and the one before it -------------------------------------------------------------


def main(descriptor: int) -> None:
    """The life of the process that a Ray worker starts."""
    with Connection(descriptor) as connection:
        stand_before_a_guard(connection)
        serve(connection)


def stand_before_a_guard(connection: Connection) -> None:
    """Become the process that Ray may kill; only the guard returns from this."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    stand_in, worker = os.getpid(), os.getppid()
    guard = os.fork()
    if not guard:
        die_with_parent(stand_in, signal.SIGTERM)
        return
    die_with_parent(worker, signal.SIGKILL)
    # should the guard be killed, what belonged to it is left to this process, but for what clears up itself
    adopt_orphans()
    connection.close()
    while os.wait()[0] != guard:
        pass
    end_descendants(spared=is_reaper)
    os._exit(0)


def serve(connection: Connection) -> None:
    """The life of a guard: batches in, reports out, until there are no more."""
    mission: Mission | Errand = pickle.loads(connection.recv_bytes())  # noqa: S301 - from the driver of this run
    answer = _ready(mission)
    while True:
        try:
            batch = pickle.loads(connection.recv_bytes())  # noqa: S301 - from the driver of this run
        except (EOFError, ConnectionResetError):
            return
        connection.send_bytes(pickle.dumps(answer(batch)))


def _ready(mission: Mission | Errand) -> Callable[["Batch"], Report]:
    """Become a guard, or what stands in its place; gives what answers a batch."""
    from splitter.errors import RunStopped

    fault = difference(versions(), mission.versions)
    if fault:
        # this node has come after the others were asked
        return lambda _: _stopped(f"node {socket.gethostname()}: {fault}")
    with contextlib.suppress(OSError):
        # a relative path among the recipe's parameters means the same as where the run was started
        os.chdir(mission.folder)
    if isinstance(mission, Errand):
        return mission.answer
    # what a guard itself needs is not to be found beside the recipe
    import splitter.worker.guard  # noqa: F401

    sys.meta_path.insert(0, TextImporter(mission.sources))
    try:
        job = pickle.loads(mission.job)  # noqa: S301 - from the driver of this run
        guard = _guard(job, mission)
    except Exception as error:  # noqa: BLE001 - a user's module may raise anything while it is imported
        reason = f"{type(error).__name__}: {error}"
        fault = f"node {socket.gethostname()}: the recipe cannot be loaded there: {reason}"
        return lambda _: _stopped(f"{fault}; install what it needs on that node, or name it with --pip")

    def answer(batch: "Batch") -> Report:
        try:
            with job.storage.at_work():
                return guard.run(batch)
        except (RunStopped, OSError) as error:
            return _stopped(str(error))

    return answer


def _guard(job: "Job", mission: Mission) -> "Guard":
    import torch

    from splitter.worker.guard import Guard

    torch.set_num_threads(mission.threads)
    guard = Guard(job, timeout=mission.timeout, memory=mission.memory, listens=True)
    guard.protect()
    atexit.register(guard.stop)
    return guard


def _stopped(reason: str) -> Report:
    return Report(stop=reason)
