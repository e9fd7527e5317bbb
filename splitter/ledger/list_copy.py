"""The copy of the dataset list that a run stores in `.splitter`.

With it and the commit records, the manifest can be made without the original list, the inputs or the recipe.
"""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from splitter.errors import Refused, StorageError
from splitter.ledger.run_files import LIST, LISTED, OF_A_PIPELINE, PIPELINE
from splitter.storage.base import Storage
from splitter.storage.checked_file import unsealed
from splitter.storage.content import measure_file
from splitter.storage.layout import Layout, key_hash
from splitter.text.csv import Row, csv_rows

_OF_LIST = "checksum of the list"


@dataclass(frozen=True)
class ListDescription:
    """How the rows of the list name inputs.

    Attributes:
        column: The column that holds the paths.
        root: The folder that relative paths start from.
        keep_extension: Whether the name of an input's output folder has the input's extension.
        group_rows: Whether all rows with the same path are one input.
        member: The field of a sample in a shard that is the input, if one was named.
        size_column: If the list has the outputs of an earlier stage, the column with their sizes, empty if
            there is none; fingerprints then ignore the order of columns. None for any other list.
        is_part: Whether this is only a part of the list, because a stage was killed while it was following
            the one before.
        total_bytes: The total size of the inputs, as far as it is known.
    """

    column: str
    root: str
    keep_extension: bool
    group_rows: bool
    member: str | None = None
    size_column: str | None = None
    is_part: bool = False
    total_bytes: int = 0


def keep_list(storage: Storage, listed: ListDescription, checksum: str) -> None:
    """Store the list of the run that begins."""
    LISTED.save(storage, {**dataclasses.asdict(listed), _OF_LIST: checksum})
    storage.publish_file(LIST.name)


def stored_list(storage: Storage) -> tuple[Row, str, np.ndarray]:
    """Return the columns of the list, the name of its path column, and the key of each input, in order."""
    listed, header, rows = stored_rows(storage)
    layout, at = Layout(listed.root, listed.keep_extension), header.index(listed.column)
    keys = np.fromiter((key_hash(layout.key(row[at])) for row in rows), "u8")
    if listed.group_rows:
        keys = keys[np.sort(np.unique(keys, return_index=True)[1])]
    return header, listed.column, keys


def stored_rows(storage: Storage) -> tuple[ListDescription, Row, Iterator[Row]]:
    """Return how the list names inputs, the columns, and the rows."""
    listed = list_description(storage)
    try:
        rows = csv_rows(storage.open(LIST.name), ",", storage.path(LIST.name))
        header = next(rows)
        header.index(listed.column)
    except StopIteration:
        raise Refused(f"{storage.path(LIST.name)}: is empty; {LIST.remedy}") from None
    except ValueError as error:
        raise LISTED.damaged(storage, error) from None
    return listed, header, rows


def list_description(storage: Storage) -> ListDescription:
    """Return how the list of the last run names inputs."""
    listed = LISTED.load(storage, _description)
    if listed is None and storage.exists(PIPELINE.name):
        raise Refused(f"{storage.root}: {OF_A_PIPELINE}")
    if listed is None or not storage.exists(LIST.name):
        raise Refused(f"{storage.root}: no run has started there yet; start one with 'splitter run'")
    return listed


def description_of(text: bytes) -> ListDescription:
    """Parse what `keep_list` stored; raise ValueError, KeyError or TypeError for anything else."""
    return _description(*unsealed(text))


def _description(content: dict[str, Any], _: bytes) -> ListDescription:
    content.pop(_OF_LIST, None)
    listed = ListDescription(**content)
    texts = listed.column, listed.root, listed.member or "", listed.size_column or ""
    marks = listed.keep_extension, listed.group_rows, listed.is_part
    kinds = [*map(type, (*texts, *marks, listed.total_bytes))]
    if kinds != [str] * len(texts) + [bool] * len(marks) + [int]:
        raise ValueError("its values are wrong")
    return listed


def list_is_whole(storage: Storage) -> bool:
    """Return whether the copy of the list matches the checksum stored with it."""
    stated = LISTED.load(storage, lambda content, _: content.get(_OF_LIST))
    with StorageError.naming(storage.path(LIST.name)), storage.open(LIST.name) as file:
        return stated in (None, measure_file(file)[1])


def listed_inputs(storage: Storage, numbers: np.ndarray) -> Iterator[tuple[int, str]]:
    """Yield the inputs with these numbers: the number, and the input as the list writes it."""
    listed, header, rows = stored_rows(storage)
    layout, at = Layout(listed.root, listed.keep_extension), header.index(listed.column)
    chosen = np.zeros(int(numbers.max(initial=0)) + 1, bool)
    chosen[numbers] = True
    seen: set[str] = set()
    number = -1
    for row in rows:
        if listed.group_rows:
            key = layout.key(row[at])
            if key in seen:
                continue
            seen.add(key)
        number += 1
        if number < len(chosen) and chosen[number]:
            yield number, row[at]
