"""Inputs in shards, as a worker reads them: each shard in sequence, from one open file.

A member is written to a file in scratch space when its path is asked for; the file is removed when the input
is done.
"""

import bisect
import gzip
import io
import os
import shutil
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO

from splitter.archives.members import HELD_BYTES, PIECE, FilePart, SharedFile
from splitter.archives.row_groups import row_batches
from splitter.errors import InputError, UnreadableInput
from splitter.inputs.fetching import Fetcher, RemoteInput
from splitter.inputs.item_content import divided, encoded, reason_of
from splitter.inputs.locations import look_at
from splitter.inputs.pieces import PieceAddress, PieceCutter
from splitter.inputs.shards.index import EMBED, InputShard, MemberLocation, is_kind, open_parquet, plain
from splitter.records import InputFile, Scratch
from splitter.storage.layout import Layout
from splitter.text.urls import LONGEST_NAME, is_url

HELD_ROWS_BYTES, MOST_HELD_ROWS = 16 << 20, 1024
# before a member of this size is decompressed into scratch space, the free space is checked
LARGE = 64 << 20


class MemberFile(InputFile):
    """An input in a shard, which becomes a file when its path is asked for.

    Attributes:
        held: Its content, or where the content is; None once it is a file.
    """

    held: bytes | FilePart | None = None

    @property
    def local_path(self) -> str:
        """Return the path of a file with the content."""
        # `local_path` of the tuple: where the file is, or will be
        path = self[1]
        if self.held is not None:
            _write(path, [self.held] if isinstance(self.held, bytes) else self.held.pieces())
            self.held = None
        return path

    def open(self) -> BinaryIO:
        if self.held is None or (isinstance(self.held, FilePart) and self.held.size > HELD_BYTES):
            return super().open()
        return io.BytesIO(self.read_bytes())

    def read_bytes(self) -> bytes:
        if self.held is None:
            return super().read_bytes()
        return self.held if isinstance(self.held, bytes) else self.held.read()


def _write(path: str, pieces: Iterable[bytes]) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb", buffering=0) as file:
        for piece in pieces:
            left = memoryview(piece)
            while left:
                left = left[file.write(left) :]


