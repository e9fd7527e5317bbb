"""Dataset lists, folders and Python objects -> a header, and the rows below it."""

import contextlib
import os
import stat
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import IO, Any

from splitter.csv_text import CsvFile, Row, csv_rows, empty_list, json_fields, python_text
from splitter.errors import Refused
from splitter.inputs.joining import Labels, Tally, columns_to_join_by
from splitter.inputs.parquet import values_of
from splitter.inputs.places import OWN_FOLDER, RESERVED_FOLDERS, Layout
from splitter.inputs.shard_inputs import is_archive, is_parquet, read_shards
from splitter.inputs.shards import MemberIndex, plain
from splitter.inputs.where import condition
from splitter.row_groups import MOST_AT_ONCE, batches_of
from splitter.stages import OUTPUT, labels_of_manifest, names_in_next_stage
from splitter.storage.listings import (
    OUTPUT_FOLDER,
    Known,
    PassOver,
    fetched_list,
    is_meant,
    is_remote_folder,
    refuse_password,
    remote_files,
)
from splitter.urls import begin_of, file_name, is_url, joined, parent, without_scheme, without_secrets

# of a list are in memory at once
ROWS_TOGETHER = 10_000
# what pairs hold beside the path
LABEL = "label"


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
        return InputList(Several((*_parts_of(self), *_parts_of(other))), column=self.path_column)

    def shown(self) -> str:
        """What is read, in short, for a message."""
        if isinstance(self.source, Several):
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
        if not isinstance(self.source, Several):
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
        return replace(self, source=Several(parts), column=parts[0].path_column, **whole)


@dataclass(frozen=True)
class Several:
    """Lists that are read one after the other."""

    parts: tuple[InputList, ...]


def _parts_of(listing: InputList) -> tuple[InputList, ...]:
    plain = isinstance(listing.source, Several) and listing.labels is None and listing.where is None
    return listing.source.parts if plain else (listing,)


@dataclass
class Reading:
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
    known: Known = field(default_factory=Known)
    tally: Tally = field(default_factory=Tally)
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
class Source:
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
    reading: Reading


def read_source(
    listing: InputList, *, leave_out: str = "", tell: Callable[[str], None] = lambda _: None
) -> Source:
    """What a list names; `leave_out` is the output folder, `tell` is called with what there is to say."""
    return _read(listing, Reading(leave_out, tell))


def _read(listing: InputList, reading: Reading, *, more: bool = False) -> Source:
    """What a list names; `more` says that labels are joined to it later."""
    has_labels = listing.labels is not None
    if isinstance(listing.source, Several):
        found = _read_several(listing, reading, more=more or has_labels)
    else:
        found = _read_one(listing, reading)
    if has_labels:
        _join(found, listing)
    for old in () if more else reading.unnamed:
        there = _named(found.header)
        raise Refused(f"--rename {old}=…: the dataset list has no column {old!r}; it has {there}")
    if listing.where is not None:
        matches = condition(listing.where, found.header)
        found.rows = _matching(found.rows, matches, reading.tally)
    return found


def _join(found: Source, listing: InputList) -> None:
    own, other = columns_to_join_by(listing.on, found.column)
    if own not in found.header:
        raise Refused(f"--on {own}: the dataset list has no column {own!r}; it has {_named(found.header)}")
    if isinstance(listing.labels, (str, bytes, os.PathLike)):
        name = os.fsdecode(listing.labels)
        header, rows, _, _ = _read_list(_absolute(name, "--labels"), None, found.reading.held)
        name = without_secrets(name)
    else:
        name = "labels"
        header, rows = _read_object(listing.labels, other)
    _refuse_twins(header, name)
    labels = Labels(name, header, rows, other)
    header = [found.reading.unnamed.pop(column, column) for column in labels.header]
    _refuse_twins(header, name)
    taken = [column for column in header if column in found.header]
    if taken:
        raise Refused(
            f"{name}: has a column {taken[0]!r}, as the dataset list has; --rename {taken[0]}=NEW there"
        )
    found.rows = labels.joined(found.header, found.rows, own, found.column, found.reading.tally)
    found.header = found.header + header


