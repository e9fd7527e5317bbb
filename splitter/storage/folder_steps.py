"""The changes that are made to an output folder, one by one."""

import contextlib
import os
from collections.abc import Iterator

from splitter.errors import Refused
from splitter.options import RunPart
from splitter.storage.base import STAGING, Storage, unreadable
from splitter.storage.tree import InTheWay, Tree


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
        with open(name, "rb", buffering=0, opener=self.tree.open) as file:
            os.fsync(file.fileno())

    @contextlib.contextmanager
    def reading(self, name: str) -> Iterator[None]:
        """Name the file that cannot be read."""
        try:
            yield
        except OSError as error:
            raise unreadable(self.path(name), error.strerror) from error

    @contextlib.contextmanager
    def refusing(self) -> Iterator[None]:
        """Refuse a folder that nothing can be written to."""
        try:
            yield
        except OSError as error:
            raise unwritable(self.root, error) from None


def unwritable(root: str, error: OSError) -> Refused:
    """Return what is said of a folder that nothing can be written to."""
    if isinstance(error, InTheWay):
        return Refused(f"{error.strerror}; no run creates one there, so check where this folder came from")
    remedy = "choose another --output or free some disk space"
    return Refused(f"{root}: cannot be written: {error.strerror}; {remedy}")
