"""Run batches on this machine: a torch DataLoader whose workers are guards."""

import contextlib
import multiprocessing
import multiprocessing.util
import os
import pickle
import resource
import signal
import sys
import threading
import time
import traceback
import types
import warnings
from collections.abc import Generator, Iterable, Iterator
from dataclasses import replace
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import DupFd
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.data import DataLoader, Dataset

from splitter.errors import Refused, RunStopped
from splitter.executors.base import Executor
from splitter.system.children import end_session
from splitter.system.cpus import usable_cpus
from splitter.system.gate import Gate
from splitter.system.pickling import by_value
from splitter.system.signals import signals_blocked, unblock_signals
from splitter.worker.guard import Guard
from splitter.worker.messages import Batch, Job, Report
from splitter.worker.worker import Worker

if TYPE_CHECKING:
    from splitter.executors.base import Limits

SECONDS_TO_LEAVE = 1.5
FILES_PER_WORKER, OTHER_FILES = 4, 32
# locks of the queues between a loader and its workers
LOCKS_PER_WORKER, OTHER_LOCKS = 3, 10


class LocalExecutor(Executor):
    """The executor for this machine: runs batches in worker processes, or in this one with `workers=0`."""

    @property
    def workers(self) -> int:
        """Return the number asked for, or else the number of CPUs that this process may use."""
        return usable_cpus() if self.limits.workers is None else self.limits.workers

    def device(self, requested: str) -> str:
        # ask without initializing CUDA, so that workers can still be forked
        os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
        usable = requested != "cpu" and torch.cuda.is_available()
        if requested == "cuda" and not usable:
            raise Refused("--device cuda: this machine has no usable GPU; use --device cpu or auto")
        return "cuda" if usable else "cpu"

    def check(self, job: Job, inputs: int) -> None:  # noqa: ARG002 - the seam's signature
        """Refuse more workers than the limits on open files and shared memory allow."""
        if self.workers and inputs:
            workers = min(self.workers, inputs)
            _allow_files_for(workers)
            _check_shared_memory(workers)

    def run(self, job: Job, batches: Iterable[Batch | None], busy: int) -> Generator[Report, None, None]:
        if self.workers:
            _allow_files_for(busy)
            # with fewer batches than workers, the busy ones use the other CPUs as well, if they make files
            cpus = min(self.workers, usable_cpus()) // max(1, busy) if job.sink.makes_files else 1
            yield from _in_workers(replace(job, cpus=max(1, cpus)), batches, busy, self.limits)
        else:
            yield from _here(job, batches)


