"""Fixtures that all tests share."""

import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# show failed assertions in these modules as in tests
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
    """Make an empty folder whose name has a space, a quote and a letter that is not ASCII."""
    path = tmp_path / "it's a naïve folder"
    path.mkdir()
    return path


@pytest.fixture
def words(folder: Path) -> Path:
    """Write the list of the word example, and its four files in inputs/ beside it; return the list."""
    write_files(folder / "inputs", WORDS)
    return write_list(folder / "dataset.csv", [["input"], *([name] for name in WORDS)])


@pytest.fixture(scope="session")
def launcher_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LauncherProcess]:
    """Start the process that forks runs."""
    process = LauncherProcess(tmp_path_factory.mktemp("launcher"))
    yield process
    process.close()


@pytest.fixture
def launcher(launcher_process: LauncherProcess, folder: Path) -> Iterator[Launcher]:
    """Yield a launcher of runs in real processes; then end those that the test has left running."""
    launcher = Launcher(launcher_process, folder)
    yield launcher
    launcher.end()


@pytest.fixture
def chance() -> random.Random:
    """Return a random generator; set SPLITTER_TEST_SEED to the printed number to repeat a test."""
    seed = int(os.environ.get("SPLITTER_TEST_SEED") or random.SystemRandom().randrange(2**32))
    print(f"SPLITTER_TEST_SEED={seed}")  # noqa: T201 - pytest shows it when the test fails
    return random.Random(seed)


@pytest.fixture(autouse=True)
def own_places_to_import_from(monkeypatch):
    """Restore sys.path after each test, so that no later test imports from the folder of its recipe."""
    monkeypatch.setattr(sys, "path", [*sys.path])
