"""Which inputs share a shard: decided once, so that a shard is always made from the same inputs.

    as dealt    0 1 2 ... G-1 | G ... 2G-1 | 2G ...
    shards      shard-000000  | shard-000001 | ...

G depends on the dataset alone. New inputs first fill the last group; an input that is no longer in the list
stays in its group. For a later stage of a pipeline, see `shard_ranges`.
"""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import xxhash

from splitter.ledger.journal import Journal
from splitter.ledger.part_shares import Measured, bytes_together
from splitter.ledger.records import RowColumns
from splitter.ledger.run_files import GROUPS
from splitter.options import RunPart
from splitter.sorted_arrays import index_of
from splitter.storage.base import Storage
from splitter.storage.layout import shard_of
from splitter.text.csv import Row

LEAST_BYTES = 16 << 20
GROUPS_WANTED = 64
# most inputs in a group if they are so small that their number counts, not their size
MOST_SMALL = 1000
# fewest inputs in a group if samples are to be shuffled
LEAST_SHUFFLED = 8
# an input, and the number in the names of its samples
_DEALT = np.dtype([("key", "<u8"), ("number", "<u4")])
# the same in ranges, where the number includes the group
_IN_RANGES = np.dtype([("key", "<u8"), ("number", "<i8")])
# more inputs than a range can have; numbers in ranges begin with the group, so they need more digits
NUMBERS_IN_RANGE = 100_000_000
DIGITS, DIGITS_IN_RANGES = 8, 14


@dataclass(frozen=True)
class GroupMember:
    """An input that already has outputs in the shards of its group.

    Attributes:
        rank: Its index in the group.
        number: The number in the names of its samples.
        key: Its key in commit records.
        fingerprint: Its fingerprint when its outputs were made.
        head: The columns of its rows.
        rows: Its rows of the manifest.
    """

    rank: int
    number: str
    key: int
    fingerprint: int
    head: RowColumns
    rows: list[Row]


@dataclass(frozen=True)
class Group:
    """A group of inputs that share shards, as its batch needs to know it.

    Attributes:
        number: The number of the group, and of its shards.
        ranks: The index in the group of each input of the batch, ascending.
        numbers: The number in the names of each input's samples.
        members: Inputs that already have outputs in the shards.
        shards: The shards that exist.
        dropped: The keys of inputs whose outputs are to be removed.
        renews: Whether to rewrite the shards because their rows have other columns than the list has now.
    """

    number: int
    ranks: list[int]
    numbers: list[str]
    members: list[GroupMember] = field(default_factory=list)
    shards: list[str] = field(default_factory=list)
    dropped: list[int] = field(default_factory=list)
    renews: bool = False


@dataclass(frozen=True)
class Groups:
    """All inputs that were ever put into a group, group after group.

    Attributes:
        size: The number of inputs in a group, or of first-stage inputs in a range.
        keys: The key of each input in commit records.
        numbers: The number in the names of its samples; ascending in ranges.
        first: The first stage's inputs in the order of the ranges; None if there are no ranges.
    """

    size: int
    keys: np.ndarray
    numbers: np.ndarray
    first: np.ndarray | None = None

    def ranks(self, keys: np.ndarray) -> np.ndarray:
        """Return the index of each input among all that have a group, or -1."""
        return index_of(self.keys, keys)

    def as_text(self, ranks: Sequence[int]) -> list[str]:
        """Return the numbers of some inputs with leading zeros, so that sample names sort like numbers."""
        digits = DIGITS if self.first is None else DIGITS_IN_RANGES
        return [f"{number:0{digits}d}" for number in self.numbers[ranks].tolist()]

    def groups_of(self, ranks: np.ndarray) -> np.ndarray:
        """Return the group of each input, given its index among all."""
        return ranks // self.size if self.first is None else self.numbers[ranks] // NUMBERS_IN_RANGE

    def members(self, group: int) -> slice:
        """Return the slice of inputs that are in a group."""
        bounds = np.array([group, group + 1])
        if self.first is None:
            return slice(*(bounds * self.size).tolist())
        return slice(*np.searchsorted(self.numbers, bounds * NUMBERS_IN_RANGE).tolist())

    def of_part(self, keys: np.ndarray, part: RunPart) -> np.ndarray:
        """Return which inputs belong to a part of a run; groups are dealt to the parts in turn."""
        return self.groups_of(self.ranks(keys)) % part.of == part.number - 1

    def write(self, storage: Storage) -> None:
        """Store the groups for later runs."""
        dealt = np.empty(len(self.keys), _DEALT if self.first is None else _IN_RANGES)
        dealt["key"], dealt["number"] = self.keys, self.numbers
        content, first = {"size": self.size}, b""
        if self.first is not None:
            content["first"], first = len(self.first), self.first.astype("<u8").tobytes()
        GROUPS.save(storage, content, first + dealt.tobytes())

    @classmethod
    def stored(cls, storage: Storage) -> "Groups | None":
        """Return the groups of an earlier run, if there are any; refuse shards whose groups are lost.

        Other groups would replace those shards by ones that lack samples of finished inputs.
        """
        groups = GROUPS.load(storage, _groups)
        if groups is None and _has_shards(storage):
            # unless another part of the run has stored the groups in the meantime
            groups = GROUPS.load(storage, _groups)
            if groups is None:
                raise GROUPS.missing(storage)
        return groups


