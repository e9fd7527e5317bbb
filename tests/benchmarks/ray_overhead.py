"""What Ray costs: `--executor ray`, `local`, and Ray by hand take turns.

This measures the cost of more inputs, so that start-up, which takes seconds on Ray, cancels out.
"""

import argparse
import functools
import sys
from pathlib import Path
from statistics import median
from typing import NamedTuple

from audio_check import WrongError, check, find_pieces
from audio_jobs import JOBS, RecordingSet
from harness import (
    BENCHMARKS,
    DEFAULT_SCRATCH,
    PARTS_RECIPE,
    SPLITTER,
    CommandFailedError,
    clear,
    describe_machine,
    format_table,
    time_command,
)
from ray_contenders import CONTENDERS, WORDS
from rounds import load_set as load_recordings
from rounds import place_for_pieces
from tiny_files import load_set as load_words
from workload import result_digest

NAMES = ("local", "ray", *CONTENDERS)
AIM = 0.9
# inputs in the small and in the large set; both take longer than the last worker takes to start
SIZES = {WORDS: (120_000, 420_000), "resample": (24, 104), "wav": (24, 104)}
# a contender that takes minutes gets a part of the sets, since its cost is per input
A_PART_OF = {("single", WORDS): 10}
DEFAULT_JOBS = (WORDS, "resample")


class InputSet(NamedTuple):
    """A dataset list, its number of inputs, and the right result."""

    inputs: int
    dataset: Path
    expected: object


def main() -> None:
    """Measure, then print a table for each job; exit with 1 if a contender failed or did its job wrong."""
    arguments = parse_arguments()
    print(describe_machine("ray", "torch", "soundfile", "soxr", "numpy"))
    print(f"{arguments.workers} workers, median of {arguments.rounds} rounds")
    failed = False
    for job in arguments.jobs:
        # a task takes only one long recording anyway
        names = [name for name in arguments.only if (name, job) in A_PART_OF or name != "single"]
        sets = {name: load_sets(name, job, arguments.scratch) for name in names}
        rounds: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
        problems: dict[str, str] = {}
        for _ in range(arguments.rounds):
            for name in names:
                if name not in problems:
                    try:
                        small, large = (run_once(name, job, inputs, arguments) for inputs in sets[name])
                        rounds[name].append((small, large))
                    except (CommandFailedError, WrongError) as problem:
                        problems[name] = " ".join(f"{problem}".split())[-300:]
        print("\n{}: {}; {:,} and {:,} inputs\n".format(job, title(job), *SIZES[job]))
        print(report(job, sets, {name: rounds[name] for name in rounds if name not in problems}))
        for name, problem in problems.items():
            print(f"{name}: {problem}", flush=True)
        failed |= bool(problems)
    sys.exit(failed)


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", nargs="+", choices=SIZES, default=DEFAULT_JOBS, metavar="JOB")
    parser.add_argument("--only", nargs="+", choices=NAMES, default=NAMES, metavar="NAME")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument(
        "--scratch", type=Path, default=DEFAULT_SCRATCH, help="the files are made here once, and kept"
    )
    parser.add_argument("--out", type=Path, help="what is made is written here, and removed")
    arguments = parser.parse_args()
    arguments.out = arguments.out or place_for_pieces(arguments.scratch)
    return arguments


def title(job: str) -> str:
    """Return the description of a job."""
    return "the parts of the word in each tiny file" if job == WORDS else JOBS[job].title


