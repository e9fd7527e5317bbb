"""The same command again: it does what is not done and what changed, and nothing else."""

import contextlib
import itertools
import json
import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from doors import here, program, read_table, tree, write_files, write_list
from hypothesis import given, settings
from hypothesis import strategies as st
from nightly import depth

from splitter import OutputFile, ProcessorDataset, Skip, read_manifest, verify
from splitter.engine import begin, finish
from splitter.engine.entry_points import assemble
from splitter.errors import Interrupted, Refused, RunStopped, StorageError

CALLS: list[str] = []
TIMES = itertools.count(1_700_000_000_000_000_000, 1_000_000_000)


class Letters(ProcessorDataset):
    """One output for each letter; some texts fail, are left out, or make no output. Notes each call."""

    def __init__(self, inputs, prefix: str = "", factor: float = 1, mode: Any = None):
        super().__init__(inputs)
        self.prefix, self.factor = prefix, factor

    def process(self, input_file):
        CALLS.append(input_file.input)
        text = input_file.read_text()
        if text.startswith("fail"):
            raise ValueError(text)
        if text.startswith("skip"):
            raise Skip(text)
        label = input_file.columns.get("label", "")
        outputs = [OutputFile(f"{self.prefix}{i}-{letter}", letter + label) for i, letter in enumerate(text)]
        return outputs, {"text": text}


@dataclass
class Job:
    """A dataset and its output folder."""

    folder: Path
    out: Path
    files: dict[str, str]
    columns: list[str] = field(default_factory=lambda: ["input", "label"])
    labels: dict[str, str] = field(default_factory=dict)
    order: list[str] = field(default_factory=list)
    recipe: type[ProcessorDataset] = Letters

    def write(self, name: str, text: str) -> None:
        """Change a file so that its time is another, as it is for whoever waits longer than a test."""
        (self.folder / name).write_text(text)
        os.utime(self.folder / name, ns=(next(TIMES),) * 2)

    def rows(self) -> list[dict[str, str]]:
        names = self.order or list(self.files)
        return [dict(zip(self.columns, (name, self.labels.get(name, "x")), strict=True)) for name in names]

    def run(self, parameters: dict[str, Any] | None = None, **options: Any):
        """Run, and check what must hold after every run; the inputs that were processed are in `calls`."""
        CALLS.clear()
        dataset = self.recipe(self.rows(), **parameters or {})
        result = dataset.run(self.out, **{"root": str(self.folder), "workers": 0, "quiet": True, **options})
        self.calls = sorted(CALLS)
        self.check(complete="limit" not in options)
        self.check_assembled(result.summary)
        return result

    def check(self, *, complete: bool = True) -> None:
        """Each input stands in just one of the tables, in order; each output of the manifest is there."""
        manifest, errors = (read_table(self.out / f"{name}.csv") for name in ("manifest", "errors"))
        names = [row["input"] for row in self.rows()]
        done, failed = ([row["input"] for row in rows] for rows in (manifest, errors))
        assert not set(done) & set(failed)
        assert len(failed) == len(set(failed))
        for found in (done, failed):
            assert [names.index(name) for name in found] == sorted(names.index(name) for name in found)
        if complete:
            assert set(done) | set(failed) == set(names)
        outputs = {row["output"]: row for row in manifest if row["output"]}
        stored = {name: text for name, text in tree(self.out).items() if "/" in name}
        assert set(outputs) <= set(stored)
        assert {name: int(row["size"]) for name, row in outputs.items()} == {
            name: len(stored[name]) for name in outputs
        }
        assert (self.out / "errors.csv").exists() == bool(errors)

    def check_assembled(self, summary) -> None:
        """What is committed says the same of everything as the run that did it."""
        before = tree(self.out)
        again = assemble(self.out)
        assert tree(self.out) == before
        for name in ("inputs", "done", "skipped", "failed", "left", "stale", "gone"):
            assert getattr(again, name) == getattr(summary, name), name


@pytest.fixture
def job(folder: Path, tmp_path: Path) -> Job:
    """Four inputs: one that is done, one that fails, one that is left out, one that makes no output."""
    files = {"a.txt": "abc", "b.txt": "fail", "c.txt": "skip", "d.txt": ""}
    write_files(folder, files)
    return Job(folder, tmp_path / "out", files)


def times(folder: Path) -> dict[str, int]:
    """When each output was made."""
    return {name: (folder / name).stat().st_mtime_ns for name in tree(folder) if "/" in name}


# -- nothing to do -----------------------------------------------------------------------------------------


def test_nothing_to_do(job):
    """A second run processes nothing, and changes no file: neither content nor time, the tables included."""
    first = job.run()
    assert job.calls == ["a.txt", "b.txt", "c.txt", "d.txt"]
    before, made = tree(job.out), times(job.out)
    second = job.run()
    assert job.calls == []
    assert tree(job.out) == before
    assert times(job.out) == made
    assert second.equals(first)
    assert second.failed.equals(first.failed)
    numbers = second.summary
    assert (numbers.done, numbers.skipped, numbers.failed, numbers.left, numbers.exit_code) == (2, 1, 1, 0, 1)


def test_nothing_to_do_is_said(words, capfd):
    """On the command line, with exit code 0 and the same summary."""
    command = ["run", words, "--root", "inputs", "--recipe", "words", "--output", words.parent / "out"]
    here(capfd, *command, "--workers", "1")
    before = tree(words.parent / "out")
    said = here(capfd, *command, "--workers", "2", "--batch-size", "1")
    assert said.code == 0
    assert said.lines[0] == "nothing to do: 4 inputs, all finished"
    assert said.lines[1].startswith("4 of 4 inputs done; 0 outputs (0 bytes) made in ")
    assert len(said.lines) == 4
    assert tree(words.parent / "out") == before


