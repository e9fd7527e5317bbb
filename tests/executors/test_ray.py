"""The executor for a cluster."""

import pytest
from executors.conformance import ExecutorConformance
from executors.ray_nodes import RayNodes


class TestRay(ExecutorConformance):
    """It does what every executor must do."""

    executor = "ray"
    places = 3
    seconds_to_end = 5.0

    @pytest.fixture(autouse=True)
    def _cluster(self, cluster: RayNodes, _place: None) -> None:
        self.launcher.environ.update(cluster.environ)
        self.launcher.elsewhere = cluster
        self.options = ["--address", cluster.address]
