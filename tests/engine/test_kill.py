"""Processes killed with SIGKILL at random moments: nothing is lost, nothing is left behind."""

import contextlib
import os
import random
import shutil
import signal
import time
import uuid
from collections.abc import Iterator, Mapping
from copy import copy
from pathlib import Path

import psutil
import pytest
from doors import tree
from faulty import HOLD, noted
from launcher import (
    FAULTY,
    Driver,
    Launcher,
    LauncherProcess,
    check_complete,
    check_manifest,
    eventually,
    make_inputs,
    signal_all,
    with_argument,
)
from nightly import depth

TRIALS = depth(3)
SMALL, LARGE = 3, 7


class Work:
    """Some inputs, what they must become, and how long a run takes when nobody disturbs it."""

    def __init__(self, launcher: Launcher, folder: Path) -> None:
        self.launcher, self.folder = launcher, folder
        texts = {
            f"part {number % 4}/wörd {number}.txt": f"text {number} " * (number % 7) for number in range(36)
        }
        self.dataset = make_inputs(folder / "data", texts)
        self.trees: dict[int, dict[str, bytes]] = {}
        for size in (SMALL, LARGE):
            began = time.monotonic()
            run = self.start(self.finished(size), size)
            assert run.wait() == 0, run.stderr
            self.seconds = time.monotonic() - began
            self.trees[size] = tree(self.finished(size))

    def finished(self, size: int) -> Path:
        """The output folder of a run that nobody disturbed."""
        return self.folder / f"finished {size}"

    def start(self, output: Path, size: int, *options: object) -> Driver:
        recipe = ("--recipe", f"{FAULTY}:Parts", "--size", size, "--seconds", 0.01)
        fixed = ("--output", output, "--workers", 2, "--batch-size", 3)
        held = {HOLD: str(self.folder / "hold")}
        return self.launcher.start("run", self.dataset, *recipe, *fixed, *options, environ=held)

    def hold(self) -> None:
        """No input is done that is not done yet, however slow this test is."""
        (self.folder / "hold").write_text("")

    def let_go(self) -> None:
        (self.folder / "hold").unlink(missing_ok=True)


@pytest.fixture(scope="module")
def undisturbed(
    launcher_process: LauncherProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Work]:
    """The inputs of all tests, and what undisturbed runs make of them."""
    folder = tmp_path_factory.mktemp("work")
    launcher = Launcher(launcher_process, folder)
    yield Work(launcher, folder)
    launcher.end()


@pytest.fixture
def work(undisturbed: Work, launcher: Launcher) -> Iterator[Work]:
    """The same, for runs of one test."""
    work = copy(undisturbed)
    work.launcher = launcher
    yield work
    work.let_go()


def check_whole(output: Path, *trees: Mapping[str, bytes]) -> None:
    """What is visible is whole: each output is that of one finished run or another; the manifest too."""
    for name, content in tree(output).items():
        assert content in [one.get(name) for one in trees], name
    check_manifest(output)


# -- the driver -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("begin_with", ["nothing", "other parameters"])
def test_the_driver_killed_at_random_moments(
    work: Work, folder: Path, chance: random.Random, begin_with: str
):
    """However often it is killed, the run that comes through leaves what an undisturbed one leaves."""
    for trial in range(TRIALS):
        output = folder / f"outputs {trial}"
        old, new = chance.sample([SMALL, LARGE], 2)
        if begin_with == "other parameters":
            shutil.copytree(work.finished(old), output, symlinks=True)
        for _ in range(chance.randint(1, 2)):
            driver = work.start(output, new)
            time.sleep(chance.uniform(0, work.seconds))
            driver.kill()
            if chance.random() < 0.5:
                # the node dies, not only the driver
                for process in driver.others():
                    with contextlib.suppress(psutil.Error):
                        process.kill()
            assert driver.wait() in (-signal.SIGKILL, 0), driver.stderr
            if chance.random() < 0.5:
                # else the next run meets the dead run's workers
                driver.check_gone()
                check_whole(output, *work.trees.values())
        last = work.start(output, new)
        assert last.wait() == 0, last.stderr
        check_complete(output, work.trees[new])
        shutil.rmtree(output)


def test_workers_are_gone_after_the_driver(launcher: Launcher, folder: Path):
    """When the driver is killed, busy workers and what user code has started are gone within seconds."""
    log, token = folder / "log", uuid.uuid4().hex
    dataset = make_inputs(folder / "data", {"a.txt": "hang in C", "b.txt": "hang", "c.txt": "one"})
    recipe = ("--recipe", f"{FAULTY}:Parent", "--log", log, "--token", token)
    driver = launcher.start("run", dataset, *recipe, "--output", folder / "outputs", "--workers", 2)
    driver.until(lambda: len(noted(log, "started")) >= 2)
    assert len(driver.guards()) == 2
    assert len(driver.others()) >= 2 + 2 + 2 * 4
    driver.until(lambda: len(with_argument(token)) >= 2 * 3)
    guards = driver.guards()
    driver.kill()
    # they are told of its death once for each of its threads, so maybe when they are at it already
    for _ in range(20):
        for guard in guards:
            with contextlib.suppress(psutil.Error):
                guard.terminate()
        time.sleep(0.002)
    driver.check_gone()
    assert with_argument(token) == []


