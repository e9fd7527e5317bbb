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
        cost: np.ndarray = self.costs(split, held, np.arange(held.shape[-1])).sum(axis=-1)
        return cost

    def costs(self, split: int, held: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Return what each number adds to the cost if a split holds that many in a column."""
        off = np.abs(held * _UNITS - self._wanted[split, columns]) // self._scale[columns]
        empty = ((held == 0) & (columns == 0)).astype("i8")
        costs: np.ndarray = (empty << _EMPTY) + (off << _SUM) + off * off
        return costs

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
    search = _Search(shares, counts, held, found)
    for _ in range(_PASSES):
        better = [search.improve(group) for group in range(len(counts))]
        if not any(better):
            break
    return found


class _Search:
    """An assignment that is improved, group by group."""

    def __init__(self, shares: _SplitSizes, counts: np.ndarray, held: np.ndarray, found: np.ndarray) -> None:
        """Start with the splits `found`, which are changed."""
        self._shares, self._found = shares, found
        # the last row is that of no group: to swap with it is to move
        self._counts = np.vstack([counts, np.zeros_like(counts[:1])])
        self._now = _outputs_by_split(found, counts, held)
        # a column has few different values: what each does to the cost is computed once for all groups
        columns = [np.unique(column, return_inverse=True) for column in self._counts.T]
        sizes = [len(values) for values, _ in columns]
        self._values = np.concatenate([values for values, _ in columns])
        self._columns = np.repeat(np.arange(len(columns)), sizes)
        starts = np.cumsum([0, *sizes[:-1]])
        self._codes = np.stack([codes.ravel() for _, codes in columns], axis=1) + starts

    def improve(self, group: int) -> bool:
        """Move a group to where it does most good, or swap it with another; return whether that was any."""
        here = int(self._found[group])
        best, there, other = 0, here, -1
        for split in range(len(self._shares)):
            if split != here:
                change, partner = self._best_swap(group, split)
                if change < best:
                    best, there, other = change, split, partner
        if not best:
            return False
        change_by = self._counts[group] - self._counts[other]
        self._now[here] -= change_by
        self._now[there] += change_by
        self._found[group] = there
        if other >= 0:
            self._found[other] = here
        return True

    def _best_swap(self, group: int, split: int) -> tuple[int, int]:
        """Return how the cost changes with the best partner in a split, and that; -1 is none."""
        here, own = self._found[group], self._counts[group]
        partners = np.append(np.flatnonzero(self._found == split), -1)
        at, gained = self._columns, self._values - own[self._columns]
        costs = self._shares.costs(here, self._now[here, at] + gained, at)
        costs += self._shares.costs(split, self._now[split, at] - gained, at)
        sums = costs.take(self._codes.take(partners, axis=0, mode="wrap")).sum(axis=1)
        least = int(sums.argmin())
        before = self._shares.cost(here, self._now[here]) + self._shares.cost(split, self._now[split])
        return int(sums[least] - before), int(partners[least])


def _outputs_by_split(found: np.ndarray, counts: np.ndarray, held: np.ndarray) -> np.ndarray:
    """Return what each split holds with an assignment."""
    now: np.ndarray = held.copy()
    np.add.at(now, found, counts)
    return now
