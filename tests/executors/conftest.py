"""Fixtures for tests on Ray."""

import contextlib
from collections.abc import Iterator

import pytest
from executors.ray_nodes import PATH_OF_WORKERS, RayNodes
from launcher import eventually

CPUS = (2, 1)
SECONDS_TO_END = 10


@pytest.fixture(scope="session")
def _clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[RayNodes]]:
    """Yield a list with the cluster that all tests share; if a test ends it, `cluster` puts another there."""
    clusters: list[RayNodes] = []
    yield clusters
    for cluster in clusters:
        cluster.end()


@pytest.fixture
def cluster(_clusters: list[RayNodes], tmp_path_factory: pytest.TempPathFactory) -> RayNodes:
    """Return a cluster of two nodes that has three CPUs, as far as Ray knows."""
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
