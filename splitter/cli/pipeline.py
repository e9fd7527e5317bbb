"""`splitter pipeline run`, `plan`, `status` and `verify`, and `splitter run --then`: parse, call, print."""

import os
import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from splitter.cli.completion import files
from splitter.cli.inspect import VerifyCommand, deep_of, deep_option
from splitter.cli.options import JobTable, read_toml, run_option
from splitter.cli.run import asked, run_command, together
from splitter.errors import Refused
from splitter.options import OF_ALL_STAGES, RunOptions
from splitter.recipes.parameters import field_parameters
from splitter.text.spelling import nearest
from splitter.text.urls import is_url

if TYPE_CHECKING:
    from splitter.dataset import ProcessorDataset
    from splitter.inputs.stages import StageOutputs
    from splitter.pipeline.definition import Pipeline

OF_A_PIPELINE = ("output", "queue", "keep", "stage")
OF_A_STAGE = ("name", "dataset", "from", "adds", "fuse")
ALWAYS, UNTIL_USED, COLUMNS = "always", "until used", "columns"


# -- from a file ---------------------------------------------------------------------------------------------


def read_pipeline(path: str, output: str | None = None) -> "Pipeline":
    """Return the pipeline that a TOML file describes; paths in it start from the folder of the file."""
    from splitter.pipeline.definition import QUEUE, Pipeline

    content = read_toml(path)
    folder = os.path.dirname(path)
    tables = content.get("stage")
    if not isinstance(tables, list) or not all(isinstance(one, dict) for one in tables):
        raise Refused(f"{path}: has no stages; write a table [[stage]] for each")
    shared = {key: value for key, value in content.items() if key not in OF_A_PIPELINE}
    known = [*RunOptions.__dataclass_fields__, *OF_A_PIPELINE]
    for key in shared:
        if key.replace("-", "_") not in known:
            hint = nearest(key, known) or "; the options of a recipe belong in its [[stage]]"
            raise Refused(f"{path}: {key!r} is not an option of all stages{hint}")
    if output is None:
        output = _beside(folder, _text(path, content, "output"))
    pipeline = Pipeline(output, queue=str(content.get("queue", QUEUE)))
    until_used = _until_used(path, content.get("keep", {}), [table.get("name") for table in tables])
    made: dict[str, StageOutputs] = {}
    for number, table in enumerate(tables, 1):
        name = _text(f"{path}, stage {number}", table, "name")
        where = f"{path}, stage {name}"
        adds = table.get("adds")
        if adds not in (None, COLUMNS):
            raise Refused(f"{where}: adds = {adds!r}; write {COLUMNS!r}, or leave it out")
        fuse = table.get("fuse", False)
        if not isinstance(fuse, bool):
            raise Refused(f"{where}: fuse = {fuse!r}; write true, or leave it out")
        values = {**shared, **{key: value for key, value in table.items() if key not in OF_A_STAGE}}
        # the run option `name` is `name_template` in the file, where `name` is that of the stage
        values |= {"name": values.pop("name_template")} if "name_template" in values else {}
        if str(values.get("recipe", "")).partition(":")[0].endswith(".py"):
            values["recipe"] = _beside(folder, values["recipe"])
        if "from" in table and "limit" not in table:
            values.pop("limit", None)
        dataset, options = _recipe(JobTable.of(where, values), _inputs(where, table, folder, made))
        made[name] = pipeline.stage(
            name,
            dataset,
            adds_columns=adds is not None,
            until_used=until_used.get(name),
            fuse=fuse,
            **options,
        )
    return pipeline


def _inputs(where: str, table: Mapping[str, Any], folder: str, made: "Mapping[str, StageOutputs]") -> Any:  # noqa: ANN401
    """Return the inputs of a stage: those of a list, or the outputs of an earlier stage."""
    if ("dataset" in table) == ("from" in table):
        raise Refused(
            f"{where}: write either dataset = a list, or from = the name of an earlier stage; "
            f"it has {', '.join(table)}"
        )
    if "from" in table:
        before = table["from"]
        if str(before) not in made:
            hint = nearest(str(before), [*made]) or "; name a stage above this one"
            raise Refused(f"{where}: from = {before!r}: there is no such stage{hint}")
        return made[before]
    sources = table["dataset"] if isinstance(table["dataset"], list) else [table["dataset"]]
    if not sources or not all(isinstance(one, str) for one in sources):
        raise Refused(f"{where}: dataset = {table['dataset']!r} is not the name of a list")
    return together([_beside(folder, one) for one in sources])


