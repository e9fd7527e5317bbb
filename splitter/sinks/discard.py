"""For inputs that are only tried: their outputs are made as for any sink, and nothing is kept."""

import os

from splitter.records import Content, Scratch
from splitter.sinks.base import OutputOwner, SinkWriter, StoredOutput
from splitter.storage.base import Storage
from splitter.storage.content import write_content


class DiscardWriter(SinkWriter):
    """Writes each output to staging, so that it is known whether that can be done, and removes it."""

    def __init__(self, storage: Storage, batch: str) -> None:
        """Nothing is made on disk before there is a first output."""
        self._storage, self._batch = storage, batch
        self._staging = ""
        self._names: list[str] = []
        self._kept: list[str] = []

    def store(self, folder: str, name: str, content: Content, scratch: Scratch) -> StoredOutput:
        """Write one output, and remove it."""
        if not self._staging:
            self._staging = self._storage.stage(self._batch)
        path = f"{self._staging}/{name}"
        size, checksum = write_content(path, content, scratch)
        os.unlink(path)
        self._names.append(name)
        return StoredOutput(f"{folder}/{name}", size, checksum)

    def drop_input(self) -> None:
        """Forget an input that has failed."""
        self._names = []

    def keep_input(self, owner: OutputOwner | None = None) -> None:  # noqa: ARG002 - of shards
        """Have `names` tell of this input, as the last that was done."""
        self._kept, self._names = self._names, []

    def names(self) -> list[str]:
        """What the outputs of the last input that was done are called."""
        return self._kept

    def publish(self) -> None:
        """There is nothing."""