def test_what_failed_is_not_tried_again_and_is_named(job, capfd):
    """It is said how to try it again, and the exit code stays 1."""
    job.run()
    job.run(quiet=False)
    assert job.calls == []
    said = capfd.readouterr().err
    assert "nothing to do: 4 inputs, all finished, 1 of them failed (--retry-failed tries them again)" in said


@pytest.mark.parametrize("change", ["workers", "batch_size", "timeout", "retries", "max_failures", "memory"])
def test_how_it_is_run_does_not_matter(job, change):
    """Batch size, workers and limits may change between runs without anything being done again."""
    job.run()
    values = {"workers": 1, "batch_size": 3, "timeout": 9.0, "retries": 0, "max_failures": 5, "memory": "1GB"}
    job.run(**{"workers": 1, change: values[change]})
    assert job.calls == []
    assert job.run().summary.work.inputs == 0


def test_a_folder_that_was_moved(job, tmp_path):
    """The output folder can be renamed between runs: names in it are relative."""
    job.run()
    job.out.rename(tmp_path / "moved")
    job.out = tmp_path / "moved"
    job.run()
    assert job.calls == []


# -- what changed ------------------------------------------------------------------------------------------


def fresh(job: Job, parameters: dict[str, Any] | None = None, **options: Any) -> dict[str, bytes]:
    """What a run into a new folder gives."""
    other = Job(
        job.folder, job.out.with_name("fresh"), job.files, job.columns, job.labels, job.order, job.recipe
    )
    other.run(parameters, **options)
    return tree(other.out)


def test_a_changed_input(job):
    """It is done again: stale outputs are gone, new ones there, and nothing else is touched."""
    job.files["e.txt"] = "untouched"
    job.write("e.txt", "untouched")
    job.run()
    untouched = times(job.out / "e")
    job.write("a.txt", "bc!")
    job.run()
    assert job.calls == ["a.txt"]
    assert times(job.out / "e") == untouched
    assert set(tree(job.out / "a")) == {"0-b", "1-c", "2-!"}
    assert tree(job.out) == without_traceback(fresh(job), job)


def without_traceback(expected: dict[str, bytes], job: Job) -> dict[str, bytes]:
    """The tree, with this run's errors.csv, whose tracebacks and attempts are exempt."""
    if "errors.csv" not in expected:
        return expected
    plain = ("input", "label", "error", "message")
    mine, other = (read_table(folder / "errors.csv") for folder in (job.out, job.out.with_name("fresh")))
    assert [[row[key] for key in plain] for row in mine] == [[row[key] for key in plain] for row in other]
    return {**expected, "errors.csv": (job.out / "errors.csv").read_bytes()}


def test_a_changed_size_alone(job):
    """A file of another size is another file, whatever its time says."""
    job.run()
    path = job.folder / "a.txt"
    old = path.stat().st_mtime_ns
    path.write_text("abcd")
    os.utime(path, ns=(old, old))
    job.run()
    assert job.calls == ["a.txt"]


def test_a_changed_time_alone(job):
    """A file with another time may be another, even an older one."""
    job.run()
    os.utime(job.folder / "a.txt", ns=(1, 1))
    job.run()
    assert job.calls == ["a.txt"]
    job.run()
    assert job.calls == []


@pytest.mark.parametrize(
    ("before", "after"), [("fail", "ok"), ("skip", "ok"), ("", "ok"), ("ok", "fail"), ("ok", "skip")]
)
def test_an_input_that_becomes_good_or_bad(job, before, after):
    """A change is enough for a failed one too; one that fails now leaves nothing of what it had."""
    job.write("a.txt", before)
    job.run()
    job.write("a.txt", after)
    result = job.run()
    assert job.calls == ["a.txt"]
    assert (job.out / "a").exists() == (after == "ok")
    assert tree(job.out) == without_traceback(fresh(job), job)
    assert ("a.txt" in set(result.failed["input"])) == (after == "fail")


def test_a_changed_label(job):
    """Columns are part of an input: its row and its outputs are new."""
    job.run()
    job.labels["a.txt"] = "y"
    result = job.run()
    assert job.calls == ["a.txt"]
    assert list(result["label"][:3]) == ["y"] * 3
    assert (job.out / "a/0-a").read_text() == "ay"


@pytest.mark.parametrize(
    "columns", [["input", "tag"], ["input", "label", "more"], ["input"], ["label", "input"]]
)
def test_other_columns(job, columns):
    """A column more, less, of another name or in another place: everything is done again."""
    job.run()
    table = {"label": "x", "tag": "x", "more": "z"}
    names = list(job.files)
    rows = [{column: name if column == "input" else table[column] for column in columns} for name in names]
    job.rows = lambda: rows  # type: ignore[method-assign]
    job.run()
    assert job.calls == names
    assert list(read_table(job.out / "manifest.csv")[0])[: len(columns)] == columns


def test_rows_added(job):
    """Only the new one is done, wherever it stands; the manifest has it in its place."""
    job.run()
    job.write("new.txt", "n")
    job.order = ["a.txt", "new.txt", "b.txt", "c.txt", "d.txt"]
    result = job.run()
    assert job.calls == ["new.txt"]
    assert list(result["input"]) == ["a.txt"] * 3 + ["new.txt", "c.txt", "d.txt"]


def test_rows_removed(job):
    """Nothing is done; the outputs are kept and leave the manifest; --prune removes them."""
    job.run()
    job.order = ["b.txt", "c.txt", "d.txt"]
    result = job.run()
    assert job.calls == []
    assert "a.txt" not in set(result["input"])
    assert result.summary.gone == 1
    assert set(tree(job.out / "a")) == {"0-a", "1-b", "2-c"}
    result = job.run(prune=True)
    assert job.calls == []
    assert result.summary.pruned == 1
    assert not (job.out / "a").exists()
    assert tree(job.out) == without_traceback(fresh(job), job)
    job.order = []
    job.run()
    assert job.calls == ["a.txt"]


