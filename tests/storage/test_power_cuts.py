"""Power cuts: whatever is on disk then, the next run makes good, and nothing that was taken along is lost."""

import random
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from crashes import Ended, killed, measured, read_rows, restarted, traced, undisturbed
from engine.test_protocol import CHANGES, PRUNING, Row, Run, Scenario, World, is_refusal, rows_of
from engine.test_protocol import SCENARIOS as OF_FILES
from nightly import NIGHTLY
from power_cuts import after_cut, cuts_of, events_of, put, steps_of
from sinks.test_shards_protocol import ParquetWorld, ShuffledWorld, TarWorld

from splitter import read_output
from splitter.ledger.journal import Journal
from splitter.ledger.records import DONE
from splitter.storage.layout import shard_of
from splitter.storage.opening import storage_of

pytestmark = pytest.mark.slow

IMAGES = 400 if NIGHTLY else 6

FAILED = Run([Row("a.txt", 4, ""), *rows_of("b.txt deep/er/c.txt")])
APPENDED = (
    Run(rows_of("a.txt b.txt deep/d.txt")),
    Run(rows_of("a.txt b.txt deep/d.txt a.txt.x deep/er/c.txt")),
)
EXCHANGES = {
    "nothing before": (None, Run(rows_of("a.txt deep/d.txt b.txt"))),
    "changes": (CHANGES[0], replace(CHANGES[1], flags=("--prune",))),
    "pruning": PRUNING,
    "appended": APPENDED,
    "a failed one again": (FAILED, Run(rows_of("a.txt b.txt deep/er/c.txt"))),
    "retried in vain": (FAILED, replace(FAILED, flags=("--retry-failed",))),
    "one that makes nothing now": (
        # a single file to remove, and none that appears
        Run([Row("deep/er/c.txt", 0, ""), *rows_of("deep/d.txt")]),
        Run([Row("deep/er/c.txt", 3, ""), *rows_of("deep/d.txt")]),
    ),
    "another parameter": (Run(rows_of("a.txt b.txt")), Run(rows_of("a.txt b.txt"), flavour=1)),
}


class DurableWorld(World):
    """Loose files that are synced before they count."""

    def arguments(self, run: Run, output: Path, *flags: str) -> list[str]:
        return super().arguments(run, output, "--durable", *flags)


def cases() -> Iterator[pytest.ParameterSet]:
    """Every scenario with every sink."""
    for name, runs in {**OF_FILES, **EXCHANGES}.items():
        yield pytest.param(World, runs, id=f"files, {name}")
        yield pytest.param(DurableWorld, runs, id=f"durable files, {name}")
    for kind in (TarWorld, ParquetWorld, ShuffledWorld):
        for name, runs in EXCHANGES.items():
            # a table needs metadata of the same types
            if kind is not ParquetWorld or name in ("nothing before", "appended", "another parameter"):
                yield pytest.param(kind, runs, id=f"{kind.__name__}, {name}")


# of all scenarios, those that are tried each time
FEW = [
    *("files, nothing before", "files, changes", "files, pruning, and the rows come back"),
    *("durable files, changes", "TarWorld, nothing before", "TarWorld, changes", "TarWorld, appended"),
    *("TarWorld, pruning", "TarWorld, retried in vain", "ParquetWorld, appended"),
]
CASES = [case for case in cases() if NIGHTLY or case.id in FEW]


@pytest.mark.parametrize(("kind", "runs"), CASES)
def test_what_a_power_cut_takes_is_made_again(folder: Path, kind: type[World], runs: tuple[Run, ...]):
    """At any moment of a run; what is synced is there, of all else anything may be."""
    scenario = Scenario.of(folder, *runs, kind=kind)
    events, left = trace_of(scenario.copy(), scenario.run)
    survivors = rows_of_manifest(scenario.world) & left & rows_expected(scenario)
    if "--fresh" in scenario.run.flags:
        survivors = set()
    cuts = cuts_of(events)
    chance = random.Random(f"{kind.__name__} {runs}")
    for _ in range(IMAGES):
        cut, seed = chance.choice(cuts), chance.random()
        world = image(scenario, after_cut(events, cut, random.Random(seed)))
        about = f"cut {cut} of {len(events)}, seed {seed}"
        if chance.random() < 0.4:
            # what the next run begins with
            look_at(world, survivors, about)
        elif chance.random() < 0.4:
            world, about = cut_again(scenario, world, chance, about)
        made_good(scenario, world, about)


