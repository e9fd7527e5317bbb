"""Dataset lists and folders -> input files: read, copy, check for collisions, measure.

Whatever the source is, the run uses a copy of it as plain CSV, and holds in memory only a few numbers
for each row: where the row starts in the copy, a hash of its path, the size of its file.
"""

import contextlib
import csv
import errno
import io
import json
import os
import re
import stat
import unicodedata
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from functools import partial
from itertools import islice, pairwise
from typing import Any, BinaryIO
from urllib.parse import unquote

import numpy as np
import xxhash

from splitter.errors import Refused, StorageError, UnreadableInput
from splitter.processes import in_processes
from splitter.records import InputFile, Scratch
from splitter.stages import OUTPUT, labels_of_manifest, names_in_next_stage

OWN_FOLDER = ".splitter"
RESERVED_FOLDERS = frozenset({OWN_FOLDER, "manifest.csv", "errors.csv", "shards"})
ENCODING = "utf-8"
# bytes that are not UTF-8 come through as they are
ESCAPE = "surrogateescape"
UNREADABLE = -1
BLOCK = 10_000
MOST_FOLDERS = 1000
LINES_AT_ONCE = 1 << 22

csv.field_size_limit(2**31 - 1)

Row = list[str]


@dataclass(frozen=True)
class InputList:
    """Where the inputs are named, and how to read that.

    Attributes:
        source: A CSV, TSV, JSONL or Parquet file, a folder, or from Python a list of paths or of row
            dicts, a DataFrame, or a dataset of paths.
        column: The column that holds the paths.
        root: The folder that relative paths start from, itself relative to the list's folder.
        delimiter: What stands between two columns of a CSV list.
        pattern: Which files of a folder source to take.
        rename: New names for columns.
    """

    source: Any
    column: str = "input"
    root: str | os.PathLike[str] | None = None
    delimiter: str | None = None
    pattern: str | None = None
    rename: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be a name or a path."""
        path, text = (str, os.PathLike, type(None)), (str, type(None))
        for name, kinds in (("column", (str,)), ("root", path), ("delimiter", text), ("pattern", text)):
            if not isinstance(getattr(self, name), kinds):
                raise Refused(f"InputList: {name}={getattr(self, name)!r:.100} is not text")
        rename: object = self.rename or {}
        names = [name for pair in rename.items() for name in pair] if isinstance(rename, Mapping) else [None]
        if not all(isinstance(name, str) for name in names):
            raise Refused(f"InputList: rename={rename!r:.100} is not a dict of old names and new ones")

    @property
    def path_column(self) -> str:
        """What the column of the paths is called from here on."""
        return (self.rename or {}).get(self.column, self.column)


class Stage(InputList):
    """The output files of an earlier run, from the manifest in its output folder."""


def with_stage(listing: InputList, *, leave_out: str = "") -> InputList:
    """The same list; with the names that its columns get, if it is a manifest whose outputs are meant."""
    source = listing.source
    if listing.column != OUTPUT or not isinstance(source, (str, bytes, os.PathLike)):
        return listing
    path = os.path.abspath(os.path.expanduser(_without_scheme(os.fsdecode(source))))
    suffix = os.path.splitext(path)[1].lower()
    if listing.delimiter is not None or suffix in _READERS or not os.path.isfile(path):
        return listing
    try:
        header, _ = _read_csv(path, _usual_delimiter(suffix))
    except OSError as error:
        raise Refused(f"{path}: the dataset list cannot be read: {error.strerror or error}") from None
    labels = labels_of_manifest(path, header)
    if labels is None:
        return listing
    if leave_out and os.path.realpath(os.path.dirname(path)) == os.path.realpath(leave_out):
        raise Refused(f"{leave_out}: holds the files that {path} lists; choose another --output")
    rename = names_in_next_stage(header, labels, listing.rename or {})
    same = {field.name: getattr(listing, field.name) for field in fields(listing)}
    return Stage(**{**same, "rename": rename})


# -- CSV, written and read so that every text comes back as it went in ----------------------------------


class CsvText:
    """Turns rows into CSV whose lines end in a bare newline, with a lone carriage return quoted."""

    def __init__(self) -> None:
        """Start with no rows."""
        self._buffer = io.StringIO(newline="")
        # the csv module quotes a carriage return only when it is part of the line terminator
        self._write = csv.writer(self._buffer, lineterminator="\r\n").writerows

    def lines(self, rows: Sequence[Sequence[object]]) -> list[str]:
        """Each row as a line, without its end."""
        text = self._text(rows)
        if text.count("\r") == len(rows):
            return text.split("\r\n")[:-1]
        # some field holds a carriage return, so line ends have to be found one by one
        return [self._text([row])[:-2] for row in rows]

    def encode(self, rows: Sequence[Sequence[object]]) -> bytes:
        """All rows, as they stand in a file."""
        text = self._text(rows)
        if text.count("\r") == len(rows):
            return text.replace("\r", "").encode(ENCODING, ESCAPE)
        return "\n".join([*self.lines(rows), ""]).encode(ENCODING, ESCAPE)

    def _text(self, rows: Sequence[Sequence[object]]) -> str:
        self._buffer.seek(0)
        self._buffer.truncate()
        self._write(rows)
        return self._buffer.getvalue()


def parse_rows(text: bytes) -> list[Row]:
    """The rows of a piece of CSV that `CsvText` made."""
    return list(csv.reader(io.StringIO(text.decode(ENCODING, ESCAPE), newline="")))


# -- sources: each gives the header and then the rows ---------------------------------------------------


def read_source(
    listing: InputList, *, leave_out: str = "", tell: Callable[[str], None] = lambda _: None
) -> tuple[Row, Iterable[Row], str]:
    """The header, the rows and the root folder of a source; `leave_out` is the output folder.

    `tell` is called with what there is to say of the rows when they have been read.
    """
    source = listing.source
    if isinstance(source, (str, bytes, os.PathLike)):
        header, rows, home = _read_path(os.fsdecode(source), listing, leave_out)
        if isinstance(listing, Stage):
            rows = _with_output(rows, header.index(OUTPUT), tell)
    else:
        _refuse_option(listing.delimiter, "--delimiter", "a list in a CSV file")
        _refuse_option(listing.pattern, "--pattern", "a folder")
        header, rows = _read_object(source, listing.column)
        home = os.getcwd()
    if is_url(os.fspath(listing.root or "")):
        raise Refused(f"--root {listing.root}: {CANNOT_READ_URLS}; give a local folder")
    root = os.path.normpath(os.path.join(home, os.path.expanduser(listing.root or "")))
    if not os.path.isdir(root):
        raise Refused(f"{root}: the folder that inputs are relative to is not there; check --root")
    return _renamed(header, listing), rows, root


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


def _read_path(path: str, listing: InputList, leave_out: str) -> tuple[Row, Iterable[Row], str]:
    if is_url(path):
        raise Refused(f"{path}: {CANNOT_READ_URLS}; give a local list or folder as DATASET")
    if not path or "\0" in path:
        raise Refused(f"DATASET {path!r}: names no file; give a list or a folder")
    path = os.path.abspath(os.path.expanduser(_without_scheme(path)))
    if os.path.isdir(path):
        _refuse_option(listing.delimiter, "--delimiter", "a list in a CSV file")
        _refuse_option(listing.root, "--root", "a dataset list")
        if leave_out and os.path.realpath(path) == os.path.realpath(leave_out):
            raise Refused(f"{path}: is the folder of the inputs; choose another --output")
        return [listing.column], _walk(path, listing.pattern or "*", leave_out), path
    _refuse_option(listing.pattern, "--pattern", "a folder")
    if os.path.exists(path) and not os.path.isfile(path):
        raise Refused(f"{path}: is not a plain file, and a dataset list is read more than once")
    suffix = os.path.splitext(path)[1].lower()
    reader = _READERS.get(suffix)
    if reader:
        _refuse_option(listing.delimiter, "--delimiter", "a list in a CSV file")
    delimiter = _usual_delimiter(suffix) if listing.delimiter is None else listing.delimiter
    try:
        header, rows = reader(path) if reader else _read_csv(path, delimiter)
    except OSError as error:
        raise Refused(f"{path}: the dataset list cannot be read: {error.strerror or error}") from None
    if listing.column not in header:
        if not all(map(_is_printable, header)):
            advice = f"to process that one file, give its folder, and --pattern {os.path.basename(path)!r}"
            raise Refused(f"{path}: is not a dataset list, since it is not text; {advice}")
        raise Refused(
            f"{path}: has no column {listing.column!r} but {_named(header)}; {_column_advice(header)}"
        )
    return header, rows, os.path.dirname(path)


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


def _read_csv(path: str, delimiter: str) -> tuple[Row, Iterable[Row]]:
    # a shell hands '\t' on as it is written
    delimiter = "\t" if delimiter == "\\t" else delimiter
    if len(delimiter) != 1 or delimiter in '"\r\n':
        raise Refused(f"--delimiter {delimiter!r}: must be one character, and no quote or line end")
    with contextlib.closing(_csv_rows(path, delimiter)) as rows:
        header = next(rows, None)
    if header is None:
        raise _empty(path)
    # opened again when the rows are wanted, so that nothing is left open when the list is refused
    return header, CsvFile(path, delimiter, len(header))


class CsvFile:
    """The rows of a CSV file, whose bytes may often be copied as they are."""

    def __init__(self, path: str, delimiter: str, width: int) -> None:
        """A row has `width` fields."""
        self._path, self._delimiter, self._width = path, delimiter, width

    def __iter__(self) -> Iterator[Row]:
        """The rows below the header."""
        return islice(_csv_rows(self._path, self._delimiter), 1, None)

    def plain_blocks(self) -> Iterator[tuple[bytes, np.ndarray] | None]:
        """Whole lines and where each ends, first the header, as `CsvText` would write them.

        None where it would not.
        """
        if self._delimiter != ",":
            yield None
            return
        with open(self._path, "rb") as file:
            header = file.readline().removeprefix(b"\xef\xbb\xbf")
            yield self._lines(header)
            while block := file.read(LINES_AT_ONCE):
                block += file.readline()
                yield self._lines(block if block[-1:] == b"\n" else block + b"\n")

    def _lines(self, block: bytes) -> tuple[bytes, np.ndarray] | None:
        block = block.replace(b"\r\n", b"\n")
        if any(sign in block for sign in (b'"', b"\r", b"\0")):
            return None
        numbers = np.frombuffer(block, np.uint8)
        ends = np.flatnonzero(numbers == ord("\n")) + 1
        delimiters = np.searchsorted(np.flatnonzero(numbers == ord(",")), ends)
        whole = (np.diff(delimiters, prepend=0) == self._width - 1).all()
        return (block, ends) if whole and (np.diff(ends, prepend=0) > 1).all() else None


def rows_of_csv(path: str) -> tuple[Row, Iterator[Row]]:
    """The header and the rows of the copy of a list."""
    rows = _csv_rows(path, ",")
    return next(rows), rows


def _empty(path: str) -> Refused:
    return Refused(f"{path}: is empty; a dataset list starts with a line of column names")


def _csv_rows(path: str, delimiter: str) -> Generator[Row, None, None]:
    width = 0
    with open(path, newline="", encoding=ENCODING, errors=ESCAPE) as file:
        if file.read(1) != "\ufeff":
            file.seek(0)
        reader = csv.reader(file, delimiter=delimiter, strict=True)
        try:
            for row in reader:
                if not row:
                    continue
                width = width or len(row)
                if len(row) != width:
                    message = f"has {len(row)} columns where the first line has {width}"
                    raise Refused(f"{path}: line {reader.line_num} {message}; mend that line")
                yield row
        except csv.Error as error:
            raise Refused(f"{path}: line {reader.line_num} is not CSV ({error}); mend that line") from None


def _read_jsonl(path: str) -> tuple[Row, Iterator[Row]]:
    header: dict[str, None] = {}
    for entry in _json_objects(path):
        header.update(dict.fromkeys(entry))
    if not header:
        raise _empty(path)
    return list(header), ([_json_text(entry.get(name)) for name in header] for entry in _json_objects(path))


def _json_objects(path: str) -> Iterator[dict[str, Any]]:
    with open(path, encoding="utf-8-sig", errors="surrogateescape", newline="\n") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                # numbers stay as they are written: 1e5 and 007.0 are text here
                entry = json.loads(line, parse_int=str, parse_float=str, parse_constant=str)
            except (ValueError, RecursionError) as error:
                raise Refused(f"{path}: line {number} is not JSON ({error}); mend that line") from None
            if not isinstance(entry, dict):
                raise Refused(f"{path}: line {number} is not a JSON object; write one object a line")
            if any(isinstance(value, (dict, list)) for value in entry.values()):
                # what is nested stays JSON, and its numbers must not become text
                plain = json.loads(line)
                entry.update({key: value for key, value in plain.items() if isinstance(value, (dict, list))})
            yield entry


def _json_text(value: Any) -> str:  # noqa: ANN401 - whatever JSON holds
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value, ensure_ascii=False)


def _read_parquet(path: str) -> tuple[Row, Iterator[Row]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(path)
    except pa.ArrowInvalid as error:
        raise Refused(f"{path}: is not Parquet ({error})") from None
    return file.schema_arrow.names, _parquet_rows(path, file)


def _parquet_rows(path: str, file: Any) -> Iterator[Row]:  # noqa: ANN401 - pyarrow says nothing of its types
    import pyarrow as pa

    try:
        for batch in file.iter_batches(batch_size=10_000):
            columns = (column.to_pylist() for column in batch.columns)
            yield from ([_python_text(value) for value in row] for row in zip(*columns, strict=True))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise Refused(f"{path}: is damaged Parquet ({error}); make it again") from None


_READERS = {".jsonl": _read_jsonl, ".ndjson": _read_jsonl, ".parquet": _read_parquet}


def _python_text(value: Any) -> str:  # noqa: ANN401 - whatever a table holds
    """A value of a table as text; what is missing is the empty text."""
    if isinstance(value, str):
        return value
    if value is None or (isinstance(value, float) and value != value):  # noqa: PLR0124 - not a number
        return ""
    if isinstance(value, (dict, list, tuple)):
        return json.dumps(value, ensure_ascii=False, default=str)
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)


def _walk(folder: str, pattern: str, leave_out: str) -> Iterator[Row]:
    """The files of a folder and its subfolders, in an order that is the same everywhere."""
    leave_out = os.path.realpath(leave_out) if leave_out else ""
    yield from ([path] for path in _walk_below(os.path.realpath(folder), "", pattern, {leave_out}))


def _walk_below(folder: str, prefix: str, pattern: str, leave_out: set[str]) -> Iterator[str]:
    """The files below a folder; one that leads back to where it is itself is passed over."""
    leave_out = {*leave_out, folder}
    try:
        with os.scandir(folder) as found:
            entries = sorted(found, key=lambda entry: entry.name)
    except OSError as error:
        raise Refused(f"{folder}: cannot be read: {error.strerror}; allow that, or give a list") from None
    is_output = any(entry.name == OWN_FOLDER for entry in entries)
    for entry in entries:
        place = os.path.realpath(entry.path) if entry.is_symlink() else entry.path
        if entry.name.startswith(".") or place in leave_out:
            continue
        if is_output and entry.name in RESERVED_FOLDERS and not entry.is_dir():
            # the tables of the run that made this folder
            continue
        if os.path.isdir(place) if entry.is_symlink() else entry.is_dir():
            yield from _walk_below(place, f"{prefix}{entry.name}/", pattern, leave_out)
        elif _may_hold_data(entry) and (
            fnmatchcase(entry.name, pattern) or fnmatchcase(prefix + entry.name, pattern)
        ):
            yield prefix + entry.name


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
        rows = ([_python_text(value) for value in row] for row in cells.itertuples(index=False, name=None))
    else:
        sequence = hasattr(source, "__len__") and hasattr(source, "__getitem__")
        if not sequence or isinstance(source, Mapping):
            kind = type(source).__name__
            raise Refused(
                f"inputs is a {kind}; give a list file, a folder, a list, a DataFrame or a dataset of paths"
            )
        # a torch dataset need not say where it ends, and a pandas Series may count from anywhere
        values = list(source) if hasattr(source, "__iter__") else [source[at] for at in range(len(source))]
        header, rows = _rows_of_values(values, column)
    if column not in header:
        raise Refused(f"inputs: has no column {column!r} but {_named(header)}; {_column_advice(header)}")
    return header, rows


def _rows_of_values(values: list[Any], column: str) -> tuple[Row, Iterator[Row]]:
    if any(isinstance(value, Mapping) for value in values):
        header = list({str(name): None for value in values for name in _as_mapping(value)}) or [column]
        return header, ([_python_text(value.get(name)) for name in header] for value in values)
    for value in values:
        if not isinstance(value, (str, os.PathLike)):
            raise Refused(
                f"inputs: {value!r} is a {type(value).__name__}; give paths, or dicts that are rows"
            )
    return [column], ([os.fspath(value)] for value in values)


def _as_mapping(value: Any) -> Mapping[Any, Any]:  # noqa: ANN401 - what a user has
    if not isinstance(value, Mapping):
        raise Refused(f"inputs: {value!r} stands among dicts; give paths only, or rows only")
    return value


def _renamed(header: Row, listing: InputList) -> Row:
    for old in listing.rename or {}:
        if old not in header:
            raise Refused(f"--rename {old}=…: there is no column {old!r} but {_named(header)}")
    header = [(listing.rename or {}).get(name, name) for name in header]
    for name in header:
        if header.count(name) > 1:
            raise Refused(f"the column {name!r} stands twice in the dataset list; give one another name")
    return header


# -- places: where an input is, and where its outputs go -------------------------------------------------


@dataclass(frozen=True)
class Layout:
    """Where an input is read from, and which folder of the output is its own."""

    root: str
    keep_extension: bool = False

    def place(self, text: str) -> str:
        """The local path of an input as it is listed."""
        if "://" in text:
            if is_url(text):
                return text
            text = _without_scheme(text)
        return text if text[:1] == "/" else f"{self.root}/{text}"

    def key(self, text: str) -> str:
        """What identifies an input: its path below the root, or its whole path without leading slash."""
        if "//" not in text and text[:1] != "/" and _is_plain(text):
            return text
        if is_url(text):
            return os.path.normpath(text.split("://", 1)[1]).lstrip("/")
        path = os.path.normpath(self.place(text))
        below = self.root.rstrip("/") + "/"
        return path.removeprefix(below) if path.startswith(below) else path.lstrip("/")

    def folder(self, key: str) -> str:
        """The folder of the output that belongs to an input."""
        if self.keep_extension:
            return key
        # os.path.splitext, in a third of the time
        dot, start = key.rfind("."), key.rfind("/") + 1
        return key[:dot] if dot > start and key[start:dot].strip(".") else key


_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://")
CANNOT_READ_URLS = "is a URL, which cannot be read yet"


def is_url(text: str) -> bool:
    """Whether a text names something on another machine."""
    return "://" in text and _SCHEME.match(text) is not None and not text.startswith("file://")


def _without_scheme(text: str) -> str:
    """The path that a `file://` URL stands for; any other text as it is."""
    return unquote(text[len("file://") :], ENCODING, ESCAPE) if text.startswith("file://") else text


def _is_plain(text: str) -> bool:
    """Whether a relative path has no part that would have to be resolved."""
    return "./" not in text and text[-1:] not in (".", "/")


def same_name(text: str) -> str:
    """Equal for names that some file system takes for one: other case, other Unicode form."""
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())


def key_hash(key: str) -> int:
    """The number that stands for an input in commit records."""
    return xxhash.xxh3_64_intdigest(key.encode(ENCODING, ESCAPE))


def fingerprint(row: bytes, size: int, changed_ns: int, seed: int) -> int:
    """What an input was when it was processed: its columns, its file, and how it was to be processed."""
    return xxhash.xxh3_64_intdigest(b"%b%d,%d" % (row, size, changed_ns), seed)


def look_at(path: str) -> os.stat_result:
    """The file's size and time; refuses what is not a plain file, which could block or never end."""
    if is_url(path):
        raise UnreadableInput(f"{path}: {CANNOT_READ_URLS}; give the path of a local file")
    try:
        found = os.stat(path)
        if stat.S_ISREG(found.st_mode):
            return found
    except FileNotFoundError:
        where = (
            f"is a link to {os.readlink(path)}, which is not there"
            if os.path.islink(path)
            else "is not there"
        )
        raise UnreadableInput(f"{path}: {where}") from None
    except (PermissionError, NotADirectoryError) as error:
        raise UnreadableInput(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise UnreadableInput(f"{path!r}: cannot be a file: {error}") from None
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENAMETOOLONG):
            raise
        raise UnreadableInput(f"{path}: cannot be a file: {error.strerror}") from None
    kinds = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a named pipe", stat.S_IFSOCK: "a socket"}
    kind = kinds.get(stat.S_IFMT(found.st_mode), "a device")
    raise UnreadableInput(f"{path}: is {kind}, not a file")


