"""Write llms.txt and docs/agents.md, what a language model needs: `python docs/make_llms.py` from a checkout.

Everything in it is taken from the pages and from the command line, so that it cannot say anything else.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click

DOCS = Path(__file__).resolve().parent
sys.path.insert(0, str(DOCS.parent))

from splitter.cli.main import commands  # noqa: E402 - from the checkout, installed or not
from splitter.recipes.parameters import first_line  # noqa: E402
from splitter.recipes.registry import load_recipe  # noqa: E402
from splitter.registry import RECIPES  # noqa: E402

ROW = re.compile(r"^\| \[([^\]]+)\]\(([^)]+)\) \| (.+) \|$", re.MULTILINE)
BLOCK = re.compile(r"^```.*?^```$\n?", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[([^\]]+)\]\([^)]+\)")

AGENTS = """\
What a program needs that writes commands and recipes for splitter, on one page, made from the other
pages and from the command line. Every message is one line that names the input, what is wrong, and
what to do; nothing asks a question. All commands may be repeated: they continue, and leave alone
what is done."""


def page() -> str:
    """The whole file."""
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    introduction = index.split("\n\n")[1].replace("\n", " ")
    return "\n".join(
        [
            f"# splitter\n\n> {introduction}\n",
            *what_there_is(),
            f"\n## Your own recipe\n\n{example()}\n",
            f"## Exit codes\n\n{section('faults-and-resume.md', 'Exit codes')}\n",
            "## Pages\n",
            *pages(index),
            "",
        ]
    )


def what_there_is() -> Iterator[str]:
    """The commands and the recipes."""
    context = click.Context(commands)
    yield "## Commands\n"
    for name in commands.list_commands(context):
        yield f"- `splitter {name}`: {commands.commands[name].get_short_help_str(200)}"
    yield "\n## Recipes\n"
    yield from (f"- `--recipe {name}`: {first_line(load_recipe(name))}" for name in RECIPES.own)


def for_agents() -> str:
    """The page for programs that write commands and recipes: commands, contract, errors."""
    parts = [
        ("Your own recipe: what `process` returns", "the-class.md", "Output files"),
        ("Metadata", "the-class.md", "Metadata"),
        ("Leaving an input out", "the-class.md", "Skipping an input"),
        ("After a change of the code", "the-class.md", "Changing the code"),
        ("The manifest", "manifest.md", "Columns"),
        ("errors.csv", "manifest.md", "errors.csv"),
        ("Exit codes", "faults-and-resume.md", "Exit codes"),
        ("What is refused", "faults-and-resume.md", "What splitter refuses"),
        ("After an interruption", "faults-and-resume.md", "What an interrupted run leaves"),
        ("Progress for programs", "batches-and-parallelism.md", "Watching a run"),
        ("Checking the outputs", "verify.md", "From scripts"),
    ]
    lines = ["# For agents", "", AGENTS, "", *what_there_is(), "", f"## A recipe\n\n{example()}"]
    for title, name, heading in parts:
        lines += ["", f"## {title}", "", digest(name, heading), "", f"[More]({name})"]
    return "\n".join([*lines, ""])


def digest(name: str, title: str) -> str:
    """What stands below a heading, without its examples and links; sentences that lead to one end there."""
    # a short sentence that only leads to an example goes with it
    text = re.sub(r"(?<=\.) [^.\n]{,20}:(?=\n\n(?!\|))", "", BLOCK.sub("", body(name, title)))
    text = re.sub(r":\n\n(?!\|)|:\s*\Z", ".\n\n", LINK.sub(r"\1", text))
    return re.sub(r"\n{3,}", "\n\n", text).strip()


def example() -> str:
    """The recipe of README.md, and the command that runs it."""
    text = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    recipe = re.search(r"^```python file=(\S+)\n(.*?^```)$", text, re.MULTILINE | re.DOTALL)
    command = re.search(r"^\$ (splitter run .*--recipe \S+\.py:.*)$", text, re.MULTILINE)
    if not recipe or not command:
        raise SystemExit("README.md has no recipe, or no command that runs it")
    return f"Save as {recipe[1]}, then run `{command[1]}`:\n\n```python\n{recipe[2]}"


def section(name: str, title: str) -> str:
    """What stands below a heading of a page, up to its first block."""
    return LINK.sub(r"\1", body(name, title).partition("```")[0]).strip()


def body(name: str, title: str) -> str:
    """All that stands below a heading of a page."""
    text = (DOCS / name).read_text(encoding="utf-8")
    found = re.search(rf"^#+ {title}\n+(.*?)(?=^#+ |\Z)", text, re.MULTILINE | re.DOTALL)
    if not found:
        raise SystemExit(f"{name} has no heading {title!r}")
    return found[1]


def pages(index: str) -> Iterator[str]:
    """Each page that the first one lists, with what it answers."""
    for title, link, text in ROW.findall(index):
        shown = LINK.sub(r"\1", text)
        yield f"- [{title.replace('`', '')}](docs/{link}): {shown}"


if __name__ == "__main__":
    (DOCS.parent / "llms.txt").write_text(page(), encoding="utf-8")
    (DOCS / "agents.md").write_text(for_agents(), encoding="utf-8")
