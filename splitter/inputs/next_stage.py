"""The manifest of an earlier run as a list: of its outputs, or of its inputs with its metadata as columns."""

import itertools
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from splitter.errors import Refused
from splitter.inputs.folders import same_folder
from splitter.inputs.listing import InputList
from splitter.inputs.lists import READERS, ListFileSource, suffix_of
from splitter.inputs.manifests import (
    INPUT,
    OUTPUT,
    beside,
    keep_column,
    labels_of_manifest,
    manifest_in,
    names_after_columns,
    names_in_next_stage,
    note_left_out,
)
from splitter.inputs.pieces import CUT, SOURCE_CHECKSUM, SOURCE_SIZE
from splitter.inputs.roots import root_below
from splitter.inputs.shards.index import InputShard, MemberIndex, ShardScan
from splitter.inputs.shards.scan import add_members
from splitter.inputs.source import USES, ListReading, SourceRows, refuse_option
from splitter.ledger.keeping import is_left_out
from splitter.ledger.list_copy import ListDescription, description_of
from splitter.ledger.records import SKIPPED_COLUMN
from splitter.ledger.run_files import LISTED
from splitter.storage.layout import Layout, key_hash
from splitter.stores.files import Found
from splitter.text.csv import CsvFile, Row
from splitter.text.labels import EARLIER
from splitter.text.urls import is_url, parent

# columns about a virtual piece: its name, the recording it is cut from, and its own size
_OF_PIECES = (OUTPUT, SOURCE_SIZE, SOURCE_CHECKSUM, "size", "frames", "channels")


class ManifestSource(ListFileSource):
    """The manifest of an earlier run, whose outputs are the inputs of this one."""

    takes = ListFileSource.takes | {"all_rows"}

    def is_meant(self, location: Any, listing: InputList) -> bool:  # noqa: ANN401 - as the seam
        """Accept a list with --column output; `read` finds out whether it is a manifest."""
        is_plain = isinstance(location, str) and listing.delimiter is None
        return is_plain and listing.column == OUTPUT and suffix_of(location) not in READERS

    def read(self, location: Any, listing: InputList, reading: ListReading) -> SourceRows:  # noqa: ANN401
        """Return the rows that have an output, and the new names of the columns."""
        found = super().read(location, listing, reading)
        labels = labels_of_manifest(location, found.header)
        if labels is None:
            refuse_option(listing.all_rows, "--all-rows", USES["all_rows"])
            return found
        _refuse_own_folder(location, reading.leave_out)
        if not any(row[found.header.index(OUTPUT)] for row in found.rows):
            raise Refused(
                f"{location}: no row has an output file; leave out --column {OUTPUT} to take the inputs of "
                "that run again, with its metadata as labels"
            )
        rename = names_in_next_stage(found.header, labels, listing.rename or {})
        kept = None if listing.all_rows else keep_column(location, found.header)
        rows = _with_output(found.rows, found.header.index(OUTPUT), kept, reading)
        if {CUT, SOURCE_SIZE, SOURCE_CHECKSUM} <= {*found.header}:
            root = root_below(found.home, os.fspath(listing.root or ""))
            pieces = _EarlierPieces(location, found.header, Layout(root), {}, rename.get(CUT, CUT))
            rows = pieces.noted(rows, reading.members)
        return SourceRows(found.header, rows, found.home, rename)


class AnyListSource(ListFileSource):
    """Any list, also the manifest of a run without output files, which names the inputs of that run."""

    def read(self, location: Any, listing: InputList, reading: ListReading) -> SourceRows:  # noqa: ANN401
        found = super().read(location, listing, reading)
        if not isinstance(found.rows, CsvFile) or labels_of_manifest(location, found.header) is None:
            return found
        listed = _description_beside(location)
        output = found.header.index(OUTPUT)
        if listed is None or listed.column != listing.column or any(row[output] for row in found.rows):
            return found
        _refuse_own_folder(location, reading.leave_out)
        if listing.root is None:
            found = replace(found, home=listed.root)
        layout = Layout(root_below(found.home, os.fspath(listing.root or "")))
        rows = _noted(found, listing, listed, layout, reading)
        names = names_after_columns(found.header, listing.rename)
        # --keep keeps no input without an output file, so its column says nothing here
        kept = keep_column(location, found.header)
        chosen = [at for at, name in enumerate(found.header) if name in names and at != kept]
        skipped = found.header.index(SKIPPED_COLUMN) if SKIPPED_COLUMN in found.header else None
        header = [found.header[at] for at in chosen]
        return replace(found, header=header, rows=_chosen(rows, chosen, skipped, reading.tell))


