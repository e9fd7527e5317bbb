"""The pages are complete, their links lead somewhere, and their examples are really checked.

The examples themselves run as tests of the pages: see examples.py.
"""

import html
import importlib.util
import inspect
import itertools
import os
import re
import shlex
import shutil
import subprocess
import sys
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import click
import numpy as np
import pytest
import yaml
from doors import program, read_table
from sounds import ffmpeg, needs_ffmpeg

import splitter
from splitter import errors
from splitter.cli.main import commands, exit_code
from splitter.dataset import ProcessorDataset
from splitter.engine.summary import Summary
from splitter.options import RunOptions
from splitter.recipes.parameters import docstring_section, recipe_parameters
from splitter.recipes.registry import load_recipe
from splitter.records import InputFile, OutputFile
from splitter.registry import RECIPES

CHECKOUT = Path(__file__).parent.parent.parent
DOCS = CHECKOUT / "docs"
README = CHECKOUT / "README.md"
CONTRIBUTING = CHECKOUT / "CONTRIBUTING.md"
PAGES = [README, CONTRIBUTING, CHECKOUT / "CHANGELOG.md", *sorted(DOCS.rglob("*.md"))]
WRITTEN = [page for page in PAGES if page.name not in ("cli.md", "api.md", "CHANGELOG.md", "CONTRIBUTING.md")]

FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def prose(page: Path) -> str:
    """A page without its fenced blocks."""
    return FENCED.sub("", page.read_text(encoding="utf-8"))


def links(page: Path) -> Iterator[str]:
    """Where the links of a page lead."""
    yield from LINK.findall(prose(page))


def anchors(page: Path) -> set[str]:
    """The names that GitHub gives to the headings of a page."""
    names: set[str] = set()
    for heading in HEADING.findall(prose(page)):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        kept = [c for c in text if c in "-_ " or unicodedata.category(c)[0] in "LN"]
        names.add("".join(kept).replace(" ", "-"))
    return names


def broken(page: Path) -> list[str]:
    """The links of a page that lead nowhere in the checkout."""
    found = []
    for link in links(page):
        path, _, anchor = link.partition("#")
        if re.match(r"https?://", link):
            continue
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            found.append(link)
    return found


def by_name(page: Path) -> str:
    return str(page.relative_to(CHECKOUT))


# -- links ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=by_name)
def test_no_link_is_broken(page):
    """Every link between pages leads to a file, and every anchor to a heading."""
    assert broken(page) == []


@pytest.mark.parametrize("page", PAGES, ids=by_name)
def test_every_image_is_there(page):
    """Whatever a page shows is in the checkout, for light and dark."""
    shown = re.findall(r'!\[[^\]]*\]\(([^)\s]+)\)|(?:src|srcset)="([^"]+)"', prose(page))
    assert [name for pair in shown for name in pair if name and not (page.parent / name).is_file()] == []


@pytest.mark.parametrize("page", PAGES, ids=by_name)
def test_every_table_has_a_head(page):
    """An empty line in a table ends it, and what follows is shown as text with bars."""
    tables = re.findall(r"(?:^\|.*\n?)+", prose(page), re.MULTILINE)
    assert [table for table in tables if not re.match(r".*\n\|[ :|-]+\|$", table, re.MULTILINE)] == []


def test_a_broken_link_is_found(tmp_path):
    """The check above sees a missing file, a missing heading, and nothing in fenced blocks."""
    page = tmp_path / "page.md"
    page.write_text(
        "# One `two`: three?\n[a](#one-two-three) [b](#four) [c](gone.md) [d](page.md#one)\n[e](page.md)\n"
        "```text\n[f](gone.md)\n```\n"
    )
    assert broken(page) == ["#four", "gone.md", "page.md#one"]


def test_every_page_can_be_reached():
    """From README.md a reader comes to each page by links."""
    reached, to_read = {README}, [README]
    while to_read:
        page = to_read.pop()
        for link in links(page):
            target = (page.parent / link.partition("#")[0]).resolve()
            if target.suffix == ".md" and target.exists() and target not in reached:
                reached.add(target)
                to_read.append(target)
    assert [by_name(page) for page in PAGES if page not in reached] == []


