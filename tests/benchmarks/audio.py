"""The cost of more sound: splitter beside a lower bound and its peers, in turn, in four jobs."""

import argparse
import json
import os
import re
import resource
import shutil
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import NamedTuple

from audio_check import WrongError, check
from audio_contenders import CONTENDERS
from audio_jobs import JOBS, Job, RecordingSet
from audio_signals import make_clips, make_recordings
from harness import (
    BENCHMARKS,
    CHECKOUT,
    DEFAULT_SCRATCH,
    SPLITTER,
    CommandFailedError,
    clear,
    describe_machine,
    format_table,
    installed_version,
    time_command,
)

NAMES = ("bound", "splitter", *(name for name in CONTENDERS if name != "bound"))
LARGER = 10
# What takes minutes gets a part of the sets: its cost is per recording all the same.
A_PART_OF = {("ffmpeg", "many"): 10}
NOT_INSTALLED = "not installed"
MEMORY, MEMORY_NEEDED = Path("/dev/shm"), 6 << 30


class Time(NamedTuple):
    """What one fresh process took, with all that it started."""

    wall_seconds: float
    cpu_seconds: float


class Round(NamedTuple):
    """One contender's two times in one round."""

    small: Time
    large: Time


class Outcome(NamedTuple):
    """A contender's good rounds and what its pieces are like, or why it has none."""

    sets: tuple[RecordingSet, RecordingSet] | None
    rounds: list[Round]
    result: str
    problem: str | None


def main() -> None:
    """Measure, then print a table for each job; exit code 1 when a contender failed or did a job wrong."""
    arguments = parse_arguments()
    print(describe_machine("torch", "soundfile", "soxr", "numpy", "lhotse", "litdata"))
    print(describe_programs())
    print(f"{arguments.workers} workers, pieces in {arguments.out}, load {os.getloadavg()[0]:.1f} at first")
    failed = False
    for name in arguments.jobs:
        job = JOBS[name]
        outcomes = measure(job, arguments)
        if arguments.add_to:
            outcomes = add_to(arguments.add_to, job, outcomes)
        rounds = max((len(outcome.rounds) for outcome in outcomes.values()), default=0)
        print(f"\n{name}: {job.title}; {sizes(job, arguments)}, median of {rounds} rounds\n")
        print(report(job, outcomes), flush=True)
        failed |= any(outcome.problem not in (None, NOT_INSTALLED) for outcome in outcomes.values())
    sys.exit(failed)


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--jobs", nargs="+", choices=JOBS, default=list(JOBS), metavar="JOB", help=", ".join(JOBS)
    )
    parser.add_argument(
        "--only", nargs="+", choices=NAMES, default=NAMES, metavar="NAME", help=", ".join(NAMES)
    )
    parser.add_argument("--scale", type=float, default=1.0, help="make all sets so many times as large")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--add-to",
        type=Path,
        metavar="FILE",
        help="keep the times here, and count those of earlier runs that did",
    )
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument(
        "--scratch", type=Path, default=DEFAULT_SCRATCH, help="the files are made here once, and kept"
    )
    parser.add_argument(
        "--out", type=Path, help="pieces are written here, and removed; by default in memory if that is there"
    )
    arguments = parser.parse_args()
    arguments.out = arguments.out or place_for_pieces(arguments.scratch)
    return arguments


def place_for_pieces(scratch: Path) -> Path:
    """Choose a file system in memory, if there is one with room.

    ext4 passes over the inodes of files that were deleted in the last minutes, one by one: where thousands
    of pieces were removed after a run, or by somebody's tests, making a file may take 25 times as long.
    """
    if os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > MEMORY_NEEDED:
        return MEMORY / "splitter-benchmarks"
    return scratch / "out"


