"""The contenders for sound: run as `python audio_contenders.py NAME JOB dataset.csv out --workers 2`.

Each cuts the recordings of the set into the pieces of the job, and leaves them in `out`: the pieces of each
recording are in a separate folder, or contain its name in theirs. Third-party packages are imported where
they are used, so a contender pays only for its own imports.
"""

import argparse
import os
import struct
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from multiprocessing import Pool, Process
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import listening

if TYPE_CHECKING:
    from audio_jobs import Job

WAV_HEADER = struct.Struct("<4sI4s4sIHHIIHH4sI")
AT_ONCE = 1 << 18
BLOCK_SECONDS = 2
FFMPEG = ("-nostdin", "-v", "error", "-i")


class Task(NamedTuple):
    """The work of a contender."""

    job: "Job"
    root: Path
    names: list[str]
    out: Path
    workers: int


# -- lower bounds ------------------------------------------------------------------------------------------


def bound(task: Task) -> None:
    """Do the least that the job needs, in as many processes as there are workers."""
    if task.job.is_lossy:
        # ffmpeg's decoders are the fastest
        nothing = ["-f", "null", "-"]
        commands = [[*FFMPEG, str(task.root / name), *nothing] for name in task.names]
        run_commands("ffmpeg", commands, task.workers)
        return
    cut = {"wav": copy_long, "many": copy_short, "resample": resample, "flac": copy_frames}[task.job.name]
    in_processes(partial(cut, task.job), task)


def plain_bytes(task: Task) -> None:
    """Copy as many bytes into as many files: no FLAC can be cut faster than that."""
    in_processes(partial(copy_parts, task.job), task)


