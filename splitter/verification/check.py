"""`splitter verify`: check that everything that runs left in an output folder is present and unchanged.

    commit records ── manifest.csv, errors.csv     must be what would be written from them
                   ├─ output files                 must be there and whole, and nothing else
                   └─ the stored dataset list      each of its inputs must be accounted for

The commit records are the truth. Nothing is written, and no lock is taken, so no run has to wait.
"""

import io
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from itertools import islice

import numpy as np

from splitter.errors import Refused, StorageError
from splitter.ledger.journal import Journal
from splitter.ledger.list_copy import listed_inputs, stored_list
from splitter.ledger.manifest import ERRORS, MANIFEST, ManifestTables
from splitter.ledger.records import DONE, FAILED, NOT_DONE, SKIPPED, STALE
from splitter.ledger.run_files import COLUMNS, DROPPED, GROUPS, OTHER_TABLES, RUN_AGAIN, SCHEMA
from splitter.ledger.status import InputStatus
from splitter.ledger.tables import checksums_of_others
from splitter.options import OTHERS
from splitter.sorted_arrays import index_in_sorted
from splitter.storage.base import Storage
from splitter.storage.content import measure_file
from splitter.storage.layout import OWN_FOLDER, file_with, folders_around, shard_of
from splitter.system.pool import in_processes
from splitter.system.temporary_folders import NoTemporarySpace, sweep
from splitter.text.content_types import REPORT
from splitter.text.csv import parse_rows
from splitter.verification.findings import CHANGED, LEFT, SAMPLES_WITHOUT_ROWS, Finding, Verdict
from splitter.verification.output_files import CheckResult, OutputChecks, name_hashes, reason_of
from splitter.verification.own_files import can_tell, own_faults
from splitter.verification.table_differences import (
    MAKE_TABLES,
    blocks_of,
    has_same_bytes,
    hashes_of_lines,
    numbers_only_in,
    pick_lines,
    row_differences,
)

NAMES_AT_ONCE = 20_000


