"""`splitter tar map` on Ray: what it does on one machine, an archive for each task."""

import contextlib
import signal
from pathlib import Path

import psutil
import pytest
from doors import here, tree
from executors.ray_nodes import RayNodes
from launcher import Driver, Launcher, eventually
from nightly import NIGHTLY
from tar_archives import write_tar

SCRIPT = '[ "$SPLITTER_KEY" != 1-b ] || exit 3; cat sample.n sample.n > sample.m'


def shards(folder: Path, count: int) -> None:
    """Archives of three samples each."""
    for shard in range(count):
        write_tar(folder / f"in-{shard}.tar", [(f"{shard}-{key}.n", key.encode()) for key in "abc"])


def outputs(folder: Path, prefix: str) -> dict[str, bytes]:
    """What was written, by name without the prefix."""
    return {name.removeprefix(prefix): data for name, data in tree(folder).items() if name.startswith(prefix)}


@pytest.fixture
def on_ray(launcher: Launcher, cluster: RayNodes) -> list[str]:
    """The options that take a job to the cluster."""
    launcher.environ.update(cluster.environ)
    return ["--executor", "ray", "--address", cluster.address]


def test_the_same_as_on_one_machine(launcher: Launcher, folder: Path, on_ray: list[str]):
    """Bytes, failures, lines and exit codes; workers find relative paths, and --max-failures holds."""
    shards(folder, 4)
    (folder / "in-2.tar").write_bytes((folder / "in-2.tar").read_bytes()[:700])
    given = ("tar", "map", "in-{0..3}.tar")
    local = launcher.run(*given, "-o", "local-{}.tar", "-c", SCRIPT)
    ray = launcher.run(*given, "-o", "ray-{}.tar", "-c", SCRIPT, *on_ray)
    assert (local.code, ray.code) == (1, 1)
    assert "8 samples done, 8 made, 1 failed; 1 archive not done" in ray.stderr
    assert sorted(ray.stderr.replace("ray-", "local-").splitlines()) == sorted(local.stderr.splitlines())
    first = outputs(folder, "ray-")
    assert sorted(first) == ["0.tar", "1.tar", "1.tar.errors.csv", "3.tar"]
    assert first == outputs(folder, "local-")
    stopped = launcher.run(*given, "-o", "ray-{}.tar", "-c", "false", *on_ray, "--fresh", "--max-failures", 2)
    assert stopped.code == 1
    assert stopped.stderr.splitlines()[-1] == "splitter: more than 2 samples failed; stopped (--max-failures)"
    assert outputs(folder, "ray-") == first
    assert not [name for name in tree(folder) if name.startswith(".")]


def begin_to_wait(launcher: Launcher, folder: Path, ray: list[str]) -> Driver:
    """A job of three archives, of which one is done, and the programs of two wait for a file `go`."""
    shards(folder, 3)
    assert launcher.run("tar", "map", "in-{2..2}.tar", "-o", "out-{}.tar", "-c", ":").code == 0
    script = f"sleep 333 & echo $! $PWD >> '{folder.parent}/programs'; "
    script += f"until [ -e '{folder.parent}/go' ]; do sleep 0.05; done"
    driver = launcher.start("tar", "map", "in-{0..2}.tar", "-o", "out-{}.tar", "-c", script, *ray)
    driver.until(lambda: len(programs(folder)) >= 2)
    return driver


def programs(folder: Path) -> list[list[str]]:
    """For each program begun, the process that it has left in the background, and its folder."""
    path = folder.parent / "programs"
    return [line.split(maxsplit=1) for line in path.read_text().splitlines()] if path.exists() else []


def is_gone(process: str, place: str) -> bool:
    """Whether nothing is left of a program, nor of the folder of all samples."""
    with contextlib.suppress(psutil.NoSuchProcess):
        if psutil.Process(int(process)).status() != psutil.STATUS_ZOMBIE:
            return False
    return not Path(place).parent.exists()


def check_gone(begun: list[list[str]]) -> None:
    def left() -> list[list[str]]:
        return [one for one in begun if not is_gone(*one)]

    eventually(lambda: not left(), lambda: f"still there: {left()}")


def test_an_archive_whose_worker_is_lost_is_done_again(
    launcher: Launcher, folder: Path, cluster: RayNodes, on_ray: list[str]
):
    """Its programs end with it; outputs are what they would have been, and what was there is left alone."""
    driver = begin_to_wait(launcher, folder, on_ray)
    begun = programs(folder)
    # sh <- what is in a guard's place <- stand-in <- Ray worker
    (_, _, _, worker, *_), (_, guard, *_) = (psutil.Process(int(process)).parents() for process, _ in begun)
    assert worker in cluster.workers()
    assert guard in cluster.guards()
    worker.kill()
    guard.kill()
    check_gone(begun)
    (folder.parent / "go").touch()
    assert driver.wait() == 0, driver.stderr
    kept = "1 archive already done"
    assert driver.stderr == f"splitter: 6 samples done, 6 made, 0 failed; {kept}\n"
    assert launcher.run("tar", "map", "in-{0..2}.tar", "-o", "local-{}.tar", "-c", ":").code == 0
    assert outputs(folder, "out-") == outputs(folder, "local-")


@pytest.mark.parametrize(("number", "private"), [(signal.SIGTERM, NIGHTLY), (signal.SIGKILL, False)])
def test_nothing_is_left_of_a_job_that_is_ended(
    launcher: Launcher, folder: Path, on_ray: list[str], number: int, private: bool
):
    """Neither half an archive nor a program; on the nodes of a cluster also when the driver is just gone."""
    driver = begin_to_wait(launcher, folder, on_ray[:2] if private else on_ray)
    driver.signal(number, group=False)
    assert driver.wait() == (143 if number == signal.SIGTERM else -number)
    check_gone(programs(folder))
    there = ["in-0.tar", "in-1.tar", "in-2.tar", "out-2.tar"]
    eventually(lambda: sorted(tree(folder)) == there, lambda: f"there: {sorted(tree(folder))}")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (
            ["in-0.tar", "-o", "out.tar", "--executor", "ray"],
            "--executor ray: runs one task for each archive",
        ),
        (["-", "-o", "out-{}.tar", "--executor", "ray"], "--executor ray: runs one task for each archive"),
        (["in-{0..1}.tar", "-o", "out-{}.tar", "--address", "auto"], "--address auto: needs --executor ray"),
        (["in-{0..1}.tar", "-o", "no://b/{}.tar", "--executor", "ray"], "no://b/0.tar: Protocol not known"),
    ],
)
def test_what_cannot_be_is_refused(folder, capfd, monkeypatch, given, expected):
    """One line, and nothing is written."""
    shards(folder, 2)
    monkeypatch.chdir(folder)
    said = here(capfd, "tar", "map", *given, "-c", ":")
    assert said.code == 2
    assert len(said.lines) == 1
    assert said.lines[0].startswith(f"splitter: {expected}")
    assert sorted(tree(folder)) == ["in-0.tar", "in-1.tar"]
