"""What a shell offers when the Tab key is pressed."""

import os
import shutil
import subprocess
import sys

import pytest
from click.shell_completion import ShellComplete
from doors import CHECKOUT, program, write_files

from splitter.cli.main import commands
from splitter.recipes.parameters import recipe_parameters
from splitter.recipes.registry import load_recipe
from splitter.registry import RECIPES

OWN = """\
from splitter import ProcessorDataset

open("executed", "w").close()


class Own(ProcessorDataset):
    def __init__(self, inputs, loudness: float = 1.0, twice: bool = False):
        super().__init__(inputs)
"""


def offered(*words: str) -> list[str]:
    """What is offered for the last word."""
    complete = ShellComplete(commands, {}, "splitter", "_SPLITTER_COMPLETE")
    found = complete.get_completions(list(words[:-1]), words[-1])
    return [one.value if one.type == "plain" else f"<{one.type}>" for one in found]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("ver",), ["verify"]),
        (("run", "--recipe", ""), list(RECIPES.own)),
        (("run", "--recipe", "s"), ["segments", "silence", "spectrogram", "speech"]),
        (("plan", "list.csv", "--recipe", "ch"), ["chunk"]),
        (("run", "--recipe", "mine"), ["<file>"]),
        (("run", "--sec"), ["--seconds"]),
        (("run", "--recipe", "chunk", "--sec"), ["--seconds"]),
        (("run", "--recipe", "words", "--num-ch"), ["--num-chars"]),
        (("run", "--recipe", "words", "--sec"), []),
        (("run", "--recipe=words", "--num-ch"), ["--num-chars"]),
        (("run", "--recipe", "nothing", "--limi"), ["--limit"]),
        (("run", "--recipe", "gone.py:Own", "--limi"), ["--limit"]),
        (("run", "--sink", ""), ["files", "webdataset", "parquet", "virtual"]),
        (("run", "da"), ["<file>"]),
        (("run", "--config", ""), ["<file>"]),
        (("run", "--output", ""), ["<file>"]),
        (("verify", "out"), ["<file>"]),
        (("tar", "so"), ["sort"]),
    ],
)
def test_offers(words, expected):
    """Commands, recipes, options of the run and of the recipe that is named, values, files."""
    assert offered(*words) == expected


@pytest.mark.parametrize("name", RECIPES.own)
def test_all_options_of_shipped_recipes_are_offered(name):
    """Without importing a recipe, a shell gets the options that it really has."""
    options = {f"--{one.name.replace('_', '-')}" for one in recipe_parameters(load_recipe(name))}
    assert options <= set(offered("run", "--recipe", name, "--"))


def test_a_recipe_of_your_own(tmp_path, monkeypatch):
    """Its options are offered, and its file is read only, never run."""
    monkeypatch.chdir(write_files(tmp_path, {"own.py": OWN}))
    assert offered("run", "--recipe", "own.py:Own", "--loud") == ["--loudness"]
    assert offered("run", "--recipe", "own.py:Own", "--no-tw") == ["--no-twice"]
    assert not (tmp_path / "executed").exists()


def test_completion_is_instant():
    """Neither torch nor numpy nor a recipe is imported for it."""
    code = (
        "import os, sys, atexit\n"
        "atexit.register(lambda: print(*sorted(sys.modules), file=sys.stderr))\n"
        "from splitter.cli.main import main\n"
        "main([])\n"
    )
    words = {"_SPLITTER_COMPLETE": "bash_complete", "COMP_WORDS": "splitter run --sec", "COMP_CWORD": "2"}
    said = program("-c", code, python=(), **words)
    assert said.out == "plain,--seconds\n"
    modules = set(said.err.split())
    assert "splitter.recipes" in modules
    assert not modules & {"torch", "numpy", "pandas", "ray", "splitter.recipes.chunk"}


def test_in_bash(tmp_path):
    """The script that click makes works in a real bash."""
    (tmp_path / "splitter").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m splitter "$@"\n')
    (tmp_path / "splitter").chmod(0o755)
    script = (
        'eval "$(_SPLITTER_COMPLETE=bash_source splitter)"\n'
        "complete -p splitter\n"
        "COMP_WORDS=(splitter run --recipe chunk --sec) COMP_CWORD=4\n"
        '_splitter_completion splitter; echo "${COMPREPLY[@]}"\n'
        "COMPREPLY=() COMP_WORDS=(splitter run --recipe '') COMP_CWORD=3\n"
        '_splitter_completion splitter; echo "${COMPREPLY[@]}"\n'
    )
    path = os.pathsep.join([str(tmp_path), os.environ["PATH"]])
    bash = shutil.which("bash")
    assert bash
    done = subprocess.run(
        [bash, "-c", script],
        env={**os.environ, "PATH": path, "PYTHONPATH": str(CHECKOUT)},
        capture_output=True,
        text=True,
        check=False,
    )
    registered, seconds, recipes = done.stdout.splitlines()
    assert registered == "complete -o nosort -F _splitter_completion splitter"
    assert (seconds, recipes) == ("--seconds", " ".join(RECIPES.own))