def load_sets(name: str, job: str, scratch: Path) -> list[InputSet]:
    """Make a contender's two sets."""
    return [load_set(scratch, job, size // A_PART_OF.get((name, job), 1)) for size in SIZES[job]]


@functools.cache
def load_set(scratch: Path, job: str, inputs: int) -> InputSet:
    """Make a set, unless it exists."""
    if job == WORDS:
        words = load_words(scratch, inputs)
        return InputSet(inputs, words.dataset, words.expected)
    made = load_recordings(scratch, JOBS[job], inputs)
    return InputSet(inputs, made.dataset, made)


def run_once(name: str, job: str, inputs: InputSet, arguments: argparse.Namespace) -> float:
    """Time one fresh process, and check its outputs."""
    out = clear(arguments.out / name)
    command = command_of(name, job, inputs.dataset, out, arguments.workers)
    seconds = time_command(command, arguments.scratch / f"{name}.log")
    see_that_it_is_right(name, inputs, out)
    clear(out)
    print(f"{job}, {name}: {inputs.inputs:,} inputs in {seconds:.2f} s", file=sys.stderr)
    return seconds


def command_of(name: str, job: str, dataset: Path, out: Path, workers: int) -> list[str]:
    """Build a contender's command line."""
    count = str(workers)
    if name in CONTENDERS:
        script = str(BENCHMARKS / "ray_contenders.py")
        return [sys.executable, script, name, job, str(dataset), str(out), "--workers", count]
    recipe = [PARTS_RECIPE] if job == WORDS else ["chunk", *JOBS[job].options()]
    options = ["--executor", name, "--workers", count, "--output", str(out), "--quiet"]
    return [*SPLITTER, "run", str(dataset), "--recipe", *recipe, *options]


def see_that_it_is_right(name: str, inputs: InputSet, out: Path) -> None:
    """Refuse the time of a run that did not do its job."""
    if isinstance(inputs.expected, RecordingSet):
        recordings, job = inputs.expected, inputs.expected.job
        found = sum(len(pieces) for pieces in find_pieces(out, job.made_as).values())
        if found != inputs.inputs * len(job.windows(job.made_rate)):
            raise WrongError(f"{found:,} pieces of {inputs.inputs:,} recordings")
        if inputs.inputs == SIZES[job.name][0]:
            # checking each sample of the large set, too, would take longer than everything else
            check(recordings, out)
        return
    results = sorted(out.glob("*.csv")) if name in CONTENDERS else [out / "manifest.csv"]
    digest = result_digest(results)
    if digest != inputs.expected:
        raise WrongError(f"{digest}, expected {inputs.expected}")


def report(job: str, sets: dict[str, list[InputSet]], rounds: dict[str, list[tuple[float, float]]]) -> str:
    """Return a table of the medians, and of the throughput of each compared with `local`."""
    more = {name: large.inputs - small.inputs for name, (small, large) in sets.items()}
    costs = {
        name: [(large - small) / more[name] for small, large in played] for name, played in rounds.items()
    }
    middle = {name: median(cost) for name, cost in costs.items()}
    unit, factor = ("us", 1e6) if job == WORDS else ("ms", 1e3)
    rows = []
    for name, cost in costs.items():
        small, large = (median(seconds) for seconds in zip(*rounds[name], strict=True))
        spread = f"{min(cost) * factor:.1f}-{max(cost) * factor:.1f}"
        beside = f"{middle['local'] / middle[name]:.2f}" if "local" in middle else "-"
        rows.append([name, f"{small:.2f}", f"{large:.2f}", f"{middle[name] * factor:.1f}", spread, beside])
    header = ("contender", "small s", "large s", f"{unit} per more input", "range", "throughput to local")
    return "\n".join([format_table(header, rows), *verdicts(middle)])


def verdicts(costs: dict[str, float]) -> list[str]:
    """Return lines that say which aims are met."""
    lines = []
    if "ray" in costs and "local" in costs:
        met = costs["local"] / costs["ray"] >= AIM
        lines.append(f"Aim: at least {AIM} of local: {'met' if met else 'MISSED'}")
    others = [name for name in CONTENDERS if name in costs and "ray" in costs]
    return [
        *lines,
        *(f"Aim: ahead of {name}: {'met' if costs['ray'] < costs[name] else 'MISSED'}" for name in others),
    ]


if __name__ == "__main__":
    main()
