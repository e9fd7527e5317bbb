"""`splitter pipeline` and `splitter run --then`: what a file may say, what is refused, what is printed."""

import json
from pathlib import Path

import pytest
from doors import Said, here, read_table, write_files, write_list

from splitter.ledger.run_files import DROPPED
from splitter.storage.opening import storage_of

RECIPES = """\
from splitter import ProcessorDataset


class Length(ProcessorDataset):
    def process(self, input_file):
        return [], {"length": len(input_file.read_text())}


class Needs(Length):
    def __init__(self, inputs, model: str):
        super().__init__(inputs)


class Short(Length):
    def process(self, input_file):
        if input_file.columns["from_part"] == "ple":
            raise ValueError("a bad part")
        return super().process(input_file)
"""
TOP = 'output = "made"\nworkers = 1\n'
CUT = '[[stage]]\nname = "cut"\ndataset = "list.csv"\nrecipe = "words"\nnum_chars = 3\noverlap = 2\n'
JUDGE = '[[stage]]\nname = "judge"\nfrom = "cut"\nrecipe = "own.py:Length"\nadds = "columns"\n'
CHOOSE = '[[stage]]\nname = "choose"\nfrom = "judge"\nwhere = "from_part ~ \'p\'"\nrecipe = "copy"\n'
WORDS = {"simple.txt": "simple", "pytorch.txt": "pytorch"}
# worked out by hand: all parts of three letters, and those with a p
PARTS = {"simple.txt": ["sim", "imp", "mpl", "ple"], "pytorch.txt": ["pyt", "yto", "tor", "orc", "rch"]}
CUT_JUDGE = TOP + CUT + JUDGE
CHOSEN = [part for parts in PARTS.values() for part in parts if "p" in part]


def fill(folder: Path, text: str = CUT_JUDGE + CHOOSE) -> Path:
    """The list, its files, the recipes, and a pipeline."""
    write_files(folder, {**WORDS, "own.py": RECIPES, "line.toml": text})
    write_list(folder / "list.csv", [["input", "kind"], *([name, name[0]] for name in WORDS)])
    return folder / "line.toml"


@pytest.fixture
def refused(tmp_path, capfd):
    """What is said of a file, whose path is left out."""

    def said(text: str, *options: str) -> str:
        file = fill(tmp_path, text)
        said = here(capfd, "pipeline", "run", file, "--quiet", *options)
        assert (said.code, said.out, len(said.lines)) == (2, "", 1)
        assert not (tmp_path / "made").exists()
        return said.err.strip().replace(f"{tmp_path}/", "")

    return said


