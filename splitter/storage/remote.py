"""The output in an object store: the twin of the folder, behind the same seam.

What is on its way is on local disk, in the system's temporary folder: the files of the batches at work,
the copy of the list, and the commit records. Content goes to the store by one PUT for each file.
"""

import contextlib
import fcntl
import io
import os
import re
import shutil
import socket
import tempfile
import time
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from typing import Any, BinaryIO, TypeVar, cast

from splitter.errors import NameTaken, Refused, StorageError
from splitter.options import RunPart
from splitter.storage.base import PATIENCE, SECONDS_FOR_DEAD_RUN, STAGING, Storage
from splitter.storage.content import measure
from splitter.storage.folder import LocalStorage
from splitter.storage.layout import OWN_FOLDER, RESERVED_FOLDERS
from splitter.storage.names import refuse_unclean
from splitter.storage.ownership import LockOwner, Ownership
from splitter.storage.unnamed_copies import Copy, Pack
from splitter.stores.clients import is_missing, is_out_of_reach, may_pass
from splitter.stores.objects import (
    NO_BUCKET,
    NO_SUCH_BUCKET,
    PARTS_AT_A_TIME,
    READ_AT_ONCE,
    code_of,
    objects_at,
    shown,
)
from splitter.stores.threads import each_in_threads, in_threads
from splitter.system.cpus import usable_cpus
from splitter.system.temporary_folders import NoTemporarySpace
from splitter.text.urls import is_url, without_scheme, without_secrets

