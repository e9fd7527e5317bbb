"""What goes wrong in one stage, or to the process of a pipeline, and what the others make of it."""

import json
import os
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import chains
import psutil
import pytest
from doors import write_files, write_list
from faulty import HOLD
from launcher import Driver, Launcher, check_manifest, in_time, signal_all

import splitter
from splitter.testing.published import read_table

INPUTS = 24


class Chain:
    """cut -> change, of small texts."""

    def __init__(self, folder: Path, launcher: Launcher) -> None:
        self.folder, self.launcher, self.output = folder, launcher, folder / "voices"
        write_files(folder, {f"in/{number}.txt": f"a{number} b{number} c d" for number in range(INPUTS)})
        rows = [[f"in/{number}.txt", f"label {number}"] for number in range(INPUTS)]
        self.spec: chains.Spec = {"output": str(self.output), "stages": []}
        self.add("cut", "Cut", list=str(write_list(folder / "list.csv", [["input", "label"], *rows])))
        self.add("change", "Change", **{"from": "cut"})
        self._held = folder / "hold"

    def add(self, name: str, recipe: str, **more: Any) -> chains.Spec:
        stage = {"name": name, "recipe": recipe, "parameters": {"mark": name}, "version": 1, **more}
        self.spec["stages"].append(stage)
        return stage

    def start(self, **options: Any) -> Driver:
        path = self.folder / "request.json"
        path.write_text(json.dumps({"spec": self.spec, "options": {"workers": 2, **options}}))
        return self.launcher.start(chains.__file__, path, environ={HOLD: str(self._held)})

    def run(self, **options: Any) -> Driver:
        driver = self.start(**options)
        driver.wait()
        driver.check_gone()
        return driver

    def hold(self) -> None:
        """The first stage does not come to its end, however slow this test is, until it is let go."""
        write_files(self.folder, {f"in/{INPUTS - 1}.txt": "the last must wait", "hold": "wait"})

    def let_go(self) -> None:
        self._held.unlink()

    def slow(self, seconds: float) -> None:
        for stage in self.spec["stages"]:
            stage["parameters"]["seconds"] = seconds

    def check(self) -> list[dict[str, str]]:
        """All is there, and as it was made."""
        for stage in self.spec["stages"]:
            assert splitter.verify(self.output / stage["name"], workers=1).findings == []
            rows = check_manifest(self.output / stage["name"])
        return rows

    def until_following(self, driver: Driver) -> None:
        """Wait until the second stage has done something, and the first is at work."""
        driver.until(lambda: [*(self.output / "change").rglob("out.txt")])


@pytest.fixture
def chain(folder: Path, launcher: Launcher) -> Chain:
    return Chain(folder, launcher)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_the_pipeline_is_ended_while_stages_work(chain: Chain, number: int):
    """Drivers and workers end by themselves, what is there is whole, and the next run continues."""
    chain.hold()

    def seconds_to_end() -> float:
        shutil.rmtree(chain.output, ignore_errors=True)
        driver = chain.start()
        chain.until_following(driver)
        began = time.monotonic()
        driver.signal(number, group=False)
        code = driver.wait()
        seconds = time.monotonic() - began
        driver.check_gone()
        if number == signal.SIGINT:
            assert code == 130
            assert "run the same command to continue" in driver.stderr
        assert "Traceback" not in driver.stderr
        return seconds

    assert in_time(4, seconds_to_end)
    for stage in ("cut", "change"):
        check_manifest(chain.output / stage)
    chain.let_go()
    assert (again := chain.run()).code == 0, again.stderr
    assert len(chain.check()) == 2 * INPUTS
    # what was done is not done again
    assert "24 of 24 inputs done; 48 outputs" not in again.stderr


def test_a_broken_recipe_in_a_later_stage(chain: Chain):
    """It ends the whole pipeline soon, with one line that names the stage and no traceback of splitter."""
    chain.hold()
    chain.spec["stages"][1]["recipe"] = "Broken"
    driver = chain.run()
    assert driver.code == 1
    stopped = [line for line in driver.stderr.splitlines() if line.startswith("stopped: ")]
    assert len(stopped) == 1
    assert "stage change" in stopped[0]
    assert "KeyError" in stopped[0]
    assert len(read_table(chain.output / "cut" / "manifest.csv")) < 2 * INPUTS
    assert "multiprocessing" not in driver.stderr


def test_a_refusal_in_a_later_stage(chain: Chain):
    """A condition over a column that never comes: the stage says so and waits, and is refused at the end."""
    chain.spec["stages"][1]["where"] = "scroe > 3"
    driver = chain.run()
    assert driver.code == 2
    assert "stage change" in driver.stderr
    assert driver.stderr.index("waiting, as it may come later") < driver.stderr.index("stopped: ")
    assert "scroe" in driver.stderr
    assert "Traceback" not in driver.stderr


def test_a_full_queue_holds_back_and_no_more(chain: Chain):
    """A queue that takes next to nothing makes a pipeline slower, and it ends."""
    chain.spec["queue"] = "1B"
    chain.add("more", "Change", **{"from": "change"})
    assert (driver := chain.run()).code == 0, driver.stderr
    assert len(chain.check()) == 2 * INPUTS


