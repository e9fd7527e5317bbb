"""What one more sample in a tar shard costs: `chunk`, compared with webdataset's reader and soundfile.

    python tests/benchmarks/shard_inputs.py

Each contender is a fresh process with two workers, on a small set of shards and on one ten times as large;
the cost of a sample is the difference of the times divided by that of the samples. Pieces are four seconds
of FLAC.
"""

import argparse
import io
import multiprocessing
import os
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import soundfile
from audio_signals import speech
from harness import DEFAULT_SCRATCH, clear, describe_machine, format_table, time_command

RATE, SECONDS, PIECE = 16_000, 10, 4
SHARDS, SAMPLES = 8, (25, 250)


def make_shards(folder: Path, samples: int) -> Path:
    """Make shards of speech-like FLAC, each sample with a transcript, once."""
    if (folder / "done").exists():
        return folder
    clear(folder).mkdir(parents=True, exist_ok=True)
    sounds = []
    for seed in range(20):
        file = io.BytesIO()
        soundfile.write(file, speech(SECONDS, RATE, 1, seed), RATE, format="FLAC", subtype="PCM_16")
        sounds.append(file.getvalue())
    for number in range(SHARDS):
        with tarfile.open(folder / f"s-{number:04d}.tar", "w") as tar:
            for at in range(samples):
                for name, content in (("flac", sounds[at % len(sounds)]), ("txt", b"what is said")):
                    info = tarfile.TarInfo(f"{number:02d}{at:06d}.{name}")
                    info.size = len(content)
                    tar.addfile(info, io.BytesIO(content))
    (folder / "done").touch()
    return folder


def by_hand(shards: Sequence[str], out: str) -> None:
    """Read samples as training code does, cut each, write the pieces."""
    import webdataset

    for sample in webdataset.WebDataset(list(shards), shardshuffle=False):
        samples, rate = soundfile.read(io.BytesIO(sample["flac"]), dtype="int16", always_2d=True)
        for number, start in enumerate(range(0, len(samples), PIECE * rate)):
            piece = samples[start : start + PIECE * rate]
            soundfile.write(f"{out}/{sample['__key__']}-{number}.flac", piece, rate, subtype="PCM_16")


def both_halves(folder: str, out: str) -> None:
    """Run `by_hand` in two processes, each with every other shard."""
    shards = sorted(str(path) for path in Path(folder).glob("*.tar"))
    workers = [multiprocessing.Process(target=by_hand, args=(shards[at::2], out)) for at in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        if worker.exitcode:
            sys.exit(worker.exitcode)


def command(contender: str, shards: Path, out: Path) -> list[str]:
    """Return the command that runs a contender."""
    if contender == "splitter":
        cut = ["--seconds", str(PIECE), "--workers", "2", "--quiet", "--output", str(out)]
        return [sys.executable, "-m", "splitter", "run", f"{shards}/s-*.tar", *cut]
    return [sys.executable, __file__, "--by-hand", str(shards), str(out)]


def main() -> None:
    """Let the contenders take turns, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scratch", type=Path, default=DEFAULT_SCRATCH)
    parser.add_argument("--by-hand", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.by_hand:
        both_halves(*arguments.by_hand)
        return
    scratch: Path = arguments.scratch
    sets = [make_shards(scratch / f"shard-inputs-{samples}", samples) for samples in SAMPLES]
    more = SHARDS * (SAMPLES[1] - SAMPLES[0])
    costs: dict[str, list[float]] = {"splitter": [], "webdataset and soundfile": []}
    for _ in range(arguments.rounds):
        for contender, found in costs.items():
            times = []
            for shards in sets:
                out = clear(scratch / "shard-inputs-out")
                out.mkdir(parents=True, exist_ok=True)
                if contender == "splitter":
                    os.rmdir(out)
                times.append(time_command(command(contender, shards, out), scratch / "log"))
                pieces = sum(1 for _ in out.rglob("*.flac"))
                expected = SHARDS * SAMPLES[sets.index(shards)] * -(-SECONDS // PIECE)
                if pieces != expected:
                    sys.exit(f"{contender}: made {pieces} pieces of {expected}")
            found.append((times[1] - times[0]) / more)
    clear(scratch / "shard-inputs-out")
    rows = [
        (name, f"{1e6 * median(all_of):,.0f}", f"{1 / median(all_of):,.0f}") for name, all_of in costs.items()
    ]
    print(describe_machine("soundfile", "webdataset"))
    print(format_table(("contender", "µs a sample", "samples a second"), rows))


if __name__ == "__main__":
    main()
