"""The executor for one machine."""

import errno
import multiprocessing
import pickle
import signal
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest
from doors import program, tree, write_files
from executors.conformance import LaunchedConformance
from faulty import noted
from launcher import (
    FAULTY,
    LONG,
    Launcher,
    check_complete,
    environment,
    eventually,
    make_inputs,
    published,
    writing_to,
)

from splitter.errors import Refused
from splitter.executors import local
from splitter.executors.base import Limits
from splitter.executors.ray import guard_process
from splitter.executors.ray.guard_process import Mission
from splitter.recipes.words import Words
from splitter.testing.executors import good_inputs, with_faults
from splitter.worker.messages import Batch, Report
from splitter.worker.worker import Worker


class TestLocal(LaunchedConformance):
    """It does what every executor must do."""

    executor = "local"

    def test_no_workers_do_not_show(self):
        """Without worker processes come the same tree and the same manifest."""
        texts = with_faults(good_inputs(40), ["raise", "ten then raise", "skip", "garbage", "sys.exit"])
        dataset = make_inputs(self.folder / "data", texts)
        found = []
        for workers, size in ((2, 3), (0, 1), (0, 7), (0, 40)):
            output = self.folder / f"outputs {workers} {size}"
            run = self.run("Faulty", dataset, "--workers", workers, "--batch-size", size, output=output)
            assert run.code == 1, run.stderr
            found.append(published(output))
        assert all(one == found[0] for one in found[1:])


@pytest.mark.parametrize(("platform", "names_it"), [("linux", True), ("darwin", False)])
def test_locks_that_cannot_be_made_are_those_of_the_workers(platform, names_it, monkeypatch):
    """They come from how workers are started; /dev/shm is named where it is."""

    def none(_self):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(sys, "platform", platform)
    method = "fork" if platform == "linux" else "spawn"
    monkeypatch.setattr(type(multiprocessing.get_context(method)), "Lock", none)
    with pytest.raises(Refused, match=r"No space left on device; .* --workers 0") as caught:
        local._check_shared_memory(2)
    assert ("/dev/shm" in str(caught.value)) == names_it


# -- workers that are spawned, as they are on macOS and where CUDA is in use ---------------------------------

SCRIPT = """
import splitter.executors.local
from splitter import OutputFile, ProcessorDataset

splitter.executors.local._start_method = lambda: {method!r}
print("the script is run")
SEPARATOR = "-"


def joined(*words):
    return SEPARATOR.join(words)


class Doubled(ProcessorDataset):
    def __init__(self, inputs, times=2):
        super().__init__(inputs)
        self.times = times

    def setup(self):
        self.word = "set up"

    def process(self, input_file):
        text = input_file.read_text()
        outputs = [OutputFile("0.txt", joined(*[text] * self.times), {{"by": self.helper()}})]
        return outputs, {{"word": self.word}}

    @staticmethod
    def helper():
        return joined("a", "method")


manifest = Doubled({dataset!r}, times=3).run({output!r}, workers={workers}, batch_size=3)
assert manifest.failed.empty, manifest.failed
print(len(manifest))
"""


def test_what_setup_has_loaded_is_not_the_memory_of_an_input(launcher: Launcher, folder: Path):
    """--memory is for what an input takes beside a model."""
    recipe = write_files(
        folder,
        {
            "loads.py": "import time\n"
            "from splitter import ProcessorDataset\n\n\n"
            "class Loads(ProcessorDataset):\n"
            "    def setup(self):\n"
            "        self.model = b'x' * 400_000_000\n\n"
            "    def process(self, input_file):\n"
            "        time.sleep(1)\n"
            "        return [], {'loaded': len(self.model)}\n",
            "inputs/a.txt": "a",
        },
    )
    options = ("--recipe", recipe / "loads.py:Loads", "--workers", 1, "--memory", "200MB")
    run = launcher.run("run", folder / "inputs", *options, "--output", folder / "outputs")
    assert run.code == 0, run.stderr


@pytest.mark.slow
def test_spawned_workers_know_a_class_of_a_script(folder: Path):
    """A class of a script that has no main guard makes the same outputs in spawned workers, and runs once."""
    dataset = make_inputs(folder / "data", good_inputs(12))
    trees = []
    # each spawned worker imports torch
    for method, workers in (("fork", 2), ("spawn", 1)):
        output, script = folder / method, folder / f"{method} it.py"
        named = {"dataset": str(dataset), "output": str(output)}
        script.write_text(SCRIPT.format(method=method, workers=workers, **named))
        said = program(cwd=folder, python=[str(script)])
        assert said.code == 0, said.err
        assert said.out.split("\n") == ["the script is run", "12", ""]
        trees.append(tree(output))
    assert trees[0] == trees[1]
    assert trees[0]["part 1/wörd-0001/0.txt"] == b"good 1 -good 1 -good 1 "


