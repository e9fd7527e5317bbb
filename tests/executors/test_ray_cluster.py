"""Runs spread over the nodes of a Ray cluster: what they make, how many are at work, what they say."""

import subprocess
import sys
from pathlib import Path

import pytest
from doors import CHECKOUT, write_list
from executors.ray_nodes import PATH_OF_WORKERS, RayNodes, write_nodes_with_torch
from executors.ray_recipes import most_at_work
from faulty import noted
from launcher import FAULTY, LONG, Driver, Launcher, check_manifest, environment, make_inputs, published

from splitter.registry import SINKS
from splitter.testing.executors import Ended, good_inputs, with_faults

RECIPES = Path(__file__).parent / "ray_recipes.py"
SPEECH = Path(__file__).parent / "ray_speech.py"
HEARD = ["lecture.flac", "greeting.wav", "studio.wav", "telephone.wav", "interview.aiff"]


class Work:
    """Some inputs, and runs over them."""

    def __init__(self, launcher: Launcher, cluster: RayNodes, folder: Path) -> None:
        self.launcher, self.cluster, self.folder = launcher, cluster, folder
        self.log = folder / "log"
        launcher.environ.update(cluster.environ)
        launcher.elsewhere = cluster

    def run(self, texts: dict[str, str], recipe: str, *options: object, output: str = "outputs") -> Driver:
        """A run on the cluster."""
        return self.local(texts, recipe, *self._on_ray(), *options, output=output)

    def run_connected(self, texts: dict[str, str], recipe: str, *options: object, output: str) -> Ended:
        """A run on the cluster by a driver that stays connected."""
        return self.cluster.run(self.folder, *self._command(texts, recipe, output), *self._on_ray(), *options)

    def local(self, texts: dict[str, str], recipe: str, *options: object, output: str) -> Driver:
        """A run on this machine."""
        return self.launcher.run(*self._command(texts, recipe, output), *options)

    def _command(self, texts: dict[str, str], recipe: str, output: str) -> tuple[object, ...]:
        dataset = make_inputs(self.folder / "data", texts)
        return "run", dataset, "--recipe", recipe, "--output", self.folder / output

    def _on_ray(self) -> tuple[str, ...]:
        return "--executor", "ray", "--address", self.cluster.address


@pytest.fixture
def work(launcher: Launcher, cluster: RayNodes, folder: Path) -> Work:
    return Work(launcher, cluster, folder)


LOCATED = f"{RECIPES}:Located"


def test_the_same_as_on_this_machine(work: Work):
    """With every sink, all that is published is, byte for byte, what the local executor makes."""
    texts = with_faults(good_inputs(40), ["raise", "ten then raise", "skip", "segfault", "os._exit"])
    # a virtual sink takes pieces of recordings only
    for sink in [name for name in SINKS.own if name != "virtual"]:
        recipe = (f"{FAULTY}:Faulty", "--sink", sink)
        local = work.local(texts, *recipe, "--workers", 2, output=f"local {sink}")
        assert local.code == 1, local.stderr
        size = ("--batch-size", 4) if sink == "files" else ()
        spread = work.run_connected(texts, *recipe, *size, output=f"ray {sink}")
        assert spread.code == 1, spread.stderr
        assert published(work.folder / f"ray {sink}") == published(work.folder / f"local {sink}")


def test_nodes_at_work(work: Work):
    """Batches are spread over the nodes, a worker process is set up once, and keeps what it has loaded."""
    run = work.run(
        good_inputs(24), LOCATED, "--log", work.log, "--together", 2, "--batch-size", 2, "--workers", 5
    )
    assert run.code == 0, run.stderr
    assert len(set(noted(work.log, "node"))) >= 2
    runners = noted(work.log, "setup")
    # Ray may start a worker more than it uses at a time
    assert len(runners) == len(set(runners)) <= 3
    assert set(noted(work.log, "worked")) <= set(runners)
    assert most_at_work(work.log) == 2
    assert "note: the cluster has room for 2 batches at a time now, less than --workers 5" in run.stderr


def test_what_a_batch_takes(work: Work):
    """No more batches are at work than there is room for, each in a worker that is set up once."""
    node = work.cluster.add(num_cpus=4, num_gpus=1, resources={"disk": 1, "wide": 9, "bound": 9})
    options = ("--log", work.log, "--seconds", 0.1, "--batch-size", 1)
    try:
        for takes, most in [
            # two share the GPU, and their workers live on from task to task
            (["--num-gpus", 0.5, "--num-cpus", 0.5], 2),
            (["--resources", "disk=1", "--num-cpus", 0], 1),
            (["--resources", "wide=1", "--num-cpus", 2], 2),
            (["--resources", "bound=1", "--workers", "1:2"], 2),
        ]:
            run = work.run(good_inputs(8), LOCATED, *options, *takes, "--together", most, "--fresh")
            assert run.code == 0, run.stderr
            assert most_at_work(work.log) == most, takes
            runners = noted(work.log, "setup")
            assert len(runners) == len(set(runners))
            assert set(noted(work.log, "worked")) == set(runners)
            # Ray may start a worker more than it uses at a time
            assert len(runners) <= most + 2
            work.log.unlink()
    finally:
        work.cluster.remove(node)


