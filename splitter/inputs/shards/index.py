"""Shards that hold inputs: what is known of each, and where each input is."""

import contextlib
import io
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Literal, NamedTuple, cast

import numpy as np

from splitter.archives.members import PIECE
from splitter.errors import Refused, UnreadableInput
from splitter.inputs.locations import look_at
from splitter.sorted_arrays import index_in_sorted
from splitter.storage.layout import key_hash
from splitter.stores.clients import client
from splitter.stores.faults import reason
from splitter.stores.files import Found, RangeFile, open_remote
from splitter.text.urls import is_url, without_secrets

Kind = Literal["tar", "gzip", "parquet", "arrow", "items", "pieces"]

# what each input is called in its shard, where it is, its size and labels, and what is wrong with it
FoundRow = tuple[str, int, int, dict[str, str], str]

LONGEST_LABEL = 1 << 16
_READ_AT_ONCE = 1 << 14
FIELDS_SHOWN = 8
# an odd number spreads the starts of members over all bits
_SPREAD = np.uint64(0x9E3779B97F4A7C15)


class InputShard(NamedTuple):
    """An archive, a file of a table or a dataset object that holds inputs, or a recording with pieces.

    Attributes:
        location: Its path, or its URL.
        kind: How it is read.
        found: Its size and version, as the survey found it.
        whole: Whether it must be fetched as a whole, if it is at a URL.
        column: In Parquet, the column of the contents; of items, the number of the dataset object; of pieces,
            the column of the list that says how to cut.
        cuts: The rows at which the row groups of Parquet begin.
        checksum: Of a recording; its version stands for it, too.
    """

    location: str
    kind: Kind
    found: Found
    whole: bool = False
    column: str = ""
    cuts: tuple[int, ...] = ()
    checksum: str = ""

    @property
    def name(self) -> str:
        """Return what messages call it."""
        return without_secrets(self.location)


class MemberLocation(NamedTuple):
    """Where an input is.

    Attributes:
        shard: What it stands in.
        start: The byte at which its content begins, in the unpacked archive; or its row.
        size: The bytes of its content; about as many, in Parquet.
    """

    shard: InputShard
    start: int
    size: int


# -- a look at a shard --------------------------------------------------------------------------------------


@dataclass
class ShardScan:
    """What a look at a shard has found.

    Attributes:
        shard: How it is to be read.
        rows: For each input its name in the shard, start, size, labels, and what is wrong with it.
        not_text: Fields that are no columns, and how often.
        without: How many samples have none of the fields that are asked for.
        instead: The fields of the first of these.
        cut: Whether it could not be read to its end.
    """

    shard: InputShard
    rows: list[FoundRow] = field(default_factory=list)
    not_text: Counter[str] = field(default_factory=Counter)
    without: int = 0
    instead: tuple[str, ...] = ()
    cut: bool = False


def state_of(location: str) -> Found:
    """Return the size and the version of a shard; one that cannot be looked at is refused."""
    try:
        return look_at(location)
    except UnreadableInput as error:
        raise Refused(str(error)) from None
    except OSError as error:
        raise Refused(f"{location}: cannot be read: {error.strerror or error}") from None


@contextlib.contextmanager
def open_shard(location: str) -> Iterator[BinaryIO]:
    """Open a shard at a path or a URL; refuse one that cannot be read."""

    def fault(error: Exception) -> Refused:
        return Refused(f"{without_secrets(location)}: cannot be read: {reason(error)}")

    raw: Any
    try:
        raw = open_remote(*client(location), fault) if is_url(location) else _local(location, fault)
    except OSError as error:
        raise fault(error) from None
    with raw, io.BufferedReader(raw, _READ_AT_ONCE) as reader:
        yield cast("BinaryIO", reader)


def _local(path: str, fault: Callable[[Exception], Exception]) -> RangeFile:
    """Open a file; that it cannot be read says nothing of what is in it."""
    file = open(path, "rb", buffering=0)  # noqa: SIM115 - closed with what is returned

    def read_at(position: int, size: int) -> bytes:
        try:
            return os.pread(file.fileno(), size, position)
        except OSError as error:
            raise fault(error) from error

    return RangeFile(read_at, lambda: os.fstat(file.fileno()).st_size, close=file.close)


