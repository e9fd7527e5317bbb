"""The names in an output folder, and the folder in it that belongs to each input."""

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
    """The rules for where an input is read from, and where its outputs go.

    Attributes:
        root: The folder or URL that relative paths start from.
        keep_extension: Whether the output folder of an input keeps the input's extension.
        naming: The template for output names; None if each input has its own folder.
    """

    root: str
    keep_extension: bool = False
    naming: "Naming | None" = None

    def location(self, text: str) -> str:
        """Return the local path or the URL of an input, given its text in the list."""
        if "://" in text:
            if is_url(text):
                return text
            text = without_scheme(text)
        if text[:1] != "/" and not _is_plain(text) and is_url(self.root):
            # stores do not resolve `..`
            return joined(self.root, text)
        return text if text[:1] == "/" else f"{self.root}/{text}"

    def key(self, text: str) -> str:
        """Return the key of an input: its path below the root, or its whole path without leading slashes."""
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
        """Return the output folder that belongs to an input, when there is no template for names."""
        if self.keep_extension:
            return key
        # like os.path.splitext, in a third of the time
        dot, start = key.rfind("."), key.rfind("/") + 1
        return key[:dot] if dot > start and key[start:dot].strip(".") else key


def _is_plain(text: str) -> bool:
    """Return whether a relative path contains nothing to resolve, such as `..`."""
    return "./" not in text and text[-1:] not in (".", "/")


def same_name(text: str) -> str:
    """Fold a name, so that names are equal if some file system ignores their difference (case, Unicode)."""
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())


def key_hash(key: str) -> int:
    """Return the number that identifies an input in commit records."""
    return xxhash.xxh3_64_intdigest(key.encode(ENCODING, ESCAPE))


def folders_around(path: str) -> Iterator[str]:
    """Yield the folders that contain a path, the innermost first."""
    while "/" in path:
        path = path[: path.rfind("/")]
        yield path


# the kinds of shards that outputs can be read from
SHARD_SUFFIXES = (".tar", ".parquet")
_SUFFIX = "|".join(map(re.escape, SHARD_SUFFIXES))
_SHARD = re.compile(rf"({SHARDS}/shard-\d{{6,}}(?:-\d+)?(?:{_SUFFIX}))/(.+)", re.DOTALL)


def shard_of(output: str) -> tuple[str, str]:
    """Return the shard that contains an output, and its name there; an empty shard for a separate file.

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
