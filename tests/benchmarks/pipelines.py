"""Three stages as one pipeline, compared with one by one, Ray Data and NeMo Curator; many children."""

import argparse
import contextlib
import csv
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from harness import (
    BENCHMARKS,
    DEFAULT_SCRATCH,
    SPLITTER,
    CommandFailedError,
    clear,
    describe_machine,
    format_table,
    installed_version,
    running,
    time_command,
)
from many_rows import resident_kb
from memory import children
from spending import cut, spend

RECIPES = BENCHMARKS / "stages.py"
AIM = 1.15
PIECES, PIECE_SIZE, BATCH = 32, 100_000, 16
# the middle stage is the slowest; the other two need two thirds of the CPU time that there is meanwhile
SECONDS_PER_BATCH = 0.25
COST = SECONDS_PER_BATCH / BATCH * 2 / 3
QUEUE = "10MB"
# makes a range of two parents
SHARD_SIZE = "8MB"
FUSED = "fused"
OWN_FOLDER = ".splitter"
LOOKS_PER_SECOND = 5


class Stages(NamedTuple):
    """The work to do, and where.

    Attributes:
        scratch: The folder for all files.
        parents: How many inputs the first stage has.
        curator: A Python that has NeMo Curator; empty if there is none.
    """

    scratch: Path
    parents: int
    curator: str = ""

    @property
    def pieces(self) -> int:
        """How many inputs the other stages have."""
        return self.parents * PIECES

    @property
    def seconds(self) -> float:
        """How long the middle stage takes if it never waits."""
        return self.pieces / BATCH * SECONDS_PER_BATCH

    def listed(self) -> Path:
        """Make the list and its files; return the list."""
        return make_parents(self.scratch / "parents", self.parents)


