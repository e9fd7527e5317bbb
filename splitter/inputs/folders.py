"""The files of a folder, here or at a URL."""

import os
import stat
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from splitter.errors import Refused
from splitter.inputs.listing import InputList
from splitter.inputs.lists import LISTS, suffix_of
from splitter.inputs.manifests import left_out_of, manifest_in, note_left_out, schema_of
from splitter.inputs.pieces import CUT
from splitter.inputs.source import USES, InputSource, ListReading, SourceRows, refuse_option
from splitter.storage.layout import OWN_FOLDER, RESERVED_FOLDERS
from splitter.stores.listings import (
    OUTPUT_FOLDER,
    OutputFolders,
    PassOver,
    is_meant,
    is_remote_folder,
    remote_files,
)
from splitter.text.endings import ending_of
from splitter.text.urls import is_url, joined


def _instead(path: str) -> str:
    """Return advice on a folder without inputs: what is in it instead, and what to use."""
    example = None if is_url(path) else next(_walk(path, ""), None)
    if example:
        return f"; there is {example!r}, for example"
    manifest = manifest_in(path)
    if CUT in schema_of(manifest).get("types", ()):
        return f" but virtual pieces; use {manifest} --column output"
    if schema_of(manifest):
        return f"; use {manifest} to take the inputs of that run again, with its metadata as labels"
    return ", except files whose names begin with a dot; check DATASET"


class FolderSource(InputSource):
    """A folder, here or at a URL, whose files are the inputs."""

    takes = frozenset({"pattern", "folder_label", "not_inputs", "all_rows"})

    def is_meant(self, location: Any, listing: InputList) -> bool:  # noqa: ANN401, ARG002 - as the seam
        """Accept folders; for a URL, this may ask the store."""
        if not isinstance(location, str):
            return False
        if not is_url(location):
            return os.path.isdir(location)
        # asking needs a client, which takes a second to start
        return location.endswith("/") or (suffix_of(location) not in LISTS and is_remote_folder(location))

    def read(self, location: Any, listing: InputList, reading: ListReading) -> SourceRows:  # noqa: ANN401
        location = joined(location, "") if is_url(location) else location
        if listing.folder_label == "":
            raise Refused("--folder-label '': is not a column name; write for example --folder-label label")
        files = _files_of(location, listing.patterns, reading)
        if listing.all_rows:
            if not schema_of(manifest_in(location)):
                refuse_option(listing.all_rows, "--all-rows", USES["all_rows"])
        elif left_out := left_out_of(location, reading.held):
            files = _without(left_out, files, reading)
        if listing.not_inputs:
            files = _without_others(files, listing, reading)
        if listing.folder_label is None:
            return SourceRows([listing.column], ([file] for file in files), location)
        # the innermost folder is the label, as in audiofolder and ImageFolder
        rows = ([file, file.rpartition("/")[0].rpartition("/")[2]] for file in files)
        return SourceRows([listing.column, listing.folder_label], rows, location)


def _checked(
    files: Iterator[str], folder: str, patterns: Sequence[str], reading: ListReading
) -> Iterator[str]:
    """Yield files; refuse a folder without any: it is a mistake, or a disk that is not mounted.

    For an output folder, tell the user that only its manifest has the labels of its files.
    """
    first = next(files, None)
    if first is None:
        wanted = f"no file in it matches --pattern {' or '.join(map(repr, patterns))}"
        raise Refused(f"{folder}: {wanted if patterns else 'it holds no file'}{_instead(folder)}")
    manifest = manifest_in(folder)
    if not is_url(folder) and os.path.isdir(os.path.join(folder, OWN_FOLDER)) and os.path.isfile(manifest):
        reading.tell(
            f"{folder}: holds the outputs of an earlier run; to keep their labels, pass {manifest} "
            "with --column output instead"
        )
    yield first
    yield from files


def _without(left_out: Collection[int], files: Iterable[str], reading: ListReading) -> Iterator[str]:
    """Yield the files that --keep did not leave out, and tell the user how many it did."""
    count = 0
    for file in files:
        if hash(file) in left_out:
            count += 1
        else:
            yield file
    note_left_out(count, reading)


