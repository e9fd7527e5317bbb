"""Runs on a cluster that `ray start` has made: through Ray's client, and as a job of the cluster."""

import contextlib
import importlib.util
import os
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from doors import CHECKOUT, program
from executors.ray_nodes import RAY, Head, ray_start
from executors.test_ray_refused import refused
from launcher import FAULTY, LONG, Launcher, environment, eventually, make_inputs, published

from splitter.testing.executors import good_inputs, with_faults

needs_client = pytest.mark.skipif(
    importlib.util.find_spec("grpc") is None, reason="needs Ray's client: pip install 'ray[client]'"
)
needs_dashboard = pytest.mark.skipif(
    importlib.util.find_spec("aiohttp_cors") is None, reason="needs the dashboard: pip install 'ray[default]'"
)


@pytest.fixture(scope="module")
def head() -> Iterator[Head]:
    """Start a cluster of one node."""
    with ray_start() as head:
        yield head


@needs_client
def test_through_the_client(head: Head, launcher: Launcher, folder: Path):
    """`--address ray://...`, from a machine that does not belong to the cluster.

    What is made, faults included, is what this machine makes; with another token it is refused.
    """
    dataset = make_inputs(folder / "inputs", with_faults(good_inputs(8), ["raise", "segfault", "os._exit"]))
    recipe = (dataset, "--recipe", f"{FAULTY}:Faulty", "--workers", 2)
    local = launcher.run("run", *recipe, "--output", folder / "local")
    assert local.code == 1, local.stderr
    there = ("--address", f"ray://127.0.0.1:{head.client_port}")
    # `ray start` does not wait for the server that it starts for clients
    eventually(lambda: is_open(head.client_port), lambda: "there is no server for Ray's client")
    said = refused(launcher, folder, *there, **{**head.environ, "RAY_AUTH_TOKEN": "ab" * 32})
    assert said.startswith(f"{there[0]} {there[1]}: the token is missing or wrong; set RAY_AUTH_MODE")
    far = ("--executor", "ray", *there, "--batch-size", 4, "--output", folder / "far")
    run = launcher.run("run", *recipe, *far, environ=head.environ)
    assert run.code == 1, run.stderr
    assert published(folder / "far") == published(folder / "local")


def is_open(port: int) -> bool:
    # not by a connection: one to a port that nobody listens at may be one to itself
    there = psutil.net_connections("tcp")
    return any(one.laddr.port == port and one.status == psutil.CONN_LISTEN for one in there)


@needs_dashboard
def test_a_job(head: Head, launcher: Launcher, folder: Path):
    """`ray job submit -- splitter run ...` makes what this machine makes by itself."""
    dataset = make_inputs(folder / "data", good_inputs(20))
    run = ["run", str(dataset), "--recipe", f"{FAULTY}:Faulty"]
    local = launcher.run(*run, "--output", folder / "local", "--workers", 2)
    assert local.code == 0, local.stderr
    ray = ["--executor", "ray", "--address", "auto", "--output", str(folder / "job")]
    entry = shlex.join([sys.executable, "-m", "splitter", *run, *ray])
    job = subprocess.run(
        [*RAY, "job", "submit", "--address", head.dashboard, "--", "sh", "-c", entry],
        env=environment(**head.environ),
        capture_output=True,
        text=True,
        timeout=LONG,
        check=False,
    )
    assert job.returncode == 0, job.stdout + job.stderr
    assert "20 of 20 inputs done" in job.stdout + job.stderr
    assert published(folder / "job") == published(folder / "local")


def test_without_the_client(folder: Path):
    """The line says what to install."""
    dataset = make_inputs(folder / "data", {"a.txt": "one"})
    (folder / "grpc.py").write_text("raise ModuleNotFoundError(__name__)")
    path = os.pathsep.join(map(str, (folder, CHECKOUT)))
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as server:
        address = f"ray://127.0.0.1:{server.getsockname()[1]}"
        ray = ("--executor", "ray", "--address", address)
        run = program("run", dataset, "--recipe", "words", *ray, cwd=folder, PYTHONPATH=path)
    assert run.code == 2
    assert run.err == f"splitter: --address {address}: needs Ray's client: pip install 'ray[client]'\n"
