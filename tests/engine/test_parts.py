"""A run in parts, and `splitter manifest`: what comes out is what one run makes, whatever dies on the way."""

import fcntl
import json
import os
import re
import shutil
import signal
import socket
from pathlib import Path

import pytest
from crashes import RECIPE, complaints, killed, undisturbed
from doors import here, read_table, tree, write_files, write_list
from launcher import Launcher, eventually, published

import splitter
from splitter.errors import Refused
from splitter.recipes.words import Words

WAITING = '''
import os
import time

from splitter import OutputFile, ProcessorDataset


class Waiting(ProcessorDataset):
    """Wait for a file, then copy."""

    def __init__(self, inputs, go: str = "", here: str = ""):
        super().__init__(inputs)
        self.go, self.here = go, here

    def process(self, input_file):
        open(f"{self.here}/{input_file.path.name}", "w").close()
        while not os.path.exists(self.go):
            time.sleep(0.01)
        text = input_file.read_text()
        if text == "bad":
            raise ValueError("bad")
        return [OutputFile("copy", text)], {"length": len(text)}
'''


@pytest.fixture
def dataset(folder: Path) -> Path:
    """Words of many lengths in folders; two of them cannot be read as text, and one is not there."""
    texts: dict[str, str | bytes] = {f"d{n % 3}/w{n}.txt": "abcdefghij"[: n % 9] * 3 for n in range(17)}
    texts["d1/w4.txt"] = texts["d2/w5.txt"] = b"\xff\xfe"
    write_files(folder / "inputs", texts)
    rows = [[name, f"label {n}"] for n, name in enumerate([*texts, "missing.txt"])]
    return write_list(folder / "l.csv", [["input", "label"], *rows])


def arguments(dataset: Path, output: Path, *more: str) -> list[str]:
    fixed = ["--recipe", "words", "--root", "inputs", "--workers", "0", "--batch-size", "2"]
    return ["run", str(dataset), *fixed, "--output", str(output), *more]


def whole(capfd, dataset: Path, output: Path, *more: str) -> dict[str, bytes]:
    """What one run over all makes."""
    assert here(capfd, *arguments(dataset, output, *more)).code == 1
    return published(output)


def test_three_parts_and_a_manifest_are_one_run(capfd, folder, dataset):
    """Output files, manifest.csv and errors.csv are the same, byte for byte; a part says what is next."""
    expected = whole(capfd, dataset, folder / "one")
    assert len(read_table(folder / "one" / "errors.csv")) == 3
    inputs = 0
    for part in ("2/3", "3/3", "1/3"):
        said = here(capfd, *arguments(dataset, folder / "parts", "--part", part))
        count = re.search(r"of (\d+) inputs of part \d of 3 done", said.err)
        assert count, said.err
        inputs += int(count[1])
        assert int(count[1]) == 6
        assert said.lines[-2] == "manifest: not written until all 3 parts are done"
        assert said.lines[-1].startswith("next: when all 3 parts are done: splitter manifest ")
        assert not {"manifest.csv", "errors.csv"} & {*tree(folder / "parts")}
    assert inputs == 18
    said = here(capfd, "manifest", folder / "parts")
    assert said.code == 1
    assert said.lines[0].startswith("15 of 18 inputs done, 3 failed; ")
    assert published(folder / "parts") == expected
    again = here(capfd, *arguments(dataset, folder / "parts"))
    assert again.lines[0].startswith("nothing to do: 18 inputs"), again.err
    assert published(folder / "parts") == expected


def test_parts_are_alike_in_size(capfd, folder):
    """The largest inputs are dealt out first, in turn."""
    sizes = [1000, 10, 900, 20, 800, 30, 700, 40]
    write_files(folder / "inputs", {f"{n}.txt": "x" * size for n, size in enumerate(sizes)})
    done = []
    for number in range(1, 5):
        output = folder / f"out {number}"
        command = ["run", folder / "inputs", "--recipe", "words", "--part", f"{number}/4", "--output", output]
        assert here(capfd, *command, "--workers", "0").code == 0
        done.append(
            sorted((sizes[int(name)] for name in os.listdir(output) if name.isdecimal()), reverse=True)
        )
    assert done == [[1000, 40], [900, 30], [800, 20], [700, 10]]


