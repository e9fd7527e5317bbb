"""The peak memory of a worker that cuts one recording of many hours, above its memory at the start."""

import argparse
import contextlib
import csv
import os
import shutil
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from harness import (
    DEFAULT_SCRATCH,
    SPLITTER,
    CommandFailedError,
    clear,
    describe_machine,
    format_table,
    running,
)

RATE = 48_000
CHANNELS = 2
PIECE_SECONDS = 10
AIM_MB = 150
SAMPLES_PER_SECOND = 50
FIRST_SAMPLES_PER_SECOND = 1000
SECONDS_OF_LOSSY = 60
FFMPEG = ("ffmpeg", "-nostdin", "-v", "error", "-y")


class Case(NamedTuple):
    """A kind of recording, and the format of its pieces."""

    title: str
    ending: str
    options: tuple[str, ...]


CASES = {
    "wav": Case("WAV to WAV", "wav", ()),
    "resample": Case(
        "WAV to FLAC, 16 kHz mono",
        "wav",
        ("--sample-rate", "16000", "--channels", "mono", "--format", "flac"),
    ),
    "flac": Case("FLAC to FLAC", "flac", ()),
    "mp3": Case("MP3 to WAV", "mp3", ("--format", "wav")),
    "mp3-same": Case("MP3 to MP3", "mp3", ()),
    "opus": Case("Opus to WAV", "opus", ("--format", "wav")),
    "opus-same": Case("Opus to Opus", "opus", ()),
    "ogg": Case("Ogg Vorbis to WAV", "ogg", ("--format", "wav")),
    "m4a": Case("M4A to WAV", "m4a", ("--format", "wav")),
}
EXACT = ("wav", "flac", "opus")


class Memory(NamedTuple):
    """The memory of a process, in MB."""

    now: float
    peak: float
    anonymous: float


class Run(NamedTuple):
    """The time and the memory of one run."""

    seconds: float
    size_mb: float
    start_mb: float
    peak_mb: float
    anonymous_mb: float


def main() -> None:
    """Run each case, then print the table; exit with 1 if one failed or took more than the aim."""
    arguments = parse_arguments()
    rows, missed, problems = [], False, []
    for name in arguments.cases:
        case = CASES[name]
        if case.ending != "wav" and not shutil.which("ffmpeg"):
            problems.append(f"{name}: ffmpeg is not installed")
            continue
        try:
            run = measure(case, arguments)
        except CommandFailedError as problem:
            problems.append(f"{name}: {problem}")
            missed = True
            continue
        above = run.peak_mb - run.start_mb
        missed |= above >= AIM_MB
        numbers = (run.size_mb, run.seconds, run.start_mb, run.peak_mb, above, run.anonymous_mb)
        rows.append([case.title, *(f"{number:.0f}" for number in numbers)])
    print(describe_machine("torch", "soundfile", "soxr", "numpy"))
    print(f"one worker, one recording of {arguments.hours:g} h, 48 kHz stereo, in pieces of 10 s\n")
    header = ("recording", "file MB", "seconds", "at start MB", "peak MB", "above MB", "of it anonymous MB")
    print(format_table(header, rows))
    print("\n".join(["", *problems, f"Aim: under {AIM_MB} MB above start: {'MISSED' if missed else 'met'}"]))
    sys.exit(missed)


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=float, default=12)
    parser.add_argument(
        "--cases", nargs="+", choices=CASES, default=list(CASES), metavar="CASE", help=", ".join(CASES)
    )
    parser.add_argument(
        "--scratch", type=Path, default=DEFAULT_SCRATCH, help="the files are made here once, and kept"
    )
    arguments = parser.parse_args()
    if not sys.platform.startswith("linux"):
        parser.error("a worker's memory is read from /proc, which only Linux has")
    return arguments


def measure(case: Case, arguments: argparse.Namespace) -> Run:
    """Run splitter over one recording while watching its runner, and check that it did its job."""
    recording = make_recording(arguments.scratch / "memory", arguments.hours, case.ending)
    dataset = recording.with_suffix(f".{case.ending}.csv")
    dataset.write_text(f"input\n{recording.name}\n", encoding="utf-8")
    output, log = clear(arguments.scratch / "out" / "memory"), arguments.scratch / "memory.log"
    options = ["--output", str(output), "--workers", "1", "--quiet", *case.options]
    began = time.perf_counter()
    with running([*SPLITTER, "run", str(dataset), "--recipe", "chunk", *options], log) as process:
        samples = list(watch(process, output / ".splitter" / "staging"))
    seconds = time.perf_counter() - began
    check_manifest(output / "manifest.csv", arguments.hours, exact=case.ending in EXACT)
    clear(output)
    if not samples:
        raise CommandFailedError("no worker was seen")
    start = samples[0]
    return Run(
        seconds,
        recording.stat().st_size / 1e6,
        start.now,
        max(sample.peak for sample in samples),
        max(sample.anonymous for sample in samples) - start.anonymous,
    )


# -- the recordings ----------------------------------------------------------------------------------------


def make_recording(folder: Path, hours: float, ending: str) -> Path:
    """Make a recording, once; it gets its name when it is complete."""
    path = folder / f"{hours:g}h.{ending}"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        partial = folder / f"partial.{ending}"
        MAKERS.get(ending, make_lossy)(partial, round(hours * 3600))
        partial.replace(path)
    return path


