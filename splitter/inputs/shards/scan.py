"""Shards as input: one look at each archive or Parquet file finds the inputs in it, and their labels.

shards-0000.tar      a.flac  a.json  a.txt  b.flac ...      one sample is one input
                       |       |       |
dataset list         input   columns  column
"""

import contextlib
import json
import os
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import IO, Any

from splitter.archives.sources import sources_of
from splitter.errors import Refused
from splitter.inputs.folders import same_folder
from splitter.inputs.listing import InputList
from splitter.inputs.manifests import names_in_next_stage
from splitter.inputs.shards.archives import look_at_archive
from splitter.inputs.shards.arrow import look_at_arrow, open_arrow
from splitter.inputs.shards.index import FIELDS_SHOWN, LONGEST_LABEL, MemberIndex, ShardScan
from splitter.inputs.shards.parquet import column_of_contents, contents_column, look_at_parquet
from splitter.inputs.source import InputSource, ListReading, SourceRows
from splitter.storage.layout import OWN_FOLDER, SHARD_SUFFIXES, SHARDS, Layout
from splitter.system.pool import in_processes
from splitter.text.csv import Row
from splitter.text.urls import file_name, is_url, parent, without_secrets

# also as patterns, such as shards-*.tar*
_ARCHIVE = re.compile(r"\.(tar|tgz)([.*{][^/]*)?", re.IGNORECASE)
_PARQUET = re.compile(r"\.parquet", re.IGNORECASE)
_INSIDE = re.compile(r"\.(tar|tar\.[^/]*|tgz|parquet|arrow)/", re.IGNORECASE)


def _ends_with(ending: re.Pattern[str], text: str) -> bool:
    """Return whether a DATASET, which may be a pattern, has the ending of tar archives or Parquet files."""
    name = file_name(text) if is_url(text) else text.rpartition("/")[2]
    # up to the end of the name: data.tar.parts/list.csv is not an archive, and a.tar.b.tar is one
    return any(ending.fullmatch(name, match.start()) for match in ending.finditer(name))


def shards_of_run(folder: str) -> str:
    """Return a pattern for the shards of an output folder, or of its folder `shards`; empty without any."""
    home = os.path.abspath(folder)
    if os.path.basename(home) == SHARDS:
        home = os.path.dirname(home)
    # these characters have another meaning in a pattern
    if {*home} & {*"*?[{"} or not os.path.isdir(os.path.join(home, OWN_FOLDER)):
        return ""
    with contextlib.suppress(OSError):
        for name in sorted(os.listdir(os.path.join(home, SHARDS))):
            suffix = os.path.splitext(name)[1]
            if suffix in SHARD_SUFFIXES:
                return os.path.join(home, SHARDS, f"*{suffix}")
    return ""


class ShardSource(InputSource):
    """Tar archives, and Parquet files that hold contents."""

    takes = frozenset({"member"})
    looks_inside = True

    def is_meant(self, location: Any, listing: InputList) -> bool:  # noqa: ANN401, ARG002 - as the seam
        """Accept archives, folders with a run's shards, and any Parquet; `read` leaves out lists of paths."""
        if not isinstance(location, str):
            return False
        if os.path.isdir(location):
            return bool(shards_of_run(location))
        return _ends_with(_ARCHIVE, location) or _ends_with(_PARQUET, location)

    def options(self, location: Any) -> set[str]:  # noqa: ANN401
        """Return its options, as if Parquet were a list."""
        return {"member"} if _ends_with(_ARCHIVE, location) else {"column", "root"}

    def read(self, location: Any, listing: InputList, reading: ListReading) -> SourceRows | None:  # noqa: ANN401
        """Return a row for each sample; None for Parquet that is a list."""
        if shards := shards_of_run(location):
            if same_folder(os.path.dirname(os.path.dirname(shards)), reading.leave_out):
                raise Refused(f"{location}: is the input folder; choose another --output")
            reading.tell(f"{location}: holds the shards of an earlier run; their samples are the inputs")
            location = shards
        found = _read_shards(location, listing, reading)
        if found is not None and listing.column != "input":
            advice = "is only for a dataset list; leave it out, or see --member"
            raise Refused(f"--column {listing.column}: {advice}")
        return found


def _read_shards(text: str, listing: InputList, reading: ListReading) -> SourceRows | None:
    """Return the rows of shards; None for Parquet that is a list of paths."""
    # a store's client starts a thread, and this process has yet to fork
    [locations] = _each(lambda name: [source.location for source in sources_of([name])], [text])
    if _ends_with(_PARQUET, text):
        find = partial(contents_column, path_column=listing.column, asked=listing.member)
        [contents] = _each(find, locations[:1])
        if contents is None:
            if len(locations) > 1:
                first = without_secrets(locations[0])
                raise Refused(f"{text}: {first} has no column of bytes; pass one list, or --member COLUMN")
            return None
        look: Callable[[str], ShardScan] = partial(look_at_parquet, column=contents)
    else:
        look = partial(look_at_archive, member=listing.member)
    return rows_of_shards(text, _home(text), locations, look, listing, reading)