def deal(  # noqa: PLR0913 - each is one thing to know
    storage: Storage,
    found: Measured,
    before: Groups | None,
    *,
    shard_bytes: int,
    seed: int | None,
    afresh: bool,
    keep: bool,
) -> Groups:
    """Return the groups of an output folder, with new inputs added; without `keep` nothing is written."""
    part = storage.part if keep else None
    with storage.gate() if part else contextlib.nullcontext():
        if part and not afresh:
            # another part may have stored its groups meanwhile
            before = Groups.stored(storage)
        if before is None:
            size = inputs_in_group(len(found.keys), bytes_together(found.sizes), shard_bytes)
            size = size if seed is None else max(LEAST_SHUFFLED, size)
            before = Groups(size, np.empty(0, "u8"), np.empty(0, "u4"))
        new = np.flatnonzero(~np.isin(found.keys, before.keys))
        added = np.arange(len(new)) + before.numbers.astype("i8").max(initial=-1) + 1
        if seed is not None:
            order = np.argsort(_hashes(found.keys[new], seed), kind="stable")
            new, added = new[order], added[order]
        numbers = np.concatenate((before.numbers, added)).astype("u4")
        groups = Groups(before.size, np.concatenate((before.keys, found.keys[new])), numbers)
        if part:
            # the other parts must deal in the same way
            groups.write(storage)
    return groups


def inputs_in_group(inputs: int, total: int, shard_bytes: int) -> int:
    """Return how many inputs share a shard, so that shards are neither tiny nor large, nor too few."""
    group_bytes = min(shard_bytes, max(LEAST_BYTES, total // GROUPS_WANTED))
    size = group_bytes * inputs // total if total else inputs
    return max(1, min(size, max(MOST_SMALL, inputs // GROUPS_WANTED)))


def _has_shards(storage: Storage) -> bool:
    """Return whether finished inputs have outputs in shards."""
    journal = Journal(storage)
    journal.load()
    names = journal.outputs_of_each(journal.with_outputs(journal.done()))
    return any(shard_of(one[0])[0] for one in names if one)


def _hashes(keys: np.ndarray, seed: int) -> np.ndarray:
    return np.array([xxhash.xxh3_64_intdigest(key.tobytes(), seed) for key in keys], "u8")


def _groups(content: dict[str, Any], rest: bytes) -> Groups:
    size, first = int(content["size"]), content.get("first")
    of_first = None if first is None else np.frombuffer(rest, "<u8", count=first).copy()
    dealt = np.frombuffer(rest, _DEALT if first is None else _IN_RANGES, offset=8 * (first or 0))
    return Groups(size, dealt["key"].copy(), dealt["number"].copy(), of_first)
