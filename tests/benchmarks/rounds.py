"""What the benchmarks of sound share: contenders take turns at a small and a large set; then the tables."""

import argparse
import json
import os
import resource
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import NamedTuple

from audio_check import WrongError
from audio_jobs import JOBS, Job, RecordingSet
from audio_signals import make_clips, make_recordings
from harness import DEFAULT_SCRATCH, CommandFailedError, clear, format_table, time_command

LARGER = 10
NOT_INSTALLED, NOT_FOR_IT = "not installed", "this job is not for it"
MEMORY, MEMORY_NEEDED = Path("/dev/shm"), 6 << 30


class Time(NamedTuple):
    """The time of one fresh process, with all processes that it started."""

    wall_seconds: float
    cpu_seconds: float


class Round(NamedTuple):
    """One contender's two times in one round."""

    small: Time
    large: Time


class Outcome(NamedTuple):
    """A contender's good rounds and a description of its pieces, or why it has none."""

    sets: tuple[RecordingSet, RecordingSet] | None
    rounds: list[Round]
    result: str
    problem: str | None


@dataclass(frozen=True)
class Contest:
    """The contenders, and how to run them.

    Attributes:
        names: The names of the contenders.
        missing: Returns why a contender has to sit out a job, or None.
        command: Returns the command that runs a contender on a set, into a folder, with a number of workers.
        check: Raises WrongError if a contender has done its job wrong; otherwise returns how exact it was.
        parts_of: By contender and job, the part of the sets (1/n) for one that would take minutes: its cost
            is per recording.
    """

    names: Sequence[str]
    missing: Callable[[str, Job], str | None]
    command: Callable[[str, RecordingSet, Path, int], list[str]]
    check: Callable[[str, RecordingSet, Path], str]
    parts_of: Mapping[tuple[str, str], int] = field(default_factory=dict)

    def parse_arguments(self, description: str | None, jobs: Sequence[str]) -> argparse.Namespace:
        """Read the command line."""
        parser = argparse.ArgumentParser(description=description)
        parser.add_argument(
            "--jobs", nargs="+", choices=jobs, default=list(jobs), metavar="JOB", help=", ".join(jobs)
        )
        parser.add_argument(
            "--only",
            nargs="+",
            choices=self.names,
            default=self.names,
            metavar="NAME",
            help=", ".join(self.names),
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
            "--out",
            type=Path,
            help="pieces are written here, and removed; by default in memory if that is there",
        )
        arguments = parser.parse_args()
        arguments.out = arguments.out or place_for_pieces(arguments.scratch)
        return arguments

    def run(self, arguments: argparse.Namespace) -> None:
        """Measure, then print a table for each job; exit with 1 if a contender failed or was wrong."""
        print(
            f"{arguments.workers} workers, pieces in {arguments.out}, load {os.getloadavg()[0]:.1f} at first"
        )
        failed = False
        for name in arguments.jobs:
            job = JOBS[name]
            outcomes = self._measure(job, arguments)
            if arguments.add_to:
                outcomes = add_to(arguments.add_to, job, outcomes)
            rounds = max((len(outcome.rounds) for outcome in outcomes.values()), default=0)
            print(f"\n{name}: {job.title}; {self._sizes(job, arguments)}, median of {rounds} rounds\n")
            print(report(job, outcomes), flush=True)
            failed |= any(
                outcome.problem not in (None, NOT_INSTALLED, NOT_FOR_IT) for outcome in outcomes.values()
            )
        sys.exit(failed)

    def _recordings_in(self, job: Job, contender: str, arguments: argparse.Namespace) -> tuple[int, int]:
        """Return the sizes of a contender's two sets."""
        small = max(1, round(job.small * arguments.scale / self.parts_of.get((contender, job.name), 1)))
        return small, small * LARGER

    def _begin(self, name: str, job: Job, arguments: argparse.Namespace) -> Outcome:
        """Make a contender's sets, unless it has to sit out."""
        problem = self.missing(name, job)
        if problem:
            return Outcome(None, [], "", problem)
        small, large = self._recordings_in(job, name, arguments)
        sets = (load_set(arguments.scratch, job, small), load_set(arguments.scratch, job, large))
        return Outcome(sets, [], "", None)

    def _measure(self, job: Job, arguments: argparse.Namespace) -> dict[str, Outcome]:
        """Let the contenders take turns, so that a busy minute of the machine affects all of them."""
        outcomes = {name: self._begin(name, job, arguments) for name in self.names if name in arguments.only}
        for _ in range(arguments.rounds):
            for name, outcome in outcomes.items():
                if outcome.problem is None:
                    outcomes[name] = self._play_round(name, outcome, arguments)
        return outcomes

    def _play_round(self, name: str, outcome: Outcome, arguments: argparse.Namespace) -> Outcome:
        """Run a contender on its small set and on its large set."""
        assert outcome.sets is not None
        try:
            (small, _), (large, result) = (self._run_once(name, made, arguments) for made in outcome.sets)
        except (CommandFailedError, WrongError) as problem:
            print(f"{name}: {problem}", file=sys.stderr)
            return outcome._replace(problem=" ".join(f"{type(problem).__name__}: {problem}".split())[:200])
        return outcome._replace(rounds=[*outcome.rounds, Round(small, large)], result=result)

    def _run_once(
        self, name: str, recordings: RecordingSet, arguments: argparse.Namespace
    ) -> tuple[Time, str]:
        """Time one fresh process, and check its pieces."""
        out = clear(arguments.out / name)
        log = arguments.scratch / f"{name}.log"
        before = cpu_seconds()
        wall = time_command(self.command(name, recordings, out, arguments.workers), log)
        time = Time(wall, cpu_seconds() - before)
        result = self.check(name, recordings, out)
        clear(out)
        said = f"{wall:.2f} s, {time.cpu_seconds:.2f} s of CPU: {result}"
        print(
            f"{recordings.job.name}, {name}: {len(recordings.names):,} recordings in {said}", file=sys.stderr
        )
        return time, result

    def _sizes(self, job: Job, arguments: argparse.Namespace) -> str:
        """Return the sizes of the sets in words."""
        text = "{:,} and {:,} recordings".format(*self._recordings_in(job, self.names[0], arguments))
        parts = [name for name, part_of in self.parts_of if part_of == job.name and name in arguments.only]
        return ", ".join([text, *(f"for {name} 1/{self.parts_of[name, job.name]} of them" for name in parts)])


