"""Real runs in real processes: start one, wait for it, send it a signal, find what it left behind.

A trial of the fault tests is a fork of one process that has imported everything, so that it takes a tenth
of a second. Each run writes its standard error to a separate file, by which its processes are found.
"""

import contextlib
import json
import os
import re
import runpy
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import psutil
from doors import CHECKOUT, write_files, write_list
from served import LONG, Server
from warm_up import load_service_models, share_objects, warm_up

from splitter.testing.published import check_manifest as check_manifest  # noqa: PLC0414 - for the tests
from splitter.testing.published import published

FAULTY = Path(__file__).parent / "faulty.py"
# the limit for what takes a second or two, since a machine may stall for some seconds
SECONDS_TO_BE_GONE = 30.0
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
SPLITTER = [sys.executable, "-m", "splitter"]


class Driver:
    """A running `splitter ...`."""

    def __init__(
        self, launcher: "LauncherProcess", pid: int, stderr: Path, elsewhere: "Elsewhere | None" = None
    ) -> None:
        self._launcher = launcher
        self.pid = pid
        self._stderr = stderr
        self._elsewhere = elsewhere
        self.code: int | None = None

    @property
    def stderr(self) -> str:
        """What it has written to standard error so far."""
        return self._stderr.read_text(errors="replace") if self._stderr.exists() else ""

    @property
    def stdout(self) -> str:
        """What it has written to standard output so far."""
        return self._stderr.with_suffix(".out").read_text(errors="replace")

    def wait(self, timeout: float = LONG) -> int:
        """Wait for its end; return its exit code, or minus the signal that killed it."""
        eventually(
            lambda: self.poll() is not None, lambda: f"it did not end; it said: {self.stderr}", timeout
        )
        assert self.code is not None
        return self.code

    def poll(self) -> int | None:
        """Return its exit code; None if it has not ended."""
        if self.code is None:
            self.code = self._launcher.ask({"reap": self.pid})
        return self.code

    def signal(self, number: int, *, group: bool = True) -> None:
        """Send a signal to the whole process group, as a terminal does, or only to the driver."""
        with contextlib.suppress(ProcessLookupError):
            if group:
                os.killpg(self.pid, number)
            else:
                os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill the driver, as the kernel would, and no other process."""
        self.signal(signal.SIGKILL, group=False)

    def others(self) -> list[psutil.Process]:
        """Return its guards, its runners, and the processes that these started."""
        own = [process for process in writing_to(self._stderr) if process.pid != self.pid]
        return [*own, *self._elsewhere.others()] if self._elsewhere else own

    def guards(self) -> list[psutil.Process]:
        """Return the workers that the driver started."""
        return self._elsewhere.guards() if self._elsewhere else children(self.pid)

    def runners(self) -> list[psutil.Process]:
        """Return the processes that run the user's code."""
        return [runner for guard in self.guards() for runner in children(guard.pid)]

    def until(self, holds: Callable[[], object]) -> None:
        """Wait until something is true that this run must bring about before it ends."""

        def settled() -> bool:
            ended = self.poll() is not None
            if holds():
                return True
            assert not ended, self.stderr
            return False

        eventually(settled, lambda: self.stderr)

    def check_gone(self) -> None:
        """Check that all processes that it has started are gone within seconds."""
        eventually(lambda: not self.others(), lambda: f"still there: {self.others()}", SECONDS_TO_BE_GONE)

    def clean_up(self) -> None:
        """Kill all processes that are left, whether the test passed or not."""
        while left := writing_to(self._stderr):
            for process in left:
                with contextlib.suppress(psutil.Error):
                    process.kill()
        self.wait()


class Elsewhere(Protocol):
    """The workers of a run that are not the driver's children."""

    def others(self) -> list[psutil.Process]:
        """Return the guards, their runners, and the processes that these started."""

    def guards(self) -> list[psutil.Process]:
        """Return the guards."""