def test_what_is_removed_is_said(words, capfd):
    """Before it is removed, with the first names, and in the summary; by --prune and by --fresh."""
    command = ["run", words, "--root", "inputs", "--recipe", "words", "--output", words.parent / "out"]
    here(capfd, *command, "--workers", "0")
    words.write_text("input\na.txt\n")
    said = here(capfd, *command, "--workers", "0", "--prune")
    assert said.lines[0] == (
        "--prune: removing the outputs of 3 inputs no longer in the list (b.txt, c.txt, d.txt)"
    )
    assert said.lines[-3].startswith("1 of 1 input done, the outputs of 3 inputs removed; 0 outputs")
    said = here(capfd, *command, "--workers", "0", "--fresh")
    assert said.lines[0] == "--fresh: removing the outputs of 1 input (a.txt)"
    assert said.lines[-3].startswith("1 of 1 input done, the outputs of 1 input removed; ")


def test_a_row_that_comes_back(job):
    """Without --prune it is still done when it stands in the list again."""
    job.run()
    before = tree(job.out)
    job.order = ["d.txt"]
    job.run()
    job.order = []
    job.run()
    assert job.calls == []
    assert tree(job.out) == before


def test_prune_needs_no_run_before(job):
    """On a new folder, and where nothing is gone, it does nothing."""
    job.run(prune=True)
    before, made = tree(job.out), times(job.out)
    job.run(prune=True)
    assert (tree(job.out), times(job.out), job.calls) == (before, made, [])


def test_rows_in_another_order(job):
    """Nothing is done, and the manifest follows the list."""
    job.run()
    job.order = ["d.txt", "c.txt", "b.txt", "a.txt"]
    result = job.run()
    assert job.calls == []
    assert list(result["input"]) == ["d.txt", "c.txt", "a.txt", "a.txt", "a.txt"]
    assert tree(job.out) == without_traceback(fresh(job), job)


def test_another_spelling_of_the_same_path(job):
    """The column is another text, so the input is done again, in the same place."""
    job.run()
    job.order = ["./a.txt", "b.txt", "c.txt", "d.txt"]
    result = job.run()
    assert job.calls == ["./a.txt"]
    assert list(result["output"][:3]) == ["a/0-a", "a/1-b", "a/2-c"]
    assert result.summary.gone == 0


def test_a_changed_parameter(job, capfd):
    """Everything is done again, and before that it is said which parameter, from what to what, how many."""
    job.run()
    result = job.run({"prefix": "new "}, quiet=False)
    assert job.calls == list(job.files)
    said = capfd.readouterr().err.splitlines()
    assert said[0] == "note: parameter prefix changed from '' to 'new '"
    assert said[1] == "note: 3 finished inputs changed and will be redone"
    assert set(tree(job.out / "a")) == {"new 0-a", "new 1-b", "new 2-c"}
    assert tree(job.out) == without_traceback(fresh(job, {"prefix": "new "}), job)
    assert result.summary.failed == 1


def test_a_change_is_named_as_long_as_something_is_from_before_it(job, capfd):
    """Also by the runs after one that was limited or interrupted; and no more when all is done."""
    job.run()
    job.run({"prefix": "n"}, limit=1)
    job.run({"prefix": "n"}, limit=3, quiet=False)
    assert job.calls == ["b.txt", "c.txt"]
    assert "note: parameter prefix changed from '' to 'n'\n" in capfd.readouterr().err
    job.run({"prefix": "m"}, limit=1, quiet=False)
    assert "note: parameter prefix changed from '' and 'n' to 'm'\n" in capfd.readouterr().err
    job.run({"prefix": "m"}, quiet=False)
    said = capfd.readouterr().err
    assert "note: parameter prefix changed from '' and 'n' to 'm'\n" in said
    assert "note: 2 finished inputs changed and will be redone\n" in said
    job.labels["a.txt"] = "y"
    job.run({"prefix": "m"}, quiet=False)
    assert "prefix" not in capfd.readouterr().err


def test_a_change_is_named_when_what_could_not_be_read_is_there_again(job, capfd):
    """It was from before the change all the while."""
    job.run()
    (job.folder / "a.txt").rename(job.folder / "away")
    job.run({"prefix": "n"})
    (job.folder / "away").rename(job.folder / "a.txt")
    job.run({"prefix": "n"}, quiet=False)
    assert job.calls == ["a.txt"]
    assert "note: parameter prefix changed from '' to 'n'\n" in capfd.readouterr().err


def test_a_parameter_that_is_not_really_another(job):
    """1 and 1.0 for a float, a list and a tuple, the same dict in another order: the same."""
    job.run({"factor": 1, "mode": {"a": [1, 2], "b": Path("x")}})
    job.run({"factor": 1.0, "mode": {"b": "x", "a": (1, 2)}})
    assert job.calls == []
    job.run({"factor": 1.5})
    assert job.calls == list(job.files)


def test_a_changed_version(job, capfd):
    """`version` is there to be bumped when the code changes."""
    job.run()

    class Better(Letters):
        version = 2

    Better.__qualname__ = Letters.__qualname__
    job.recipe = Better
    job.run(quiet=False)
    assert job.calls == list(job.files)
    assert capfd.readouterr().err.startswith("note: version changed from 1 to 2\n")


def test_another_recipe(job, capfd):
    """So does another class."""

    class Other(Letters):
        pass

    job.run()
    job.recipe = Other
    job.run(quiet=False)
    assert job.calls == list(job.files)
    assert capfd.readouterr().err.startswith("note: recipe changed from 'Letters' to '")


def test_no_note_when_there_was_nothing_to_lose(job, capfd):
    """After a run in which everything failed a change of parameter is no loss."""
    job.files = {"b.txt": "fail"}
    job.run()
    job.run({"prefix": "x"}, quiet=False)
    assert job.calls == ["b.txt"]
    assert "note:" not in capfd.readouterr().err


