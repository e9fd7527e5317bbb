"""The options of a run: each works, or is refused in one line with exit code 2 and nothing done."""

import os
import shlex
from pathlib import Path

import pytest
from doors import here, read_table, tree, write_files, write_list

from splitter import ProcessorDataset, run
from splitter.errors import Refused
from splitter.options import RunOptions
from splitter.recipes.words import Words
from splitter.system.cpus import usable_cpus
from splitter.text.sizes import parse_size

RECIPE = '''\
import os
import time

from splitter import OutputFile, ProcessorDataset


class Meeting(ProcessorDataset):
    """Wait until as many workers are at an input as can be, and say how many met and who did the work."""

    def __init__(self, inputs, folder: str = ".", expected: int = 1):
        super().__init__(inputs)
        self.folder, self.expected = folder, expected

    def process(self, input_file):
        # each worker's first, second, ... inputs meet
        self.round = getattr(self, "round", 0) + 1
        open(f"{self.folder}/{self.round}-{os.getpid()}", "w").close()
        met, end = 0, time.monotonic() + 60
        while met < self.expected and time.monotonic() < end:
            met = sum(name.startswith(f"{self.round}-") for name in os.listdir(self.folder))
            time.sleep(0.01)
        return [], {"most": met, "process": os.getpid()}


class Together(ProcessorDataset):
    """Say which inputs came together."""

    def process_batch(self, input_files):
        return [([], {"together": len(input_files)}) for _ in input_files]


class Litters(ProcessorDataset):
    """Leave a temporary file, and say how many there are; some texts end the worker."""

    def __init__(self, inputs, folder: str = "."):
        super().__init__(inputs)
        self.folder = folder

    def process(self, input_file):
        (input_file.scratch / "litter").write_bytes(bytes(1000))
        found = [name for _, _, names in os.walk(f"{self.folder}/.splitter/staging") for name in names]
        text = input_file.read_text()
        if text == "sleep":
            time.sleep(60)
        if text == "crash":
            os._exit(3)
        return [], {"found": found.count("litter")}


class Breaks(ProcessorDataset):
    """Do a batch only if it is of one input, which is not b.txt."""

    def process_batch(self, input_files):
        names = [one.input for one in input_files]
        if len(names) > 1:
            raise RuntimeError("too much for the GPU")
        if names == ["b.txt"]:
            raise ValueError("b is bad")
        return [([], {"alone": True})]


class Chained(Breaks):
    """With a way of its own for one input."""

    def process(self, input_file):
        if input_file.input == "b.txt":
            raise KeyError("this one")
        return [], {"alone": True}


class Crashes(Chained):
    """Take the process along."""

    def process_batch(self, input_files):
        os._exit(3)


class Sleeps(ProcessorDataset):
    """Sleep, take memory, or fail, as the input says."""

    def process(self, input_file):
        text = input_file.read_text()
        if text == "sleep":
            time.sleep(60)
        if text == "eat":
            held = []
            while True:
                held.append(bytearray(10_000_000))
                time.sleep(0.01)
        if text == "fail":
            raise ValueError("bad")
        return [OutputFile("o", text)], {}


class Loads(Sleeps):
    """As Sleeps, with a large model that takes some seconds to load."""

    def __init__(self, inputs, seconds: float = 0):
        super().__init__(inputs)
        self.seconds = seconds

    def setup(self):
        time.sleep(self.seconds)
        self.model = b"x" * 150_000_000
'''


