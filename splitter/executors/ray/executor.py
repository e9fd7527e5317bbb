"""Run batches on a Ray cluster: a task for each batch, done by the same guards as on one machine.

Ray does the scheduling. The Ray worker that gets a task hands it to its guard (see `guard_process`). If a
worker or node is lost, its batch is not committed, and that is all: the run looks at what is committed and
starts the rest again, so Ray's own retries are off.
"""

import contextlib
import math
import os
import pickle
import secrets
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import ray
import ray.exceptions
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from splitter.errors import Refused
from splitter.executors.base import Cluster, Executor, Limits
from splitter.executors.ray import guard_process
from splitter.executors.ray.cluster import (
    joined_cluster,
    own_signal_handlers,
    private_cluster,
    reason_of_ray,
    takes_token,
)
from splitter.storage.base import SHARED
from splitter.storage.layout import OWN_FOLDER
from splitter.system.cpus import usable_cpus
from splitter.system.pickling import by_value
from splitter.system.recipe_code import code_beside
from splitter.system.signals import still_interrupted
from splitter.text.show import show_count
from splitter.text.urls import is_url
from splitter.worker.messages import Batch, Job, Report

BATCHES_PER_WORKER = 2
FEW_BATCHES = 4
SECONDS_TO_PROBE = 60.0
SECONDS_TO_LEAVE = 15.0
# a worker that Ray has lost may live on until it notices that it is cut off
SECONDS_FOR_LOST_NODE = 100.0
SECONDS_BETWEEN_LOOKS = 1.0
SECONDS_BETWEEN_NOTES = 30.0
NODE_GONE = "a node of the cluster is gone; its batches will be done again when all others have ended"

# what all batches have in common: the job of a run, or another errand
Orders = Job | guard_process.Errand

_LOST = (
    ray.exceptions.WorkerCrashedError,
    ray.exceptions.LocalRayletDiedError,
    ray.exceptions.OutOfMemoryError,
    ray.exceptions.TaskCancelledError,
)


