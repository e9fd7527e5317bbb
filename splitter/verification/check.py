"""`splitter verify`: whether everything that runs left in an output folder is present and unchanged.

    commit records ── manifest.csv, errors.csv     must be what would be written from them
                   ├─ output files                 must be there and whole, and nothing else
                   └─ the kept dataset list        each of its inputs must be accounted for

The commit records are the truth. Nothing is written, no lock is taken, and nobody is kept waiting.
"""

import io
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import islice, pairwise
from typing import TYPE_CHECKING, BinaryIO, cast

import numpy as np
import xxhash

from splitter.audio.headers import header_columns, header_fault, header_of
from splitter.errors import Refused, StorageError
from splitter.ledger.journal import Journal
from splitter.ledger.manifest import ERRORS, MANIFEST, SCHEMA, ManifestTables
from splitter.ledger.records import DONE, FAILED, NOT_DONE, SKIPPED, STALE
from splitter.ledger.run_files import listed_inputs, stored_list
from splitter.ledger.status import InputStatus
from splitter.ledger.tables import OTHER_TABLES, checksums_of_others
from splitter.options import OTHERS
from splitter.storage.base import Storage
from splitter.storage.content import checksum_of
from splitter.storage.layout import OWN_FOLDER, file_with, folders_around, key_hash, shard_of
from splitter.system.pool import in_processes
from splitter.system.temporary_folders import NoTemporarySpace, sweep
from splitter.text.content_types import REPORT
from splitter.text.csv import Row, parse_rows
from splitter.verification.findings import CHANGED, LEFT, RUN_AGAIN, SAMPLES_WITHOUT_ROWS, Finding, Verdict
from splitter.verification.own_files import OwnFiles

if TYPE_CHECKING:
    from splitter.verification.shards import Reshard

from splitter.verification.table_differences import (
    MAKE_TABLES,
    READ_AT_ONCE,
    blocks_of,
    has_same_bytes,
    hashes_of_lines,
    numbers_only_in,
    pick_lines,
    row_differences,
)

# a file counts as many bytes as could be read while it is opened
FILE_BYTES = 1 << 15
NAMES_AT_ONCE = 20_000


def nothing(_: Finding) -> None:
    """Tell nobody."""


