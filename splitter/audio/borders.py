"""The best borders of a recording: in long and quiet pauses, and the pieces between them near a length.

A recording is a sequence of frames, 100 in a second. The loudness of a frame is from 0, as quiet as it gets
in the minute around it, to 1, as loud. A border is at a frame. A piece pays for the border at its end, and
for its length:

    price of a border   the mean, over all distances from 0 to 0.25 s, of the loudest frame within that
    price of a piece    length / wanted * (price of its border + 0.1 * deviation ** 2)

The deviation is 0 for a piece of the wanted length, and 1 for the shortest and the longest that are allowed.
Pieces pay by their length, so neither few borders nor many are cheaper. The cheapest of all sequences wins.
"""

from dataclasses import dataclass

import numpy as np

FRAMES_IN_SECOND = 100
# what is quiet, and what is loud: percentiles of a stretch with its neighbours; in decibels, their distance
STRETCH = 20 * FRAMES_IN_SECOND
QUIET, LOUD = 5, 99
LEAST_RANGE, MOST_RANGE = 6, 50
# a longer pause is no better
REACH = FRAMES_IN_SECOND // 4
# a pause is at least as long on each side of its border, and quieter
LEAST_REACH, HALFWAY = 5, 0.5

DEVIATION = 0.1
AVOIDED = 100
# a piece can end at so many frames, or more; where they are fewer than all, at the cheapest of neighbours
CHOICES = 200


def relative(levels: np.ndarray) -> np.ndarray:
    """Return the loudness of frames, of which these are the levels in decibels."""
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
    """Return what a border costs at each frame."""
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
    """The lengths of pieces, in frames: what is wanted, and the bounds."""

    wanted: float
    least: int
    most: int

    def price(self, lengths: np.ndarray) -> np.ndarray:
        """Return what the lengths of pieces cost."""
        ranges = np.where(lengths < self.wanted, self.wanted - self.least, self.most - self.wanted)
        return lengths / self.wanted * DEVIATION * ((lengths - self.wanted) / np.maximum(ranges, 1)) ** 2


def best_borders(prices: np.ndarray, avoided: np.ndarray, end: float, lengths: PieceLengths) -> list[int]:
    """Return the frames of the cheapest borders of a recording with so many frames.

    All pieces are within the bounds if they can be; else the last one is shorter.

    Args:
        prices: What a border costs at each frame.
        avoided: Frames where a border costs more than anything else.
        end: How many frames the recording has; the last need not be whole.
        lengths: The lengths of pieces.
    """
    costs = prices.copy()
    costs[avoided] += AVOIDED
    range_of_ends = min(lengths.most, len(prices)) - lengths.least
    at = _choices(costs, max(1, range_of_ends // CHOICES), end)
    total, before = _cheapest(at, prices[at] / lengths.wanted, AVOIDED * avoided[at], lengths)
    # the last border, from which the last piece goes to the end
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
    """Return the start, and the frames where borders may be: the cheapest of every so many."""
    whole = len(prices) // step * step
    at = np.arange(0, whole, step) + prices[:whole].reshape(-1, step).argmin(axis=1)
    return np.concatenate(([0], at[(at > 0) & (at < end)]))


def _cheapest(
    at: np.ndarray, prices: np.ndarray, extra: np.ndarray, lengths: PieceLengths
) -> tuple[np.ndarray, np.ndarray]:
    """Return for each border the lowest price of all pieces up to it, and the border before it."""
    # no piece is longer than the recording
    least, most = lengths.least, max(lengths.least, min(lengths.most, int(at[-1]) + 1))
    of_length = lengths.price(np.arange(most + least + 1)).astype(np.float32)
    of_length[:least] = of_length[most + 1 :] = np.inf
    prices = prices.astype(np.float32)
    total, before = np.full(len(at), np.inf), np.zeros(len(at), np.int32)
    total[0] = 0
    # none of these is the border before another of them
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