def test_another_way_to_name_folders_is_refused(job):
    """--keep-extension cannot change under finished outputs; nothing is touched."""
    job.run()
    before = tree(job.out)
    with pytest.raises(Refused, match="--keep-extension"):
        job.run(keep_extension=True)
    assert tree(job.out) == before
    job.run(keep_extension=True, fresh=True)
    assert set(tree(job.out / "a.txt")) == {"0-a", "1-b", "2-c"}
    assert not (job.out / "a").exists()


# -- failures, and starting over ---------------------------------------------------------------------------


def test_retry_failed(job):
    """It touches only what failed; with the cause mended the input is done, and errors.csv is gone."""
    job.run()
    made = times(job.out)
    job.run(retry_failed=True)
    assert job.calls == ["b.txt"]
    # mended in a way that no fingerprint shows
    stat = (job.folder / "b.txt").stat()
    (job.folder / "b.txt").write_text("good")
    os.utime(job.folder / "b.txt", ns=(stat.st_mtime_ns,) * 2)
    job.run()
    assert job.calls == []
    result = job.run(retry_failed=True)
    assert job.calls == ["b.txt"]
    assert result.failed.empty
    assert result.summary.exit_code == 0
    assert {name: time for name, time in times(job.out).items() if not name.startswith("b/")} == made
    assert not (job.out / "errors.csv").exists()


def test_an_input_that_was_missing(job):
    """It is an error of that input; when it is there, that is a change."""
    job.order = ["a.txt", "later.txt"]
    result = job.run()
    assert list(result.failed["error"]) == ["UnreadableInput"]
    job.run()
    assert job.calls == []
    job.write("later.txt", "l")
    job.run()
    assert job.calls == ["later.txt"]


def test_fresh(job):
    """--fresh removes what earlier runs made, also of rows that are gone, and does everything."""
    job.run({"prefix": "old "})
    job.order = ["b.txt", "c.txt", "d.txt"]
    job.run({"prefix": "old "}, fresh=True)
    assert job.calls == ["b.txt", "c.txt", "d.txt"]
    assert not (job.out / "a").exists()
    assert tree(job.out) == without_traceback(fresh(job, {"prefix": "old "}), job)
    job.run({"prefix": "old "})
    assert job.calls == []


def test_fresh_on_a_new_folder(job):
    """There is nothing to remove."""
    job.run(fresh=True)
    assert job.calls == list(job.files)


def test_foreign_files_are_left_alone(job):
    """What somebody put into the output folder is neither removed nor replaced by --fresh or --prune."""
    job.run()
    write_files(job.out, {"notes.txt": "mine", "a/mine.txt": "mine"})
    job.order = ["b.txt"]
    CALLS.clear()
    for option in ({"prune": True}, {"fresh": True}):
        dataset = Letters(job.rows())
        dataset.run(job.out, root=str(job.folder), workers=0, quiet=True, **option)
    assert {name for name in tree(job.out) if "/" in name} == {"a/mine.txt"}
    assert (job.out / "notes.txt").read_text() == "mine"


# -- a part of the list ------------------------------------------------------------------------------------


def test_limit_then_without(job):
    """A trial is a part of the whole: what it did is not done again."""
    result = job.run(limit=2)
    assert job.calls == ["a.txt", "b.txt"]
    assert (result.summary.left, result.summary.exit_code) == (2, 1)
    job.run()
    assert job.calls == ["c.txt", "d.txt"]
    assert tree(job.out) == without_traceback(fresh(job), job)


def test_what_a_limit_leaves_out_stays(job):
    """It is neither stale nor prunable, and stays in the manifest, whatever changed."""
    job.run()
    made = times(job.out)
    for options in ({"limit": 1}, {"limit": 1, "prune": True}):
        job.order = ["d.txt", "a.txt", "b.txt", "c.txt"]
        result = job.run(**options)
        assert job.calls == []
        assert set(result["input"]) == {"a.txt", "c.txt", "d.txt"}
    job.write("a.txt", "other")
    job.run(limit=1)
    assert job.calls == []
    assert times(job.out) == made
    job.run(limit=2)
    assert job.calls == ["a.txt"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "name"),
    [
        *((begin, name) for name in ("keep_stale", "note_how", "keep_list")),
        *((finish, name) for name in ("write_tables", "in_shards", "forget_earlier")),
    ],
)
@pytest.mark.parametrize("at", [1, 2])
def test_a_signal_while_a_run_writes_down_what_it_knows(job, monkeypatch, module, name, at):
    """Both tables, the kept list and the commit records are of one run, and whole."""
    job.run()
    job.write("a.txt", "other")
    job.files["e.txt"] = "new"
    job.write("e.txt", "new")
    function, calls = getattr(module, name), itertools.count(1)

    def interrupted(*values, **options):
        if next(calls) == at:
            raise Interrupted(2)
        return function(*values, **options)

    monkeypatch.setattr(module, name, interrupted)
    with contextlib.suppress(Interrupted):
        job.run({"prefix": "n"}, root=str(job.folder), workers=0)
    monkeypatch.undo()
    assert [one for one in verify(job.out, workers=1).findings if one.kind != "input"] == []
    before = tree(job.out)
    assemble(job.out)
    assert tree(job.out) == before
    job.run({"prefix": "n"})
    assert tree(job.out) == without_traceback(fresh(job, {"prefix": "n"}), job)


@pytest.mark.parametrize("sink", ["webdataset", "parquet"])
def test_a_trial_of_another_parameter_in_shards(folder, sink):
    """What is taken along to a shard that is made again was not made with the parameter."""
    files = {f"{letter}.txt": letter * 3 for letter in "abcd"}
    write_files(folder, files)
    options = {"root": str(folder), "workers": 0, "quiet": True, "sink": sink}
    out = folder / "out"
    Letters([*files]).run(out, **options)
    result = Letters([*files], "n").run(out, limit=1, **options)
    assert (result.summary.done, result.summary.stale) == (1, 3)
    assert {*result["input"]} == {"a.txt"}
    assert [one.kind for one in verify(out, workers=1).findings] == ["input"] * 3
    assert Letters([*files], "n").plan(out, **options).changed == 3
    again = Letters([*files], "n").run(out, **options)
    assert (again.summary.done, again.summary.exit_code) == (4, 0)
    Letters([*files], "n").run(folder / "fresh", **options)
    assert tree(out) == tree(folder / "fresh")
    assert verify(out, workers=1).ok


