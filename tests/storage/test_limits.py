"""Where something is missing: room, descriptors, shared memory, permission; and inputs that are no files."""

import errno
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import forked
import pytest
from doors import read_table, tree, write_files, write_list
from faulty import noted
from launcher import (
    FAULTY,
    Launcher,
    LauncherProcess,
    check_complete,
    check_manifest,
    environment,
    eventually,
    left_in,
    make_inputs,
    published,
)
from sounds import noise, write_sound

PARTS = ("--recipe", f"{FAULTY}:Parts", "--workers", 2)
FAULTS = ("--recipe", f"{FAULTY}:Faulty", "--workers", 2)


def texts(count: int, size: int = 30) -> dict[str, str]:
    return {
        f"part {number % 3}/wörd {number:03d}.txt": f"{number:03d}" * (size // 3) for number in range(count)
    }


def the_line(stderr: str) -> str:
    """The only line that was written."""
    lines = stderr.splitlines()
    assert len(lines) == 1, stderr
    return lines[0]


# -- mounts of its own ------------------------------------------------------------------------------------


def why_no_mounts() -> str:
    if shutil.which("unshare") is None:
        return "needs unshare (Debian: util-linux)"
    if os.geteuid() != 0:
        return "mounting needs root"
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode:
        return "this container may not unshare its mounts"
    return ""


@pytest.fixture(scope="module")
def mounting_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LauncherProcess]:
    """A launcher whose mounts nobody else sees."""
    reason = why_no_mounts()
    if reason:
        pytest.skip(reason)
    process = LauncherProcess(tmp_path_factory.mktemp("launcher"), within=["unshare", "--mount"])
    yield process
    process.close()


@pytest.fixture
def mounting(mounting_process: LauncherProcess, folder: Path) -> Iterator[Launcher]:
    """Starts runs among mounts that nobody else sees."""
    launcher = Launcher(mounting_process, folder)
    yield launcher
    launcher.end()


@pytest.mark.parametrize(
    "room",
    ["size=4k", "size=8k", "size=60k", "size=352k", "nr_inodes=2", "nr_inodes=5", "nr_inodes=100"],
)
def test_a_full_disk(mounting: Launcher, mounting_process: LauncherProcess, folder: Path, room: str):
    """A full disk is one line and a non-zero exit code; once there is room the same command continues."""
    output = folder / "outputs"
    output.mkdir()
    dataset = make_inputs(folder / "data", texts(60, 5000))
    command = ("run", dataset, *PARTS, "--size", 2000, "--batch-size", 4, "--quiet")
    mounting_process.command("mount", "-t", "tmpfs", "-o", room, "tmpfs", output)
    first = mounting.run(*command, "--output", output)
    assert first.code in (1, 2), first.stderr
    assert "No space left on device" in the_line(first.stderr)
    check_manifest(mounting_process.path(output))

    mounting_process.command("mount", "-o", "remount,size=50m,nr_inodes=10000", output)
    second = mounting.run(*command, "--output", output)
    assert second.code == 0, second.stderr
    whole = mounting.run(*command, "--output", folder / "whole")
    assert whole.code == 0, whole.stderr
    check_complete(mounting_process.path(output), tree(folder / "whole"))
    mounting_process.command("umount", output)


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_a_disk_that_is_full_before_the_work(
    mounting: Launcher, mounting_process: LauncherProcess, folder: Path, kind: str
):
    """A list that is larger than the room for its copy is one line, which says what to do."""
    output = folder / "outputs"
    output.mkdir()
    names = [f"somewhere/far away/{number}.txt" for number in range(40_000)]
    dataset = write_list(folder / "dataset.csv", [["input"], *([name] for name in names)])
    if kind == "jsonl":
        dataset = folder / "dataset.jsonl"
        dataset.write_text("".join(f'{{"input": "{name}"}}\n' for name in names))
    mounting_process.command("mount", "-t", "tmpfs", "-o", "size=500k", "tmpfs", output)
    run = mounting.run("run", dataset, *PARTS, "--output", output)
    mounting_process.command("umount", output)
    assert run.code == 1
    line = the_line(run.stderr)
    assert (
        "cannot write the copy of the dataset list: No space left on device; free space on that disk, or "
        in line
    )


