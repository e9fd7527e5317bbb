"""Where an input is, what it is called, and which folder of the output is its own."""

import errno
import os
import re
import stat
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

import xxhash

from splitter.csv_text import ENCODING, ESCAPE
from splitter.errors import UnreadableInput
from splitter.storage.stores import Found, look
from splitter.table_names import OTHERS
from splitter.urls import is_url, joined, path_in, unsigned_bytes, without_scheme

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
        """The local path, or the URL, of an input as it is listed."""
        if "://" in text:
            if is_url(text):
                return text
            text = without_scheme(text)
        if text[:1] != "/" and not _is_plain(text) and is_url(self.root):
            # stores do not know `..`
            return joined(self.root, text)
        return text if text[:1] == "/" else f"{self.root}/{text}"

    def key(self, text: str) -> str:
        """What identifies an input: its path below the root, or its whole path without leading slash."""
        if "//" not in text and text[:1] != "/" and _is_plain(text):
            return text
        path, root = self.place(text), self.root
        if is_url(path):
            path, root = path_in(path), path_in(root) if is_url(root) else "/"
        else:
            path = os.path.normpath(path)
        below = root.rstrip("/") + "/"
        return path.removeprefix(below) if path.startswith(below) else path.lstrip("/")

    def folder(self, key: str) -> str:
        """The folder of the output that belongs to an input."""
        if self.keep_extension:
            return key
        # os.path.splitext, in a third of the time
        dot, start = key.rfind("."), key.rfind("/") + 1
        return key[:dot] if dot > start and key[start:dot].strip(".") else key


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
    """What an input was when it was processed: its columns, its file, and how it was to be processed.

    A URL that is signed anew is the same as before.
    """
    if b"?" in row:
        row = unsigned_bytes(row)
    return xxhash.xxh3_64_intdigest(b"%b%d,%d" % (row, size, changed_ns), seed)


def absent(path: str) -> Found:
    """What stands for a file that is not there: with another --root it is another one that is not there."""
    place = unsigned_bytes(path.encode(ENCODING, ESCAPE))
    return Found(UNREADABLE, xxhash.xxh3_64_intdigest(place) >> 1)


def look_at(path: str) -> Found:
    """The file's size and time; refuses what is not a plain file, which could block or never end."""
    if is_url(path):
        return look(path)
    try:
        found = os.stat(path)
        if stat.S_ISREG(found.st_mode):
            return Found(found.st_size, found.st_mtime_ns)
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
