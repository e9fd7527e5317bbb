"""The commit protocol against a model: whatever died, and wherever, the end is that of an undisturbed run."""

import errno
import json
import os
import shutil
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from crashes import (
    RECIPE,
    Ended,
    complaints,
    contents,
    faulty,
    folders,
    in_folder,
    killed,
    read_rows,
    undisturbed,
)
from doors import write_list
from hypothesis import Phase, event, given, note, settings
from hypothesis import strategies as st
from nightly import STRIDE, depth

pytestmark = pytest.mark.slow

# What an input can hold: how many outputs it is to make, how it ends, and what stands in the manifest.
TEXTS = [
    {"outputs": outputs, "end": end, "salt": f"salt {number}", "metadata": metadata}
    for number, (outputs, end, metadata) in enumerate(
        [
            (1, "ok", {"count": 1}),
            (3, "ok", {"count": 3, "note": 'a "quoted",\nnote'}),
            (6, "ok", {"count": 6.5}),
            (0, "ok", {"count": "none", "other": True}),
            (2, "raise", {}),
            (0, "skip", {}),
        ]
    )
]
MISSING = None

# Of each of these at most one is in a list: their folders meet, or lie in each other.
SLOTS = [("a.txt", "a.md", "a/0-0.bin.txt"), ("a.txt.x",), ("b.txt",), ("deep/er/c.txt",), ("deep/d.txt",)]


@dataclass(frozen=True)
class Row:
    name: str
    text: int | None
    label: str


@dataclass(frozen=True)
class Run:
    """One call of the command: the list as it is then, the options, and the step at which it is killed."""

    rows: list[Row]
    flavour: int = 0
    version: str = "1"
    batch_size: int | None = None
    keep_extension: bool = False
    name: str = ""
    flags: tuple[str, ...] = ()
    death: int | None = None


@dataclass
class World:
    """A folder with inputs that change, and an output."""

    home: Path
    written: dict[str, int | None] = field(default_factory=dict)
    clock: int = 1_000_000_000

    @property
    def output(self) -> Path:
        return self.home / "outputs"

    def sink(self, run: Run) -> list[str]:
        """The options that say where outputs go."""
        return [f"--batch-size={run.batch_size}"] * bool(run.batch_size)

    def complaints(self) -> list[str]:
        """What is wrong with the output as it is."""
        return complaints(self.output)

    def everything(self, output: Path) -> dict[str, bytes]:
        """What there is, as far as a run with a past and one without must agree."""
        return everything(output)

    def prepare(self, run: Run) -> None:
        """Make the inputs and the list what they are to be at this run."""
        (self.home / "inputs").mkdir(exist_ok=True)
        for row in run.rows:
            if row.name in self.written and self.written[row.name] == row.text:
                continue
            path = self.home / "inputs" / row.name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink(missing_ok=True)
            if row.text is not MISSING:
                path.write_text(json.dumps(TEXTS[row.text]))
                # no two contents of a file have the same time, as on a disk with a fine clock
                self.clock += 1
                os.utime(path, (self.clock, self.clock))
            self.written[row.name] = row.text
        rows = [["input", "label"], *([row.name, row.label] for row in run.rows)]
        write_list(self.home / "dataset.csv", rows)

    def arguments(self, run: Run, output: Path, *flags: str) -> list[str]:
        options = [f"--recipe={RECIPE}:Marked", f"--output={output}", "--root=inputs", "--workers=0"]
        options += [f"--flavour={run.flavour}", *run.flags, *flags]
        options += ["--keep-extension"] * run.keep_extension
        options += [f"--name={run.name}"] * bool(run.name)
        options += self.sink(run)
        return ["run", str(self.home / "dataset.csv"), *options]

    def do(self, run: Run, *flags: str) -> Ended:
        ended = killed(self.arguments(run, self.output, *flags), run.death, VERSION=run.version)
        assert ended.code in (0, 1, -9) or is_refusal(ended), ended.said
        assert self.complaints() == [], ended.said
        return ended

    def fresh(self, run: Run) -> dict[str, bytes]:
        """What a run without a past makes."""
        output = self.home / "fresh"
        ended = undisturbed(self.arguments(run, output), VERSION=run.version)
        assert ended.code in (0, 1), ended.said
        made = self.everything(output)
        shutil.rmtree(output)
        return made

    def finish(self, run: Run) -> dict[str, bytes]:
        """What there is after an undisturbed run."""
        ended = undisturbed(self.arguments(run, self.output, "--prune"), VERSION=run.version)
        if is_refusal(ended):
            ended = undisturbed(self.arguments(run, self.output, "--fresh"), VERSION=run.version)
        assert ended.code in (0, 1), ended.said
        assert "stopped" not in ended.said
        return self.everything(self.output)

    def check_end(self, run: Run) -> None:
        """After an undisturbed run the output is that of a run that never had a past."""
        expected = self.fresh(run)
        assert self.finish(run) == expected
        again = undisturbed(self.arguments(run, self.output), VERSION=run.version)
        assert again.said.startswith("nothing to do"), again.said
        assert self.everything(self.output) == expected


