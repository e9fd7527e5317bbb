"""The sink of loose files: `<path of the input, without extension>/<output name>`."""

import os
import shutil
from collections.abc import Collection

from splitter.errors import BadResult, StorageError
from splitter.records import Content, Scratch
from splitter.sinks.base import OutputOwner, Sink, SinkWriter, StoredOutput
from splitter.storage.base import Storage
from splitter.storage.content import write_content


class FilesSink(Sink):
    """Each output is a file, in the folder of its input."""

    def open(
        self,
        storage: Storage,
        batch: str,
        stale: Collection[str] = (),
        group: int = 0,  # noqa: ARG002 - of shards
    ) -> "FilesWriter":
        return FilesWriter(storage, batch, stale)


class FilesWriter(SinkWriter):
    """Stages each input's outputs in a numbered folder, which `publish` renames to its final name."""

    def __init__(self, storage: Storage, batch: str, stale: Collection[str] = ()) -> None:
        self._stale = set(stale)
        self._may_exist = False
        self._storage = storage
        self._batch = batch
        self._staging = ""
        self._number = 0
        self._current: list[str] = []
        self._finished: list[tuple[str, list[str]]] = []

    def store(self, folder: str, name: str, content: Content, scratch: Scratch) -> StoredOutput:
        output = f"{folder}/{name}"
        unfit = self._storage.unfit(output)
        if unfit:
            raise BadResult(f"the output's path {unfit}: {output[:80]}…")
        path = f"{self._folder()}/{name}"
        if not self._current:
            self._may_exist = self._storage.may_hold(folder)
        size, checksum = write_content(path, content, scratch)
        if self._may_exist and output not in self._stale:
            self._storage.refuse_taken(output, size, checksum, self._stale)
        self._current.append(output)
        return StoredOutput(output, size, checksum)

    def _folder(self) -> str:
        if not self._staging:
            self._staging = self._storage.stage(self._batch)
        path = f"{self._staging}/{self._number}"
        if not self._current:
            with StorageError.naming(path):
                os.makedirs(path, exist_ok=True)
        return path

    def drop_input(self) -> None:
        if self._staging:
            shutil.rmtree(f"{self._staging}/{self._number}", ignore_errors=True)
            # the next input gets another folder, even if this one could not be removed
            self._number += 1
        self._current = []

    def keep_input(self, owner: OutputOwner | None = None) -> None:  # noqa: ARG002 - of shards
        if self._current:
            self._finished.append((f"{self._staging}/{self._number}", self._current))
            self._current = []
            self._number += 1

    def names(self) -> list[str]:
        return [name for _, names in self._finished for name in names]

    def publish(self) -> None:
        self._storage.publish_all(self._finished)
