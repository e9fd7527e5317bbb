"""Inputs that an earlier stage of a pipeline dropped after use, as it was told to: they are not lost."""

import os
from functools import cached_property
from typing import Any

import numpy as np

from splitter.errors import Refused
from splitter.ledger.journal import Journal
from splitter.ledger.list_copy import ListDescription, list_description
from splitter.ledger.run_files import DROPPED, PIPELINE
from splitter.storage.base import Storage
from splitter.storage.layout import Layout, key_hash
from splitter.storage.names import is_clean
from splitter.storage.opening import storage_of


class DroppedInputs:
    """The inputs of a list that an earlier stage dropped, because it keeps files only until they are used."""

    def __init__(self, listed: ListDescription) -> None:
        """Take the description of the list; only the list of a stage can have dropped inputs."""
        self._listed = listed

    def __contains__(self, name: str) -> bool:
        """Return whether a file was dropped after use; files that a stage failed on stay for its next run."""
        source = self._source
        if source is None or source.exists(name):
            return False
        return not any(key_hash(layout.key(name)) in failed for layout, failed in self._failed)

    @cached_property
    def _source(self) -> Storage | None:
        """The output folder of the stage that made the files, if it drops any."""
        if not self._listed.size_column:
            return None
        source = storage_of(self._listed.root)
        return source if source.is_output() and source.exists(DROPPED.name) else None

    @cached_property
    def _failed(self) -> list[tuple[Layout, set[int]]]:
        """For each stage that reads these files, its layout and the keys that it failed on."""
        found = []
        pipeline = storage_of(os.path.dirname(self._listed.root))
        for name in PIPELINE.load(pipeline, _stage_names) or []:
            storage = storage_of(pipeline.path(name))
            try:
                listed = list_description(storage)
            except Refused:
                # it has not run yet
                continue
            if listed.root == self._listed.root and listed.size_column:
                journal = Journal(storage)
                journal.peek()
                failed = journal.entries["key"][np.intersect1d(journal.counting(), journal.failed())]
                found.append((Layout(listed.root, listed.keep_extension), {*failed.tolist()}))
        return found


def _stage_names(content: dict[str, Any], _: bytes) -> list[str]:
    names = [stage["name"] for stage in content["stages"]]
    if not all(is_clean(name) and "/" not in name for name in names):
        raise ValueError("its stages are wrong")
    return names