# -- the table: the list as one run uses it ---------------------------------------------------------------


class Table:
    """The copied list: rows on disk, a few numbers for each in memory.

    Attributes:
        header: The names of the columns.
        column: Which of them holds the paths.
    """

    def __init__(self, file: BinaryIO, header: Row, column: str, offsets: np.ndarray) -> None:
        """Take a copy made by `copy_list`."""
        self._file = file
        self.header = header
        self.column = column
        self.at = header.index(column)
        self._offsets = offsets
        self._order: np.ndarray | None = None
        self._starts = np.empty(0, "i8")

    def __len__(self) -> int:
        """How many inputs there are: the rows, unless rows were grouped."""
        return len(self._offsets) - 1 if self._order is None else len(self._starts) - 1

    def group(self, keys: np.ndarray) -> np.ndarray:
        """Take all rows of equal key for one input; returns each input's first row."""
        _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
        rank = np.empty(len(first), "i8")
        rank[np.argsort(first)] = np.arange(len(first))
        self._order = np.argsort(rank[inverse], kind="stable")
        self._starts = np.concatenate(([0], np.cumsum(np.bincount(rank[inverse], minlength=len(first)))))
        return np.sort(first)

    def texts(self, start: int, stop: int) -> list[bytes]:
        """The CSV text of some inputs that follow each other."""
        if self._order is None:
            return self._rows(start, stop)
        groups = (self._order[self._starts[index] : self._starts[index + 1]] for index in range(start, stop))
        return [b"".join(self._rows(row, row + 1)[0] for row in group.tolist()) for group in groups]

    def text(self, index: int) -> bytes:
        """The CSV text of one input: its row, or all of them."""
        return self.texts(index, index + 1)[0]

    def listed(self, index: int) -> str:
        """An input as it is written in the list."""
        return parse_rows(self.text(index))[0][self.at]

    def input_file(self, index: int, layout: Layout) -> InputFile:
        """An input as `process` takes it."""
        return make_input(parse_rows(self.text(index)), self.header, self.at, layout, Scratch())

    def _rows(self, start: int, stop: int) -> list[bytes]:
        bounds = self._offsets[start : stop + 1]
        first = int(bounds[0])
        block = os.pread(self._file.fileno(), int(bounds[-1]) - first, first)
        cuts = (bounds - first).tolist()
        return [block[a:b] for a, b in pairwise(cuts)]


