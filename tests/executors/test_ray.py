"""The executor for a cluster."""

from pathlib import Path

import pytest
from executors.conformance import LaunchedConformance
from executors.ray_nodes import RayNodes

from splitter.testing.executors import Ended

# for how many workers are set up, how a run stops, and what it leaves: their runs connect by themselves
ALONE = {"SetUp", "NeverSetUp", "Parent"}


class TestRay(LaunchedConformance):
    """It does what every executor must do."""

    executor = "ray"
    most_workers = 3

    @pytest.fixture(autouse=True)
    def _cluster(self, connected_cluster: RayNodes, _in_a_folder: None) -> None:
        self.cluster = connected_cluster
        self.launcher.environ.update(self.cluster.environ)
        self.launcher.elsewhere = self.cluster
        self.options = ["--address", self.cluster.address]

    def run(self, recipe: str, dataset: Path, *options: object, output: Path | None = None) -> Ended:
        if recipe in ALONE:
            self.cluster.disconnect()
            return super().run(recipe, dataset, *options, output=output)
        return self.cluster.run(self.folder, *self.command(recipe, dataset, *options, output=output))
