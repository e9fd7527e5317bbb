"""Recordings with labels, and their chunks in any sink, with several shards."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from doors import program, read_table, write_list
from sounds import noise, write_sound

Made = Callable[..., Path]


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Return a function that makes chunks in a sink; labels look like a number, nothing, or two fields."""
    folder = tmp_path_factory.mktemp("readers") / "it's naïve"
    labels = ["007", "NA", "dog, barking", "naïve ☃"]
    for number in range(len(labels)):
        write_sound(folder / f"{number}.wav", noise(900 + 700 * number, seed=number), 8000)
    rows = [[f"{number}.wav", label] for number, label in enumerate(labels)]
    write_list(folder / "list.csv", [["input", "label"], *rows])

    def make(name: str, *options: str) -> Path:
        base = ["run", folder / "list.csv", "--seconds", "0.05", "--workers", "0", "--quiet"]
        said = program(*base, "--output", folder / name, *options, **os.environ)
        assert said.code == 0, said.err
        return folder / name

    return make


@pytest.fixture(scope="session")
def loose(made: Made) -> dict[str, bytes]:
    """Return the content of each chunk by its key in a shard, from loose files."""
    outputs = made("loose")
    found = {}
    last, number, index = "", -1, 0
    for row in read_table(outputs / "manifest.csv"):
        number, index = (number, index + 1) if row["input"] == last else (number + 1, 0)
        last = row["input"]
        found[f"{number:08d}-{index:06d}"] = (outputs / row["output"]).read_bytes()
    assert len(found) > 15
    return found
