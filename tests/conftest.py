"""Fixtures that all tests share."""

import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# what they assert is shown as in a test
pytest.register_assert_rewrite(
    "crashes",
    "doors",
    "executors.conformance",
    "executors.ray_nodes",
    "launcher",
    "object_store",
    "served",
)

from doors import WORDS, write_files, write_list  # noqa: E402
from launcher import Launcher, LauncherProcess  # noqa: E402
from object_store import faulty_s3, recorded_s3, s3, s3_server  # noqa: E402, F401 - fixtures


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


@pytest.fixture(scope="session")
def launcher_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LauncherProcess]:
    """The process that runs are forked from."""
    process = LauncherProcess(tmp_path_factory.mktemp("launcher"))
    yield process
    process.close()


@pytest.fixture
def launcher(launcher_process: LauncherProcess, folder: Path) -> Iterator[Launcher]:
    """Starts runs in real processes of their own; what a test leaves running is ended."""
    launcher = Launcher(launcher_process, folder)
    yield launcher
    launcher.end()


@pytest.fixture
def chance() -> random.Random:
    """Random moments; set SPLITTER_TEST_SEED to the printed number to have the same again."""
    seed = int(os.environ.get("SPLITTER_TEST_SEED") or random.SystemRandom().randrange(2**32))
    print(f"SPLITTER_TEST_SEED={seed}")  # noqa: T201 - pytest shows it when the test fails
    return random.Random(seed)


@pytest.fixture(autouse=True)
def own_places_to_import_from(monkeypatch):
    """A recipe's folder is looked into by the test that named it, and by no later one."""
    monkeypatch.setattr(sys, "path", [*sys.path])
