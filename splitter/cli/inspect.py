"""`splitter verify`, `stats`, `split`, `manifest` and `recipes`: parse, call, print."""

import os
import shutil

import click

from splitter.cli.completion import files
from splitter.cli.options import Single, echo_with_options
from splitter.errors import Refused
from splitter.options import other_tables
from splitter.recipes.registry import load_recipe
from splitter.registry import RECIPES
from splitter.text.urls import is_url

# enough inputs to show whether a recipe has changed
DEEP = 8


@click.command(short_help="Assemble the manifest after a run in parts.")
@click.argument("output", shell_complete=files)
@click.option(
    "--manifest-format",
    metavar="FORMATS",
    help="Formats of the manifest: csv, parquet, jsonl; such as csv,parquet. Default: those it already has.",
)
@click.option("--audiofolder", is_flag=True, help="Also write metadata.csv for Hugging Face.")
@click.option("--quiet", is_flag=True, help="Print errors only.")
def manifest(output: str, manifest_format: str | None, audiofolder: bool, quiet: bool) -> int:  # noqa: FBT001 - what click gives
    """Assemble the manifest of the folder OUTPUT from the work committed there.

    Use it after a run in parts (--part) when all parts are done, or after a run that was killed. It processes
    nothing and needs neither the dataset list nor the inputs.
    """
    from splitter.engine.display import Display
    from splitter.engine.entry_points import assemble

    asked = manifest_format is not None or audiofolder
    others = other_tables(manifest_format or "csv", audiofolder=audiofolder) if asked else None
    with Display(quiet=quiet) as display:
        summary = assemble(output, others=others, tell=display.alert)
        display.summary(summary)
        return summary.exit_code


class VerifyCommand(click.Command):
    """A command that verifies its argument, which may follow a --deep that has no number."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take the word after --deep as the argument if that is missing and the word is not a number."""
        if "--deep" in args and not ctx.resilient_parsing:
            given, *_ = self.make_parser(ctx).parse_args([*args])
            deep = str(given.get("deep"))
            (name,) = (one.name for one in self.params if isinstance(one, click.Argument))
            if not isinstance(given.get(name), str) and not (deep.isdecimal() or deep == "all"):
                args = [f"--deep={DEEP}" if one == "--deep" else one for one in args]
        return super().parse_args(ctx, args)


deep_option = click.option(
    "--deep",
    metavar="[N|all]",
    is_flag=False,
    flag_value=str(DEEP),
    help=f"Also make the outputs of N inputs, or of all, again and compare them; without N, of {DEEP}.",
)


def deep_of(text: str | None) -> int | str | None:
    """Return the value of --deep as `splitter.verify` takes it."""
    return int(text) if text and text.isdecimal() else text