def everything(output: Path) -> dict[str, bytes]:
    """The files of an output folder, and its folders, but for splitter's own."""
    made = {**contents(output), **{f"{name}/": b"" for name in folders(output)}}
    if "errors.csv" in made:
        # how often an input was tried depends on the day
        rows = [row | {"attempts": ""} for row in read_rows(output / "errors.csv")]
        made["errors.csv"] = json.dumps(rows).encode()
    return made


def is_refusal(ended: Ended) -> bool:
    """Whether a run was refused because of what the folder holds, with the remedy, in one line."""
    advised = "use --prune" in ended.said or "use --fresh" in ended.said
    return ended.code == 2 and ended.said.count("\n") == 1 and advised


@pytest.fixture
def world(folder: Path) -> World:
    return World(folder)


def rows_of(names: str, text: int = 1, label: str = "") -> list[Row]:
    return [Row(name, text, label) for name in names.split()]


# -- random histories --------------------------------------------------------------------------------------

Texts = st.SearchStrategy[int | None]
labels = st.sampled_from(["", 'a "b", c', "x\ny", "007"])
some_text = st.sampled_from(range(len(TEXTS)))
# a run costs some 30 to 200 steps
deaths = st.integers(1, 40) | st.integers(1, 200)


_seldom = st.sampled_from([False] * 5 + [True])


@st.composite
def histories(draw: st.DrawFn) -> list[Run]:
    """Runs of which each has most of its list from the one before."""
    rows: list[Row | None] = [None] * len(SLOTS)
    history = []
    for last in [*[False] * draw(st.integers(1, 4)), True]:
        texts = some_text if last else some_text | st.just(MISSING)
        for slot, names in enumerate(SLOTS):
            rows[slot] = draw(_next(rows[slot], names, texts))
        listed = [row for row in rows if row]
        run = Run(
            listed[::-1] if draw(st.booleans()) else listed,
            flavour=int(draw(_seldom)),
            version="2" if draw(_seldom) else "1",
            batch_size=draw(st.sampled_from([None, 1, 2, 5])),
            keep_extension=draw(_seldom),
            flags=() if last else draw(st.sampled_from(FLAGS)),
            death=None if last else draw(st.none() | deaths | deaths),
        )
        history.append(run)
    return history


FLAGS = [
    (),
    (),
    (),
    ("--prune",),
    ("--fresh",),
    ("--retry-failed",),
    ("--limit=2",),
    ("--limit=1", "--prune"),
]


def _next(row: Row | None, names: tuple[str, ...], texts: Texts) -> st.SearchStrategy[Row | None]:
    new = st.builds(Row, st.sampled_from(names), texts, labels)
    if row is None:
        return new | st.none()
    same = st.just(row) if row.text is not MISSING else new
    relabelled = st.builds(Row, st.just(row.name), same.map(lambda row: row.text), labels)
    return same | same | relabelled | new | st.none()


THOROUGH = settings(max_examples=depth(25), phases=(Phase.generate, Phase.shrink))


@THOROUGH
@given(history=histories())
def test_any_history_of_deaths_and_changes_ends_as_a_fresh_run(history: list[Run]):
    """Killed anywhere, with other rows, texts, labels, parameters and batches each time: no trace stays."""
    live_through(history, World)


