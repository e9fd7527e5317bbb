"""Fixtures for tests on Ray."""

import contextlib
from collections.abc import Iterator

import pytest
from executors.ray_nodes import PATH_OF_WORKERS, RayNodes
from launcher import eventually

# each CPU is a worker for each run, and a guard
CPUS = (1, 1)
SECONDS_TO_END = 10
# the cluster that tests share
_shared: list[RayNodes] = []


@pytest.fixture(scope="session")
def _clusters() -> Iterator[list[RayNodes]]:
    """Yield a list with the cluster that tests share; if a test ends it, `cluster` puts another there."""
    yield _shared
    _end_shared()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> None:
    """End the shared cluster after the last of its tests, since it takes time even if it is idle."""
    if "_clusters" not in getattr(nextitem, "fixturenames", ()):
        _end_shared()


def _end_shared() -> None:
    while _shared:
        _shared.pop().end()


@pytest.fixture
def cluster(connected_cluster: RayNodes) -> RayNodes:
    """Return a cluster of two nodes with a CPU each, as far as Ray knows, and no guards."""
    connected_cluster.disconnect()
    return connected_cluster


@pytest.fixture
def connected_cluster(_clusters: list[RayNodes], tmp_path_factory: pytest.TempPathFactory) -> RayNodes:
    """Return that cluster, with the guards of runs before if their driver is still connected."""
    with contextlib.suppress(AssertionError):
        # a node that a test has removed may still be ending
        eventually(lambda: not _clusters or is_whole(_clusters[-1]), lambda: "", SECONDS_TO_END)
    if _clusters and not is_whole(_clusters[-1]):
        _clusters.pop().end()
    if not _clusters:
        _clusters.append(RayNodes(tmp_path_factory.mktemp("cluster"), CPUS, PYTHONPATH=PATH_OF_WORKERS))
    return _clusters[-1]


def is_whole(cluster: RayNodes) -> bool:
    """Return whether all nodes of a cluster are there, and no more."""
    return len(cluster.raylets()) == len(CPUS)
