"""The level of a recording, frame by frame."""

from collections.abc import Iterable

import numpy as np

# as in librosa: a frame of 2048 samples every 512 samples, centered on its position
HOP = 512
BLOCKS_IN_FRAME = 4
QUIETEST = 1e-10


class LevelMeter:
    """A meter for the mean square of each frame of a recording, in its loudest channel.

    Frame k is centered on sample k * hop.
    """

    def __init__(self, hop: int = HOP, blocks_in_frame: int = BLOCKS_IN_FRAME) -> None:
        """Measure a frame every `hop` samples; it has an even number of blocks of `hop` samples."""
        self._hop, self._in_frame = hop, blocks_in_frame
        self._levels: list[np.ndarray] = []
        self._sums: np.ndarray = np.empty((0, 0))
        self._rest: np.ndarray = np.empty((0, 0), np.float32)

    def add(self, block: np.ndarray) -> None:
        """Measure the next samples, channels in columns."""
        channels = block.shape[1]
        if not self._levels:
            # silence precedes and follows the recording
            self._sums, self._rest = np.zeros((self._in_frame // 2, channels)), block[:0]
        self._rest = np.concatenate((self._rest, block))
        whole = len(self._rest) // self._hop * self._hop
        blocks = self._rest[:whole].reshape(-1, self._hop, channels)
        self._sums = np.concatenate((self._sums, _squares(blocks)))
        self._rest = self._rest[whole:]
        self._levels.append(self._of(self._sums))
        self._sums = self._sums[len(self._levels[-1]) :]

    def levels(self) -> np.ndarray:
        """Return the levels, up to the end of the recording."""
        if not self._levels:
            return np.zeros(1)
        silent = np.zeros((self._in_frame // 2 - 1, self._rest.shape[1]))
        last = np.concatenate((self._sums, _squares(self._rest[np.newaxis]), silent))
        return np.concatenate((*self._levels, self._of(last)))

    def _of(self, sums: np.ndarray) -> np.ndarray:
        """Return the level of each frame, from the sums of squares of the blocks."""
        count = max(0, len(sums) - self._in_frame + 1)
        total = np.sum([sums[shift : shift + count] for shift in range(self._in_frame)], axis=0)
        levels = np.nan_to_num(total, nan=np.inf, posinf=np.inf).max(axis=1) / (self._in_frame * self._hop)
        # as float32, because a day has many of them
        with np.errstate(over="ignore"):
            return levels.astype(np.float32)


def measure(blocks: Iterable[np.ndarray]) -> np.ndarray:
    """Return the levels of a whole recording, as librosa measures them."""
    meter = LevelMeter()
    for block in blocks:
        meter.add(block)
    return meter.levels()


def decibels(levels: np.ndarray) -> np.ndarray:
    """Return levels in decibels of full scale, from -100 to 100."""
    return 10 * np.log10(np.clip(levels, QUIETEST, 1 / QUIETEST))


def _squares(blocks: np.ndarray) -> np.ndarray:
    """Return the sum of squares of each block and channel."""
    return np.einsum("bfc,bfc->bc", blocks, blocks, dtype=np.float64)