def live_through(history: list[Run], kind: type[World]) -> None:
    """All runs, and then the check of the last."""
    with tempfile.TemporaryDirectory(prefix="it's naïve ") as home:
        world = kind(Path(home))
        for run in history[:-1]:
            world.prepare(run)
            ended = world.do(run)
            note(f"{ended.code} after {len(ended.steps)} steps: {ended.said}")
            event(f"a run ended with {ended.code}")
        world.prepare(history[-1])
        world.check_end(history[-1])


# of which one input may get the names that another has had, by its label or by its path
NAMES = [
    "{path}_{index:02d}",
    "{label}/{source}_{index}",
    "{source}/{label}_{index}",
    "{path}/{index}/{label}",
]


class NamedWorld(World):
    """One in which templates say where outputs go."""

    def complaints(self) -> list[str]:
        return complaints(self.output, is_named)


def is_named(name: str, made: dict[str, Any]) -> bool:
    """Whether some template, or none, and some label give an output a name."""
    number = int(made["name"].partition("-")[0])
    for path in (made["input"], os.path.splitext(made["input"])[0]):
        known = {"path": path, "source": path.rpartition("/")[2], "index": number}
        if name in {f"{form}.bin".format(**known, label=label) for form in NAMES for label in ("l1", "l2")}:
            return True
    return in_folder(name, made)


@settings(THOROUGH, max_examples=depth(5))
@given(history=histories(), names=st.lists(st.sampled_from(["", *NAMES]), min_size=5, max_size=5))
def test_and_so_it_is_when_templates_name_the_outputs(history: list[Run], names: list[str]):
    """Labels and templates change too, so that names go from one input to another."""
    named = [
        replace(run, name=name, rows=[replace(row, label=f"l{1 + len(row.label) % 2}") for row in run.rows])
        for run, name in zip(history, [*names[: len(history) - 1], names[-1]], strict=True)
    ]
    live_through(named, NamedWorld)


# -- histories that random ones seldom meet -----------------------------------------------------------------


TAKEN = {
    "the same folder": ("a.txt", "a.md"),
    "the same folder for some file systems": ("A.txt", "a.md"),
    "a folder that is an output": ("a.txt", "a/0-0.bin.txt"),
    "a folder below": ("a.txt", "a/b/c.txt"),
    "a folder above": ("a/b/c.txt", "a.txt"),
}


@pytest.mark.parametrize(("gone", "new"), TAKEN.values(), ids=TAKEN)
def test_a_new_input_does_not_take_the_folder_of_one_that_is_gone(world: World, gone: str, new: str):
    """Their outputs would be mixed, and --prune would remove those of the new one."""
    world.prepare(before := Run(rows_of(f"{gone} b.txt", text=2)))
    assert world.do(before).code == 0
    made = contents(world.output)
    world.prepare(after := Run(rows_of(f"{new} b.txt", text=1)))
    ended = world.do(after)
    assert is_refusal(ended)
    assert ended.said.startswith(f"splitter: {new}: ")
    assert gone in ended.said
    assert "--prune" in ended.said
    assert contents(world.output) == made
    world.check_end(after)


def test_an_input_that_is_gone_and_has_no_outputs_is_not_in_the_way(world: World):
    """It failed, or was left out, or had only metadata."""
    for text in (3, 4, 5):
        world.prepare(run := Run([Row("a.txt", text, "")]))
        world.do(run)
        world.prepare(run := Run([Row("a.md", 1, "")]))
        assert world.do(run).code == 0
        world.check_end(run)
        world.prepare(run := Run([]))
        world.check_end(run)


@pytest.mark.parametrize("before", [False, True])
def test_outputs_stay_in_their_folders_unless_all_is_made_anew(world: World, before: bool):
    """With the extension kept or not: one input's old folder may be another's new one."""
    rows = rows_of("a.txt a.txt.x")
    world.prepare(Run(rows))
    assert world.do(Run(rows, keep_extension=before)).code == 0
    made = contents(world.output)
    ended = world.do(Run(rows, keep_extension=not before))
    assert is_refusal(ended)
    assert ("without" in ended.said) != before
    assert contents(world.output) == made
    world.check_end(Run(rows, keep_extension=not before))