def _recipe(table: JobTable, inputs: Any, args: Sequence[str] = ()) -> tuple[Any, dict[str, Any]]:  # noqa: ANN401
    """Return a recipe and its run options, parsed as `splitter run` would parse them."""
    try:
        context = run_command.make_context("splitter run", ["-", *args], obj=table)
        with context:
            _refuse_given(context, ("output", "config", "dry_run", "then"))
            return asked(context.params, inputs)
    except click.MissingParameter as error:
        name = error.param.name if error.param is not None else ""
        raise Refused(f"{table.name}: the recipe needs a value for its parameter {name!r}; add it") from None
    except click.ClickException as error:
        raise Refused(f"{table.name}: {error.format_message()}") from None
    except Refused as error:
        raise Refused(f"{table.name}: {str(error).removeprefix(f'{table.name}: ')}") from None


def _refuse_given(context: click.Context, names: Sequence[str]) -> None:
    for name in names:
        if context.get_parameter_source(name) != click.core.ParameterSource.DEFAULT:
            raise Refused(f"{name!r} is not an option of a stage; leave it out")


def _text(where: str, table: Mapping[str, Any], key: str) -> str:
    value = table.get(key)
    if not isinstance(value, str) or not value:
        raise Refused(f'{where}: has no {key}; write {key} = "..."')
    return value


def _until_used(path: str, keep: Any, names: Sequence[Any]) -> dict[str, bool]:  # noqa: ANN401 - what TOML holds
    """Return, for each stage in [keep], whether its files are removed when they have been used."""
    if not isinstance(keep, dict):
        raise Refused(f"{path}: [keep] must be a table of stages")
    for name, value in keep.items():
        if name not in names:
            hint = nearest(name, sorted(map(str, names)))
            raise Refused(f"{path}, [keep]: there is no stage {name!r}{hint}")
        if value not in (ALWAYS, UNTIL_USED):
            raise Refused(f"{path}, [keep]: {name} = {value!r}; choose {ALWAYS!r} or {UNTIL_USED!r}")
    return {name: value == UNTIL_USED for name, value in keep.items()}


def _beside(folder: str, path: str) -> str:
    """Return a path that starts from the folder of a file."""
    return path if is_url(path) or path.startswith("~") else os.path.join(folder, path)


# -- from the command line -----------------------------------------------------------------------------------

# options about where outputs go apply only to the last of several recipes
_OF_THE_LAST = ("sink", "name", "shard_size", "shard_maxcount", "field", "shuffle", "audiofolder")
_OF_EACH = (
    *("executor", "workers", "address", "num_cpus", "num_gpus", "resources", "pip", "runtime_env"),
    *("device", "timeout", "memory", "retries", "max_failures", "retry_failed", "fresh", "durable"),
    *("manifest_format", "progress", "quiet", "verbose"),
)


def chained(
    dataset: "ProcessorDataset", given: Mapping[str, Any], recipe: str, then: Sequence[str], output: str
) -> "Pipeline":
    """Return the pipeline of `splitter run --recipe A --then B`: one stage for each recipe."""
    from splitter.pipeline.definition import Pipeline

    pipeline = Pipeline(output)
    first = {name: value for name, value in given.items() if name not in _OF_THE_LAST}
    each = {name: value for name, value in given.items() if name in _OF_EACH}
    last = {name: value for name, value in given.items() if name in _OF_THE_LAST}
    made = pipeline.stage(_stage_name(recipe, pipeline), dataset, **first)
    for number, text in enumerate(then, 1):
        try:
            words = shlex.split(text)
        except ValueError as error:
            raise Refused(f"--then {text!r}: cannot be read: {error}") from None
        if not words:
            raise Refused("--then: names no recipe; write a recipe, followed by its own options")
        options = {**each, **(last if number == len(then) else {})}
        table = JobTable(f"--then {text!r}", {})
        dataset, own = _recipe(table, made, ["--recipe", *words])
        made = pipeline.stage(_stage_name(words[0], pipeline), dataset, **{**options, **own})
    return pipeline


