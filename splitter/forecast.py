"""`splitter plan`: what a run would do, before it does it. Nothing is written but temporary files.

list -> survey -> compare with the commit records -> headers -> a short trial -> numbers
"""

import contextlib
import copy
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from functools import partial

import numpy as np

from splitter.apart import Apart, apart
from splitter.csv_text import parse_rows
from splitter.dataset import ProcessorDataset
from splitter.engine import Engine
from splitter.errors import RecipeError, RunStopped, Skip
from splitter.executors import Limits
from splitter.folder import LocalStorage
from splitter.groups import deal
from splitter.how import how_before
from splitter.inputs import BLOCK, Survey, Table, advice_on_missing, why_unreadable
from splitter.jobs import Batch, Job
from splitter.kept import inputs_of_part
from splitter.manifest import DONE, FAILED, SKIPPED, Journal, State, compare, refuse_taken
from splitter.options import RunOptions, usable_cpus
from splitter.places import UNREADABLE
from splitter.plan import make_batch
from splitter.processes import in_processes
from splitter.progress import Display, one_line, show_bytes, show_count, show_seconds
from splitter.storage import Storage
from splitter.tables import refuse_in_the_way
from splitter.work import NO_INPUTS, first_inputs, refuse_another_layout

NAMES_SHOWN = 3
# headers are read for so long; what is left then is taken to be like what was read
SECONDS_FOR_HEADERS = 20.0
HEADERS_AT_ONCE = 500
# a trial is tens of inputs, or as many as take a second
MOST_ALONE, MOST_TRIED, MORE_EACH_TIME = 16, 32_768, 8
ENOUGH_SECONDS, LONGEST_TRIAL = 1.0, 10.0
# inputs that take less are tried in batches, as they will be run
SECONDS_OF_QUICK_INPUT = 0.05
MOST_BYTES_TRIED = 1 << 28
WARMING_UP = "000000-"


@dataclass
class Forecast:
    """What a run would do.

    Attributes:
        output: The output folder.
        inputs: How many inputs the run is for.
        new: How many of them no run has finished.
        changed: How many were finished and would be done again.
        done: How many are finished, done or skipped, and would be left alone.
        failed: How many failed before; they are left alone, too, unless --retry-failed is given.
        missing: How many cannot be read now.
        to_do: How many would be processed.
        input_bytes: The size of those that would be processed and can be read.
        outputs: How many output files would be made.
        bytes: Their size.
        exact: Whether the number of outputs is certain, not only likely.
        seconds: How long the run would take; None where nothing can tell.
        workers: How many workers there would be.
        tried: How many inputs were tried for these numbers.
        tried_failed: How many of them failed.
        free: The free bytes where the outputs would go; None where nobody knows.
        missing_first: The first few that cannot be read, with the reason.
        faulty: How many have a header that cannot be read.
        faulty_first: The first few of them, with the reason.
        failed_first: The first few that failed when they were tried, with the reason.
    """

    output: str
    inputs: int = 0
    new: int = 0
    changed: int = 0
    done: int = 0
    failed: int = 0
    missing: int = 0
    to_do: int = 0
    input_bytes: int = 0
    outputs: int = 0
    bytes: int = 0
    exact: bool = True
    seconds: float | None = None
    workers: int = 0
    tried: int = 0
    tried_failed: int = 0
    free: int | None = None
    missing_first: list[str] = field(default_factory=list)
    faulty: int = 0
    faulty_first: list[str] = field(default_factory=list)
    failed_first: list[str] = field(default_factory=list)

    def to_json(self) -> str:
        """For scripts."""
        return json.dumps(asdict(self))

    def lines(self) -> Iterator[str]:
        """For a person."""
        kinds = ("new", "changed", "done", "failed", "missing")
        counts = ", ".join(f"{getattr(self, kind):,} {kind}" for kind in kinds if getattr(self, kind))
        yield f"{show_count(self.inputs, 'input')}{counts and ': '}{counts}"
        if not self.to_do:
            again = " (--retry-failed tries again what failed)" if self.failed else ""
            yield f"nothing to do{again}" if self.inputs else f"nothing to do: {NO_INPUTS}"
        else:
            about = "" if self.exact else "about "
            yield (
                f"to do: {show_count(self.to_do, 'input')} ({show_bytes(self.input_bytes)}), which give "
                f"{about}{show_count(self.outputs, 'output')} (about {show_bytes(self.bytes)})"
            )
            yield self._time()
        if self.free is not None:
            yield f"{self.output}: {show_bytes(self.free)} are free there"
            if self.bytes > self.free:
                yield f"too little room: {show_bytes(self.bytes - self.free)} more are needed"
        for count, names, what in (
            (self.missing, self.missing_first, "cannot be read"),
            (self.faulty, self.faulty_first, "will fail, by the header"),
            (self.tried_failed, self.failed_first, f"of {self.tried:,} tried failed"),
        ):
            if count:
                more = f"; and {count - len(names):,} more" if count > len(names) else ""
                yield f"{show_count(count, 'input')} {what}: {'; '.join(names)}{more}"

    def _time(self) -> str:
        with_workers = f"with {show_count(self.workers, 'worker')}"
        if self.seconds is None:
            return f"time: not known, {with_workers}"
        tried = f"by a trial of {show_count(self.tried, 'input')}"
        return f"time: about {show_seconds(self.seconds)} {with_workers}, {tried}"


