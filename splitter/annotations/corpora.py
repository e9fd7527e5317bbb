"""Annotations from the files of other tools: cuts of lhotse, folders of Kaldi, and others."""

import os
from collections.abc import Iterator

from splitter.annotations.rows import Row
from splitter.inputs.dialects.base import END, INPUT, START, TEXT, Entry, Written
from splitter.inputs.dialects.files import look
from splitter.inputs.dialects.lhotse import Lhotse, is_cut, supervisions
from splitter.inputs.dialects.source import dialect_of

LABEL = "label"


def rows_of_corpus(path: str) -> Iterator[Row] | None:
    """Return the rows of a file or folder of another tool; None if it is a plain annotation file."""
    is_plain = os.path.splitext(path)[1].lower() not in (".gz", ".json", ".jsonl")
    if is_plain and not os.path.isdir(path):
        return None
    there = look(path, path)
    if path.lower().endswith(".jsonl") and not is_cut(there.fields or {}):
        return None
    dialect = dialect_of(there)
    if dialect is None:
        return None
    return _rows(supervisions(there) if isinstance(dialect, Lhotse) else dialect.entries(there))


def state_of_folder(path: str) -> list[int] | None:
    """Return the sizes and times of the files in a folder of another tool; None for any other folder."""
    if dialect_of(Written(path, path)) is None:
        return None
    with os.scandir(path) as entries:
        found = sorted((one for one in entries if one.is_file()), key=lambda one: one.name)
        return [number for one in found for number in (one.stat().st_size, one.stat().st_mtime_ns)]


def _rows(entries: Iterator[Entry]) -> Iterator[Row]:
    for number, entry in enumerate(entries, 1):
        if START in entry:
            called = LABEL if LABEL in entry else TEXT
            others = tuple(name for name in entry if name not in (INPUT, START, END, called))
            values = tuple(entry[name] for name in others)
            label = entry.get(called, "")
            yield Row(number, entry[START], entry[END], label, others, values, entry[INPUT], called=called)
