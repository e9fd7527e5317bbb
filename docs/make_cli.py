"""Write cli.md from the command line itself: `python docs/make_cli.py` from a checkout."""

import sys
from collections.abc import Iterable
from pathlib import Path

import click

CHECKOUT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(CHECKOUT))

from splitter.cli.main import commands  # noqa: E402 - from the checkout, installed or not
from splitter.recipes.parameters import first_line, recipe_parameters  # noqa: E402
from splitter.recipes.registry import load_recipe  # noqa: E402
from splitter.registry import RECIPES  # noqa: E402

INTRODUCTION = """\
# Command line

<!-- Made by docs/make_cli.py from the command line itself: do not edit. -->

`python -m splitter` is the same as `splitter`. From Python, `dataset.run(output, ...)` takes the run options
as keywords, with `_` for `-`, and the class takes the options of the recipe: see
[the class](the-class.md#running). How commands end is explained under
[exit codes](faults-and-resume.md#exit-codes).
"""


def page() -> str:
    """The whole page."""
    context = click.Context(commands, info_name="splitter", **commands.context_settings)
    parts = [INTRODUCTION, section(context, commands)]
    for name in commands.list_commands(context):
        command = commands.get_command(context, name)
        if command is not None:
            parts += sections(click.Context(command, info_name=name, parent=context), command)
    parts += [recipe_section(name) for name in RECIPES.own]
    return "\n".join(parts)


def sections(context: click.Context, command: click.Command) -> list[str]:
    """A command, and those that a group holds."""
    below = command.commands.items() if isinstance(command, click.Group) else ()
    contexts = [(click.Context(one, info_name=name, parent=context), one) for name, one in below]
    return [section(context, command), *(part for pair in contexts for part in sections(*pair))]


def section(context: click.Context, command: click.Command) -> str:
    """A command: how it is called, what it does, its options."""
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    options = table(context, command.get_params(context))
    text = " ".join((command.help or "").partition("\b")[0].split())
    return f"## {context.command_path}\n\n```text\n{usage}\n```\n\n{text}\n{options}"


def recipe_section(name: str) -> str:
    """A recipe's options, as `splitter run --recipe NAME` has them."""
    run = commands.commands["run"]
    context = click.Context(run)
    recipe = load_recipe(name)
    parameters = context.meta["parameters"] = recipe_parameters(recipe)
    own = {parameter.name for parameter in parameters}
    options = table(context, [param for param in run.get_params(context) if param.name in own])
    link = f"[More about `{name}`](recipes/{name}.md)."
    return f"## splitter run --recipe {name}\n\n{first_line(recipe)} {link}\n{options}"


def table(context: click.Context, params: Iterable[click.Parameter]) -> str:
    """Options and what they do."""
    records = [record for param in params if (record := param.get_help_record(context)) and record[1]]
    rows = [f"| `{escaped(names)}` | {escaped(text)} |" for names, text in records]
    return "\n".join(["", "| option | what it does |", "| --- | --- |", *rows, ""])


def escaped(text: str) -> str:
    """Text for a cell of a table."""
    return " ".join(text.replace("|", "\\|").split())


if __name__ == "__main__":
    (CHECKOUT / "docs" / "cli.md").write_text(page(), encoding="utf-8")
