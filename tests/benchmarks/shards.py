"""The cost of more sound in shards: splitter's sinks, a lower bound and other tools take turns."""

import functools
import hashlib
import io
import sys
import tarfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import soundfile
from audio_check import WrongError
from audio_jobs import Job, RecordingSet
from audio_signals import DISTINCT
from harness import BENCHMARKS, CHECKOUT, SPLITTER, describe_machine, installed_version
from rounds import NOT_INSTALLED, Contest
from shard_contenders import CONTENDERS

SINKS = {"splitter files": "files", "splitter tar": "webdataset", "splitter parquet": "parquet"}
NAMES = ("bound", *SINKS, *(name for name in CONTENDERS if name != "bound"))


def main() -> None:
    """Measure, and print the results, the machine and the versions."""
    contest = Contest(NAMES, missing, command, check)
    arguments = contest.parse_arguments(__doc__, ["wav", "many"])
    print(describe_machine("torch", "pyarrow", "webdataset", "litdata", "lhotse"))
    contest.run(arguments)


def missing(name: str, job: Job) -> str | None:
    """Return why a contender has to sit out; None if it takes part."""
    if name in SINKS:
        return None if (CHECKOUT / "splitter" / "__main__.py").exists() else NOT_INSTALLED
    package = CONTENDERS[name].package
    return None if package is None or installed_version(package) else NOT_INSTALLED


def command(name: str, recordings: RecordingSet, out: Path, workers: int) -> list[str]:
    """Build a contender's command line."""
    job, dataset, count = recordings.job, str(recordings.dataset), str(workers)
    if name not in SINKS:
        script = str(BENCHMARKS / "shard_contenders.py")
        return [sys.executable, script, name, job.name, dataset, str(out), "--workers", count]
    options = ["--recipe", "chunk", *job.options(), "--output", str(out), "--workers", count, "--quiet"]
    return [*SPLITTER, "run", dataset, *options, "--sink", SINKS[name]]


# -- results -----------------------------------------------------------------------------------------------


def check(name: str, recordings: RecordingSet, out: Path) -> str:
    """Check that each piece is there once, with the same samples."""
    expected: Counter[str] = Counter()
    originals: dict[int, Path] = {}
    for path in recordings.recordings:
        original = originals.setdefault(path.stat().st_ino, path)
        expected.update(digests(original, recordings.job))
    found: Counter[str] = Counter()
    count = 0
    for content in pieces(name, out):
        samples, rate = soundfile.read(io.BytesIO(content), dtype="int16", always_2d=True)
        if rate != recordings.job.made_rate:
            raise WrongError(f"a piece has {rate} Hz")
        found[hashlib.sha256(samples).hexdigest()] += 1
        count += 1
    if found != expected:
        raise WrongError(f"{count:,} pieces, expected {expected.total():,} of the same samples")
    return f"{count:,} exact"


@functools.lru_cache(maxsize=DISTINCT * 4)
def digests(recording: Path, job: Job) -> list[str]:
    """Return the checksums of the pieces of a recording."""
    samples, _ = soundfile.read(recording, dtype="int16", always_2d=True)
    return [hashlib.sha256(samples[start:stop]).hexdigest() for start, stop in job.windows(job.rate)]


def pieces(name: str, out: Path) -> Iterator[bytes]:
    """Yield the contents of all pieces that a contender has left."""
    if name == "litdata":
        from litdata import StreamingDataset

        dataset = StreamingDataset(str(out / "made"))
        yield from (dataset[number]["wav"] for number in range(len(dataset)))
        return
    for path in sorted(out.rglob("*.tar")):
        with tarfile.open(path) as archive:
            for member in archive:
                if member.name.endswith(".wav"):
                    file = archive.extractfile(member)
                    assert file is not None
                    yield file.read()
    for path in sorted(out.rglob("*.parquet")):
        import pyarrow.parquet as pq

        for batch in pq.ParquetFile(path).iter_batches(64, columns=["audio"]):
            yield from (row["bytes"] for row in batch.column("audio").to_pylist())
    for path in sorted(out.rglob("*.wav")):
        yield path.read_bytes()


if __name__ == "__main__":
    main()
