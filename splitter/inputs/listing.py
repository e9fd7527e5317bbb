"""Dataset lists, folders and Python objects -> a header, and the rows below it."""

import os
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import IO, Any

from splitter.errors import Refused
from splitter.inputs.folders import is_folder, read_folder, same_folder
from splitter.inputs.labels import LabelTable, RowTally, columns_to_join_by
from splitter.inputs.lists import (
    READERS,
    column_advice,
    names_shown,
    read_list,
    refuse_option,
    refuse_twins,
    suffix_of,
)
from splitter.inputs.next_stage import OUTPUT, labels_of_manifest, names_in_next_stage
from splitter.inputs.objects import read_object
from splitter.inputs.roots import absolute_path, common_root, path_mover, root_below
from splitter.inputs.shards.index import MemberIndex
from splitter.inputs.shards.scan import is_archive, is_parquet, read_shards
from splitter.inputs.where import condition
from splitter.stores.listings import ListedFiles
from splitter.text.csv import Row
from splitter.text.urls import is_url, joined, parent, without_secrets


@dataclass(frozen=True)
class InputList:
    """Where the inputs are named, and how to read that.

    Attributes:
        source: A CSV, TSV, JSONL or Parquet file, a folder, the URL of one of these, or from Python a list of
            paths or of row dicts, a DataFrame, or a dataset of paths.
        column: The column that holds the paths.
        root: The folder or URL that relative paths start from, itself relative to the list's folder.
        delimiter: What stands between two columns of a CSV list.
        pattern: Which files of a folder source to take: one or several, any of which a file may be like.
        rename: New names for columns.
        folder_label: The name of a column for the folder that each file of a folder source lies in.
        labels: A file, or what else a source may be, whose columns are joined to the rows.
        on: The column to join them by, or two as COLUMN=ITS-COLUMN.
        where: A condition over the columns; other rows are left out.
        member: Which field of each sample in a tar archive is the input, or which column of a Parquet file;
            alternatives separated by semicolons, such as `flac;wav`.
    """

    source: Any
    column: str = "input"
    root: str | os.PathLike[str] | None = None
    delimiter: str | None = None
    pattern: str | Sequence[str] | None = None
    rename: Mapping[str, str] | None = None
    folder_label: str | None = None
    labels: Any = None
    on: str | None = None
    where: str | None = None
    member: str | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be a name or a path."""
        path, text = (str, os.PathLike, type(None)), (str, type(None))
        kinds_of = {"column": (str,), "root": path}
        kinds_of |= dict.fromkeys(("delimiter", "folder_label", "on", "where", "member"), text)
        for name, kinds in kinds_of.items():
            if not isinstance(getattr(self, name), kinds):
                raise Refused(f"InputList: {name}={getattr(self, name)!r:.100} is not text")
        several = isinstance(self.pattern, Sequence) and all(isinstance(one, str) for one in self.pattern)
        if self.pattern is not None and not several:
            raise Refused(f"InputList: pattern={self.pattern!r:.100} is not text, nor a list of texts")
        rename: object = self.rename or {}
        names = [name for pair in rename.items() for name in pair] if isinstance(rename, Mapping) else [None]
        if not all(isinstance(name, str) for name in names):
            raise Refused(f"InputList: rename={rename!r:.100} is not a dict of old names and new ones")
        if self.on is not None and self.labels is None:
            raise Refused(f"--on {self.on!r} is only for --labels; add that, or leave it out")

    def __add__(self, other: "InputList") -> "InputList":
        """Both lists as one: the inputs of this, then those of the other."""
        if not isinstance(other, InputList):
            return NotImplemented
        return InputList(ListSequence((*_parts_of(self), *_parts_of(other))), column=self.path_column)

    def shown(self) -> str:
        """What is read, in short, for a message."""
        if isinstance(self.source, ListSequence):
            return " + ".join(part.shown() for part in self.source.parts)
        if isinstance(self.source, (str, bytes, os.PathLike)):
            return repr(without_secrets(os.fsdecode(self.source)))
        kind = type(self.source).__name__
        # what a dataset's own __len__ does nobody knows
        has_length = isinstance(self.source, (list, tuple)) or hasattr(self.source, "itertuples")
        return f"<{kind} of {len(self.source):,}>" if has_length else f"<{kind}>"

    @property
    def patterns(self) -> tuple[str, ...]:
        """What the name of a file must be like, one of them; none if any name will do."""
        return (self.pattern,) if isinstance(self.pattern, str) else tuple(self.pattern or ())

    @property
    def path_column(self) -> str:
        """What the column of the paths is called from here on."""
        return (self.rename or {}).get(self.column, self.column)

    def with_options(self, **given: Any) -> "InputList":  # noqa: ANN401 - fields of this class
        """The same list read in another way; of several lists each takes what is meant for its kind."""
        rename = {**(self.rename or {}), **given.pop("rename", {})}
        if not isinstance(self.source, ListSequence):
            return replace(self, **given, rename=rename)
        whole = {name: given.pop(name) for name in ("labels", "on", "where") if name in given}
        takes = [_options_of(part) for part in self.source.parts]
        # what none takes is given to all, and refused there
        parts = tuple(
            part.with_options(
                **{
                    name: value
                    for name, value in given.items()
                    if name in own or not any(name in a for a in takes)
                },
                rename=rename,
            )
            for part, own in zip(self.source.parts, takes, strict=True)
        )
        return replace(self, source=ListSequence(parts), column=parts[0].path_column, **whole)


@dataclass(frozen=True)
class ListSequence:
    """Lists that are read one after the other."""

    parts: tuple[InputList, ...]


def _parts_of(listing: InputList) -> tuple[InputList, ...]:
    plain = isinstance(listing.source, ListSequence) and listing.labels is None and listing.where is None
    return listing.source.parts if plain else (listing,)


@dataclass
class ListReading:
    """What comes up while sources are read; whole when all rows have been gone through.

    Attributes:
        leave_out: The output folder.
        tell: Called with what there is to say of the rows.
        known: What stores have told of files.
        tally: What became of rows.
        held: What must stay open until all are read.
        members: Where inputs are that stand in shards.
        unnamed: New names for columns that no list has; labels may have them.
    """

    leave_out: str = ""
    tell: Callable[[str], None] = lambda _: None
    known: ListedFiles = field(default_factory=ListedFiles)
    tally: RowTally = field(default_factory=RowTally)
    held: list[IO[bytes]] = field(default_factory=list)
    members: MemberIndex = field(default_factory=MemberIndex)
    unnamed: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Close what is held when this is no longer needed, also after an error."""
        weakref.finalize(self, _close_all, self.held)


