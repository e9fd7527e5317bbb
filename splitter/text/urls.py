"""The parts of a URL, and which of them are secret."""

import os
import posixpath
import re
from urllib.parse import unquote

# the most bytes that a file system allows in the name of a file
LONGEST_NAME = 255
# bytes that are not UTF-8 pass through unchanged
_ENCODING, _ESCAPE = "utf-8", "surrogateescape"

_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://")
_BEGIN = re.compile(r"([^:/]+)://([^/?#]*)")
_OF_WEB = ("http://", "https://")
_PASSWORD = re.compile(
    r"(?<![\w+.-])((?:https?|s?ftps?|ssh|smb|web\w+)://[^/@?#\s:]*):[^/@?#\s]+@", re.IGNORECASE
)
_WITH_QUERY = re.compile(r"(https?://[^\s?#\"']*)\?([^\s#\"',]*)", re.IGNORECASE)
# parameters of signed URLs of S3, GCS and CloudFront: with them, anyone may read the file for a while
_SIGNATURE = re.compile(
    r"x-(?:amz|goog)-[\w-]+|awsaccesskeyid|googleaccessid|signature|expires|policy|key-pair-id"
    r"|token|access_token",
    re.IGNORECASE,
)
# those of Azure have names so short that other servers may use them: they count only together with `sig`
_AZURE_SIGNATURE, _WITH_IT = "sig", re.compile(r"s[a-z]{1,4}|rscd|rsct", re.IGNORECASE)


def is_url(text: str) -> bool:
    """Return whether a text is a URL, but not a `file://` URL."""
    return "://" in text and _SCHEME.match(text) is not None and not text.startswith("file://")


def without_scheme(text: str) -> str:
    """Return the path in a `file://` URL; return any other text unchanged."""
    return unquote(text[len("file://") :], _ENCODING, _ESCAPE) if text.startswith("file://") else text


def path_in(url: str) -> str:
    """Return the path in a URL, without scheme and signature, and with `..` resolved."""
    # a query that is not a signature may be part of the name: https://host/get?id=5
    return posixpath.normpath(f"/{unsigned(_whole(url)).split('://', 1)[1]}").lstrip("/")


def file_name(url: str) -> str:
    """Return the file name in a URL."""
    if url.lower().startswith(_OF_WEB):
        return os.path.basename(unquote(_whole(url).partition("?")[0].rstrip("/")))
    return os.path.basename(url.rstrip("/"))


def begin_of(url: str) -> str:
    """Return the scheme of a URL with its host or bucket; empty for other text."""
    begin = _BEGIN.match(url)
    return begin[0] if begin else ""


def parent(url: str) -> str:
    """Return the URL of the folder of a file."""
    url = _whole(url).partition("?")[0] if url.lower().startswith(_OF_WEB) else url
    return url[: max(len(begin_of(url)), url.rstrip("/").rfind("/"))].rstrip("/")


def joined(url: str, path: str) -> str:
    """Return the URL of a relative path below the URL of a folder, with `..` resolved."""
    begin = begin_of(url)
    return (begin + posixpath.normpath(f"/{url[len(begin) :]}/{path}").replace("//", "/")).rstrip("/")


def _whole(url: str) -> str:
    """Return a web URL without its fragment."""
    return url.partition("#")[0] if url.lower().startswith(_OF_WEB) else url


def has_password(text: str) -> bool:
    """Return whether a URL contains a password."""
    return "@" in text and _PASSWORD.match(text) is not None


def unsigned(text: str) -> str:
    """Return a text without the signatures of the URLs in it.

    >>> unsigned("https://host/a.wav?version=2&X-Amz-Expires=60&X-Amz-Signature=0a1b")
    'https://host/a.wav?version=2'
    """
    return _WITH_QUERY.sub(_unsigned, text) if "?" in text and "://" in text else text


def unsigned_bytes(text: bytes) -> bytes:
    """Return encoded text without the signatures of the URLs in it."""
    if b"?" not in text or b"://" not in text:
        return text
    return unsigned(text.decode(_ENCODING, _ESCAPE)).encode(_ENCODING, _ESCAPE)


def without_secrets(text: str) -> str:
    """Return a text without the passwords and signatures of the URLs in it.

    >>> without_secrets("cannot read https://me:secret@host/a.wav?sig=0a1b&se=2026")
    'cannot read https://me@host/a.wav'
    """
    return _PASSWORD.sub(r"\1@", unsigned(text)) if "://" in text else text


def _unsigned(match: re.Match[str]) -> str:
    parts = match[2].split("&")
    names = [part.partition("=")[0] for part in parts]
    by_azure = _AZURE_SIGNATURE in (name.lower() for name in names)
    kept = [
        part
        for name, part in zip(names, parts, strict=True)
        if not (_SIGNATURE.fullmatch(name) or (by_azure and _WITH_IT.fullmatch(name)))
    ]
    return f"{match[1]}?{'&'.join(kept)}" if kept else match[1]
