"""Outputs in an object store: staged on this machine, sent to their names, removed."""

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
    """Outputs that appear by one PUT each."""

    parks_copies = True
    always_durable = True

    def start_afresh(self) -> None:
        super().start_afresh()
        self._parked: dict[str, list[str]] = {}
        self._seen: tuple[str, dict[str, int]] = ("", {})

    @property
    def local_staging(self) -> str:
        """Return the folder on this machine for what is on its way."""
        return staging_of(self.ownership.owner)

    def make_local_staging(self, name: str) -> str:
        """Make a folder in it."""
        path = f"{self.local_staging}/{name}"
        for patience in reversed(range(PATIENCE)):
            # the last batch of another worker may be finished here, and take the folder along
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
        """Put them into the store, too."""
        start = f"{self.local_staging}/{batch}/"
        paths = [os.path.join(folder, name) for folder, _, names in os.walk(start) for name in sorted(names)]
        names = [f"{STAGING}/{batch}/{path.removeprefix(start)}" for path in paths]
        self._parked[batch] = names
        in_threads(self._upload, list(zip(paths, names, strict=True)))

    def unstage(self, batch: str, *, and_parked: bool = True) -> None:
        """Remove a batch's files; the folder of the run goes with the last, unless it is the driver's."""
        shutil.rmtree(f"{self.local_staging}/{batch}", ignore_errors=True)
        with contextlib.suppress(OSError):
            os.rmdir(self.local_staging)
        parked = self._parked.pop(batch, []) if and_parked else []
        if parked:
            self.remove(parked)

    def clear_staging(self) -> None:
        """Remove what was parked, and end the uploads of the run's own files that a death has left open."""
        with self.reading(STAGING):
            parked = self.objects.below(STAGING)
        self.remove(parked)
        self.objects.abort_uploads(below=RESERVED_FOLDERS)

    def driver_is_gone(self) -> None:
        """Remove its mark from the folder of the run, and the folder with the last that is in it."""
        for path in (f"{self.local_staging}/driver", self.local_staging):
            with contextlib.suppress(OSError):
                os.rmdir(path)

    def publish(self, staged: str, names: list[str]) -> None:
        """Send one PUT for each, several at a time."""
        self.publish_all([(staged, names)])

    def publish_all(self, folders: Sequence[tuple[str, list[str]]]) -> None:
        """Send one PUT for each file of all of them, several at a time."""
        files = [(f"{staged}/{os.path.basename(name)}", name) for staged, names in folders for name in names]
        in_threads(self._upload, files)

    def publish_files(self, files: Sequence[tuple[str, str]]) -> None:
        in_threads(self._upload, files)

    def _upload(self, file: tuple[str, str]) -> None:
        path, name = file
        with self.writing(name), open(path, "rb") as content:
            self.objects.upload(name, content)

    def move(self, source: str, target: str) -> bool:
        """Copy within the store, and delete; return False if it is not there."""
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
        """Send one request for each thousand."""
        some = list(names)
        refuse_unclean(self.root, some)
        if some:
            with self.writing(some[0]):
                self.objects.delete(some)

    def withdraw(self, names: Iterable[str]) -> None:
        """Delete, and end uploads in parts that are half-way there."""
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
        """Send one LIST, unless nothing was there when the run began."""
        if self.was_new:
            return False
        with self.reading(folder):
            self._seen = folder, self.objects.listed(folder, beginning)
        return bool(self._seen[1])

    def refuse_taken(self, name: str, size: int, checksum: str, own: Collection[str]) -> None:
        """Compare with what `may_hold` has seen."""
        del own
        folder, sizes = self._seen
        there = sizes.get(name.removeprefix(f"{folder}/"))
        if there is not None and (there != size or self.measured(name) != (size, checksum)):
            raise NameTaken.of(name, "already exists")


def staging_of(owner: LockOwner) -> str:
    """Return the folder on this machine for what a run has on its way."""
    return f"{tempfile.gettempdir()}/splitter-staging-{owner.run}"
