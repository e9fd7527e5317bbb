"""True peak of a piece in dBTP: its largest value, also between samples, as in annex 2 of ITU-R BS.1770-4."""

import functools
import itertools
from collections.abc import Iterator

import numpy as np

from splitter.measures.base import Sound, decibels, measure
from splitter.records import Scalar

# the factor of oversampling, and the number of neighbors on either side that a value is made from
FACTOR, REACH = 4, 24
# shape of the Kaiser window
BETA = 8.0
AT_ONCE = 512


@measure("true_peak")
def true_peak(sound: Sound) -> Iterator[Scalar]:
    """Yield the largest value of all channels, also between samples."""
    yield decibels(largest_between(sound) ** 2)


def largest_between(sound: Sound, least: float = 0.0) -> float:
    """Return the largest value, or `least` if none is larger."""
    from scipy.signal import upfirdn

    kernel = _kernel()
    # how many times as large as the samples around it a value between them can be
    most = max(float(np.abs(kernel[phase::FACTOR]).sum()) for phase in range(FACTOR))
    around = np.zeros((2 * REACH, sound.channels), np.float32)
    found, rest = least, around
    for block in itertools.chain(sound.blocks(), [around]):
        samples = np.concatenate((rest, block))
        for at in range(0, len(block), AT_ONCE):
            part = samples[at : at + AT_ONCE + 2 * REACH]
            if max(float(part.max()), -float(part.min())) * most > found:
                values = upfirdn(kernel, part, FACTOR, axis=0)
                # only the values that have all their neighbors
                values = values[2 * REACH * FACTOR : len(part) * FACTOR]
                found = max(found, float(np.abs(values).max()))
        rest = samples[-2 * REACH :]
    return found


@functools.cache
def _kernel() -> np.ndarray:
    """Return a windowed sinc, which leaves the samples themselves unchanged."""
    at = np.arange(-REACH * FACTOR, REACH * FACTOR + 1)
    return (np.sinc(at / FACTOR) * np.kaiser(len(at), BETA)).astype(np.float32)
