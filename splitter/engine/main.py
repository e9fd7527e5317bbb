"""The main path: from a dataset list to a manifest.

    list -> survey -> compare with the commit records -> batches -> executor -> manifest

What an executor returns is only progress. After every round the commit records say what is left.
"""

import contextlib
import time
from dataclasses import dataclass
from typing import Any, BinaryIO

from splitter.dataset import ProcessorDataset, check_parameters, refuse_columns
from splitter.engine.display import Display, show_names
from splitter.engine.rounds import Work
from splitter.engine.summary import Summary
from splitter.errors import Refused
from splitter.executors.registry import Cluster, Executor, Limits, executor_class
from splitter.inputs.labels import RowTally
from splitter.inputs.listing import InputList, ListSource, read_source, refuse_no_match
from splitter.inputs.survey import Survey, advice_on_missing, survey
from splitter.inputs.table import InputTable, copy_list
from splitter.ledger.recipe_record import recipe_how, seed_of
from splitter.ledger.records import OUTPUT_COLUMNS, OWN_COLUMNS
from splitter.ledger.run_files import LIST, ListDescription
from splitter.options import RunOptions
from splitter.sinks import SINKS, Sink
from splitter.storage.base import Storage
from splitter.storage.layout import Layout
from splitter.text.csv import in_unicode
from splitter.text.show import show_count
from splitter.text.urls import is_url
from splitter.worker.messages import Job

# at URLs, before it is said
MANY_TO_LOOK_AT = 1000


@dataclass(frozen=True)
class RunRequest:
    """What a run is asked for: what runs the batches, the dataset list that is still to be read, the sink."""

    executor: Executor
    listing: InputList
    source: ListSource
    sink: Sink


@dataclass
class Engine:
    """One run, until its list is read and its output folder is taken."""

    dataset: ProcessorDataset
    storage: Storage
    options: RunOptions
    display: Display

    def run(self) -> Summary:
        """Read the list, do what is not done, and bring the manifest together."""
        began = time.monotonic()
        asked = self.asked()
        executor, source = asked.executor, asked.source
        self.storage.prepare()
        with (
            self.storage.locked(elsewhere=executor.elsewhere),
            self.storage.unless_refused(),
            self.storage.working_file(LIST) as file,
        ):
            job, table, found, how = self.surveyed(asked, file)
            advice = advice_on_missing(asked.listing, table, job.layout, found)
            keep_extension, group_rows = self.options.keep_extension, self.dataset.group_rows
            listed = ListDescription(
                source.column, source.root, keep_extension, group_rows, asked.listing.member
            )
            work = Work(job, table, found, listed, self.options, executor, self.display, began)
            work.tally = source.reading.tally
            with contextlib.closing(executor):
                return work.through(how, advice)

    def asked(self) -> "RunRequest":
        """What the run is asked for, before the rows of the list are read; refuses what cannot be."""
        check_parameters(self.dataset, RunOptions.__dataclass_fields__)
        executor = self._executor()
        self.dataset.device = executor.device(self.options.device)
        listing = _listing(self.dataset.inputs, self.options)
        source = read_source(listing, leave_out=self.storage.root, tell=self.display.say)
        sink = SINKS[self.options.sink](self.options)
        _refuse_own_columns(source.header, listing, sink)
        refuse_columns(self.dataset, source.header)
        if self.storage.only_here and (executor.elsewhere or executor.workers):
            message = "is seen by this process alone; use --workers 0 with it, or another URL"
            raise Refused(f"{self.storage.root}: {message}")
        unread = source.reading.members.unread
        if self.options.prune and unread:
            raise Refused(
                f"--prune: {unread[0]} cannot be read to its end, and what was made of the rest would be "
                "removed; mend that archive, or leave --prune out"
            )
        return RunRequest(executor, listing, source, sink)

    def surveyed(self, asked: "RunRequest", file: BinaryIO) -> tuple[Job, InputTable, Survey, dict[str, Any]]:
        """Copy the list to a file, and look at every input once; what workers are told, and how they work."""
        source, header = asked.source, asked.source.header
        table = copy_list(header, source.rows, file, source.column)
        if not len(table):
            refuse_no_match(asked.listing.where, source.reading.tally.left_out)
        self._tell_tally(source.reading.tally)
        layout = Layout(source.root, self.options.keep_extension)
        if len(table) > MANY_TO_LOOK_AT and (table.names_urls or is_url(source.root)):
            self.display.say(f"looking at {show_count(len(table), 'input')}")
        reading, group_rows = source.reading, self.dataset.group_rows
        found = survey(table, layout, group_rows=group_rows, known=reading.known, members=reading.members)
        how = self._how(asked.sink)
        seed, retries = seed_of(how, header), self.options.retries
        # no start of this machine tells what has become of what others have written
        alone = not asked.executor.elsewhere and self.storage.part is None
        durable = self.options.durable or not alone
        job = Job(self.dataset, self.storage, asked.sink, layout, header, table.at, seed, retries, durable)
        return job, table, found, how

    def _tell_tally(self, tally: RowTally) -> None:
        """Name what did not match, before the work."""
        if tally.passed_over:
            kinds = ", ".join(f"{number:,} {kind}" for kind, number in sorted(tally.passed_over.items()))
            self.display.warn(f"left out of the folder: {kinds}")
        if tally.unlabelled:
            names = show_names(tally.unlabelled_names, tally.unlabelled)
            self.display.warn(f"{show_count(tally.unlabelled, 'input')} without labels: {names}")
        if tally.unused:
            names = show_names(tally.unused_names, tally.unused)
            self.display.warn(f"{show_count(tally.unused, 'row')} of --labels without an input: {names}")

    def _executor(self) -> Executor:
        options, recipe = self.options, self.dataset
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
        return executor_class(options.executor)(limits, cluster)

    def _how(self, sink: Sink) -> dict[str, Any]:
        """How inputs are processed: whatever changes the outputs."""
        return {
            **recipe_how(self.dataset, self.display.warn),
            "sink": self.options.sink,
            **sink.options(),
            "keep_extension": self.options.keep_extension,
        }


def _listing(inputs: InputList, options: RunOptions) -> InputList:
    """The list as the recipe was given it, with what the options say of it."""
    names = ("root", "delimiter", "pattern", "folder_label", "labels", "on", "where", "member")
    given = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    if options.column != "input":
        given["column"] = options.column
    return inputs.with_options(**given, rename=options.new_names)


def _refuse_own_columns(header: list[str], listing: InputList, sink: Sink) -> None:
    for name in header:
        if name in sink.own_columns:
            raise Refused(
                f"the dataset list has a column {name!r}, which the shards have of their own; use --rename "
                f"{name}=NEW"
            )
        if sink.needs_columns and name != in_unicode(name):
            raise Refused(
                f"the dataset list has a column {name!r}, which is not UTF-8, as names in shards must be; "
                "use --rename"
            )
        if name in (*OWN_COLUMNS, *dict(sink.columns)):
            message = f"the dataset list has a column {name!r}, which the manifest has of its own"
            message += f"; use --rename {name}=NEW"
            if name == OUTPUT_COLUMNS[0] != listing.column:
                message += f", or --column {name} if it is a manifest whose output files are meant"
            raise Refused(message)
