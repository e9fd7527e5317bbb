"""Files that a stage keeps only until they are used: dropped, and made again if they are needed again.

The commit records stay, so the result of each input remains known, and the next stage has its list.
"""

import copy
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from splitter.engine.assignment import Assignment, read_assignment, read_request
from splitter.engine.decide import NOTHING, decide
from splitter.engine.display import Display
from splitter.errors import Refused
from splitter.inputs.stages import Committed
from splitter.ledger.journal import Journal
from splitter.ledger.keeping import KeepRule
from splitter.ledger.records import FAILED, SIZE_AT
from splitter.ledger.run_files import DROPPED
from splitter.pipeline.definition import Stage
from splitter.storage.base import Storage
from splitter.storage.opening import storage_of
from splitter.text.csv import parse_rows
from splitter.text.show import show_count
from splitter.worker.messages import Batch


class Contents:
    """The files that may be dropped while a stage is at work: those that it makes, and those that it uses."""

    def __init__(self, stage: Stage, stages: Iterable[Stage]) -> None:
        """Take the stage, and all stages of the pipeline."""
        self._marks = stage.until_used
        source = stage.files_from
        users = users_of(source, stages) if source else []
        # in a chain of users, what the last one has done has gone through all others
        is_last = source is not None and users[-1] is stage and _is_chain(source, users)
        drops = source is not None and is_last and source.until_used
        self._source = storage_of(source.outputs.folder) if source and drops else None

    def begin(self, storage: Storage) -> None:
        """Note that files may be missing, before the first one is dropped."""
        if self._marks:
            DROPPED.save(storage, {"until_used": True})

    def used(self, run: Assignment, batch: Batch) -> None:
        """Drop the inputs of a committed batch, unless another stage needs them."""
        if self._source is not None:
            at = run.job.at
            self._source.remove(row[at] for text in batch.texts for row in parse_rows(text))


def _is_chain(source: Stage, users: Sequence[Stage]) -> bool:
    """Return whether each user of the files comes directly after the one before it."""
    return [user.before for user in users] == [source, *users[:-1]]


def users_of(stage: Stage, stages: Iterable[Stage]) -> list[Stage]:
    """Return the stages that read the files of one."""
    return [one for one in stages if one.files_from is stage]


def keys_needed(stages: Sequence[Stage]) -> dict[str, np.ndarray]:
    """Return, for each stage, the keys of inputs whose files were dropped and are needed now."""
    needed: dict[str, np.ndarray] = {}
    # a stage that makes files again may need files of the stage before it
    for stage in reversed(stages):
        needed[stage.name] = _needed_of(stage, stages, needed)
    return needed


def _needed_of(stage: Stage, stages: Sequence[Stage], needed: Mapping[str, np.ndarray]) -> np.ndarray:
    storage = storage_of(stage.outputs.folder)
    if not _may_be_dropped(storage):
        return NOTHING
    wanted = None
    users = users_of(stage, stages)
    if stage.until_used and not any(_keeps_others(user, stage) for user in users):
        wanted = {name for user in users for name in to_do(user, needed[user.name], also_failed=True)}
    keys = [key for key, names in _missing(storage) if wanted is None or not wanted.isdisjoint(names)]
    return np.array(keys, "u8")


def _keeps_others(user: Stage, source: Stage) -> bool:
    """Return whether --keep has changed in a stage from `source` on, so that `user` may need more files."""
    for stage in user.line[user.line.index(source) :]:
        stored = KeepRule.stored(storage_of(stage.outputs.folder))
        if stage.options.keep not in (None, stored.where if stored else ""):
            return True
    return False


def forget_dropped(stages: Iterable[Stage], needed: Mapping[str, np.ndarray]) -> None:
    """Remove the note of missing files, for stages that have all their files again and are to keep them."""
    for stage in stages:
        storage = storage_of(stage.outputs.folder)
        if not stage.until_used and not len(needed[stage.name]) and _may_be_dropped(storage):
            storage.remove([DROPPED.name])


def refuse_dropped(stages: Sequence[Stage]) -> None:
    """Refuse a stage that needs dropped files, if the stage that makes them does not run now."""
    for stage in stages:
        source = stage.files_from
        if source is None or source in stages:
            continue
        storage = storage_of(source.outputs.folder)
        if _may_be_dropped(storage):
            wanted = {*to_do(stage, also_failed=True)}
            gone = sum(1 for _, names in _missing(storage) for name in names if name in wanted)
            if gone:
                raise Refused(
                    f"stage {stage.name}: needs {show_count(gone, 'file')} of stage {source.name}, dropped "
                    "after use; leave --only out, so that they are made again"
                )


def _may_be_dropped(storage: Storage) -> bool:
    return storage.is_output() and storage.exists(DROPPED.name)


def drop_used(stage: Stage, stages: Iterable[Stage]) -> None:
    """Remove the files of a stage that all later stages have used; these must be complete."""
    storage = storage_of(stage.outputs.folder)
    kept = {name for user in users_of(stage, stages) for name in to_do(user, also_failed=True)}
    ((journal, entries),) = Committed.all_of(storage).parts
    with storage.locked():
        storage.remove(name for name in journal.outputs(entries) if name not in kept)


def _missing(storage: Storage) -> Iterator[tuple[int, list[str]]]:
    """Yield the keys of inputs with files that are missing or not whole, and the names of these files."""
    journal = Journal(storage)
    journal.load()
    # by the records alone: a killed driver may have left only a part of the list
    entries = journal.done()
    for entry, (head, rows) in zip(entries.tolist(), journal.rows_of_each(entries), strict=True):
        at = len(head.columns)
        files = [(row[at], row[at + SIZE_AT]) for row in rows if row[at] and row[at + SIZE_AT]]
        found = storage.of_each_output(storage.output_size, [name for name, _ in files])
        gone = [name for (name, size), there in zip(files, found, strict=True) if there != int(size)]
        if gone:
            yield int(journal.entries["key"][entry]), gone


def to_do(stage: Stage, needed: np.ndarray = NOTHING, *, also_failed: bool = False) -> list[str]:
    """Return the inputs that a stage still has to do, according to the commit records."""
    dataset, quiet = copy.copy(stage.dataset), Display(quiet=True)
    storage = storage_of(stage.outputs.folder)
    options = replace(stage.options, prune=stage.before is not None)
    with tempfile.TemporaryFile() as file:
        try:
            request = read_request(dataset, storage, options, quiet)
            run = read_assignment(request, file, quiet, keep=False)
            journal = Journal(storage)
            journal.peek(with_promises=True)
            state = decide(run, journal, needed=needed).state
        except Refused:
            # the stage has no list yet, or its driver will say what is wrong
            return []
        numbers = state.todo
        if also_failed:
            numbers = np.union1d(numbers, np.flatnonzero(journal.status(state.entries) == FAILED))
        return [run.table.listed(number) for number in numbers.tolist()]
