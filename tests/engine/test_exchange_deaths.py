"""Runs that exchange what an earlier run made, dead at every step in each of four ways: nothing is lost.

What the next runs make of it is compared with what a run makes that nobody disturbs, byte by byte. In the
gate a part of the deaths, in nightly runs (see nightly.py) all of them.
"""

import itertools
import shutil
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from doors import SHARED, read_table, write_files, write_list
from launcher import published
from nightly import NIGHTLY
from object_store import Bucket
from steps import DEATHS, Output, Step, StepServer, Trial, each_death, restore

RECIPE = SHARED / "halves.py"
SHARDS = ("--shard-maxcount=3",)
SINKS = {"files": (), "webdataset": SHARDS, "parquet": SHARDS}
# in the gate one of so many deaths of a scenario, others than in the scenario beside it
SHARE = 60
# every so many deaths one is followed by another, in the run that comes next
SHARE_OF_SECOND = 4
# where the runner keeps its promise: at its last changes
LAST = 22


@dataclass(frozen=True)
class Command:
    """A run.

    Attributes:
        inputs: Which inputs the list has.
        options: More options of the command.
        labels: Those that have another label than before.
        failing: The inputs that fail.
    """

    inputs: str
    options: tuple[str, ...] = ()
    labels: str = ""
    failing: str = ""

    def plain(self) -> "Command":
        """The same without what is to be done once."""
        return Command(self.inputs, (), self.labels, self.failing)


@dataclass(frozen=True)
class Exchange:
    """What was there before, and the run that exchanges it.

    Attributes:
        before: The run that made what is there.
        run: The run that dies.
        harm: What befalls the output in between.
        sinks: The sink of the one, and that of the other.
        group: How many inputs share a group.
        workers: How many workers the run has.
        is_once: Whether the run has an option without which the next one does less.
    """

    before: Command
    run: Command
    sinks: tuple[str, str]
    harm: Callable[[Path], None] = field(default=lambda output: None)
    group: int = 1000
    workers: int = 1
    is_once: bool = False


def spoil(output: Path) -> None:
    """Change a byte in some outputs."""
    for path in _made(output)[::2]:
        content = path.read_bytes()
        path.write_bytes(
            content[:520] + bytes([content[520] ^ 1]) + content[521:] if len(content) > 600 else b"?"
        )


def lose(output: Path) -> None:
    """Remove the last output."""
    _made(output)[-1].unlink()


def _made(output: Path) -> list[Path]:
    below = (path for path in output.glob("*/**/*") if path.relative_to(output).parts[0] != ".splitter")
    return sorted(path for path in below if path.is_file())


FIVE, SEVEN, THREE = Command("abcde"), Command("abcdefg"), Command("ace", ("--prune",))
KINDS = {
    "appended rows": (FIVE, SEVEN),
    "a failed one again": (Command("abcde", failing="bd"), Command("abcde", ("--retry-failed",))),
    "rows pruned": (FIVE, THREE),
    "damaged ones again": (FIVE, Command("abcde", ("--repair",)), spoil),
    "a changed row": (FIVE, Command("abcde", labels="c")),
    "another parameter": (FIVE, Command("abcde", ("--flavour=1",))),
    "rows instead of lost ones": (FIVE, SEVEN, lose),
}
# labels are folders, which inputs share
NAMED = Command("abcde", ("--name={label}/{source}_{index}",), labels="b")
ONCE = ("a failed one again", "rows pruned", "damaged ones again")


def exchanges() -> Iterator[tuple[str, Exchange]]:
    """Every scenario, by its name."""
    for sink, (kind, (before, run, *harm)) in itertools.product(SINKS, KINDS.items()):
        if harm == [lose] and sink == "files":
            # no run looks for those that there are
            continue
        for group in (1000, 2) if sink == "webdataset" else (1000,) if sink == "files" else (2,):
            size = "in one group" if group == 1000 else "in groups of two"
            yield (
                f"{kind}, {sink}, {size}",
                Exchange(before, run, (sink, sink), *harm, group=group, is_once=kind in ONCE),
            )
    yield "another template, files", Exchange(FIVE, NAMED, ("files", "files"))
    yield "appended rows, webdataset, no workers", Exchange(FIVE, SEVEN, ("webdataset",) * 2, workers=0)
    for old, new in itertools.permutations(SINKS, 2):
        yield f"{old} to {new}", Exchange(FIVE, FIVE, (old, new))


