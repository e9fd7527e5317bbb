"""How far a piece is above its own noise, in dB.

    SNR = 10 log10((P - N) / N)

P is the mean power of all frames of 20 ms. N, the noise, is the mean power of the quietest tenth of them.
This suits sound with pauses, such as speech; sound without pauses seems noisier than it is.
"""

import math
from collections.abc import Iterator

import numpy as np

from splitter.measures.base import Sound, framed, measure
from splitter.records import Scalar

FRAMES_IN_SECOND = 50
QUIETEST_SHARE = 0.1
LEAST, MOST = -20.0, 100.0


@measure("snr")
def snr(sound: Sound) -> Iterator[Scalar]:
    """Yield the ratio, from -20 to 100; None for silence, or for fewer than ten frames."""
    size = max(1, round(sound.rate / FRAMES_IN_SECOND))
    parts = [
        np.einsum("fsc,fsc->f", frames, frames, dtype=np.float64) for frames in framed(sound.blocks(), size)
    ]
    powers = np.sort(np.concatenate(parts)) if parts else np.empty(0)
    quietest = int(len(powers) * QUIETEST_SHARE)
    mean = float(powers.mean()) if quietest else 0.0
    if not mean:
        yield None
        return
    # both are means of the same powers, so that constant sound is not above its noise
    noise = max(float(powers[:quietest].mean()), mean * 10 ** (-MOST / 10))
    ratio = (mean - noise) / noise
    yield round(min(MOST, max(LEAST, 10 * math.log10(ratio))), 1) if ratio > 0 else LEAST
