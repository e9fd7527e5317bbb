"""The archives that a user names: files, patterns, brace lists, URLs or `-`."""

import contextlib
import glob
import gzip
import io
import itertools
import math
import os
import re
import stat
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, cast

from splitter.archives.members import GZIP
from splitter.errors import Refused, TarError
from splitter.stores.clients import client
from splitter.stores.faults import error_line, reason
from splitter.stores.files import open_remote

STANDARD = "-"
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*(?:://|::)")
_BRACES = re.compile(r"\{([^{}]*)\}")
_RANGE = re.compile(r"(\d+)\.\.(\d+)")
# further files of a shard of a run, which took more than one file
_OVERFLOW = re.compile(r"(shard-\d{6,})-(\d+)(\.[^/]*)$")
BUFFER_BYTES = 1 << 18
MOST_IN_BRACES = 10_000_000


@dataclass(frozen=True)
class ArchiveSource:
    """An archive to read.

    Attributes:
        location: A path, a URL, or `-` for standard input.
        varying: The text in it that took the place of braces and `*`.
    """

    location: str
    varying: str = ""

    @property
    def name(self) -> str:
        """Its name in messages."""
        return "standard input" if self.location == STANDARD else self.location

    @contextlib.contextmanager
    def open(self) -> Iterator[BinaryIO]:
        """Open the archive for reading; decompress gzip."""
        with self._opened() as raw:
            beginning = io.BufferedReader(cast("io.RawIOBase", raw), BUFFER_BYTES)
            if beginning.peek(2)[:2] == GZIP:
                yield cast("BinaryIO", gzip.GzipFile(fileobj=beginning, mode="rb"))
            elif beginning.peek(1):
                yield beginning
            else:
                raise TarError(f"{self.name}: is empty, and not a tar archive")

    def _opened(self) -> Any:  # noqa: ANN401 - a file of some kind
        try:
            if self.location == STANDARD:
                return open(sys.stdin.fileno(), "rb", buffering=0, closefd=False)
            if is_url(self.location):
                return open_remote(*client(self.location), self._fault)
            return open(self.location, "rb", buffering=0)
        except TarError:
            raise
        except Exception as error:  # the client of a store may raise anything
            if not isinstance(error, OSError) and not is_url(self.location):
                raise
            raise self._fault(error) from None

    def _fault(self, error: Exception) -> TarError:
        return TarError(f"{self.name}: cannot be read: {reason_in_words(error, self.location)}")


def is_url(location: str) -> bool:
    """Return whether a location is a URL."""
    return bool(_URL.match(location))


def reason_in_words(error: Exception, location: str) -> str:
    """Return why a location cannot be read or written."""
    return reason(error) if is_url(location) else error_line(error)


def sources_of(given: Sequence[str]) -> list[ArchiveSource]:
    """Return the archives that arguments name, in order; refuse names that cannot be read."""
    found = [source for text in given for source in _sources(text)]
    for source in found:
        if is_url(source.location):
            client(source.location)
        elif source.location != STANDARD:
            _check_readable(source.location)
    if sum(source.location == STANDARD for source in found) > 1:
        raise Refused("-: standard input can only be read once")
    return found


def _sources(text: str) -> list[ArchiveSource]:
    if text == STANDARD:
        return [ArchiveSource(text)]
    if text.startswith("pipe:"):
        raise Refused(f"{text}: commands are not run; write: COMMAND | splitter tar ... -")
    if not is_url(text) and os.path.lexists(text):
        return [ArchiveSource(text)]
    return [source for one, varying in [*_without_braces(text)] for source in _matches(one, varying)]


def _matches(text: str, varying: str) -> list[ArchiveSource]:
    if not glob.has_magic(text) or (is_url(text) and not re.search(r"[*\[]", text)):
        return [ArchiveSource(text, varying)]
    if is_url(text):
        store, path = client(text)
        try:
            found = [store.unstrip_protocol(name) for name in sorted(store.glob(path), key=_in_order)]
        except Exception as error:  # noqa: BLE001 - the client of a store may raise anything
            raise Refused(f"{text}: cannot be listed: {reason_in_words(error, text)}") from None
    else:
        found = sorted(glob.glob(text), key=_in_order)
    if not found:
        raise Refused(f"{text}: no file matches this pattern")
    stars = re.compile("(.*)".join(map(re.escape, text.split("*"))), re.DOTALL)
    varied = [(name, stars.fullmatch(name)) for name in found]
    return [ArchiveSource(name, varying + "".join(match.groups() if match else ())) for name, match in varied]


def _in_order(name: str) -> tuple[str, int]:
    """Return a sort key that puts shards of a run in the order of its manifest, and all else by name."""
    overflow = _OVERFLOW.search(name)
    if not overflow:
        return name, 0
    return f"{name[: overflow.start()]}{overflow[1]}{overflow[3]}", int(overflow[2])


def _without_braces(text: str) -> Iterator[tuple[str, str]]:
    """Yield each name that `{0000..0147}` and `{a,b}` expand to, with the text that replaced the braces."""
    parts = _BRACES.split(text)
    choices = [_choices(part, text) for part in parts[1::2]]
    total = math.prod(map(len, choices))
    if total > MOST_IN_BRACES:
        raise Refused(f"{text}: names {total} files, more than {MOST_IN_BRACES}")
    for chosen in itertools.product(*choices):
        pairs = itertools.zip_longest(parts[::2], chosen, fillvalue="")
        yield "".join(f"{fixed}{one}" for fixed, one in pairs), "-".join(chosen)


def _choices(inside: str, text: str) -> Sequence[str]:
    match = _RANGE.fullmatch(inside)
    if match:
        first, last = int(match[1]), int(match[2])
        if abs(last - first) >= MOST_IN_BRACES:
            raise Refused(f"{text}: names more than {MOST_IN_BRACES} files")
        step = 1 if last >= first else -1
        padded = len(match[1]) if match[1].startswith("0") or match[2].startswith("0") else 0
        return [f"{number:0{padded}d}" for number in range(first, last + step, step)]
    if "," not in inside:
        raise Refused(
            f"{text}: {{{inside}}} is neither a range such as {{0000..0147}} nor a list such as {{a,b}}"
        )
    return inside.split(",")


def _check_readable(path: str) -> None:
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError) as error:
        raise Refused(f"{path}: cannot be read: {reason_in_words(error, path)}") from None
    if stat.S_ISDIR(mode):
        raise Refused(
            f"{path}: is a folder; expected tar archives, or write: tar -cf - FOLDER | splitter ..."
        )
    if not os.access(path, os.R_OK):
        raise Refused(f"{path}: cannot be read: Permission denied")
