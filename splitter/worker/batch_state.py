"""A batch on its way through a worker: what is known of its inputs so far."""

import shutil
from dataclasses import replace

from splitter.errors import StorageError
from splitter.inputs.fetching import Fetcher, RemoteInput, local_name
from splitter.inputs.locations import UNREADABLE, fingerprint, look_at
from splitter.inputs.shards.reader import MemberFiles
from splitter.inputs.table import make_input
from splitter.ledger.records import DONE, FAILED, SKIPPED, RecordWriter, RowColumns
from splitter.ledger.shard_groups import GroupMember
from splitter.outputs.reader import Address, OutputReader
from splitter.records import InputFile, Scratch
from splitter.sinks import GroupWriter, OutputOwner, SinkWriter
from splitter.storage.base import Storage
from splitter.storage.layout import shard_of
from splitter.stores.clients import Found
from splitter.text.csv import CsvText, Row, in_unicode, parse_rows
from splitter.text.show import one_line
from splitter.text.urls import is_url, without_secrets
from splitter.worker.failures import SCRATCH_SHOWN, Blame, CurrentMember
from splitter.worker.messages import FAILURES_SHOWN, Batch, Failure, Job, Report, Tried
from splitter.worker.rows import RowMaker

# of an input whose output in an older shard is damaged
DONE_AGAIN = "its input is done again"


class SampleLost(Exception):
    """What an older shard had is damaged, or gone."""


class OlderShards:
    """What inputs have in shards that a batch replaces.

    Of a store each shard is copied here first, in large pieces: a request for each sample would take long.
    """

    def __init__(self, storage: Storage, folder: str) -> None:
        """Use a folder of this batch's own, which need not be there."""
        self._storage, self._folder = storage, folder
        self._readers: dict[str, OutputReader | None] = {}

    def read(self, wanted: Address) -> bytes:
        """The content of an output, as its row says; raises SampleLost if that is damaged or gone."""
        shard, _ = shard_of(wanted.output)
        if shard not in self._readers:
            self._readers[shard] = self._opened(shard)
        reader = self._readers[shard]
        if reader is None:
            raise SampleLost(f"{self._storage.path(shard)}: is not there, or cannot be read; {DONE_AGAIN}")
        try:
            return reader.read(wanted)
        except StorageError as error:
            raise SampleLost(str(error).replace(reader.folder, self._storage.root)) from None

    def _opened(self, shard: str) -> OutputReader | None:
        try:
            return OutputReader(self._storage.near(shard, self._folder), DONE_AGAIN)
        except OSError:
            return None

    def close(self) -> None:
        """Remove the copies."""
        self._readers.clear()
        shutil.rmtree(self._folder, ignore_errors=True)


