"""A run as a job of a cluster: `ray job submit -- splitter run ...`."""

import contextlib
import importlib.util
import secrets
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from executors.conformance import good_inputs
from executors.ray_nodes import MARK, with_variable
from executors.test_ray_refused import a_free_port
from launcher import FAULTY, LONG, Launcher, environment, make_inputs, published

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("aiohttp_cors") is None, reason="needs the dashboard: pip install 'ray[default]'"
)
RAY = [sys.executable, "-m", "ray.scripts.scripts"]


@pytest.fixture
def dashboard() -> Iterator[tuple[str, dict[str, str]]]:
    """A cluster of one node with the dashboard that takes jobs: its URL, and the environment to reach it."""
    mark, place = secrets.token_hex(16), tempfile.mkdtemp(prefix="jobs-", dir="/tmp")
    environ = {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
        "RAY_TMPDIR": place,
    }
    port = a_free_port()
    head = ["--head", "--port=0", "--num-cpus=2", "--include-dashboard=true", f"--dashboard-port={port}"]
    store = ["--object-store-memory=80000000", "--disable-usage-stats"]
    quiet = {"RAY_enable_metrics_collection": "0", MARK: mark}
    try:
        started = subprocess.run(
            [*RAY, "start", *head, *store, "--dashboard-agent-listen-port", str(a_free_port())],
            env=environment(**environ, **quiet),
            capture_output=True,
            text=True,
            timeout=LONG,
            check=False,
        )
        assert started.returncode == 0, started.stdout + started.stderr
        yield f"http://127.0.0.1:{port}", environ
    finally:
        while left := with_variable(MARK, mark):
            for process in left:
                with contextlib.suppress(psutil.Error):
                    process.kill()
            psutil.wait_procs(left, timeout=1)
        shutil.rmtree(place, ignore_errors=True)


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
