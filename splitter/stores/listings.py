"""What stores hold: lists that are read from there, and the files of a folder in one listing.

Each is done in another process, since the client of a store brings threads, and since a listing may take
much memory.
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
# what a folder below that of the inputs is, when a run has put its outputs there
OUTPUT_FOLDER = "output folder"
# called with what might be taken for an input and is none, and what it is
PassOver = Callable[[str, str], None]


class OutputFolders(NamedTuple):
    """What is no input: the output folder of this run, and what tells those of other runs.

    Attributes:
        current: The output folder of this run.
        own_folder: The name of a folder that only output folders have.
        reserved: What a run calls its own files and folders.
    """

    current: str
    own_folder: str
    reserved: frozenset[str]


class ListedFiles:
    """What a listing has told of files, so that they need not be asked for one by one: 24 bytes for each."""

    def __init__(self) -> None:
        self._marks, self._sizes, self._changed = array("Q"), array("q"), array("q")
        self._sorted: tuple[np.ndarray, ...] = ()

    def add(self, url: str, found: Found) -> None:
        """Note what was told of one."""
        self._marks.append(_mark(url))
        self._sizes.append(found.size)
        self._changed.append(found.changed)

    def in_order(self) -> "ListedFiles":
        """Make ready for questions."""
        columns = np.array(self._marks, "u8"), np.array(self._sizes, "i8"), np.array(self._changed, "i8")
        order = np.argsort(columns[0], kind="stable")
        self._sorted = tuple(column[order] for column in columns)
        return self

    def of_all(self, urls: Sequence[str]) -> list[Found | None]:
        """Return what is known of files."""
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
    """Return a remote list as a file that is gone when it is closed, and its path."""
    if sys.platform == "linux":
        file: Any = tempfile.TemporaryFile()  # noqa: SIM115 - closed with what is read from it
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
    """Refuse a URL for whatever the client of its store raises."""
    try:
        yield
    except Refused:
        raise
    except Exception as error:  # noqa: BLE001
        raise Refused(f"{without_secrets(url)}: {what}: {reason(error)}{advice}") from None


def _fetch(url: str, path: str) -> Iterator[None]:
    with _refusing(url, "the dataset list cannot be read"):
        ask(url, "get_file", path)
        yield


def content_beside(url: str) -> bytes | None:
    """Return the content of a small remote file; None if there is none."""
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
    """Return whether a store has a folder at a URL."""
    (found,) = from_process(lambda: _is_folder(url))
    return found


def _is_folder(url: str) -> Iterator[bool]:
    with _refusing(url, "cannot be read", "; check DATASET"):
        yield ask(url, "info").get("type") == "directory"


def remote_files(
    url: str, patterns: Sequence[str], leave_out: OutputFolders, known: ListedFiles, pass_over: PassOver
) -> Iterator[str]:
    """Yield the files of a remote folder and its subfolders, as paths in it, always in the same order."""
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
    # a folder of a disk and its copy in a store come in the same order
    names = sorted(meant, key=lambda name: name.split("/"))
    yield [(name.removeprefix(folder), None, None) for name in nested if name.startswith(folder)]
    for start in range(0, len(names), AT_ONCE):
        yield [(name, *(files[name] or (None, None))) for name in names[start : start + AT_ONCE]]


def is_meant(patterns: Sequence[str]) -> Callable[[str], bool]:
    """Return a test of whether a file is like one of the patterns, by its path in a folder or its name.

    Capitals do not count: a recorder that writes a.WAV means what others call a.wav.
    """
    rule = re.compile("|".join(map(fnmatch.translate, patterns)) or ".*", re.IGNORECASE)
    return lambda path: bool(rule.match(path) or rule.match(path.rpartition("/")[2]))


def _may_be_input(name: str, folder: str, outputs: set[str], reserved: frozenset[str]) -> bool:
    parts = name.split("/")
    # an object whose name ends in a slash stands for a folder
    if not parts[-1] or any(part.startswith(".") for part in parts):
        return False
    # the tables of the run that made this folder
    return not (parts[-1] in reserved and (folder + name).rpartition("/")[0] + "/" in outputs)
