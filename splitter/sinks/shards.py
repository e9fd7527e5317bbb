"""Shards of any kind: samples in the order of their inputs, and a new shard when one is full.

group 7    input 112 | input 113 (failed) | input 114 | ...
samples    112-0 112-1                      114-0
shards     shard-000007.tar, and shard-000007-1.tar if that gets full
"""

import contextlib
import math
import mmap
import os
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import IO, Any, ClassVar, cast

import xxhash

from splitter.archives.members import FilePart, Member, SharedFile
from splitter.errors import StorageError
from splitter.ledger.formats import VALUES, json_bytes
from splitter.ledger.records import CHECKSUM_AT, OUTPUT_COLUMNS
from splitter.options import RunOptions
from splitter.records import Content, Scalar, Scratch
from splitter.sinks.base import OutputOwner, Sink, SinkWriter, StoredOutput
from splitter.storage.base import Move, Storage
from splitter.storage.content import READ_AT_ONCE, hold_content, measure
from splitter.storage.layout import SHARDS
from splitter.text.csv import Row
from splitter.text.endings import ending_of

# the number of bytes of contents that may wait in memory for their shard; more contents wait on disk
MOST_IN_MEMORY = 128 << 20
NAME, OFFSET = "output_name", "shard_offset"
# the positions of these columns in a row, counted from the column of the output
NAME_AT, OFFSET_AT = map((*OUTPUT_COLUMNS, NAME, OFFSET).index, (NAME, OFFSET))
_OURS_ALONE = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
# memory of finished batches, reused by later ones: new memory from the system costs more than a copy
_free: list[memoryview] = []
_NO_SCRATCH = Scratch()
_PLAIN_EXTENSION = re.compile(r"[a-z0-9_]{1,32}")


@dataclass(frozen=True, slots=True)
class ShardSample:
    """An output file on its way into a shard.

    Attributes:
        key: Its name in the shard: the number of its input, and its own number.
        member: Its content, named by the key and the extension in lower case.
        row: Its row of the manifest, with typed values, without its address in the shard.
    """

    key: str
    member: Member
    row: dict[str, Scalar]


class NewShard(ABC):
    """A shard that is being written."""

    @abstractmethod
    def __init__(self, path: str, name: str, sink: Any) -> None:  # noqa: ANN401 - each kind of shard has its own sink
        """Begin the shard; `name` is its path in the output folder."""

    @property
    @abstractmethod
    def size(self) -> int:
        """Return the number of bytes written so far."""

    def takes(self, sample: ShardSample) -> int:
        """Return the number of bytes that a sample will take, as far as it is known."""
        return sample.member.size

    @abstractmethod
    def add(self, sample: ShardSample) -> int:
        """Append a sample; return its offset in the shard."""

    @abstractmethod
    def close(self) -> None:
        """Finish the shard."""

    @abstractmethod
    def discard(self) -> None:
        """Close the file of an unfinished shard, whose content does not matter."""


class ShardSink(Sink):
    """A sink that puts output files into shards: one for each batch, or several if one is not enough.

    Attributes:
        shard: The class of its shards.
        taken: Extensions that are reserved for other members of a sample.
    """

    divisible = False
    columns = ((NAME, "str"), (OFFSET, "int"))
    shard: ClassVar[type[NewShard]]
    taken: Collection[str] = ()

    def __init__(self, options: RunOptions) -> None:
        super().__init__(options)
        self.most_bytes = options.shard_bytes
        self.most_samples = options.shard_maxcount or sys.maxsize
        self.seed = options.shuffle

    def open(
        self, storage: Storage, batch: str, stale: Collection[str] = (), group: int = 0
    ) -> "ShardsWriter":
        return ShardsWriter(self, storage, batch, stale, group)

    def options(self) -> dict[str, Any]:
        limits = {"shard_size": self.most_bytes, "shard_maxcount": self.most_samples}
        return {**limits, "shuffle": self.seed}

    def check(self, row: Mapping[str, Scalar]) -> None:
        """Refuse a row that a shard cannot hold."""