def test_what_a_run_says_of_a_full_disk(mounting: Launcher, mounting_process: LauncherProcess, folder: Path):
    """The summary counts what is committed: the next run does the rest and no more."""
    log, output = folder / "log", folder / "outputs"
    output.mkdir()
    dataset = make_inputs(folder / "data", texts(60, 5000))
    command = ("run", dataset, *FAULTS, "--log", log, "--batch-size", 4, "--output", output)
    mounting_process.command("mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", output)
    first = mounting.run(*command)
    assert first.code == 1
    found = re.search(r"^(\d+) of 60 inputs done, (\d+) not tried yet", first.stderr, re.MULTILINE)
    assert found, first.stderr
    is_there = mounting_process.path(output / "manifest.csv").exists()
    assert is_there == ("not written until the run is continued" not in first.stderr)
    assert "stopped: cannot write" in first.stderr
    done, left = map(int, found.groups())
    assert done > 0
    log.unlink()
    mounting_process.command("mount", "-o", "remount,size=50m", output)
    second = mounting.run(*command)
    assert second.code == 0, second.stderr
    assert len(noted(log, "process")) == left == 60 - done
    mounting_process.command("umount", output)


def test_a_disk_that_is_full_for_user_code(
    mounting: Launcher, mounting_process: LauncherProcess, folder: Path
):
    """When a recipe finds no room in its scratch folder, the run stops: the input is not to blame."""
    output = folder / "outputs"
    output.mkdir()
    dataset = make_inputs(folder / "data", texts(4, 300_000))
    mounting_process.command("mount", "-t", "tmpfs", "-o", "size=500k", "tmpfs", output)
    command = ("run", dataset, "--recipe", f"{FAULTY}:Messy", "--workers", 1, "--quiet", "--output", output)
    run = mounting.run(*command)
    assert run.code == 1
    assert "No space left on device" in the_line(run.stderr)
    assert read_table(mounting_process.path(output / "errors.csv")) == []
    mounting_process.command("umount", output)


@pytest.mark.parametrize("kind", ["ogg", "mp3", "flac", "aiff", "wav"])
@pytest.mark.parametrize("sink", ["files", "webdataset"])
def test_a_disk_that_is_full_for_sound(
    mounting: Launcher, mounting_process: LauncherProcess, folder: Path, kind: str, sink: str
):
    """Encoders write through callbacks that cannot raise: that is no line more."""
    output = folder / "outputs"
    output.mkdir()
    write_sound(folder / "in/a.aiff", noise(16_000 * 90), 16_000, "PCM_16", "AIFF")
    mounting_process.command("mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", output)
    chosen = "same" if kind == "aiff" else kind
    command = ("run", folder / "in", "--format", chosen, "--seconds", 60, "--sink", sink, "--quiet")
    run = mounting.run(*command, "--output", output)
    assert run.code == 1, run.stderr
    assert "No space left on device" in the_line(run.stderr)
    mounting_process.command("umount", output)


def test_little_shared_memory(mounting: Launcher, mounting_process: LauncherProcess, folder: Path):
    """A run needs less than the 1 MB of /dev/shm that some containers have."""
    dataset = make_inputs(folder / "data", texts(60))
    mounting_process.command("mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", "/dev/shm")
    try:
        run = mounting.run("run", dataset, *PARTS, "--batch-size", 2, "--output", folder / "outputs")
    finally:
        mounting_process.command("umount", "/dev/shm")
    assert run.code == 0, run.stderr
    assert len({row["input"] for row in check_manifest(folder / "outputs")}) == 60


@pytest.mark.parametrize("room", ["ro", "size=4k"])
def test_no_shared_memory(mounting: Launcher, mounting_process: LauncherProcess, folder: Path, room: str):
    """A read-only or full /dev/shm is refused in one line, with a remedy that works."""
    dataset = make_inputs(folder / "data", texts(6))
    output = folder / "outputs"
    mounting_process.command("mount", "-t", "tmpfs", "-o", room, "tmpfs", "/dev/shm")
    try:
        run = mounting.run("run", dataset, *PARTS, "--output", output)
        remedy = mounting.run("run", dataset, *PARTS[:2], "--workers", 0, "--output", output)
    finally:
        mounting_process.command("umount", "/dev/shm")
    assert run.code == 2
    line = the_line(run.stderr)
    assert "/dev/shm, which they need, cannot be written" in line
    assert "use --workers 0" in line
    assert remedy.code == 0, remedy.stderr


@pytest.mark.parametrize("begun", [False, True])
def test_a_read_only_output_folder(
    mounting: Launcher, mounting_process: LauncherProcess, folder: Path, begun: bool
):
    """An output folder that cannot be written, new or in use, is refused in one line."""
    output = folder / "outputs"
    output.mkdir()
    dataset = make_inputs(folder / "data", texts(3))
    command = ("run", dataset, *PARTS, "--quiet", "--output", output)
    if begun:
        assert mounting.run(*command, "--limit", 1).code == 0
    mounting_process.command("mount", "--bind", output, output)
    mounting_process.command("mount", "-o", "remount,bind,ro", output)
    run = mounting.run(*command)
    mounting_process.command("umount", output)
    assert run.code == 2
    assert f"{output}: cannot be written: Read-only file system" in the_line(run.stderr)


