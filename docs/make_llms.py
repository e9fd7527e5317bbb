"""Write llms.txt, what a language model needs to use splitter: `python docs/make_llms.py` from a checkout.

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
LINK = re.compile(r"\[([^\]]+)\]\([^)]+\)")


def page() -> str:
    """The whole file."""
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    introduction = index.split("\n\n")[1].replace("\n", " ")
    context = click.Context(commands)
    names = commands.list_commands(context)
    help_texts = {name: commands.commands[name].get_short_help_str(200) for name in names}
    return "\n".join(
        [
            f"# splitter\n\n> {introduction}\n",
            "## Commands\n",
            *(f"- `splitter {name}`: {text}" for name, text in help_texts.items()),
            "\n## Recipes\n",
            *(f"- `--recipe {name}`: {first_line(load_recipe(name))}" for name in RECIPES.own),
            f"\n## Your own recipe\n\n{example()}\n",
            f"## Exit codes\n\n{section('faults-and-resume.md', 'Exit codes')}\n",
            "## Pages\n",
            *pages(index),
            "",
        ]
    )


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
    text = (DOCS / name).read_text(encoding="utf-8")
    found = re.search(rf"^#+ {title}\n+(.*?)(?=^#+ |\Z)", text, re.MULTILINE | re.DOTALL)
    if not found:
        raise SystemExit(f"{name} has no heading {title!r}")
    return LINK.sub(r"\1", found[1].partition("```")[0]).strip()


def pages(index: str) -> Iterator[str]:
    """Each page that the first one lists, with what it answers."""
    for title, link, text in ROW.findall(index):
        shown = LINK.sub(r"\1", text)
        yield f"- [{title.replace('`', '')}](docs/{link}): {shown}"


if __name__ == "__main__":
    (DOCS.parent / "llms.txt").write_text(page(), encoding="utf-8")