class ShardsWriter(SinkWriter):
    """A writer that puts samples into shards in the order of their inputs, which may be done in any order."""

    def __init__(
        self, sink: ShardSink, storage: Storage, batch: str, stale: Collection[str], group: int
    ) -> None:
        self._sink, self._storage, self._batch = sink, storage, batch
        self._stale, self._group = stale, group
        self._staging = ""
        self._current: list[Member] = []
        # samples by the rank of their input, each with the row to complete and the index of its output column
        self._waiting: dict[int, list[tuple[ShardSample, Row, int]]] = {}
        self._memory = _free.pop() if _free else memoryview(mmap.mmap(-1, MOST_IN_MEMORY, flags=_OURS_ALONE))
        self._used = 0
        self._spool: SharedFile | None = None
        self._spooled = 0
        self._shard: NewShard | None = None
        self._count = 0
        self._names: list[str] = []

    # -- from the recipe -----------------------------------------------------------------------------------

    def store(self, folder: str, name: str, content: Content, scratch: Scratch) -> StoredOutput:  # noqa: ARG002
        output, checksum = self._hold(name, content, scratch)
        self._current.append(output)
        return StoredOutput("", output.size, checksum)

    def _hold(self, name: str, content: Content, scratch: Scratch) -> tuple[Member, str]:
        """Hold a content in memory if there is room, otherwise on disk; return it and its checksum."""
        room = self._memory[self._used :]
        path = f"{self._folder()}/{name}"
        in_memory = False
        try:
            size, checksum, in_memory = hold_content(room, path, content, scratch)
            if in_memory:
                self._used += size
                # a view can be written like bytes
                return Member(name, size, cast("bytes", room[:size])), checksum
            with open(path, "rb") as file:
                return Member(name, size, self._put_away(file)), checksum
        finally:
            if not in_memory:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)

    def _put_away(self, source: IO[bytes]) -> FilePart:
        """Hold a content on disk, in the one file that all contents of the batch share."""
        with StorageError.naming(self._folder()):
            self._spool = self._spool or SharedFile.of((), self._folder())
            start = self._spooled
            while block := source.read(READ_AT_ONCE):
                self._spool.write(block, self._spooled)
                self._spooled += len(block)
            return FilePart(self._spool, start, self._spooled - start)

    def _folder(self) -> str:
        if not self._staging:
            self._staging = self._storage.stage(self._batch)
        return self._staging

    def drop_input(self) -> None:
        self._used -= sum(output.size for output in self._current if not isinstance(output.content, FilePart))
        self._current = []

    def keep_input(self, owner: OutputOwner | None = None) -> None:
        """Let the outputs of the current input wait until all inputs before it are written."""
        assert owner is not None  # noqa: S101 - the seam
        self._wait(owner, self._current)
        self._current = []

    def carry(self, owner: OutputOwner, contents: list[bytes]) -> None:
        """Take over the outputs of an input from an older shard, which this batch replaces."""
        rows = [row for row in owner.rows if row[owner.at + CHECKSUM_AT]]
        names = [row[owner.at + NAME_AT] for row in rows]
        pairs = zip(names, contents, strict=True)
        self._wait(owner, [self._hold(name, content, _NO_SCRATCH)[0] for name, content in pairs], new=False)

    def _wait(self, owner: OutputOwner, outputs: list[Member], *, new: bool = True) -> None:
        at, names, types = owner.at, owner.head.names, {"size": "int", **owner.head.types}
        # a row without a checksum has no file
        rows = [row for row in owner.rows if row[at + CHECKSUM_AT]]
        waiting = []
        for index, (output, row) in enumerate(zip(outputs, rows, strict=True)):
            row[at], row[at + NAME_AT], row[at + OFFSET_AT] = "", output.name, ""
            # dataset columns are text
            typed: dict[str, Scalar] = {
                name: _typed(types[name], text) if number >= at and name in types else text
                for number, (name, text) in enumerate(zip(names, row, strict=True))
            }
            if new:
                # an output from an older shard stays, even if it would be refused now
                self._sink.check(typed)
            key = f"{owner.number}-{index:06d}"
            member = output._replace(name=f"{key}.{self._extension(output.name)}")
            waiting.append((ShardSample(key, member, typed), row, at))
        self._waiting[owner.rank] = waiting

    def _extension(self, name: str) -> str:
        extension = ending_of(name)
        if not _PLAIN_EXTENSION.fullmatch(extension):
            return "bin"
        return f"output.{extension}" if extension in self._sink.taken else extension

    # -- into shards -----------------------------------------------------------------------------------------

    def advance(self, rank: int) -> None:
        """Write the waiting samples up to this rank: all inputs up to there are done, failed or skipped."""
        if self._sink.seed is None:
            for ready in sorted(one for one in self._waiting if one <= rank):
                self._write(self._waiting.pop(ready))

    def finish(self) -> None:
        """Write the remaining samples, shuffled if there is a seed; then all names and rows are complete."""
        rest = [one for rank in sorted(self._waiting) for one in self._waiting[rank]]
        self._waiting.clear()
        seed = self._sink.seed
        if seed is not None:
            rest.sort(key=lambda one: xxhash.xxh3_64_intdigest(one[0].key.encode(), seed))
        self._write(rest)
        self._close()

    def _write(self, ready: list[tuple[ShardSample, Row, int]]) -> None:
        for sample, row, at in ready:
            shard = self._shard
            most, most_bytes = self._sink.most_samples, self._sink.most_bytes
            if shard is None or self._count >= most or shard.size + shard.takes(sample) > most_bytes:
                self._close()
                shard = self._shard = self._begin()
            try:
                row[at + OFFSET_AT] = str(shard.add(sample))
            except OSError as error:
                raise StorageError.of(error, self._storage.path(self._names[-1])) from error
            row[at] = f"{self._names[-1]}/{sample.member.name}"
            self._count += 1
        if not (self._waiting or self._current):
            self._used = 0

    def _begin(self) -> NewShard:
        part = f"-{len(self._names)}" if self._names else ""
        name = f"{SHARDS}/shard-{self._group:06d}{part}{self._sink.suffix}"
        final = self._storage.path(name)
        if name not in self._stale and self._storage.exists(name):
            raise StorageError(
                f"{final}: already exists, but no run made it; move it away, then run the same command again"
            )
        self._names.append(name)
        self._count = 0
        path = f"{self._folder()}/{name}"
        with StorageError.naming(final):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            return self._sink.shard(path, name, self._sink)

    def _close(self) -> None:
        if self._shard is not None:
            with StorageError.naming(self._storage.path(self._names[-1])):
                self._shard.close()
            self._shard = None

    def close(self) -> None:
        """Close a shard that was not finished, and leave the memory to the next batch."""
        if self._shard is not None:
            self._shard.discard()
        _free.append(self._memory)

    # -- publishing ------------------------------------------------------------------------------------------

    def names(self) -> list[str]:
        return self._names

    def moves(self) -> list[Move]:
        """Return the shards that `publish` moves, with their final names, sizes and checksums."""
        staged = f"{self._storage.staging}/{self._batch}"
        return [Move(f"{staged}/{name}", name, *measure(f"{self._folder()}/{name}")) for name in self._names]

    def publish(self) -> None:
        if self._names:
            self._storage.publish(f"{self._folder()}/{SHARDS}", self._names)


# -- rows with typed values ----------------------------------------------------------------------------------


def _typed(kind: str, text: str) -> Scalar:
    value: Scalar = VALUES.get(kind, str)(text) if text or kind == "str" else None
    return value


def as_json(row: Mapping[str, Scalar]) -> bytes:
    """Return values by name as JSON; a number that is not finite becomes null."""
    plain = {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in row.items()
    }
    return json_bytes(plain)