def test_what_cannot_be_read_keeps_its_outputs_until_it_can(world: World):
    """Also when its label and a parameter change meanwhile; --prune does not mean it."""
    world.prepare(first := Run(rows_of("a.txt b.txt")))
    assert world.do(first).code == 0
    made = contents(world.output)
    world.prepare(away := Run([Row("a.txt", MISSING, "new"), *rows_of("b.txt")], flavour=1))
    ended = world.do(away, "--prune")
    assert ended.code == 1
    assert "a.txt" in ended.said
    now = contents(world.output)
    assert {name: now.get(name) for name in made if name.startswith("a/")} == {
        name: content for name, content in made.items() if name.startswith("a/")
    }
    assert {row["input"] for row in read_rows(world.output / "manifest.csv")} == {"a.txt", "b.txt"}
    world.prepare(back := Run(rows_of("a.txt b.txt"), flavour=1))
    world.check_end(back)


def test_what_a_trial_leaves_out_is_neither_stale_nor_pruned(world: World):
    """--limit takes the first; the others stay, in the manifest too, but for what a change has made old."""
    rows = rows_of("a.txt b.txt deep/d.txt")
    world.prepare(Run(rows))
    assert world.do(Run(rows)).code == 0
    made = contents(world.output)
    assert world.do(Run(rows, flags=("--limit=1", "--prune"))).code == 0
    assert contents(world.output) == made
    trial = Run(rows, flavour=1, flags=("--limit=1", "--prune"))
    assert world.do(trial).code == 0
    now = contents(world.output)
    kept = [name for name in made if name.startswith(("b/", "deep/"))]
    assert {name: now.get(name) for name in kept} == {name: made[name] for name in kept}
    assert [name for name in now if name.startswith("a/")] != [name for name in made if name.startswith("a/")]
    manifest = read_rows(world.output / "manifest.csv")
    assert {row["output"] for row in manifest} == {name for name in now if name.startswith("a/")}
    world.check_end(Run(rows, flavour=1))


@pytest.mark.parametrize("text", [0, 3, 4, 5])
def test_a_changed_input_that_makes_less_than_before_leaves_nothing_of_it(world: World, text: int):
    """It has fewer outputs now, or none, or fails, or is left out."""
    world.prepare(first := Run(rows_of("a.txt deep/er/c.txt", text=2)))
    assert world.do(first).code == 0
    world.prepare(second := Run([Row("a.txt", text, ""), Row("deep/er/c.txt", text, "")]))
    assert world.do(second).code == (text == 4)
    world.check_end(second)


# -- a death, and a fault, at every single step ------------------------------------------------------------

# what is there, the run that is disturbed, and the one that makes good if that is another
CHANGES = (
    Run([*rows_of("a.txt"), Row("deep/er/c.txt", 2, ""), Row("deep/d.txt", 0, "")]),
    Run([Row("a.txt", 2, ""), Row("deep/d.txt", 0, "new"), Row("a.txt.x", 4, "")], flavour=1),
)
PRUNING = (
    Run(rows_of("a.txt deep/d.txt b.txt")),
    Run([Row("b.txt", 1, ""), Row("deep/er/c.txt", 5, "")], flags=("--prune",)),
)
SCENARIOS = {
    "nothing before": (None, Run(rows_of("a.txt deep/d.txt b.txt"), batch_size=2)),
    "changes": CHANGES,
    "pruning": PRUNING,
    "pruning, and the rows come back": (*PRUNING, PRUNING[0]),
    "starting over": (
        Run(rows_of("a.txt deep/er/c.txt", 0)),
        Run(rows_of("a.txt deep/d.txt", 0), keep_extension=True, flags=("--fresh",)),
    ),
    "one row less, whose count was text": (
        Run([*rows_of("a.txt b.txt"), Row("deep/d.txt", 3, "")]),
        Run(rows_of("a.txt b.txt deep/er/c.txt")),
    ),
}


