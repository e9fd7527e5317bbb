"""Measure sound in one pass: its length and level, clipping, silence, and its waveform."""

import math
from dataclasses import dataclass

import numpy as np

from splitter.audio.decoded import DecodedSource
from splitter.audio.target import Target
from splitter.records import content_bytes

# silence is a level below this over 20 ms; full scale is the largest 16-bit number
SILENCE_DB, QUIETEST_DB = -50.0, -120.0
# rounded like samples, so that a single number compares with it as an array does
FULL_SCALE = float(np.float32(0.9999))
WINDOWS_IN_SECOND = 50
STEPS_IN_WINDOW = 4
MOST_STEPS = 1 << 14
PREVIEW_SECONDS = 30
# players support these MP3 sample rates; more is not needed to hear and see the sound
PREVIEW_RATES = (8000, 11025, 12000, 16000, 22050, 24000, 32000)
_AS_NUMBERS = Target(format="wav", subtype="FLOAT")


@dataclass(frozen=True, kw_only=True)
class Levels:
    """The sound of a recording, in numbers.

    Attributes:
        seconds: Its length.
        frames: Number of samples of each channel that could be read.
        rate: Frames per second.
        channels: Number of channels.
        rms_db: Its mean level, in decibels below full scale.
        peak_db: Its loudest sample.
        clipped: The share of samples at full scale.
        silence: The share of the recording that is below `SILENCE_DB`.
        wave: Its waveform: minimum and maximum of equal pieces, relative to its peak.
        odd: Number of samples that are not numbers; elsewhere they count as silence.
    """

    seconds: float
    frames: int
    rate: int
    channels: int
    rms_db: float
    peak_db: float
    clipped: float
    silence: float
    wave: np.ndarray
    odd: int = 0


class Outline:
    """Minimum and maximum of equal steps, in a bounded number of steps."""

    def __init__(self) -> None:
        self._low, self._high = np.zeros(0, "f4"), np.zeros(0, "f4")
        self._together = 1
        self._rest: list[np.ndarray] = []

    def add(self, low: np.ndarray, high: np.ndarray) -> None:
        """Add more steps."""
        pending = np.concatenate([*self._rest, np.stack([low, high])], axis=1)
        whole = pending.shape[1] // self._together * self._together
        self._rest = [pending[:, whole:]]
        self._low = np.append(self._low, pending[0, :whole].reshape(-1, self._together).min(1))
        self._high = np.append(self._high, pending[1, :whole].reshape(-1, self._together).max(1))
        while len(self._low) > MOST_STEPS:
            even = len(self._low) // 2 * 2
            odd = np.repeat(np.stack([self._low[even:], self._high[even:]]), self._together, axis=1)
            self._rest = [odd, *self._rest]
            self._low = self._low[:even].reshape(-1, 2).min(1)
            self._high = self._high[:even].reshape(-1, 2).max(1)
            self._together *= 2

    def points(self, count: int) -> np.ndarray:
        """Return points from -1 to 1: in the first row the minimum, in the second the maximum."""
        last = np.concatenate(self._rest, axis=1) if self._rest else np.zeros((2, 0), "f4")
        low, high = self._low, self._high
        if last.shape[1]:
            low, high = np.append(low, last[0].min()), np.append(high, last[1].max())
        if not len(low):
            return np.zeros((2, count), "f4")
        starts = np.arange(count) * len(low) // count
        return np.stack([np.minimum.reduceat(low, starts), np.maximum.reduceat(high, starts)])


class _Meter:
    """Totals over a recording, added up window by window."""

    def __init__(self) -> None:
        self.outline = Outline()
        self.energy = self.loudest = 0.0
        self.clipped = self.silent = self.windows = self.odd = 0

    def add(self, steps: np.ndarray, in_window: int, threshold: float) -> None:
        """Add steps, one per row; `in_window` make a window, which is silent below `threshold` energy."""
        low, high = steps.min(1), steps.max(1)
        if not (np.isfinite(low).all() and np.isfinite(high).all()):
            good = np.isfinite(steps)
            self.odd += int(good.size - np.count_nonzero(good))
            steps = np.where(good, steps, np.float32(0))
            low, high = steps.min(1), steps.max(1)
        self.outline.add(low, high)
        energies = np.einsum("ij,ij->i", steps, steps, dtype="f8").reshape(-1, in_window).sum(1)
        self.energy += float(energies.sum())
        self.silent += int((energies < threshold).sum())
        self.windows += len(energies)
        most = float(max(-low.min(), high.max()))
        self.loudest = max(self.loudest, most)
        if most >= FULL_SCALE:
            self.clipped += int(np.count_nonzero(np.abs(steps) >= FULL_SCALE))


def measure(path: str, points: int) -> Levels:
    """Read a recording to its end, block by block."""
    meter = _Meter()
    frames = 0
    with DecodedSource.open(path, _AS_NUMBERS, "keep") as source:
        rate, channels = source.recorded.rate, source.recorded.channels
        step = max(1, rate // (WINDOWS_IN_SECOND * STEPS_IN_WINDOW))
        window = step * STEPS_IN_WINDOW
        threshold = 10 ** (SILENCE_DB / 10) * window * channels
        rest = np.zeros((0, channels), "f4")
        for block in source.blocks():
            sound = np.concatenate([rest, block]) if len(rest) else block
            whole = len(sound) // window * window
            rest = sound[whole:]
            frames += whole
            if whole:
                meter.add(sound[:whole].reshape(-1, step * channels), STEPS_IN_WINDOW, threshold)
    if len(rest):
        frames += len(rest)
        meter.add(rest.reshape(1, -1), 1, threshold * len(rest) / window)
    samples = max(1, frames * channels)
    wave = meter.outline.points(points)
    return Levels(
        seconds=frames / rate,
        frames=frames,
        rate=rate,
        channels=channels,
        rms_db=_decibels(math.sqrt(meter.energy / samples)),
        peak_db=_decibels(meter.loudest),
        clipped=meter.clipped / samples,
        silence=meter.silent / max(1, meter.windows),
        wave=wave / meter.loudest if meter.loudest else wave,
        odd=meter.odd,
    )


def _decibels(level: float) -> float:
    return max(QUIETEST_DB, 20 * math.log10(level)) if level > 0 else QUIETEST_DB


def preview(path: str, rate: int) -> bytes:
    """Return the first seconds of a recording as a small MP3, which every browser plays."""
    target = Target(
        sample_rate=max(one for one in PREVIEW_RATES if one <= max(rate, PREVIEW_RATES[0])),
        channels="mono",
        format="mp3",
    )
    with DecodedSource.open(path, target, "keep") as source:
        stop = min(source.reach(PREVIEW_SECONDS * source.made.rate), PREVIEW_SECONDS * source.made.rate)
        return content_bytes(source.content(0, stop))