@pytest.fixture
def four(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A list of four files, beside a file with recipes; the working directory is elsewhere."""
    write_files(folder, {"r.py": RECIPE, **{f"inputs/{letter}.txt": letter for letter in "abcd"}})
    (folder / "elsewhere").mkdir()
    (folder / "met").mkdir()
    monkeypatch.chdir(folder / "elsewhere")
    return write_list(folder / "dataset.csv", [["input"], *([f"{letter}.txt"] for letter in "abcd")])


def go(capfd, four, recipe: str, *arguments: str, out: str = "out"):
    """The command line in this process; a manifest's rows with it."""
    where = four.parent / out
    how = ["--recipe", f"{four.parent}/r.py:{recipe}", "--root", "inputs", "--output", where]
    said = here(capfd, "run", four, *how, *arguments)
    return said, read_table(where / "manifest.csv")


REFUSED = [
    (["--limit", "0"], "--limit 0: must be at least 1"),
    (["--limit", "-1"], "--limit -1: must be at least 1"),
    (["--workers", "-1"], "--workers -1: must be at least 0"),
    (["--workers", "two"], "--workers two: must be at least 0, or with Ray a range such as 2:16"),
    (["--workers", "1:2"], "--workers 1:2: a range is only for --executor ray"),
    (["--batch-size", "0"], "--batch-size 0: must be at least 1"),
    (["--retries", "-1"], "--retries -1: must be at least 0"),
    (["--timeout", "0"], "--timeout 0: must be a number of seconds, more than 0; leave it out for no limit"),
    (
        ["--timeout", "-1"],
        "--timeout -1: must be a number of seconds, more than 0; leave it out for no limit",
    ),
    (
        ["--timeout", "nan"],
        "--timeout nan: must be a number of seconds, more than 0; leave it out for no limit",
    ),
    (
        ["--timeout", "inf"],
        "--timeout inf: must be a number of seconds, more than 0; leave it out for no limit",
    ),
    (["--timeout", "5", "--workers", "0"], "--timeout and --memory need a worker process"),
    (["--memory", "1GB", "--workers", "0"], "--timeout and --memory need a worker process"),
    (["--memory", "much"], "--memory 'much': write a size such as 500MB"),
    (["--memory", "-1GB"], "--memory '-1GB': write a size"),
    (["--memory", "0"], "--memory '0': write a size"),
    (["--max-failures", "some"], "--max-failures 'some': write a number such as 100, or a share such as 5%"),
    (["--max-failures", "-1"], "--max-failures '-1'"),
    (["--max-failures", "1.5"], "--max-failures '1.5'"),
    (["--max-failures", "%"], "--max-failures '%'"),
    (["--max-failures", "101%"], "--max-failures '101%'"),
    (["--device", "gpu"], "'--device': 'gpu' is not one of 'cpu', 'cuda', 'auto'"),
    (["--sink", "zip"], "'--sink': 'zip' is not"),
    (["--executor", "slurm"], "'--executor': 'slurm' is not"),
    (["--rename", "input"], "--rename 'input': write OLD=NEW"),
    (["--column", "path"], "has no column 'path'; it has 'input'"),
    (["--delimiter", ";;"], "--delimiter ';;'"),
    (["--pattern", "*"], "--pattern '*' is only for a folder"),
    (["--root", "nowhere"], "nowhere: the folder that input paths are relative to does not exist"),
    (["--recipe", "wrds"], "--recipe wrds: is not a recipe; did you mean 'words'?"),
]


@pytest.mark.parametrize(("arguments", "message"), REFUSED, ids=str)
def test_a_value_that_makes_no_sense(capfd, four, arguments, message):
    """It is refused by name, and says what would do."""
    said = here(capfd, "run", four, "--root", "inputs", "--output", four.parent / "out", *arguments)
    assert said.code == 2
    (line,) = said.lines
    assert line.startswith("splitter: ")
    assert message in line
    assert not (four.parent / "out").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"worker": 1}, "'worker' is not an option of a run; did you mean 'workers'?"),
        ({"nonsense": 1}, "'nonsense' is not an option of a run"),
        ({"workers": 2.5}, "--workers 2.5: expected int or str or None"),
        ({"workers": 1.5}, "--workers 1.5: expected int"),
        ({"workers": True}, "--workers True: expected int"),
        ({"quiet": 1}, "--quiet 1: expected bool"),
        ({"quiet": None}, "--quiet None: expected bool"),
        ({"timeout": "5"}, "--timeout '5': expected float"),
        ({"column": None}, "--column None: expected str"),
        ({"rename": "a=b"}, "--rename 'a=b': expected list"),
        ({"rename": ["a"]}, "--rename 'a': write OLD=NEW"),
        ({"sink": "zip"}, "--sink 'zip': is unknown; choose from files"),
        ({"device": None}, "--device None: is unknown"),
        ({"memory": 0}, "--memory 0: write a size"),
        ({"max_failures": -1}, "--max-failures -1: write a number"),
        ({"max_failures": True}, "--max-failures True: expected int or str or None"),
        ({"root": 7}, "--root 7: expected"),
    ],
    ids=str,
)
def test_an_option_from_python_that_makes_no_sense(four, tmp_path, options, message):
    """The same checks hold for `dataset.run` and `splitter.run`; types are checked too."""
    for call in (Words(four).run, lambda *args, **kwargs: run(Words(four), *args, **kwargs)):
        with pytest.raises(Refused) as caught:
            call(tmp_path / "out", **options)
        assert message in str(caught.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("dataset", "message"),
    [
        (
            "list.csv",
            "splitter.run: 'list.csv' is of type str; pass a ProcessorDataset created with the inputs",
        ),
        (["a.txt"], "splitter.run: ['a.txt'] is of type list; pass a ProcessorDataset"),
        (None, "splitter.run: None is of type NoneType; pass a ProcessorDataset"),
        (Words, "splitter.run: Words is a class; create an object of it, with the inputs"),
    ],
)
def test_a_dataset_that_is_none(tmp_path, dataset, message):
    """What is no dataset is refused by what it is."""
    with pytest.raises(Refused) as caught:
        run(dataset, tmp_path / "out")
    assert str(caught.value).startswith(message)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("output", "message"),
    [
        (None, "--output None: is of type NoneType; pass the path of a folder"),
        (7, "--output 7: is of type int; pass the path of a folder"),
        ("", "--output '': does not name a folder"),
        (b"", "--output '': does not name a folder"),
        ("a\0b", "--output 'a\\x00b': does not name a folder"),
    ],
)
def test_an_output_that_is_none(four, tmp_path, monkeypatch, output, message):
    """The empty name is not the current folder, and a number is not a file that is open."""
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(Refused) as caught:
        Words(four).run(output, root="inputs")
    assert str(caught.value).startswith(message)
    assert sorted(tmp_path.rglob("*")) == before


