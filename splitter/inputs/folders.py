"""The files of a folder, here or at a URL."""

import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from splitter.errors import Refused
from splitter.inputs.lists import LISTS, refuse_option, suffix_of
from splitter.storage.layout import OWN_FOLDER, RESERVED_FOLDERS
from splitter.stores.listings import (
    OUTPUT_FOLDER,
    OutputFolders,
    PassOver,
    is_meant,
    is_remote_folder,
    remote_files,
)
from splitter.text.csv import Row
from splitter.text.urls import is_url

if TYPE_CHECKING:
    from splitter.inputs.listing import InputList, ListReading


def _unless_none(files: Iterable[str], path: str, patterns: Sequence[str]) -> Iterator[str]:
    """The files of a folder; refuses one without: it is almost always a slip, or a disk that is not there."""
    nothing = True
    for file in files:
        nothing = False
        yield file
    if nothing:
        wanted = f"no file in it is like --pattern {' or '.join(map(repr, patterns))}"
        raise Refused(f"{path}: {wanted if patterns else 'it holds no file'}{_instead(path)}")


def _instead(path: str) -> str:
    """What there is in a folder, where another pattern would find it."""
    example = None if is_url(path) else next(_walk(path, ""), None)
    if example:
        return f"; there is {example!r}, for example"
    return ", but those whose names begin with a dot; check DATASET"


def is_folder(path: str) -> bool:
    """Return whether a path or URL names a folder."""
    if not is_url(path):
        return os.path.isdir(path)
    # to ask takes a client, which takes a second to start
    return path.endswith("/") or (suffix_of(path) not in LISTS and is_remote_folder(path))


def read_folder(path: str, listing: "InputList", reading: "ListReading") -> tuple[Row, Iterable[Row]]:
    """Return the columns and rows that the files of a folder make."""
    refuse_option(listing.delimiter, "--delimiter", "a list in a CSV file")
    refuse_option(listing.root, "--root", "a dataset list")
    patterns, leave_out = listing.patterns, reading.leave_out
    reading.tally.chosen = reading.tally.chosen or bool(patterns)
    if same_folder(path, leave_out):
        raise Refused(f"{path}: is the folder of the inputs; choose another --output")
    meant, passed_over = is_meant(patterns), reading.tally.passed_over

    def pass_over(name: str, kind: str) -> None:
        if kind == OUTPUT_FOLDER or meant(name):
            passed_over[kind] += 1

    if is_url(path):
        outputs = OutputFolders(leave_out, OWN_FOLDER, RESERVED_FOLDERS)
        files = remote_files(path, patterns, outputs, reading.known, pass_over)
    else:
        files = filter(meant, _walk(path, leave_out, pass_over))
    files = _unless_none(files, path, patterns)
    if listing.folder_label is None:
        return [listing.column], ([file] for file in files)
    if not listing.folder_label:
        raise Refused("--folder-label '': names no column; write --folder-label label")
    # the folder that holds the file, as audiofolder and ImageFolder have it
    rows = ([file, file.rpartition("/")[0].rpartition("/")[2]] for file in files)
    return [listing.column, listing.folder_label], rows


def same_folder(one: str, other: str) -> bool:
    """Whether two folders are the same; a URL is never a local one."""
    if not other or is_url(one) or is_url(other):
        return bool(other) and one.rstrip("/") == other.rstrip("/")
    return os.path.realpath(one) == os.path.realpath(other)


def _walk(folder: str, leave_out: str, pass_over: PassOver = lambda *_: None) -> Iterator[str]:
    """The files of a folder and its subfolders, in an order that is the same everywhere.

    `pass_over` is called with what might be taken for an input and is none, and what it is.
    """
    leave_out = os.path.realpath(leave_out) if leave_out else ""
    yield from _walk_below(os.path.realpath(folder), "", {leave_out}, pass_over)


def _walk_below(folder: str, prefix: str, leave_out: set[str], pass_over: PassOver) -> Iterator[str]:
    """The files below a folder; one that leads back to where it is itself is passed over."""
    leave_out = {*leave_out, folder}
    try:
        with os.scandir(folder) as found:
            entries = sorted(found, key=lambda entry: entry.name)
    except OSError as error:
        raise Refused(f"{folder}: cannot be read: {error.strerror}; allow that, or give a list") from None
    is_output = any(entry.name == OWN_FOLDER for entry in entries)
    if is_output and prefix:
        # else what was cut from a recording would be cut once more, beside it
        pass_over(prefix, OUTPUT_FOLDER)
        return
    for entry in entries:
        path = os.path.realpath(entry.path) if entry.is_symlink() else entry.path
        if entry.name.startswith(".") or path in leave_out:
            if _may_be_missed(entry):
                pass_over(prefix + entry.name, "hidden")
            continue
        if is_output and entry.name in RESERVED_FOLDERS and not entry.is_dir():
            # the tables of the run that made this folder
            continue
        if os.path.isdir(path) if entry.is_symlink() else entry.is_dir():
            yield from _walk_below(path, f"{prefix}{entry.name}/", leave_out, pass_over)
        elif _may_hold_data(entry):
            yield prefix + entry.name
        else:
            pass_over(prefix + entry.name, _kind_of(entry))


def _may_be_missed(entry: os.DirEntry[str]) -> bool:
    """A hidden file with an extension; .DS_Store has none, and ._a.wav is what macOS keeps beside a.wav."""
    is_hidden = entry.name.startswith(".") and not entry.name.startswith("._")
    return is_hidden and "." in entry.name[1:] and entry.is_file()


def _kind_of(entry: os.DirEntry[str]) -> str:
    """What a file is that holds no data."""
    mode = entry.stat().st_mode
    return "named pipe" if stat.S_ISFIFO(mode) else "socket" if stat.S_ISSOCK(mode) else "device"


def _may_hold_data(entry: os.DirEntry[str]) -> bool:
    """Not a pipe, a socket or a device; but a link that leads nowhere may have lost its file."""
    try:
        return entry.is_file() or (entry.is_symlink() and not os.path.exists(entry.path))
    except OSError:
        return True