def test_what_user_code_prints(work: Work):
    """It reaches the terminal, each line marked by its input; nothing of Ray's does."""
    texts = {"a.txt": "one", "b.txt": "two"}
    run = work.run(texts, f"{RECIPES}:Loud", "--workers", 1, "--batch-size", 2)
    assert run.code == 0, run.stderr
    expected = ["[worker] ready"]
    for name, text in texts.items():
        said = [f"{text} said", f"{text} complained", f"{text} by a program", f"{text}, late"]
        expected += [f"[{name}] {line}" for line in said]
    lines = run.stderr.splitlines()
    assert sorted(line for line in lines if line.startswith("[")) == sorted(expected)
    rest = [line for line in lines if not line.startswith("[")]
    assert [line.split()[0] for line in rest] == ["2", "2", "manifest:", "next:"], run.stderr


def test_a_runtime_environment(work: Work):
    """What Ray is asked to prepare is there for the recipe; with --verbose it says what it does."""
    asked = work.folder / "asked for.yaml"
    asked.write_text("env_vars:\n  A_WORD: from far away\n")
    run = work.run({"a.txt": "one"}, f"{RECIPES}:Asked", "--runtime-env", asked, "--verbose")
    assert run.code == 0, run.stderr
    assert "Connecting to existing Ray cluster" in run.stderr
    assert [row["word"] for row in check_manifest(work.folder / "outputs")] == ["from far away"]


def test_a_model_that_is_loaded_once(work: Work):
    """silero-vad hears the same as on this machine, with one model for each worker process."""
    sounds = [CHECKOUT / "data_samples" / "speech" / name for name in HEARD]
    dataset = write_list(work.folder / "dataset.csv", [["input"], *[[str(path)] for path in sounds]])
    recipe = ("--recipe", f"{SPEECH}:Counted", "--log", work.log)
    local = work.launcher.run("run", dataset, *recipe, "--workers", 1, "--output", work.folder / "local")
    assert local.code == 0, local.stderr
    work.log.unlink()
    nodes = write_nodes_with_torch(work.folder)
    ray = ("--executor", "ray", "--address", work.cluster.address, "--workers", 2, "--batch-size", 1)
    ray = (*ray, "--runtime-env", nodes)
    spread = work.launcher.run("run", dataset, *recipe, *ray, "--output", work.folder / "ray")
    assert spread.code == 0, spread.stderr
    assert published(work.folder / "ray") == published(work.folder / "local")
    loaded, used = noted(work.log, "loaded"), noted(work.log, "used")
    assert len(loaded) == len(set(loaded)) <= 3
    assert set(used) == set(loaded)
    assert len(used) == len(sounds) > len(loaded)


# what stands for a release of Ray whose internals are others
HIDDEN = """
import builtins, sys

before = builtins.__import__

def hide(name, globals=None, *rest, **named):
    inner = name.startswith(("ray._private", "ray._raylet", "ray.core.generated"))
    if inner and (globals or {}).get("__name__", "").startswith("splitter"):
        raise ImportError(name)
    return before(name, globals, *rest, **named)

builtins.__import__ = hide
from splitter.cli.main import exit_code

sys.exit(exit_code(sys.argv[1:]))
"""


@pytest.mark.parametrize("joined", [True, False], ids=["joined", "private"])
def test_a_ray_with_other_internals(cluster: RayNodes, folder: Path, *, joined: bool):
    """A release of Ray without the internals that splitter uses does the same work."""
    dataset = make_inputs(folder / "data", {"a.txt": "one"})
    options = ["--recipe", f"{FAULTY}:Faulty", "--executor", "ray", "--workers", "1"]
    run = subprocess.run(
        [
            sys.executable,
            "-c",
            HIDDEN,
            "run",
            dataset,
            *options,
            *(["--address", cluster.address] if joined else []),
        ],
        cwd=folder,
        env=environment(PYTHONPATH=PATH_OF_WORKERS, **cluster.environ if joined else {}),
        capture_output=True,
        text=True,
        timeout=LONG,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert run.stderr.count("note: Ray ") == (not joined)
    assert ("does not let splitter set a token for a private Ray" in run.stderr) == (not joined)
    assert {row["input"] for row in check_manifest(folder / "outputs")} == {"a.txt"}