class Walk:
    """An exchange, what comes of it undisturbed, and what comes of it after a death."""

    def __init__(self, folder: Path, exchange: Exchange, server: StepServer) -> None:
        self.folder, self.exchange = folder, exchange
        self.output, self.before = folder / "outputs", folder / "before"
        self.server = self._output(server)
        for name in "abcdefg":
            write_files(folder / "inputs", {f"{name}.txt": f"text of {name}, " * (3 + ord(name) % 5)})
        old, new = exchange.sinks
        assert self._run(exchange.before, old).code in (0, 1)
        exchange.harm(self.output)
        self._keep()
        self.undisturbed = self._run(exchange.run, new)
        assert self.undisturbed.code == 0, self.undisturbed.said
        self.expected = self._published()

    def _output(self, server: StepServer) -> Output:
        return Output(server, str(self.output), self.exchange.group)

    def _keep(self) -> None:
        """Keep what is there before each trial."""
        shutil.copytree(self.output, self.before, symlinks=True)

    def _restore(self) -> None:
        restore(self.before, self.output)

    def _published(self) -> dict[str, bytes]:
        return published(self.output)

    def _arguments(self, command: Command, sink: str, *more: str) -> list[str]:
        labels = {name: "new" if name in command.labels else "old" for name in command.inputs}
        rows = [["input", "label"], *([f"inputs/{name}.txt", label] for name, label in labels.items())]
        name = zlib.crc32(repr(rows).encode())
        path = self.folder / f"{name:08x}.csv"
        if not path.exists():
            write_list(path, rows)
        fixed = (f"--recipe={RECIPE}:Halves", f"--output={self.server.output}", f"--sink={sink}")
        workers = f"--workers={self.exchange.workers}"
        return ["run", str(path), *fixed, *SINKS[sink], workers, *command.options, *more]

    def _run(self, command: Command, sink: str, step: Step | None = None) -> Trial:
        failing = " ".join(f"inputs/{name}.txt" for name in command.failing)
        return self.server.run(self._arguments(command, sink), step, FAILING=failing)

    def die(self, step: Step, second: Step | None = None) -> str:
        """Die at a step, and continue; what is wrong then, or nothing."""
        exchange, sink = self.exchange, self.exchange.sinks[1]
        self._restore()
        for one in filter(None, (step, second)):
            trial = self._run(exchange.run, sink, one)
            if trial.left or "Traceback" in trial.said:
                return f"left behind: {trial.left}; {trial.said}"
        if exchange.is_once and "--prune" not in exchange.run.options:
            # what it leaves out is no loss, but what it says must hold
            codes, said = self.server.finish(self._arguments(exchange.run.plain(), sink, "--workers=0"))
            wrong = self._untrue() if codes == [0] else ""
            if wrong:
                return f"{wrong}, and a plain run says {said}"
        verify = ["verify", self.server.output, "--workers=1"]
        codes, said = self.server.finish(self._arguments(exchange.run, sink, "--workers=0"), verify)
        wrong = self._differences()
        return f"{wrong}; {codes} {said}" if wrong or codes != [0, 0] else ""

    def _differences(self) -> str:
        found = self._published()
        if found.keys() != self.expected.keys():
            return f"{sorted(found)} where {sorted(self.expected)} was to be"
        return ", ".join(name for name in found if found[name] != self.expected[name])

    def _untrue(self) -> str:
        """What a manifest names that is not there."""
        for row in read_table(self.output / "manifest.csv"):
            path = self.output / row["output"]
            if not (path if self.exchange.sinks[1] == "files" else path.parent).exists():
                return f"{row['output']} does not exist"
        return ""


