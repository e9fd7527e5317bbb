"""Read dataset lists from stores, and list the files of remote folders.

Each of these is done in another process, since the client of a store starts threads, and since a listing may
take much memory.
"""

import contextlib
import fnmatch
import re
import sys
import tempfile
from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import IO, Any, NamedTuple

import numpy as np
import xxhash

from splitter.errors import Refused
from splitter.sorted_arrays import index_in_sorted
from splitter.stores.clients import ask
from splitter.stores.faults import reason
from splitter.stores.files import Found, found_in
from splitter.system.pool import from_process
from splitter.text.urls import has_password, is_url, without_secrets

AT_ONCE = 10_000
# the kind to report for a folder among the inputs that is the output folder of a run
OUTPUT_FOLDER = "output folder"
# called with the name of something that looks like an input but is not, and with its kind
PassOver = Callable[[str, str], None]


class OutputFolders(NamedTuple):
    """The output folders to leave out of a listing: that of this run, and the marks of those of other runs.

    Attributes:
        current: The output folder of this run.
        own_folder: The name of the subfolder that only output folders have.
        reserved: The names that a run gives to its own files and folders.
    """

    current: str
    own_folder: str
    reserved: frozenset[str]


class ListedFiles:
    """Sizes and versions from a listing, which save a request for each file; 24 bytes for each."""

    def __init__(self) -> None:
        self._marks, self._sizes, self._changed = array("Q"), array("q"), array("q")
        self._sorted: tuple[np.ndarray, ...] = ()

    def add(self, url: str, found: Found) -> None:
        """Remember the size and version of a file."""
        self._marks.append(_mark(url))
        self._sizes.append(found.size)
        self._changed.append(found.changed)

    def in_order(self) -> "ListedFiles":
        """Sort the files for `of_all`; return this object."""
        columns = np.array(self._marks, "u8"), np.array(self._sizes, "i8"), np.array(self._changed, "i8")
        order = np.argsort(columns[0], kind="stable")
        self._sorted = tuple(column[order] for column in columns)
        return self

    def of_all(self, urls: Sequence[str]) -> list[Found | None]:
        """Return the size and version of each file; None for one that was not listed."""
        if not self._sorted or not len(self._sorted[0]):
            return [None] * len(urls)
        marks, sizes, changed = self._sorted
        wanted = np.array([_mark(url) for url in urls], "u8")
        at = index_in_sorted(marks, wanted)
        rows = zip((at >= 0).tolist(), sizes[at].tolist(), changed[at].tolist(), strict=True)
        return [Found(size, version) if known else None for known, size, version in rows]


def _mark(url: str) -> int:
    return xxhash.xxh3_64_intdigest(url.encode("utf-8", "surrogateescape"))


def refuse_password(url: str) -> None:
    """Refuse a URL that would carry a password into files and messages."""
    if has_password(url):
        raise Refused(
            f"{without_secrets(url)}: contains a password; remove it, and put it into ~/.netrc or "
            "the store's own config"
        )


def fetched_list(url: str) -> tuple[IO[bytes], str]:
    """Fetch a remote list; return a temporary file, which is gone when it is closed, and its path."""
    if sys.platform == "linux":
        file: Any = tempfile.TemporaryFile()  # noqa: SIM115 - closed by the caller
        path = f"/proc/self/fd/{file.fileno()}"
    else:
        file = tempfile.NamedTemporaryFile(prefix="splitter-")  # noqa: SIM115
        path = file.name
    try:
        for _ in from_process(lambda: _fetch(url, path)):
            pass
    except BaseException:
        file.close()
        raise
    return file, path


@contextlib.contextmanager
def _refusing(url: str, what: str, advice: str = "") -> Iterator[None]:
    """Turn any error of a store's client into a refusal that names the URL."""
    try:
        yield
    except Refused:
        raise
    except Exception as error:  # noqa: BLE001
        raise Refused(f"{without_secrets(url)}: {what}: {reason(error)}{advice}") from None