class Task:
    """A batch on its way: what is known of its inputs so far."""

    def __init__(
        self, batch: Batch, job: Job, sink: SinkWriter, fetcher: Fetcher, members: MemberFiles
    ) -> None:
        self.batch = batch
        self.sink = sink
        self._fetcher, self._members = fetcher, members
        self.record = RecordWriter()
        self.report = Report(batch.name, inputs=len(batch))
        self.fault: Failure | None = None
        self.blame: Blame | None = None
        self.is_judged = False
        self.finished: set[int] = set()
        self.in_hand: dict[int, CurrentMember] = {}
        # of a group: what was made, and taken along from older shards; the rows are complete at the end
        self.carried: list[tuple[GroupMember, OutputOwner]] = []
        self.made: list[tuple[int, OutputOwner, RowColumns, int, int]] = []
        self._job = job
        self.rows = [[row] for row in parse_rows(b"".join(batch.texts))]
        if job.dataset.group_rows:
            self.rows = [parse_rows(text) for text in batch.texts]
        self._remote = self._remote_files()
        fetcher.begin({**self._remote, **members.begin(batch.members, len(batch))})

    def _remote_files(self) -> dict[int, RemoteInput]:
        """What is to be fetched, by place."""
        batch = self.batch
        if not is_url(self._job.layout.root) and not any(b"://" in text for text in batch.texts):
            return {}
        found = {}
        for index in range(len(batch)):
            url = self.path(index)
            if is_url(url) and index not in batch.failures and index not in batch.members:
                size = batch.sizes[index]
                found[index] = RemoteInput(
                    url, Found(size, batch.times[index]) if size != UNREADABLE else None
                )
        return found

    def take(self, index: int, scratch: Scratch) -> InputFile:
        """The input as `process` takes it."""
        job, batch = self._job, self.batch
        input_file = make_input(self.rows[index], job.header, job.at, job.layout, scratch)
        if index in batch.members:
            member = self._members.take(input_file, index, batch.members[index])
            self.in_hand[index] = CurrentMember(member.input, self._members.path_of(member))
            return member
        if index in self._remote:
            fetched = self._fetcher.take(index)
            # what was read, should it have changed since the survey: a version may come back, a time may not
            batch.sizes[index], batch.times[index] = fetched.found
            return input_file._replace(local_path=fetched.path)
        if batch.sizes[index] == UNREADABLE:
            # it may have come since; if not, this says why
            batch.sizes[index], batch.times[index] = look_at(input_file.local_path)
        return input_file

    def named(self, index: int, failure: Failure) -> Failure:
        """The failure in words that name a remote file, and not the copy of it."""
        if index not in self._remote:
            return failure
        url = self._remote[index].url
        copy = f"{SCRATCH_SHOWN}/{local_name(url)}"
        return replace(failure, message=failure.message.replace(copy, without_secrets(url)))

    def path(self, index: int) -> str:
        """Where the input is on this machine."""
        return self._job.layout.location(self.rows[index][0][self._job.at])

    def folder(self, index: int) -> str:
        """The folder of the output that is this input's own."""
        layout = self._job.layout
        return layout.folder(layout.key(self.rows[index][0][self._job.at]))

    def add(  # noqa: PLR0913 - the fields of an entry
        self,
        index: int,
        status: int,
        *,
        head: RowColumns,
        outputs: int,
        size: int,
        text: bytes,
        failure: Failure | None = None,
    ) -> None:
        """Note what became of an input."""
        batch = self.batch
        if batch.trial:
            names = self.sink.names() if outputs else []
            self.report.tried.append(Tried(batch.keys[index], status, head, names, failure))
        # as the survey found the file: if it has changed since, the next run does it again
        mark = fingerprint(batch.texts[index], batch.sizes[index], batch.times[index], self._job.seed)
        self.record.add(batch.keys[index], mark, status, head=head, outputs=outputs, size=size, text=text)
        self.finished.add(index)
        self.report.done += status == DONE
        self.report.outputs += outputs
        self.report.bytes += size

    # -- of a group ------------------------------------------------------------------------------------------

    @property
    def group_sink(self) -> GroupWriter:
        """The sink, which takes the outputs of a group."""
        assert isinstance(self.sink, GroupWriter)  # noqa: S101 - what an indivisible sink opens
        return self.sink

    def keep(self, index: int, *, head: RowColumns, outputs: int, size: int, text: bytes) -> None:
        """Note that an input is done, whose rows are complete when all of the group are."""
        group = self.batch.group
        assert group is not None  # noqa: S101 - given to an indivisible sink
        owner = _owner(group.ranks[index], group.numbers[index], head, parse_rows(text))
        self.sink.keep_input(owner)
        self.made.append((index, owner, head, outputs, size))
        self.finished.add(index)

    def carry(self, kept: GroupMember, outputs: OlderShards) -> None:
        """Take along what an input has in an older shard."""
        owner = _owner(kept.rank, kept.number, kept.head, kept.rows)
        try:
            contents = [
                outputs.read(Address(name, size, checksum, offset))
                for name, size, checksum, offset in _outputs_of(owner)
            ]
        except SampleLost as error:
            # somebody has damaged or removed the shard: what was in it is lost
            self.record.add_not_done(kept.key)
            self.report.notes.append(str(error))
            self.report.undone += 1
            return
        self.group_sink.carry(owner, contents)
        self.carried.append((kept, owner))

    def complete(self) -> None:
        """Note what became of the inputs of a group, now that it is known where their outputs are."""
        for index, owner, head, outputs, size in self.made:
            text = CsvText().encode(owner.rows)
            self.add(index, DONE, head=head, outputs=outputs, size=size, text=text)
        for kept, owner in self.carried:
            text = CsvText().encode(owner.rows)
            sizes = [size for _, size, _, _ in _outputs_of(owner)]
            count, total = len(sizes), sum(sizes)
            self.record.add(
                kept.key, kept.fingerprint, DONE, head=kept.head, outputs=count, size=total, text=text
            )

    def skip(self, index: int, reason: str, rows: RowMaker) -> None:
        """Leave an input out, with the reason."""
        self.sink.drop_input()
        head, text = rows.skipped(self.rows[index][0], in_unicode(reason) or "skipped")
        self.add(index, SKIPPED, head=head, outputs=0, size=0, text=text)
        self.report.skipped += 1

    def fail(self, index: int, failure: Failure, kind: str = "", *, unreadable: bool = False) -> None:
        """Note a failed input; one that cannot be read now keeps what it had.

        `kind` is what to call the error where few words are wanted.
        """
        row = self.rows[index][0]
        listed = row[self._job.at]
        if unreadable and index in self.batch.stale:
            self.report.unreadable.append(self.batch.keys[index])
            self.report.unreadable_names = [*self.report.unreadable_names, listed][:FAILURES_SHOWN]
            self.report.unreadable_why = self.report.unreadable_why or failure.message
            return
        text = CsvText().encode([[*row, failure.error, failure.message, failure.traceback, failure.attempts]])
        head = RowColumns(tuple(self._job.header))
        self.add(index, FAILED, head=head, outputs=0, size=0, text=text, failure=failure)
        self.report.failed += 1
        if len(self.report.failures) < FAILURES_SHOWN:
            self.report.failures.append((one_line(listed), f"{kind or failure.error}: {failure.message}"))


def _owner(rank: int, number: int, head: RowColumns, rows: list[Row]) -> OutputOwner:
    types = {"size": "int", **dict((*head.outputs, *head.inputs))}
    return OutputOwner(rank, number, head.names, types, len(head.columns), rows)


def _outputs_of(owner: OutputOwner) -> list[tuple[str, int, str, int]]:
    """Where each output of an input is: its name, size, checksum, and place in its shard."""
    at = owner.at
    there = (row[at : at + 5] for row in owner.rows if row[at])
    return [(name, int(size), checksum, int(offset)) for name, size, checksum, _, offset in there]
