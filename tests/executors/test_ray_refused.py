"""What a run on Ray refuses before any work: one line that says what to do, and exit code 2."""

import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from executors.ray_nodes import RayNodes
from launcher import LONG, SPLITTER, Driver, Launcher, environment, make_inputs
from nightly import NIGHTLY

RECIPES = Path(__file__).parent / "ray_recipes.py"


def refused(launcher: Launcher, folder: Path, *options: object, **environ: str) -> str:
    """The one line of a run that is refused, without its mark; nothing was written."""
    dataset = make_inputs(folder / "data", {"a.txt": "one"})
    ray = ("--recipe", f"{RECIPES}:Located", "--executor", "ray", "--output", folder / "outputs")
    run: Driver = launcher.start("run", dataset, *ray, *options, environ=environ)
    assert run.wait() == 2, run.stderr
    assert run.stderr.count("\n") == 1, run.stderr
    assert not (folder / "outputs").exists()
    return run.stderr.strip().removeprefix("splitter: ")


@pytest.fixture
def silent_port() -> Iterator[int]:
    """One where nothing listens, and nobody else can."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


@pytest.mark.parametrize("address", ["127.0.0.1:{port}", "ray://127.0.0.1:{port}", "localhost:{port}"])
def test_an_address_where_nothing_is(launcher: Launcher, folder: Path, silent_port: int, address: str):
    address = address.format(port=silent_port)
    said = refused(launcher, folder, "--address", address)
    assert (
        said
        == f"--address {address}: cannot be reached: Connection refused; check that the cluster is running"
    )


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (
            ["--workers", 0],
            "--workers 0 runs in this process and cannot be combined with Ray; leave one of them out",
        ),
        (
            ["--device", "cuda"],
            "--device cuda: say how much of a GPU a batch takes, such as --num-gpus 1 or 0.25",
        ),
        (["--address", "local"], "--address local: remove it; without an address a private Ray"),
        (["--runtime-env", "nowhere.yaml"], "--runtime-env nowhere.yaml: cannot be read: No such file"),
        (["--runtime-env", "data/a.txt"], "--runtime-env data/a.txt: must hold names and values"),
        (["--resources", "much"], "--resources 'much': write NAME=AMOUNT"),
    ],
)
def test_options_that_make_no_sense(launcher: Launcher, folder: Path, options: list[object], says: str):
    assert refused(launcher, folder, *options).startswith(says)


def test_no_cluster_to_find(folder: Path):
    """--address auto where no process of a cluster is seen: others may be at work on this machine."""
    hidden = ["unshare", "--pid", "--fork", "--mount-proc"]
    if shutil.which("unshare") is None or subprocess.run([*hidden, "true"], check=False).returncode:
        pytest.skip("needs unshare (Debian: util-linux), and a container that may unshare its processes")
    dataset = make_inputs(folder / "data", {"a.txt": "one"})
    ray = ["--recipe", "words", "--executor", "ray", "--address", "auto", "--output", folder / "outputs"]
    run = subprocess.run(
        [*hidden, *SPLITTER, "run", dataset, *ray],
        env=environment(RAY_TMPDIR=str(folder)),
        capture_output=True,
        text=True,
        timeout=LONG,
        check=False,
    )
    assert (run.returncode, run.stderr.count("\n")) == (2, 1), run.stderr
    assert run.stderr.startswith("splitter: --address auto: Could not find any running Ray instance")
    assert not (folder / "outputs").exists()


def test_a_private_ray_without_the_gpu(launcher: Launcher, folder: Path):
    """A batch is not left waiting for a GPU that this machine does not have."""
    said = refused(launcher, folder, "--num-gpus", 0.5, CUDA_VISIBLE_DEVICES="")
    assert said.startswith("no node of the Ray cluster has 1 CPU, 0.5 GPU for a batch; ask for less")


# -- a cluster that is there ---------------------------------------------------------------------------------


@pytest.mark.parametrize("environ", [{"RAY_AUTH_TOKEN": "ab" * 32}, {"RAY_AUTH_MODE": "disabled"}])
def test_a_token_that_is_wrong_or_missing(
    launcher: Launcher, folder: Path, cluster: RayNodes, environ: dict[str, str]
):
    said = refused(launcher, folder, "--address", cluster.address, **{**cluster.environ, **environ})
    assert said.startswith(f"--address {cluster.address}: the token is missing or wrong; set RAY_AUTH_MODE")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--num-gpus", 1], "no node of the Ray cluster has 1 CPU, 1 GPU for a batch"),
        (["--num-cpus", 9], "no node of the Ray cluster has 9 CPU for a batch"),
        (["--resources", "disk=1"], "no node of the Ray cluster has 1 CPU, 1 disk for a batch"),
        (["--runtime-env", "missing.yaml"], "--address {address}: directory /nowhere must be an existing"),
    ],
)
def test_what_the_cluster_does_not_have(
    launcher: Launcher, folder: Path, cluster: RayNodes, options: list[object], says: str
):
    (folder / "missing.yaml").write_text("working_dir: /nowhere")
    address = cluster.address
    said = refused(launcher, folder, "--address", address, *options, **cluster.environ)
    assert said.startswith(says.format(address=address))


@pytest.mark.parametrize("kind", ["conda", "pip"] if NIGHTLY else ["conda"])
def test_an_environment_that_cannot_be_made(launcher: Launcher, folder: Path, cluster: RayNodes, kind: str):
    """The node is named, and that it cannot be set up there; pip takes long to find it out."""
    (folder / "environment.yaml").write_text('conda: "nobody\'s"\n')
    if kind == "pip":
        (folder / "environment.yaml").write_text("pip: [/nowhere/no-wheel-1.0-py3-none-any.whl]")
    options = ("--address", cluster.address, "--runtime-env", "environment.yaml")
    said = refused(launcher, folder, *options, **cluster.environ)
    node = cluster.address.partition(":")[0]
    assert said.startswith(f"node {node}: the runtime environment cannot be set up: ")


def test_a_machine_too_busy_for_ray_to_start(monkeypatch: pytest.MonkeyPatch):
    """Ray gives up with a plain Exception, which is one line and no traceback."""
    from splitter.errors import RunStopped
    from splitter.executors.base import Cluster
    from splitter.executors.ray import cluster

    def too_slow(**_: object) -> None:
        raise Exception("The current node timed out during startup. This could happen.")  # noqa: TRY002

    monkeypatch.setattr(cluster.ray, "init", too_slow)
    with (
        pytest.raises(RunStopped, match=r"here: The current node timed out .+; run the same command to try"),
        cluster.private_cluster({}, Cluster()),
    ):
        pass
