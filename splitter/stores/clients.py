"""Stores that URLs name: their clients, what their errors mean, and trying again.

A client belongs to the process that made it, and brings a thread: it does not survive a fork, and nothing
should be forked by a process that has one.
"""

import contextlib
import errno
import os
import random
import re
import socket
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, ParamSpec, TypeVar

import xxhash

from splitter.errors import Refused, UnreadableInput
from splitter.text.urls import begin_of, without_secrets

TRIES = 6
FIRST_PAUSE, LONGEST_PAUSE = 0.25, 20.0
TRIES_WITHIN = 2
LOOKS_AT_ONCE = 32
TIMES_CHANGED = 3
MOST_SILENCE = 64
SECONDS_TO_CONNECT, SECONDS_OF_SILENCE = 30, 60
# what brings the client of a store, where that is not told by fsspec in a form that can be installed
_PACKAGES = {
    "s3": "s3fs",
    "s3a": "s3fs",
    "gs": "gcsfs",
    "gcs": "gcsfs",
    "hf": "huggingface_hub",
    "http": "aiohttp requests",
    "https": "aiohttp requests",
    "az": "adlfs",
    "abfs": "adlfs",
    "abfss": "adlfs",
    "sftp": "paramiko",
    "ssh": "paramiko",
}
_EXTRAS = {"s3fs": "s3"}
_BUSY = frozenset({408, 425, 429, 500, 502, 503, 504, 509})
_DENIED = frozenset({401, 403, 407})
_MISSING = frozenset({404, 410})
_PASSING = frozenset(
    getattr(errno, name)
    for name in (
        *("EAGAIN", "EBUSY", "ECONNABORTED", "ECONNREFUSED", "ECONNRESET", "EHOSTUNREACH", "EIO", "ENETDOWN"),
        *("ENETRESET", "ENETUNREACH", "ENOTCONN", "EPIPE", "EREMOTEIO", "ESTALE", "ETIMEDOUT"),
    )
    if hasattr(errno, name)
)
# of the clients' own, by the names of their classes, since importing these would take long
_PASSING_CLASSES = frozenset(
    {
        "ClientConnectionError",
        "ClientPayloadError",
        "ConnectionError",
        "FSTimeoutError",
        "HTTPClientError",
        "IncompleteRead",
        "ProtocolError",
        "RequestException",
        "ResponseParserError",
        "TransportError",
    }
)
_NO_SUCH_HOST = re.compile(
    r"name or service not known|nodename nor servname|name resolution|getaddrinfo", re.IGNORECASE
)
# in what stores call a version, the best first
_VERSION_FIELDS = (
    *("ETag", "etag", "blob_id", "md5Hash", "content_md5", "Content-MD5", "Digest", "generation"),
    *("LastModified", "Last-Modified", "last_modified", "mtime", "updated", "modified", "modify", "created"),
)

Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")


class Found(NamedTuple):
    """What is known of a file without reading it.

    Attributes:
        size: Its bytes.
        changed: When it was changed, in nanoseconds; or a number that stands for its version in a store.
    """

    size: int
    changed: int


# -- clients ----------------------------------------------------------------------------------------------

_clients: dict[tuple[int, str], Any] = {}
# a lock for each, since some connect as soon as they are made, and are waited for
_making: defaultdict[tuple[int, str], threading.Lock] = defaultdict(threading.Lock)
# why one could not be made, and when: those that have waited meanwhile need not try as long
_unmade: dict[tuple[int, str], tuple[OSError, float]] = {}
SECONDS_UNMADE = 5.0
_OF_CLIENT = re.compile(r"[^:]+://[^/?#]*")


def client(url: str) -> tuple[Any, str]:
    """What reads and writes the store of a URL, and what the URL's file is called there.

    It keeps no listings, so that it tells what there is now. Refuses a URL that no client is there for.
    """
    begin = _OF_CLIENT.match(url)
    try:
        # a chain such as zip://a.wav::s3://bucket/a.zip needs a client for itself
        if begin is None or "::" in url:
            return with_retries(_made, url)
        # the version of an object is asked for by a client that knows versions
        key = os.getpid(), begin[0] + ("?versionId" if "versionId=" in url else "")
        with _making[key]:
            if key not in _clients:
                _clients[key] = _made_once(key, url)
        return _clients[key], url
    except OSError as error:
        raise Refused(f"{without_secrets(url)}: {reason(error)}") from error


def _made_once(key: tuple[int, str], url: str) -> Any:  # noqa: ANN401 - of whatever package knows the protocol
    """Make a client, unless that has failed a moment ago."""
    failed = _unmade.get(key)
    if failed and time.monotonic() - failed[1] < SECONDS_UNMADE:
        raise failed[0]
    try:
        return with_retries(_made, url)[0]
    except OSError as error:
        _unmade[key] = error, time.monotonic()
        raise


def client_for(url: str, **options: Any) -> Any:  # noqa: ANN401 - of whatever package knows the protocol
    """A client for the store of a URL, with options of its own."""
    return _made(url, **options)[0]


