"""Resample a recording as a stream, with the same result as if it were resampled all at once.

SoxrResampler      on the CPU, in blocks
JuliusResampler    on a device of torch, in large blocks

A recording of n samples becomes one of round(n * new / old) samples, halves to even.
"""

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from splitter.audio.formats.base import SoundFormat

if TYPE_CHECKING:
    import torch

# with a larger ratio, soxr takes much memory, and then crashes
LARGEST_RATIO = 10_000

# with these, julius is accurate to -90 dB up to 0.91 of half the lower rate, and lets nothing through above
# that half; so is soxr's HQ, except that it weakens that end by up to 0.01 dB unless one rate is a multiple
# of the other
ZEROS, ROLLOFF = 256, 0.955
# julius has a filter for each position between two samples: for unusual ratios of rates, too many
LARGEST_FILTERS = 1 << 24
SAMPLES_AT_ONCE = 1 << 24


class Resampler(ABC):
    """A stream at another rate.

    Attributes:
        name: The name of the resampler in the manifest.
    """

    name: ClassVar[str]

    def __init__(
        self, read: Callable[[int], np.ndarray], recorded: SoundFormat, rate: int, channels: int
    ) -> None:
        """Resample the blocks that `read` returns."""
        self._ratio = Fraction(rate, recorded.rate)
        self._read = read
        self._empty = np.empty((0, channels), recorded.dtype)
        self._inner = self._empty.dtype
        self._taken = self._given = 0
        self._ended = False

    def read(self, _frames: int) -> np.ndarray:
        """Return some of the next frames, regardless of the number asked for; none at the end."""
        while not self._ended:
            made = self._to_length(self._more())
            self._given += len(made)
            if len(made):
                return self._outer(made)
        return self._empty

    @abstractmethod
    def _more(self) -> np.ndarray:
        """Take some frames, and return those that can be made of them; at the end, return all the rest."""

    def _take(self, frames: int) -> np.ndarray:
        """Return the next frames, converted to the type that is used to compute."""
        block = self._read(frames)
        self._ended = not len(block)
        self._taken += len(block)
        return np.ascontiguousarray(block, self._inner)

    def _outer(self, made: np.ndarray) -> np.ndarray:
        if self._inner == self._empty.dtype:
            return made
        limits = np.iinfo(self._empty.dtype)
        if limits.bits > 16:  # noqa: PLR2004
            # the type that was used to compute cannot hold these limits
            made = made.astype(np.float64)
        np.rint(made, out=made).clip(limits.min, limits.max, out=made)
        return made.astype(self._empty.dtype)

    def _to_length(self, made: np.ndarray) -> np.ndarray:
        """Cut or pad the last block, so that the whole stream has the right length."""
        if not self._ended:
            return made
        missing = round(self._taken * self._ratio) - self._given - len(made)
        if missing <= 0:
            return made[: max(0, len(made) + missing)]
        return np.concatenate((made, np.zeros((missing, made.shape[1]), made.dtype)))


class SoxrResampler(Resampler):
    """soxr as a stream."""

    name = "soxr HQ"

    def __init__(
        self, read: Callable[[int], np.ndarray], recorded: SoundFormat, rate: int, channels: int
    ) -> None:
        import soxr

        super().__init__(read, recorded, rate, channels)
        # soxr would add noise to 16 bits, and the noise would depend on the lengths of blocks
        self._inner = np.dtype("float32" if recorded.dtype == "int16" else recorded.dtype)
        self._soxr = soxr.ResampleStream(recorded.rate, rate, channels, self._inner, "HQ")
        at_once = SoundFormat("", "", channels, rate).frames_at_once
        self._block = max(1, min(recorded.frames_at_once, int(at_once / self._ratio)))

    def _more(self) -> np.ndarray:
        block = self._take(self._block)
        return self._soxr.resample_chunk(block, last=self._ended).reshape(-1, block.shape[1])


