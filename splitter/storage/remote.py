"""An output in an object store, with the same interface as one in a folder.

Unfinished files are on local disk, in the system's temporary folder: the files of current batches, the copy
of the list, and the commit records. Each file goes to the store by one PUT.
"""

import contextlib
import fcntl
import functools
import io
import os
import re
import shutil
import socket
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence

from splitter.archives.members import SharedFile
from splitter.errors import Refused
from splitter.storage.base import SECONDS_FOR_DEAD_RUN, Answer, Item
from splitter.storage.layout import OWN_FOLDER
from splitter.storage.locks import lock_within
from splitter.storage.ownership import LockOwner, Ownership
from splitter.storage.remote_access import Unreadable, reason_of
from splitter.storage.remote_files import RemoteRunFiles
from splitter.storage.remote_publishing import RemotePublishing, staging_of
from splitter.stores.faults import code_of, is_missing
from splitter.stores.files import RangeFile
from splitter.stores.objects import NO_SUCH_BUCKET, PARTS_AT_A_TIME, READ_AT_ONCE, objects_at
from splitter.stores.threads import each_in_threads, in_threads
from splitter.system.cpus import usable_cpus

# patience in seconds with the first requests, before any work: a missing store is refused soon
FIRST_PATIENCE = 10.0
SECONDS_FOR_REQUESTS_TO_END = 2.0
SECONDS_OF_TRUST = 10.0
# each shard takes twice its size on the local disk
MOST_SHARDS_AT_ONCE = 4
_RUN = re.compile(r"[0-9a-f]{16}")