def _matching(rows: Iterable[Row], matches: Callable[[Row], bool], tally: Tally) -> Iterator[Row]:
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


def _unless_none(files: Iterable[str], path: str, patterns: Sequence[str]) -> Iterator[str]:
    """The files of a folder; refuses one without: it is almost always a slip, or a disk that is not there."""
    nothing = True
    for file in files:
        nothing = False
        yield file
    if nothing:
        wanted = f"no file in it is like --pattern {' or '.join(map(repr, patterns))}"
        raise Refused(f"{path}: {wanted if patterns else 'it holds no file'}{_instead(path)}")


def _instead(path: str) -> str:
    """What there is in a folder, where another pattern would find it."""
    example = None if is_url(path) else next(_walk(path, ""), None)
    if example:
        return f"; there is {example!r}, for example"
    return ", but those whose names begin with a dot; check DATASET"


# -- several sources --------------------------------------------------------------------------------------


def _read_several(listing: InputList, reading: Reading, *, more: bool) -> Source:
    """Lists one after the other, their relative paths below the root that all of them have in common."""
    found = [_read(part, reading, more=more) for part in listing.source.parts]
    column = found[0].column
    for part in found:
        if part.column != column:
            part.header = [column if name == part.column else name for name in part.header]
            _refuse_twins(part.header)
    header = list(dict.fromkeys(name for part in found for name in part.header))
    root = _common_root([part.root for part in found])
    return Source(header, _one_after_the_other(found, header, column, root), root, column, reading)


def _one_after_the_other(found: list[Source], header: Row, column: str, root: str) -> Iterator[Row]:
    for part in found:
        places = [header.index(name) for name in part.header]
        at, move = header.index(column), _mover(part.root, root)
        for row in part.rows:
            full = [""] * len(header)
            for place, value in zip(places, row, strict=True):
                full[place] = value
            full[at] = move(full[at])
            yield full


def _mover(root: str, common: str) -> Callable[[str], str]:
    """How a path that is relative to a root is written where another one is that of all."""
    if root == common:
        return lambda text: text
    layout = Layout(root)
    below = common.rstrip("/") + "/"
    if not root.startswith(below) or below == "/":
        return layout.place
    inner = root.removeprefix(below)

    def moved(text: str) -> str:
        return text if text[:1] == "/" or "://" in text else f"{inner}/{text}"

    return moved


def _common_root(roots: list[str]) -> str:
    """The folder that all roots are in; the first of them if there is none, as between two stores."""
    if len({*roots}) == 1:
        return roots[0]
    if not any(map(is_url, roots)):
        return os.path.commonpath(roots)
    if not all(map(is_url, roots)) or len({begin_of(root) for root in roots}) > 1:
        return roots[0]
    begin = begin_of(roots[0])
    same = os.path.commonpath([f"/{root.removeprefix(begin)}" for root in roots])
    return (begin + same).rstrip("/")


def _options_of(part: InputList) -> set[str]:
    """The options that make sense for a source."""
    both = {"column"}
    if isinstance(part.source, Several):
        return both.union(*map(_options_of, part.source.parts))
    if not isinstance(part.source, (str, bytes, os.PathLike)):
        return both | {"root"}
    path = _absolute(os.fsdecode(part.source), "DATASET")
    if is_archive(path):
        return {"member"}
    if _is_folder(path):
        return both | {"pattern", "folder_label"}
    return both | {"root"} | (set() if _suffix(path) in _READERS else {"delimiter"})


# -- one source -------------------------------------------------------------------------------------------