# -- mistakes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (CUT, 'line.toml: has no output; write output = "..."'),
        (TOP, "line.toml: has no stages; write a table [[stage]] for each"),
        (TOP + "[stage]", "line.toml: has no stages; write a table [[stage]] for each"),
        (TOP + "[[stage]", "line.toml: is not TOML: Expected"),
        ("worker = 1\n" + TOP + CUT, "'worker' is not an option of all stages; did you mean 'workers'?"),
        ("bands = 1\n" + TOP + CUT, "options of a recipe belong in its [[stage]]"),
        ('queue = "much"\n' + TOP + CUT, "queue 'much': write a size"),
        ('keep = "always"\n' + TOP + CUT, "line.toml: [keep] must be a table of stages"),
        (TOP + CUT.replace('name = "cut"\n', ""), 'line.toml, stage 1: has no name; write name = "..."'),
        (TOP + CUT.replace('"cut"', '"a/b"'), "stage 'a/b': its name is not a plain folder name"),
        (TOP + CUT.replace('"cut"', f'"{"é" * 150}"'), "its name has 300 bytes, but a folder name has"),
        (TOP + CUT + CUT.replace("cut", "Cut"), "stage Cut: two stages have this name; rename one"),
        (TOP + CUT + "num_char = 3\n", "stage cut: 'num_char' is not an option; did you mean 'num_chars'?"),
        (TOP + CUT + "fused = true\n", "line.toml, stage cut: 'fused' is not an option"),
        (TOP + CUT + 'output = "x"\n', "stage cut: 'output' is not an option of a stage; leave it out"),
        (TOP + CUT + 'part = "1/2"\n', "stage cut: --part divides a single run"),
        (TOP + CUT + "num_gpus = -1\n", "stage cut: --num-gpus -1.0: must be at least 0"),
        (TOP + CUT.replace("words", "wordz"), "--recipe wordz: is not a recipe; did you mean 'words'?"),
        (TOP + CUT + 'from = "cut"\n', "write either dataset = a list, or from ="),
        (TOP + CUT.replace('dataset = "list.csv"\n', ""), "write either dataset = a list, or from ="),
        (TOP + CUT + JUDGE.replace("from =", "form ="), "earlier stage; it has name, form, recipe"),
        (TOP + CUT.replace('"list.csv"', "3"), "stage cut: dataset = 3 is not the name of a list"),
        (TOP + CUT + JUDGE.replace('"cut"', '"cutt"'), "there is no such stage; did you mean 'cut'?"),
        (TOP + JUDGE + CUT, "from = 'cut': there is no such stage; name a stage above this one"),
        (TOP + CUT + JUDGE.replace('"cut"', '["cut"]'), "from = ['cut']: there is no such stage"),
        (CUT_JUDGE.replace("Length", "Needs"), "the recipe needs a value for its parameter 'model'"),
        (CUT_JUDGE.replace("Length", "Lenght"), "Lenght does not exist in own.py; it has Length"),
        (CUT_JUDGE.replace("columns", "rows"), "adds = 'rows'; write 'columns', or leave it out"),
        (CUT_JUDGE + 'column = "x"\n', "judge: --column is for a list, but this stage takes what"),
        (CUT_JUDGE + "limit = 1\n", "judge: --limit is for a list, but this stage takes what"),
        (CUT_JUDGE + 'sink = "parquet"\n', "judge: adds columns and makes no files; leave --sink out"),
        (TOP + CUT + 'sink = "webdataset"\n' + JUDGE, "stage cut: --sink webdataset, but stage judge"),
        (CUT_JUDGE + 'where = "from_part =="\n', "--where 'from_part ==': is not a condition"),
        (CUT_JUDGE + '[keep]\ncutt = "always"\n', "there is no stage 'cutt'; did you mean 'cut'?"),
        (CUT_JUDGE + '[keep]\ncut = "never"\n', "cut = 'never'; choose 'always' or 'until used'"),
        (CUT_JUDGE + '[keep]\njudge = "until used"\n', "judge: adds columns, so it has no files"),
        (TOP + 'executor = "ray"\n' + CUT, "stage cut: --executor ray needs --address"),
    ],
)  # fmt: skip
def test_a_mistake_in_the_file_is_one_line_that_names_its_place(refused, text, message):
    assert message in refused(text)


def test_a_list_that_is_not_there_is_said_in_spite_of_quiet(tmp_path, capfd):
    file = fill(tmp_path, TOP + CUT.replace("list.csv", "lost.csv") + JUDGE)
    said = here(capfd, "pipeline", "run", file, "--quiet")
    assert (said.code, len(said.lines)) == (2, 1)
    assert said.err.startswith(f"stopped: stage cut: {tmp_path}/lost.csv: cannot be read")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--until", "jugde"], "--until jugde: no stage has this name; did you mean 'judge'?"),
        (["--only", "x"], "--only x: no stage has this name; there is cut, judge, choose"),
        (["--only", "cut", "--until", "judge"], "--until and --only: use one of them"),
        (["--executor", "ray"], "stage cut: --executor ray needs --address"),
        (["--only", "judge"], "stage cut: has not run yet; run it first, or leave --only out"),
    ],
)
def test_a_mistake_on_the_command_line_is_one_line(tmp_path, capfd, options, message):
    said = here(capfd, "pipeline", "run", fill(tmp_path), *options)
    assert (said.code, said.lines) == (2, [f"splitter: {message}"]) or message in said.err
    assert not (tmp_path / "made" / "cut" / "manifest.csv").exists()