def make_input(rows: list[Row], header: Row, at: int, layout: Layout, scratch: Scratch) -> InputFile:
    """The value that `process` takes, from the parsed rows of one input."""
    text = rows[0][at]
    columns = [dict(zip(header, row, strict=True)) for row in rows]
    return InputFile(text, layout.place(text), columns[0], tuple(columns), scratch)


def copy_list(header: Row, rows: Iterable[Row], file: BinaryIO, column: str) -> Table:
    """Write the rows as plain CSV and note where each one starts."""
    csv_text = CsvText()
    begin = position = _append(file, csv_text.encode([header]))
    pieces = _copy_plain(rows, file, begin) if isinstance(rows, CsvFile) else None
    if pieces is not None:
        return Table(file, header, column, np.concatenate(pieces))
    file.seek(begin)
    file.truncate()
    pieces = [np.array([position])]
    for number, block in enumerate(_blocks(rows)):
        lines = csv_text.lines(block)
        text = "\n".join([*lines, ""])
        try:
            _append(file, text.encode(ENCODING, ESCAPE))
        except UnicodeEncodeError:
            raise _not_text(lines, number * BLOCK + 1) from None
        texts = lines if text.isascii() else [line.encode(ENCODING, ESCAPE) for line in lines]
        ends = np.cumsum(np.fromiter(map(len, texts), "i8", len(texts)) + 1) + position
        pieces.append(ends)
        position = int(ends[-1])
    return Table(file, header, column, np.concatenate(pieces))


