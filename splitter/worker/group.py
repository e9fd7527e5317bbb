"""A batch in progress that makes the shards of a group, and copies other samples from the older shards."""

import contextlib
import shutil
from typing import Any

from splitter.errors import StorageError
from splitter.inputs.shards.index import MemberLocation
from splitter.ledger.records import CHECKSUM_AT, DONE, SIZE_AT
from splitter.ledger.shard_groups import Group, GroupMember
from splitter.outputs.reader import Address, OutputReader
from splitter.sinks.base import OutputOwner, SinkWriter
from splitter.sinks.shards import OFFSET_AT, ShardsWriter
from splitter.storage.base import Storage
from splitter.storage.layout import shard_of
from splitter.text.csv import CsvText
from splitter.worker.batch import BETWEEN_INPUTS, BatchInProgress
from splitter.worker.messages import Batch
from splitter.worker.rows import Metadata, OutputRow
from splitter.worker.tools import WorkerTools

# what happens to an input whose output in an older shard is damaged
DONE_AGAIN = "its input will be done again"


class SampleLost(Exception):
    """A sample of an older shard that is damaged or gone."""


class OlderShards:
    """The shards that a batch replaces, and from which it copies samples.

    A shard in a store is copied here first, in large pieces: a request for each sample would be slow.
    """

    def __init__(self, storage: Storage, folder: str) -> None:
        self._storage, self._folder = storage, folder
        self._readers: dict[str, OutputReader | None] = {}

    def read(self, address: Address) -> bytes:
        """Return the content of an output; raise SampleLost if it is damaged or gone."""
        shard, _ = shard_of(address.output)
        if shard not in self._readers:
            self._readers[shard] = self._opened(shard)
        reader = self._readers[shard]
        if reader is None:
            raise SampleLost(f"{self._storage.path(shard)}: does not exist, or cannot be read; {DONE_AGAIN}")
        try:
            return reader.read(address)
        except StorageError as error:
            raise SampleLost(str(error).replace(reader.folder, self._storage.root)) from None

    def _opened(self, shard: str) -> OutputReader | None:
        with contextlib.suppress(OSError):
            return OutputReader(self._storage.near(shard, self._folder), DONE_AGAIN)
        return None

    def close(self) -> None:
        """Remove the local copies."""
        self._readers.clear()
        shutil.rmtree(self._folder, ignore_errors=True)