@pytest.mark.parametrize(
    ("then", "message"),
    [
        ("", "--then: names no recipe"),
        ("own.py:Needs", "--then 'own.py:Needs': the recipe needs a value for its parameter 'model'; add it"),
        ("copy 'x", '--then "copy \'x": cannot be read: No closing quotation'),
        ("copy --output x", "'output' is not an option of a stage; leave it out"),
        ("copy --column x", "stage copy: --column is for a list, but this stage takes what stage words"),
    ],
)
def test_a_mistake_in_then_is_one_line(tmp_path, capfd, monkeypatch, then, message):
    fill(tmp_path)
    monkeypatch.chdir(tmp_path)
    said = here(capfd, "run", "list.csv", "--recipe", "words", "--then", then)
    assert (said.code, len(said.lines)) == (2, 1)
    assert message in said.err
    assert not (tmp_path / "outputs").exists()


# -- a pipeline ----------------------------------------------------------------------------------------------


class TestPipeline:
    """One pipeline, looked at before, after part of it, at its end, and after a change."""

    @pytest.fixture(scope="class")
    @classmethod
    def file(cls, tmp_path_factory):
        """A pipeline in a folder that is not the working directory."""
        text = CUT_JUDGE + CHOOSE + '[keep]\ncut = "until used"\n'
        return fill(tmp_path_factory.mktemp("pipeline"), text)

    def test_nothing_is_there_before(self, file, capfd):
        assert here(capfd, "pipeline", "status", file).out.splitlines() == [
            "cut: has not run yet",
            "judge: has not run yet",
            "choose: has not run yet",
            f"not running; to start: splitter pipeline run {file}",
        ]
        planned = here(capfd, "pipeline", "plan", file).out.splitlines()
        assert planned[0] == "cut: 2 inputs: 2 new"
        assert planned[-2:] == [
            "judge: takes what cut makes, but cut has not run yet",
            "choose: takes what judge makes, but judge has not run yet",
        ]
        verified = here(capfd, "pipeline", "verify", file)
        assert (verified.code, verified.out.splitlines()[0]) == (1, "cut: has not run yet")
        assert not (file.parent / "made").exists()

    def test_until_stops_after_a_stage(self, file, capfd):
        said = here(capfd, "pipeline", "run", file, "--until", "judge", "--progress", "json")
        assert said.code == 0
        events = [json.loads(line) for line in said.out.splitlines()]
        ends = {
            event["stage"]: (event["done"], event["outputs"]) for event in events if event["event"] == "end"
        }
        assert ends == {"cut": (2, 9), "judge": (9, 0)}
        assert {event["stage"] for event in events if event["event"] == "progress"} == {"cut", "judge"}
        judged = read_table(file.parent / "made" / "judge" / "manifest.csv")
        assert [(row["from_part"], row["length"]) for row in judged] == [
            (part, "3") for parts in PARTS.values() for part in parts
        ]
        assert [row["kind"] for row in judged] == ["s"] * 4 + ["p"] * 5
        assert here(capfd, "pipeline", "status", file).out.splitlines()[1:] == [
            "judge: 9 done; 0 outputs (0 bytes)",
            "choose: has not run yet",
            f"not running; to continue: splitter pipeline run {file}",
        ]

    def test_only_runs_a_single_stage_on_what_there_is(self, file, capfd):
        said = here(capfd, "pipeline", "run", file, "--only", "choose")
        assert said.code == 0
        assert all(line.startswith(("choose: ", "next: ")) for line in said.lines)
        chosen = read_table(file.parent / "made" / "choose" / "manifest.csv")
        assert [row["from_part"] for row in chosen] == CHOSEN
        texts = [(file.parent / "made" / "choose" / row["output"]).read_text() for row in chosen]
        assert texts == CHOSEN

    def test_another_run_drops_what_is_used_and_does_nothing_else(self, file, capfd):
        made = file.parent / "made"
        before = (made / "choose" / "manifest.csv").read_bytes()
        said = here(capfd, "pipeline", "run", file)
        assert said.code == 0
        assert [line.partition(" made in")[0] for line in said.lines if " made in" in line] == [
            "cut: 2 of 2 inputs done; 0 outputs (0 bytes)",
            "judge: 9 of 9 inputs done; 0 outputs (0 bytes)",
            "choose: 4 of 4 inputs done, 5 rows left out by --where; 0 outputs (0 bytes)",
        ]
        assert (made / "choose" / "manifest.csv").read_bytes() == before
        assert (made / "cut" / DROPPED.name).exists()
        assert [*(made / "cut").rglob("*.txt")] == []
        verified = here(capfd, "pipeline", "verify", file)
        assert verified.code == 0
        assert verified.out.splitlines()[0].endswith("9 dropped after use")
        assert "not running" not in here(capfd, "pipeline", "status", file).out
        deep = here(capfd, "pipeline", "verify", "--deep", file)
        cut, judge, choose = deep.out.splitlines()
        assert deep.code == 0, "what is gone by rule is no finding"
        assert "2 inputs made again" in cut
        assert judge.endswith("8 not made again, since their files were dropped after use")
        assert choose.endswith("4 not made again, since their files were dropped after use")
        assert [
            line for line in here(capfd, "pipeline", "plan", file).out.splitlines() if "nothing" in line
        ] == [
            "cut: nothing to do",
            "judge: nothing to do",
            "choose: nothing to do",
        ]

    def test_a_condition_removes_what_it_leaves_out_and_makes_again_what_it_needs(self, file, capfd):
        """Of the parts of `simple`, which are gone, none is needed."""
        text = file.read_text()
        file.write_text(text.replace("~ 'p'", "~ 'y'"))
        planned = here(capfd, "pipeline", "plan", file).out
        assert planned.splitlines() == [
            "cut: makes the files of 1 input again, which were dropped and are needed",
            "judge: 0 inputs to do",
            "choose: 1 input to do",
        ]
        assert here(capfd, "pipeline", "run", file, "--quiet") == Said(0, "", "")
        chosen = file.parent / "made" / "choose"
        assert [row["from_part"] for row in read_table(chosen / "manifest.csv")] == ["pyt", "yto"]
        assert [*(file.parent / "made" / "cut").rglob("*.txt")] == []
        assert sorted(path.read_text() for path in chosen.rglob("*.txt")) == ["pyt", "yto"]


