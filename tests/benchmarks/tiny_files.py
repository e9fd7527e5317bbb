"""The cost of one more tiny file: splitter, a bare loop and other tools take turns."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

from contenders import CONTENDERS
from harness import (
    BENCHMARKS,
    CHECKOUT,
    DEFAULT_SCRATCH,
    PARTS_RECIPE,
    SPLITTER,
    CommandFailedError,
    clear,
    describe_machine,
    format_table,
    installed_version,
    time_command,
)
from workload import Digest, expected_digest, make_words, result_digest

NAMES = (*CONTENDERS, "splitter")


class WordSet(NamedTuple):
    """A set of tiny files, and the right result."""

    files: int
    dataset: Path
    expected: Digest


class Round(NamedTuple):
    """One contender's two times in one round."""

    small_seconds: float
    large_seconds: float


class Outcome(NamedTuple):
    """A contender's good rounds, or why it has none."""

    rounds: list[Round]
    problem: str | None


def main() -> None:
    """Measure, then print the table; exit with 1 if a contender failed or did the job wrong."""
    arguments = parse_arguments()
    sets = [load_set(arguments.scratch, files) for files in (arguments.small, arguments.large)]
    outcomes = measure(arguments.only, sets, arguments)
    print(describe_machine("torch", "litdata", "datasets", "ray", "pandas", "pyarrow"))
    sizes = f"{arguments.small:,} and {arguments.large:,} files"
    print(f"{arguments.workers} workers, {arguments.rounds} rounds, {sizes}\n")
    print(report(outcomes, arguments.large - arguments.small))
    sys.exit(any(outcome.problem not in (None, "not installed") for outcome in outcomes.values()))


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", type=int, default=20_000, metavar="FILES")
    parser.add_argument("--large", type=int, default=200_000, metavar="FILES")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--only", nargs="+", choices=NAMES, default=NAMES, metavar="NAME", help=", ".join(NAMES)
    )
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument(
        "--scratch", type=Path, default=DEFAULT_SCRATCH, help="the files are made here once, and kept"
    )
    arguments = parser.parse_args()
    if not 0 < arguments.small < arguments.large:
        parser.error("--small has to be less than --large")
    return arguments


def load_set(scratch: Path, files: int) -> WordSet:
    """Make the set, unless it exists, and compute the expected result."""
    dataset = make_words(scratch / f"words-{files}", files)
    return WordSet(files, dataset, expected_digest(dataset))


def measure(
    names: Sequence[str], sets: Sequence[WordSet], arguments: argparse.Namespace
) -> dict[str, Outcome]:
    """Let the contenders take turns, so that a busy minute of the machine affects all of them."""
    outcomes = {name: Outcome([], missing(name)) for name in NAMES if name in names}
    for _ in range(arguments.rounds):
        for name, outcome in outcomes.items():
            if outcome.problem is None:
                outcomes[name] = play_round(name, outcome, sets, arguments)
    return outcomes


def missing(name: str) -> str | None:
    """Return why a contender has to sit out; None if it takes part."""
    if name == "splitter":
        return None if (CHECKOUT / "splitter" / "__main__.py").exists() else "not installed"
    package = CONTENDERS[name].package
    return None if package is None or installed_version(package) else "not installed"


def play_round(
    name: str, outcome: Outcome, sets: Sequence[WordSet], arguments: argparse.Namespace
) -> Outcome:
    """Run a contender on the small set and on the large set."""
    try:
        played = Round(*(run_once(name, words, arguments) for words in sets))
    except CommandFailedError as problem:
        print(f"{name}: {problem}", file=sys.stderr)
        return Outcome(outcome.rounds, " ".join(str(problem).split())[:200])
    return Outcome([*outcome.rounds, played], None)


def run_once(name: str, words: WordSet, arguments: argparse.Namespace) -> float:
    """Time one fresh process, and check its result."""
    out = clear(arguments.scratch / "out" / name)
    log = arguments.scratch / f"{name}.log"
    seconds = time_command(command(name, words.dataset, out, arguments.workers), log)
    results = [out / "manifest.csv"] if name == "splitter" else sorted(out.glob("*.csv"))
    digest = result_digest(results)
    clear(out)
    if digest != words.expected:
        raise CommandFailedError(f"WRONG: {digest}, expected {words.expected}")
    print(f"{name}: {words.files:,} files in {seconds:.2f} s", file=sys.stderr)
    return seconds


def command(name: str, dataset: Path, out: Path, workers: int) -> list[str]:
    """Build a contender's command line."""
    count = str(workers)
    if name != "splitter":
        script = str(BENCHMARKS / "contenders.py")
        return [sys.executable, script, name, str(dataset), str(out), "--workers", count]
    options = ["--recipe", PARTS_RECIPE, "--output", str(out), "--workers", count, "--quiet"]
    return [*SPLITTER, "run", str(dataset), *options]


def report(outcomes: dict[str, Outcome], more_files: int) -> str:
    """Return a table of the medians, each compared with the bare loop's."""
    costs = {
        name: [(played.large_seconds - played.small_seconds) / more_files * 1e6 for played in outcome.rounds]
        for name, outcome in outcomes.items()
        if outcome.problem is None
    }
    bare = median(costs["bare"]) if "bare" in costs else None
    rows = [table_row(name, outcomes[name].rounds, cost, bare) for name, cost in costs.items()]
    table = format_table(("contender", "small s", "large s", "us per more file", "range", "to bare"), rows)
    problems = [
        f"{name}: {outcome.problem}" for name, outcome in outcomes.items() if outcome.problem is not None
    ]
    return "\n".join([table, *problems])


def table_row(name: str, rounds: Sequence[Round], costs: Sequence[float], bare: float | None) -> list[str]:
    """Return the row of one contender."""
    small, large = (median(seconds) for seconds in zip(*rounds, strict=True))
    cost = median(costs)
    spread = f"{min(costs):.1f}-{max(costs):.1f}"
    ratio = f"{cost / bare:.2f}x" if bare else "-"
    return [name, f"{small:.2f}", f"{large:.2f}", f"{cost:.1f}", spread, ratio]


if __name__ == "__main__":
    main()
