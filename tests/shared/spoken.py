"""A small corpus of speech, as the exports for training see it: sound, texts, speakers, splits."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import soundfile

import splitter
from splitter.recipes.chunk import Chunk

RATE = 8000
SINKS = ("files", "webdataset", "parquet")
# texts that some readers take for something else
TEXTS = {
    "a": "He said: “one, two”.",
    "b": '"Quoted", twice ""',
    "c": "007",
    "d": "NA",
    "e/é ü": "2024-01-01",
    "e/f": "two\nlines",
}


def spoken_pieces(
    folder: Path,
    sink: str = "files",
    *,
    texts: Mapping[str, str] = TEXTS,
    columns: Sequence[str] = ("text", "speaker", "split"),
    shard_maxcount: int | None = None,
    **options: Any,
) -> Path:
    """Make an output folder with a piece for each text, named like the sink; the last is in `test`."""
    chance = np.random.default_rng(3)
    with (folder / "list.csv").open("w", newline="", encoding="utf-8") as file:
        rows = csv.DictWriter(file, ["input", *columns], extrasaction="ignore")
        rows.writeheader()
        for number, (name, text) in enumerate(texts.items()):
            path = folder / "in" / f"{name}.wav"
            path.parent.mkdir(parents=True, exist_ok=True)
            sound = chance.integers(-9000, 9000, 1000 + 100 * number, dtype="int16")
            if not path.exists():
                soundfile.write(path, sound, RATE)
            split = "test" if number == len(texts) - 1 else "train"
            speaker = ("ann", "bob")[number % 2]
            row = {"input": path.relative_to(folder), "text": text, "speaker": speaker, "split": split}
            rows.writerow({**row, "empty": ""})
    dataset = Chunk(folder / "list.csv", seconds=1, tail="keep", **options)
    splitter.run(dataset, folder / sink, sink=sink, workers=0, quiet=True, shard_maxcount=shard_maxcount)
    return folder / sink


def spoken_by_sink(folder: Path, *sinks: str) -> Path:
    """Make an output folder of each sink, in one folder."""
    for sink in sinks:
        spoken_pieces(folder, sink)
    return folder


def contents(output: Path) -> dict[str, bytes]:
    """Return the content of each piece by its text."""
    rows = splitter.read_manifest(output).to_dict("records")
    return {" ".join(row["text"].split()): splitter.read_output(row, output) for row in rows}