def _close_all(files: list[IO[bytes]]) -> None:
    for file in files:
        file.close()


@dataclass
class ListSource:
    """A source as it is read.

    Attributes:
        header: The names of the columns.
        rows: The rows, which can be gone through once.
        root: The folder or URL that relative paths start from.
        column: The column that holds the paths.
        reading: What comes up on the way.
    """

    header: Row
    rows: Iterable[Row]
    root: str
    column: str
    reading: ListReading


def read_source(
    listing: InputList, *, leave_out: str = "", tell: Callable[[str], None] = lambda _: None
) -> ListSource:
    """What a list names; `leave_out` is the output folder, `tell` is called with what there is to say."""
    return _read(listing, ListReading(leave_out, tell))


def _read(listing: InputList, reading: ListReading, *, more: bool = False) -> ListSource:
    """What a list names; `more` says that labels are joined to it later."""
    has_labels = listing.labels is not None
    if isinstance(listing.source, ListSequence):
        found = _read_several(listing, reading, more=more or has_labels)
    else:
        found = _read_one(listing, reading)
    if has_labels:
        _join(found, listing)
    for old in () if more else reading.unnamed:
        there = names_shown(found.header)
        raise Refused(f"--rename {old}=…: the dataset list has no column {old!r}; it has {there}")
    if listing.where is not None:
        matches = condition(listing.where, found.header)
        found.rows = _matching(found.rows, matches, reading.tally)
    return found


