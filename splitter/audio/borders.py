"""Find the best borders of pieces: in long, quiet pauses, and so that the pieces are near a wanted length.

A recording is a sequence of frames, 100 per second. The loudness of a frame goes from 0, the quietest level
in the minute around it, to 1, the loudest. Borders are at frames. A piece pays for the border at its end and
for its length:

    price of a border   the mean, over all distances from 0 to 0.25 s, of the loudest frame within each
    price of a piece    length / wanted * (price of its border + 0.1 * deviation ** 2)

The deviation is 0 for a piece of the wanted length, and 1 for the shortest and the longest allowed. Prices
are proportional to length, so that neither few nor many borders are cheaper. The cheapest sequence wins.
"""

from dataclasses import dataclass

import numpy as np

FRAMES_IN_SECOND = 100
# quiet and loud are these percentiles of the levels in a stretch and its two neighbors; the distance between
# them, in decibels, is limited
STRETCH = 20 * FRAMES_IN_SECOND
QUIET, LOUD = 5, 99
LEAST_RANGE, MOST_RANGE = 6, 50
# a pause that extends further on each side of its border is no better
REACH = FRAMES_IN_SECOND // 4
# a border is in a pause if as many frames on each side of it are all quieter than this
LEAST_REACH, HALFWAY = 5, 0.5

DEVIATION = 0.1
AVOIDED = 100
# a piece has at least as many frames to end at; of a longer range, only the cheapest of every few frames
CHOICES = 200


def relative(levels: np.ndarray) -> np.ndarray:
    """Return the loudness of frames, from their levels in decibels."""
    starts = range(0, len(levels), STRETCH)
    around = [levels[max(0, start - STRETCH) : start + 2 * STRETCH] for start in starts]
    quiet, loud = np.array([np.percentile(part, (QUIET, LOUD)) for part in around]).T
    quiet = np.maximum(quiet, loud - MOST_RANGE)
    loud = np.maximum(loud, quiet + LEAST_RANGE)
    middles = np.array(starts) + STRETCH / 2
    loudness = np.empty(len(levels), np.float32)
    for start in starts:
        part = levels[start : start + STRETCH]
        at = np.arange(start, start + len(part))
        floor, top = np.interp(at, middles, quiet), np.interp(at, middles, loud)
        loudness[start : start + len(part)] = np.clip((part - floor) / (top - floor), 0, 1)
    return loudness


def border_prices(loudness: np.ndarray) -> np.ndarray:
    """Return the price of a border at each frame."""
    prices = np.empty(len(loudness), np.float32)
    for start in range(0, len(loudness), STRETCH):
        first = max(0, start - REACH)
        loudest = loudness[first : start + STRETCH + REACH].copy()
        total = loudest.copy()
        for _ in range(REACH):
            before = loudest.copy()
            np.maximum(loudest[1:], before[:-1], out=loudest[1:])
            np.maximum(loudest[:-1], before[1:], out=loudest[:-1])
            total += loudest
        stretch = prices[start : start + STRETCH]
        stretch[:] = total[start - first :][: len(stretch)] / (REACH + 1)
    return prices


@dataclass(frozen=True)
class PieceLengths:
    """The wanted, the shortest and the longest length of pieces, in frames."""

    wanted: float
    least: int
    most: int

    def price(self, lengths: np.ndarray) -> np.ndarray:
        """Return the part of the price of pieces that depends on their lengths alone."""
        ranges = np.where(lengths < self.wanted, self.wanted - self.least, self.most - self.wanted)
        return lengths / self.wanted * DEVIATION * ((lengths - self.wanted) / np.maximum(ranges, 1)) ** 2


def best_borders(prices: np.ndarray, avoided: np.ndarray, end: float, lengths: PieceLengths) -> list[int]:
    """Return the frames of the cheapest borders of a recording.

    If not all pieces can be within the bounds, the last one is shorter.

    Args:
        prices: The price of a border at each frame.
        avoided: Which frames to avoid: a border there costs more than anything else.
        end: The length of the recording in frames; the last frame need not be whole.
        lengths: The lengths of pieces.
    """
    costs = prices.copy()
    costs[avoided] += AVOIDED
    range_of_ends = min(lengths.most, len(prices)) - lengths.least
    at = _choices(costs, max(1, range_of_ends // CHOICES), end)
    total, before = _cheapest(at, prices[at] / lengths.wanted, AVOIDED * avoided[at], lengths)
    # choose the last border: the last piece goes from there to the end
    first = int(np.searchsorted(at, end - lengths.most))
    last = end - at[first:]
    index = 0
    for allowed in (last >= lengths.least, last < lengths.least):
        sums = np.where(allowed, total[first:] + lengths.price(last), np.inf)
        if sums.min(initial=np.inf) < np.inf:
            index = first + int(sums.argmin())
            break
    borders = []
    while index:
        borders.append(int(at[index]))
        index = int(before[index])
    return borders[::-1]


def _choices(prices: np.ndarray, step: int, end: float) -> np.ndarray:
    """Return 0, and the frames where borders may be: the cheapest of every `step` frames."""
    whole = len(prices) // step * step
    at = np.arange(0, whole, step) + prices[:whole].reshape(-1, step).argmin(axis=1)
    return np.concatenate(([0], at[(at > 0) & (at < end)]))


def _cheapest(
    at: np.ndarray, prices: np.ndarray, extra: np.ndarray, lengths: PieceLengths
) -> tuple[np.ndarray, np.ndarray]:
    """Return for each border the lowest price of the pieces up to it, and the index of the one before."""
    # no piece is longer than the recording
    least, most = lengths.least, max(lengths.least, min(lengths.most, int(at[-1]) + 1))
    of_length = lengths.price(np.arange(most + least + 1)).astype(np.float32)
    of_length[:least] = of_length[most + 1 :] = np.inf
    prices = prices.astype(np.float32)
    total, before = np.full(len(at), np.inf), np.zeros(len(at), np.int32)
    total[0] = 0
    # borders within this distance are handled together: none of them can be the border before another
    together = max(1, min(least, most - least))
    first = int(np.searchsorted(at, max(1, least)))
    while first < len(at):
        last = int(np.searchsorted(at, at[first] + together))
        low, high = np.searchsorted(at, (at[first] - most, at[last - 1] - least + 1))
        lowest = total[low:high].min(initial=np.inf)
        if lowest < np.inf:
            pieces = at[first:last, np.newaxis] - at[low:high]
            sums = of_length.take(pieces, mode="clip")
            sums += pieces.astype(np.float32) * prices[first:last, np.newaxis]
            sums += (total[low:high] - lowest).astype(np.float32)
            best = sums.argmin(axis=1)
            total[first:last] = lowest + sums[np.arange(last - first), best] + extra[first:last]
            before[first:last] = low + best
        first = last
    return total, before
