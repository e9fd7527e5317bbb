"""The work of a run: options checked, the list read, every input looked at once."""

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from splitter.dataset import (
    ProcessorDataset,
    advice_of,
    check_parameters,
    refuse_columns,
    refuse_missing_programs,
)
from splitter.engine.display import Display
from splitter.engine.sink_rules import refuse_for_shards, refuse_own_columns, refuse_virtual
from splitter.errors import Refused
from splitter.executors.base import Cluster, Executor, Limits
from splitter.inputs.labels import RowTally
from splitter.inputs.listing import InputList
from splitter.inputs.locations import marks_of
from splitter.inputs.reading import ListSource, read_source, refuse_no_match
from splitter.inputs.source import ListReading
from splitter.inputs.stages import StageOutputs
from splitter.inputs.survey import Survey, advice_on_missing, survey
from splitter.inputs.table import InputTable, copy_list
from splitter.ledger.journal import Journal
from splitter.ledger.keeping import OPTION, KeepRule
from splitter.ledger.list_copy import ListDescription
from splitter.ledger.part_shares import bytes_together, inputs_of_part
from splitter.ledger.recipe_record import recipe_how
from splitter.ledger.records import OWN_COLUMNS
from splitter.ledger.shard_groups import Groups
from splitter.ledger.shard_ranges import deal_any
from splitter.options import RunOptions
from splitter.registry import EXECUTORS, SINKS
from splitter.sinks.base import Sink
from splitter.storage.base import Storage
from splitter.storage.layout import Layout
from splitter.storage.naming import Naming
from splitter.text.conditions import columns_in
from splitter.text.name_template import BUILT_IN
from splitter.text.show import show_count, show_names
from splitter.text.spelling import nearest
from splitter.text.urls import is_url
from splitter.worker.messages import Batch, Job

if TYPE_CHECKING:
    from splitter.engine.decide import Decision, State

# URLs; looking at more of them takes long enough to be announced
MANY_TO_LOOK_AT = 1000
# inputs that a recipe may look at before the work
FIRST_INPUTS = 20
# metadata of recipes for sound that is text, not a number
TEXTS_OF_SOUND = {"source_format", "source_subtype", "source_resampler", "source_cut", "cut", "gain_set_by"}
TEXTS_OF_SOUND |= {"label", "labels", "label_starts", "label_ends", "text", "speaker"}


class RunHooks:
    """Hooks for a pipeline, which controls and watches its stages; for any other run, they do nothing."""

    def paced(self, batches: Iterable[Batch | None]) -> Iterable[Batch | None]:
        """Pass batches on to the workers; None means that no batch is ready yet, but more will come."""
        return batches

    def begun(self, run: "Assignment", decision: "Decision", journal: Journal) -> None:
        """Note that everything is decided and the work begins."""

    def note_valid(self, run: "Assignment", state: "State", journal: Journal) -> None:
        """Note which inputs were done before and have not changed."""

    def inputs_in_range(self, found: Survey) -> int | None:
        """Return how many inputs to do together because their outputs are used together, if that matters."""

    def lost(self) -> None:
        """Note that a worker was lost, and with it the batch it was working on."""


@dataclass(frozen=True)
class RunRequest:
    """The request for a run, before the rows of its list are read."""

    dataset: ProcessorDataset
    storage: Storage
    options: RunOptions
    executor: Executor
    listing: InputList
    source: ListSource
    sink: Sink
    hooks: RunHooks = field(default_factory=RunHooks)


@dataclass(frozen=True)
class Assignment:
    """The work of a run, and how it is done: everything known before the commit records are read.

    Attributes:
        options: What the user asked for.
        executor: What runs the batches.
        job: What workers need to know.
        table: The rows of the list.
        survey: The result of looking at each input, such as its size and time.
        listed: How the rows name inputs.
        how: How inputs are processed: everything that changes the outputs.
        groups: Which inputs share a shard; None for loose files.
        mine: Which inputs belong to this part of the run; None without parts.
        tally: Which rows of the list were left out, or have no labels.
        advice: What the user should know before the work begins.
        hooks: Called for the pipeline that the run belongs to, if any.
    """

    options: RunOptions
    executor: Executor
    job: Job
    table: InputTable
    survey: Survey
    listed: ListDescription
    how: dict[str, Any]
    groups: Groups | None
    mine: np.ndarray | None
    tally: RowTally
    advice: str
    hooks: RunHooks

    @property
    def storage(self) -> Storage:
        """The output folder."""
        return self.job.storage

    @property
    def first_inputs(self) -> np.ndarray | None:
        """Which inputs the run may process, by --limit and --part; None for all."""
        if self.options.limit is None:
            return self.mine
        first = np.arange(len(self.table)) < self.options.limit
        return first if self.mine is None else first & self.mine


