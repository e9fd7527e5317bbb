"""The contenders on Ray: run as `python ray_contenders.py NAME JOB dataset.csv out --workers 2`.

Each starts a local Ray with as many CPUs as there are workers, and does the job with code as people write it
by hand. For `words`, it leaves one CSV in the order of the list, or several if Ray writes them; for sound, it
leaves the pieces and a table of them.
"""

import argparse
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from audio_contenders import cut_by_hand
from audio_jobs import JOBS, Job
from contenders import write_parts
from workload import COLUMNS, PartRow, Row, read_list, read_parts

WORDS = "words"
FILES_AT_ONCE = 1024


class Task(NamedTuple):
    """The work of a contender."""

    job: Job | None
    root: str
    rows: list[Row]
    out: str
    workers: int

    @property
    def at_once(self) -> int:
        """How many inputs a Ray task takes."""
        return FILES_AT_ONCE if self.job is None else 1


def single(task: Task) -> None:
    """Start a remote task for each input, as tutorials do."""
    in_tasks(task, 1)


def tasks(task: Task) -> None:
    """Start a remote task for a number of inputs that makes the cost of Ray itself small."""
    in_tasks(task, task.at_once)


def in_tasks(task: Task, at_once: int) -> None:
    """Start all tasks, and write what they return in the order of the list."""
    import ray

    do = ray.remote(do_words if task.job is None else cut_recordings)
    shared = ray.put((task.job, task.root, task.out))
    starts = range(0, len(task.rows), at_once)
    answers = [do.remote(shared, task.rows[start : start + at_once]) for start in starts]
    table = Path(task.out, "parts.csv") if task.job is None else Path(task.out, "rows", "pieces.csv")
    table.parent.mkdir(exist_ok=True)
    write_parts(table, (ray.get(answer) for answer in answers))


def do_words(shared: tuple[Any, str, str], rows: Sequence[Row]) -> list[PartRow]:
    """Split the words of some files."""
    _, root, _ = shared
    return [part for row in rows for part in read_parts(root, row)]


def cut_recordings(shared: tuple[Job, str, str], rows: Sequence[Row]) -> list[PartRow]:
    """Cut some recordings; return the rows of their pieces."""
    job, root, out = shared
    for name, _ in rows:
        cut_by_hand(job, root, name, out)
    pieces = range(len(job.windows(job.made_rate)))
    return [(name, label, str(piece), "") for name, label in rows for piece in pieces]


def data(task: Task) -> None:
    """Let a Ray dataset flat_map the rows, and write the resulting rows as CSV."""
    import ray.data

    ray.data.DataContext.get_current().enable_progress_bars = False
    columns = [{"input": name, "label": label} for name, label in task.rows]
    blocks = max(4 * task.workers, -(-len(columns) // (4 * task.at_once)))
    job, root, out = task.job, task.root, task.out

    def parts_of(row: dict[str, str]) -> list[dict[str, str]]:
        parts = read_parts(root, (row["input"], row["label"]))
        return [dict(zip(COLUMNS, part, strict=True)) for part in parts]

    def pieces_of(row: dict[str, str]) -> Iterator[dict[str, Any]]:
        assert job is not None
        cut_by_hand(job, root, row["input"], out)
        for number, _ in enumerate(job.windows(job.made_rate)):
            yield {**row, "piece": number}

    table = ray.data.from_items(columns, override_num_blocks=min(blocks, len(columns)))
    made = table.flat_map(parts_of if job is None else pieces_of)
    made.write_csv(out if job is None else f"{out}/rows")


CONTENDERS: dict[str, Callable[[Task], None]] = {"single": single, "tasks": tasks, "data": data}


def main() -> None:
    """Run one contender."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=CONTENDERS)
    parser.add_argument("job", choices=[WORDS, *JOBS])
    parser.add_argument("dataset", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_enable_metrics_collection": "0"}
    import ray

    ray.init(address="local", num_cpus=arguments.workers, include_dashboard=False, log_to_driver=False)
    job, dataset = JOBS.get(arguments.job), arguments.dataset.resolve()
    root, out = str(dataset.parent), str(arguments.out.resolve())
    CONTENDERS[arguments.name](Task(job, root, read_list(dataset), out, arguments.workers))
    ray.shutdown()


if __name__ == "__main__":
    main()