@pytest.mark.parametrize("damage", [lambda _: b"", lambda text: text[:7], lambda text: bytes(len(text))])
def test_what_is_kept_of_a_change_is_not_taken_for_something_else(job, damage):
    """Where it is damaged no manifest is made of it: none beats a wrong one; the run makes it anew."""
    job.run()
    job.write("a.txt", "other")
    job.write("d.txt", "another")
    job.run(limit=1)
    stale = job.out / ".splitter/stale"
    stale.write_bytes(damage(stale.read_bytes()))
    before = tree(job.out)
    verdict = verify(job.out, workers=1)
    assert [one.file for one in verdict.findings][:1] == [".splitter/stale"]
    with pytest.raises(StorageError, match=r"stale: is damaged .* 'splitter run' command"):
        assemble(job.out)
    assert tree(job.out) == before
    job.run()
    assert tree(job.out) == without_traceback(fresh(job), job)
    assert not verify(job.out, workers=1).findings


def test_a_trial_of_another_parameter(job):
    """With --limit only the first are done with it, and are all in the manifest; the rest follow without."""
    job.files = {"a.txt": "abc", "d.txt": "", "e.txt": "e", "f.txt": "f"}
    for name, text in job.files.items():
        job.write(name, text)
    job.run()
    before = tree(job.out)
    result = job.run({"prefix": "n"}, limit=1)
    assert job.calls == ["a.txt"]
    assert set(tree(job.out / "a")) == {"n0-a", "n1-b", "n2-c"}
    assert set(tree(job.out / "e")) == {"0-e"}
    assert set(result["output"]) == {"a/n0-a", "a/n1-b", "a/n2-c"}
    assert (result.summary.done, result.summary.stale, result.summary.exit_code) == (1, 3, 0)
    # a trial that was not liked can be undone
    job.run()
    assert job.calls == ["a.txt"]
    assert tree(job.out) == before
    job.run({"prefix": "n"}, limit=1)
    job.run({"prefix": "n"})
    assert job.calls == ["d.txt", "e.txt", "f.txt"]
    assert tree(job.out) == fresh(job, {"prefix": "n"})


def test_what_is_as_before_a_change_is_in_neither_table(job):
    """Not what was done, left out, or failed: the tables would mix two parameters, or show an old label."""
    job.run()
    for option, left in (({"prefix": "n"}, 3), ({}, 0)):
        result = job.run(option, limit=1)
        assert set(result["input"]) == ({"a.txt"} if left else {"a.txt", "c.txt", "d.txt"})
        assert list(result.failed.get("input", [])) == ([] if left else ["b.txt"])
        assert (result.summary.stale, result.summary.left, result.summary.failed) == (left, 0, not left)
    job.labels["d.txt"] = "y"
    result = job.run(limit=1)
    assert set(result["input"]) == {"a.txt", "c.txt"}
    assert result.summary.stale == 1
    assert set(job.run()["label"]) == {"x", "y"}


def test_a_redo_that_was_stopped(job):
    """What was not reached is counted apart, and is not in the manifest; the same command does it."""
    job.files = {f"{i}.txt": "fail" if i == 2 else "x" for i in range(8)}
    for name, text in job.files.items():
        job.write(name, text)
    job.run()
    with pytest.raises(RunStopped):
        job.run({"prefix": "n"}, max_failures=0, batch_size=1)
    assert sorted(CALLS) == ["0.txt", "1.txt", "2.txt"]
    assert [row["output"] for row in read_table(job.out / "manifest.csv")] == ["0/n0-x", "1/n0-x"]
    assert [row["input"] for row in read_table(job.out / "errors.csv")] == ["2.txt"]
    assert set(tree(job.out / "7")) == {"0-x"}
    job.run({"prefix": "n"})
    assert job.calls == ["3.txt", "4.txt", "5.txt", "6.txt", "7.txt"]
    assert tree(job.out) == without_traceback(fresh(job, {"prefix": "n"}), job)


def test_the_command_line_says_what_is_as_before_a_change(words, capfd):
    """In the count, beside the manifest that is without it, and in what to do next."""
    out = words.parent / "out"
    command = ["run", words, "--root", "inputs", "--recipe", "words", "--output", out, "--workers", "0"]
    here(capfd, *command)
    said = here(capfd, *command, "--num-chars", "3", "--limit", "1")
    assert said.code == 0
    first, second, third = said.lines[-3:]
    assert first.startswith(
        "1 of 4 inputs done, 3 waiting to be redone after a change; 3 outputs (9 bytes) made in "
    )
    assert second == f"manifest: {out}/manifest.csv (without inputs waiting to be redone)"
    assert third == "next: run again without --limit for the rest"
    assert {row["input"] for row in read_table(out / "manifest.csv")} == {"a.txt"}
    said = here(capfd, *command, "--num-chars", "3", "--limit", "1")
    assert "nothing to do" in said.err
    assert "3 waiting to be redone after a change" in said.err
    said = here(capfd, *command, "--num-chars", "3")
    assert said.lines[-3].startswith("4 of 4 inputs done; ")
    assert said.lines[-2] == f"manifest: {out}/manifest.csv"


@pytest.mark.parametrize("content", ["", "{", "[]", "5", '{"earlier": 5}', '{"earlier": [5]}', "\0"])
def test_a_note_of_the_last_run_that_is_damaged(job, content):
    """One line that names it; without it what is done stays done."""
    job.run()
    note = job.out / ".splitter" / "run.json"
    note.write_text(content)
    with pytest.raises(StorageError, match=r"/\.splitter/run\.json: is damaged \(.*; remove it, and run"):
        job.run()
    note.unlink()
    job.run()
    assert job.calls == []