def _join(found: ListSource, listing: InputList) -> None:
    own, other = columns_to_join_by(listing.on, found.column)
    if own not in found.header:
        raise Refused(
            f"--on {own}: the dataset list has no column {own!r}; it has {names_shown(found.header)}"
        )
    if isinstance(listing.labels, (str, bytes, os.PathLike)):
        name = os.fsdecode(listing.labels)
        header, rows, _, _ = read_list(absolute_path(name, "--labels"), None, found.reading.held)
        name = without_secrets(name)
    else:
        name = "labels"
        header, rows = read_object(listing.labels, other)
    refuse_twins(header, name)
    labels = LabelTable(name, header, rows, other)
    header = [found.reading.unnamed.pop(column, column) for column in labels.header]
    refuse_twins(header, name)
    taken = [column for column in header if column in found.header]
    if taken:
        raise Refused(
            f"{name}: has a column {taken[0]!r}, as the dataset list has; --rename {taken[0]}=NEW there"
        )
    found.rows = labels.joined(found.header, found.rows, own, found.column, found.reading.tally)
    found.header = found.header + header


def _matching(rows: Iterable[Row], matches: Callable[[Row], bool], tally: RowTally) -> Iterator[Row]:
    for row in rows:
        if matches(row):
            yield row
        else:
            tally.left_out += 1


def refuse_no_match(condition: str | None, left_out: int) -> None:
    """Refuse a condition that matches no row. A list without rows says what it says."""
    if left_out:
        rows = "the only row does not match" if left_out == 1 else f"none of {left_out:,} rows matches"
        raise Refused(f"--where {condition!r}: {rows}; mend the condition")


# -- several sources --------------------------------------------------------------------------------------


def _read_several(listing: InputList, reading: ListReading, *, more: bool) -> ListSource:
    """Lists one after the other, their relative paths below the root that all of them have in common."""
    found = [_read(part, reading, more=more) for part in listing.source.parts]
    column = found[0].column
    for part in found:
        if part.column != column:
            part.header = [column if name == part.column else name for name in part.header]
            refuse_twins(part.header)
    header = list(dict.fromkeys(name for part in found for name in part.header))
    root = common_root([part.root for part in found])
    return ListSource(header, _one_after_the_other(found, header, column, root), root, column, reading)


def _one_after_the_other(found: list[ListSource], header: Row, column: str, root: str) -> Iterator[Row]:
    for part in found:
        places = [header.index(name) for name in part.header]
        at, move = header.index(column), path_mover(part.root, root)
        for row in part.rows:
            full = [""] * len(header)
            for place, value in zip(places, row, strict=True):
                full[place] = value
            full[at] = move(full[at])
            yield full


def _options_of(part: InputList) -> set[str]:
    """The options that make sense for a source."""
    both = {"column"}
    if isinstance(part.source, ListSequence):
        return both.union(*map(_options_of, part.source.parts))
    if not isinstance(part.source, (str, bytes, os.PathLike)):
        return both | {"root"}
    path = absolute_path(os.fsdecode(part.source), "DATASET")
    if is_archive(path):
        return {"member"}
    if is_folder(path):
        return both | {"pattern", "folder_label"}
    return both | {"root"} | (set() if suffix_of(path) in READERS else {"delimiter"})


# -- one source -------------------------------------------------------------------------------------------


