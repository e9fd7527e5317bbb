"""Files at URLs: their sizes and versions, copies of them, and the one file object that reads ranges."""

import contextlib
import errno
import io
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import xxhash

from splitter.errors import Refused, UnreadableInput
from splitter.stores.clients import ask, takes_many
from splitter.stores.faults import may_pass, reason
from splitter.stores.retries import with_retries
from splitter.text.urls import begin_of, without_secrets

LOOKS_AT_ONCE = 32
TIMES_CHANGED = 3
MOST_SILENCE = 64
# the fields that stores use for the version of a file, the best first
_VERSION_FIELDS = (
    *("ETag", "etag", "blob_id", "md5Hash", "content_md5", "Content-MD5", "Digest", "generation"),
    *("LastModified", "Last-Modified", "last_modified", "mtime", "updated", "modified", "modify", "created"),
)


class Found(NamedTuple):
    """The size and the version of a file, which are known without reading it.

    Attributes:
        size: Its size in bytes.
        changed: When it was last changed, in nanoseconds; for a file in a store, a hash of its version.
    """

    size: int
    changed: int


# for each server, how many files in a row it gave no answer about, despite all retries
_silent: dict[str, int] = {}


def look(url: str) -> Found:
    """Return the size and the version of a remote file; each is 0 if the server does not report it."""
    begin = begin_of(url)
    if _silent.get(begin, 0) >= MOST_SILENCE:
        raise UnreadableInput(
            f"{without_secrets(url)}: its server has not answered {MOST_SILENCE} times in a row"
        )
    with _errors_of(url):
        try:
            info = ask(url, "info")
        except Exception as error:
            # so that a list of a million files on a dead server does not take weeks
            _silent[begin] = _silent.get(begin, 0) + 1 if may_pass(error) else 0
            raise
        _silent[begin] = 0
        if info.get("type") != "directory":
            return Found(int(info.get("size") or 0), _version(info) or 0)
    raise UnreadableInput(f"{without_secrets(url)}: is a folder, not a file")


@contextlib.contextmanager
def _errors_of(url: str) -> Iterator[None]:
    """Turn any error of a store's client into an error of the input at the URL."""
    try:
        yield
    except (KeyboardInterrupt, UnreadableInput):
        raise
    except Refused as error:
        # the message already names the URL
        raise UnreadableInput(str(error)) from None
    except BaseException as error:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            # the disk of this machine is full, not the store
            raise
        raise UnreadableInput(f"{without_secrets(url)}: {reason(error)}") from None


def look_at_all(urls: Iterable[str]) -> dict[str, Found | UnreadableInput]:
    """Look up many files, each once; return the size and version of each, or the error it caused."""
    with ThreadPoolExecutor(LOOKS_AT_ONCE) as pool:
        later = {url: pool.submit(_looked, url) if takes_many(url) else None for url in dict.fromkeys(urls)}
        return {url: _looked(url) if one is None else one.result() for url, one in later.items()}


def _looked(url: str) -> Found | UnreadableInput:
    try:
        return look(url)
    except UnreadableInput as error:
        return error


def fetch(url: str, path: str, known: Found | None) -> Found:
    """Copy a remote file to a local path; return its size and version then, which may differ from `known`."""
    known = known or look(url)
    for _ in range(TIMES_CHANGED):
        try:
            with _errors_of(url):
                ask(url, "get_file", path)
        except OSError as error:
            raise OSError(error.errno, error.strerror, path) from None
        # the copy has a certain version only if the file was the same before and after
        before, known = known, look(url)
        if known == before and known.size in (0, os.path.getsize(path)):
            return known
    raise UnreadableInput(f"{without_secrets(url)}: changes while it is read")


def fetch_part(url: str, path: str, known: Found, start: int, size: int) -> Found:
    """Copy a part of a remote file to a local path; raise UnreadableInput if the file is not as `known`."""
    with _errors_of(url):
        content: bytes = ask(url, "cat_file", start=start, end=start + size) if size else b""
    # the part has a certain version only if the file was the same before and after
    if look(url) != known or len(content) != size:
        raise UnreadableInput(
            f"{without_secrets(url)}: has changed since the run began; run the same command again"
        )
    with open(path, "wb") as file:
        file.write(content)
    return known


def gives_parts(url: str) -> bool:
    """Return whether parts of a remote file can be read, which not every server allows."""
    try:
        return len(ask(url, "cat_file", start=1, end=3)) == 2  # noqa: PLR2004
    except Exception:  # noqa: BLE001 - the client of a store may raise anything
        return False


def found_in(info: dict[str, Any]) -> Found | None:
    """Return the size and version in a store's answer; None if one is missing, which would hide changes."""
    size, version = info.get("size"), _version(info)
    return None if size is None or version is None else Found(int(size), version)


def _version(info: dict[str, Any]) -> int | None:
    for name in _VERSION_FIELDS:
        value = info.get(name)
        if value not in (None, ""):
            # 63 bits, since it is stored in the column for the times of files
            return xxhash.xxh3_64_intdigest(str(value).encode()) >> 1
    return None


class RangeFile(io.RawIOBase):
    """A file object that gets its bytes from a function."""

    def __init__(
        self,
        read_at: Callable[[int, int], bytes],
        end: Callable[[], int],
        *,
        close: Callable[[], None] = lambda: None,
        seekable: bool = True,
    ) -> None:
        """Take a function that reads at a position at most some bytes, and one that returns the size."""
        self._read_at, self._end, self._close = read_at, end, close
        self._seekable = seekable
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return self._seekable

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        origin = self._position if whence == os.SEEK_CUR else self._end() if whence == os.SEEK_END else 0
        self._position = max(0, origin + offset)
        return self._position

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 - a buffer
        content = self._read_at(self._position, len(buffer))
        buffer[: len(content)] = content
        self._position += len(content)
        return len(content)

    def close(self) -> None:
        if not self.closed:
            self._close()
        super().close()


def open_remote(client: Any, path: str, fault: Callable[[Exception], Exception]) -> RangeFile:  # noqa: ANN401
    """Open a file of a store; if the store fails for a moment, reading continues where it stopped.

    Args:
        client: The client of the store, from `splitter.stores.clients.client`.
        path: The path of the file in the store.
        fault: Turns an error of the client into the error to raise.
    """

    def answered(call: Callable[..., Any], *arguments: Any) -> Any:  # noqa: ANN401 - as the call
        try:
            return with_retries(call, *arguments)
        except Exception as error:  # the client of a store may raise anything
            raise fault(error) from error

    file = answered(client.open, path, "rb")

    def read_at(position: int, size: int) -> bytes:
        if file.tell() != position:
            file.seek(position)
        return file.read(size)

    return RangeFile(
        lambda position, size: answered(read_at, position, size),
        lambda: int(answered(file.seek, 0, os.SEEK_END)),
        close=file.close,
        seekable=file.seekable(),
    )
