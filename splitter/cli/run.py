"""`splitter run` and `splitter plan`: parse, call, print."""

import contextlib
import itertools
import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from splitter.cli.completion import files, parameters_in_text, recipes_and_files
from splitter.errors import Interrupted, Refused
from splitter.options import RunOptions
from splitter.recipes.parameters import field_parameters, first_line, recipe_parameters
from splitter.recipes.registry import DEFAULT, load_recipe
from splitter.registry import INPUTS
from splitter.system.exit_signals import saying_so
from splitter.text.endings import SOUND, ending_of
from splitter.text.show import show_count
from splitter.text.spelling import nearest

if TYPE_CHECKING:
    from splitter.dataset import ProcessorDataset
    from splitter.engine.display import Display
    from splitter.engine.summary import Summary

from splitter.cli.options import (
    JobTable,
    as_given,
    read_toml,
    recipe_option,
    run_option,
    value_of_option,
)


class RunCommand(click.Command):
    """`splitter run`: its options are those of the run and those of the chosen recipe."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Find the recipe first, because it decides which options exist."""
        if ctx.resilient_parsing:
            return self._parse_unfinished(ctx, args)
        table = ctx.obj
        if not isinstance(table, JobTable):
            file = value_of_option("--config", args)
            table = JobTable.of("--config", {} if file is None else read_toml(file, "--config "))
        config = table.values
        if table is not ctx.obj and not {*ctx.help_option_names} & {*args}:
            # before the recipe, which takes seconds to import
            _refuse_missing(itertools.takewhile(lambda one: not one.startswith("-"), args))
        chosen = value_of_option("--recipe", args)
        name = str(config.get("recipe", DEFAULT)) if chosen is None else chosen
        ctx.meta["recipe"] = recipe = load_recipe(name)
        ctx.meta["name"] = name
        ctx.meta["parameters"] = parameters = recipe_parameters(recipe)
        for parameter in parameters:
            if parameter.name in RunOptions.__dataclass_fields__ or parameter.name in _OWN:
                raise Refused(
                    f"{name}: its parameter {parameter.name!r} is the name of a run option; rename it"
                )
        known = {str(param.name): param for param in self.get_params(ctx) if param.expose_value}
        del known["config"]
        for key in config:
            if key not in known:
                raise Refused(f"{table.name}: {key!r} is not an option{nearest(key, sorted(known))}")
        ctx.default_map = {key: as_given(known[key], value, table.name) for key, value in config.items()}
        given = [*args]
        try:
            return super().parse_args(ctx, args)
        except click.MissingParameter as error:
            if error.param is not None and error.param.name == "dataset":
                _suggest_folder(ctx.command_path, given)
            raise

    def _parse_unfinished(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse a line that a shell wants to complete."""
        ctx.meta["parameters"] = parameters_in_text(value_of_option("--recipe", args) or DEFAULT)
        return super().parse_args(ctx, args)

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the run's options, then the recipe's."""
        return [*super().get_params(ctx), *map(recipe_option, ctx.meta.get("parameters", []))]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Show the recipe's options separately from the run's."""
        names = {parameter.name for parameter in ctx.meta["parameters"]}
        own, others = f"Options of the recipe ({first_line(ctx.meta['recipe'])})", "Run options"
        sections: dict[str, list[tuple[str, str]]] = {own: [], others: []}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx) if isinstance(param, click.Option) else None
            if record:
                sections[own if param.name in names else others].append(record)
        for title, records in sections.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


def _suggest_folder(command: str, args: list[str]) -> None:
    """Refuse a command without a dataset if this folder holds sound files, and suggest a command for them."""
    files_below = (name for folder, _, names in os.walk(".") if "/." not in folder for name in names)
    seen = itertools.islice(files_below, _LOOKED_AT)
    count = sum(ending_of(name) in SOUND for name in seen)
    if count:
        found = show_count(count, "sound file")
        suggestion = f"{command} {shlex.join(['.', *args])}"
        raise Refused(f"no dataset is named, but this folder holds {found}; type: {suggestion}")


def _refuse_missing(sources: Iterable[str]) -> None:
    """Refuse a missing file or folder; URLs and patterns are checked later, by the code that reads them."""
    for source in sources:
        path = os.path.abspath(os.path.expanduser(source))
        if _PATTERN & {*source} or ":" in source or _is_there(path):
            continue
        # another package may read sources with this ending
        if ending_of(path) in INPUTS.names():
            continue
        if os.path.islink(path):
            raise Refused(f"{path}: is a link to {os.readlink(path)}, which does not exist")
        beside: list[str] = []
        with contextlib.suppress(OSError), os.scandir(os.path.dirname(path)) as found:
            beside = [one.name for one in itertools.islice(found, _LOOKED_AT)]
        hint = nearest(os.path.basename(path), beside) or "; check its path"
        raise Refused(f"{path}: no such file or folder{hint}")


def _is_there(path: str) -> bool:
    """Return whether a path exists, or may exist: the code that reads it reports other errors."""
    try:
        os.stat(path)
    except FileNotFoundError:
        return False
    except (OSError, ValueError):
        pass
    return True


_PATTERN = {*"*?[]{}"}
# the most names to look at, so that the message comes at once even on a disk with millions of files
_LOOKED_AT = 10_000
_OWN = ("dataset", "recipe", "output", "config", "help", "dry_run", "as_json", "then")


def _run(**values: Any) -> int:  # noqa: ANN401 - what click has parsed
    from splitter.engine.display import Display
    from splitter.engine.entry_points import run_dataset

    if values["then"]:
        return _run_chain(values)
    if values["dry_run"]:
        return _plan(**values)
    with saying_so():
        dataset, options = _asked(values)
    with Display(quiet=options.quiet, progress=options.progress) as display:
        try:
            summary = run_dataset(dataset, values["output"], options, display)
        except Interrupted as interruption:
            same = "the same command without --fresh" if options.fresh else "the same command"
            display.error(f"interrupted; finished work is kept; run {same} to continue")
            if interruption.summary:
                display.summary(interruption.summary, next_step=False)
            return interruption.exit_code
        work = summary.work
        # if every input failed, the recipe probably has to be fixed
        if options.verbose or (work.failed == work.inputs and not options.quiet):
            _show_first_failure(summary, display, always=options.verbose)
        display.summary(summary)
        return summary.exit_code


def _run_chain(values: Mapping[str, Any]) -> int:
    """Run several recipes, each on the outputs of the one before."""
    # imported here, because it imports this module
    from splitter.cli.pipeline import chained, run_pipeline

    if values["dry_run"]:
        raise Refused(
            "--dry-run cannot be combined with --then; describe the stages in a file, and use "
            "'splitter pipeline plan'"
        )
    dataset, options = asked(values, _inputs(values))
    made = chained(
        dataset, options, click.get_current_context().meta["name"], values["then"], values["output"]
    )
    return run_pipeline(made, made.stages)


def _show_first_failure(summary: "Summary", display: "Display", *, always: bool) -> None:
    """Show the traceback of the first input in errors.csv, which does not exist before all parts are done.

    If it has no traceback, show only its message, and only with `always`.
    """
    from splitter.ledger.manifest import ERRORS
    from splitter.ledger.records import ERROR_COLUMNS
    from splitter.outputs.files import files_at
    from splitter.outputs.stats import path_column
    from splitter.outputs.tables import open_table

    if not summary.failed or summary.part or summary.stopped:
        return
    files = files_at(summary.output)
    header, rows = open_table(files, ERRORS, ERROR_COLUMNS, [])
    first = dict(zip(header, next(rows), strict=True))
    if not (first["traceback"] or always):
        return
    display.stop()
    listed = first[path_column(files, header)]
    click.echo(f"{listed}:\n{first['traceback'] or first['message']}".rstrip(), err=True)


def _plan(*, as_json: bool = False, **values: Any) -> int:  # noqa: ANN401 - what click has parsed
    from splitter.engine.display import Display
    from splitter.engine.progress import write_event
    from splitter.forecast.entry_points import plan_dataset
    from splitter.text.show import one_line

    dataset, options = _asked(values)
    with Display(quiet=options.quiet) as display:
        plan = plan_dataset(dataset, values["output"], options, display)
    if options.progress == "json" and not as_json:
        write_event("plan", plan.fields())
        return 0
    for line in [plan.to_json()] if as_json else map(one_line, plan.lines()):
        click.echo(line)
    return 0


def _asked(values: Mapping[str, Any]) -> "tuple[ProcessorDataset, RunOptions]":
    """Return the dataset and the options of the run."""
    dataset, chosen = asked(values, _inputs(values))
    return dataset, RunOptions.of(chosen)


def _inputs(values: Mapping[str, Any]) -> Any:  # noqa: ANN401 - what a recipe takes
    # also those that follow an option
    _refuse_missing(values["dataset"])
    return together(values["dataset"])


def asked(values: Mapping[str, Any], inputs: Any) -> "tuple[ProcessorDataset, dict[str, Any]]":  # noqa: ANN401
    """Return the recipe with its inputs, and the run options that were given."""
    context = click.get_current_context()
    given = {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in values.items()
        if name not in _OWN and context.get_parameter_source(name) != ParameterSource.DEFAULT
    }
    chosen = {name: given.pop(name) for name in list(given) if name in RunOptions.__dataclass_fields__}
    return _made(context.meta["recipe"], inputs, given), chosen


def _made(
    recipe: "type[ProcessorDataset]",
    inputs: Any,  # noqa: ANN401 - whatever holds inputs
    parameters: Mapping[str, Any],
) -> "ProcessorDataset":
    try:
        return recipe(inputs, **parameters)
    except Refused:
        raise
    except (Exception, SystemExit) as error:
        raise Refused(f"{recipe.__name__}: {type(error).__name__}: {error}") from error


def together(sources: Sequence[str]) -> Any:  # noqa: ANN401 - what a recipe takes
    """Return the source, or several sources joined into one list."""
    from splitter.inputs.listing import InputList

    lists = [InputList(source) for source in sources]
    return sum(lists[1:], lists[0]) if len(lists) > 1 else sources[0]


def _run_parameters() -> list[click.Parameter]:
    """Return the options of `run` and `plan`, without those of the recipe."""
    return [
        click.Argument(["dataset"], type=click.STRING, nargs=-1, required=True, shell_complete=files),
        click.Option(
            ["recipe", "--recipe"],
            default=DEFAULT,
            show_default=True,
            shell_complete=recipes_and_files,
            help="The recipe to run: a name from 'splitter recipes', module:Class, or path/to/file.py:Class.",
        ),
        click.Option(
            ["output", "--output", "-o"],
            default="outputs",
            show_default=True,
            shell_complete=files,
            help="The output folder, or its URL in an object store.",
        ),
        click.Option(
            ["config", "--config"],
            shell_complete=files,
            help="A TOML file with values for any of these options.",
        ),
        *map(run_option, field_parameters(RunOptions)),
    ]


run_command = RunCommand(
    "run",
    callback=_run,
    short_help="Run a recipe over every input of a dataset, or continue.",
    help="""Run a recipe over every input of DATASET: a list (CSV, TSV, JSONL, Parquet), a folder or
        shards, as a path or URL. If you name several, they are processed one after the other.

        Run again with the same output folder to continue: finished inputs are left alone.""",
    params=[
        *_run_parameters(),
        click.Option(
            ["then", "--then"],
            multiple=True,
            metavar="RECIPE",
            help="Another recipe, which takes the outputs of the one before. Its options go into the same "
            "quotes: 'mel.py:Mel --bands 80'. May be repeated. Each gets a folder below --output.",
        ),
        click.Option(
            ["dry_run", "--dry-run"],
            is_flag=True,
            help="Only show what would be done, like 'splitter plan'.",
        ),
    ],
)
plan_command = RunCommand(
    "plan",
    callback=_plan,
    short_help="Show what 'run' would do, and how long it would take.",
    help="""Show what 'splitter run' with the same arguments would do: how many inputs and outputs, how
        large, how long. It tries a few inputs in temporary space and writes nothing else.""",
    params=[
        *_run_parameters(),
        click.Option(["as_json", "--json"], is_flag=True, help="Print one JSON object, for scripts."),
    ],
)
