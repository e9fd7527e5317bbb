"""The command line: parse, call, print."""

import enum
import errno
import shlex
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from splitter import __version__
from splitter.completion import files, parameters_in_text, recipes_and_files
from splitter.ending import saying_so
from splitter.errors import Interrupted, RecipeError, Refused, RunStopped
from splitter.options import RunOptions, flag, nearest
from splitter.parameters import REQUIRED, Parameter, field_parameters, first_line, recipe_parameters
from splitter.recipes import DEFAULT, RECIPES, load_recipe
from splitter.report.commands import report, serve
from splitter.single import Single
from splitter.table_names import other_tables
from splitter.tar.commands import tar

if TYPE_CHECKING:
    from splitter.dataset import ProcessorDataset
    from splitter.progress import Display
    from splitter.summary import Summary

REFUSED = 2
_CLICK_TYPES: dict[Any, click.ParamType[Any]] = {int: click.INT, float: click.FLOAT, str: click.STRING}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit; what goes wrong is one line that says what to do."""
    sys.exit(exit_code(arguments))


def exit_code(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    if sys.platform == "win32":
        return _refuse(
            "Windows itself is not supported; run splitter in WSL, the Windows Subsystem for Linux"
        )
    verbose = "--verbose" in (sys.argv[1:] if arguments is None else arguments)
    try:
        return commands.main(arguments, prog_name="splitter", standalone_mode=False) or 0
    except click.ClickException as error:
        return _complain(error)
    except Refused as error:
        _trace(error, shown=verbose)
        return _refuse(str(error))
    except (RunStopped, OSError) as error:
        _trace(error, shown=verbose)
        return _stop(error)
    except click.Abort:
        return 130


def _trace(error: BaseException, *, shown: bool) -> None:
    """Show where an error comes from, if --verbose asks for it."""
    if shown:
        click.echo("".join(traceback.format_exception(error)), err=True, nl=False)


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
    # whose help shows the option that is meant, where it is a recipe's
    recipe = context.meta.get("name", DEFAULT) if context else DEFAULT
    param: Any = getattr(error, "param", None)
    if isinstance(error, click.NoSuchOption):
        option = error.option_name
        # of several that are near, the nearest will do
        message = f"No such option {option!r}{nearest(option, error.possibilities or [])}"
        others = _recipes_with(option) if context and isinstance(context.command, RunCommand) else []
        if others:
            message, recipe = f"{option!r} is an option of --recipe {' and '.join(others)}", others[0]
    elif (
        not context
        or param is None
        or param.name not in {one.name for one in context.meta.get("parameters", [])}
    ):
        recipe = DEFAULT
    elif not isinstance(error, click.MissingParameter) and _is_default(param, context):
        problem = f"its parameter {param.name!r} has a bad default: {message.partition(': ')[2]}"
        return _refuse(f"{recipe}: {problem}; mend that")
    if context:
        named = "" if recipe == DEFAULT else f" --recipe {shlex.quote(recipe)}"
        see = f"ee {context.command_path}{named} --help"
        # after "did you mean '--workers'?" a sentence begins
        message += f" S{see}" if message.endswith("?") else f"; s{see}"
    return _refuse(message)


def _is_default(param: click.Parameter, context: click.Context) -> bool:
    return context.get_parameter_source(str(param.name)) == ParameterSource.DEFAULT


def _recipes_with(option: str) -> list[str]:
    """The shipped recipes that have an option; they are read, and not imported."""
    return [
        name
        for name in RECIPES
        if option in {way for one in parameters_in_text(name) for way in _option(one).opts}
    ]


class _InOrderOfUse(click.Group):
    """Lists its commands as they come in a user's work, not by the alphabet."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of the commands."""
        first = ("run", "plan", "verify", "report", "serve", "stats", "split", "manifest", "recipes", "tar")
        return sorted(super().list_commands(ctx), key=first.index)


@click.group(
    cls=_InOrderOfUse,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    # the control character keeps the lines after it apart
    help="""Turn input files into output files, with nothing lost.

    \b
    splitter run dataset.csv          cut the recordings of a list into chunks, into the folder outputs/
    splitter verify outputs           check that all of it is there
    splitter report outputs           look and listen through it""",
)
@click.version_option(__version__, prog_name="splitter", message="%(prog)s %(version)s")
def commands() -> None:
    """Turn input files into output files, with nothing lost."""