class LauncherProcess(Server):
    """A process that has imported splitter, and forks a driver for each run that a test asks for."""

    def __init__(self, folder: Path, *, within: Sequence[str] = ()) -> None:
        """Start the process; `within` is a command that starts it elsewhere, such as `unshare --mount`."""
        super().__init__([*within, sys.executable, __file__], environment(), folder / "launcher.txt")

    def command(self, *arguments: object) -> None:
        """Run a program as a child of the launcher, so that it sees the same mounts."""
        self.ask({"command": list(map(str, arguments))})

    def path(self, path: Path) -> Path:
        """Return the path by which the tests reach what the launcher has mounted at a path."""
        return Path(f"/proc/{self.process.pid}/root", *path.parts[1:])


class Launcher:
    """A launcher of runs, with `folder` as their working directory."""

    def __init__(self, process: LauncherProcess, folder: Path) -> None:
        self._process, self._folder = process, folder
        self._drivers: list[Driver] = []
        # the variables that every run has in its environment, and where its workers are
        self.environ: dict[str, str] = {}
        self.elsewhere: Elsewhere | None = None

    def start(
        self, *arguments: object, environ: Mapping[str, str] | None = None, ignored: Sequence[int] = ()
    ) -> Driver:
        """Start `splitter` with these arguments, and ignore these signals in it; do not wait for it.

        The first argument may be a Python file, whose `main` is then called with the other arguments.
        """
        stderr = self._folder.parent / f"stderr-{len(self._drivers)}.txt"
        request = {
            "arguments": list(map(str, arguments)),
            "environ": {**self.environ, **(environ or {})},
            "ignored": list(ignored),
            "folder": str(self._folder),
            "stderr": str(stderr),
        }
        driver = Driver(self._process, self._process.ask(request), stderr, self.elsewhere)
        self._drivers.append(driver)
        return driver

    def run(self, *arguments: object, environ: Mapping[str, str] | None = None) -> Driver:
        """Run `splitter` with these arguments to its end."""
        driver = self.start(*arguments, environ=environ)
        driver.wait()
        return driver

    def end(self) -> None:
        """End the runs that a test has left running."""
        for driver in self._drivers:
            driver.clean_up()


def _serve() -> None:
    """Be the launcher's process: fork drivers, and report how they ended."""
    import splitter.executors.local
    import splitter.outputs.frame  # noqa: F401

    load_service_models()
    warm_up()
    for line in sys.stdin:
        request = json.loads(line)
        if "ray" in request.get("arguments", ()):
            _import_ray()
        answer: Any
        if "reap" in request:
            pid, status = os.waitpid(request["reap"], os.WNOHANG)
            answer = os.waitstatus_to_exitcode(status) if pid else None
        elif "command" in request:
            answer = subprocess.run(request["command"], check=True, stdin=subprocess.DEVNULL).returncode
        else:
            answer = _fork(request)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def _import_ray() -> None:
    """Import what each run on Ray would take half a second to import."""
    if "ray" not in sys.modules:
        import splitter.executors.ray.executor  # noqa: F401

        share_objects()


