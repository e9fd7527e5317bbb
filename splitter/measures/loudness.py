"""Integrated loudness of a piece in LUFS, as ITU-R BS.1770-4 defines it.

The filters are those of libebur128, but at every sample rate with the gain that the standard has at 48 kHz.
"""

import math
from collections.abc import Iterator

import numpy as np

from splitter.measures.base import Sound, measure
from splitter.records import Scalar

LEAST_RATE = 4000
# steps in a second; a block of four steps begins at each of them
STEPS = 10
ABSOLUTE_GATE, RELATIVE_GATE, OFFSET = -70.0, -10.0, -0.691
# channels are left, right, center, then surround; with six, the fourth is for low frequencies
SURROUND = 1.41
# of the high pass, so that its coefficients at 48 kHz are those of the standard: 1, -2, 1
GAIN = 1.0049948987
_WEIGHTS = {5: (1, 1, 1, SURROUND, SURROUND), 6: (1, 1, 1, 0, SURROUND, SURROUND)}


@measure("loudness")
def loudness(sound: Sound) -> Iterator[Scalar]:
    """Yield the loudness; None for less than 400 ms, sound too soft to count, or a rate below 4 kHz."""
    found = integrated(sound)
    yield None if found is None else round(found, 2)


def integrated(sound: Sound) -> float | None:
    """Return the loudness, or None if it is undefined."""
    if sound.rate < LEAST_RATE:
        return None
    steps = _energies(sound) @ np.array(_WEIGHTS.get(sound.channels, (1,) * sound.channels))
    if len(steps) < 4:  # noqa: PLR2004 - a block has four
        return None
    blocks = np.convolve(steps, np.full(4, 0.25), "valid")
    blocks = blocks[blocks > _power(ABSOLUTE_GATE)]
    if len(blocks):
        blocks = blocks[blocks > blocks.mean() * 10 ** (RELATIVE_GATE / 10)]
    return OFFSET + 10 * math.log10(blocks.mean()) if len(blocks) else None


def _power(lufs: float) -> float:
    return float(10 ** ((lufs - OFFSET) / 10))


def _energies(sound: Sound) -> np.ndarray:
    """Return the mean square of each whole tenth of a second and channel, after the filters."""
    from scipy.signal import sosfilt

    filters = _k_weighting(sound.rate)
    state = np.zeros((2, 2, sound.channels))
    steps = round(sound.frames * STEPS // sound.rate)
    borders = np.arange(steps + 1) * sound.rate // STEPS
    sums = np.zeros((steps + 1, sound.channels))
    at = 0
    for block in sound.blocks():
        filtered, state = sosfilt(filters, block.astype(np.float64), axis=0, zi=state)
        np.square(filtered, out=filtered)
        first = int(np.searchsorted(borders, at, "right")) - 1
        inside = borders[(borders > at) & (borders < at + len(block))] - at
        parts = np.add.reduceat(filtered, np.concatenate(([0], inside)), axis=0)
        sums[first : first + len(parts)] += parts
        at += len(block)
    return sums[:-1] / np.diff(borders)[:, np.newaxis]


def _k_weighting(rate: int) -> np.ndarray:
    """Return the two filters: a shelf for the head, and a high pass."""
    k, q = math.tan(math.pi * 1681.974450955533 / rate), 0.7071752369554196
    high = 10 ** (3.999843853973347 / 20)
    band = high**0.4996667741545416
    shelf = [high + band * k / q + k * k, 2 * (k * k - high), high - band * k / q + k * k]
    shelf += [1 + k / q + k * k, 2 * (k * k - 1), 1 - k / q + k * k]
    k, q = math.tan(math.pi * 38.13547087602444 / rate), 0.5003270373238773
    whole = 1 + k / q + k * k
    high_pass = [GAIN, -2 * GAIN, GAIN, whole, 2 * (k * k - 1), 1 - k / q + k * k]
    return np.array([np.array(shelf) / shelf[3], np.array(high_pass) / whole])