class Verification:
    """One verification of an output folder."""

    def __init__(
        self,
        storage: Storage,
        *,
        workers: int | None = None,
        tell: Callable[[Finding], None] = nothing,
        journal: Journal | None = None,
    ) -> None:
        """Use as many processes as there are CPUs, or `workers`; `tell` hears each finding as it is made.

        The journal is given where it is loaded already.
        """
        self.storage, self.workers, self._tell = storage, workers, tell
        self.verdict = Verdict(storage.root)
        self.journal = journal or Journal(storage)
        self._own = OwnFiles(storage, self.journal)
        # the hashes of the names that may be there
        self._known: list[np.ndarray] = []
        # the entries that are looked at, of which the first so many are done, and for each shard the places
        # of those that are in it
        self._entries, self._done = np.empty(0, "i8"), 0
        self._shards: dict[str, list[int]] = {}

    def run(self, deep: Callable[[], "Deeper"] | None = None) -> Verdict:
        """Look at everything; what `deep` gives, before that, then looks at the inputs that are done."""
        began = time.monotonic()
        if not self.storage.is_output():
            raise Refused(f"{self.storage.root}: is not a splitter output folder; give the --output of a run")
        at_work, before = self.storage.users()
        if at_work:
            raise Refused(f"{self.storage.root}: is in use by {at_work}; verify it when that has ended")
        deeper = None
        # what is damaged of the run's own is told when that is looked at
        with suppress(StorageError):
            deeper = deep() if deep else None
        try:
            self._look(deeper)
        except NoTemporarySpace:
            raise
        except StorageError as error:
            self.find("record", OWN_FOLDER, str(error))
        if self.storage.users() != ("", before):
            raise Refused(
                f"{self.storage.root}: a run has begun there meanwhile; verify it when that has ended"
            )
        self.verdict.seconds = time.monotonic() - began
        return self.verdict

    def damaged_files(self, input_status: InputStatus, header: Row) -> set[str]:
        """The outputs and shards of inputs that are done and that are not what was written."""
        self._outputs(input_status.entries_with(DONE), np.empty(0, "i8"))
        self._check_shards(header)
        return {finding.file for finding in self.verdict.findings if finding.is_damage}

    def find(self, kind: str, file: str, message: str) -> None:
        """Note that something is wrong."""
        self._note(Finding(kind, file, message))

    def _note(self, finding: Finding) -> None:
        self.verdict.findings.append(finding)
        self._tell(finding)

    def _look(self, deeper: "Deeper | None") -> None:
        for name, message in self._own.faults():
            self.find("record", name, message)
        if not self._own.can_tell:
            self.find(
                "record", OWN_FOLDER, "nothing else was looked at, since it is held against what is there"
            )
            return
        header, _, keys = stored_list(self.storage)
        half_done = self.journal.peek()
        if half_done is not None:
            self.find("batch", OWN_FOLDER, f"a run was interrupted in the middle of a batch; {RUN_AGAIN}")
        journal = self.journal
        input_status = InputStatus.of(self.storage, journal, keys)
        status = input_status.status
        self._count(status)
        self._inputs(status)
        tables = ManifestTables(journal, input_status, header)
        self._table(MANIFEST, tables.rows)
        if (status == FAILED).any():
            self._table(ERRORS, tables.errors)
        elif self.storage.exists(ERRORS):
            self.find("table", ERRORS, "is there, and no input has failed")
        self._schema(tables.schema())
        self._gone(input_status.gone_with_outputs)
        # what has no rows in the manifest, and comes back when its input does
        others = np.concatenate((input_status.gone, input_status.entries_with(STALE)))
        self._outputs(input_status.entries_with(DONE), others[journal.entries["status"][others] == DONE])
        self._check_shards(header)
        self._allow(half_done or [])
        self._extra(half_done or [])
        if deeper:
            deeper(self, np.flatnonzero(status == DONE))

    def _count(self, status: np.ndarray) -> None:
        verdict = self.verdict
        verdict.inputs = len(status)
        verdict.done, verdict.skipped, verdict.failed = (
            int((status == kind).sum()) for kind in (DONE, SKIPPED, FAILED)
        )

    def _gone(self, entries: np.ndarray) -> None:
        """Count inputs that are no longer in the list; a shard must not hold samples of any."""
        self.verdict.gone = len(entries)
        shards = {shard_of(name)[0] for name in self.journal.outputs(entries)} - {""}
        for shard in sorted(shards):
            self.find("extra", shard, SAMPLES_WITHOUT_ROWS)

    # -- every input of the list ---------------------------------------------------------------------------

    def _inputs(self, status: np.ndarray) -> None:
        left = np.flatnonzero((status == NOT_DONE) | (status == STALE))
        if not len(left):
            return
        for number, listed in listed_inputs(self.storage, left):
            self.find("input", listed, LEFT if status[number] == NOT_DONE else CHANGED)

    # -- the tables ----------------------------------------------------------------------------------------

    def _schema(self, content: bytes) -> None:
        if not self.storage.exists(SCHEMA) or self.storage.read(SCHEMA) != content:
            self.find("table", SCHEMA, f"is not what the commit records say; {MAKE_TABLES}")

    def _table(self, name: str, pieces: Callable[[], Iterator[bytes]]) -> None:
        """Whether a table is, byte for byte, what would be written from the commit records."""
        try:
            with self.storage.open_output(name) as file:
                if has_same_bytes(pieces(), file):
                    return
                file.seek(0)
                self._differences(name, pieces, file)
        except FileNotFoundError:
            self.find("table", name, f"is not there; {MAKE_TABLES}")
        except OSError as error:
            self.find("table", name, f"cannot be read: {_reason(error)}")

    def _differences(self, name: str, pieces: Callable[[], Iterator[bytes]], file: io.RawIOBase) -> None:
        """Say which rows of a table are not what is committed, by their lines."""
        committed, there = hashes_of_lines(pieces()), hashes_of_lines(blocks_of(file))
        lost = pick_lines(pieces(), numbers_only_in(committed, there))
        file.seek(0)
        more = pick_lines(blocks_of(file), numbers_only_in(there, committed))
        if not (lost or more):
            line = int(np.flatnonzero(committed != there)[0]) + 1
            self.find("row", name, f"its rows are in another order, from line {line:,} on; {MAKE_TABLES}")
            return
        header = parse_rows(next(pieces()))[0]
        for about in row_differences(name, header, lost, more):
            self.find("row", name, about)

    def _other_tables(self) -> Sequence[str]:
        """Those beside manifest.csv and errors.csv; each must be what was written."""
        if OTHER_TABLES in self._own.damaged:
            return OTHERS
        others = checksums_of_others(self.storage)
        for name, stated in others.items():
            try:
                with self.storage.open_output(name) as file:
                    _, _, found = _read(file)
            except FileNotFoundError:
                self.find("table", name, f"is not there; {MAKE_TABLES}")
            except OSError as error:
                self.find("table", name, f"cannot be read: {_reason(error)}")
            else:
                if found != stated:
                    self.find("table", name, f"is not what was written; {MAKE_TABLES}")
        return [*others]

    # -- the output files ----------------------------------------------------------------------------------

    def _outputs(self, done: np.ndarray, others: np.ndarray) -> None:
        """Read every output file that committed rows name, in many processes."""
        self._entries = entries = np.concatenate((done, others))
        self._done = len(done)
        check = partial(_check_block, self.storage, self.journal, entries, self._done)
        parts = _parts_of(self.journal.entries[entries], self.storage.look_at_once)
        with closing(in_processes(check, parts, self.workers)) as checked:
            for part in checked:
                self.verdict.outputs += part.outputs
                self.verdict.bytes += part.bytes
                self._known.append(part.names)
                for finding in part.findings:
                    self._note(finding)
                for shard, positions in part.shards.items():
                    self._shards.setdefault(shard, []).extend(positions)

    def _check_shards(self, header: Row) -> None:
        """Read every shard that rows point into, with all that it holds: also of inputs that have no rows."""
        if not self._shards:
            return
        from splitter.verification.shards import Reshard

        tables = any(name.endswith(".parquet") for name in self._shards)
        for name, message in self._own.missing_of_shards(tables=tables):
            self.find("record", name, message)
        reshard = Reshard.of(self.storage, header, whole=not self._own.damaged)
        check = partial(_check_shard, reshard, self.journal, self._entries, self._done, self._shards)
        try:
            with closing(self.storage.of_each_shard(check, sorted(self._shards), self.workers)) as checked:
                for part in checked:
                    self.verdict.outputs += part.outputs
                    self.verdict.bytes += part.bytes
                    for finding in part.findings:
                        self._note(finding)
        finally:
            # what processes that help have left, ended in the middle
            sweep()

    def _allow(self, names: Iterable[str]) -> None:
        """These may be there, too."""
        self._known.append(_name_hashes(map(file_with, names)))

    def _extra(self, half_done: Sequence[str]) -> None:
        """Files that nothing accounts for."""
        known = np.sort(np.concatenate(self._known))
        own = {MANIFEST, ERRORS, REPORT, *self._other_tables()}
        lost = (finding.file for finding in self.verdict.findings if finding.kind == "missing")
        emptied = {folder for name in (*half_done, *lost) for folder in folders_around(name)}
        for names in _in_groups(self.storage.walk(), NAMES_AT_ONCE):
            numbers = _name_hashes(names)
            at = np.minimum(np.searchsorted(known, numbers), max(0, len(known) - 1))
            strange = known[at] != numbers if len(known) else np.ones(len(numbers), bool)
            for index in np.flatnonzero(strange).tolist():
                name = names[index]
                if name.endswith("/"):
                    if name[:-1] not in emptied:
                        self.find("extra", name, "is an empty folder, and no run leaves one")
                elif name not in own:
                    self.find("extra", name, "is there, and no row of the manifest names it")


