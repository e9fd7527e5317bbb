"""Recipes for what happens between two steps of a run: slow stores, deaths, inputs that come and go."""

import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path

import psutil
from faulty import Noting, note, noted

from splitter import InputFile, OutputFile
from splitter.dataset import Result
from splitter.ledger.journal import Journal
from splitter.ledger.records import RecordWriter

# several seconds, since a machine may stall for some
SLOW_SECONDS, TIMEOUT = 5.0, 4.0


class SlowStore(Noting):
    """Commit outputs more slowly than an input may take."""

    def setup(self) -> None:
        write = Journal.commit

        def write_slowly(journal: Journal, batch: str, content: RecordWriter) -> None:
            time.sleep(SLOW_SECONDS)
            write(journal, batch, content)

        Journal.commit = write_slowly  # type: ignore[method-assign] - in a process of its own

    def process(self, input_file: InputFile) -> Result:
        note(self.log, "process", input_file.input)
        return [OutputFile("0.txt", input_file.read_text())], {}


class SlowTogether(Noting):
    """Take longer for a batch than one input may take, but not longer than all of them may."""

    def process(self, input_file: InputFile) -> Result:
        note(self.log, "alone", input_file.input)
        return [OutputFile("0.txt", "alone")], {}

    def process_batch(self, input_files: Sequence[InputFile]) -> list[Result]:
        time.sleep(SLOW_SECONDS)
        return [([OutputFile("0.txt", "together")], {}) for _ in input_files]


class DiesAfterCommit(Noting):
    """Let the worker die once, right after it has committed a batch and before it reports it."""

    def setup(self) -> None:
        write = Journal.commit

        def die_after(journal: Journal, batch: str, content: RecordWriter) -> None:
            write(journal, batch, content)
            if not noted(self.log, "died"):
                note(self.log, "died", batch)
                os._exit(9)

        Journal.commit = die_after  # type: ignore[method-assign] - in a process of its own

    def process(self, input_file: InputFile) -> Result:
        note(self.log, "process", input_file.input)
        return [OutputFile("0.txt", input_file.read_text())], {}


class Deadly(Noting):
    """Note each input that is begun, and die at some of them, in the way that they say."""

    def process(self, input_file: InputFile) -> Result:
        note(self.log, "process", input_file.input)
        text = input_file.read_text()
        if text == "exit":
            os._exit(3)
        if text == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if text == "kill once" and noted(self.log, "process").count(input_file.input) == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return [OutputFile("0.txt", text)], {}


class Meddles(Noting):
    """Note each input that is begun; some inputs say which others to write or to remove."""

    def process(self, input_file: InputFile) -> Result:
        note(self.log, "process", input_file.input)
        text = input_file.read_text()
        word, _, other = text.partition(" ")
        if word == "remove":
            input_file.path.with_name(other).unlink()
        if word == "write":
            input_file.path.with_name(other).write_text("has come")
        return [OutputFile("0.txt", text)], {"text": text}


class Loses(Noting):
    """Fail on all inputs; one first kills the parent process, if the log says so."""

    def process(self, input_file: InputFile) -> Result:
        note(self.log, "process", input_file.input)
        if input_file.read_text() == "lose" and len(noted(self.log, "lose")) == 1:
            note(self.log, "lose", "done")
            os.kill(os.getppid(), signal.SIGKILL)
            time.sleep(60)
        raise ValueError(input_file.input)


def die_once(folder: Path, generations: int) -> None:
    """Kill this process, or one that it descends from; once."""
    try:
        (folder / "died").touch(exist_ok=False)
    except FileExistsError:
        return
    process = psutil.Process()
    for _ in range(generations):
        process = process.parent()
    process.kill()
    time.sleep(10)