def forecast(dataset: ProcessorDataset, storage: Storage, options: RunOptions, display: Display) -> Forecast:
    """What a run would do; refuses what the run would refuse."""
    began = time.monotonic()
    engine = Engine(dataset, storage, options, display)
    asked = engine.asked()
    storage.refuse_strange()
    with contextlib.closing(asked.executor), tempfile.TemporaryFile() as file:
        job, table, found, how = engine.surveyed(asked, file)
        advice = advice_on_missing(asked.listing, table, job.layout, found)
        if advice:
            display.warn(advice)
        state, status, mine = _state(job, table, found, options, how)
        plan = Forecast(storage.root, free=_free(storage))
        _count(plan, table, job, found, state, status, mine)
        known_seconds = time.monotonic() - began
        todo = state.todo[found.sizes[state.todo] != UNREADABLE]
        _Outlook(plan, job, table, found, todo, options, known_seconds).look()
    return plan


def _state(
    job: Job, table: Table, found: Survey, options: RunOptions, how: dict[str, object]
) -> tuple[State, np.ndarray, np.ndarray]:
    """What is to be done, what inputs have come to, and which of them the run is for."""
    journal = Journal(job.storage)
    if not options.fresh:
        journal.peek()
        refuse_another_layout(journal, job.storage, how_before(job.storage)[0], how)
    refuse_in_the_way(job.storage, options.other_tables)
    mine = _of_part(job, found, options)
    asked = first_inputs(options.limit, len(table), mine)
    marks = found.fingerprints(table, job.seed) if len(journal.entries) else None
    state = compare(journal, found, marks, asked=asked, retry_failed=options.retry_failed)
    if not options.prune:
        refuse_taken(journal, table, job.layout, found, state)
    everyone = np.ones(len(table), bool) if asked is None else asked
    return state, journal.status(state.entries), everyone


def _of_part(job: Job, found: Survey, options: RunOptions) -> np.ndarray | None:
    """Which inputs are for this part, as the run will divide them."""
    part = job.storage.part
    if part is None or job.sink.divisible:
        return inputs_of_part(job.storage, found, keep=False)
    alone = copy.copy(job.storage)
    # what is dealt out is kept by a part only
    alone.part = None
    dealt = deal(alone, found, shard_bytes=options.shard_bytes, seed=options.shuffle, afresh=options.fresh)
    return dealt.of_part(found.keys, part)