class Verification:
    """One verification of an output folder."""

    def __init__(
        self,
        storage: Storage,
        *,
        workers: int | None = None,
        tell: Callable[[Finding], None] | None = None,
        journal: Journal | None = None,
    ) -> None:
        """Use as many processes as there are CPUs, or `workers`; call `tell` with each finding.

        Pass the journal if it is already loaded.
        """
        self.storage, self.workers, self._tell = storage, workers, tell
        self.verdict = Verdict(storage.root)
        self.journal = journal or Journal(storage)
        # the files of `.splitter` that are damaged
        self._damaged: set[str] = set()
        # hashes of the names that may be in the folder
        self._names: list[np.ndarray] = []

    def run(self, deep: Callable[[], "Deeper"] | None = None) -> Verdict:
        """Check everything; `deep` is called first, and what it returns then checks the finished inputs."""
        began = time.monotonic()
        if not self.storage.is_output():
            raise Refused(f"{self.storage.root}: is not a splitter output folder; use the --output of a run")
        at_work, before = self.storage.users()
        if at_work:
            raise Refused(f"{self.storage.root}: is in use by {at_work}; verify it when that run has ended")
        deeper = None
        # a damaged file of `.splitter` becomes a finding in _look()
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
                f"{self.storage.root}: a run has started there since; verify it when that run has ended"
            )
        self.verdict.seconds = time.monotonic() - began
        return self.verdict

    def damaged_files(self, input_status: InputStatus) -> set[str]:
        """Return the outputs and shards of finished inputs that are missing or damaged."""
        self._outputs(input_status.entries_with(DONE), np.empty(0, "i8"))
        return {finding.file for finding in self.verdict.findings if finding.is_damage}

    def find(self, kind: str, file: str, message: str) -> None:
        """Add a finding."""
        self._note(Finding(kind, file, message))

    def _note(self, finding: Finding) -> None:
        self.verdict.findings.append(finding)
        if self._tell:
            self._tell(finding)

    def _look(self, deeper: "Deeper | None") -> None:
        for name, message in own_faults(self.storage, self.journal):
            self._damaged.add(name)
            self.find("record", name, message)
        if not can_tell(self._damaged):
            self.find(
                "record", OWN_FOLDER, "nothing else was checked, since it would be compared with these files"
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
            self.find("table", ERRORS, "exists, although no input has failed")
        self._schema(tables.schema())
        self._gone(input_status.gone_with_outputs)
        # entries without rows in the manifest, whose outputs are used again if their input comes back
        others = np.concatenate((input_status.gone, input_status.entries_with(STALE)))
        self._outputs(input_status.entries_with(DONE), others[journal.entries["status"][others] == DONE])
        # the files of an interrupted batch, which no row names
        self._names.append(name_hashes(map(file_with, half_done or [])))
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
        """Count inputs that are no longer in the list, and find the shards that still hold their samples."""
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
        if not self.storage.exists(SCHEMA.name) or self.storage.read(SCHEMA.name) != content:
            self.find("table", SCHEMA.name, f"does not match the commit records; {MAKE_TABLES}")

    def _table(self, name: str, pieces: Callable[[], Iterator[bytes]]) -> None:
        """Compare a table, byte for byte, with what would be written from the commit records."""
        with self._reading(name), self.storage.open_output(name) as file:
            if not has_same_bytes(pieces(), file):
                file.seek(0)
                self._differences(name, pieces, file)

    @contextmanager
    def _reading(self, name: str) -> Iterator[None]:
        """Add a finding if a table does not exist or cannot be read."""
        try:
            yield
        except FileNotFoundError:
            self.find("table", name, f"does not exist; {MAKE_TABLES}")
        except OSError as error:
            self.find("table", name, f"cannot be read: {reason_of(error)}")

    def _differences(self, name: str, pieces: Callable[[], Iterator[bytes]], file: io.RawIOBase) -> None:
        """Add a finding for each row of a table that differs from what is committed, comparing lines."""
        committed, there = hashes_of_lines(pieces()), hashes_of_lines(blocks_of(file))
        lost = pick_lines(pieces(), numbers_only_in(committed, there))
        file.seek(0)
        more = pick_lines(blocks_of(file), numbers_only_in(there, committed))
        if not (lost or more):
            line = int(np.flatnonzero(committed != there)[0]) + 1
            self.find("row", name, f"its rows are in a different order from line {line:,} on; {MAKE_TABLES}")
            return
        header = parse_rows(next(pieces()))[0]
        for about in row_differences(name, header, lost, more):
            self.find("row", name, about)

    def _other_tables(self) -> Sequence[str]:
        """Check the tables beside manifest.csv and errors.csv; return their names."""
        if OTHER_TABLES.name in self._damaged:
            return OTHERS
        others = checksums_of_others(self.storage)
        for name, stated in others.items():
            with self._reading(name), self.storage.open_output(name) as file:
                if measure_file(file)[1] != stated:
                    self.find("table", name, f"is not what was written; {MAKE_TABLES}")
        return [*others]

    # -- the output files ----------------------------------------------------------------------------------

    def _outputs(self, done: np.ndarray, others: np.ndarray) -> None:
        """Read every output file that committed rows name, in several processes, then every shard."""
        checks = OutputChecks(
            self.storage,
            self.journal,
            np.concatenate((done, others)),
            len(done),
            self.storage.exists(DROPPED.name),
        )
        # for each shard, the positions of the entries that are in it
        shards: dict[str, list[int]] = {}
        self._gather(in_processes(checks.check_block, checks.blocks(), self.workers), shards)
        if shards:
            self._check_shards(checks, shards)

    def _gather(self, checked: Generator[CheckResult, None, None], shards: dict[str, list[int]]) -> None:
        with closing(checked):
            for part in checked:
                self.verdict.outputs += part.outputs
                self.verdict.bytes += part.bytes
                self.verdict.dropped += part.dropped
                self._names.append(part.names)
                for finding in part.findings:
                    self._note(finding)
                for shard, positions in part.shards.items():
                    shards.setdefault(shard, []).extend(positions)

    def _check_shards(self, checks: OutputChecks, shards: dict[str, list[int]]) -> None:
        """Read every shard that rows point into, and all outputs in it."""
        stated = (self.journal.stated_shard(name, checks.entries[at]) for name, at in shards.items())
        self.verdict.unstated = sum(one is None for one in stated)
        are_tables = any(name.endswith(".parquet") for name in shards)
        for file in (GROUPS, COLUMNS) if are_tables else (GROUPS,):
            if not self.storage.exists(file.name):
                self.find("record", file.name, f"does not exist; {file.remedy}")
        check = partial(checks.check_shard, shards)
        try:
            self._gather(self.storage.of_each_shard(check, sorted(shards), self.workers), shards)
        finally:
            # remove the temporary files of processes that were ended before they could
            sweep()

    def _extra(self, half_done: Sequence[str]) -> None:
        """Add a finding for each file that nothing accounts for."""
        allowed = np.sort(np.concatenate(self._names))
        own = {MANIFEST, ERRORS, REPORT, *self._other_tables()}
        lost = (finding.file for finding in self.verdict.findings if finding.kind == "missing")
        emptied = {folder for name in (*half_done, *lost) for folder in folders_around(name)}
        walk = self.storage.walk()
        while names := list(islice(walk, NAMES_AT_ONCE)):
            is_strange = index_in_sorted(allowed, name_hashes(names)) < 0
            for index in np.flatnonzero(is_strange).tolist():
                name = names[index]
                if name.endswith("/"):
                    if name[:-1] not in emptied:
                        self.find("extra", name, "is an empty folder, which no run leaves")
                elif name not in own:
                    self.find("extra", name, "is not listed in the manifest")


# checks inputs of the stored list, given their numbers
Deeper = Callable[[Verification, np.ndarray], None]


def damaged_entries(storage: Storage, journal: Journal, keys: np.ndarray) -> np.ndarray:
    """Return the entries, for inputs with these keys, that are done but have a damaged output or shard."""
    input_status = InputStatus.of(storage, journal, keys)
    files = Verification(storage, journal=journal).damaged_files(input_status)
    done = input_status.entries_with(DONE)
    damaged = (
        any({name, file_with(name)} & files for name in names) for names in journal.outputs_of_each(done)
    )
    return done[np.fromiter(damaged, bool, len(done))] if files else done[:0]
