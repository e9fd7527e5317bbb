"""The three stages of pipelines.py as a pipeline of NeMo Curator, for a Python that has it: `--curator`.

As its documentation has it: a `ProcessingStage` each, with resources, a batch size and a number of workers,
run by the streaming executor, which is the default. That reserves CPUs for each worker, and takes 95 % of
them, rounded down: of two CPUs one. So a worker takes a fifth of one here, and all five run at a time.
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
    """A parent, a piece, or what became of it."""

    data: dict[str, Any] = field(default_factory=dict)
    num_items = 1

    def validate(self) -> bool:
        """Take whatever is in it."""
        return True


class Step(ProcessingStage[Piece, Piece]):
    """A stage with so many workers."""

    resources = Resources(cpus=SHARE)
    workers = 2

    def __init__(self, given: dict[str, Any]) -> None:
        self.given = given

    def inputs(self) -> tuple[list[str], list[str]]:
        """Name what it reads."""
        return ["data"], []

    def outputs(self) -> tuple[list[str], list[str]]:
        """Name what it makes."""
        return ["data"], []

    def num_workers(self) -> int:
        """Return what is asked for."""
        return self.workers


class Cut(Step):
    """Pieces of a parent."""

    name = "cut"

    def process(self, task: Piece) -> list[Piece]:
        """Return all of them."""
        given = self.given
        made = cut(given["pieces"], given["size"], given["cost"])
        parent = task.data["parent"]
        return [
            Piece("pieces", data={"name": f"{parent:05d}-{name}", "content": content})
            for name, content in made
        ]


class Judge(Step):
    """The slowest: a fixed time for a batch."""

    name = "judge"
    workers = 1

    def __init__(self, given: dict[str, Any]) -> None:
        super().__init__(given)
        self.batch_size = given["batch"]

    def process(self, task: Piece) -> Piece:
        """Judge one."""
        return self.process_batch([task])[0]

    def process_batch(self, tasks: Sequence[Piece]) -> list[Piece]:
        """Judge pieces together."""
        time.sleep(self.given["seconds"])
        for task in tasks:
            task.data["judged"] = len(task.data["content"])
        return [*tasks]


class Pack(Step):
    """A file of each piece."""

    name = "pack"

    def process(self, task: Piece) -> Piece:
        """Write it."""
        spend(self.given["cost"])
        Path(self.given["out"], task.data["name"]).write_bytes(task.data["content"])
        return Piece("pieces", data={"name": task.data["name"], "judged": task.data["judged"]})


def main() -> None:
    """Run it as the JSON says that is given."""
    given = json.loads(sys.argv[1])
    Path(given["out"]).mkdir(parents=True)
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_enable_metrics_collection": "0"}
    context = ray.init(address="local", num_cpus=2, log_to_driver=False)
    # it asks for the state of a cluster, and there may be others on the machine
    os.environ["RAY_ADDRESS"] = context.address_info["gcs_address"]
    pipeline = Pipeline("stages", stages=[Cut(given), Judge(given), Pack(given)])
    parents = [Piece("parents", data={"parent": number}) for number in range(given["parents"])]
    pipeline.run(executor=XennaExecutor(), initial_tasks=parents)


if __name__ == "__main__":
    main()
