"""The main path: from a dataset list to a manifest.

    list -> survey -> compare with the commit records -> batches -> executor -> manifest

What an executor returns is only progress. After every round the commit records say what is left.
"""

import contextlib
import enum
import json
import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, is_dataclass, replace
from pathlib import PurePath
from typing import Any

import numpy as np
import torch
import xxhash

from splitter.batch import Job, Planner, Report
from splitter.dataset import ProcessorDataset, check_parameters
from splitter.errors import Interrupted, Refused, RunStopped, StorageError
from splitter.executors import EXECUTORS, Executor, Limits
from splitter.inputs import InputList, Layout, Survey, Table, copy_list, read_source, survey
from splitter.manifest import DONE, FAILED, MANIFEST, OWN_COLUMNS, SKIPPED, Journal, State, compare
from splitter.options import RunOptions, usable_cpus
from splitter.progress import Display
from splitter.sinks import SINKS
from splitter.storage import OWN_FOLDER, LocalStorage

LIST = f"{OWN_FOLDER}/dataset.csv"
RUN = f"{OWN_FOLDER}/run.json"
ROUNDS_WITHOUT_PROGRESS = 3


@dataclass(frozen=True)
class Summary:
    """What a run came to.

    Attributes:
        output: The output folder.
        inputs: How many the list has.
        done: How many of them are done, now or before.
        skipped: How many the recipe left out.
        failed: How many stand in errors.csv.
        left: How many are neither: the run was limited, or ended early.
        unreadable: Inputs that were done before, cannot be read now, and keep what they had.
        gone: How many inputs have outputs and are no longer in the list.
        pruned: How many inputs' outputs were removed.
        work: What this run itself did.
        seconds: How long it took.
        limited: Whether it was asked for a part only.
        stopped: Why it ended early, if it did.
    """

    output: str
    inputs: int
    done: int
    skipped: int
    failed: int
    left: int
    unreadable: list[str]
    gone: int
    pruned: int
    work: Report
    seconds: float
    limited: bool
    stopped: str

    @property
    def manifest(self) -> str:
        """The path of manifest.csv."""
        return os.path.join(self.output, MANIFEST)

    @property
    def exit_code(self) -> int:
        """0 if all inputs are done or skipped, else 1."""
        return int(bool(self.failed or self.unreadable or self.stopped or (self.left and not self.limited)))


