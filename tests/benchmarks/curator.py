"""The three stages of pipelines.py as a pipeline of NeMo Curator, for a Python that has it: `--curator`.

They are written as its documentation says: each is a `ProcessingStage` with resources, a batch size and a
number of workers, and the streaming executor, which is the default, runs them. The executor reserves CPUs for
each worker, and uses 95 % of them, rounded down: one of two CPUs. So a worker asks for a fifth of a CPU here,
and all five run at the same time.
"""

import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ray
from nemo_curator.backends.xenna import XennaExecutor
from nemo_curator.pipeline import Pipeline
from nemo_curator.stages.base import ProcessingStage
from nemo_curator.stages.resources import Resources
from nemo_curator.tasks import Task
from spending import cut, spend

SHARE = 0.2


@dataclass
class Piece(Task[dict[str, Any]]):
    """A parent, a piece, or the result of a piece."""

    data: dict[str, Any] = field(default_factory=dict)
    num_items = 1

    def validate(self) -> bool:
        """Accept any data."""
        return True


class Step(ProcessingStage[Piece, Piece]):
    """A stage with a fixed number of workers."""

    resources = Resources(cpus=SHARE)
    workers = 2

    def __init__(self, given: dict[str, Any]) -> None:
        self.given = given

    def inputs(self) -> tuple[list[str], list[str]]:
        """Return the names of the fields that the stage reads."""
        return ["data"], []

    def outputs(self) -> tuple[list[str], list[str]]:
        """Return the names of the fields that the stage makes."""
        return ["data"], []

    def num_workers(self) -> int:
        """Return the number of workers."""
        return self.workers


class Cut(Step):
    """The first stage, which makes the pieces of a parent."""

    name = "cut"

    def process(self, task: Piece) -> list[Piece]:
        """Return all pieces of a parent."""
        given = self.given
        made = cut(given["pieces"], given["size"], given["cost"])
        parent = task.data["parent"]
        return [
            Piece("pieces", data={"name": f"{parent:05d}-{name}", "content": content})
            for name, content in made
        ]


class Judge(Step):
    """The slowest stage, which takes a fixed time for a batch."""

    name = "judge"
    workers = 1

    def __init__(self, given: dict[str, Any]) -> None:
        super().__init__(given)
        self.batch_size = given["batch"]

    def process(self, task: Piece) -> Piece:
        """Judge one piece."""
        return self.process_batch([task])[0]

    def process_batch(self, tasks: Sequence[Piece]) -> list[Piece]:
        """Judge pieces together."""
        time.sleep(self.given["seconds"])
        for task in tasks:
            task.data["judged"] = len(task.data["content"])
        return [*tasks]


class Pack(Step):
    """The last stage, which writes each piece to a file."""

    name = "pack"

    def process(self, task: Piece) -> Piece:
        """Write one piece."""
        spend(self.given["cost"])
        Path(self.given["out"], task.data["name"]).write_bytes(task.data["content"])
        return Piece("pieces", data={"name": task.data["name"], "judged": task.data["judged"]})


def main() -> None:
    """Run the pipeline as the JSON in the first argument says."""
    given = json.loads(sys.argv[1])
    Path(given["out"]).mkdir(parents=True)
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_enable_metrics_collection": "0"}
    context = ray.init(address="local", num_cpus=2, log_to_driver=False)
    # NeMo Curator asks for the state of a cluster, and there may be others on the machine
    os.environ["RAY_ADDRESS"] = context.address_info["gcs_address"]
    pipeline = Pipeline("stages", stages=[Cut(given), Judge(given), Pack(given)])
    parents = [Piece("parents", data={"parent": number}) for number in range(given["parents"])]
    pipeline.run(executor=XennaExecutor(), initial_tasks=parents)


if __name__ == "__main__":
    main()