def test_an_output_in_the_home_folder(capfd, four, tmp_path, monkeypatch):
    """`--output=~/out`, which a shell leaves as it is, and bytes are folders like any other."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    said = here(
        capfd, "run", four, "--root", "inputs", "--recipe", "words", "--workers", "0", "--output=~/out"
    )
    assert said.code == 0, said.err
    assert (tmp_path / "home/out/manifest.csv").exists()
    Words(four).run(os.fsencode(tmp_path / "other"), root="inputs", workers=0, quiet=True)
    assert (tmp_path / "other/manifest.csv").exists()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1", 1),
        ("500MB", 500_000_000),
        ("2GB", 2_000_000_000),
        ("2GiB", 2 << 30),
        ("2gib", 2 << 30),
        ("1.5 k", 1500),
        ("1e9", 1_000_000_000),
        ("3T", 3_000_000_000_000),
        ("7 KiB", 7 << 10),
        (" 5 mb ", 5_000_000),
        (2048, 2048),
    ],
)
def test_sizes(text, expected):
    """A size is a number with a unit: decimal, or binary with an i."""
    assert parse_size("--memory", text) == expected


@pytest.mark.parametrize("text", ["", "GB", "1XB", "1,5GB", "0x10", "1 2", "nan", "inf", "-1", "1e400"])
def test_what_is_no_size(text):
    """Anything else is refused."""
    with pytest.raises(Refused, match="--memory"):
        RunOptions(memory=text)


def test_every_option_is_described():
    """The help of each is in the docstring, and none is described that there is not."""
    from splitter.recipes.parameters import docstring_section, field_parameters

    described = docstring_section(RunOptions.__doc__, "Attributes")
    assert set(described) == {parameter.name for parameter in field_parameters(RunOptions)}
    assert all(text.endswith(".") for text in described.values())


def test_the_cpus_of_this_process():
    """--workers is by default the CPUs this process may use, and not those of the machine."""
    if not hasattr(os, "sched_getaffinity"):
        pytest.skip("this system has no CPU affinity")
    cpus = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(cpus)})
        assert usable_cpus() == 1
    finally:
        os.sched_setaffinity(0, cpus)
    assert 1 <= usable_cpus() <= len(cpus)


# -- batches and workers -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("size", "busy"), [(1, 4), (2, 2), (4, 1), (3, 2), (9, 1)])
def test_a_batch_is_what_one_worker_takes(capfd, four, size, busy):
    """4 files: batch size 1 / 2 / 4 makes 4 / 2 / 1 batches, so at most 4 / 2 / 1 workers are busy."""
    said, rows = go(capfd, four, "Together", "--batch-size", str(size), "--workers", "1")
    assert said.code == 0
    together = [int(row["together"]) for row in rows]
    batches = sum(1 / number for number in together)
    assert round(batches, 6) == busy
    assert together == ([size] * (4 // size) * size + [4 % size] * (4 % size))[:4]


BROKEN = {
    "Breaks": ("raised RuntimeError: too much for the GPU", "ValueError"),
    "Chained": ("raised RuntimeError: too much for the GPU", "KeyError"),
    "Crashes": ("ended its process: the process exited with code 3", "KeyError"),
}


@pytest.mark.parametrize("recipe", BROKEN)
def test_a_batch_that_fails_is_said(capfd, four, recipe):
    """The first with its error, all by their number; its inputs are done one by one, and fail alone."""
    said, rows = go(capfd, four, recipe, "--batch-size", "2", "--workers", "1")
    assert said.code == 1
    why, error = BROKEN[recipe]
    note = f"note: {recipe}: process_batch {why}; the inputs of that batch were tried one by one"
    assert said.err.count("process_batch") == said.err.count(note) == 1
    assert "3 of 4 inputs done, 1 failed, 2 batches tried one by one; " in said.err
    assert [row["input"] for row in rows] == ["a.txt", "c.txt", "d.txt"]
    (failed,) = read_table(four.parent / "out/errors.csv")
    assert (failed["input"], failed["error"]) == ("b.txt", error)
    assert ("too much for the GPU" in failed["traceback"]) == (recipe != "Crashes")


@pytest.mark.parametrize(("size", "busy"), [(2, 2), (4, 1)])
def test_no_more_workers_are_busy_than_there_are_batches(capfd, four, size, busy):
    """So many are really at work at the same time, and the run says that there are fewer batches."""
    how = ["--folder", f"{four.parent}/met", "--expected", str(busy), "--batch-size", str(size)]
    said, rows = go(capfd, four, "Meeting", *how, "--workers", "4")
    assert said.code == 0
    batches = "1 batch" if busy == 1 else f"{busy} batches"
    told = (
        f"{batches} for 4 workers: at most {busy} will be busy; use a smaller --batch-size for more batches\n"
    )
    assert told in said.err
    assert {row["most"] for row in rows} == {str(busy)}
    assert len({row["process"] for row in rows}) == busy


@pytest.mark.parametrize("size", [100, 7_000_000])
def test_few_batches_of_shards_are_said_where_it_matters(capfd, four, size):
    """Not of what is done soon by one worker; the option is named that makes more of them."""
    for name in "abcd":
        os.truncate(four.parent / f"inputs/{name}.txt", size)
    said, _ = go(capfd, four, "Together", "--sink", "webdataset", "--workers", "4")
    assert ("for 4 workers: at most " in said.err) == (size > 100)
    assert ("; use a smaller --shard-size for more batches\n" in said.err) == (size > 100)


def test_the_note_is_not_there_when_all_can_be_busy(capfd, four):
    """With as many batches as workers there is nothing to say."""
    how = ["--folder", f"{four.parent}/met", "--expected", "2", "--batch-size", "1", "--workers", "2"]
    said, rows = go(capfd, four, "Meeting", *how)
    assert "will be busy" not in said.err
    assert {row["most"] for row in rows} == {"2"}
    assert len({row["process"] for row in rows}) == 2


def test_no_workers_is_this_process(capfd, four):
    """--workers 0 processes in the driver, for a debugger."""
    how = ["--folder", f"{four.parent}/met", "--workers", "0"]
    said, rows = go(capfd, four, "Meeting", *how)
    assert said.code == 0
    assert {row["process"] for row in rows} == {str(os.getpid())}
    assert "busy" not in said.err


# -- a part of the inputs ----------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", ["0", "1"])
def test_limit(capfd, four, workers):
    """--limit N takes the first N inputs of the list; a trial that went well has exit code 0."""
    said, rows = go(capfd, four, "Sleeps", "--limit", "3", "--workers", workers)
    assert said.code == 0
    assert [row["input"] for row in rows] == ["a.txt", "b.txt", "c.txt"]
    assert "3 of 4 inputs done, 1 not tried yet" in said.err
    assert "next: run again without --limit for the rest" in said.err
    said, rows = go(capfd, four, "Sleeps", "--limit", "9", "--workers", workers)
    assert "4 of 4 inputs done; 1 output (1 byte)" in said.err


# -- failures ----------------------------------------------------------------------------------------------


def ten(four: Path, failing: str) -> None:
    """Ten inputs, of which some fail."""
    letters = "abcdefghij"
    write_files(four.parent, {f"inputs/{one}.txt": "fail" if one in failing else one for one in letters})
    write_list(four, [["input"], *([f"{one}.txt"] for one in letters)])


@pytest.mark.parametrize(
    ("failing", "allowed", "stops"),
    [
        ("ab", "1", True),
        ("ab", "2", False),
        pytest.param("a", "0", True, marks=pytest.mark.slow),
        pytest.param("", "0", False, marks=pytest.mark.slow),
        pytest.param("", "0%", False, marks=pytest.mark.slow),
        pytest.param("abc", "20%", True, marks=pytest.mark.slow),
        pytest.param("abc", "30%", False, marks=pytest.mark.slow),
        ("abc", "25.5%", True),
        pytest.param("abcdefghij", "100%", False, marks=pytest.mark.slow),
    ],
)
def test_max_failures(capfd, four, failing, allowed, stops):
    """Past a number, or a share of what there is to do, the run stops early with exit code 1."""
    ten(four, failing)
    for workers in "01":
        how = ["--max-failures", allowed, "--batch-size", "1", "--workers", workers]
        said, rows = go(capfd, four, "Sleeps", *how, out=workers)
        errors = read_table(four.parent / workers / "errors.csv")
        assert said.code == (1 if failing else 0)
        if stops:
            assert f"more than --max-failures {allowed}" in said.lines[-1]
            assert len(rows) + len(errors) < 10
        else:
            assert len(errors) == len(failing)
            assert len(rows) == 10 - len(failing)
        # without it the same command does the rest
        said, rows = go(capfd, four, "Sleeps", "--workers", workers, out=workers)
        assert len(rows) == 10 - len(failing)
        assert said.code == (1 if failing else 0)


@pytest.mark.slow
def test_limits_of_an_input(capfd, four):
    """--timeout and --memory end an input that takes more; the others are done."""
    write_files(four.parent, {"inputs/b.txt": "sleep", "inputs/c.txt": "eat"})
    how = ["--timeout", "4", "--memory", "60MB", "--workers", "1", "--batch-size", "4"]
    said, rows = go(capfd, four, "Sleeps", *how)
    assert said.code == 1
    assert [row["input"] for row in rows] == ["a.txt", "d.txt"]
    errors = {
        row["input"]: (row["error"], row["message"]) for row in read_table(four.parent / "out/errors.csv")
    }
    assert {name: error for name, (error, _) in errors.items()} == {
        "b.txt": "TimedOut",
        "c.txt": "MemoryExceeded",
    }
    assert "no result in 4 s" in errors["b.txt"][1]
    assert "60,000,000 bytes" in errors["c.txt"][1]


@pytest.mark.slow
def test_what_setup_takes_is_not_the_inputs(capfd, four):
    """A model may be larger than --memory allows an input; an input that takes more than that still fails."""
    write_files(four.parent, {"inputs/c.txt": "eat"})
    how = ["--memory", "60MB", "--workers", "1", "--batch-size", "4"]
    _, rows = go(capfd, four, "Loads", *how)
    assert [row["input"] for row in rows] == ["a.txt", "b.txt", "d.txt"]
    assert [row["error"] for row in read_table(four.parent / "out/errors.csv")] == ["MemoryExceeded"]


@pytest.mark.slow
def test_a_setup_that_takes_long_is_said(capfd, four, monkeypatch):
    """Once, as long as nothing is finished."""
    monkeypatch.setattr("splitter.engine.display.SECONDS_BETWEEN_LINES", 0.2)
    said, _ = go(capfd, four, "Loads", "--seconds", "2", "--workers", "1")
    assert said.err.count("still on the first inputs after 0.2 s") == 1
    said, _ = go(capfd, four, "Loads", "--seconds", "2", "--workers", "1", "--quiet", out="other")
    assert said.err == ""


@pytest.mark.slow
def test_temporary_files_of_a_worker_that_was_ended(capfd, four):
    """They are gone when the next input begins, and not only at the end: a week of timeouts fills no disk."""
    write_files(four.parent, {"inputs/a.txt": "sleep", "inputs/b.txt": "crash"})
    how = ["--folder", four.parent / "out", "--timeout", "4", "--workers", "1", "--batch-size", "2"]
    said, rows = go(capfd, four, "Litters", *how)
    assert said.code == 1
    assert [(row["input"], row["found"]) for row in rows] == [("c.txt", "1"), ("d.txt", "1")]
    assert len(read_table(four.parent / "out/errors.csv")) == 2


class Flaky(ProcessorDataset):
    """Fails to be read some times."""

    def __init__(self, inputs, times: int = 0):
        super().__init__(inputs)
        self.times, self.calls = times, 0

    def process(self, input_file):
        self.calls += 1
        if self.calls <= self.times:
            raise OSError(5, "Input/output error", str(input_file.path))
        return [], {"calls": self.calls}


@pytest.mark.parametrize(("times", "retries", "calls"), [(1, 1, 2), (1, 0, 1), (2, 1, 2), (0, 2, 1)])
def test_retries(four, tmp_path, times, retries, calls):
    """A read that fails for a moment is tried so many times again, and errors.csv counts the attempts."""
    dataset = Flaky([four.parent / "inputs/a.txt"], times)
    result = dataset.run(tmp_path / "out", workers=0, retries=retries, quiet=True)
    assert dataset.calls == calls
    assert len(result) == int(times <= retries)
    assert list(result.failed.get("attempts", [])) == ([] if times <= retries else [retries + 1])


def test_what_will_not_pass_is_not_tried_again(four, tmp_path):
    """An error of the user's own, or a missing file, is no matter of patience."""

    class Bad(Flaky):
        def process(self, input_file):
            self.calls += 1
            raise (ValueError if input_file.read_text() == "a" else FileNotFoundError)("no")

    dataset = Bad([four.parent / "inputs/a.txt", four.parent / "inputs/b.txt"])
    result = dataset.run(tmp_path / "out", workers=0, retries=5, quiet=True)
    assert dataset.calls == 2
    assert list(result.failed["attempts"]) == [1, 1]


