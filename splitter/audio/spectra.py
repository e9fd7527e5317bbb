"""Spectrograms of sound that comes in blocks: in decibels, as librosa computes them."""

import functools
import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from splitter.errors import AudioError

# less power than this counts as silence: -100 dB
LEAST_POWER, SILENT = 1e-10, -100.0
AT_ONCE = 64
# the mel scale: linear up to 1000 Hz, which is 15 mels; above, 27 more mels for each factor of 6.4
_STRAIGHT, _STRAIGHT_MELS, _STEP = 1000.0, 15.0, math.log(6.4) / 27


@dataclass(frozen=True)
class Spectra:
    """The settings of a spectrogram, named as in librosa.

    Attributes:
        n_fft: Samples in a frame.
        hop_length: Samples from one frame to the next.
        n_mels: How many mel bands; 0 keeps the bins of the Fourier transform.
        fmin: The lowest frequency.
        fmax: The highest; None is half the sample rate.
    """

    n_fft: int
    hop_length: int
    n_mels: int
    fmin: float
    fmax: float | None

    def decibels(self, blocks: Iterable[np.ndarray], rate: int) -> np.ndarray:
        """Return the power of each band and frame, low bands first; the blocks have one channel.

        Silence is added before and after the sound, so that the first frame is centered on the first sample.
        """
        bands = self._bands(rate)
        window = np.hanning(self.n_fft + 1)[:-1]
        parts = []
        for frames in self._frames(blocks):
            spectra = np.fft.rfft(frames * window, axis=1)
            power = (spectra.real**2 + spectra.imag**2).T
            power = power[bands] if isinstance(bands, slice) else bands @ power
            parts.append((10 * np.log10(np.maximum(power, LEAST_POWER))).astype(np.float32))
        return np.concatenate(parts, axis=1)

    def _frames(self, blocks: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
        """Yield `AT_ONCE` frames at a time, regardless of where blocks end."""
        around = np.zeros(self.n_fft // 2, np.float32)
        step = AT_ONCE * self.hop_length
        needed = step - self.hop_length + self.n_fft
        rest = around
        for block in itertools.chain(blocks, [around]):
            rest = np.concatenate((rest, block))
            while len(rest) >= max(needed, step):
                yield self._cut(rest[:needed])
                rest = rest[step:]
        if len(rest) >= self.n_fft:
            yield self._cut(rest)

    def _cut(self, samples: np.ndarray) -> np.ndarray:
        return np.lib.stride_tricks.sliding_window_view(samples, self.n_fft)[:: self.hop_length]

    def _bands(self, rate: int) -> np.ndarray | slice:
        fmax = rate / 2 if self.fmax is None else self.fmax
        if fmax > rate / 2:
            raise AudioError(
                f"--fmax {fmax:g}: is more than half the sample rate, which is {rate} Hz; choose a lower "
                "one, or a higher --sample-rate"
            )
        if fmax <= self.fmin:
            raise AudioError(
                f"--fmin {self.fmin:g}: is not below {fmax:g} Hz, half the sample rate; choose a lower one"
            )
        if self.n_mels:
            return mel_filters(rate, self.n_fft, self.n_mels, self.fmin, fmax)
        bins = np.fft.rfftfreq(self.n_fft, 1 / rate)
        first, last = np.searchsorted(bins, self.fmin, "left"), np.searchsorted(bins, fmax, "right")
        return slice(int(first), max(int(last), int(first) + 1))


@functools.lru_cache(maxsize=16)
def mel_filters(rate: int, n_fft: int, n_mels: int, fmin: float, fmax: float) -> np.ndarray:
    """Return the triangular filters of mel bands, as defined by Slaney: all have the same area."""
    lowest, highest = _mels(fmin), _mels(fmax)
    edges = np.array([_hertz(mel) for mel in np.linspace(lowest, highest, n_mels + 2)])
    bins = np.fft.rfftfreq(n_fft, 1 / rate)
    rising = (bins - edges[:-2, np.newaxis]) / np.diff(edges)[:-1, np.newaxis]
    falling = (edges[2:, np.newaxis] - bins) / np.diff(edges)[1:, np.newaxis]
    filters: np.ndarray = np.maximum(0, np.minimum(rising, falling))
    return filters * (2 / (edges[2:] - edges[:-2]))[:, np.newaxis]


def _mels(hertz: float) -> float:
    if hertz < _STRAIGHT:
        return hertz / _STRAIGHT * _STRAIGHT_MELS
    return _STRAIGHT_MELS + math.log(hertz / _STRAIGHT) / _STEP


def _hertz(mels: float) -> float:
    if mels < _STRAIGHT_MELS:
        return mels / _STRAIGHT_MELS * _STRAIGHT
    return _STRAIGHT * math.exp((mels - _STRAIGHT_MELS) * _STEP)
