"""`splitter verify`, `stats`, `split`, `manifest` and `recipes`: parse, call, print."""

import click

from splitter.cli.completion import files
from splitter.cli.options import Single, recipe_option
from splitter.errors import Interrupted, Refused
from splitter.options import flag, other_tables
from splitter.recipes.parameters import Parameter, first_line, recipe_parameters
from splitter.recipes.registry import RECIPES, load_recipe


@click.command(short_help="Put the manifest together, after a run in parts.")
@click.argument("output", shell_complete=files)
@click.option(
    "--manifest-format",
    metavar="FORMATS",
    help="Formats of the manifest: csv, parquet, jsonl; such as csv,parquet. Default: those it already has.",
)
@click.option("--audiofolder", is_flag=True, help="Write metadata.csv for Hugging Face as well.")
@click.option("--quiet", is_flag=True, help="Print errors only.")
def manifest(output: str, manifest_format: str | None, audiofolder: bool, quiet: bool) -> int:  # noqa: FBT001 - what click gives
    """Put the manifest of the folder OUTPUT together, from what is committed there.

    For a run in parts (--part) when all of them are done, and for a run that was killed. Nothing is
    processed; neither the dataset list nor the inputs are needed.
    """
    from splitter.engine.display import Display
    from splitter.engine.entry_points import assemble

    asked = manifest_format is not None or audiofolder
    others = other_tables(manifest_format or "csv", audiofolder=audiofolder) if asked else None
    with Display(quiet=quiet) as display:
        try:
            summary = assemble(output, others=others, tell=display.alert)
        except Interrupted as interruption:
            return interruption.exit_code
        display.summary(summary)
        return summary.exit_code


@click.command(short_help="Check that every output is present and unchanged.")
@click.argument("output", shell_complete=files)
@click.option(
    "--deep",
    metavar="[N|all]",
    is_flag=False,
    flag_value="8",
    help="Also make the outputs of N inputs again, or of all, and compare; alone it is 8.",
)
@click.option(
    "--recipe", help="What --deep is to use, if the outputs were made by your own recipe: file.py:Class."
)
@click.option("--workers", type=click.INT, help="How many processes read. Default: the CPUs there are.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, for scripts.")
@click.option(
    "--verbose",
    is_flag=True,
    help="Print a line for each finding, however many there are, and tracebacks.",
)
def verify(  # noqa: PLR0913 - what click gives
    output: str,
    deep: str | None,
    recipe: str | None,
    workers: int | None,
    *,
    as_json: bool,
    verbose: bool,
) -> int:
    """Check that everything that runs left in OUTPUT is present and unchanged.

    Every output file against its row, every row against the commit records, every input of the dataset list;
    and that there is nothing else. Nothing is written. Exit code 1 if anything is found, a line for each:
    the first 20 findings of each kind, then a count of the rest.
    """
    from splitter.engine.entry_points import verify as verified
    from splitter.outputs.tables import folder_of
    from splitter.verification.findings import Telling

    if recipe and not deep:
        raise Refused(f"--recipe {recipe}: is only for --deep; add that, or leave it out")
    many = int(deep) if deep and deep.isdecimal() else deep
    telling = None if as_json else Telling(folder_of(output), click.echo, everything=verbose)
    try:
        verdict = verified(output, deep=many, recipe=recipe, workers=workers, tell=telling)
    except Interrupted as interruption:
        return interruption.exit_code
    if telling:
        telling.end(verdict)
    else:
        click.echo(verdict.to_json())
    return verdict.exit_code


@click.command(short_help="Divide the outputs into train, validation and test.")
@click.argument("output", shell_complete=files)
@click.option("--train", type=float, metavar="FRACTION", help="How much is to be in train, such as 0.8.")
@click.option("--validation", type=float, metavar="FRACTION", help="How much is to be in validation.")
@click.option("--test", type=float, metavar="FRACTION", help="How much is to be in test.")
@click.option(
    "--by", cls=Single, metavar="COLUMN", help="What is never divided, such as speaker. Default: the input."
)
@click.option(
    "--seed", default=0, show_default=True, help="Seed of the split; another number gives another split."
)
@click.option("--label", cls=Single, metavar="COLUMN", help="Show how the classes of this column are shared.")
@click.option("--remove", is_flag=True, help="Remove the column `split` from the manifest.")
@click.option("--quiet", is_flag=True, help="Print errors only.")
def split(  # noqa: PLR0913 - what click gives
    *,
    output: str,
    by: str | None,
    seed: int,
    label: str | None,
    remove: bool,
    quiet: bool,
    **given: float | None,
) -> int:
    """Give the manifest of the folder OUTPUT a column: train, validation or test.

    All outputs of an input, or of a speaker, are in the same split. New inputs move none of the others, and
    later runs keep the column.
    """
    from splitter.engine.entry_points import split_outputs, unsplit_outputs
    from splitter.ledger.splits import fractions_of
    from splitter.outputs.stats import split_lines

    fractions = {name: fraction for name, fraction in given.items() if fraction is not None}
    try:
        if remove:
            if fractions or by or label:
                raise Refused("--remove: takes the column away; leave the other options out")
            unsplit_outputs(output)
            return 0
        rule = split_outputs(output, by, fractions_of(fractions), seed, label)
    except Interrupted as interruption:
        return interruption.exit_code
    if not quiet:
        click.echo("\n".join(split_lines(output, rule, label)))
    return 0


@click.command(short_help="Count inputs, outputs, hours, failures, by any column.")
@click.argument("output", shell_complete=files)
@click.option("--by", cls=Single, metavar="COLUMN", help="One line for each value of this column.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def stats(output: str, by: str | None, as_json: bool) -> None:  # noqa: FBT001 - what click gives
    """Count the inputs, outputs, bytes, hours and failures of the folder or URL OUTPUT."""
    from splitter.outputs.stats import stats_of

    found = stats_of(output, by)
    click.echo(found.to_json(by) if as_json else "\n".join(found.lines(by)))


@click.command(short_help="List the recipes and their options.")
def recipes() -> None:
    """List the recipes, what they do, and their options."""
    context = click.get_current_context()
    for name in RECIPES:
        recipe = load_recipe(name)
        click.echo(f"{name}: {first_line(recipe)}")
        formatter = context.make_formatter()
        with formatter.indentation(), formatter.indentation():
            formatter.write_dl([_described(parameter, context) for parameter in recipe_parameters(recipe)])
        click.echo(formatter.getvalue())


def _described(parameter: Parameter, context: click.Context) -> tuple[str, str]:
    """A parameter as the option it is, and what it does."""
    return recipe_option(parameter).get_help_record(context) or (flag(parameter.name), parameter.help)