def test_what_a_stage_of_columns_gives_is_no_count_of_files(tmp_path, capfd):
    """It is planned before it has run; of a pipeline that is at work, status names no command."""
    file = fill(tmp_path, CUT_JUDGE)
    assert here(capfd, "pipeline", "run", file, "--only", "cut", "--quiet").code == 0
    planned = here(capfd, "pipeline", "plan", file).out.splitlines()
    assert "judge: to do: 9 inputs (27 bytes), which give columns, no files" in planned
    with storage_of(str(tmp_path / "made")).locked():
        assert "not running" not in here(capfd, "pipeline", "status", file).out
    assert "not running" in here(capfd, "pipeline", "status", file).out
    said = here(capfd, "pipeline", "run", "none.toml")
    assert said.lines == ["splitter: none.toml: cannot be read: No such file or directory; check its path"]


def test_paths_start_from_the_file_and_a_failed_input_fails_alone(tmp_path, capfd, monkeypatch):
    """Named from elsewhere, by a relative path; an option of the command line replaces that of the file."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "deep").mkdir()
    fill(tmp_path / "deep", CUT_JUDGE.replace("Length", "Short") + CHOOSE)
    said = here(capfd, "pipeline", "run", "deep/line.toml", "-o", "other", "--limit", "1")
    assert said.code == 1
    assert said.lines[-1].startswith("next: see other/judge/errors.csv (first: ")
    assert said.lines[-1].endswith("), fix the cause, and run again with --retry-failed")
    assert [row["from_part"] for row in read_table(tmp_path / "other" / "judge" / "errors.csv")] == ["ple"]
    chosen = read_table(tmp_path / "other" / "choose" / "manifest.csv")
    assert [row["from_part"] for row in chosen] == ["imp", "mpl"]
    verified = here(capfd, "pipeline", "verify", "deep/line.toml", "-o", "other")
    command = "splitter pipeline run deep/line.toml --output other"
    assert verified.out.splitlines()[0].endswith(f"pytorch.txt: is not done; run '{command}' to continue")
    assert "the same 'splitter pipeline run' command" in here(capfd, "verify", "other/cut").out
    assert not (tmp_path / "deep" / "made").exists()
    (tmp_path / "other" / "cut" / ".splitter" / "run.json").write_text("{")
    said = here(capfd, "pipeline", "run", "deep/line.toml", "-o", "other", "--limit", "1", "--quiet")
    assert said.code == 1
    assert "stopped: stage cut: " in said.err
    assert "remove it, and run the same 'splitter pipeline run' command to continue" in said.err


def test_a_file_that_is_kept_for_a_failed_input_is_no_dropped_one(tmp_path, capfd):
    """Of a stage that drops what is used: gone by its rule, or lost."""
    again = '[[stage]]\nname = "again"\nfrom = "cut"\nrecipe = "copy"\n'
    file = fill(tmp_path, CUT_JUDGE.replace("Length", "Short") + again + '[keep]\ncut = "until used"\n')
    assert here(capfd, "pipeline", "run", file, "--quiet").code == 1
    (kept,) = (tmp_path / "made" / "cut").rglob("*.txt")
    assert kept.read_text() == "ple"
    kept.unlink()
    said = here(capfd, "verify", tmp_path / "made" / "again", "--deep", "all")
    assert (said.code, len(said.out.splitlines())) == (1, 2)
    assert f"simple/{kept.name}: cannot be made again: " in said.out
    content = json.loads(here(capfd, "verify", tmp_path / "made" / "again", "--deep", "--json").out)
    assert (content["inputs_dropped"], len(content["findings"])) == (8 - 1, 1)


def test_keep_before_then_is_of_the_recipe_it_stands_with(tmp_path, capfd, monkeypatch):
    fill(tmp_path)
    monkeypatch.chdir(tmp_path)
    command = ["run", "list.csv", "--recipe", "words", "--num-chars", "3", "--overlap", "2", "--workers", "1"]
    said = here(capfd, *command, "--keep", "part != 'mpl'", "--then", "copy", "--output", "kept")
    assert said.code == 0
    parts = [part for parts in PARTS.values() for part in parts]
    assert {row["from_part"] for row in read_table(tmp_path / "kept" / "copy" / "manifest.csv")} == {
        *parts
    } - {"mpl"}


def test_then_names_folders_after_recipes(tmp_path, capfd, monkeypatch):
    """Sinks and names are for the last recipe, and metadata alone makes no inputs, which is said."""
    fill(tmp_path)
    monkeypatch.chdir(tmp_path)
    common = ["run", "list.csv", "--recipe", "words", "--num-chars", "3", "--overlap", "2", "--workers", "1"]
    said = here(capfd, *common, "--then", "copy", "--then", "own.py:Length", "--output", "chain")
    assert said.code == 0
    assert sorted(path.name for path in (tmp_path / "chain").glob("[!.]*")) == ["copy", "length", "words"]
    rows = read_table(tmp_path / "chain" / "length" / "manifest.csv")
    assert [(row["kind"], row["from_part"], row["length"]) for row in rows] == [
        (name[0], part, "3") for name, parts in PARTS.items() for part in parts
    ]
    said = here(capfd, *common, "--then", "own.py:Length", "--then", "copy", "--output", "none")
    assert said.code == 0
    assert "copy: note: length has made no files to work on" in said.err


def test_metadata_that_no_stage_takes_is_said_with_what_to_do(tmp_path, capfd):
    """Where `adds` was forgotten: at the end, and where a condition names a column."""
    advice = "judge has made no files to work on; if it makes metadata only, describe the stages in a file"
    forgotten = CUT_JUDGE.replace('adds = "columns"\n', "")
    file = fill(tmp_path, forgotten + CHOOSE)
    said = here(capfd, "pipeline", "run", file)
    assert said.code == 0
    assert said.lines[-1].startswith(f"next: choose had nothing to do, since {advice}")
    file.write_text(forgotten + CHOOSE.replace("from_part ~ 'p'", "length > 1"))
    said = here(capfd, "pipeline", "run", file)
    assert said.code == 2
    assert said.lines[-1].startswith(
        "stopped: stage choose: --where 'length > 1': there is no column 'length'; "
    )
    assert advice in said.lines[-1]
    assert "did you mean" not in said.err
