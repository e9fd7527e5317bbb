"""What travels between a driver and its workers: jobs and batches out, reports back."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from splitter.errors import RecipeError, RunStopped

if TYPE_CHECKING:
    # values only: what reads them need not have all of this
    from splitter.dataset import ProcessorDataset
    from splitter.inputs.shards.index import MemberLocation
    from splitter.ledger.records import RowColumns
    from splitter.ledger.shard_groups import Group
    from splitter.sinks import Sink
    from splitter.storage.base import Storage
    from splitter.storage.layout import Layout
    from splitter.text.csv import Row

FAILURES_SHOWN = 3
SECOND_NAME = "second"


@dataclass(frozen=True)
class Job:
    """All that a worker needs to know, the same for every batch of a run.

    Attributes:
        dataset: The recipe, with its parameters.
        storage: The output folder.
        sink: Where output files go.
        layout: Where inputs are, and which folder of the output is whose.
        header: The columns of the dataset list.
        at: Which of them holds the paths.
        seed: The part of every fingerprint that says how inputs are processed.
        retries: How often a read that failed for a moment is tried again.
        durable: Whether each batch is synced before it is committed.
    """

    dataset: "ProcessorDataset"
    storage: "Storage"
    sink: "Sink"
    layout: "Layout"
    header: "Row"
    at: int
    seed: int
    retries: int
    durable: bool = False


@dataclass(frozen=True)
class Failure:
    """Why an input failed: the fields of its row in errors.csv."""

    error: str
    message: str
    traceback: str = ""
    attempts: int = 1


@dataclass(frozen=True)
class Batch:
    """Inputs that one worker takes at a time.

    Attributes:
        name: Of its commit record; names sort by age.
        texts: The rows of each input, as CSV.
        keys: What each input is called in commit records.
        sizes: The bytes of each file as the survey found it, or UNREADABLE.
        times: When each file last changed.
        stale: By place in the batch, the outputs of an earlier run that are to be replaced.
        failures: By place in the batch, inputs that are known to fail and are not tried.
        one_by_one: Whether to leave `process_batch` aside.
        trial: Whether to try the inputs only, until one gives an output file: nothing is stored.
        second: Another input, to be tried if the first of this batch fails in the recipe's own code: where
            it does so in the same way, the recipe is to blame, and nothing is committed.
        waits_for_verdict: Whether such a batch is still at work.
        group: What is to be known of inputs that share a shard.
        members: By place in the batch, where inputs are that stand in shards.
        step: How many inputs are committed at once; None for all.
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

    def __len__(self) -> int:
        """How many inputs it holds."""
        return len(self.texts)

    def part(self, name: str, start: int, stop: int) -> "Batch":
        """Some of its inputs as a batch of their own."""
        return Batch(
            name,
            self.texts[start:stop],
            self.keys[start:stop],
            self.sizes[start:stop],
            self.times[start:stop],
            {at - start: names for at, names in self.stale.items() if start <= at < stop},
            {at - start: failure for at, failure in self.failures.items() if start <= at < stop},
            self.one_by_one,
            self.trial,
            members={at - start: place for at, place in self.members.items() if start <= at < stop},
            second=None if start else self.second,
            waits_for_verdict=self.waits_for_verdict,
        )

    def steps(self) -> "list[Batch]":
        """The batches that are committed one after the other."""
        step = self.step or len(self)
        if step >= len(self):
            return [self]
        starts = range(0, len(self), step)
        return [self.part(f"{self.name}-{start:06d}", start, start + step) for start in starts]


@dataclass(frozen=True)
class Tried:
    """What became of an input in a trial.

    Attributes:
        key: What it is called in commit records.
        status: Whether it is done, skipped or failed.
        head: The columns of its rows.
        outputs: The names of its output files.
        failure: Why it failed, if it did.
    """

    key: int
    status: int
    head: "RowColumns"
    outputs: list[str]
    failure: Failure | None


@dataclass
class Report:
    """What became of a batch: numbers for the display. The truth is the commit record.

    `unreadable` has the keys of inputs that cannot be read now, and keep what they had. `lost` has those of a
    batch whose worker was lost with it, and `said` what user code printed, by input. `undone` counts inputs
    that were done before, but what they had in an older shard is damaged. `apart` counts batches that
    `process_batch` did not do, so that their inputs were tried one by one. `tried` is of a trial, and
    `batch` the name of the batch.
    """

    batch: str = ""
    inputs: int = 0
    done: int = 0
    skipped: int = 0
    failed: int = 0
    outputs: int = 0
    bytes: int = 0
    seconds: float = 0.0
    failures: list[tuple[str, str]] = field(default_factory=list)
    unreadable: list[int] = field(default_factory=list)
    unreadable_names: list[str] = field(default_factory=list)
    unreadable_why: str = ""
    stop: str = ""
    traceback: str = ""
    undone: int = 0
    apart: int = 0
    apart_why: str = ""
    lost: list[int] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    said: list[tuple[str, str]] = field(default_factory=list)
    tried: list[Tried] = field(default_factory=list)

    @classmethod
    def stopped(cls, error: RunStopped, batch: str = "") -> "Report":
        """That the run cannot go on, with the user's own traceback if it is the recipe's fault."""
        if isinstance(error, RecipeError):
            return cls(batch, stop=error.message, traceback=error.traceback)
        return cls(batch, stop=str(error))

    def __iadd__(self, other: "Report") -> "Report":
        """Add up two reports."""
        for name in _NUMBERS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in _LISTS:
            # in place: over many batches a new list each time would take longer and longer
            getattr(self, name).extend(getattr(other, name))
        for name in _FIRST_FEW:
            setattr(self, name, (getattr(self, name) + getattr(other, name))[:FAILURES_SHOWN])
        for name in _FIRST:
            setattr(self, name, getattr(self, name) or getattr(other, name))
        return self


# how the fields of two reports become one
_NUMBERS = ("inputs", "done", "skipped", "failed", "outputs", "bytes", "seconds", "undone", "apart")
_LISTS = ("unreadable", "lost", "notes", "said", "tried")
_FIRST_FEW = ("failures", "unreadable_names")
_FIRST = ("unreadable_why", "stop", "traceback", "apart_why")
