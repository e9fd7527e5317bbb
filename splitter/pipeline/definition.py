"""A pipeline: its stages, and from which stage each takes its inputs."""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from splitter.dataset import ProcessorDataset
from splitter.engine.entry_points import output_folder
from splitter.errors import Refused
from splitter.inputs.listing import ListSequence
from splitter.inputs.stages import StageOutputs
from splitter.options import OF_ALL_STAGES, RunOptions, flag
from splitter.registry import SINKS
from splitter.sinks.base import Sink
from splitter.storage.layout import same_name
from splitter.storage.names import is_output
from splitter.text.conditions import columns_in
from splitter.text.sizes import parse_size
from splitter.text.spelling import nearest
from splitter.text.urls import LONGEST_NAME

if TYPE_CHECKING:
    from splitter.outputs.frame import Manifest

# options that say how a list is read; later stages have no list
_OF_LISTS = ("column", "from_", "root", "delimiter", "pattern", "member", "folder_label", "all_rows")
# other options for a stage with a list only
_OF_THE_FIRST = ("limit", "prune")
# options for a cluster, which have no meaning on one machine
_OF_A_CLUSTER = ("num_cpus", "num_gpus", "resources", "pip", "runtime_env")
QUEUE = "1GB"


@dataclass(frozen=True, eq=False)
class Stage:
    """A stage of a pipeline.

    Attributes:
        dataset: The recipe, with its inputs.
        given: The options that it was given.
        options: The options of its run.
        outputs: What it makes, as the inputs of another stage.
        before: The stage whose outputs it takes; None for a stage that takes a list.
        until_used: Whether its files are removed when all later stages have used them.
        keeps: Whether the user asked to keep its files; None if that was left open.
        fuse: Whether the workers of the stage before do its work as well, if they can.
    """

    dataset: ProcessorDataset
    given: Mapping[str, Any]
    options: RunOptions
    outputs: StageOutputs
    before: "Stage | None"
    until_used: bool = False
    keeps: bool | None = None
    fuse: bool = False

    @property
    def name(self) -> str:
        """The name of the stage, and of its folder."""
        return self.outputs.name

    @property
    def files_from(self) -> "Stage | None":
        """The stage whose files it reads; None if it reads those of the list."""
        return next((one for one in reversed(self.line) if not one.outputs.adds_columns), None)

    @property
    def line(self) -> "list[Stage]":
        """The stages before it, starting with the one that takes a list."""
        return [*self.before.line, self.before] if self.before else []

    @property
    def follows(self) -> bool:
        """Whether it may begin before the stage before has ended."""
        options = self.options
        shares = str(options.max_failures).endswith("%")
        can = options.sink == "files" or self.takes_ranges
        return self.before is not None and can and not (options.fresh or shares)

    @property
    def takes_ranges(self) -> bool:
        """Whether it makes shards of ranges of the first stage's inputs, each when its range is complete."""
        options = self.options
        # --name may use a column that comes late
        needs_all = options.shuffle is not None or options.name is not None
        if self.before is None or options.sink == "files" or needs_all:
            return False
        sink = SINKS.load(options.sink, Sink)
        return not (sink.divisible or sink.needs_columns)


