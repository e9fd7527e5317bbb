"""A run, and its plan, say what has changed before they do finished work again."""

import sys
from pathlib import Path

import pytest
from doors import Said, here, write_files
from torch.utils.data import Dataset

from splitter.recipes.words import Words
from splitter.system.recipe_code import code_state

WORDS = ["--workers=0", "--recipe=words"]


def said_of(capfd, folder: Path, *options: str) -> tuple[Said, list[str]]:
    """Plan, then run; the plan has to name what the run names."""
    arguments = [folder / "list.csv", "--output", folder / "out", *WORDS, *options]
    plan = here(capfd, "plan", *arguments)
    assert plan.code == 0, plan.err
    (why,) = (line.removeprefix("what changed: ") for line in plan.out.splitlines() if "what changed" in line)
    return here(capfd, "run", *arguments), why.split("; ")


def test_what_changed_is_named(folder, capfd):
    """A parameter, a column, a label, a file: whichever it is, and of which input."""
    write_files(folder, {"a.txt": "alpha", "b.txt": "beta"})
    list_ = folder / "list.csv"
    list_.write_text("input,who\na.txt,1\nb.txt,2\n")
    assert here(capfd, "run", list_, "--output", folder / "out", *WORDS).code == 0

    list_.write_text("input,who\na.txt,1\nb.txt,7\n")
    (folder / "a.txt").write_text("other words")
    said, why = said_of(capfd, folder)
    assert why == ["a.txt: its file", "b.txt: who was '2', is '7'"]
    note = "note: 2 finished inputs changed and will be redone"
    assert said.lines[0] == f"{note} ({'; '.join(why)})"

    list_.write_text("input,speaker\na.txt,1\nb.txt,7\n")
    said, why = said_of(capfd, folder)
    assert why == ["column speaker is new", "column who is gone"]
    assert said.lines[:2] == [f"note: {'; '.join(why)}", note]

    list_.write_text("input,a,b,c,d,e,f,g\na.txt,1,,,,,,\nb.txt,7,,,,,,\n")
    _, why = said_of(capfd, folder)
    assert why == ["columns a, b, c, d, e and 2 more are new", "column speaker is gone"]
    list_.write_text("input,speaker\na.txt,1\nb.txt,7\n")
    said, why = said_of(capfd, folder)
    assert why == ["column speaker is new", "columns a, b, c, d, e and 2 more are gone"]

    said, why = said_of(capfd, folder, "--num-chars=3")
    assert why == ["parameter num_chars changed from 2 to 3"]
    assert said.lines[:2] == [f"note: {why[0]}", note]


def test_a_failed_input_that_was_replaced_is_tried_again_and_named(folder, capfd):
    """Without --retry-failed: it is another input now."""
    write_files(folder / "in", {"a.txt": "alpha"})
    (folder / "in/b.txt").write_bytes(b"\xff\xfe\xff")
    arguments = ["run", folder / "in", "--output", folder / "out", *WORDS]
    assert here(capfd, *arguments).code == 1
    assert "tried again (" not in here(capfd, *arguments).err
    (folder / "in/b.txt").write_text("beta")
    said = here(capfd, *arguments)
    assert (said.code, said.lines[0]) == (
        0,
        "1 failed input changed and will be tried again (b.txt: its file)",
    )


CODE = """
from splitter import OutputFile, ProcessorDataset

FACTOR = 2


def longer(text):
    return text * FACTOR


def unused():
    return 1


class Longer(ProcessorDataset):
    def process(self, input_file):
        return [OutputFile("0.txt", longer(input_file.read_text()))], {}
"""


def test_code_that_changed_without_its_version_is_named_once(folder, capfd):
    """Also in functions and constants that the class uses; not if only comments changed, or the rest."""
    write_files(folder, {"a.txt": "alpha", "b.txt": "beta", "own.py": CODE})
    write_files(folder, {"list.csv": "input\na.txt\nb.txt\n"})
    arguments = [folder / "list.csv", "--recipe", f"{folder / 'own.py'}:Longer", "--output", folder / "out"]

    def notes(command: str, *changes: tuple[str, str]) -> list[str]:
        text = (folder / "own.py").read_text()
        for before, after in changes:
            assert before in text
            text = text.replace(before, after)
        (folder / "own.py").write_text(text)
        said = here(capfd, command, *arguments, *(["--workers=0"] if command == "run" else []))
        assert said.code == 0, said.err
        return [line for line in said.lines if "the code of" in line]

    hint = (
        "note: the code of Longer has changed since the last run, but not its version: 2 finished inputs "
        "will not be redone, unless you increase `version`"
    )
    assert notes("run") == []
    documented = ("(self, input_file):\n", '(self, input_file):\n        """Twice."""  # or more\n')
    assert notes("run", documented, ("return 1", "return 2")) == []
    assert notes("plan", ("text * FACTOR", "FACTOR * text")) == [hint]
    assert notes("run") == [hint]
    assert notes("run") == notes("plan") == []
    assert notes("run", ("FACTOR = 2", "FACTOR = 3")) == [hint]
    assert (folder / "out/a/0.txt").read_text() == "alphaalpha"
    in_new_version = ("    def process", "    version = 2\n\n    def process")
    assert notes("run", in_new_version, ("FACTOR = 3", "FACTOR = 4")) == []
    assert (folder / "out/a/0.txt").read_text() == "alpha" * 4


@pytest.mark.parametrize(
    ("folder", "is_noted"), [("site-packages", False), ("dist-packages", False), ("mine", True)]
)
def test_a_package_where_python_itself_has_none_is_no_code_of_a_recipe(
    tmp_path, monkeypatch, folder: str, is_noted: bool
):
    """A new torch of the user, or of a module of a cluster, is no change of a recipe that builds on it."""
    path = write_files(tmp_path / folder, {"dataset.py": "class Dataset:\n    pass\n"}) / "dataset.py"
    monkeypatch.setattr(sys.modules[Dataset.__module__], "__file__", str(path))
    assert bool(code_state(Words)) == is_noted
