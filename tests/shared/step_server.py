"""The process that forks the runs of steps.py: each line of its standard input is a request.

A run has real workers, and counts the changes to the disk that its processes begin: those of the driver, of
the guard and of the runner are each counted from 1. At one of these changes, processes of the run die, in one
of four ways; if it is not the process at the change that dies first, that process is held there meanwhile.
"""

import contextlib
import json
import mmap
import os
import select
import signal
import struct
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import dying
import psutil
from warm_up import load_service_models, warm_up

from splitter.cli.main import exit_code
from splitter.stores import objects
from splitter.system.children import adopt_orphans
from splitter.system.exit_signals import end_at_signals

ROLES = ("driver", "guard", "runner")
LONG = 60.0
SECONDS_TO_BE_GONE = 30.0
# how long a process stays held after the driver was told to end
SECONDS_HELD = 0.1
CHANGING = ("put_object", "copy_object", "delete_object", "delete_objects", "complete_multipart_upload")
_COUNT = struct.Struct("q")


def _serve() -> None:
    # become the parent of the processes of a run whose own parent dies
    adopt_orphans()
    load_service_models()
    warm_up()
    for line in sys.stdin:
        request = json.loads(line)
        answer = _run(request) if "arguments" in request else _continue(request)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


# -- a run that may die ----------------------------------------------------------------------------------


class _Steps:
    """The number of changes that the processes of a run have begun, by role, in memory that all share."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, _COUNT.size * len(ROLES))

    def __getitem__(self, role: str) -> int:
        (count,) = _COUNT.unpack_from(self._memory, _COUNT.size * ROLES.index(role))
        return int(count)

    def next(self, role: str) -> int:
        count = self[role] + 1
        _COUNT.pack_into(self._memory, _COUNT.size * ROLES.index(role), count)
        return count


class _Fate:
    """The fate of a process of the run at its changes."""

    def __init__(self, steps: _Steps, request: dict[str, Any], told: int, go: int) -> None:
        self._steps, self._told, self._go = steps, told, go
        self._role, self._number = request.get("at") or ("", 0)
        self._death, self._signal = request.get("death", ""), request.get("signal", 0)
        self._driver = os.getpid()

    def meet(self, count: int) -> None:
        del count
        role = self._my_role()
        if self._steps.next(role) != self._number or role != self._role:
            return
        if self._death == "one" or (role == "driver" and self._death == "driver"):
            os.kill(os.getpid(), signal.SIGKILL)
        if role == "driver" and self._death == "signal":
            os.kill(os.getpid(), self._signal)
            return
        os.write(self._told, b"here")
        # wait until the other end is closed; signal handlers can run meanwhile
        os.read(self._go, 1)

    def _my_role(self) -> str:
        if os.getpid() == self._driver:
            return "driver"
        return "guard" if os.getppid() == self._driver else "runner"


class _Watch(dying.Watch):
    """A watch that counts changes to the output, and nothing else that the processes of a run write."""

    def __init__(self, fate: _Fate, log: int, output: str) -> None:
        self._output = output
        super().__init__(fate, log)
        if "://" in output:
            ask = objects.S3Objects._ask

            def counted(store: Any, method: str, *names: Any, **named: Any) -> Any:
                if method in CHANGING:
                    self.count(method)
                return ask(store, method, *names, **named)

            objects.S3Objects._ask = counted

    def _before(self, kind: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def counted(descriptor: int, *arguments: Any) -> Any:
            if self._is_output(os.readlink(f"/proc/self/fd/{descriptor}")):
                self.count(kind)
            return function(descriptor, *arguments)

        return counted

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if (event in dying.CHANGES or event == "open") and self._is_output(arguments[0]):
            super()._audit(event, arguments)

    def _is_output(self, path: Any) -> bool:
        if not isinstance(path, str):
            return False
        # a relative path is a name in a folder that is open
        return path.startswith(self._output) or not path.startswith("/")


def _run(request: dict[str, Any]) -> dict[str, Any]:
    """Run to the end or to a death; return how the run ended, and how many changes it began."""
    steps = _Steps()
    told, telling = os.pipe()
    holding, go = os.pipe()
    driver = os.fork()
    if not driver:
        os.close(told)
        os.close(go)
        dying.be_a_fork(lambda request: _be_the_driver(request, steps, telling, holding), request)
    os.close(telling)
    os.close(holding)
    ended = os.pidfd_open(driver)
    give_up = time.monotonic() + LONG
    ready, _, _ = select.select([told, ended], [], [], LONG)
    is_held = told in ready and os.read(told, 4) == b"here"
    if is_held:
        _strike(driver, request)
        select.select([ended], [], [], SECONDS_HELD)
    os.close(go)
    stuck = not select.select([ended], [], [], max(0.0, give_up - time.monotonic()))[0]
    if stuck:
        os.kill(driver, signal.SIGKILL)
    _, status = os.waitpid(driver, 0)
    os.close(ended)
    os.close(told)
    left = _wait_for_others()
    return {
        "code": os.waitstatus_to_exitcode(status),
        "steps": {role: steps[role] for role in ROLES},
        "left": [*left, *(["the driver"] if stuck else [])],
    }


def _strike(driver: int, request: dict[str, Any]) -> None:
    """Kill processes of the run, or signal the driver, while a process is held at a step."""
    match request["death"]:
        case "all":
            # so that the driver does not notice the end of another process
            os.kill(driver, signal.SIGSTOP)
            for pid in [*_below(driver), driver]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        case "driver":
            os.kill(driver, signal.SIGKILL)
        case "signal":
            os.kill(driver, request["signal"])


def _below(pid: int) -> Iterator[int]:
    """Yield the processes below one, the oldest first."""
    with contextlib.suppress(psutil.Error):
        for child in psutil.Process(pid).children(recursive=True):
            yield child.pid


def _wait_for_others() -> list[str]:
    """Wait until all processes that a driver has left are gone; kill and return those that do not end."""
    left: list[str] = []
    give_up = time.monotonic() + SECONDS_TO_BE_GONE
    while True:
        try:
            found, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return left
        if not found:
            if time.monotonic() > give_up:
                for pid in _below(os.getpid()):
                    left.append(str(pid))
                    os.kill(pid, signal.SIGKILL)
                give_up += SECONDS_TO_BE_GONE
            time.sleep(0.002)


def _be_the_driver(request: dict[str, Any], steps: _Steps, told: int, go: int) -> int:
    _become_a_run(request)
    log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    end_at_signals()
    _Watch(_Fate(steps, request, told, go), log, request["output"])
    return exit_code(request["arguments"])


def _become_a_run(request: dict[str, Any]) -> None:
    os.setsid()
    dying.begin_a_run(request["said"], request["environ"], group=request["group"])


# -- what comes after ------------------------------------------------------------------------------------


def _continue(request: dict[str, Any]) -> list[int]:
    """Run commands one after the other, in one process; return their exit codes."""
    ours, theirs = os.pipe()
    child = os.fork()
    if not child:
        dying.be_a_fork(lambda request: _run_commands(request, theirs), request)
    os.close(theirs)
    with os.fdopen(ours) as answers:
        codes = [*map(int, answers.read().split())]
    os.waitpid(child, 0)
    _wait_for_others()
    return codes


def _run_commands(request: dict[str, Any], answers: int) -> int:
    _become_a_run(request)
    for arguments in request["commands"]:
        os.write(answers, f"{exit_code(arguments)} ".encode())
    return 0


if __name__ == "__main__":
    _serve()
