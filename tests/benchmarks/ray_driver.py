"""What the driver of a run on Ray costs, and when it would become the limit: a simulation.

The run is real, except for its tasks: they do nothing, and return at once what a worker would report. So the
driver surveys, plans, dispatches and collects as fast as it can, with as many batches in flight as a cluster
with that number of CPUs would have.
"""

import argparse
import json
import os
import pickle
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from harness import (
    CHECKOUT,
    DEFAULT_SCRATCH,
    CommandFailedError,
    clear,
    describe_machine,
    environment,
    format_table,
)
from many_rows import make_links, resident_kb


class Case(NamedTuple):
    """A simulated run."""

    rows: int
    cpus: int
    batch_size: int


class Cost(NamedTuple):
    """The time of the driver from the first report to the last, and its memory in MB.

    The peak is of the whole run.
    """

    batches: int
    seconds: float
    cpu_seconds: float
    before_mb: float
    after_mb: float
    peak_mb: float


def main() -> None:
    """Run the cases, each in a fresh process, then print the table."""
    arguments = parse_arguments()
    if arguments.child:
        simulate(Case(*map(int, arguments.child[1:])), Path(arguments.child[0]), arguments.scratch)
        return
    quarter = arguments.rows // 4
    cases = [
        Case(quarter, arguments.cpus[0], arguments.batch_size),
        *(Case(arguments.rows, cpus, arguments.batch_size) for cpus in arguments.cpus),
        Case(arguments.rows, arguments.cpus[0], arguments.batch_size * 10),
    ]
    rows = []
    for case in cases:
        dataset = make_links(arguments.scratch / "links", case.rows)
        rows.append(table_row(case, measure(case, dataset, arguments.scratch)))
    print(describe_machine("ray", "torch", "numpy"))
    print("tasks return at once; the driver, Ray and its workers share the CPUs\n")
    header = ("inputs", "CPUs simulated", "batch", "batches", "batches/s")
    print(
        format_table((*header, "driver's CPU ms per batch", "MB before", "MB after", "MB at its peak"), rows)
    )


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--cpus", type=int, nargs="+", default=[100, 1_000, 10_000])
    parser.add_argument("--batch-size", type=int, default=100)
    parser.add_argument(
        "--scratch", type=Path, default=DEFAULT_SCRATCH, help="the files are made here once, and kept"
    )
    parser.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if not sys.platform.startswith("linux"):
        parser.error("the driver's memory is read from /proc, which only Linux has")
    return arguments


def measure(case: Case, dataset: Path, scratch: Path) -> Cost:
    """Run a case in a fresh process."""
    command = [sys.executable, __file__, "--scratch", str(scratch), "--child", str(dataset), *map(str, case)]
    done = subprocess.run(
        command, env=environment(), cwd=CHECKOUT, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise CommandFailedError(done.stderr[-2000:])
    print(f"{case}: {done.stdout.strip()}", file=sys.stderr)
    return Cost(*json.loads(done.stdout.splitlines()[-1]))


def table_row(case: Case, cost: Cost) -> list[str]:
    """Return the row of one case."""
    numbers = f"{case.rows:,}", f"{case.cpus:,}", f"{case.batch_size:,}", f"{cost.batches:,}"
    per_batch = cost.cpu_seconds / cost.batches * 1e3
    rate = cost.batches / cost.seconds
    memory = (f"{size:.0f}" for size in (cost.before_mb, cost.after_mb, cost.peak_mb))
    return [*numbers, f"{rate:,.0f}", f"{per_batch:.2f}", *memory]


# -- in the fresh process ------------------------------------------------------------------------------------


def simulate(case: Case, dataset: Path, scratch: Path) -> None:
    """Run splitter with tasks that do nothing; print the cost of the driver as JSON."""
    from parts import Parts

    from splitter.engine.display import Display
    from splitter.executors.ray import executor, guard_process

    marks: list[tuple[float, float, float]] = []
    batches = 0
    run, in_flight = executor.RayExecutor.run, executor.BATCHES_PER_WORKER * case.cpus

    def watched(self: Any, job: Any, planned: Any, busy: int) -> Iterator[Any]:
        nonlocal batches
        for report in run(self, job, planned, busy):
            if not marks:
                marks.append(mark())
            batches += bool(report.counts.inputs)
            yield report
        marks.append(mark())

    guard_process.work = answer_at_once
    executor.RayExecutor.run = watched  # type: ignore[method-assign]
    executor.RayExecutor._room = lambda self: in_flight  # type: ignore[method-assign]
    # print no warnings about inputs that are not really done
    Display.say = lambda *_: None  # type: ignore[method-assign]
    output = clear(scratch / "out" / "simulated")
    recipe = Parts(str(dataset))
    recipe.run(output, executor="ray", workers=2, batch_size=case.batch_size)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    clear(output)
    (began, cpu, before), (ended, cpu_after, after) = marks
    print(json.dumps([batches, ended - began, cpu_after - cpu, before, after, peak]))


def mark() -> tuple[float, float, float]:
    """Return the time, the CPU time of all threads of this process, and its memory in MB."""
    return time.monotonic(), time.process_time(), resident_kb(os.getpid())[0] * 1024 / 1e6


def answer_at_once(mission: bytes, run: str, batch: bytes) -> bytes:
    """Replace a task: report that all inputs are done."""
    from splitter.worker.messages import Report, WorkCounts

    inputs = len(pickle.loads(batch))  # noqa: S301
    counts = WorkCounts(inputs=inputs, done=inputs, outputs=inputs, bytes=inputs, seconds=1.0)
    return pickle.dumps(Report(counts=counts))


if __name__ == "__main__":
    main()
