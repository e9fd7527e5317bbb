"""A batch in progress: its inputs are processed, their outputs staged, then published and committed."""

import contextlib
import math
import random
import time
from collections.abc import Callable, Sequence, Sized
from dataclasses import replace
from typing import Any

from splitter.dataset import Result, checked_result
from splitter.errors import (
    FULL,
    BadResult,
    InputError,
    Interrupted,
    RecipeError,
    Skip,
    StorageError,
    UnreadableInput,
)
from splitter.inputs.fetching import Fetcher, RemoteInput, local_name
from splitter.inputs.locations import UNREADABLE, look_at
from splitter.inputs.shards.reader import MemberFiles
from splitter.inputs.table import make_input
from splitter.ledger.records import DONE, FAILED, RECORDED, SKIPPED, RecordWriter, RowColumns
from splitter.records import InputFile, OutputFile, Scratch, UnopenedFile
from splitter.sinks.base import SinkWriter
from splitter.sinks.discard import DiscardWriter
from splitter.storage.layout import same_name
from splitter.stores.files import Found
from splitter.text.csv import CsvText, Row, in_unicode, parse_rows
from splitter.text.show import one_line
from splitter.text.urls import LONGEST_NAME, is_url, without_secrets
from splitter.worker.failures import (
    SCRATCH_SHOWN,
    Blame,
    ForeignStorageError,
    after_batch,
    failure_of,
    in_one_line,
    kind_and_line,
    may_pass,
    not_read,
    user_call,
    user_content,
    user_items,
)
from splitter.worker.messages import Batch, Failure, Problems, Report, Tried, WorkCounts
from splitter.worker.rows import Metadata, OutputRow
from splitter.worker.tools import WorkerTools

# the index that a worker reports while it is not at an input of its batch
BETWEEN_INPUTS = -1
TOGETHER = -2
SECOND = -5
# in a fused stage: this minus the milliseconds that the present work may take; with no limit, just this
FUSED = -1000
# how long a batch in which all inputs failed waits for the one that shows whether the recipe works
SECONDS_FOR_VERDICT = 10.0


