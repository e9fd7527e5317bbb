"""Archives and tables to write, which appear whole or not at all."""

import contextlib
import fcntl
import gzip
import os
import sys
import tempfile
from collections.abc import Iterator
from typing import BinaryIO, cast

from splitter.archives.sources import BUFFER_BYTES, STANDARD, is_url, reason_in_words
from splitter.errors import Refused, TarError
from splitter.stores.clients import client
from splitter.stores.faults import is_denied
from splitter.stores.objects import objects_at

GZIPPED = (".gz", ".tgz")


def check_target(location: str) -> None:
    """Refuse, before any work, an output that cannot be written."""
    if location == STANDARD:
        if sys.stdout.isatty():
            raise Refused("-o -: an archive would go to the terminal; pipe it to a program, or name a file")
    elif location.startswith("pipe:"):
        raise Refused(f"{location}: commands are not run; write: splitter tar ... -o - | COMMAND")
    elif is_url(location):
        client(location)
    elif os.path.isdir(location):
        raise Refused(f"{location}: is a folder; name a file")
    elif os.path.lexists(location) and not os.path.isfile(location):
        raise Refused(f"{location}: is not a plain file; to write into a pipe or device use -o -")
    elif not os.path.isdir(os.path.dirname(location) or "."):
        raise Refused(f"{location}: there is no such folder; create it first")


def exists(location: str) -> bool:
    """Return whether a file or an object exists."""
    if not is_url(location):
        return os.path.lexists(location)
    store, path = client(location)
    return bool(store.exists(path))


def names_beside(location: str, beginning: str) -> list[str]:
    """Return the names in the folder of a file or an object that start with `beginning`."""
    folder, slash, _ = location.rpartition("/")
    if not is_url(location):
        return sorted(one for one in os.listdir(folder or slash or ".") if one.startswith(beginning))
    with finding_shards(folder):
        return [*objects_at(folder).listed("", beginning)]


@contextlib.contextmanager
def finding_shards(location: str) -> Iterator[None]:
    """Refuse a store that does not say which shards exist."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - the client of a store raises what it likes
        why = f"cannot be listed: {reason_in_words(error, location)}"
        if is_denied(error):
            why = "listing is not allowed; it is needed to find existing shards; check the credentials"
        raise Refused(f"{location}: {why}") from None


def remove(location: str) -> None:
    """Remove a file or an object, if it exists."""
    if is_url(location):
        if exists(location):
            store, path = client(location)
            store.rm_file(path)
    else:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(location)


@contextlib.contextmanager
def writing(location: str) -> Iterator[BinaryIO]:
    """Open a file for writing that appears only when the block ends without an error.

    If its name ends in .gz or .tgz, it is compressed with gzip.
    """
    with _raw(location) as raw:
        if not location.endswith(GZIPPED):
            yield raw
            return
        with gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=raw, mtime=0) as file:
            yield cast("BinaryIO", file)


@contextlib.contextmanager
def _raw(location: str) -> Iterator[BinaryIO]:
    if location == STANDARD:
        with open(sys.stdout.fileno(), "wb", buffering=BUFFER_BYTES, closefd=False) as file:
            yield file
    elif is_url(location):
        with tempfile.TemporaryFile(prefix="splitter-", buffering=BUFFER_BYTES) as file:
            yield cast("BinaryIO", file)
            file.flush()
            folder, _, name = location.rpartition("/")
            try:
                objects_at(folder).upload(name, cast("BinaryIO", file))
            except Exception as error:  # noqa: BLE001 - the client of a store raises what it likes
                raise TarError(f"{location}: cannot be written: {reason_in_words(error, location)}") from None
    else:
        with _replacing(location) as file:
            yield file


@contextlib.contextmanager
def _replacing(location: str) -> Iterator[BinaryIO]:
    """Open a temporary file that gets the name of the target at the end.

    Its name is always the same, so the next process reuses the file of a killed one; a lock keeps two apart.
    """
    folder, name = os.path.split(location)
    temporary = os.path.join(folder, f".{name}.partial")
    try:
        descriptor = _locked(temporary, location)
    except OSError as error:
        raise Refused(f"{location}: cannot be written: {reason_in_words(error, location)}") from None
    try:
        with open(descriptor, "wb", buffering=BUFFER_BYTES) as file:
            file.truncate()
            yield file
            file.flush()
            os.rename(temporary, location)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def is_being_written(location: str) -> bool:
    """Return whether a process is writing a file; False for an object, for which it does not matter."""
    if is_url(location):
        return False
    folder, name = os.path.split(location)
    try:
        descriptor = os.open(os.path.join(folder, f".{name}.partial"), os.O_WRONLY | os.O_NOFOLLOW)
    except OSError:
        return False
    with open(descriptor, "ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _locked(temporary: str, location: str) -> int:
    while True:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(descriptor), os.stat(temporary)):
                return descriptor
        except FileNotFoundError:
            pass
        except BlockingIOError:
            os.close(descriptor)
            raise Refused(f"{location}: another process is writing it") from None
        except BaseException:
            os.close(descriptor)
            raise
        # another process has just given the file its final name
        os.close(descriptor)
