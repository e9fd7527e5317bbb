"""Dataset lists, folders and Python objects -> a header, and the rows below it."""

import contextlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from typing import Any

from splitter.csv_text import CsvFile, Row, csv_rows, empty_list
from splitter.errors import Refused
from splitter.places import CANNOT_READ_URLS, OWN_FOLDER, RESERVED_FOLDERS, is_url, without_scheme
from splitter.stages import OUTPUT, labels_of_manifest, names_in_next_stage


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
    path = os.path.abspath(os.path.expanduser(without_scheme(os.fsdecode(source))))
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
    path = os.path.abspath(os.path.expanduser(without_scheme(path)))
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
    with contextlib.closing(csv_rows(path, delimiter)) as rows:
        header = next(rows, None)
    if header is None:
        raise empty_list(path)
    # opened again when the rows are wanted, so that nothing is left open when the list is refused
    return header, CsvFile(path, delimiter, len(header))


def _read_jsonl(path: str) -> tuple[Row, Iterator[Row]]:
    header: dict[str, None] = {}
    for entry in _json_objects(path):
        header.update(dict.fromkeys(entry))
    if not header:
        raise empty_list(path)
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