@pytest.mark.parametrize("kind", [World, DurableWorld, TarWorld])
def test_what_a_kill_and_then_a_power_cut_take_is_made_again(folder: Path, kind: type[World]):
    """A run is killed; what it has committed counts for the next, which the power cut ends."""
    scenario = Scenario.of(folder, *EXCHANGES["changes"], kind=kind)
    chance = random.Random(kind.__name__)
    steps = len(trace_to(scenario.copy(), scenario.run, scenario.home / "trace").steps)
    for number in range(40 if NIGHTLY else 1):
        world, trace = scenario.copy(), scenario.home / f"trace {number}"
        assert trace_to(world, scenario.run, trace, chance.randrange(steps // 4, steps)).died
        assert trace_to(world, scenario.run, trace).code in (0, 1)
        events = events_of(trace)
        cuts = cuts_of(events)
        for _ in range(5):
            cut, seed = chance.choice(cuts), chance.random()
            there = image(scenario, after_cut(events, cut, random.Random(seed)))
            made_good(scenario, there, f"trace {number}, cut {cut} of {len(events)}, seed {seed}")


Counted = set[tuple[str, str, str]]


def look_at(world: World, survivors: Counted, about: str) -> None:
    """What the run did not have to make again counts, and is whole; its own loose files may be lost."""
    if (world.output / ".splitter/records").is_dir():
        whole, damaged = counted(world)
        assert survivors <= whole, about
        assert type(world) is World or not damaged, about


def cut_again(scenario: Scenario, world: World, chance: random.Random, about: str) -> tuple[World, str]:
    """The same after another power cut, which comes while the next run makes good what the first one took."""
    world.prepare(scenario.last)
    trace = scenario.home / "second trace"
    trace.unlink(missing_ok=True)
    trace_to(world, scenario.last, trace, boot="the second start")
    events = events_of(trace)
    cut, seed = chance.choice(cuts_of(events)), chance.random()
    found = after_cut(events, cut, random.Random(seed))
    return image(scenario, found), f"{about}, then cut {cut} of {len(events)}, seed {seed}"


def trace_of(world: World, run: Run) -> tuple[list[tuple], Counted]:
    """What a run does to the disk, and what it leaves."""
    trace = world.home.with_name("trace")
    ended = trace_to(world, run, trace)
    assert ended.code in (0, 1), ended.said
    return events_of(trace), rows_of_manifest(world)


def trace_to(
    world: World, run: Run, trace: Path, at: int | None = None, boot: str = "the first start"
) -> Ended:
    """Write down what a run does; it may be killed at a step."""
    arguments = world.arguments(run, world.output)
    return traced(arguments, world.output, trace, at, boot=boot, VERSION=run.version)


def image(scenario: Scenario, found: dict[str, bytes | None]) -> World:
    """The folder of a scenario with this as its output."""
    world = scenario.copy()
    shutil.rmtree(world.output, ignore_errors=True)
    put(found, world.home)
    return world


def made_good(scenario: Scenario, world: World, about: str) -> None:
    """The next run ends with what there is to be."""
    last = scenario.last
    world.prepare(last)
    ended = restarted(world.arguments(last, world.output, "--prune"), VERSION=last.version)
    if is_refusal(ended):
        ended = restarted(world.arguments(last, world.output, "--fresh"), VERSION=last.version)
    assert ended.code in (0, 1), f"{about}\n{ended.said}"
    assert "stopped" not in ended.said, f"{about}\n{ended.said}"
    assert world.everything(world.output) == scenario.expected, f"{about}\n{ended.said}"


def counted(world: World) -> tuple[Counted, Counted]:
    """Of the outputs that count as done, which are whole, and which are not."""
    journal = Journal(storage_of(str(world.output)))
    journal.recover()
    journal.load()
    whole, damaged = set(), set()
    entries = journal.others(journal.find(journal.entries["key"][:0]))
    entries = entries[journal.entries["status"][entries] == DONE]
    for head, rows in journal.rows_of_each(entries):
        for fields in rows:
            row = dict(zip([*head.columns, "output", "size", "checksum"], fields, strict=False))
            if row["output"]:
                (whole if is_there(world, row) else damaged).add(name_of(row))
    return whole, damaged


def is_there(world: World, row: dict[str, str]) -> bool:
    """Whether an output is what its row says."""
    if not shard_of(row["output"])[0]:
        path = world.output / row["output"]
        return path.is_file() and measured(path.read_bytes()) == (row["size"], row["checksum"])
    try:
        return measured(read_output(row, world.output)) == (row["size"], row["checksum"])
    except OSError:
        return False


def name_of(row: dict[str, str]) -> tuple[str, str, str]:
    """What an output is known by, wherever it is."""
    return row["input"], row["label"], row["checksum"]


def rows_of_manifest(world: World) -> Counted:
    """What a run has left."""
    return {name_of(row) for row in read_rows(world.output / "manifest.csv") if row["output"]}


def rows_expected(scenario: Scenario) -> Counted:
    """What the last run is to leave."""
    world = scenario.copy()
    world.prepare(scenario.last)
    world.finish(scenario.last)
    return rows_of_manifest(world)


OWN = "outputs/.splitter"
# what is written under another name, is synced, and takes its own name, for good when the folder is synced
REPLACED = "sync {staged}, rename {staged} -> {name}, sync {folder}"
# from the first change on, with the samples of two inputs taken along
OF_AN_EXCHANGE = """
    remove outputs/manifest.csv, sync outputs
    write outputs/.splitter/stale
    write outputs/.splitter/list.json
    sync outputs/.splitter/dataset.csv.new
    rename outputs/.splitter/dataset.csv.new -> outputs/.splitter/dataset.csv, sync outputs/.splitter
    sync STAGED/shards/shard-000000-1.tar, sync STAGED/shards/shard-000000.tar
    sync STAGED/shards, sync STAGED, sync outputs/.splitter/staging, sync outputs/.splitter, sync outputs
    write outputs/.splitter/records/BATCH.begun
    rename STAGED/shards/shard-000000.tar -> outputs/shards/shard-000000.tar
    rename STAGED/shards/shard-000000-1.tar -> outputs/shards/shard-000000-1.tar
    sync outputs/shards/shard-000000-1.tar, sync outputs/shards/shard-000000.tar
    sync outputs/shards, sync outputs
    write outputs/.splitter/records/BATCH
    remove outputs/.splitter/records/BATCH.begun, remove STAGED/shards, remove STAGED
    write outputs/manifest.csv
    remove outputs/errors.csv, sync outputs
    remove outputs/.splitter/stale
    write outputs/.splitter/records/000003-compact
    remove outputs/.splitter/records/000001-000000, remove outputs/.splitter/records/000001-000001
    remove outputs/.splitter/records/BATCH
    write outputs/.splitter/last_run.json
"""
OF_LOOSE_FILES = """
    write outputs/.splitter/stale
    write outputs/.splitter/unsynced.json
    write outputs/.splitter/list.json
    sync outputs/.splitter/dataset.csv.new
    rename outputs/.splitter/dataset.csv.new -> outputs/.splitter/dataset.csv, sync outputs/.splitter
    write outputs/.splitter/records/BATCH.begun
    rename STAGED/0 -> outputs/a
    write outputs/.splitter/records/BATCH
    remove outputs/.splitter/records/BATCH.begun, remove STAGED
    sync all
    remove outputs/.splitter/unsynced.json
    write outputs/manifest.csv
    remove outputs/errors.csv, sync outputs
    remove outputs/.splitter/stale
    write outputs/.splitter/last_run.json
"""
OF_DURABLE_FILES = OF_LOOSE_FILES.replace("    sync all\n    remove outputs/.splitter/unsynced.json\n", "")
OF_DURABLE_FILES = OF_DURABLE_FILES.replace("    write outputs/.splitter/unsynced.json\n", "")
OF_DURABLE_FILES = OF_DURABLE_FILES.replace("-> outputs/a\n", "-> outputs/a, sync all\n")
# each with the number of its batch
ORDERS = [
    (TarWorld, "000002-000000", OF_AN_EXCHANGE),
    (World, "000003-000000", OF_LOOSE_FILES),
    (DurableWorld, "000003-000000", OF_DURABLE_FILES),
]


@pytest.mark.parametrize(("kind", "batch", "order"), ORDERS)
def test_files_are_synced_before_what_speaks_of_them(folder: Path, kind: type[World], batch: str, order: str):
    """All syncs, renames and removals of a run, in their order: an input that failed is done."""
    scenario = Scenario.of(folder, *EXCHANGES["a failed one again"], kind=kind)
    events, _ = trace_of(scenario.copy(), scenario.run)
    steps = [step for step in steps_of(events) if "staging/splitter-" not in step]
    order = order.replace("STAGED", f"{OWN}/staging/{batch}").replace("BATCH", batch)
    assert steps == [step for line in order.strip().splitlines() for step in in_full(line.strip())]


def in_full(line: str) -> list[str]:
    """The steps of a line; `write` stands for those that replace a file."""
    steps = []
    for step in line.split(", "):
        kind, _, name = step.partition(" ")
        if kind == "write":
            staged = f"{OWN}/staging/{name.removeprefix('outputs/').replace('/', '+')}"
            steps += REPLACED.format(staged=staged, name=name, folder=name.rpartition("/")[0]).split(", ")
        else:
            steps.append(step)
    return steps


# parts of longer runs: each line with nothing in between
OF_NEW_SHARDS = """
    sync /, sync outputs/.splitter, sync outputs
    rename outputs/.splitter/staging/000001-000000/shards -> outputs/shards, sync outputs/shards/shard-000000-1.tar
    sync outputs/shards/shard-000000-1.tar, sync outputs/shards/shard-000000.tar, sync outputs/shards
    sync outputs/shards, sync outputs, write outputs/.splitter/records/000001-000000
"""  # noqa: E501 - steps that follow each other
OF_CHANGES = """
    remove outputs/deep/er, sync all, write outputs/.splitter/records/000003-forget
    rename outputs/.splitter/staging/000004-000000/0 -> outputs/a, sync all
    sync all, write outputs/.splitter/records/000004-000000
    sync outputs, write outputs/.splitter/schema.json
    remove outputs/.splitter/records/000004-000002, sync outputs/.splitter/records/000003-forget
    sync outputs/.splitter/records, sync outputs/.splitter, sync outputs
    sync outputs, remove outputs/.splitter/records/000003-forget
"""
OF_REMOVALS = """
    remove outputs/deep/er, sync outputs/deep, sync outputs, write outputs/.splitter/records/000002-000000
"""


@pytest.mark.parametrize(
    ("kind", "name", "parts"),
    [
        (TarWorld, "nothing before", OF_NEW_SHARDS),
        (World, "changes", OF_CHANGES),
        (World, "one that makes nothing now", OF_REMOVALS),
    ],
)
def test_shards_and_removals_are_synced_as_well(folder: Path, kind: type[World], name: str, parts: str):
    """Folders that are new, shards that nothing was taken along to, outputs that go, merged records."""
    scenario = Scenario.of(folder, *EXCHANGES[name], kind=kind)
    events, _ = trace_of(scenario.copy(), scenario.run)
    steps = "\n".join(steps_of(events))
    for line in parts.strip().splitlines():
        assert "\n".join(in_full(line.strip())) in steps


def with_one_lost(folder: Path) -> tuple[Scenario, World, list[str]]:
    """A run that died when nothing was synced yet, one of its outputs gone; and its arguments."""
    scenario = Scenario.of(folder, *EXCHANGES["nothing before"])
    world = scenario.copy()
    arguments = world.arguments(scenario.run, world.output)
    steps = undisturbed(arguments).steps
    shutil.rmtree(world.output)
    assert killed(arguments, steps.index("syncfs") + 1).died
    (world.output / "a" / "0-0.bin").unlink()
    return scenario, world, arguments


def test_a_run_looks_at_unsynced_outputs_once_the_machine_was_restarted(folder: Path):
    """One is gone, and one is short; both inputs are named, and done again."""
    scenario, world, arguments = with_one_lost(folder)
    (world.output / "b" / "1-1.bin").write_bytes(b"short")
    ended = restarted(arguments)
    assert "outputs of 2 inputs are lost (a.txt, b.txt)" in ended.said
    assert world.everything(world.output) == scenario.expected
    assert restarted(arguments).said.startswith("nothing to do")


def test_what_a_run_before_the_last_left_unsynced_is_looked_at_as_well(folder: Path):
    """Both runs died before they had synced anything, in the same start of the machine."""
    scenario, world, arguments = with_one_lost(folder)
    world.prepare(replace(scenario.run, rows=[*scenario.run.rows, *rows_of("deep/er/c.txt")]))
    before = shutil.copytree(world.output, folder / "before")
    steps = undisturbed(arguments).steps
    shutil.rmtree(world.output)
    before.rename(world.output)
    assert killed(arguments, steps.index("syncfs") + 1).died
    assert "outputs of 1 input are lost (a.txt)" in restarted(arguments).said
    assert (world.output / "a" / "0-0.bin").exists()


def test_what_is_lost_of_an_input_that_is_not_listed_is_named_with_the_remedy(folder: Path):
    """No run can make it again; --prune forgets it, and the next run has nothing to say."""
    scenario, world, arguments = with_one_lost(folder)
    world.prepare(replace(scenario.run, rows=[row for row in scenario.run.rows if row.name != "a.txt"]))
    said = restarted(arguments).said
    assert "outputs of 1 input no longer in the list are lost (a.txt); add them to the list again" in said
    assert "are lost" not in restarted([*arguments, "--prune"]).said.partition("--prune: removing")[2]
    assert restarted(arguments).said.startswith("nothing to do")