# looks at inputs of the kept list, by their numbers
Deeper = Callable[[Verification, np.ndarray], None]


# -- output files, in a process of many ----------------------------------------------------------------------


@dataclass
class _BlockResult:
    """What one process has found out about some outputs."""

    names: np.ndarray
    outputs: int = 0
    bytes: int = 0
    findings: list[Finding] = field(default_factory=list)
    shards: dict[str, list[int]] = field(default_factory=dict)


def _check_shard(  # noqa: PLR0913, PLR0917 - what all shards are looked at with
    reshard: "Reshard",
    journal: Journal,
    entries: np.ndarray,
    done: int,
    positions: dict[str, list[int]],
    shard: str,
) -> _BlockResult:
    """Look at one shard."""
    part = _BlockResult(np.empty(0, "u8"))
    is_left = min(positions[shard]) >= done

    def find(kind: str, file: str, message: str) -> None:
        finding = Finding(kind, file, message)
        part.findings.append(finding.of_what_is_left() if is_left else finding)

    try:
        part.outputs, part.bytes = reshard.check(journal, shard, entries[positions[shard]], find)
    except FileNotFoundError:
        find("missing", shard, "is not there")
    except OSError as error:
        find("unreadable", shard, f"cannot be read: {_reason(error)}")
    return part


