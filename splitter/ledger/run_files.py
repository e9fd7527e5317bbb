"""What a run keeps of its dataset list in the output folder.

With it, and the commit records, the manifest can be put together without the list, the inputs or the recipe,
and parts that do not know each other divide the inputs alike.
"""

import contextlib
import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from splitter.errors import Refused, StorageError
from splitter.storage.base import SHARES, Storage
from splitter.storage.checked_file import sealed, unsealed
from splitter.storage.content import measure
from splitter.storage.layout import OWN_FOLDER, Layout, key_hash
from splitter.text.csv import Row, rows_of_csv

LIST = f"{OWN_FOLDER}/dataset.csv"
LISTED = f"{OWN_FOLDER}/list.json"
# how inputs are processed, and what the last run that did something came to
RUN = f"{OWN_FOLDER}/run.json"
LAST_RUN = f"{OWN_FOLDER}/last_run.json"
_OF_LIST = "checksum of the list"
# an input, and the part that it belongs to
_SHARE = np.dtype([("key", "<u8"), ("part", "<u2")])


class Measured(Protocol):
    """Inputs in the order of the list, of which keys and sizes are known."""

    @property
    def keys(self) -> np.ndarray:
        """The hash of each input's key."""

    @property
    def sizes(self) -> np.ndarray:
        """The bytes of each input."""


@dataclass(frozen=True)
class ListDescription:
    """How the rows of the list name inputs.

    Attributes:
        column: Which column holds the paths.
        root: The folder that relative paths start from.
        keep_extension: Whether the folder of an input has its extension.
        group_rows: Whether all rows with the same path are one input.
        member: Which field of a sample in a shard is the input, if that was said.
    """

    column: str
    root: str
    keep_extension: bool
    group_rows: bool
    member: str | None = None


def keep_list(storage: Storage, listed: ListDescription, checksum: str) -> None:
    """Keep the list of a run that begins now."""
    content = sealed({**dataclasses.asdict(listed), _OF_LIST: checksum})
    if not storage.exists(LISTED) or storage.read(LISTED) != content:
        storage.write(LISTED, content)
    storage.publish_file(LIST)


def stored_list(storage: Storage) -> tuple[Row, str, np.ndarray]:
    """The columns of the list, which of them holds the paths, and the key of each input, in its order."""
    listed, header, rows = stored_rows(storage)
    layout, at = Layout(listed.root, listed.keep_extension), header.index(listed.column)
    keys = np.fromiter((key_hash(layout.key(row[at])) for row in rows), "u8")
    if listed.group_rows:
        keys = keys[np.sort(np.unique(keys, return_index=True)[1])]
    return header, listed.column, keys


def stored_rows(storage: Storage) -> tuple[ListDescription, Row, Iterator[Row]]:
    """How the list names inputs, its columns and its rows."""
    if not (storage.exists(LIST) and storage.exists(LISTED)):
        raise Refused(f"{storage.root}: no run has begun its work there yet; start one with 'splitter run'")
    try:
        content, _ = unsealed(storage.read(LISTED))
        content.pop(_OF_LIST, None)
        listed = ListDescription(**content)
        texts = listed.column, listed.root, listed.member or ""
        marks = listed.keep_extension, listed.group_rows
        if not all(isinstance(one, str) for one in texts) or not all(isinstance(one, bool) for one in marks):
            raise ValueError("its values are wrong")  # noqa: TRY301 - as of what is no JSON
        header, rows = rows_of_csv(storage.on_disk(LIST))
        header.index(listed.column)
    except StopIteration:
        raise Refused(f"{storage.path(LIST)}: is empty; start the run again") from None
    except (ValueError, TypeError) as error:
        raise Refused(f"{storage.path(LISTED)}: is damaged ({error}); start the run again") from None
    return listed, header, rows


def list_is_whole(storage: Storage) -> bool:
    """Whether the copy of the list is the one that was kept."""
    stated = unsealed(storage.read(LISTED))[0].get(_OF_LIST)
    return stated in (None, measure(storage.on_disk(LIST))[1])


def listed_inputs(storage: Storage, numbers: np.ndarray) -> Iterator[tuple[int, str]]:
    """Some inputs of the list as they are written there, by their numbers."""
    listed, header, rows = stored_rows(storage)
    layout, at = Layout(listed.root, listed.keep_extension), header.index(listed.column)
    wanted = np.zeros(int(numbers.max(initial=0)) + 1, bool)
    wanted[numbers] = True
    seen: set[str] = set()
    number = -1
    for row in rows:
        if listed.group_rows:
            key = layout.key(row[at])
            if key in seen:
                continue
            seen.add(key)
        number += 1
        if number < len(wanted) and wanted[number]:
            yield number, row[at]


def inputs_of_part(storage: Storage, found: Measured, *, keep: bool = True) -> np.ndarray | None:
    """Which inputs are for this part of the run; None if it is for all.

    The first part of as many that comes divides the inputs, and keeps that for the others.
    """
    part = storage.part
    if part is None:
        return None
    name = f"{SHARES}{part.of}"
    with storage.gate() if keep else contextlib.nullcontext():
        known = _stored_shares(storage, name)
        part_of, now = _shares(known, found.keys, found.sizes, part.of)
        if keep and len(now) > len(known):
            storage.write(name, sealed({"of": part.of}, now.tobytes()))
    mine: np.ndarray = part_of == part.number
    return mine


def _stored_shares(storage: Storage, name: str) -> np.ndarray:
    try:
        return np.frombuffer(unsealed(storage.read(name))[1] if storage.exists(name) else b"", _SHARE)
    except ValueError as error:
        remedy = "remove it, and run all parts again"
        raise StorageError(f"{storage.path(name)}: is damaged ({error}); {remedy}") from None


def _shares(known: np.ndarray, keys: np.ndarray, sizes: np.ndarray, of: int) -> tuple[np.ndarray, np.ndarray]:
    """The part of each input, and what is known with the new ones added.

    New inputs are dealt out in turn, the largest first. One that was dealt out stays with its part, even
    if its size has changed meanwhile or cannot be seen: no two parts ever work on the same input.
    """
    part_of = np.zeros(len(keys), "u2")
    if len(known):
        at = np.minimum(np.searchsorted(known["key"], keys), len(known) - 1)
        same = known["key"][at] == keys
        part_of[same] = known["part"][at[same]]
    new = np.flatnonzero(part_of == 0)
    order = new[np.argsort(-sizes[new], kind="stable")]
    part_of[order] = np.arange(len(order)) % of + 1
    added = np.empty(len(new), _SHARE)
    added["key"], added["part"] = keys[new], part_of[new]
    known = np.concatenate((known, added))
    return part_of, known[np.argsort(known["key"], kind="stable")] if len(new) else known
