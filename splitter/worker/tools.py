"""The tools that a worker lends to each of its batches."""

from collections.abc import Callable
from dataclasses import dataclass

from splitter.dataset import Result
from splitter.inputs.fetching import Fetcher
from splitter.inputs.shards.reader import MemberFiles
from splitter.ledger.journal import Journal
from splitter.records import InputFile
from splitter.system.gate import Gate
from splitter.text.conditions import Condition
from splitter.worker.messages import Job
from splitter.worker.rows import RowMaker
from splitter.worker.surroundings import Surroundings


@dataclass(frozen=True)
class WorkerTools:
    """The tools that all batches of a worker share.

    Attributes:
        job: The job, the same for every batch of a run.
        process: The recipe's method for one input.
        rows: Makes rows of the manifest.
        journal: The commit records.
        surroundings: Restores what an input may change in this process.
        folder: The folder for temporary files.
        fetcher: Copies remote inputs to this machine.
        members: Reads inputs that are members of shards.
        holds: The condition of --keep, for a row of the list and the metadata of an output; None if all
            outputs are stored.
        mark: Called with the index of each input that is begun.
        gate: Opens when the recipe is known not to fail on everything.
    """

    job: Job
    process: Callable[[InputFile], Result]
    rows: RowMaker
    journal: Journal
    surroundings: Surroundings
    folder: str | None
    fetcher: Fetcher
    members: MemberFiles
    holds: Condition | None
    mark: Callable[[int], None]
    gate: Gate | None