class RayExecutor(Executor):
    """The executor for Ray: runs batches as tasks."""

    elsewhere = True

    def __init__(self, limits: Limits, cluster: Cluster) -> None:
        super().__init__(limits, cluster)
        self._open = contextlib.ExitStack()
        self._connected = False
        self._looked_at = 0.0
        self._slots = 0
        # the resources of each node that batches fit into
        self._resources: list[dict[str, float]] = []
        self._packed = b""
        # the job that was packed
        self._job: Orders | None = None
        self._mission: Any = None
        self._missions = 0
        # only the keys of each batch that Ray has, since there may be many batches, and they are large
        self._at_work: dict[Any, list[int]] = {}
        self._lost = self._noted_room = self._has_done = False
        self._ours = True
        self._noted_gone = -math.inf

    # -- called by the run ---------------------------------------------------------------------------------

    @property
    def advice(self) -> str:
        """Return a warning if the private Ray has no token."""
        if self.cluster.address or takes_token():
            return ""
        return (
            f"Ray {ray.__version__} does not let splitter set a token for a private Ray: until the run ends, "
            "anyone who reaches a port of this machine can run code in it; use a network that you trust, or "
            "use --address with a cluster that has a token"
        )

    @property
    def workers(self) -> int:
        """Return how many batches the cluster has room for now."""
        if not self._connected:
            return self.limits.workers or usable_cpus()
        self._look()
        most = self.limits.workers or self._slots
        return max(1, min(self._slots, most))

    @property
    def most_workers(self) -> int:
        """Return what a range of --workers allows, since a list is divided before the cluster has grown."""
        return max(self.workers, (self.limits.workers or 0) if self.limits.least else 0)

    def device(self, requested: str) -> str:
        """Return `cuda` if batches take GPUs: Ray gives each batch its own."""
        if requested == "auto":
            return "cuda" if self.cluster.gpus else "cpu"
        if requested == "cuda" and not self.cluster.gpus:
            raise Refused("--device cuda: say how much of a GPU a batch takes, such as --num-gpus 1 or 0.25")
        return requested

    def check(self, job: Orders, inputs: int) -> None:
        """Connect to the cluster, and check that each of its nodes sees the output folder."""
        if not inputs:
            return
        self._pack_once(job)
        if self.cluster.address or self.cluster.gpus:
            self._connect()
            self._refuse_without_room()
        if self.cluster.address:
            self._probe(job)

    def status(self) -> str:
        """Return the number of nodes that take batches, and how many of their CPUs and GPUs are in use."""
        self._look()
        busy = min(len(self._at_work), self._slots)
        there = [show_count(len(self._resources), "node")]
        for takes, noun in ((self.cluster.cpus, "CPU"), (self.cluster.gpus, "GPU")):
            if takes:
                total = int(sum(resources.get(noun, 0) for resources in self._resources))
                there.append(f"{min(takes * busy, total):g} of {show_count(total, noun)}")
        return ", ".join(there)

    def run(self, job: Orders, batches: Iterable[Batch | None], busy: int) -> Generator[Report, None, None]:
        """Yield a report for each batch as it finishes; one for a lost worker does not name the batch."""
        del busy  # Ray starts no worker before there is a batch for it
        self._connect()
        self._pack_once(job)
        if self._mission is None:
            self._mission = ray.put(self._packed)
            self._missions += 1
        patience = SECONDS_TO_LEAVE
        try:
            with still_interrupted():
                yield from self._reports(job, iter(batches))
            if self._lost:
                patience = SECONDS_FOR_LOST_NODE
        finally:
            unsure = self._lost or bool(self._at_work)
            self._end_tasks()
            if unsure:
                # what comes next relies on no worker being at work
                if job.storage.wait_for_workers(patience) is False:
                    job.storage.leave_to_next_run()
                # later workers must know the output as it is now
                self._job = None

    def close(self) -> None:
        """Leave the cluster; end a private one."""
        self._connected = False
        self._mission = None
        self._open.close()

    # -- batches -------------------------------------------------------------------------------------------

    def _pack_once(self, job: Orders) -> None:
        """Pickle the job if it is a new one; after a trial, it may be another."""
        if job is not self._job:
            self._packed, self._job, self._mission = self._pack(job), job, None

    def _pack(self, job: Orders) -> bytes:
        if isinstance(job, guard_process.Errand):
            return pickle.dumps(job)
        recipe = type(job.dataset)
        try:
            pickled = by_value(job.without_inputs(), recipe)
        except Exception as error:  # noqa: BLE001 - a user's objects may raise anything
            reason = " ".join(str(error).split())
            raise Refused(
                f"{recipe.__name__}: cannot be sent to the workers: {reason}; create it in setup()"
            ) from None
        mission = guard_process.Mission(
            versions=guard_process.versions(),
            folder=os.getcwd(),
            sources=code_beside(recipe),
            job=pickled,
            timeout=self.limits.timeout,
            memory=self.limits.memory,
            threads=max(1, int(self.cluster.cpus)),
        )
        return pickle.dumps(mission)

    def _reports(self, job: Orders, batches: Iterator[Batch | None]) -> Generator[Report, None, None]:
        task = ray.remote(
            num_cpus=self.cluster.cpus,
            num_gpus=self.cluster.gpus,
            resources=dict(self.cluster.resources),
            max_retries=0,
            # otherwise the end of a task with a GPU ends its worker, and what setup() has loaded is lost
            max_calls=0,
            scheduling_strategy="SPREAD",
        )(guard_process.work)
        at_work = self._at_work
        # a guard serves only one job
        run = f"{job.storage.run} {self._missions}"
        heard = time.monotonic()
        more = True
        # nothing is done yet, but there is something to display
        yield Report(notes=self._too_small())
        while True:
            more = more and self._give_out(batches, partial(task.remote, self._mission, run))
            if not at_work and not more:
                return
            if not at_work:
                yield Report()
                continue
            finished = _finished(list(at_work))
            if not finished:
                # the cluster may have changed
                yield Report()
            for reference in finished:
                heard = time.monotonic()
                report = self._heard(_report_of(reference, at_work.pop(reference)))
                # Without a name, no worker has finished the batch. It is not given out again before the next
                # round: the worker may live on, cut off, and commit later. Storage can only show that no
                # worker is left at all, and until then nothing that a batch has begun may be undone, or done
                # by another worker.
                self._lost = self._lost or not report.batch
                yield report
            if time.monotonic() - heard > SECONDS_BETWEEN_NOTES and not self._slots:
                heard = time.monotonic()
                yield Report(notes=[f"waiting for a node that has {self._needs_in_words()}"])

    def _give_out(self, batches: Iterator[Batch | None], start: Callable[[bytes], Any]) -> bool:
        """Start tasks for as many batches as Ray may have now; return False if there are no more batches."""
        while len(self._at_work) < self._room():
            try:
                batch = next(batches)
            except StopIteration:
                return False
            if batch is None:
                break
            self._at_work[start(pickle.dumps(batch))] = batch.keys
        return True

    def _heard(self, report: Report) -> Report:
        """Return a report, without its note on a lost node if there was such a note a moment ago."""
        self._has_done = self._has_done or report.counts.inputs > report.counts.failed
        if report.notes != [NODE_GONE]:
            return report
        before, self._noted_gone = self._noted_gone, time.monotonic()
        return replace(report, notes=[]) if self._noted_gone - before < SECONDS_BETWEEN_NOTES else report

    def _room(self) -> int:
        """Return how many batches Ray may have: a few for each slot, and some that ask for more slots.

        A range of --workers says how far the cluster may grow. As soon as something is done, the whole range
        is asked for at once: then the recipe works, and batches have the right size.
        """
        self._look()
        enough = max(FEW_BATCHES, BATCHES_PER_WORKER * self._slots)
        if self.limits.least and self._has_done:
            enough = max(enough, self.limits.workers or 0)
        most = self.limits.workers or enough
        if not self.cluster.address:
            # a private Ray runs as many at a time as there are workers; more may wait there
            most *= BATCHES_PER_WORKER
        return max(self.limits.least, min(most, enough))

    def _too_small(self) -> list[str]:
        """Return a note, once, if the cluster has less room than was asked for."""
        self._look()
        asked = max(self.limits.least, self.limits.workers or 1)
        noted, self._noted_room = self._noted_room, True
        if noted or self._slots >= asked:
            return []
        room = f"the cluster has room for {show_count(self._slots, 'batch')} at a time now"
        return [f"{room}, less than --workers {asked}; the others wait until it grows"]

    def _end_tasks(self) -> None:
        """End the batches that are still at work, and the workers that hold them.

        Ray ends a job's workers when its driver leaves. A forced cancel would work as well, but if a task
        ends by itself at that moment, Ray crashes the driver's process (2.60: task_manager.cc, "Check
        failed").
        """
        left, self._at_work = [*self._at_work], {}
        if left and self._ours:
            self.close()
            return
        for reference in left:
            with contextlib.suppress(Exception):
                ray.cancel(reference)

    # -- the cluster ---------------------------------------------------------------------------------------

    def _look(self) -> None:
        """Check the size of the cluster, unless the last check was a moment ago."""
        if time.monotonic() - self._looked_at < SECONDS_BETWEEN_LOOKS:
            return
        self._looked_at = time.monotonic()
        self._resources = [node["Resources"] for node in _nodes() if self._slots_of(node["Resources"])]
        self._slots = sum(map(self._slots_of, self._resources))

    def _slots_of(self, resources: dict[str, float]) -> int:
        """Return how many batches fit into a node with these resources."""
        slots = (int(resources.get(name, 0) / amount + 1e-9) for name, amount in self._needs().items())
        return min(slots, default=1)

    def _needs(self) -> dict[str, float]:
        """Return the resources that a batch takes, by Ray's names."""
        all_of_it = {"CPU": self.cluster.cpus, "GPU": self.cluster.gpus, **self.cluster.resources}
        return {name: amount for name, amount in all_of_it.items() if amount}

    def _needs_in_words(self) -> str:
        return ", ".join(f"{amount:g} {name}" for name, amount in self._needs().items())

    def _refuse_without_room(self) -> None:
        """Refuse to wait for a node that nobody will start."""
        self._look()
        if not self._slots and not self.limits.least:
            raise Refused(
                f"no node of the Ray cluster has {self._needs_in_words()} for a batch; ask for less, add a "
                "node, or use a range such as --workers 1:8 if the cluster adds nodes on demand"
            )

    def _connect(self) -> None:
        if self._connected:
            return
        self._ours = not ray.is_initialized()
        with own_signal_handlers():
            if self.cluster.address:
                self._open.enter_context(joined_cluster(self.cluster.address, self.cluster))
            else:
                self._open.enter_context(private_cluster(self._size(), self.cluster))
        self._connected = True

    def _size(self) -> dict[str, Any]:
        """Return the resources of a private Ray: as much as the workers take."""
        workers = self.limits.workers or usable_cpus()
        others = {name: amount * workers for name, amount in self.cluster.resources.items()}
        return {"num_cpus": max(1, int(self.cluster.cpus * workers + 0.999)), "resources": others}

    def _probe(self, job: Orders) -> None:
        """Check that every node with room for a batch sees the output folder and runs the same versions."""
        name, token = f"{OWN_FOLDER}/probe", secrets.token_hex(8)
        job.storage.write(name, token.encode(), durable=False)
        storage = pickle.dumps(job.storage)
        nodes = [node for node in _nodes() if self._slots_of(node["Resources"])]
        probe = ray.remote(guard_process.look_around)
        asked = {
            probe.options(
                num_cpus=0,
                max_retries=0,
                scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False),
            ).remote(storage, name): node["NodeManagerAddress"]
            for node in nodes
        }
        try:
            answered, silent = ray.wait(list(asked), num_returns=len(asked), timeout=SECONDS_TO_PROBE)
            for reference in silent:
                raise Refused(
                    f"node {asked[reference]}: did not answer within {SECONDS_TO_PROBE:g} s; check that the "
                    "node is up"
                )
            for reference in answered:
                _check_answer(asked[reference], reference, token, job.storage.root)
        finally:
            job.storage.remove([name])


