"""A pipeline: stages, and which of them takes the outputs of which."""

import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from splitter.dataset import ProcessorDataset
from splitter.engine.entry_points import output_folder
from splitter.errors import Refused
from splitter.inputs.listing import ListSequence
from splitter.inputs.stages import StageOutputs
from splitter.options import RunOptions, flag
from splitter.storage.names import is_output
from splitter.text.sizes import parse_size
from splitter.text.spelling import nearest

if TYPE_CHECKING:
    from splitter.outputs.frame import Manifest

ALWAYS, UNTIL_USED = "always", "until used"
# what says how a list is read, which no later stage has, and what divides it
_OF_LISTS = ("column", "from_", "root", "delimiter", "pattern", "member", "folder_label", "all_rows")
_OF_ONE_RUN = ("part", "prune", "quiet", "progress")
QUEUE = "1GB"


@dataclass(frozen=True)
class Stage:
    """A stage of a pipeline.

    Attributes:
        dataset: The recipe, with its inputs.
        options: Those of its run.
        outputs: What it makes, as the inputs of another stage.
        before: The stage whose outputs it takes; None for a stage that takes a list.
        keep: Whether its files stay ALWAYS, or UNTIL_USED.
    """

    dataset: ProcessorDataset
    options: RunOptions
    outputs: StageOutputs
    before: "Stage | None"
    keep: str = ALWAYS

    @property
    def name(self) -> str:
        """Its name, which is that of its folder."""
        return self.outputs.name

    @property
    def files_from(self) -> "Stage | None":
        """The stage whose files it reads; None if those are of the list."""
        stage = self.before
        while stage is not None and stage.outputs.adds_columns:
            stage = stage.before
        return stage

    @property
    def follows(self) -> bool:
        """Whether it may begin before the stage before has ended."""
        options = self.options
        shares = str(options.max_failures).endswith("%")
        return self.before is not None and options.sink == "files" and not (options.fresh or shares)