def _parts_of(entries: np.ndarray, size: int) -> list[tuple[int, int]]:
    """The entries in parts that take about the same time each."""
    work = entries["bytes"].astype("i8") + entries["outputs"].astype("i8") * FILE_BYTES
    cuts = np.flatnonzero(np.diff(np.cumsum(work) // size)) + 1
    bounds = [0, *cuts.tolist(), len(entries)]
    return [(start, stop) for start, stop in pairwise(bounds) if start < stop]


def _check_block(
    storage: Storage, journal: Journal, entries: np.ndarray, done: int, block: tuple[int, int]
) -> _BlockResult:
    """Read the outputs of some entries, the first so many being done, and compare them with their rows."""
    names: list[str] = []
    part = _BlockResult(np.empty(0, "u8"))
    rows = _rows_to_check(journal, entries, block, names, part.shards)
    with closing(storage.of_each_output(partial(_check_output, storage, done), rows)) as checked:
        for size, finding in checked:
            if size is not None:
                part.outputs += 1
                part.bytes += size
            if finding:
                part.findings.append(finding)
    part.names = _name_hashes(names)
    return part


_ToCheck = tuple[int, Row, int, tuple[tuple[str, int], ...]]


def _rows_to_check(
    journal: Journal,
    entries: np.ndarray,
    block: tuple[int, int],
    names: list[str],
    shards: dict[str, list[int]],
) -> Iterator[_ToCheck]:
    """The rows of loose files; notes the names of all files, and the entries that are in shards."""
    for index, (head, rows) in enumerate(journal.rows_of_each(entries[slice(*block)]), block[0]):
        at, sound = len(head.columns), header_columns(head)
        for row in rows:
            if len(row) <= at or not row[at]:
                continue
            shard, _ = shard_of(row[at])
            names.append(shard or row[at])
            if shard:
                there = shards.setdefault(shard, [])
                if not there or there[-1] != index:
                    there.append(index)
                continue
            yield index, row, at, sound


def _check_output(storage: Storage, done: int, wanted: _ToCheck) -> tuple[int | None, Finding | None]:
    """How many bytes an output has, if it can be read, and what is wrong with it."""
    index, row, at, sound = wanted
    there: list[int] = []
    problem = _fault(storage, row, at, sound, there)
    finding = Finding(problem[0], row[at], problem[1]) if problem else None
    if finding and index >= done:
        finding = finding.of_what_is_left()
    return next(iter(there), None), finding


def _fault(
    storage: Storage, row: Row, at: int, sound: tuple[tuple[str, int], ...], sizes: list[int]
) -> tuple[str, str] | None:
    """The kind of what is wrong with an output, and what that is; notes its size when it was read."""
    name, size, checksum = row[at], row[at + 1], row[at + 2]
    if not size.isdecimal():
        return "record", "is not what a run could have committed: its commit record is damaged"
    try:
        with storage.open_output(name) as file:
            start, there, found = _read(file)
            sizes.append(there)
            if there != int(size):
                return "size", f"has {there:,} bytes where the manifest says {int(size):,}"
            if found != checksum:
                return "checksum", f"has the checksum {found} where the manifest says {checksum}"
            header = header_of(name, start, there, cast("BinaryIO", file)) if sound else None
    except FileNotFoundError:
        return "missing", "is not there"
    except OSError as error:
        return "unreadable", f"cannot be read: {_reason(error)}"
    return header_fault(header, row, sound) if header else None


def _read(file: io.RawIOBase) -> tuple[memoryview, int, str]:
    """The first bytes, the size and the checksum."""
    digest, buffer, size = xxhash.xxh3_128(), _buffer.view, 0
    start = buffer[:0]
    while count := file.readinto(buffer[min(size, READ_AT_ONCE) :]):
        block = buffer[min(size, READ_AT_ONCE) :][:count]
        digest.update(block)
        size += count
        if size <= READ_AT_ONCE:
            start = buffer[:size]
    return start, size, checksum_of(digest)


class _Buffer(threading.local):
    """One for each thread: the first bytes of a file, and behind them any others."""

    def __init__(self) -> None:
        self.view = memoryview(bytearray(2 * READ_AT_ONCE))


_buffer = _Buffer()


def _reason(error: OSError) -> str:
    return error.strerror or str(error)


def _name_hashes(names: Iterable[str]) -> np.ndarray:
    return np.fromiter(map(key_hash, names), "u8")


def _in_groups(names: Iterator[str], size: int) -> Iterator[list[str]]:
    while group := list(islice(names, size)):
        yield group
