"""Recipes that do to each input what its text says; each call is noted in a log that the test reads."""

import ctypes
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

import psutil

from splitter import InputFile, OutputFile, ProcessorDataset, Skip
from splitter.dataset import Result

MOST_MEMORY = 4 << 30


def note(log: Path, *words: object) -> None:
    """Add a line to a log that several processes write."""
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    try:
        os.write(file, (" ".join(map(str, words)) + "\n").encode())
    finally:
        os.close(file)


def noted(log: Path, word: str) -> list[str]:
    """What was noted after this word."""
    if not log.exists():
        return []
    return [
        line.removeprefix(word + " ") for line in log.read_text().splitlines() if line.startswith(word + " ")
    ]


class Faulty(ProcessorDataset):
    """Two outputs for an input, unless its text is the name of a fault."""

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


class Parts(ProcessorDataset):
    """As many outputs as the text has parts of a size: another size makes other files."""

    def __init__(self, inputs: Any = (), size: int = 3, seconds: float = 0.0) -> None:
        super().__init__(inputs)
        self.size, self.seconds = size, seconds

    def process(self, input_file: InputFile) -> Result:
        text = input_file.read_text()
        time.sleep(self.seconds)
        return self.parts(text), {"length": len(text)}

    def parts(self, text: str) -> Iterator[OutputFile]:
        for number, start in enumerate(range(0, len(text), self.size)):
            part = text[start : start + self.size]
            yield OutputFile(f"{number}.txt", part, {"part": part})


class Unpicklable(Exception):
    """An error that no other process will ever see."""

    def __init__(self, lock: object) -> None:
        super().__init__("it holds a lock", lock)

    def __reduce__(self) -> NoReturn:
        raise TypeError("this cannot be pickled")

    def __str__(self) -> str:
        return "it holds a lock"


class Unprintable(Exception):
    """An error that cannot say what it is."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


class Unspeakable(Exception):
    """An error that ends its process when it is asked what it is."""

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


def _hang_in_c() -> NoReturn:
    # a function of PyDLL is called with the GIL held
    ctypes.PyDLL(None).sleep(10**6)
    raise AssertionError


def _hang_in_a_regex() -> NoReturn:
    re.match(r"(a|a?)+$", "a" * 64 + "b")
    raise AssertionError


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


def _close_all_files() -> NoReturn:
    os.closerange(3, 256)
    time.sleep(60)
    raise AssertionError


def _kill_its_group() -> NoReturn:
    os.kill(0, signal.SIGTERM)
    time.sleep(60)
    raise AssertionError


def _ten_then_raise() -> Result:
    def outputs() -> Iterator[OutputFile]:
        for number in range(10):
            yield OutputFile(f"{number}.txt", str(number))
        raise RuntimeError("no more than ten")

    return outputs(), {}


def _crash_in_a_thread() -> NoReturn:
    thread = threading.Thread(target=ctypes.string_at, args=(0,))
    thread.start()
    thread.join()
    raise AssertionError


def _kill_itself(number: int) -> Callable[[], NoReturn]:
    def fault() -> NoReturn:
        os.kill(os.getpid(), number)
        time.sleep(60)
        raise AssertionError

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
    "metadata that does not pickle": lambda: ([OutputFile("0.txt", "good")], {"lock": threading.Lock()}),
    "metadata of an output that does not pickle": lambda: (
        [OutputFile("0.txt", "good"), OutputFile("1.txt", "good", {"lock": threading.Lock()})],
        {},
    ),
    "error that does not pickle": _raise(Unpicklable(threading.Lock())),
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


class Together(ProcessorDataset):
    """Does a batch at once; what goes wrong is in the texts, and only happens to a batch that holds them."""

    def __init__(self, inputs: Any = (), log: Path = Path(os.devnull)) -> None:
        super().__init__(inputs)
        self.log = Path(log)

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


class SetUp(Faulty):
    """Notes where it was set up and where it worked."""

    def setup(self) -> None:
        note(self.log, "setup", os.getpid())
        self.ready_for = "work"

    def process(self, input_file: InputFile) -> Result:
        note(self.log, "worked", os.getpid())
        return [], {"ready": self.ready_for}


class NeverSetUp(ProcessorDataset):
    """Its setup() goes wrong, each time in the way that is asked for."""

    def __init__(self, inputs: Any = (), fault: str = "raise") -> None:
        super().__init__(inputs)
        self.fault = fault

    def setup(self) -> None:
        FAULTS[self.fault]()

    def process(self, input_file: InputFile) -> Result:
        return [], {}


class Plain(ProcessorDataset):
    def process(self, input_file):
        return [OutputFile("copy", input_file.read_bytes())], {}


class Parent(ProcessorDataset):
    """Starts children that outlive the call: a program, one in a session of its own, a daemon, and a fork.

    An input that says `look` tells how many of the children that were started before are alive.
    """

    def __init__(self, inputs: Any = (), log: Path = Path(os.devnull), token: str = "") -> None:
        super().__init__(inputs)
        self.log, self.token = Path(log), token

    def process(self, input_file: InputFile) -> Result:
        text = input_file.read_text()
        if text == "look":
            return [], {"alive": sum(_lives(int(pid)) for pid in noted(self.log, "child"))}
        # read only by the test that looks for processes with this argument
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
        """Start a daemon: its parent is gone, and it belongs to nobody."""
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


class Transient(ProcessorDataset):
    """Reading fails for a moment: as often as the text says, then it goes well."""

    def __init__(self, inputs: Any = (), log: Path = Path(os.devnull)) -> None:
        super().__init__(inputs)
        self.log = Path(log)

    def process(self, input_file: InputFile) -> Result:
        failures, number = input_file.read_text().split()
        note(self.log, "tried", input_file.input)
        if noted(self.log, "tried").count(input_file.input) <= int(failures):
            raise OSError(int(number), os.strerror(int(number)), input_file.local_path)
        return [OutputFile("0.txt", "read")], {}


class Messy(ProcessorDataset):
    """Leaves files in its scratch folder, and in the folder that tempfile gives."""

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


# what an input may do to its process and go on as if nothing were: in vain, or to its own loss
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
    """Tells where it is; an input may change its process first."""

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
