"""From one recipe to the next: what the columns of a manifest are called in the run over its outputs.

manifest of the first stage     label  input       output  size       checksum       part
dataset list of the second      label  from_input  input   from_size  from_checksum  from_part
"""

import itertools
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from splitter.errors import Refused
from splitter.inputs.folders import same_folder
from splitter.inputs.lists import READERS, ListFileSource, suffix_of
from splitter.inputs.manifests import NOT_KEPT, beside, keep_column, schema_of
from splitter.inputs.pieces import CUT, SOURCE_CHECKSUM, SOURCE_SIZE
from splitter.inputs.roots import root_below
from splitter.inputs.shards.index import InputShard, MemberIndex
from splitter.inputs.source import USES, ListReading, SourceRows, refuse_option
from splitter.ledger.keeping import is_left_out
from splitter.ledger.list_copy import description_of
from splitter.ledger.run_files import LISTED
from splitter.storage.layout import Layout, key_hash
from splitter.text.csv import Row
from splitter.text.labels import EARLIER
from splitter.text.urls import is_url, parent

if TYPE_CHECKING:
    from splitter.inputs.listing import InputList

OUTPUT, INPUT = "output", "input"


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


class ManifestSource(ListFileSource):
    """The manifest of an earlier run, whose outputs are the inputs of this one."""

    takes = ListFileSource.takes | {"all_rows"}

    def is_meant(self, location: Any, listing: "InputList") -> bool:  # noqa: ANN401 - as the seam
        """Take a list of which --column asks for the outputs; `read` sees whether it is a manifest."""
        is_plain = isinstance(location, str) and listing.delimiter is None
        return is_plain and listing.column == OUTPUT and suffix_of(location) not in READERS

    def options(self, location: Any) -> set[str]:  # noqa: ANN401
        """Return its options."""
        return super().options(location) | {"all_rows"}

    def read(self, location: Any, listing: "InputList", reading: ListReading) -> SourceRows:  # noqa: ANN401
        """Return the rows that have an output, and the new names of the columns."""
        found = super().read(location, listing, reading)
        labels = labels_of_manifest(location, found.header)
        if labels is None:
            refuse_option(listing.all_rows, "--all-rows", USES["all_rows"])
            return found
        if same_folder(
            parent(location) if is_url(location) else os.path.dirname(location), reading.leave_out
        ):
            raise Refused(
                f"{reading.leave_out}: holds the files that {location} lists; choose another --output"
            )
        rename = names_in_next_stage(found.header, labels, listing.rename or {})
        kept = None if listing.all_rows else keep_column(location, found.header)
        rows = _with_output(found.rows, found.header.index(OUTPUT), kept, reading.tell)
        if {CUT, SOURCE_SIZE, SOURCE_CHECKSUM} <= {*found.header}:
            root = root_below(found.home, os.fspath(listing.root or ""))
            pieces = _EarlierPieces(location, found.header, Layout(root), rename.get(CUT, CUT))
            rows = pieces.noted(rows, reading.members)
        return SourceRows(found.header, rows, found.home, rename)


class _EarlierPieces:
    """Virtual pieces of an earlier run, whose recordings are to be read."""

    def __init__(self, manifest: str, header: Row, layout: Layout, column: str) -> None:
        """Find out where the recordings are; `layout` locates pieces, and `column` says how to cut them."""
        content = beside(manifest, LISTED.name)
        if content is None:
            raise Refused(f"{manifest}: has virtual pieces, and no {LISTED.name} beside it; restore it")
        try:
            listed = description_of(content)
            self._at = [header.index(name) for name in (listed.column, OUTPUT, SOURCE_SIZE, SOURCE_CHECKSUM)]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise Refused(f"{LISTED.name} beside {manifest}: {LISTED.fault_of(error)}") from None
        self._recordings, self._layout, self._column = Layout(listed.root), layout, column
        self._size_at = header.index("size")
        # what a piece is about as large as
        self._frames = [header.index(name) for name in ("frames", "channels") if name in header]

    def noted(self, rows: Iterable[Row], index: MemberIndex) -> Iterator[Row]:
        """Yield all rows, and note where the pieces among them are, recording after recording."""
        for (listed, size, checksum), together in itertools.groupby(rows, self._recording_of):
            pieces = [*together]
            if checksum:
                number = int(size) if size.isdecimal() else 0
                where = self._recordings.location(listed)
                version = key_hash(checksum) >> 1
                shard = InputShard(where, "pieces", number, version, column=self._column, checksum=checksum)
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


def _with_output(
    rows: Iterable[Row], at: int, kept: int | None, tell: Callable[[str], None]
) -> Iterator[Row]:
    """Yield the rows of a manifest that have an output file, and are kept."""
    left_out = not_kept = 0
    for row in rows:
        if not row[at]:
            left_out += 1
        elif kept is not None and is_left_out(row[kept]):
            not_kept += 1
        else:
            yield row
    if not_kept:
        tell(NOT_KEPT.format(not_kept))
    if left_out:
        rows_have = "row of the manifest has" if left_out == 1 else "rows of the manifest have"
        tell(f"{left_out:,} {rows_have} no output file: left out")
