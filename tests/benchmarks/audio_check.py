"""Check that the pieces of recordings are what was asked for, and measure how exact they are."""

import functools
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import soundfile
from audio_jobs import Job, RecordingSet
from audio_signals import DISTINCT

Array = npt.NDArray[Any]

RECORDING = re.compile(r"speech-\d{5}")
SECONDS_AT_AN_EDGE = 0.005
FULL_SCALE = 32_768
# Resamplers differ in what their filters let pass; one that starts again for each piece is off by far more at
# its edges.
SAME_SOUND_DB = -50.0
SEAM_DB = 12.0


class WrongError(Exception):
    """The pieces of a contender are not what was asked for."""


def check(recordings: RecordingSet, out: Path) -> str:
    """Check that all pieces are there and have the right length; return how exact they are."""
    job = recordings.job
    pieces = find_pieces(out, job.made_as)
    names = {path.stem for path in recordings.recordings}
    if names != set(pieces):
        raise WrongError(f"pieces of {len(pieces)} recordings, expected {len(names)}")
    inside = edges = 0.0
    originals: dict[int, Path] = {}
    for path in recordings.recordings:
        original = originals.setdefault(path.stat().st_ino, path)
        expected = [whole(original, job.made_rate)[start:stop] for start, stop in job.windows(job.made_rate)]
        found = pieces[path.stem]
        if len(found) != len(expected):
            raise WrongError(f"{path.stem} has {len(found)} pieces, expected {len(expected)}")
        for piece, samples in zip(found, expected, strict=True):
            here, at_edges = errors(read_piece(piece, job, samples), samples, job.made_rate)
            inside, edges = max(inside, here), max(edges, at_edges)
    return verdict(inside, edges, resampled=job.resamples)


def find_pieces(out: Path, ending: str) -> dict[str, list[Path]]:
    """Return the pieces of each recording in order of time, by the numbers in their paths."""
    pieces: dict[str, list[Path]] = {}
    for path in out.rglob(f"*.{ending}"):
        name = RECORDING.search(str(path.relative_to(out)))
        if name is None:
            raise WrongError(f"{path} belongs to no recording")
        pieces.setdefault(name[0], []).append(path)
    for paths in pieces.values():
        paths.sort(
            key=lambda path: [int(digits) for digits in re.findall(r"\d+", str(path.relative_to(out)))]
        )
    return pieces


def read_piece(path: Path, job: Job, expected: Array) -> Array:
    """Decode a piece, and check that its header is right, too."""
    wanted = (job.made_rate, expected.shape[1], "PCM_16", len(expected))
    with soundfile.SoundFile(path) as file:
        stated = (file.samplerate, file.channels, file.subtype, file.frames)
        if stated != wanted:
            raise WrongError(f"{path.name}: rate, channels, subtype, frames are {stated}, expected {wanted}")
        samples: Array = file.read(dtype="int16", always_2d=True)
    if len(samples) != len(expected):
        raise WrongError(f"{path.name}: {len(samples)} frames can be decoded, expected {len(expected)}")
    return samples


@functools.lru_cache(maxsize=DISTINCT)
def whole(recording: Path, rate: int) -> Array:
    """Return all samples of a recording; at another rate, as one channel that is resampled as a whole."""
    samples, recorded_rate = soundfile.read(recording, dtype="int16", always_2d=True)
    if rate == recorded_rate:
        return samples
    import soxr

    mono = samples.sum(axis=1, dtype=np.float32) / samples.shape[1]
    return soxr.resample(mono, recorded_rate, rate, "HQ")[:, np.newaxis]


def errors(found: Array, expected: Array, rate: int) -> tuple[float, float]:
    """Return the largest differences inside a piece and at its edges, in steps of 16 bits."""
    if expected.dtype == found.dtype and np.array_equal(found, expected):
        return 0.0, 0.0
    differences = np.abs(found.astype(np.float32) - expected).max(axis=1)
    edge = round(SECONDS_AT_AN_EDGE * rate)
    return float(differences[edge:-edge].max()), float(
        max(differences[:edge].max(), differences[-edge:].max())
    )


def verdict(inside: float, edges: float, *, resampled: bool) -> str:
    """Put the worst difference of all pieces in words."""
    if not resampled:
        worst = max(inside, edges)
        return f"off by {worst:.0f}" if worst else "exact"
    inside_db, edges_db = (20 * math.log10(max(error, 0.5) / FULL_SCALE) for error in (inside, edges))
    if inside_db > SAME_SOUND_DB:
        raise WrongError(f"it sounds otherwise: {inside_db:.0f} dB off")
    seams = f", seams {edges_db:.0f}" if edges_db > inside_db + SEAM_DB else ""
    return f"{inside_db:.0f} dB{seams}"