COMMAND_LINE = """
import signal, sys
import splitter.executors.local
from splitter.cli.main import exit_code

signal.signal(signal.SIGINT, signal.default_int_handler)
splitter.executors.local._start_method = lambda: "spawn"
sys.exit(exit_code(sys.argv[1:]))
"""


@pytest.mark.parametrize(("number", "workers"), [(signal.SIGKILL, 2), (signal.SIGINT, 1)])
def test_spawned_workers_end_with_the_driver(launcher: Launcher, folder: Path, number: int, workers: int):
    """Spawned workers isolate faults and end with a killed or an interrupted driver, as forked ones do."""
    hanging = {f"hang {number}.txt": fault for number, fault in enumerate(["hang", "hang in C"] * 2)}
    texts = {**good_inputs(6), "crash.txt": "segfault", **hanging}
    dataset = make_inputs(folder / "data", texts)
    log, output, stderr = folder / "log", folder / "outputs", folder / "stderr.txt"
    arguments = ["run", dataset, "--recipe", f"{FAULTY}:Faulty", "--log", log, "--output", output]
    command = [
        sys.executable,
        "-c",
        COMMAND_LINE,
        *map(str, arguments),
        "--workers",
        str(workers),
        "--batch-size",
        "1",
    ]
    with stderr.open("wb") as file:
        driver = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stderr=file, start_new_session=True, env=environment()
        )
    try:
        eventually(lambda: len(hanging.keys() & set(noted(log, "process"))) == workers, stderr.read_text)
        driver.send_signal(number)
        eventually(lambda: not writing_to(stderr), lambda: f"still there: {writing_to(stderr)}")
    finally:
        driver.kill()
    assert driver.wait(LONG) == (-signal.SIGKILL if number == signal.SIGKILL else 130)
    assert "Traceback" not in stderr.read_text()

    make_inputs(folder / "data", dict.fromkeys(texts, "mended"))
    assert launcher.run(*arguments[:-1], folder / "forked", "--workers", 2).code == 0
    assert launcher.run(*arguments, "--workers", 2).code == 0
    check_complete(output, tree(folder / "forked"))


@pytest.mark.parametrize(
    ("seconds", "inputs", "batches"), [(600.0, 100, range(100, 101)), (1e-6, 600, range(5, 30))]
)
def test_batches_begin_with_one_input_and_grow_by_the_time_that_inputs_take(
    folder, monkeypatch, seconds, inputs, batches
):
    """Of inputs that take ten minutes each no batch has two; of quick ones there are soon large ones."""
    sizes = []
    real = Worker.run

    def timed(worker, batch):
        report = real(worker, batch)
        report.counts.seconds = seconds * len(batch)
        sizes.append(len(batch))
        return report

    monkeypatch.setattr(Worker, "run", timed)
    write_files(folder, {f"inputs/{number:03d}.txt": "word" for number in range(inputs)})
    run = {"workers": 0, "quiet": True, "max_failures": 0}
    assert len(Words(folder / "inputs").run(folder / "out", **run)) == inputs * 3
    assert sizes[0] == 1
    assert all(size <= 8 * max(sizes[:at]) for at, size in enumerate(sizes) if at)
    assert len(sizes) in batches


class FullDisk:
    """A guard that cannot begin."""

    def run(self, _: Batch) -> Report:
        raise OSError(errno.ENOSPC, "No space left on device", "/out/.splitter/staging")


def test_a_full_disk_reads_alike_with_every_executor(monkeypatch: pytest.MonkeyPatch):
    """The reason, and what to do."""
    batch, job = Batch("", [], [], [], []), SimpleNamespace(storage=SimpleNamespace(at_work=nullcontext))
    here = local._Guarded(job, Limits(1), [], None)
    monkeypatch.setattr(here, "_guard", FullDisk())
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    monkeypatch.setattr(guard_process, "_guard", lambda *_: FullDisk())
    there = guard_process._ready(Mission(guard_process.versions(), ".", {}, pickle.dumps(job), None, None, 1))
    first, second = (report.problems.stop for report in (here[batch], there(batch)))
    assert first == second
    assert first.startswith("cannot write /out/.splitter/staging: No space left on device; free space on")