def _read_one(listing: InputList, reading: ListReading) -> ListSource:
    source = listing.source
    if isinstance(source, (str, bytes, os.PathLike)):
        path = absolute_path(os.fsdecode(source), "DATASET")
        shards = _read_members(path, listing, reading)
        if shards is not None:
            header, rows, home = shards
        elif is_folder(path):
            path = joined(path, "") if is_url(path) else path
            header, rows = read_folder(path, listing, reading)
            home = path
        else:
            header, rows, home = _read_listed(path, listing, reading.held)
            stage = _as_stage(path, header, listing, reading.leave_out)
            if stage is not None:
                listing, rows = stage, _with_output(rows, header.index(OUTPUT), reading.tell)
    else:
        refuse_option(listing.delimiter, "--delimiter", "a list in a CSV file")
        refuse_option(next(iter(listing.patterns), None), "--pattern", "a folder")
        refuse_option(listing.folder_label, "--folder-label", "a folder")
        refuse_option(listing.member, "--member", _SHARDS)
        header, rows = read_object(source, listing.column)
        home = os.getcwd()
    root = root_below(home, os.fspath(listing.root or ""))
    return ListSource(_renamed(header, listing, reading), rows, root, listing.path_column, reading)


_SHARDS = "tar archives and Parquet files with contents"


def _read_members(
    path: str, listing: InputList, reading: ListReading
) -> tuple[Row, Iterable[Row], str] | None:
    """The inputs that stand in shards; None for any other source."""
    shards = (is_archive(path) or is_parquet(path)) and not os.path.isdir(path)
    found = (
        read_shards(path, listing.column, listing.member, reading.members, reading.tell) if shards else None
    )
    if found is None:
        refuse_option(listing.member, "--member", _SHARDS)
        return None
    if listing.column != "input":
        raise Refused(f"--column {listing.column}: is only for a dataset list; leave it out, or see --member")
    refuse_option(listing.delimiter, "--delimiter", "a list in a CSV file")
    refuse_option(next(iter(listing.patterns), None), "--pattern", "a folder")
    refuse_option(listing.folder_label, "--folder-label", "a folder")
    refuse_option(listing.root, "--root", "a dataset list")
    return found


def _read_listed(path: str, listing: InputList, held: list[IO[bytes]]) -> tuple[Row, Iterable[Row], str]:
    refuse_option(next(iter(listing.patterns), None), "--pattern", "a folder")
    refuse_option(listing.folder_label, "--folder-label", "a folder")
    header, rows, name, home = read_list(path, listing.delimiter, held)
    if listing.column not in header:
        if not all(map(_is_printable, header)):
            advice = f"to process that one file, give its folder, and --pattern {os.path.basename(name)!r}"
            raise Refused(f"{name}: is not a dataset list, since it is not text; {advice}")
        raise Refused(
            f"{name}: has no column {listing.column!r}; it has {names_shown(header)}; {column_advice(header)}"
        )
    return header, rows, home


def _as_stage(path: str, header: Row, listing: InputList, leave_out: str) -> InputList | None:
    """With the names that its columns get, if a list is a manifest whose outputs are meant."""
    if listing.column != OUTPUT or listing.delimiter is not None or suffix_of(path) in READERS:
        return None
    labels = labels_of_manifest(path, header)
    if labels is None:
        return None
    if same_folder(parent(path) if is_url(path) else os.path.dirname(path), leave_out):
        raise Refused(f"{leave_out}: holds the files that {path} lists; choose another --output")
    return replace(listing, rename=names_in_next_stage(header, labels, listing.rename or {}))


def _with_output(rows: Iterable[Row], at: int, tell: Callable[[str], None]) -> Iterator[Row]:
    """The rows of a manifest that have an output file."""
    left_out = 0
    for row in rows:
        if row[at]:
            yield row
        else:
            left_out += 1
    if left_out:
        rows_have = "row of the manifest has" if left_out == 1 else "rows of the manifest have"
        tell(f"{left_out:,} {rows_have} no output file: left out")


def _is_printable(name: str) -> bool:
    """Whether a column's name can be shown; what begins a recording, or a list in UTF-16, cannot."""
    return all(sign.isprintable() or sign.isspace() for sign in name)


def _renamed(header: Row, listing: InputList, reading: ListReading) -> Row:
    names = listing.rename or {}
    reading.unnamed |= {old: new for old, new in names.items() if old not in header}
    header = [names.get(name, name) for name in header]
    refuse_twins(header)
    return header