@dataclass
class Scenario:
    """A folder as one run left it, in copies that another run disturbs in many ways.

    Attributes:
        home: Where the folders are.
        run: The run that is disturbed.
        last: The run that makes good.
        world: The folder before.
        expected: What there is to be in the end.
    """

    home: Path
    run: Run
    last: Run
    world: World
    expected: dict[str, bytes]

    @classmethod
    def of(
        cls, home: Path, past: Run | None, run: Run, last: Run | None = None, kind: type[World] = World
    ) -> "Scenario":
        world = kind(home / "first")
        world.home.mkdir()
        if past:
            world.prepare(past)
            assert world.do(past).code in (0, 1)
        last = last or replace(run, flags=())
        world.prepare(last)
        expected = world.fresh(last)
        world.prepare(run)
        return cls(home, run, last, world, expected)

    def copy(self) -> World:
        shutil.rmtree(self.home / "copy", ignore_errors=True)
        shutil.copytree(self.world.home, self.home / "copy")
        return type(self.world)(self.home / "copy", {**self.world.written}, self.world.clock)

    def check(self, world: World) -> None:
        world.prepare(self.last)
        assert world.finish(self.last) == self.expected


@pytest.mark.parametrize("runs", SCENARIOS.values(), ids=SCENARIOS)
def test_a_death_at_each_step_is_made_good_by_the_next_run(folder: Path, runs: tuple[Run, ...]):
    """The run is killed at its first change to the disk, at its second, and so on to its last."""
    assert die_at_each_step(Scenario.of(folder, *runs)) > 30


def die_at_each_step(scenario: Scenario) -> int:
    """How many steps there were to die at."""
    deaths = 0
    while True:
        world = scenario.copy()
        if not world.do(replace(scenario.run, death=deaths + 1)).died:
            return deaths
        deaths += STRIDE
        scenario.check(world)


def test_a_death_while_a_death_is_made_good_is_made_good(folder: Path):
    """The second one at each step of the recovery, in a run that wants what there was before the first."""
    rows = rows_of("a.txt deep/er/c.txt")
    first = Scenario.of(folder, Run(rows), Run(rows, flavour=1, batch_size=2), Run(rows))
    begun = []
    for at in range(1, 200, STRIDE):
        world = first.copy()
        if not world.do(replace(first.run, death=at)).died:
            break
        names = os.listdir(world.output / ".splitter" / "records")
        if any(name.endswith(".begun") and name.removesuffix(".begun") not in names for name in names):
            begun.append(at)
    assert len(begun) > 1
    # nothing is changed yet; all but the commit is done
    for at in (begun[0], begun[-1]):
        home = first.home / f"dead at {at}"
        world = first.copy()
        assert world.do(replace(first.run, death=at)).died
        shutil.copytree(world.home, home / "first")
        dead = World(home / "first", world.written, world.clock)
        dead.prepare(first.last)
        again = Scenario(home, first.last, first.last, dead, first.expected)
        for death in range(1, 41, STRIDE):
            world = again.copy()
            assert world.do(replace(again.run, death=death)).died
            again.check(world)


FAULTS = [errno.ENOSPC, errno.EIO, errno.EROFS]


@pytest.mark.parametrize("for_good", [False, True], ids=["once", "for good"])
@pytest.mark.parametrize("runs", [CHANGES, PRUNING], ids=["changes", "pruning"])
def test_a_fault_at_each_step_stops_the_run_in_one_line_or_is_survived(
    folder: Path, runs: tuple[Run, ...], for_good: bool
):
    """A rename, a write, a sync ... fails, once or from then on; the next run makes it good."""
    fail_at_each_step(Scenario.of(folder, *runs), for_good=for_good)


def fail_at_each_step(scenario: Scenario, *, for_good: bool) -> None:
    """One fault for each step, or all from that step on."""
    at = 1 - STRIDE
    while True:
        at += STRIDE
        world = scenario.copy()
        before = world.everything(world.output)
        number = FAULTS[(at + for_good) % 3]
        arguments = world.arguments(scenario.run, world.output)
        ended = faulty(arguments, at, number, for_good=for_good, VERSION=scenario.run.version)
        if len(ended.steps) < at:
            break
        assert world.complaints() == []
        complaint = [line for line in ended.said.splitlines() if line.startswith(("splitter: ", "stopped: "))]
        assert "Traceback" not in ended.said
        assert len(complaint) == ended.said.count(os.strerror(number)), ended.said
        assert all("cannot write " in line or "cannot be written" in line for line in complaint), ended.said
        if ended.code == 2:
            assert world.everything(world.output) == before
        if for_good or complaint:
            assert ended.code, ended.said
            assert len(complaint) == 1, ended.said
        scenario.check(world)
    assert at > 30