class Pipeline:
    """Stages that run together: each takes the outputs of an earlier one, as soon as these are committed.

    Each stage is an ordinary output folder, below the one of the pipeline.
    """

    def __init__(self, output: str | os.PathLike[str], *, queue: str = QUEUE) -> None:
        """Take the folder; a stage is held back while more than `queue` of its outputs wait to be used."""
        self.output = output_folder(output).rstrip("/")
        self.queue = parse_size("queue", queue)
        self.stages: list[Stage] = []

    def stage(
        self,
        name: str,
        dataset: ProcessorDataset,
        *,
        keep: str = ALWAYS,
        **options: Any,  # noqa: ANN401 - see RunOptions
    ) -> StageOutputs:
        """Add a stage, and return what it makes: the inputs of a later stage.

        Args:
            name: The name of the stage, and of its folder.
            dataset: The recipe with its inputs: a list, or what another stage makes.
            keep: 'until used' to remove its files as soon as all later stages have used them.
            options: Those of `RunOptions`.
        """
        return self.add(name, dataset, RunOptions.of(options), keep=keep)

    def columns(self, name: str, dataset: ProcessorDataset, **options: Any) -> StageOutputs:  # noqa: ANN401
        """Add a stage that makes metadata only: its inputs go on, with its metadata as further columns."""
        return self.add(name, dataset, RunOptions.of(options), adds_columns=True)

    def add(
        self,
        name: str,
        dataset: ProcessorDataset,
        options: RunOptions,
        *,
        keep: str = ALWAYS,
        adds_columns: bool = False,
    ) -> StageOutputs:
        """Add a stage; refuse what cannot be one."""
        if not is_output(name) or "/" in name or name.startswith(".") or "," in name:
            raise Refused(f"stage {name!r}: its name is that of a folder; choose a plain one")
        if name.lower() in (stage.name.lower() for stage in self.stages):
            raise Refused(f"stage {name}: there are two of this name; rename one")
        if keep not in (ALWAYS, UNTIL_USED):
            raise Refused(f"stage {name}: keep={keep!r}; choose from '{ALWAYS}', '{UNTIL_USED}'")
        before = self._before(name, dataset)
        _refuse_options(name, options, adds_columns=adds_columns, has_list=before is None)
        has_sizes = before is not None and (before.outputs.has_sizes or not before.outputs.adds_columns)
        outputs = StageOutputs(name, f"{self.output}/{name}", adds_columns, has_sizes)
        self.stages.append(Stage(dataset, options, outputs, before, keep))
        return outputs

    def _before(self, name: str, dataset: ProcessorDataset) -> Stage | None:
        """Return the stage whose outputs a recipe takes."""
        source = dataset.inputs.source
        if isinstance(source, ListSequence):
            if any(isinstance(part.source, StageOutputs) for part in source.parts):
                raise Refused(f"stage {name}: takes several sources, one of them a stage; take one stage")
            return None
        if not isinstance(source, StageOutputs):
            return None
        before = next((stage for stage in self.stages if stage.outputs is source), None)
        if before is None:
            raise Refused(
                f"stage {name}: takes stage {source.name}, which is no earlier one of this pipeline"
            )
        if before.options.sink != "files":
            raise Refused(
                f"stage {before.name}: --sink {before.options.sink}, but stage {name} takes its outputs; "
                f"leave the sink of {before.name} out, and make shards in the last stage"
            )
        return before

    def stage_named(self, name: str, option: str) -> Stage:
        """Return one of the stages; refuse a name that none has."""
        names = [stage.name for stage in self.stages]
        if name not in names:
            raise Refused(f"{option} {name}: no stage has this name{nearest(name, names)}")
        return self.stages[names.index(name)]

    def chosen(self, *, until: str | None = None, only: str | None = None) -> list[Stage]:
        """Return all stages, those up to one, or a single one."""
        if not self.stages:
            raise Refused(f"{self.output}: the pipeline has no stages; add one")
        if only is not None:
            return [self.stage_named(only, "--only")]
        if until is None:
            return self.stages
        stage: Stage | None = self.stage_named(until, "--until")
        names = set()
        while stage is not None:
            names.add(stage.name)
            stage = stage.before
        return [stage for stage in self.stages if stage.name in names]

    def with_options(self, given: Mapping[str, Any]) -> "Pipeline":
        """Return the pipeline with options that all its stages get."""
        other = Pipeline(self.output)
        other.queue = self.queue
        made: dict[str, Stage] = {}
        for stage in self.stages:
            options = dataclasses.replace(stage.options, **given)
            before = made[stage.before.name] if stage.before else None
            made[stage.name] = dataclasses.replace(stage, options=options, before=before)
        other.stages = [*made.values()]
        return other

    def described(self) -> dict[str, Any]:
        """Return the stages and the edges between them, as they are stored."""
        fields = ("name", "from", "adds_columns", "keep")
        values = (
            (stage.name, stage.before.name if stage.before else None, stage.outputs.adds_columns, stage.keep)
            for stage in self.stages
        )
        return {"stages": [dict(zip(fields, row, strict=True)) for row in values]}

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
            options: Those of `RunOptions`, for all stages.
        """
        from splitter.outputs.frame import read_manifest
        from splitter.pipeline.running import run_stages

        pipeline = self.with_options(options)
        stages = pipeline.chosen(until=until, only=only)
        result = run_stages(pipeline, stages, **_display_options(options))
        result.raise_stop()
        return {stage.name: read_manifest(stage.outputs.folder) for stage in stages}


def _display_options(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: options[name] for name in ("quiet", "progress") if name in options}


def _refuse_options(name: str, options: RunOptions, *, adds_columns: bool, has_list: bool) -> None:
    default = RunOptions()
    given = {
        field.name
        for field in dataclasses.fields(options)
        if getattr(options, field.name) != getattr(default, field.name)
    }
    for option in _OF_ONE_RUN:
        if option in given and option not in ("quiet", "progress"):
            raise Refused(f"stage {name}: {flag(option)} is not for a stage of a pipeline; leave it out")
    if not has_list:
        for option in _OF_LISTS:
            if option in given:
                raise Refused(
                    f"stage {name}: {flag(option)} is for a list, and it takes a stage; leave it out"
                )
    if adds_columns and options.sink != "files":
        raise Refused(f"stage {name}: adds columns and makes no files; leave --sink out")
    if options.executor == "ray" and options.address is None:
        raise Refused(
            f"stage {name}: --executor ray needs --address, since stages share a cluster: start one with "
            "'ray start --head', and use --address auto; or leave --executor out"
        )
