"""Pieces without files, cut out of their recordings when they are read, as `--sink virtual` has noted.

A recording stays open for the next piece, with everything learned about it: where the frames of FLAC and MP3
are, what has been decoded. It must not have changed since the pieces were noted.
"""

import contextlib
import os
import shutil
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from splitter.errors import InputError, UnreadableInput
from splitter.inputs.fetching import local_name
from splitter.inputs.locations import look_at
from splitter.inputs.shards.index import open_shard
from splitter.records import content_bytes
from splitter.storage.content import measure_file
from splitter.storage.layout import Layout
from splitter.stores.files import Found, fetch
from splitter.system.temporary_folders import temporary_folder
from splitter.text.urls import is_url, without_secrets

if TYPE_CHECKING:
    from splitter.audio.base import SoundSource
    from splitter.audio.pieces import Cut, Storing

# the columns of virtual pieces: how to cut one, and the size and checksum of the recording
CUT, SOURCE_SIZE, SOURCE_CHECKSUM = "cut", "source_size", "source_checksum"
# how many recordings stay open, how many of them decoded, and how many bytes of fetched copies
MOST_OPEN, MOST_DECODED, MOST_FETCHED = 64, 2, 1 << 30
_OF_OTHER_PROCESSES: list[contextlib.ExitStack] = []
RESTORE = "restore it, or run the same 'splitter run' command again"


class PieceAddress(NamedTuple):
    """The address of a piece: its recording, as the list names it, and how to cut it."""

    listed: str
    cut: str
    size: int
    checksum: str


class _OpenRecording(NamedTuple):
    """An open recording: its path, its state when it was opened, and the folder of a fetched copy."""

    path: str
    found: Found
    checksum: str
    source: "SoundSource"
    copy: str

    def close(self) -> None:
        """Close it, and remove the copy."""
        self.source.close()
        if self.copy:
            shutil.rmtree(self.copy, ignore_errors=True)


class _OpenRecordings(OrderedDict["tuple[str, Storing]", _OpenRecording]):
    """The open recordings, the most recently used last, and a temporary folder for copies of remote ones.

    The cutter removes the folder when it goes, but not in a forked process, which shares it.
    """

    def __init__(self) -> None:
        super().__init__()
        self._process = os.getpid()
        self._space = contextlib.ExitStack()
        self._folder = ""

    @property
    def folder(self) -> str:
        self._folder = self._folder or self._space.enter_context(temporary_folder())
        return self._folder

    def close(self) -> None:
        here = os.getpid() == self._process
        while self:
            recording = self.popitem()[1]
            if here:
                recording.close()
            else:
                recording.source.close()
        if here:
            self._space.close()
            self._folder = ""
        else:
            # garbage collection would remove the folder
            _OF_OTHER_PROCESSES.append(self._space)


class PieceCutter:
    """Reader of pieces, cut out of the recordings of one list in any order."""

    def __init__(
        self, layout: Layout, *, since: int = 0, folder: Callable[[], str | os.PathLike[str]] | None = None
    ) -> None:
        """Cut pieces out of recordings that `layout` locates.

        A local file of the noted size that has not been touched after `since`, in nanoseconds, counts as
        unchanged. The checksum of any other is compared when it is opened. `folder` gives the folder for
        temporary files.
        """
        self._layout, self._since = layout, since
        self._open = recordings = _OpenRecordings()
        self._folder = folder or (lambda: recordings.folder)
        self._checked: set[tuple[str, Found]] = set()
        self._copies = 0
        weakref.finalize(self, recordings.close)

    def read(self, piece: PieceAddress) -> bytes:
        """Return the content of a piece; raise an InputError that names a recording that cannot be cut."""
        from splitter.audio.pieces import Cut

        try:
            cut = Cut.parse(piece.cut)
        except ValueError as error:
            raise InputError(f"{without_secrets(piece.listed)}: {error}") from None
        recording = self._recording(piece, cut)
        with _naming(piece):
            if recording.source.reach(cut.stop) < cut.stop:
                raise _changed(piece, f"it ends before sample {cut.stop:,}")
            return content_bytes(cut.content(recording.source))

    def close(self) -> None:
        self._open.close()

    def _recording(self, piece: PieceAddress, cut: "Cut") -> _OpenRecording:
        key = piece.listed, cut.storing
        there = self._open.get(key)
        if there is not None and (there.copy or there.found == _look(there.path)):
            if piece.checksum != there.checksum:
                raise _changed(piece, "rows state different checksums of it")
            self._open.move_to_end(key)
            return there
        if there is not None:
            self._open.pop(key).close()
        opened = self._open[key] = self._opened(piece, cut.storing)
        self._let_go(key)
        return opened

    def _opened(self, piece: PieceAddress, storing: "Storing") -> _OpenRecording:
        from splitter.audio.sources import open_source

        path, copy = self._layout.location(piece.listed), ""
        try:
            if is_url(path):
                path, copy = self._fetched(path)
            found = _look(path)
            self._check(piece, path, found)
            with _naming(piece):
                source = open_source(path, storing.target, storing.truncated, self._folder)
        except BaseException:
            if copy:
                shutil.rmtree(copy, ignore_errors=True)
            raise
        return _OpenRecording(path, found, piece.checksum, source, copy)

    def _fetched(self, url: str) -> tuple[str, str]:
        self._copies += 1
        copy = f"{self._folder()}/recording-{self._copies}"
        os.mkdir(copy)
        path = f"{copy}/{local_name(url)}"
        fetch(url, path, None)
        return path, copy

    def _check(self, piece: PieceAddress, path: str, found: Found) -> None:
        """Refuse a recording that has changed since its pieces were noted."""
        if found.size != piece.size:
            raise _changed(piece, f"it has {found.size:,} bytes instead of {piece.size:,}")
        if found.changed <= self._since or (path, found) in self._checked:
            return
        if measure_recording(path)[1] != piece.checksum:
            raise _changed(piece, "its checksum differs")
        self._checked.add((path, found))

    def _let_go(self, key: "tuple[str, Storing]") -> None:
        """Close the least recently used recordings beyond each limit, but never that of `key`."""
        decoded = fetched = 0
        for number, (other, one) in enumerate(reversed(list(self._open.items())), 1):
            decoded += one.source.is_decoded
            fetched += one.found.size if one.copy else 0
            too_many = number > MOST_OPEN or fetched > MOST_FETCHED
            if other != key and (too_many or (one.source.is_decoded and decoded > MOST_DECODED)):
                self._open.pop(other).close()


def measure_recording(location: str) -> tuple[int, str]:
    """Return the size and the checksum of a local or remote recording, after reading all of it."""
    look_at(location)
    with open_shard(location) as file:
        return measure_file(file)


def _look(path: str) -> Found:
    try:
        size, changed = look_at(path)
        # a copied file may keep an old modification time, but its ctime is new
        return Found(size, max(changed, os.stat(path).st_ctime_ns))
    except UnreadableInput as error:
        raise UnreadableInput(f"{error}; its virtual pieces are cut out of it; {RESTORE}") from None


def _changed(piece: PieceAddress, how: str) -> InputError:
    name = without_secrets(piece.listed)
    return InputError(f"{name}: has changed since its pieces were noted ({how}); {RESTORE}")


@contextlib.contextmanager
def _naming(piece: PieceAddress) -> Iterator[None]:
    """Turn what a decoder raises into an error that names the recording."""
    try:
        yield
    except InputError:
        raise
    except (OSError, ValueError, RuntimeError) as error:
        raise InputError(f"{without_secrets(piece.listed)}: cannot be cut: {error}") from error