# -- nothing is left undocumented -------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["cli", "api"])
@pytest.mark.slow
def test_what_is_made_from_the_code_is_current(tmp_path, name):
    """docs/cli.md is what docs/make_cli.py makes of the command line; docs/api.md likewise of docstrings."""
    shutil.copytree(CHECKOUT / "splitter", tmp_path / "splitter")
    (tmp_path / "docs").mkdir()
    shutil.copy(DOCS / f"make_{name}.py", tmp_path / "docs")
    subprocess.run([sys.executable, tmp_path / "docs" / f"make_{name}.py"], check=True, cwd=tmp_path)
    made = (tmp_path / "docs" / f"{name}.md").read_text(encoding="utf-8")
    assert (DOCS / f"{name}.md").read_text(encoding="utf-8") == made, f"run: python docs/make_{name}.py"


def script(name: str):
    """What makes a page or an image, as a module."""
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_what_language_models_read_is_current():
    """llms.txt is what docs/make_llms.py makes of the pages; it names every command, recipe and page."""
    text = (CHECKOUT / "llms.txt").read_text(encoding="utf-8")
    assert text == script("make_llms").page(), "run: python docs/make_llms.py"
    agents = (DOCS / "agents.md").read_text(encoding="utf-8")
    assert agents == script("make_llms").for_agents(), "run: python docs/make_llms.py"
    assert [name for name in commands.commands if f"`splitter {name}`" not in text] == []
    assert [name for name in RECIPES.own if f"`--recipe {name}`" not in text] == []
    named = re.findall(r"\]\((docs/[^)]+)\)", text)
    assert len(named) > 20
    assert [name for name in named if not (CHECKOUT / name).is_file()] == []


def test_the_recording_is_of_a_run_that_was_continued():
    """The picture of README.md shows the same command twice, and less to do the second time."""
    drawn = (DOCS / "images" / "resume.svg").read_text(encoding="utf-8")
    lines = [html.unescape(text) for text in re.findall(r"<text[^>]*>(.*)</text>", drawn)]
    first, again = (at for at, line in enumerate(lines) if line.startswith("$ splitter run"))
    assert lines[first] == lines[again]
    begun, left = (int(lines[at + 1].partition(" inputs ")[0]) for at in (first, again))
    assert begun > left > 0
    assert lines[again + 2].startswith(f"{begun} of {begun} inputs done; ")
    assert lines[-1] == "identical"


def test_the_chart_of_costs_is_current():
    """The chart is what docs/make_images.py makes of performance.md, and README.md says the same."""
    made = script("make_images")
    drawn = (DOCS / "images" / "costs.svg").read_text(encoding="utf-8")
    assert drawn == made.chart(), "run: python docs/make_images.py"
    text = README.read_text(encoding="utf-8")
    seconds = made.costs(next(iter(made.CHARTED)))
    assert f"in {seconds['splitter']} seconds" in text
    said = ", ".join(f"{name} {seconds[name]}" for name in ("sox", "ffmpeg", "lhotse"))
    assert f"takes splitter {seconds['splitter']} seconds, {said}]" in text


def run_options() -> list[str]:
    command = commands.commands["run"]
    return [max(option.opts, key=len) for option in command.params if isinstance(option, click.Option)]


@pytest.mark.parametrize("option", run_options())
def test_every_option_of_a_run_is_explained(option):
    """Each option has its place in the command line's page, and in one that was written by hand."""
    mention = re.compile(rf"(?<![\w-]){re.escape(option)}(?![\w-])")
    assert mention.search((DOCS / "cli.md").read_text(encoding="utf-8"))
    assert any(mention.search(page.read_text(encoding="utf-8")) for page in WRITTEN), (
        f"{option} is nowhere explained"
    )


@pytest.mark.parametrize("name", RECIPES.own)
def test_every_recipe_has_its_page(name, capsys):
    """A recipe is documented with all its options, by a page of its own or one that this page links to."""
    page = DOCS / "recipes" / f"{name}.md"
    near = [
        page,
        *((page.parent / link.partition("#")[0]) for link in links(page) if not link.startswith("../")),
    ]
    text = "".join(one.read_text(encoding="utf-8") for one in near if one.is_file())
    options = [f"--{parameter.name.replace('_', '-')}" for parameter in recipe_parameters(load_recipe(name))]
    assert options or name == "copy"
    assert [option for option in options if option not in text] == []
    assert f"## splitter run --recipe {name}\n" in (DOCS / "cli.md").read_text(encoding="utf-8")
    assert exit_code(["recipes"]) == 0
    assert f"\n{name}: " in f"\n{capsys.readouterr().out}"


