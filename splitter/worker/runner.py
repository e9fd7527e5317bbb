"""Run user code in a separate process, which its guard starts, gives batches, watches and kills."""

import contextlib
import faulthandler
import functools
import gc
import mmap
import multiprocessing
import multiprocessing.connection
import os
import secrets
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from typing import NoReturn

from splitter.errors import RunStopped
from splitter.system.capture import OutputCapture
from splitter.system.children import die_with_parent, end_descendants
from splitter.system.gate import Gate
from splitter.system.memory import be_first_to_go, memory_of, nameless_file
from splitter.system.package import PACKAGE_FOLDER
from splitter.worker.batch import BETWEEN_INPUTS
from splitter.worker.messages import Batch, Job, Report
from splitter.worker.worker import Worker

# the index that a runner notes while it has no batch
IDLE = -3
SETUP = -4
SECONDS_FOR_LAST_WORDS = 0.1
# the numbers: memory after setup(), the process that fetches, the harm by which an input ended the runner
SETUP_MEMORY, FETCHER, HARM_DONE = range(3)


class RunnerNotes:
    """Memory that guard and runner share: the current input, when it was begun, and a few numbers."""

    def __init__(self) -> None:
        # each value is written at once: `struct` would fill the memory with zeros first
        memory = memoryview(mmap.mmap(-1, 5 * 8))
        numbers = memory.cast("q")
        self._since, self._index, self._numbers = memory[:8].cast("d"), numbers[1:2], numbers[2:]
        self.write_index(IDLE)

    def write_index(self, index: int) -> None:
        """Note the index of the input that is begun now."""
        # the time first: whoever looks in between must not take an input for older than it is
        self._since[0] = time.monotonic()
        self._index[0] = index

    def read_index(self) -> tuple[int, float]:
        """Return the index of the current input, and when it was begun, or a later time."""
        index = self._index[0]
        return index, self._since[0]

    def write(self, name: int, number: int) -> None:
        """Note one of the numbers: SETUP_MEMORY, FETCHER or HARM_DONE."""
        self._numbers[name] = number

    def read(self, name: int) -> int:
        """Return one of the numbers, 0 at first."""
        return self._numbers[name]