def _copy_plain(rows: CsvFile, file: BinaryIO, position: int) -> list[np.ndarray] | None:
    """Copy lines as they are; where each ends, or None if they had to be written in another way."""
    pieces = [np.array([position])]
    for number, block in enumerate(rows.plain_blocks()):
        if block is None:
            return None
        lines, ends = block
        if not number:
            continue
        pieces.append(ends + position)
        position += _append(file, lines)
    return pieces


def _append(file: BinaryIO, content: bytes) -> int:
    try:
        written = file.write(content)
        file.flush()
    except OSError as error:
        raise StorageError.of(error, "the copy of the dataset list") from error
    return written


def _not_text(lines: list[str], first: int) -> Refused:
    for number, line in enumerate(lines, first):
        try:
            line.encode(ENCODING, ESCAPE)
        except UnicodeEncodeError as error:
            part = error.object[error.start : error.end]
            return Refused(f"row {number} of the dataset list: {part!r} is not text; mend that row")
    raise AssertionError("all lines can be written")


def _blocks(rows: Iterable[Row]) -> Iterator[list[Row]]:
    block: list[Row] = []
    for row in rows:
        block.append(row)
        if len(block) == BLOCK:
            yield block
            block = []
    if block:
        yield block


# -- the survey: look at every input once, before any work --------------------------------------------------