# -- what it prints ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", ["0", "1"])
def test_quiet(capfd, four, workers):
    """--quiet prints nothing at all when all is well; when inputs failed, how many, and where they stand."""
    said, _ = go(capfd, four, "Sleeps", "--quiet", "--workers", workers)
    assert (said.code, said.out, said.err) == (0, "", "")
    write_files(four.parent, {"inputs/b.txt": "fail"})
    errors = f"{four.parent}/out/errors.csv"
    for _ in range(2):
        # a failure of an earlier run is one, too
        said, _ = go(capfd, four, "Sleeps", "--quiet", "--workers", workers, "--batch-size", "1")
        assert (said.code, said.out) == (1, "")
        assert said.lines[-1] == f"splitter: 1 of 4 inputs failed; see {errors}"


def test_quiet_still_says_that_finished_work_is_done_again(capfd, four):
    """And why, before it is; and that an input which keeps its outputs cannot be read."""
    how = ["--quiet", "--workers", "0"]
    assert (
        here(capfd, "run", four, "--root", "inputs", "-o", four.parent / "o", "--recipe", "words", *how).err
        == ""
    )
    how += ["--num-chars", "3"]
    said = here(capfd, "run", four, "--root", "inputs", "-o", four.parent / "o", "--recipe", "words", *how)
    assert said.lines == [
        "note: parameter num_chars changed from 2 to 3",
        "note: 4 finished inputs changed and will be redone",
    ]
    (four.parent / "inputs/b.txt").unlink()
    said = here(capfd, "run", four, "--root", "inputs", "-o", four.parent / "o", "--recipe", "words", *how)
    assert said.code == 1
    (line,) = said.lines
    assert line.startswith("splitter: make b.txt readable")


