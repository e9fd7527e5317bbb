"""Ctrl-C, SIGTERM, SIGHUP: workers gone within two seconds, the manifest valid, everything committed kept."""

import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from doors import CHECKOUT, Said, program, read_table, tree, write_files, write_list
from faulty import noted
from launcher import (
    FAULTY,
    LONG,
    SIGNALS,
    Driver,
    Launcher,
    check_complete,
    check_manifest,
    environment,
    eventually,
    in_time,
    make_inputs,
    writing_to,
)
from nightly import depth

from splitter.errors import Interrupted
from splitter.system.signals import not_interrupted, signals_blocked, signals_raise

SECONDS_TO_LEAVE = 2.0
NOISE = ("Traceback", "Exception ignored", "Error:", "killed by signal")


class Busy:
    """Six inputs that are done at once, four that never end, and four that come after them."""

    def __init__(self, launcher: Launcher, folder: Path) -> None:
        self.launcher, self.folder = launcher, folder
        self.log, self.output = folder / "log", folder / "outputs"
        self.texts = {f"{number:02d}.txt": f"text {number}" for number in range(14)}
        self.endless = dict.fromkeys(["06.txt", "08.txt"], "hang") | dict.fromkeys(
            ["07.txt", "09.txt"], "hang in C"
        )
        self.dataset = make_inputs(folder / "data", {**self.texts, **self.endless})

    def start(self, *options: object, workers: int = 2, ignored: tuple[int, ...] = ()) -> Driver:
        recipe = ("--recipe", f"{FAULTY}:Faulty", "--log", self.log)
        fixed = ("--output", self.output, "--workers", workers, "--batch-size", 1)
        return self.launcher.start("run", self.dataset, *recipe, *fixed, *options, ignored=ignored)

    def is_busy(self, workers: int = 2) -> bool:
        """Whether so many workers are at inputs that do not end."""
        return len(self.endless.keys() & set(noted(self.log, "process"))) == workers

    def until_busy(self, driver: Driver, workers: int = 2) -> None:
        """Wait until so many workers are at inputs that do not end."""
        driver.until(lambda: self.is_busy(workers))

    def committed(self) -> list[str]:
        """The inputs in the manifest, in order, each output being there."""
        return list(dict.fromkeys(row["input"] for row in check_manifest(self.output)))

    def mend(self) -> None:
        """Let every input end."""
        write_files(self.folder / "data", {name: self.texts[name] for name in self.endless})

    def check_next_run(self) -> None:
        """When nothing hangs any more, the next run completes what is there, and does nothing twice."""
        self.mend()
        fresh = self.start("--output", self.folder / "fresh")
        assert fresh.wait() == 0, fresh.stderr
        self.log.unlink()
        last = self.start()
        assert last.wait() == 0, last.stderr
        assert sorted(noted(self.log, "process")) == list(self.texts)[6:]
        check_complete(self.output, tree(self.folder / "fresh"))


@pytest.fixture
def busy(launcher: Launcher, folder: Path) -> Busy:
    """A run whose workers come to inputs that do not end."""
    return Busy(launcher, folder)


def quiet(driver: Driver) -> bool:
    """No traceback and no complaint of a worker or of Python itself."""
    return not any(noise in driver.stderr for noise in NOISE)


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: signal.Signals(number).name)
@pytest.mark.parametrize("group", [True, False], ids=["to the group", "to the driver"])
def test_a_signal_ends_a_busy_run(busy: Busy, number: int, group: bool):
    """The exit code names the signal, busy workers are gone in two seconds, and what is committed is kept."""

    def seconds_to_leave() -> float:
        busy.log.unlink(missing_ok=True)
        shutil.rmtree(busy.output, ignore_errors=True)
        driver = busy.start()
        busy.until_busy(driver)
        began = time.monotonic()
        driver.signal(number, group=group)
        eventually(lambda: not driver.others(), lambda: f"still there: {driver.others()}")
        seconds = time.monotonic() - began
        assert driver.wait() == 128 + number
        assert quiet(driver), driver.stderr
        assert "interrupted; finished work is kept; run the same command to continue" in driver.stderr
        assert "6 of 14 inputs done" in driver.stderr
        return seconds

    assert in_time(SECONDS_TO_LEAVE, seconds_to_leave)
    assert busy.committed() == [f"{number:02d}.txt" for number in range(6)]
    assert read_table(busy.output / "errors.csv") == []
    if number == signal.SIGINT and group:
        busy.check_next_run()


