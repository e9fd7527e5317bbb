"""RMS and peak of a piece, in dBFS: a full-scale sine has -3.01 and 0; silence -100."""

from collections.abc import Iterator

import numpy as np

from splitter.measures.base import Sound, decibels, measure
from splitter.records import Scalar


@measure("rms", "peak")
def levels(sound: Sound) -> Iterator[Scalar]:
    """Yield the RMS of all samples of all channels, and the largest sample."""
    total, peak = 0.0, 0.0
    for block in sound.blocks():
        flat = block.reshape(-1)
        total += float(np.einsum("i,i->", flat, flat, dtype=np.float64))
        peak = max(peak, float(flat.max()), -float(flat.min()))
    yield decibels(total / (sound.frames * sound.channels))
    yield decibels(peak**2)
