"""A run through Ray's client, from a machine that does not belong to the cluster: `--address ray://...`."""

import contextlib
import importlib.util
import os
import socket
from pathlib import Path

import psutil
import pytest
from doors import CHECKOUT, program
from executors.ray_nodes import ray_start
from executors.test_ray_refused import a_free_port, refused
from launcher import FAULTY, Launcher, eventually, make_inputs, published

from splitter.testing.executors import good_inputs, with_faults


@pytest.mark.skipif(
    importlib.util.find_spec("grpc") is None, reason="needs Ray's client: pip install 'ray[client]'"
)
def test_through_the_client(launcher: Launcher, folder: Path):
    """What is made, faults included, is what this machine makes; with another token it is refused."""
    dataset = make_inputs(folder / "inputs", with_faults(good_inputs(8), ["raise", "segfault", "os._exit"]))
    recipe = (dataset, "--recipe", f"{FAULTY}:Faulty", "--workers", 2)
    local = launcher.run("run", *recipe, "--output", folder / "local")
    assert local.code == 1, local.stderr
    port, nobody = a_free_port(), {"RAY_AUTH_TOKEN": "ab" * 32}
    with ray_start(f"--ray-client-server-port={port}", "--include-dashboard=false") as environ:
        there = ("--address", f"ray://127.0.0.1:{port}")
        # `ray start` does not wait for the server that it starts for clients
        eventually(lambda: is_open(port), lambda: "there is no server for Ray's client")
        said = refused(launcher, folder, *there, **{**environ, **nobody})
        assert said.startswith(f"{there[0]} {there[1]}: the token is missing or wrong; set RAY_AUTH_MODE")
        far = ("--executor", "ray", *there, "--batch-size", 4, "--output", folder / "far")
        run = launcher.run("run", *recipe, *far, environ=environ)
    assert run.code == 1, run.stderr
    assert published(folder / "far") == published(folder / "local")


def is_open(port: int) -> bool:
    # not by a connection: one to a port that nobody listens at may be one to itself
    there = psutil.net_connections("tcp")
    return any(one.laddr.port == port and one.status == psutil.CONN_LISTEN for one in there)


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