@dataclass
class Engine:
    """One run."""

    dataset: ProcessorDataset
    storage: LocalStorage
    options: RunOptions
    display: Display
    work: Report = field(default_factory=Report)
    pruned: int = 0
    stopped: str = ""
    began: float = field(default_factory=time.monotonic)

    def run(self) -> Summary:
        """Read the list, do what is not done, and bring the manifest together."""
        check_parameters(self.dataset, RunOptions.__dataclass_fields__)
        self.dataset.device = _device(self.options.device)
        listing = _listing(self.dataset.inputs, self.options)
        header, rows, root = read_source(listing, leave_out=self.storage.root)
        _refuse_own_columns(header)
        self.storage.prepare()
        with self.storage.locked(), open(self.storage.path(LIST), "w+b") as file:
            table = copy_list(header, rows, file, listing.column)
            layout = Layout(root, self.options.keep_extension)
            found = survey(table, layout, group_rows=self.dataset.group_rows)
            return self._work_through(table, found, self._job(table, layout))

    def _job(self, table: Table, layout: Layout) -> Job:
        """What the workers need to know."""
        sink = SINKS[self.options.sink]()
        how = {
            "recipe": type(self.dataset).__qualname__,
            "version": self.dataset.version,
            "device": self.dataset.device,
            "sink": self.options.sink,
            **sink.options(),
            "keep_extension": self.options.keep_extension,
            **{f"parameter {name}": _plain(value) for name, value in self.dataset.parameters.items()},
        }
        self._how = json.loads(json.dumps(how))
        seed = xxhash.xxh3_64_intdigest(json.dumps([self._how, table.header], sort_keys=True).encode())
        return Job(
            self.dataset, self.storage, sink, layout, table.header, table.at, seed, self.options.retries
        )

    def _work_through(self, table: Table, found: Survey, job: Job) -> Summary:
        executor = self._executor()
        journal = Journal(self.storage)
        journal.recover()
        journal.load()
        self._remove_what_is_asked(journal, found)
        state = self._compare(journal, table, found, job)
        self._announce(state, table)
        try:
            self._rounds(journal, table, found, job, executor, state)
        except Interrupted as interruption:
            interruption.summary = self._finish(journal, table, found)
            raise
        return self._finish(journal, table, found, compact=True)

    def _executor(self) -> Executor:
        workers = usable_cpus() if self.options.workers is None else self.options.workers
        return EXECUTORS[self.options.executor](
            Limits(workers, self.options.timeout, self.options.memory_bytes)
        )

    def _remove_what_is_asked(self, journal: Journal, found: Survey) -> None:
        """--fresh and --prune: removal goes through the same records as everything else."""
        nothing = np.empty(0, "u8")
        chosen = journal.others(nothing if self.options.fresh else found.keys)
        if len(chosen) and (self.options.fresh or self.options.prune):
            self.storage.remove([MANIFEST])
            self.pruned = len(chosen)
            journal.forget(chosen, f"{journal.next_generation:06d}-forget")
            journal.load()

    def _compare(self, journal: Journal, table: Table, found: Survey, job: Job) -> State:
        fingerprints = found.fingerprints(table, job.seed) if len(journal.entries) else None
        return compare(
            journal, found, fingerprints, limit=self.options.limit, retry_failed=self.options.retry_failed
        )

    def _announce(self, state: State, table: Table) -> None:
        """Say what will be done, before it is done; loudly where finished work is done again."""
        before = json.loads(self.storage.read(RUN)) if self.storage.exists(RUN) else {}
        if len(state.changed):
            for name in sorted({*self._how, *before}):
                if before.get(name) != self._how.get(name):
                    self.display.warn(f"{name} changed from {before.get(name)!r} to {self._how.get(name)!r}")
            self.display.warn(f"{len(state.changed):,} finished inputs changed and are done again")
            self.storage.remove([MANIFEST])
        self.storage.write(RUN, json.dumps(self._how, indent=1).encode())
        if not len(state.todo):
            self.display.say(f"nothing to do: all {len(table):,} inputs are finished" if len(table) else "no inputs")

    # -- rounds: one is enough, unless a worker process is lost --------------------------------------------

    def _rounds(
        self, journal: Journal, table: Table, found: Survey, job: Job, executor: Executor, state: State
    ) -> None:
        allowed = self.options.failures_allowed(len(state.todo))
        stalled = 0
        while len(state.todo) and not self.stopped:
            reported = self._round(journal, table, found, job, executor, state, allowed)
            if reported == len(state.todo):
                return
            left = len(state.todo)
            journal.recover()
            journal.load()
            state = self._compare(journal, table, found, job)
            stalled = stalled + 1 if len(state.todo) == left else 0
            if stalled == ROUNDS_WITHOUT_PROGRESS:
                self.stopped = f"worker processes were lost {stalled} times with nothing done in between"
            elif not self.stopped:
                self.display.warn("a worker process was lost; starting again with what is not committed")

    def _round(  # noqa: PLR0913
        self, journal: Journal, table: Table, found: Survey, job: Job, executor: Executor, state: State, allowed: float
    ) -> int:
        """Run all batches once; returns how many inputs were reported on."""
        planner = Planner(
            job,
            table,
            found,
            state,
            journal,
            generation=journal.next_generation,
            workers=executor.limits.workers,
            size=self.options.batch_size,
        )
        executor = self._no_more_workers_than_batches(executor, planner.batches)
        reported = 0
        self.display.start(inputs=len(state.todo), size=int(np.maximum(found.sizes[state.todo], 0).sum()))
        with contextlib.closing(executor.run(job, planner)) as reports:
            for report in reports:
                planner.learn(report)
                self.work += report
                self.display.update(self.work)
                reported += report.inputs
                self.stopped = report.stop
                if self.work.failed > allowed:
                    self.stopped = f"{self.work.failed:,} inputs failed, more than --max-failures {self.options.max_failures}"
                if self.stopped:
                    break
        return reported

    def _no_more_workers_than_batches(self, executor: Executor, batches: int) -> Executor:
        workers = executor.limits.workers
        if batches >= workers:
            return executor
        self.display.say(f"{batches:,} batches for {workers} workers: at most {batches} of them will be busy")
        return type(executor)(replace(executor.limits, workers=batches))

    # -- the end ---------------------------------------------------------------------------------------------

    def _finish(self, journal: Journal, table: Table, found: Survey, *, compact: bool = False) -> Summary:
        """Bring manifest.csv and errors.csv together from what is committed."""
        try:
            journal.recover()
            journal.load()
            entries = journal.find(found.keys)
            status = np.zeros(len(entries), "u1")
            status[entries >= 0] = journal.entries["status"][entries[entries >= 0]]
            gone = journal.others(found.keys)
            self.display.say("writing the manifest")
            journal.write_manifest(entries[(status == DONE) | (status == SKIPPED)], table.header)
            journal.write_errors(entries[status == FAILED], table.header)
            if compact:
                generation = journal.next_generation
                journal.compact(np.concatenate((entries[entries >= 0], gone)), generation)
        except StorageError as error:
            self.stopped = self.stopped or str(error)
            status, gone = np.zeros(len(found.keys), "u1"), np.empty(0)
        return self._summary(status, len(gone))

    def _summary(self, status: np.ndarray, gone: int) -> Summary:
        return Summary(
            output=self.storage.root,
            inputs=len(status),
            done=int((status == DONE).sum()),
            skipped=int((status == SKIPPED).sum()),
            failed=int((status == FAILED).sum()),
            left=int((status == 0).sum()),
            unreadable=self.work.unreadable,
            gone=gone,
            pruned=self.pruned,
            work=self.work,
            seconds=time.monotonic() - self.began,
            limited=self.options.limit is not None,
            stopped=self.stopped,
        )