def test_quiet_still_says_why_it_stopped(capfd, four):
    """An error of the run is not a matter of taste."""
    ten(four, "abc")
    said, _ = go(
        capfd, four, "Sleeps", "--quiet", "--workers", "0", "--max-failures", "0", "--batch-size", "1"
    )
    assert said.code == 1
    (line,) = said.lines
    assert line == (
        "splitter: 1 input failed, more than --max-failures 0; "
        "see errors.csv, fix the cause, and run again with --retry-failed"
    )


def test_the_summary_has_three_lines(capfd, four):
    """What was done, where it is, what to do next."""
    said, _ = go(capfd, four, "Sleeps", "--workers", "1")
    out = f"{four.parent}/out"
    assert said.out == ""
    first, second, third = said.lines[-3:]
    assert first.startswith("4 of 4 inputs done; 4 outputs (4 bytes) made in ")
    assert second == f"manifest: {out}/manifest.csv"
    assert third == f"next: splitter report {shlex.quote(out)}"


def test_the_summary_of_a_run_with_failures(capfd, four):
    """It counts them, shows the first, and says how to try again."""
    write_files(four.parent, {"inputs/b.txt": "fail", "inputs/c.txt": "fail"})
    said, _ = go(capfd, four, "Sleeps", "--workers", "1")
    first, second, third = said.lines[-3:]
    assert first.startswith("2 of 4 inputs done, 2 failed; 2 outputs (2 bytes) made in ")
    assert second.endswith(f"errors: {four.parent}/out/errors.csv")
    assert third == (
        "next: see errors.csv (first: b.txt: ValueError in line 91 of r.py: bad), fix the cause, "
        "and run again with --retry-failed"
    )
    # and when nothing is done again
    again, _ = go(capfd, four, "Sleeps", "--workers", "1")
    assert again.lines[-1] == third


