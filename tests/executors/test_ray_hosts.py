"""Ray on several hosts: network namespaces, each with an address and a name, and one folder for all."""

import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from doors import SHARED
from executors.ray_nodes import FRUGAL, MARK, PATH_OF_WORKERS, RAY, WITHOUT_MONITORS, end_marked
from faulty import noted
from launcher import LONG, Launcher, environment, make_inputs, published
from nightly import NIGHTLY

from splitter.testing.executors import good_inputs, with_faults

RECIPES = Path(__file__).parent / "ray_recipes.py"
PORT = 6379


def why_not() -> str:
    """What stands in the way of network namespaces."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "needs root, on Linux"
    if not (shutil.which("ip") and shutil.which("unshare")):
        return "needs ip and unshare (Debian: iproute2, util-linux)"
    name = f"splitter-{secrets.token_hex(4)}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False)
    if made.returncode:
        return "this container may not make network namespaces"
    inside = ["ip", "netns", "exec", name, "unshare", "--uts", "true"]
    works = subprocess.run(inside, capture_output=True, check=False).returncode == 0
    subprocess.run(["ip", "netns", "del", name], check=True)
    return "" if works else "this container may not enter network namespaces"


class Hosts:
    """Hosts on one network, with a Ray node each."""

    def __init__(self, count: int) -> None:
        self._own = secrets.token_hex(3)
        self._place = tempfile.mkdtemp(prefix="hosts-", dir="/tmp")
        self.names = [f"host{number}-{self._own}" for number in range(1, count + 1)]
        self._mark = secrets.token_hex(16)
        self._environ = {
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(32),
            "RAY_TMPDIR": self._place,
            **FRUGAL,
            "PYTHONPATH": os.pathsep.join([PATH_OF_WORKERS, str(SHARED)]),
            MARK: self._mark,
        }
        self._said = Path(self._place, "said.txt")

    def start(self) -> None:
        """Lay the cables, and start Ray everywhere."""
        switch = f"switch-{self._own}"
        for name in (switch, *self.names):
            ip("netns", "add", name)
        ip("-n", switch, "link", "add", "bridge", "type", "bridge")
        ip("-n", switch, "link", "set", "bridge", "up")
        for number, name in enumerate(self.names, 1):
            port = f"port{number}"
            ip("-n", name, "link", "add", "cable", "type", "veth", "peer", "name", port, "netns", switch)
            ip("-n", switch, "link", "set", port, "master", "bridge", "up")
            ip("-n", name, "address", "add", f"{self.address(number)}/24", "dev", "cable")
            for device in ("lo", "cable"):
                ip("-n", name, "link", "set", device, "up")
        for number in range(1, len(self.names) + 1):
            self._start_ray(number)

    def _start_ray(self, number: int) -> None:
        head = ("--head", f"--port={PORT}", "--include-dashboard=false", f"--temp-dir={self._place}/ray")
        role = head if number == 1 else (f"--address={self.cluster}",)
        here = (f"--node-ip-address={self.address(number)}", "--num-cpus=1", "--object-store-memory=80000000")
        ray = [*RAY, "start", *role, *here, "--disable-usage-stats", *WITHOUT_MONITORS]
        started = subprocess.run(self.on(number, *ray), capture_output=True, text=True, check=False)
        assert started.returncode == 0, started.stdout + started.stderr

    @property
    def cluster(self) -> str:
        """The address of the cluster."""
        return f"{self.address(1)}:{PORT}"

    def address(self, number: int) -> str:
        """The address of a host."""
        return f"10.99.0.{number}"

    def on(self, number: int, *command: str) -> list[str]:
        """A command as it is run on a host."""
        name = self.names[number - 1]
        variables = [f"{key}={value}" for key, value in environment(**self._environ).items()]
        named = ["unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', name]
        return ["ip", "netns", "exec", name, *named, "env", *variables, *command]

    def end(self) -> None:
        """End every process, and take the cables away."""
        end_marked(self._mark)
        for name in (f"switch-{self._own}", *self.names):
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
        shutil.rmtree(self._place, ignore_errors=True)


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    reason = why_not()
    if reason:
        pytest.skip(reason)
    hosts = Hosts(2)
    try:
        hosts.start()
        yield hosts
    finally:
        hosts.end()


def test_two_hosts(hosts: Hosts, launcher: Launcher, folder: Path):
    """Both take part, and make what this machine makes by itself."""
    texts = with_faults(good_inputs(30), ["raise", "skip", "segfault"])
    dataset = make_inputs(folder / "data", texts)
    log = folder / "log"
    # in the gate, shards of several nodes are the business of test_ray_cluster.py
    for sink in ("files", "webdataset", "parquet") if NIGHTLY else ("files",):
        recipe = ("--recipe", f"{RECIPES}:Located", "--sink", sink, "--seconds", "0.05")
        local = launcher.run("run", dataset, *recipe, "--output", folder / f"local {sink}", "--workers", 2)
        assert local.code == 1, local.stderr
        # so few inputs share one shard
        size = ("--batch-size", "2") if sink == "files" else ()
        options = (
            "--executor",
            "ray",
            "--address",
            hosts.cluster,
            *size,
            "--log",
            str(log),
            "--together",
            "2",
        )
        splitter = [sys.executable, "-m", "splitter", "run", str(dataset), *recipe, *options]
        command = hosts.on(1, *splitter, "--output", str(folder / f"ray {sink}"))
        run = subprocess.run(command, capture_output=True, text=True, timeout=3 * LONG, check=False)
        assert run.returncode == 1, run.stderr
        assert published(folder / f"ray {sink}") == published(folder / f"local {sink}")
    assert set(noted(log, "host")) == set(hosts.names)
