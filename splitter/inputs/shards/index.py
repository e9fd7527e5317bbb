"""Shards that hold inputs: what is known about each, and where each input is."""

import contextlib
import io
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Literal, NamedTuple, cast

import numpy as np

from splitter.archives.members import PIECE
from splitter.archives.row_groups import TooMuchMemory
from splitter.errors import Refused, UnreadableInput
from splitter.inputs.locations import look_at
from splitter.sorted_arrays import index_in_sorted
from splitter.storage.layout import key_hash
from splitter.stores.clients import client
from splitter.stores.faults import reason
from splitter.stores.files import Found, RangeFile, open_remote
from splitter.text.urls import is_url, without_secrets

Kind = Literal["tar", "gzip", "parquet", "arrow", "items", "pieces"]

# of each input, its name in the shard, its start, size and labels, and what is wrong with it
FoundRow = tuple[str, int, int, dict[str, str], str]

# what to do about a row without bytes
EMBED = "embed its bytes, or leave the row out"
LONGEST_LABEL = 1 << 16
_READ_AT_ONCE = 1 << 14
FIELDS_SHOWN = 8
# multiplying by this odd number spreads the starts of members over all bits
_SPREAD = np.uint64(0x9E3779B97F4A7C15)


class InputShard(NamedTuple):
    """An archive, a table file or a dataset object that holds inputs, or a recording with pieces.

    Attributes:
        location: Its path, or its URL.
        kind: How it is read.
        found: Its size and version when the list was read.
        whole: Whether it must be fetched as a whole, if it is at a URL.
        column: In Parquet and Arrow, the column of the contents; of items, the number of the dataset object;
            of pieces, the column of the list that says how to cut.
        cuts: The rows at which the row groups of Parquet begin.
        checksum: The checksum of a recording, from which its version is made.
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
        """Return the name that messages use."""
        return without_secrets(self.location)


class MemberLocation(NamedTuple):
    """The location of an input in a shard.

    Attributes:
        shard: The shard.
        start: The byte at which its content begins, after decompression; or its row or item.
        size: The size of its content in bytes; approximate in Parquet.
    """

    shard: InputShard
    start: int
    size: int


# -- a look at a shard --------------------------------------------------------------------------------------


@dataclass
class ShardScan:
    """What a look at a shard has found.

    Attributes:
        shard: The shard, and how to read it.
        rows: For each input, its name in the shard, start, size, labels, and what is wrong with it.
        not_text: The fields that did not become columns, and how often each occurs.
        without: How many samples have no input, such as those without the fields that --member names.
        instead: The fields of the first of these samples.
        cut: Whether the shard could not be read to its end.
    """

    shard: InputShard
    rows: list[FoundRow] = field(default_factory=list)
    not_text: Counter[str] = field(default_factory=Counter)
    without: int = 0
    instead: tuple[str, ...] = ()
    cut: bool = False


def state_of(location: str) -> Found:
    """Return the size and the version of a shard; refuse one that cannot be looked at."""
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
    """Open a file, whose read errors are raised as faults: they do not mean that its content is damaged."""
    file = open(path, "rb", buffering=0)  # noqa: SIM115 - closed with what is returned

    def read_at(position: int, size: int) -> bytes:
        try:
            return os.pread(file.fileno(), size, position)
        except OSError as error:
            raise fault(error) from error

    return RangeFile(read_at, lambda: os.fstat(file.fileno()).st_size, close=file.close)


def open_parquet(location: str, file: BinaryIO) -> Any:  # noqa: ANN401 - pyarrow says nothing of its types
    """Open a Parquet file; raise an error that names it if it is not one."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        # with a buffer, a row group is read piece by piece
        return pq.ParquetFile(file, pre_buffer=False, buffer_size=PIECE)
    except (pa.ArrowException, ValueError) as error:
        raise UnreadableInput(f"{without_secrets(location)}: is not Parquet ({plain(error)})") from None


@contextlib.contextmanager
def naming_table(name: str, kind: str = "Parquet", remedy: str = "create it again") -> Iterator[None]:
    """Refuse a table file, by its name, that turns out to be damaged or too large."""
    import pyarrow as pa

    try:
        yield
    except TooMuchMemory as error:
        raise Refused(f"{name}: {error}; {error.remedy}") from None
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        raise Refused(f"{name}: is damaged {kind} ({plain(error)}); {remedy}") from None


def no_column(name: str, column: str) -> Refused:
    """Return the refusal of a table file without the column of contents."""
    return Refused(f"{name}: has no column {column!r}, but the first file has")


def refuse_same_columns(names: Sequence[str], name: str) -> None:
    """Refuse a table file with two columns of the same name."""
    twice = next((one for one in names if names.count(one) > 1), None)
    if twice is not None:
        raise Refused(f"{name}: has two columns {twice!r}; rename one")


def is_kind(kind: Any, *names: str) -> bool:  # noqa: ANN401 - pyarrow says nothing of its types
    """Return whether an Arrow type is one of these, such as struct; older releases lack some types."""
    import pyarrow as pa

    tests = (getattr(pa.types, f"is_{name}", None) for name in names)
    return any(test is not None and test(kind) for test in tests)


def plain(error: Exception) -> str:
    """Return the message of an error of Arrow, on one line."""
    return " ".join(str(error).split())


# -- what the driver knows of all members -------------------------------------------------------------------


class MemberIndex:
    """All inputs in shards: a few numbers for each, found by its path or URL.

    Attributes:
        shards: The shards, in the order of the source.
        faults: Why an input cannot be read, by its position here.
        unread: The names of shards that could not be read to their end.
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
        """Add the inputs of a shard, with a path or URL for each.

        `versions` are numbers that change when an input changes; by default, all change with the shard.
        """
        self.faults.update((self._count + at, row[4]) for at, row in enumerate(found.rows) if row[4])
        begin = np.array([row[1] for row in found.rows], "u8")
        sizes = np.array([row[2] for row in found.rows], "i8")
        version = np.uint64(key_hash(f"{found.shard.found.size} {found.shard.found.changed}"))
        # like the time of a file, this shows whether an input has changed
        changed = ((version + begin * _SPREAD) >> np.uint64(1)).astype("i8")
        if versions is not None:
            changed = np.array(versions, "i8")
        hashes = np.fromiter(map(key_hash, locations), "u8", len(locations))
        of_shard = np.full(len(locations), len(self.shards), "i4")
        self._pieces.append((hashes, of_shard, begin.astype("i8"), sizes, changed))
        self.shards.append(found.shard)
        self._count += len(locations)

    def in_order(self) -> "MemberIndex":
        """Sort the inputs, which `find` needs, and return this index."""
        columns = tuple(np.concatenate(column) for column in zip(*self._pieces, strict=True))
        self._pieces = [columns]
        hashes, self.shard_of, self.starts, self.sizes, self.changed = columns
        self._order = np.argsort(hashes, kind="stable").astype("i4")
        self._hashes = hashes[self._order]
        return self

    def find(self, locations: Sequence[Any]) -> np.ndarray:
        """Return the position of each input here, by its path or URL; -1 for one that is not in a shard."""
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
        """Return where an input is; None if it cannot be read, or is not in a shard."""
        if position < 0 or position in self.faults:
            return None
        shard = self.shards[self.shard_of[position]]
        return MemberLocation(shard, int(self.starts[position]), int(self.sizes[position]))