def describe_programs() -> str:
    """Name the versions of the programs that are there."""
    found = []
    for program, option in (("sox", "--version"), ("ffmpeg", "-version")):
        if shutil.which(program):
            said = subprocess.run([program, option], capture_output=True, text=True, check=True).stdout
            version = re.search(r"\d[\w.+-]*", said)
            found.append(f"{program} {version[0] if version else '?'}")
    return ", ".join(found) or "no sox, no ffmpeg"


def recordings_in(job: Job, contender: str, arguments: argparse.Namespace) -> tuple[int, int]:
    """Give the sizes of a contender's two sets."""
    small = max(1, round(job.small * arguments.scale / A_PART_OF.get((contender, job.name), 1)))
    return small, small * LARGER


def load_set(scratch: Path, job: Job, recordings: int) -> RecordingSet:
    """Make a set unless it is there, and bring it into the disk's cache."""
    folder = scratch / "audio"
    if job.per == "file":
        dataset = make_clips(folder, recordings, job.length, job.rate)
    else:
        dataset = make_recordings(folder, recordings, job.length, job.rate, job.recorded_as)
    made = RecordingSet(job, dataset)
    for path in made.originals:
        path.read_bytes()
    return made


# -- measuring ---------------------------------------------------------------------------------------------


def measure(job: Job, arguments: argparse.Namespace) -> dict[str, Outcome]:
    """Let the contenders take turns, so that a busy minute of the machine falls on all of them."""
    outcomes = {name: begin(name, job, arguments) for name in NAMES if name in arguments.only}
    if job.name != "flac":
        outcomes.pop("bytes", None)
    for _ in range(arguments.rounds):
        for name, outcome in outcomes.items():
            if outcome.problem is None:
                outcomes[name] = play_round(name, outcome, arguments)
    return outcomes


def add_to(file: Path, job: Job, outcomes: dict[str, Outcome]) -> dict[str, Outcome]:
    """Put the rounds of earlier runs before those of this one, and keep them all for later."""
    kept = json.loads(file.read_text()) if file.exists() else {}
    for name, outcome in outcomes.items():
        if outcome.rounds:
            place = f"{job.name} {name} {' '.join(str(len(made.names)) for made in outcome.sets or ())}"
            kept[place] = [*kept.get(place, []), *outcome.rounds]
            rounds = [Round(Time(*small), Time(*large)) for small, large in kept[place]]
            outcomes[name] = outcome._replace(rounds=rounds)
    file.write_text(json.dumps(kept))
    return outcomes


def begin(name: str, job: Job, arguments: argparse.Namespace) -> Outcome:
    """Make a contender's sets, unless it has to sit out."""
    problem = missing(name, job)
    if problem:
        return Outcome(None, [], "", problem)
    small, large = recordings_in(job, name, arguments)
    sets = (load_set(arguments.scratch, job, small), load_set(arguments.scratch, job, large))
    return Outcome(sets, [], "", None)


def missing(name: str, job: Job) -> str | None:
    """Tell whether a contender has to sit out."""
    if name == "splitter":
        there = (CHECKOUT / "splitter" / "__main__.py").exists()
    elif (name, job.name) == ("bound", "flac"):
        there = (CHECKOUT / "splitter" / "flac.py").exists()
    else:
        _, package, program, _ = CONTENDERS[name]
        there = bool(package is None or installed_version(package)) and bool(
            program is None or shutil.which(program)
        )
    return None if there else NOT_INSTALLED


def play_round(name: str, outcome: Outcome, arguments: argparse.Namespace) -> Outcome:
    """Run a contender on its small and on its large set."""
    assert outcome.sets is not None
    try:
        (small, _), (large, result) = (run_once(name, made, arguments) for made in outcome.sets)
    except (CommandFailedError, WrongError) as problem:
        print(f"{name}: {problem}", file=sys.stderr)
        return outcome._replace(problem=" ".join(f"{type(problem).__name__}: {problem}".split())[:200])
    return outcome._replace(rounds=[*outcome.rounds, Round(small, large)], result=result)


