"""The contenders for shards: run as `python shard_contenders.py NAME JOB dataset.csv out --workers 2`.

Each cuts the recordings of the set into the pieces of the job, and puts these into shards in `out`. All
except lhotse copy byte ranges behind a header, as splitter does. Third-party packages are imported where they
are used, so a contender pays only for its own imports.
"""

import argparse
import json
import os
import tarfile
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing import Process
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from audio_contenders import AT_ONCE, WAV_HEADER, Task, wav_header

if TYPE_CHECKING:
    from audio_jobs import Job

SHARD_BYTES = 10**9
BLOCK = 512


# -- the bound ---------------------------------------------------------------------------------------------


def bound(task: Task) -> None:
    """Copy the byte ranges into a tar file for each worker, and nothing else."""
    in_processes(copy_into_tar, task)


def in_processes(function: Callable[["Job", str, list[str], str], None], task: Task) -> None:
    """Give each process every n-th recording, and a separate shard."""
    processes = [
        Process(
            target=function,
            args=(task.job, str(task.root), task.names[first :: task.workers], f"{task.out}/{first:06d}"),
        )
        for first in range(task.workers)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        if process.exitcode != 0:
            raise SystemExit("a worker failed")


def copy_into_tar(job: "Job", root: str, names: list[str], shard: str) -> None:
    """Copy the pieces of recordings into a tar file, through one buffer."""
    buffer = memoryview(bytearray(AT_ONCE))
    with open(f"{shard}.tar", "wb", buffering=0) as target:
        for name in names:
            with open(f"{root}/{name}", "rb", buffering=0) as source:
                header, frame_bytes = wav_header(source.read(WAV_HEADER.size))
                for number, (start, stop) in enumerate(job.windows(job.rate)):
                    size = (stop - start) * frame_bytes
                    info = tarfile.TarInfo(f"{os.path.splitext(name)[0]}-{number:06d}.wav")
                    info.size = WAV_HEADER.size + size
                    target.write(info.tobuf(tarfile.USTAR_FORMAT) + header(size))
                    source.seek(WAV_HEADER.size + start * frame_bytes)
                    while size:
                        count = source.readinto(buffer[: min(size, AT_ONCE)])
                        target.write(buffer[:count])
                        size -= count
                    target.write(bytes(-info.size % BLOCK))
        target.write(bytes(2 * BLOCK))


# -- peers -------------------------------------------------------------------------------------------------


def samples(job: "Job", root: str, name: str) -> Iterator[dict[str, Any]]:
    """Yield the pieces of a recording as dictionaries, with the values of a manifest row."""
    stem = os.path.splitext(name)[0]
    with open(f"{root}/{name}", "rb", buffering=0) as source:
        header, frame_bytes = wav_header(source.read(WAV_HEADER.size))
        for number, (start, stop) in enumerate(job.windows(job.rate)):
            size = (stop - start) * frame_bytes
            content = header(size) + os.pread(source.fileno(), size, WAV_HEADER.size + start * frame_bytes)
            about = {"input": name, "start_seconds": start / job.rate, "stop_seconds": stop / job.rate}
            yield {"__key__": f"{stem}-{number:06d}", "wav": content, "json": json.dumps(about).encode()}


def webdataset(task: Task) -> None:
    """Let a ShardWriter in each process write the pieces."""
    in_processes(_write_webdataset, task)


def _write_webdataset(job: "Job", root: str, names: list[str], shard: str) -> None:
    from webdataset import ShardWriter

    with ShardWriter(f"{shard}-%06d.tar", maxsize=SHARD_BYTES, verbose=0) as writer:
        for name in names:
            for sample in samples(job, root, name):
                writer.write(sample)


def litdata(task: Task) -> None:
    """Let litdata.optimize write chunks of the pieces."""
    os.environ["DATA_OPTIMIZER_CACHE_FOLDER"] = str(task.out / "cache")
    os.environ["DATA_OPTIMIZER_DATA_CACHE_FOLDER"] = str(task.out / "cache-data")
    import litdata as library

    library.optimize(
        fn=partial(samples, task.job, str(task.root)),
        inputs=task.names,
        output_dir=str(task.out / "made"),
        chunk_bytes="64MB",
        num_workers=task.workers,
        reorder_files=False,
        start_method="fork",
    )


def lhotse(task: Task) -> None:
    """Let a CutSet of windows write itself as Shar."""
    from lhotse import CutSet, RecordingSet

    job = task.job
    recordings = RecordingSet.from_dir(task.root, f"*.{job.recorded_as}")
    cuts = CutSet.from_manifests(recordings=recordings)
    windows = cuts.cut_into_windows(job.window, hop=float(job.hop))
    windows.to_eager().to_shar(
        task.out, fields={"recording": "wav"}, shard_size=500, num_jobs=task.workers, include_cuts=True
    )


class Contender(NamedTuple):
    """How to run a contender, and the package that it needs."""

    run: Callable[[Task], None]
    package: str | None
    how: str


CONTENDERS = {
    "bound": Contender(bound, None, "byte ranges behind a header, into one tar file for each worker"),
    "webdataset": Contender(webdataset, "webdataset", "the same ranges and some JSON, through ShardWriter"),
    "litdata": Contender(litdata, "litdata", "litdata.optimize of the same"),
    "lhotse": Contender(lhotse, "lhotse", "CutSet.cut_into_windows, then to_shar"),
}


def main() -> None:
    """Run one contender."""
    from audio_jobs import JOBS, RecordingSet

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=CONTENDERS)
    parser.add_argument("job", choices=JOBS)
    parser.add_argument("dataset", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    job, dataset = JOBS[arguments.job], arguments.dataset.resolve()
    names = RecordingSet(job, dataset).names
    CONTENDERS[arguments.name].run(
        Task(job, dataset.parent, names, arguments.out.resolve(), arguments.workers)
    )


if __name__ == "__main__":
    main()