def test_an_input_stays_with_its_part(capfd, folder, dataset):
    """Though its size changes, and others come, between two parts: none is left out, or done twice."""
    output = folder / "parts"
    first = here(capfd, *arguments(dataset, output, "--part", "1/2"))
    made = {name for name in tree(output) if "/" in name}
    (folder / "inputs" / "d0" / "w0.txt").write_text("grown " * 100)
    (folder / "inputs" / "d1" / "w1.txt").unlink()
    rows = read_table(dataset)
    (folder / "inputs" / "new.txt").write_text("new")
    write_list(dataset, [["input", "label"], ["new.txt", "new"], *([*row.values()] for row in rows)])
    assert first.code in (0, 1)
    here(capfd, *arguments(dataset, output, "--part", "2/2"))
    assert {name for name in tree(output) if "/" in name} > made
    here(capfd, *arguments(dataset, output, "--part", "1/2"))
    said = here(capfd, "manifest", output)
    assert "not tried" not in said.err
    here(capfd, *arguments(dataset, folder / "one"))
    assert published(output)["manifest.csv"] == published(folder / "one")["manifest.csv"]


@pytest.fixture
def waiting(launcher: Launcher, folder: Path):
    """Starts runs that hold each input until there is a file `go`."""
    write_files(folder / "inputs", {f"{n}.txt": f"text {n}" for n in range(12)} | {"bad.txt": "bad"})
    write_files(folder, {"waiting.py": WAITING})
    (folder / "here").mkdir()

    def start(output: Path, *more: object):
        recipe = (
            "--recipe",
            f"{folder}/waiting.py:Waiting",
            "--go",
            folder / "go",
            "--here",
            folder / "here",
        )
        fixed = ("--workers", 1, "--batch-size", 1, "--output", output)
        return launcher.start("run", folder / "inputs", *recipe, *fixed, *more)

    return start


def test_parts_at_the_same_time_one_killed_and_continued(capfd, folder, waiting):
    """Three are at work at once, one is killed with SIGKILL and started again while the others work."""
    output = folder / "parts"
    drivers = [waiting(output, "--part", f"{number}/3") for number in (1, 2, 3)]
    # each holds an input, and none goes on
    eventually(lambda: len(os.listdir(folder / "here")) == 3, lambda: "".join(one.stderr for one in drivers))
    drivers[1].kill()
    assert drivers[1].wait() == -signal.SIGKILL
    again = waiting(output, "--part", "2/3")
    again.until(lambda: "to do" in again.stderr)
    (folder / "go").touch()
    assert sorted(driver.wait() for driver in (drivers[0], again, drivers[2])) == [0, 0, 1]
    assert here(capfd, "manifest", output).code == 1
    one = waiting(folder / "one")
    assert one.wait() == 1
    assert published(output) == published(folder / "one")
    assert len(read_table(output / "manifest.csv")) == 12
    assert os.listdir(output / ".splitter" / "staging") == []


def test_who_is_at_work_keeps_out_whom(capfd, folder, waiting):
    """A part keeps out itself, whole runs, other numbers of parts, the manifest; a run keeps out parts."""
    output = folder / "parts"
    part = waiting(output, "--part", "2/3")
    part.until(lambda: os.listdir(folder / "here"))
    me = f"process {part.pid} on {socket.gethostname()}"
    command = ["run", folder / "inputs", "--recipe", "words", "--output", output]
    for wrong, said in (
        ([*command, "--part", "2/3"], f"is in use by {me}; wait for it"),
        ([*command], f"is in use by part 2 of 3, {me}; wait for it"),
        ([*command, "--part", "1/2"], f"is in use by part 2 of 3, {me}; wait for it, or use --part K/3"),
        (["manifest", output], f"is in use by part 2 of 3, {me}; wait for it"),
    ):
        refused = here(capfd, *wrong)
        assert (refused.code, refused.err.count("\n")) == (2, 1)
        assert said in refused.err
    (folder / "go").touch()
    assert part.wait() in (0, 1)
    (folder / "go").unlink()
    shutil.rmtree(folder / "here")
    (folder / "here").mkdir()
    run = waiting(output)
    run.until(lambda: os.listdir(folder / "here"))
    refused = here(capfd, *command, "--part", "1/3")
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert f"is in use by process {run.pid} on" in refused.err
    (folder / "go").touch()
    assert run.wait() == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--part", "0/3"], "write K/N"),
        (["--part", "4/3"], "write K/N"),
        (["--part", "3"], "write K/N"),
        (["--part", "1/2", "--fresh"], "--fresh: cannot be combined with --part"),
        (["--part", "1/2", "--prune"], "--prune: cannot be combined with --part"),
        (["--part", "1/2", "--executor", "ray", "--workers", "2"], "--part cannot be combined with Ray"),
    ],
)
def test_what_a_part_cannot_be(capfd, folder, words, options, said):
    """One line, exit code 2, and no folder."""
    command = ["run", words, "--recipe", "words", "--root", "inputs", "--output", folder / "out", *options]
    refused = here(capfd, *command)
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert said in refused.err
    assert not (folder / "out").exists()


