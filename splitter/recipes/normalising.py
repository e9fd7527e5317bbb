"""Make all pieces equally loud, each by its own gain."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from splitter.audio.base import SoundSource
from splitter.audio.decoded import DecodedSource
from splitter.audio.decoders import Truncated
from splitter.audio.encode import scaled
from splitter.audio.sources import open_source
from splitter.audio.target import Target
from splitter.audio.window import Folder
from splitter.errors import Refused
from splitter.measures.base import Sound
from splitter.measures.loudness import ABSOLUTE_GATE, integrated
from splitter.measures.true_peak import largest_between
from splitter.records import Scalar

GAIN_KEYS = ("gain_db", "gain_set_by")
TRUE_PEAK = -1.0
# types whose values do not fit into a 32-bit float
_WIDE = (np.int32, np.float64)


@dataclass(frozen=True)
class Loudness:
    """The loudness that pieces should have.

    Attributes:
        lufs: Their integrated loudness.
        true_peak: The highest true peak that they may have, in dBTP.
    """

    lufs: float
    true_peak: float

    def __post_init__(self) -> None:
        """Refuse values that no piece can have."""
        if not ABSOLUTE_GATE < self.lufs <= 0:
            meant = f"; did you mean -{self.lufs:g}?" if 0 < self.lufs < -ABSOLUTE_GATE else ""
            raise Refused(
                f"--loudness {self.lufs:g}: must be in LUFS, more than {ABSOLUTE_GATE:g}, at most 0{meant}"
            )
        if not ABSOLUTE_GATE < self.true_peak <= 0:
            raise Refused(
                f"--true-peak {self.true_peak:g}: must be in dBTP, more than {ABSOLUTE_GATE:g}, at most 0"
            )

    def gain_of(self, sound: Sound) -> tuple[float, str]:
        """Return a piece's gain in decibels, and what sets it: "loudness", "peak" or "none".

        The gain is rounded before it is applied, so that the manifest states it exactly, on any processor.
        """
        found = integrated(sound)
        if found is None:
            return 0.0, "none"
        gain = round(self.lufs - found, 2)
        # the peak matters only if the gain would raise it too far
        highest = _factor(self.true_peak - gain)
        peak = largest_between(sound, highest)
        if peak <= highest:
            return gain, "loudness"
        return math.floor((self.true_peak - 20 * math.log10(peak)) * 100) / 100, "peak"


class NormalisedSource(DecodedSource):
    """A decoded recording with a gain for each piece, or for each channel of a piece if channels are files.

    Attributes:
        loudness: The loudness that pieces should have.
    """

    loudness: Loudness
    _latest: tuple[int, int, list[tuple[float, str]]] = (-1, -1, [])

    def frames(self, start: int, stop: int) -> Iterator[np.ndarray]:
        """Yield the frames from `start` to `stop` with their gain applied, block by block."""
        gains = [gain for gain, _ in self._gains(start, stop)]
        if not any(gains):
            yield from super().frames(start, stop)
            return
        factors = np.array([*map(_factor, gains)])
        for block in super().frames(start, stop):
            kind = "<f8" if block.dtype in _WIDE else "<f4"
            yield scaled(block, kind) * factors.astype(kind)

    def about_gain(self, start: int, stop: int, channel: int | None) -> dict[str, Scalar]:
        """Return the metadata about the gain of a piece, or of one of its channels."""
        return dict(zip(GAIN_KEYS, self._gains(start, stop)[channel or 0], strict=True))

    def _gains(self, start: int, stop: int) -> list[tuple[float, str]]:
        """Return the gain of each file of a piece."""
        if self._latest[:2] != (start, stop):
            files = [slice(at, at + 1) for at in range(self.files)] if self.files > 1 else [slice(None)]
            self._latest = start, stop, [self._gain(start, stop, columns) for columns in files]
        return self._latest[2]

    def _gain(self, start: int, stop: int, columns: slice) -> tuple[float, str]:
        read = super().frames
        return self.loudness.gain_of(
            Sound(
                lambda: (block[:, columns] for block in read(start, stop)),
                frames=stop - start,
                channels=self.made.channels,
                rate=self.made.rate,
            )
        )


def open_sound(
    path: str, target: Target, truncated: Truncated, folder: Folder, loudness: Loudness | None
) -> SoundSource:
    """Open a recording whose pieces are brought to a loudness, or left as they are if it is None."""
    if loudness is None:
        return open_source(path, target, truncated, folder)
    source = NormalisedSource.open(path, target, truncated, folder)
    source.loudness = loudness
    return source


def _factor(decibels: float) -> float:
    return float(10 ** (decibels / 20))
