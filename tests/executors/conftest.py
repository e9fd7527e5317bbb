"""Fixtures for what runs on Ray."""

from collections.abc import Iterator

import pytest
from executors.ray_nodes import RayNodes


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RayNodes]:
    """Three nodes with a CPU each, as far as Ray knows."""
    cluster = RayNodes(tmp_path_factory.mktemp("cluster"))
    yield cluster
    cluster.end()
