"""Guard a runner: a bad input ends a runner, never a run.

A guard takes batches and runs no user code. The runner, forked from it, processes, stores and commits,
and notes its current input in memory that both share. The guard ends a runner that takes too long or too
much memory, names the input that a dead runner was at, and starts another runner for the rest.

    driver ── guard ── runner ── processes that user code starts
"""

import contextlib
import os
import signal
import time
from dataclasses import dataclass, replace

import numpy as np

from splitter.errors import Crashed, MemoryExceeded, TimedOut
from splitter.ledger.journal import Journal
from splitter.ledger.worker_notes import Notebook
from splitter.system.children import adopt_orphans, die_with_parent, lives, parent_process
from splitter.system.gate import Gate
from splitter.system.programs import signal_name
from splitter.text.csv import parse_rows
from splitter.worker.batch import BETWEEN_INPUTS, FUSED, SECOND, TOGETHER
from splitter.worker.counts import counts_of
from splitter.worker.messages import SECOND_NAME, Batch, Failure, Fused, Job, Problems, Report, WorkCounts
from splitter.worker.runner import HARM_DONE, IDLE, SETUP, Runner
from splitter.worker.surroundings import CLOSED, HARM

TRIES_IF_KILLED = 3
SECONDS_TO_END = 0.5
_LOOK_EVERY = 0.05
_LOOK_SELDOM = 0.5
_FROM_OUTSIDE = (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


class Guard:
    """The process that runs batches in a runner, and survives whatever they do to it."""

    def __init__(
        self,
        job: Job,
        *,
        timeout: float | None = None,
        memory: int | None = None,
        listens: bool = False,
        gate: Gate | None = None,
    ) -> None:
        """Take the limits for one input: seconds, and bytes above what the runner holds after setup().

        A guard that listens reports what user code prints, for workers without a terminal.
        """
        self._job = job
        self._timeout, self._memory = timeout, memory
        self._journal = Journal(job.storage)
        self._gate = gate
        self._runner = Runner(job, gate, listens=listens)
        # the name of the current batch; before the first one, that of the runner's folder
        self._name = self._runner.scratch
        self._is_leaving = False
        self._deaths_when_fused = 0
        self._notebook = Notebook(job.storage)
        self._counts = WorkCounts()

    def protect(self) -> None:
        """Make this process end with its parent, together with the runner and everything that it started."""
        die_with_parent(parent_process(), signal.SIGTERM)
        # if the guard itself is killed, the driver finds its processes by their session
        os.setsid()
        adopt_orphans()
        signal.signal(signal.SIGTERM, self._leave)
        for number in (signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)

    def run(self, batch: Batch) -> Report:
        """Run a batch to its end; an input that ends the runner is one failed input."""
        total = Report(batch.name)
        if self._deaths_when_fused >= TRIES_IF_KILLED:
            batch = replace(batch, fused=None)
        pieces = [*reversed(batch.steps())]
        attempt = 0
        killed: dict[int, int] = {}
        while pieces and not total.problems.stop:
            piece = pieces.pop()
            name = f"{batch.name}-{attempt:06d}"
            attempt += 1
            answer = self._try(replace(piece, name=name))
            total.said += self._printed(piece)
            if isinstance(answer, _Death):
                pieces += self._after(answer, piece, name, killed, total)
            else:
                killed.pop(IDLE, None)
                total += answer
        self._counts += total.counts
        self._notebook.rest(self._counts.inputs, self._counts.failed)
        return total

    def stop(self) -> None:
        """End the runner and everything it started."""
        self._runner.kill()
        # two names, since a signal may come while the first runner is being forked
        for name in (self._runner.scratch, self._name):
            self._journal.release(name)

    # -- one try -------------------------------------------------------------------------------------

    def _try(self, batch: Batch) -> "Report | _Death":
        self._name = batch.name
        try:
            self._runner.give(batch)
            answer = self._wait(batch)
        except (BrokenPipeError, ConnectionResetError, EOFError):
            answer = self._hung_up()
        return answer if isinstance(answer, Report) else self._bury(answer)

    def _wait(self, batch: Batch) -> "Report | Failure | None":
        """Return the runner's report, or why the runner must end, or None if it has died."""
        size = len(batch)
        while True:
            if self._notebook.is_due:
                self._note(batch)
            report = self._runner.answer(self._patience(size))
            if report is not None:
                return report
            if self._runner.has_ended():
                return None
            failure = self._over_limit(size)
            if failure:
                return failure

    def _hung_up(self) -> Failure | None:
        """Return why the runner's pipe is closed: None if the runner is dead, or that user code closed it."""
        give_up = time.monotonic() + SECONDS_TO_END
        while time.monotonic() < give_up:
            if self._runner.has_ended():
                return None
            time.sleep(0.005)
        return _harmed(CLOSED)

    def _patience(self, size: int) -> float:
        """Return how long to wait before the next look at the runner."""
        if self._memory:
            return _LOOK_EVERY
        index, since = self._runner.notes.read_index()
        limit = self._limit(index, size)
        if limit is None:
            return _LOOK_SELDOM
        return min(_LOOK_SELDOM, max(0.005, since + limit - time.monotonic()))

    def _limit(self, index: int, size: int) -> float | None:
        if index <= FUSED:
            return (FUSED - index) / 1000 or None
        if self._timeout is None or index in (BETWEEN_INPUTS, IDLE, SETUP):
            return None
        return self._timeout * size if index == TOGETHER else self._timeout

    def _over_limit(self, size: int) -> Failure | None:
        index, since = self._runner.notes.read_index()
        if self._runner.capture:
            self._runner.capture.trim(index)
        limit = self._limit(index, size)
        if limit is not None and time.monotonic() - since > limit:
            return Failure(TimedOut.__name__, f"no result in {self._timeout or limit:g} s (--timeout)")
        if not self._memory or index == SETUP:
            return None
        if self._runner.memory() > self._memory:
            return Failure(
                MemoryExceeded.__name__, f"took more than {self._memory:,} bytes of memory (--memory)"
            )
        return None

    def _note(self, batch: Batch) -> None:
        """Note what the runner is doing, for `splitter serve --watch`."""
        index, since = self._runner.notes.read_index()
        doing = "setup()" if index == SETUP else ""
        if index >= 0:
            doing = self._listed(batch, index)
        elif index == TOGETHER:
            doing = f"{self._listed(batch, 0)} and others of its batch"
        self._notebook.write(doing, time.monotonic() - since, self._counts.inputs, self._counts.failed)

    def _listed(self, batch: Batch, index: int) -> str:
        return str(parse_rows(batch.texts[index])[0][self._job.at])

    def _printed(self, batch: Batch) -> list[tuple[str, str]]:
        """Return what user code has printed, by input; it may have printed what looks like a mark of ours."""
        if self._runner.capture is None:
            return []
        return [
            (self._listed(batch, index) if 0 <= index < len(batch) else "worker", text)
            for index, text in self._runner.capture.take()
        ]

    # -- after a runner's death ------------------------------------------------------------------------

    def _bury(self, failure: Failure | None) -> "_Death":
        index, _ = self._runner.notes.read_index()
        if failure:
            self._runner.ask_where_it_is()
        status = self._runner.kill()
        last, _ = self._runner.notes.read_index()
        if last <= FUSED:
            # a runner that ignores the signal has gone on, and may have begun something there
            index = last
        self._journal.release(self._runner.scratch)
        if failure:
            return _Death(index, replace(failure, traceback=self._runner.last_words()), by_itself=True)
        if harm := self._runner.notes.read(HARM_DONE):
            return _Death(index, _harmed(harm), by_itself=True)
        by_itself = not (os.WIFSIGNALED(status) and os.WTERMSIG(status) in _FROM_OUTSIDE)
        failure = Failure(Crashed.__name__, _cause(status), self._runner.last_words())
        return _Death(index, failure, by_itself=by_itself)

    def _after(
        self, death: "_Death", batch: Batch, name: str, killed: dict[int, int], total: Report
    ) -> list[Batch]:
        """Return the pieces of a batch that are left to do after its runner died, the next one last.

        `name` is the name under which the batch was tried.
        """
        is_committed = self._journal.finish_batch(name)
        self._journal.release(name)
        if is_committed:
            killed.pop(IDLE, None)
            # the runner died before it could report
            self._journal.load_only([name])
            found = self._journal.find(np.array(batch.keys, "u8"))
            counts = counts_of(self._journal, found[found >= 0])
            total += Report(counts=replace(counts, inputs=len(batch)))
            return []
        index = death.index
        if index in (SECOND, TOGETHER) or index <= FUSED:
            return [self._without(index, batch, name, death, total)]
        if index in (BETWEEN_INPUTS, IDLE) and batch.fused is not None and not batch.fused.dead:
            # fused stages may have committed already, and the outputs that they take may differ this time
            batch = replace(batch, fused=replace(batch.fused, dead=name))
        # a runner may be killed from outside, by a user or by the kernel when memory is short: the input may
        # be innocent, so it gets more than one try
        suspect = batch.keys[index] if index >= 0 else IDLE
        killed[suspect] = killed.get(suspect, 0) + 1
        if index < 0 and killed[IDLE] >= TRIES_IF_KILLED:
            total.problems.stop = (
                f"a worker died {TRIES_IF_KILLED} times in a row outside of any input: "
                f"{death.failure.message}; use fewer --workers if memory is low, or --workers 0 to "
                "see what setup() does"
            )
            return []
        if index < 0:
            return [batch]
        # the runner got as far as an input
        killed.pop(IDLE, None)
        if death.by_itself or killed[suspect] >= TRIES_IF_KILLED:
            failures = {**batch.failures, index: replace(death.failure, attempts=killed[suspect])}
            batch = replace(batch, failures=failures)
        if not self._job.sink.divisible or index == 0:
            return [batch]
        # redo and commit the inputs before this one, then do the rest: no input is done more than twice
        return [batch.part(batch.name, index, len(batch)), batch.part(batch.name, 0, index)]

    def _without(self, index: int, batch: Batch, name: str, death: "_Death", total: Report) -> Batch:
        """Return the batch without the step that ended its runner, if that was not one of its inputs."""
        if index == SECOND:
            # the second input is done with its own batch, and the recipe is not judged any more
            self._journal.release(SECOND_NAME)
            if self._gate:
                self._gate.open()
            return replace(batch, second=None)
        if index <= FUSED:
            # the stage's own workers will find out which of its inputs is to blame
            self._deaths_when_fused += 1
            return replace(batch, fused=replace(batch.fused or Fused(), dead=name))
        total.counts.one_by_one += 1
        total.problems += Problems(one_by_one_why=f"ended its process: {death.failure.message}")
        return replace(batch, one_by_one=True)

    def _leave(self, number: int, frame: object) -> None:  # noqa: ARG002 - a signal handler's arguments
        if self._is_leaving:
            # the kernel reports the driver's death once for each of its threads
            return
        self._is_leaving = True
        with contextlib.suppress(Exception):
            self.stop()
            if not lives(parent_process()):
                self._job.storage.driver_is_gone()
        os._exit(128 + number)


@dataclass(frozen=True)
class _Death:
    """The death of a runner: at which input, why, and whether it was the runner's own doing."""

    index: int
    failure: Failure
    by_itself: bool


def _harmed(harm: int) -> Failure:
    return Failure(Crashed.__name__, f"{HARM[harm]}, so its process could not continue")


def _cause(status: int) -> str:
    """Describe how a process ended."""
    if not os.WIFSIGNALED(status):
        return f"the process exited with code {os.waitstatus_to_exitcode(status)}"
    number = os.WTERMSIG(status)
    hint = " (out of memory?)" if number == signal.SIGKILL else ""
    return f"killed by {signal_name(number)}{hint}"