def _files_of(path: str, patterns: Sequence[str], reading: ListReading) -> Iterator[str]:
    leave_out = reading.leave_out
    reading.tally.chosen = reading.tally.chosen or bool(patterns)
    if same_folder(path, leave_out):
        raise Refused(f"{path}: is the input folder; choose another --output")
    meant, passed_over = is_meant(patterns), reading.tally.passed_over

    def pass_over(name: str, kind: str) -> None:
        if kind == OUTPUT_FOLDER or meant(name):
            passed_over[kind] += 1

    if is_url(path):
        outputs = OutputFolders(leave_out, OWN_FOLDER, RESERVED_FOLDERS)
        files = remote_files(path, patterns, outputs, reading.known, pass_over)
    else:
        files = filter(meant, _walk(path, leave_out, pass_over))
    return _checked(files, path, patterns, reading)


def _without_others(files: Iterable[str], listing: InputList, reading: ListReading) -> Iterator[str]:
    """Yield the files whose endings may be those of inputs, and count the others by kind.

    An ending that a pattern names is always one. If no file has such an ending, yield all files.
    """
    asked = {ending_of(pattern) for pattern in listing.patterns}
    kinds = {ending: kind for ending, kind in (listing.not_inputs or {}).items() if ending not in asked}
    others = []
    nothing = True
    for file in files:
        if ending_of(file) in kinds:
            others.append(file)
        else:
            nothing = False
            yield file
    if nothing:
        # the recipe then says of each file what is wrong
        yield from others
    else:
        reading.tally.passed_over.update(kinds[ending_of(file)] for file in others)


def same_folder(one: str, other: str) -> bool:
    """Return whether two folders are the same; a URL and a local folder never are."""
    if not other or is_url(one) or is_url(other):
        return bool(other) and one.rstrip("/") == other.rstrip("/")
    return os.path.realpath(one) == os.path.realpath(other)


def _walk(folder: str, leave_out: str, pass_over: PassOver = lambda *_: None) -> Iterator[str]:
    """Yield the files of a folder and its subfolders, in the same order on every machine.

    `pass_over` is called with the name and the kind of each file that may look like an input but is not one.
    """
    leave_out = os.path.realpath(leave_out) if leave_out else ""
    yield from _walk_below(os.path.realpath(folder), "", {leave_out}, pass_over)


def _walk_below(folder: str, prefix: str, leave_out: set[str], pass_over: PassOver) -> Iterator[str]:
    """Yield the files below a folder; skip a link to a folder that contains the link."""
    leave_out = {*leave_out, folder}
    try:
        with os.scandir(folder) as found:
            entries = sorted(found, key=lambda entry: entry.name)
    except OSError as error:
        remedy = "fix its permissions, or pass a list"
        raise Refused(f"{folder}: cannot be read: {error.strerror}; {remedy}") from None
    is_output = any(entry.name == OWN_FOLDER for entry in entries)
    if is_output and prefix:
        # otherwise the chunks of recordings would be inputs, next to the recordings
        pass_over(prefix, OUTPUT_FOLDER)
        return
    for entry in entries:
        path = os.path.realpath(entry.path) if entry.is_symlink() else entry.path
        if entry.name.startswith(".") or path in leave_out:
            if _may_be_missed(entry):
                pass_over(prefix + entry.name, "hidden file")
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
    """Return whether a hidden file may be an input: not one like .DS_Store, or the ._a.wav of macOS."""
    is_hidden = entry.name.startswith(".") and not entry.name.startswith("._")
    return is_hidden and "." in entry.name[1:] and entry.is_file()


def _kind_of(entry: os.DirEntry[str]) -> str:
    """Return the kind of a file that holds no data."""
    mode = entry.stat().st_mode
    return "named pipe" if stat.S_ISFIFO(mode) else "socket" if stat.S_ISSOCK(mode) else "device"


def _may_hold_data(entry: os.DirEntry[str]) -> bool:
    """Return whether an entry is a file or a broken link, whose file may be lost; not a pipe or device."""
    try:
        return entry.is_file() or (entry.is_symlink() and not os.path.exists(entry.path))
    except OSError:
        return True