class Runner:
    """A runner's process: forked when there is a batch, and again after its death."""

    def __init__(self, job: Job, gate: Gate | None = None, *, listens: bool = False) -> None:
        self._job, self._gate = job, gate
        self.notes = RunnerNotes()
        # the name of its folder for temporary files, which the guard removes however the runner ends
        self.scratch = f"splitter-{secrets.token_hex(8)}"
        self.capture = OutputCapture() if listens else None
        # takes its last words: the line of code where it died or hung
        self._last_words = nameless_file()
        self._process = 0
        # its exit status, if the system has given it already
        self._status = -1
        self._pipe: multiprocessing.connection.Connection | None = None

    # -- in the guard ----------------------------------------------------------------------------------------

    def give(self, batch: Batch) -> None:
        """Send it a batch; start it first if it is not running."""
        if not self._process:
            self._start()
        assert self._pipe is not None  # noqa: S101 - made by _start
        self._pipe.send(batch)

    def _start(self) -> None:
        ours, theirs = multiprocessing.Pipe()
        self.notes.write_index(SETUP)
        self.notes.write(HARM_DONE, 0)
        sys.stdout.flush()
        sys.stderr.flush()
        scratch = self._job.storage.stage(self.scratch)
        guard = os.getpid()
        self._process = os.fork()
        if not self._process:
            ours.close()
            self._live(theirs, guard, scratch)
        theirs.close()
        self._pipe = ours

    def answer(self, seconds: float) -> Report | None:
        """Return its report, or None after `seconds`; raise OSError or EOFError if the pipe is closed."""
        assert self._pipe is not None  # noqa: S101 - made by _start
        if not self._pipe.poll(seconds):
            return None
        return self._pipe.recv()

    def has_ended(self) -> bool:
        """Return whether it is dead."""
        found, status = os.waitpid(self._process, os.WNOHANG)
        if found:
            self._status = status
        return bool(found)

    def memory(self) -> int:
        """Return the bytes that it and its children took after setup(), without the process that fetches."""
        return memory_of(self._process, self.notes.read(FETCHER)) - self.notes.read(SETUP_MEMORY)

    def ask_where_it_is(self) -> None:
        """Make it write down where it hangs; this works even inside C code that never returns."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._process, signal.SIGUSR2)
            time.sleep(SECONDS_FOR_LAST_WORDS)

    def last_words(self) -> str:
        """Return what it wrote down when it died, or was asked where it hangs."""
        self._last_words.seek(0)
        words = self._last_words.read().decode("utf-8", "backslashreplace")
        self._last_words.seek(0)
        self._last_words.truncate()
        return "\n".join(_without_own_frames(words.splitlines()))

    def kill(self) -> int:
        """End it, its process group, and what it left behind; return its exit status."""
        if not self._process:
            return 0
        status = self._status
        self._status = -1
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process, signal.SIGKILL)
        if status < 0:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process, signal.SIGKILL)
            # the status may have been collected already, when a signal came
            with contextlib.suppress(ChildProcessError):
                _, status = os.waitpid(self._process, 0)
        # a signal may come at any time and repeat all this, and a pipe cannot be closed twice
        pipe, self._pipe = self._pipe, None
        if pipe is not None:
            pipe.close()
        end_descendants()
        self._process = 0
        return status

    # -- in the runner ---------------------------------------------------------------------------------------

    def _live(self, pipe: multiprocessing.connection.Connection, guard: int, scratch: str) -> NoReturn:
        """Run batches until the guard hangs up; never return into the guard's code."""
        status = 1
        try:
            die_with_parent(guard, signal.SIGKILL)
            os.setpgid(0, 0)
            # torch's handlers would print, and hide how the runner ended
            for number in (signal.SIGTERM, signal.SIGBUS, signal.SIGSEGV, signal.SIGFPE, signal.SIGUSR2):
                signal.signal(number, signal.SIG_DFL)
            faulthandler.enable(self._last_words)
            # chained to the default action, which ends it: otherwise an interrupted sleep would just continue
            faulthandler.register(signal.SIGUSR2, self._last_words, chain=True)
            be_first_to_go()
            with open(os.devnull, "rb") as nothing:
                os.dup2(nothing.fileno(), 0)
            # what torch has loaded stays, so the garbage collector need not look through it
            gc.freeze()
            if self.capture:
                self.capture.take_over()
            needed = [pipe.fileno(), self._last_words.fileno(), *self._job.storage.lock_descriptors]
            announce = functools.partial(self.notes.write, FETCHER)
            worker = Worker(self._job, self._mark, scratch, announce, self._gate, needed, self._give_up)
            _serve(worker, pipe, self.notes)
            status = 0
        except BaseException:
            # a fault of splitter itself: nothing else would show it
            traceback.print_exc()
            raise
        finally:
            _exit(status)

    def _give_up(self, harm: int) -> NoReturn:
        """End a runner that an input has made useless."""
        self.notes.write(HARM_DONE, harm)
        _exit(1)

    def _mark(self, index: int) -> None:
        if self.capture:
            self.capture.mark(index)
        self.notes.write_index(index)


def _serve(worker: Worker, pipe: multiprocessing.connection.Connection, notes: RunnerNotes) -> None:
    """Run batches until the guard closes the pipe."""
    fault: RunStopped | None = None
    is_ready = False
    while True:
        try:
            batch: Batch = pipe.recv()
        except (EOFError, ConnectionResetError):
            return
        if not is_ready:
            # only now: if setup() starts a process and then dies, that process holds the pipe open, and the
            # guard would wait forever for somebody to take a large batch
            fault, is_ready = _set_up(worker), True
            # memory that setup() took does not count towards --memory
            notes.write(SETUP_MEMORY, memory_of(os.getpid()))
        notes.write_index(BETWEEN_INPUTS)
        try:
            report = Report.stopped(fault) if fault else worker.run(batch)
        except RunStopped as error:
            report = Report.stopped(error)
        notes.write_index(IDLE)
        try:
            pipe.send(report)
        except (BrokenPipeError, ConnectionResetError):
            # the guard has ended with the run, and what is committed is in storage
            return


def _set_up(worker: Worker) -> RunStopped | None:
    """Set the recipe up; return why that is not possible, if so."""
    try:
        worker.setup()
    except RunStopped as error:
        return error
    return None


def _exit(status: int) -> NoReturn:
    with contextlib.suppress(Exception):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(status)


def _without_own_frames(lines: list[str]) -> Iterator[str]:
    """Yield the lines of each thread's stack, innermost first, as far as splitter's own code."""
    below = False
    for line in lines:
        if line.startswith("Extension modules"):
            return
        if line.endswith("(most recent call first):"):
            below = False
        below = below or line.startswith(f'  File "{PACKAGE_FOLDER}/')
        if not below:
            yield line