def _nodes() -> list[dict[str, Any]]:
    """Return the nodes that are alive."""
    return [node for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]


def _finished(references: list[Any]) -> list[Any]:
    """Wait a moment for the first task to finish, and return all that are done."""
    found, others = ray.wait(references, num_returns=1, timeout=SECONDS_BETWEEN_LOOKS)
    if found and others:
        found += ray.wait(others, num_returns=len(others), timeout=0)[0]
    return found


def _report_of(reference: Any, keys: list[int]) -> Report:  # noqa: ANN401 - a reference of Ray's
    """Return the report of a task; if its worker was lost, one that does not name the batch."""
    try:
        answer = ray.get(reference)
    except (ray.exceptions.NodeDiedError, ray.exceptions.ObjectLostError):
        # the loss of a node says nothing about the inputs that were there
        return Report(notes=[NODE_GONE])
    except _LOST:
        answer = None
    except ray.exceptions.RayError as error:
        return Report.stopped(reason_of_ray(error))
    return Report(lost=keys) if answer is None else pickle.loads(answer)  # noqa: S301 - from our guard


def _check_answer(node: str, reference: Any, token: str, folder: str) -> None:  # noqa: ANN401
    try:
        seen, fault, versions = ray.get(reference)
    except (ray.exceptions.TaskUnschedulableError, ray.exceptions.NodeDiedError):
        # the node is gone by now, so it takes no batches
        return
    except ray.exceptions.RuntimeEnvSetupError as error:
        raise Refused(f"node {node}: {reason_of_ray(error)}") from None
    except ray.exceptions.RayError as error:
        raise Refused(
            f"node {node}: cannot run splitter: {reason_of_ray(error)}; install the same version there"
        ) from None
    difference = guard_process.difference(versions, guard_process.versions())
    if difference:
        raise Refused(f"node {node}: {difference}")
    if seen != token and is_url(folder):
        raise Refused(f"node {node}: {fault.partition('; ')[0]}; it needs the same access to the store")
    if seen != token:
        raise Refused(f"node {node}: cannot access {folder}; {SHARED}")
