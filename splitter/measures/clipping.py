"""How much of a piece is clipped.

A sample is clipped if it is beyond full scale, as decoded MP3 may be, or in a run of at least three equal
samples of one channel at 98 % of full scale or more: 8-bit and A-law sound ends just below full scale.
"""

import itertools
from collections.abc import Iterator

import numpy as np

from splitter.measures.base import Sound, measure
from splitter.records import Scalar

LOUD = 0.98


@measure("clipping")
def clipping(sound: Sound) -> Iterator[Scalar]:
    """Yield the share of samples that are clipped, from 0 to 1."""
    around = np.zeros((4, sound.channels), np.float32)
    before, count = around, 0
    for block in itertools.chain(sound.blocks(), [around[:2]]):
        joined = np.concatenate((before, block))
        count += _clipped(joined)
        before = joined[-4:]
    yield round(count / (sound.frames * sound.channels), 6)


def _clipped(samples: np.ndarray) -> int:
    """Count the clipped samples, without the first two and the last two of each channel."""
    if max(samples.max(), -samples.min()) < LOUD:
        return 0
    sizes = np.abs(samples)
    equal = (samples[1:] == samples[:-1]) & (sizes[1:] >= LOUD)
    runs = equal[1:] & equal[:-1]
    clipped = sizes[2:-2] > 1
    for shift in range(3):
        clipped |= runs[shift : shift + len(clipped)]
    return int(np.count_nonzero(clipped))