def deaths_of(name: str, steps: Mapping[str, int], *, share: int = 1) -> list[tuple[Step, Step | None]]:
    """The deaths to try in a scenario, one of so many; some with another in the run that comes next."""
    chosen = [*each_death(steps, DEATHS if name in THOROUGHLY else DEATHS[1:])]
    if not NIGHTLY and name == WORST:
        # while the runner keeps its promise, and the driver dies or is told to end
        last = range(steps["runner"] - LAST + 1, steps["runner"] + 1)
        chosen = [s for s in chosen if s.role == "runner" and s.number in last and s.death in DEATHS[2:]]
    else:
        share = share if NIGHTLY else SHARE
        chosen = chosen[zlib.crc32(name.encode()) % share :: share]
    second = itertools.cycle(["driver", "driver", "runner"])
    return [
        (
            step,
            Step(next(second), 1 + number * 7 % 23, "all") if number % SHARE_OF_SECOND == 0 else None,
        )
        for number, step in enumerate(chosen)
    ]


ALL = dict(exchanges())
THOROUGHLY = [name for name in ALL if name.endswith("webdataset, in one group")]
WORST = "appended rows, webdataset, in one group"
IN_GATE = [
    *THOROUGHLY,
    "appended rows, files, in one group",
    "another parameter, files, in one group",
    "appended rows, parquet, in groups of two",
    "a failed one again, parquet, in groups of two",
    "files to webdataset",
    "webdataset to parquet",
]


@pytest.fixture(scope="module")
def server() -> Iterator[StepServer]:
    """The process that runs are forked from."""
    with StepServer() as server:
        yield server


@pytest.mark.parametrize("name", ALL if NIGHTLY else IN_GATE)
def test_an_exchange_that_dies_is_brought_to_its_end(folder: Path, server: StepServer, name: str):
    """The next run ends with what an undisturbed one leaves; no process stays behind."""
    walk = Walk(folder, ALL[name], server)
    check(walk, name, deaths_of(name, walk.undisturbed.steps))


def check(walk: Walk, name: str, deaths: list[tuple[Step, Step | None]]) -> None:
    """Nothing is wrong after any of the deaths; how many there were is printed, for the docs."""
    complaints = []
    for step, second in deaths:
        wrong = walk.die(step, second)
        if wrong:
            complaints.append(f"{step}, then {second}: {wrong}")
    points, twice = sum(walk.undisturbed.steps.values()), sum(second is not None for _, second in deaths)
    count = f"{points} steps, {len(deaths)} deaths, {twice} of them twice, {len(complaints)} with a loss"
    print(f"{name}: {count}")  # noqa: T201 - for the figures in the docs
    assert not complaints, f"{name}: {count}\n" + "\n".join(complaints)


class RemoteWalk(Walk):
    """The same in an object store: the changes are requests."""

    def __init__(self, folder: Path, exchange: Exchange, server: StepServer, bucket: Bucket) -> None:
        self.bucket = bucket
        super().__init__(folder, exchange, server)

    def _output(self, server: StepServer) -> Output:
        return Output(server, self.bucket.url("out"), self.exchange.group, self.bucket.environment)

    def _keep(self) -> None:
        keys = self.bucket.keys()
        self.objects = {key: self.bucket.read(key) for key in keys}

    def _restore(self) -> None:
        there = self.bucket.keys()
        if there:
            objects = {"Objects": [{"Key": key} for key in there]}
            self.bucket.client.delete_objects(Bucket=self.bucket.name, Delete=objects)
        for key, content in self.objects.items():
            self.bucket.write(key, content)

    def _published(self) -> dict[str, bytes]:
        return self.bucket.tree("out")


REMOTE = {
    "appended rows": Exchange(FIVE, SEVEN, ("webdataset", "webdataset")),
    "a changed row": Exchange(FIVE, Command("abcde", labels="c"), ("parquet", "parquet")),
}


@pytest.mark.parametrize("name", REMOTE)
def test_and_so_it_is_in_an_object_store(folder: Path, server: StepServer, s3: Bucket, name: str):
    """Requests that change something are the steps; what is promised is parked in the store."""
    walk = RemoteWalk(folder, REMOTE[name], server, s3)
    check(walk, f"{name}, S3", deaths_of(f"{name}, S3", walk.undisturbed.steps, share=4))
