"""Pieces that are all equally loud: each gets the gain that brings it to a loudness."""

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
# more than 32 bits of a float hold
_WIDE = (np.int32, np.float64)


@dataclass(frozen=True)
class Loudness:
    """How loud pieces are to be.

    Attributes:
        lufs: Their integrated loudness.
        true_peak: What their true peak stays below, in dBTP.
    """

    lufs: float
    true_peak: float

    def __post_init__(self) -> None:
        """Refuse what no piece could have."""
        if not ABSOLUTE_GATE < self.lufs <= 0:
            meant = f"; did you mean -{self.lufs:g}?" if 0 < self.lufs < -ABSOLUTE_GATE else ""
            raise Refused(
                f"--loudness {self.lufs:g}: is in LUFS, more than {ABSOLUTE_GATE:g}, at most 0{meant}"
            )
        if not ABSOLUTE_GATE < self.true_peak <= 0:
            raise Refused(
                f"--true-peak {self.true_peak:g}: is in dBTP, more than {ABSOLUTE_GATE:g}, at most 0"
            )

    def gain_of(self, sound: Sound) -> tuple[float, str]:
        """Return a piece's gain in decibels, and what has set it: its loudness, its peak, or none of them.

        It is rounded before it is applied: so it is what the manifest says, on any processor.
        """
        found = integrated(sound)
        if found is None:
            return 0.0, "none"
        gain = round(self.lufs - found, 2)
        # the peak counts only if the gain brings it too high
        highest = _factor(self.true_peak - gain)
        peak = largest_between(sound, highest)
        if peak <= highest:
            return gain, "loudness"
        return math.floor((self.true_peak - 20 * math.log10(peak)) * 100) / 100, "peak"


class NormalisedSource(DecodedSource):
    """A recording that is decoded, each of whose pieces gets a gain; if each channel is a file, it does.

    Attributes:
        loudness: How loud they are to be.
    """

    loudness: Loudness
    _latest: tuple[int, int, list[tuple[float, str]]] = (-1, -1, [])

    def frames(self, start: int, stop: int) -> Iterator[np.ndarray]:
        """Yield the frames from `start` to `stop` with their gain, part after part."""
        gains = [gain for gain, _ in self._gains(start, stop)]
        if not any(gains):
            yield from super().frames(start, stop)
            return
        factors = np.array([*map(_factor, gains)])
        for block in super().frames(start, stop):
            kind = "<f8" if block.dtype in _WIDE else "<f4"
            yield scaled(block, kind) * factors.astype(kind)

    def about_gain(self, start: int, stop: int, channel: int | None) -> dict[str, Scalar]:
        """Return what the manifest says of the gain of a piece, or of one of its channels."""
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
    """Open a recording whose pieces are to be so loud, or as they are."""
    if loudness is None:
        return open_source(path, target, truncated, folder)
    source = NormalisedSource.open(path, target, truncated, folder)
    source.loudness = loudness
    return source


def _factor(decibels: float) -> float:
    return float(10 ** (decibels / 20))
