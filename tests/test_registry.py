"""Another package adds recipes, sinks, executors and lists; it is a real one, with entry points."""

import importlib.metadata
import os
import sys
from pathlib import Path

import pytest
from doors import CHECKOUT, Said, here, program, read_table, run_words

from splitter.cli.main import exit_code
from splitter.options import RunOptions

OUTSIDE = Path(__file__).parent / "outside"
LOUD = ["SIMPLE", "SCALEABLE", "PREPROCESSING", "PYTORCH"]


def run(words: Path, *options: str) -> Said:
    """Run the word example in a process that finds the package."""
    return program(
        "run", words, *options, cwd=words.parent, PYTHONPATH=os.pathsep.join([str(CHECKOUT), str(OUTSIDE)])
    )


@pytest.fixture
def outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """The package can be imported in this process."""
    monkeypatch.syspath_prepend(OUTSIDE)
    monkeypatch.delitem(sys.modules, "outside_package", raising=False)


def manifest(words: Path) -> list[dict[str, str]]:
    return read_table(words.parent / "outputs" / "manifest.csv")


@pytest.mark.slow
def test_a_recipe_of_another_package(words: Path):
    """It is run by its name, with options from its signature."""
    said = run(words, "--recipe", "shout", "--mark", "?", "--root", "inputs", "--workers", "2")
    assert said.code == 0, said.err
    rows = manifest(words)
    assert [(words.parent / "outputs" / row["output"]).read_text() for row in rows] == [
        f"{text}?" for text in LOUD
    ]
    assert [row["letters"] for row in rows] == [str(len(text)) for text in LOUD]


@pytest.mark.slow
def test_a_sink_of_another_package(words: Path, outside: None, capfd):
    """It stores the outputs, and fills in a column of its own; the folder can be verified and continued."""
    said = run(words, "--recipe", "words", "--root", "inputs", "--sink", "kinds", "--workers", "2")
    assert said.code == 0, said.err
    assert {row["kind"] for row in manifest(words)} == {".txt"}
    assert here(capfd, "verify", words.parent / "outputs").code == 0
    (words.parent / "inputs" / "a.txt").write_text("changed")
    said = run_words(capfd, words, "--sink", "kinds")
    assert (said.code, len(manifest(words))) == (0, 32), said.err
    assert {row["kind"] for row in manifest(words)} == {".txt"}
    assert here(capfd, "verify", words.parent / "outputs").code == 0


@pytest.mark.slow
def test_an_executor_of_another_package(words: Path):
    """It runs the batches, with the options of a run that it takes."""
    said = run(words, "--recipe", "words", "--root", "inputs", "--executor", "one", "--timeout", "60")
    assert said.code == 0, said.err
    assert len({row["input"] for row in manifest(words)}) == 4


def test_a_list_of_another_package(words: Path, outside: None, capfd):
    """Its ending says which package reads it, and --where and --root work as with any list."""
    (words.parent / "list.lines").write_text("a.txt:ann\nb.txt:bob\nc.txt:ann\n")
    said = run_words(capfd, words.parent / "list.lines", "--where", "speaker == 'ann'")
    assert said.code == 0, said.err
    assert {(row["input"], row["speaker"]) for row in manifest(words)} == {("a.txt", "ann"), ("c.txt", "ann")}


def test_a_url_of_another_package(words: Path, outside: None, capfd):
    """So does its scheme."""
    url, output = f"colours://{words.parent / 'inputs'}?a+c", words.parent / "outputs"
    assert here(capfd, "run", url, "--recipe=words", "--workers=0", "--output", output).code == 0
    assert {row["input"] for row in manifest(words)} == {"a.txt", "c.txt"}


def test_what_a_package_adds_is_listed(outside: None, capfd):
    """Where all names are shown, and where one is completed or misspelt."""
    assert "[files|webdataset|parquet|virtual|kinds|wrong|zip]" in here(capfd, "run", "--help").out
    assert "one" in here(capfd, "run", ".", "--executor", "two").err
    assert "did you mean 'shout'?" in here(capfd, "run", ".", "--recipe", "shoutt").err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--sink", "wrong"], "--sink wrong: outside_package:Shout is not a subclass of Sink"),
        (["--recipe", "broken"], "--recipe broken: NotThere does not exist in outside_package; it has Shout"),
    ],
)
def test_an_entry_point_that_is_wrong_is_refused(words: Path, outside: None, capfd, options, message):
    said = here(capfd, "run", words, "--recipe=words", "--output", words.parent / "outputs", *options)
    assert (said.code, said.lines) == (2, [f"splitter: {message}"])


def test_a_list_of_a_tool_that_another_package_knows(words: Path, outside: None, capfd):
    """It is named with --from."""
    (words.parent / "by.notes").write_text("# notes\ninputs/a.txt by ann\ninputs/b.txt by bob\n")
    output = words.parent / "outputs"
    options = ("--from", "notes", "--recipe=words", "--workers=0", "--output", output)
    assert here(capfd, "run", words.parent / "by.notes", *options).code == 0
    assert {(row["input"], row["speaker"]) for row in manifest(words)} == {
        ("inputs/a.txt", "ann"), ("inputs/b.txt", "bob"),
    }  # fmt: skip


@pytest.mark.parametrize("command", ["run", "plan"])
def test_shards_that_nothing_reads_are_refused(words: Path, outside: None, capfd, command):
    """Before work, since what is made could not be read back."""
    options = ("--recipe=words", "--output", words.parent / "outputs", "--sink", "zip")
    said = here(capfd, command, words, *options)
    message = (
        "its shards end in '.zip', which nothing reads back; give ZipSink the suffix of the format that "
    )
    assert (said.code, said.err) == (2, f"splitter: --sink zip: {message}it writes, .tar or .parquet\n")
    assert not (words.parent / "outputs").exists()


def test_no_package_takes_the_name_of_another(outside: None, tmp_path: Path, monkeypatch, capfd):
    """Two of the same name are refused; one of ours stays ours, and nothing is looked up for it."""
    info = tmp_path / "second_package-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: second-package\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[splitter.recipes]\nshout = second_package:Shout\nwords = second_package:Words\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    said = here(capfd, "run", ".", "--recipe", "shout")
    assert "(outside_package:Shout, second_package:Shout); uninstall all but one" in said.err
    assert exit_code(["run", "--recipe", "words", "--help"]) == 0


def test_no_package_takes_the_urls_of_a_store(tmp_path: Path, monkeypatch, capfd):
    """A scheme that files are read from is not looked up; a list of such a URL is read as ever."""
    info = tmp_path / "third_package-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: third-package\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[splitter.inputs]\nmemory = third_package:NotThere\n")
    monkeypatch.syspath_prepend(tmp_path)
    said = here(capfd, "run", "memory://no/list.csv", "--recipe=words", "--output", tmp_path / "out")
    assert (said.code, "third_package" in said.err) == (2, False)
    assert "memory://no/list.csv" in said.err


def test_packages_are_not_looked_for_without_need(words: Path, monkeypatch, capfd):
    """The names that come along are known, a list that exists is read, and `--help` shows no names."""
    monkeypatch.setattr(importlib.metadata, "entry_points", None)
    RunOptions(sink="parquet", executor="ray")
    assert here(capfd, "--help").code == 0
    assert run_words(capfd, words).code == 0