def rows_of_shards(  # noqa: PLR0913, PLR0917
    text: str,
    home: str,
    locations: list[str],
    look: Callable[[str], ShardScan],
    listing: InputList,
    reading: ListReading,
) -> SourceRows:
    """Return the rows of shards, after looking at each with `look`; note where the inputs are."""
    index = reading.members
    # rows wait in a file, since not all columns are known before the last row
    rows = tempfile.TemporaryFile("w+", encoding="ascii", prefix="splitter-")  # noqa: SIM115 - closed with `held`
    reading.held.enter_context(rows)
    names: dict[str, None] = {}
    not_text: Counter[str] = Counter()
    before, without = len(index), 0
    instead: tuple[str, ...] = ()
    for location, found in zip(locations, _each(look, locations), strict=True):
        shard_name = _name(location, home)
        texts = [f"{shard_name}/{name}" for name, *_ in found.rows]
        index.add(found, [*map(Layout(home).location, texts)])
        if found.cut:
            index.unread.append(shard_name)
        for listed, (_, _, _, columns, _) in zip(texts, found.rows, strict=True):
            names.update(dict.fromkeys(columns))
            rows.write(json.dumps([listed, columns]) + "\n")
        not_text.update(found.not_text)
        without, instead = without + found.without, instead or found.instead
    if len(index) == before:
        raise _nothing_in(text, listing.member, instead)
    _tell(reading.tell, not_text, without, listing.member)
    renamed = _names(list(names), listing.column)
    return SourceRows([listing.column, *renamed.values()], _rows_in(rows, list(renamed)), home)


def _nothing_in(text: str, member: str | None, instead: Sequence[str]) -> Refused:
    text = without_secrets(text)
    if not instead:
        return Refused(f"{text}: holds no sample; check DATASET")
    there = ", ".join(map(repr, instead[:FIELDS_SHOWN]))
    return Refused(f"{text}: no sample has the field of --member {member!r}; the first has {there}")


def _rows_in(file: IO[str], names: Sequence[str]) -> Iterator[Row]:
    """Yield the rows that wait in a file, with these columns."""
    # close it now, not when the run has ended: it may be large
    with file:
        file.seek(0)
        for line in file:
            listed, columns = json.loads(line)
            yield [listed, *(columns.get(name, "") for name in names)]


def _tell(tell: Callable[[str], None], not_text: Mapping[str, int], without: int, member: str | None) -> None:
    if not_text:
        named = ", ".join(f"{name} ({count:,})" for name, count in [*not_text.items()][:FIELDS_SHOWN])
        tell(f"not text, or longer than {LONGEST_LABEL:,} bytes, so not made into columns: {named}")
    if without:
        samples = "sample has" if without == 1 else "samples have"
        tell(f"{without:,} {samples} no {member or 'input'} besides the labels: left out")


def _names(names: list[str], column: str) -> dict[str, str]:
    """Return the column of each label; columns of an earlier manifest get their names in the next stage."""
    own = {column, "output", "size", "checksum", "skipped", "error", "message", "traceback", "attempts"}
    labels = [name for name in _labels_among(names) if name not in own]
    free = "from_output"
    while free in labels:
        free = f"from_{free}"
    renamed = names_in_next_stage([column, *names], [*labels, column], {"output": free})
    taken = {name: renamed.get(name, name) for name in names}
    if column in taken:
        taken[column] = f"from_{column}"
        while [*taken.values()].count(taken[column]) > 1:
            taken[column] = f"from_{taken[column]}"
    return taken


def _labels_among(names: list[str]) -> list[str]:
    """Return the names that come before those that an earlier run added: the columns of its dataset list."""
    if not {"size", "checksum"} <= {*names} or not {"output", "key"} & {*names}:
        return names
    first = min(names.index(name) for name in ("output", "size") if name in names)
    return [name for name in names[:first] if name != "key"]


# -- which shards -------------------------------------------------------------------------------------------


def add_members(locations: Iterable[str], member: str | None, index: MemberIndex) -> None:
    """Note all members of the shards that contain some locations; skip shards that cannot be read."""
    shards = dict.fromkeys(filter(None, map(_shard_around, locations)))
    for shard, found in zip(shards, _each(partial(_rescan, member=member), [*shards]), strict=True):
        if found is not None:
            index.add(found, [f"{shard}/{name}" for name, *_ in found.rows])


def _shard_around(location: str) -> str:
    """Return the shard that a member is in; empty for a loose file."""
    ends = (match.end() - 1 for match in _INSIDE.finditer(location))
    return next((location[:end] for end in ends if is_url(location) or os.path.isfile(location[:end])), "")


def _rescan(location: str, member: str | None) -> ShardScan | None:
    try:
        if _ends_with(_ARCHIVE, location):
            return look_at_archive(location, member)
        if location.endswith(".arrow"):
            with open_arrow(location) as (_, reader):
                contents = column_of_contents(reader.schema, location, "input", member)
            return look_at_arrow(location, contents) if contents else None
        contents = contents_column(location, path_column="input", asked=member)
        return look_at_parquet(location, contents) if contents else None
    except Refused:
        return None


def _each(function: Callable[[Any], Any], items: list[Any]) -> Iterator[Any]:
    """Yield the result of a function for each item, from another process if any item is at a URL."""
    with contextlib.closing(in_processes(function, items, always_fork=any(map(is_url, items)))) as results:
        yield from results


def _home(text: str) -> str:
    """Return the folder or URL that holds everything that a pattern may match."""
    if is_url(text):
        return parent(re.split(r"[{*\[]", text, maxsplit=1)[0])
    if not os.path.lexists(text):
        text = re.split(r"[{*?\[]", text, maxsplit=1)[0]
    return os.path.dirname(text)


def _name(location: str, home: str) -> str:
    """Return the name of a shard in the dataset list."""
    location = without_secrets(location).partition("?")[0] if is_url(location) else location
    return location.removeprefix(home.rstrip("/") + "/")
