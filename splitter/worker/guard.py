"""Guard and runner: a bad input ends a runner, never a run.

A guard takes batches and runs no user code. The runner, forked from it, processes, stores and commits,
and notes the input it is at in memory that both see. The guard ends a runner that takes too long or too
much memory, names the input that a dead runner held, and starts another runner for the rest.

    driver ── guard ── runner ── what the user's code starts
"""

import contextlib
import faulthandler
import gc
import mmap
import multiprocessing
import multiprocessing.connection
import os
import secrets
import signal
import struct
import sys
import time
import traceback
from collections.abc import Iterator
from dataclasses import replace
from typing import NoReturn

from splitter.errors import Crashed, MemoryExceeded, RunStopped, TimedOut
from splitter.ledger.journal import Journal
from splitter.ledger.records import DONE, FAILED, SKIPPED, Record
from splitter.system.capture import OutputCapture
from splitter.system.children import adopt_orphans, die_with_parent, end_descendants, lives, parent_process
from splitter.system.gate import Gate
from splitter.system.memory import be_first_to_go, memory_of, nameless_file
from splitter.system.package import PACKAGE_FOLDER
from splitter.system.programs import signal_name
from splitter.text.csv import parse_rows
from splitter.worker.messages import SECOND_NAME, Batch, Failure, Job, Report
from splitter.worker.surroundings import CLOSED, HARM
from splitter.worker.worker import BETWEEN_INPUTS, SECOND, TOGETHER, Worker

IDLE = -3
SETUP = -4
TRIES_IF_KILLED = 3
SECONDS_FOR_LAST_WORDS = 0.1
SECONDS_TO_END = 0.5
_LOOK_EVERY = 0.05
_LOOK_SELDOM = 0.5
_PLACE, _BYTES = struct.Struct("qd"), struct.Struct("q")
_FROM_OUTSIDE = (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


class _Post:
    """Shared memory where the runner notes the place of the input it is at, and since when.

    Beside that, how much memory it held when it was ready for the first, which process fetches for it, and
    what an input has done to it that makes it useless.
    """

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, _PLACE.size + 3 * _BYTES.size)
        self.note(IDLE)

    def note(self, index: int) -> None:
        _PLACE.pack_into(self._memory, 0, index, time.monotonic())

    def read(self) -> tuple[int, float]:
        index, since = _PLACE.unpack_from(self._memory)
        return index, since

    def note_base(self, size: int) -> None:
        _BYTES.pack_into(self._memory, _PLACE.size, size)

    def read_base(self) -> int:
        (size,) = _BYTES.unpack_from(self._memory, _PLACE.size)
        return int(size)

    def note_fetcher(self, process: int) -> None:
        _BYTES.pack_into(self._memory, _PLACE.size + _BYTES.size, process)

    def note_harm(self, harm: int) -> None:
        _BYTES.pack_into(self._memory, _PLACE.size + 2 * _BYTES.size, harm)

    def read_harm(self) -> int:
        (harm,) = _BYTES.unpack_from(self._memory, _PLACE.size + 2 * _BYTES.size)
        return int(harm)

    def read_fetcher(self) -> int:
        (process,) = _BYTES.unpack_from(self._memory, _PLACE.size + _BYTES.size)
        return int(process)