def read_request(
    dataset: ProcessorDataset, storage: Storage, options: RunOptions, display: Display
) -> RunRequest:
    """Check the options of a run, and find its list; refuse what cannot work."""
    check_parameters(dataset, RunOptions.__dataclass_fields__)
    if options.executor != RunOptions.executor:
        # starting another executor may take seconds
        at = f" at {options.address}" if options.address else " on this machine"
        display.say_meanwhile(f"starting: executor {options.executor}{at}")
    executor = _executor(dataset, options)
    dataset.device = executor.device(options.device)
    listing = listing_of(dataset.inputs, options)
    source = read_source(listing, ListReading(storage.root, dataset.group_rows, display.say))
    sink: Sink = SINKS.load(options.sink, Sink)(options)
    refuse_for_shards(sink, options)
    if not sink.makes_files:
        refuse_virtual(dataset, options)
    refuse_own_columns(source.header, listing, sink)
    refuse_columns(dataset, source.header)
    if not executor.elsewhere:
        refuse_missing_programs(dataset)
    if storage.only_here and (executor.elsewhere or executor.workers):
        message = "exists only in this process; use --workers 0 with it, or another URL"
        raise Refused(f"{storage.root}: {message}")
    unread = source.reading.members.unread
    if options.prune and unread:
        raise Refused(
            f"--prune: {unread[0]} cannot be read to its end, so the outputs made from the rest of it "
            "would be removed; fix that archive, or leave --prune out"
        )
    return RunRequest(dataset, storage, options, executor, listing, source, sink)


def read_assignment(
    request: RunRequest, file: BinaryIO, display: Display, *, keep: bool = True
) -> Assignment:
    """Copy the list to a file, look at every input once, and divide the inputs among shards and parts.

    Without `keep` nothing is written to the output folder.
    """
    source, options, reading = request.source, request.options, request.source.reading
    table = copy_list(source.header, source.rows, file, source.column)
    if not len(table):
        refuse_no_match(request.listing.where, reading.tally.left_out)
    if len(reading.members) and not request.sink.makes_files:
        raise Refused(
            f"--sink {options.sink}: {table.listed(0)} is in a shard, or is a virtual piece itself; use "
            "--sink files"
        )
    _tell_tally(reading.tally, display)
    layout = Layout(source.root, options.keep_extension, _naming(request))
    if len(table) > MANY_TO_LOOK_AT and (table.names_urls or is_url(source.root)):
        display.say(f"checking {show_count(len(table), 'input')}")
    found = survey(table, layout, reading)
    first = (table.input_file(index, layout) for index in range(min(len(table), FIRST_INPUTS)))
    for advice in filter(None, (advice_of(request.dataset, first), _advice_on_keep(request))):
        display.warn(advice)
    how = _how(request, display)
    job = _job(request, layout, table, how)
    groups, mine = _divide(request, found, keep=keep)
    listed = ListDescription(
        source.column,
        source.root,
        options.keep_extension,
        request.dataset.group_rows,
        request.listing.member,
        source.size_column,
        total_bytes=bytes_together(found.sizes),
    )
    return Assignment(
        options=options,
        executor=request.executor,
        job=job,
        table=table,
        survey=found,
        listed=listed,
        how=how,
        groups=groups,
        mine=mine,
        tally=reading.tally,
        advice=advice_on_missing(request.listing, table, layout, found),
        hooks=request.hooks,
    )


def _how(request: RunRequest, display: Display) -> dict[str, Any]:
    """Return how inputs are processed: everything that changes the outputs."""
    how = {
        **recipe_how(request.dataset, display.warn),
        "sink": request.options.sink,
        **request.sink.options(),
        "keep_extension": request.options.keep_extension,
    }
    condition = _keep_in_shards(request)
    return {**how, "keep": condition} if condition else how


def _job(request: RunRequest, layout: Layout, table: InputTable, how: dict[str, Any]) -> Job:
    """Return what workers need to know."""
    header, options = request.source.header, request.options
    # whether this machine was restarted says nothing about outputs that other machines wrote
    alone = not request.executor.elsewhere and request.storage.part is None
    return Job(
        request.dataset,
        request.storage,
        request.sink,
        layout,
        header,
        table.at,
        marks_of(how, header, request.source.size_column),
        options.retries,
        how.get("keep", ""),
        durable=options.durable or not alone,
        items=tuple(request.source.reading.items),
    )


def _divide(request: RunRequest, found: Survey, *, keep: bool) -> tuple[Groups | None, np.ndarray | None]:
    """Return which inputs share a shard, and which belong to this part of the run."""
    storage, options, groups = request.storage, request.options, None
    if not request.sink.divisible:
        shard_bytes, seed, source = options.shard_bytes, options.shuffle, request.listing.source
        # shards that are tables need the columns of the whole list
        in_ranges = isinstance(source, StageOutputs) and not request.sink.needs_columns
        descent_of = source.descent if in_ranges else None
        groups = deal_any(storage, found, descent_of, shard_bytes, seed=seed, afresh=options.fresh, keep=keep)
    if groups is None or storage.part is None:
        return groups, inputs_of_part(storage, found, keep=keep)
    return groups, groups.of_part(found.keys, storage.part)


