"""Fixtures for what runs on Ray."""

from collections.abc import Iterator

import pytest
from executors.ray_nodes import RayNodes


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Try a test on Ray once more when it fails, and say so: a cluster fails by itself now and then."""
    for item in items:
        if item.path.name.startswith("test_ray"):
            item.add_marker(pytest.mark.flaky(reruns=1))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RayNodes]:
    """Three nodes with a CPU each, as far as Ray knows."""
    cluster = RayNodes(tmp_path_factory.mktemp("cluster"))
    yield cluster
    cluster.end()