class RunCommand(click.Command):
    """`splitter run`: its options are the run's own and those of the recipe that is named."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Find out the recipe first, since it decides what options there are."""
        if ctx.resilient_parsing:
            return self._parse_unfinished(ctx, args)
        config = _read_config(_value_of("--config", args))
        given = _value_of("--recipe", args)
        name = str(config.get("recipe", DEFAULT)) if given is None else given
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
                raise Refused(f"--config: {key!r} is not an option{nearest(key, sorted(known))}")
        ctx.default_map = {key: _as_given(known[key], value) for key, value in config.items()}
        return super().parse_args(ctx, args)

    def _parse_unfinished(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse a line that a shell wants to complete."""
        ctx.meta["parameters"] = parameters_in_text(_value_of("--recipe", args) or DEFAULT)
        return super().parse_args(ctx, args)

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """The run's options, then the recipe's."""
        return [*super().get_params(ctx), *map(_option, ctx.meta.get("parameters", []))]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Show the recipe's options apart from the run's."""
        names = {parameter.name for parameter in ctx.meta.get("parameters", [])}
        sections: dict[str, list[tuple[str, str]]] = {"Recipe options": [], "Run options": []}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx) if isinstance(param, click.Option) else None
            if record:
                sections["Recipe options" if param.name in names else "Run options"].append(record)
        recipe = ctx.meta.get("recipe")
        if recipe is not None:
            sections = {
                f"Options of the recipe ({first_line(recipe)})": sections.pop("Recipe options"),
                **sections,
            }
        for title, records in sections.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


def _option(parameter: Parameter) -> click.Option:
    """A parameter as an option of the command line."""
    names = [parameter.name, flag(parameter.name)]
    shared: dict[str, Any] = {"help": parameter.help, "required": parameter.default is REQUIRED}
    if parameter.default not in (REQUIRED, None) and not isinstance(parameter.default, (list, tuple)):
        shared["default"] = parameter.default
        shared["show_default"] = not isinstance(parameter.default, bool) or parameter.default
    if parameter.kind is bool and not parameter.many:
        return click.Option(
            [parameter.name, f"{flag(parameter.name)}/{flag('no_' + parameter.name)}"], **shared
        )
    return click.Option(names, type=_click_type(parameter.kind), multiple=parameter.many, **shared)


# what a user may give several of, and what to write then
_ONCE = {"where": ", with 'and' between the conditions", "labels": ""}


def _run_option(parameter: Parameter) -> click.Option:
    """An option of the run; a flag has no negative form."""
    if parameter.name in _ONCE:
        names = [parameter.name, flag(parameter.name)]
        return Single(names, help=parameter.help, advice=_ONCE[parameter.name])
    if parameter.kind is bool:
        return click.Option([parameter.name, flag(parameter.name)], is_flag=True, help=parameter.help)
    return _option(parameter)


def _click_type(kind: Any) -> click.ParamType[Any]:  # noqa: ANN401
    if isinstance(kind, tuple) or (isinstance(kind, type) and issubclass(kind, enum.Enum)):
        return click.Choice(kind)
    if kind is Path:
        return click.Path(path_type=Path)
    if kind is list:
        return click.UNPROCESSED
    return _CLICK_TYPES.get(kind, click.STRING)


def _value_of(option: str, args: Sequence[str]) -> str | None:
    """The value of one option, before the others are known."""
    value = None
    for index, argument in enumerate(args):
        if argument == "--":
            break
        if argument == option and index + 1 < len(args):
            value = args[index + 1]
        elif argument.startswith(f"{option}="):
            value = argument.partition("=")[2]
    return value