# -- inputs that cannot be read ----------------------------------------------------------------------------


def test_an_unreadable_input_keeps_its_outputs(job):
    """An unmounted disk deletes nothing: the input is named, and only done again if it changed."""
    job.files["e.txt"] = "more"
    job.write("e.txt", "more")
    job.run()
    before, made = tree(job.out), times(job.out)
    (job.folder / "a.txt").rename(job.folder / "away")
    for options in ({}, {"retry_failed": True}, {"prune": True}):
        result = job.run(**options)
        assert result.summary.unreadable_names == ["a.txt"]
        assert (result.summary.unreadable, result.summary.exit_code) == (1, 1)
        assert "a.txt" not in job.calls
    assert times(job.out) == made
    assert {name: text for name, text in tree(job.out).items() if name != "errors.csv"} == {
        name: text for name, text in before.items() if name != "errors.csv"
    }
    (job.folder / "away").rename(job.folder / "a.txt")
    assert job.run().summary.unreadable == 0
    assert job.calls == []


def test_the_command_line_says_what_is_gone_and_what_cannot_be_read(words, capfd):
    """In the last line of the summary, with what to do about it, and in the exit code."""
    command = ["run", words, "--root", "inputs", "--recipe", "words", "--output", words.parent / "out"]
    here(capfd, *command, "--workers", "1")
    words.write_text("input\na.txt\nb.txt\n")
    said = here(capfd, *command)
    assert said.code == 0
    assert "of 2 inputs that are no longer in the list" in said.lines[-2]
    folder = ["run", words.parent / "inputs", "--recipe", "words", "--output", words.parent / "out"]
    assert here(capfd, *folder, "--pattern", "[ab]*").lines[-1].startswith("next: splitter report ")
    (words.parent / "inputs/b.txt").unlink()
    said = here(capfd, *command)
    assert said.code == 1
    assert said.lines[-1] == (
        f"next: make b.txt readable (first: {words.parent}/inputs/b.txt: does not exist) and run again: "
        "it could not be read and keeps its earlier outputs"
    )
    assert "2 of 2 inputs done" in said.lines[-4]
    assert (words.parent / "out/b/0.txt").exists()
    (words.parent / "inputs/a.txt").unlink()
    (last,) = here(capfd, *command, "--quiet").lines
    assert last.startswith("splitter: make a.txt, b.txt readable (first: ")
    assert last.endswith(" and run again: they could not be read and keep their earlier outputs")


def test_all_inputs_are_away(job):
    """The whole folder is gone: nothing is done, nothing removed, also when a parameter changed."""
    job.files = {"a.txt": "abc", "d.txt": ""}
    job.run()
    before = tree(job.out)
    for name in job.files:
        (job.folder / name).unlink()
    result = job.run({"prefix": "new"})
    assert job.calls == []
    assert result.summary.unreadable == 2
    assert tree(job.out) == before


class Moody(Letters):
    """Fails in a way that comes from outside the recipe."""

    how: Callable[[Any], Exception] | None = None

    def process(self, input_file):
        if Moody.how:
            CALLS.append(input_file.input)
            raise Moody.how(input_file)
        return super().process(input_file)


@pytest.mark.parametrize(
    ("how", "unreadable"),
    [
        (lambda one: OSError(5, "Input/output error"), True),
        (lambda one: OSError(5, "Input/output error", one.local_path), True),
        (lambda one: PermissionError(13, "Permission denied", str(one.path)), True),
        (lambda one: FileNotFoundError(2, "No such file", "model.bin"), False),
        (lambda one: PermissionError(13, "Permission denied", Path("/other")), False),
        (lambda one: OSError("cannot identify image"), False),
        (lambda one: ValueError("broken"), False),
    ],
    ids=[
        "read",
        "read of it",
        "its permission",
        "another file",
        "another's permission",
        "its content",
        "no OSError",
    ],
)
def test_a_changed_input_that_cannot_be_read_while_it_is_processed(job, monkeypatch, how, unreadable):
    """It keeps what it had; one that was read and failed is an error, and leaves nothing."""
    monkeypatch.setattr(Moody, "how", None)
    job.recipe, job.files = Moody, {"a.txt": "abc", "d.txt": ""}
    job.run()
    monkeypatch.setattr(Moody, "how", staticmethod(how))
    job.write("a.txt", "abcd")
    result = job.run(retries=0)
    assert job.calls == ["a.txt"]
    assert result.summary.exit_code == 1
    assert result.summary.unreadable == int(unreadable)
    assert len(result.failed) == int(not unreadable)
    assert (job.out / "a/0-a").exists() == unreadable
    # when it can be read it is done, since it is not what it was
    monkeypatch.setattr(Moody, "how", None)
    job.run(retry_failed=True)
    assert job.calls == ["a.txt"]
    assert set(tree(job.out / "a")) == {"0-a", "1-b", "2-c", "3-d"}


def test_the_reason_is_said_of_one_that_could_not_be_read_while_it_was_processed(job, monkeypatch):
    """As it is of one that was not there to begin with."""
    monkeypatch.setattr(Moody, "how", None)
    job.recipe, job.files = Moody, {"a.txt": "abc"}
    job.run()
    monkeypatch.setattr(
        Moody, "how", staticmethod(lambda one: OSError(5, "Input/output error", one.local_path))
    )
    job.write("a.txt", "abcd")
    assert "Input/output error" in job.run(retries=0).summary.unreadable_why


def test_an_input_that_may_not_be_opened(job, monkeypatch):
    """It is unreadable, in plain words and without a traceback, as one that is not there."""
    job.recipe, job.files = Moody, {"a.txt": "abc"}
    monkeypatch.setattr(
        Moody, "how", staticmethod(lambda one: PermissionError(13, "Permission denied", one.local_path))
    )
    (failed,) = job.run(retries=0).failed.to_dict("records")
    assert (failed["error"], failed["traceback"]) == ("UnreadableInput", "")
    assert failed["message"] == f"{job.folder / 'a.txt'}: cannot be read: Permission denied"


