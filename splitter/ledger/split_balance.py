"""Assign groups to splits so that the shares come as close to the requested ones as the groups allow.

All numbers are integers, so that every machine finds the same assignment.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from splitter.text.labels import labels_in

# with more groups, a hash comes close enough to the requested shares
FEW_GROUPS = 1000
# less frequent labels are too rare to be balanced
MOST_LABELS = 100
# up to this many assignments are all tried
_FEW_ASSIGNMENTS = 60_000
# with this few groups, a search takes no time, so it starts from several assignments
_QUICK, _STARTS = 100, 8
_PASSES = 20
# a deviation is in units of 1/100,000 of all outputs, so that a 64-bit number holds all three parts of a
# cost: first the number of splits without outputs, then the sum of the deviations, then that of their squares
_UNITS = 100_000
_EMPTY, _SUM = 57, 36


@dataclass
class GroupTally:
    """The number of rows and outputs of each group: in all, under the key None, and with each label.

    Attributes:
        rows: The numbers of rows of each group.
        outputs: The numbers of outputs of each group that has any.
    """

    rows: dict[str, Counter[str | None]] = field(default_factory=dict)
    outputs: dict[str, Counter[str | None]] = field(default_factory=dict)

    def add_row(self, group: str, output: str, column: str | None, label: str) -> None:
        """Add a row of the manifest; `label` is its text in the `column` to balance, if any."""
        # rows without labels are a class, too; a label given twice counts once
        labels: set[str] = set() if column is None else {*labels_in(column, label)} or {""}
        for tally in (self.rows, self.outputs) if output else (self.rows,):
            tally.setdefault(group, Counter()).update((None, *labels))

    def matrix(self, groups: Sequence[str]) -> np.ndarray:
        """Return the number of outputs of each group in the first column, and with each label in the others.

        If there are no outputs at all, count rows instead.
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
        settled: The splits of the groups that must stay where they are.
        fractions: The share that each split should have.
    """
    names = [*fractions]
    number_of = {name: number for number, name in enumerate(names)}
    groups = [*usual]
    counts = tally.matrix(groups)
    free = np.array([group not in settled for group in groups], bool)
    # groups without outputs do not change the shares
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
    """The sizes that splits should have, and the cost of being off."""

    def __init__(self, totals: np.ndarray, fractions: Sequence[float]) -> None:
        """Take the outputs of all groups, and the share that each split should have."""
        self.parts = np.array([round(fraction * _UNITS) for fraction in fractions], "i8")
        # the first split takes the remainder of rounding
        self.parts[0] += _UNITS - self.parts.sum()
        self._wanted = self.parts[:, None] * totals
        # all labels together count as much as the outputs
        self._scale = np.maximum(1, np.full(len(totals), totals[1:].sum()))
        self._scale[0] = max(1, totals[0])

    def __len__(self) -> int:
        """Return the number of splits."""
        return len(self.parts)

    def cost(self, split: int, held: np.ndarray) -> np.ndarray:
        """Return the cost of a split that holds these outputs; `held` may have many rows of them."""
        cost: np.ndarray = self.costs(split, held, np.arange(held.shape[-1])).sum(axis=-1)
        return cost

    def costs(self, split: int, held: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Return what each number of outputs in `held` adds to the cost of a split, by its column."""
        off = np.abs(held * _UNITS - self._wanted[split, columns]) // self._scale[columns]
        empty = ((held == 0) & (columns == 0)).astype("i8")
        costs: np.ndarray = (empty << _EMPTY) + (off << _SUM) + off * off
        return costs

    def total(self, held: np.ndarray) -> int:
        """Return the cost of an assignment."""
        return sum(int(self.cost(split, held[split])) for split in range(len(self)))

    def missing(self, held: np.ndarray) -> np.ndarray:
        """Return how many outputs each split lacks, in 1/100,000 of an output."""
        missing: np.ndarray = self._wanted[:, 0] - held[:, 0] * _UNITS
        return missing


def _best(shares: _SplitSizes, counts: np.ndarray, held: np.ndarray, by_hash: np.ndarray) -> np.ndarray:
    """Return the best assignment found of groups to splits, which may already hold outputs."""
    if len(shares) ** len(counts) <= _FEW_ASSIGNMENTS:
        return _best_of_all(shares, counts, held, by_hash)
    turns = _STARTS if len(counts) <= _QUICK else 1
    starts = [_largest_first(shares, counts, held), *(np.roll(by_hash, turn) for turn in range(turns))]
    found = [_improved(shares, counts, held, start) for start in starts]
    return min(found, key=lambda splits: shares.total(_outputs_by_split(splits, counts, held)))


def _best_of_all(
    shares: _SplitSizes, counts: np.ndarray, held: np.ndarray, by_hash: np.ndarray
) -> np.ndarray:
    """Try all assignments; among the best, return the one that is most like the split by hash."""
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
    """Assign the groups, the largest first, each to the split that lacks most."""
    missing = shares.missing(held)
    found = np.zeros(len(counts), "i8")
    for group in np.argsort(-counts[:, 0], kind="stable"):
        found[group] = missing.argmax()
        missing[found[group]] -= counts[group, 0] * _UNITS
    return found


def _improved(shares: _SplitSizes, counts: np.ndarray, held: np.ndarray, found: np.ndarray) -> np.ndarray:
    """Move and swap groups as long as that improves the assignment, which is changed in place."""
    search = _Search(shares, counts, held, found)
    for _ in range(_PASSES):
        better = [search.improve(group) for group in range(len(counts))]
        if not any(better):
            break
    return found


class _Search:
    """A search that improves an assignment group by group."""

    def __init__(self, shares: _SplitSizes, counts: np.ndarray, held: np.ndarray, found: np.ndarray) -> None:
        """Start with the assignment `found`, which is changed in place."""
        self._shares, self._found = shares, found
        # the last row stands for no group: to swap a group with it is to move the group
        self._counts = np.vstack([counts, np.zeros_like(counts[:1])])
        self._now = _outputs_by_split(found, counts, held)
        # a column has few different values, so the cost of each is computed once for all groups
        columns = [np.unique(column, return_inverse=True) for column in self._counts.T]
        sizes = [len(values) for values, _ in columns]
        self._values = np.concatenate([values for values, _ in columns])
        self._columns = np.repeat(np.arange(len(columns)), sizes)
        starts = np.cumsum([0, *sizes[:-1]])
        self._codes = np.stack([codes.ravel() for _, codes in columns], axis=1) + starts

    def improve(self, group: int) -> bool:
        """Make the move or swap of a group that improves the cost most; return whether any does."""
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
        """Return how the best swap with a split changes the cost, and the partner in it; -1 is a move."""
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
    """Return the outputs that each split holds with an assignment."""
    now: np.ndarray = held.copy()
    np.add.at(now, found, counts)
    return now
