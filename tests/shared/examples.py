"""Run README.md, the pages of docs/ and the docstrings as tests, block by block.

Each page has a separate folder with data_samples in it, and its fenced blocks are processed in order:

    python              is run; the results of lines that begin with >>> are compared
    console             the lines after `$ ` and `> ` go to a shell, and what they print is compared;
                        `...` stands for anything on its line, and alone on a line for any lines;
                        a command that fails is an error, unless `echo $?` is the next;
                        the page's folder is shown as /home/me/splitter, a duration such as `in 1.4 s`
                        stands for any, and a size such as `2.95 MB` for any within a tenth
    LANGUAGE file=NAME  is written to the file NAME

A console block below a comment `takes long` is run in nightly runs only.
"""

import doctest
import os
import re
import shlex
import shutil
import subprocess
import sys
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import quote

import forked
import pytest
from _pytest._code import Traceback
from nightly import NIGHTLY
from sybil import Document, Example, Region, Sybil
from sybil.document import PythonDocStringDocument
from sybil.evaluators.python import PythonEvaluator
from sybil.integration.pytest import SybilItem, example_module_path
from sybil.parsers.markdown import CodeBlockParser, PythonCodeBlockParser
from sybil.parsers.rest import DocTestParser

CHECKOUT = Path(__file__).parents[2]
FILE_BLOCK = re.compile(r"^```\w* file=(\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LONG = "<!-- takes long -->"
# the path that pages show for their folder
HOME = "/home/me/splitter"
# the parts that need not be printed exactly as they are shown
LOOSE = re.compile(r"(\.\.\.|\bin \d+\.\d s\b|(?<![\w.])[\d.]+ [kMG]B\b)")
SIZE = re.compile(r"[\d.]+ [kMG]B")
TOLERANCE = 0.1
SECONDS_FOR_COMMAND = 300
# lines that only a slow or busy machine prints: progress, every half a minute, and warnings of Ray
PROGRESS = re.compile(
    r"^(?:[\d,]+ of [\d,]+ inputs?, |still on the first inputs after |\S*\(raylet\)\S* WARNING: ).*\n",
    re.MULTILINE,
)


class Docstrings(PythonDocStringDocument):
    """The docstrings of a module, which is parsed only if it has examples."""

    @staticmethod
    def extract_docstrings(python_source_code: str) -> Iterator[tuple[int, int, str]]:
        """Yield the begin, the end and the text of each docstring."""
        if ">>>" in python_source_code:
            yield from PythonDocStringDocument.extract_docstrings(python_source_code)


def file_blocks(document: Document) -> Iterator[Region]:
    """Yield the blocks that are written to files."""
    for match in FILE_BLOCK.finditer(document.text):
        yield Region(match.start(), match.end(), match.groups(), write_file)


def write_file(example: Example) -> None:
    """Write a block to the file it names."""
    name, content = example.parsed
    # a test may have imported another file of that name
    sys.modules.pop(Path(name).stem, None)
    (example.namespace["page_folder"] / name).write_text(content, encoding="utf-8")


def run_python(example: Example) -> str | None:
    """Run a block; return an exception as text, which pytest and Sybil can always show."""
    try:
        return PythonEvaluator()(example)
    except Exception:  # noqa: BLE001 - whatever an example raises
        return traceback.format_exc()


def run_console(example: Example) -> str | None:
    """Run the commands of a block, and compare what each of them prints."""
    if example.document.text[: example.region.start].rstrip().endswith(LONG) and not NIGHTLY:
        return None
    session = commands(example.parsed)
    code = 0
    for (command, expected), (following, _) in zip(session, [*session[1:], ("", "")], strict=True):
        code, printed = run_command(command, code, example.namespace["shell_environment"])
        if not is_as_shown(expected, at_home(PROGRESS.sub("", printed), example.namespace["page_folder"])):
            return f"$ {command}\n-- expected\n{expected}\n-- printed\n{printed}"
        if code and following != "echo $?":
            return f"$ {command}\nended with exit code {code}, and no `echo $?` follows\n{printed}"
    return None


def commands(text: str) -> list[tuple[str, str]]:
    """Return the commands of a console block, each with the output that is shown for it."""
    found: list[tuple[str, str]] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], ""))
        elif not found:
            raise ValueError(f"a console block begins with a command: {line}")
        elif line.startswith("> ") and not found[-1][1]:
            found[-1] = (f"{found[-1][0]}\n{line[2:]}", "")
        else:
            found[-1] = (found[-1][0], f"{found[-1][1]}{line}\n")
    return found