# -- descriptors ------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_few_open_files(folder: Path):
    """`ulimit -n 64` is enough for a run, and for a run that continues from many records."""
    dataset = make_inputs(folder / "data", texts(100))
    output = folder / "outputs"
    command = [*forked.command(), "run", dataset, *PARTS, "--batch-size", 1, "--output", output]
    for options in (["--limit", 50], []):
        shell = ["bash", "-c", 'ulimit -n 64; exec "$@"', "bash", *map(str, [*command, *options])]
        run = subprocess.run(
            shell, capture_output=True, text=True, stdin=subprocess.DEVNULL, env=environment(), check=False
        )
        assert run.returncode == 0, run.stderr
    assert len({row["input"] for row in check_manifest(output)}) == 100


@pytest.mark.slow
def test_too_few_open_files_for_so_many_workers(folder: Path):
    """Where the limit is too low for the workers that are asked for, it is raised or the remedy is named."""
    dataset = make_inputs(folder / "data", texts(40))
    command = [
        *forked.command(),
        "run",
        dataset,
        *PARTS[:2],
        "--batch-size",
        1,
        "--quiet",
        "--output",
        folder / "outputs",
    ]
    for limit, workers, code in (("ulimit -n 64", 16, 2), ("ulimit -n 28", 2, 2), ("ulimit -S -n 30", 2, 0)):
        shell = ["bash", "-c", f'{limit}; exec "$@"', "bash", *map(str, command), "--workers", str(workers)]
        run = subprocess.run(
            shell, capture_output=True, text=True, stdin=subprocess.DEVNULL, env=environment(), check=False
        )
        assert run.returncode == code, run.stderr
        if workers == 16:
            assert "16 workers keep" in the_line(run.stderr)
            assert "use --workers 8, or raise the limit with ulimit -n" in run.stderr
        elif code:
            assert "but the limit here is 28; raise it with ulimit -n" in the_line(run.stderr)


# -- output folders ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_an_output_folder_in_use(launcher: Launcher, folder: Path):
    """A second run into the same folder is refused, and says who has it; the first is not disturbed."""
    log, output = folder / "log", folder / "outputs"
    dataset = make_inputs(folder / "data", {"a.txt": "sleep", "b.txt": "one"})
    first = launcher.start("run", dataset, *FAULTS, "--log", log, "--output", output)
    first.until(lambda: len(noted(log, "process")) == 2)
    second = launcher.run("run", dataset, *FAULTS, "--log", log, "--output", output)
    assert second.code == 2
    assert f"is in use by process {first.pid}" in the_line(second.stderr)
    assert len(noted(log, "process")) == 2
    assert first.poll() is None
    first.signal(signal.SIGTERM)
    assert first.wait() == 143
    assert [row["input"] for row in check_manifest(output)] == ["b.txt", "b.txt"]


def test_two_runs_that_start_at_once(launcher: Launcher, folder: Path):
    """Of two runs into the same new folder one has it, and the other is refused."""
    dataset = make_inputs(folder / "data", {"a.txt": "sleep", "b.txt": "one"})
    command = ("run", dataset, *FAULTS, "--output", folder / "outputs")
    runs = [launcher.start(*command) for _ in range(2)]
    eventually(lambda: [run for run in runs if run.poll() is not None], lambda: "both have it")
    [refused] = [run for run in runs if run.poll() is not None]
    [other] = [run for run in runs if run.poll() is None]
    assert refused.code == 2
    assert f"is in use by process {other.pid}" in the_line(refused.stderr)
    other.signal(signal.SIGTERM)
    assert other.wait() == 143


def test_an_output_folder_that_holds_something_else(launcher: Launcher, folder: Path):
    """A folder with other files in it, or a file, is refused and left as it is."""
    dataset = make_inputs(folder / "data", {"a.txt": "one"})
    write_files(folder / "precious", {"thesis.txt": "years of work"})
    for output, reason in (
        (folder / "precious", "thesis.txt"),
        (folder / "precious" / "thesis.txt", "is a file"),
    ):
        run = launcher.run("run", dataset, *FAULTS, "--output", output)
        assert run.code == 2
        assert reason in the_line(run.stderr)
    assert tree(folder / "precious") == {"thesis.txt": b"years of work"}


# -- inputs that are no files -----------------------------------------------------------------------------