def test_the_failure_that_is_shown_is_the_first_of_the_list(capfd, four):
    """And the first row of errors.csv, whichever was met first: the largest inputs are begun first."""
    write_files(four.parent, {"inputs/b.txt": "fail", "inputs/c.txt": "fail" + " " * 1000})
    said, _ = go(capfd, four, "Sleeps", "--workers", "1", "--batch-size", "1")
    assert "(first: b.txt: ValueError in line 91 of r.py: bad)" in said.lines[-1]
    # of those that failed now, if any did
    write_files(four.parent, {"inputs/c.txt": "fail"})
    said, _ = go(capfd, four, "Sleeps", "--workers", "1")
    assert "(first: c.txt: ValueError" in said.lines[-1]


def test_keep_extension_and_rename(capfd, four):
    """Both as flags of the command line; --rename may be repeated."""
    write_list(four, [["input", "size", "error"], ["a.txt", "1", "2"]])
    said, rows = go(
        capfd,
        four,
        "Sleeps",
        "--keep-extension",
        "--rename",
        "size=length",
        "--rename=error=loss",
        "--workers",
        "0",
    )
    assert said.code == 0
    assert (rows[0]["length"], rows[0]["loss"], rows[0]["output"]) == ("1", "2", "a.txt/o")
    assert set(tree(four.parent / "out")) == {"manifest.csv", "a.txt/o"}
