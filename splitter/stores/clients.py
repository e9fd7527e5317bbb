"""One client for each store that URLs name.

A client belongs to the process that made it, and brings a thread: it does not survive a fork, and nothing
should be forked by a process that has one.
"""

import os
import re
import threading
import time
from collections import defaultdict
from typing import Any

from splitter.errors import Refused
from splitter.stores.faults import error_line, reason
from splitter.stores.retries import with_retries
from splitter.text.urls import begin_of, without_secrets

TRIES_WITHIN = 2
SECONDS_TO_CONNECT, SECONDS_OF_SILENCE = 30, 60
# what brings the client of a store, where that is not told by fsspec in a form that can be installed
_PACKAGES = {
    "s3": "'splitter-ml[s3]'",
    "s3a": "'splitter-ml[s3]'",
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

_clients: dict[tuple[int, str, str], Any] = {}
# a lock for each, since some connect as soon as they are made, and are waited for
_making: defaultdict[tuple[int, str, str], threading.Lock] = defaultdict(threading.Lock)
# why one could not be made, and when: those that have waited meanwhile need not try as long
_unmade: dict[tuple[int, str, str], tuple[OSError, float]] = {}
SECONDS_UNMADE = 5.0


def client(url: str) -> tuple[Any, str]:
    """Return what reads the store of a URL, and what the URL's file is called there.

    It keeps no listings, so that it tells what there is now. Refuses a URL that no client is there for.
    """
    try:
        # a chain such as zip://a.wav::s3://bucket/a.zip needs a client for itself
        if not begin_of(url) or "::" in url:
            return with_retries(_made, url)
        return _made_once(url), url
    except OSError as error:
        raise Refused(f"{without_secrets(url)}: {reason(error)}") from error


def ask(url: str, request: str, *arguments: Any, **named: Any) -> Any:  # noqa: ANN401 - the client's own
    """Return what the store of a URL answers to a request about its file, made a few times at most."""
    store, path = client(url)
    return with_retries(getattr(store, request), path, *arguments, **named)


def client_for(url: str, **options: Any) -> Any:  # noqa: ANN401 - of whatever package knows the protocol
    """Return the client that has these options; the caller repeats what fails."""
    key = _key(url, options)
    with _making[key]:
        if key not in _clients:
            _clients[key] = _made(url, **options)[0]
        return _clients[key]


def _made_once(url: str) -> Any:  # noqa: ANN401 - of whatever package knows the protocol
    """Return a client; where making it has failed a moment ago, it is not tried."""
    key = _key(url, {})
    with _making[key]:
        failed = _unmade.get(key)
        if key not in _clients and failed and time.monotonic() - failed[1] < SECONDS_UNMADE:
            raise failed[0]
        try:
            if key not in _clients:
                _clients[key] = with_retries(_made, url)[0]
        except OSError as error:
            _unmade[key] = error, time.monotonic()
            raise
        return _clients[key]


def _key(url: str, options: dict[str, Any]) -> tuple[int, str, str]:
    # the version of an object is asked for by a client that knows versions
    version = "?versionId" if "versionId=" in url else ""
    return os.getpid(), begin_of(url) + version, repr(options)


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
        known = "use a URL that fsspec supports" if "not known" in str(error) else "fix the URL"
        raise Refused(f"{shown}: {error_line(error)}; {known}") from None
    except (OSError, Refused):
        raise
    except Exception as error:
        # one that cannot be made from a URL alone raises what it likes
        what = f"{type(error).__name__}: {error_line(error)}"
        raise Refused(f"{shown}: the client for {protocol}:// says {what}") from error
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
    return f"run: pip install {package}" if package else error_line(error)


def _patience_with_servers() -> dict[str, Any]:
    """Give up on a server that says nothing, not on a file that is large; and take ~/.netrc and proxies."""
    import aiohttp
    import fsspec

    asked = fsspec.config.conf.get("https", {}).get("client_kwargs", {})
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=SECONDS_TO_CONNECT, sock_read=SECONDS_OF_SILENCE)
    return {"client_kwargs": {"timeout": timeout, "trust_env": True, **asked}}


def takes_many(url: str) -> bool:
    """Return whether the client of a URL's store can be used by many threads."""
    import fsspec

    try:
        # of the class: making a client may take long
        kind = fsspec.get_filesystem_class(url.partition(":")[0].lower())
    except Exception:  # noqa: BLE001 - there is no such client, or importing it fails
        return False
    return "::" not in url and kind.async_impl is True
