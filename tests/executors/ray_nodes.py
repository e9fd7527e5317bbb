"""A Ray cluster of several nodes on this machine, with a token of its own, that grows and shrinks.

The nodes are started by a process of their own, which ends them when its standard input ends: nothing
remains, whatever becomes of the tests.
"""

import contextlib
import os
import random
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import psutil
from doors import CHECKOUT
from launcher import LONG, children, environment, eventually
from nightly import NIGHTLY
from served import Server

from splitter.testing.executors import Ended

MARK = "SPLITTER_TEST_CLUSTER"
SERVER = Path(__file__).parent / "ray_server.py"
DRIVER = Path(__file__).parent / "ray_driver.py"
RAY = [sys.executable, "-m", "ray.scripts.scripts"]
# Torch takes a worker longer to import than all else. It is there in docs/tutorial/a-cluster.md, and for the
# workers of `write_nodes_with_torch`.
_WITHOUT_TORCH = [] if NIGHTLY else [Path(__file__).parent / "without_torch"]
PATH_OF_WORKERS = os.pathsep.join(map(str, [*_WITHOUT_TORCH, CHECKOUT]))
# options of `ray start`: nothing to start nodes in a cloud, or to bring logs to drivers
WITHOUT_MONITORS = ["--no-monitor", "--include-log-monitor=false"]
FRUGAL = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_enable_metrics_collection": "0",
    # no worker for each CPU of a node, a second of work each, before a batch needs one
    "RAY_prestart_worker_first_driver": "1" if NIGHTLY else "0",
    # what a batch needs is installed, or found to be impossible, in one environment and not in three
    "RUNTIME_ENV_RETRY_TIMES": "1",
}


class RayNodes:
    """A cluster; each node is known by its number, and the first cannot be removed."""

    def __init__(
        self, folder: Path, cpus: Sequence[int], *, within: Sequence[str] = (), **environ: str
    ) -> None:
        """Start a node for each number of CPUs, as far as Ray knows.

        `folder` is for what they say, `within` a command to start them somewhere else, and `environ` more for
        their environment.
        """
        # below the system's own folder, since the path of a socket must be short
        self._place = tempfile.mkdtemp(prefix="nodes-", dir="/tmp")
        self.mark = secrets.token_hex(16)
        self.environ = {
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(32),
            # where --address auto looks
            "RAY_TMPDIR": self._place,
        }
        environ = {**environment(**self.environ, **FRUGAL, **{MARK: self.mark}), **environ}
        command = [*within, sys.executable, SERVER, self._place]
        self._folder = folder
        self._driver: Server | None = None
        self._server = Server(command, environ, folder / "ray nodes.txt", new_session=True)
        try:
            self.nodes = [self.add(num_cpus=number) for number in cpus]
        except BaseException:
            self.end()
            raise

    def add(
        self, *, folder: Path | None = None, environ: Mapping[str, str] | None = None, **offers: object
    ) -> int:
        """Start a node that offers some resources; in another folder, or with more in its environment."""
        place = {"folder": str(folder or "/"), "environ": dict(environ or {})}
        answer = self._server.ask({"add": offers, **place})
        self.address: str = answer["address"]
        return answer["node"]

    def remove(self, node: int) -> None:
        """Kill all processes of a node, as when its machine is gone."""
        self._server.ask({"remove": node})

    def run(self, folder: Path, *arguments: object) -> Ended:
        """Run `splitter` in a folder, in a process that stays connected, and keeps its workers.

        It is for tests of what a run makes; others look at how runs connect, how they stop, and what is left.
        """
        if self._driver is None or self._driver.process.poll() is not None:
            environ = environment(**self.environ)
            command = [sys.executable, DRIVER, self.address]
            self._driver = Server(command, environ, self._folder / "ray driver.txt")
        stderr = folder.parent / "stderr of the driver.txt"
        request = {"arguments": list(map(str, arguments)), "folder": str(folder), "stderr": str(stderr)}
        limit = threading.Timer(LONG, self._driver.process.kill)
        limit.start()
        try:
            return Ended(self._driver.ask(request), stderr.read_text(errors="replace"))
        finally:
            limit.cancel()

    def disconnect(self) -> None:
        """End the driver that stays connected, and with it the workers and guards of its runs."""
        if self._driver:
            driver, self._driver = self._driver, None
            driver.close()
            eventually(lambda: not self.others(), lambda: f"still there: {self.others()}")

    def end(self) -> None:
        """End all nodes; nothing of theirs is left."""
        try:
            self.disconnect()
            self._server.close()
            left = self.processes()
            eventually(lambda: not self.processes(), lambda: f"still there: {left}", 30)
        finally:
            self._server.process.kill()
            end_marked(self.mark)
            shutil.rmtree(self._place, ignore_errors=True)

    # -- what is at work there ---------------------------------------------------------------------------

    def processes(self) -> list[psutil.Process]:
        """All living processes of the cluster."""
        return with_variable(MARK, self.mark)

    def others(self) -> list[psutil.Process]:
        """The guards, their runners and what these have started."""
        found = {process.pid: process for process in self.processes() if _is_relay(process)}
        for process in self.guards():
            with contextlib.suppress(psutil.Error):
                found.update({child.pid: child for child in process.children(recursive=True)})
        return list(found.values())

    def guards(self) -> list[psutil.Process]:
        """The guards that Ray's workers have started, each behind a process that stands in for it."""
        relays = {process.pid: process for process in self.processes() if _is_relay(process)}
        stand_ins = {pid for pid, process in relays.items() if _parent(process) not in relays}
        return [process for process in relays.values() if _parent(process) in stand_ins]

    def runners(self) -> list[psutil.Process]:
        """The processes that hold the user's code."""
        return [child for guard in self.guards() for child in children(guard.pid)]

    def raylets(self) -> list[int]:
        """The process that each living node is known by, the newest last."""
        found = []
        for process in self.processes():
            # one that ends meanwhile is none of them
            with contextlib.suppress(psutil.Error):
                if process.name() == "raylet":
                    found.append((process.create_time(), process.pid))
        return [pid for _, pid in sorted(found)]

    def workers(self) -> list[psutil.Process]:
        """The Ray workers that have a guard."""
        found = []
        for guard in self.guards():
            with contextlib.suppress(psutil.Error):
                found.append(guard.parents()[1])
        return found


