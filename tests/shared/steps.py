"""Runs in real processes that die at one of their changes to the disk, in each way that there is.

A trial is a copy of an output folder as it was before, a run that changes it and dies, and the commands that
come after. It is forked from a process that has imported what it needs (see step_server.py).
"""

import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from launcher import environment
from served import Server

SERVER = Path(__file__).with_name("step_server.py")
# at once all processes, the one at the step, the driver while the other is held, or a signal to the driver
DEATHS = ("all", "one", "driver", "signal")
ROLES = ("driver", "guard", "runner")
ASKING = (signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True)
class Step:
    """A change to the disk, and what happens there.

    Attributes:
        role: Of the process that is about to make it.
        number: Which of this role's changes it is, from 1 on.
        death: Who dies there.
    """

    role: str
    number: int
    death: str

    def __str__(self) -> str:
        return f"{self.role} {self.number} {self.death}"


@dataclass(frozen=True)
class Trial:
    """How a run ended: its exit code, or minus the signal that killed it.

    Attributes:
        steps: How many changes to the disk each role began.
        left: Processes that did not end.
        said: What it printed.
        log: The kinds of the changes.
    """

    code: int
    steps: dict[str, int]
    left: list[str]
    said: str
    log: list[str]


class StepServer:
    """The process that runs are forked from."""

    def __enter__(self) -> "StepServer":
        self._folder = tempfile.TemporaryDirectory(prefix="splitter-test-")
        self._server = Server([sys.executable, SERVER], environment())
        return self

    def __exit__(self, *error: object) -> None:
        self._server.close()
        self._folder.cleanup()

    def ask(self, request: Mapping[str, Any]) -> tuple[Any, str, list[str]]:
        """Send a request; its answer, what was printed, and the kinds of the changes to the disk."""
        said, log = Path(self._folder.name, "said"), Path(self._folder.name, "log")
        said.write_text("")
        log.write_text("")
        answer = self._server.ask({**request, "said": str(said), "log": str(log)})
        return answer, said.read_text(errors="replace"), log.read_text().split()


@dataclass(frozen=True)
class Output:
    """Where runs write to, and how to run them.

    Attributes:
        server: What forks them.
        output: The folder, or the URL.
        group: How many tiny inputs share a group at most.
        environ: The environment of each run.
    """

    server: StepServer
    output: str
    group: int = 1000
    environ: Mapping[str, str] = field(default_factory=dict)

    def run(self, arguments: Sequence[str], step: Step | None = None, **environ: str) -> Trial:
        """A run to its end, or to a death at a step."""
        request = {**self._request(environ), "arguments": [*arguments]}
        if step:
            which = ASKING[step.number % len(ASKING)]
            request |= {"at": [step.role, step.number], "death": step.death, "signal": which}
        answer, said, log = self.server.ask(request)
        return Trial(**answer, said=said, log=log)

    def finish(self, *commands: Sequence[str], **environ: str) -> tuple[list[int], str]:
        """Commands one after the other in one process; their exit codes, and what they printed."""
        commanded = {"commands": [[*command] for command in commands]}
        codes, said, _ = self.server.ask({**self._request(environ), **commanded})
        return codes, said

    def _request(self, environ: Mapping[str, str]) -> dict[str, Any]:
        return {"environ": {**self.environ, **environ}, "group": self.group, "output": self.output}


def restore(before: Path, output: Path) -> None:
    """Make a folder what it was before."""
    shutil.rmtree(output, ignore_errors=True)
    if before.exists():
        shutil.copytree(before, output, symlinks=True)


def each_death(steps: Mapping[str, int], deaths: Sequence[str] = DEATHS) -> Iterator[Step]:
    """Every death at every step of a run that began so many changes."""
    for role in ROLES:
        for number in range(1, steps[role] + 1):
            for death in deaths:
                # where the driver is at the step, it is the driver that dies alone
                if (role, death) != ("driver", "driver"):
                    yield Step(role, number, death)