@click.command(cls=VerifyCommand, short_help="Check that every output is present and unchanged.")
@click.argument("output", shell_complete=files)
@deep_option
@click.option("--recipe", help="The recipe for --deep, if you made the outputs with your own: file.py:Class.")
@click.option("--workers", type=click.INT, help="Number of processes that read. Default: all CPUs.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, for scripts.")
@click.option(
    "--verbose",
    is_flag=True,
    help="Print a line for every finding, and tracebacks.",
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
    """Check that everything that earlier runs left in OUTPUT is present and unchanged.

    It checks every output file against its row, every row against the commit records, and every input of the
    dataset list, and looks for files that do not belong there. It writes nothing. It prints a line for each
    finding, the first 20 of each kind and then a count of the rest, and exits with code 1 if there are any.
    """
    from splitter.engine.entry_points import verify as verified
    from splitter.ledger.run_files import SAME_PIPELINE_RUN, SAME_RUN
    from splitter.outputs.tables import folder_of
    from splitter.verification.findings import Telling

    if recipe and not deep:
        raise Refused(f"--recipe {recipe}: only works with --deep; add --deep, or leave --recipe out")
    folder = folder_of(output)
    command = SAME_PIPELINE_RUN if _is_stage(folder) else SAME_RUN
    telling = None if as_json else Telling(folder, click.echo, everything=verbose, command=command)
    verdict = verified(output, deep=deep_of(deep), recipe=recipe, workers=workers, tell=telling)
    if telling:
        telling.end(verdict)
    else:
        click.echo(verdict.to_json())
    return verdict.exit_code


def _is_stage(folder: str) -> bool:
    """Return whether an output folder belongs to a stage of a pipeline."""
    from splitter.ledger.run_files import PIPELINE
    from splitter.storage.opening import storage_of

    around = os.path.dirname(folder.rstrip("/") if is_url(folder) else os.path.abspath(folder))
    try:
        return storage_of(around).exists(PIPELINE.name)
    except Refused:
        # a bucket has no folder around it
        return False


@click.command(short_help="Divide the outputs into train, validation and test.")
@click.argument("output", shell_complete=files)
@click.option("--train", type=float, metavar="FRACTION", help="Share for train, such as 0.8.")
@click.option("--validation", type=float, metavar="FRACTION", help="Share for validation.")
@click.option("--test", type=float, metavar="FRACTION", help="Share for test.")
@click.option(
    "--by",
    cls=Single,
    metavar="COLUMN",
    help="Column whose values stay together, such as speaker. Default: input.",
)
@click.option(
    "--seed", default=0, show_default=True, help="Seed of the split; another seed gives another split."
)
@click.option(
    "--label", cls=Single, metavar="COLUMN", help="Also show how the values of this column are distributed."
)
@click.option(
    "--balance",
    cls=Single,
    metavar="COLUMN",
    help="Give each split the values of this column in the same proportions, as far as possible.",
)
@click.option("--rebalance", is_flag=True, help="Reassign groups that are already in a split.")
@click.option("--remove", is_flag=True, help="Remove the column `split` from the manifest.")
@click.option("--quiet", is_flag=True, help="Print errors only.")
def split(  # noqa: PLR0913 - what click gives
    *,
    output: str,
    by: str | None,
    seed: int,
    label: str | None,
    balance: str | None,
    rebalance: bool,
    remove: bool,
    quiet: bool,
    **given: float | None,
) -> int:
    """Add a column to the manifest of the folder OUTPUT: train, validation or test.

    All outputs of an input, or of a speaker, go into the same split, and the shares come as close to what you
    ask for as this allows. Adding inputs does not move the others, and later runs keep the column.
    """
    from splitter.engine.entry_points import made_storage
    from splitter.engine.finish import split_manifest, unsplit_manifest
    from splitter.ledger.splits import SplitRule, fractions_of
    from splitter.outputs.stats import split_lines

    fractions = {name: fraction for name, fraction in given.items() if fraction is not None}
    if remove:
        if fractions or by or label or balance or rebalance:
            raise Refused("--remove only removes the column; leave out the other options")
        with made_storage(output) as storage:
            unsplit_manifest(storage)
        return 0
    asked = SplitRule(by or "", fractions_of(fractions), seed, balance)
    with made_storage(output) as storage:
        rule, stays = split_manifest(storage, asked, label, rebalance=rebalance)
    if not quiet:
        click.echo("\n".join(split_lines(output, rule, label or balance, stays=stays)))
    return 0


@click.command(short_help="Count inputs, outputs, hours, failures, by any column.")
@click.argument("output", shell_complete=files)
@click.option("--by", cls=Single, metavar="COLUMN", help="Print one line for each value of this column.")
@click.option("--all-rows", is_flag=True, help="Also count outputs that --keep left out.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def stats(output: str, by: str | None, all_rows: bool, as_json: bool) -> None:  # noqa: FBT001 - what click gives
    """Count the inputs, outputs, bytes, hours and failures of the folder or URL OUTPUT."""
    from splitter.outputs.stats import stats_of

    found = stats_of(output, by, all_rows=all_rows)
    width = shutil.get_terminal_size().columns
    click.echo(found.to_json(by) if as_json else "\n".join(found.lines(by, width)))


@click.command(short_help="List the recipes and their options.")
def recipes() -> None:
    """List the recipes, what they do, and their options."""
    for name in RECIPES.names():
        echo_with_options(name, load_recipe(name), levels=2)
        click.echo()