def test_inputs_that_are_no_files(launcher: Launcher, folder: Path, monkeypatch: pytest.MonkeyPatch):
    """A pipe, a device, a socket, a folder, a dangling link, nothing at all: each is that input's error."""
    data = folder / "data"
    write_files(data, {"good.txt": "one", "other.txt": "two", "folder.txt/inside": ""})
    os.mkfifo(data / "pipe.txt")
    (data / "link.txt").symlink_to("nowhere.txt")
    (data / "loop.txt").symlink_to("loop.txt")
    (data / "to a device.txt").symlink_to("/dev/zero")
    with socket.socket(socket.AF_UNIX) as listener:
        # the address of a socket is short
        monkeypatch.chdir(data)
        listener.bind("socket.txt")
    reasons = {
        "good.txt": "",
        "pipe.txt": "a named pipe",
        "folder.txt": "a folder",
        "link.txt": "does not exist",
        "loop.txt": "symbolic links",
        "/dev/zero": "a device",
        "to a device.txt": "a device",
        "socket.txt": "a socket",
        "missing.txt": "does not exist",
        "other.txt/below.txt": "Not a directory",
        f"{'long' * 100}.txt": "File name too long",
    }
    dataset = write_list(data / "dataset.csv", [["input"], *([name] for name in reasons)])
    run = launcher.run("run", dataset, *FAULTS, "--output", folder / "outputs", "--keep-extension")
    assert run.code == 1, run.stderr
    errors = {row["input"]: row for row in read_table(folder / "outputs" / "errors.csv")}
    assert list(errors) == list(reasons)[1:]
    for name, row in errors.items():
        assert reasons[name] in row["message"], row
    assert {row["input"] for row in check_manifest(folder / "outputs")} == {"good.txt"}
    assert stat.S_ISFIFO(os.stat(data / "pipe.txt").st_mode)


# -- reads that fail for a moment, and too many failures --------------------------------------------------


def test_reads_that_fail_for_a_moment(launcher: Launcher, folder: Path):
    """What fails for a moment is tried again, as often as --retries says; what will not pass is not."""
    log = folder / "log"
    dataset = make_inputs(
        folder / "data",
        {
            "once.txt": f"1 {errno.EIO}",
            "twice.txt": f"2 {errno.ETIMEDOUT}",
            "too often.txt": f"3 {errno.ESTALE}",
            "not there.txt": f"1 {errno.ENOENT}",
            "forbidden.txt": f"1 {errno.EACCES}",
        },
    )
    recipe = ("--recipe", f"{FAULTY}:Transient", "--log", log, "--workers", 1)
    run = launcher.run("run", dataset, *recipe, "--output", folder / "outputs")
    assert run.code == 1, run.stderr
    attempts = {row["input"]: row["attempts"] for row in read_table(folder / "outputs" / "errors.csv")}
    assert attempts == {"too often.txt": "3", "not there.txt": "1", "forbidden.txt": "1"}
    tried = noted(log, "tried")
    assert {name: tried.count(name) for name in tried} == {
        "once.txt": 2,
        "twice.txt": 3,
        "too often.txt": 3,
        "not there.txt": 1,
        "forbidden.txt": 1,
    }
    assert {row["input"] for row in check_manifest(folder / "outputs")} == {"once.txt", "twice.txt"}

    log.unlink()
    impatient = launcher.run("run", dataset, *recipe, "--output", folder / "impatient", "--retries", 0)
    assert impatient.code == 1
    assert len(noted(log, "tried")) == 5
    assert len(read_table(folder / "impatient" / "errors.csv")) == 5


@pytest.mark.parametrize("most", ["3", "10%"])
def test_too_many_failures(launcher: Launcher, folder: Path, most: str):
    """Past --max-failures the run stops early with exit code 1; what was done is kept, and it can go on."""
    log, output = folder / "log", folder / "outputs"
    inputs = {f"{number:02d}.txt": "raise" if number % 2 else f"text {number}" for number in range(40)}
    dataset = make_inputs(folder / "data", inputs)
    command = (
        "run",
        dataset,
        *FAULTS,
        "--log",
        log,
        "--seconds",
        0.05,
        "--batch-size",
        1,
        "--output",
        output,
    )
    run = launcher.run(*command, "--max-failures", most)
    assert run.code == 1
    assert f"more than --max-failures {most}" in run.stderr
    assert 3 < len(noted(log, "process")) < 30
    failed = read_table(output / "errors.csv")
    assert 3 < len(failed) < 15
    done = {row["input"] for row in check_manifest(output)}
    assert done

    log.unlink()
    rest = launcher.run(*command)
    assert rest.code == 1
    assert set(noted(log, "process")) == set(inputs) - done - {row["input"] for row in failed}
    assert len(read_table(output / "errors.csv")) == 20


