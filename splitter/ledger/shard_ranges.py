"""Groups of a later stage of a pipeline: dealt from ranges of the first stage's inputs.

inputs of the first stage    0 1 ... R-1 | R ... 2R-1 | 2R ...
inputs made from them        group 0     | group 1    | ...

R depends only on the list of the first stage. So a group does not depend on what is ready first, and can be
made as soon as its range is complete.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from splitter.ledger.part_shares import Measured
from splitter.ledger.shard_groups import NUMBERS_IN_RANGE, Groups, deal, inputs_in_group
from splitter.sorted_arrays import index_of
from splitter.storage.base import Storage

# with fewer, more workers are busy if groups are dealt from the stage's own list
FEWEST_RANGES = 16


@dataclass(frozen=True)
class Descent:
    """The descent of a later stage's inputs from those of a pipeline's first stage.

    Attributes:
        first: The keys of the first stage's inputs, in the order of their list.
        size: Their total size in bytes.
        keys: The keys of the later stage's inputs, in the order of the inputs they come from.
        ancestors: For each of `keys`, the index in `first` of the input that it comes from.
    """

    first: np.ndarray
    size: int
    keys: np.ndarray
    ancestors: np.ndarray


def inputs_in_range(inputs: int, size: int, shard_bytes: int) -> int | None:
    """Return how many inputs of a first stage are in a range, given their number and total size.

    Return None if there are too few, or if the size is unknown because an earlier version stored the list.
    """
    if not size:
        return None
    each = inputs_in_group(inputs, size, shard_bytes)
    return each if inputs > each * (FEWEST_RANGES - 1) else None


def with_later(first: np.ndarray | None, listed: np.ndarray) -> np.ndarray:
    """Return the inputs of the first stage in the order in which they were first listed."""
    return listed if first is None else np.concatenate((first, listed[~np.isin(listed, first)]))


def deal_any(  # noqa: PLR0913 - each is one thing to know
    storage: Storage,
    found: Measured,
    descent_of: Callable[[], Descent] | None,
    shard_bytes: int,
    *,
    seed: int | None,
    afresh: bool,
    keep: bool,
) -> Groups:
    """Return the groups of an output folder: in a pipeline by ranges, unless shuffled or dealt otherwise."""
    before, groups = None if afresh else Groups.stored(storage), None
    if before is not None and before.first is not None:
        # also if the stage is run by itself: its new inputs then have no ancestors
        groups = deal_ranges(before, found.keys, descent_of or partial(_own, before, found.keys), shard_bytes)
    elif before is None and descent_of and seed is None:
        groups = deal_ranges(None, found.keys, descent_of, shard_bytes)
    return groups or deal(
        storage, found, before, shard_bytes=shard_bytes, seed=seed, afresh=afresh, keep=keep
    )


def _own(before: Groups, keys: np.ndarray) -> Descent:
    """Return the descent of inputs that come from no pipeline: the new ones count as first-stage inputs."""
    new = keys[before.ranks(keys) < 0]
    return Descent(new, 0, new, np.arange(len(new)))


def deal_ranges(
    before: Groups | None, keys: np.ndarray, descent_of: Callable[[], Descent], shard_bytes: int
) -> Groups | None:
    """Return the groups with new inputs added; None if they are to be dealt from the stage's own list.

    An input stays in its group. A group that gets new inputs is numbered again, in the order of the inputs
    that its own come from; those that are no longer listed come last.
    """
    ranks = np.full(len(keys), -1) if before is None else before.ranks(keys)
    if before is not None and (ranks >= 0).all():
        return before
    descent = descent_of()
    first = with_later(None if before is None else before.first, descent.first)
    size = inputs_in_range(len(first), descent.size, shard_bytes) if before is None else before.size
    if size is None:
        return None
    if before is None:
        before = Groups(size, np.empty(0, "u8"), np.empty(0, "i8"), first)
    at = index_of(descent.keys, keys)
    # inputs that come from none listed now, as after a run of a single stage, join the last range
    ancestors = np.where(ranks >= 0, -1, len(first) - 1)
    ancestors[at >= 0] = index_of(first, descent.first)[descent.ancestors[at[at >= 0]]]
    groups = ancestors // size
    groups[ranks >= 0] = before.groups_of(ranks[ranks >= 0])
    grown = np.unique(groups[ranks < 0])
    stay = ~np.isin(before.groups_of(np.arange(len(before.keys))), grown)
    chosen = np.isin(groups, grown)
    gone = np.flatnonzero(~stay & ~np.isin(before.keys, keys))
    added = np.concatenate((keys[chosen], before.keys[gone]))
    of = np.concatenate((groups[chosen], before.groups_of(gone)))
    made_of = np.concatenate((ancestors[chosen], np.full(len(gone), len(first))))
    order = np.lexsort((made_of, of))
    added, of = added[order], of[order]
    numbers = of * NUMBERS_IN_RANGE + np.arange(len(of)) - np.searchsorted(of, of)
    numbers = np.concatenate((before.numbers[stay], numbers))
    order = np.argsort(numbers)
    return Groups(size, np.concatenate((before.keys[stay], added))[order], numbers[order], first)