class Guard:
    """Runs batches in a runner of its own, whatever they do to it."""

    def __init__(
        self,
        job: Job,
        *,
        timeout: float | None = None,
        memory: int | None = None,
        listens: bool = False,
        gate: Gate | None = None,
    ) -> None:
        """Limits are per input: seconds, and bytes above what the runner holds after setup().

        One that listens reports what user code prints, where there is no terminal to print it on.
        """
        self._job, self._gate = job, gate
        self._timeout, self._memory = timeout, memory
        self._journal = Journal(job.storage)
        self._post = _Post()
        self._runner = 0
        # the runner's temporary files; they go with it, however it ends
        self._scratch = f"splitter-{secrets.token_hex(8)}"
        # the batch that it is at
        self._name = self._scratch
        # where the runner's last words go: the place in the code that it died or hung at
        self._last_words = nameless_file()
        self._capture = OutputCapture() if listens else None
        self._pipe: multiprocessing.connection.Connection | None = None

    def protect(self) -> None:
        """Prepare this process: it ends with its parent, and takes its runner and their children along."""
        die_with_parent(parent_process(), signal.SIGTERM)
        # should the guard itself be killed, this tells the driver what belonged to it
        os.setsid()
        adopt_orphans()
        signal.signal(signal.SIGTERM, self._leave)
        for number in (signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)

    def run(self, batch: Batch) -> Report:
        """Do a batch to its end; each input that ends the runner is one failed input."""
        total = Report(batch.name)
        pieces = [*reversed(batch.steps())]
        attempt = 0
        killed: dict[int, int] = {}
        while pieces:
            piece = pieces.pop()
            name = f"{batch.name}-{attempt:06d}"
            attempt += 1
            report, death = self._try(replace(piece, name=name))
            total.said += self._printed(piece)
            if report is not None:
                total += report
                if total.stop:
                    break
                continue
            assert death is not None  # noqa: S101 - one of the two
            pieces += self._after(death, piece, name, killed, total)
        return total

    def stop(self) -> None:
        """End the runner and everything it started."""
        if self._pipe is not None:
            self._pipe.close()
            self._pipe = None
        if self._runner:
            self._kill()
        # also where a signal came while the first runner was being forked
        for name in (self._scratch, self._name):
            self._journal.release(name)

    # -- one try -------------------------------------------------------------------------------------

    def _try(self, batch: Batch) -> "tuple[Report | None, _Death | None]":
        if not self._runner:
            self._start()
        assert self._pipe is not None  # noqa: S101 - made by _start
        self._name = batch.name
        try:
            self._pipe.send(batch)
            answer = self._wait(len(batch))
        except (BrokenPipeError, ConnectionResetError, EOFError):
            answer = self._hung_up()
        if isinstance(answer, Report):
            return answer, None
        return None, self._bury(answer)

    def _wait(self, size: int) -> "Report | Failure | None":
        """The runner's report; or why it must end; or None when it has died."""
        assert self._pipe is not None  # noqa: S101
        while True:
            if self._pipe.poll(self._patience(size)):
                answer: Report = self._pipe.recv()
                return answer
            found, status = os.waitpid(self._runner, os.WNOHANG)
            if found:
                self._status = status
                return None
            failure = self._over_limit(size)
            if failure:
                return failure

    def _hung_up(self) -> Failure | None:
        """Why the runner's end of the pipe is closed: None if it is dead, else user code has closed it."""
        give_up = time.monotonic() + SECONDS_TO_END
        while time.monotonic() < give_up:
            found, status = os.waitpid(self._runner, os.WNOHANG)
            if found:
                self._status = status
                return None
            time.sleep(0.005)
        return _harmed(CLOSED)

    def _patience(self, size: int) -> float:
        """How long to wait before the next look at the runner."""
        if self._memory:
            return _LOOK_EVERY
        index, since = self._post.read()
        limit = self._limit(index, size)
        if limit is None:
            return _LOOK_SELDOM
        return min(_LOOK_SELDOM, max(0.005, since + limit - time.monotonic()))

    def _limit(self, index: int, size: int) -> float | None:
        if self._timeout is None or index in (BETWEEN_INPUTS, IDLE, SETUP):
            return None
        return self._timeout * size if index == TOGETHER else self._timeout

    def _over_limit(self, size: int) -> Failure | None:
        index, since = self._post.read()
        if self._capture:
            self._capture.trim(index)
        limit = self._limit(index, size)
        if limit is not None and time.monotonic() - since > limit:
            return Failure(TimedOut.__name__, f"no result in {self._timeout:g} s (--timeout)")
        if not self._memory or index == SETUP:
            return None
        if memory_of(self._runner, self._post.read_fetcher()) - self._post.read_base() > self._memory:
            return Failure(
                MemoryExceeded.__name__, f"took more than {self._memory:,} bytes of memory (--memory)"
            )
        return None

    def _printed(self, batch: Batch) -> list[tuple[str, str]]:
        """What user code has printed, by input."""
        if self._capture is None:
            return []
        rows = batch.texts
        return [
            (parse_rows(rows[index])[0][self._job.at] if index >= 0 else "worker", text)
            for index, text in self._capture.heard()
        ]

    # -- after a runner's death ------------------------------------------------------------------------

    def _bury(self, failure: Failure | None) -> "_Death":
        index, _ = self._post.read()
        if failure:
            self._ask_where_it_is()
        status = self._kill()
        self._journal.release(self._scratch)
        if failure:
            return _Death(index, replace(failure, traceback=self._heard()), by_itself=True)
        if harm := self._post.read_harm():
            return _Death(index, _harmed(harm), by_itself=True)
        by_itself = not (os.WIFSIGNALED(status) and os.WTERMSIG(status) in _FROM_OUTSIDE)
        failure = Failure(Crashed.__name__, _cause(status), self._heard())
        return _Death(index, failure, by_itself=by_itself)

    def _ask_where_it_is(self) -> None:
        """Have the runner write down where it hangs; it can, even inside C code that never returns."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._runner, signal.SIGUSR2)
            time.sleep(SECONDS_FOR_LAST_WORDS)

    def _heard(self) -> str:
        """The runner's last words, if there were any."""
        self._last_words.seek(0)
        words = self._last_words.read().decode("utf-8", "backslashreplace")
        self._last_words.seek(0)
        self._last_words.truncate()
        return "\n".join(_without_own_frames(words.splitlines()))

    def _after(
        self, death: "_Death", batch: Batch, name: str, killed: dict[int, int], total: Report
    ) -> list[Batch]:
        """What is left to do of a batch whose runner died; the next piece stands last."""
        is_committed = self._journal.finish_batch(name)
        self._journal.release(name)
        if is_committed:
            total += _report_of(Record.read(self._job.storage, name), len(batch))
            return []
        index = death.index
        if index in (SECOND, TOGETHER):
            return [self._without(index, batch, death, total)]
        # killed from outside: by the kernel for want of memory, or by someone; the input may be innocent
        suspect = batch.keys[index] if index >= 0 else IDLE
        killed[suspect] = killed.get(suspect, 0) + 1
        if index < 0 and killed[suspect] >= TRIES_IF_KILLED:
            total.stop = (
                f"a worker died {TRIES_IF_KILLED} times outside of any input: {death.failure.message}; "
                "use fewer --workers if memory is short, or --workers 0 to see what setup() does"
            )
            return []
        if index < 0:
            return [batch]
        if death.by_itself or killed[suspect] >= TRIES_IF_KILLED:
            failures = {**batch.failures, index: replace(death.failure, attempts=killed[suspect])}
            batch = replace(batch, failures=failures)
        if not self._job.sink.divisible or index == 0:
            return [batch]
        # what came before is done again, and committed, before the rest: each input is done twice at most
        return [batch.part(batch.name, index, len(batch)), batch.part(batch.name, 0, index)]

    def _without(self, index: int, batch: Batch, death: "_Death", total: Report) -> Batch:
        """The batch without what has ended its runner, though no input of its own has."""
        if index == SECOND:
            # that one is done in its own time
            self._journal.release(SECOND_NAME)
            return replace(batch, second=None)
        total.apart += 1
        total.apart_why = total.apart_why or f"ended its process: {death.failure.message}"
        return replace(batch, one_by_one=True)

    # -- the runner's process ----------------------------------------------------------------------------

    def _start(self) -> None:
        ours, theirs = multiprocessing.Pipe()
        self._post.note(SETUP)
        self._post.note_harm(0)
        sys.stdout.flush()
        sys.stderr.flush()
        scratch = self._job.storage.stage(self._scratch)
        guard = os.getpid()
        self._runner = os.fork()
        if not self._runner:
            ours.close()
            self._become_runner(theirs, guard, scratch)
        theirs.close()
        self._pipe = ours

    def _become_runner(self, pipe: multiprocessing.connection.Connection, guard: int, scratch: str) -> None:
        """The life of a runner; it never returns into the guard's code."""
        status = 1
        try:
            die_with_parent(guard, signal.SIGKILL)
            os.setpgid(0, 0)
            # torch's handlers would print in the runner's place
            for number in (signal.SIGTERM, signal.SIGBUS, signal.SIGSEGV, signal.SIGFPE, signal.SIGUSR2):
                signal.signal(number, signal.SIG_DFL)
            faulthandler.enable(self._last_words)
            # it ends with these words: a sleep that a signal cuts short would go on, and end well
            faulthandler.register(signal.SIGUSR2, self._last_words, chain=True)
            be_first_to_go()
            with open(os.devnull, "rb") as nothing:
                os.dup2(nothing.fileno(), 0)
            # what torch has loaded stays for good: it need not be looked through for garbage
            gc.freeze()
            note = self._post.note
            if self._capture:
                self._capture.take_over()
                note = self._note_aloud
            needed = [pipe.fileno(), self._last_words.fileno(), *self._job.storage.lock_descriptors]
            fetcher, gate = self._post.note_fetcher, self._gate
            _serve(Worker(self._job, note, scratch, fetcher, gate, needed, self._give_up), pipe, self._post)
            status = 0
        except BaseException:
            # a fault of splitter's own: nothing else would say what it was
            traceback.print_exc()
            raise
        finally:
            with contextlib.suppress(Exception):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(status)

    def _give_up(self, harm: int) -> NoReturn:
        """End a runner of which an input has left nothing useful."""
        self._post.note_harm(harm)
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(1)

    def _note_aloud(self, index: int) -> None:
        assert self._capture is not None  # noqa: S101 - only called where there is one
        self._capture.mark(index)
        self._post.note(index)

    def _kill(self) -> int:
        """End the runner, its process group, and what it left behind; returns its exit status."""
        status = self._status
        self._status = -1
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._runner, signal.SIGKILL)
        if status < 0:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._runner, signal.SIGKILL)
            # it may have been asked for already, when a signal came
            with contextlib.suppress(ChildProcessError):
                _, status = os.waitpid(self._runner, 0)
        if self._pipe is not None:
            self._pipe.close()
            self._pipe = None
        end_descendants()
        # not before: a signal may come at any time, and then all this is done again
        self._runner = 0
        return status

    _status = -1

    _is_leaving = False

    def _leave(self, number: int, frame: object) -> None:  # noqa: ARG002 - a signal handler's arguments
        if self._is_leaving:
            # the kernel tells of the driver's death once for each of its threads
            return
        self._is_leaving = True
        with contextlib.suppress(Exception):
            self.stop()
            if not lives(parent_process()):
                self._job.storage.driver_is_gone()
        os._exit(128 + number)


