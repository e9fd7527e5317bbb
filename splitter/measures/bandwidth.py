"""The highest frequency with energy in a piece, in Hz, which reveals upsampled sound.

It is the highest bin of the mean power spectrum that is less than 70 dB below the loudest. The spectra are
of consecutive frames of 50 to 100 ms, with a Hann window; the lowest bins do not count: a DC offset is there.
"""

from collections.abc import Iterator

import numpy as np

from splitter.measures.base import Sound, framed, measure
from splitter.records import Scalar

FRAMES_IN_SECOND = 20
BELOW_LOUDEST = 1e-7
# the share of a DC offset that rounding errors of the transform leave in other bins
ROUNDING = 1e-11
# the bins over which the window spreads a DC offset
LOWEST_BINS = 2
AT_ONCE = 64


@measure("bandwidth")
def bandwidth(sound: Sound) -> Iterator[Scalar]:
    """Yield the frequency; None for silence."""
    size = min(sound.frames, 1 << round(sound.rate / FRAMES_IN_SECOND).bit_length())
    window = np.hanning(size + 1)[:-1].astype(np.float32)[:, np.newaxis]
    power: np.ndarray = np.zeros(size // 2 + 1)
    for frames in framed(sound.blocks(), size):
        for at in range(0, len(frames), AT_ONCE):
            spectra = np.fft.rfft(frames[at : at + AT_ONCE] * window, axis=1)
            power += (spectra.real**2 + spectra.imag**2).sum(axis=(0, 2))
    offset = power[:LOWEST_BINS].max()
    power[:LOWEST_BINS] = 0
    bins = np.flatnonzero(power > max(power.max() * BELOW_LOUDEST, offset * ROUNDING))
    yield round(float(bins[-1]) * sound.rate / size, 1) if len(bins) else None