def _made(url: str, **options: Any) -> tuple[Any, str]:  # noqa: ANN401 - the client's own
    import fsspec

    protocol, colon, rest = url.partition(":")
    protocol, shown = protocol.lower(), without_secrets(url)
    url = protocol + colon + rest
    try:
        options = {**(_patience_with_servers() if protocol in ("http", "https") else {}), **options}
        found: tuple[Any, str] = fsspec.core.url_to_fs(url, use_listings_cache=False, **options)
    except ImportError as error:
        raise Refused(
            f"{shown}: a package for {protocol}:// is missing; {_remedy(protocol, error)}"
        ) from None
    except ValueError as error:
        known = "URLs are those that fsspec knows" if "not known" in str(error) else "mend the URL"
        raise Refused(f"{shown}: {_one_line(error)}; {known}") from None
    except (OSError, Refused):
        raise
    except Exception as error:
        # one that cannot be made from a URL alone raises what it likes
        raise Refused(f"{shown}: the client for {protocol}:// says {_kind_and_line(error)}") from error
    if hasattr(found[0], "retries"):
        # of tries within tries within tries those here are enough: a server that is down is told sooner
        found[0].retries = TRIES_WITHIN
    return found


def _remedy(protocol: str, error: ImportError) -> str:
    package = _PACKAGES.get(protocol)
    if package is None:
        # fsspec says it in words only: "Install ossfs to access Alibaba Object Storage System"
        named = re.search(r"install ([\w-]+) (?:to|for)|requires \W?([\w-]+)", str(error), re.IGNORECASE)
        package = (named[1] or named[2]) if named else ""
    if not package:
        return _one_line(error)
    extra = _EXTRAS.get(package)
    return f"run: pip install 'splitter-ml[{extra}]'" if extra else f"run: pip install {package}"


def _patience_with_servers() -> dict[str, Any]:
    """Give up on a server that says nothing, not on a file that is large; and take ~/.netrc and proxies."""
    import aiohttp
    import fsspec

    asked = fsspec.config.conf.get("https", {}).get("client_kwargs", {})
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=SECONDS_TO_CONNECT, sock_read=SECONDS_OF_SILENCE)
    return {"client_kwargs": {"timeout": timeout, "trust_env": True, **asked}}


# -- errors -----------------------------------------------------------------------------------------------


def may_pass(error: BaseException) -> bool:
    """Whether what a store could not do may succeed when it is tried again: it is busy, or out of reach."""
    for one in _causes(error):
        status = _status(one)
        if status is not None:
            return status in _BUSY
        if isinstance(one, socket.gaierror) or _NO_SUCH_HOST.search(str(one)):
            return False
        if isinstance(one, (TimeoutError, ConnectionError)):
            return True
        if isinstance(one, (FileNotFoundError, PermissionError, FileExistsError)):
            continue
        if isinstance(one, OSError) and one.errno in _PASSING:
            return True
        if _PASSING_CLASSES & {kind.__name__ for kind in type(one).__mro__}:
            return True
    return False


def is_missing(error: BaseException) -> bool:
    """Whether a store says that there is no such file."""
    return _meaning(error) == "missing"


def is_out_of_reach(error: BaseException) -> bool:
    """Whether there is no such server, or no network to find it."""
    return _meaning(error) == "no host"


def reason(error: BaseException) -> str:
    """What went wrong, for a message: in words that are the same for every store, without secrets."""
    words = {
        "missing": "there is no such file",
        "denied": "access is denied; check the credentials",
        "no host": "its server cannot be found",
        "busy": f"the server was busy, or did not answer, {TRIES} times in a row",
    }
    meaning = _meaning(error)
    while isinstance(error, FileNotFoundError) and error.__cause__ is not None:
        # what has happened, and not what it was taken for
        error = error.__cause__
    if meaning == "busy":
        said = next((status for one in _causes(error) if (status := _status(one))), None)
        return f"{words[meaning]}{f' (status {said})' if said else f': {_one_line(error)}'}"
    return words.get(meaning) or _one_line(error)


def _meaning(error: BaseException) -> str:
    for one in _causes(error):
        status = _status(one)
        if status in _MISSING:
            return "missing"
        if status in _DENIED or isinstance(one, PermissionError) or "Credentials" in type(one).__name__:
            return "denied"
        if isinstance(one, socket.gaierror) or _NO_SUCH_HOST.search(str(one)):
            return "no host"
    if may_pass(error):
        return "busy"
    return "missing" if isinstance(error, FileNotFoundError) and len([*_causes(error)]) == 1 else ""


def _causes(error: BaseException) -> Iterator[BaseException]:
    """An error and what it comes from: some clients say FileNotFoundError of whatever has happened."""
    one: BaseException | None = error
    while one is not None:
        yield one
        one = one.__cause__ or getattr(one, "os_error", None)


