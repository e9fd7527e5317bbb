"""`splitter.open(..., streaming=True)`: all readers together read every output once, shard by shard.

    the shards, maybe shuffled         |---- 0 ----|-- 1 --|------ 2 ------|--- 3 ---|
    divided by samples, not by shards  |=== rank 0 ========|=== rank 1 =============|
    and a rank's part by its workers   |- worker 0 -|- worker 1 -| ...

Each reader reads its part of the sequence of shards from beginning to end; to shuffle, it reads from
several shards at a time into a buffer.
"""

import random
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.utils.data import IterableDataset, get_worker_info

from splitter.errors import Refused
from splitter.outputs.dataset import OutputDataset, OutputSamples, Sample
from splitter.storage.layout import shard_of

# number of shards open at a time when shuffling
LANES = 4
# loose files are shuffled as if this many were a shard
FILES_TOGETHER = 256


class ReaderRank(NamedTuple):
    """The rank of this reader among all readers of a stream."""

    rank: int
    world_size: int

    @classmethod
    def given(cls, rank: int | None, world_size: int | None) -> "ReaderRank | None":
        """Return the rank that the caller gives; None to leave it to torch.distributed."""
        if rank is None and world_size is None:
            return None
        if rank is None or world_size is None or not 0 <= rank < world_size:
            asked = f"rank {rank} of world_size {world_size}"
            raise Refused(f"splitter.open: {asked}; pass both, with the rank from 0 to world_size - 1")
        return cls(rank, world_size)

    @classmethod
    def found(cls) -> "ReaderRank | None":
        """Return the rank from torch.distributed, if it is in use."""
        distributed = torch.distributed
        if distributed.is_available() and distributed.is_initialized():
            return cls(distributed.get_rank(), distributed.get_world_size())
        return None

    def part(self, start: int, stop: int) -> tuple[int, int]:
        """Return this rank's part of a range; the parts cover it, and differ by at most one."""
        length = stop - start
        return start + length * self.rank // self.world_size, start + length * (
            self.rank + 1
        ) // self.world_size


class OutputStream(IterableDataset[Sample]):
    """The outputs of a run in sequence."""

    collate_fn = staticmethod(OutputDataset.collate_fn)

    def __init__(
        self, samples: OutputSamples, *, shuffle: bool, buffer: int, seed: int, reader_rank: ReaderRank | None
    ) -> None:
        if buffer < 1:
            raise Refused(f"splitter.open: buffer {buffer}: must be at least 1")
        self._samples, self._reader_rank = samples, reader_rank
        self._shuffle, self._buffer, self._seed = shuffle, buffer, seed
        self._order, self._ends = _in_shards(samples)
        # shared with workers that persist from epoch to epoch
        self._epoch = torch.zeros((), dtype=torch.int64)
        self._epoch.share_memory_()  # type: ignore[no-untyped-call]

    def set_epoch(self, epoch: int) -> None:
        """Use another order in this epoch; all ranks must set the same."""
        self._epoch.fill_(epoch)

    def __getstate__(self) -> dict[str, Any]:
        """Resolve the rank first, because a spawned worker knows nothing of torch.distributed."""
        return {**self.__dict__, "_reader_rank": self._reader_rank or ReaderRank.found()}

    def __iter__(self) -> Iterator[Sample]:
        """Yield the samples of this reader."""
        chance = random.Random(f"{self._seed} {int(self._epoch)}")  # noqa: S311 - the same for all readers
        shards = list(np.split(self._order, self._ends[:-1])) if len(self._order) else []
        if self._shuffle:
            chance.shuffle(shards)
        start, stop = self._part()
        pieces = _pieces(shards, start, stop)
        if self._shuffle:
            mixed = random.Random(f"{self._seed} {int(self._epoch)} {start}")  # noqa: S311
            yield from self._mixed([*pieces], mixed)
            return
        for piece in pieces:
            for number, content in self._read(piece):
                yield self._samples.made(number, content)

    def _part(self) -> tuple[int, int]:
        """Return the range of samples in shard order that this reader takes."""
        reader_rank = self._reader_rank or ReaderRank.found() or ReaderRank(0, 1)
        start, stop = reader_rank.part(0, len(self._samples))
        worker = get_worker_info()
        return ReaderRank(worker.id, worker.num_workers).part(start, stop) if worker else (start, stop)

    def _read(self, piece: np.ndarray) -> Iterator[tuple[int, bytes]]:
        numbers = piece.tolist()
        return zip(numbers, self._samples.contents(numbers), strict=True)

    def _mixed(self, pieces: list[np.ndarray], chance: random.Random) -> Iterator[Sample]:
        """Read from a few shards at a time into a buffer; yield samples from it in random order."""
        pieces.reverse()
        lanes = [self._read(pieces.pop()) for _ in range(min(LANES, len(pieces)))]
        held: list[tuple[int, bytes]] = []
        while lanes:
            lane = chance.randrange(len(lanes))
            one = next(lanes[lane], None)
            if one is None:
                if pieces:
                    lanes[lane] = self._read(pieces.pop())
                else:
                    lanes.pop(lane)
            elif len(held) < self._buffer:
                held.append(one)
            else:
                at = chance.randrange(self._buffer)
                one, held[at] = held[at], one
                yield self._samples.made(*one)
        chance.shuffle(held)
        while held:
            yield self._samples.made(*held.pop())


def _pieces(shards: list[np.ndarray], start: int, stop: int) -> Iterator[np.ndarray]:
    """Yield the samples between two positions in shard order."""
    at = 0
    for shard in shards:
        piece = shard[max(0, start - at) : max(0, stop - at)]
        at += len(shard)
        if len(piece):
            yield piece


def _in_shards(samples: OutputSamples) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers of the samples in shard order, and the end of each shard."""
    names: dict[str, int] = {}
    count = len(samples)
    outputs = samples.column("output")
    shards = np.fromiter(
        (names.setdefault(shard_of(outputs[number])[0], len(names)) for number in range(count)), "i8", count
    )
    if "" in names:
        # loose files, in the order of the manifest
        ends = [*range(FILES_TOGETHER, count, FILES_TOGETHER), count]
        return np.arange(count), np.array(ends)
    offsets = samples.column("shard_offset")
    positions = np.arange(count) if offsets is None else np.array([int(offset) for offset in offsets], "i8")
    order = np.lexsort((positions, shards))
    return order, np.cumsum(np.bincount(shards, minlength=len(names)))