def _fork(request: dict[str, Any]) -> int:
    # signals are meant for splitter, not for the code around it here
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    ready, told = os.pipe()
    pid = os.fork()
    if pid:
        os.close(told)
        # the pipe ends when the session exists
        os.read(ready, 1)
        os.close(ready)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        return pid
    code = 1
    try:
        os.setsid()
        os.close(ready)
        os.close(told)
        os.chdir(request["folder"])
        os.environ.update(request["environ"])
        if "ray" in sys.modules:
            from splitter.executors.ray.cluster import _reread_environment

            # as Ray does when it is imported
            _reread_environment()
        tempfile.tempdir = None
        stderr = Path(request["stderr"])
        out = stderr.with_suffix(".out")
        with open(os.devnull, "rb") as nothing, open(out, "ab") as lines, open(stderr, "ab") as errors:
            for number, file in ((0, nothing), (1, lines), (2, errors)):
                os.dup2(file.fileno(), number)
        from splitter.cli.main import exit_code
        from splitter.ledger import shard_groups, shard_ranges

        if request["arguments"][0].endswith(".py"):
            program, *request["arguments"] = request["arguments"]
            exit_code = runpy.run_path(program)["main"]
        from splitter.system.exit_signals import end_at_signals

        for number in SIGNALS:
            usual = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
            signal.signal(number, signal.SIG_IGN if number in request["ignored"] else usual)
        if "SPLITTER_TEST_GROUP" in os.environ:
            # how many small inputs share a shard
            shard_groups.MOST_SMALL = int(os.environ["SPLITTER_TEST_GROUP"])
            shard_ranges.FEWEST_RANGES = 2
        # as the program itself does at its start
        end_at_signals()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        code = exit_code(request["arguments"])
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    except BaseException:  # noqa: BLE001 - what a test is looking for
        import traceback

        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def environment(**more: str) -> dict[str, str]:
    """Return the environment for a `python -m splitter` that is started in another folder."""
    return {**os.environ, "PYTHONPATH": str(CHECKOUT), **more}


# -- processes ---------------------------------------------------------------------------------------


def writing_to(stderr: Path) -> list[psutil.Process]:
    """Return the living processes whose standard error is this file: a run, and all that it has started."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if os.readlink(f"/proc/{process.pid}/fd/2") == str(stderr):
                found.append(process)
    return found


def with_argument(token: str) -> list[psutil.Process]:
    """Return the living processes that have this argument in their command line."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if token in process.cmdline() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def children(pid: int) -> list[psutil.Process]:
    """Return the living processes that a process started."""
    found = []
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            for child in Path(f"/proc/{pid}/task/{task}/children").read_text().split():
                with contextlib.suppress(psutil.Error):
                    process = psutil.Process(int(child))
                    if process.status() != psutil.STATUS_ZOMBIE:
                        found.append(process)
    return found


def left_in(temporary: Path) -> list[str]:
    """Return what is left in the system's temporary folder, of which each test has its own.

    Leave out files with names of eight letters: Python writes one to test the folder, and a kill at that
    moment leaves it there.
    """
    return sorted(path.name for path in temporary.iterdir() if not re.fullmatch("[a-z0-9_]{8}", path.name))


def signal_all(processes: Sequence[psutil.Process], number: int) -> None:
    """Send a signal to processes; a runner may be gone before its turn, ended by its guard."""
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(number)


def eventually(holds: Callable[[], object], complaint: Callable[[], str], timeout: float = LONG) -> None:
    """Wait until something is true."""

    def holds_now() -> object:
        # a folder may disappear while it is listed
        with contextlib.suppress(FileNotFoundError):
            return holds()
        return False

    give_up, pause = time.monotonic() + timeout, 0.005
    while not holds_now():
        assert time.monotonic() < give_up, complaint()
        time.sleep(pause)
        pause = min(0.03, 1.1 * pause)


def in_time(seconds: float, measured: Callable[[], float]) -> bool:
    """Return whether the best of three times is short enough: others may keep the machine busy."""
    return any(measured() < seconds for _ in range(3))


# -- inputs and outputs -------------------------------------------------------------------------------


def make_inputs(folder: Path, texts: Mapping[str, str]) -> Path:
    """Write input files and their list, with a label for each; return the list."""
    write_files(folder, dict(texts))
    rows = [[name, f"label of {name}"] for name in texts]
    return write_list(folder / "dataset.csv", [["input", "label"], *rows])


def check_complete(output: Path, expected: Mapping[str, bytes]) -> None:
    """Check that the output folder has what a fresh run makes, and nothing else; and so does the manifest."""
    found = published(output)
    assert found.keys() == expected.keys()
    assert [name for name in expected if found[name] != expected[name]] == []
    check_manifest(output)


if __name__ == "__main__":
    _serve()
