"""A pipeline whose stages share a cluster, of which something dies."""

import contextlib
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest
from doors import write_files, write_list
from executors.ray_nodes import RayNodes
from launcher import Launcher, eventually
from nightly import NIGHTLY
from pipeline.one_by_one import one_by_one, write_pipeline

import splitter
from splitter.testing.published import published

if TYPE_CHECKING:
    from pipeline.chains import Spec

INPUTS = 16
SECONDS_TO_LEAVE = 20.0
VICTIMS = ["node", "pipeline", "workers", "guards", "runners"] if NIGHTLY else ["node"]


@pytest.mark.parametrize("victim", VICTIMS)
def test_something_dies_while_stages_work(
    launcher: Launcher, cluster: RayNodes, folder: Path, chance, victim: str
):
    """Others do what it had: trees and manifests are those of the stages one by one, on this machine."""
    names = [f"in/{number}.txt" for number in range(INPUTS)]
    write_files(folder, {name: f"a{name} b c d" for name in names})
    listed = write_list(folder / "list.csv", [["input", "label"], *([name, name[3]] for name in names)])
    spec: Spec = {"output": str(folder / "voices"), "stages": []}
    for name, recipe, more in (
        ("cut", "Cut", {"list": str(listed)}),
        ("judge", "Judge", {"from": "cut"}),
        ("train", "Change", {"from": "judge", "where": "qjudge > 3", "options": {"sink": "webdataset"}}),
    ):
        stage = {"name": name, "recipe": recipe, "version": 1, "parameters": {"mark": name, "seconds": 0.1}}
        spec["stages"].append({**stage, **more})
    launcher.environ.update(cluster.environ)
    launcher.elsewhere = cluster
    node = cluster.add(num_cpus=1)
    raylet = cluster.raylets()[-1]
    ray = ("--executor", "ray", "--address", cluster.address, "--workers", 3)
    command = ("pipeline", "run", write_pipeline(spec, folder / "line.toml"), *ray)
    run = launcher.start(*command)
    judged = folder / "voices" / "judge" / ".splitter" / "records"
    run.until(lambda: [*judged.glob("*[0-9]")] and works_at(cluster, raylet))
    time.sleep(chance.uniform(0, 2 if NIGHTLY else 0))
    if victim == "node":
        psutil.Process(raylet).kill()
        cluster.remove(node)
    elif victim == "pipeline":
        run.kill()
        run.wait()
        eventually(lambda: not run.others(), lambda: str(run.others()), SECONDS_TO_LEAVE)
        run = launcher.start(*command)
    else:
        for process in getattr(cluster, victim)():
            with contextlib.suppress(psutil.Error):
                process.kill()
    assert run.wait() == 0, run.stderr
    if victim != "node":
        cluster.remove(node)
    for stage in spec["stages"]:
        stage["parameters"]["seconds"] = 0.0
    for stage, expected in one_by_one(spec, folder / "expected"):
        output = folder / "voices" / stage["name"]
        assert published(output) == published(expected), stage["name"]
        assert splitter.verify(output, workers=1).findings == []


def works_at(cluster: RayNodes, raylet: int) -> bool:
    """Whether a node has work."""
    with contextlib.suppress(psutil.Error):
        return any(raylet in {parent.pid for parent in guard.parents()} for guard in cluster.guards())
    return False