@pytest.mark.parametrize("page", [README, DOCS / "index.md"], ids=by_name)
def test_every_recipe_can_be_found(page):
    """From the first pages a link leads to each recipe's own."""
    assert [
        name for name in RECIPES.own if not any(link.endswith(f"/{name}.md") for link in links(page))
    ] == []


def public(kind: type) -> list[str]:
    """The names that users of a class may use."""
    own_use = {"ready", "scratch_folder", "parameters"}
    return [name for name in vars(kind) if not name.startswith("_") and name not in own_use]


@pytest.mark.parametrize(
    "name",
    [
        *public(ProcessorDataset),
        *public(InputFile),
        *[field for field in OutputFile._fields if field != "metadata"],
        *splitter.__all__,
    ],
)
def test_the_class_is_documented(name):
    """Every name of the contract stands in the page of the class, or in that of its neighbours."""
    text = "".join(
        (DOCS / page).read_text(encoding="utf-8")
        for page in ("the-class.md", "dataset-lists.md", "manifest.md", "pipelines.md")
    )
    assert re.search(rf"\b{name}\b", text)


def test_the_errors_of_inputs_are_documented():
    """What can stand in the column `error` by splitter itself is in the table of faults."""
    kinds = [one.__name__ for one in errors.InputError.__subclasses__() if one.__module__ == errors.__name__]
    text = (DOCS / "faults-and-resume.md").read_text(encoding="utf-8")
    assert len(kinds) >= 5
    assert [kind for kind in kinds if f"| `{kind}` |" not in text] == []


def test_the_summary_is_documented():
    """The numbers of a run, by name."""
    names = [*docstring_section(Summary.__doc__, "Attributes"), "exit_code"]
    text = (DOCS / "manifest.md").read_text(encoding="utf-8")
    assert "seconds" in names
    assert [
        name for name in names if name not in ("output", "work", "limited") and f"`{name}`" not in text
    ] == []


# -- the examples are checked -----------------------------------------------------------------------------


