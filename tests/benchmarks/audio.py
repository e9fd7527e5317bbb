"""The cost of more sound: splitter beside a lower bound and its peers, in turn, in four jobs."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

from audio_check import WrongError, check
from audio_contenders import CONTENDERS
from audio_jobs import JOBS, Job, RecordingSet
from harness import BENCHMARKS, CHECKOUT, SPLITTER, describe_machine, installed_version
from rounds import NOT_FOR_IT, NOT_INSTALLED, Contest

NAMES = ("bound", "splitter", *(name for name in CONTENDERS if name != "bound"))


def main() -> None:
    """Measure, and print what was measured where."""
    parts_of = {("ffmpeg", "many"): 10}
    contest = Contest(NAMES, missing, command, checked, parts_of)
    arguments = contest.parse_arguments(__doc__, list(JOBS))
    print(describe_machine("torch", "soundfile", "soxr", "numpy", "lhotse", "litdata"))
    print(describe_programs())
    contest.run(arguments)


def describe_programs() -> str:
    """Name the versions of the programs that are there."""
    found = []
    for program, option in (("sox", "--version"), ("ffmpeg", "-version")):
        if shutil.which(program):
            said = subprocess.run([program, option], capture_output=True, text=True, check=True).stdout
            version = re.search(r"\d[\w.+-]*", said)
            found.append(f"{program} {version[0] if version else '?'}")
    return ", ".join(found) or "no sox, no ffmpeg"


def missing(name: str, job: Job) -> str | None:
    """Tell whether a contender has to sit out."""
    if name == "bytes" and job.name != "flac":
        return NOT_FOR_IT
    if name == "splitter":
        there = (CHECKOUT / "splitter" / "__main__.py").exists()
    elif (name, job.name) == ("bound", "flac"):
        there = (CHECKOUT / "splitter" / "flac").exists()
    else:
        _, package, program, _ = CONTENDERS[name]
        there = bool(package is None or installed_version(package)) and bool(
            program is None or shutil.which(program)
        )
    return None if there else NOT_INSTALLED


def command(name: str, recordings: RecordingSet, out: Path, workers: int) -> list[str]:
    """Build a contender's command line."""
    job, dataset, count = recordings.job, str(recordings.dataset), str(workers)
    if name != "splitter":
        script = str(BENCHMARKS / "audio_contenders.py")
        return [sys.executable, script, name, job.name, dataset, str(out), "--workers", count]
    options = ["--recipe", "chunk", *job.options(), "--output", str(out), "--workers", count, "--quiet"]
    return [*SPLITTER, "run", dataset, *options]


def checked(name: str, recordings: RecordingSet, out: Path) -> str:
    """See that a contender has done its job."""
    return check_bytes(recordings, out) if name == "bytes" else check(recordings, out)


def check_bytes(recordings: RecordingSet, out: Path) -> str:
    """See that as many bytes were copied as there are."""
    wanted = sum(path.stat().st_size for path in recordings.recordings)
    found = sum(path.stat().st_size for path in out.rglob("*.*"))
    if found != wanted:
        raise WrongError(f"{found:,} bytes, expected {wanted:,}")
    return "no FLAC"


if __name__ == "__main__":
    main()