class MemberFiles:
    """The members that a worker reads, with one shard open at a time."""

    def __init__(self, scratch: Scratch, fetcher: Fetcher, items: Sequence[Any] = ()) -> None:
        """Write members to `scratch`; have members and shards at URLs fetched first.

        `items` are the dataset objects.
        """
        self._scratch, self._fetcher, self._items = scratch, fetcher, items
        self._reader: _ShardReader | None = None
        self._numbers: dict[InputShard, int] = {}
        self._cutter = PieceCutter(Layout("/"), folder=lambda: scratch.path)

    def begin(self, members: Mapping[int, MemberLocation], first: int) -> dict[int, RemoteInput]:
        """Return the files to fetch for a batch: members by their index, shards by numbers from `first`."""
        self._numbers = {}
        wanted = {}
        for span, one in members.items():
            shard = one.shard
            if shard.kind == "pieces":
                continue
            if is_url(shard.location) and not shard.whole:
                wanted[span] = RemoteInput(shard.location, shard.found, (one.start, one.size))
            elif is_url(shard.location):
                number = self._numbers.setdefault(shard, first + len(self._numbers))
                wanted[number] = RemoteInput(shard.location, shard.found)
        return wanted

    def take(self, listed: InputFile, number: int, span: MemberLocation) -> InputFile:
        """Return an input with its content; `number` is its index in the batch."""
        shard = span.shard
        if is_url(shard.location) and not shard.whole and shard.kind != "pieces":
            fetched = self._fetcher.take(number).path
            path = f"{os.path.dirname(fetched)}/{_file_name(listed.input)}"
            os.rename(fetched, path)
            return listed._replace(local_path=path)
        path = f"{self._scratch.path}/{number}/{_file_name(listed.input)}"
        member = MemberFile(listed.input, path, listed.columns, listed.rows, listed.scratch_folder)
        if shard.kind == "pieces":
            cut = listed.columns[shard.column]
            piece = PieceAddress(shard.location, cut, shard.found.size, shard.checksum)
            member.held = self._cutter.read(piece)
        else:
            member.held = self._content(span, path)
        if isinstance(member.held, bytes) and len(member.held) > HELD_BYTES:
            _write(path, [member.held])
            member.held = None
        return member

    def _content(self, span: MemberLocation, path: str) -> bytes | FilePart | None:
        try:
            if self._reader is None or self._reader.shard != span.shard:
                self._let_go()
                self._reader = self._opened(span.shard)
            return self._reader.content(span, path)
        except InputError:
            raise
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            self._let_go()
            raise UnreadableInput(f"{span.shard.name}: is damaged: {error}") from None
        except OSError:
            # after an error, the position in the stream is not reliable
            self._let_go()
            raise

    def _opened(self, shard: InputShard) -> "_ShardReader":
        """Open a shard; raise an error if it is gone, or has changed since the run began."""
        path = shard.location
        if shard.kind == "items":
            return _Items(shard, self._items[int(shard.column)])
        if is_url(path):
            fetched = self._fetcher.take(self._numbers[shard])
            path, now = fetched.path, fetched.found
        else:
            now = look_at(path)
        if now != shard.found:
            raise UnreadableInput(
                f"{shard.name}: has changed since the run began; run the same command again"
            )
        return _READERS[shard.kind](shard, path)

    def drop(self, number: int) -> None:
        """Remove the file of an input that is done."""
        folder = f"{self._scratch.path}/{number}"
        if os.path.exists(folder):
            shutil.rmtree(folder, ignore_errors=True)

    def close(self) -> None:
        """Close all shards and recordings, and remove all files."""
        self._let_go()
        self._cutter.close()
        self._scratch.remove()

    def _let_go(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None


def _file_name(listed: str) -> str:
    """Return a file name for a member; one that is too long loses its beginning."""
    name = listed.rpartition("/")[2]
    encoded = os.fsencode(name)
    return name if len(encoded) <= LONGEST_NAME else os.fsdecode(encoded[-LONGEST_NAME:])


# -- shards of each kind ------------------------------------------------------------------------------------


class _ShardReader(ABC):
    """An open shard."""

    def __init__(self, shard: InputShard, path: str) -> None:
        """Open the shard at a local path."""
        self.shard = shard
        self._raw = open(path, "rb", buffering=0)  # noqa: SIM115 - closed by close()

    @abstractmethod
    def content(self, span: MemberLocation, path: str) -> bytes | FilePart | None:
        """Return the content of a member, or where it is; None if it is large and was written to `path`."""

    def close(self) -> None:
        self._raw.close()


class _Tar(_ShardReader):
    """An uncompressed archive, or an Arrow file, whose members are read in place."""

    def __init__(self, shard: InputShard, path: str) -> None:
        super().__init__(shard, path)
        # stays open as long as a member is in use
        self._file = SharedFile(os.dup(self._raw.fileno()))

    def content(self, span: MemberLocation, path: str) -> bytes | FilePart | None:  # noqa: ARG002 - the seam's signature
        return FilePart(self._file, span.start, span.size)


class _Packed(_ShardReader):
    """A compressed archive, read forward; to go back, it is decompressed from the start."""

    def __init__(self, shard: InputShard, path: str) -> None:
        super().__init__(shard, path)
        self._begin()

    def _begin(self) -> None:
        self._raw.seek(0)
        self._file, self._at = gzip.GzipFile(fileobj=self._raw, mode="rb"), 0

    def content(self, span: MemberLocation, path: str) -> bytes | FilePart | None:
        if span.start < self._at:
            self._begin()
        for _ in self._pieces(span.start - self._at):
            pass
        if span.size <= HELD_BYTES:
            return b"".join(self._pieces(span.size))
        _refuse_what_has_no_room(span, path)
        _write(path, self._pieces(span.size))
        return None

    def _pieces(self, size: int) -> Iterator[bytes]:
        while size:
            piece = self._file.read(min(size, PIECE))
            if not piece:
                raise EOFError("it has become shorter")
            self._at += len(piece)
            size -= len(piece)
            yield piece


def _refuse_what_has_no_room(span: MemberLocation, path: str) -> None:
    """Refuse a member that scratch space cannot hold: a compressed member may expand to any size."""
    if span.size < LARGE:
        return
    free = shutil.disk_usage(os.path.dirname(os.path.dirname(path))).free
    if span.size > free:
        raise UnreadableInput(
            f"{span.shard.name}: the member takes {span.size:,} bytes, but scratch space has only {free:,}"
        )


class _Parquet(_ShardReader):
    """A Parquet file whose rows hold contents: read row group by row group, a few rows at a time."""

    def __init__(self, shard: InputShard, path: str) -> None:
        super().__init__(shard, path)
        self._file = open_parquet(shard.location, self._raw)
        kind = self._file.schema_arrow.field(shard.column).type
        # of a struct, only the bytes are read
        self._column = f"{shard.column}.bytes" if is_kind(kind, "struct") else shard.column
        self._rows: Any = None
        self._batches: Iterator[Any] = iter(())
        self._first = self._next = 0

    def content(self, span: MemberLocation, path: str) -> bytes:  # noqa: ARG002 - the seam's signature
        import pyarrow as pa

        row = span.start
        try:
            self._go_to_past_damage(row, span.size)
        except (pa.ArrowException, ValueError, OSError) as error:
            # the batches cannot be continued after an error
            self._rows = None
            if isinstance(error, OSError) and error.errno is not None:
                raise
            raise UnreadableInput(f"{span.shard.name}: is damaged Parquet ({plain(error)})") from None
        value = self._rows.column(0)[row - self._first].as_py()
        content: bytes | None = value["bytes"] if isinstance(value, dict) else value
        if content is None:
            what = f"row {row} has no bytes in {self.shard.column!r}"
            raise UnreadableInput(f"{span.shard.name}: {what}; {EMBED}")
        return content

    def _go_to_past_damage(self, row: int, size: int) -> None:
        """Go to a row, even if there is damage in later row groups."""
        try:
            self._go_to(row, size)
        except Exception:  # noqa: BLE001 - it is raised again if it concerns this row
            self._rows = None
            self._go_to(row, size, groups=1)

    def _go_to(self, row: int, size: int, groups: int | None = None) -> None:
        """Read on until `_rows` includes a row.

        Rows are read in sequence to the end of the file, or of `groups` row groups.
        """
        group = self._group_of(row)
        if self._rows is None or row < self._first or group > self._group_of(self._next - 1):
            self._first = self._next = self.shard.cuts[group]
            chosen = range(self._file.num_row_groups)[group:][:groups]
            rows = max(1, min(MOST_HELD_ROWS, HELD_ROWS_BYTES // max(1, size)))
            self._batches = row_batches(self._file, [self._column], rows, chosen)
        while row >= self._next:
            self._rows = next(self._batches)
            self._first, self._next = self._next, self._next + len(self._rows)

    def _group_of(self, row: int) -> int:
        return bisect.bisect_right(self.shard.cuts, row) - 1

    def close(self) -> None:
        self._file.close()
        super().close()


class _Items(_ShardReader):
    """A dataset object."""

    def __init__(self, shard: InputShard, source: Any) -> None:  # noqa: ANN401 - what a user has
        self.shard, self._source = shard, source

    def content(self, span: MemberLocation, path: str) -> bytes | FilePart | None:
        name = f"item {span.start} of {span.shard.name}"
        try:
            ending, content = encoded(divided(self._source[span.start], None)[0])
        except Exception as error:
            raise UnreadableInput(f"{name}: {reason_of(error)}") from error
        if not path.endswith(ending):
            raise UnreadableInput(f"{name}: is of another kind each time it is read; fix the dataset")
        return content

    def close(self) -> None:
        """Leave the object to its owner."""


_READERS: dict[str, type[_ShardReader]] = {"tar": _Tar, "gzip": _Packed, "parquet": _Parquet, "arrow": _Tar}