def run_once(name: str, recordings: RecordingSet, arguments: argparse.Namespace) -> tuple[Time, str]:
    """Time one fresh process and check what it made."""
    out = clear(arguments.out / name)
    log = arguments.scratch / f"{name}.log"
    before = cpu_seconds()
    wall = time_command(command(name, recordings, out, arguments.workers), log)
    time = Time(wall, cpu_seconds() - before)
    result = check_bytes(recordings, out) if name == "bytes" else check(recordings, out)
    clear(out)
    said = f"{wall:.2f} s, {time.cpu_seconds:.2f} s of CPU: {result}"
    print(f"{recordings.job.name}, {name}: {len(recordings.names):,} recordings in {said}", file=sys.stderr)
    return time, result


def cpu_seconds() -> float:
    """Give what all processes took that this one has started and waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def command(name: str, recordings: RecordingSet, out: Path, workers: int) -> list[str]:
    """Build a contender's command line."""
    job, dataset, count = recordings.job, str(recordings.dataset), str(workers)
    if name != "splitter":
        script = str(BENCHMARKS / "audio_contenders.py")
        return [sys.executable, script, name, job.name, dataset, str(out), "--workers", count]
    options = ["--recipe", "chunk", *job.options(), "--output", str(out), "--workers", count, "--quiet"]
    return [*SPLITTER, "run", dataset, *options]


def check_bytes(recordings: RecordingSet, out: Path) -> str:
    """See that as many bytes were copied as there are."""
    wanted = sum(path.stat().st_size for path in recordings.recordings)
    found = sum(path.stat().st_size for path in out.rglob("*.*"))
    if found != wanted:
        raise WrongError(f"{found:,} bytes, expected {wanted:,}")
    return "no FLAC"


# -- the tables --------------------------------------------------------------------------------------------


def sizes(job: Job, arguments: argparse.Namespace) -> str:
    """Say how large the sets are."""
    text = "{:,} and {:,} recordings".format(*recordings_in(job, "splitter", arguments))
    parts = [name for name, part_of in A_PART_OF if part_of == job.name and name in arguments.only]
    return ", ".join([text, *(f"for {name} a {A_PART_OF[name, job.name]}th of them" for name in parts)])


def report(job: Job, outcomes: dict[str, Outcome]) -> str:
    """Put the medians in a table, each beside the bound's."""
    good = {name: outcome for name, outcome in outcomes.items() if outcome.problem is None}
    wall, cpu = ({name: costs(job, outcome, kind) for name, outcome in good.items()} for kind in (0, 1))
    reference = next((name for name in ("bound", "bytes") if name in good), None)
    rows = []
    for name, outcome in good.items():
        small, large = (
            median(seconds.wall_seconds for seconds in size) for size in zip(*outcome.rounds, strict=True)
        )
        spread = f"{number(min(wall[name]))}-{number(max(wall[name]))}"
        ratios = [
            f"{median(kind[name]) / median(kind[reference]):.2f}x" if reference else "-"
            for kind in (wall, cpu)
        ]
        cost = number(median(wall[name]))
        rows.append([name, f"{small:.2f}", f"{large:.2f}", cost, spread, *ratios, outcome.result])
    header = ("contender", "small s", "large s", job.unit, "range", f"to {reference}", "in CPU", "pieces")
    problems = [f"{name}: {outcome.problem}" for name, outcome in outcomes.items() if outcome.problem]
    return "\n".join([format_table(header, rows), *problems])


def number(value: float) -> str:
    """Write three digits, or all before the point."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def costs(job: Job, outcome: Outcome, kind: int) -> list[float]:
    """Give what more work took in each round, in the unit of the job."""
    assert outcome.sets is not None
    more = len(outcome.sets[1].names) - len(outcome.sets[0].names)
    return [job.cost(played.large[kind] - played.small[kind], more) for played in outcome.rounds]


if __name__ == "__main__":
    main()
