"""Read and write, in an object store, the small files that a run keeps for itself.

On this machine, they are temporary files.
"""

import contextlib
import io
import tempfile
from collections.abc import Iterator, Sequence
from typing import BinaryIO, cast

from splitter.archives.members import FilePart, SharedFile
from splitter.storage.remote_access import RemoteAccess
from splitter.stores.files import RangeFile
from splitter.stores.objects import READ_AT_ONCE
from splitter.stores.threads import in_threads


class RemoteRunFiles(RemoteAccess):
    """The files of a run in a store: each is uploaded whole, and read from a local copy."""

    def start_afresh(self) -> None:
        super().start_afresh()
        self._working: dict[str, BinaryIO] = {}
        self._published: set[str] = set()
        # the copies are in one nameless file, one after the other; it is gone when the process ends
        self._copies: dict[str, FilePart] = {}
        self._file: SharedFile | None = None
        self._end = 0
        self._sizes: dict[str, int] = {}

    def write(self, name: str, content: bytes, *, durable: bool = True) -> None:
        """Store a file by one PUT; a store makes it durable."""
        del durable
        with self.writing(name):
            self.objects.write(name, content)

    @contextlib.contextmanager
    def replacing(self, name: str, *, durable: bool = True) -> Iterator[BinaryIO]:
        """Open a temporary file, which is uploaded when the block ends without an error."""
        del durable
        with self._temporary(name) as file:
            with self.naming_temporary(name):
                yield file
                file.flush()
            with self.writing(name):
                self.objects.upload(name, file)

    @contextlib.contextmanager
    def working_file(self, name: str) -> Iterator[BinaryIO]:
        """Open a temporary file, which `publish_file` uploads, at the latest when the block ends."""
        with self._temporary(name) as file:
            self._working[name] = file
            yield file
            self.publish_file(name)

    def publish_file(self, name: str) -> None:
        if name in self._published:
            return
        file = self._working[name]
        with self.naming_temporary(name):
            at = file.tell()
            file.flush()
        with self.writing(name):
            self.objects.upload(name, file)
        file.seek(at)
        self._published.add(name)

    @contextlib.contextmanager
    def _temporary(self, name: str) -> Iterator[BinaryIO]:
        """Open a nameless file, which is gone when this process ends, however it ends."""
        with self.naming_temporary(name):
            file = tempfile.TemporaryFile(buffering=1 << 20, prefix="splitter-")  # noqa: SIM115 - closed below
        with contextlib.closing(file):
            yield cast("BinaryIO", file)

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder, sorted, with one LIST for each thousand."""
        with self.reading(folder):
            found = self.objects.listed(folder)
        self._sizes.update((f"{folder}/{name}", size) for name, size in found.items())
        return list(found)

    def exists(self, name: str) -> bool:
        with self.reading(name):
            return self.objects.size(name) is not None

    def read(self, name: str) -> bytes:
        with self.reading(name):
            return self.objects.read(name)

    def open(self, name: str) -> BinaryIO:
        if name not in self._copies:
            self._sizes.pop(name, None)
            self.have_at_hand([name])
        file, start, size = self._copies[name]

        def read_at(position: int, most: int) -> bytes:
            return file.read(max(0, min(most, size - position)), start + position)

        return cast("BinaryIO", io.BufferedReader(RangeFile(read_at, lambda: size)))

    def have_at_hand(self, names: Sequence[str]) -> None:
        """Fetch the files that have no copy yet, several pieces at a time."""
        wanted = [name for name in names if name not in self._copies]
        unknown = [name for name in wanted if name not in self._sizes]
        self._sizes.update(zip(unknown, in_threads(self.size_of, unknown), strict=True))
        for name in wanted:
            self._file = self._file or SharedFile.of(())
            self._copies[name] = FilePart(self._file, self._end, self._sizes[name])
            self._end += self._sizes[name]
        try:
            in_threads(
                self._copy,
                [
                    (name, start, min(self._sizes[name], start + READ_AT_ONCE))
                    for name in wanted
                    for start in range(0, self._sizes[name], READ_AT_ONCE)
                ],
            )
        except BaseException:
            for name in wanted:
                self._copies.pop(name, None)
            raise

    def _copy(self, piece: tuple[str, int, int]) -> None:
        name, start, stop = piece
        copy = self._copies[name]
        with self.reading(name):
            copy.file.write(self.objects.read_part(name, start, stop), copy.start + start)
