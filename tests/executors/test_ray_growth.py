"""How a cluster that grows on demand grows: a simulated one, which has a node for each batch that Ray has."""

import tarfile
from collections.abc import Callable
from dataclasses import replace
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from splitter.engine.assignment import read_assignment, read_request
from splitter.engine.batches import Planner
from splitter.engine.decide import decide
from splitter.engine.display import Display
from splitter.engine.lost_workers import LostWorkers
from splitter.executors.base import Cluster, Limits
from splitter.ledger.journal import Journal
from splitter.options import RunOptions
from splitter.recipes.copy import Copy
from splitter.storage.opening import storage_of
from splitter.worker.messages import Batch, Report, WorkCounts

NODES = 256


def of_ray() -> ModuleType:
    """Return the module of the executor; it imports Ray, which the collection of other tests must not."""
    from splitter.executors.ray import executor

    return executor


class Growing:
    """A cluster whose autoscaler adds nodes for all that waits, up to a number, and as many once more."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, most: int, fails: Callable[[int], bool]) -> None:
        self.nodes, self.most, self.fails = 0, most, fails
        self.waves: list[int] = []
        self.asked = self.done = 0
        executor = of_ray()
        task = SimpleNamespace(remote=self.submit)
        ray = SimpleNamespace(remote=lambda **_: lambda _: task, put=lambda packed: packed, cancel=print)
        monkeypatch.setattr(executor, "ray", ray)
        monkeypatch.setattr(executor, "SECONDS_BETWEEN_LOOKS", 0)
        monkeypatch.setattr(executor, "_nodes", lambda: [{"Resources": {"CPU": 1}}] * self.nodes)
        monkeypatch.setattr(executor, "_finished", self.finished)
        monkeypatch.setattr(executor, "_report_of", self.report)
        monkeypatch.setattr(executor.RayExecutor, "_connect", lambda _: None)
        monkeypatch.setattr(executor.RayExecutor, "_pack_once", lambda *_: None)

    def submit(self, *_: Any) -> int:
        self.asked += 1
        return self.asked

    def finished(self, references: list[int]) -> list[int]:
        """What is done when each node has done one batch; then those that were missing have come."""
        done = references[: self.nodes]
        wanted = min(self.most, len(references))
        if wanted > self.nodes:
            self.nodes = wanted
            self.waves.append(wanted)
        return done

    def report(self, _reference: int, _keys: list[int]) -> Report:
        self.done += 1
        return Report("b", counts=WorkCounts(inputs=1, failed=int(self.fails(self.done))))

    def run(self, limits: Limits, batches: int = 1200) -> None:
        """Do so many batches."""
        ray = of_ray().RayExecutor(limits, Cluster(address="auto"))
        job: Any = SimpleNamespace(storage=SimpleNamespace(run="run"))
        given = (Batch("b", [b"a"], [number], [1], [1]) for number in range(batches))
        for _ in ray.run(job, given, 1):
            assert self.asked - self.done <= max(2 * self.nodes, limits.workers or 0, 4)
        assert self.done == batches


def never(_: int) -> bool:
    return False


def test_all_that_a_range_of_workers_allows_is_asked_for_at_once(monkeypatch):
    """When a batch is done: before that the least number, and some that wait."""
    cluster = Growing(monkeypatch, NODES, never)
    cluster.run(Limits(NODES, least=8))
    assert cluster.waves == [8, 16, NODES]


def test_no_more_is_asked_for_while_nothing_but_failures_comes(monkeypatch):
    """A recipe that does not work gets no large cluster at once."""
    cluster = Growing(monkeypatch, NODES, lambda _: True)
    cluster.run(Limits(NODES, least=1))
    assert cluster.waves == [4, 8, 16, 32, 64, 128, NODES]


def test_there_is_no_more_at_work_than_there_are_batches(monkeypatch):
    """What is ready is what an autoscaler sees."""
    cluster = Growing(monkeypatch, NODES, never)
    cluster.run(Limits(NODES, least=8), batches=100)
    assert cluster.waves == [8, 16, 92]


@pytest.mark.parametrize("workers", [None, 64])
def test_without_a_range_a_few_wait_for_each_slot(monkeypatch, workers):
    """As before: a cluster that cannot grow is not given thousands of batches at once."""
    cluster = Growing(monkeypatch, NODES, never)
    cluster.run(Limits(workers))
    assert cluster.waves == [4, 8, 16, 32, 64] + [128, NODES] * (workers is None)


@pytest.mark.parametrize(("least", "expected"), [(8, 128), (0, 2)])
def test_a_shard_is_divided_for_the_nodes_that_are_to_come(tmp_path, monkeypatch, least, expected):
    """While the cluster is still empty: a list is divided only once."""
    Growing(monkeypatch, NODES, never)
    with tarfile.open(tmp_path / "shard.tar", "w") as shard:
        for number in range(128):
            shard.addfile(tarfile.TarInfo(f"{number}.txt"))
    quiet, storage = Display(quiet=True), storage_of(str(tmp_path / "out"))
    request = read_request(Copy(str(tmp_path / "shard.tar")), storage, RunOptions(), quiet)
    executor = of_ray().RayExecutor(Limits(NODES, least=least), Cluster(address="auto"))
    executor._connected = True
    with (tmp_path / "list").open("w+b") as file:
        run = replace(read_assignment(request, file, quiet, keep=False), executor=executor)
        journal = Journal(storage)
        journal.load()
        planner = Planner(run, decide(run, journal).state, journal, LostWorkers())
        assert executor.workers == 1
        assert planner.batches == expected