def place_for_pieces(scratch: Path) -> Path:
    """Choose a file system in memory, if there is one with room.

    ext4 skips the inodes of files that were deleted in the last minutes, one by one: if a run, or a test, has
    just removed thousands of pieces, making a file may take 25 times as long.
    """
    if os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > MEMORY_NEEDED:
        return MEMORY / "splitter-benchmarks"
    return scratch / "out"


def load_set(scratch: Path, job: Job, recordings: int) -> RecordingSet:
    """Make a set, unless it exists, and read it into the disk cache."""
    folder = scratch / "audio"
    if job.per == "file":
        dataset = make_clips(folder, recordings, job.length, job.rate)
    else:
        dataset = make_recordings(folder, recordings, job)
    made = RecordingSet(job, dataset)
    for path in made.originals:
        path.read_bytes()
    return made


def add_to(file: Path, job: Job, outcomes: dict[str, Outcome]) -> dict[str, Outcome]:
    """Add the rounds of earlier runs, which a file has, to those of this run; store all of them there."""
    kept = json.loads(file.read_text()) if file.exists() else {}
    for name, outcome in outcomes.items():
        if outcome.rounds:
            place = f"{job.name} {name} {' '.join(str(len(made.names)) for made in outcome.sets or ())}"
            kept[place] = [*kept.get(place, []), *outcome.rounds]
            rounds = [Round(Time(*small), Time(*large)) for small, large in kept[place]]
            outcomes[name] = outcome._replace(rounds=rounds)
    file.write_text(json.dumps(kept))
    return outcomes


def cpu_seconds() -> float:
    """Return the CPU time of all processes that this one has started and waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def report(job: Job, outcomes: dict[str, Outcome]) -> str:
    """Return a table of the medians, each compared with the bound's."""
    good = {name: outcome for name, outcome in outcomes.items() if outcome.problem is None}
    wall, cpu = ({name: costs(job, outcome, kind) for name, outcome in good.items()} for kind in (0, 1))
    reference = next((name for name in ("bound", "bytes", "splitter") if name in good), None)
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
    problems = [
        f"{name}: {outcome.problem}"
        for name, outcome in outcomes.items()
        if outcome.problem not in (None, NOT_FOR_IT)
    ]
    return "\n".join([format_table(header, rows), *problems])


def number(value: float) -> str:
    """Return a number with three digits, or with all digits before the point."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def costs(job: Job, outcome: Outcome, kind: int) -> list[float]:
    """Return the cost of more work in each round, in the unit of the job."""
    assert outcome.sets is not None
    more = len(outcome.sets[1].names) - len(outcome.sets[0].names)
    return [job.cost(played.large[kind] - played.small[kind], more) for played in outcome.rounds]