def _read_one(listing: InputList, reading: Reading) -> Source:
    source = listing.source
    if isinstance(source, (str, bytes, os.PathLike)):
        path = _absolute(os.fsdecode(source), "DATASET")
        shards = _read_members(path, listing, reading)
        if shards is not None:
            header, rows, home = shards
        elif _is_folder(path):
            path = joined(path, "") if is_url(path) else path
            header, rows = _read_folder(path, listing, reading)
            home = path
        else:
            header, rows, home = _read_listed(path, listing, reading.held)
            stage = _as_stage(path, header, listing, reading.leave_out)
            if stage is not None:
                listing, rows = stage, _with_output(rows, header.index(OUTPUT), reading.tell)
    else:
        _refuse_option(listing.delimiter, "--delimiter", "a list in a CSV file")
        _refuse_option(next(iter(listing.patterns), None), "--pattern", "a folder")
        _refuse_option(listing.folder_label, "--folder-label", "a folder")
        _refuse_option(listing.member, "--member", _SHARDS)
        header, rows = _read_object(source, listing.column)
        home = os.getcwd()
    root = _root(home, os.fspath(listing.root or ""))
    return Source(_renamed(header, listing, reading), rows, root, listing.path_column, reading)


_SHARDS = "tar archives and Parquet files with contents"


def _read_members(path: str, listing: InputList, reading: Reading) -> tuple[Row, Iterable[Row], str] | None:
    """The inputs that stand in shards; None for any other source."""
    shards = (is_archive(path) or is_parquet(path)) and not os.path.isdir(path)
    found = (
        read_shards(path, listing.column, listing.member, reading.members, reading.tell) if shards else None
    )
    if found is None:
        _refuse_option(listing.member, "--member", _SHARDS)
        return None
    if listing.column != "input":
        raise Refused(f"--column {listing.column}: is only for a dataset list; leave it out, or see --member")
    _refuse_option(listing.delimiter, "--delimiter", "a list in a CSV file")
    _refuse_option(next(iter(listing.patterns), None), "--pattern", "a folder")
    _refuse_option(listing.folder_label, "--folder-label", "a folder")
    _refuse_option(listing.root, "--root", "a dataset list")
    return found


def _root(home: str, asked: str) -> str:
    """The folder or URL that relative paths start from."""
    if is_url(asked):
        refuse_password(asked)
        return joined(asked, "")
    if is_url(home) and not os.path.isabs(os.path.expanduser(asked)):
        return joined(home, asked)
    root = os.path.normpath(os.path.join(home, os.path.expanduser(without_scheme(asked))))
    if not os.path.isdir(root):
        raise Refused(f"{root}: the folder that inputs are relative to is not there; check --root")
    return root


def _absolute(path: str, what: str) -> str:
    """A path from the root of the file system, or a URL."""
    if is_url(path):
        refuse_password(path)
        return path
    if not path or "\0" in path:
        raise Refused(f"{what} {path!r}: names no file; give a list or a folder")
    if path.startswith("pipe:"):
        raise Refused(f"{path}: commands are not run; give the shards as files or URLs")
    return os.path.abspath(os.path.expanduser(without_scheme(path)))


def _suffix(path: str) -> str:
    return os.path.splitext(file_name(path) if is_url(path) else path)[1].lower()


def _is_folder(path: str) -> bool:
    if not is_url(path):
        return os.path.isdir(path)
    # to ask takes a client, which takes a second to start
    return path.endswith("/") or (_suffix(path) not in _LISTS and is_remote_folder(path))


def _read_folder(path: str, listing: InputList, reading: Reading) -> tuple[Row, Iterable[Row]]:
    _refuse_option(listing.delimiter, "--delimiter", "a list in a CSV file")
    _refuse_option(listing.root, "--root", "a dataset list")
    patterns, leave_out = listing.patterns, reading.leave_out
    reading.tally.chosen = reading.tally.chosen or bool(patterns)
    if _same_folder(path, leave_out):
        raise Refused(f"{path}: is the folder of the inputs; choose another --output")
    meant, passed_over = is_meant(patterns), reading.tally.passed_over

    def pass_over(name: str, kind: str) -> None:
        if kind == OUTPUT_FOLDER or meant(name):
            passed_over[kind] += 1

    if is_url(path):
        files = remote_files(path, patterns, leave_out, reading.known, pass_over)
    else:
        files = filter(meant, _walk(path, leave_out, pass_over))
    files = _unless_none(files, path, patterns)
    if listing.folder_label is None:
        return [listing.column], ([file] for file in files)
    if not listing.folder_label:
        raise Refused("--folder-label '': names no column; write --folder-label label")
    # the folder that holds the file, as audiofolder and ImageFolder have it
    rows = ([file, file.rpartition("/")[0].rpartition("/")[2]] for file in files)
    return [listing.column, listing.folder_label], rows


