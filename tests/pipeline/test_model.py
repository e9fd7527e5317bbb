"""Random pipelines, changed and killed at random: in the end they hold what stages run one by one make."""

import contextlib
import json
import random
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import chains
import psutil
import pytest
from chains import REPAIRED, Spec
from doors import write_files, write_list
from launcher import Driver, Launcher, check_manifest, children, left_in
from nightly import NIGHTLY
from pipeline.one_by_one import content_of, one_by_one

import splitter
import splitter.errors
from splitter.ledger import shard_groups, shard_ranges

TRIALS = 60 if NIGHTLY else 1
RUNS = 4 if NIGHTLY else 1
TABLES = ("manifest.csv", "errors.csv")
GROUPS = {"SPLITTER_TEST_GROUP": "4"}


class Model:
    """A pipeline that changes, and what it must have made."""

    def __init__(self, folder: Path, launcher: Launcher, chance: random.Random) -> None:
        self.folder, self.launcher, self.chance = folder, launcher, chance
        self.texts = {f"in/{number % 3}/text {number}.txt": self._text() for number in range(14)}
        self.labels = {name: f"label {number}" for number, name in enumerate(self.texts)}
        self.spec: Spec = {"output": str(folder / "voices"), "stages": []}
        self.repaired = False
        self.kills: list[str] = []
        self._choose_stages()

    # -- what is random -------------------------------------------------------------------------------------

    def _text(self) -> str:
        words = [f"w{self.chance.randrange(100)}" for _ in range(self.chance.randint(1, 7))]
        if self.chance.random() < 0.25:
            fate = self.chance.choice(["late", "fail-a", "skip-b", "fail-b", "skip-a", "fail-c"])
            words.insert(self.chance.randrange(len(words)), fate)
        return " ".join(words)

    def _choose_stages(self) -> None:
        chance, stages = self.chance, self.spec["stages"]
        count = chance.choice([1, 2, 3, 3, 4, 4])
        for number in range(count):
            mark = "abcd"[number]
            stage: Spec = {
                "name": f"stage {mark}",
                "recipe": chance.choice(["Cut", "Change", "Judge"] if number else ["Cut", "Cut", "Judge"]),
                "parameters": {"mark": mark, "size": chance.randint(1, 3), "seconds": 0.005},
                "version": 1,
                "options": {"max_failures": "100%"} if chance.random() < 0.2 else {"max_failures": 1000},
            }
            if number:
                # the one before, or any: two stages may take the same one
                stage["from"] = chance.choice([stages[-1], stages[-1], *stages])["name"]
            else:
                stage["list"] = str(self.folder / "list.csv")
            stages.append(stage)
        if stages[-1]["recipe"] != "Judge":
            stages[-1]["options"]["sink"] = chance.choice(["files", "webdataset", "parquet"])
        for stage in stages:
            self._choose_where(stage)
            self._choose_keep(stage)
            self._choose_fuse(stage)

    def _choose_where(self, stage: Spec) -> None:
        stage.pop("where", None)
        before = self.stage_before(stage)
        if before and before["recipe"] == "Judge" and self.chance.random() < 0.7:
            stage["where"] = f"q{before['parameters']['mark']} > {self.chance.randint(-1, 4)}"

    def _choose_keep(self, stage: Spec) -> None:
        stage.pop("until_used", None)
        if stage["recipe"] != "Judge" and self._users(stage) and self.chance.random() < 0.7:
            stage["until_used"] = self.chance.random() < 0.5

    def _choose_fuse(self, stage: Spec) -> None:
        stage.pop("fuse", None)
        before = self.stage_before(stage)
        passes_on = before and (before["recipe"] != "Judge" or before.get("fuse"))
        if passes_on and stage["options"].get("sink", "files") == "files":
            stage["fuse"] = self.chance.random() < 0.6

    def _users(self, stage: Spec) -> list[Spec]:
        """The stages that read the files of one."""
        users = [one for one in self.spec["stages"] if one.get("from") == stage["name"]]
        return users + [other for one in users if one["recipe"] == "Judge" for other in self._users(one)]

    def drops(self, stage: Spec) -> bool:
        """Whether the files of a stage go when they are used."""
        users = stage["recipe"] != "Judge" and self._users(stage)
        return stage.get("until_used", bool(users) and all(one.get("fuse") for one in users))

    def stage_before(self, stage: Spec) -> Spec | None:
        return next((one for one in self.spec["stages"] if one["name"] == stage.get("from")), None)

    def change(self) -> str:  # noqa: C901 - one after the other
        """Change something that a user may change between runs."""
        chance = self.chance
        kinds = ["rows", "text", "label", "parameter", "version", "where", "keep", "fuse", "repair"]
        what = chance.choice(kinds)
        stage = chance.choice(self.spec["stages"])
        names = [*self.texts]
        if what == "rows":
            for name in chance.sample(names, 2):
                del self.texts[name]
            self.texts[f"in/new {chance.randrange(1000)}.txt"] = self._text()
        elif what == "text":
            self.texts[chance.choice(names)] = self._text()
        elif what == "label":
            self.labels[chance.choice(names)] = f"changed {chance.randrange(1000)}"
        elif what == "parameter":
            stage["parameters"]["size"] = chance.randint(1, 3)
        elif what == "version":
            stage["version"] += 1
        elif what == "where":
            self._choose_where(stage)
        elif what == "keep":
            self._choose_keep(stage)
        elif what == "fuse":
            for one in self.spec["stages"]:
                self._choose_fuse(one)
        else:
            self.repaired = True
        return f"{what} {stage['name']}"

    # -- runs -----------------------------------------------------------------------------------------------

    def write(self) -> None:
        """Write inputs and their list; only what has changed gets another time."""
        for name, text in self.texts.items():
            path = self.folder / name
            if not path.exists() or path.read_text() != text:
                write_files(self.folder, {name: text})
        rows = [[name, self.labels.setdefault(name, "new")] for name in self.texts]
        write_list(self.folder / "list.csv", [["input", "label"], *rows])

    def start(self) -> Driver:
        request = {"spec": self.spec, "options": {"workers": 2, "retry_failed": True, "prune": True}}
        path = self.folder / "request.json"
        path.write_text(json.dumps(request))
        (self.folder / "tmp").mkdir(exist_ok=True)
        environ = {**chains.environ_of(repaired=self.repaired), **GROUPS}
        environ["TMPDIR"] = str(self.folder / "tmp")
        return self.launcher.start(chains.__file__, path, environ=environ)

    def run(self) -> Driver:
        """Run to the end."""
        began = time.monotonic()
        driver = self.start()
        driver.wait()
        self.seconds = time.monotonic() - began
        self.check_end(driver)
        return driver

    def run_and_kill(self) -> None:
        """Run, and kill something at a random moment."""
        driver = self.start()
        time.sleep(self.chance.uniform(0, self.seconds))
        victim = self.chance.choice(["pipeline", "pipeline", "stage", "guard", "runner"])
        number = self.chance.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
        processes = [psutil.Process(driver.pid)] if victim == "pipeline" and driver.poll() is None else []
        if victim != "pipeline":
            processes, number = children(driver.pid), signal.SIGKILL
            for _ in range(("stage", "guard", "runner").index(victim)):
                processes = [child for process in processes for child in children(process.pid)]
        if processes and driver.poll() is None:
            with contextlib.suppress(psutil.Error):
                self.chance.choice(processes).send_signal(number)
            self.kills.append(f"{victim} {number}")
        driver.wait()
        self.check_end(driver)
        for stage in self.spec["stages"]:
            output = Path(self.spec["output"], stage["name"])
            is_whole = not (output / ".splitter" / "dropped.json").exists()
            if is_whole and stage["options"].get("sink", "files") == "files":
                check_manifest(output)

    def check_end(self, driver: Driver) -> None:
        """Nothing is left of a run, and nothing is printed that is not for its user."""
        driver.check_gone()
        assert "Traceback" not in driver.stderr, driver.stderr
        assert left_in(self.folder / "tmp") == [], driver.stderr

    # -- what must be there -------------------------------------------------------------------------------

    def expected(self, folder: Path) -> Iterator[tuple[Spec, Path]]:
        """What the stages make one by one, in the same groups."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("splitter.ledger.shard_groups.MOST_SMALL", int(GROUPS["SPLITTER_TEST_GROUP"]))
            if self.repaired:
                patch.setenv(REPAIRED, "1")
            yield from one_by_one(self.spec, folder)

    def check(self, driver: Driver) -> None:
        """The pipeline holds what the stages make one by one."""
        folder = self.folder / "expected"
        for stage, expected in self.expected(folder):
            name, output = stage["name"], Path(self.spec["output"], stage["name"])
            assert output.is_dir(), (name, driver.stderr)
            found, wanted = content_of(output), content_of(expected)
            if self.drops(stage):
                wanted = {one: wanted[one] for one in wanted if one in (*TABLES, *found)}
                assert {*found} <= {*TABLES} or driver.code, (name, driver.stderr)
            verdict = splitter.verify(output, workers=1)
            assert not verdict.findings, (name, verdict.findings, driver.stderr)
            assert [*found] == [*wanted], (name, driver.stderr)
            for one in found:
                assert found[one] == wanted[one], (name, one, driver.code, driver.stderr)
        shutil.rmtree(folder)


def shards_of(output: str | Path) -> dict[str, bytes]:
    """The content of each shard that a pipeline has made."""
    return {path.name: path.read_bytes() for path in sorted(Path(output).glob("*/shards/*"))}


@pytest.fixture
def models(folder: Path, launcher: Launcher, chance: random.Random) -> Callable[[], "Model"]:
    """Makes a pipeline after the other."""
    made = 0

    def make() -> Model:
        nonlocal made
        made += 1
        place = folder / f"trial {made}"
        place.mkdir()
        # of its own, since what is drawn depends on what there is to kill
        return Model(place, launcher, random.Random(chance.randrange(2**32)))

    return make


def test_changes_and_kills(models):
    """Whatever is changed and killed, a pipeline ends with what its stages make one by one."""
    kills: list[str] = []
    for _ in range(TRIALS):
        model = models()
        model.write()
        model.seconds = 2.0
        told = []
        try:
            if model.chance.random() < 0.5:
                driver = model.run()
                model.check(driver)
            for _ in range(RUNS):
                told.append(model.change())
                model.write()
                for _ in range(model.chance.randint(0, 2)):
                    model.run_and_kill()
                driver = model.run()
                model.check(driver)
        except BaseException:
            print(json.dumps(model.spec, indent=1), told, model.kills)  # noqa: T201 - to find the cause
            raise
        kills += model.kills
        shutil.rmtree(model.folder)
    print(TRIALS, "pipelines", len(kills), "kills", Counter(kills))  # noqa: T201 - shown with -rP
    if NIGHTLY:
        assert len(kills) >= 50, kills


@pytest.mark.skipif(not NIGHTLY, reason="the gate kills pipelines in the test above")
def test_shards_after_kills_are_those_of_stages_one_by_one(models, monkeypatch):
    """Shards that were made early, in a pipeline that was killed and continued, are the same bytes."""
    monkeypatch.setattr(shard_groups, "MOST_SMALL", int(GROUPS["SPLITTER_TEST_GROUP"]))
    monkeypatch.setattr(shard_ranges, "FEWEST_RANGES", 2)
    for _ in range(20):
        model = models()
        last = model.spec["stages"][-1]
        if last["recipe"] == "Judge":
            last["recipe"] = "Change"
        last["options"]["sink"] = "webdataset"
        # so that later stages have begun when it is at work
        model.spec["stages"][0]["parameters"]["seconds"] = 0.2
        model.write()
        model.seconds = 4.0
        for _ in range(3):
            model.run_and_kill()
        driver = model.run()
        other = model.folder / "one by one"
        for stage in model.spec["stages"]:
            pipeline = chains.pipeline_of({**model.spec, "output": str(other)})
            with contextlib.suppress(splitter.errors.RunStopped):
                pipeline.run(only=stage["name"], workers=0, quiet=True, retry_failed=True)
        assert shards_of(model.spec["output"]) == shards_of(other), (model.spec, model.kills, driver.stderr)
        shutil.rmtree(model.folder)