def _allow_files_for(workers: int) -> None:
    """Raise the limit on open files if this many workers need more; refuse if it may not be raised."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = OTHER_FILES + FILES_PER_WORKER * workers
    if needed <= soft or soft == resource.RLIM_INFINITY:
        return
    if needed <= hard or hard == resource.RLIM_INFINITY:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
        return
    enough = (hard - OTHER_FILES) // FILES_PER_WORKER
    if enough > 0:
        raise Refused(
            f"{workers} workers keep {needed} files open, but the limit here is {hard}; "
            f"use --workers {enough}, or raise the limit with ulimit -n"
        )
    raise Refused(
        f"a worker keeps {OTHER_FILES + FILES_PER_WORKER} files open, but the limit here is {hard}; raise it "
        "with ulimit -n"
    )


def _check_shared_memory(workers: int) -> None:
    """Refuse if the locks of this many workers cannot be made; on Linux, locks are files in /dev/shm."""
    context = multiprocessing.get_context(_start_method())
    try:
        # all at once, as the workers will have them
        _ = [context.Lock() for _ in range(OTHER_LOCKS + LOCKS_PER_WORKER * workers)]
    except OSError as error:
        why, remedy = f"--workers {workers}: their locks cannot be made", "use fewer workers, or"
        if sys.platform == "linux":
            why = f"--workers {workers}: /dev/shm, which they need, cannot be written"
            remedy = "mount it with more room (docker run --shm-size 1g), or use"
        raise Refused(f"{why}: {error.strerror}; {remedy} --workers 0") from None


def _here(job: Job, batches: Iterable[Batch | None]) -> Generator[Report, None, None]:
    """Run batches in this process, without a guard: a debugger works, and a crash ends the run."""
    worker = Worker(job)
    try:
        worker.setup()
        for batch in batches:
            if batch is None:
                yield Report()
                continue
            for step in batch.steps():
                yield worker.run(step)
    except RunStopped as error:
        yield Report.stopped(error)
    finally:
        worker.close()


def _in_workers(
    job: Job, batches: Iterable[Batch | None], workers: int, limits: "Limits"
) -> Generator[Report, None, None]:
    with _Processes() as processes:
        try:
            descriptors = [*job.storage.lock_descriptors, processes.alive_end]
            guarded = _Guarded(job, limits, descriptors, processes.gate)
            reports = processes.start(_loader(guarded, batches, workers, processes.guards))
            # nothing is done yet, but the workers are forked, so the display may start a thread
            yield Report()
            yield from reports
        except OSError as error:
            if processes.are_started:
                raise
            reason = error.strerror or str(error)
            message = f"worker processes cannot be started: {reason}; use fewer --workers"
            yield Report.stopped(RunStopped(f"{message}, then run the same command to continue"))
        except RuntimeError:
            # the DataLoader reports a dead worker: what is not committed runs in a new round
            if all(guard.exitcode is None for guard in processes.guards):
                raise


class _Guarded(Dataset[Report]):
    """A dataset whose indexes are batches, and whose items are their reports."""

    def __init__(self, job: Job, limits: "Limits", descriptors: list[int], gate: Gate) -> None:
        """Take the `descriptors` that each worker keeps open for as long as it lives."""
        self._job, self._limits, self._descriptors, self._gate = job, limits, descriptors, gate
        self._guard: Guard | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Pickle for a spawned worker, with user code by value: it cannot import a script or a notebook."""
        return {
            "job": by_value(self._job, type(self._job.dataset)),
            "limits": self._limits,
            "descriptors": [DupFd(descriptor) for descriptor in self._descriptors],
            "gate": [DupFd(descriptor) for descriptor in self._gate.ends],
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        descriptors, ends = (
            [descriptor.detach() for descriptor in state[name]] for name in ("descriptors", "gate")
        )
        self.__init__(pickle.loads(state["job"]), state["limits"], descriptors, Gate(ends))  # type: ignore[misc]  # noqa: S301

    def __getitem__(self, batch: Batch | None) -> Report:
        if batch is None:
            return Report()
        assert self._guard is not None  # noqa: S101 - made by `prepare`
        try:
            return self._guard.run(batch)
        except (RunStopped, OSError) as error:
            # otherwise the DataLoader would turn it into a traceback
            return Report.stopped(error)

    def prepare(self, worker: int) -> None:  # noqa: ARG002 - the DataLoader's signature
        """Turn a new DataLoader worker into a guard."""
        limits = self._limits
        self._guard = Guard(self._job, timeout=limits.timeout, memory=limits.memory, gate=self._gate)
        self._guard.protect()
        # at the end, the DataLoader lets its workers exit: processes that user code started must end as well
        multiprocessing.util.Finalize(None, self._guard.stop, exitpriority=1)
        unblock_signals()


def _loader(
    guarded: _Guarded, batches: Iterable[Batch | None], workers: int, started: list[BaseProcess]
) -> DataLoader[Any]:
    with _no_advice():
        return DataLoader(
            guarded,
            sampler=_without_child_handler(batches),
            batch_size=None,
            num_workers=workers,
            collate_fn=_as_it_is,  # type: ignore[arg-type]
            worker_init_fn=guarded.prepare,
            in_order=False,
            prefetch_factor=2,
            multiprocessing_context=_noting_context(started),
        )


@contextlib.contextmanager
def _no_advice() -> Iterator[None]:
    """Silence torch's warning that there are more workers than CPUs: the user has chosen that."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="This DataLoader will create")
        yield


def _as_it_is(report: Report) -> Report:
    return report


def _noting_context(started: list[BaseProcess]) -> Any:  # noqa: ANN401 - torch wants a context of Python's own
    """Return a context that notes the processes it starts: `active_children` omits one that died early."""
    context: Any = multiprocessing.get_context(_start_method())

    def note(**about: object) -> BaseProcess:
        process: BaseProcess = context.Process(**about)
        started.append(process)
        return process

    return type("Noting", (type(context),), {"Process": staticmethod(note)})()


def _start_method() -> str:
    """Return `fork` if that is safe, so that workers know the classes of a script or a notebook."""
    if sys.platform != "linux" or torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return "spawn"
    return "fork"


@contextlib.contextmanager
def _nameless_main() -> Iterator[None]:
    """Keep spawned workers from running a script without a main guard: they need nothing from it."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def _without_child_handler(batches: Iterable[Batch | None]) -> Iterator[Batch | None]:
    """Yield the batches, after removing torch's handler for SIGCHLD.

    Torch sets it as soon as the workers are started. It raises wherever the driver happens to be, although
    the loader finds a dead worker without it.
    """
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    yield from batches


@contextlib.contextmanager
def _no_half_made() -> Iterator[None]:
    """Drop a half-made iterator silently: its destructor would complain about missing attributes."""
    try:
        yield
    except OSError as error:
        hook, sys.unraisablehook = sys.unraisablehook, lambda _: None
        try:
            traceback.clear_frames(error.__traceback__)
        finally:
            sys.unraisablehook = hook
        raise


class _Processes:
    """The worker processes of one run: started with signals blocked, and gone at the end of the block."""

    def __init__(self) -> None:
        # every worker keeps the writing end open, so the reading end shows when the last one is gone
        self._alive, self.alive_end = os.pipe()
        self.gate = Gate()
        self._before = set(multiprocessing.active_children())
        self.guards: list[BaseProcess] = []
        self._iterator: Iterator[Report] | None = None
        self._child_handler: Any = None

    def __enter__(self) -> "_Processes":
        return self

    def start(self, loader: DataLoader[Any]) -> Iterator[Report]:
        """Start the workers and return their reports."""
        with signals_blocked():
            if threading.current_thread() is threading.main_thread():
                # a handler that torch set in an earlier run raises as well
                self._child_handler = signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            with _nameless_main(), _no_advice(), _no_half_made():
                self._iterator = iter(loader)
            os.close(self.alive_end)
            self.alive_end = -1
        return self._iterator

    @property
    def are_started(self) -> bool:
        return self._iterator is not None

    def __exit__(self, *error: object) -> None:
        # what comes next relies on the workers being gone
        with signals_blocked():
            self._end()

    def _end(self) -> None:
        children = [child for child in multiprocessing.active_children() if child not in self._before]
        # end them before the loader closes, which would wait for busy ones
        for child in children:
            child.terminate()
        for guard in self.guards:
            # a guard that was killed could not end the processes that belong to it
            if guard.pid and guard.exitcode == -signal.SIGKILL:
                end_session(guard.pid)
        if self.alive_end >= 0:
            os.close(self.alive_end)
        self._wait_for_end(children)
        self._iterator = None
        self.gate.close()
        if self._child_handler is not None:
            signal.signal(signal.SIGCHLD, self._child_handler)

    def _wait_for_end(self, children: list[Any]) -> None:
        """Wait until the last guard and the last runner are gone."""
        os.set_blocking(self._alive, False)
        deadline = time.monotonic() + SECONDS_TO_LEAVE
        killed = False
        while True:
            with contextlib.suppress(BlockingIOError):
                if os.read(self._alive, 1) == b"":
                    break
            if time.monotonic() > deadline:
                if killed:
                    break
                for child in children:
                    child.kill()
                    end_session(child.pid)
                killed, deadline = True, time.monotonic() + SECONDS_TO_LEAVE
            time.sleep(0.005)
        os.close(self._alive)
        for child in children:
            child.join(SECONDS_TO_LEAVE)