# seconds for the first requests, before any work: a store that is not there is refused soon
FIRST_PATIENCE = 10.0
SECONDS_FOR_REQUESTS_TO_END = 2.0
SECONDS_OF_TRUST = 10.0
# where an object is there whole or not at all; what is missing here is a file system, or read-only
STORES = ("s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "oss", "oci", "memory")
# each takes twice its room on the local disk
MOST_SHARDS_AT_ONCE = 4
Item = TypeVar("Item")
Answer = TypeVar("Answer")
_SECRET = re.compile(r"^(s3a?|gs|gcs|oss|oci|memory)://[^/]*@|^\w+://[^/]*:[^/]*@")
_RUN = re.compile(r"[0-9a-f]{16}")


def storage_of(output: str, part: RunPart | None = None) -> Storage:
    """The output folder, or the place in an object store, that --output names."""
    if not is_url(output):
        return LocalStorage(os.path.expanduser(without_scheme(output)), part)
    protocol, _, rest = output.partition("://")
    if _SECRET.match(output):
        raise Refused(
            f"{protocol}://...@...: has credentials in it, which others would see; leave them to the "
            "environment or the configuration of the store's own client"
        )
    if protocol not in STORES:
        known = ", ".join(f"{one}://" for one in STORES)
        raise Refused(
            f"{without_secrets(output)}: splitter does not write there; give a folder, or a URL of {known}"
        )
    names = [name for name in rest.split("/") if name]
    if not names or {".", ".."} & {*names}:
        raise Refused(f"{output}: names no place in a store; write {protocol}://bucket/folder")
    root = f"{protocol}://{'/'.join(names)}"
    if part is not None:
        raise Refused(
            f"--part: not with {root}; use --executor ray, which divides the work, or a folder as --output"
        )
    return RemoteStorage(root)


class RemoteStorage(Storage):
    """An output below a URL."""

    parks_copies = True
    always_durable = True

    def __init__(self, root: str) -> None:
        """Use what is below the URL `root`, where there need not be anything yet."""
        self.root = root
        self.only_here = root.startswith("memory://")
        self.was_new = False
        self._objects = objects_at(root)
        self._ownership = Ownership(objects_at(root))
        self._nothing_there = False
        self._descriptor = -1
        self._start_afresh()

    def _start_afresh(self) -> None:
        """What belongs to this process alone."""
        self._working: dict[str, BinaryIO] = {}
        self._settled: set[str] = set()
        self._copies = Pack()
        self._sizes: dict[str, int] = {}
        self._parked: dict[str, list[str]] = {}
        self._on_disk: dict[str, Copy] = {}
        self._seen: tuple[str, dict[str, int]] = ("", {})
        self._confirmed = -SECONDS_OF_TRUST

    def __getstate__(self) -> dict[str, Any]:
        """For a worker that is not forked."""
        kept = ("root", "only_here", "was_new", "_objects", "_ownership", "run")
        return {name: getattr(self, name) for name in kept}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["root"])  # type: ignore[misc]
        self.__dict__.update(state)

    @property
    def lost(self) -> str:
        """Another run has taken the output over."""
        return self._ownership.lost

    # -- errors

    @contextlib.contextmanager
    def _writing(self, name: str) -> Iterator[None]:
        """Say what could not be written, and why; write nothing where another run is at work."""
        if self.lost:
            raise StorageError(self.lost)
        refuse_unclean(self.root, (name,))
        with self._named_errors(f"cannot write {self.path(name)}"):
            yield

    @contextlib.contextmanager
    def _reading(self, name: str) -> Iterator[None]:
        if name:
            refuse_unclean(self.root, (name,))
        with self._named_errors(f"cannot read {self.path(name)}"):
            yield

    @contextlib.contextmanager
    def _named_errors(self, what: str) -> Iterator[None]:
        try:
            yield
        except (StorageError, Refused, _Unreadable):
            raise
        except Exception as error:  # the client of a store raises what it likes
            if code_of(error) == NO_SUCH_BUCKET:
                raise StorageError(f"{self.root}: {NO_BUCKET}") from error
            remedy = "mend that and run the same command again to continue"
            raise StorageError(f"{what}: {_reason(error)}; {remedy}") from error

    @contextlib.contextmanager
    def _refusing(self) -> Iterator[None]:
        """Before any work: what does not work is refused in one line."""
        try:
            yield
        except Refused:
            raise
        except Exception as error:
            raise Refused(f"{self.root}: {_reason(error)}{_remedy(self.root, error)}") from error

    # -- taking the output

    def refuse_strange(self) -> None:
        """To look is all there is to prepare."""
        self.prepare()

    def prepare(self) -> None:
        """Look what is there; refuse what is not splitter's."""
        first = objects_at(self.root, FIRST_PATIENCE)
        with self._refusing():
            if first.listed(OWN_FOLDER):
                return
            found = first.any_name()
        if found:
            raise Refused(
                f"{self.root}: holds something else ({found}); choose an empty or new folder as --output"
            )
        self.was_new = True

    @contextlib.contextmanager
    def locked(self, *, elsewhere: bool = False) -> Iterator[None]:
        """Own the output for this run.

        A folder on local disk is locked as well, and the workers on this machine inherit that: a later run
        on this machine waits until the last of them is gone.
        """
        ownership = self._ownership = Ownership(objects_at(self.root, FIRST_PATIENCE))
        with self._refusing():
            before = ownership.take(elsewhere=elsewhere)
        try:
            self._bury(before)
            ownership.be_patient(self._objects)
            self.run = ownership.owner.run
            self._make_staging("driver")
            self._descriptor = os.open(self._staging, os.O_RDONLY)
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)
            yield
        finally:
            # what a worker still has in hand is of no use any more
            shutil.rmtree(self._staging, ignore_errors=True)
            if self._descriptor >= 0:
                os.close(self._descriptor)
            self._descriptor = -1
            ownership.leave(nothing_there=self._nothing_there)
            self._copies.close()
            for copy in self._on_disk.values():
                copy.close()
            self._start_afresh()

    @property
    def _staging(self) -> str:
        """The folder on this machine for what is on its way."""
        return _staging_of(self._ownership.owner)

    def _make_staging(self, name: str) -> str:
        path = f"{self._staging}/{name}"
        for patience in reversed(range(PATIENCE)):
            try:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(self._staging, mode=0o700)
                os.makedirs(path)
            except FileNotFoundError as error:
                # the last batch of another worker was finished here, and has taken the folder along
                if not patience:
                    raise StorageError.of(error, path) from error
            except OSError as error:
                raise StorageError.of(error, path) from error
            else:
                break
        return path

    def _bury(self, before: LockOwner) -> None:
        """Wait for what a dead run has left at work on this machine, and remove what it has left on disk."""
        if before.host != socket.gethostname() or not _RUN.fullmatch(before.run):
            return
        left = _staging_of(before)
        try:
            descriptor = os.open(left, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:
            return
        give_up = time.monotonic() + SECONDS_FOR_DEAD_RUN
        try:
            while True:
                with contextlib.suppress(BlockingIOError):
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                if time.monotonic() > give_up:
                    raise Refused(f"{self.root}: workers of an earlier run are at work in it; wait for them")
                time.sleep(0.05)
        finally:
            os.close(descriptor)
        shutil.rmtree(left, ignore_errors=True)

    @contextlib.contextmanager
    def unless_refused(self) -> Iterator[None]:
        """Leave no lock in a place that was new."""
        try:
            yield
        except Refused:
            self._nothing_there = self.was_new
            raise

    @property
    def lock_descriptors(self) -> list[int]:
        """That of the folder on local disk."""
        return [self._descriptor] if self._descriptor >= 0 else []

    def confirm(self, *, lately: bool = False) -> None:
        """One LIST: whether a later run has come."""
        if lately and time.monotonic() - self._confirmed < SECONDS_OF_TRUST:
            return
        with self._reading(OWN_FOLDER):
            self._ownership.confirm()
        self._confirmed = time.monotonic()

    @contextlib.contextmanager
    def at_work(self) -> Iterator[None]:
        """Workers are not known; each looks whether the output is their run's before it changes anything."""
        self.confirm()
        yield

    def wait_for_workers(self, seconds: float) -> bool:
        """From now on they do nothing more; wait for what they have sent already."""
        with self._writing(OWN_FOLDER):
            self._ownership.advance()
        time.sleep(min(seconds, SECONDS_FOR_REQUESTS_TO_END))
        return True

    # -- files of the run's own

    def write(self, name: str, content: bytes, *, durable: bool = True) -> None:
        """One PUT, which a store makes durable."""
        del durable
        with self._writing(name):
            self._objects.write(name, content)

    @contextlib.contextmanager
    def replacing(self, name: str, *, durable: bool = True) -> Iterator[BinaryIO]:
        """A temporary file, which goes to the store at the end."""
        del durable
        with self._temporary(name) as file:
            try:
                yield file
                file.flush()
            except OSError as error:
                raise self._no_room(error, name) from error
            with self._writing(name):
                self._objects.upload(name, file)

    @contextlib.contextmanager
    def working_file(self, name: str) -> Iterator[BinaryIO]:
        """A temporary file, which goes to the store when it settles."""
        with self._temporary(name) as file:
            self._working[name] = file
            yield file
            self.publish_file(name)

    def publish_file(self, name: str) -> None:
        """Put it there."""
        if name in self._settled:
            return
        file = self._working[name]
        try:
            at = file.tell()
            file.flush()
        except OSError as error:
            raise self._no_room(error, name) from error
        with self._writing(name):
            self._objects.upload(name, file)
        file.seek(at)
        self._settled.add(name)

    @contextlib.contextmanager
    def _temporary(self, name: str) -> Iterator[BinaryIO]:
        """A file without a name: it is gone with this process, however that ends."""
        try:
            file = tempfile.TemporaryFile(buffering=1 << 20, prefix="splitter-")  # noqa: SIM115 - closed below
        except OSError as error:
            raise self._no_room(error, name) from error
        with contextlib.closing(file):
            yield cast("BinaryIO", file)

    def _no_room(self, error: OSError, name: str) -> StorageError:
        return NoTemporarySpace.of(
            error, f"a temporary file for {self.path(name)} in {tempfile.gettempdir()}"
        )

    def on_disk(self, name: str) -> str:
        """A copy without a name of its own, by its descriptor."""
        if name not in self._on_disk:
            with self.open(name) as content:
                self._on_disk[name] = Copy(content)
        return self._on_disk[name].path

    def names(self, folder: str) -> list[str]:
        """One LIST for each thousand."""
        with self._reading(folder):
            found = self._objects.listed(folder)
        self._sizes.update((f"{folder}/{name}", size) for name, size in found.items())
        return list(found)

    def exists(self, name: str) -> bool:
        """One HEAD."""
        with self._reading(name):
            return self._objects.size(name) is not None

    def read(self, name: str) -> bytes:
        """One GET."""
        with self._reading(name):
            return self._objects.read(name)

    def open(self, name: str) -> BinaryIO:
        """A copy on this machine."""
        if name not in self._copies:
            self._sizes.pop(name, None)
            self.have_at_hand([name])
        return self._copies.open(name)

    def have_at_hand(self, names: Sequence[str]) -> None:
        """Fetch what was not fetched before, several at a time."""
        wanted = [name for name in names if name not in self._copies]
        unknown = [name for name in wanted if name not in self._sizes]
        self._sizes.update(zip(unknown, in_threads(self._size, unknown), strict=True))
        for name in wanted:
            self._copies.reserve(name, self._sizes[name])
        try:
            in_threads(
                self._copy,
                [
                    (name, start, min(self._sizes[name], start + READ_AT_ONCE))
                    for name in wanted
                    for start in range(0, self._sizes[name], READ_AT_ONCE)
                ],
            )
        except BaseException:
            self._copies.forget(wanted)
            raise

    def _size(self, name: str) -> int:
        with self._reading(name):
            size = self._objects.size(name)
            if size is None:
                raise FileNotFoundError
            return size

    def _copy(self, piece: tuple[str, int, int]) -> None:
        name, start, stop = piece
        with self._reading(name):
            self._copies.write(name, start, self._objects.read_part(name, start, stop))

    # -- outputs

    def remove(self, names: Iterable[str]) -> None:
        """One request for each thousand."""
        some = list(names)
        refuse_unclean(self.root, some)
        if some:
            with self._writing(some[0]):
                self._objects.delete(some)

    def withdraw(self, names: Iterable[str]) -> None:
        """Delete, and end uploads in parts that are half-way there."""
        some = list(names)
        self.remove(some)
        if some:
            self._objects.abort_uploads(some)

    def publish(self, staged: str, names: list[str]) -> None:
        """One PUT for each, several at a time."""
        self.publish_all([(staged, names)])

    def publish_all(self, folders: Sequence[tuple[str, list[str]]]) -> None:
        """One PUT for each file of all of them, several at a time."""
        files = [(f"{staged}/{os.path.basename(name)}", name) for staged, names in folders for name in names]
        in_threads(self._upload, files)

    def _upload(self, file: tuple[str, str]) -> None:
        path, name = file
        with self._writing(name):
            self._objects.upload_from(name, path)

    def move(self, source: str, target: str) -> bool:
        """A copy within the store, and a deletion; False if it is not there."""
        refuse_unclean(self.root, (source,))
        with self._writing(target):
            try:
                self._objects.copy(source, target)
            except Exception as error:
                if not is_missing(error) or code_of(error) == NO_SUCH_BUCKET:
                    raise
                return False
            self._objects.delete([source])
        return True

    def unfit(self, name: str) -> str:
        """What a store does not take as a name."""
        try:
            long = len(f"{self.root}/{name}".encode()) > self._objects.LONGEST_NAME
        except UnicodeEncodeError:
            return "is not UTF-8, as names in an object store are"
        return "is too long for an object store" if long else ""

    def may_hold(self, folder: str) -> bool:
        """One LIST, unless nothing was there when the run began."""
        if self.was_new:
            return False
        with self._reading(folder):
            self._seen = folder, self._objects.listed(folder)
        return bool(self._seen[1])

    def refuse_taken(self, name: str, size: int, checksum: str, own: Collection[str]) -> None:
        """Compare with what `may_hold` has seen."""
        del own
        folder, sizes = self._seen
        there = sizes.get(name.removeprefix(f"{folder}/"))
        if there is None:
            return
        with self._reading(name):
            same = there == size and measure(self.on_disk(name))[1] == checksum
        if not same:
            raise NameTaken.of(name, "is there already")

    # -- looking at all of it

    # read several at a time, and not in several processes
    look_at_once = 1 << 32

    def is_output(self) -> bool:
        """One LIST."""
        with self._refusing():
            return bool(objects_at(self.root, FIRST_PATIENCE).listed(OWN_FOLDER))

    def users(self) -> tuple[str, tuple[bytes, ...]]:
        """Two requests; a lock whose run may be dead is watched until that is clear."""
        with self._reading(OWN_FOLDER):
            return self._ownership.user()

    def open_output(self, name: str) -> io.RawIOBase:
        """One GET for each piece, the first of them now."""
        return _ObjectFile(lambda start: self._piece(name, start), lambda: self._size(name))

    def _piece(self, name: str, start: int) -> bytes:
        with self._reading(name):
            try:
                return self._objects.read_up_to(name, start, start + READ_AT_ONCE)
            except Exception as error:
                if is_missing(error) and code_of(error) != NO_SUCH_BUCKET:
                    missing = name
                elif isinstance(error, PermissionError):
                    raise _Unreadable(_reason(error)) from error
                else:
                    raise
        raise FileNotFoundError(missing)

    def walk(self) -> Iterator[str]:
        """One LIST for each thousand names."""
        with self._reading(""):
            for name in self._objects.all_names():
                if not name.startswith(f"{OWN_FOLDER}/"):
                    yield name

    def near(self, name: str, folder: str) -> str:
        """A copy, several pieces at a time."""
        path = f"{folder}/{name}"
        first = self._piece(name, 0)
        size = len(first) if len(first) < READ_AT_ONCE else self._size(name)
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            file = open(path, "wb", buffering=0)  # noqa: SIM115 - closed below
        except OSError as error:
            raise self._no_room(error, name) from error
        with file:

            def put(content: bytes, at: int) -> None:
                try:
                    while content:
                        written = os.pwrite(file.fileno(), content, at)
                        content, at = content[written:], at + written
                except OSError as error:
                    raise self._no_room(error, name) from error

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
        """As many at a time as a client has connections."""
        return each_in_threads(function, items)

    def of_each_shard(
        self, function: Callable[[Item], Answer], items: Sequence[Item], workers: int | None
    ) -> Generator[Answer, None, None]:
        """A few at a time: the client of a store has threads, with which no process may be forked."""
        return each_in_threads(function, items, min(workers or usable_cpus(), MOST_SHARDS_AT_ONCE))

    # -- staging

    def stage(self, batch: str) -> str:
        """In the system's temporary folder."""
        shutil.rmtree(f"{self._staging}/{batch}", ignore_errors=True)
        return self._make_staging(batch)

    def scratch(self) -> str:
        """The folder for what is on its way."""
        return self._staging

    def park(self, batch: str) -> None:
        """Put them into the store, too."""
        start = f"{self._staging}/{batch}/"
        paths = [os.path.join(folder, name) for folder, _, names in os.walk(start) for name in sorted(names)]
        names = [f"{STAGING}/{batch}/{path.removeprefix(start)}" for path in paths]
        self._parked[batch] = names
        in_threads(self._upload, list(zip(paths, names, strict=True)))

    def unstage(self, batch: str, *, and_parked: bool = True) -> None:
        """The folder of the run goes with the last of its batches, where it is not the driver's."""
        shutil.rmtree(f"{self._staging}/{batch}", ignore_errors=True)
        with contextlib.suppress(OSError):
            os.rmdir(self._staging)
        parked = self._parked.pop(batch, []) if and_parked else []
        if parked:
            self.remove(parked)

    def clear_staging(self) -> None:
        """Remove what was parked, and end the uploads of the run's own files that a death has left open."""
        with self._reading(STAGING):
            parked = self._objects.below(STAGING)
        self.remove(parked)
        self._objects.abort_uploads(below=RESERVED_FOLDERS)

    def driver_is_gone(self) -> None:
        """Remove its mark from the folder of the run, and the folder with the last that is in it."""
        for path in (f"{self._staging}/driver", self._staging):
            with contextlib.suppress(OSError):
                os.rmdir(path)


class _Unreadable(OSError):
    """An object that may not be read, though its store can be reached."""


class _ObjectFile(io.RawIOBase):
    """An object to read, of which one piece at a time is in memory."""

    def __init__(self, fetch: Callable[[int], bytes], size: Callable[[], int]) -> None:
        """The first piece is read now."""
        self._fetch, self._size = fetch, size
        self._at = self._start = 0
        self._piece = fetch(0)

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def tell(self) -> int:
        """As in a file."""
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """As in a file."""
        origin = self._at if whence == os.SEEK_CUR else self._end() if whence == os.SEEK_END else 0
        self._at = max(0, origin + offset)
        return self._at

    def _end(self) -> int:
        if len(self._piece) < READ_AT_ONCE:
            return self._start + len(self._piece)
        return self._size()

    def readinto(self, buffer: "io.WriteableBuffer") -> int:  # type: ignore[name-defined]
        """As in a file."""
        start = self._at - self._at % READ_AT_ONCE
        last = len(self._piece) < READ_AT_ONCE and start > self._start
        if start != self._start and not last:
            self._start, self._piece = start, self._fetch(start)
        view = memoryview(buffer)
        at = self._at - self._start
        content = self._piece[at : at + len(view)]
        view[: len(content)] = content
        self._at += len(content)
        return len(content)


def _staging_of(owner: LockOwner) -> str:
    return f"{tempfile.gettempdir()}/splitter-staging-{owner.run}"


def _reason(error: Exception) -> str:
    """What went wrong with an object, in words."""
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
    """What to do before a run can begin."""
    code = code_of(error)
    if code == NO_SUCH_BUCKET or is_missing(error):
        return "; make it first, or mend the URL"
    if isinstance(error, PermissionError) or "Credentials" in type(error).__name__:
        if root.startswith("s3"):
            return "; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
        return "; see to the credentials of the store's own client"
    return "; see whether the network and the address of the store are right"