def _read_listed(path: str, listing: InputList, held: list[IO[bytes]]) -> tuple[Row, Iterable[Row], str]:
    _refuse_option(next(iter(listing.patterns), None), "--pattern", "a folder")
    _refuse_option(listing.folder_label, "--folder-label", "a folder")
    header, rows, name, home = _read_list(path, listing.delimiter, held)
    if listing.column not in header:
        if not all(map(_is_printable, header)):
            advice = f"to process that one file, give its folder, and --pattern {os.path.basename(name)!r}"
            raise Refused(f"{name}: is not a dataset list, since it is not text; {advice}")
        raise Refused(
            f"{name}: has no column {listing.column!r}; it has {_named(header)}; {_column_advice(header)}"
        )
    return header, rows, home


def _read_list(
    path: str, delimiter: str | None, held: list[IO[bytes]]
) -> tuple[Row, Iterable[Row], str, str]:
    """The header and the rows of a list, its name for messages, and the folder or URL that it is in."""
    suffix, name, home = _suffix(path), path, os.path.dirname(path)
    if is_url(path):
        name, home = without_secrets(path), parent(path)
        file, path = fetched_list(path)
        held.append(file)
    elif os.path.exists(path) and not os.path.isfile(path):
        raise Refused(f"{path}: is not a plain file, and a dataset list is read more than once")
    reader = _READERS.get(suffix)
    if reader:
        _refuse_option(delimiter, "--delimiter", "a list in a CSV file")
    delimiter = _usual_delimiter(suffix) if delimiter is None else delimiter
    try:
        header, rows = reader(path, name) if reader else _read_csv(path, name, delimiter)
    except OSError as error:
        advice = "; check its path" if isinstance(error, FileNotFoundError) else ""
        raise Refused(f"{name}: the dataset list cannot be read: {error.strerror or error}{advice}") from None
    return header, rows, name, home


def _as_stage(path: str, header: Row, listing: InputList, leave_out: str) -> InputList | None:
    """With the names that its columns get, if a list is a manifest whose outputs are meant."""
    if listing.column != OUTPUT or listing.delimiter is not None or _suffix(path) in _READERS:
        return None
    labels = labels_of_manifest(path, header)
    if labels is None:
        return None
    if _same_folder(parent(path) if is_url(path) else os.path.dirname(path), leave_out):
        raise Refused(f"{leave_out}: holds the files that {path} lists; choose another --output")
    return replace(listing, rename=names_in_next_stage(header, labels, listing.rename or {}))


def _same_folder(one: str, other: str) -> bool:
    """Whether two folders are the same; a URL is never a local one."""
    if not other or is_url(one) or is_url(other):
        return bool(other) and one.rstrip("/") == other.rstrip("/")
    return os.path.realpath(one) == os.path.realpath(other)


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


def _refuse_option(value: object, option: str, use: str) -> None:
    if value is not None:
        raise Refused(f"{option} {value!r} is only for {use}; leave it out")


def _usual_delimiter(suffix: str) -> str:
    return "\t" if suffix == ".tsv" else ","


def _named(header: Row) -> str:
    return ", ".join(repr(name) for name in header[:10])


def _column_advice(header: Row) -> str:
    for sign in (";", "\t", "|", ",") if len(header) == 1 else ():
        if sign in header[0]:
            return f"is it --delimiter {sign!r}?"
    meant = [name for name in header if name.strip().lower() == "input"]
    if meant:
        return f"is it --column {meant[0]!r}?"
    return "name the column of the paths with --column; the first line must hold the names of the columns"


