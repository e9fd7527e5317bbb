"""Datasets that Hugging Face's save_to_disk wrote: Arrow files, one folder for each split."""

import json
import os
from collections.abc import Iterator
from functools import partial
from typing import Any

from splitter.errors import Refused
from splitter.inputs.dialects.base import INPUT, Dialect, Entry, Written
from splitter.inputs.listing import InputList
from splitter.inputs.shards.arrow import contents_of, look_at_arrow, open_arrow
from splitter.inputs.shards.index import ShardScan
from splitter.inputs.shards.parquet import column_of_contents, values_of
from splitter.inputs.shards.scan import rows_of_shards
from splitter.inputs.source import ListReading, SourceRows
from splitter.text.csv import python_text

_STATE, _SPLITS, SPLIT = "state.json", "dataset_dict.json", "split"
_PATHS = ("path", "file_name", "file", "audio", "audio_filepath")


class HuggingFace(Dialect):
    """A dataset, or a folder of several splits; contents are read in place."""

    takes = frozenset({"member", "from_"})
    shape = "a folder that save_to_disk wrote"
    reads_folder = True

    def is_written(self, there: Written) -> bool:
        return there.holds(_SPLITS) or there.holds(_STATE, "dataset_info.json")

    def entries(self, there: Written) -> Iterator[Entry]:
        """Yield the rows of a dataset of paths."""
        for split, path in _files(there):
            with open_arrow(path) as (_, reader):
                column = next((name for name in _PATHS if name in reader.schema.names), None)
                if column is None:
                    raise Refused(f"{path}: has no column of bytes, nor of paths ({', '.join(_PATHS)})")
                names = [INPUT if name == column else name for name in reader.schema.names]
                for batch in reader:
                    for values in zip(*map(values_of, batch.columns), strict=True):
                        entry = dict(zip(names, map(_text, values), strict=True))
                        yield {INPUT: entry.pop(INPUT), **split, **entry}

    def read(self, there: Written, home: str, listing: InputList, reading: ListReading) -> SourceRows:
        files = _files(there)
        splits = {path: split for split, path in files}
        with open_arrow(files[0][1]) as (_, reader):
            column = column_of_contents(reader.schema, files[0][1], listing.column, listing.member)
        if column is None or not _has_bytes([*splits], column):
            return super().read(there, home, listing, reading)
        look = partial(_look, column=column, splits=splits)
        return rows_of_shards(there.name, home, [*splits], look, listing, reading)


def _look(location: str, *, column: str, splits: dict[str, dict[str, str]]) -> ShardScan:
    found = look_at_arrow(location, column)
    found.rows = [(*row[:3], {**splits[location], **row[3]}, row[4]) for row in found.rows]
    return found


def _has_bytes(paths: list[str], column: str) -> bool:
    """Return whether any row holds the bytes of a file, not only its path; also if there are no rows."""
    rows = 0
    for path in paths:
        with open_arrow(path) as (_, reader):
            for batch in reader:
                batch.validate()
                contents = contents_of(path, batch, column)
                if contents.null_count < len(contents):
                    return True
                rows += len(batch)
    return not rows


def _text(value: Any) -> str:  # noqa: ANN401 - whatever a dataset holds
    return python_text(value.get("path") if isinstance(value, dict) and "path" in value else value)


def _files(there: Written) -> list[tuple[dict[str, str], str]]:
    """Return the Arrow files in order, each with its split."""
    folders: list[tuple[dict[str, str], str]] = [({}, there.path)]
    if there.holds(_SPLITS):
        path = os.path.join(there.path, _SPLITS)
        folders = [
            ({SPLIT: one}, os.path.join(there.path, one)) for one in _names(path, _json(path, "splits"))
        ]
    found = []
    for split, folder in folders:
        path = os.path.join(folder, _STATE)
        names = [one.get("filename") if isinstance(one, dict) else None for one in _json(path, "_data_files")]
        found += [(split, os.path.join(folder, name)) for name in _names(path, names)]
    if not found:
        raise Refused(f"{there.name}: names no Arrow file; save the dataset again")
    return found


def _names(path: str, names: list[Any]) -> list[str]:
    """Return names of files; refuse a name that is not of a file in the same folder."""
    for name in names:
        if not isinstance(name, str) or "/" in name or name in ("", ".", ".."):
            raise Refused(f"{path}: names {name!r}, which is not a file next to it; save the dataset again")
    return names


def _json(path: str, key: str) -> list[Any]:
    """Return a list in a small JSON file."""
    try:
        with open(path, encoding="utf-8") as file:
            value = json.load(file)[key]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise Refused(f"{path}: cannot be read ({error}); save the dataset again") from None
    if not isinstance(value, list):
        raise Refused(f"{path}: {key!r} is not a list; save the dataset again")
    return value
