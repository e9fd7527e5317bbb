"""Files at URLs: what is known of them, copies of them, and the one file object that reads ranges."""

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
# in what stores call a version, the best first
_VERSION_FIELDS = (
    *("ETag", "etag", "blob_id", "md5Hash", "content_md5", "Content-MD5", "Digest", "generation"),
    *("LastModified", "Last-Modified", "last_modified", "mtime", "updated", "modified", "modify", "created"),
)


class Found(NamedTuple):
    """What is known of a file without reading it.

    Attributes:
        size: Its bytes.
        changed: When it was changed, in nanoseconds; or a number that stands for its version in a store.
    """

    size: int
    changed: int


# by server, how many files in a row it has not told anything of, though each was asked for again and again
_silent: dict[str, int] = {}


def look(url: str) -> Found:
    """Return the size and the version of a remote file; a size that the server does not tell is 0."""
    begin = begin_of(url)
    if _silent.get(begin, 0) >= MOST_SILENCE:
        raise UnreadableInput(
            f"{without_secrets(url)}: its server has not answered {MOST_SILENCE} times in a row"
        )
    with _errors_of(url):
        try:
            info = ask(url, "info")
        except Exception as error:
            # a list of a million on a server that is down is not to take weeks
            _silent[begin] = _silent.get(begin, 0) + 1 if may_pass(error) else 0
            raise
        _silent[begin] = 0
        if info.get("type") != "directory":
            return Found(int(info.get("size") or 0), _version(info) or 0)
    raise UnreadableInput(f"{without_secrets(url)}: is a folder, not a file")


@contextlib.contextmanager
def _errors_of(url: str) -> Iterator[None]:
    """Turn whatever the client of a store raises into an error of the input that is there."""
    try:
        yield
    except (KeyboardInterrupt, UnreadableInput):
        raise
    except Refused as error:
        # it names the URL
        raise UnreadableInput(str(error)) from None
    except BaseException as error:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            # here, and not in the store
            raise
        raise UnreadableInput(f"{without_secrets(url)}: {reason(error)}") from None


def look_at_all(urls: Iterable[str]) -> dict[str, Found | UnreadableInput]:
    """Look at many files, each once, many at a time; say why where one cannot be looked at."""
    with ThreadPoolExecutor(LOOKS_AT_ONCE) as pool:
        later = {url: pool.submit(_looked, url) if takes_many(url) else None for url in dict.fromkeys(urls)}
        return {url: _looked(url) if one is None else one.result() for url, one in later.items()}


def _looked(url: str) -> Found | UnreadableInput:
    try:
        return look(url)
    except UnreadableInput as error:
        return error


def fetch(url: str, path: str, known: Found | None) -> Found:
    """Copy a remote file to a local path; return what it was then, which may not be what was known."""
    known = known or look(url)
    for _ in range(TIMES_CHANGED):
        try:
            with _errors_of(url):
                ask(url, "get_file", path)
        except OSError as error:
            raise OSError(error.errno, error.strerror, path) from None
        # only what was the same before and after is what was read in between
        before, known = known, look(url)
        if known == before and known.size in (0, os.path.getsize(path)):
            return known
    raise UnreadableInput(f"{without_secrets(url)}: changes while it is read")


def fetch_part(url: str, path: str, known: Found, start: int, size: int) -> Found:
    """Copy a part of a remote file to a local path; raise if the file is not what was known."""
    with _errors_of(url):
        content: bytes = ask(url, "cat_file", start=start, end=start + size) if size else b""
    # only what was the same before and after is what was read in between
    if look(url) != known or len(content) != size:
        raise UnreadableInput(
            f"{without_secrets(url)}: has changed since the run began; run the same command again"
        )
    with open(path, "wb") as file:
        file.write(content)
    return known


def gives_parts(url: str) -> bool:
    """Return whether a part of a remote file can be read, as not every server allows."""
    try:
        return len(ask(url, "cat_file", start=1, end=3)) == 2  # noqa: PLR2004
    except Exception:  # noqa: BLE001 - the client of a store raises what it likes
        return False


def found_in(info: dict[str, Any]) -> Found | None:
    """Return what a store says of a file; None if that cannot tell whether the file has changed."""
    size, version = info.get("size"), _version(info)
    return None if size is None or version is None else Found(int(size), version)


def _version(info: dict[str, Any]) -> int | None:
    for name in _VERSION_FIELDS:
        value = info.get(name)
        if value not in (None, ""):
            # 63 bits: it stands where files have their time
            return xxhash.xxh3_64_intdigest(str(value).encode()) >> 1
    return None


class RangeFile(io.RawIOBase):
    """A file whose bytes a function reads."""

    def __init__(
        self,
        read_at: Callable[[int, int], bytes],
        end: Callable[[], int],
        *,
        close: Callable[[], None] = lambda: None,
        seekable: bool = True,
    ) -> None:
        """Take a function of the position and of how many bytes are asked for, and one for the size."""
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
    """Open a file of a store; where the store fails for a moment, it is read on from there.

    Args:
        client: What reads the store, as `splitter.stores.clients.client` gives it.
        path: What the file is called there.
        fault: Makes the error to raise of what the client raises.
    """

    def answered(call: Callable[..., Any], *arguments: Any) -> Any:  # noqa: ANN401 - as the call
        try:
            return with_retries(call, *arguments)
        except Exception as error:  # the client of a store raises what it likes
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
