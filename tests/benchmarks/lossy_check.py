"""Compare pieces of lossy recordings with the whole recording, decoded."""

import functools
import math
import subprocess
from pathlib import Path

import numpy as np
import soundfile
from audio_check import Array, WrongError, find_pieces
from audio_jobs import Job, RecordingSet
from audio_signals import DISTINCT

# the size of an extra piece that a codec may add at the end of a recording, as a share of a piece
REST = 0.02
# libmpg123 adds up in an order that depends on the frames before: the last of 24 bits may differ
ROUNDING = 2.0**-22
OTHER_ENDINGS = {"opus": "ogg"}
STEP_OF_16_BITS = 2.0**-15


def check_lossy(recordings: RecordingSet, out: Path) -> str:
    """Check that all pieces are there; return how they differ, from the first of equal recordings each."""
    job = recordings.job
    pieces = find_pieces(out, job.made_as) or find_pieces(out, OTHER_ENDINGS.get(job.made_as, job.made_as))
    count = len(job.windows(job.made_rate))
    for path in recordings.recordings:
        found = pieces.get(path.stem, [])
        if len(found) == count + 1 and found[-1].stat().st_size < found[0].stat().st_size * REST:
            found.pop()
        if len(found) != count:
            raise WrongError(f"{path.stem} has {len(found)} pieces, expected {count}")
    differences = [_difference(original, pieces[original.stem], job) for original in recordings.originals]
    return max(differences).said


@functools.total_ordering
class Difference:
    """The difference between pieces and their recording: in their lengths, or by the noise that is added."""

    def __init__(self, seconds: float, largest: float, share: float) -> None:
        self._key = seconds, largest
        self._share = share

    def __lt__(self, other: "Difference") -> bool:
        return self._key < other._key

    @property
    def said(self) -> str:
        """The difference in words."""
        seconds, largest = self._key
        if seconds:
            return f"between frames, up to {1000 * seconds:.0f} ms off"
        if largest <= STEP_OF_16_BITS:
            return "exact" if largest <= ROUNDING else "exact to 16 bits"
        return f"noise of {20 * math.log10(self._share):.0f} dB"


def _difference(original: Path, found: list[Path], job: Job) -> Difference:
    expected = whole(original, job.made_rate)
    off = largest = noise = 0.0
    for path, (start, stop) in zip(found, job.windows(job.made_rate), strict=True):
        piece, rate = soundfile.read(path, dtype="float32", always_2d=True)
        if rate != job.made_rate:
            raise WrongError(f"{path.name}: {rate} Hz, expected {job.made_rate}")
        here = expected[start:stop]
        off = max(off, abs(len(piece) - len(here)) / rate)
        if len(piece) == len(here):
            error = piece - here
            largest = max(largest, float(np.abs(error).max()))
            noise += float(np.square(error, dtype=np.float64).sum())
    power = float(np.square(expected, dtype=np.float64).sum())
    return Difference(off, largest, math.sqrt(noise / power))


@functools.lru_cache(maxsize=DISTINCT)
def whole(recording: Path, rate: int) -> Array:
    """Decode a recording; at another rate, as one channel that is resampled as a whole."""
    if recording.suffix == ".m4a":
        command = ["ffmpeg", "-v", "error", "-i", recording, "-f", "f32le", "-"]
        content = subprocess.run(command, check=True, capture_output=True).stdout
        samples, recorded_rate = np.frombuffer(content, "<f4").reshape(-1, 2), 44_100
    else:
        samples, recorded_rate = soundfile.read(recording, dtype="float32", always_2d=True)
    if rate == recorded_rate:
        return samples
    import soxr

    return soxr.resample(samples.mean(axis=1), recorded_rate, rate, "HQ")[:, np.newaxis]