@dataclass(frozen=True)
class Survey:
    """What the driver knows of each input, in the order of the list.

    Attributes:
        keys: The hash of each input's key.
        sizes: Bytes, or UNREADABLE.
        changed_ns: When each file last changed.
        folders: The hash of the output folder of each input.
        outer_folders: The hashes of the folders that these are in, sorted.
    """

    keys: np.ndarray
    sizes: np.ndarray
    changed_ns: np.ndarray
    folders: np.ndarray
    outer_folders: np.ndarray

    def fingerprints(self, table: Table, seed: int) -> np.ndarray:
        """The fingerprint of each input as it is now."""
        marks = np.empty(len(table), "u8")
        for start in range(0, len(table), BLOCK):
            stop = min(len(table), start + BLOCK)
            columns = (
                table.texts(start, stop),
                self.sizes[start:stop].tolist(),
                self.changed_ns[start:stop].tolist(),
            )
            marks[start:stop] = [fingerprint(*fields, seed) for fields in zip(*columns, strict=True)]
        return marks


def survey(table: Table, layout: Layout, *, group_rows: bool) -> Survey:
    """Look at every input once: take sizes and times, and refuse outputs that would collide."""
    # made whole at once, since joining blocks would take the memory twice
    columns = tuple(np.empty(len(table), kind) for kind in ("u8", "i8", "i8", "i8"))
    outer_folders = np.empty(0, "i8")
    starts = range(0, len(table), BLOCK)
    with contextlib.closing(in_processes(partial(_look_at_block, table, layout), starts)) as blocks:
        for start, (block, outer) in zip(starts, blocks, strict=True):
            for column, numbers in zip(columns, block, strict=True):
                column[start : start + BLOCK] = numbers
            seen = len(outer_folders)
            outer_folders.resize(seen + len(outer), refcheck=False)
            outer_folders[seen:] = outer
    outer_folders.sort()
    keys, folders, sizes, times = columns
    if group_rows:
        rows_of_inputs = table.group(keys)
        keys, folders, sizes, times = (numbers[rows_of_inputs] for numbers in (keys, folders, sizes, times))
    found = Survey(keys, sizes, times, folders, outer_folders)
    _refuse_collisions(table, layout, found)
    return found


