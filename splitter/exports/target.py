"""The folder that an export writes: it gets its final name when it is complete."""

import contextlib
import errno
import fcntl
import gzip
import io
import json
import os
import shutil
import stat
from itertools import chain
from typing import IO, Any

from splitter.errors import Refused
from splitter.exports.corpus import Corpus
from splitter.exports.piece import Piece
from splitter.exports.sorting import SortedFile
from splitter.storage.layout import key_hash
from splitter.storage.names import is_clean
from splitter.text.show import NAMES_SHOWN, show_names
from splitter.text.urls import is_url

MARKER = ".splitter-export"
# what follows the final name while an export is written, and in the export that it replaces
PARTIAL, REPLACED = ".partial", ".replaced"
MOST_FILES = 500
# fast, and a tenth larger than the best level
_LEVEL = 3

# a file that lines are written to
Lines = io.TextIOWrapper | SortedFile


class ExportTarget:
    """A folder that an export writes.

    Attributes:
        folder: Its final path.
        copied: The number of bytes of content that were copied.
        linked: The number of files that are hard links to outputs.
    """

    def __init__(self, folder: str, corpus: Corpus, to: str, *, absolute: bool = False) -> None:
        """Make an empty folder; refuse to replace a folder that no export has made."""
        self.folder, self._corpus, self._absolute = folder, corpus, absolute
        self._new = f"{folder}{PARTIAL}"
        self._to = to
        self._base = os.path.relpath(corpus.folder, folder) if not is_url(corpus.folder) else ""
        self._open: dict[str, Lines] = {}
        self._names: set[str] = set()
        self._source: tuple[str, str] = ("", "")
        self.copied = self.linked = 0
        refuse_folder(folder)
        _refuse_removal(f"{folder}{REPLACED}")
        _refuse_of_another(folder)
        _refuse_of_another(f"{folder}{REPLACED}")
        self._lock = self._begin()

    def _begin(self) -> IO[str]:
        """Make the new folder, and lock it."""
        os.makedirs(os.path.dirname(self.folder), exist_ok=True)
        _remove(self._new)
        os.mkdir(self._new)
        return _locked(self._new)

    @property
    def files(self) -> int:
        """The number of files written, not counting those of single pieces."""
        return len(self._names)

    # -- files of the format ---------------------------------------------------------------------------------

    def path(self, name: str) -> str:
        """Return where to write a file; it moves to its final path when the folder is renamed."""
        if not is_clean(name) or name.partition("/")[0] == MARKER:
            raise Refused(f"{name!r:.200}: cannot be a file of an export")
        self._names.add(name)
        path = f"{self._new}/{name}"
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return path

    def open(self, name: str, *, split: str = "", ordered: bool = False) -> Lines:
        """Return a file for lines of text; each call with a name appends to the same file.

        Args:
            name: Its name in the export; if it ends in `.gz`, the file is compressed, without a timestamp.
            split: Added before the first dot of the name: `cuts.jsonl.gz` becomes `cuts_train.jsonl.gz`.
            ordered: Sort the lines by their bytes, in bounded memory.
        """
        if split:
            folder, slash, last = name.rpartition("/")
            stem, dot, endings = last.partition(".")
            name = f"{folder}{slash}{stem}_{split}{dot}{endings}"
        if name not in self._open:
            path = self.path(name)
            if not ordered and len(self._open) >= MOST_FILES:
                # reopened if there is more to append
                plain = (one for one, file in self._open.items() if not isinstance(file, SortedFile))
                self.finish(next(plain, ""))
            self._open[name] = SortedFile(path) if ordered else _text_file(path)
        return self._open[name]

    def finish(self, name: str) -> str:
        """Close a file for lines, and return its path, to read it."""
        file = self._open.pop(name, None)
        if file is not None:
            file.close()
        return f"{self._new}/{name}"

    # -- contents --------------------------------------------------------------------------------------------

    def path_of(self, piece: Piece) -> str:
        """Return where a tool finds the file of a piece: a URL or a path, which `--absolute` makes absolute.

        A piece in a shard, or a virtual one, has no path, so it is written out first, below `audio/`.
        """
        if piece.shard or piece.is_virtual:
            shard = os.path.basename(piece.shard).partition(".")[0] or "virtual"
            return self.add(piece, f"audio/{shard}/{piece.key}{piece.ending}")
        self._corpus.check_file(piece)
        if self._base and not self._absolute and piece.name[:1] != "/" and "://" not in piece.name:
            return f"{self._base}/{piece.name}"
        return self._shown(self._corpus.location(piece.name))

    def add(self, piece: Piece, name: str) -> str:
        """Add the content of a piece to the export as a hard link or a copy; return its path."""
        count = len(self._names)
        path = self.path(name)
        if len(self._names) > count:
            # the names of all pieces would take too much memory
            self._names.discard(name)
        file = self._corpus.plain_path(piece)
        if file is None:
            content = self._corpus.read(piece)
            with open(path, "xb") as copy:
                copy.write(content)
            self.copied += len(content)
        else:
            self.link(file, path)
        return f"{self.folder}/{name}" if self._absolute else name

    def link(self, file: str, path: str) -> None:
        """Hard-link a local file to a path that `path` returned; if that is impossible, copy it."""
        try:
            os.link(file, path, follow_symlinks=False)
            self.linked += 1
        except OSError as error:
            if error.errno not in (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP, errno.EACCES):
                raise
            shutil.copyfile(file, path, follow_symlinks=False)
            self.copied += os.path.getsize(path)

    def source_path(self, piece: Piece) -> str:
        """Return where a tool finds the recording that a piece comes from; refuse one that is missing."""
        source = piece.source
        if source != self._source[0]:
            if not source or not (is_url(source) or os.path.isfile(source)):
                raise Refused(
                    f"{source or piece.name}: the recording of {piece.name!r:.200} does not exist as a file; "
                    "put it back, or leave the piece out with --where"
                )
            self._source = source, self._shown(source)
        return self._source[1]

    def _shown(self, location: str) -> str:
        if is_url(location):
            return location
        path = os.path.abspath(location)
        return path if self._absolute else os.path.relpath(path, self.folder)

    # -- the end ---------------------------------------------------------------------------------------------

    def publish(self) -> None:
        """Give the folder its final name; an earlier export is replaced."""
        for file in self._open.values():
            file.close()
        self._open = {}
        made = sorted(name for name in os.listdir(self._new) if name != MARKER)
        json.dump({"format": self._to, "made": made, "below": _below(self._new)}, self._lock)
        self._lock.flush()
        replaced = f"{self.folder}{REPLACED}"
        _remove(replaced)
        refuse_folder(self.folder)
        if os.path.lexists(self.folder):
            os.rename(self.folder, replaced)
        os.rename(self._new, self.folder)
        self._lock.close()
        with contextlib.suppress(OSError, Refused):
            _remove(replaced)

    def discard(self) -> None:
        """Remove what was written, after an error."""
        for file in self._open.values():
            file.close()
        self._lock.close()
        with contextlib.suppress(OSError, Refused):
            _remove(self._new)