def test_an_interrupted_redo(busy: Busy):
    """After a change of parameter: what was not reached is counted apart, and the manifest is without it."""
    busy.mend()
    assert busy.start("--seconds", 0.001).wait() == 0
    assert len(busy.committed()) == 14
    write_files(busy.folder / "data", busy.endless)
    busy.log.unlink()
    driver = busy.start()
    busy.until_busy(driver)
    driver.signal(signal.SIGINT)
    assert driver.wait() == 130
    assert "6 of 14 inputs done, 8 waiting to be redone after a change" in driver.stderr
    assert busy.committed() == [f"{number:02d}.txt" for number in range(6)]
    busy.check_next_run()


MOMENTS = ("splitter.errors", "click", "splitter.cli.main", "torch")


@pytest.mark.slow
@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: signal.Signals(number).name)
def test_a_signal_while_the_program_starts(folder: Path, number: int):
    """Whatever is being imported, it ends at once, without a word and with the exit code of the signal."""
    write_list(folder / "l.csv", [["input"], ["a.txt"]])
    strike = (
        "import os, sys\n"
        "class Strike:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == os.environ['STRIKE_AT']:\n"
        f"            os.kill(os.getpid(), {number})\n"
        "sys.meta_path.insert(0, Strike())\n"
    )
    (folder / "sitecustomize.py").write_text(strike)
    path = os.pathsep.join([str(folder), str(CHECKOUT)])
    for module in MOMENTS:
        said = program("run", "l.csv", cwd=folder, PYTHONPATH=path, STRIKE_AT=module)
        assert said == Said(128 + number, "", ""), module
    # from here on it is known what is to be run
    said = program("run", "l.csv", cwd=folder, PYTHONPATH=path, STRIKE_AT="splitter.engine.main")
    assert said == Said(128 + number, "", "interrupted; nothing was done yet\n")
    if number == signal.SIGINT:
        said = program("run", "l.csv", cwd=folder, PYTHONPATH=path, STRIKE_AT="none")
        assert said.code == 1


def test_a_signal_is_left_to_those_who_import_the_package():
    """Only the program itself changes what signals do."""
    code = "import signal, splitter; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
    assert program(python=["-c", code]).out == "True\n"


class Strikes:
    """Its end comes with a signal, where Python ignores what is raised."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __del__(self) -> None:
        os.kill(os.getpid(), self.number)
        # the handler has its turn
        sum(range(10))


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: signal.Signals(number).name)
def test_a_signal_that_strikes_where_python_ignores_it(number: int):
    """As in a fork of Ray's: it is not lost, and Python does not complain."""
    before = sys.unraisablehook

    def be_struck() -> None:
        Strikes(number)
        time.sleep(20)

    with pytest.raises(Interrupted) as raised, signals_raise():
        be_struck()
    assert raised.value.signal_number == number
    assert sys.unraisablehook is before


def test_a_signal_that_strikes_while_a_lock_is_taken():
    """It leaves no lock taken, for which a thread would wait forever, and the program for the thread."""
    lock = threading.Lock()
    condition = threading.Condition(lock)

    def be_struck() -> None:
        threading.Timer(0.002, os.kill, (os.getpid(), signal.SIGINT)).start()
        while True:
            with condition:
                pass

    for _ in range(20):
        with pytest.raises(Interrupted), signals_raise():
            be_struck()
        assert not lock.locked()


def _strike(done: list[str]) -> None:
    """Be struck by a signal, and go on for a while."""
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.05)
    done.append("all")


def test_a_signal_that_strikes_in_a_function_that_must_end():
    """A message that is read by half would be lost, and those after it."""
    done: list[str] = []

    @not_interrupted
    def whole() -> None:
        _strike(done)

    def be_struck() -> None:
        whole()
        time.sleep(60)

    with pytest.raises(Interrupted), signals_raise():
        be_struck()
    assert done == ["all"]


