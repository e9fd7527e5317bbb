"""Inputs given in Python: lists of paths or rows, DataFrames, dataset objects such as torchvision's.

paths    samples or imgs of an ImageFolder; a Subset of it         -> the files, and the names of classes
items    anything else whose items are images, arrays or tensors   -> a file for each, made in the worker
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import xxhash

from splitter.errors import Refused
from splitter.inputs.item_content import LABEL, divided, encoded, is_content, labels_of, reason_of
from splitter.inputs.listing import InputList
from splitter.inputs.lists import column_advice, names_shown
from splitter.inputs.shards.index import InputShard, ShardScan
from splitter.inputs.source import InputSource, ListReading, SourceRows
from splitter.storage.layout import Layout
from splitter.stores.files import Found
from splitter.system.pool import in_processes
from splitter.text.csv import Row, python_text

# how many items a process reads at a time, and how many seconds they may take
_AT_ONCE, _PATIENCE = 64, 600.0


class ObjectSource(InputSource):
    """A Python object: a list of paths or rows, a DataFrame, a dataset of paths or items."""

    takes = frozenset({"root"})

    def is_meant(self, location: Any, listing: InputList) -> bool:  # noqa: ANN401, ARG002 - as the seam
        return not isinstance(location, str)

    def read(self, location: Any, listing: InputList, reading: ListReading) -> SourceRows:  # noqa: ANN401
        column = listing.column
        found: tuple[Row, Iterator[Row]] | None = None
        if _is_dataset(location):
            found = _rows_of_paths(location, column) or _rows_of_items(location, column, reading)
        return SourceRows(*(found or read_object(location, column)), os.getcwd())


def read_object(source: Any, column: str) -> tuple[Row, Iterator[Row]]:  # noqa: ANN401 - what a user has
    """Return the columns and rows of a Python object."""
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
                f"inputs is of type {kind}; pass a file, a folder, a list, a DataFrame or a dataset of paths"
            )
        # a torch dataset may never raise IndexError, and the index of a pandas Series may start anywhere
        values = list(source) if hasattr(source, "__iter__") else [source[at] for at in range(len(source))]
        header, rows = _rows_of_values(values, column)
    if column not in header:
        raise Refused(
            f"inputs: has no column {column!r}; it has {names_shown(header)}; {column_advice(header)}"
        )
    return header, rows


def _rows_of_values(values: list[Any], column: str) -> tuple[Row, Iterator[Row]]:
    if any(isinstance(value, Mapping) for value in values):
        for value in values:
            if not isinstance(value, Mapping):
                raise Refused(f"inputs: {value!r} is among dicts; pass either paths or rows")
        # names from a DataFrame may be numbers; 1 and '1' become two columns of one name, which are refused
        names = [*dict.fromkeys(name for value in values for name in value)] or [column]
        return [*map(str, names)], ([python_text(value.get(name)) for name in names] for value in values)
    if values and all(map(_is_pair, values)):
        if column == LABEL:
            raise Refused(
                f"inputs: with pairs of a path and a label, {LABEL!r} is the column of labels; use another "
                "column for the paths"
            )
        return [column, LABEL], ([os.fspath(path), python_text(label)] for path, label in values)
    for value in values:
        if not isinstance(value, (str, os.PathLike)):
            raise Refused(
                f"inputs: {value!r} is of type {type(value).__name__}; pass paths, or dicts as "
                "rows, or pairs of a path and a label"
            )
    return [column], ([os.fspath(value)] for value in values)


def _is_pair(value: Any) -> bool:  # noqa: ANN401 - what a user has
    two = isinstance(value, (tuple, list)) and len(value) == 2  # noqa: PLR2004
    return two and isinstance(value[0], (str, os.PathLike))


# -- dataset objects ----------------------------------------------------------------------------------------


class _Look(NamedTuple):
    """What is known of an item without keeping it; its hash shows whether it has changed."""

    ending: str
    size: int
    hash: int
    labels: dict[str, str]
    fault: str = ""


def _is_dataset(source: Any) -> bool:  # noqa: ANN401 - what a user has
    """Return whether an object has items by index, but is not a list, a dict or a table."""
    is_sequence = hasattr(source, "__len__") and hasattr(source, "__getitem__")
    return (
        is_sequence and not isinstance(source, (Mapping, list, tuple)) and not hasattr(source, "itertuples")
    )


def _rows_of_paths(source: Any, column: str) -> tuple[Row, Iterator[Row]] | None:  # noqa: ANN401
    """Return the paths that a dataset lists, with the names of their classes; None if it lists none."""
    pairs = _pairs_of(source)
    if not pairs:
        return None
    classes = _classes_of(source)
    names = [*dict.fromkeys(name for _, target in pairs for name in labels_of(target, classes))]
    rows = ((os.fspath(path), labels_of(target, classes)) for path, target in pairs)
    return [column, *names], ([path, *(labels.get(name, "") for name in names)] for path, labels in rows)


def _rows_of_items(source: Any, column: str, reading: ListReading) -> tuple[Row, Iterator[Row]] | None:  # noqa: ANN401
    """Return a row for each item, which workers will read; None if the first item is not content."""
    if not len(source) or not _is_of_content(source):
        return None
    looks = [*(_looks_by_attributes(source) or _looks_by_reading(source, len(source)))]
    usual = next((one.ending for one in looks if one.ending), "")
    number = len(reading.items)
    before = f"{number + 1}-" if number else ""
    names = [f"{before}{at:08d}{one.ending or usual}" for at, one in enumerate(looks)]
    name = f"<{type(source).__name__}>"
    reading.items.append(source)
    found = ShardScan(InputShard(name, "items", Found(len(looks), 0), column=str(number)))
    for at, one in enumerate(looks):
        fault = one.fault and f"item {at} of {name}: {one.fault}"
        found.rows.append((names[at], at, one.size, one.labels, fault))
    locations = [*map(Layout(os.getcwd()).location, names)]
    reading.members.add(found, locations, [one.hash >> 1 for one in looks])
    labels = [*dict.fromkeys(label for one in looks for label in one.labels if label != column)]
    return [column, *labels], ([row[0], *(row[3].get(label, "") for label in labels)] for row in found.rows)


def _pairs_of(source: Any) -> Sequence[tuple[Any, Any]] | None:  # noqa: ANN401 - what a user has
    """Return paths with their targets, as ImageFolder lists them; for a Subset, those in it; else None."""
    for name in ("samples", "imgs"):
        pairs: Any = getattr(source, name, None)
        is_whole = isinstance(pairs, (list, tuple)) and len(pairs) == len(source)
        if is_whole and all(isinstance(pair, tuple) and _is_pair(pair) for pair in pairs):
            return pairs
    if hasattr(source, "dataset") and hasattr(source, "indices"):
        inner = _pairs_of(source.dataset)
        return inner and [inner[at] for at in source.indices]
    return None


def _classes_of(source: Any) -> Sequence[Any] | None:  # noqa: ANN401 - what a user has
    classes = getattr(source, "classes", None)
    inner = getattr(source, "dataset", None)
    if classes is None and inner is not None and inner is not source:
        return _classes_of(inner)
    return classes if isinstance(classes, (list, tuple)) else None


def _is_of_content(source: Any) -> bool:  # noqa: ANN401 - what a user has
    """Return whether the first item is content; it is read in another process."""
    try:
        [found] = in_processes(_first_is_content, [source], always_fork=True, patience=_PATIENCE)
    except (ChildProcessError, TimeoutError):
        # if it is a dataset of paths, reading them says what is wrong
        return False
    return found


def _first_is_content(source: Any) -> bool:  # noqa: ANN401 - what a user has
    item = source[0]
    if isinstance(item, Mapping):
        return any(map(is_content, item.values()))
    return is_content(item[0] if isinstance(item, (tuple, list)) and item else item)


def _looks_by_attributes(source: Any) -> list[_Look] | None:  # noqa: ANN401 - what a user has
    """Return what `data` and `targets`, as CIFAR and MNIST have them, say about all items; None without."""
    data, targets = getattr(source, "data", None), getattr(source, "targets", getattr(source, "labels", None))
    if data is None or targets is None or getattr(source, "target_transform", None) is not None:
        return None
    count = len(source)
    data = np.asarray(data) if hasattr(data, "__array__") else np.empty(0, object)
    if not _is_content_itself(data.dtype) or len(data) != count or len(targets) != count:
        return None
    first = next(_looks_by_reading(source, 1))
    classes = _classes_of(source)
    try:
        labels = [labels_of(target, classes) for target in targets]
    except ValueError:
        return None
    if first.fault or first.labels != labels[0]:
        return None
    how = [getattr(source, name, None) for name in ("transform", "transforms")]
    # addresses in memory differ from run to run
    text = re.sub(" at 0x[0-9a-f]+", "", repr((type(source).__qualname__, how)))
    seed = xxhash.xxh3_64_intdigest(text.encode("utf-8", "replace"))
    pairs = zip(map(np.ascontiguousarray, data), labels, strict=True)
    return [_Look(first.ending, one.nbytes, _hash(one, columns, seed), columns) for one, columns in pairs]


def _is_content_itself(kind: np.dtype) -> bool:
    """Return whether values are compared by their bytes: text may be paths, and objects are addresses."""
    kind = kind.base
    if kind.fields:
        fields = [one[0] for one in kind.fields.values()]
        # bytes in gaps between fields differ from run to run
        has_gaps = sum(field.itemsize for field in fields) != kind.itemsize
        return not has_gaps and all(map(_is_content_itself, fields))
    return not kind.hasobject and kind.kind not in "US"


def _looks_by_reading(source: Any, count: int) -> Iterator[_Look]:  # noqa: ANN401 - what a user has
    """Yield what is found about the first `count` items, which other processes read."""

    def look(start: int) -> list[_Look]:
        return [*_look_at(source, range(start, min(start + _AT_ONCE, count)))]

    starts = range(0, count, _AT_ONCE)
    try:
        for some in in_processes(look, starts, always_fork=True, patience=_PATIENCE):
            yield from some
    except (ChildProcessError, TimeoutError) as error:
        raise Refused(f"inputs: the items of <{type(source).__name__}> cannot be read: {error}") from None


def _look_at(source: Any, numbers: Sequence[int]) -> Iterator[_Look]:  # noqa: ANN401 - what a user has
    classes = _classes_of(source)
    for at in numbers:
        try:
            content, labels = divided(source[at], classes)
            ending, packed = encoded(content)
        except Exception as error:  # noqa: BLE001 - whatever a user's dataset raises concerns only this item
            yield _Look("", 0, 0, {}, reason_of(error))
        else:
            yield _Look(ending, len(packed), _hash(packed, labels), labels)


def _hash(content: Any, labels: dict[str, str], seed: int = 0) -> int:  # noqa: ANN401 - bytes, or an array
    text = python_text(labels).encode("utf-8", "replace")
    return xxhash.xxh3_64_intdigest(content, xxhash.xxh3_64_intdigest(text, seed))
