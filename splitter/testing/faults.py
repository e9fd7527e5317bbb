"""Recipes that do with each input what its text says, and log each call for the test to read."""

import ctypes
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

from splitter import InputFile, OutputFile, ProcessorDataset, Skip
from splitter.dataset import Result

MOST_MEMORY = 4 << 30
# an object that cannot be metadata
_LOCK: Any = threading.Lock()


def note(log: Path, *words: object) -> None:
    """Add a line to a log that several processes write."""
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    try:
        os.write(file, (" ".join(map(str, words)) + "\n").encode())
    finally:
        os.close(file)


def noted(log: Path, word: str) -> list[str]:
    """Return what was noted after this word, line by line."""
    if not log.exists():
        return []
    return [
        line.removeprefix(word + " ") for line in log.read_text().splitlines() if line.startswith(word + " ")
    ]


class Faulty(ProcessorDataset):
    """A recipe that makes two outputs from an input, unless the input's text is the name of a fault."""

    def __init__(self, inputs: Any = (), log: Path = Path(os.devnull), seconds: float = 0.0) -> None:
        super().__init__(inputs)
        self.log, self.seconds = Path(log), seconds

    def process(self, input_file: InputFile) -> Result:
        note(self.log, "process", input_file.input)
        text = input_file.read_text()
        time.sleep(self.seconds)
        if text in FAULTS:
            return FAULTS[text]()
        if text == "skip":
            raise Skip("not wanted")
        return halves(text), {"length": len(text)}


def halves(text: str) -> Iterator[OutputFile]:
    middle = len(text) // 2
    yield OutputFile("left.txt", text[:middle], {"half": "left"})
    yield OutputFile("right half.txt", text[middle:], {"half": "right"})


class Unpicklable(Exception):
    """An error that cannot be sent to another process."""

    def __init__(self, lock: object) -> None:
        super().__init__("it holds a lock", lock)

    def __reduce__(self) -> NoReturn:
        raise TypeError("this cannot be pickled")

    def __str__(self) -> str:
        return "it holds a lock"


class Unprintable(Exception):
    """An error that raises another when it is printed."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


class Unspeakable(Exception):
    """An error that exits when it is printed."""

    def __str__(self) -> str:  # noqa: PLE0307 - that is its fault
        sys.exit(5)


def _raise(error: BaseException) -> Callable[[], NoReturn]:
    def fault() -> NoReturn:
        raise error

    return fault


def _hang() -> NoReturn:
    while True:
        try:
            time.sleep(60)
        except BaseException:  # noqa: BLE001, S112 - nothing gets it out of here
            continue


def _hang_in_c() -> None:
    # a function of PyDLL is called with the GIL held
    ctypes.PyDLL(None).sleep(10**6)


def _hang_in_a_regex() -> None:
    re.match(r"(a|a?)+$", "a" * 64 + "b")


def _allocate() -> NoReturn:
    blocks: list[bytes] = []
    while sum(map(len, blocks)) < MOST_MEMORY:
        blocks.append(b"x" * (16 << 20))
        time.sleep(0.005)
    raise AssertionError("nothing has stopped it")


def _allocate_in_a_child() -> NoReturn:
    code = f"blocks = [b'x' * (16 << 20) for _ in range({MOST_MEMORY >> 24})]"
    subprocess.run([sys.executable, "-c", code], check=True)
    raise AssertionError("nothing has stopped it")


def _close_all_files() -> None:
    os.closerange(3, 256)
    time.sleep(60)


def _kill_its_group() -> None:
    os.kill(0, signal.SIGTERM)
    time.sleep(60)


def _ten_then_raise() -> Result:
    def outputs() -> Iterator[OutputFile]:
        for number in range(10):
            yield OutputFile(f"{number}.txt", str(number))
        raise RuntimeError("no more than ten")

    return outputs(), {}


def _crash_in_a_thread() -> None:
    thread = threading.Thread(target=ctypes.string_at, args=(0,))
    thread.start()
    thread.join()


def _kill_itself(number: int) -> Callable[[], None]:
    def fault() -> None:
        os.kill(os.getpid(), number)
        time.sleep(60)

    return fault


def _recurse() -> Any:
    return _recurse()


FAULTS: dict[str, Callable[[], Any]] = {
    "raise": _raise(ValueError("no good")),
    "segfault": lambda: ctypes.string_at(0),
    "hang": _hang,
    "hang in C": _hang_in_c,
    "sleep": lambda: time.sleep(1000),
    "hang in a regex": _hang_in_a_regex,
    "os._exit": lambda: os._exit(7),
    "os._exit(0)": lambda: os._exit(0),
    "sys.exit": lambda: sys.exit("this input ends here"),
    "allocate": _allocate,
    "ten then raise": _ten_then_raise,
    "garbage": lambda: 42,
    "garbage among outputs": lambda: ([OutputFile("0.txt", "good"), "garbage"], {}),
    "metadata that does not pickle": lambda: ([OutputFile("0.txt", "good")], {"lock": _LOCK}),
    "metadata of an output that does not pickle": lambda: (
        [OutputFile("0.txt", "good"), OutputFile("1.txt", "good", {"lock": _LOCK})],
        {},
    ),
    "error that does not pickle": _raise(Unpicklable(_LOCK)),
    "error that does not print": _raise(Unprintable()),
    "error that exits when printed": _raise(Unspeakable()),
    "MemoryError": _raise(MemoryError()),
    "KeyboardInterrupt": _raise(KeyboardInterrupt()),
    "GeneratorExit": _raise(GeneratorExit()),
    "StopIteration": _raise(StopIteration()),
    "recursion": _recurse,
    "abort": os.abort,
    "SIGKILL": _kill_itself(signal.SIGKILL),
    "SIGTERM": _kill_itself(signal.SIGTERM),
    "crash in a thread": _crash_in_a_thread,
    "allocate in a child": _allocate_in_a_child,
    "close all files": _close_all_files,
    "kill its group": _kill_its_group,
}


class SetUp(Faulty):
    """A recipe that notes the processes in which it is set up and works."""

    def setup(self) -> None:
        note(self.log, "setup", os.getpid())
        self.ready_for = "work"

    def process(self, input_file: InputFile) -> Result:
        note(self.log, "worked", os.getpid())
        return [], {"ready": self.ready_for}


class NeverSetUp(ProcessorDataset):
    """A recipe whose setup() fails in the way that `fault` says."""

    def __init__(self, inputs: Any = (), fault: str = "raise") -> None:
        super().__init__(inputs)
        self.fault = fault

    def setup(self) -> None:
        FAULTS[self.fault]()

    def process(self, input_file: InputFile) -> Result:
        return [], {}
