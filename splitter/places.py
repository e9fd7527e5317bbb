"""Where an input is, what it is called, and which folder of the output is its own."""

import errno
import os
import re
import stat
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import unquote

import xxhash

from splitter.csv_text import ENCODING, ESCAPE
from splitter.errors import UnreadableInput
from splitter.table_names import OTHERS

UNREADABLE = -1
SHARDS = "shards"
OWN_FOLDER = ".splitter"
REPORT = "report.html"
RESERVED_FOLDERS = frozenset({OWN_FOLDER, "manifest.csv", "errors.csv", REPORT, SHARDS, *OTHERS})


@dataclass(frozen=True)
class Layout:
    """Where an input is read from, and which folder of the output is its own."""

    root: str
    keep_extension: bool = False

    def place(self, text: str) -> str:
        """The local path of an input as it is listed."""
        if "://" in text:
            if is_url(text):
                return text
            text = without_scheme(text)
        return text if text[:1] == "/" else f"{self.root}/{text}"

    def key(self, text: str) -> str:
        """What identifies an input: its path below the root, or its whole path without leading slash."""
        if "//" not in text and text[:1] != "/" and _is_plain(text):
            return text
        if is_url(text):
            return os.path.normpath(text.split("://", 1)[1]).lstrip("/")
        path = os.path.normpath(self.place(text))
        below = self.root.rstrip("/") + "/"
        return path.removeprefix(below) if path.startswith(below) else path.lstrip("/")

    def folder(self, key: str) -> str:
        """The folder of the output that belongs to an input."""
        if self.keep_extension:
            return key
        # os.path.splitext, in a third of the time
        dot, start = key.rfind("."), key.rfind("/") + 1
        return key[:dot] if dot > start and key[start:dot].strip(".") else key


_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://")
CANNOT_READ_URLS = "is a URL, which cannot be read yet"


def is_url(text: str) -> bool:
    """Whether a text names something on another machine."""
    return "://" in text and _SCHEME.match(text) is not None and not text.startswith("file://")


def without_scheme(text: str) -> str:
    """The path that a `file://` URL stands for; any other text as it is."""
    return unquote(text[len("file://") :], ENCODING, ESCAPE) if text.startswith("file://") else text


def _is_plain(text: str) -> bool:
    """Whether a relative path has no part that would have to be resolved."""
    return "./" not in text and text[-1:] not in (".", "/")


def same_name(text: str) -> str:
    """Equal for names that some file system takes for one: other case, other Unicode form."""
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())


def key_hash(key: str) -> int:
    """The number that stands for an input in commit records."""
    return xxhash.xxh3_64_intdigest(key.encode(ENCODING, ESCAPE))


def fingerprint(row: bytes, size: int, changed_ns: int, seed: int) -> int:
    """What an input was when it was processed: its columns, its file, and how it was to be processed."""
    return xxhash.xxh3_64_intdigest(b"%b%d,%d" % (row, size, changed_ns), seed)


def look_at(path: str) -> os.stat_result:
    """The file's size and time; refuses what is not a plain file, which could block or never end."""
    if is_url(path):
        raise UnreadableInput(f"{path}: {CANNOT_READ_URLS}; give the path of a local file")
    try:
        found = os.stat(path)
        if stat.S_ISREG(found.st_mode):
            return found
    except FileNotFoundError:
        where = (
            f"is a link to {os.readlink(path)}, which is not there"
            if os.path.islink(path)
            else "is not there"
        )
        raise UnreadableInput(f"{path}: {where}") from None
    except (PermissionError, NotADirectoryError) as error:
        raise UnreadableInput(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise UnreadableInput(f"{path!r}: cannot be a file: {error}") from None
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENAMETOOLONG):
            raise
        raise UnreadableInput(f"{path}: cannot be a file: {error.strerror}") from None
    kinds = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a named pipe", stat.S_IFSOCK: "a socket"}
    kind = kinds.get(stat.S_IFMT(found.st_mode), "a device")
    raise UnreadableInput(f"{path}: is {kind}, not a file")


def folders_around(path: str) -> Iterator[str]:
    """The folders that a path is in, the innermost first."""
    while "/" in path:
        path = path[: path.rfind("/")]
        yield path


_SHARD = re.compile(rf"({SHARDS}/shard-\d{{6,}}(?:-\d+)?\.(?:tar|parquet))/(.+)", re.DOTALL)


def shard_of(output: str) -> tuple[str, str]:
    """The shard that an output is in and its name there; no shard for a file of its own.

    >>> shard_of("shards/shard-000002.tar/00000007-000000.wav")
    ('shards/shard-000002.tar', '00000007-000000.wav')
    >>> shard_of("speech/a/0.wav")
    ('', 'speech/a/0.wav')
    """
    match = _SHARD.fullmatch(output)
    return (match[1], match[2]) if match else ("", output)


def file_with(output: str) -> str:
    """The file that holds an output: its shard, or the output itself."""
    return shard_of(output)[0] or output
