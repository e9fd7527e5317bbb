"""Runs on a Ray cluster that loses workers, nodes and drivers."""

import signal
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import psutil
import pytest
from doors import read_table
from executors.ray_nodes import PATH_OF_WORKERS, RayNodes, with_variable
from faulty import noted
from launcher import (
    Driver,
    Launcher,
    check_complete,
    check_manifest,
    eventually,
    left_in,
    make_inputs,
    published,
    signal_all,
)
from nightly import NIGHTLY

from splitter import read_output
from splitter.system.reaper import VARIABLE
from splitter.testing.executors import good_inputs

RECIPES = Path(__file__).parent / "ray_recipes.py"
SECONDS_TO_STALL = 60.0
SECONDS_TO_LEAVE = 60.0


class Work:
    """A dataset, what comes of it without Ray, and runs of it with Ray."""

    def __init__(self, launcher: Launcher, cluster: RayNodes, folder: Path) -> None:
        self.launcher, self.cluster, self.folder = launcher, cluster, folder
        self.output, self.log = folder / "outputs", folder / "log"
        launcher.environ.update(cluster.environ, SPLITTER_TEST=str(folder))

    def inputs(self, texts: dict[str, str]) -> None:
        """The inputs to work on."""
        self.dataset = make_inputs(self.folder / "data", texts)
        recipe = ("--recipe", f"{RECIPES}:Located", "--log", self.log)
        self.fixed = ("run", self.dataset, *recipe)

    def expected(self) -> dict[str, bytes]:
        """What one process makes of them."""
        output = self.folder / "local"
        run = self.launcher.run(*self.fixed, "--output", output, "--workers", 0)
        assert run.code == 0, run.stderr
        self.log.unlink()
        return published(output)

    def start(
        self, *options: object, private: bool = False, environ: Mapping[str, str] = MappingProxyType({})
    ) -> Driver:
        """Begin a run on the cluster, or on a private one."""
        self.launcher.elsewhere = None if private else self.cluster
        address = () if private else ("--address", self.cluster.address)
        ray = ("--executor", "ray", *address, "--output", self.output)
        environ = {"PYTHONPATH": PATH_OF_WORKERS, **environ}
        return self.launcher.start(*self.fixed, *ray, *options, environ=environ)

    def hold(self, free: int) -> None:
        """When so many inputs were begun the others are not done, however slow this test is."""
        self.log.with_suffix(".hold").write_text(str(free))

    def let_go(self) -> None:
        """They are done."""
        self.log.with_suffix(".hold").unlink()

    def begun(self, count: int = 1) -> bool:
        """Whether so many inputs were begun."""
        return len(noted(self.log, "node")) >= count

    def private_rays(self) -> list[psutil.Process]:
        """The processes of private Rays that its runs have started; others may have theirs."""
        ours = {process.pid for process in with_variable("SPLITTER_TEST", str(self.folder))}
        return [process for process in with_variable(VARIABLE) if process.pid in ours]


@pytest.fixture
def work(launcher: Launcher, cluster: RayNodes, folder: Path) -> Work:
    return Work(launcher, cluster, folder)


def no_noise(run: Driver) -> None:
    """What it said is splitter's, and none of it is Ray's."""
    assert not run.stdout
    for line in run.stderr.splitlines():
        assert not line.startswith(("(", "[", "Traceback", " ")), run.stderr
        assert "ray::" not in line, run.stderr


@pytest.mark.parametrize("kind", ["workers", "guards", "runners"])
def test_processes_killed(work: Work, kind: str):
    """Whatever is killed on a node, the run starts it again and leaves what an undisturbed one leaves."""
    work.inputs(good_inputs(40))
    expected = work.expected()
    work.hold(0)
    run = work.start("--batch-size", 5)
    run.until(lambda: work.begun(2))
    kinds = {
        "workers": work.cluster.workers,
        "guards": work.cluster.guards,
        "runners": work.cluster.runners,
    }
    signal_all(kinds[kind](), signal.SIGKILL)
    work.let_go()
    assert run.wait() == 0, run.stderr
    assert ("a worker process was lost" in run.stderr) == (kind != "runners")
    check_complete(work.output, expected)
    no_noise(run)


def test_a_node_lost_in_the_middle_of_its_batches(work: Work):
    """When a node is gone, the others do its batches: identical, and the run hardly stalls."""
    work.inputs(good_inputs(60))
    expected = work.expected()
    node = work.cluster.add(num_cpus=2)
    raylet = work.cluster.raylets()[-1]
    work.hold(5)
    run = work.start("--batch-size", 5)
    run.until(lambda: str(raylet) in noted(work.log, "node"))
    # what is left of the node for a moment publishes the end of its log, which Ray prints
    psutil.Process(raylet).kill()
    time.sleep(1)
    work.cluster.remove(node)
    work.let_go()
    began = time.monotonic()
    assert run.wait() == 0, run.stderr
    assert time.monotonic() - began < SECONDS_TO_STALL
    assert run.stderr.count("a node of the cluster is gone") == 1
    assert "a worker process was lost" in run.stderr
    assert len(set(noted(work.log, "node"))) > 1
    check_complete(work.output, expected)
    no_noise(run)