@pytest.mark.parametrize("page", WRITTEN, ids=by_name)
def test_every_block_is_an_example_that_runs(page):
    """A fenced block is Python, a console session or a file; what only is shown is plain text or set-up."""
    kinds = re.findall(r"^```(.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert {kind for kind in kinds if kind not in ("python", "console", "text") and " file=" not in kind} <= {
        "bash"
    }
    for block in re.findall(
        r"^```bash\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    ):
        assert "venv" in block, "a bash block sets things up; what can be run stands in a console block"


WRONG = {
    "output": "```console\n$ echo one\ntwo\n```\n",
    "more output": "```console\n$ printf 'one\\ntwo\\n'\none\n```\n",
    "less output": "```console\n$ echo one\none\n...\ntwo\n```\n",
    "exit code": "```console\n$ false\n```\n",
    "asked exit code": "```console\n$ exit 3\n$ echo $?\n4\n```\n",
    "size": "```console\n$ echo 'made 2.31 MB'\nmade 2.60 MB\n```\n",
    "folder": "```console\n$ pwd\n/home/you/splitter\n```\n",
    "value": "```python\n>>> 1 + 1\n3\n```\n",
    "assertion": "```python\nassert 1 + 1 == 3\n```\n",
    "cause": "```python\ntry:\n    1 / 0\nexcept Exception as error:\n    raise ValueError from error\n```\n",
}
RIGHT = {
    "nothing": "```console\n$ true\n```\n",
    "elision": "```console\n$ printf 'a 1 b\\nc\\nd\\n'\na ... b\n...\nd\n```\n",
    "no lines": "```console\n$ echo one\none\n...\n```\n",
    "exit code": "```console\n$ exit 3\n$ echo $?\n3\n```\n",
    "time and size": "```console\n$ echo '(2.31 MB) made in 75.1 s'\n(2.40 MB) made in 0.3 s\n```\n",
    "minutes": "```console\n$ echo 'done in 1:05 min'\ndone in 0.3 s\n```\n",
    "folder": "```console\n$ pwd\n/home/me/splitter\n```\n",
    "continued": "```console\n$ echo one \\\n>   two\none two\n```\n",
    "file": "```text file=a.txt\none\n```\n```console\n$ cat a.txt\none\n```\n",
    "data": "```console\n$ ls data_samples/words/inputs\na.txt\n...\n```\n",
    "module": "```python file=mine.py\nTWO = 2\n```\n```python\n>>> from mine import TWO\n>>> TWO\n2\n```\n",
}


# a fixture that fails while it handles another error, as on a machine that is too busy
UNREADY = """
import pytest

@pytest.fixture(scope="module")
def page_folder():
    try:
        1 / 0
    except ZeroDivisionError as error:
        raise OSError("there is no folder") from error
"""


@pytest.mark.slow
def test_an_example_that_is_wrong_fails(tmp_path):
    """Examples are compared with what really happens: each of these fails, and none of those.

    One that cannot be set up is an error of its own, which says why, and not the end of the session.
    """
    shutil.copytree(CHECKOUT / "tests" / "shared", tmp_path / "tests" / "shared")
    shutil.copytree(CHECKOUT / "data_samples" / "words", tmp_path / "data_samples" / "words")
    (tmp_path / "pyproject.toml").write_text(
        '[tool.pytest]\npythonpath = ["tests/shared"]\naddopts = ["-p", "examples"]\n'
    )
    (tmp_path / "docs").mkdir()
    for number, block in enumerate(WRONG.values()):
        (tmp_path / "docs" / f"wrong-{number}.md").write_text(block)
    for number, block in enumerate(RIGHT.values()):
        (tmp_path / "docs" / f"right-{number}.md").write_text(block)
    (tmp_path / "docs" / "recipes").mkdir()
    (tmp_path / "docs" / "recipes" / "conftest.py").write_text(UNREADY)
    (tmp_path / "docs" / "recipes" / "unready.md").write_text(RIGHT["nothing"])
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "--basetemp=base", "docs"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT), "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    failed = re.findall(r"^FAILED docs/(\S+?)\.md", done.stdout, re.MULTILINE)
    assert failed == [f"wrong-{number}" for number in range(len(WRONG))], done.stdout
    assert re.search(rf"^{len(WRONG)} failed, \d+ passed, 1 error", done.stdout, re.MULTILINE), done.stdout
    assert re.search(
        r"^ERROR docs/recipes/unready\.md.* - OSError: there is no folder$", done.stdout, re.MULTILINE
    )


def test_what_contributing_names_is_there():
    """A stranger finds every file and folder by the name that the page gives it."""
    named = re.findall(r"`((?:splitter|tests|docs|\.ci)/[\w./-]+)`", CONTRIBUTING.read_text(encoding="utf-8"))
    assert len(named) > 10
    assert [name for name in named if "NAME" not in name and not (CHECKOUT / name).exists()] == []
    modules = re.findall(r"`(splitter\.[\w.]+)`", CONTRIBUTING.read_text(encoding="utf-8"))
    assert [name for name in modules if not importlib.util.find_spec(name)] == []


# -- the two commands of README.md ------------------------------------------------------------------------


def readme_command(name: str) -> str:
    """The block right after a comment that marks it."""
    text = README.read_text(encoding="utf-8")
    match = re.search(rf"^<!-- {name} -->\n```bash\n([^\n]+)\n```$", text, re.MULTILINE)
    assert match, f"README.md has no line of bash right after <!-- {name} -->"
    return match[1]


SET_UP = "python3 -m venv .venv && .venv/bin/pip install -q -c constraints.txt -e "