def _read_config(path: str | None) -> dict[str, Any]:
    if path is None:
        return {}
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    try:
        with open(path, "rb") as file:
            content = tomllib.load(file)
    except OSError as error:
        raise Refused(f"--config {path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise Refused(f"--config {path}: is not UTF-8 at byte {error.start}; save it as UTF-8") from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise Refused(f"--config {path}: is not TOML: {error}") from None
    return {key.replace("-", "_"): value for key, value in content.items()}


def _as_given(param: click.Parameter, value: Any) -> Any:  # noqa: ANN401 - whatever TOML holds
    """A value of a job file as the command line would have it, so that both are checked alike."""
    values = value if isinstance(value, list) else [value]
    if any(isinstance(one, (dict, list)) for one in values):
        raise Refused(f"--config: {param.name!r} cannot be {value!r}")
    many = param.multiple or param.nargs < 0
    if values is value and not (many or param.type is click.UNPROCESSED):
        raise Refused(f"--config: {param.name!r} takes one value, not a list")
    texts = [str(one).lower() if isinstance(one, bool) else str(one) for one in values]
    return texts if many or values is value else texts[0]


_OWN = ("dataset", "recipe", "output", "config", "help", "dry_run", "as_json")


def _run(**values: Any) -> int:  # noqa: ANN401 - what click has parsed
    from splitter.progress import Display
    from splitter.run import run_dataset

    if values["dry_run"]:
        return _plan(**values)
    with saying_so():
        dataset, options = _asked(values)
    with Display(quiet=options.quiet) as display:
        try:
            summary = run_dataset(dataset, values["output"], options, display)
        except Interrupted as interruption:
            display.error("interrupted; what is done is kept; run the same command to continue")
            if interruption.summary:
                display.summary(interruption.summary)
            return interruption.exit_code
        work = summary.work
        # where nothing has come of any input it is the recipe that has to be mended
        if options.verbose or (work.failed == work.inputs and not options.quiet):
            _show_first_failure(summary, display, always=options.verbose)
        display.summary(summary)
        return summary.exit_code


def _show_first_failure(summary: "Summary", display: "Display", *, always: bool) -> None:
    """Show the traceback of the first input in errors.csv; there is none before all parts are together.

    Without one there is only its message, and nothing to show unless `always`.
    """
    from splitter.commits import ERROR_COLUMNS
    from splitter.manifest import ERRORS
    from splitter.outputs.contents import files_at
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
    from splitter.progress import Display, one_line
    from splitter.run import plan_dataset

    dataset, options = _asked(values)
    with Display(quiet=options.quiet) as display:
        try:
            plan = plan_dataset(dataset, values["output"], options, display)
        except Interrupted as interruption:
            return interruption.exit_code
    for line in [plan.to_json()] if as_json else map(one_line, plan.lines()):
        click.echo(line)
    return 0


def _asked(values: Mapping[str, Any]) -> "tuple[ProcessorDataset, RunOptions]":
    """The dataset, and how to run, as they were given."""
    context = click.get_current_context()
    given = {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in values.items()
        if name not in _OWN and context.get_parameter_source(name) != ParameterSource.DEFAULT
    }
    chosen = {name: given.pop(name) for name in list(given) if name in RunOptions.__dataclass_fields__}
    return _made(context.meta["recipe"], values["dataset"], given), RunOptions.of(chosen)


def _made(
    recipe: "type[ProcessorDataset]", sources: Sequence[str], parameters: Mapping[str, Any]
) -> "ProcessorDataset":
    try:
        return recipe(_together(sources), **parameters)
    except Refused:
        raise
    except (Exception, SystemExit) as error:
        raise Refused(f"{recipe.__name__}: {type(error).__name__}: {error}") from error


def _together(sources: Sequence[str]) -> Any:  # noqa: ANN401 - what a recipe takes
    """What to read: a single source as it is given."""
    from splitter.inputs.sources import InputList

    lists = [InputList(source) for source in sources]
    return sum(lists[1:], lists[0]) if len(lists) > 1 else sources[0]


def _run_parameters() -> list[click.Parameter]:
    """What `run` and `plan` take, but for what the recipe takes."""
    return [
        click.Argument(["dataset"], type=click.STRING, nargs=-1, required=True, shell_complete=files),
        click.Option(
            ["recipe", "--recipe"],
            default=DEFAULT,
            show_default=True,
            shell_complete=recipes_and_files,
            help="What to do: a name from 'splitter recipes', module:Class, or path/to/file.py:Class.",
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
        *map(_run_option, field_parameters(RunOptions)),
    ]


commands.add_command(
    RunCommand(
        "run",
        callback=_run,
        short_help="Run a recipe over every input of a dataset, or continue.",
        help="""Run a recipe over every input of DATASET: a list (CSV, TSV, JSONL, Parquet) or a folder,
        here or at a URL. Several are taken one after the other.

        Run it again with the same output folder to continue: what is done is left alone.""",
        params=[
            *_run_parameters(),
            click.Option(
                ["dry_run", "--dry-run"],
                is_flag=True,
                help="Only say what would be done, as 'splitter plan' does.",
            ),
        ],
    )
)
commands.add_command(
    RunCommand(
        "plan",
        callback=_plan,
        short_help="Say what 'run' would do, and how long it would take.",
        help="""Say what 'splitter run' with the same arguments would do: how many inputs and outputs, how
        large, how long. A few inputs are tried in temporary space; nothing else is written.""",
        params=[
            *_run_parameters(),
            click.Option(["as_json", "--json"], is_flag=True, help="Print one JSON object, for scripts."),
        ],
    )
)


commands.add_command(report)
commands.add_command(serve)
commands.add_command(tar)


@commands.command(short_help="Put the manifest together, after a run in parts.")
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
    from splitter.progress import Display
    from splitter.run import assemble

    asked = manifest_format is not None or audiofolder
    others = other_tables(manifest_format or "csv", audiofolder=audiofolder) if asked else None
    with Display(quiet=quiet) as display:
        try:
            summary = assemble(output, others=others, tell=display.alert)
        except Interrupted as interruption:
            return interruption.exit_code
        display.summary(summary)
        return summary.exit_code


@commands.command(short_help="Check that every output is present and unchanged.")
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
    from splitter.outputs.tables import folder_of
    from splitter.run import verify as verified
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


@commands.command(short_help="Divide the outputs into train, validation and test.")
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
    from splitter.outputs.stats import split_lines
    from splitter.run import split_outputs, unsplit_outputs
    from splitter.splits import fractions_of

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


@commands.command(short_help="Count inputs, outputs, hours, failures, by any column.")
@click.argument("output", shell_complete=files)
@click.option("--by", cls=Single, metavar="COLUMN", help="One line for each value of this column.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def stats(output: str, by: str | None, as_json: bool) -> None:  # noqa: FBT001 - what click gives
    """Count the inputs, outputs, bytes, hours and failures of the folder or URL OUTPUT."""
    from splitter.outputs.stats import stats_of

    found = stats_of(output, by)
    click.echo(found.to_json(by) if as_json else "\n".join(found.lines(by)))


@commands.command(short_help="List the recipes and their options.")
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
    return _option(parameter).get_help_record(context) or (flag(parameter.name), parameter.help)