def make_wav(path: Path, seconds: int) -> None:
    """Write the header of an RF64, then a hole: the samples take no space on disk, and read as zeros."""
    size = seconds * RATE * CHANNELS * 2
    with path.open("wb") as file:
        file.write(struct.pack("<4sI4s4sI", b"RF64", 0xFFFFFFFF, b"WAVE", b"ds64", 28))
        file.write(struct.pack("<QQQI", size + 72, size, size // (CHANNELS * 2), 0))
        description = (1, CHANNELS, RATE, RATE * CHANNELS * 2, CHANNELS * 2, 16)
        file.write(struct.pack("<4sIHHIIHH4sI", b"fmt ", 16, *description, b"data", 0xFFFFFFFF))
        file.truncate(file.tell() + size)


def make_flac(path: Path, seconds: int) -> None:
    """Let ffmpeg encode a tone."""
    tone = f"sine=frequency=220:sample_rate={RATE}:duration={seconds}"
    encoding = ("-ac", str(CHANNELS), "-compression_level", "0", str(path))
    subprocess.run([*FFMPEG, "-f", "lavfi", "-i", tone, *encoding], check=True)


def make_opus(path: Path, seconds: int) -> None:
    """Let ffmpeg encode a whole tone, quickly: libsndfile does not read packets that were repeated."""
    tone = f"sine=frequency=220:sample_rate={RATE}:duration={seconds}"
    encoding = ("-c:a", "libopus", "-ac", str(CHANNELS), "-b:a", "64k", "-compression_level", "0", str(path))
    subprocess.run([*FFMPEG, "-f", "lavfi", "-i", tone, *encoding], check=True)


def make_lossy(path: Path, seconds: int) -> None:
    """Let ffmpeg encode a minute of a tone, and repeat its frames."""
    minute = path.with_name(f"minute-{path.name}")
    tone = f"sine=frequency=220:sample_rate={RATE}:duration={SECONDS_OF_LOSSY}"
    encoding = ("-ac", str(CHANNELS), "-b:a", "64k", *CODECS[path.suffix], str(minute))
    subprocess.run([*FFMPEG, "-f", "lavfi", "-i", tone, *encoding], check=True)
    again = ("-stream_loop", str(-(-seconds // SECONDS_OF_LOSSY)), "-i", str(minute))
    subprocess.run([*FFMPEG, *again, "-c", "copy", "-t", str(seconds), str(path)], check=True)
    minute.unlink()


MAKERS: dict[str, Callable[[Path, int], None]] = {"wav": make_wav, "flac": make_flac, "opus": make_opus}
CODECS = {
    ".mp3": ("-c:a", "libmp3lame"),
    ".ogg": ("-c:a", "libvorbis"),
    ".m4a": ("-c:a", "aac"),
}


# -- watching ----------------------------------------------------------------------------------------------


def watch(process: subprocess.Popen[bytes], staging: Path) -> Iterator[Memory]:
    """Sample the runner's memory until the run ends, the first time just after it was forked.

    This also reads the kernel's own high-water mark, so a peak between two samples counts, too.
    """
    runner, hollowed = 0, set[Path]()
    while process.poll() is None:
        runner = runner or find_runner(process.pid)
        memory = memory_of(runner) if runner else None
        if memory:
            yield memory
            hollow(staging, hollowed)
        time.sleep(1 / (SAMPLES_PER_SECOND if runner else FIRST_SAMPLES_PER_SECOND))


def find_runner(driver: int) -> int:
    """Return the child of the driver's child, since the guard runs no user code; 0 if there is none yet."""
    return next((runner for guard in children(driver) for runner in children(guard)), 0)


def children(pid: int) -> list[int]:
    """Return the processes that any thread of a process has started."""
    found = []
    for thread in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += [int(child) for child in thread.read_text(encoding="ascii").split()]
    return found


def memory_of(pid: int) -> Memory | None:
    """Return the memory of a process; None if it is ending."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return None
    fields = dict(line.split(":", 1) for line in lines)
    if "VmHWM" not in fields:
        return None
    return Memory(*(int(fields[key].split()[0]) * 1024 / 1e6 for key in ("VmRSS", "VmHWM", "RssAnon")))


def hollow(staging: Path, hollowed: set[Path]) -> None:
    """Free the disk space of finished pieces, since nobody will look at their samples."""
    found: list[Path] = []
    # the run may be publishing them at this moment
    with contextlib.suppress(OSError):
        found = sorted(set(staging.rglob("*.*")) - hollowed)
    for path in found[:-2]:
        hollowed.add(path)
        with contextlib.suppress(OSError):
            size = path.stat().st_size
            os.truncate(path, 0)
            os.truncate(path, size)


def check_manifest(manifest: Path, hours: float, *, exact: bool) -> None:
    """Refuse to print the results of a run that did not do its job."""
    with manifest.open(encoding="utf-8", newline="") as file:
        found = sum(1 for _ in csv.reader(file)) - 1
    expected = -(-round(hours * 3600) // PIECE_SECONDS)
    # a lossy recording is made of minutes, to each of which the encoder adds some sound
    if found != expected and (exact or not expected < found <= expected * 1.001 + 1):
        raise CommandFailedError(f"WRONG: the manifest has {found} rows, expected {expected}")


if __name__ == "__main__":
    main()