def open_parquet(location: str, file: BinaryIO) -> Any:  # noqa: ANN401 - pyarrow says nothing of its types
    """Open a Parquet file; what is none is an error that names it."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        # with a buffer a row group is read piece by piece
        return pq.ParquetFile(file, pre_buffer=False, buffer_size=PIECE)
    except (pa.ArrowException, ValueError) as error:
        raise UnreadableInput(f"{without_secrets(location)}: is not Parquet ({plain(error)})") from None


def is_kind(kind: Any, *names: str) -> bool:  # noqa: ANN401 - pyarrow says nothing of its types
    """Return whether a type of Arrow is one of these, such as struct; not all are as old as others."""
    import pyarrow as pa

    tests = (getattr(pa.types, f"is_{name}", None) for name in names)
    return any(test is not None and test(kind) for test in tests)


def plain(error: Exception) -> str:
    """Return what Arrow says, in one line."""
    return " ".join(str(error).split())


# -- what the driver knows of all members -------------------------------------------------------------------


class MemberIndex:
    """All inputs that stand in shards: a few numbers for each, found by what the list calls it.

    Attributes:
        shards: In the order of the source.
        faults: Why an input cannot be read, by its position here.
        unread: Shards that could not be read to their end.
    """

    def __init__(self) -> None:
        self.shards: list[InputShard] = []
        self.faults: dict[int, str] = {}
        self.unread: list[str] = []
        self._pieces = [tuple(np.empty(0, kind) for kind in ("u8", "i4", "i8", "i8", "i8"))]
        self._count = 0
        self.in_order()

    def __len__(self) -> int:
        return self._count

    def add(self, found: ShardScan, locations: Sequence[str], versions: Sequence[int] | None = None) -> None:
        """Note the inputs of a shard, with the path or URL that stands for each.

        `versions` are numbers that tell whether each is what it was; by default the shard tells.
        """
        self.faults.update((self._count + at, row[4]) for at, row in enumerate(found.rows) if row[4])
        begin = np.array([row[1] for row in found.rows], "u8")
        sizes = np.array([row[2] for row in found.rows], "i8")
        version = np.uint64(key_hash(f"{found.shard.found.size} {found.shard.found.changed}"))
        # as a file's time, it tells whether an input is what it was
        changed = ((version + begin * _SPREAD) >> np.uint64(1)).astype("i8")
        if versions is not None:
            changed = np.array(versions, "i8")
        hashes = np.fromiter(map(key_hash, locations), "u8", len(locations))
        of_shard = np.full(len(locations), len(self.shards), "i4")
        self._pieces.append((hashes, of_shard, begin.astype("i8"), sizes, changed))
        self.shards.append(found.shard)
        self._count += len(locations)

    def in_order(self) -> "MemberIndex":
        """Make ready for questions."""
        columns = tuple(np.concatenate(column) for column in zip(*self._pieces, strict=True))
        self._pieces = [columns]
        hashes, self.shard_of, self.starts, self.sizes, self.changed = columns
        self._order = np.argsort(hashes, kind="stable").astype("i4")
        self._hashes = hashes[self._order]
        return self

    def find(self, locations: Sequence[Any]) -> np.ndarray:
        """Return the position of each input here, by its path or URL; -1 for what is not in a shard."""
        found = np.full(len(locations), -1, "i4")
        if len(self._hashes):
            hashes = np.fromiter(map(key_hash, locations), "u8", len(locations))
            at = index_in_sorted(self._hashes, hashes)
            found[at >= 0] = self._order[at[at >= 0]]
        return found

    def found(self, position: int) -> Found:
        """Return the size of an input, and a number for its version."""
        return Found(int(self.sizes[position]), int(self.changed[position]))

    def location(self, position: int) -> MemberLocation | None:
        """Return where an input is; None for one that cannot be read, or that stands in no shard."""
        if position < 0 or position in self.faults:
            return None
        shard = self.shards[self.shard_of[position]]
        return MemberLocation(shard, int(self.starts[position]), int(self.sizes[position]))
