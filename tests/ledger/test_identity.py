"""Parameters of any kind: a changed one is noticed, and the same one is the same in every process."""

import functools
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from doors import SHARED, here, program, write_files, write_list

from splitter import ProcessorDataset
from splitter.ledger.identity import LONGEST, Identity

FACTOR = 3
NAMES = frozenset({"one", "two", "three", "four"})


class Takes(ProcessorDataset):
    """Takes one parameter, whatever it is; notes each call in a file."""

    def __init__(self, inputs, what: Any = None):
        super().__init__(inputs)
        self.what = what

    def process(self, input_file):
        return [], {}


class Scaler:
    """A plain object: nothing but attributes."""

    def __init__(self, mean: float, table: Any = None) -> None:
        self.mean, self.table = mean, table


class Slotted:
    __slots__ = ("mean",)

    def __init__(self, mean: float) -> None:
        self.mean = mean


@dataclass(frozen=True)
class Settings:
    size: int
    names: tuple[str, ...] = ()


def times(factor: float):
    return lambda value: value * factor


def with_default(by):
    def scaled(value, by=by):
        return value * by

    return scaled


def made(source: str) -> Any:
    """A function from its source, in a module with a global of its own."""
    there: dict[str, Any] = {"FACTOR": FACTOR}
    exec(source, there)  # noqa: S102
    return there["f"]


def changed(array: np.ndarray, at: int = 5000) -> np.ndarray:
    array = array.copy()
    array.flat[at] += 1
    return array


LONG = np.arange(10_000)
FRAME = {"a": [1, 2], "b": ["x", None]}


def frame(**columns: Any) -> Any:
    import pandas as pd

    return pd.DataFrame({**FRAME, **columns})


def cyclic(last: int) -> list[Any]:
    one: list[Any] = [1, last]
    one.append(one)
    return one


DIFFERENT = {
    "an array in its middle": lambda: (LONG, changed(LONG)),
    "its dtype": lambda: (LONG, LONG.astype("i4")),
    "its shape": lambda: (LONG, LONG.reshape(100, 100)),
    "an array of objects": lambda: (np.array([1, "a"], object), np.array([1, "b"], object)),
    "a masked value": lambda: (np.ma.array([1, 2], mask=[0, 1]), np.ma.array([1, 2], mask=[0, 0])),
    "a field": lambda: (np.array([(1, 2)], "i4,f8"), np.array([(1, 3)], "i4,f8")),
    "a tensor": lambda: (torch.arange(10_000), torch.arange(10_000) + 1),
    "a tensor of half numbers": lambda: (
        torch.ones(3, dtype=torch.bfloat16),
        torch.zeros(3, dtype=torch.bfloat16),
    ),
    "a model": lambda: (torch.nn.Linear(2, 2).requires_grad_(False), torch.nn.Linear(2, 2)),
    "a table": lambda: (frame(), frame(b=["x", "y"])),
    "a table's column": lambda: (frame(c=[1, 2]), frame(d=[1, 2])),
    "a lambda": lambda: (made("f = lambda x: x + 1"), made("f = lambda x: x + 2")),
    "a lambda's names": lambda: (made("f = lambda x: x.lower()"), made("f = lambda x: x.upper()")),
    "a lambda's inner function": lambda: (made("f = lambda: lambda: 1"), made("f = lambda: lambda: 2")),
    "a lambda's global": lambda: (made("f = lambda: FACTOR"), made("FACTOR = 4\nf = lambda: FACTOR")),
    "a function that it calls": lambda: (
        made("g = lambda: 1\nf = lambda: g()"),
        made("g = lambda: 2\nf = lambda: g()"),
    ),
    "a function behind a cache": lambda: (
        made("import functools\nf = functools.cache(lambda: 1)"),
        made("import functools\nf = functools.cache(lambda: 2)"),
    ),
    "a closure": lambda: (times(2), times(3)),
    "a closure's array": lambda: (times(LONG), times(changed(LONG))),
    "a default": lambda: (with_default(2), with_default(3)),
    "a partial": lambda: (functools.partial(max, 1), functools.partial(max, 2)),
    "a partial's function": lambda: (functools.partial(max, 1), functools.partial(min, 1)),
    "a partial's keyword": lambda: (functools.partial(max, key=abs), functools.partial(max, key=str)),
    "a method": lambda: (Scaler(1).__init__, Scaler(2).__init__),
    "a library's function": lambda: (np.mean, np.median),
    "an object": lambda: (Scaler(1), Scaler(2)),
    "what is in an object": lambda: (Scaler(1, LONG), Scaler(1, changed(LONG))),
    "an object with slots": lambda: (Slotted(1), Slotted(2)),
    "a dataclass": lambda: (Settings(1), Settings(2)),
    "the class of an object": lambda: (Scaler(1), Slotted(1)),
    "long bytes": lambda: (bytes(10**6), bytes(10**6 - 1) + b"x"),
    "a long text": lambda: ("x" * 10_000, "x" * 9_999 + "y"),
    "a cycle": lambda: (cyclic(1), cyclic(2)),
    "a number as a key beside its text": lambda: ({1: "a", "1": "b"}, {1: "c", "1": "b"}),
    "keys that swap their values": lambda: ({Path("a"): 1, '"a"': 2}, {'"a"': 1, Path("a"): 2}),
    "not a number": lambda: (float("nan"), float("inf")),
}