def test_a_signal_that_another_thread_receives_while_this_one_has_blocked_it():
    """Python raises it in the main thread, whichever thread received it."""
    done: list[str] = []
    ended = threading.Event()
    other = threading.Thread(target=ended.wait, daemon=True)
    other.start()

    def be_struck() -> None:
        with signals_blocked():
            _strike(done)
        time.sleep(60)

    with pytest.raises(Interrupted), signals_raise():
        be_struck()
    ended.set()
    other.join()
    assert done == ["all"]


def test_an_interrupted_run_that_is_quiet(busy: Busy):
    """Under --quiet an interrupted run says one line."""
    driver = busy.start("--quiet")
    busy.until_busy(driver)
    driver.signal(signal.SIGINT)
    assert driver.wait() == 130
    line = "interrupted; finished work is kept; run the same command to continue"
    assert driver.stderr.splitlines() == [line]


def test_a_second_interrupt(busy: Busy):
    """A second Ctrl-C ends the run at once, wherever it is in its shutdown; the next run continues."""
    for delay in (0.0, 0.003, 0.01, 0.03, 0.1):
        busy.log.unlink(missing_ok=True)
        driver = busy.start()
        busy.until_busy(driver)
        driver.signal(signal.SIGINT)
        time.sleep(delay)
        driver.signal(signal.SIGINT)
        assert driver.wait() == 130
        assert quiet(driver), driver.stderr
        driver.check_gone()
    busy.check_next_run()


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: signal.Signals(number).name)
def test_a_signal_without_workers(busy: Busy, number: int):
    """With workers=0 a signal reaches user code; it ends the run, and is not that input's error."""
    write_files(busy.folder / "data", {"06.txt": "sleep"})
    driver = busy.start(workers=0)
    busy.until_busy(driver, 1)
    driver.signal(number)
    assert driver.wait() == 128 + number
    assert quiet(driver), driver.stderr
    assert busy.committed() == [f"{number:02d}.txt" for number in range(6)]
    assert read_table(busy.output / "errors.csv") == []
    if number == signal.SIGINT:
        busy.check_next_run()


def test_user_code_that_holds_on_without_workers(busy: Busy):
    """With workers=0, user code that swallows every exception is ended by the second Ctrl-C."""
    driver = busy.start(workers=0)
    busy.until_busy(driver, 1)
    driver.signal(signal.SIGINT)
    # the first may strike before the code holds on, and while the driver stands still two are one
    while driver.poll() is None:
        time.sleep(0.2)
        driver.signal(signal.SIGINT)
    assert driver.wait() == 130
    assert quiet(driver), driver.stderr
    busy.check_next_run()


def test_a_signal_that_was_ignored_before(busy: Busy):
    """Under nohup, SIGHUP does not end a run; under a shell script's `&`, Ctrl-C does not."""
    driver = busy.start(ignored=(signal.SIGHUP, signal.SIGINT))
    busy.until_busy(driver)
    driver.signal(signal.SIGHUP)
    driver.signal(signal.SIGINT)
    time.sleep(0.3)
    assert driver.poll() is None
    assert len(driver.guards()) == 2
    driver.signal(signal.SIGTERM)
    assert driver.wait() == 143


def test_interrupts_at_random_moments(launcher: Launcher, folder: Path, chance: random.Random):
    """Wherever Ctrl-C strikes: no noise, a valid manifest, and the runs add up to a whole one."""
    texts = {f"part {number % 4}/{number}.txt": f"text {number} " * (number % 7) for number in range(36)}
    dataset = make_inputs(folder / "data", texts)
    recipe = ("--recipe", f"{FAULTY}:Parts", "--seconds", 0.01, "--workers", 2, "--batch-size", 3)
    began = time.monotonic()
    whole = launcher.run("run", dataset, *recipe, "--output", folder / "whole")
    seconds = time.monotonic() - began
    assert whole.code == 0, whole.stderr
    for trial in range(depth(3)):
        output = folder / f"outputs {trial}"
        for _ in range(chance.randint(1, 2)):
            driver = launcher.start("run", dataset, *recipe, "--output", output)
            time.sleep(chance.uniform(0, seconds))
            driver.signal(signal.SIGINT)
            assert driver.wait() in (130, 0), driver.stderr
            assert quiet(driver), driver.stderr
            assert driver.others() == []
            check_manifest(output)
        last = launcher.run("run", dataset, *recipe, "--output", output)
        assert last.code == 0, last.stderr
        check_complete(output, tree(folder / "whole"))


