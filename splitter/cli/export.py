"""`splitter export`: parse, call, print."""

from typing import Any

import click

from splitter.cli.completion import files
from splitter.cli.options import (
    RegisteredName,
    Single,
    echo_with_options,
    interruptible,
    recipe_option,
    value_of_option,
)
from splitter.recipes.parameters import recipe_parameters
from splitter.registry import EXPORTS


class ExportCommand(click.Command):
    """`splitter export`: its own options, and those of the chosen format."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Find the format first, because it decides which options exist."""
        name = value_of_option("--to", args)
        if name is not None and (name in EXPORTS.own or not ctx.resilient_parsing):
            ctx.meta["options"] = [recipe_option(one) for one in recipe_parameters(_loaded(name))]
        return super().parse_args(ctx, args)

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the options of the command, then those of the format."""
        return [*super().get_params(ctx), *ctx.meta.get("options", [])]


def _loaded(name: str) -> type:
    from splitter.exports.base import Export

    return EXPORTS.load(name, Export)


def _list(context: click.Context, _param: click.Parameter, asked: bool) -> None:  # noqa: FBT001 - of click
    """Print what each format is for, and its options."""
    if not asked or context.resilient_parsing:
        return
    for name in EXPORTS.names():
        echo_with_options(name, _loaded(name), levels=1)
    context.exit()


@click.command(cls=ExportCommand, short_help="Write the outputs in the format of another tool.")
@click.argument("output", shell_complete=files)
@click.option(
    "--to", required=True, type=RegisteredName(EXPORTS), help="The format; --list says what each is for."
)
@click.option(
    "folder",
    "--folder",
    "-o",
    shell_complete=files,
    help="The folder to write; it replaces an earlier export. Default: OUTPUT-FORMAT, beside OUTPUT.",
)
@click.option(
    "--where",
    cls=Single,
    advice=", with 'and' between the conditions",
    help="Only the outputs whose row matches a condition, such as \"split == 'train'\".",
)
@click.option("--all-rows", is_flag=True, help="Also the outputs that --keep left out.")
@click.option("--absolute", is_flag=True, help="Write absolute paths. Default: relative to the folder.")
@click.option("--text", cls=Single, metavar="COLUMN", help="The column that holds what is spoken.")
@click.option("--speaker", cls=Single, metavar="COLUMN", help="The column that holds who speaks.")
@click.option(
    "--list", is_flag=True, is_eager=True, expose_value=False, callback=_list, help="List the formats."
)
@click.option("--quiet", is_flag=True, help="Print errors only.")
def export(output: str, to: str, *, quiet: bool, **options: Any) -> int:  # noqa: ANN401 - what click has parsed
    """Write the outputs of the folder or URL OUTPUT in the format of another tool.

    This writes an index into a folder beside OUTPUT. It copies no content if the format allows paths.
    """
    from splitter.exports.entry import export as exported

    with interruptible("interrupted; nothing was exported"):
        made = exported(output, to, **options)
    if not quiet:
        click.echo(made.line())
    if made.note:
        click.echo(f"splitter: {made.note}", err=True)
    return 0