def _look_at_block(table: Table, layout: Layout, start: int) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
    """Keys, folders, sizes and times of some inputs; and the folders that their folders are in."""
    keys, folders, sizes, times = [], [], [], []
    outer_folders: dict[str, int] = {}
    rows = parse_rows(b"".join(table.texts(start, min(len(table), start + BLOCK))))
    for index, row in enumerate(rows, start):
        listed = row[table.at]
        key = layout.key(listed)
        if key in ("", "."):
            raise Refused(
                f"row {index + 1} of the dataset list names no file: {listed!r}; mend or remove that row"
            )
        folder = same_name(layout.folder(key))
        keys.append(key_hash(key))
        folders.append(hash(folder))
        inner = folder.rfind("/")
        if inner < 0 or folder[:inner] not in outer_folders:
            if folder.partition("/")[0] in RESERVED_FOLDERS:
                raise _reserved(listed, key)
            for outer in folders_around(folder):
                if outer in outer_folders:
                    break
                outer_folders[outer] = hash(outer)
        try:
            found = look_at(layout.place(listed))
        except (OSError, UnreadableInput):
            sizes.append(UNREADABLE)
            times.append(UNREADABLE)
        else:
            sizes.append(found.st_size)
            times.append(found.st_mtime_ns)
    block = np.array(keys, "u8"), np.array(folders, "i8"), np.array(sizes, "i8"), np.array(times, "i8")
    return block, np.fromiter(outer_folders.values(), "i8", len(outer_folders))


