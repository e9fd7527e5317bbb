"""Fixtures for what runs on Ray."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from doors import CHECKOUT
from executors.ray_nodes import RayNodes
from launcher import eventually
from nightly import NIGHTLY

CPUS = (2, 1)
SECONDS_TO_END = 10
# first in the path of the nodes; those of the other clusters, and of a private Ray, have torch itself
WITHOUT_TORCH = [] if NIGHTLY else [Path(__file__).parent / "without_torch"]


@pytest.fixture(scope="session")
def _clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[RayNodes]]:
    """The cluster that all tests share; a new one where a test has ended it."""
    clusters: list[RayNodes] = []
    yield clusters
    for cluster in clusters:
        cluster.end()


@pytest.fixture
def cluster(_clusters: list[RayNodes], tmp_path_factory: pytest.TempPathFactory) -> RayNodes:
    """Two nodes with three CPUs, as far as Ray knows."""
    with contextlib.suppress(AssertionError):
        # what a test has removed may be about to end
        eventually(lambda: not _clusters or is_whole(_clusters[-1]), lambda: "", SECONDS_TO_END)
    if _clusters and not is_whole(_clusters[-1]):
        _clusters.pop().end()
    if not _clusters:
        path = os.pathsep.join(map(str, (*WITHOUT_TORCH, CHECKOUT)))
        _clusters.append(RayNodes(tmp_path_factory.mktemp("cluster"), CPUS, PYTHONPATH=path))
    return _clusters[-1]


def is_whole(cluster: RayNodes) -> bool:
    """Whether all its nodes are there, and no more."""
    return len(cluster.raylets()) == len(CPUS)