def test_a_name_with_a_line_end_does_not_break_a_printed_line(folder, capfd):
    """It is spelled out, and so is what would talk to the terminal; in the tables it is as it was."""
    names = ["one\nline\x1b[2J.txt", "two\r.txt"]
    write_files(folder, {f"in/{name}": "abc" for name in names})
    write_files(folder, {"in/fine.txt": "abc"})
    listing = write_list(folder / "in/dataset.csv", [["input"], *([name] for name in names), ["fine.txt"]])
    command = ["run", listing, "--recipe", "words", "--output", folder / "out", "--workers", "0"]
    assert here(capfd, *command).code == 0
    for name in names:
        (folder / "in" / name).unlink()
    shown = "make one\\nline\\x1b[2J.txt, two\\r.txt readable"
    said = here(capfd, *command)
    assert len(said.lines) == 4
    assert said.lines[-1].startswith(f"next: {shown}")
    said = here(capfd, *command, "--fresh")
    shown = "one\\nline\\x1b[2J.txt, two\\r.txt, fine.txt"
    assert said.lines[0] == f"--fresh: removing the outputs of 3 inputs ({shown})"
    assert "first: one\\nline\\x1b[2J.txt: UnreadableInput" in said.lines[-1]
    assert "\x1b" not in said.err
    assert [row["input"] for row in read_table(folder / "out/errors.csv")] == names


# -- a run that was stopped, folders that are odd ----------------------------------------------------------


def test_a_stopped_run_is_continued(job):
    """After --max-failures the same command does the rest; nothing is done twice."""
    job.files = {f"{i}.txt": "fail" if i in (1, 2) else "x" for i in range(8)}
    for name, text in job.files.items():
        job.write(name, text)
    with pytest.raises(RunStopped):
        job.run(max_failures=1, batch_size=1)
    done = sorted(CALLS)
    assert done == ["0.txt", "1.txt", "2.txt"]
    job.run()
    assert job.calls == sorted(set(job.files) - set(done))


def test_a_refused_run_changes_nothing(job):
    """Whatever is refused leaves the finished run as it was, and in order."""
    job.run()
    before = tree(job.out)
    for order in (["a.txt", "a.txt"], ["manifest.csv/x"], [""]):
        job.order = order
        with pytest.raises(Refused):
            job.run()
        assert tree(job.out) == before
    job.order = []
    job.run()
    assert job.calls == []


@pytest.mark.parametrize("workers", [0, 1])
def test_a_strangers_file_where_an_output_must_go(job, workers):
    """It is that input's error and stays as it is, a changed input's too; the run goes on."""
    job.files = {"a.txt": "ab", "b.txt": "ab", "below/c.txt": "c", "d.txt": "d", "e.txt": "e", "f.txt": "f"}
    for name, text in job.files.items():
        write_files(job.folder, {name: text})
    job.order = ["f.txt"]
    job.run(workers=workers)
    strangers = {
        "a/1-b": "mine",
        "b": "mine",
        "below": "mine",
        "e/0-e": "ex",
        "f/1-f": "mine",
        "d/other": "mine",
    }
    write_files(job.out, strangers)
    job.write("f.txt", "ff")
    job.order = []
    dataset = Letters(job.rows())
    result = dataset.run(job.out, root=str(job.folder), workers=workers, quiet=True)
    assert set(result.failed["input"]) == {"a.txt", "b.txt", "below/c.txt", "f.txt"}
    assert set(result.failed["error"]) == {"NameTaken"}
    assert "move it away, then run again with --retry-failed" in result.failed["message"][0]
    assert list(result["output"]) == ["d/0-d", "e/0-e"]
    stored = {name: text.decode() for name, text in tree(job.out).items() if ".csv" not in name}
    assert stored == {**strangers, "d/0-d": "dx"}
    for name in ("a/1-b", "b", "below", "f/1-f", "d/other"):
        (job.out / name).unlink()
    assert job.run(retry_failed=True, workers=workers).summary.exit_code == 0


def test_a_lost_manifest_is_made_again(job):
    """It is only a view of the commit records."""
    job.run()
    before = tree(job.out)
    (job.out / "manifest.csv").unlink()
    (job.out / "errors.csv").unlink()
    job.run()
    assert job.calls == []
    assert tree(job.out) == before


def test_from_a_list_that_is_edited_between_runs(words, capfd):
    """The door of most users: a CSV file, edited with an editor."""
    out = words.parent / "out"
    command = ["run", words, "--root", "inputs", "--recipe", "words", "--workers", "1", "--output", out]
    words.write_text("input,who\na.txt,x\nb.txt,y\n")
    assert here(capfd, *command).code == 0
    # other line ends, a blank line, quotes: the rows are the same
    words.write_bytes(b'\xef\xbb\xbfinput,who\r\n"a.txt","x"\r\n\r\nb.txt,y\r\n')
    assert "nothing to do" in here(capfd, *command).err
    words.write_text("input,who\nd.txt,new\nb.txt,y\na.txt,changed\n")
    said = here(capfd, *command)
    assert "2 inputs" in said.err
    assert [row["who"] for row in read_table(out / "manifest.csv") if row["output"].endswith("/0.txt")] == [
        "new",
        "y",
        "changed",
    ]


def test_from_another_process_and_directory(words, tmp_path):
    """A finished run is finished for whoever comes next, from wherever, with relative paths or not."""
    how = ["--root", "inputs", "--recipe", "words", "--workers", "1"]
    program("run", "dataset.csv", *how, "--output", "../out", cwd=words.parent)
    said = program("run", words, *how, "--output", tmp_path / "out", cwd=tmp_path)
    assert said.code == 0
    assert said.lines[0] == "nothing to do: 4 inputs, all finished"