def test_a_worker_lost_after_its_commit(work: Work):
    """A batch whose outputs are in place is done, though nobody has heard of it: no row comes twice."""
    work.inputs({**good_inputs(7), "last.txt": "stop the Ray worker"})
    run = work.start("--batch-size", 8)
    records = work.output / ".splitter" / "records"
    run.until(lambda: [name for name in records.glob("*") if not name.name.endswith(".begun")])
    run.until(lambda: not list(records.glob("*.begun")))
    signal_all(work.cluster.workers(), signal.SIGKILL)
    assert run.wait() == 0, run.stderr
    rows = check_manifest(work.output)
    assert len(rows) == 2 * 8
    assert len({row["output"] for row in rows}) == len(rows)
    # each input was done once
    assert len(noted(work.log, "node")) == 8


@pytest.mark.parametrize(
    ("mates", "options"),
    [(19, ["--batch-size", 10]), (19, ["--sink", "webdataset"])],
    ids=["in a batch", "in a shard"],
)
def test_an_input_that_ends_its_ray_worker_each_time(work: Work, mates: int, options: list[object]):
    """It is found among its batch mates, which are done, and is one row in errors.csv."""
    work.inputs({**good_inputs(mates), "bad.txt": "kill the Ray worker"})
    run = work.start(*options, "--workers", 2)
    assert run.wait() == 1, run.stderr
    [row] = read_table(work.output / "errors.csv")
    assert (row["input"], row["error"]) == ("bad.txt", "Crashed")
    assert "its worker was killed 3 times with only this input" in row["message"]
    made = read_table(work.output / "manifest.csv")
    assert len(made) == 2 * mates
    for row in made:
        # refuses what has not the size and the checksum of the row
        read_output(row, work.output)
    no_noise(run)


@pytest.mark.parametrize("death", ["driver", "guards", "Ctrl-C"] if NIGHTLY else ["driver", "Ctrl-C"])
@pytest.mark.parametrize("step", range(2, 6) if NIGHTLY else [3])
def test_an_exchange_of_shards_that_dies(work: Work, death: str, step: int):
    """Whoever dies while a runner keeps its promise, the next run brings it to its end: nothing is lost."""
    texts = good_inputs(7)
    work.inputs(texts)
    sink = ("--recipe", f"{RECIPES}:Held", "--sink", "webdataset", "--shard-maxcount", 4)
    work.fixed = (*work.fixed, *sink)
    expected = work.expected()
    all_of_it = work.dataset.read_bytes()
    work.dataset.write_bytes(b"".join(all_of_it.splitlines(keepends=True)[:-2]))
    first = work.start("--workers", 1)
    assert first.wait() == 0, first.stderr
    work.dataset.write_bytes(all_of_it)
    hold = work.log.with_suffix(".step")
    hold.write_text(str(step))
    run = work.start("--workers", 1)
    run.until(lambda: noted(work.log, "held"))
    if death == "guards":
        hold.unlink()
        signal_all(work.cluster.guards(), signal.SIGKILL)
        assert run.wait() == 0, run.stderr
    else:
        if death == "driver":
            run.kill()
        else:
            run.signal(signal.SIGINT)
        run.wait(2 * SECONDS_TO_LEAVE)
        eventually(lambda: not run.others(), lambda: str(run.others()), SECONDS_TO_LEAVE)
        hold.unlink()
    again = work.start("--workers", 1)
    assert again.wait() == 0, again.stderr
    check_samples(work.output, expected)


def check_samples(output: Path, expected: Mapping[str, bytes]) -> None:
    """The same shards and tables as of a run that nobody disturbed, and each sample is what its row says."""
    assert published(output) == expected
    for row in read_table(output / "manifest.csv"):
        read_output(row, output)


def test_a_cluster_that_shrinks_to_nothing(work: Work):
    """When no node is left that could do a batch the run waits, and goes on when one comes."""
    work.inputs(good_inputs(30))
    expected = work.expected()
    node = work.cluster.add(num_cpus=1, resources={"spot": 1})
    work.hold(6)
    run = work.start("--batch-size", 5, "--resources", "spot=1")
    run.until(lambda: work.begun(7))
    work.cluster.remove(node)
    run.until(lambda: not work.cluster.guards())
    time.sleep(1)
    assert run.poll() is None, run.stderr
    work.let_go()
    again = work.cluster.add(num_cpus=1, resources={"spot": 1})
    try:
        assert run.wait() == 0, run.stderr
    finally:
        work.cluster.remove(again)
    check_complete(work.output, expected)
    no_noise(run)