@pytest.fixture(scope="module")
def first_run(tmp_path_factory) -> Path:
    """A folder with data_samples, in which the first command was run after its set-up."""
    command = readme_command("first command")
    # who waits for the first sound need not wait for modules that it does not use
    set_up = SET_UP.replace(" -c ", " --no-compile -c ")
    assert command.startswith(f"{set_up}. && .venv/bin/splitter ")
    folder = tmp_path_factory.mktemp("first")
    shutil.copytree(CHECKOUT / "data_samples", folder / "data_samples")
    said = program(*command.rpartition(".venv/bin/splitter ")[2].split(), cwd=folder)
    assert (said.code, said.lines[1].partition(";")[0]) == (0, "8 of 8 inputs done"), said.err
    return folder


def chunks_by_recording(first_run: Path) -> dict[str, list[dict[str, str]]]:
    """The rows of the manifest, by the recording that they are made from, in its order."""
    rows = read_table(first_run / "outputs" / "manifest.csv")
    return {name: list(chunks) for name, chunks in itertools.groupby(rows, lambda row: row["input"])}


def test_the_first_command_does_the_main_job(first_run):
    """From a checkout it cuts the recordings of data_samples into chunks, which carry their labels."""
    listed = read_table(CHECKOUT / "data_samples" / "dataset.csv")
    chunks = chunks_by_recording(first_run)
    assert list(chunks) == [row["input"] for row in listed]
    for row in listed:
        assert all({name: chunk[name] for name in row} == row for chunk in chunks[row["input"]])


@pytest.mark.slow
@needs_ffmpeg
def test_what_the_first_command_makes_can_be_heard(first_run):
    """A player plays all chunks: each lasts ten seconds, or to the end; nothing is missing, or silent."""
    for name, chunks in chunks_by_recording(first_run).items():
        whole = played(first_run / "data_samples" / name)
        pieces = [played(first_run / "outputs" / chunk["output"]) for chunk in chunks]
        *full, rest = (len(piece) / LISTENING_RATE for piece in pieces)
        assert full == [10.0] * len(full)
        assert 1 < rest <= 10.0
        # each length is rounded once
        assert abs(sum(map(len, pieces)) - len(whole)) <= len(pieces), name
        assert min(level(piece) for piece in pieces) > level(whole) - 12, name


LISTENING_RATE = 8000


def played(path: Path) -> np.ndarray:
    """What a player makes of a file: mono samples."""
    raw = ffmpeg("-i", path, "-f", "f32le", "-ac", "1", "-ar", str(LISTENING_RATE), "-")
    return np.frombuffer(raw, "f4")


def level(sound: np.ndarray) -> float:
    """How loud it is, in decibels below full scale."""
    return 10 * float(np.log10(np.mean(np.square(sound, dtype="f8"))))


def test_the_test_command_does_what_ci_does(tmp_path):
    """.ci/run finds it; it pins every version, and runs all checks, four tests at a time."""
    command = readme_command("test command")
    # a newer pip than Python's own needs half the CPU time
    install = ["pip install -q -U pip", "pip install -q -c constraints.txt -e '.[test]'"]
    programs = [*install, "ruff check .", "ruff format --check .", "pytest -n 4"]
    assert command.split(" && ") == ["python3 -m venv .venv", *(f".venv/bin/{one}" for one in programs)]
    # the script itself, up to the moment when it would run the command
    script = (CHECKOUT / ".ci" / "run").read_text(encoding="utf-8")
    awk = re.search(r"readme_test_command\(\) \{\n(.*?)\n\}\n", script, re.DOTALL)
    assert awk
    found = subprocess.run(["bash", "-c", awk[1]], cwd=CHECKOUT, capture_output=True, text=True, check=True)
    assert found.stdout == f"{command}\n"


# -- what needs a cluster -----------------------------------------------------------------------------------

