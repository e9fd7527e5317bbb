"""Compare output files and shards with their rows, in one of several processes."""

import io
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import pairwise
from typing import BinaryIO, cast

import numpy as np
import xxhash

from splitter.audio.headers import header_columns, header_fault, header_of
from splitter.errors import SplitterError
from splitter.inputs.pieces import PieceAddress, measure_recording
from splitter.ledger.journal import Journal
from splitter.ledger.list_copy import ListDescription, list_description
from splitter.ledger.records import CHECKSUM_AT, SIZE_AT
from splitter.outputs.pieces import have_virtual, is_virtual, piece_address
from splitter.storage.base import Storage
from splitter.storage.content import READ_AT_ONCE, checksum_of
from splitter.storage.layout import Layout, key_hash, shard_of
from splitter.text.csv import Row
from splitter.text.show import show_count
from splitter.verification.findings import OF_NO_ROW, Finding
from splitter.verification.shards import check_shard

# opening a file takes as long as reading this many bytes
FILE_BYTES = 1 << 15


@dataclass
class CheckResult:
    """What one process found out about some outputs.

    Attributes:
        names: The hashes of the names of the files.
        outputs: How many outputs were read.
        bytes: How many bytes these have.
        findings: What is wrong.
        shards: For each shard, the positions of the entries that are in it.
        dropped: How many outputs were kept only until they were used.
    """

    names: np.ndarray = field(default_factory=lambda: np.empty(0, "u8"))
    outputs: int = 0
    bytes: int = 0
    findings: list[Finding] = field(default_factory=list)
    shards: dict[str, list[int]] = field(default_factory=dict)
    dropped: int = 0


# how many outputs were checked, their bytes if they can be read, and what is wrong
_Checked = tuple[int, int | None, Finding | None]