def identity(value: Any) -> str:
    """What stands for a value, as it is stored; there must be nothing that it could not tell."""
    found = Identity()
    text = json.dumps(found.of(value), sort_keys=True)
    assert found.unknown == []
    assert len(text) <= LONGEST + 100
    return text


@pytest.mark.parametrize("make", DIFFERENT.values(), ids=DIFFERENT)
def test_a_changed_parameter_is_noticed(make, tmp_path):
    """Whatever it is; and one that is made anew in the same way is the same."""
    torch.manual_seed(0)
    one, other = make()
    torch.manual_seed(0)
    again, _ = make()
    assert identity(one) != identity(other)
    assert identity(one) == identity(again)
    (tmp_path / "a.txt").write_text("a")

    def run(value: Any) -> int:
        result = Takes([str(tmp_path / "a.txt")], value).run(tmp_path / "out", workers=0, quiet=True)
        return result.summary.work.inputs

    assert [run(one), run(again), run(other)] == [1, 0, 1]


SAME = {
    "the order in memory": (np.ones((3, 4)), np.asfortranarray(np.ones((3, 4)))),
    "a number of NumPy's": (np.int64(3), 3),
    "where a lambda stands": (made("f = lambda x: x + FACTOR"), made("\n\n# more\nf = lambda x: x + FACTOR")),
    "the order of a dict": (Scaler(1, {"a": 1, "b": 2}), Scaler(1, {"b": 2, "a": 1})),
    "the order of a set": ({"a", "b", "c"}, {"c", "b", "a"}),
}


@pytest.mark.parametrize("pair", SAME.values(), ids=SAME)
def test_what_does_not_matter_is_not_noticed(pair):
    """Nothing is done again for it."""
    assert identity(pair[0]) == identity(pair[1])


def test_it_stays_what_earlier_versions_have_stored():
    """Or all outputs would be made again."""
    keys = {"b": [1, 2.5], 1: "x", None: True, (2, "c"): {"d": Path("e")}}
    stored = '{"1": "x", "[2, \\"c\\"]": {"d": "e"}, "b": [1, 2.5], "null": true}'
    assert identity(keys) == stored


SCRIPT = """
import sys
sys.path[:0] = {path!r}
from test_identity import *
values = [times(2), lambda word: word in {{"one", "two", "three", "four"}}, Scaler(1.5, LONG),
          NAMES, functools.partial(times, NAMES), Settings(1), Scaler, object(), frame(), np.mean,
          os.path.join, made]
for value in values:
    print(identity(value))
"""


@pytest.mark.slow
def test_it_is_the_same_in_every_process(tmp_path):
    """It depends on no address, no hash seed, and no order in which things were made."""
    script = (
        write_files(
            tmp_path,
            {"script.py": SCRIPT.format(path=[os.path.dirname(__file__), str(SHARED)])},
        )
        / "script.py"
    )
    said = {program(script, python=(), PYTHONHASHSEED=seed).out for seed in ("0", "77")}
    assert len(said) == 1
    assert len(said.pop().splitlines()) == 12


RECIPE = """
import threading
from splitter import ProcessorDataset

class Own(ProcessorDataset):
    def __init__(self, inputs, lock: object = threading.Lock()):
        super().__init__(inputs)

    def process(self, input_file):
        return [], {}
"""


def test_what_cannot_be_told_is_said(folder, capfd):
    """By the parameter's name, with what to do about it; it is no reason to do anything again."""
    write_files(folder, {"own.py": RECIPE, "a.txt": "a"})
    listing = write_list(folder / "dataset.csv", [["input"], ["a.txt"]])
    command = [
        "run",
        listing,
        "--recipe",
        f"{folder}/own.py:Own",
        "--output",
        folder / "out",
        "--workers",
        "0",
    ]
    for _ in range(2):
        said = here(capfd, *command)
        assert said.code == 0
        assert said.lines[0] == (
            "note: parameter lock: the content of a lock cannot be compared, so changes will not "
            "be noticed; increase `version` when it changes"
        )
    assert "nothing to do" in said.err