# -- any sequence of changes -------------------------------------------------------------------------------

NAMES = [f"{letter}.txt" for letter in "abcde"]
TEXTS = ["", "x", "xy", "yx", "fail", "skip"]
changes = st.one_of(
    st.tuples(st.just("write"), st.sampled_from(NAMES), st.sampled_from(TEXTS)),
    st.tuples(st.just("delete"), st.sampled_from(NAMES)),
    st.tuples(st.just("list"), st.lists(st.sampled_from(NAMES), unique=True)),
    st.tuples(st.just("label"), st.sampled_from(NAMES), st.sampled_from("uvw")),
    st.tuples(st.just("prefix"), st.sampled_from(["", "p", "q"])),
)
runs = st.fixed_dictionaries(
    {},
    optional={
        "limit": st.integers(1, 4),
        "prune": st.just(True),
        "fresh": st.just(True),
        "retry_failed": st.just(True),
        "batch_size": st.integers(1, 3),
    },
)


def make(change: tuple[Any, ...], job: Job, prefix: str) -> str:
    """Change something between two runs; returns the parameter to go on with."""
    match change:
        case ("write", name, text):
            job.write(name, text)
        case ("delete", name):
            (job.folder / name).unlink(missing_ok=True)
        case ("list", names):
            job.order = list(names) or ["a.txt"]
        case ("label", name, label):
            job.labels[name] = label
        case ("prefix", new):
            return str(new)
    return prefix


@settings(max_examples=depth(15))
@given(st.lists(st.tuples(st.lists(changes, max_size=3), runs), min_size=1, max_size=5), st.integers())
def test_after_any_changes_the_folder_is_that_of_a_fresh_run(tmp_path_factory, steps, seed):
    """Runs with changes of files, rows, labels and parameters between them end in the same tree."""
    folder = tmp_path_factory.mktemp("any changes é")
    write_files(folder / "in", {name: random.Random(f"{seed}{name}").choice(TEXTS) for name in NAMES})
    job = Job(folder / "in", folder / "out", dict.fromkeys(NAMES, ""))
    job.order = list(NAMES)
    prefix = ""
    for what, options in steps:
        for change in what:
            prefix = make(change, job, prefix)
        job.run({"prefix": prefix}, **options)
        if options.get("fresh") and "limit" not in options:
            assert job.calls == sorted(name for name in job.order if (job.folder / name).exists())
    # what is away when all ends would keep what it has, which no fresh run could give
    for number, name in enumerate(NAMES):
        if not (job.folder / name).exists():
            job.write(name, f"back {number}")
    job.run({"prefix": prefix}, retry_failed=True, prune=True)
    assert tree(job.out) == without_traceback(fresh(job, {"prefix": prefix}), job)
    manifest = read_manifest(job.out)
    job.run({"prefix": prefix})
    assert job.calls == []
    assert read_manifest(job.out).equals(manifest)


def test_what_is_refused_has_removed_nothing(words, capfd):
    """--prune comes after every reason to refuse: another layout leaves all outputs and the manifest."""
    out = words.parent / "out"
    command = ["run", words, "--root", "inputs", "--recipe", "words", "--output", out, "--workers", "0"]
    assert here(capfd, *command).code == 0
    before = tree(out)
    words.write_text("input\na.txt\n")
    said = here(capfd, *command, "--prune", "--keep-extension")
    assert said.code == 2
    assert "was made without --keep-extension" in said.err
    assert tree(out) == before


def test_a_recipe_of_the_same_name_in_another_file_is_another_recipe(words, capfd, tmp_path):
    """The class's name alone does not make it the same."""
    for name, word in (("one.py", "one"), ("two.py", "two")):
        (tmp_path / name).write_text(
            "from splitter import OutputFile, ProcessorDataset\n"
            "class Split(ProcessorDataset):\n"
            f"    def process(self, input_file):\n        return [OutputFile('0.txt', '{word}')], {{}}\n"
        )
        how = ["--root", "inputs", "--recipe", f"{tmp_path / name}:Split", "--output", tmp_path / "out"]
        assert here(capfd, "run", words, *how, "--workers", "0").code == 0
        assert (tmp_path / "out" / "a" / "0.txt").read_text() == word


def test_what_errors_csv_says_is_the_same_in_every_run(words, tmp_path, capfd):
    """No address and no name of a scratch folder stands in a message."""
    (tmp_path / "odd.py").write_text(
        "from splitter import OutputFile, ProcessorDataset\n"
        "class Yields(ProcessorDataset):\n"
        "    def process(self, input_file):\n        yield OutputFile('0.txt', 'x')\n"
        "class Loses(ProcessorDataset):\n"
        "    def process(self, input_file):\n"
        "        return [OutputFile('0.txt', input_file.scratch / 'x')], {}\n"
    )
    for recipe in ("Yields", "Loses"):
        said = []
        for name in ("one", "two"):
            out = tmp_path / recipe / name
            how = ["--root", "inputs", "--recipe", f"{tmp_path / 'odd.py'}:{recipe}", "--output", out]
            assert here(capfd, "run", words, *how, "--workers", "0").code == 1
            said.append([(row["input"], row["message"]) for row in read_table(out / "errors.csv")])
        assert said[0] == said[1]
        assert len(said[0]) == 4


def test_what_a_run_took_is_kept_apart_from_what_is_published(words, folder, capfd):
    """The last run that did something notes how long it took; one with nothing to do leaves that."""
    out = folder / "out"
    command = ["run", words, "--recipe=words", "--root", folder / "inputs", "--output", out, "--quiet"]
    assert here(capfd, *command).code == 0
    note = out / ".splitter" / "last_run.json"
    first = json.loads(note.read_text())
    assert (first["inputs"], first["seconds"] > 0) == (4, True)
    assert first["outputs"] == len(read_table(out / "manifest.csv"))
    assert here(capfd, *command).code == 0
    assert json.loads(note.read_text()) == first