def _read_csv(path: str, name: str, delimiter: str) -> tuple[Row, Iterable[Row]]:
    # a shell hands '\t' on as it is written
    delimiter = "\t" if delimiter == "\\t" else delimiter
    if len(delimiter) != 1 or delimiter in '"\r\n':
        raise Refused(f"--delimiter {delimiter!r}: must be one character, and no quote or line end")
    with contextlib.closing(csv_rows(path, delimiter, name)) as rows:
        header = next(rows, None)
    if header is None:
        raise empty_list(name)
    # opened again when the rows are wanted, so that nothing is left open when the list is refused
    return header, CsvFile(path, delimiter, len(header), name)


def _read_jsonl(path: str, name: str) -> tuple[Row, Iterator[Row]]:
    header: dict[str, None] = {}
    for entry in _json_objects(path, name):
        header.update(dict.fromkeys(entry))
    if not header:
        raise empty_list(name)
    rows = ([entry.get(key, "") for key in header] for entry in _json_objects(path, name))
    return list(header), rows


def _json_objects(path: str, name: str) -> Iterator[dict[str, str]]:
    with open(path, encoding="utf-8-sig", errors="surrogateescape", newline="\n") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                fields = json_fields(line)
            except (ValueError, RecursionError) as error:
                raise Refused(f"{name}: line {number} is not JSON ({error}); mend that line") from None
            if fields is None:
                raise Refused(f"{name}: line {number} is not a JSON object; write one object a line")
            yield fields


