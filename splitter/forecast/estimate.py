"""Estimate the outputs of inputs in a short time, by their headers and by processing a few of them.

headers ──> outputs, and their bytes if these follow from the length
trial   ──> the rest: a few inputs are done in temporary space, and all others are assumed to be like them
"""

import contextlib
import os
import time
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from splitter.dataset import ProcessorDataset
from splitter.engine.assignment import Assignment
from splitter.engine.batches import make_batch
from splitter.errors import Skip, TimedOut
from splitter.executors.base import Limits
from splitter.executors.temporary import TemporaryOutput, temporary_output
from splitter.forecast.shard_overhead import more_in_shards
from splitter.inputs.table import BLOCK, InputTable
from splitter.ledger.journal import Journal
from splitter.ledger.records import FAILED
from splitter.system.cpus import usable_cpus
from splitter.system.pool import in_processes
from splitter.text.csv import parse_rows
from splitter.text.show import NAMES_SHOWN, one_line, show_failure
from splitter.text.urls import is_url
from splitter.worker.messages import Batch, Job

if TYPE_CHECKING:
    from splitter.forecast.forecast import Forecast

# how long headers are read; the inputs that are left then are assumed to be like those that were read
SECONDS_FOR_HEADERS = 20.0
HEADERS_AT_ONCE, MOST_SECONDS_AT_ONCE = 500, 20.0
# a trial takes tens of inputs, or as many as take a second; if inputs are slow, as many as take some seconds
MOST_ALONE, MOST_TRIED, MORE_EACH_TIME = 16, 32_768, 8
ENOUGH_SECONDS, SLOW_TAKE_LONGER, LONGEST_TRIAL = 1.0, 3, 10.0
# inputs that take less time are tried in batches, as they will be run
SECONDS_OF_QUICK_INPUT = 0.05
MOST_BYTES_TRIED = 1 << 28
WARMING_UP = "000000-"
# for each input: whether its recipe cannot count its outputs; whether it cannot tell their size; another
# measure of their content, from which the size may be estimated; whether the input will fail
_EXPECTED = np.dtype([("uncounted", "?"), ("unsized", "?"), ("content", "f8"), ("faulty", "?")])
_UNKNOWN = (True, True, 0.0, False)


