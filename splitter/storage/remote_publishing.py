"""Outputs in an object store: staged on this machine, uploaded to their final names, removed."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Collection, Iterable, Sequence

from splitter.errors import NameTaken, StorageError
from splitter.storage.base import PATIENCE, STAGING
from splitter.storage.layout import RESERVED_FOLDERS
from splitter.storage.names import refuse_unclean
from splitter.storage.ownership import LockOwner
from splitter.storage.remote_access import RemoteAccess
from splitter.stores.faults import code_of, is_missing
from splitter.stores.objects import NO_SUCH_BUCKET
from splitter.stores.threads import in_threads


class RemotePublishing(RemoteAccess):
    """Publishing in a store, by one PUT for each output."""

    parks_copies = True
    always_durable = True

    def start_afresh(self) -> None:
        super().start_afresh()
        self._parked: dict[str, list[str]] = {}
        self._seen: tuple[str, dict[str, int]] = ("", {})

    @property
    def local_staging(self) -> str:
        """Return the folder on this machine for the run's staged files."""
        return staging_of(self.ownership.owner)

    def make_local_staging(self, name: str) -> str:
        """Make a folder in the run's local staging folder, and return its path."""
        path = f"{self.local_staging}/{name}"
        for patience in reversed(range(PATIENCE)):
            # another worker may finish its last batch just now, and remove the run's folder
            gone = contextlib.suppress(FileNotFoundError) if patience else contextlib.nullcontext()
            with StorageError.naming(path), gone:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(self.local_staging, mode=0o700)
                os.makedirs(path)
                break
        return path

    def stage(self, batch: str) -> str:
        shutil.rmtree(f"{self.local_staging}/{batch}", ignore_errors=True)
        return self.make_local_staging(batch)

    def scratch(self) -> str:
        return self.local_staging

    def park(self, batch: str) -> None:
        """Upload copies of a batch's staged files."""
        start = f"{self.local_staging}/{batch}/"
        paths = [os.path.join(folder, name) for folder, _, names in os.walk(start) for name in sorted(names)]
        names = [f"{STAGING}/{batch}/{path.removeprefix(start)}" for path in paths]
        self._parked[batch] = names
        in_threads(self._upload, list(zip(paths, names, strict=True)))

    def unstage(self, batch: str, *, and_parked: bool = True) -> None:
        """Remove a batch's files, and the run's local folder once nothing is left in it."""
        shutil.rmtree(f"{self.local_staging}/{batch}", ignore_errors=True)
        with contextlib.suppress(OSError):
            os.rmdir(self.local_staging)
        parked = self._parked.pop(batch, []) if and_parked else []
        if parked:
            self.remove(parked)

    def clear_staging(self) -> None:
        """Remove parked files, and abort the uploads of splitter's own files that a dead run left open."""
        with self.reading(STAGING):
            parked = self.objects.below(STAGING)
        self.remove(parked)
        self.objects.abort_uploads(below=RESERVED_FOLDERS)

    def driver_is_gone(self) -> None:
        """Remove the driver's mark from the run's local folder, and the folder itself if it is then empty."""
        for path in (f"{self.local_staging}/driver", self.local_staging):
            with contextlib.suppress(OSError):
                os.rmdir(path)

    def publish(self, staged: str, names: list[str]) -> None:
        """Upload the files of a staged folder, several at a time."""
        self.publish_all([(staged, names)])

    def publish_all(self, folders: Sequence[tuple[str, list[str]]]) -> None:
        """Upload the files of several staged folders, several files at a time."""
        files = [(f"{staged}/{os.path.basename(name)}", name) for staged, names in folders for name in names]
        in_threads(self._upload, files)

    def publish_files(self, files: Sequence[tuple[str, str]]) -> None:
        in_threads(self._upload, files)

    def _upload(self, file: tuple[str, str]) -> None:
        path, name = file
        with self.writing(name), open(path, "rb") as content:
            self.objects.upload(name, content)

    def move(self, source: str, target: str) -> bool:
        """Copy an object within the store and delete the source; return False if the source is missing."""
        refuse_unclean(self.root, (source,))
        with self.writing(target):
            try:
                self.objects.copy(source, target)
            except Exception as error:
                if not is_missing(error) or code_of(error) == NO_SUCH_BUCKET:
                    raise
                return False
            self.objects.delete([source])
        return True

    def remove(self, names: Iterable[str]) -> None:
        """Delete objects, with one request for each thousand."""
        some = list(names)
        refuse_unclean(self.root, some)
        if some:
            with self.writing(some[0]):
                self.objects.delete(some)

    def withdraw(self, names: Iterable[str]) -> None:
        """Delete objects, and abort their unfinished multipart uploads."""
        some = list(names)
        self.remove(some)
        if some:
            self.objects.abort_uploads(some)

    def unfit(self, name: str) -> str:
        try:
            long = len(f"{self.root}/{name}".encode()) > self.objects.LONGEST_NAME
        except UnicodeEncodeError:
            return "is not UTF-8, as names in an object store are"
        return "is too long for an object store" if long else ""

    def may_hold(self, folder: str, beginning: str = "") -> bool:
        """Send one LIST, unless the output was empty when the run began."""
        if self.was_new:
            return False
        with self.reading(folder):
            self._seen = folder, self.objects.listed(folder, beginning)
        return bool(self._seen[1])

    def refuse_taken(self, name: str, size: int, checksum: str, own: Collection[str]) -> None:
        """Compare with the listing that `may_hold` has just made."""
        del own
        folder, sizes = self._seen
        there = sizes.get(name.removeprefix(f"{folder}/"))
        if there is not None and (there != size or self.measured(name) != (size, checksum)):
            raise NameTaken.of(name, "already exists")


def staging_of(owner: LockOwner) -> str:
    """Return the folder on this machine for a run's staged files."""
    return f"{tempfile.gettempdir()}/splitter-staging-{owner.run}"
