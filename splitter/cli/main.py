"""The program: the commands, exit codes, and errors in one line."""

import errno
import shlex
import sys
import traceback
from collections.abc import Sequence
from typing import Any

import click
from click.core import ParameterSource

from splitter import __version__
from splitter.cli.completion import parameters_in_text
from splitter.cli.doctor import doctor
from splitter.cli.export import export
from splitter.cli.inspect import manifest, recipes, split, stats, verify
from splitter.cli.options import recipe_option
from splitter.cli.pipeline import pipeline
from splitter.cli.report import report, serve
from splitter.cli.run import RunCommand, plan_command, run_command
from splitter.cli.tar import tar
from splitter.engine.entry_points import refuse_windows
from splitter.errors import Interrupted, RecipeError, Refused, RunStopped
from splitter.recipes.registry import DEFAULT
from splitter.registry import RECIPES
from splitter.text.spelling import nearest

REFUSED = 2


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit; an error is one line that says what to do."""
    sys.exit(exit_code(arguments))


def exit_code(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    verbose = "--verbose" in (sys.argv[1:] if arguments is None else arguments)
    try:
        refuse_windows()
        return commands.main(arguments, prog_name="splitter", standalone_mode=False) or 0
    except click.ClickException as error:
        return _complain(error)
    except (Refused, RunStopped, OSError) as error:
        if verbose:
            click.echo("".join(traceback.format_exception(error)), err=True, nl=False)
        return _refuse(str(error)) if isinstance(error, Refused) else _stop(error)
    except click.Abort:
        return 130


def _stop(error: RunStopped | OSError) -> int:
    if isinstance(error, RecipeError):
        click.echo(f"{error.traceback.rstrip()}\nsplitter: {error.message}", err=True)
    else:
        many = isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE)
        remedy = "; raise the limit with ulimit -n" if many else ""
        click.echo(f"splitter: {error}{remedy}", err=True)
    return 1


def _refuse(message: str) -> int:
    click.echo(f"splitter: {' '.join(message.split())}", err=True)
    return REFUSED


def _complain(error: click.ClickException) -> int:
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        click.echo(error.message, err=True)
        return REFUSED
    context = getattr(error, "ctx", None)
    message = error.format_message().rstrip(".")
    # the recipe whose help shows the option
    recipe = context.meta.get("name", DEFAULT) if context else DEFAULT
    param: Any = getattr(error, "param", None)
    if isinstance(error, click.NoSuchOption):
        option = error.option_name
        # of several similar names, the nearest will do
        message = f"No such option {option!r}{nearest(option, error.possibilities or [])}"
        others = _recipes_with(option) if context and isinstance(context.command, RunCommand) else []
        if others:
            names = " and ".join(filter(None, (", ".join(others[:-1]), others[-1])))
            message, recipe = f"{option!r} is an option of --recipe {names}", others[0]
    elif (
        not context
        or param is None
        or param.name not in {one.name for one in context.meta.get("parameters", [])}
    ):
        recipe = DEFAULT
    elif not isinstance(error, click.MissingParameter) and _is_default(param, context):
        problem = f"its parameter {param.name!r} has an invalid default: {message.partition(': ')[2]}"
        return _refuse(f"{recipe}: {problem}; fix it")
    if context:
        named = "" if recipe == DEFAULT else f" --recipe {shlex.quote(recipe)}"
        see = f"ee {context.command_path}{named} --help"
        # after "did you mean '--workers'?" a new sentence begins
        message += f" S{see}" if message.endswith("?") else f"; s{see}"
    return _refuse(message)


def _is_default(param: click.Parameter, context: click.Context) -> bool:
    return context.get_parameter_source(str(param.name)) == ParameterSource.DEFAULT


def _recipes_with(option: str) -> list[str]:
    """Return the built-in recipes that have an option, by parsing their files without importing them."""
    return [
        name
        for name in RECIPES.own
        if option in {way for one in parameters_in_text(name) for way in recipe_option(one).opts}
    ]


class _Commands(click.Group):
    """The commands, listed in the order in which they were added; a signal may end any of them."""

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 - what the command returns
        try:
            return super().invoke(ctx)
        except Interrupted as interruption:
            return interruption.exit_code

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return [*self.commands]


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    # \b keeps click from joining the lines below it
    help="""Turn input files into output files, with nothing lost.

    \b
    splitter run dataset.csv          cut the recordings of a list into chunks in the folder outputs/
    splitter verify outputs           check that every output is present and unchanged
    splitter report outputs           write a page to browse and play the outputs""",
)
@click.version_option(__version__, prog_name="splitter", message="%(prog)s %(version)s")
def commands() -> None:
    """Turn input files into output files, with nothing lost."""


# in the order in which a user needs them
for command in (
    run_command,
    plan_command,
    pipeline,
    verify,
    report,
    serve,
    stats,
    split,
    manifest,
    export,
    recipes,
    tar,
    doctor,
):
    commands.add_command(command)
