"""The changes that are made to an output folder, one by one."""

import contextlib
import os
from collections.abc import Iterator

from splitter.options import RunPart
from splitter.storage.base import STAGING, Storage, unreadable
from splitter.storage.tree import Tree


class FolderSteps(Storage):
    """A folder that is reached by descriptors, and the steps that change what is in it.

    Attributes:
        tree: The files of the folder.
    """

    def __init__(self, root: str, part: RunPart | None = None) -> None:
        self.root = os.path.abspath(root)
        self.part = part
        # files on their way: those of a part are apart from those of the others
        self.staging = f"{STAGING}/{part.name}" if part else STAGING
        self.tree = Tree(self.root)

    def rename(self, source: str, target: str) -> None:
        """Give something another name, in place of what has it."""
        self.tree.rename(source, target)

    def unlink(self, name: str) -> None:
        """Remove a file; ignore a missing one."""
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            self.tree.unlink(name)

    def sync_folder(self, name: str) -> None:
        """Sync the names in a folder."""
        with self.tree.listing(name) as descriptor:
            os.fsync(descriptor)

    def sync_file(self, name: str) -> None:
        """Sync the content of a file."""
        descriptor = self.tree.open(name, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    @contextlib.contextmanager
    def reading(self, name: str) -> Iterator[None]:
        """Name the file that cannot be read."""
        try:
            yield
        except OSError as error:
            raise unreadable(self.path(name), error.strerror) from error
