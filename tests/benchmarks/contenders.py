"""The contenders: one function each, run as `python contenders.py NAME dataset.csv out --workers 2`.

Each reads the dataset list, calls `workload.read_parts` for every row in its workers, and leaves CSV files
in `out` with the columns input, label, part, word. Third-party packages are imported where they are used, so
a contender pays only for its own imports.
"""

import argparse
import csv
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from workload import COLUMNS, PartRow, Row, read_list, read_parts


class Contender(NamedTuple):
    """How to run a contender, and the package that it needs."""

    run: Callable[[Path, Path, int], None]
    package: str | None
    how: str


def bare(dataset: Path, out: Path, workers: int) -> None:
    """Give each process its share of the list and its own CSV: the lower bound."""
    from multiprocessing import Process

    rows, root = read_list(dataset), str(dataset.parent)
    share = -(-len(rows) // workers)
    processes = [
        Process(target=_bare_worker, args=(root, rows[start : start + share], out / f"{start}.csv"))
        for start in range(0, len(rows), share)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        if process.exitcode != 0:
            sys.exit("a worker failed")


def _bare_worker(root: str, rows: Sequence[Row], path: Path) -> None:
    write_parts(path, (read_parts(root, row) for row in rows))


def pool(dataset: Path, out: Path, workers: int) -> None:
    """Let a multiprocessing.Pool read; the parent writes."""
    from multiprocessing import Pool

    with Pool(workers) as processes:
        read = partial(read_parts, str(dataset.parent))
        write_parts(out / "parts.csv", processes.imap_unordered(read, read_list(dataset), chunksize=256))


def dataloader(dataset: Path, out: Path, workers: int) -> None:
    """Let a torch DataLoader read; the parent writes."""
    from torch.utils.data import DataLoader

    loader: Iterable[list[list[PartRow]]] = DataLoader(
        WordFiles(dataset),  # type: ignore[arg-type]
        batch_size=256,
        num_workers=workers,
        collate_fn=_identity,
        in_order=False,
    )
    write_parts(out / "parts.csv", (parts for batch in loader for parts in batch))


class WordFiles:
    """A map-style dataset, as people write it by hand."""

    def __init__(self, dataset: Path) -> None:
        self.root = str(dataset.parent)
        self.rows = read_list(dataset)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> list[PartRow]:
        return read_parts(self.root, self.rows[index])


def _identity(samples: list[list[PartRow]]) -> list[list[PartRow]]:
    return samples


def litdata(dataset: Path, out: Path, workers: int) -> None:
    """Let litdata.map give batches to its workers; it moves the files that they leave to `out`."""
    os.environ["DATA_OPTIMIZER_CACHE_FOLDER"] = str(out / "cache")
    os.environ["DATA_OPTIMIZER_DATA_CACHE_FOLDER"] = str(out / "cache-data")
    import litdata as library

    library.map(
        fn=partial(_litdata_batch, str(dataset.parent)),
        inputs=read_list(dataset),
        output_dir=str(out),
        num_workers=workers,
        batch_size=1024,
        reorder_files=False,
        start_method="fork",
    )


def _litdata_batch(root: str, rows: Sequence[Row], output_dir: str) -> None:
    first, _ = rows[0]
    path = Path(output_dir, first.replace("/", "-")).with_suffix(".csv")
    write_parts(path, (read_parts(root, row) for row in rows))


def hf(dataset: Path, out: Path, workers: int) -> None:
    """Map batches of a Hugging Face dataset with its own processes, then write it as CSV."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ["HF_HOME"] = str(out / "cache")
    import datasets

    table = datasets.Dataset.from_csv(str(dataset))
    split = partial(_columns_of_parts, str(dataset.parent))
    parts = table.map(split, batched=True, num_proc=workers, remove_columns=["input", "label"])
    parts.to_csv(str(out / "parts.csv"), batch_size=100_000, num_proc=workers)


def raydata(dataset: Path, out: Path, workers: int) -> None:
    """Map batches of a Ray dataset with remote tasks, which write their own CSV files."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    import ray

    ray.init(address="local", num_cpus=workers, include_dashboard=False, log_to_driver=False)
    table = ray.data.read_csv(str(dataset))
    parts = table.map_batches(partial(_columns_of_parts, str(dataset.parent)), batch_size=4096)
    parts.write_csv(str(out))


def _columns_of_parts(root: str, batch: Any) -> dict[str, list[str]]:
    """Do the job for a batch of columns; return columns."""
    rows = zip(batch["input"], batch["label"], strict=True)
    parts = [part for row in rows for part in read_parts(root, row)]
    return {column: list(values) for column, values in zip(COLUMNS, zip(*parts, strict=True), strict=True)}


def write_parts(path: Path, inputs: Iterable[Iterable[PartRow]]) -> None:
    """Write the parts of all inputs; append to an existing file."""
    with path.open("a", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        if file.tell() == 0:
            writer.writerow(COLUMNS)
        for parts in inputs:
            writer.writerows(parts)


CONTENDERS = {
    "bare": Contender(bare, None, "two processes, half the list and a CSV each: the lower bound"),
    "pool": Contender(pool, None, "multiprocessing.Pool.imap_unordered, chunksize 256"),
    "dataloader": Contender(dataloader, "torch", "DataLoader by hand, batch_size 256"),
    "litdata": Contender(litdata, "litdata", "litdata.map, batch_size 1024"),
    "hf": Contender(hf, "datasets", "datasets.Dataset.map, batched, then to_csv"),
    "raydata": Contender(raydata, "ray", "ray.data map_batches, batch_size 4096"),
}


def main() -> None:
    """Run one contender."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=CONTENDERS)
    parser.add_argument("dataset", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    CONTENDERS[arguments.name].run(arguments.dataset.resolve(), arguments.out.resolve(), arguments.workers)


if __name__ == "__main__":
    main()
