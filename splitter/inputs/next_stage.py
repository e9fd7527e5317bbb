"""From one recipe to the next: what the columns of a manifest are called in the run over its outputs.

manifest of the first stage     label  input       output  size       checksum       part
dataset list of the second      label  from_input  input   from_size  from_checksum  from_part

A stage of metadata only has made no files, so the second takes its inputs again, with more columns:

manifest of the first stage     label  input       output  size       checksum       quality
dataset list of the second      label  input                                         quality
"""

import itertools
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from splitter.errors import Refused
from splitter.inputs.folders import same_folder
from splitter.inputs.listing import InputList
from splitter.inputs.lists import READERS, ListFileSource, suffix_of
from splitter.inputs.manifests import beside, keep_column, note_left_out, schema_of
from splitter.inputs.pieces import CUT, SOURCE_CHECKSUM, SOURCE_SIZE
from splitter.inputs.roots import root_below
from splitter.inputs.shards.index import InputShard, MemberIndex
from splitter.inputs.source import USES, ListReading, SourceRows, refuse_option
from splitter.ledger.keeping import is_left_out
from splitter.ledger.list_copy import ListDescription, description_of
from splitter.ledger.records import OUTPUT_COLUMNS, SKIPPED_COLUMN
from splitter.ledger.run_files import LISTED
from splitter.storage.layout import Layout, key_hash
from splitter.stores.files import Found
from splitter.text.csv import Row
from splitter.text.labels import EARLIER
from splitter.text.urls import is_url, parent

OUTPUT, INPUT = "output", "input"
# where a virtual piece is cut from, and how much of it
OF_PIECES = (OUTPUT, SOURCE_SIZE, SOURCE_CHECKSUM, "size", "frames", "channels")
_OF_FILES = (*OUTPUT_COLUMNS, SKIPPED_COLUMN)


def labels_of_manifest(path: str, header: Sequence[str]) -> list[str] | None:
    """Return the dataset columns of a manifest in its output folder; None for any other list."""
    if not {OUTPUT, "size", "checksum"} <= {*header}:
        return None
    fields = schema_of(path)
    if not fields:
        return None
    own = {OUTPUT, "size", "checksum", "skipped", *fields["types"]} - {*fields["columns"]}
    # what somebody has added is a label
    return [name for name in header if name not in own]


def names_in_next_stage(
    header: Sequence[str], labels: Sequence[str], rename: Mapping[str, str]
) -> dict[str, str]:
    """Return new names of columns: those of the stage get a prefix, and its outputs are the inputs.

    What `rename` says comes first. Labels keep their names; so do those of the stages before, which came
    along as labels, and a name that is taken gets another prefix.
    """
    kept = [name for name in labels if name != INPUT]
    names = {OUTPUT: INPUT, **rename}
    taken = {*(name for name in kept if name not in names), *names.values()}
    for name in header:
        if name in names or name in kept:
            continue
        new = EARLIER + name
        while new in taken:
            new = EARLIER + new
        taken.add(new)
        names[name] = new
    return names


