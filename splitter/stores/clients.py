"""One client for each store that URLs name.

A client belongs to the process that made it, and starts a thread: it does not survive a fork, and a process
that has one should not fork.
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
# the package with the client of a store, where fsspec's error does not name it as pip needs it
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
# a lock for each client, since some connect while they are made, which takes time
_making: defaultdict[tuple[int, str, str], threading.Lock] = defaultdict(threading.Lock)
# why a client could not be made, and when, so that threads that waited for it need not try as long
_unmade: dict[tuple[int, str, str], tuple[OSError, float]] = {}
SECONDS_UNMADE = 5.0


def client(url: str) -> tuple[Any, str]:
    """Return the client for the store of a URL, and the URL's path in that store.

    The client caches no listings, so it always shows the current state. A URL that has no client is refused.
    """
    try:
        # a chain such as zip://a.wav::s3://bucket/a.zip needs a separate client
        if not begin_of(url) or "::" in url:
            return with_retries(_made, url)
        return _made_once(url), url
    except OSError as error:
        raise Refused(f"{without_secrets(url)}: {reason(error)}") from error


def ask(url: str, request: str, *arguments: Any, **named: Any) -> Any:  # noqa: ANN401 - the client's own
    """Send a request about a URL's file to its store, a few times if necessary; return the answer."""
    store, path = client(url)
    return with_retries(getattr(store, request), path, *arguments, **named)


def client_for(url: str, **options: Any) -> Any:  # noqa: ANN401 - of whatever package knows the protocol
    """Return the client with these options, made without retries: the caller repeats what fails."""
    key = _key(url, options)
    with _making[key]:
        if key not in _clients:
            _clients[key] = _made(url, **options)[0]
        return _clients[key]


def _made_once(url: str) -> Any:  # noqa: ANN401 - of whatever package knows the protocol
    """Return a client, made once; raise at once if making it failed a moment ago."""
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
    # a URL with the version of an object needs a client that handles versions
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
        # a client that cannot be made from a URL alone may raise anything
        what = f"{type(error).__name__}: {error_line(error)}"
        raise Refused(f"{shown}: the client for {protocol}:// says {what}") from error
    if hasattr(found[0], "retries"):
        # splitter repeats requests itself; if the client did so too, a dead server would be noticed late
        found[0].retries = TRIES_WITHIN
    return found


def _remedy(protocol: str, error: ImportError) -> str:
    package = _PACKAGES.get(protocol)
    if package is None:
        # fsspec names the package only in a sentence: "Install ossfs to access Alibaba Object Storage System"
        named = re.search(r"install ([\w-]+) (?:to|for)|requires \W?([\w-]+)", str(error), re.IGNORECASE)
        package = (named[1] or named[2]) if named else ""
    return f"run: pip install {package}" if package else error_line(error)


def _patience_with_servers() -> dict[str, Any]:
    """Return options that give up on a silent server, not on a large file, and use ~/.netrc and proxies."""
    import aiohttp
    import fsspec

    asked = fsspec.config.conf.get("https", {}).get("client_kwargs", {})
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=SECONDS_TO_CONNECT, sock_read=SECONDS_OF_SILENCE)
    return {"client_kwargs": {"timeout": timeout, "trust_env": True, **asked}}


def takes_many(url: str) -> bool:
    """Return whether the client of a URL's store can be used by many threads."""
    import fsspec

    try:
        # ask the class, since making a client may take long
        kind = fsspec.get_filesystem_class(url.partition(":")[0].lower())
    except Exception:  # noqa: BLE001 - the client does not exist, or importing it fails
        return False
    return "::" not in url and kind.async_impl is True