def _stage_name(recipe: str, pipeline: "Pipeline") -> str:
    """Return a name for a stage, made from that of its recipe."""
    plain = recipe.rpartition(":")[2].rpartition(".")[2].lower()
    taken = [stage.name for stage in pipeline.stages]
    return next(name for name in (plain, *(f"{plain}-{n}" for n in range(2, 100))) if name not in taken)


# -- commands ------------------------------------------------------------------------------------------------


@click.group(short_help="Run several recipes as one, each on the outputs of another.")
def pipeline() -> None:
    """Run several stages as one, as a TOML file describes them.

    Each stage is a recipe with its own output folder, and takes the outputs of an earlier stage as soon
    as these are committed.
    """


_file = click.argument("file", shell_complete=files)
_output = click.option(
    "--output", "-o", shell_complete=files, help="The output folder, instead of the one in FILE."
)
_until = click.option("--until", metavar="STAGE", help="Run this stage, and those that it depends on.")
_only = click.option("--only", metavar="STAGE", help="Run only this stage, on the inputs that exist now.")


def _chosen(made: "Pipeline", values: Mapping[str, Any]) -> "tuple[Pipeline, Any]":
    """Return the pipeline with the options of the command line, and the stages to run."""
    context = click.get_current_context()
    given = {
        name: values[name]
        for name in OF_ALL_STAGES
        if name in values and context.get_parameter_source(name) != click.core.ParameterSource.DEFAULT
    }
    if values.get("until") and values.get("only"):
        raise Refused("--until and --only: use one of them")
    made = made.with_options(given)
    return made, made.chosen(until=values.get("until"), only=values.get("only"))


def _command(file: str, output: str | None) -> str:
    """Return the command that runs a pipeline or continues it."""
    from splitter.engine.display import as_typed

    return f"splitter pipeline run {as_typed(file)}" + (f" --output {as_typed(output)}" if output else "")


def _run(file: str, output: str | None, **values: Any) -> int:  # noqa: ANN401 - what click has parsed
    return run_pipeline(*_chosen(read_pipeline(file, output), values))


def run_pipeline(made: "Pipeline", stages: Any) -> int:  # noqa: ANN401
    """Run stages, print a summary, and return the exit code."""
    from splitter.pipeline.running import run_stages

    return run_stages(made, stages).exit_code


_run_command = click.Command(
    "run",
    callback=_run,
    short_help="Run the stages, or continue.",
    help="""Run the stages that FILE describes, or continue: finished inputs are left alone.

        FILE names an output folder, output = "...", and has a table [[stage]] for each stage: name, dataset
        or from (an earlier stage), recipe, and options of the recipe and of its run.

        An input that fails in a stage fails alone, and is listed in errors.csv of that folder.""",
    params=[run_option(one) for one in field_parameters(RunOptions) if one.name in OF_ALL_STAGES],
)
for _add in (_only, _until, _output, _file):
    _add(_run_command)
pipeline.add_command(_run_command)


@pipeline.command(short_help="Show what 'pipeline run' would do.")
@_file
@_output
@_until
@_only
def plan(file: str, output: str | None, **values: Any) -> int:  # noqa: ANN401
    """Show what there is to do in each stage, and write nothing."""
    from splitter.pipeline.status import plan_lines

    for line in plan_lines(_chosen(read_pipeline(file, output), values)[1]):
        click.echo(line)
    return 0


@pipeline.command(short_help="Show how far each stage is.")
@_file
@_output
def status(file: str, output: str | None) -> int:
    """Show how far each stage is, even while the pipeline is running."""
    from splitter.pipeline.status import status_lines

    for line in status_lines(read_pipeline(file, output), command=_command(file, output)):
        click.echo(line)
    return 0


@pipeline.command(cls=VerifyCommand, short_help="Check the outputs of each stage.")
@_file
@_output
@deep_option
def verify(file: str, output: str | None, deep: str | None) -> int:
    """Check that everything that the stages left is present and unchanged, as 'splitter verify' does."""
    from splitter.pipeline.status import verify_stage

    command = _command(file, output)
    return max(
        verify_stage(stage, click.echo, command=command, deep=deep_of(deep))
        for stage in read_pipeline(file, output).stages
    )