def names_after_columns(header: Sequence[str], rename: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return what the columns of a stage of metadata only are called after it; those that are left out go.

    Its labels and its metadata keep their names, unless `rename` has others; what a manifest says of output
    files goes, since there are none.
    """
    names = rename or {}
    return {name: names.get(name, name) for name in header if name not in _OF_FILES or name in names}


def columns_to_join(
    path: str, header: Sequence[str], key: str, there: Sequence[str], rename: Mapping[str, str]
) -> list[str]:
    """Return the columns of a file of labels that are joined by the column `key` to those that are there.

    Of a manifest these are the metadata: what it says of files is theirs, and labels are the list's own.
    """
    labels = labels_of_manifest(path, header)
    if labels is None:
        return [*header]
    gone = {*header} - {*names_after_columns(header, rename)} | {*labels} & {*there} - {*rename}
    return [name for name in header if name == key or name not in gone]


class ManifestSource(ListFileSource):
    """The manifest of an earlier run, whose outputs are the inputs of this one."""

    takes = ListFileSource.takes | {"all_rows"}

    def is_meant(self, location: Any, listing: InputList) -> bool:  # noqa: ANN401 - as the seam
        """Take a list of which --column asks for the outputs; `read` sees whether it is a manifest."""
        is_plain = isinstance(location, str) and listing.delimiter is None
        return is_plain and listing.column == OUTPUT and suffix_of(location) not in READERS

    def read(self, location: Any, listing: InputList, reading: ListReading) -> SourceRows:  # noqa: ANN401
        """Return the rows that have an output, and the new names of the columns."""
        found = super().read(location, listing, reading)
        labels = labels_of_manifest(location, found.header)
        if labels is None:
            refuse_option(listing.all_rows, "--all-rows", USES["all_rows"])
            return found
        refuse_own_folder(location, reading.leave_out)
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
            pieces = EarlierPieces(location, found.header, Layout(root), {}, rename.get(CUT, CUT))
            rows = pieces.noted(rows, reading.members)
        return SourceRows(found.header, rows, found.home, rename)


def refuse_own_folder(manifest: str, output: str) -> None:
    """Refuse an output folder that is the one of the manifest which is read."""
    if same_folder(parent(manifest) if is_url(manifest) else os.path.dirname(manifest), output):
        raise Refused(f"{output}: holds the run that {manifest} lists; choose another --output")


def description_beside(manifest: str) -> ListDescription | None:
    """Return how the list of the run named its inputs that made a manifest; None if nothing says it."""
    content = beside(manifest, LISTED.name)
    try:
        return description_of(content) if content is not None else None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Refused(f"{LISTED.name} beside {manifest}: {LISTED.fault_of(error)}") from None


class EarlierPieces:
    """Virtual pieces of an earlier run, whose recordings are to be read."""

    def __init__(
        self, manifest: str, header: Row, layout: Layout, names: Mapping[str, str], column: str
    ) -> None:
        """Find out where the recordings are.

        `layout` locates pieces, `names` says what columns of the manifest are called in the header if not
        the same, and `column` says how to cut pieces.
        """
        listed = description_beside(manifest)
        if listed is None:
            raise Refused(f"{manifest}: has virtual pieces, and no {LISTED.name} beside it; restore it")
        names = {name: names.get(name, name) for name in (listed.column, *OF_PIECES)}
        try:
            self._at = [header.index(names[name]) for name in (listed.column, *OF_PIECES[:3])]
        except ValueError as error:
            raise Refused(f"{LISTED.name} beside {manifest}: {LISTED.fault_of(error)}") from None
        self._recordings, self._layout, self._column = Layout(listed.root), layout, column
        self._size_at = header.index(names["size"])
        # what a piece is about as large as
        self._frames = [header.index(names[name]) for name in OF_PIECES[4:] if names[name] in header]

    def noted(self, rows: Iterable[Row], index: MemberIndex) -> Iterator[Row]:
        """Yield all rows, and note where the pieces among them are, recording after recording."""
        for (listed, size, checksum), together in itertools.groupby(rows, self._recording_of):
            pieces = [*together]
            if checksum:
                state = Found(int(size) if size.isdecimal() else 0, key_hash(checksum) >> 1)
                where = self._recordings.location(listed)
                shard = InputShard(where, "pieces", state, column=self._column, checksum=checksum)
                names = [self._layout.location(row[self._at[1]]) for row in pieces]
                index.add(shard, names, range(len(names)), [*map(self._bytes_of, pieces)], [""] * len(names))
            yield from pieces

    def _recording_of(self, row: Row) -> tuple[str, str, str]:
        """Return the recording of a virtual piece; nothing of what is a file."""
        if row[self._size_at]:
            return "", "", ""
        listed, _, size, checksum = (row[at] for at in self._at)
        return listed, size, checksum

    def _bytes_of(self, row: Row) -> int:
        numbers = [int(row[at]) if row[at].isdecimal() else 0 for at in self._frames]
        return 2 * math.prod(numbers) if numbers else 0


def _with_output(rows: Iterable[Row], at: int, kept: int | None, reading: ListReading) -> Iterator[Row]:
    """Yield the rows of a manifest that have an output file, and are kept."""
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