def write_nodes_with_torch(folder: Path) -> Path:
    """Write a file for --runtime-env, with which workers have what this process has."""
    path = folder / "nodes.yaml"
    path.write_text(f"env_vars:\n  PYTHONPATH: {CHECKOUT}\n")
    return path


@dataclass(frozen=True)
class Head:
    """The head of a cluster.

    Attributes:
        environ: The environment to reach it.
        client_port: The port of the server for Ray's clients.
        dashboard: The URL of the dashboard, which takes jobs.
    """

    environ: Mapping[str, str]
    client_port: int
    dashboard: str


@contextlib.contextmanager
def ray_start() -> Iterator[Head]:
    """Start a cluster of one node, by `ray start --head`, with a dashboard if that is installed."""
    mark, place = secrets.token_hex(16), tempfile.mkdtemp(prefix="head-", dir="/tmp")
    environ = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32), "RAY_TMPDIR": place}
    environ["PYTHONPATH"] = PATH_OF_WORKERS
    client, dashboard, agent = a_free_port(), a_free_port(), a_free_port()
    head = ["--head", "--port=0", "--num-cpus=2", "--object-store-memory=80000000", "--disable-usage-stats"]
    head += [f"--ray-client-server-port={client}", *WITHOUT_MONITORS]
    head += [f"--dashboard-port={dashboard}", f"--dashboard-agent-listen-port={agent}"]
    head += [f"--include-dashboard={find_spec('aiohttp_cors') is not None}"]
    try:
        started = subprocess.run(
            [*RAY, "start", *head],
            env=environment(**environ, **FRUGAL, **{MARK: mark}),
            capture_output=True,
            text=True,
            timeout=LONG,
            check=False,
        )
        assert started.returncode == 0, started.stdout + started.stderr
        yield Head(environ, client, f"http://127.0.0.1:{dashboard}")
    finally:
        end_marked(mark)
        shutil.rmtree(place, ignore_errors=True)


def a_free_port() -> int:
    """One that is nobody's, and none of those that systems and Ray give to whoever asks for any."""
    while True:
        port = random.randrange(20_000, 32_000)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


def end_marked(mark: str) -> None:
    """Kill all processes of a cluster.

    Ray's agents overwrite their environment with their title, so they are known by their parent. Left alone,
    each would try for a minute, at full speed, to tell a cluster that is gone that its parent is gone.
    """
    while left := with_variable(MARK, mark):
        for process in list(left):
            with contextlib.suppress(psutil.Error):
                left += process.children()
        for process in left:
            with contextlib.suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(left, timeout=1)


def with_variable(name: str, value: str | None = None) -> list[psutil.Process]:
    """The living processes that were started with a variable in their environment."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            there = process.environ().get(name)
            if there and there == (value or there) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def _is_relay(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):
        return any("splitter.executors.ray.guard_process" in word for word in process.cmdline())
    return False


def _parent(process: psutil.Process) -> int:
    with contextlib.suppress(psutil.Error):
        return process.ppid()
    return 0
