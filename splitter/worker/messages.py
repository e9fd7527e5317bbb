"""Messages between a driver and its workers: jobs and batches out, reports back."""

import copy
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from splitter.errors import RecipeError, RunStopped, StorageError

if TYPE_CHECKING:
    # types only: a module that reads messages need not import all of these
    from splitter.dataset import ProcessorDataset
    from splitter.inputs.locations import InputMarks
    from splitter.inputs.shards.index import MemberLocation
    from splitter.ledger.records import RowColumns
    from splitter.ledger.shard_groups import Group
    from splitter.sinks.base import Sink
    from splitter.storage.base import Storage
    from splitter.storage.layout import Layout
    from splitter.text.csv import Row

FAILURES_SHOWN = 3
SECOND_NAME = "second"


@dataclass(frozen=True)
class Job:
    """What a worker needs to know about a run; the same for every batch.

    Attributes:
        dataset: The recipe, with its parameters.
        storage: The output folder.
        sink: Where output files go.
        layout: Where inputs are, and which output folder belongs to each.
        header: The columns of the dataset list.
        at: The index of the column that holds the paths.
        marks: Makes the fingerprints of inputs.
        retries: How often a read is repeated after a temporary error.
        keep: With shards, the condition of --keep: which outputs are stored.
        durable: Whether each batch is synced before it is committed.
        items: Dataset objects whose items are inputs.
        cpus: How many CPUs a worker has for itself: more than one if fewer workers are at work than CPUs.
    """

    dataset: "ProcessorDataset"
    storage: "Storage"
    sink: "Sink"
    layout: "Layout"
    header: "Row"
    at: int
    marks: "InputMarks"
    retries: int
    keep: str = ""
    durable: bool = False
    items: tuple[Any, ...] = ()
    cpus: int = 1

    def without_inputs(self) -> "Job":
        """Return the job without the list of inputs, which may be large: each batch brings its own inputs."""
        dataset = copy.copy(self.dataset)
        dataset.inputs = type(dataset.inputs)(())
        return replace(self, dataset=dataset)


@dataclass(frozen=True)
class Failure:
    """Why an input failed: the fields of its row in errors.csv."""

    error: str
    message: str
    traceback: str = ""
    attempts: int = 1


@dataclass(frozen=True)
class Fused:
    """Stages of a pipeline that process a batch's outputs in the batch's own worker, before it is committed.

    Attributes:
        stages: Each stage, pickled, with the stages that are fused with it in turn.
        drops: Whether the batch's files need not be stored: only these stages read them, and they are not
            to be kept.
        dead: The name under which a runner tried the batch, if it died in one of these stages or after them:
            they are not tried again, and what was begun there is undone.
    """

    stages: "tuple[tuple[bytes, Fused], ...]" = ()
    drops: bool = False
    dead: str = ""


@dataclass(frozen=True)
class Batch:
    """Inputs that one worker takes at a time.

    Attributes:
        name: The name of its commit record; names sort by age.
        texts: The rows of each input, as CSV.
        keys: The key of each input in commit records.
        sizes: The bytes of each file as the survey found it, or UNREADABLE.
        times: When each file last changed.
        stale: By index in the batch, the outputs of an earlier run that are replaced.
        failures: By index in the batch, why an input fails without being tried.
        one_by_one: Whether to process inputs singly, without `process_batch`.
        trial: Whether to try inputs only until one gives an output file, and store nothing.
        second: Another input, to try if the first of this batch fails in the recipe's own code: if both
            fail in the same way, the recipe is to blame, and nothing is committed.
        waits_for_verdict: Whether another batch is still testing if the recipe works at all.
        group: With shards, what to know about the group of these inputs.
        members: By index in the batch, the location of each input that is a member of a shard.
        step: How many inputs are committed at once; None for all.
        fused: The stages of a pipeline that are fused with this one.
    """

    name: str
    texts: list[bytes]
    keys: list[int]
    sizes: list[int]
    times: list[int]
    stale: dict[int, list[str]] = field(default_factory=dict)
    failures: dict[int, Failure] = field(default_factory=dict)
    one_by_one: bool = False
    trial: bool = False
    group: "Group | None" = None
    members: "dict[int, MemberLocation]" = field(default_factory=dict)
    step: int | None = None
    second: "Batch | None" = None
    waits_for_verdict: bool = False
    fused: Fused | None = None

    def __len__(self) -> int:
        return len(self.texts)

    def part(self, name: str, start: int, stop: int) -> "Batch":
        """Return the inputs from `start` up to `stop` as another batch."""
        return replace(
            self,
            name=name,
            texts=self.texts[start:stop],
            keys=self.keys[start:stop],
            sizes=self.sizes[start:stop],
            times=self.times[start:stop],
            stale={at - start: names for at, names in self.stale.items() if start <= at < stop},
            failures={at - start: failure for at, failure in self.failures.items() if start <= at < stop},
            members={at - start: where for at, where in self.members.items() if start <= at < stop},
            second=None if start else self.second,
        )

    def steps(self) -> "list[Batch]":
        """Return the batches that are committed one after the other."""
        step = self.step or len(self)
        if step >= len(self):
            return [self]
        starts = range(0, len(self), step)
        return [self.part(f"{self.name}-{start:06d}", start, start + step) for start in starts]