def _noted(
    found: SourceRows, listing: InputList, listed: ListDescription, layout: Layout, reading: ListReading
) -> Iterable[Row]:
    """Return the rows; note where the inputs in shards and the virtual pieces among them are."""
    at = found.header.index(listing.column)
    add_members((layout.location(row[at]) for row in found.rows), listed.member, reading.members)
    names = {name: EARLIER + name for name in (INPUT, *_OF_PIECES)} | {OUTPUT: listing.column}
    if not {EARLIER + name for name in (CUT, SOURCE_SIZE, SOURCE_CHECKSUM)} <= {*found.header}:
        return found.rows
    cut = (listing.rename or {}).get(EARLIER + CUT, EARLIER + CUT)
    pieces = _EarlierPieces(manifest_in(layout.root), found.header, layout, names, cut)
    return pieces.noted(found.rows, reading.members)


def _chosen(
    rows: Iterable[Row], chosen: list[int], skipped: int | None, tell: Callable[[str], None]
) -> Iterator[Row]:
    """Yield the columns `chosen` of inputs that were not skipped, and tell the user how many were."""
    left_out = 0
    for row in rows:
        if skipped is not None and row[skipped]:
            left_out += 1
        else:
            yield [row[at] for at in chosen]
    if left_out:
        were = "row of the manifest was" if left_out == 1 else "rows of the manifest were"
        tell(f"{left_out:,} {were} skipped: left out")


def _refuse_own_folder(manifest: str, output: str) -> None:
    """Refuse an output folder that contains the manifest to read."""
    if same_folder(parent(manifest) if is_url(manifest) else os.path.dirname(manifest), output):
        raise Refused(f"{output}: holds the run that {manifest} lists; choose another --output")


def _description_beside(manifest: str) -> ListDescription | None:
    """Return the description of the list from which a manifest was made; None if it is missing."""
    content = beside(manifest, LISTED.name)
    try:
        return description_of(content) if content is not None else None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Refused(f"{LISTED.name} beside {manifest}: {LISTED.fault_of(error)}") from None


class _EarlierPieces:
    """Virtual pieces of an earlier run, to be cut from their recordings."""

    def __init__(
        self, manifest: str, header: Row, layout: Layout, names: Mapping[str, str], column: str
    ) -> None:
        """Find the columns that locate the recordings.

        `layout` locates pieces, `names` maps columns of the manifest to their names in the header where these
        differ, and `column` is the column of the list that says how to cut a piece.
        """
        listed = _description_beside(manifest)
        if listed is None:
            raise Refused(f"{manifest}: has virtual pieces, and no {LISTED.name} beside it; restore it")
        names = {name: names.get(name, name) for name in (listed.column, *_OF_PIECES)}
        try:
            self._at = [header.index(names[name]) for name in (listed.column, *_OF_PIECES[:3])]
        except ValueError as error:
            raise Refused(f"{LISTED.name} beside {manifest}: {LISTED.fault_of(error)}") from None
        self._recordings, self._layout, self._column = Layout(listed.root), layout, column
        self._size_at = header.index(names["size"])
        # numbers whose product gives the approximate size of a piece
        self._frames = [header.index(names[name]) for name in _OF_PIECES[4:] if names[name] in header]

    def noted(self, rows: Iterable[Row], index: MemberIndex) -> Iterator[Row]:
        """Yield all rows, and note where the virtual pieces among them are, one recording at a time."""
        for (listed, size, checksum), together in itertools.groupby(rows, self._recording_of):
            pieces = [*together]
            if checksum:
                state = Found(int(size) if size.isdecimal() else 0, key_hash(checksum) >> 1)
                where = self._recordings.location(listed)
                shard = InputShard(where, "pieces", state, column=self._column, checksum=checksum)
                names = [self._layout.location(row[self._at[1]]) for row in pieces]
                about = enumerate(map(self._bytes_of, pieces))
                index.add(ShardScan(shard, [("", at, bytes_of, {}, "") for at, bytes_of in about]), names)
            yield from pieces

    def _recording_of(self, row: Row) -> tuple[str, str, str]:
        """Return the recording of a virtual piece, its size and its checksum; empty for a file."""
        if row[self._size_at]:
            return "", "", ""
        listed, _, size, checksum = (row[at] for at in self._at)
        return listed, size, checksum

    def _bytes_of(self, row: Row) -> int:
        numbers = [int(row[at]) if row[at].isdecimal() else 0 for at in self._frames]
        return 2 * math.prod(numbers) if numbers else 0


def _with_output(rows: Iterable[Row], at: int, kept: int | None, reading: ListReading) -> Iterator[Row]:
    """Yield the rows with an output file that --keep keeps; tell the user how many rows are left out."""
    left_out = not_kept = 0
    for row in rows:
        if not row[at]:
            left_out += 1
        elif kept is not None and is_left_out(row[kept]):
            not_kept += 1
        else:
            yield row
    note_left_out(not_kept, reading)
    if left_out:
        rows_have = "row of the manifest has" if left_out == 1 else "rows of the manifest have"
        reading.tell(f"{left_out:,} {rows_have} no output file: left out")
