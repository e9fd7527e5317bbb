"""A list, which may be the manifest of a run that made metadata only: its inputs, with more columns."""

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from splitter.inputs.listing import InputList
from splitter.inputs.lists import ListFileSource
from splitter.inputs.manifests import keep_column, manifest_in
from splitter.inputs.next_stage import (
    INPUT,
    OF_PIECES,
    OUTPUT,
    EarlierPieces,
    description_beside,
    labels_of_manifest,
    names_after_columns,
    refuse_own_folder,
)
from splitter.inputs.pieces import CUT, SOURCE_CHECKSUM, SOURCE_SIZE
from splitter.inputs.roots import root_below
from splitter.inputs.shards.scan import add_members
from splitter.inputs.source import ListReading, SourceRows
from splitter.ledger.list_copy import ListDescription
from splitter.ledger.records import SKIPPED_COLUMN
from splitter.storage.layout import Layout
from splitter.text.csv import CsvFile, Row
from splitter.text.labels import EARLIER


class AnyListSource(ListFileSource):
    """Any list; the manifest of a run that made no output file names the inputs of that run."""

    def read(self, location: Any, listing: InputList, reading: ListReading) -> SourceRows:  # noqa: ANN401
        found = super().read(location, listing, reading)
        if not isinstance(found.rows, CsvFile) or labels_of_manifest(location, found.header) is None:
            return found
        listed = description_beside(location)
        output = found.header.index(OUTPUT)
        if listed is None or listed.column != listing.column or any(row[output] for row in found.rows):
            return found
        refuse_own_folder(location, reading.leave_out)
        if listing.root is None:
            found = replace(found, home=listed.root)
        layout = Layout(root_below(found.home, os.fspath(listing.root or "")))
        rows = _noted(found, listing, listed, layout, reading)
        names = names_after_columns(found.header, listing.rename)
        # of inputs without an output file --keep keeps none
        kept = keep_column(location, found.header)
        chosen = [at for at, name in enumerate(found.header) if name in names and at != kept]
        skipped = found.header.index(SKIPPED_COLUMN) if SKIPPED_COLUMN in found.header else None
        header = [found.header[at] for at in chosen]
        return replace(found, header=header, rows=_chosen(rows, chosen, skipped, reading.tell))


def _noted(
    found: SourceRows, listing: InputList, listed: ListDescription, layout: Layout, reading: ListReading
) -> Iterable[Row]:
    """Return the rows; note where their inputs are that stand in shards, or are virtual pieces."""
    at = found.header.index(listing.column)
    add_members((layout.location(row[at]) for row in found.rows), listed.member, reading.members)
    names = {name: EARLIER + name for name in (INPUT, *OF_PIECES)} | {OUTPUT: listing.column}
    if not {EARLIER + name for name in (CUT, SOURCE_SIZE, SOURCE_CHECKSUM)} <= {*found.header}:
        return found.rows
    cut = (listing.rename or {}).get(EARLIER + CUT, EARLIER + CUT)
    pieces = EarlierPieces(manifest_in(layout.root), found.header, layout, names, cut)
    return pieces.noted(found.rows, reading.members)


def _chosen(
    rows: Iterable[Row], chosen: list[int], skipped: int | None, tell: Callable[[str], None]
) -> Iterator[Row]:
    """Yield some columns of the inputs that were not skipped."""
    left_out = 0
    for row in rows:
        if skipped is not None and row[skipped]:
            left_out += 1
        else:
            yield [row[at] for at in chosen]
    if left_out:
        were = "row of the manifest was" if left_out == 1 else "rows of the manifest were"
        tell(f"{left_out:,} {were} skipped: left out")
