"""The sink of loose files: `<path of the input, without extension>/<output name>`."""

import os
import shutil
import stat
from collections.abc import Collection

from splitter.content import measure, write_content
from splitter.errors import BadResult, NameTaken, StorageError
from splitter.records import Content, Scratch
from splitter.sinks.base import Owner, Sink, SinkWriter, Stored
from splitter.storage import LocalStorage

LONGEST_PATH, LONGEST_PART = 4000, 255
# so many characters are at most 252 bytes
SHORT_PATH = 63


class FilesSink(Sink):
    """Each output is a file of its own, in the folder of its input."""

    def open(
        self,
        storage: LocalStorage,
        batch: str,
        stale: Collection[str] = (),
        group: int = 0,  # noqa: ARG002 - of shards
    ) -> "FilesWriter":
        """Begin a batch."""
        return FilesWriter(storage, batch, stale)


class FilesWriter(SinkWriter):
    """Stages each input's outputs in a numbered folder, which publishing renames to its final name."""

    def __init__(self, storage: LocalStorage, batch: str, stale: Collection[str] = ()) -> None:
        """Nothing is made on disk before there is a first output."""
        self._stale = set(stale)
        self._there = False
        self._storage = storage
        self._batch = batch
        self._staging = ""
        self._number = 0
        self._current: list[str] = []
        self._kept: list[tuple[str, list[str]]] = []

    def store(self, folder: str, name: str, content: Content, scratch: Scratch) -> Stored:
        """Write one output to staging."""
        output = f"{folder}/{name}"
        if len(output) > SHORT_PATH and _is_too_long(self._storage.path(output)):
            raise BadResult(f"the output's path is too long: {output[:80]}…")
        path = f"{self._folder()}/{name}"
        if not self._current:
            self._there = self._is_there(folder)
        size, checksum = write_content(path, content, scratch)
        if self._there and output not in self._stale:
            self._refuse_taken(output, size, checksum)
        self._current.append(output)
        return Stored(output, size, checksum)

    def _is_there(self, folder: str) -> bool:
        """Whether the folder of an input has something in it, which may be a stranger's."""
        try:
            found = os.lstat(self._storage.path(folder))
        except FileNotFoundError:
            return False
        except NotADirectoryError:
            raise _taken(folder, "lies below a file") from None
        if not stat.S_ISDIR(found.st_mode):
            raise _taken(folder, "is a file, where its folder must be")
        return True

    def _refuse_taken(self, output: str, size: int, checksum: str) -> None:
        """Refuse to replace what no run has made, unless it is the same."""
        path = self._storage.path(output)
        try:
            found = os.lstat(path)
        except FileNotFoundError:
            return
        beside = (name for name in self._stale if os.path.dirname(name) == os.path.dirname(output))
        if any(os.path.samestat(found, os.lstat(self._storage.path(name))) for name in beside
               if self._storage.exists(name)):  # fmt: skip
            # another name of it, where case does not count
            return
        if not stat.S_ISREG(found.st_mode) or found.st_size != size or measure(path)[1] != checksum:
            raise _taken(output, "is there already")

    def _folder(self) -> str:
        if not self._staging:
            self._staging = self._storage.stage(self._batch)
        path = f"{self._staging}/{self._number}"
        if not self._current:
            try:
                os.makedirs(path, exist_ok=True)
            except OSError as error:
                raise StorageError.of(error, path) from error
        return path

    def drop_input(self) -> None:
        """Remove the input's staged files."""
        if self._staging:
            shutil.rmtree(f"{self._staging}/{self._number}", ignore_errors=True)
            # the next input has a folder of its own, even if this one could not be removed
            self._number += 1
        self._current = []

    def keep_input(self, owner: Owner | None = None) -> None:  # noqa: ARG002 - of shards
        """Remember the input's files for publishing."""
        if self._current:
            self._kept.append((f"{self._staging}/{self._number}", self._current))
            self._current = []
            self._number += 1

    def names(self) -> list[str]:
        """All outputs of the inputs that were kept."""
        return [name for _, names in self._kept for name in names]

    def publish(self) -> None:
        """Move each input's folder into place."""
        for staged, names in self._kept:
            self._storage.publish(staged, names)


def _taken(name: str, why: str) -> NameTaken:
    return NameTaken(
        f"{name} in the output folder {why}, and no run has made it; move it away, and run again with "
        "--retry-failed"
    )


def _is_too_long(path: str) -> bool:
    """Whether a file system would not take the path, or one of its parts."""
    name = path.encode("utf-8", "surrogateescape")
    return len(name) > LONGEST_PATH or max(map(len, name.split(b"/"))) > LONGEST_PART