def test_a_refused_part_leaves_no_trace(capfd, folder):
    """Its folder was not there before."""
    write_files(folder / "inputs", {"a.txt": "a", "a.md": "b"})
    command = ["run", folder / "inputs", "--recipe", "words", "--output", folder / "out", "--part", "1/2"]
    assert here(capfd, *command).code == 2
    assert not (folder / "out").exists()


def test_there_is_no_manifest_of_what_no_run_has_begun(capfd, folder):
    """A folder that is not there, that is something else, in which nothing was begun."""
    (folder / "mine").mkdir()
    (folder / "begun" / ".splitter").mkdir(parents=True)
    for name, said in (
        ("gone", "is not a splitter output folder"),
        ("mine", "is not a splitter output folder"),
        ("begun", "no run has started"),
    ):
        refused = here(capfd, "manifest", folder / name)
        assert (refused.code, refused.err.count("\n")) == (2, 1)
        assert said in refused.err
    assert os.listdir(folder / "mine") == []


def test_parts_do_again_what_has_changed(capfd, folder, dataset):
    """The old manifest goes first; one made before all parts are done is without what is still as before."""
    output = folder / "parts"
    whole(capfd, dataset, output)
    said = here(capfd, *arguments(dataset, output, "--part", "2/2", "--num-chars", "3"))
    assert "num_chars changed from 2 to 3" in said.err
    assert not (output / "manifest.csv").exists()
    early = here(capfd, "manifest", output)
    assert early.code == 1
    assert "9 waiting to be redone after a change" in early.err
    lengths = {len(row["part"]) for row in read_table(output / "manifest.csv")}
    here(capfd, *arguments(dataset, output, "--part", "1/2", "--num-chars", "3"))
    here(capfd, "manifest", output)
    assert published(output) == whole(capfd, dataset, folder / "one", "--num-chars", "3")
    assert lengths == {len(row["part"]) for row in read_table(output / "manifest.csv")}


def test_a_manifest_needs_neither_list_nor_inputs(capfd, folder, dataset):
    """All of it stands in the output folder, which may be elsewhere now."""
    for part in ("1/2", "2/2"):
        here(capfd, *arguments(dataset, folder / "parts", "--part", part))
    expected = whole(capfd, dataset, folder / "one")
    shutil.rmtree(folder / "inputs")
    dataset.unlink()
    shutil.move(folder / "parts", folder / "moved")
    assert here(capfd, "manifest", folder / "moved", "--quiet").code == 1
    assert published(folder / "moved") == expected


def test_parts_from_python(folder, words):
    """Without a manifest the table is empty; the summary says of which part it is."""
    for number in (1, 2):
        manifest = Words(words).run(folder / "out", root="inputs", part=f"{number}/2", workers=0, quiet=True)
        assert len(manifest) == len(manifest.failed) == 0
        assert (manifest.summary.part.number, manifest.summary.inputs) == (number, 2)
    from splitter.engine.entry_points import assemble

    assert assemble(folder / "out").done == 4
    assert len(splitter.read_manifest(folder / "out")) == 27 + 4
    with pytest.raises(Refused, match="write K/N"):
        Words(words).run(folder / "out", part="two")


# -- deaths ------------------------------------------------------------------------------------------------


def marked_inputs(folder: Path) -> None:
    for n in range(5):
        content = {
            "outputs": 1 + n % 3,
            "end": "raise" if n == 4 else "ok",
            "salt": f"{n}",
            "metadata": {"n": n},
        }
        write_files(folder / "inputs", {f"d{n % 2}/{n}.txt": json.dumps(content)})


