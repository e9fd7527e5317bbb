"""Runs on a Ray cluster whose output is in an object store."""

import contextlib
import json
from pathlib import Path

import psutil
import pytest
from executors.ray_nodes import RayNodes
from launcher import FAULTY, Driver, Launcher, make_inputs, published
from object_store import Bucket

from splitter.testing.executors import good_inputs, with_faults


class Work:
    """Some inputs, and runs over them into a store or a folder."""

    def __init__(self, launcher: Launcher, cluster: RayNodes, folder: Path, bucket: Bucket) -> None:
        self.launcher, self.cluster, self.folder, self.bucket = launcher, cluster, folder, bucket
        launcher.environ.update({**cluster.environ, **bucket.environment})
        launcher.elsewhere = cluster

    def start(self, dataset: Path, *options: object) -> Driver:
        ray = ("--executor", "ray", "--address", self.cluster.address, "--output", self.bucket.url("out"))
        return self.launcher.start("run", dataset, "--recipe", f"{FAULTY}:Faulty", *ray, *options)

    def access(self) -> tuple[str, Path]:
        """What gives the nodes access to the store."""
        path = self.folder / "access.yaml"
        path.write_text(json.dumps({"env_vars": self.bucket.environment}))
        return "--runtime-env", path

    def made(self) -> dict[str, bytes]:
        """All that is published at the URL, read as from a folder."""
        copy = self.folder / "copy"
        for name, content in self.bucket.tree("out").items():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            (copy / name).write_bytes(content)
        return published(copy)


@pytest.fixture
def work(launcher: Launcher, cluster: RayNodes, folder: Path, s3: Bucket) -> Work:
    return Work(launcher, cluster, folder, s3)


def test_a_node_without_access_to_the_store_is_named(work: Work):
    """Before any work, in one line; nothing stays in the store."""
    run = work.start(make_inputs(work.folder / "data", {"a.txt": "one"}))
    assert run.wait() == 2, run.stderr
    node = work.cluster.address.partition(":")[0]
    assert run.stderr.startswith(
        f"splitter: node {node}: cannot read {work.bucket.url('out')}/.splitter/probe: "
    )
    assert "there are no credentials for it; it needs the same access to the store" in run.stderr
    assert run.stderr.count("\n") == 1
    assert work.bucket.keys() == []


def test_the_same_as_on_this_machine_in_a_folder(work: Work):
    """Byte for byte, with inputs that end their process, and a worker that is lost.

    That one is shut out of the output before its batch is begun again.
    """
    texts = with_faults(good_inputs(20), ["raise", "ten then raise", "skip", "segfault"])
    dataset = make_inputs(work.folder / "data", texts)
    run = work.start(dataset, "--seconds", 0.1, "--batch-size", 4, *work.access())
    run.until(lambda: len(run.guards()) >= 2)
    for guard in run.guards()[:1]:
        with contextlib.suppress(psutil.Error):
            guard.kill()
    assert run.wait() == 1, run.stderr
    assert "a worker process was lost; restarting the work that is not committed" in run.stderr
    recipe = ("--recipe", f"{FAULTY}:Faulty", "--seconds", 0.1)
    local = work.launcher.run("run", dataset, *recipe, "--workers", 2, "--output", work.folder / "local")
    assert local.code == 1
    assert work.made() == published(work.folder / "local")
    assert len([key for key in work.bucket.keys("out") if "/lock-" in key]) > 1
