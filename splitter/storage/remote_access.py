"""Access to an output in an object store: its objects, its owner, and the meaning of its errors."""

import contextlib
import tempfile
from collections.abc import Iterator
from typing import Any

from splitter.errors import TO_CONTINUE, Refused, StorageError
from splitter.storage.base import Storage
from splitter.storage.names import refuse_unclean
from splitter.storage.ownership import Ownership
from splitter.stores.faults import code_of, is_missing, is_out_of_reach, may_pass
from splitter.stores.objects import NO_BUCKET, NO_SUCH_BUCKET, objects_at, shown
from splitter.system.temporary_folders import NoTemporarySpace


class RemoteAccess(Storage):
    """The objects below a URL.

    Attributes:
        objects: The client for the objects.
        ownership: The ownership of the output by this run.
        was_new: Whether the output was empty when the run began.
    """

    def __init__(self, root: str) -> None:
        self.root = root
        self.only_here = root.startswith("memory://")
        self.was_new = False
        self.objects = objects_at(root)
        self.ownership = Ownership(objects_at(root))
        self.start_afresh()

    def start_afresh(self) -> None:
        """Reset what belongs to this process alone, such as open files."""

    def __reduce__(self) -> tuple[Any, ...]:
        names = ("was_new", "objects", "ownership", "run")
        return type(self), (self.root,), {name: getattr(self, name) for name in names}

    @property
    def lost(self) -> str:
        return self.ownership.lost

    @contextlib.contextmanager
    def writing(self, name: str) -> Iterator[None]:
        """Name the object that cannot be written, and why; write nothing if another run has taken over."""
        if self.lost:
            raise StorageError(self.lost)
        refuse_unclean(self.root, (name,))
        with self._named_errors(f"cannot write {self.path(name)}"):
            yield

    @contextlib.contextmanager
    def reading(self, name: str) -> Iterator[None]:
        """Name the object that cannot be read, and why."""
        if name:
            refuse_unclean(self.root, (name,))
        with self._named_errors(f"cannot read {self.path(name)}"):
            yield

    @contextlib.contextmanager
    def _named_errors(self, what: str) -> Iterator[None]:
        try:
            yield
        except (StorageError, Refused, Unreadable):
            raise
        except Exception as error:  # the client of a store may raise anything
            if code_of(error) == NO_SUCH_BUCKET:
                raise StorageError(f"{self.root}: {NO_BUCKET}") from error
            raise StorageError(f"{what}: {reason_of(error)}; {TO_CONTINUE}") from error

    @contextlib.contextmanager
    def refusing(self) -> Iterator[None]:
        """Turn any error before the work begins into a refusal, with a remedy."""
        try:
            yield
        except Refused:
            raise
        except Exception as error:
            raise Refused(f"{self.root}: {reason_of(error)}{_remedy(self.root, error)}") from error

    def naming_temporary(self, name: str) -> contextlib.AbstractContextManager[None]:
        """Turn an OSError for a temporary file into NoTemporarySpace, which names it."""
        where = f"a temporary file for {self.path(name)} in {tempfile.gettempdir()}"
        return NoTemporarySpace.naming(where)

    def size_of(self, name: str) -> int:
        """Return the size of an object in bytes."""
        with self.reading(name):
            size = self.objects.size(name)
            if size is None:
                raise FileNotFoundError
            return size


class Unreadable(OSError):
    """An object that may not be read, though its store can be reached."""


def reason_of(error: Exception) -> str:
    """Return what went wrong with an object, in words."""
    code = code_of(error)
    if code == NO_SUCH_BUCKET:
        return "there is no such bucket"
    if "Credentials" in type(error).__name__:
        return "there are no credentials for it"
    if isinstance(error, PermissionError):
        return f"access is denied ({code or shown(error)})"
    if is_out_of_reach(error):
        return "its server cannot be found"
    if may_pass(error):
        return f"the store cannot be reached, or is busy ({code or shown(error)})"
    return "there is no such object" if is_missing(error) else shown(error)


def _remedy(root: str, error: Exception) -> str:
    """Return the advice to add to an error before a run begins."""
    code = code_of(error)
    if code == NO_SUCH_BUCKET or is_missing(error):
        return "; create it first, or fix the URL"
    if isinstance(error, PermissionError) or "Credentials" in type(error).__name__:
        if root.startswith("s3"):
            return "; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
        return "; check the credentials of the store's own client"
    return "; check the network and the address of the store"