def _text_file(path: str) -> io.TextIOWrapper:
    """Open a text file to append lines that end in a bare newline; bytes that are not UTF-8 pass through."""
    file: Any = open(path, "ab")  # noqa: SIM115 - closed with the target
    if path.endswith(".gz"):
        packed = gzip.GzipFile("", "wb", _LEVEL, file, mtime=0)
        # GzipFile closes this one with itself
        packed.myfileobj, file = file, packed
    return io.TextIOWrapper(file, "utf-8", "surrogateescape", newline="\n")


def _locked(folder: str) -> IO[str]:
    """Make the marker of an export, and lock it; refuse a folder that another process is writing."""
    number = os.open(f"{folder}/{MARKER}", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    file = open(number, "r+", encoding="utf-8")  # noqa: SIM115 - open as long as the lock holds
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise Refused(f"{folder}: another export is writing there; wait until it ends") from None
    return file


def _remove(folder: str) -> None:
    """Remove an export, if there is one; its empty marker goes last, so that the rest can go after a kill."""
    if not os.path.lexists(folder):
        return
    _refuse_removal(folder)
    try:
        with _locked_for_removal(folder) as marker:
            _make_writable(folder)
            marker.truncate()
            for entry in [*os.scandir(folder)]:
                if entry.is_dir(follow_symlinks=False):
                    shutil.rmtree(entry)
                elif entry.name != MARKER:
                    os.unlink(entry)
            os.unlink(f"{folder}/{MARKER}")
        # the marker is closed: on NFS, an open file stays in its folder when it is unlinked
        os.rmdir(folder)
    except PermissionError as error:
        why = f"{error.strerror}: {error.filename}"
        raise Refused(
            f"{folder}: cannot be removed ({why}); remove it as its owner, or choose another folder with -o"
        ) from None


def _locked_for_removal(folder: str) -> IO[str]:
    """Lock an export to remove it, even if its marker is read-only; refuse one that is not finished then."""
    marker = f"{folder}/{MARKER}"
    try:
        return _locked(folder)
    except PermissionError:
        if not os.path.exists(marker):
            raise
        if not os.path.getsize(marker):
            # its lock cannot be asked
            raise Refused(
                f"{folder}: another export is writing there, or was killed; wait until it ends, or remove "
                "the folder"
            ) from None
        os.chmod(marker, 0o600)
        return _locked(folder)


def _make_writable(folder: str) -> None:
    """Let the owner write in a folder and in those below it."""
    below = (f"{path}/{name}" for path, folders, _ in os.walk(folder) for name in folders)
    for path in chain([folder], below):
        mode = os.lstat(path).st_mode
        if stat.S_ISDIR(mode) and ~mode & stat.S_IRWXU:
            os.chmod(path, stat.S_IMODE(mode) | stat.S_IRWXU)


def _refuse_removal(folder: str) -> None:
    """Refuse to remove a link, and what no export has made."""
    if os.path.islink(folder):
        raise Refused(f"{folder}: is a link; remove it, or choose another folder with -o")
    refuse_folder(folder)


def _refuse_of_another(folder: str) -> None:
    """Refuse to replace an export that only another user can remove."""
    for path in (folder, f"{folder}/{MARKER}"):
        owners = (0, os.lstat(path).st_uid) if os.path.lexists(path) else ()
        # the owner can make it writable
        if owners and os.geteuid() not in owners and not os.access(path, os.W_OK):
            raise Refused(
                f"{folder}: belongs to another user; remove it as its owner, or choose another folder with -o"
            )


def refuse_folder(folder: str) -> None:
    """Refuse to replace what no export has made: a file, or a folder with other content."""
    if not os.path.lexists(folder):
        return
    try:
        names = {*os.listdir(folder)}
    except OSError:
        raise Refused(f"{folder}: is not a folder; choose another one with -o") from None
    if names and MARKER not in names:
        raise Refused(f"{folder}: contains something that is not an export; choose another folder with -o")
    made, below = _made_in(folder, names)
    why, strange = "holds files that no export wrote", sorted(names - {MARKER} - made)
    if not strange and below is not None:
        there = _below(folder)
        why = "holds folders whose files have changed since the export"
        strange = [name for name, found in there.items() if found != below.get(name)]
    if strange:
        few = show_names(strange[:NAMES_SHOWN], len(strange))
        raise Refused(
            f"{folder}: would be replaced, but {why} ({few}); move them, or choose another folder with -o"
        )


def _below(folder: str) -> dict[str, list[int]]:
    """Return the number of names in each folder below, and a hash of them."""
    found = {}
    for path, folders, files in os.walk(folder):
        if path != folder:
            names = folders + files
            found[os.path.relpath(path, folder)] = [len(names), sum(map(key_hash, names)) % (1 << 63)]
    return dict(sorted(found.items()))


def _made_in(folder: str, names: set[str]) -> tuple[set[str], dict[str, list[int]] | None]:
    """Return what an export made in a folder, and below it; if it did not finish, all names that exist."""
    marker = f"{folder}/{MARKER}"
    try:
        with open(marker, encoding="utf-8") as file:
            text = file.read()
        if not text:
            return names, None
        made = json.loads(text)
        return {*made["made"]}, dict(made["below"])
    except FileNotFoundError:
        return set(), None
    except (OSError, ValueError, KeyError, TypeError):
        raise Refused(f"{marker}: is damaged; remove the folder, or choose another with -o") from None