class BatchInProgress:
    """A batch on its way through a worker: its inputs, its sink, and what became of each input so far."""

    def __init__(self, batch: Batch, tools: WorkerTools) -> None:
        self.batch, self.tools, self.job = batch, tools, tools.job
        self.report = Report(batch.name, WorkCounts(inputs=len(batch)))
        self.blame: Blame | None = None
        self.rows = [[row] for row in parse_rows(b"".join(batch.texts))]
        if self.job.dataset.group_rows:
            self.rows = [parse_rows(text) for text in batch.texts]
        # size and time of each file: as the survey found it, or as it was when it was read
        self._found = [*map(Found, batch.sizes, batch.times)]
        self._scratch = Scratch(tools.folder)
        self.record = RecordWriter()
        self.finished: set[int] = set()
        # for members of shards: their temporary files, and their names in the list
        self._current_members: dict[int, tuple[str, str]] = {}
        # why process_batch failed, and whether the first input has been used to judge the recipe
        self._batch_failure: Failure | None = None
        self._is_judged = False
        self._remote = self._remote_inputs()
        self._members = batch.members if self.job.dataset.opens_files else {}
        members = tools.members.begin(self._members, len(batch))
        tools.fetcher.begin({**self._remote, **members})
        self.sink = self._open_sink()

    def _open_sink(self) -> SinkWriter:
        stale = [name for names in self.batch.stale.values() for name in names]
        return self.job.sink.open(self.job.storage, self.batch.name, stale)

    def close(self) -> None:
        self.sink.close()

    def _remote_inputs(self) -> dict[int, RemoteInput]:
        """Return the inputs to fetch, by index."""
        batch = self.batch
        if not is_url(self.job.layout.root) and not any(b"://" in text for text in batch.texts):
            return {}
        remote = {}
        for index, found in enumerate(self._found):
            url = self._path(index)
            if not (self.job.dataset.opens_files or found.size == UNREADABLE):
                continue
            if is_url(url) and index not in batch.failures and index not in batch.members:
                # the size and time that an earlier stage states are not a version in the store
                tells = found.size != UNREADABLE and self.job.marks.header is None
                remote[index] = RemoteInput(url, found if tells else None)
        return remote

    def _path(self, index: int) -> str:
        return self.job.layout.location(self.rows[index][0][self.job.at])

    # -- the steps of a batch --------------------------------------------------------------------------------

    def run(self) -> None:
        """Process all inputs, then commit; raise RecipeError if the recipe is to blame."""
        together = self.job.dataset.process_batch
        if together and not self.batch.one_by_one and len(self.batch):
            self._process_together(together)
        self._process_all()
        self.tools.mark(BETWEEN_INPUTS)
        self._commit()

    def _process_all(self) -> None:
        for index in range(len(self.batch)):
            self.process_next(index)

    def process_next(self, index: int) -> None:
        """Process one input unless it is finished, then drop the files fetched for it."""
        tools = self.tools
        if index not in self.finished:
            tools.mark(index)
            self.process(index)
        tools.fetcher.drop(index)
        tools.members.drop(index)
        if self.batch.second is not None and not self._is_judged:
            self._is_judged = True
            self._judge(self.batch.second, index)

    def _judge(self, second: Batch, index: int) -> None:
        """Raise RecipeError if another input fails in the same way as this one; otherwise open the gate."""
        blame, tools = self.blame, self.tools
        if blame is not None:
            tools.mark(SECOND)
            fetcher = Fetcher(Scratch(tools.folder))
            members = MemberFiles(Scratch(tools.folder), fetcher, self.job.items)
            with contextlib.closing(fetcher), contextlib.closing(members):
                other = TrialInProgress(second, replace(tools, fetcher=fetcher, members=members))
                other.process(0)
            self.job.storage.unstage(second.name)
            if other.blame is not None and other.blame.is_like(blame):
                tried = (self.rows[index][0], other.rows[0][0])
                names = " and ".join(one_line(row[self.job.at]) for row in tried)
                raise RecipeError(
                    f"{type(self.job.dataset).__name__} fails with the same error on its first two "
                    f"inputs, {names}: {blame}; fix it and run the same command again, or use "
                    "--max-failures 100% to continue anyway",
                    blame.failure.traceback,
                )
        if tools.gate:
            tools.gate.open()

    # -- an input --------------------------------------------------------------------------------------------

    def process(self, index: int) -> None:
        """Process one input until it is done, skipped or failed for good."""
        failure = self.batch.failures.get(index)
        if failure:
            self._fail(index, failure)
            return
        attempt = 1
        while not self._attempt(index, attempt):
            time.sleep(0.1 * 2 ** (attempt - 1) * random.uniform(0.75, 1.25))  # noqa: S311
            attempt += 1

    def _attempt(self, index: int, attempt: int) -> bool:
        """Process one input; return False if reading it failed in a way that may be temporary."""
        surroundings = self.tools.surroundings
        try:
            self._store(index, checked_result(user_call(self.tools.process, self._take(index))))
        except (StorageError, Interrupted):
            # an input that has closed descriptors is to blame, not the storage
            surroundings.end_if_harmed()
            raise
        except Skip as reason:
            surroundings.after_user_code()
            self.sink.drop_input()
            head, text = self.tools.rows.skipped(self.rows[index][0], in_unicode(str(reason)) or "skipped")
            self.add(index, SKIPPED, head=head, text=text)
            self.report.counts.skipped += 1
        except BaseException as error:
            surroundings.after_user_code()
            self.sink.drop_input()
            error = error.error if isinstance(error, ForeignStorageError) else error
            if isinstance(error, OSError) and error.errno in FULL:
                raise StorageError.of(error, error.filename or "a temporary file") from error
            if attempt <= self.job.retries and may_pass(error):
                return False
            self._classify(index, error, attempt)
        finally:
            self._scratch.remove()
        return True

    def _classify(self, index: int, error: BaseException, attempts: int) -> None:
        """Note why an input failed: it cannot be read, or processing it raised an error."""
        dataset, path = self.job.dataset, self._path(index)
        unreadable = not_read(error, path)
        if unreadable and isinstance(error, OSError):
            error = UnreadableInput(f"{path}: cannot be read: {error.strerror}")
        failure = failure_of(error, attempts, self._current_members.get(index))
        if not unreadable and (self.batch.trial or self.batch.second is not None):
            self.blame = Blame.of(error, failure, dataset)
        failure = self._in_words_of_the_list(index, after_batch(self._batch_failure, failure))
        kind = kind_and_line(failure.error, failure.traceback, dataset)
        self._fail(index, failure, kind, unreadable=unreadable)

    def _in_words_of_the_list(self, index: int, failure: Failure) -> Failure:
        """Return the failure with the URL of a remote input instead of the path of its copy."""
        if index not in self._remote:
            return failure
        url = self._remote[index].url
        copy = f"{SCRATCH_SHOWN}/{local_name(url)}"
        return replace(failure, message=failure.message.replace(copy, without_secrets(url)))

    def _take(self, index: int) -> InputFile:
        """Return the input as `process` takes it."""
        job, tools = self.job, self.tools
        input_file = make_input(self.rows[index], job.header, job.at, job.layout, self._scratch)
        if not job.dataset.opens_files and self._found[index].size != UNREADABLE:
            return UnopenedFile(*input_file)
        if index in self._members:
            member = tools.members.take(input_file, index, self._members[index])
            # not by `local_path`, which would write the member to a file
            self._current_members[index] = member[1], member.input
            return member
        if index in self._remote:
            fetched = tools.fetcher.take(index)
            if self.job.marks.header is None or self._found[index].size == UNREADABLE:
                # note the version that was read: if the object has changed since the survey, the version
                # noted then may come back, which the time of a file does not
                self._found[index] = fetched.found
            return input_file._replace(local_path=fetched.path)
        if self._found[index].size == UNREADABLE:
            # the file may have appeared since the survey; if not, this raises the reason
            self._found[index] = look_at(input_file.local_path)
        return input_file

    def _process_together(self, together: Callable[[Sequence[InputFile]], Any]) -> None:
        """Give the batch to `process_batch`; inputs that it does not finish are then tried one by one."""
        surroundings = self.tools.surroundings
        indexes, inputs = [], []
        for index in range(len(self.batch)):
            if index not in self.batch.failures:
                with contextlib.suppress(OSError, InputError):
                    inputs.append(self._take(index))
                    indexes.append(index)
        self.tools.mark(TOGETHER)
        try:
            results = user_call(together, inputs)
            if isinstance(results, Sized) and len(results) != len(inputs):
                raise BadResult(f"process_batch gave {len(results)} results for {len(inputs)} inputs")  # noqa: TRY301
            for index, result in zip(indexes, user_items(results), strict=True):
                self._store(index, checked_result(result))
        except (StorageError, Interrupted):
            surroundings.end_if_harmed()
            raise
        except BaseException as error:  # noqa: BLE001 - a user's method may raise anything
            surroundings.after_user_code()
            self.sink.drop_input()
            error = error.error if isinstance(error, ForeignStorageError) else error
            # as text: the exception would keep alive what the batch used, such as memory of a GPU
            self._batch_failure = failure_of(error, 1)
            self.report.counts.one_by_one = 1
            self.report.problems.one_by_one_why = f"raised {in_one_line(error)}"
        finally:
            self._scratch.remove()

    def _store(self, index: int, result: Result) -> None:
        outputs, metadata = result
        rows, surroundings = self.rows[index], self.tools.surroundings
        made: list[OutputRow] = []
        names: set[str] = set()
        folder = ""
        size = files = 0
        for output in user_items(outputs):
            surroundings.before_output()
            if not isinstance(output, OutputFile):
                raise BadResult(
                    f"process returned a {type(output).__name__} among its outputs; expected OutputFile"
                )
            name, content, own, row = output
            where: Sequence[str] = self.tools.rows.no_file
            if not 0 <= row < len(rows):
                raise BadResult(f"an output names row {row}, but the input has {len(rows)}")
            if content is not None and self._passes(rows[row], own):
                _check_name(name, names)
                if not (folder or self.job.layout.naming):
                    folder = self._folder(index)
                stored = self.sink.store(folder, name, user_content(content), self._scratch)
                where = self.tools.rows.location(stored)
                size += stored.size or 0
                files += 1
            made.append((where, own, rows[row]))
        surroundings.after_user_code()
        self._keep(index, self._named(index, made, metadata), metadata, outputs=files, size=size)
        recorded = metadata.get(RECORDED)
        if isinstance(recorded, float) and math.isfinite(recorded):
            self.report.counts.recorded += recorded

    def _passes(self, row: Row, metadata: Metadata) -> bool:
        """Return whether to store an output: with shards and --keep, only if it meets the condition."""
        tools = self.tools
        return tools.holds is None or tools.holds((dict(zip(self.job.header, row, strict=True)), metadata))

    def _folder(self, index: int) -> str:
        """Return the folder of an input's outputs, in the output folder."""
        layout = self.job.layout
        return layout.folder(layout.key(self.rows[index][0][self.job.at]))

    def _named(self, index: int, made: list[OutputRow], metadata: Metadata) -> list[OutputRow]:
        """Return the outputs under the names that --name gives them, now that all metadata is known."""
        naming = self.job.layout.naming
        if naming is None:
            return made
        made = self.tools.rows.named(naming, self._folder(index), made, metadata)
        self.sink.rename([where[0] for where, _, _ in made if where[0]])
        return made

    # -- what became of an input -----------------------------------------------------------------------------

    def _keep(
        self, index: int, made: list[OutputRow], metadata: Metadata, *, outputs: int, size: int
    ) -> None:
        """Note that an input is done."""
        head, text = self.tools.rows.make(self.rows[index][0], made, metadata)
        self.sink.keep_input()
        self.add(index, DONE, head=head, outputs=outputs, size=size, text=text)

    def _fail(self, index: int, failure: Failure, kind: str = "", *, unreadable: bool = False) -> None:
        """Note a failed input; one that cannot be read now keeps its earlier outputs.

        `kind` names the error in short messages.
        """
        row, problems = self.rows[index][0], self.report.problems
        listed = row[self.job.at]
        if unreadable and index in self.batch.stale:
            key = self.batch.keys[index]
            problems += Problems(unreadable=[key], unreadable_names=[listed], unreadable_why=failure.message)
            return
        text = CsvText().encode([[*row, failure.error, failure.message, failure.traceback, failure.attempts]])
        self.add(index, FAILED, head=RowColumns(tuple(self.job.header)), text=text)
        self.report.counts.failed += 1
        problems += Problems(failures=[(one_line(listed), f"{kind or failure.error}: {failure.message}")])

    def add(  # noqa: PLR0913 - the fields of an entry
        self,
        index: int,
        status: int,
        *,
        head: RowColumns,
        text: bytes,
        outputs: int = 0,
        size: int = 0,
    ) -> None:
        """Add an input's entry to the commit record, and in a trial its outputs to the report."""
        # if the file has changed since it was looked at, the next run does it again
        mark = self.job.marks.of(self.batch.texts[index], *self._found[index])
        key = self.batch.keys[index]
        if self.batch.trial and outputs:
            self.report.tried.append(Tried(key, head, self.sink.names()))
        self.record.add(key, mark, status, head=head, outputs=outputs, size=size, text=text)
        self.finished.add(index)
        self.report.counts.done += status == DONE
        self.report.counts.empty += status == DONE and not outputs
        self.report.counts.outputs += outputs
        self.report.counts.bytes += size

    # -- commit ----------------------------------------------------------------------------------------------

    def _commit(self) -> None:
        """Publish and commit the finished inputs."""
        batch, gate = self.batch, self.tools.gate
        if not self.finished:
            return
        if batch.waits_for_verdict and gate and self.report.counts.failed == len(batch):
            # if the recipe is to blame, none of these failures may get into errors.csv
            gate.wait(SECONDS_FOR_VERDICT)
        vanish = [name for index, names in batch.stale.items() if index in self.finished for name in names]
        keys = [batch.keys[index] for index in sorted(self.finished)]
        self.publish(keys, vanish, durable=self.job.durable or bool(vanish))

    def publish(self, keys: list[int], vanish: list[str], *, durable: bool) -> None:
        """Begin, remove stale outputs, publish, commit: in this order, every crash is recoverable."""
        name, journal, storage = self.batch.name, self.tools.journal, self.job.storage
        appear = self.sink.names()
        storage.confirm()
        if appear or vanish:
            journal.begin(name, keys, [*appear, *vanish])
            storage.remove(vanish)
            self.sink.publish()
            if durable:
                storage.sync([*appear, *vanish])
            # publishing may have taken long
            storage.confirm()
        journal.commit(name, self.record)
        if appear or vanish:
            journal.end(name)
            storage.unstage(name)


class TrialInProgress(BatchInProgress):
    """A batch that is only tried, until an input gives an output file; nothing is published."""

    def _open_sink(self) -> SinkWriter:
        return DiscardWriter(self.job.storage, self.batch.name)

    def _process_all(self) -> None:
        for index in range(len(self.batch)):
            if not self.report.counts.outputs:
                self.process_next(index)

    def _commit(self) -> None:
        self.job.storage.unstage(self.batch.name)


def _check_name(name: Any, names: set[str]) -> None:  # noqa: ANN401
    """Refuse an output name that is not one path component, or is in `names`; add it there."""
    if not isinstance(name, str) or name in ("", ".", "..") or "/" in name or "\0" in name:
        raise BadResult(f"output name {name!r} is not one path component")
    try:
        length = len(name.encode("utf-8", "surrogateescape"))
    except UnicodeEncodeError:
        raise BadResult(f"output name {name!r} cannot be a file name") from None
    if length > LONGEST_NAME:
        raise BadResult(
            f"output name {name[:40]!r}… has {length} bytes; a file name has at most {LONGEST_NAME}"
        )
    same = same_name(name)
    if same in names:
        raise BadResult(f"output name {name!r} is used twice (ignoring case and Unicode form)")
    names.add(same)