class JuliusResampler(Resampler):
    """julius, on any device of torch, in large blocks.

        old        old        old        old        old
    |----------|----------|----------|----------|----------|      frames taken
    |  around  |          made of these         |  around  |      each `old` of them become `new`
    """

    name = "julius"

    def __init__(  # noqa: PLR0913, PLR0917 - as its base, and where
        self,
        read: Callable[[int], np.ndarray],
        recorded: SoundFormat,
        rate: int,
        channels: int,
        device: str,
        samples_at_once: int = SAMPLES_AT_ONCE,
    ) -> None:
        """Resample the blocks that `read` returns, on a device."""
        super().__init__(read, recorded, rate, channels)
        self._inner = np.dtype("float64" if recorded.dtype == "float64" else "float32")
        self._new, self._old = self._ratio.numerator, self._ratio.denominator
        self._device, self._block = device, recorded.frames_at_once
        self._around = math.ceil(_half_width(self._old, self._new) / self._old) + 1
        self._periods = max(1, samples_at_once // (channels * max(self._old, self._new)))
        # as in soxr, there is silence before the first frame
        self._rest = np.zeros((self._around * self._old, channels), self._inner)

    @staticmethod
    def takes(old_rate: int, new_rate: int) -> bool:
        """Return whether the filters for these rates are few and short enough."""
        ratio = Fraction(new_rate, old_rate)
        old, new = ratio.denominator, ratio.numerator
        return new * (2 * _half_width(old, new) + old) <= LARGEST_FILTERS

    def _more(self) -> np.ndarray:
        around, periods = self._around, self._periods
        parts, needed = [self._rest], (periods + 2 * around) * self._old
        there = len(self._rest)
        while there < needed and not self._ended:
            parts.append(self._take(self._block))
            there += len(parts[-1])
        frames = np.concatenate(parts)
        if self._ended:
            periods = -(-(there - around * self._old) // self._old)
            needed = (periods + 2 * around) * self._old
            frames = np.pad(frames, ((0, needed - there), (0, 0)))
        self._rest = frames[periods * self._old :]
        made = _resampled(frames[:needed], self._old, self._new, self._device)
        return made[around * self._new : (around + periods) * self._new]


def _half_width(old: int, new: int) -> int:
    """Return how many samples each filter of julius uses before, and after, its position."""
    return math.ceil(ZEROS * old / (min(old, new) * ROLLOFF))


def _resampled(frames: np.ndarray, old: int, new: int, device: str) -> np.ndarray:
    import torch

    resample = _filters(old, new, device, frames.dtype.name)
    columns = torch.from_numpy(np.ascontiguousarray(frames.T)).to(device)
    # TF32, the default of convolutions, is accurate only to -60 dB
    exact = torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True, allow_tf32=False)
    with torch.inference_mode(), exact:
        return resample(columns).T.contiguous().cpu().numpy()


@functools.lru_cache(maxsize=8)
def _filters(old: int, new: int, device: str, dtype: str) -> "torch.nn.Module":
    import torch
    from julius.resample import ResampleFrac

    resample = ResampleFrac(old, new, ZEROS, ROLLOFF)
    # julius computes its filters in 32 bits: replace them with the same filters in 64 bits
    length = resample.get_buffer("kernel").shape[-1]
    first = (old - length) // 2
    positions = np.arange(first, first + length) * new - np.arange(new)[:, np.newaxis] * old
    crossings = np.clip(positions * (ROLLOFF / max(old, new)), -ZEROS, ZEROS)
    exact = np.sinc(crossings) * np.cos(crossings * (np.pi / 2 / ZEROS)) ** 2
    exact /= exact.sum(axis=1, keepdims=True)
    resample.to(dtype=torch.float64).get_buffer("kernel").copy_(torch.from_numpy(exact[:, np.newaxis]))
    return resample.to(device, getattr(torch, dtype))


def resampler(
    read: Callable[[int], np.ndarray], recorded: SoundFormat, rate: int, channels: int, device: str
) -> Resampler:
    """Return a resampler for a device; it runs on the CPU if julius would need too many filters."""
    if device == "cpu" or not JuliusResampler.takes(recorded.rate, rate):
        return SoxrResampler(read, recorded, rate, channels)
    return JuliusResampler(read, recorded, rate, channels, device)