RAY = DOCS / "ray.md"
FILE = re.compile(r"^```\w+ file=(\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_what_needs_a_cluster_is_well_formed(tmp_path, monkeypatch):
    """Scripts are shell, the job is YAML, and each command takes the options that it is shown with."""
    monkeypatch.chdir(tmp_path)
    for page in (README, RAY):
        for name, content in FILE.findall(page.read_text(encoding="utf-8")):
            (tmp_path / name).write_text(content, encoding="utf-8")
    for script in tmp_path.glob("*.sbatch"):
        subprocess.run(["bash", "-n", script], check=True)
    job = yaml.safe_load((tmp_path / "rayjob.yaml").read_text(encoding="utf-8"))
    assert job["spec"]["entrypoint"].startswith("splitter run ")
    blocks = "".join(
        block for page in (README, RAY) for block in FENCED.findall(page.read_text(encoding="utf-8"))
    ).replace("\\\n", " ")
    shown = re.findall(r"""splitter run ((?:"[^"\n]*"|'[^'\n]*'|[^>;\n"'])*)""", blocks)
    assert len(shown) >= 8
    # their recordings are elsewhere
    monkeypatch.setattr("splitter.cli.run._refuse_missing", lambda _: None)
    for command in shown:
        context = commands.commands["run"].make_context("run", shlex.split(command))
        options = {name: value for name, value in context.params.items() if value}
        RunOptions.of({name: options[name] for name in options if name in RunOptions.__dataclass_fields__})


# -- batches and parallelism ------------------------------------------------------------------------------

BATCHES = DOCS / "batches-and-parallelism.md"


def table(page: Path, mark: str) -> list[list[str]]:
    """The rows of the table right after a comment that marks it."""
    text = page.read_text(encoding="utf-8")
    match = re.search(rf"^<!-- {re.escape(mark)} -->\n\|.*\n\| ---.*\n((?:\|.*\n)+)", text, re.MULTILINE)
    assert match, f"{by_name(page)} has no table right after <!-- {mark} -->"
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in match[1].splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize("batch_size", [1, 2, 4])
@pytest.mark.parametrize(("num_chars", "overlap"), [(2, 1), (3, 2)])
def test_the_part_lists_are_what_comes_out(tmp_path, num_chars, overlap, batch_size):
    """The parts of the four words stand in the page, and batch size does not change them."""
    listed = table(BATCHES, f"parts: num_chars={num_chars} overlap={overlap}")
    dataset = CHECKOUT / "data_samples" / "words" / "dataset.csv"
    command = (
        f"run --recipe words --root inputs --num-chars {num_chars} --overlap {overlap} --workers 2 --quiet"
    )
    code = exit_code(
        [*command.split(), f"--batch-size={batch_size}", f"--output={tmp_path / 'outputs'}", str(dataset)]
    )
    assert code == 0
    manifest = splitter.read_manifest(tmp_path / "outputs")
    parts = manifest.groupby("word", sort=False)["part"].agg(" ".join)
    assert [[word, joined] for word, joined in parts.items()] == listed


class Meeting(ProcessorDataset):
    """Wait until as many workers as are expected hold an input at the same time."""

    def __init__(self, inputs, place: str, people: int) -> None:
        super().__init__(inputs)
        self.place, self.people = Path(place), people

    def process(self, input_file):
        (self.place / str(os.getpid())).touch()
        while len(list(self.place.iterdir())) < self.people:
            pass_the_time()
        return [], {"runner": os.getpid()}


def pass_the_time() -> None:
    """Wait a moment; --timeout ends it if nobody comes."""
    import time

    time.sleep(0.01)


@pytest.mark.slow
def test_the_table_of_busy_workers_is_true(tmp_path):
    """Of four workers, as many are busy at once as the page says, and no more."""
    rows = table(BATCHES, "busy: 4 files")
    assert [(int(size), int(busy)) for size, _, busy in rows] == [(1, 4), (2, 2), (4, 1)]
    for size, batches, busy in rows:
        place = tmp_path / f"met-{size}"
        place.mkdir()
        dataset = Meeting(CHECKOUT / "data_samples" / "words" / "inputs", str(place), int(busy))
        output = tmp_path / f"outputs-{size}"
        manifest = dataset.run(output, workers=4, batch_size=int(size), timeout=60, quiet=True)
        assert len(manifest.failed) == 0
        assert manifest["runner"].nunique() == int(busy) == len(list(place.iterdir())) == int(batches)


def test_docstrings_with_examples_are_collected():
    """The package's own examples run too."""
    from splitter.recipes import words

    assert ">>> split_word" in inspect.getdoc(words.split_word)
    settings = (CHECKOUT / "pyproject.toml").read_text(encoding="utf-8")
    assert re.search(r'^testpaths = \[.*"README.md", "docs", "splitter"', settings, re.MULTILINE)
