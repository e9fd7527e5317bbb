"""The sink of loose files: `<path of the input, without extension>/<output name>`, or as --name says."""

import os
import shutil
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from splitter.errors import BadResult, StorageError
from splitter.options import RunOptions
from splitter.records import Content, Scratch
from splitter.sinks.base import OutputOwner, Sink, SinkWriter, StoredOutput
from splitter.storage.base import Storage
from splitter.storage.content import write_content


class FilesSink(Sink):
    """A sink that makes each output a file, in the folder of its input or as the template of --name says."""

    def __init__(self, options: RunOptions) -> None:
        self._name = options.name

    def options(self) -> dict[str, Any]:
        return {} if self._name is None else {"name": self._name}

    def open(
        self,
        storage: Storage,
        batch: str,
        stale: Collection[str] = (),
        group: int = 0,  # noqa: ARG002 - only for shards
    ) -> "FilesWriter":
        return FilesWriter(storage, batch, stale)


class FilesWriter(SinkWriter):
    """A writer that stages each input's outputs in a numbered folder, which `publish` renames."""

    def __init__(self, storage: Storage, batch: str, stale: Collection[str] = ()) -> None:
        self._stale = set(stale)
        self._may_exist = False
        self._storage = storage
        self._batch = batch
        self._staging = ""
        self._number = 0
        self._current: list[StoredOutput] = []
        # staged files of the current input that get other names than the recipe gave them
        self._renamed: list[tuple[str, str]] = []
        # to be published: a folder for each input, or single files
        self._folders: list[tuple[str, list[str]]] = []
        self._files: list[tuple[str, str]] = []

    def store(self, folder: str, name: str, content: Content, scratch: Scratch) -> StoredOutput:
        output = f"{folder}/{name}" if folder else name
        self._refuse_unfit(output)
        path = f"{self._folder()}/{name}"
        if folder and not self._current:
            self._may_exist = self._storage.may_hold(folder)
        stored = StoredOutput(output, *write_content(path, content, scratch))
        if folder and self._may_exist:
            self._refuse_taken(stored)
        self._current.append(stored)
        return stored

    def rename(self, names: Sequence[str]) -> None:
        below: dict[str, list[StoredOutput]] = {}
        staged = f"{self._staging}/{self._number}"
        for stored, name in zip(self._current, names, strict=True):
            self._refuse_unfit(name)
            self._renamed.append((f"{staged}/{stored.output}", name))
            below.setdefault(os.path.dirname(name), []).append(replace(stored, output=name))
        for folder, outputs in below.items():
            names_there = [os.path.basename(one.output) for one in outputs]
            beginning = os.path.commonprefix(names_there)  # noqa: RUF071 - letter by letter
            if self._storage.may_hold(folder, beginning):
                for stored in outputs:
                    self._refuse_taken(stored)

    def _refuse_unfit(self, output: str) -> None:
        unfit = self._storage.unfit(output)
        if unfit:
            raise BadResult(f"the output's path {unfit}: {output[:80]}…")

    def _refuse_taken(self, stored: StoredOutput) -> None:
        if stored.output not in self._stale:
            self._storage.refuse_taken(stored.output, stored.size or 0, stored.checksum, self._stale)

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
        self._current, self._renamed = [], []

    def keep_input(self, owner: OutputOwner | None = None) -> None:  # noqa: ARG002 - only for shards
        if self._renamed:
            self._files += self._renamed
        elif self._current:
            self._folders.append((f"{self._staging}/{self._number}", [one.output for one in self._current]))
        self._number += bool(self._current)
        self._current, self._renamed = [], []

    def names(self) -> list[str]:
        return [name for _, names in self._folders for name in names] + [name for _, name in self._files]

    def staged(self) -> dict[str, str]:
        """Return the staged path of each output."""
        of_folders = {
            name: f"{folder}/{os.path.basename(name)}" for folder, names in self._folders for name in names
        }
        return of_folders | {name: path for path, name in self._files}

    def publish(self) -> None:
        self._storage.publish_all(self._folders)
        self._storage.publish_files(self._files)