@dataclass(frozen=True)
class Tried:
    """An input that gave output files in a trial.

    Attributes:
        key: Its key in commit records.
        head: The columns of its rows.
        outputs: The names of its output files.
    """

    key: int
    head: "RowColumns"
    outputs: list[str]


@dataclass
class WorkCounts:
    """Counts of one batch or of many, for the display only: the commit records have the final say.

    Attributes:
        inputs: How many inputs were taken.
        done: How many of them are done.
        skipped: How many the recipe left out.
        failed: How many failed.
        outputs: How many output files were made.
        bytes: The size of these files.
        recorded: The length of the recordings that are done, in seconds; 0 for other inputs.
        seconds: How long it took.
        undone: How many finished inputs are no longer done, since their outputs in a shard are damaged.
        one_by_one: In how many batches `process_batch` failed, so that inputs were tried one by one.
        empty: How many inputs are done but made no output file.
    """

    inputs: int = 0
    done: int = 0
    skipped: int = 0
    failed: int = 0
    outputs: int = 0
    bytes: int = 0
    recorded: float = 0.0
    seconds: float = 0.0
    undone: int = 0
    one_by_one: int = 0
    empty: int = 0

    def __iadd__(self, other: "WorkCounts") -> "WorkCounts":
        """Add the counts of other batches."""
        for name, number in vars(other).items():
            setattr(self, name, getattr(self, name) + number)
        return self


@dataclass
class Problems:
    """What went wrong with one batch, or with many.

    Attributes:
        failures: The first few inputs that failed, and why.
        unreadable: The keys of inputs that cannot be read now, and keep their earlier outputs.
        unreadable_names: The names of the first few of them.
        unreadable_why: Why the first of them cannot be read.
        one_by_one_why: Why `process_batch` failed.
        stop: Why the run cannot continue; empty if it can.
        traceback: The traceback in the user's code, if the recipe is why the run cannot continue.
    """

    failures: list[tuple[str, str]] = field(default_factory=list)
    unreadable: list[int] = field(default_factory=list)
    unreadable_names: list[str] = field(default_factory=list)
    unreadable_why: str = ""
    one_by_one_why: str = ""
    stop: str = ""
    traceback: str = ""

    def raise_stop(self) -> None:
        """Raise RecipeError or RunStopped if the run cannot continue."""
        if self.traceback:
            raise RecipeError(self.stop, self.traceback)
        if self.stop:
            raise RunStopped(self.stop)

    def __iadd__(self, other: "Problems") -> "Problems":
        """Add the problems of other batches; keep only the first examples, and the first of each reason."""
        # in place: with many batches, a new list for each would take longer and longer
        self.unreadable += other.unreadable
        self.failures = [*self.failures, *other.failures][:FAILURES_SHOWN]
        self.unreadable_names = [*self.unreadable_names, *other.unreadable_names][:FAILURES_SHOWN]
        self.unreadable_why = self.unreadable_why or other.unreadable_why
        self.one_by_one_why = self.one_by_one_why or other.one_by_one_why
        self.stop = self.stop or other.stop
        self.traceback = self.traceback or other.traceback
        return self


@dataclass
class Report:
    """A worker's report on a batch.

    Attributes:
        batch: The name of the batch; empty if no worker has finished it.
        counts: How many inputs and outputs there were.
        problems: What went wrong.
        tried: The inputs that gave output files in a trial.
        lost: The keys of its inputs, if its worker was lost with it.
        notes: Messages for the user.
        said: What user code printed, by input.
    """

    batch: str = ""
    counts: WorkCounts = field(default_factory=WorkCounts)
    problems: Problems = field(default_factory=Problems)
    tried: list[Tried] = field(default_factory=list)
    lost: list[int] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    said: list[tuple[str, str]] = field(default_factory=list)

    @classmethod
    def stopped(cls, error: RunStopped | OSError | str, batch: str = "") -> "Report":
        """Report that the run cannot continue, with the user's own traceback if the recipe is to blame."""
        if isinstance(error, OSError):
            error = StorageError.of(error, error.filename or "a temporary file")
        if isinstance(error, RecipeError):
            return cls(batch, problems=Problems(stop=error.message, traceback=error.traceback))
        return cls(batch, problems=Problems(stop=str(error)))

    def __iadd__(self, other: "Report") -> "Report":
        """Add the report on another piece of the batch."""
        self.counts += other.counts
        self.problems += other.problems
        self.tried += other.tried
        self.lost += other.lost
        self.notes += other.notes
        self.said += other.said
        return self
