"""The results of a run, in numbers."""

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from splitter.inputs.labels import RowTally
from splitter.ledger.keeping import KeepTally
from splitter.ledger.manifest import MANIFEST
from splitter.ledger.records import DONE, FAILED, NOT_DONE, SKIPPED, STALE
from splitter.options import RunPart
from splitter.worker.messages import WorkCounts

if TYPE_CHECKING:
    from splitter.outputs.stats import OutputTally


@dataclass(frozen=True, kw_only=True)
class Summary:
    """The results of a run.

    Attributes:
        output: The output folder.
        inputs: How many the list has.
        done: How many of them are done, now or before.
        skipped: How many the recipe left out.
        failed: How many stand in errors.csv.
        first_failure: One of them and why: of this run, if it had any.
        left: How many were not tried yet: the run was limited, or ended early.
        stale: How many have only what was made before a change, for the same reasons.
        unreadable: How many were done before, cannot be read now, and keep what they had.
        unreadable_names: The first few of them.
        unreadable_why: Why the first of them cannot be read.
        gone: How many inputs have outputs and are no longer in the list.
        gone_names: The first few of them.
        pruned: How many inputs' outputs were removed.
        work: What this run itself did.
        sound: The lengths of the recordings that it cut and of what it made of them; None for other inputs.
        keep: With --keep, how many of all outputs it keeps; None of shards, which hold nothing else.
        traceback: The user's own, if the recipe has ended the run early.
        seconds: How long it took.
        limited: Whether it was asked for the first inputs only.
        stopped: Why it ended early, if it did.
        part: Which part of the inputs it was for, if not for all: the numbers are of that part.
        assembled: Whether it has put the manifest together, and processed nothing.
        has_manifest: Whether there is one: a run that ends early may leave none.
        tally: Which rows of the list were left out, or have no labels.
    """

    output: str
    inputs: int
    done: int
    skipped: int
    failed: int
    first_failure: tuple[str, str] | None = None
    left: int
    stale: int
    unreadable: int = 0
    unreadable_names: list[str] = field(default_factory=list)
    unreadable_why: str = ""
    gone: int
    gone_names: list[str] = field(default_factory=list)
    pruned: int = 0
    work: WorkCounts
    sound: "OutputTally | None" = None
    keep: KeepTally | None = None
    traceback: str = ""
    seconds: float
    limited: bool = False
    stopped: str = ""
    part: RunPart | None = None
    assembled: bool = False
    has_manifest: bool = True
    tally: RowTally = field(default_factory=RowTally)

    @classmethod
    def of(cls, status: np.ndarray, **others: Any) -> "Summary":  # noqa: ANN401 - the other fields
        """Count what inputs have come to."""
        kinds = {"done": DONE, "skipped": SKIPPED, "failed": FAILED, "left": NOT_DONE, "stale": STALE}
        counts: dict[str, Any] = {name: int((status == kind).sum()) for name, kind in kinds.items()}
        return cls(inputs=len(status), **counts, **others)

    @property
    def manifest(self) -> str:
        """The path of manifest.csv."""
        return os.path.join(self.output, MANIFEST)

    def fields(self) -> dict[str, Any]:
        """Return the numbers, for other programs."""
        names = ("inputs", "done", "skipped", "failed", "left", "stale", "unreadable", "gone", "pruned")
        return {
            **{name: getattr(self, name) for name in names},
            "outputs": self.work.outputs,
            "bytes": self.work.bytes,
            "seconds": round(self.seconds, 3),
            "stopped": self.stopped,
            "manifest": self.manifest if self.has_manifest else "",
        }

    @property
    def exit_code(self) -> int:
        """0 if all inputs are done or skipped, else 1."""
        left = (self.left or self.stale) and not self.limited
        return int(bool(self.failed or self.unreadable or self.stopped or left))
