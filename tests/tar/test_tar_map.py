"""map: a program on each sample."""

import csv
import os
import signal
import subprocess
import sys
import tempfile
import time

import pytest
from doors import CHECKOUT, program, read_table, tree
from hypothesis import given, settings
from nightly import depth
from tar_archives import SAMPLES, key_of, members_of, read_tar, write_tar

from splitter.tar.mapping import STEM

# each starts programs
pytestmark = pytest.mark.slow


def tar(*arguments):
    """Return the exit code of `splitter tar`, run in a small process: it forks for each sample."""
    return program("tar", *map(str, arguments)).code


@given(SAMPLES)
@settings(max_examples=depth(5))
def test_a_script_that_does_nothing_changes_nothing(tmp_path, samples):
    """Whatever the names are: they are never part of a command. Fields come by name."""
    samples = [
        (key, {name: data for name, data in fields.items() if len(name) < 200}) for key, fields in samples
    ]
    members = members_of(samples)
    write_tar(tmp_path / "in.tar", members)
    assert tar("map", tmp_path / "in.tar", "-o", tmp_path / "out.tar", "-c", ":", "--workers", 2) == 0
    expected = [member for key, fields in samples for member in sorted(members_of([(key, fields)]))]
    assert read_tar(tmp_path / "out.tar") == expected


def numbers(count):
    return [
        (f"k{n:03d}.{field}", text) for n in range(count) for field, text in [("n", b"%d" % n), ("txt", b"t")]
    ]


def test_the_order_is_kept(folder):
    """Early samples take longest, five workers: the order and the bytes are those of one worker."""
    write_tar(folder / "in.tar", numbers(30))
    script = "n=$(cat sample.n); [ $((n % 5)) -ne 0 ] || sleep 0.1; rm sample.txt; "
    script += 'echo "$SPLITTER_KEY $((n * 2))" > sample.n'
    for workers in (1, 5):
        given = ["-o", folder / f"{workers}.tar", "-c", script, "--workers", workers]
        assert tar("map", folder / "in.tar", *given) == 0
    assert read_tar(folder / "5.tar") == [(f"k{n:03d}.n", f"k{n:03d} {2 * n}\n".encode()) for n in range(30)]
    assert (folder / "5.tar").read_bytes() == (folder / "1.tar").read_bytes()


def test_one_sample_becomes_many_or_none(folder):
    """Files of other names are samples of their own; a sample of which nothing is left is left out."""
    write_tar(folder / "in.tar", numbers(3))
    script = (
        "for i in $(seq $(cat sample.n)); do echo $i > part$i.n; cp part$i.n part$i.a.b; done; rm sample.*"
    )
    said = program("tar", "map", folder / "in.tar", "-o", folder / "out.tar", "-c", script)
    assert (said.code, said.lines) == (0, ["splitter: 3 samples done, 3 made, 0 failed"])
    expected = [(1, 1), (2, 1), (2, 2)]
    assert read_tar(folder / "out.tar") == [
        (f"k00{n}-part{part}.{field}", b"%d\n" % part) for n, part in expected for field in ("a.b", "n")
    ]


def test_a_program_with_arguments(folder):
    """After `--`; nothing is taken for an option or for the shell."""
    write_tar(folder / "in.tar", numbers(2))
    program = [
        sys.executable,
        "-c",
        "import sys; open('sample.out', 'w').write(sys.argv[1])",
        "--help; $(touch x)",
    ]
    assert tar("map", folder / "in.tar", "-o", folder / "out.tar", "--", *program) == 0
    assert dict(read_tar(folder / "out.tar"))["k001.out"] == b"--help; $(touch x)"