def main() -> None:
    """Measure the selected parts."""
    arguments = parse_arguments()
    if arguments.ray_data:
        ray_data(arguments.parents, Path(arguments.ray_data))
        return
    print(describe_machine("torch", "numpy", "ray"))
    missed = False
    if "overlap" in arguments.parts:
        stages = Stages(arguments.scratch, arguments.parents, arguments.curator)
        missed = overlap(stages, arguments.rounds)
    if "storage" in arguments.parts:
        storage(Stages(arguments.scratch, arguments.parents))
    if "children" in arguments.parts:
        many_children(arguments.scratch, arguments.children)
    sys.exit(missed)


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parts = ("overlap", "storage", "children")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=parts, metavar="PART", help=", ".join(parts))
    parser.add_argument("--parents", type=int, default=60, help="60 keep the middle stage busy for 30 s")
    parser.add_argument("--children", type=int, default=1_000_000, help="of a thousand parents")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scratch", type=Path, default=DEFAULT_SCRATCH / "pipelines")
    parser.add_argument("--curator", default="", metavar="PYTHON", help="one that has nemo-curator")
    parser.add_argument("--ray-data", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if unknown := set(arguments.parts) - set(parts):
        parser.error(f"there is no part {unknown.pop()}; choose of {', '.join(parts)}")
    return arguments


# -- overlap -----------------------------------------------------------------------------------------------


def overlap(stages: Stages, rounds: int) -> bool:
    """Let the contenders take turns, and print their wall times; return whether the aim was missed."""
    measured: dict[str, list[float]] = {}
    for _ in range(rounds):
        for name, seconds in one_round(stages):
            measured.setdefault(name, []).append(seconds)
    best = {name: min(times) for name, times in measured.items()}
    one_by_one = {name: best[name] for name in ("cut", "judge", "pack")}
    pipeline = best["pipeline"]
    # the time before the slowest stage has its first batch and after its last, including all start-up
    fill = best["one parent"] - stages.seconds / stages.parents
    print(
        f"\n{stages.parents} parents, {stages.pieces} pieces; the slowest stage works {stages.seconds:.1f} s"
    )
    rows = [[name, f"{best[name]:.1f}", f"{max(times):.1f}"] for name, times in measured.items()]
    rows.append(["the three one by one", f"{sum(one_by_one.values()):.1f}", ""])
    print(format_table(("what", "best s", "worst s"), rows))
    ratio = pipeline / (stages.seconds + fill)
    print(f"\npipeline / (slowest stage + one fill of {fill:.1f} s): {ratio:.2f}")
    print(f"pipeline / three stages one by one: {pipeline / sum(one_by_one.values()):.2f}")
    for name in ("Ray Data", "NeMo Curator"):
        if name in best:
            print(f"pipeline / {name}: {pipeline / best[name]:.2f}")
    print(f"Aim: at most {AIM} of the slowest stage and one fill: {'met' if ratio <= AIM else 'MISSED'}")
    return ratio > AIM


def one_round(stages: Stages) -> Iterator[tuple[str, float]]:
    """Yield the wall time of each contender."""
    log, out = stages.scratch / "pipelines.log", stages.scratch / "out"
    yield "pipeline", run_pipeline(stages, log)
    yield "one parent", run_pipeline(stages._replace(parents=1), log)
    commands = {
        "cut": (str(stages.listed()), *options("Cut", pieces=PIECES, size=PIECE_SIZE, cost=COST, workers=2)),
        "judge": (
            *(f"{out}/cut/manifest.csv", "--column", "output"),
            *options("Judge", seconds=SECONDS_PER_BATCH, workers=1, batch_size=BATCH),
        ),
        "pack": (f"{out}/judge/manifest.csv", *options("Pack", cost=COST, workers=2)),
    }
    clear(out)
    for name, command in commands.items():
        output = ("--output", f"{out}/{name}", "--quiet")
        yield name, time_command([*SPLITTER, "run", *command, *output], log)
    check_rows(out / "pack" / "manifest.csv", stages.pieces)
    clear(out)
    if installed_version("ray"):
        command = [sys.executable, str(Path(__file__).resolve()), f"--parents={stages.parents}"]
        yield "Ray Data", time_command([*command, "--ray-data", str(out)], log)
        check_files(out, stages.pieces)
    if stages.curator:
        work = {"pieces": PIECES, "size": PIECE_SIZE, "cost": COST, "batch": BATCH}
        given = {**work, "seconds": SECONDS_PER_BATCH, "parents": stages.parents, "out": str(out)}
        command = [stages.curator, str(BENCHMARKS / "curator.py"), json.dumps(given)]
        yield "NeMo Curator", time_command(command, log)
        check_files(out, stages.pieces)


def check_files(out: Path, count: int) -> None:
    """Refuse to print the results of a contender that did not do its job; remove its files."""
    found = sum(1 for _ in out.glob("*.bin"))
    if found != count:
        raise CommandFailedError(f"WRONG: {found} files, expected {count}")
    clear(out)


def options(recipe: str, **values: float) -> Iterator[str]:
    """Yield the options of a stage for the command line."""
    yield from ("--recipe", f"{RECIPES}:{recipe}")
    for name, value in values.items():
        yield from (f"--{name.replace('_', '-')}", str(value))


def run_pipeline(stages: Stages, log: Path) -> float:
    """Run the three stages as one pipeline, and check the results; return the wall time."""
    out = clear(stages.scratch / "out")
    seconds = time_command([*SPLITTER, "pipeline", "run", str(written(stages, "always")), "--quiet"], log)
    check_rows(out / "pack" / "manifest.csv", stages.pieces)
    clear(out)
    return seconds


def written(stages: Stages, keep: str, queue: str = "1GB", **more: str) -> Path:
    """Write the file of the pipeline; `more` are further options of the last stage."""
    fused = {"fuse": True} if keep == FUSED else {}
    tables = [
        stage(
            "cut", "Cut", dataset=str(stages.listed()), pieces=PIECES, size=PIECE_SIZE, cost=COST, workers=2
        ),
        stage(
            *("judge", "Judge"),
            **{"from": "cut", "adds": "columns", "seconds": SECONDS_PER_BATCH},
            workers=1,
            batch_size=BATCH,
            **fused,
        ),
        stage("pack", "Pack", **{"from": "judge", "cost": COST, "workers": 2}, **fused, **more),
    ]
    if not fused:
        tables.append(f'[keep]\ncut = "{keep}"\n')
    return write_pipeline(stages.scratch, tables, queue)


def stage(name: str, recipe: str, **values: Any) -> str:
    """Return a stage as TOML."""
    values = {"name": name, "recipe": f"{RECIPES}:{recipe}", **values}
    lines = (f"{key} = {'true' if value is True else repr(value)}" for key, value in values.items())
    return "\n".join(["[[stage]]", *lines, ""])


def write_pipeline(scratch: Path, tables: Sequence[str], queue: str = "1GB") -> Path:
    """Write a pipeline whose output is the folder `out` beside it."""
    file = scratch / "pipeline.toml"
    file.write_text("\n".join([f'output = "out"\nqueue = "{queue}"\n', *tables]), encoding="utf-8")
    return file


def ray_data(parents: int, out: Path) -> None:
    """Do the same with a chain of Ray Data; its middle stage is one actor, which has the only GPU."""
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_enable_metrics_collection": "0"}
    import ray
    import ray.data

    ray.init(address="local", num_cpus=2, num_gpus=1, include_dashboard=False, log_to_driver=False)
    ray.data.DataContext.get_current().enable_progress_bars = False
    out.mkdir(parents=True)

    def cut_one(row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        for name, content in cut(PIECES, PIECE_SIZE, COST):
            yield {"name": f"{row['parent']:05d}-{name}", "content": content}

    def pack(row: Mapping[str, Any]) -> dict[str, Any]:
        spend(COST)
        (out / row["name"]).write_bytes(row["content"])
        return {"name": row["name"], "judged": row["judged"]}

    class Model:
        def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
            sizes = [len(content) for content in batch["content"]]
            time.sleep(SECONDS_PER_BATCH)
            return {**batch, "judged": sizes}

    rows = ray.data.from_items([{"parent": number} for number in range(parents)], override_num_blocks=parents)
    judged = rows.flat_map(cut_one).map_batches(
        Model, batch_size=BATCH, concurrency=1, num_cpus=0, num_gpus=1
    )
    for _ in judged.map(pack).iter_batches():
        pass
    ray.shutdown()


# -- storage between stages --------------------------------------------------------------------------------


def storage(stages: Stages) -> None:
    """Print how much the first stage has on disk, with and without staged files."""
    rows = []
    shards = {"sink": "webdataset", "shard_size": SHARD_SIZE}
    ways: list[tuple[str, str, dict[str, str]]] = [
        ("always", "1GB", {}),
        ("until used", "1GB", {}),
        ("until used", QUEUE, {}),
        ("until used", QUEUE, shards),
        (FUSED, "1GB", {}),
    ]
    for keep, queue, more in ways:
        out, log, peak, most = clear(stages.scratch / "out"), stages.scratch / "pipelines.log", 0, 0
        began = time.perf_counter()
        file = written(stages, keep, queue, **more)
        with running([*SPLITTER, "pipeline", "run", str(file), "--quiet"], log) as process:
            for _ in looks(process):
                peak, most = max(peak, size_of(out / "cut")), max(most, size_of(out / "cut", OWN_FOLDER))
        seconds = time.perf_counter() - began
        check_rows(out / "pack" / "manifest.csv", stages.pieces)
        sizes = (peak, most, size_of(out / "cut", OWN_FOLDER), stages.pieces * PIECE_SIZE)
        what = f"{keep}, queue {queue}{', into shards' if more else ''}"
        rows.append([what, f"{seconds:.1f}", *(f"{size / 1e6:.1f}" for size in sizes)])
        clear(out)
    print()
    print(format_table(("cut is kept", "seconds", "peak MB", "outputs' peak", "at the end", "made MB"), rows))


def looks(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Yield several times a second, until a process has ended."""
    while process.poll() is None:
        yield
        time.sleep(1 / LOOKS_PER_SECOND)


def size_of(folder: Path, but: str = "") -> int:
    """Add up the sizes of the files below a folder, without folders of one name; files may disappear."""
    size = 0
    for path, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name != but]
        for name in names:
            with contextlib.suppress(OSError):
                size += os.lstat(os.path.join(path, name)).st_size
    return size


# -- many children -----------------------------------------------------------------------------------------


def many_children(scratch: Path, count: int) -> None:
    """Print the memory of the drivers, and the time, for many tiny children of a thousand parents."""
    if not sys.platform.startswith("linux"):
        print("\nchildren: the memory of drivers is read from /proc, which only Linux has")
        return
    parents = 1000
    listed = make_parents(scratch / "parents", parents)
    rows = []
    for each in (count // parents // 4, count // parents):
        tables = [
            stage("cut", "Cut", dataset=str(listed), pieces=each, size=1, workers=2),
            stage("note", "Note", **{"from": "cut", "adds": "columns", "workers": 2}),
        ]
        file = write_pipeline(scratch, tables)
        out, peaks = clear(scratch / "out"), dict[int, int]()
        began = time.perf_counter()
        with running(
            [*SPLITTER, "pipeline", "run", str(file), "--quiet"], scratch / "pipelines.log"
        ) as process:
            for _ in looks(process):
                for pid in (process.pid, *children(process.pid)):
                    peaks[pid] = max(peaks.get(pid, 0), *resident_kb(pid))
        seconds = time.perf_counter() - began
        check_rows(out / "note" / "manifest.csv", parents * each)
        clear(out)
        # drivers are started in the order of the stages
        pids = [process.pid, *sorted(set(peaks) - {process.pid})[:2]]
        megabytes = (f"{peaks[pid] * 1024 / 1e6:.0f}" for pid in pids)
        rows.append([f"{parents * each:,}", f"{seconds:.1f}", *megabytes])
    print()
    print(format_table(("children", "seconds", "pipeline MB", "driver of cut MB", "driver of note MB"), rows))


def make_parents(folder: Path, count: int) -> Path:
    """Make a list of files, once; they are as large as their pieces together, but take no space on disk."""
    listed = folder / f"parents-of-a-size-{count}.csv"
    if not listed.exists():
        folder.mkdir(parents=True, exist_ok=True)
        names = [f"{number:05d}.txt" for number in range(count)]
        for name in names:
            (folder / name).touch()
            os.truncate(folder / name, PIECES * PIECE_SIZE)
        listed.write_text("\n".join(["input", *names, ""]), encoding="utf-8")
    return listed


def check_rows(manifest: Path, count: int) -> None:
    """Refuse to print the results of a pipeline that did not do its job."""
    with manifest.open(encoding="utf-8", newline="") as file:
        found = sum(1 for _ in csv.DictReader(file))
    if found != count:
        raise CommandFailedError(f"WRONG: {manifest} has {found} rows, expected {count}")


if __name__ == "__main__":
    main()