def test_a_new_run_waits_for_a_dead_runs_workers(work: Work, folder: Path):
    """A run that is started while workers of a killed one still live waits for them, and then continues."""
    output = folder / "outputs"
    work.hold()
    dead = work.start(output, SMALL)
    dead.until(dead.runners)
    workers = dead.others()
    signal_all(workers, signal.SIGSTOP)
    dead.kill()
    dead.wait()
    work.let_go()
    new = work.start(output, SMALL)
    time.sleep(1)
    assert new.guards() == []
    assert (output / ".splitter" / "lock").read_text().split()[1] == str(dead.pid)
    signal_all(workers, signal.SIGCONT)
    assert new.wait() == 0, new.stderr
    check_complete(output, work.trees[SMALL])


def test_a_killed_run_whose_end_nobody_has_seen(work: Work, folder: Path):
    """A killed driver is dead, also while the program that started it has not asked how it ended."""
    output = folder / "outputs"
    work.hold()
    dead = work.start(output, SMALL)
    dead.until(dead.runners)
    workers = dead.others()
    signal_all(workers, signal.SIGSTOP)
    dead.kill()
    work.let_go()
    eventually(lambda: psutil.Process(dead.pid).status() == psutil.STATUS_ZOMBIE, lambda: "no zombie")
    new = work.start(output, SMALL)
    time.sleep(0.5)
    signal_all(workers, signal.SIGCONT)
    assert new.wait() == 0, new.stderr
    check_complete(output, work.trees[SMALL])


# -- a guard, a runner --------------------------------------------------------------------------------------


def kill_one_of(processes: list[psutil.Process], chance: random.Random) -> bool:
    if not processes:
        return False
    with contextlib.suppress(psutil.Error):
        chance.choice(processes).kill()
    return True


def test_runners_killed_at_random_moments(work: Work, folder: Path, chance: random.Random):
    """A runner that is killed from outside costs nothing but time: no input is to blame."""
    for trial in range(depth(2)):
        output = folder / f"outputs {trial}"
        driver = work.start(output, SMALL)
        for _ in range(2):
            driver.until(lambda: driver.runners() or driver.poll() is not None)  # noqa: B023
            time.sleep(chance.uniform(0, work.seconds / 2))
            kill_one_of(driver.runners(), chance)
        assert driver.wait() == 0, driver.stderr
        check_complete(output, work.trees[SMALL])


def committed(output: Path) -> list[Path]:
    """The records of what is done."""
    return [path for path in (output / ".splitter" / "records").iterdir() if path.suffix != ".begun"]


@pytest.mark.parametrize("killed", ["both", "one, then another"])
def test_guards_killed_at_random_moments(work: Work, folder: Path, chance: random.Random, killed: str):
    """When a guard is killed the run starts another for what is not committed, and comes to its end."""
    output = folder / "outputs"
    driver = work.start(output, SMALL, "--seconds", 0.1)
    driver.until(lambda: len(driver.runners()) == 2)
    # by what is done, not by the clock: however slow the machine is now, eight of twelve batches are left
    done = chance.randint(0, 4)
    driver.until(lambda: len(committed(output)) >= done)
    work.hold()
    time.sleep(chance.uniform(0, 0.1))
    first = driver.guards()
    for guard in first if killed == "both" else first[:1]:
        guard.kill()
    if killed == "one, then another":
        driver.until(lambda: set(driver.guards()) - set(first))
        time.sleep(chance.uniform(0, 0.3))
        kill_one_of([guard for guard in driver.guards() if guard not in first], chance)
    work.let_go()
    assert driver.wait() == 0, driver.stderr
    assert "a worker process was lost" in driver.stderr
    assert "Traceback" not in driver.stderr
    check_complete(output, work.trees[SMALL])
    assert driver.others() == []


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_guards_killed_while_they_are_started(work: Work, folder: Path, number: int):
    """A guard that is killed before all of them are there is a lost one as any other."""
    for trial in range(depth(1)):
        output = folder / f"outputs {trial}"
        work.hold()
        driver = work.start(output, SMALL, "--workers", 8)
        driver.until(driver.guards)
        signal_all(driver.guards(), number)
        work.let_go()
        assert driver.wait() == 0, driver.stderr
        assert "a worker process was lost" in driver.stderr
        assert "Traceback" not in driver.stderr
        check_complete(output, work.trees[SMALL])
        assert driver.others() == []


def test_children_end_with_their_guard(launcher: Launcher, folder: Path):
    """What user code has started ends with the run even if the guard is killed that should see to it.

    What has made itself a session of its own, as daemons do, is then out of reach.
    """
    log, token = folder / "log", uuid.uuid4().hex
    dataset = make_inputs(folder / "data", {"a.txt": "one", "b.txt": "hang once"})
    recipe = ("--recipe", f"{FAULTY}:Parent", "--log", log, "--token", token)
    driver = launcher.start("run", dataset, *recipe, "--output", folder / "outputs", "--workers", 1)
    driver.until(lambda: len(noted(log, "started")) == 2)
    [guard] = driver.guards()
    guard.kill()
    assert driver.wait() == 0, driver.stderr
    assert {process.pid for process in driver.others() if os.getsid(process.pid) != process.pid} == set()