def test_interrupts_while_the_list_is_looked_at(launcher: Launcher, folder: Path, chance: random.Random):
    """Ctrl-C ends a run that has not come to its inputs yet, and the helpers that look at them."""
    dataset = write_list(
        folder / "dataset.csv", [["input"], *([f"{number}.txt"] for number in range(80_000))]
    )
    command = ("run", dataset, "--recipe", f"{FAULTY}:Faulty", "--workers", 2, "--max-failures", 0)
    for trial in range(depth(2)):
        driver = launcher.start(*command, "--output", folder / f"outputs {trial}")
        time.sleep(chance.uniform(0.1, 0.5))
        driver.signal(signal.SIGINT)
        # 1 if it had come to the first inputs, which are missing
        assert driver.wait() in (130, 1), driver.stderr
        assert quiet(driver), driver.stderr
        assert driver.others() == []


# -- from Python --------------------------------------------------------------------------------------------

SCRIPT = """
import multiprocessing, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.path.insert(0, {tests!r})
from faulty import Faulty

dataset = Faulty({dataset!r}, log={log!r})
handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
try:
    dataset.run({output!r}, workers={workers}, batch_size=1)
except KeyboardInterrupt as error:
    print("caught", type(error).__name__, error.summary.done if error.summary else None)
assert handlers == [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
assert multiprocessing.active_children() == []
print("and on it goes")
"""

THREAD = """
import signal, sys, threading
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.path.insert(0, {tests!r})
from faulty import Faulty

found = []
dataset = Faulty({dataset!r}, log={log!r})
work = lambda: found.append(dataset.run({output!r}, workers={workers}, batch_size=1))
thread = threading.Thread(target=work)
thread.start()
thread.join()
print(len(found[0]), found[0].summary.done)
"""


def script(busy: Busy, text: str, *, workers: int = 2) -> tuple[subprocess.Popen[str], Path]:
    """Start a program of its own that uses the Python API."""
    names = {"tests": str(FAULTY.parent), "dataset": str(busy.dataset), "log": str(busy.log)}
    text = text.format(**names, output=str(busy.output), workers=workers)
    stderr = busy.folder / "stderr.txt"
    with stderr.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-c", text],
            stdout=subprocess.PIPE,
            stderr=file,
            text=True,
            start_new_session=True,
            env=environment(),
        )
    return process, stderr


@pytest.mark.parametrize("workers", [2, 0])
def test_an_interrupt_in_python_is_a_keyboard_interrupt(busy: Busy, workers: int):
    """Ctrl-C during dataset.run raises KeyboardInterrupt with the numbers so far; all else is as before."""
    if workers == 0:
        write_files(busy.folder / "data", {"06.txt": "sleep"})
    process, stderr = script(busy, SCRIPT, workers=workers)
    eventually(lambda: busy.is_busy(workers or 1), stderr.read_text)
    os.killpg(process.pid, signal.SIGINT)
    out, _ = process.communicate(timeout=LONG)
    assert process.returncode == 0, stderr.read_text()
    assert out.splitlines() == ["caught Interrupted 6", "and on it goes"]
    assert "Traceback" not in stderr.read_text()
    assert writing_to(stderr) == []
    assert busy.committed() == [f"{number:02d}.txt" for number in range(6)]


def test_run_in_a_thread(busy: Busy):
    """dataset.run works in a thread that is not the main one, where no signal can be handled."""
    busy.mend()
    process, stderr = script(busy, THREAD)
    out, _ = process.communicate(timeout=LONG)
    assert process.returncode == 0, stderr.read_text()
    assert out.split() == ["28", "14"]
    assert writing_to(stderr) == []
    check_manifest(busy.output)


def test_an_interrupt_while_a_thread_runs(busy: Busy):
    """Ctrl-C in the main thread, while another has a run at work, leaves no worker behind."""
    process, stderr = script(busy, THREAD)
    eventually(busy.is_busy, stderr.read_text)
    os.killpg(process.pid, signal.SIGINT)
    time.sleep(0.2)
    os.killpg(process.pid, signal.SIGTERM)
    process.communicate(timeout=LONG)
    eventually(lambda: not writing_to(stderr), lambda: f"still there: {writing_to(stderr)}")