def marked(folder: Path, output: Path, *more: str) -> list[str]:
    fixed = [f"--recipe={RECIPE}:Marked", f"--output={output}", "--workers=0", "--batch-size=2"]
    return ["run", str(folder / "inputs"), *fixed, *more]


@pytest.mark.slow
def test_a_death_of_a_part_at_any_step_is_made_good(folder):
    """While the other part works, and after a whole run with other parameters; nothing old comes back."""
    marked_inputs(folder)
    before, output = folder / "before", folder / "out"
    assert undisturbed(marked(folder, before)).code == 1
    assert undisturbed(marked(folder, folder / "one", "--flavour=1")).code == 1
    expected = published(folder / "one")
    for at in range(8, 400, 7):
        shutil.rmtree(output, ignore_errors=True)
        shutil.copytree(before, output)
        ended = killed(marked(folder, output, "--flavour=1", "--part=1/2"), at)
        assert complaints(output) == []
        assert undisturbed(marked(folder, output, "--flavour=1", "--part=2/2")).code in (0, 1)
        early = undisturbed(["manifest", str(output)])
        assert early.code == 1, early.said
        assert complaints(output) == []
        names = [row["output"] for row in read_table(output / "manifest.csv")]
        # these are of the run before
        assert not [name for name in names if name.endswith("-0.bin")]
        assert undisturbed(marked(folder, output, "--flavour=1", "--part=1/2")).code in (0, 1)
        assert undisturbed(["manifest", str(output)]).code == 1
        assert published(output) == expected, at
        if not ended.died:
            break
    assert at > 50


@pytest.mark.slow
def test_the_manifest_of_a_killed_run_has_what_is_committed(folder):
    """Wherever it died: each row's file is there, the rest is not tried yet, and the next run does it."""
    marked_inputs(folder)
    output = folder / "out"
    assert undisturbed(marked(folder, folder / "one")).code == 1
    expected = published(folder / "one")
    rows = read_table(folder / "one" / "manifest.csv")
    found = set()
    for at in range(10, 400, 8):
        shutil.rmtree(output, ignore_errors=True)
        ended = killed(marked(folder, output), at)
        said = undisturbed(["manifest", str(output)])
        if said.code == 2:
            assert "no run has started" in said.said
        else:
            assert complaints(output) == []
            now = read_table(output / "manifest.csv")
            assert now == [row for row in rows if row["input"] in {one["input"] for one in now}]
            found.add(len(now))
        assert undisturbed(marked(folder, output)).code == 1
        assert published(output) == expected, at
        if not ended.died:
            break
    assert len(found) > 2


@pytest.mark.slow
def test_a_part_leaves_alone_what_another_has_begun(folder):
    """A batch that another part has begun is that part's, also while nobody knows whether it lives."""
    marked_inputs(folder)
    output = folder / "out"
    for at in range(30, 200):
        shutil.rmtree(output, ignore_errors=True)
        killed(marked(folder, output, "--part=1/2"), at)
        begun = sorted(one.name for one in (output / ".splitter" / "records").glob("*.begun"))
        if begun and not (output / ".splitter" / "records" / begun[0].removesuffix(".begun")).exists():
            break
    assert undisturbed(marked(folder, output, "--part=2/2")).code in (0, 1)
    assert sorted(one.name for one in (output / ".splitter" / "records").glob("*.begun")) == begun
    # parts of another number know that it is dead, since it holds no lock
    assert undisturbed(marked(folder, output, "--part=1/4")).code in (0, 1)
    assert [*(output / ".splitter" / "records").glob("*.begun")] == []


def test_locks_of_parts_are_gone_after_a_whole_run(capfd, folder, words):
    """Nothing of them is left but commit records."""
    command = ["run", words, "--recipe", "words", "--root", "inputs", "--workers", "0", "-o", folder / "out"]
    here(capfd, *command, "--part", "1/2")
    own = folder / "out" / ".splitter"
    assert (own / "part-1-of-2").exists()
    with (own / "part-1-of-2").open() as lock:
        # it is free, or this would raise
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert here(capfd, *command).code == 0
    assert [name for name in os.listdir(own) if "part" in name or "shares" in name] == []
