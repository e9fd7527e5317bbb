"""What all batches of a worker share."""

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
    """What all batches of a worker share.

    Attributes:
        job: The same for every batch of a run.
        process: The recipe's method for one input.
        rows: What makes rows of the manifest.
        journal: The commit records.
        surroundings: What an input may change in this process, and must find as it was.
        folder: For temporary files.
        fetcher: What brings remote inputs here.
        members: What reads inputs that stand in shards.
        holds: Whether a row of the list and the metadata of an output are those of one that is kept; None
            if all are stored.
        mark: Told the index of each input that is begun.
        gate: Open when the recipe is known not to fail on everything.
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
