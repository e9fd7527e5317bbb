"""The sink of a trial: it writes outputs as any sink does, and keeps none."""

import os

from splitter.records import Content, Scratch
from splitter.sinks.base import OutputOwner, SinkWriter, StoredOutput
from splitter.storage.base import Storage
from splitter.storage.content import write_content


class DiscardWriter(SinkWriter):
    """A writer that stages each output, to check that it can be written, and removes it."""

    def __init__(self, storage: Storage, batch: str) -> None:
        self._storage, self._batch = storage, batch
        self._staging = ""
        self._names: list[str] = []

    def store(self, folder: str, name: str, content: Content, scratch: Scratch) -> StoredOutput:
        if not self._staging:
            self._staging = self._storage.stage(self._batch)
        path = f"{self._staging}/{name}"
        size, checksum = write_content(path, content, scratch)
        os.unlink(path)
        self._names.append(name)
        return StoredOutput(f"{folder}/{name}" if folder else name, size, checksum)

    def drop_input(self) -> None:
        self._names = []

    def keep_input(self, owner: OutputOwner | None = None) -> None:
        """Keep the names: a trial ends with the first input that has outputs."""

    def names(self) -> list[str]:
        return [*self._names]

    def publish(self) -> None:
        """Publish nothing."""