def folders_around(path: str) -> Iterator[str]:
    """The folders that a path is in, the innermost first."""
    while "/" in path:
        path = path[: path.rfind("/")]
        yield path


def _reserved(listed: str, key: str) -> Refused:
    top, slash, _ = key.partition("/")
    if slash:
        remedy = f"rename the folder {top}/, or start inside it: as DATASET, or with --root {top} for a list"
    elif same_name(key) in RESERVED_FOLDERS:
        remedy = "rename it"
    else:
        remedy = "use --keep-extension, or rename it"
    return Refused(f"{listed}: its outputs would take a name of splitter's own; {remedy}")


def _refuse_collisions(table: Table, layout: Layout, found: Survey) -> None:
    """Refuse two inputs whose outputs could meet: the same folder, or one folder inside another."""
    twin = _first_twins(found.keys)
    if twin:
        first, second = (table.listed(index) for index in twin)
        message = f"{second}: is listed twice, in rows {twin[0] + 1} and {twin[1] + 1}"
        also = "" if first == second else f", first as {first}"
        raise Refused(f"{message}{also}; remove one, or use a recipe that groups rows")
    twin = _first_twins(found.folders)
    if twin:
        first, second = (table.listed(index) for index in twin)
        one, other = (same_name(layout.key(listed)) for listed in (first, second))
        remedy = _remedy(layout, helps=one != other)
        raise Refused(f"{second}: its outputs would go to the same folder as those of {first}; {remedy}")
    for outer in _members(found.folders, found.outer_folders):
        listed = table.listed(outer)
        key = layout.key(listed)
        inner = _first_inside(table, layout, same_name(layout.folder(key)))
        if inner is not None:
            around = folders_around(same_name(layout.key(inner)))
            remedy = _remedy(layout, helps=same_name(key) not in around)
            raise Refused(
                f"{inner}: its outputs would go into {layout.folder(key)}/, which is the folder of {listed}; "
                f"{remedy}"
            )