def _fetch(url: str, path: str) -> Iterator[None]:
    with _refusing(url, "cannot be read"):
        ask(url, "get_file", path)
        yield


def content_beside(url: str) -> bytes | None:
    """Return the content of a small remote file; None if it does not exist."""
    (content,) = from_process(lambda: _content(url))
    return content


def _content(url: str) -> Iterator[bytes | None]:
    with _refusing(url, "cannot be read"):
        try:
            yield ask(url, "cat_file")
        except (FileNotFoundError, Refused) as error:
            if isinstance(error, Refused) and not isinstance(error.__cause__, FileNotFoundError):
                raise
            yield None


def is_remote_folder(url: str) -> bool:
    """Return whether a URL is a folder."""
    (found,) = from_process(lambda: _is_folder(url))
    return found


def _is_folder(url: str) -> Iterator[bool]:
    with _refusing(url, "cannot be read", "; check DATASET"):
        yield ask(url, "info").get("type") == "directory"


def remote_files(
    url: str, patterns: Sequence[str], leave_out: OutputFolders, known: ListedFiles, pass_over: PassOver
) -> Iterator[str]:
    """Yield the files of a remote folder and its subfolders, as relative paths, always in the same order."""
    for files in from_process(lambda: _list(url, patterns, leave_out)):
        for name, size, version in files:
            if name.endswith("/"):
                pass_over(name, OUTPUT_FOLDER)
                continue
            if version is not None:
                known.add(f"{url.rstrip('/')}/{name}", Found(size, version))
            yield name


def _list(
    url: str, patterns: Sequence[str], leave_out: OutputFolders
) -> Iterator[list[tuple[str, Any, Any]]]:
    import fsspec

    current, own = leave_out.current, f"/{leave_out.own_folder}/"
    with _refusing(url, "cannot be listed", "; check DATASET"):
        listed = ask(url, "find", detail=True)
        folder = fsspec.core.strip_protocol(url).rstrip("/") + "/"
        inner = fsspec.core.strip_protocol(current).rstrip("/") + "/" if is_url(current) else ""
    outputs = {name.partition(own)[0] + "/" for name in listed if own in name}
    nested = tuple(sorted(outputs - {folder, inner}))
    files = {
        name.removeprefix(folder): found_in(info)
        for name, info in listed.items()
        if name.startswith(folder)
        and not (inner and name.startswith(inner))
        and not name.startswith(nested)
        and info.get("type") != "directory"
    }
    del listed
    wanted = filter(is_meant(patterns), files)
    meant = (name for name in wanted if _may_be_input(name, folder, outputs, leave_out.reserved))
    # by components, so that a local folder and its copy in a store are listed in the same order
    names = sorted(meant, key=lambda name: name.split("/"))
    yield [(name.removeprefix(folder), None, None) for name in nested if name.startswith(folder)]
    for start in range(0, len(names), AT_ONCE):
        yield [(name, *(files[name] or (None, None))) for name in names[start : start + AT_ONCE]]


def is_meant(patterns: Sequence[str]) -> Callable[[str], bool]:
    """Return a function that tests whether a file's relative path, or its name, matches one of the patterns.

    Case is ignored, since some recorders write a.WAV.
    """
    rule = re.compile("|".join(map(fnmatch.translate, patterns)) or ".*", re.IGNORECASE)
    return lambda path: bool(rule.match(path) or rule.match(path.rpartition("/")[2]))


def _may_be_input(name: str, folder: str, outputs: set[str], reserved: frozenset[str]) -> bool:
    parts = name.split("/")
    # an object whose name ends in a slash represents a folder
    if not parts[-1] or any(part.startswith(".") for part in parts):
        return False
    # leave out the tables of a run that wrote its outputs into this folder
    return not (parts[-1] in reserved and (folder + name).rpartition("/")[0] + "/" in outputs)
