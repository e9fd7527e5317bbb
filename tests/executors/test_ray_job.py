"""A run as a job of a cluster: `ray job submit -- splitter run ...`."""

import importlib.util
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from executors.ray_nodes import RAY, ray_start
from executors.test_ray_refused import a_free_port
from launcher import FAULTY, LONG, Launcher, environment, make_inputs, published

from splitter.testing.executors import good_inputs

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("aiohttp_cors") is None, reason="needs the dashboard: pip install 'ray[default]'"
)


@pytest.fixture
def dashboard() -> Iterator[tuple[str, dict[str, str]]]:
    """A cluster of one node with the dashboard that takes jobs: its URL, and the environment to reach it."""
    port, agent = a_free_port(), a_free_port()
    ports = (f"--dashboard-port={port}", f"--dashboard-agent-listen-port={agent}")
    with ray_start("--include-dashboard=true", *ports) as environ:
        yield f"http://127.0.0.1:{port}", environ


def test_a_job(dashboard: tuple[str, dict[str, str]], launcher: Launcher, folder: Path):
    """The job runs on the cluster it was handed to, and makes what this machine makes by itself."""
    url, environ = dashboard
    dataset = make_inputs(folder / "data", good_inputs(20))
    run = ["run", str(dataset), "--recipe", f"{FAULTY}:Faulty"]
    local = launcher.run(*run, "--output", folder / "local", "--workers", 2)
    assert local.code == 0, local.stderr
    ray = ["--executor", "ray", "--address", "auto", "--output", str(folder / "job")]
    entry = shlex.join([sys.executable, "-m", "splitter", *run, *ray])
    job = subprocess.run(
        [*RAY, "job", "submit", "--address", url, "--", "sh", "-c", entry],
        env=environment(**environ),
        capture_output=True,
        text=True,
        timeout=LONG,
        check=False,
    )
    assert job.returncode == 0, job.stdout + job.stderr
    assert "20 of 20 inputs done" in job.stdout + job.stderr
    assert published(folder / "job") == published(folder / "local")
