"""Recipes for runs on Ray: they note where they are at work, and end processes that are not their own."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any

import psutil
from faulty import FAULTS, halves, note, noted

from splitter import InputFile, ProcessorDataset, Skip
from splitter.dataset import Result


class Located(ProcessorDataset):
    """Two outputs for an input; notes which node it is done on, and when it begins and ends.

    However slow a test is, it finds them at work: none is done before so many have been at work at a time
    as are to be `together`, and, while there is a file log.hold, none but the first few, as many as it says.

    runner <- guard <- stand-in <- Ray worker <- raylet, which is the node.
    """

    def __init__(
        self, inputs: Any = (), log: Path = Path(os.devnull), seconds: float = 0.0, together: int = 0
    ) -> None:
        super().__init__(inputs)
        self.log, self.seconds, self.together = Path(log), seconds, together

    def setup(self) -> None:
        note(self.log, "setup", os.getpid())

    def _wait(self) -> None:
        while self._is_held() or (self.together and most_at_work(self.log) < self.together):
            time.sleep(0.02)
        time.sleep(self.seconds)

    def _is_held(self) -> bool:
        try:
            free = int(self.log.with_suffix(".hold").read_text())
        except FileNotFoundError:
            return False
        return len(noted(self.log, "worked")) > free

    def process(self, input_file: InputFile) -> Result:
        note(self.log, "at work", 1)
        note(self.log, "worked", os.getpid())
        note(self.log, "host", socket.gethostname())
        # none of them lives long where a test has killed one
        for node in psutil.Process().parents()[3:4]:
            note(self.log, "node", node.pid)
        text = input_file.read_text()
        self._wait()
        if text in ENDS:
            ENDS[text]()
        if text in FAULTS:
            return FAULTS[text]()
        if text == "skip":
            raise Skip("not wanted")
        note(self.log, "at work", -1)
        return halves(text), {"length": len(text)}


def most_at_work(log: Path) -> int:
    """How many inputs were at work at a time, at the most."""
    return max(accumulate(map(int, noted(log, "at work"))), default=0)


class Held(Located):
    """Stops while shards are exchanged: at the rename whose number stands in a file beside the log."""

    def setup(self) -> None:
        renamed: list[str] = []
        wanted = self.log.with_suffix(".step")

        def look(event: str, arguments: tuple[Any, ...]) -> None:
            if event != "os.rename" or not (renamed or str(arguments[1]).endswith(".begun")):
                return
            renamed.append(event)
            if wanted.exists() and len(renamed) == int(wanted.read_text()):
                note(self.log, "held", os.getpid())
                while wanted.exists():
                    time.sleep(0.01)

        sys.addaudithook(look)


class Asked(ProcessorDataset):
    """Tells what is in the environment."""

    def process(self, input_file: InputFile) -> Result:
        return [], {"word": os.environ.get("A_WORD", "")}


class Loud(ProcessorDataset):
    """Prints what it reads, on both streams and from a program that it starts."""

    def setup(self) -> None:
        print("ready")  # noqa: T201 - so do users

    def process(self, input_file: InputFile) -> Result:

        text = input_file.read_text()
        print(f"{text} said")  # noqa: T201
        print(f"{text} complained", file=sys.stderr)  # noqa: T201
        subprocess.run(["echo", text, "by a program"], check=True)
        return self._outputs(text), {}

    def _outputs(self, text: str) -> Iterator[Any]:
        print(f"{text}, late")  # noqa: T201
        yield from halves(text)


def _ray_worker() -> psutil.Process:
    return psutil.Process().parents()[2]


def _kill_the_worker() -> None:
    _ray_worker().kill()
    time.sleep(60)


def _stop_the_worker() -> None:
    _ray_worker().send_signal(signal.SIGSTOP)


ENDS = {"kill the Ray worker": _kill_the_worker, "stop the Ray worker": _stop_the_worker}
