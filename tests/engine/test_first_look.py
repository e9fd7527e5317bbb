"""A run sees first that the recipe works: one that fails on everything ends at once, and leaves no rows."""

import os
import time
from pathlib import Path

import pytest
from doors import here, read_table, write_files

from splitter import ProcessorDataset
from splitter.errors import RecipeError, RunStopped

pytestmark = pytest.mark.slow

RECIPE = '''
import os, sys, time
from pathlib import Path
from splitter import OutputFile, ProcessorDataset, Skip

class Told(ProcessorDataset):
    """Does what it is told, and notes each input that it is given."""

    def __init__(self, inputs, how: str = "", good: str = ""):
        super().__init__(inputs)
        self.how, self.good = how, good

    def process(self, input_file):
        with open(Path(__file__).with_name("given"), "a") as file:
            file.write(input_file.input + "\\n")
        text = input_file.read_text()
        if input_file.input == self.good:
            return [OutputFile("0.txt", text)], {}
        if self.how == "type":
            return [OutputFile("0.txt", text + 1)], {}
        if self.how == "returns":
            return text
        if self.how == "skip":
            raise Skip("as it should be")
        if self.how == "generator":
            return self.outputs(text), {}
        if self.how == "differently":
            exec(f"raise {['ValueError', 'KeyError'][len(text) > 35]}('no')")
        if self.how == "crash":
            os._exit(3)
        if self.how == "second crashes":
            if text == "x" * 30:
                raise ValueError("the first")
            os._exit(3)
        if self.how == "second is slow":
            if len(Path(__file__).with_name("given").read_text().split()) == 2:
                time.sleep(2)
            raise ValueError("no")
        if self.how == "missing":
            open("/not/there")
        if self.how == "of_input":
            raise FileNotFoundError(2, "gone", str(input_file.path))
        return [OutputFile("0.txt", text)], {}

    def outputs(self, text):
        yield OutputFile("0.txt", text)
        yield OutputFile("1.txt", text.no_such_method())

class Together(Told):
    def process_batch(self, input_files):
        return [self.process(input_file) for input_file in input_files]
'''
MANY = 20


@pytest.fixture
def told(folder) -> Path:
    """The recipe, beside many small inputs of growing size, and one that is large."""
    names = {f"in/{number:02d}.txt": "x" * (30 + number) for number in range(MANY)}
    return write_files(folder, {**names, "in/large.txt": "x" * 100_000, "told.py": RECIPE})


def run(capfd, told: Path, how: str, *arguments: str, kind: str = "Told"):
    recipe = ["--recipe", f"{told}/told.py:{kind}", "--how", how, "--output", told / "out"]
    return here(capfd, "run", told / "in", *recipe, *arguments)


def given(told: Path) -> list[str]:
    """The inputs that the recipe was given, one after the other."""
    return (told / "given").read_text().split()


@pytest.mark.parametrize("sink", ["files", "webdataset", "parquet"])
@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_recipe_that_fails_on_everything_ends_at_once(told, sink, workers, capfd):
    """With the traceback, the line in the user's file, and no row of errors.csv; nothing else was tried."""
    said = run(capfd, told, "type", "--sink", sink, "--workers", workers)
    assert said.code == 1
    assert f'  File "{told}/told.py", line 20, in process' in said.lines
    assert 'TypeError: can only concatenate str (not "int") to str' in said.lines
    last = said.lines[-1]
    assert last.startswith("stopped: Told fails with the same error on its first two inputs, ")
    assert last.endswith("use --max-failures 100% to continue anyway")
    assert f"(line 20 of {told}/told.py)" in last
    assert not (told / "out/errors.csv").exists()
    assert len(given(told)) == 2


@pytest.mark.parametrize(("how", "kind"), [("generator", "Told"), ("returns", "Told"), ("missing", "Told"),
                                           ("type", "Together")])  # fmt: skip
def test_so_does_one_that_fails_later_or_returns_the_wrong_thing(told, how, kind, capfd):
    said = run(capfd, told, how, kind=kind)
    assert said.code == 1
    assert "fails with the same error on its first two inputs" in said.lines[-1]
    assert not (told / "out/errors.csv").exists()


def test_other_workers_wait_for_what_is_said_of_the_recipe(told, capfd):
    """What fails in them meanwhile leaves no rows either."""
    said = run(capfd, told, "second is slow", "--workers", "2", "--batch-size", "2")
    assert said.code == 1
    assert "fails with the same error on its first two inputs" in said.lines[-1]
    assert not (told / "out/errors.csv").exists()
    assert not [name for name in os.listdir(told / "out/.splitter/records") if "begun" not in name]


