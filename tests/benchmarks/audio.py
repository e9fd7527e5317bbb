"""The cost of more sound: splitter, a lower bound and other tools take turns at several jobs."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import soundfile
from audio_check import WrongError, check, find_pieces
from audio_contenders import CONTENDERS
from audio_jobs import JOBS, Job, RecordingSet
from harness import BENCHMARKS, CHECKOUT, SPLITTER, describe_machine, installed_version
from lossy_check import check_lossy
from rounds import NOT_FOR_IT, NOT_INSTALLED, Contest

LISTENERS = {"speech": ("silero",), "silence": ("sox", "auditok")}
NOTHING = "none"
NAMES = ("bound", "splitter", *(name for name in CONTENDERS if name != "bound"))


def main() -> None:
    """Measure, and print the results, the machine and the versions."""
    parts_of = {("ffmpeg", "many"): 10, ("silero", "speech"): 2}
    # other contenders copy the frames of these; ffmpeg encodes them again, in a hundred times the time
    parts_of |= {("ffmpeg", "mp3"): 4, ("ffmpeg", "opus"): 4}
    contest = Contest(NAMES, missing, command, checked, parts_of)
    arguments = contest.parse_arguments(__doc__, list(JOBS))
    print(describe_machine("torch", "soundfile", "soxr", "numpy", "lhotse", "litdata"))
    print(describe_programs())
    contest.run(arguments)


def describe_programs() -> str:
    """Return the versions of the programs that are installed."""
    found = []
    for program, option in (("sox", "--version"), ("ffmpeg", "-version")):
        if shutil.which(program):
            said = subprocess.run([program, option], capture_output=True, text=True, check=True).stdout
            version = re.search(r"\d[\w.+-]*", said)
            found.append(f"{program} {version[0] if version else '?'}")
    return ", ".join(found) or "no sox, no ffmpeg"


def missing(name: str, job: Job) -> str | None:
    """Return why a contender has to sit out a job; None if it takes part."""
    if name not in ("splitter", *contenders_for(job)):
        return NOT_FOR_IT
    if name == "splitter":
        there = (CHECKOUT / "splitter" / "__main__.py").exists()
    elif (name, job.name) == ("bound", "flac"):
        there = (CHECKOUT / "splitter" / "audio" / "formats" / "flac").exists()
    else:
        _, package, program, _ = CONTENDERS[name]
        there = bool(package is None or installed_version(package)) and bool(
            program is None or shutil.which(program)
        )
    return None if there else NOT_INSTALLED


def contenders_for(job: Job) -> tuple[str, ...]:
    """Return the contenders for a job, besides splitter."""
    if job.listens:
        return LISTENERS[job.name]
    if not job.is_lossy:
        copied = ("bytes",) if job.name == "flac" else ()
        return ("bound", *copied, "soundfile", "sox", "ffmpeg", "lhotse", "litdata")
    if job.keeps_format:
        return "bytes", "copy", "ffmpeg"
    return ("bound", "ffmpeg") if job.recorded_as == "m4a" else ("bound", "ffmpeg", "soundfile")


def command(name: str, recordings: RecordingSet, out: Path, workers: int) -> list[str]:
    """Build a contender's command line."""
    job, dataset, count = recordings.job, str(recordings.dataset), str(workers)
    if name != "splitter":
        script = str(BENCHMARKS / "audio_contenders.py")
        return [sys.executable, script, name, job.name, dataset, str(out), "--workers", count]
    options = ["--recipe", job.recipe, *job.options(), "--output", str(out), "--workers", count, "--quiet"]
    return [*SPLITTER, "run", dataset, *options]


def checked(name: str, recordings: RecordingSet, out: Path) -> str:
    """Check that a contender has done its job; return how well."""
    if name == "bytes":
        return check_bytes(recordings, out)
    if recordings.job.listens:
        return count_pieces(recordings, out)
    if recordings.job.is_lossy:
        return NOTHING if name == "bound" else check_lossy(recordings, out)
    return check(recordings, out)


def check_bytes(recordings: RecordingSet, out: Path) -> str:
    """Check that all bytes were copied."""
    wanted = sum(path.stat().st_size for path in recordings.recordings)
    found = sum(path.stat().st_size for path in out.rglob("*.*"))
    if found != wanted:
        raise WrongError(f"{found:,} bytes, expected {wanted:,}")
    return f"no {recordings.job.made_as}"


def count_pieces(recordings: RecordingSet, out: Path) -> str:
    """Return what was found in one recording: contenders differ in what silence is."""
    pieces = find_pieces(out, "wav")
    if set(pieces) != {path.stem for path in recordings.recordings}:
        raise WrongError(f"pieces of {len(pieces)} recordings, expected {len(recordings.names)}")
    found = [soundfile.info(path).duration for path in pieces[recordings.recordings[0].stem]]
    return f"{len(found)} pieces, {sum(found):.1f} s of {recordings.job.length}"


if __name__ == "__main__":
    main()