def test_a_cluster_that_has_to_grow_first(work: Work):
    """A run that is told so waits for the first node that could do a batch, and asks for it."""
    work.inputs(good_inputs(6))
    expected = work.expected()
    run = work.start("--batch-size", 2, "--resources", "late=1", "--workers", "1:2")
    run.until(lambda: "the cluster has room for 0 batches at a time now" in run.stderr)
    node = work.cluster.add(num_cpus=1, resources={"late": 1})
    try:
        assert run.wait() == 0, run.stderr
    finally:
        work.cluster.remove(node)
    check_complete(work.output, expected)


# -- the driver -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("private", [False, True])
def test_the_driver_killed(work: Work, private: bool):
    """Its workers are gone within seconds, and so is a private Ray with its folder; the next run goes on."""
    work.inputs(good_inputs(30))
    expected = work.expected()
    work.hold(5)
    run = work.start("--batch-size", 2, "--workers", 2, private=private)
    run.until(lambda: work.begun(6))
    theirs = work.private_rays()
    assert bool(theirs) == private
    folders = {folder for process in theirs for folder in folders_of(process)}
    assert bool(folders) == private
    run.kill()
    eventually(
        lambda: not (run.others() or work.private_rays()),
        lambda: f"still there: {run.others()}, {work.private_rays()}",
        SECONDS_TO_LEAVE,
    )
    eventually(lambda: not any(folder.exists() for folder in folders), lambda: str(folders), SECONDS_TO_LEAVE)
    work.let_go()
    again = work.start("--workers", 2)
    assert again.wait() == 0, again.stderr
    check_complete(work.output, expected)


@pytest.mark.parametrize("private", [False, True])
def test_ctrl_c(work: Work, private: bool):
    """Exit code 130 in little time, with a manifest of what is committed, and nothing left at work."""
    work.inputs(good_inputs(60))
    work.hold(8)
    run = work.start("--batch-size", 2, "--workers", 2, private=private)
    run.until(lambda: work.begun(9))
    run.signal(signal.SIGINT)
    assert run.wait(SECONDS_TO_LEAVE) == 130, run.stderr
    assert "interrupted; finished work is kept; run the same command to continue" in run.stderr
    no_noise(run)
    run.check_gone()
    assert work.private_rays() == []
    rows = check_manifest(work.output)
    assert 0 < len(rows) < 2 * 60
    assert not list((work.output / ".splitter" / "records").glob("*.begun"))
    assert run.others() == []


def test_a_signal_while_the_driver_waits_in_rays_own_code(work: Work):
    """Ray makes a plain KeyboardInterrupt of it there; the exit code still says which signal it was."""
    work.inputs(good_inputs(3))
    run = work.start("--seconds", 60, "--workers", 2)
    run.until(work.begun)
    time.sleep(1)
    run.signal(signal.SIGTERM)
    assert run.wait(SECONDS_TO_LEAVE) == 143, run.stderr
    assert "interrupted; finished work is kept; run the same command to continue" in run.stderr
    no_noise(run)
    run.check_gone()


def test_ctrl_c_while_ray_starts(work: Work):
    """It is no different before there is anything to interrupt."""
    work.inputs(good_inputs(3))
    run = work.start(private=True)
    run.until(work.private_rays)
    run.signal(signal.SIGINT)
    assert run.wait(SECONDS_TO_LEAVE) == 130, run.stderr
    no_noise(run)
    assert work.private_rays() == []


def test_two_private_rays_at_a_time(work: Work):
    """Each is its own, whatever address the environment names and however long the path of its folder is."""
    work.inputs(good_inputs(10))
    expected = work.expected()
    temporary = work.folder / "a temporary folder with a long name"
    temporary.mkdir()
    environ = {"RAY_ADDRESS": work.cluster.address, "TMPDIR": str(temporary)}
    outputs = [work.folder / "first", work.folder / "second"]
    runs = [
        work.start("--seconds", 0.2, "--workers", 1, "--output", output, private=True, environ=environ)
        for output in outputs
    ]
    for run in runs:
        assert run.wait() == 0, run.stderr
        no_noise(run)
    assert len(set(noted(work.log, "node"))) == 2
    assert not {*noted(work.log, "node")} & {*map(str, work.cluster.raylets())}
    for output in outputs:
        check_complete(output, expected)
    assert work.private_rays() == []
    assert left_in(temporary) == []


def test_a_second_ctrl_c(work: Work):
    """It ends the driver at once, and the private Ray within seconds."""
    work.inputs(good_inputs(30))
    run = work.start("--seconds", 0.5, "--workers", 2, private=True)
    run.until(lambda: work.begun(1))
    run.signal(signal.SIGINT)
    time.sleep(0.1)
    run.signal(signal.SIGINT)
    assert run.wait(SECONDS_TO_LEAVE) == 130, run.stderr
    eventually(lambda: not work.private_rays(), lambda: str(work.private_rays()), SECONDS_TO_LEAVE)


def folders_of(process: psutil.Process) -> list[Path]:
    """The temporary folders that are named in its command line."""
    found = []
    for word in process.cmdline():
        for part in word.replace("=", " ").split():
            path = Path(part)
            found += [one for one in [path, *path.parents] if one.name.startswith("splitter-")]
    return found