def test_when_it_is_mended_the_same_command_does_all(told, capfd):
    """Nothing was committed, so nothing has to be tried again."""
    run(capfd, told, "type")
    recipe = told / "told.py"
    recipe.write_text(recipe.read_text().replace("text + 1", "text"))
    assert run(capfd, told, "type").code == 0
    assert len(read_table(told / "out/manifest.csv")) == MANY + 1


def test_one_bad_input_among_the_first_stops_nothing(told, capfd):
    """It is one row, and the second one that was tried for it is done in its own time."""
    said = run(capfd, told, "type", "--good", f"{MANY // 2:02d}.txt")
    assert said.code == 1
    tried = given(told)
    assert len(tried) == MANY + 2
    assert tried[0] != tried[1]
    assert len(read_table(told / "out/errors.csv")) == MANY


@pytest.mark.parametrize("how", ["differently", "crash", "second crashes", "of_input"])
def test_what_may_be_the_fault_of_inputs_is_a_row_for_each(told, how, capfd, monkeypatch):
    """Errors that differ, deaths of the process, files that cannot be read: the run goes on to its end.

    No worker waits for a verdict that nobody will give.
    """
    monkeypatch.setattr("splitter.worker.batch.SECONDS_FOR_VERDICT", 100.0)
    began = time.monotonic()
    assert run(capfd, told, how).code == 1
    assert time.monotonic() - began < 100
    assert len(read_table(told / "out/errors.csv")) == MANY + 1


def test_recordings_that_cannot_be_read_are_a_row_for_each(told, capfd):
    """It is not the recipe that is wrong, though all inputs are."""
    assert here(capfd, "run", told / "in", "--output", told / "out").code == 1
    assert len(read_table(told / "out/errors.csv")) == MANY + 1


def test_inputs_that_are_left_out_are_no_failures(told, capfd):
    assert run(capfd, told, "skip").code == 0
    assert len(read_table(told / "out/manifest.csv")) == MANY + 1


def test_few_inputs_are_rows_in_any_case(told, capfd):
    """They say as much, and as soon."""
    assert run(capfd, told, "type", "--limit", "8").code == 1
    assert len(read_table(told / "out/errors.csv")) == 8


def test_max_failures_says_how_many_may_fail(told, capfd):
    """Who gives it has been asked already."""
    said = run(capfd, told, "type", "--max-failures", "100%")
    assert said.code == 1
    assert len(read_table(told / "out/errors.csv")) == MANY + 1


def test_a_recipe_that_has_worked_is_not_doubted(told, capfd):
    """What is left of a run may all be bad."""
    assert run(capfd, told, "", "--limit", "10").code == 0
    write_files(told, {f"in/{number:02d}.txt": b"\xff" * number for number in range(11, MANY)})
    run(capfd, told, "")
    assert len(read_table(told / "out/errors.csv")) == MANY - 11


def test_work_done_first_is_not_done_twice(told, capfd):
    """A run whose recipe works gives it each input once, in any sink."""
    for sink in ("files", "webdataset"):
        (told / "given").unlink(missing_ok=True)
        assert run(capfd, told, "", "--sink", sink, "--fresh").code == 0
        assert sorted(given(told)) == sorted(os.listdir(told / "in"))


class Wrong(ProcessorDataset):
    """Fails as it is written."""

    def process(self, input_file):
        return input_file.no_such_name


def test_python_has_the_traceback_in_the_error(told):
    with pytest.raises(RecipeError, match="fails with the same error on its first two") as caught:
        Wrong(told / "in").run(told / "out", workers=1, quiet=True)
    assert isinstance(caught.value, RunStopped)
    assert "return input_file.no_such_name" in str(caught.value)


def test_a_second_input_that_hangs_is_ended(told, capfd):
    """--timeout holds for it as well, and the run goes on."""
    recipe = told / "told.py"
    recipe.write_text(recipe.read_text().replace("os._exit(3)", "time.sleep(60)"))
    (told / "in/large.txt").unlink()
    for number in range(3, MANY):
        (told / f"in/{number:02d}.txt").unlink()
    assert run(capfd, told, "second crashes", "--timeout", "3").code == 1
    errors = {row["input"]: row["error"] for row in read_table(told / "out/errors.csv")}
    assert errors["00.txt"] == "ValueError"
    assert {*errors.values()} == {"ValueError", "TimedOut"}
