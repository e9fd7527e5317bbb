"""Runs in real processes that die at one of their changes to the disk, in each way that there is.

A trial begins with a copy of an output folder; a run changes it and dies, and then other commands run. All of
them are forked from a process that has imported what they need (see step_server.py).
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
# kill all processes at once, the one at the step, or the driver while that one is held; or signal the driver
DEATHS = ("all", "one", "driver", "signal")
ROLES = ("driver", "guard", "runner")
ASKING = (signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True)
class Step:
    """A change to the disk, and what happens there.

    Attributes:
        role: The role of the process that is about to make the change.
        number: Which of this role's changes it is, counted from 1.
        death: What dies there: one of DEATHS.
    """

    role: str
    number: int
    death: str

    def __str__(self) -> str:
        return f"{self.role} {self.number} {self.death}"


@dataclass(frozen=True)
class Trial:
    """The end of a run.

    Attributes:
        code: Its exit code, or minus the signal that killed it.
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
        """Send a request; return its answer, what was printed, and the kinds of the changes to the disk."""
        said, log = Path(self._folder.name, "said"), Path(self._folder.name, "log")
        said.write_text("")
        log.write_text("")
        answer = self._server.ask({**request, "said": str(said), "log": str(log)})
        return answer, said.read_text(errors="replace"), log.read_text().split()


@dataclass(frozen=True)
class Output:
    """The output of runs, and the way to start them.

    Attributes:
        server: The process that forks the runs.
        output: The output folder, or its URL.
        group: The largest number of tiny inputs that share a group.
        environ: The environment of each run.
    """

    server: StepServer
    output: str
    group: int = 1000
    environ: Mapping[str, str] = field(default_factory=dict)

    def run(self, arguments: Sequence[str], step: Step | None = None, **environ: str) -> Trial:
        """Run to the end, or to a death at a step."""
        request = {**self._request(environ), "arguments": [*arguments]}
        if step:
            which = ASKING[step.number % len(ASKING)]
            request |= {"at": [step.role, step.number], "death": step.death, "signal": which}
        answer, said, log = self.server.ask(request)
        return Trial(**answer, said=said, log=log)

    def finish(self, *commands: Sequence[str], **environ: str) -> tuple[list[int], str]:
        """Run commands one after the other in one process; return their exit codes, and what they printed."""
        commanded = {"commands": [[*command] for command in commands]}
        codes, said, _ = self.server.ask({**self._request(environ), **commanded})
        return codes, said

    def _request(self, environ: Mapping[str, str]) -> dict[str, Any]:
        return {"environ": {**self.environ, **environ}, "group": self.group, "output": self.output}


def restore(before: Path, output: Path) -> None:
    """Replace a folder with the copy of what it was before."""
    shutil.rmtree(output, ignore_errors=True)
    if before.exists():
        shutil.copytree(before, output, symlinks=True)


def each_death(steps: Mapping[str, int], deaths: Sequence[str] = DEATHS) -> Iterator[Step]:
    """Yield every death at every step of a run; `steps` is how many changes each role began."""
    for role in ROLES:
        for number in range(1, steps[role] + 1):
            for death in deaths:
                # at a step of the driver, the death `driver` is the same as `one`
                if (role, death) != ("driver", "driver"):
                    yield Step(role, number, death)
