"""Assign groups to splits so that the shares come as near to what was asked as the groups allow.

All numbers are integers, so that every machine finds the same assignment.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from splitter.text.labels import labels_in

# of more groups, a hash comes near enough to what was asked
FEW_GROUPS = 1000
# labels beyond the most frequent ones are too rare to be balanced
MOST_LABELS = 100
# so many assignments are all tried
_FEW_ASSIGNMENTS = 60_000
# of so few groups, a search takes no time: it begins several times
_QUICK, _STARTS = 100, 8
_PASSES = 20
# a deviation is in units of 1/100,000 of all outputs, so that three of them fit into one 64-bit number:
# splits without any output come first, then the sum of all deviations, then that of their squares
_UNITS = 100_000
_EMPTY, _SUM = 57, 36


@dataclass
class GroupTally:
    """How many rows and outputs each group has: all of them, under None, and those with each label.

    Attributes:
        rows: The numbers of rows of each group.
        outputs: The numbers of outputs of each group that has any.
    """

    rows: dict[str, Counter[str | None]] = field(default_factory=dict)
    outputs: dict[str, Counter[str | None]] = field(default_factory=dict)

    def add_row(self, group: str, output: str, column: str | None, label: str) -> None:
        """Add a row of the manifest, with the text of the column that is balanced, if any."""
        # what is without labels is a class, too; a label given twice counts once
        labels: set[str] = set() if column is None else {*labels_in(column, label)} or {""}
        for tally in (self.rows, self.outputs) if output else (self.rows,):
            tally.setdefault(group, Counter()).update((None, *labels))

    def matrix(self, groups: Sequence[str]) -> np.ndarray:
        """Return the outputs of groups in the first column, and those with each label in the others.

        If there are no outputs at all, rows count instead.
        """
        tally = self.outputs or self.rows
        total: Counter[str | None] = Counter()
        for counts in tally.values():
            total.update(counts)
        labels = [label for label in total if label is not None]
        labels = sorted(labels, key=lambda label: (-total[label], label))[:MOST_LABELS]
        nothing: Counter[str | None] = Counter()
        rows = [[tally.get(group, nothing)[key] for key in (None, *labels)] for group in groups]
        return np.array(rows, "i8").reshape(len(groups), 1 + len(labels))


def assign(
    tally: GroupTally, usual: Mapping[str, str], settled: Mapping[str, str], fractions: Mapping[str, float]
) -> dict[str, str]:
    """Return the split of each group of `usual` that is not settled.

    Args:
        tally: What the groups have.
        usual: The split of each group by its hash, in the order of the hashes: it decides between assignments
            that are equally good.
        settled: The split of each group that stays where it is.
        fractions: The splits, and the share that each is to have.
    """
    names = [*fractions]
    number_of = {name: number for number, name in enumerate(names)}
    groups = [*usual]
    counts = tally.matrix(groups)
    free = np.array([group not in settled for group in groups], bool)
    # groups without outputs change no share
    searched = free & (counts[:, 0] > 0)
    by_hash = np.array([number_of[usual[group]] for group in groups], "i8")
    held = np.zeros((len(names), counts.shape[1]), "i8")
    for group, row in zip(groups, counts, strict=True):
        if group in settled:
            held[number_of[settled[group]]] += row
    found = by_hash.copy()
    shares = _SplitSizes(counts.sum(axis=0), [*fractions.values()])
    found[searched] = _best(shares, counts[searched], held, by_hash[searched])
    return {group: names[found[at]] for at, group in enumerate(groups) if free[at]}


class _SplitSizes:
    """How far the outputs of each split are from what they should be."""

    def __init__(self, totals: np.ndarray, fractions: Sequence[float]) -> None:
        """Take the outputs of all groups, and the share that each split is to have."""
        self.parts = np.array([round(fraction * _UNITS) for fraction in fractions], "i8")
        # the first takes what rounding leaves
        self.parts[0] += _UNITS - self.parts.sum()
        self._wanted = self.parts[:, None] * totals
        # all labels together count as much as the outputs
        self._scale = np.maximum(1, np.full(len(totals), totals[1:].sum()))
        self._scale[0] = max(1, totals[0])

    def __len__(self) -> int:
        """Return the number of splits."""
        return len(self.parts)

    def cost(self, split: int, held: np.ndarray) -> np.ndarray:
        """Return how bad it is that a split holds these outputs; `held` may be many such rows."""
        off = np.abs(held * _UNITS - self._wanted[split]) // self._scale
        empty = (held[..., 0] == 0).astype("i8")
        cost: np.ndarray = (empty << _EMPTY) + (off.sum(axis=-1) << _SUM) + (off * off).sum(axis=-1)
        return cost

    def total(self, held: np.ndarray) -> int:
        """Return how bad an assignment is."""
        return sum(int(self.cost(split, held[split])) for split in range(len(self)))

    def missing(self, held: np.ndarray) -> np.ndarray:
        """Return how much each split lacks."""
        missing: np.ndarray = self._wanted[:, 0] - held[:, 0] * _UNITS
        return missing


def _best(shares: _SplitSizes, counts: np.ndarray, held: np.ndarray, by_hash: np.ndarray) -> np.ndarray:
    """Return the best assignment of groups to splits, which hold something already."""
    if len(shares) ** len(counts) <= _FEW_ASSIGNMENTS:
        return _best_of_all(shares, counts, held, by_hash)
    turns = _STARTS if len(counts) <= _QUICK else 1
    starts = [_largest_first(shares, counts, held), *(np.roll(by_hash, turn) for turn in range(turns))]
    found = [_improved(shares, counts, held, start) for start in starts]
    return min(found, key=lambda splits: shares.total(_outputs_by_split(splits, counts, held)))


def _best_of_all(
    shares: _SplitSizes, counts: np.ndarray, held: np.ndarray, by_hash: np.ndarray
) -> np.ndarray:
    """Try all assignments; of those that are equally good, take the one that is most like the hash."""
    splits, groups = len(shares), len(counts)
    codes = np.arange(splits**groups)
    every = codes[:, None] // splits ** np.arange(groups) % splits
    costs = np.zeros(len(every), "i8")
    for split in range(splits):
        costs += shares.cost(split, held[split] + (every == split).astype("i8") @ counts)
    good = every[costs == costs.min()]
    best: np.ndarray = good[(good == by_hash).sum(axis=1).argmax()]
    return best


def _largest_first(shares: _SplitSizes, counts: np.ndarray, held: np.ndarray) -> np.ndarray:
    """Give the largest group first, each to the split that lacks most."""
    missing = shares.missing(held)
    found = np.zeros(len(counts), "i8")
    for group in np.argsort(-counts[:, 0], kind="stable"):
        found[group] = missing.argmax()
        missing[found[group]] -= counts[group, 0] * _UNITS
    return found


def _improved(shares: _SplitSizes, counts: np.ndarray, held: np.ndarray, found: np.ndarray) -> np.ndarray:
    """Move groups, and swap them, as long as that makes an assignment better."""
    now = _outputs_by_split(found, counts, held)
    for _ in range(_PASSES):
        better = [_improve_one(shares, counts, now, found, group) for group in range(len(counts))]
        if not any(better):
            break
    return found


def _improve_one(
    shares: _SplitSizes, counts: np.ndarray, now: np.ndarray, found: np.ndarray, group: int
) -> bool:
    """Move a group to where it does most good, or swap it with another; return whether that was any."""
    here, own = found[group], counts[group]
    best, there, other = 0, here, -1
    for split in range(len(shares)):
        if split == here:
            continue
        others = np.flatnonzero(found == split)
        # the last row is that of no group: a move
        gained = np.vstack([counts[others], np.zeros_like(own)]) - own
        costs = shares.cost(here, now[here] + gained) + shares.cost(split, now[split] - gained)
        least = int(costs.argmin())
        change = int(costs[least] - shares.cost(here, now[here]) - shares.cost(split, now[split]))
        if change < best:
            best, there, other = change, split, int(others[least]) if least < len(others) else -1
    if not best:
        return False
    change_by = own - (counts[other] if other >= 0 else 0)
    now[here] -= change_by
    now[there] += change_by
    found[group] = there
    if other >= 0:
        found[other] = here
    return True


def _outputs_by_split(found: np.ndarray, counts: np.ndarray, held: np.ndarray) -> np.ndarray:
    """Return what each split holds with an assignment."""
    now: np.ndarray = held.copy()
    np.add.at(now, found, counts)
    return now
