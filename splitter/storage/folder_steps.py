"""Single changes to an output folder: rename, remove, sync."""

import contextlib
import os
from collections.abc import Iterator

from splitter.errors import Refused
from splitter.options import RunPart
from splitter.storage.base import STAGING, Storage, unreadable
from splitter.storage.tree import InTheWay, Tree


class FolderSteps(Storage):
    """A folder that is reached by descriptors, and the single steps that change its contents.

    Attributes:
        tree: The files of the folder.
    """

    def __init__(self, root: str, part: RunPart | None = None) -> None:
        self.root = os.path.abspath(root)
        self.part = part
        # each part stages its files in its own folder
        self.staging = f"{STAGING}/{part.name}" if part else STAGING
        self.tree = Tree(self.root)

    def rename(self, source: str, target: str) -> None:
        """Rename a file or folder, replacing the target."""
        self.tree.rename(source, target)

    def unlink(self, name: str) -> None:
        """Remove a file; ignore a missing one."""
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            self.tree.unlink(name)

    def sync_folder(self, name: str) -> None:
        """Force the names in a folder to disk."""
        with self.tree.listing(name) as descriptor:
            os.fsync(descriptor)

    def sync_file(self, name: str) -> None:
        """Force the content of a file to disk."""
        with open(name, "rb", buffering=0, opener=self.tree.open) as file:
            os.fsync(file.fileno())

    @contextlib.contextmanager
    def reading(self, name: str) -> Iterator[None]:
        """Turn an OSError into a StorageError that names the file."""
        try:
            yield
        except OSError as error:
            raise unreadable(self.path(name), error.strerror) from error

    @contextlib.contextmanager
    def refusing(self) -> Iterator[None]:
        """Turn an OSError into the refusal of a folder that cannot be written to."""
        try:
            yield
        except OSError as error:
            raise unwritable(self.root, error) from None


def unwritable(root: str, error: OSError) -> Refused:
    """Return the refusal of a folder that cannot be written to."""
    if isinstance(error, InTheWay):
        return Refused(f"{error.strerror}; no run creates one there, so check where this folder came from")
    remedy = "choose another --output or free some disk space"
    return Refused(f"{root}: cannot be written: {error.strerror}; {remedy}")
