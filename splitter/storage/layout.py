"""The names of an output folder, and which folder in it belongs to an input."""

import os
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import xxhash

from splitter.options import OTHERS
from splitter.text.content_types import REPORT
from splitter.text.csv import ENCODING, ESCAPE
from splitter.text.urls import is_url, joined, path_in, without_scheme

if TYPE_CHECKING:
    from splitter.storage.naming import Naming

SHARDS = "shards"
OWN_FOLDER = ".splitter"
RESERVED_FOLDERS = frozenset({OWN_FOLDER, "manifest.csv", "errors.csv", REPORT, SHARDS, *OTHERS})


@dataclass(frozen=True)
class Layout:
    """Where an input is read from, and which folder of the output, or which names, are its own.

    Attributes:
        root: What relative paths start from.
        keep_extension: Whether the folder of an input has its extension.
        naming: What gives outputs their names, if not each input has a folder.
    """

    root: str
    keep_extension: bool = False
    naming: "Naming | None" = None

    def location(self, text: str) -> str:
        """Return the local path, or the URL, of an input as it is listed."""
        if "://" in text:
            if is_url(text):
                return text
            text = without_scheme(text)
        if text[:1] != "/" and not _is_plain(text) and is_url(self.root):
            # stores do not know `..`
            return joined(self.root, text)
        return text if text[:1] == "/" else f"{self.root}/{text}"

    def key(self, text: str) -> str:
        """Return what identifies an input: its path below the root, or its whole path without a slash."""
        if "//" not in text and text[:1] != "/" and _is_plain(text):
            return text
        path, root = self.location(text), self.root
        if is_url(path):
            path, root = path_in(path), path_in(root) if is_url(root) else "/"
        else:
            path = os.path.normpath(path)
        below = root.rstrip("/") + "/"
        return path.removeprefix(below) if path.startswith(below) else path.lstrip("/")

    def folder(self, key: str) -> str:
        """Return the folder of the output that belongs to an input, if names have no template."""
        if self.keep_extension:
            return key
        # os.path.splitext, in a third of the time
        dot, start = key.rfind("."), key.rfind("/") + 1
        return key[:dot] if dot > start and key[start:dot].strip(".") else key


def _is_plain(text: str) -> bool:
    """Return whether a relative path has no part that would have to be resolved."""
    return "./" not in text and text[-1:] not in (".", "/")


def same_name(text: str) -> str:
    """Fold a name, so that names which some file system takes for one (case, Unicode) are equal."""
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())


def key_hash(key: str) -> int:
    """Return the number that stands for an input in commit records."""
    return xxhash.xxh3_64_intdigest(key.encode(ENCODING, ESCAPE))


def folders_around(path: str) -> Iterator[str]:
    """Yield the folders that a path is in, the innermost first."""
    while "/" in path:
        path = path[: path.rfind("/")]
        yield path


# what the readers know
SHARD_SUFFIXES = (".tar", ".parquet")
_SUFFIX = "|".join(map(re.escape, SHARD_SUFFIXES))
_SHARD = re.compile(rf"({SHARDS}/shard-\d{{6,}}(?:-\d+)?(?:{_SUFFIX}))/(.+)", re.DOTALL)


def shard_of(output: str) -> tuple[str, str]:
    """Return the shard that an output is in and its name there; no shard for a file of its own.

    >>> shard_of("shards/shard-000002.tar/00000007-000000.wav")
    ('shards/shard-000002.tar', '00000007-000000.wav')
    >>> shard_of("speech/a/0.wav")
    ('', 'speech/a/0.wav')
    """
    match = _SHARD.fullmatch(output)
    return (match[1], match[2]) if match else ("", output)


def file_with(output: str) -> str:
    """Return the file that holds an output: its shard, or the output itself."""
    return shard_of(output)[0] or output


RECORDS = f"{OWN_FOLDER}/records"
