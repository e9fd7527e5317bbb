"""The sound to measure, and the decorator that turns a function into a measure.

A measure is a function of a `Sound` that yields its values, one for each of its columns:

    @measure("rms", "peak")
    def levels(sound: Sound) -> Iterator[Scalar]: ...
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from splitter.audio.base import MANY_SAMPLES
from splitter.audio.encode import scaled
from splitter.audio.formats.base import SoundFormat
from splitter.audio.resampling import SoxrResampler
from splitter.records import Scalar

# the sample rate of speech models
SPEECH_RATE = 16_000
# larger samples are clipped to this, so that sums of their squares are still finite
LOUDEST = 1e9


@dataclass(frozen=True)
class Sound:
    """The sound of a piece to measure; a long one is read again for each measure, and never all at once.

    Attributes:
        read: Yields the samples block by block, with channels in columns.
        frames: The number of frames, at least 1.
        channels: The number of channels.
        rate: Frames per second.
        device: The torch device for models.
    """

    read: Callable[[], Iterable[np.ndarray]]
    frames: int
    channels: int
    rate: int
    device: str = "cpu"

    def blocks(self) -> Iterator[np.ndarray]:
        """Yield the samples as 32-bit floats, full scale from -1 to 1; NaN and infinity as 0."""
        yield from self._short or self._read()

    def speech_blocks(self) -> Iterator[np.ndarray]:
        """Yield the mean of all channels at 16 kHz, as a single column."""
        yield from self._short_speech or self._resampled()

    @property
    def speech_frames(self) -> int:
        """The number of frames at 16 kHz."""
        return round(self.frames * SPEECH_RATE / self.rate)

    @cached_property
    def _short(self) -> list[np.ndarray]:
        return [*self._read()] if self.frames * self.channels <= MANY_SAMPLES else []

    @cached_property
    def _short_speech(self) -> list[np.ndarray]:
        return [*self._resampled()] if self._short else []

    def _read(self) -> Iterator[np.ndarray]:
        for block in self.read():
            if block.dtype.kind == "f":
                block = np.nan_to_num(block, posinf=0, neginf=0).clip(-LOUDEST, LOUDEST)  # noqa: PLW2901
            yield scaled(block, "<f4")

    def _resampled(self) -> Iterator[np.ndarray]:
        mono = (block.mean(axis=1, keepdims=True) if self.channels > 1 else block for block in self.blocks())
        if self.rate == SPEECH_RATE:
            yield from mono
            return
        recorded = SoundFormat("WAV", "FLOAT", 1, self.rate)
        end = np.empty((0, 1), np.float32)
        resampler = SoxrResampler(lambda _: next(mono, end), recorded, SPEECH_RATE, 1)
        while len(block := resampler.read(0)):
            yield block


Function = Callable[[Sound], Iterable[Scalar]]


@dataclass(frozen=True)
class Measure:
    """A function that measures a piece.

    Attributes:
        function: Yields its values.
        columns: The columns of the manifest for these values.
        needs: The packages that the function needs; the extra with the measure's name installs them.
        prepare: Loads what the function needs, once in each worker, for a torch device.
    """

    function: Function
    columns: tuple[str, ...]
    needs: tuple[str, ...] = ()
    prepare: Callable[[str], object] | None = None

    def of(self, sound: Sound) -> dict[str, Scalar]:
        """Return the values of a piece by their columns."""
        return dict(zip(self.columns, self.function(sound), strict=True))


def measure(
    *columns: str, needs: tuple[str, ...] = (), prepare: Callable[[str], object] | None = None
) -> Callable[[Function], Measure]:
    """Return a decorator that turns a function into a measure."""
    return lambda function: Measure(function, columns, needs, prepare)


def decibels(power: float, digits: int = 2) -> float:
    """Return a power in decibels relative to full scale, at least -100 and rounded for the manifest."""
    return round(float(10 * np.log10(max(power, 1e-10))), digits)


def framed(blocks: Iterable[np.ndarray], size: int) -> Iterator[np.ndarray]:
    """Yield whole frames of `size` samples, many at once: (frames, samples, channels). Drop the rest."""
    rest = None
    for block in blocks:
        rest = block if rest is None or not len(rest) else np.concatenate((rest, block))
        whole = len(rest) // size * size
        if whole:
            yield rest[:whole].reshape(-1, size, rest.shape[1])
        rest = rest[whole:]