@dataclass(frozen=True)
class OutputChecks:
    """Checks of the outputs of some entries.

    Attributes:
        storage: The output folder.
        journal: Its commit records.
        entries: The entries: first those that are done, then those that have no rows in the manifest.
        done: How many of them are done.
        may_be_dropped: Whether files are kept only until they are used.
    """

    storage: Storage
    journal: Journal
    entries: np.ndarray
    done: int
    may_be_dropped: bool

    def blocks(self) -> list[tuple[int, int]]:
        """Return ranges of the entries, each of which takes about the same time to check."""
        entries = self.journal.entries[self.entries]
        work = entries["bytes"].astype("i8") + entries["outputs"].astype("i8") * FILE_BYTES
        cuts = np.flatnonzero(np.diff(np.cumsum(work) // self.storage.look_at_once)) + 1
        bounds = [0, *cuts.tolist(), len(entries)]
        return [(start, stop) for start, stop in pairwise(bounds) if start < stop]

    def check_block(self, block: tuple[int, int]) -> CheckResult:
        """Read the loose files of some entries, and find out which shards the entries are in."""
        result, names = CheckResult(), list[str]()
        checks = self._checks(block, names, result.shards)
        with closing(self.storage.of_each_output(lambda check: check(), checks)) as checked:
            for outputs, size, finding in checked:
                if size is not None:
                    result.outputs += outputs
                    result.bytes += size
                if finding and finding.kind == "missing" and self.may_be_dropped:
                    result.dropped += 1
                elif finding:
                    result.findings.append(finding)
        result.names = name_hashes(names)
        return result

    def check_shard(self, shards: dict[str, list[int]], shard: str) -> CheckResult:
        """Read a shard, with all outputs in it."""
        result, indices = CheckResult(), shards[shard]

        def find(kind: str, file: str, message: str) -> None:
            result.findings.append(self._finding(min(indices), kind, file, message))

        try:
            result.outputs, result.bytes = check_shard(
                self.storage, self.journal, shard, self.entries[indices], find
            )
        except FileNotFoundError:
            find("missing", shard, "does not exist")
        except OSError as error:
            find("unreadable", shard, f"cannot be read: {reason_of(error)}")
        return result

    def _finding(self, index: int, kind: str, file: str, message: str) -> Finding:
        if index < self.done:
            return Finding(kind, file, message)
        return Finding("left", file, f"{message}; {OF_NO_ROW}")

    def _checks(
        self, block: tuple[int, int], names: list[str], shards: dict[str, list[int]]
    ) -> Iterator[Callable[[], _Checked]]:
        """Yield a check of each loose file of some entries, and of each recording with virtual pieces.

        Add the names of all files to `names`, and the entries in each shard to `shards`.
        """
        for index, (head, rows) in enumerate(
            self.journal.rows_of_each(self.entries[slice(*block)]), block[0]
        ):
            at, sound = len(head.columns), header_columns(head)
            if have_virtual(head.keys):
                named = [dict(zip(head.names, row, strict=True)) for row in rows]
                virtual = [row for row in named if is_virtual(row)]
                if virtual:
                    piece = piece_address(virtual[0], self._listed.column)
                    yield partial(self._check_recording, index, piece, len(virtual))
                    # an input with virtual pieces has no other outputs
                    continue
            for row in rows:
                if len(row) <= at or not row[at]:
                    continue
                shard, _ = shard_of(row[at])
                names.append(shard or row[at])
                if not shard:
                    yield partial(self._check_file, index, row, at, sound)
                    continue
                indices = shards.setdefault(shard, [])
                if not indices or indices[-1] != index:
                    indices.append(index)

    @cached_property
    def _listed(self) -> ListDescription:
        return list_description(self.storage)

    def _check_recording(self, index: int, piece: PieceAddress, pieces: int) -> _Checked:
        """Read a recording to its end."""
        lost, fault = f"{show_count(pieces, 'virtual piece')} cannot be read", ""
        size: int | None = None
        try:
            size, found = measure_recording(Layout(self._listed.root).location(piece.listed))
        except (OSError, SplitterError) as error:
            fault = f"cannot be read, so {lost}: {error}"
        else:
            if (size, found) != (piece.size, piece.checksum):
                had = f"{found} of {size:,} bytes where the manifest says {piece.checksum} of {piece.size:,}"
                fault = f"has changed, so {lost}: it has the checksum {had}"
        return pieces, size, self._finding(index, "source", piece.listed, fault) if fault else None

    def _check_file(self, index: int, row: Row, at: int, sound: tuple[tuple[str, int], ...]) -> _Checked:
        """Read a loose file to its end."""
        size, fault = self._fault(row, at, sound)
        return 1, size, fault and self._finding(index, fault[0], row[at], fault[1])

    def _fault(
        self, row: Row, at: int, sound: tuple[tuple[str, int], ...]
    ) -> tuple[int | None, tuple[str, str] | None]:
        """Return the size of a file, if it can be read, and what is wrong with it."""
        name, size, checksum = row[at], row[at + SIZE_AT], row[at + CHECKSUM_AT]
        if not size.isdecimal():
            return None, ("record", "is not what a run could have committed: its commit record is damaged")
        there = None
        try:
            with self.storage.open_output(name) as file:
                start, there, found = _read(file)
                if there != int(size):
                    return there, ("size", f"has {there:,} bytes where the manifest says {int(size):,}")
                if found != checksum:
                    return there, ("checksum", f"has the checksum {found} where the manifest says {checksum}")
                header = header_of(name, start, there, cast("BinaryIO", file)) if sound else None
        except FileNotFoundError:
            return there, ("missing", "does not exist")
        except OSError as error:
            return there, ("unreadable", f"cannot be read: {reason_of(error)}")
        return there, header_fault(header, row, sound) if header else None


def _read(file: io.RawIOBase) -> tuple[memoryview, int, str]:
    """Return the first bytes, the size and the checksum of a file."""
    digest, buffer, size = xxhash.xxh3_128(), _buffer.view, 0
    while count := file.readinto(buffer[min(size, READ_AT_ONCE) :]):
        block = buffer[min(size, READ_AT_ONCE) :][:count]
        digest.update(block)
        size += count
    return buffer[: min(size, READ_AT_ONCE)], size, checksum_of(digest)


class _Buffer(threading.local):
    """Memory of each thread: first for the beginning of a file, then for each later part in turn."""

    def __init__(self) -> None:
        self.view = memoryview(bytearray(2 * READ_AT_ONCE))


_buffer = _Buffer()


def reason_of(error: OSError) -> str:
    """Return the system's own message for an error."""
    return error.strerror or str(error)


def name_hashes(names: Iterable[str]) -> np.ndarray:
    """Return the hash of each name."""
    return np.fromiter(map(key_hash, names), "u8")
