"""What stands in a URL, and what of it is nobody's business."""

import os
import posixpath
import re
from urllib.parse import unquote

# bytes that are not UTF-8 come through as they are
_ENCODING, _ESCAPE = "utf-8", "surrogateescape"

_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://")
_BEGIN = re.compile(r"([^:/]+)://([^/?#]*)")
_OF_WEB = ("http://", "https://")
_PASSWORD = re.compile(
    r"(?<![\w+.-])((?:https?|s?ftps?|ssh|smb|web\w+)://[^/@?#\s:]*):[^/@?#\s]+@", re.IGNORECASE
)
_WITH_QUERY = re.compile(r"(https?://[^\s?#\"']*)\?([^\s#\"',]*)", re.IGNORECASE)
# what makes a signed URL, so that whoever has it may read the file for a while: of S3, GCS, CloudFront
_SIGNATURE = re.compile(
    r"x-(?:amz|goog)-[\w-]+|awsaccesskeyid|googleaccessid|signature|expires|policy|key-pair-id"
    r"|token|access_token",
    re.IGNORECASE,
)
# and of Azure, whose names are so short that they could be others' too
_AZURE_SIGNATURE, _WITH_IT = "sig", re.compile(r"s[a-z]{1,4}|rscd|rsct", re.IGNORECASE)


def is_url(text: str) -> bool:
    """Whether a text names something on another machine."""
    return "://" in text and _SCHEME.match(text) is not None and not text.startswith("file://")


def without_scheme(text: str) -> str:
    """The path that a `file://` URL stands for; any other text as it is."""
    return unquote(text[len("file://") :], _ENCODING, _ESCAPE) if text.startswith("file://") else text


def path_in(url: str) -> str:
    """What a URL names, without the scheme, without what signs it, and with `..` resolved."""
    # of a query that does not sign, a part of the name may be made: https://host/get?id=5
    return posixpath.normpath(f"/{unsigned(_whole(url)).split('://', 1)[1]}").lstrip("/")


def file_name(url: str) -> str:
    """What the file is called that a URL names."""
    if url.lower().startswith(_OF_WEB):
        return os.path.basename(unquote(_whole(url).partition("?")[0].rstrip("/")))
    return os.path.basename(url.rstrip("/"))


def begin_of(url: str) -> str:
    """The scheme of a URL, and its host or bucket."""
    begin = _BEGIN.match(url)
    return begin[0] if begin else ""


def parent(url: str) -> str:
    """The URL of the folder that a file is in."""
    url = _whole(url).partition("?")[0] if url.lower().startswith(_OF_WEB) else url
    return url[: max(len(begin_of(url)), url.rstrip("/").rfind("/"))].rstrip("/")


def joined(url: str, path: str) -> str:
    """The URL of what a relative path stands for, from the URL of a folder, with `..` resolved."""
    begin = begin_of(url)
    return (begin + posixpath.normpath(f"/{url[len(begin) :]}/{path}").replace("//", "/")).rstrip("/")


def _whole(url: str) -> str:
    """A URL of the web without the part that only a browser looks at."""
    return url.partition("#")[0] if url.lower().startswith(_OF_WEB) else url


def has_password(text: str) -> bool:
    """Whether a URL has a password in it."""
    return "@" in text and _PASSWORD.match(text) is not None


def unsigned(text: str) -> str:
    """A text with the signatures of the URLs in it left out.

    >>> unsigned("https://host/a.wav?version=2&X-Amz-Expires=60&X-Amz-Signature=0a1b")
    'https://host/a.wav?version=2'
    """
    return _WITH_QUERY.sub(_unsigned, text) if "?" in text and "://" in text else text


def unsigned_bytes(text: bytes) -> bytes:
    """The same for text that is encoded."""
    if b"?" not in text or b"://" not in text:
        return text
    return unsigned(text.decode(_ENCODING, _ESCAPE)).encode(_ENCODING, _ESCAPE)


def without_secrets(text: str) -> str:
    """A text for everybody: without the passwords and signatures of the URLs in it.

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