def _read_parquet(path: str, name: str) -> tuple[Row, Iterator[Row]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(path)
    except pa.ArrowInvalid as error:
        raise Refused(f"{name}: is not Parquet ({error})") from None
    return file.schema_arrow.names, _parquet_rows(name, file)


def _parquet_rows(name: str, file: Any) -> Iterator[Row]:  # noqa: ANN401 - pyarrow says nothing of its types
    import pyarrow as pa

    try:
        rows = size = 0
        for batch in batches_of(file, file.schema_arrow.names):
            rows, size = rows + len(batch), size + batch.nbytes
            if size > MOST_AT_ONCE:
                raise ValueError(f"{rows:,} rows unpack to {size:,} bytes")  # noqa: TRY301 - as of what Arrow raises
            if rows >= ROWS_TOGETHER:
                rows = size = 0
            columns = map(values_of, batch.columns)
            yield from ([python_text(value) for value in row] for row in zip(*columns, strict=True))
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        raise Refused(f"{name}: is damaged Parquet ({plain(error)}); make it again") from None


_READERS = {".jsonl": _read_jsonl, ".ndjson": _read_jsonl, ".parquet": _read_parquet}
_LISTS = {".csv", ".tsv", ".txt", *_READERS}


def _walk(folder: str, leave_out: str, pass_over: PassOver = lambda *_: None) -> Iterator[str]:
    """The files of a folder and its subfolders, in an order that is the same everywhere.

    `pass_over` is called with what might be taken for an input and is none, and what it is.
    """
    leave_out = os.path.realpath(leave_out) if leave_out else ""
    yield from _walk_below(os.path.realpath(folder), "", {leave_out}, pass_over)


def _walk_below(folder: str, prefix: str, leave_out: set[str], pass_over: PassOver) -> Iterator[str]:
    """The files below a folder; one that leads back to where it is itself is passed over."""
    leave_out = {*leave_out, folder}
    try:
        with os.scandir(folder) as found:
            entries = sorted(found, key=lambda entry: entry.name)
    except OSError as error:
        raise Refused(f"{folder}: cannot be read: {error.strerror}; allow that, or give a list") from None
    is_output = any(entry.name == OWN_FOLDER for entry in entries)
    if is_output and prefix:
        # else what was cut from a recording would be cut once more, beside it
        pass_over(prefix, OUTPUT_FOLDER)
        return
    for entry in entries:
        place = os.path.realpath(entry.path) if entry.is_symlink() else entry.path
        if entry.name.startswith(".") or place in leave_out:
            if _may_be_missed(entry):
                pass_over(prefix + entry.name, "hidden")
            continue
        if is_output and entry.name in RESERVED_FOLDERS and not entry.is_dir():
            # the tables of the run that made this folder
            continue
        if os.path.isdir(place) if entry.is_symlink() else entry.is_dir():
            yield from _walk_below(place, f"{prefix}{entry.name}/", leave_out, pass_over)
        elif _may_hold_data(entry):
            yield prefix + entry.name
        else:
            pass_over(prefix + entry.name, _kind_of(entry))


def _may_be_missed(entry: os.DirEntry[str]) -> bool:
    """A hidden file with an extension; .DS_Store has none, and ._a.wav is what macOS keeps beside a.wav."""
    is_hidden = entry.name.startswith(".") and not entry.name.startswith("._")
    return is_hidden and "." in entry.name[1:] and entry.is_file()


def _kind_of(entry: os.DirEntry[str]) -> str:
    """What a file is that holds no data."""
    mode = entry.stat().st_mode
    return "named pipe" if stat.S_ISFIFO(mode) else "socket" if stat.S_ISSOCK(mode) else "device"


def _may_hold_data(entry: os.DirEntry[str]) -> bool:
    """Not a pipe, a socket or a device; but a link that leads nowhere may have lost its file."""
    try:
        return entry.is_file() or (entry.is_symlink() and not os.path.exists(entry.path))
    except OSError:
        return True


def _read_object(source: Any, column: str) -> tuple[Row, Iterator[Row]]:  # noqa: ANN401 - what a user has
    rows: Iterator[Row]
    if hasattr(source, "itertuples"):
        header = [str(name) for name in source.columns]
        cells = source.astype(object).where(source.notna(), None)
        rows = ([python_text(value) for value in row] for row in cells.itertuples(index=False, name=None))
    else:
        sequence = hasattr(source, "__len__") and hasattr(source, "__getitem__")
        if not sequence or isinstance(source, Mapping):
            kind = type(source).__name__
            raise Refused(
                f"inputs is of type {kind}; give a file, a folder, a list, a DataFrame or a dataset of paths"
            )
        # a torch dataset need not say where it ends, and a pandas Series may count from anywhere
        values = list(source) if hasattr(source, "__iter__") else [source[at] for at in range(len(source))]
        header, rows = _rows_of_values(values, column)
    if column not in header:
        raise Refused(f"inputs: has no column {column!r}; it has {_named(header)}; {_column_advice(header)}")
    return header, rows


def _rows_of_values(values: list[Any], column: str) -> tuple[Row, Iterator[Row]]:
    if any(isinstance(value, Mapping) for value in values):
        # of a DataFrame they may be numbers; 1 and '1' are two columns of one name, and refused as such
        names = list({name: None for value in values for name in _as_mapping(value)}) or [column]
        return [*map(str, names)], ([python_text(value.get(name)) for name in names] for value in values)
    if values and all(map(_is_pair, values)):
        if column == LABEL:
            raise Refused(
                f"inputs: pairs of a path and a label have the columns {LABEL!r} and that of the paths"
            )
        return [column, LABEL], ([os.fspath(path), python_text(label)] for path, label in values)
    for value in values:
        if not isinstance(value, (str, os.PathLike)):
            raise Refused(
                f"inputs: {value!r} is of type {type(value).__name__}; give paths, or dicts that are rows, "
                "or pairs of a path and a label"
            )
    return [column], ([os.fspath(value)] for value in values)


def _is_pair(value: Any) -> bool:  # noqa: ANN401 - what a user has
    two = isinstance(value, (tuple, list)) and len(value) == 2  # noqa: PLR2004
    return two and isinstance(value[0], (str, os.PathLike))


def _as_mapping(value: Any) -> Mapping[Any, Any]:  # noqa: ANN401 - what a user has
    if not isinstance(value, Mapping):
        raise Refused(f"inputs: {value!r} stands among dicts; give paths only, or rows only")
    return value


def _renamed(header: Row, listing: InputList, reading: Reading) -> Row:
    names = listing.rename or {}
    reading.unnamed |= {old: new for old, new in names.items() if old not in header}
    header = [names.get(name, name) for name in header]
    _refuse_twins(header)
    return header


def _refuse_twins(header: Row, name: str = "the dataset list") -> None:
    for column in header:
        if header.count(column) > 1:
            raise Refused(f"the column {column!r} stands twice in {name}; give one another name")