class GroupInProgress(BatchInProgress):
    """A batch that makes the shards of a group: it completes rows and makes entries after all shards."""

    sink: ShardsWriter

    def __init__(self, batch: Batch, tools: WorkerTools, group: Group) -> None:
        self._group = group
        # the inputs that are processed now, and those whose samples are copied from older shards
        self._made: list[tuple[int, OutputOwner]] = []
        self._carried: list[tuple[GroupMember, OutputOwner]] = []
        super().__init__(batch, tools)

    def _open_sink(self) -> SinkWriter:
        group = self._group
        stale = [name for names in self.batch.stale.values() for name in names]
        return self.job.sink.open(self.job.storage, self.batch.name, [*stale, *group.shards], group.number)

    def _process_all(self) -> None:
        """Process inputs, and copy the samples of others, in the order of the group as far as possible."""
        batch, group = self.batch, self._group
        index_of = {rank: index for index, rank in enumerate(group.ranks)}
        member_of = {member.rank: member for member in group.members}
        ranks = sorted({**index_of, **member_of})
        locations = {
            rank: location
            for rank, index in index_of.items()
            if (location := batch.members.get(index)) is not None
        }
        advanced, finished = 0, set()
        with contextlib.closing(OlderShards(self.job.storage, f"{self.tools.folder}/older")) as older:
            for rank in _in_reading_order(ranks, locations):
                index = index_of.get(rank)
                if index is not None:
                    self.process_next(index)
                if rank in member_of and index not in self.finished:
                    self.tools.mark(BETWEEN_INPUTS)
                    self._carry(member_of[rank], older)
                finished.add(rank)
                while advanced < len(ranks) and ranks[advanced] in finished:
                    self.sink.advance(ranks[advanced])
                    advanced += 1

    def _keep(
        self,
        index: int,
        made: list[OutputRow],
        metadata: Metadata,
        *,
        outputs: int,  # noqa: ARG002 - counted from the rows
        size: int,  # noqa: ARG002 - counted from the rows
    ) -> None:
        """Give the outputs of an input to the shards."""
        head, rows = self.tools.rows.rows(self.rows[index][0], made, metadata)
        group = self._group
        owner = OutputOwner(group.ranks[index], group.numbers[index], head, rows)
        self.sink.keep_input(owner)
        self._made.append((index, owner))
        self.finished.add(index)

    def _carry(self, member: GroupMember, older: OlderShards) -> None:
        """Copy the samples of an input from an older shard."""
        owner = OutputOwner(member.rank, member.number, member.head, member.rows)
        try:
            contents = [*map(older.read, _addresses(owner))]
        except SampleLost as error:
            # the shard was damaged or removed: the input has to be done again
            self.record.add_not_done(member.key)
            self.report.notes.append(str(error))
            self.report.counts.undone += 1
            return
        self.sink.carry(owner, contents)
        self._carried.append((member, owner))

    def _commit(self) -> None:
        """Publish the shards of the group, and remove the older ones.

        If samples were copied from those, write a promise first, so that recovery can finish the batch.
        """
        batch, group, storage, journal = self.batch, self._group, self.job.storage, self.tools.journal
        is_for_others = bool(group.dropped or group.renews or self.report.counts.undone)
        if not (self.finished or is_for_others):
            return
        loose = [name for index in sorted(self.finished) for name in batch.stale.get(index, [])]
        if not (self._made or loose or is_for_others):
            # the shards do not change
            journal.commit(batch.name, self.record)
            storage.unstage(batch.name)
            return
        self.sink.finish()
        self._add_entries()
        moves = self.sink.moves()
        self.record.shards = {move.target: (move.size, move.checksum) for move in moves}
        vanish = [*dict.fromkeys([*group.shards, *loose])]
        # all inputs that had samples in the older shards: what is not copied goes with its shard
        keys = [batch.keys[index] for index in sorted(self.finished)] + group.dropped
        keys += [member.key for member in group.members]
        if not self._carried:
            self.publish(keys, vanish, durable=True)
            return
        storage.park(batch.name)
        storage.confirm()
        names = [*dict.fromkeys([*self.sink.names(), *vanish])]
        journal.promise(batch.name, keys, names, moves=moves, record=self.record)
        journal.keep_own(batch.name)
        storage.unstage(batch.name)

    def _add_entries(self) -> None:
        """Add the entry of each input, now that the addresses of all outputs are known."""
        for index, owner in self._made:
            self.add(index, DONE, head=owner.head, **_entry(owner))
        for member, owner in self._carried:
            self.record.add(member.key, member.fingerprint, DONE, head=member.head, **_entry(owner))
        for key in self._group.dropped:
            self.record.add_not_done(key)


def _in_reading_order(ranks: list[int], locations: dict[int, MemberLocation]) -> list[int]:
    """Return the ranks of a group, with the members of gzip and Parquet shards in the order of the shard.

    Otherwise, with shuffled inputs, each member would be sought from the beginning of its shard.
    """
    number_of: dict[str, int] = {}
    starts = {
        rank: (number_of.setdefault(locations[rank].shard.location, len(number_of)), locations[rank].start)
        for rank in ranks
        if rank in locations and locations[rank].shard.kind in ("gzip", "parquet")
    }
    in_sequence = iter(sorted(starts, key=starts.__getitem__))
    return [next(in_sequence) if rank in starts else rank for rank in ranks]


def _entry(owner: OutputOwner) -> dict[str, Any]:
    """Return what the commit record says about the outputs of an input."""
    sizes = [int(row[owner.at + SIZE_AT]) for row in owner.rows if row[owner.at]]
    return {"outputs": len(sizes), "size": sum(sizes), "text": CsvText().encode(owner.rows)}


def _addresses(owner: OutputOwner) -> list[Address]:
    """Return the address of each output of an input."""
    at = owner.at
    return [
        Address(row[at], int(row[at + SIZE_AT]), row[at + CHECKSUM_AT], int(row[at + OFFSET_AT]))
        for row in owner.rows
        if row[at]
    ]