class RemoteStorage(RemoteRunFiles, RemotePublishing):
    """An output below a URL."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self._nothing_there = False

    def start_afresh(self) -> None:
        super().start_afresh()
        self._confirmed = float("-inf")

    # -- taking the output

    def refuse_strange(self) -> None:
        """Refuse a URL that contains anything but an output; a store needs no other preparation."""
        first = objects_at(self.root, FIRST_PATIENCE)
        with self.refusing():
            if first.listed(OWN_FOLDER):
                return
            found = first.any_name()
        if found:
            raise Refused(
                f"{self.root}: contains something else ({found}); choose an empty or new folder as --output"
            )
        self.was_new = True

    @contextlib.contextmanager
    def locked(self, *, elsewhere: bool = False) -> Iterator[None]:
        """Take ownership of the output for this run.

        A local folder is locked as well, and the workers on this machine inherit that lock, so a later run on
        this machine waits until the last of them has ended.
        """
        ownership = self.ownership = Ownership(objects_at(self.root, FIRST_PATIENCE))
        with self.refusing():
            ownership.take(elsewhere=elsewhere, bury=self._bury)
        try:
            ownership.objects = self.objects
            self.run = ownership.owner.run
            self.make_local_staging("driver")
            self.lock_descriptors = [os.open(self.local_staging, os.O_RDONLY)]
            fcntl.flock(self.lock_descriptors[0], fcntl.LOCK_EX)
            yield
        finally:
            # a worker that is still at work can no longer publish its files
            shutil.rmtree(self.local_staging, ignore_errors=True)
            for descriptor in self.lock_descriptors:
                os.close(descriptor)
            self.lock_descriptors = ()
            ownership.leave(nothing_there=self._nothing_there)
            self.start_afresh()

    def _bury(self, before: LockOwner) -> None:
        """Wait for the workers that a dead run left on this machine, and remove the files it left on disk."""
        if before.host != socket.gethostname() or not _RUN.fullmatch(before.run):
            return
        left = staging_of(before)
        try:
            descriptor = os.open(left, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:
            return
        try:
            if not lock_within(descriptor, SECONDS_FOR_DEAD_RUN):
                raise Refused(f"{self.root}: workers of an earlier run still use it; wait for them")
        finally:
            os.close(descriptor)
        shutil.rmtree(left, ignore_errors=True)

    def leave_nothing(self) -> None:
        self._nothing_there = self.was_new

    def confirm(self, *, lately: bool = False) -> None:
        """Send one LIST, and raise StorageError if it shows a later run."""
        if lately and time.monotonic() - self._confirmed < SECONDS_OF_TRUST:
            return
        with self.reading(OWN_FOLDER):
            self.ownership.confirm()
        self._confirmed = time.monotonic()

    @contextlib.contextmanager
    def at_work(self) -> Iterator[None]:
        """Check that the output still belongs to the run; a store does not show who is at work."""
        self.confirm()
        yield

    def wait_for_workers(self, seconds: float) -> bool:
        """Make the workers of earlier runs stop, and wait for the requests that they have already sent."""
        with self.writing(OWN_FOLDER):
            self.ownership.advance()
        time.sleep(min(seconds, SECONDS_FOR_REQUESTS_TO_END))
        return True

    def users(self) -> tuple[str, tuple[bytes, ...]]:
        """Send two requests; if the run of a lock may be dead, watch the lock until that is clear."""
        with self.reading(OWN_FOLDER):
            return self.ownership.user()

    # -- inspecting the output, when no run is at work

    # large, so that outputs are read by threads of one process, and not divided among processes
    look_at_once = 1 << 32

    def is_output(self) -> bool:
        with self.refusing():
            return bool(objects_at(self.root, FIRST_PATIENCE).listed(OWN_FOLDER))

    def open_output(self, name: str) -> io.RawIOBase:
        """Open an object; send one GET for each piece, for the first at once, and hold one in memory."""
        piece = functools.lru_cache(maxsize=1)(functools.partial(self._piece, name))
        first = len(piece(0))

        def read_at(position: int, size: int) -> bytes:
            at = position % READ_AT_ONCE
            return piece(position - at)[at : at + size]

        return RangeFile(read_at, lambda: first if first < READ_AT_ONCE else self.size_of(name))

    def _piece(self, name: str, start: int) -> bytes:
        with self.reading(name):
            try:
                return self.objects.read_up_to(name, start, start + READ_AT_ONCE)
            except Exception as error:
                if not is_missing(error) or code_of(error) == NO_SUCH_BUCKET:
                    if isinstance(error, PermissionError):
                        raise Unreadable(reason_of(error)) from error
                    raise
        raise FileNotFoundError(name)

    def walk(self) -> Iterator[str]:
        """Yield the names of all files except splitter's own, with one LIST for each thousand."""
        with self.reading(""):
            for name in self.objects.all_names():
                if not name.startswith(f"{OWN_FOLDER}/"):
                    yield name

    def near(self, name: str, folder: str) -> str:
        """Fetch a copy into `folder`, several pieces at a time."""
        path = f"{folder}/{name}"
        first = self._piece(name, 0)
        size = len(first) if len(first) < READ_AT_ONCE else self.size_of(name)
        with self.naming_temporary(name):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            file = SharedFile(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666))

        def put(content: bytes, at: int) -> None:
            with self.naming_temporary(name):
                file.write(content, at)

        put(first, 0)
        in_threads(
            lambda at: put(self._piece(name, at), at),
            range(READ_AT_ONCE, size, READ_AT_ONCE),
            PARTS_AT_A_TIME,
        )
        return folder

    def of_each_output(
        self, function: Callable[[Item], Answer], items: Iterable[Item]
    ) -> Generator[Answer, None, None]:
        """Yield the function's result for each item; as many at a time as a client has connections."""
        return each_in_threads(function, items)

    def of_each_shard(
        self, function: Callable[[Item], Answer], items: Sequence[Item], workers: int | None
    ) -> Generator[Answer, None, None]:
        """Yield the function's results from a few threads: with a client's own threads, forking is unsafe."""
        return each_in_threads(function, items, min(workers or usable_cpus(), MOST_SHARDS_AT_ONCE))