def in_processes(cut: Callable[[str, str], None], task: Task) -> None:
    """Give each process every n-th recording."""
    shares = [task.names[first :: task.workers] for first in range(task.workers)]
    processes = [
        Process(target=_cut_all, args=(cut, str(task.root), share, str(task.out))) for share in shares
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        if process.exitcode != 0:
            sys.exit("a worker failed")


def _cut_all(cut: Callable[[str, str], None], root: str, names: Sequence[str], out: str) -> None:
    for name in names:
        cut(f"{root}/{name}", f"{out}/{os.path.splitext(name)[0]}")


def copy_long(job: "Job", recording: str, folder: str) -> None:
    """Copy byte ranges behind a header, through one buffer."""
    os.mkdir(folder)
    buffer = memoryview(bytearray(AT_ONCE))
    with open(recording, "rb", buffering=0) as source:
        header, frame_bytes = wav_header(source.read(WAV_HEADER.size))
        for number, (start, stop) in enumerate(job.windows(job.rate)):
            size = (stop - start) * frame_bytes
            source.seek(WAV_HEADER.size + start * frame_bytes)
            with open(f"{folder}/{number:06d}.wav", "wb", buffering=0) as piece:
                piece.write(header(size))
                while size:
                    count = source.readinto(buffer[: min(size, AT_ONCE)])
                    piece.write(buffer[:count])
                    size -= count


def copy_short(job: "Job", recording: str, folder: str) -> None:
    """Copy byte ranges behind a header, from a recording that is read in one call."""
    os.mkdir(folder)
    descriptor = os.open(recording, os.O_RDONLY)
    content = memoryview(os.read(descriptor, 1 << 20))
    os.close(descriptor)
    header, frame_bytes = wav_header(content[: WAV_HEADER.size])
    for number, (start, stop) in enumerate(job.windows(job.rate)):
        first, last = (WAV_HEADER.size + frame * frame_bytes for frame in (start, stop))
        descriptor = os.open(f"{folder}/{number:06d}.wav", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        os.writev(descriptor, (header(last - first), content[first:last]))
        os.close(descriptor)


def wav_header(start: bytes | memoryview) -> tuple[Callable[[int], bytes], int]:
    """Return a function that makes the header for a number of bytes of sound, and the bytes of a frame."""
    fields = WAV_HEADER.unpack(start)
    if fields[11] != b"data":
        sys.exit("this WAV has a longer header than those of the benchmark")

    def header(size: int) -> bytes:
        return WAV_HEADER.pack(b"RIFF", 36 + size, *fields[2:12], size)

    return header, fields[9]


def resample(job: "Job", recording: str, folder: str) -> None:
    """Stream blocks of two seconds of 16 bits through soxr, the channels summed as (a + b) / 2."""
    import numpy as np
    import soundfile
    import soxr

    os.mkdir(folder)
    # floats: with integers, soxr adds noise, and NumPy computes the sums more slowly
    stream = soxr.ResampleStream(job.rate, job.made_rate, 1, "float32", "HQ")
    size = job.window * job.made_rate
    made, number = np.empty(0, np.int16), 0
    for mono in _mono_blocks(recording, job.rate):
        block = stream.resample_chunk(mono, last=not len(mono))
        made = np.concatenate((made, np.rint(block, out=block).astype(np.int16)))
        while len(made) >= size:
            # libsndfile writes a file a block at a time, which costs a quarter more than this
            with open(f"{folder}/{number:06d}.flac", "wb", AT_ONCE) as piece:
                soundfile.write(piece, made[:size], job.made_rate, "PCM_16", format="FLAC")
            made, number = made[size:], number + 1


def _mono_blocks(recording: str, rate: int) -> Iterator[Any]:
    """Yield blocks of a stereo WAV as one channel, each valid until the next; the last one is empty."""
    import numpy as np

    stereo = np.empty((BLOCK_SECONDS * rate, 2), "<i2")
    mono = np.empty(len(stereo), np.float32)
    with open(recording, "rb", buffering=0) as source:
        wav_header(source.read(WAV_HEADER.size))
        frames = len(stereo)
        while frames:
            frames = source.readinto(stereo) // 4
            mono[:frames] = stereo[:frames, 0]
            mono[:frames] += stereo[:frames, 1]
            mono[:frames] *= np.float32(0.5)
            yield mono[:frames]


def copy_frames(job: "Job", recording: str, folder: str) -> None:
    """Copy FLAC frames with splitter's own code, and nothing around it."""
    from splitter.audio.formats.flac import FlacSource

    os.mkdir(folder)
    with FlacSource(recording) as source:
        for number, (start, stop) in enumerate(job.windows(job.rate)):
            if source.reach(stop) < stop:
                sys.exit(f"{recording} is too short")
            with open(f"{folder}/{number:06d}.flac", "wb", buffering=0) as piece:
                source.cut(start, stop, piece)


def copy_parts(job: "Job", recording: str, folder: str) -> None:
    """Copy equal parts of a file."""
    os.mkdir(folder)
    count = len(job.windows(job.rate))
    buffer = memoryview(bytearray(AT_ONCE))
    with open(recording, "rb", buffering=0) as source:
        size = os.fstat(source.fileno()).st_size
        for number in range(count):
            left = size * (number + 1) // count - size * number // count
            with open(f"{folder}/{number:06d}.{job.made_as}", "wb", buffering=0) as piece:
                while left:
                    got = source.readinto(buffer[: min(left, AT_ONCE)])
                    piece.write(buffer[:got])
                    left -= got


# -- by hand, and with libraries ---------------------------------------------------------------------------


def by_hand(task: Task) -> None:
    """Cut in a multiprocessing.Pool, with the code that people write for soundfile."""
    with Pool(task.workers) as processes:
        cut = partial(cut_by_hand, task.job, str(task.root), out=str(task.out))
        for _ in processes.imap_unordered(cut, task.names, chunksize=16 if task.job.per == "file" else 1):
            pass


def cut_by_hand(job: "Job", root: str, name: str, out: str) -> None:
    """Cut one recording."""
    import soundfile

    folder = f"{out}/{os.path.splitext(name)[0]}"
    os.mkdir(folder)
    overlap = int((job.window - job.hop) * job.rate)
    pieces: Iterable[Any] = soundfile.blocks(f"{root}/{name}", job.window * job.rate, overlap, dtype="int16")
    if job.resamples:
        pieces = _resampled(job, f"{root}/{name}")
    for number, piece in enumerate(pieces):
        soundfile.write(f"{folder}/{number:06d}.{job.made_as}", piece, job.made_rate, "PCM_16")


def _resampled(job: "Job", recording: str) -> Iterator[Any]:
    import soundfile
    import soxr

    samples, rate = soundfile.read(recording, dtype="float32")
    made = soxr.resample(samples.mean(axis=1), rate, job.made_rate)
    return (made[start:stop] for start, stop in job.windows(job.made_rate))


def litdata(task: Task) -> None:
    """Let litdata.map call the same code for each recording; it moves the pieces to `out`."""
    os.environ["DATA_OPTIMIZER_CACHE_FOLDER"] = str(task.out / "cache")
    os.environ["DATA_OPTIMIZER_DATA_CACHE_FOLDER"] = str(task.out / "cache-data")
    import litdata as library

    library.map(
        fn=partial(_litdata_cut, task.job, str(task.root)),
        inputs=[(name,) for name in task.names],
        output_dir=str(task.out / "made"),
        num_workers=task.workers,
        reorder_files=False,
        start_method="fork",
    )


def _litdata_cut(job: "Job", root: str, recording: tuple[str], output_dir: str) -> None:
    cut_by_hand(job, root, recording[0], output_dir)


def lhotse(task: Task) -> None:
    """Cut a CutSet into windows, which load their sound when they are saved."""
    from lhotse import CutSet, RecordingSet

    job = task.job
    recordings = RecordingSet.from_dir(task.root, f"*.{job.recorded_as}")
    cuts = CutSet.from_manifests(recordings=recordings)
    if job.resamples:
        cuts = cuts.resample(job.made_rate)
    windows = cuts.cut_into_windows(job.window, hop=float(job.hop))
    windows.to_eager().save_audios(
        task.out,
        format=job.made_as,
        num_jobs=task.workers,
        augment_fn=_mean_of_channels if job.resamples else None,
        progress_bar=False,
        shuffle_on_split=False,
    )


def _mean_of_channels(samples: Any, _rate: int) -> Any:
    return samples.mean(axis=0, keepdims=True)


# -- with programs -----------------------------------------------------------------------------------------


def sox(task: Task) -> None:
    """Run sox for each recording; if it resamples, a second sox cuts the output of the first."""
    job, made = task.job, task.job.made_as
    if job.listens:
        effects = listening.silence_of_sox()
        commands = [["-D", source, f"{out}/%6n.wav", *effects] for source, out in folders(task)]
        run_commands("sox", commands, task.workers)
        return
    windows = ["trim", "0", str(job.window), ":", "newfile", ":", "restart"]
    if job.resamples:
        pipe = f'sox -V1 -D "$0" -p remix - rate {job.made_rate} | sox -D -p -b 16 "$1" {" ".join(windows)}'
        commands = [["-c", pipe, recording, f"{folder}/%4n.{made}"] for recording, folder in folders(task)]
        run_commands("sh", commands, task.workers)
        return
    places = list(folders(task))
    run_commands(
        "sox", [["-D", source, f"{out}/%4n.{made}", *windows] for source, out in places], task.workers
    )
    if job.hop < job.window:
        # with half overlap, and two windows in a recording: the one between them, which sorts after 0001
        between = [["-D", source, f"{out}/0001-5.{made}", "trim", "0.5", "1"] for source, out in places]
        run_commands("sox", between, task.workers)


def ffmpeg(task: Task) -> None:
    """Run ffmpeg for each recording: with segments if they are exact, otherwise with an output per piece."""
    job = task.job
    commands = []
    for recording, folder in folders(task):
        if job.made_as == "wav" and job.hop == job.window:
            # blocks of a second, because segments end where blocks do
            segments = ["-f", "segment", "-segment_time", str(job.window), f"{folder}/%04d.wav"]
            commands.append([*FFMPEG, recording, "-af", f"asetnsamples=n={job.rate}:p=0", *segments])
        else:
            # FLAC segments have no length in their header, and libsndfile does not read them
            commands.append([*FFMPEG, recording, *_outputs(job, folder)])
    run_commands("ffmpeg", commands, task.workers)


def ffmpeg_copy(task: Task) -> None:
    """Let ffmpeg copy packets into segments, which begin and end where packets do."""
    job = task.job
    segments = ["-c", "copy", "-f", "segment", "-segment_time", str(job.window)]
    commands = [
        [*FFMPEG, recording, *segments, f"{folder}/%04d.{job.made_as}"] for recording, folder in folders(task)
    ]
    run_commands("ffmpeg", commands, task.workers)


def _outputs(job: "Job", folder: str) -> Iterator[str]:
    from audio_jobs import CODECS

    windows = job.windows(job.made_rate)
    changes = f"aformat=sample_rates={job.made_rate}:channel_layouts=mono," if job.resamples else ""
    branches = "".join(f"[piece{number}]" for number in range(len(windows)))
    block = int(job.hop * job.made_rate)
    yield from ("-filter_complex", f"{changes}asetnsamples=n={block}:p=0,asplit={len(windows)}{branches}")
    for number in range(len(windows)):
        yield from ("-map", f"[piece{number}]", "-ss", str(float(number * job.hop)), "-t", str(job.window))
        yield from CODECS[job.recorded_as] if job.is_lossy and job.keeps_format else ()
        yield f"{folder}/{number:04d}.{job.made_as}"


def folders(task: Task) -> Iterator[tuple[str, str]]:
    """Yield each recording, and a folder for its pieces, which is made if necessary."""
    for name in task.names:
        folder = task.out / os.path.splitext(name)[0]
        folder.mkdir(exist_ok=True)
        yield str(task.root / name), str(folder)


def run_commands(program: str, commands: Sequence[Sequence[str]], at_once: int) -> None:
    """Run a program for each list of arguments, all of one length, `at_once` at a time, at the least cost."""
    arguments = "\0".join(argument for command in commands for argument in command)
    counts = {len(command) for command in commands}
    subprocess.run(
        ["xargs", "-0", "-P", str(at_once), "-n", str(*counts), "-x", program],
        input=arguments.encode(),
        check=True,
    )


class Contender(NamedTuple):
    """How to run a contender, and the package or the program that it needs."""

    run: Callable[[Task], None]
    package: str | None
    program: str | None
    how: str


CONTENDERS = {
    "bound": Contender(bound, None, None, "the least that the job needs: the lower bound"),
    "bytes": Contender(plain_bytes, None, None, "as many bytes into as many files, without a look at them"),
    "soundfile": Contender(by_hand, "soundfile", None, "multiprocessing.Pool and soundfile, by hand"),
    "sox": Contender(sox, None, "sox", "sox trim : newfile : restart, under xargs -P"),
    "ffmpeg": Contender(ffmpeg, None, "ffmpeg", "ffmpeg -f segment, or an output a piece, under xargs -P"),
    "copy": Contender(ffmpeg_copy, None, "ffmpeg", "ffmpeg -c copy -f segment, under xargs -P"),
    "silero": Contender(
        listening.silero, "silero-vad", None, "silero-vad's get_speech_timestamps, in a Pool"
    ),
    "auditok": Contender(listening.auditok, "auditok", None, "auditok.split, in a Pool"),
    "lhotse": Contender(lhotse, "lhotse", None, "CutSet.cut_into_windows, then save_audios"),
    "litdata": Contender(litdata, "litdata", None, "litdata.map of what soundfile by hand does"),
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
