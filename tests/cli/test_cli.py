"""The command line: what it prints, what it imports, what it refuses, and where it can be started."""

import os
import shlex
import shutil
import sys
from pathlib import Path

import pytest
from doors import CHECKOUT, Said, here, program, read_table, run_words, tree, write_files, write_list

from splitter import __version__
from splitter.registry import RECIPES

GOOD = '''\
from splitter import OutputFile, ProcessorDataset


class Copy(ProcessorDataset):
    """Copy each input."""

    def process(self, input_file):
        return [OutputFile("copy", input_file.read_bytes())], {}


class Other(ProcessorDataset):
    """Do nothing."""


helper = 7
'''


@pytest.fixture
def place(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory: a list of one input, and a file with recipes."""
    write_files(folder, {"a.txt": "one", "my recipes.py": GOOD})
    write_list(folder / "dataset.csv", [["input"], ["a.txt"]])
    monkeypatch.chdir(folder)
    return folder


# -- help, version, recipes --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments", [["--help"], ["-h"], ["--version"], ["nonsense"], ["run", "nothing-here"], []]
)
def test_help_is_instant(arguments):
    """Nothing that is slow to import is imported to show help, or to say that something is missing."""
    code = (
        "import sys; from splitter.cli.main import exit_code; exit_code(sys.argv[1:]);"
        "print(*sorted({'torch', 'pandas', 'ray', 'pyarrow', 'librosa', 'rich', 'numpy'} & set(sys.modules)))"
    )
    assert program(*arguments, python=["-c", code]).out.splitlines()[-1] == ""


def test_what_takes_long_is_imported_where_it_is_needed(words):
    """`import splitter` imports neither torch nor pandas, and a run over texts nothing for sound."""
    code = (
        "import sys, splitter;"
        "print({'torch', 'pandas', 'numpy'} & set(sys.modules), splitter.ProcessorDataset);"
        "from splitter.cli.main import exit_code;"
        "code = exit_code(sys.argv[1:]);"
        "sound = ('splitter.audio', 'soundfile', 'librosa', 'av', 'soxr', 'splitter.recipes.sound');"
        "print(code, [name for name in sys.modules if name.startswith(sound)])"
    )
    output = words.parent / "out"
    run = ("run", words, "--root", "inputs", "--recipe", "words", "--workers", "0", "--output", output)
    first, *_, last = program(*run, python=["-c", code]).out.splitlines()
    assert (first, last) == ("set() <class 'splitter.dataset.ProcessorDataset'>", "0 []")


def test_the_public_names_are_all_there():
    """Each name in `__all__` can be had, and one that is not there is an AttributeError."""
    import splitter

    assert all(getattr(splitter, name) is not None for name in splitter.__all__)
    with pytest.raises(AttributeError, match="nothing"):
        _ = splitter.nothing


def test_version(capfd):
    """--version prints the version."""
    said = here(capfd, "--version")
    assert (said.code, said.out) == (0, f"splitter {__version__}\n")


def test_help_names_the_commands(capfd):
    """--help and -h show what there is, a line each; without arguments the same comes, with exit code 2."""
    said = here(capfd, "--help")
    assert said.code == 0
    assert here(capfd, "-h").out == said.out
    for command in ("run", "recipes"):
        assert f"\n  {command} " in said.out
    assert "splitter run dataset.csv " in said.out
    alone = here(capfd)
    assert (alone.code, alone.out, alone.err) == (2, "", said.out)


def test_recipes_are_listed(capfd):
    """`splitter recipes`: name, one line, parameters with their help, no wider than a screen."""
    said = here(capfd, "recipes")
    assert said.code == 0
    lines = said.out.splitlines()
    starts = [line for line in lines if line and not line.startswith(" ")]
    assert [line.partition(":")[0] for line in starts] == list(RECIPES.own)
    assert all(len(line.partition(": ")[2]) > 10 for line in starts)
    assert lines[lines.index("copy: Copy each input file as it is.") + 1] == ""
    assert "    --num-chars INTEGER  Number of letters in each part.  [default: 2]" in lines
    assert any(line.startswith("    --command TEXT  ") for line in lines)
    assert max(map(len, lines)) <= 100


def test_every_shipped_recipe_has_help(capfd):
    """`splitter run --recipe X --help` works for each, and each of its options is described."""
    for name in RECIPES.own:
        said = here(capfd, "run", "--recipe", name, "--help")
        assert said.code == 0
        assert [line for line in said.out.splitlines() if "DATASET" in line and "--" not in line] == [
            "Usage: splitter run [OPTIONS] DATASET...",
            "  Run a recipe over every input of DATASET: a list (CSV, TSV, JSONL, Parquet),",
        ]
        own = said.out.partition("Options of the recipe")[2].partition("Run options:")[0]
        options = [line for line in own.splitlines() if line.startswith("  --")]
        assert options or name == "copy"
        assert all(len(" ".join(text.split()).split(" ")) > 3 for text in own.split("\n  --")[1:]), (
            f"{name}: an option without a word on it"
        )


# -- where it can be started -------------------------------------------------------------------------------


@pytest.mark.slow
def test_from_a_checkout(tmp_path):
    """`python -m splitter` works in a checkout that is not installed, without any set-up."""
    copy = tmp_path / "a checkout"
    shutil.copytree(CHECKOUT / "splitter", copy / "splitter", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(CHECKOUT / "data_samples/words", copy / "data_samples/words")
    arguments = [
        "run",
        "data_samples/words/dataset.csv",
        "--root",
        "inputs",
        "--recipe",
        "words",
        "--workers",
        "1",
    ]
    said = program(*arguments, cwd=copy, PYTHONPATH="")
    assert said.code == 0
    assert len(read_table(copy / "outputs/manifest.csv")) == 31
    where = program(python=["-c", "import splitter; print(splitter.__file__)"], cwd=copy, PYTHONPATH="")
    assert where.out.strip() == str(copy / "splitter/__init__.py")


@pytest.mark.slow
def test_as_another_user_of_the_module(place):
    """`python -m splitter` and `exit_code` are the same program: names, codes, messages."""
    for arguments in (["--version"], ["run"], ["nonsense"]):
        first = program(*arguments, python=["-m", "splitter"])
        second = program(*arguments, python=["-c", "from splitter.cli.main import main; main()"])
        assert first == second


def test_windows_is_one_clear_line(capfd, monkeypatch, place):
    """On Windows itself it names WSL, and does nothing."""
    monkeypatch.setattr(sys, "platform", "win32")
    said = here(capfd, "run", "dataset.csv")
    assert said.code == 2
    (line,) = said.lines
    assert "WSL" in line


@pytest.mark.skipif(sys.platform != "linux", reason="macOS gives names another form")
@pytest.mark.slow
def test_paths_that_are_not_utf_8(place):
    """The list, the output folder and the recipe may have names that are no UTF-8."""
    odd = os.fsdecode(b"caf\xe9")
    for name in ("dataset.csv", "my recipes.py"):
        (place / name).rename(place / f"{odd} {name}")
    said = program(
        "run", f"{odd} dataset.csv", "--recipe", f"{odd} my recipes.py:Copy", "-o", odd, "--workers", "1",
        cwd=place, PYTHONPATH=str(CHECKOUT), LC_ALL="C.UTF-8",
    )  # fmt: skip
    assert said.code == 0, said.err
    assert tree(place / odd)["a/copy"] == b"one"


@pytest.mark.parametrize("locale", ["C", "POSIX"])
@pytest.mark.slow
def test_without_a_locale(place, locale):
    """In the C locale, as in many containers, text is UTF-8 all the same."""
    write_files(place, {"dataset.csv": "input,who\na.txt,Zoë 🎉\n"})
    arguments = [
        "run",
        "dataset.csv",
        "--recipe",
        "my recipes.py:Copy",
        "--output",
        "Ausgäbe",
        "--workers",
        "1",
    ]
    said = program(*arguments, cwd=place, LC_ALL=locale, PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    assert said.code == 0, said.err
    assert [row["who"] for row in read_table(place / "Ausgäbe/manifest.csv")] == ["Zoë 🎉"]


# -- naming a recipe ---------------------------------------------------------------------------------------


def refused(capfd, *arguments: str) -> str:
    """The one line of a refusal; there must be no output folder."""
    said = here(capfd, "run", "dataset.csv", "--output", "out", *arguments)
    assert said.code == 2, said
    assert said.out == ""
    (line,) = said.lines
    assert line.startswith("splitter: ")
    assert not Path("out").exists()
    return line


def test_a_recipe_in_a_file(capfd, place):
    """By a relative path, an absolute one, and one from the home folder; modules beside it are found."""
    write_files(place, {"lib/beside_it.py": "WORD = 'beside'\n", "lib/r.py": "import beside_it\n" + GOOD})
    for number, name in enumerate(("lib/r.py:Copy", f"{place}/lib/r.py:Copy", "./lib/../lib/r.py:Copy")):
        said = here(capfd, "run", "dataset.csv", "--recipe", name, "-o", f"out{number}", "--workers", "0")
        assert said.code == 0, said.err
        assert tree(place / f"out{number}")["a/copy"] == b"one"


def test_a_file_named_like_a_module(capfd, place):
    """A recipe in `json.py` or `numpy.py` is that file, and does not take the place of the module."""
    import json

    for name in ("json", "numpy", "splitter", "words"):
        write_files(place, {f"{name}.py": GOOD})
        said = here(capfd, "run", "dataset.csv", "--recipe", f"{name}.py:Copy", "-o", name, "--workers", "1")
        assert said.code == 0, said.err
    assert sys.modules["json"] is json


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("word", "--recipe word: is not a recipe; did you mean 'words'?"),
        ("comand", "did you mean 'command'?"),
        ("xyz", "is not a recipe; choose from "),
        ("xyz", "or write module:Class or path/to/file.py:Class"),
        ("my recipes.py", "names a file; write my recipes.py:Class; it has Copy, Other"),
        ("my recipes.py:Cpy", "Cpy does not exist in my recipes.py; it has Copy, Other"),
        ("my recipes.py:helper", "helper is not a ProcessorDataset"),
        ("my recipes.py:OutputFile", "OutputFile is not a ProcessorDataset"),
        ("my recipes.py:", "it has Copy, Other"),
        ("json:JSONDecoder", "it has no subclass of ProcessorDataset"),
        (":Copy", "--recipe :Copy"),
        ("", "is not a recipe"),
    ],
)
def test_a_recipe_that_is_not_there(capfd, place, name, message):
    """The message says what there is instead."""
    assert message in refused(capfd, "--recipe", name)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("x = 1\ndef f(:\n    pass\n", "{path}: line 2: "),
        ("x = 1\n\n  y = 2\n", "{path}: line 3: "),
        ("def f():\n    raise OSError('a\\nb')\n\n\nf()\n", "OSError: a b (line 2 of {path})"),
        ("import sys\nsys.exit(3)\n", "SystemExit: 3 (line 2 of {path})"),
        ("from splitter import Nothing\n", "(line 1 of {path})"),
        (b"x = '\xff'\n", "{path}"),
        (b"x = 1\0\n", "{path}"),
    ],
)
def test_a_recipe_file_that_cannot_be_read(capfd, place, code, message):
    """One line with the place, for whatever goes wrong while it is imported."""
    write_files(place, {"broken.py": code})
    assert message.format(path=place / "broken.py") in refused(capfd, "--recipe", "broken.py:Copy")


def test_a_broken_recipe_can_be_mended(capfd, place):
    """Nothing of the broken file is left behind in the process."""
    write_files(place, {"mended.py": "1 / 0"})
    refused(capfd, "--recipe", "mended.py:Copy")
    write_files(place, {"mended.py": GOOD})
    assert here(capfd, "run", "dataset.csv", "--recipe", "mended.py:Copy", "--workers", "0").code == 0


# -- what is refused ---------------------------------------------------------------------------------------


def test_no_list(capfd, place):
    """A missing argument, a missing list and a damaged one: one line each."""
    assert "Missing argument 'DATASET...'" in here(capfd, "run").err
    (place / "dataset.csv").unlink()
    assert "dataset.csv: no such file or folder" in refused(capfd)
    (place / "dataset.csv").symlink_to("gone.csv")
    assert "dataset.csv: is a link to gone.csv, which does not exist" in refused(capfd)


@pytest.mark.parametrize("recording", ["greeting.wav", "lecture.flac", "podcast.mp3", "story.ogg"])
def test_a_recording_instead_of_a_list(capfd, place, recording):
    """A newcomer's first idea is one clear line, without the recording's bytes in it."""
    shutil.copy(CHECKOUT / "data_samples" / "speech" / recording, place)
    said = here(capfd, "run", recording)
    assert said.code == 2
    why = "is not a dataset list, because it is not text"
    advice = f"to process only that file, pass its folder and --pattern {recording}"
    assert said.lines == [f"splitter: {place / recording}: {why}; {advice}"]
    assert here(capfd, "run", ".", "--pattern", recording, "--quiet").code == 0


@pytest.mark.parametrize("byte_order", ["utf-16-le", "utf-16-be"])
def test_a_list_in_utf_16(capfd, place, byte_order):
    """As Excel saves Unicode Text."""
    (place / "list.csv").write_bytes("\ufeffinput\tspeaker\na.wav\tÄnne\n".encode(byte_order))
    said = here(capfd, "run", "list.csv")
    advice = "is UTF-16 text; save it as UTF-8, which Excel calls CSV UTF-8"
    assert (said.code, said.lines) == (2, [f"splitter: {place / 'list.csv'}: {advice}"])


def test_a_workbook_instead_of_a_list(capfd, place):
    (place / "list.xlsx").write_bytes(b"PK\x03\x04\x14\x00\x06\x00")
    assert here(capfd, "run", "list.xlsx").err.endswith("not text; save it as CSV UTF-8, and pass that\n")


def test_the_advice_about_a_recording_can_be_typed(capfd, place):
    """A shell reads the pattern as this one file, whatever its name."""
    name = 'it\'s [1] "ö".wav'
    recording = CHECKOUT / "data_samples/speech/studio.wav"
    (place / "in").mkdir()
    for copy in (name, 'it\'s 1 "ö".wav'):
        shutil.copy(recording, place / "in" / copy)
    advice = here(capfd, "run", f"in/{name}").err.rpartition("pass its folder and ")[2]
    assert here(capfd, "run", "in", *shlex.split(advice), "--workers", "0").code == 0
    assert [row["input"] for row in read_table(place / "outputs/manifest.csv")] == [name]


@pytest.mark.parametrize(
    ("lines", "option"),
    [
        ("Input,label\na.txt,1\n", ["--column", "Input"]),
        (" input ,label\na.txt,1\n", ["--column", " input "]),
        ("input;label\na.txt;1\n", ["--delimiter", ";"]),
    ],
)
def test_a_list_whose_column_is_written_otherwise(capfd, place, lines, option):
    """The message says which option was meant, and with it the run goes through."""
    (place / "dataset.csv").write_text(lines)
    assert refused(capfd).endswith(f"; is it {option[0]} {option[1]!r}?")
    assert here(capfd, "run", "dataset.csv", "--recipe", "words", *option, "--quiet").code == 0


def test_a_list_without_a_first_line(capfd, place):
    """A list that only holds paths is told what it lacks."""
    (place / "dataset.csv").write_text("a.txt\n")
    assert refused(capfd).endswith("--column; the first line must hold the names of the columns")


def test_an_output_folder_that_cannot_be_made(capfd, place):
    """A file in the way of the output folder is one line, whatever its place."""
    for output in ("a.txt", "a.txt/out", "/proc/nothing/out", "x" * 300):
        said = here(capfd, "run", "dataset.csv", "--output", output, "--workers", "0", "--recipe", "words")
        assert said.code == 2, said
        assert len(said.lines) == 1
        assert output in said.err


@pytest.mark.slow
def test_an_output_folder_in_use(capfd, place):
    """A second run on the same folder is refused, and says who has it; the first goes on undisturbed.

    So are those who would read its tables.
    """
    import subprocess
    import time

    held = "        while not os.path.exists('go'):\n            time.sleep(0.02)\n"
    slow = "import os, time\n" + GOOD.replace("        return [", held + "        return [")
    write_files(place, {"slow.py": slow})
    command = [
        sys.executable,
        "-m",
        "splitter",
        "run",
        "dataset.csv",
        "--recipe",
        "slow.py:Copy",
        "--workers",
        "1",
    ]
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
    with subprocess.Popen(command, cwd=place, env=environment, stderr=subprocess.PIPE, text=True) as first:
        lock = place / "outputs/.splitter/lock"
        while not (lock.exists() and lock.read_text()) and first.poll() is None:
            time.sleep(0.02)
        said = program("run", "dataset.csv", "--recipe", "slow.py:Copy", "--workers", "1", cwd=place)
        read = [here(capfd, command, "outputs") for command in ("stats", "report")]
        assert first.poll() is None
        write_files(place, {"go": ""})
        assert first.wait(120) == 0
    assert said.code == 2
    assert f"is in use by process {first.pid} on " in said.err
    for one in read:
        assert (one.code, len(one.lines)) == (2, 1)
        assert f"outputs: is in use by process {first.pid} on " in one.err
        assert one.err.endswith(" when that ends, and 'splitter serve --watch' shows how far it is\n")
    assert tree(place / "outputs")["a/copy"] == b"one"


@pytest.mark.parametrize(
    ("files", "root", "advice"),
    [
        (["inputs/b.txt", "other/x.txt"], [], "b.txt but in inputs: use --root inputs"),
        (["data/new files/b.txt"], ["--root", "data"], "b.txt but in new files: use --root data/new files"),
        (["../b.txt"], [], "b.txt but in {place}: use --root {place}"),
        (["inputs/b.txt", "other/b.txt"], [], "b.txt; use --root to set the folder that paths start from"),
        (["one/b.txt", "two/b.txt"], [], "b.txt; use --root to set the folder that paths start from"),
        ([], [], "b.txt; use --root to set the folder that paths start from"),
    ],
)
def test_a_root_that_was_forgotten(capfd, place, files, root, advice):
    """When not one input is there, a line says so first, and where the first one is if that is plain."""
    write_files(place, {"lists/.keep": "", **{f"lists/{name}": "word" for name in files}})
    write_list(place / "lists/l.csv", [["input"], ["b.txt"], ["c.txt"]])
    said = here(capfd, "run", "lists/l.csv", *root, "--recipe", "words", "--workers", "0")
    assert said.code == 1
    start = f"note: none of the 2 inputs can be read, the first is not at {place}/lists/"
    assert said.lines[0].startswith(start)
    assert said.lines[0].endswith(advice.format(place=place))
    write_files(place, {"lists/c.txt": "word", "lists/data/c.txt": "word"})
    said = here(capfd, "run", "lists/l.csv", *root, "--recipe", "words", "--workers", "0")
    assert "note: none" not in said.err


def test_a_root_that_is_another_one(capfd, place):
    """What is missing there, too, is looked for there, and errors.csv names that place."""
    write_files(place, {"words/a.txt": "word"})
    write_list(place / "l.csv", [["input"], ["a.txt"], ["b.txt"]])
    for root in ((), ("--root", "words")):
        here(capfd, "run", "l.csv", *root, "--recipe", "words", "--workers", "0")
    (failed,) = read_table(place / "outputs/errors.csv")
    assert failed["message"] == f"{place}/words/b.txt: does not exist"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "{place}/songs: it holds no file, except files whose names begin with a dot; check DATASET"),
        (
            ["--pattern", "*.{txt}", "--pattern", "b*"],
            "{place}/songs: no file in it matches --pattern '*.{{txt}}' or 'b*'; there is 'a.txt', for example",  # noqa: E501
        ),
        (
            ["--where", "input == 'b.txt'"],
            "--where \"input == 'b.txt'\": the only row does not match; fix the condition",
        ),
    ],
)
def test_a_folder_without_inputs(capfd, place, options, message):
    """It is refused, by plan as well, and nothing of an earlier run goes: the disk may not be there."""
    write_files(place / "songs", {".hidden.txt": "x", "a.txt": "x"})
    command = ["songs", "--recipe", "words", "--workers", "0"]
    here(capfd, "run", *command)
    if not options:
        (place / "songs/a.txt").unlink()
    before = tree(place / "outputs")
    for name in ("run", "plan"):
        said = here(capfd, name, *command, *options, "--prune")
        assert (said.code, said.lines) == (2, [f"splitter: {message.format(place=place)}"])
    assert tree(place / "outputs") == before


def test_a_list_behind_a_link(capfd, place):
    """Paths start from where the link is; a line says where the first of them is."""
    (place / "links").mkdir()
    (place / "links/l.csv").symlink_to("../dataset.csv")
    said = here(capfd, "run", "links/l.csv", "--recipe", "words", "--workers", "0")
    assert (
        said.lines[0]
        == f"note: the only input is not at {place}/links/a.txt but in {place}: use --root {place}"
    )
    said = here(capfd, "run", "links/l.csv", "--recipe", "words", "--workers", "0", "--root", place)
    assert said.code == 0


def test_all_inputs_failed(capfd, place):
    """Exit code 1, and an empty manifest that is there."""
    write_files(place, {"a.txt": b"\xff"})
    said = here(capfd, "run", "dataset.csv", "--recipe", "words", "--workers", "1")
    assert said.code == 1
    assert read_table(place / "outputs/manifest.csv") == []
    assert [row["error"] for row in read_table(place / "outputs/errors.csv")] == ["UnicodeDecodeError"]


def test_the_default_output_folder(capfd, place, monkeypatch):
    """Without --output it is outputs/ in the working directory, not beside the list."""
    (place / "sub").mkdir()
    monkeypatch.chdir(place / "sub")
    assert here(capfd, "run", "../dataset.csv", "--recipe", "words", "--workers", "0").code == 0
    assert (place / "sub/outputs/manifest.csv").exists()


@pytest.mark.parametrize(
    "name", ["outputs/manifest.csv", "manifest.csv", "{here}/outputs", "file://{here}/outputs"]
)
def test_an_output_folder_by_its_manifest(capfd, words, monkeypatch, name):
    """All commands that take the folder take the path of its manifest for it, and say the same."""
    assert run_words(capfd, words).code == 0
    name = name.format(here=words.parent)
    monkeypatch.chdir(words.parent / "outputs" if name == "manifest.csv" else words.parent)
    here(capfd, "split", words.parent / "outputs", "--quiet")
    before = tree(words.parent / "outputs")
    split = read_table(words.parent / "outputs" / "manifest.csv")
    assert here(capfd, "split", name, "--remove").code == 0
    assert "split" not in read_table(words.parent / "outputs" / "manifest.csv")[0]
    assert here(capfd, "split", name).out.startswith("split")
    assert read_table(words.parent / "outputs" / "manifest.csv") == split
    assert here(capfd, "stats", name).code == here(capfd, "report", name, "--quiet").code == 0
    (words.parent / "outputs" / "report.html").unlink()
    (words.parent / "outputs" / "manifest.csv").unlink()
    # that of a run that was killed is not there yet
    assert here(capfd, "manifest", name, "--quiet") == Said(0, "", "")
    assert tree(words.parent / "outputs") == before
    assert here(capfd, "verify", name).code == 0
    (words.parent / "outputs" / "a" / "0.txt").unlink()
    folder = name if name.endswith("outputs") else os.path.dirname(name) or "."
    assert here(capfd, "verify", name).out.startswith(f"{folder}/a/0.txt: does not exist\n")


@pytest.mark.slow
def test_nothing_is_written_elsewhere(place, tmp_path):
    """Neither beside the list, nor in the home folder; the temporary folder is left empty."""
    for name in ("home", "temporary", "out"):
        (tmp_path / name).mkdir()
    before = tree(place)
    said = program(
        "run", place / "dataset.csv", "--recipe", place / "my recipes.py:Copy", "--workers", "2",
        "--output", tmp_path / "out", cwd=tmp_path / "home", HOME=str(tmp_path / "home"),
        TMPDIR=str(tmp_path / "temporary"), PYTHONDONTWRITEBYTECODE="1",
    )  # fmt: skip
    assert said.code == 0, said.err
    assert tree(place) == before
    assert list((tmp_path / "home").iterdir()) == []
    assert list((tmp_path / "temporary").iterdir()) == []
    assert set(tree(tmp_path / "out")) == {"manifest.csv", "a/copy"}