def test_as_many_failures_as_allowed(launcher: Launcher, folder: Path):
    """--max-failures allows so many."""
    dataset = make_inputs(
        folder / "data", {"a.txt": "raise", "b.txt": "raise", "c.txt": "one", "d.txt": "two"}
    )
    run = launcher.run("run", dataset, *FAULTS, "--max-failures", 2, "--output", folder / "outputs")
    assert run.code == 1
    assert "--max-failures" not in run.stderr
    assert "2 of 4 inputs done, 2 failed" in run.stderr


# -- the temporary folder -----------------------------------------------------------------------------------


@pytest.fixture
def temporary(folder: Path) -> Path:
    """A system's temporary folder that is empty."""
    path = folder / "temporary"
    path.mkdir()
    return path


@pytest.mark.parametrize("workers", [0, 2])
def test_the_temporary_folder_stays_empty(launcher: Launcher, folder: Path, temporary: Path, workers: int):
    """A run that uses scratch folders leaves nothing in the temporary folder, nor in its own staging."""
    inputs = {**texts(12), "fails.txt": "raise"}
    if workers:
        inputs |= {"crashes.txt": "segfault", "hangs.txt": "hang", "exits.txt": "os._exit"}
    dataset = make_inputs(folder / "data", inputs)
    output = folder / "outputs"
    command = ("run", dataset, "--recipe", f"{FAULTY}:Messy", "--workers", workers, "--output", output)
    limits = ("--timeout", 4, "--memory", "1GB") if workers else ()
    run = launcher.run(*command, *limits, environ={"TMPDIR": str(temporary)})
    assert run.code == 1, run.stderr
    assert len(check_manifest(output)) == 12
    assert left_in(temporary) == []
    assert list((output / ".splitter" / "staging").iterdir()) == []
    assert set(published(output)) == {
        *(f"{name.removesuffix('.txt')}/0.txt" for name in texts(12)),
        "manifest.csv",
        "errors.csv",
    }


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_run_that_is_cut_short_leaves_nothing_temporary(
    launcher: Launcher, folder: Path, temporary: Path, number: int
):
    """Killed or interrupted in the middle of an input, a run leaves nothing in the temporary folder."""
    dataset = make_inputs(folder / "data", {"a.txt": "hang", "b.txt": "hang in C"})
    output = folder / "outputs"
    command = ("run", dataset, "--recipe", f"{FAULTY}:Messy", "--workers", 2, "--output", output)
    run = launcher.start(*command, environ={"TMPDIR": str(temporary)})
    run.until(lambda: len(list(output.rglob("work.txt"))) == 2)
    run.signal(number, group=False)
    assert run.wait() == (-9 if number == signal.SIGKILL else 130)
    run.check_gone()
    assert left_in(temporary) == []
    write_files(folder / "data", {"a.txt": "one", "b.txt": "two"})
    last = launcher.run(*command, environ={"TMPDIR": str(temporary)})
    assert last.code == 0, last.stderr
    assert left_in(temporary) == []
    assert list((output / ".splitter" / "staging").iterdir()) == []


@pytest.mark.parametrize("command", ["verify", "run --repair"])
def test_a_look_at_shards_that_is_killed(launcher: Launcher, folder: Path, temporary: Path, command: str):
    """What a killed `verify` leaves in the temporary folder, the next one removes, and nothing else."""
    dataset = make_inputs(folder / "data", {f"{number}.txt": f"{number} " * 20_000 for number in range(40)})
    recipe = ("--recipe", f"{FAULTY}:Parts", "--size", 500, "--workers", 2)
    run = ("run", dataset, *recipe, "--sink", "webdataset", "--output", folder / "outputs")
    environ = {"TMPDIR": str(temporary)}
    assert launcher.run(*run, environ=environ).code == 0
    look = ("verify", folder / "outputs") if command == "verify" else (*run, "--repair")
    (temporary / "splitter-of-another").mkdir()
    for _ in range(20):
        looking = launcher.start(*look, environ=environ)
        eventually(
            lambda: len(left_in(temporary)) > 1 or looking.poll() is not None,  # noqa: B023
            lambda: "nothing temporary",
        )
        looking.signal(signal.SIGKILL)
        looking.wait()
        looking.check_gone()
        if len(left_in(temporary)) > 1:
            break
    else:
        pytest.fail("no look was killed in time")
    last = launcher.run(*look, environ=environ)
    assert last.code == 0, last.stderr
    assert left_in(temporary) == ["splitter-of-another"]
