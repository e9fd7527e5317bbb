"""The executor for a cluster."""

import pytest
from executors.conformance import LaunchedConformance
from executors.ray_nodes import RayNodes


class TestRay(LaunchedConformance):
    """It does what every executor must do."""

    executor = "ray"
    most_workers = 3

    @pytest.fixture(autouse=True)
    def _cluster(self, cluster: RayNodes, _in_a_folder: None) -> None:
        self.launcher.environ.update(cluster.environ)
        self.launcher.elsewhere = cluster
        self.options = ["--address", cluster.address]