class _Death:
    """How a runner ended, and at which input."""

    def __init__(self, index: int, failure: Failure, *, by_itself: bool) -> None:
        self.index, self.failure, self.by_itself = index, failure, by_itself


def _serve(worker: Worker, pipe: multiprocessing.connection.Connection, post: _Post) -> None:
    """Do batches until the guard closes the pipe."""
    fault: RunStopped | None = None
    try:
        worker.setup()
    except RunStopped as error:
        fault = error
    # what setup() has loaded is not the inputs'
    post.note_base(memory_of(os.getpid()))
    post.note(IDLE)
    while True:
        try:
            batch: Batch = pipe.recv()
        except (EOFError, ConnectionResetError):
            return
        post.note(BETWEEN_INPUTS)
        try:
            report = Report.stopped(fault) if fault else worker.run(batch)
        except RunStopped as error:
            report = Report.stopped(error)
        post.note(IDLE)
        try:
            pipe.send(report)
        except (BrokenPipeError, ConnectionResetError):
            # the guard ends with the run, and what is committed is on storage
            return


def _report_of(record: Record, inputs: int) -> Report:
    """The numbers of a batch that was committed by a runner that died before it could tell."""
    status = record.entries["status"]
    return Report(
        inputs=inputs,
        done=int((status == DONE).sum()),
        skipped=int((status == SKIPPED).sum()),
        failed=int((status == FAILED).sum()),
        outputs=int(record.entries["outputs"].sum()),
        bytes=int(record.entries["bytes"].sum()),
    )


def _without_own_frames(lines: list[str]) -> Iterator[str]:
    """Of each thread's stack, innermost first, what is above splitter's own code."""
    below = False
    for line in lines:
        if line.startswith("Extension modules"):
            return
        if line.endswith("(most recent call first):"):
            below = False
        below = below or line.startswith(f'  File "{PACKAGE_FOLDER}/')
        if not below:
            yield line


def _harmed(harm: int) -> Failure:
    return Failure(Crashed.__name__, f"{HARM[harm]}, which its process needs to go on")


def _cause(status: int) -> str:
    """Why a process ended, in words."""
    if not os.WIFSIGNALED(status):
        return f"the process exited with code {os.waitstatus_to_exitcode(status)}"
    number = os.WTERMSIG(status)
    hint = " (out of memory?)" if number == signal.SIGKILL else ""
    return f"killed by {signal_name(number)}{hint}"