def at_home(printed: str, folder: Path) -> str:
    """Return what was printed in a folder, with the path that pages show for it."""
    return printed.replace(str(folder), HOME).replace(quote(str(folder)), HOME)


def is_as_shown(expected: str, printed: str) -> bool:
    """Return whether a command printed what is shown; durations may differ, and sizes a little."""
    pattern = "".join(map(as_pattern, expected.splitlines(keepends=True)))
    found = re.fullmatch(pattern, printed)
    shown = [one for one in LOOSE.findall(expected) if SIZE.fullmatch(one)]
    return found is not None and all(map(is_near, shown, found.groups()))


def as_pattern(line: str) -> str:
    """Return a regular expression for a line that is shown; its groups are the sizes."""
    if line == "...\n":
        return r"(?:.*\n)*?"
    return "".join(
        loose_pattern(part) if LOOSE.fullmatch(part) else re.escape(part) for part in LOOSE.split(line)
    )


def loose_pattern(part: str) -> str:
    """Return a regular expression for what an elision, a duration or a size stands for."""
    if part == "...":
        return ".*?"
    return r"in [\d:.]+ (?:s|min)" if part.startswith("in ") else rf"({SIZE.pattern})"


def is_near(shown: str, printed: str) -> bool:
    """Return whether two sizes are about the same."""
    (size, unit), (other, other_unit) = shown.split(), printed.split()
    return unit == other_unit and abs(float(other) / float(size) - 1) <= TOLERANCE


def run_command(command: str, last_code: int, environment: Mapping[str, str]) -> tuple[int, str]:
    """Run a line in a shell that knows the last exit code; return the exit code and all that was printed."""
    done = subprocess.run(
        ["bash", "-c", f"(exit {last_code})\n{command}"],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        timeout=SECONDS_FOR_COMMAND,
        check=False,
    )
    end = "" if done.stdout.endswith("\n") or not done.stdout else "\n"
    return done.returncode, done.stdout + end


@pytest.fixture(scope="session")
def shell_environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return an environment in which a shell finds this Python and `splitter`."""
    own = tmp_path_factory.mktemp("programs")
    words = forked.command()
    (own / "splitter").write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
    (own / "splitter").chmod(0o755)
    path = os.pathsep.join([str(own), str(Path(sys.executable).parent), os.environ["PATH"]])
    return {**os.environ, "LC_ALL": "C.UTF-8", "COLUMNS": "100", "PATH": path, "PYTHONPATH": str(CHECKOUT)}


@pytest.fixture(scope="module")
def page_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Yield the folder of one page; then remove the modules that were imported from it."""
    folder = tmp_path_factory.mktemp("page") / "a page's dossier préféré"
    shutil.copytree(CHECKOUT / "data_samples", folder / "data_samples")
    yield folder
    for name, module in sys.modules.copy().items():
        if str(getattr(module, "__file__", None)).startswith(f"{folder}/"):
            del sys.modules[name]


@pytest.fixture
def in_page_folder(page_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Run in the page's folder, on two CPUs, so that what is printed does not depend on the machine."""
    monkeypatch.chdir(page_folder)
    monkeypatch.syspath_prepend(page_folder)
    if not hasattr(os, "sched_getaffinity"):
        yield
        return
    cpus = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(cpus)[:2])
    yield
    os.sched_setaffinity(0, cpus)


python_blocks = PythonCodeBlockParser(doctest_optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
python_blocks.codeblock_parser = CodeBlockParser(language="python", evaluator=run_python)
pages = Sybil(
    path=str(CHECKOUT),
    parsers=[
        python_blocks,
        CodeBlockParser(language="console", evaluator=run_console),
        file_blocks,
    ],
    patterns=["README.md", "docs/*.md", "docs/recipes/*.md", "docs/tutorial/*.md"],
    excludes=["*/README.md"],
    fixtures=["page_folder", "in_page_folder", "shell_environment"],
)
docstrings = Sybil(
    path=str(CHECKOUT),
    parsers=[DocTestParser()],
    patterns=["splitter/*.py", "splitter/*/*.py"],
    document_types={".py": Docstrings},
)
pytest_collect_file = (pages + docstrings).pytest()


def traceback_to_show(_item: SybilItem, found: pytest.ExceptionInfo[BaseException]) -> Traceback:
    """Return the part of a traceback that is below Sybil.

    Sybil's own filter raises an IndexError if a traceback has one entry, as that of a cause often has: then
    an example whose fixture has failed is the end of the session.
    """
    shown = found.traceback.cut(path=example_module_path)
    return Traceback(shown[1]._rawentry) if len(shown) > 1 else shown


SybilItem._traceback_filter = traceback_to_show