def _count(  # noqa: PLR0913, PLR0917 - what is known
    plan: Forecast,
    table: Table,
    job: Job,
    found: Survey,
    state: State,
    status: np.ndarray,
    mine: np.ndarray,
) -> None:
    """Each input is one of new, changed, done, failed and missing."""
    stale = np.zeros(len(table), bool)
    stale[state.stale] = True
    missing = mine & (found.sizes == UNREADABLE)
    there = mine & ~missing
    finished = (status == DONE) | (status == SKIPPED)
    plan.inputs, plan.missing = int(mine.sum()), int(missing.sum())
    plan.done = int((there & finished & ~stale).sum())
    plan.failed = int((there & (status == FAILED) & ~stale).sum())
    plan.changed = int((there & finished & stale).sum())
    plan.new = plan.inputs - plan.missing - plan.done - plan.failed - plan.changed
    plan.to_do = len(state.todo)
    for index in np.flatnonzero(missing)[:NAMES_SHOWN].tolist():
        listed = table.listed(index)
        plan.missing_first.append(one_line(why_unreadable(job.layout.place(listed)) or listed))


def _free(storage: Storage) -> int | None:
    """The free bytes on the disk of an output folder, which need not be there yet; None for a store."""
    if not isinstance(storage, LocalStorage):
        return None
    root = storage.root
    while not os.path.isdir(root) and os.path.dirname(root) != root:
        root = os.path.dirname(root)
    try:
        return shutil.disk_usage(root).free
    except OSError:
        return None


