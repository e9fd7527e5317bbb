"""The manifest from the commit records, with nothing processed: `splitter manifest` and `splitter split`."""

import time
from collections.abc import Callable, Sequence

from splitter.engine.decide import in_shards
from splitter.engine.summary import Summary
from splitter.errors import Refused
from splitter.ledger.journal import Journal
from splitter.ledger.manifest import columns_of
from splitter.ledger.recipe_record import forget_earlier, how_before
from splitter.ledger.records import DONE, FAILED, STALE
from splitter.ledger.run_files import stored_list
from splitter.ledger.splits import COLUMN, GROUPS, RULE, SplitRule, group_column
from splitter.ledger.status import InputStatus, forget_stale
from splitter.ledger.tables import refuse_in_the_way, write_tables
from splitter.storage.base import Storage
from splitter.text.csv import Row
from splitter.worker.messages import Report


def assemble_manifest(
    storage: Storage,
    *,
    others: Sequence[str] | None = None,
    change: Callable[[Row, str], None] | None = None,
    tell: Callable[[str], None] | None = None,
) -> Summary:
    """Bring manifest.csv and errors.csv together from what is committed; nothing is processed.

    `others` names the files that are wanted beside them. `change` is called before they are written, with the
    columns of the manifest, and which of them has the paths; `tell` afterwards, if there is advice to give.
    """
    began = time.monotonic()
    if not storage.is_output():
        raise Refused(f"{storage.root}: is not a splitter output folder; give the --output of a run")
    storage.prepare()
    with storage.locked():
        header, path_column, keys = stored_list(storage)
        refuse_in_the_way(storage, others or [])
        journal = Journal(storage)
        journal.recover()
        journal.load()
        input_status = InputStatus.of(storage, journal, keys)
        if change:
            change(columns_of(journal, input_status.entries[input_status.entries >= 0], header), path_column)
        advice = write_tables(storage, journal, input_status, header, others=others)
        if advice and tell:
            tell(advice)
        why = journal.first_failure(input_status.entries_with(FAILED), path_column)
        if not len(input_status.entries_with(STALE)):
            forget_stale(storage)
            _, earlier = how_before(storage)
            if earlier and not in_shards(journal, input_status.gone).any():
                forget_earlier(storage)
        gone_names = input_status.first_gone(journal, path_column)
        # a skipped input has neither
        made = journal.entries[input_status.entries_with(DONE)]
        journal.compact(input_status.all_entries)
        return Summary.of(
            input_status.status,
            output=storage.root,
            gone=len(input_status.gone_with_outputs),
            gone_names=gone_names,
            first_failure=why,
            work=Report(outputs=int(made["outputs"].sum()), bytes=int(made["bytes"].sum())),
            seconds=time.monotonic() - began,
            assembled=True,
        )


def split_manifest(
    storage: Storage,
    by: str | None,
    fractions: tuple[tuple[str, float], ...],
    seed: int,
    label: str | None = None,
) -> SplitRule:
    """Give the manifest a column `split`, now and whenever it is made again; returns who goes where.

    `label` is a column that the report will ask for.
    """
    stored = []
    # before anything is looked at
    SplitRule("", fractions, seed)

    def change(columns: Row, path_column: str) -> None:
        if COLUMN in columns:
            raise Refused(
                f"{storage.root}: the manifest has a column {COLUMN!r} of the dataset list, or of the "
                "metadata; that one stays as it is"
            )
        if label is not None and label not in columns:
            raise Refused(f"--label {label}: the manifest has no such column; it has {', '.join(columns)}")
        stored.append(SplitRule(group_column(columns, by, (GROUPS[0], path_column)), fractions, seed))
        stored[0].keep(storage)

    assemble_manifest(storage, change=change)
    return stored[0]


def unsplit_manifest(storage: Storage) -> None:
    """Take the column `split` out of the manifest."""

    def change(*_: object) -> None:
        storage.remove([RULE])
        storage.sync([RULE])

    assemble_manifest(storage, change=change)