def _listing(inputs: InputList, options: RunOptions) -> InputList:
    """The list as the recipe was given it, with what the options say of it."""
    given = {name: getattr(options, name) for name in ("root", "delimiter", "pattern") if getattr(options, name)}
    if options.column != "input":
        given["column"] = options.column
    return replace(inputs, **given, rename={**(inputs.rename or {}), **options.new_names})


def _refuse_own_columns(header: list[str]) -> None:
    for name in header:
        if name in OWN_COLUMNS:
            message = f"the dataset list has a column {name!r}, which the manifest has of its own"
            raise Refused(f"{message}; use --rename {name}=NEW")


def _device(wanted: str) -> str:
    # asked in a way that leaves CUDA untouched, so that workers can still be forked
    os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
    there = wanted != "cpu" and torch.cuda.is_available()
    if wanted == "cuda" and not there:
        raise Refused("--device cuda: this machine has no usable GPU; use --device cpu or auto")
    return "cuda" if there else "cpu"


def _plain(value: Any) -> Any:  # noqa: ANN401 - whatever parameter a recipe takes
    """A parameter as it enters the fingerprint: equal from run to run, different when it differs."""
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if isinstance(value, (set, frozenset)):
        return sorted(json.dumps(_plain(one)) for one in value)
    if hasattr(value, "__qualname__"):
        return f"{value.__module__}.{value.__qualname__}"
    # a place in memory says nothing
    text = re.sub(r" at 0x[0-9a-f]+", "", repr(value))
    return f"{type(value).__qualname__} {text}" if is_dataclass(value) or "<" not in text else type(value).__qualname__