def test_without_workers(chain: Chain):
    """Stages overlap in their drivers, too."""
    assert (driver := chain.run(workers=0)).code == 0, driver.stderr
    assert len(chain.check()) == 2 * INPUTS


def test_other_names_of_the_outputs_before(chain: Chain):
    """Outputs that get other endings take the folders of those before; nothing is refused or lost."""
    assert chain.run().code == 0
    chain.spec["stages"][0]["parameters"]["size"] = 3
    assert (driver := chain.run()).code == 0, driver.stderr
    rows = chain.check()
    assert len(rows) == 2 * INPUTS
    assert all(row["input"].endswith(".txt") for row in rows)


def test_one_new_name_among_many(chain: Chain):
    """A single input that takes the folder of one that goes, seen when the work has begun long before."""
    last = chain.folder / "in" / f"{INPUTS - 1}.txt"
    assert chain.run().code == 0
    chain.spec["stages"][0]["recipe"] = "CutLast"
    chain.slow(0.01)
    last.write_text("changed at last")
    assert (driver := chain.run()).code == 0, driver.stderr
    chain.check()
    last.write_text("changed at last, and .md")
    assert (driver := chain.run()).code == 0, driver.stderr
    assert {row["from_input"] for row in chain.check()} == {f"in/{number}.txt" for number in range(INPUTS)}


def test_a_column_that_comes_late(chain: Chain):
    """Metadata that only the last input has is a column of what follows, too."""
    (chain.folder / "in" / "9.txt").write_text("late x y z")
    chain.slow(0.02)
    chain.add("judge", "Judge", **{"from": "change"})
    assert (driver := chain.run()).code == 0, driver.stderr
    assert [row["from_late"] for row in chain.check() if row["from_late"]] == ["late x"]


def test_all_inputs_skipped(chain: Chain):
    """A stage without outputs leaves the next with nothing, and that is no fault."""
    for number in range(INPUTS):
        (chain.folder / "in" / f"{number}.txt").write_text("skip-cut")
    driver = chain.run()
    assert "Traceback" not in driver.stderr
    assert driver.code == 0, driver.stderr
    assert read_table(chain.output / "change" / "manifest.csv") == []


def test_an_input_that_fails_before_and_after(chain: Chain):
    """What failed has no children, and what it had made goes with it; repaired, it has them again."""
    first = chain.folder / "in" / "0.txt"
    assert chain.run().code == 0
    first.write_text("fail-cut a b c")
    assert chain.run().code == 1
    assert "in/0.txt" not in {row["from_input"] for row in chain.check()}
    assert not [*(chain.output / "change" / "in" / "0").rglob("out.txt")]
    first.write_text("good again")
    assert chain.run().code == 0
    assert "in/0.txt" in {row["from_input"] for row in chain.check()}


def test_two_pipelines_at_once(chain: Chain):
    """The second is refused, or waits, and spoils nothing."""
    chain.hold()
    first = chain.start()
    chain.until_following(first)
    second = chain.start()
    assert second.wait() == 2
    chain.let_go()
    assert "voices" in second.stderr
    assert len(second.stderr.splitlines()) == 1
    assert first.wait() == 0, first.stderr
    assert len(chain.check()) == 2 * INPUTS


def test_dropped_files_of_a_killed_stage_are_made_again(chain: Chain):
    """A stage whose driver is killed has the list of its first inputs only, and knows all it has done."""
    chain.slow(0.05)
    chain.spec["stages"][0]["parameters"]["seconds"] = 0.3
    chain.spec["stages"][1]["until_used"] = True
    chain.add("more", "Change", **{"from": "change"})
    driver = chain.start()
    # of folders that come and go
    driver.until(lambda: sum("out.txt" in names for *_, names in os.walk(chain.output / "more")) >= INPUTS)
    pipeline = psutil.Process(driver.pid)
    signal_all([*pipeline.children(), pipeline], signal.SIGKILL)
    driver.wait()
    driver.check_gone()
    chain.spec["stages"][2]["parameters"]["size"] = 7
    assert (again := chain.run()).code == 0, again.stderr
    made = [path.read_text() for path in (chain.output / "more").rglob("out.txt")]
    assert len(made) == 2 * INPUTS
    assert all(text.endswith(" 7") for text in made)


def test_files_go_while_the_pipeline_is_at_work(chain: Chain):
    """The last of a chain of readers drops what it has done, though the first reads the same files."""
    chain.hold()
    cut, change = chain.spec["stages"]
    cut["until_used"] = True
    change["from"] = "judge"
    chain.spec["stages"].insert(1, {**change, "name": "judge", "recipe": "Judge", "from": "cut"})
    driver = chain.start()
    # of folders that come and go
    driver.until(lambda: sum("out.txt" in names for *_, names in os.walk(chain.output / "change")) >= INPUTS)
    cut_files = chain.output / "cut"
    driver.until(
        lambda: sum(name.endswith(".md") for *_, names in os.walk(cut_files) for name in names) < INPUTS
    )
    chain.let_go()
    assert driver.wait() == 0, driver.stderr
    assert not [*(chain.output / "cut").rglob("*.md")]