class Pipeline:
    """Stages that run together: each takes the outputs of an earlier one as soon as they are committed.

    Each stage has an ordinary output folder, inside the folder of the pipeline.
    """

    def __init__(self, output: str | os.PathLike[str], *, queue: str = QUEUE) -> None:
        """Take the output folder; a stage pauses while more than `queue` of its outputs waits to be used."""
        self.output = output_folder(output).rstrip("/")
        self.queue = parse_size("queue", queue)
        self.stages: list[Stage] = []

    def stage(
        self,
        name: str,
        dataset: ProcessorDataset,
        /,
        *,
        until_used: bool | None = None,
        adds_columns: bool = False,
        fuse: bool = False,
        **options: Any,  # noqa: ANN401 - see RunOptions
    ) -> StageOutputs:
        """Add a stage, and return what it makes, for use as the inputs of a later stage.

        Args:
            name: The name of the stage, and of its folder.
            dataset: The recipe with its inputs: a list, or what another stage makes.
            until_used: Whether to remove its files as soon as all later stages that read them are done with
                them. Default: only if each of those later stages is fused with the stage before it.
            adds_columns: Whether it makes metadata only; see `columns`.
            fuse: Whether the workers of the stage before do the work of this one as well, on files that need
                not be stored in between.
            options: Options as in `RunOptions`.
        """
        if not is_output(name) or "/" in name or name.startswith("."):
            raise Refused(f"stage {name!r}: its name is not a plain folder name; choose another")
        length = len(os.fsencode(name))
        if length > LONGEST_NAME:
            raise Refused(
                f"stage {name[:40]!r}…: its name has {length} bytes, but a folder name has at most "
                f"{LONGEST_NAME}; choose a shorter one"
            )
        if same_name(name) in (same_name(stage.name) for stage in self.stages):
            raise Refused(f"stage {name}: two stages have this name; rename one")
        before = self._before(name, dataset)
        if until_used and adds_columns:
            raise Refused(f"stage {name}: adds columns, so it has no files to remove; leave 'until used' out")
        outputs = StageOutputs(
            name, f"{self.output}/{name}", adds_columns, before=before.outputs if before else None
        )
        keeps = None if until_used is None else not until_used
        stage = Stage(dataset, options, RunOptions(), outputs, before, keeps=keeps, fuse=fuse)
        self.stages = _linked([*self.stages, _resolved(stage, {})])
        return outputs

    def columns(self, name: str, dataset: ProcessorDataset, /, **options: Any) -> StageOutputs:  # noqa: ANN401
        """Add a stage that makes metadata only: it passes its inputs on, with metadata as new columns."""
        return self.stage(name, dataset, adds_columns=True, **options)

    def _before(self, name: str, dataset: ProcessorDataset) -> Stage | None:
        """Return the stage whose outputs a recipe takes."""
        source = dataset.inputs.source
        if isinstance(source, ListSequence):
            if any(isinstance(part.source, StageOutputs) for part in source.parts):
                raise Refused(f"stage {name}: takes several lists, one of them a stage; give it one stage")
            return None
        if not isinstance(source, StageOutputs):
            return None
        before = next((stage for stage in self.stages if stage.outputs is source), None)
        if before is None:
            raise Refused(
                f"stage {name}: takes stage {source.name}, which is not an earlier stage of this pipeline"
            )
        if before.options.sink != "files":
            raise Refused(
                f"stage {before.name}: --sink {before.options.sink}, but stage {name} takes its outputs; "
                f"leave the sink of {before.name} out, and make shards in the last stage"
            )
        return before

    def stage_named(self, name: str, option: str) -> Stage:
        """Return the stage of this name; refuse a name that no stage has."""
        names = [stage.name for stage in self.stages]
        if name not in names:
            hint = nearest(name, names) or f"; there is {', '.join(names)}"
            raise Refused(f"{option} {name}: no stage has this name{hint}")
        return self.stages[names.index(name)]

    def chosen(self, *, until: str | None = None, only: str | None = None) -> list[Stage]:
        """Return all stages, those up to `until`, or only one."""
        if not self.stages:
            raise Refused(f"{self.output}: the pipeline has no stages; add one")
        if only is not None:
            return [self.stage_named(only, "--only")]
        if until is None:
            return self.stages
        last = self.stage_named(until, "--until")
        return [*last.line, last]

    def with_options(self, given: Mapping[str, Any]) -> "Pipeline":
        """Return a copy of the pipeline with options for all its stages."""
        for name in given:
            if name not in OF_ALL_STAGES:
                hint = nearest(name, [*OF_ALL_STAGES]) or "; give it to the stages that it is for"
                raise Refused(f"{name!r} is not an option of a whole pipeline{hint}")
        other = Pipeline(self.output)
        other.queue = self.queue
        other.stages = _linked([_resolved(stage, given) for stage in self.stages])
        return other

    def described(self) -> dict[str, Any]:
        """Return the stages and the edges between them, as they are stored."""
        stages = (
            {
                "name": stage.name,
                "from": stage.before.name if stage.before else None,
                "adds_columns": stage.outputs.adds_columns,
                "until_used": stage.until_used,
                "fuse": stage.fuse,
            }
            for stage in self.stages
        )
        return {"stages": [*stages]}

    def run(
        self,
        *,
        until: str | None = None,
        only: str | None = None,
        **options: Any,  # noqa: ANN401
    ) -> "dict[str, Manifest]":
        """Run the stages, or continue; return the manifest of each as a pandas DataFrame.

        Args:
            until: The last stage to run.
            only: The only stage to run.
            options: Options as in `RunOptions`, for all stages.
        """
        from splitter.outputs.frame import read_manifest
        from splitter.pipeline.running import run_stages

        pipeline = self.with_options(options)
        stages = pipeline.chosen(until=until, only=only)
        run_stages(pipeline, stages).raise_stop()
        return {stage.name: read_manifest(stage.outputs.folder) for stage in stages}


