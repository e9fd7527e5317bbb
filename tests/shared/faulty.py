"""Recipes that do what the text of each input says; each call is noted in a log that the test reads."""

import contextlib
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil

from splitter import InputFile, OutputFile, ProcessorDataset
from splitter.dataset import Result
from splitter.testing.faults import FAULTS, Faulty, NeverSetUp, SetUp, halves, note, noted

__all__ = ["FAULTS", "Faulty", "NeverSetUp", "SetUp", "note", "noted"]


# a variable with the path of a file; while that exists, inputs whose text contains its words wait
HOLD = "SPLITTER_TEST_HOLD"


def wait_while_held(text: str) -> None:
    """Wait as long as the test holds this input, so that it finds the run at work on any machine."""
    path = Path(os.environ.get(HOLD) or os.devnull)
    with contextlib.suppress(FileNotFoundError):
        while path.is_file() and path.read_text() in text:
            time.sleep(0.01)


class Noting(ProcessorDataset):
    """A recipe that keeps a log."""

    def __init__(self, inputs: Any = (), log: Path = Path(os.devnull)) -> None:
        super().__init__(inputs)
        self.log = Path(log)


class Parts(ProcessorDataset):
    """Cut a text into parts of a size, an output each: another size makes other files."""

    def __init__(self, inputs: Any = (), size: int = 3, seconds: float = 0.0) -> None:
        super().__init__(inputs)
        self.size, self.seconds = size, seconds

    def process(self, input_file: InputFile) -> Result:
        text = input_file.read_text()
        time.sleep(self.seconds)
        wait_while_held(text)
        return self.parts(text), {"length": len(text)}

    def parts(self, text: str) -> Iterator[OutputFile]:
        for number, start in enumerate(range(0, len(text), self.size)):
            part = text[start : start + self.size]
            yield OutputFile(f"{number}.txt", part, {"part": part})


class Together(Noting):
    """Process a batch at once; the texts in it say what goes wrong."""

    def process(self, input_file: InputFile) -> Result:
        note(self.log, "process", input_file.input)
        text = input_file.read_text()
        if text in FAULTS:
            return FAULTS[text]()
        return halves(text), {"length": len(text)}

    def process_batch(self, input_files: Sequence[InputFile]) -> Any:
        note(self.log, "together", *[one.input for one in input_files])
        texts = [one.read_text() for one in input_files]
        for text in texts:
            if text in FAULTS:
                FAULTS[text]()
        results = [(halves(text), {"length": len(text)}) for text in texts]
        if "one result too few" in texts:
            return results[:-1]
        if "one result too many" in texts:
            return [*results, results[0]]
        if "no results" in texts:
            return None
        if "generator that raises" in texts:
            return _raise_after_two(results)
        if "generator" in texts:
            return (result for result in results)
        return results


def _raise_after_two(results: list[Result]) -> Iterator[Result]:
    yield from results[:2]
    raise RuntimeError("no more than two")


class Plain(ProcessorDataset):
    def process(self, input_file):
        return [OutputFile("copy", input_file.read_bytes())], {}


class Parent(ProcessorDataset):
    """Start children that outlive the call: a program, one in a new session, a daemon, and a fork.

    For an input that says `look`, report how many of the children that were started before are alive.
    """

    def __init__(self, inputs: Any = (), log: Path = Path(os.devnull), token: str = "") -> None:
        super().__init__(inputs)
        self.log, self.token = Path(log), token

    def process(self, input_file: InputFile) -> Result:
        text = input_file.read_text()
        if text == "look":
            return [], {"alive": sum(_lives(int(pid)) for pid in noted(self.log, "child"))}
        # only for the test, which looks for processes that have the token as an argument
        command = [sys.executable, "-c", "import time; time.sleep(1000)", self.token]
        for new_session in (False, True):
            child = subprocess.Popen(command, start_new_session=new_session)
            note(self.log, "child", child.pid)
        self._fork(lambda: os.execv(command[0], command))  # noqa: S606
        self._fork(lambda: time.sleep(1000))
        note(self.log, "started", input_file.input)
        if text in FAULTS:
            return FAULTS[text]()
        return [], {"alive": -1}

    def _fork(self, life: Callable[[], object]) -> None:
        """Start a daemon: a process whose parent has ended."""
        between = os.fork()
        if between:
            os.waitpid(between, 0)
            return
        if not os.fork():
            note(self.log, "child", os.getpid())
            life()
        os._exit(0)


def _lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


class Transient(Noting):
    """Fail to read as often as the text says, then succeed."""

    def process(self, input_file: InputFile) -> Result:
        failures, number = input_file.read_text().split()
        note(self.log, "tried", input_file.input)
        if noted(self.log, "tried").count(input_file.input) <= int(failures):
            raise OSError(int(number), os.strerror(int(number)), input_file.local_path)
        return [OutputFile("0.txt", "read")], {}


class Messy(ProcessorDataset):
    """Leave a folder with a file in the scratch folder."""

    def process(self, input_file: InputFile) -> Result:
        text = input_file.read_text()
        (input_file.scratch / "folder").mkdir()
        work = input_file.scratch / "folder" / "work.txt"
        work.write_text(text)
        if text in FAULTS:
            return FAULTS[text]()
        return [OutputFile("0.txt", work)], {}


def _lower_limits() -> None:
    for which in (resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE):
        resource.setrlimit(which, (4, resource.getrlimit(which)[1]))


def _put_another_file_at_all_descriptors() -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in range(3, 64):
        os.dup2(nothing, number)


def _sit_in_a_folder_that_is_gone() -> None:
    folder = tempfile.mkdtemp()
    os.chdir(folder)
    os.rmdir(folder)


# what an input may do to its process and continue; CHANGES affect nothing, after HARM the input fails
CHANGES: dict[str, Callable[[], object]] = {
    "umask": lambda: os.umask(0o777),
    "chdir": lambda: os.chdir("/"),
    "a folder that is gone": _sit_in_a_folder_that_is_gone,
    "close standard streams": lambda: os.closerange(0, 3),
    "close sys.stdout": lambda: sys.stdout.close(),  # noqa: PLW0108 - of its process, not of this one
    "alarm": lambda: signal.setitimer(signal.ITIMER_REAL, 0.3),
}
HARM: dict[str, Callable[[], object]] = {
    "close descriptors": lambda: os.closerange(3, 256),
    "replace descriptors": _put_another_file_at_all_descriptors,
    "lower limits": _lower_limits,
}


class Changing(ProcessorDataset):
    """Output the working folder for inputs that begin with `good`; others may change their process."""

    def process(self, input_file: InputFile) -> Result:
        {**CHANGES, **HARM}.get(input_file.read_text(), lambda: None)()
        if input_file.input.startswith("good"):
            time.sleep(0.1)
            sys.stdout.write("good\n")
            return self.outputs(os.getcwd()), {}
        return self.outputs(""), {}

    @staticmethod
    def outputs(text: str) -> Iterator[OutputFile]:
        yield OutputFile("bytes.txt", text)
        yield OutputFile("written.txt", lambda file: file.write(text.encode()))