FAULTS = {
    "exit": ("echo why >&2; exit 3", "CommandFailed", "ended with exit code 3: why"),
    "first of two": ("false; true", "CommandFailed", "ended with exit code 1"),
    "killed": ("kill -9 $$", "CommandFailed", "was killed by SIGKILL"),
    "timeout": ("sleep 100", "TimedOut", "no result within 1 seconds"),
    "link": (
        "ln -s /etc/passwd sample.x",
        "BadResult",
        "the program left 'sample.x', which is not a plain file",
    ),
    "folder": ("mkdir sub", "BadResult", "the program left 'sub', which is not a plain file"),
    "no field": ("touch foo", "BadResult", "the program left 'foo'; expected NAME.FIELD"),
    "hidden": ("touch .foo", "BadResult", "the program left '.foo'; expected NAME.FIELD"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_failure_is_reported_and_the_rest_is_done(folder, name):
    """One line, one row of the errors file, exit code 1; the other samples are there."""
    fault, error, message = FAULTS[name]
    write_tar(folder / "in.tar", numbers(4))
    script = f'if [ "$SPLITTER_KEY" = k002 ]; then {fault}; fi'
    given = ["-o", folder / "out.tar", "-c", script, "--workers", "2", "--timeout", "1"]
    said = program("tar", "map", folder / "in.tar", *given)
    assert said.code == 1
    assert said.lines == [
        f"splitter: {folder}/in.tar: sample 'k002': {message}",
        f"splitter: 3 samples done, 3 made, 1 failed; see {folder}/out.tar.errors.csv",
    ]
    with (folder / "out.tar.errors.csv").open(newline="") as file:
        assert list(csv.reader(file)) == [
            ["key", "archive", "error", "message"],
            ["k002", f"{folder}/in.tar", error, message],
        ]
    assert read_tar(folder / "out.tar") == [member for member in numbers(4) if key_of(member[0]) != "k002"]
    assert tar("map", folder / "in.tar", "-o", folder / "out.tar", "-c", ":") == 0
    assert not (folder / "out.tar.errors.csv").exists()


def test_of_many_failures_the_first_are_said(folder):
    """And how many more there are; the errors file, which the last line names, has all of them."""
    write_tar(folder / "in.tar", numbers(25))
    said = program("tar", "map", folder / "in.tar", "-o", folder / "out.tar", "-c", "false")
    assert (said.code, len(said.lines)) == (1, 22)
    assert "sample 'k019'" in said.lines[19]
    assert said.lines[20:] == [
        "splitter: and 5 more failures",
        f"splitter: 0 samples done, 0 made, 25 failed; see {folder}/out.tar.errors.csv",
    ]
    assert len(read_table(folder / "out.tar.errors.csv")) == 25
    assert program("tar", "map", folder / "in.tar", "-o", "-", "-c", "false").lines[-1].endswith("25 failed")


def test_too_many_failures_stop_the_job(folder):
    """Nothing is published then."""
    write_tar(folder / "in.tar", numbers(9))
    given = ["-o", folder / "out.tar", "-c", "false", "--max-failures", "2"]
    said = program("tar", "map", folder / "in.tar", *given)
    assert (said.code, len(said.lines)) == (1, 4)
    assert "--max-failures" in said.lines[-1]
    assert [path.name for path in folder.iterdir()] == ["in.tar"]


def test_lists_of_archives(folder, monkeypatch):
    """What is there and whole is left alone; what is not is made again, and so are failures if asked."""
    for shard in range(4):
        write_tar(folder / f"in-{shard:03d}.tar", [(f"{shard}-{n}.n", b"%d" % n) for n in range(3)])
    script = (
        'echo x >> "$COUNTED"; [ "$SPLITTER_KEY" != 1-1 ] || [ -e "$COUNTED.mended" ]; mv sample.n sample.m'
    )
    counted = folder / "counted"
    given = ["map", folder / "in-{000..003}.tar", "-o", folder / "out-{}.tar", "-c", script]

    def calls(*more):
        counted.write_text("")
        said = program("tar", *given, *more)
        return said.code, len(counted.read_text().splitlines()), said.lines[-1]

    monkeypatch.setenv("COUNTED", str(counted))
    see = f"; see {folder}/out-{{}}.tar.errors.csv"
    assert calls() == (1, 12, "splitter: 11 samples done, 11 made, 1 failed" + see)
    first = tree(folder)
    kept = "; {} archives already done"
    assert calls() == (1, 0, "splitter: 0 samples done, 0 made, 1 failed" + kept.format(4) + see)
    (folder / "out-002.tar").write_bytes(first["out-002.tar"][:-1024])
    (folder / "out-003.tar").unlink()
    assert calls() == (1, 6, "splitter: 6 samples done, 6 made, 1 failed" + kept.format(2) + see)
    assert {**tree(folder), "counted": b""} == {**first, "counted": b""}
    (folder / "counted.mended").touch()
    assert calls("--retry-failed") == (
        0,
        3,
        "splitter: 3 samples done, 3 made, 0 failed" + kept.format(3),
    )
    assert calls() == (0, 0, "splitter: 0 samples done, 0 made, 0 failed" + kept.format(4))
    assert calls("--fresh")[:2] == (0, 12)
    for shard in range(4):
        assert read_tar(folder / f"out-{shard:03d}.tar") == [(f"{shard}-{n}.m", b"%d" % n) for n in range(3)]


def test_a_damaged_archive_of_a_list_does_not_stop_the_others(folder):
    for name in "abc":
        write_tar(folder / f"{name}.tar", numbers(2))
    (folder / "b.tar").write_bytes((folder / "b.tar").read_bytes()[:1100])
    lists = folder / "[abc].tar", folder / "*.tar"
    said = program("tar", "map", *lists, "-o", folder / "o-{}.tar", "-c", ":")
    assert said.code == 2
    said = program("tar", "map", folder / "{a,b,c}.tar", "-o", folder / "o-{}.tar", "-c", ":")
    assert said.code == 1
    assert len(said.lines) == 2
    assert said.lines[0].startswith(f"splitter: {folder}/b.tar: is incomplete")
    assert "1 archive not done" in said.lines[1]
    assert sorted(path.name for path in folder.glob("o-*")) == ["o-a.tar", "o-c.tar"]


@pytest.mark.parametrize("number", [None, signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_behind(folder, number):
    """Neither folders nor processes, those in the background included, when a run ends or is ended."""
    scratch = folder / "scratch"
    scratch.mkdir()
    write_tar(folder / "in.tar", numbers(4))
    # one in the group of the script, and one that has left it
    apart = f"{sys.executable} -c 'import os, time; os.setsid(); time.sleep(333)'"
    note = f"echo $! >> '{folder.parent}/pids'"
    script = f"sleep 333 & {note}; {apart} & {note}; sleep $1"
    process = subprocess.Popen(
        [
            *[sys.executable, "-m", "splitter", "tar", "map", "in.tar", "-o", "o.tar"],
            *["--workers", "2", "--", "sh", "-c", script, "sh", "333" if number else "0"],
        ],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT), "TMPDIR": str(scratch)},
        stderr=subprocess.DEVNULL,
    )
    pids = folder.parent / "pids"
    give_up = time.monotonic() + 120
    if number:
        while not pids.exists() or len(pids.read_text().split()) < 4:
            assert time.monotonic() < give_up
            time.sleep(0.02)
        process.send_signal(number)
    expected = {None: 0, signal.SIGTERM: 143, signal.SIGKILL: -9}[number]
    assert process.wait(120) == expected
    while any(alive(int(pid)) for pid in pids.read_text().split()) or list(scratch.iterdir()):
        assert time.monotonic() < give_up
        time.sleep(0.02)
    assert (folder / "o.tar").exists() == (not number)


def alive(pid):
    """Whether a process runs; one that is dead but not yet asked for does not."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_large_results_do_not_stay_in_memory(folder, monkeypatch):
    """They are read from their file, whose name is gone by then."""
    (folder / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(folder / "temporary"))
    monkeypatch.setattr(tempfile, "tempdir", None)
    write_tar(folder / "in.tar", [("a.n", b"1"), ("b.n", b"2")])
    script = f"head -c 9000000 /dev/zero | tr '\\0' a > {STEM}.big"
    assert tar("map", folder / "in.tar", "-o", folder / "out.tar", "-c", script, "--workers", 2) == 0
    found = dict(read_tar(folder / "out.tar"))
    assert found["a.big"] == found["b.big"] == b"a" * 9_000_000
    assert os.listdir(tempfile.gettempdir()) == os.listdir(folder / "temporary") == []