def _naming(request: RunRequest) -> Naming | None:
    """Return the naming of outputs by --name, if any; refuse a field that is known to stay empty."""
    template, header = request.options.name, request.source.header
    if template is None:
        return None
    naming = Naming(template, header, request.source.column)
    known = _metadata_keys(request)
    unknown = next((name for name in naming.metadata if known and name not in known), None)
    if unknown is not None:
        hint = nearest(unknown, sorted({*header, *known, *BUILT_IN}))
        raise Refused(
            f"--name {template!r}: {{{unknown}}} is neither a column of the dataset list nor metadata that "
            f"this recipe makes{hint}"
        )
    _refuse_formats(naming, request.dataset)
    return naming


def _refuse_formats(naming: Naming, recipe: ProcessorDataset) -> None:
    """Refuse, for a recipe of ours, to format text as a number, or decimals as a whole number."""
    if not _is_for_sound(recipe):
        return
    for one in naming.formats:
        shown = f"--name {naming.template!r}: {{{one.field}:{one.format}}}: {one.field}"
        if one.field in TEXTS_OF_SOUND:
            raise Refused(f"{shown} is text, which has no format; write {{{one.field}}}")
        if one.field.endswith(("_seconds", "_db")) and not one.format.endswith("f"):
            raise Refused(f"{shown} has decimals; write {{{one.field}:.0f}} or {{{one.field}:.3f}}")


def _is_for_sound(recipe: Any) -> bool:  # noqa: ANN401 - to import the class would import all of sound
    """Return whether a recipe is one of ours for sound, whose metadata is known."""
    return hasattr(recipe, "metadata_keys") and type(recipe).__module__.startswith("splitter.recipes.")


def _metadata_keys(request: RunRequest) -> set[str]:
    """Return the keys of all metadata that a recipe of ours can make; nothing if they are not known."""
    recipe: Any = request.dataset
    header = request.source.header
    # a subclass may make more, and annotations add keys that are unknown until they are read
    if not _is_for_sound(recipe) or getattr(recipe, "annotations", None):
        return set()
    keys = recipe.metadata_keys(header)
    return set() if "label" in keys or "labels" in keys else {*keys, "source_cut"}


def _advice_on_keep(request: RunRequest) -> str:
    """Return advice on a column in --keep that the recipe is not known to make, if it says what it makes."""
    keys_of, keep = getattr(request.dataset, "metadata_keys", None), request.options.keep
    # annotations add keys that are unknown until they are read
    if not keep or keys_of is None or getattr(request.dataset, "annotations", None):
        return ""
    header = request.source.header
    known = {*header, *keys_of(header), *OWN_COLUMNS, *dict(request.sink.columns), "source_cut"}
    unknown = next((name for name in columns_in(keep, OPTION) if name not in known), None)
    if unknown is None:
        return ""
    hint = nearest(unknown, sorted(known)) or "; add the --measure that makes it, or use another condition"
    return f"{OPTION} names {unknown!r}, which this recipe is not known to make{hint}"


def _keep_in_shards(request: RunRequest) -> str:
    """Return the condition for outputs to go into shards; nothing for loose files, which are all stored."""
    if request.sink.divisible:
        return ""
    if request.options.keep is not None:
        return request.options.keep
    stored = KeepRule.stored(request.storage)
    return stored.where if stored else ""


def _tell_tally(tally: RowTally, display: Display) -> None:
    """Print, before the work, which files were left out, and which inputs and labels did not match."""
    if tally.passed_over:
        kinds = ", ".join(show_count(number, kind) for kind, number in sorted(tally.passed_over.items()))
        display.warn(f"not taken as inputs: {kinds}")
    if tally.unlabelled:
        names = show_names(tally.unlabelled_names, tally.unlabelled)
        display.warn(f"{show_count(tally.unlabelled, 'input')} without labels: {names}")
    if tally.unused:
        names = show_names(tally.unused_names, tally.unused)
        display.warn(f"{show_count(tally.unused, 'row')} of --labels without an input: {names}")


def _executor(recipe: ProcessorDataset, options: RunOptions) -> Executor:
    least, most = options.workers_asked
    limits = Limits(most, least, options.timeout, options.memory_bytes)
    cluster = Cluster(
        options.address,
        recipe.num_cpus if options.num_cpus is None else options.num_cpus,
        recipe.num_gpus if options.num_gpus is None else options.num_gpus,
        {**recipe.resources, **options.resources_asked},
        options.environment_asked,
        options.verbose,
    )
    return EXECUTORS.load(options.executor, Executor)(limits, cluster)


def listing_of(inputs: InputList, options: RunOptions) -> InputList:
    """Return the list that the recipe was given, with the options applied to it."""
    # fields that both have; --rename is not one of them, since its default is no plain value
    names = [one.name for one in fields(InputList) if hasattr(RunOptions, one.name)]
    given = {
        name: getattr(options, name) for name in names if getattr(options, name) != getattr(RunOptions, name)
    }
    return inputs.with_options(**given, rename=options.new_names)