def _remedy(layout: Layout, *, helps: bool) -> str:
    return "use --keep-extension, or rename one" if helps and not layout.keep_extension else "rename one"


def _first_inside(table: Table, layout: Layout, folder: str) -> str | None:
    """The first input whose outputs would go into a folder, as it is listed."""
    for start in range(0, len(table), BLOCK):
        for row in parse_rows(b"".join(table.texts(start, min(len(table), start + BLOCK)))):
            own = same_name(layout.folder(layout.key(row[table.at])))
            if own.startswith(f"{folder}/"):
                return row[table.at]
    return None


def _first_twins(numbers: np.ndarray) -> tuple[int, int] | None:
    """The first place whose number stood before, and where that was."""
    in_order = np.sort(numbers)
    if not (in_order[1:] == in_order[:-1]).any():
        return None
    # places take more memory, and are seldom needed
    order = np.argsort(numbers, kind="stable")
    equal = np.flatnonzero(numbers[order[1:]] == numbers[order[:-1]])
    at = equal[np.argmin(order[equal + 1])]
    return int(order[at]), int(order[at + 1])


def _members(numbers: np.ndarray, sorted_numbers: np.ndarray) -> Iterator[int]:
    """The places of the numbers that are among the sorted ones; a block at a time takes little memory."""
    for start in range(0, len(numbers), BLOCK) if len(sorted_numbers) else ():
        block = numbers[start : start + BLOCK]
        at = np.minimum(np.searchsorted(sorted_numbers, block), len(sorted_numbers) - 1)
        yield from (np.flatnonzero(sorted_numbers[at] == block) + start).tolist()


def advice_on_missing(listing: InputList, table: Table, layout: Layout, found: Survey) -> str:
    """What is probably wrong when there is no input, or when not one can be read; else nothing."""
    path = listing.source if isinstance(listing.source, (str, os.PathLike)) else ""
    folder = os.path.isdir(os.path.expanduser(_without_scheme(os.fspath(path))))
    if not len(table):
        named = (
            f"no file in it is named like --pattern {listing.pattern!r}"
            if listing.pattern
            else "it holds no file"
        )
        return f"{layout.root}: {named}; those that begin with a dot do not count" if folder else ""
    if (found.sizes != UNREADABLE).any() or is_url(table.listed(0)):
        return ""
    first = table.listed(0)
    place = layout.place(first)
    many = f"none of the {len(table):,} inputs can be read, the first" if len(table) > 1 else "the only input"
    if first[:1] == "/" or "://" in first or os.path.lexists(place):
        return f"{many} is at {place}" if len(table) > 1 else ""
    roots = [
        root
        for root in _likely_roots(listing, layout)
        if os.path.exists(os.path.join(layout.root, root, first))
    ]
    if len(roots) == 1:
        root = os.path.join(listing.root or "", roots[0])
        return f"{many} is not at {place} but in {roots[0]}: use --root {root}"
    return f"{many} is not at {place}; --root says which folder the paths start from"


def _likely_roots(listing: InputList, layout: Layout) -> list[str]:
    """Folders that paths may have been meant to start from: beside them, the current one, behind a link."""
    roots = [os.getcwd()]
    if isinstance(listing.source, (str, os.PathLike)):
        roots.append(os.path.dirname(os.path.realpath(listing.source)))
    roots = [root for root in dict.fromkeys(roots) if root != layout.root]
    with contextlib.suppress(OSError), os.scandir(layout.root) as entries:
        roots += [entry.name for entry in islice(entries, MOST_FOLDERS) if entry.is_dir()]
    return roots
