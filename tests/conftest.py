"""Fixtures that all tests share."""

from pathlib import Path

import pytest
from doors import WORDS, write_files, write_list


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An empty folder whose name has a space, a quote and a letter that is not ASCII."""
    path = tmp_path / "it's a naïve folder"
    path.mkdir()
    return path


@pytest.fixture
def words(folder: Path) -> Path:
    """The list of the word example, its four files beside it in inputs/."""
    write_files(folder / "inputs", WORDS)
    return write_list(folder / "dataset.csv", [["input"], *([name] for name in WORDS)])