def _status(error: BaseException) -> int | None:
    """The status that a server has answered with."""
    response = getattr(error, "response", None)
    status = getattr(error, "status", None)
    if status is None:
        # asked only then: some clients have both, and warn of this one
        status = getattr(error, "code", None)
    if isinstance(response, dict):
        status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    elif not isinstance(status, int):
        status = getattr(response, "status_code", None)
    known = isinstance(status, int) and 100 <= status < 600  # noqa: PLR2004 - what HTTP has
    return status if known else None


def _kind_and_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {_one_line(error)}"


def _one_line(error: BaseException) -> str:
    said = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return " ".join(without_secrets(str(said)).split())


# -- trying again -----------------------------------------------------------------------------------------


def with_retries(
    call: Callable[Arguments, Answer], *arguments: Arguments.args, **named: Arguments.kwargs
) -> Answer:
    """The call's answer; tried again, later and later, while the store is busy or out of reach."""
    for attempt in range(1, TRIES):
        try:
            return call(*arguments, **named)
        except Exception as error:
            if not may_pass(error):
                raise
            pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** (attempt - 1))
            # many workers that were refused together must not come back together
            time.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311
    return call(*arguments, **named)


# -- what is known of a file ------------------------------------------------------------------------------


# by server, how many files in a row it has not told anything of, though each was asked for again and again
_silent: dict[str, int] = {}


def look(url: str) -> Found:
    """The size and the version of a remote file; a size that the server does not tell is 0."""
    begin = begin_of(url)
    if _silent.get(begin, 0) >= MOST_SILENCE:
        raise UnreadableInput(
            f"{without_secrets(url)}: its server has not answered {MOST_SILENCE} times in a row"
        )
    with _errors_of(url):
        try:
            store, path = client(url)
            info = with_retries(store.info, path)
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


def look_at_all(urls: Sequence[str]) -> list[Found | UnreadableInput]:
    """The same of many files, many at a time; of one that cannot be looked at, why."""
    with ThreadPoolExecutor(LOOKS_AT_ONCE) as threads:
        later = [threads.submit(_looked, url) if takes_many(url) else None for url in urls]
        return [_looked(url) if one is None else one.result() for url, one in zip(urls, later, strict=True)]


def _looked(url: str) -> Found | UnreadableInput:
    try:
        return look(url)
    except UnreadableInput as error:
        return error


def takes_many(url: str) -> bool:
    """Whether the client of a URL's store can be used by many threads."""
    import fsspec

    try:
        # of the class: making a client may take long
        kind = fsspec.get_filesystem_class(url.partition(":")[0].lower())
    except Exception:  # noqa: BLE001 - there is no such client, or importing it fails
        return False
    return "::" not in url and kind.async_impl is True


def fetch(url: str, path: str, known: Found | None) -> Found:
    """Copy a remote file to a local path; what the file was then, which may be no longer what was known."""
    known = known or look(url)
    for _ in range(TIMES_CHANGED):
        try:
            with _errors_of(url):
                store, there = client(url)
                with_retries(store.get_file, there, path)
        except OSError as error:
            raise OSError(error.errno, error.strerror, path) from None
        # only what was the same before and after is what was read in between
        before, known = known, look(url)
        if known == before and known.size in (0, os.path.getsize(path)):
            return known
    raise UnreadableInput(f"{without_secrets(url)}: changes while it is read")


def fetch_part(url: str, path: str, known: Found, start: int, size: int) -> Found:
    """Copy a part of a remote file to a local path; an error if the file is another than what was known."""
    with _errors_of(url):
        store, there = client(url)
        content: bytes = with_retries(store.cat_file, there, start=start, end=start + size) if size else b""
    # only what was the same before and after is what was read in between
    if look(url) != known or len(content) != size:
        raise UnreadableInput(
            f"{without_secrets(url)}: has changed since the run began; run the same command again"
        )
    with open(path, "wb") as file:
        file.write(content)
    return known


def gives_parts(url: str) -> bool:
    """Whether a part of a remote file can be read, as not every server allows."""
    try:
        store, there = client(url)
        return len(with_retries(store.cat_file, there, start=1, end=3)) == 2  # noqa: PLR2004
    except Exception:  # noqa: BLE001 - the client of a store raises what it likes
        return False


def found_in(info: dict[str, Any]) -> Found | None:
    """What a store's answer says of a file; None if it is not enough to tell whether the file has changed."""
    size, version = info.get("size"), _version(info)
    return None if size is None or version is None else Found(int(size), version)


def _version(info: dict[str, Any]) -> int | None:
    for name in _VERSION_FIELDS:
        value = info.get(name)
        if value not in (None, ""):
            # 63 bits: it stands where files have their time
            return xxhash.xxh3_64_intdigest(str(value).encode()) >> 1
    return None


def read_from(file: Any, at: int, size: int) -> bytes:  # noqa: ANN401 - fsspec says nothing of its types
    """Some bytes of an open file of a store; where it fails for a moment, from there on once more."""
    return with_retries(_read_at, file, at, size)


def _read_at(file: Any, at: int, size: int) -> bytes:  # noqa: ANN401
    if file.tell() != at:
        file.seek(at)
    content: bytes = file.read(size)
    return content
