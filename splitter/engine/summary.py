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
        inputs: How many inputs the list has.
        done: How many of them are done, now or before.
        skipped: How many the recipe left out.
        failed: How many are in errors.csv.
        first_failure: The first that failed, and why; one that this run tried, if there is any.
        left: How many were not tried yet, because the run was limited or ended early.
        stale: How many only have outputs from before a change, for the same reasons.
        unreadable: How many were done before, cannot be read now, and keep their outputs.
        unreadable_names: The first few of them.
        unreadable_why: Why the first of them cannot be read.
        gone: How many inputs have outputs and are no longer in the list.
        gone_names: The first few of them.
        pruned: How many inputs had their outputs removed.
        work: What this run itself did.
        sound: The lengths of the recordings it read and of the sound it made; None if inputs are not sound.
        keep: With --keep, how many of all outputs are kept; None for shards, which hold nothing else.
        traceback: The traceback of the user's code, if the recipe ended the run early.
        seconds: How long the run took.
        limited: Whether only the first inputs were asked for.
        stopped: Why the run ended early, if it did.
        part: The part of the inputs that the run was for, if not for all; the numbers are of that part.
        assembled: Whether the manifest was made without processing anything.
        has_manifest: Whether there is a manifest; a run that ends early may leave none.
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
        """Return a summary that counts inputs by their status."""
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
