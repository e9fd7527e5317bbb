"""Read and write, in a folder, the small files that a run keeps for itself."""

import contextlib
import os
import re
from collections.abc import Iterator
from typing import BinaryIO

from splitter.errors import StorageError
from splitter.options import RunPart
from splitter.storage.checked_file import HollowFile
from splitter.storage.folder_steps import FolderSteps
from splitter.storage.layout import OWN_FOLDER
from splitter.storage.names import refuse_unclean
from splitter.storage.tree import is_mostly_nothing

_OF_PARTS = re.compile(r"part-\d+-of-\d+|shares-of-\d+|.*\.part-\d+-of-\d+\.new")


class FolderRunFiles(FolderSteps):
    """The files of a run in a folder: they appear whole, and are synced if `durable`."""

    def __init__(self, root: str, part: RunPart | None = None) -> None:
        super().__init__(root, part)
        self._published: set[str] = set()

    def write(self, name: str, content: bytes, *, durable: bool = True) -> None:
        with self.replacing(name, durable=durable) as file:
            file.write(content)

    @contextlib.contextmanager
    def replacing(self, name: str, *, durable: bool = True) -> Iterator[BinaryIO]:
        refuse_unclean(self.root, (name,))
        temporary = f"{self.staging}/{name.replace('/', '+')}"
        with StorageError.naming(self.path(name)):
            with open(temporary, "wb", buffering=1 << 20, opener=self.tree.create) as file:
                yield file
                file.flush()
                if durable:
                    os.fsync(file.fileno())
            self.rename(temporary, name)
            if durable:
                self.sync_folder(os.path.dirname(name))

    @contextlib.contextmanager
    def working_file(self, name: str) -> Iterator[BinaryIO]:
        new = self._new(name)
        with self.refusing():
            file = open(new, "w+b", opener=self.tree.create)  # noqa: SIM115 - closed below
        try:
            yield file
        except BaseException:
            # a write that failed has raised its own error before
            with contextlib.suppress(OSError):
                file.close()
            # after it is published, the temporary name is gone
            with contextlib.suppress(OSError):
                self.tree.unlink(new)
            raise
        with StorageError.naming(self.path(name)):
            file.close()
        self.publish_file(name)

    def publish_file(self, name: str) -> None:
        if name in self._published:
            return
        with StorageError.naming(self.path(name)):
            # an interrupted call may already have renamed it
            if self.tree.exists(self._new(name)):
                self.sync_file(self._new(name))
                self.rename(self._new(name), name)
            self._published.add(name)
            self.sync_folder(os.path.dirname(name))

    def _new(self, name: str) -> str:
        return f"{name}.{self.part.name}.new" if self.part else f"{name}.new"

    def names(self, folder: str) -> list[str]:
        with self.reading(folder), contextlib.suppress(FileNotFoundError):
            return sorted(self.tree.names(folder))
        return []

    def open(self, name: str) -> BinaryIO:
        """Open a file for reading; refuse a sparse one, which is small on disk but could fill all memory."""
        with self.reading(name):
            file = open(name, "rb", opener=self.tree.open)  # noqa: SIM115 - for the caller
            if is_mostly_nothing(file.fileno()):
                size = os.fstat(file.fileno()).st_size
                file.close()
                raise HollowFile(self.path(name), size)
            return file

    def exists(self, name: str) -> bool:
        with self.reading(name):
            return self.tree.exists(name)

    def forget_parts(self) -> None:
        names = [name for name in self.names(OWN_FOLDER) if _OF_PARTS.fullmatch(name)]
        self.remove(f"{OWN_FOLDER}/{name}" for name in names)