class _Outlook:
    """Finds out what will come of the inputs that are to be done."""

    def __init__(  # noqa: PLR0913, PLR0917 - what is known
        self,
        plan: Forecast,
        job: Job,
        table: Table,
        found: Survey,
        todo: np.ndarray,
        options: RunOptions,
        known_seconds: float,
    ) -> None:
        self._plan, self._job, self._table, self._found = plan, job, table, found
        self._todo, self._options = todo, options
        self._known_seconds = known_seconds
        self._all = _Kinds(found.sizes[todo].astype("f8"), _endings(table, todo))
        # what the recipe cannot tell the size of
        self._unsized: np.ndarray = np.ones(len(todo), bool)
        most = options.workers_asked[1]
        # on Ray the cluster decides, unless it is told
        self._knows_workers = options.executor == "local" or most is not None
        plan.workers = max(1, usable_cpus() if most is None else most)

    def look(self) -> None:
        """Look at headers, then try a few inputs."""
        plan = self._plan
        plan.input_bytes = int(self._all.sizes.sum())
        if not len(self._todo):
            plan.seconds = self._known_seconds
            return
        counted = self._headers()
        self._try(counted=counted)

    # -- by headers ----------------------------------------------------------------------------------------

    def _headers(self) -> bool:
        """Ask the recipe what it expects; says whether it knows how many outputs."""
        if type(self._job.dataset).expect is ProcessorDataset.expect or self._table.names_urls:
            # what is elsewhere would have to be fetched
            return False
        plan, count = self._plan, len(self._todo)
        parts = max(1, -(-count // HEADERS_AT_ONCE))
        # each part is spread over the whole list
        look = partial(_expect, self._job, self._table, self._todo, parts)
        read = outputs = size = 0
        began = time.monotonic()
        with contextlib.closing(in_processes(look, range(parts))) as found:
            for number, part in enumerate(found):
                if part.unknown:
                    plan.faulty, plan.faulty_first = 0, []
                    return False
                read += part.inputs
                outputs += part.outputs
                size += part.bytes
                self._unsized[number::parts] = part.unsized
                plan.exact = plan.exact and part.exact
                plan.faulty += part.faulty
                plan.faulty_first = [*plan.faulty_first, *part.first][:NAMES_SHOWN]
                if time.monotonic() - began > SECONDS_FOR_HEADERS:
                    break
        plan.exact = plan.exact and read == count
        plan.outputs, plan.bytes = round(outputs * count / read), round(size * count / read)
        return True

    # -- by a trial ----------------------------------------------------------------------------------------

    def _try(self, *, counted: bool) -> None:
        """Process some inputs in temporary space, as workers will, and take the rest to be like them."""
        plan, todo, options = self._plan, self._todo, self._options
        patience = min(options.timeout or LONGEST_TRIAL, LONGEST_TRIAL)
        limits = Limits(plan.workers, 0, patience, options.memory_bytes)
        chosen = self._all.sample()
        began = time.monotonic()
        while True:
            with apart(self._job, limits) as place:
                tested = self._tested(place, chosen)
            enough = time.monotonic() - began > ENOUGH_SECONDS or len(chosen) in (len(todo), MOST_TRIED)
            if enough or tested.seconds_of_one > SECONDS_OF_QUICK_INPUT:
                break
            more = min(len(todo), MOST_TRIED, len(chosen) * MORE_EACH_TIME)
            chosen = np.unique(np.linspace(0, len(todo) - 1, more).astype("i8"))
        plan.tried, plan.tried_failed = len(tested.known), tested.failed
        plan.failed_first = tested.first_failures
        if len(tested.known) == len(todo):
            # there is nothing left to guess
            plan.exact = True
            plan.outputs, plan.bytes = int(tested.outputs.sum()), int(tested.bytes.sum())
        else:
            if not counted:
                plan.exact = False
                plan.outputs = round(self._all.total(tested.known, tested.outputs))
            unsized = self._unsized[tested.known]
            if self._unsized.any():
                rest = self._all.total(tested.known[unsized], tested.bytes[unsized], self._unsized)
                plan.bytes += round(rest)
        if self._knows_workers and tested.seconds_of_one:
            busy = min(plan.workers, len(todo))
            plan.seconds = self._known_seconds + tested.start + self._work(tested) / busy

    def _work(self, tested: "_Tested") -> float:
        """The seconds that all inputs take together."""
        if tested.at_once == 1:
            return self._all.total(np.array([*tested.seconds]), np.array([*tested.seconds.values()]))
        # many inputs, evenly spread
        return tested.seconds_of_one * len(self._todo)

    def _tested(self, place: Apart, chosen: np.ndarray) -> "_Tested":
        """Process some of the inputs that are to be done."""
        few = len(chosen) <= MOST_ALONE
        tested = _Tested(at_once=1 if few else -(-len(chosen) // (4 * self._plan.workers)))
        places = {
            f"000001-{start:06d}": chosen[start : start + tested.at_once]
            for start in range(0, len(chosen), tested.at_once)
        }
        batches = [
            make_batch(name, self._table, self._found, self._todo[some]) for name, some in places.items()
        ]
        began = time.monotonic()
        for report in place.reports([*self._warming_up(chosen), *batches]):
            if report.traceback:
                raise RecipeError(report.stop, report.traceback)
            if report.stop:
                raise RunStopped(report.stop)
            if report.batch.startswith(WARMING_UP):
                tested.start = time.monotonic() - began - report.seconds
            elif report.inputs:
                tested.seconds[int(places[report.batch][0])] = report.seconds / report.inputs
                tested.failed += report.failed
                tested.failures[report.batch] = [one_line(": ".join(failure)) for failure in report.failures]
            if time.monotonic() - began > LONGEST_TRIAL:
                break
        journal = Journal(place.storage)
        journal.load()
        entries = journal.find(self._found.keys[self._todo[chosen]])
        tested.known = chosen[entries >= 0]
        of_known = journal.entries[entries[entries >= 0]]
        tested.outputs, tested.bytes = of_known["outputs"].astype("f8"), of_known["bytes"].astype("f8")
        return tested

    def _warming_up(self, chosen: np.ndarray) -> list[Batch]:
        """One small input for each worker: what is loaded with the first one does not count as work."""
        smallest = self._todo[chosen[[np.argmin(self._all.sizes[chosen])]]]
        return [
            replace(make_batch(f"{WARMING_UP}{number:06d}", self._table, self._found, smallest), trial=True)
            for number in range(self._plan.workers)
        ]


@dataclass
class _Tested:
    """What a trial has shown: of each batch, by its first input, the seconds of one; of inputs the rest."""

    at_once: int
    failed: int = 0
    failures: dict[str, list[str]] = field(default_factory=dict)
    start: float = 0.0
    seconds: dict[int, float] = field(default_factory=dict)
    known: np.ndarray = field(default_factory=lambda: np.empty(0, "i8"))
    outputs: np.ndarray = field(default_factory=lambda: np.empty(0))
    bytes: np.ndarray = field(default_factory=lambda: np.empty(0))

    @property
    def first_failures(self) -> list[str]:
        """In the order of the list, whatever came first."""
        return [text for batch in sorted(self.failures) for text in self.failures[batch]][:NAMES_SHOWN]

    @property
    def seconds_of_one(self) -> float:
        """What an input takes in the mean."""
        return sum(self.seconds.values()) / len(self.seconds) if self.seconds else 0.0


def _endings(table: Table, todo: np.ndarray) -> np.ndarray:
    """For each input a number that stands for the kind of file, as its name says."""
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
class _Kinds:
    """Inputs by their sizes and kinds: those of a kind are taken to be alike, but for their sizes."""

    sizes: np.ndarray
    kinds: np.ndarray

    def sample(self) -> np.ndarray:
        """All, or a few of the largest kinds: some as there are many of, some as most bytes are in."""
        if len(self.sizes) <= MOST_ALONE and self.sizes.sum() <= MOST_BYTES_TRIED:
            return np.arange(len(self.sizes))
        weights = np.bincount(self.kinds, self.sizes + 1)
        largest = np.argsort(-weights, kind="stable")[: MOST_ALONE // 4]
        each = max(2, MOST_ALONE // len(largest) // 2)
        chosen = [self._of_different_sizes(np.flatnonzero(self.kinds == kind), each) for kind in largest]
        found: np.ndarray = np.unique(np.concatenate(chosen))
        small = found[self.sizes[found] <= MOST_BYTES_TRIED]
        return small if len(small) else np.argsort(self.sizes)[:1]

    def _of_different_sizes(self, some: np.ndarray, each: int) -> np.ndarray:
        order = some[np.argsort(self.sizes[some], kind="stable")]
        places = np.linspace(0, len(order) - 1, each).round().astype("i8")
        sums = np.cumsum(self.sizes[order] + 1)
        by_bytes = np.searchsorted(sums, np.linspace(0.1, 0.9, each) * sums[-1])
        chosen: np.ndarray = order[np.concatenate((places, by_bytes))]
        return chosen

    def total(self, known: np.ndarray, values: np.ndarray, among: np.ndarray | None = None) -> float:
        """The sum over all inputs, or those among some, of what is known of a few."""
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
    """The sum over all sizes of a value that has a fixed part, and a part for each byte."""
    mean_size, mean = sizes.mean(), values.mean()
    spread = ((sizes - mean_size) ** 2).mean()
    slope = ((sizes - mean_size) * (values - mean)).mean() / spread if spread else 0.0
    if slope < 0 or not mean_size:
        slope = 0.0
    elif mean < slope * mean_size:
        slope = mean / mean_size
    return float(len(all_sizes) * (mean - slope * mean_size) + slope * all_sizes.sum())


# -- headers, in a process of many ---------------------------------------------------------------------------


@dataclass
class _Headers:
    """What a recipe expects of some inputs."""

    inputs: int = 0
    outputs: int = 0
    bytes: int = 0
    unknown: bool = False
    # for each input whether nothing is known of its bytes
    unsized: list[bool] = field(default_factory=list)
    exact: bool = True
    faulty: int = 0
    first: list[str] = field(default_factory=list)


def _expect(job: Job, table: Table, todo: np.ndarray, parts: int, part: int) -> _Headers:
    """Ask the recipe about every so many-th input."""
    told = _Headers()
    job.dataset.ready()
    for index in todo[part::parts].tolist():
        told.inputs += 1
        told.unsized.append(False)
        input_file = table.input_file(index, job.layout)
        try:
            expected = job.dataset.expect(input_file)
        except Skip:
            continue
        except Exception as error:  # noqa: BLE001 - a user's method may raise anything
            told.faulty += 1
            if len(told.first) < NAMES_SHOWN:
                told.first.append(one_line(str(error) or type(error).__name__))
            continue
        finally:
            input_file.scratch_folder.remove()
        if expected is None:
            told.unknown = True
            return told
        told.outputs += expected.outputs
        told.exact = told.exact and expected.exact
        told.unsized[-1] = expected.bytes is None
        told.bytes += expected.bytes or 0
    return told