def _resolved(stage: Stage, given: Mapping[str, Any]) -> Stage:
    """Return a stage with its own options and those for all stages; refuse options that make no sense."""
    asked = {
        **stage.given,
        **{name: value for name, value in given.items() if stage.before is None or name not in _OF_THE_FIRST},
    }
    try:
        if asked.get("executor", RunOptions.executor) == "local":
            asked = _here(asked)
        options = RunOptions.of(asked)
        # check the condition now: it is applied when there are rows, which may be hours later
        if options.where is not None:
            columns_in(options.where)
    except Refused as error:
        raise Refused(f"stage {stage.name}: {error}") from None
    _refuse_options(stage, asked)
    return dataclasses.replace(stage, options=options)


def _linked(stages: Sequence[Stage]) -> list[Stage]:
    """Return the stages, each linked to the new copy of the one before; refuse to fuse what cannot be."""
    made: dict[str, Stage] = {}
    for stage in stages:
        users = [one for one in stages if one.files_from and one.files_from.name == stage.name]
        is_fused = bool(users) and all(one.fuse for one in users)
        before = made[stage.before.name] if stage.before else None
        until_used = is_fused if stage.keeps is None else not stage.keeps
        made[stage.name] = dataclasses.replace(stage, before=before, until_used=until_used)
        if stage.fuse:
            _refuse_fused(made[stage.name], before)
    return [*made.values()]


def _refuse_fused(stage: Stage, before: Stage | None) -> None:
    """Refuse to fuse a stage with the one before if one worker cannot do both."""
    fused = f"stage {stage.name}: fuse"
    if before is None:
        raise Refused(f"{fused} is for a stage that takes what another one makes; leave it out")
    both = ((stage.name, stage.options), (before.name, before.options))
    if stage.options.sink != "files":
        raise Refused(
            f"{fused}, but its sink {stage.options.sink} makes shards of many inputs; leave fuse out, or "
            "make shards in a stage after it"
        )
    if before.outputs.adds_columns and not before.fuse:
        raise Refused(f"{fused}, but {before.name} makes no files and is not fused itself; fuse that as well")
    for option, why in (("name", "names are given at the end"), ("memory", "it is that of a single recipe")):
        name = next((name for name, options in both if getattr(options, option) is not None), None)
        if name is not None:
            raise Refused(f"{fused}, but {name} has {flag(option)}: {why}; leave one of them out")
    if stage.options.labels is not None or stage.dataset.inputs.labels is not None:
        raise Refused(f"{fused}, but it has --labels; give these to the first stage, or leave fuse out")
    if len({(options.executor, options.address) for _, options in both}) > 1:
        raise Refused(f"{fused}, but its executor is not that of {before.name}; leave one of them out")
    asked, there = (
        one.dataset.num_gpus if one.options.num_gpus is None else one.options.num_gpus
        for one in (stage, before)
    )
    if stage.options.executor == "ray" and asked > there:
        raise Refused(
            f"{fused}: the workers of {before.name} do its work, and take {there:g} GPUs, not {asked:g}; "
            f"give {before.name} num_gpus = {asked:g}"
        )


def _here(asked: dict[str, Any]) -> dict[str, Any]:
    """Translate options for a cluster to one machine: a share of a GPU becomes a number of workers."""
    gpus = asked.get("num_gpus")
    here = {name: value for name, value in asked.items() if name not in _OF_A_CLUSTER}
    there = {name: value for name, value in asked.items() if name in _OF_A_CLUSTER}
    if ":" in str(here.get("workers", "")):
        there["workers"] = here.pop("workers")
    # options that have no meaning here must be valid, too
    RunOptions.of({**there, "executor": "ray"})
    if gpus and "workers" not in here:
        import torch

        here["workers"] = max(1, int(max(1, torch.cuda.device_count()) / gpus + 1e-9))
    return here


def _refuse_options(stage: Stage, asked: Mapping[str, Any]) -> None:
    name, before = stage.name, stage.before
    if "part" in asked:
        raise Refused(f"stage {name}: --part divides a single run; use --executor ray for several machines")
    for option in (*_OF_LISTS, *_OF_THE_FIRST):
        if before is not None and option in asked:
            raise Refused(
                f"stage {name}: {flag(option)} is for a list, but this stage takes what stage {before.name} "
                "makes; leave it out"
            )
    if stage.outputs.adds_columns and asked.get("sink", "files") != "files":
        raise Refused(f"stage {name}: adds columns and makes no files; leave --sink out")
    if asked.get("executor") == "ray" and asked.get("address") is None:
        raise Refused(
            f"stage {name}: --executor ray needs --address, since the stages share a cluster: start one with "
            "'ray start --head' and use --address auto, or leave --executor out"
        )
