"""The driver's memory and the time for a million rows with only metadata, extrapolated to ten million."""

import argparse
import csv
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from harness import (
    DEFAULT_SCRATCH,
    PARTS_RECIPE,
    SPLITTER,
    clear,
    describe_machine,
    format_table,
    running,
)
from workload import FILES_PER_FOLDER, Row, split_word, write_list

WORD = "preprocessing"
SAMPLES_PER_SECOND = 20
AIM_MB = 500
FAR_ROWS = 10_000_000
PRINT_OWN_RSS = "print(open('/proc/self/statm').read().split()[1])"


class Run(NamedTuple):
    """The time and the memory of one run."""

    rows: int
    seconds: float
    peak_mb: float


def main() -> None:
    """Run a quarter of the rows, then all of them; print both, and extrapolate."""
    arguments = parse_arguments()
    imports_mb = rss_after("import torch, numpy")
    quarter = run_rows(arguments.scratch, arguments.rows // 4, arguments.workers)
    full = run_rows(arguments.scratch, arguments.rows, arguments.workers)
    lines = (quarter, full, extrapolate(quarter, full, FAR_ROWS))
    print(describe_machine("torch", "numpy", "pandas"))
    print(f"{arguments.workers} workers; `import torch, numpy` alone: {imports_mb:.0f} MB\n")
    header = ("rows", "seconds", "driver peak MB", "above imports MB", "us per row")
    print(format_table(header, [table_row(run, imports_mb) for run in lines]))
    verdict = "met" if full.peak_mb - imports_mb < AIM_MB else "MISSED"
    print("\nThe last line is extrapolated.")
    print(f"Aim: {full.rows:,} rows under {AIM_MB} MB above imports: {verdict}")


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument(
        "--scratch", type=Path, default=DEFAULT_SCRATCH, help="the files are made here once, and kept"
    )
    arguments = parser.parse_args()
    if not sys.platform.startswith("linux"):
        parser.error("the driver's memory is read from /proc, which only Linux has")
    if arguments.rows < 4:
        parser.error("--rows has to be 4 at least")
    return arguments


def rss_after(statement: str) -> float:
    """Return the resident memory of a fresh Python in MB after a statement."""
    command = [sys.executable, "-c", f"{statement}\n{PRINT_OWN_RSS}"]
    pages = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return int(pages) * os.sysconf("SC_PAGE_SIZE") / 1e6


def run_rows(scratch: Path, rows: int, workers: int) -> Run:
    """Run splitter over a number of rows while watching its driver."""
    dataset = make_links(scratch / "links", rows)
    output, log = clear(scratch / "out" / "rows"), scratch / "rows.log"
    options = ["--recipe", PARTS_RECIPE, "--output", str(output), "--workers", str(workers), "--quiet"]
    began = time.perf_counter()
    with running([*SPLITTER, "run", str(dataset), *options], log) as process:
        peak_mb = watch(process)
    seconds = time.perf_counter() - began
    check_manifest(output / "manifest.csv", rows)
    clear(output)
    return Run(rows, seconds, peak_mb)


def make_links(folder: Path, rows: int) -> Path:
    """Make a list of distinct paths: each folder of a thousand has one tiny file and hard links to it."""
    dataset = folder / f"dataset-{rows}.csv"
    if not dataset.exists():
        folder.mkdir(parents=True, exist_ok=True)
        write_list(dataset, _link_rows(folder, rows))
    return dataset


def _link_rows(folder: Path, rows: int) -> Iterator[Row]:
    for first in range(0, rows, FILES_PER_FOLDER):
        directory = folder / f"{first // FILES_PER_FOLDER:05d}"
        directory.mkdir(exist_ok=True)
        original = directory / "000.txt"
        original.write_text(WORD, encoding="utf-8")
        for index in range(min(FILES_PER_FOLDER, rows - first)):
            link = directory / f"{index:03d}.txt"
            if not link.exists():
                link.hardlink_to(original)
            yield f"{directory.name}/{link.name}", f"label-{index % 10}"


def watch(process: subprocess.Popen[bytes]) -> float:
    """Sample the resident memory of a process, without its children, until it ends; return the peak in MB.

    This also reads the kernel's own high-water mark, so a peak between two samples counts, too.
    """
    peak_kb = 0
    while process.poll() is None:
        peak_kb = max(peak_kb, *resident_kb(process.pid))
        time.sleep(1 / SAMPLES_PER_SECOND)
    return peak_kb * 1024 / 1e6


def resident_kb(pid: int) -> tuple[int, int]:
    """Return the resident memory in kB, now and at its peak so far; both are 0 if the process is ending."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return 0, 0
    fields = dict(line.split(":", 1) for line in lines)
    now, peak = (int(fields.get(key, "0 kB").split()[0]) for key in ("VmRSS", "VmHWM"))
    return now, peak


def check_manifest(manifest: Path, rows: int) -> None:
    """Refuse to print the results of a run that did not do its job."""
    with manifest.open(encoding="utf-8", newline="") as file:
        found = sum(1 for _ in csv.reader(file)) - 1
    expected = rows * len(split_word(WORD))
    if found != expected:
        sys.exit(f"WRONG: the manifest has {found} rows, expected {expected}")


def extrapolate(quarter: Run, full: Run, rows: int) -> Run:
    """Follow the straight line through two runs."""
    factor = (rows - full.rows) / (full.rows - quarter.rows)
    seconds = full.seconds + (full.seconds - quarter.seconds) * factor
    return Run(rows, seconds, full.peak_mb + (full.peak_mb - quarter.peak_mb) * factor)


def table_row(run: Run, imports_mb: float) -> list[str]:
    """Return the row of one run."""
    above_mb = run.peak_mb - imports_mb
    per_row = run.seconds / run.rows * 1e6
    return [f"{run.rows:,}", f"{run.seconds:.1f}", f"{run.peak_mb:.0f}", f"{above_mb:.0f}", f"{per_row:.1f}"]


if __name__ == "__main__":
    main()
