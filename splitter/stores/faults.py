"""The meaning of the errors that stores raise, in words that are the same for every store."""

import errno
import re
import socket
from collections.abc import Iterator

from splitter.text.urls import without_secrets

TRIES = 6
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
# error classes of the clients, by name, since importing them would take long
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
# S3 codes after which a second try may succeed, though the status says that the request was wrong
_PASSING_CODES = frozenset(
    {
        "BadDigest",
        "ConditionalRequestConflict",
        "IncompleteBody",
        "InternalError",
        "OperationAborted",
        "RequestTimeout",
        "SlowDown",
        "XAmzContentSHA256Mismatch",
    }
)


def code_of(error: BaseException) -> str:
    """Return the error code of S3; empty if there is none."""
    for one in _causes(error):
        response = getattr(one, "response", None)
        if isinstance(response, dict) and response.get("Error", {}).get("Code"):
            return str(response["Error"]["Code"])
    return ""


def may_pass(error: BaseException) -> bool:
    """Return whether a failed request may succeed later, because the store is busy or out of reach."""
    code = code_of(error)
    for one in _causes(error):
        status = _status(one)
        if status is not None or code in _PASSING_CODES:
            return status in _BUSY or code in _PASSING_CODES
        if isinstance(one, socket.gaierror) or _NO_SUCH_HOST.search(str(one)):
            return False
        if isinstance(one, (TimeoutError, ConnectionError)):
            return True
        if isinstance(one, (FileNotFoundError, PermissionError, FileExistsError)):
            continue
        of_system = isinstance(one, OSError) and one.errno in _PASSING
        if of_system or _PASSING_CLASSES & {kind.__name__ for kind in type(one).__mro__}:
            return True
    return False


def is_missing(error: BaseException) -> bool:
    """Return whether a store says that there is no such file."""
    return _meaning(error) == "missing"


def is_denied(error: BaseException) -> bool:
    """Return whether a store does not allow a request."""
    return _meaning(error) == "denied"


def is_out_of_reach(error: BaseException) -> bool:
    """Return whether the server does not exist, or there is no network to find it."""
    return _meaning(error) == "no host"


def reason(error: BaseException) -> str:
    """Return what went wrong, for messages: in the same words for every store, without secrets."""
    words = {
        "missing": "there is no such file",
        "denied": "access is denied; check the credentials",
        "no host": "its server cannot be found",
        "busy": f"the server was busy or did not answer {TRIES} times in a row",
    }
    meaning = _meaning(error)
    while isinstance(error, FileNotFoundError) and error.__cause__ is not None:
        # some clients turn any error into FileNotFoundError; its cause says what really happened
        error = error.__cause__
    if meaning == "busy":
        said = next((status for one in _causes(error) if (status := _status(one))), None)
        return f"{words[meaning]}{f' (status {said})' if said else f': {error_line(error)}'}"
    return words.get(meaning) or error_line(error)


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
    """Yield an error and its causes: some clients raise FileNotFoundError whatever happened."""
    one: BaseException | None = error
    while one is not None:
        yield one
        one = one.__cause__ or getattr(one, "os_error", None)


def _status(error: BaseException) -> int | None:
    """Return the HTTP status of a server's answer; None if there is none."""
    response = getattr(error, "response", None)
    status = getattr(error, "status", None)
    if status is None:
        # only if there is no `status`: some clients have both, and reading `code` gives a warning
        status = getattr(error, "code", None)
    if isinstance(response, dict):
        status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    elif not isinstance(status, int):
        status = getattr(response, "status_code", None)
    known = isinstance(status, int) and 100 <= status < 600  # noqa: PLR2004 - what HTTP has
    return status if known else None


def error_line(error: BaseException) -> str:
    """Return the message of an error, on one line and without secrets."""
    said = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return " ".join(without_secrets(str(said)).split())
