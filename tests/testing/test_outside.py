"""What another package brings passes the suites that are shipped for it."""

import importlib
import os
import sys
from pathlib import Path

import pytest
from doors import CHECKOUT, WORDS, write_files

from splitter.testing.executors import ExecutorConformance
from splitter.testing.inputs import InputSourceConformance
from splitter.testing.recipes import RecipeConformance
from splitter.testing.sinks import SinkConformance

OUTSIDE = Path(__file__).parents[1] / "outside"


@pytest.fixture(autouse=True)
def outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """The package is found in this process, and in those it starts."""
    monkeypatch.syspath_prepend(OUTSIDE)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(CHECKOUT), str(OUTSIDE)]))
    monkeypatch.delitem(sys.modules, "outside_package", raising=False)


class TestKinds(SinkConformance):
    sink = "kinds"


@pytest.mark.slow
class TestOne(ExecutorConformance):
    executor = "one"
    most_workers = 1
    # the same code does these in test_local.py; each is a program that has to import torch
    test_a_batch_of_nothing_but_faults = None
    test_setup_that_raises = None
    test_setup_that_crashes = None
    test_ten_bad_inputs_among_a_thousand = None
    test_the_strangest_ends = None
    test_shards_do_not_show_how_they_were_made = None
    test_workers_and_batch_size_do_not_show = None


class TestLines(InputSourceConformance):
    header = ["input", "speaker"]  # noqa: RUF012 - as their authors write it
    rows = [["a.txt", "ann"], ["b.txt", "bob"]]  # noqa: RUF012

    def source(self, folder: Path) -> Path:
        (folder / "list.lines").write_text("a.txt:ann\nb.txt:bob\n")
        return folder / "list.lines"


class TestShout(RecipeConformance):
    parameters = {"mark": "?"}  # noqa: RUF012 - as their authors write it

    @pytest.fixture(autouse=True)
    def _recipe(self, outside: None) -> None:
        self.recipe = importlib.import_module("outside_package").Shout

    def inputs(self, folder: Path) -> None:
        write_files(folder, WORDS)