class Outlook:
    """The estimate of what the inputs to do will give, which `look` puts into the plan."""

    def __init__(
        self, plan: "Forecast", run: Assignment, todo: np.ndarray, *, groups: int, known_seconds: float
    ) -> None:
        """Take the least number of shards, and the seconds that a look at all inputs has taken."""
        self._plan, self._run, self._job, self._table = plan, run, run.job, run.table
        self._todo, self._options = todo, run.options
        self._groups, self._known_seconds = groups, known_seconds
        self._all = Kinds(run.survey.sizes[todo].astype("f8"), _endings(run.table, todo))
        self._each = np.empty(len(todo), _EXPECTED)
        self._each[:] = _UNKNOWN
        # what the size of outputs is estimated from: the size of inputs, or another measure of their content
        self._content = self._all.sizes
        most = run.options.workers_asked[1]
        # on Ray, the cluster decides unless --workers does
        self._knows_workers = run.options.executor == "local" or most is not None
        plan.workers = max(1, usable_cpus() if most is None else most)

    def look(self) -> None:
        """Look at headers, then try a few inputs."""
        plan = self._plan
        plan.input_bytes = int(self._all.sizes.sum())
        if not len(self._todo):
            plan.seconds = self._known_seconds
            return
        self._headers()
        self._try()
        if not self._job.sink.makes_files:
            plan.bytes = 0

    # -- by headers ----------------------------------------------------------------------------------------

    def _headers(self) -> None:
        """Ask the recipe what it expects."""
        elsewhere = self._table.names_urls or is_url(self._job.layout.root) or len(self._run.survey.members)
        if type(self._job.dataset).expect is ProcessorDataset.expect or elsewhere:
            # the headers of inputs at URLs or in shards would have to be fetched
            self._plan.exact = False
            return
        try:
            self._ask()
        except OSError:
            # the recipe's own code ended its process, or hangs: the trial will show
            self._each[:] = _UNKNOWN
            self._plan.exact = False

    def _ask(self) -> None:
        plan, count = self._plan, len(self._todo)
        parts = max(1, -(-count // HEADERS_AT_ONCE))
        # each part is spread over the whole list
        look = partial(_expect, self._job, self._table, self._todo, parts)
        read = outputs = size = 0
        exact, first = True, list[str]()
        began = time.monotonic()
        # in other processes, since this is the user's code
        asked = in_processes(look, range(parts), always_fork=True, patience=MOST_SECONDS_AT_ONCE)
        with contextlib.closing(asked) as found:
            for number, part in enumerate(found):
                self._each[number::parts] = part.each
                if not number and part.each["uncounted"].all():
                    break
                read += len(part.each)
                outputs += part.outputs
                size += part.bytes
                exact = exact and part.exact
                first = [*first, *part.first][:NAMES_SHOWN]
                if time.monotonic() - began > SECONDS_FOR_HEADERS:
                    break
        plan.faulty, plan.faulty_first = int(self._each["faulty"].sum()), first
        plan.outputs, plan.bytes = outputs, size
        if 0 < read < count:
            self._take_to_be_alike(read, parts, number)
        plan.exact = exact and read == count and not self._each["uncounted"].any()
        if plan.exact and self._each["content"][self._each["unsized"]].any():
            self._content = self._each["content"]

    def _take_to_be_alike(self, read: int, parts: int, last: int) -> None:
        """Assume that unread inputs are like those that were read, which were spread over the list."""
        plan, count = self._plan, len(self._todo)
        unread = np.arange(count) % parts > last
        for field_name, name in (("uncounted", "outputs"), ("unsized", "bytes")):
            unknown = self._each[field_name]
            unknown[unread] = unknown[~unread].mean() > 1 / 2
            if not unknown[unread].any():
                setattr(plan, name, round(getattr(plan, name) * count / read))

    # -- by a trial ----------------------------------------------------------------------------------------

    def _try(self) -> None:
        """Process some inputs in temporary space, as workers will, and assume that the rest is like them."""
        plan, options = self._plan, self._options
        patience = min(options.timeout or LONGEST_TRIAL, LONGEST_TRIAL)
        limits = Limits(plan.workers, 0, patience, options.memory_bytes)
        chosen, alone = self._all.sample(MOST_ALONE), True
        began = time.monotonic()
        while True:
            with temporary_output(self._job, limits) as temporary:
                tested = self._tested(temporary, chosen, alone=alone)
                alone = tested.seconds_of_one > SECONDS_OF_QUICK_INPUT
                enough = ENOUGH_SECONDS * (SLOW_TAKE_LONGER if alone else 1)
                left = enough - (time.monotonic() - began)
                others = self._others(tested, len(chosen), left, alone=alone)
                if not len(others):
                    self._take(tested)
                    of_each, of_shard = more_in_shards(self._job, temporary, tested.journal, tested.entries)
                    shards = min(self._groups, plan.outputs)
                    plan.bytes += round(of_each * plan.outputs + of_shard * shards)
                    return
            chosen = others

    def _others(self, tested: "_Tested", before: int, seconds: float, *, alone: bool) -> np.ndarray:
        """Return more inputs to try instead; none if these are enough."""
        enough = seconds <= 0 or tested.unfinished or before in (len(self._todo), MOST_TRIED)
        if enough or not tested.seconds_of_one:
            return np.empty(0, "i8")
        if alone:
            # as many as can be tried one by one in the time that is left
            in_time = int(seconds * self._plan.workers / tested.seconds_of_one)
            others = self._all.sample(min(before * MORE_EACH_TIME, before + in_time))
        else:
            # evenly spread
            more = min(len(self._todo), MOST_TRIED, before * MORE_EACH_TIME)
            others = np.unique(np.linspace(0, len(self._todo) - 1, more).astype("i8"))
        return others if len(others) > before else np.empty(0, "i8")

    def _take(self, tested: "_Tested") -> None:
        """Put the results of a trial into the plan."""
        plan, todo, known = self._plan, self._todo, tested.known
        made = tested.journal.entries[tested.entries]
        outputs, sizes = made["outputs"].astype("f8"), made["bytes"].astype("f8")
        plan.tried, plan.tried_failed = len(known), tested.failed
        plan.failed_first = tested.first_failures
        plan.unfinished = tested.unfinished
        if len(known) == len(todo):
            # there is nothing left to guess
            plan.exact = True
            plan.outputs, plan.bytes = int(outputs.sum()), int(sizes.sum())
        else:
            uncounted, unsized = self._each["uncounted"], self._each["unsized"]
            some, others = uncounted[known], unsized[known]
            plan.outputs += round(self._all.total(known[some], outputs[some], uncounted))
            by_content = replace(self._all, sizes=self._content)
            plan.bytes += round(by_content.total(known[others], sizes[others], unsized))
        if self._knows_workers and tested.seconds_of_one:
            busy = min(plan.workers, len(todo))
            plan.seconds = self._known_seconds + tested.start + self._work(tested) / busy

    def _work(self, tested: "_Tested") -> float:
        """Return the seconds that all inputs take together."""
        if tested.at_once == 1:
            return self._all.total(np.array([*tested.seconds]), np.array([*tested.seconds.values()]))
        # many inputs, evenly spread
        return tested.seconds_of_one * len(self._todo)

    def _tested(self, temporary: TemporaryOutput, chosen: np.ndarray, *, alone: bool) -> "_Tested":
        """Process some of the inputs to do, and return the results."""
        journal = Journal(temporary.storage)
        tested = _Tested(1 if alone else -(-len(chosen) // (4 * self._plan.workers)), journal)
        inputs_of = {
            f"000001-{start:06d}": chosen[start : start + tested.at_once]
            for start in range(0, len(chosen), tested.at_once)
        }
        batches = [make_batch(name, self._run, self._todo[some]) for name, some in inputs_of.items()]
        began = ready = time.monotonic()
        said: dict[str, str] = {}
        for report in temporary.reports([*self._warming_up(chosen), *batches]):
            report.problems.raise_stop()
            if report.batch.startswith(WARMING_UP):
                # setup() does not count towards the time of the trial
                ready = time.monotonic() if ready == began else ready
                tested.start = time.monotonic() - began - report.counts.seconds
            elif report.counts.inputs:
                seconds = report.counts.seconds / report.counts.inputs
                tested.seconds[int(inputs_of[report.batch][0])] = seconds
                said.update(report.problems.failures)
            if time.monotonic() - ready > LONGEST_TRIAL and ready > began:
                break
        journal.load()
        entries = journal.find(self._run.survey.keys[self._todo[chosen]])
        self._sort_out(tested, chosen[entries >= 0], entries[entries >= 0], said)
        return tested

    def _sort_out(
        self, tested: "_Tested", known: np.ndarray, entries: np.ndarray, said: dict[str, str]
    ) -> None:
        """Separate failures from inputs that ran out of time, and from failures that headers predicted."""
        journal = tested.journal
        failed = np.flatnonzero(journal.entries["status"][entries] == FAILED)
        limited = self._options.timeout is None or self._options.timeout > LONGEST_TRIAL
        unfinished: list[int] = []
        for at, (head, rows) in zip(failed.tolist(), journal.rows_of_each(entries[failed]), strict=True):
            error, message = rows[0][len(head.columns) :][:2]
            if error == TimedOut.__name__ and limited:
                # it takes at least the time that it was given
                unfinished.append(at)
            elif not self._each["faulty"][known[at]]:
                listed = one_line(rows[0][self._table.at])
                tested.failed += 1
                if len(tested.first_failures) < NAMES_SHOWN:
                    text = one_line(said.get(listed, f"{error}: {message}"))
                    tested.first_failures.append(show_failure(listed, text))
        tested.unfinished = len(unfinished)
        tested.known, tested.entries = np.delete(known, unfinished), np.delete(entries, unfinished)

    def _warming_up(self, chosen: np.ndarray) -> list[Batch]:
        """Return a small input for each worker: what is loaded for a first input does not count as work."""
        smallest = self._todo[chosen[[np.argmin(self._all.sizes[chosen])]]]
        return [
            replace(make_batch(f"{WARMING_UP}{number:06d}", self._run, smallest), trial=True)
            for number in range(self._plan.workers)
        ]


@dataclass
class _Tested:
    """The results of a trial.

    Attributes:
        at_once: How many inputs were tried in a batch.
        journal: The commit records of the trial.
        failed: How many inputs failed, without those whose headers predicted it.
        first_failures: The first few of these.
        unfinished: How many inputs were given up.
        start: The seconds until the first input was begun.
        seconds: The seconds per input in each batch, by the first input of the batch.
        known: The inputs that have a result.
        entries: The entries of these inputs in the journal.
    """

    at_once: int
    journal: Journal
    failed: int = 0
    first_failures: list[str] = field(default_factory=list)
    unfinished: int = 0
    start: float = 0.0
    seconds: dict[int, float] = field(default_factory=dict)
    known: np.ndarray = field(default_factory=lambda: np.empty(0, "i8"))
    entries: np.ndarray = field(default_factory=lambda: np.empty(0, "i8"))

    @property
    def seconds_of_one(self) -> float:
        """The mean time of an input."""
        return sum(self.seconds.values()) / len(self.seconds) if self.seconds else 0.0


def _endings(table: InputTable, todo: np.ndarray) -> np.ndarray:
    """Return a number for each input that stands for the ending of its name."""
    numbers: dict[str, int] = {}
    found = np.empty(len(todo), "i4")
    for start in range(0, len(table), BLOCK):
        first, last = np.searchsorted(todo, (start, start + BLOCK)).tolist()
        if first < last:
            texts = table.texts(start, min(len(table), start + BLOCK))
            names = (parse_rows(texts[index - start])[0][table.at] for index in todo[first:last].tolist())
            endings = (os.path.splitext(name)[1].lower() for name in names)
            found[first:last] = [numbers.setdefault(one, len(numbers)) for one in endings]
    return found


@dataclass(frozen=True)
class Kinds:
    """The sizes and kinds of inputs: those of one kind are assumed to be alike, except for their sizes."""

    sizes: np.ndarray
    kinds: np.ndarray

    def sample(self, most: int) -> np.ndarray:
        """Return all inputs, or about `most` of the largest kinds, half by number and half by bytes."""
        if len(self.sizes) <= most and self.sizes.sum() <= MOST_BYTES_TRIED:
            return np.arange(len(self.sizes))
        weights = np.bincount(self.kinds, self.sizes + 1)
        largest = np.argsort(-weights, kind="stable")[: most // 4]
        each = max(2, most // len(largest) // 2)
        chosen = [self._of_different_sizes(np.flatnonzero(self.kinds == kind), each) for kind in largest]
        found: np.ndarray = np.unique(np.concatenate(chosen))
        small = found[self.sizes[found] <= MOST_BYTES_TRIED]
        return small if len(small) else np.argsort(self.sizes)[:1]

    def _of_different_sizes(self, some: np.ndarray, each: int) -> np.ndarray:
        order = some[np.argsort(self.sizes[some], kind="stable")]
        evenly = np.linspace(0, len(order) - 1, each).round().astype("i8")
        sums = np.cumsum(self.sizes[order] + 1)
        by_bytes = np.searchsorted(sums, np.linspace(0.1, 0.9, each) * sums[-1])
        return order[np.concatenate((evenly, by_bytes))]

    def total(self, known: np.ndarray, values: np.ndarray, among: np.ndarray | None = None) -> float:
        """Estimate the sum over all inputs, or over those in `among`, from the values of a few."""
        if not len(known):
            return 0.0
        total = 0.0
        for kind in np.unique(self.kinds):
            mine = self.kinds == kind if among is None else (self.kinds == kind) & among
            alike = self.kinds[known] == kind
            if not alike.any():
                alike[:] = True
            total += _extended(self.sizes[known[alike]], values[alike], self.sizes[mine])
        return total


def _extended(sizes: np.ndarray, values: np.ndarray, all_sizes: np.ndarray) -> float:
    """Estimate the sum over all sizes of a value with a fixed part and a part for each byte."""
    mean_size, mean = sizes.mean(), values.mean()
    spread = ((sizes - mean_size) ** 2).mean()
    slope = ((sizes - mean_size) * (values - mean)).mean() / spread if spread else 0.0
    if slope < 0 or not mean_size:
        slope = 0.0
    elif mean < slope * mean_size:
        slope = mean / mean_size
    return float(len(all_sizes) * (mean - slope * mean_size) + slope * all_sizes.sum())


def _reason(error: Exception) -> str:
    """Return why an input will fail, in the words of errors.csv."""
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.filename}: cannot be read: {error.strerror}"
    return str(error) or type(error).__name__


# -- headers, in one of many processes -----------------------------------------------------------------------


@dataclass
class _Headers:
    """The outputs that a recipe expects from some inputs."""

    each: np.ndarray
    outputs: int = 0
    bytes: int = 0
    exact: bool = True
    # the first of those that will fail, and why
    first: list[str] = field(default_factory=list)


def _expect(job: Job, table: InputTable, todo: np.ndarray, parts: int, part: int) -> _Headers:
    """Ask the recipe about one part of the inputs: each of the `parts` is spread over the list."""
    some = todo[part::parts]
    told = _Headers(np.zeros(len(some), _EXPECTED))
    job.dataset.ready()
    for index, of_one in zip(some.tolist(), told.each, strict=True):
        input_file = table.input_file(index, job.layout)
        try:
            expected = job.dataset.expect(input_file)
        except Skip:
            continue
        except Exception as error:  # noqa: BLE001 - a user's method may raise anything
            of_one["faulty"] = True
            if len(told.first) < NAMES_SHOWN:
                told.first.append(one_line(_reason(error)))
            continue
        finally:
            input_file.scratch_folder.remove()
        if expected is None:
            of_one["uncounted"] = of_one["unsized"] = True
            continue
        told.outputs += expected.outputs
        told.exact = told.exact and expected.exact
        of_one["unsized"], of_one["content"] = expected.bytes is None, expected.content
        told.bytes += expected.bytes or 0
    return told
