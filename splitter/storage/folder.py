"""An output in a folder, on a local or a shared file system: set it up, and inspect it."""

import contextlib
import io
import os
import stat
from collections.abc import Iterator

from splitter.errors import Refused, StorageError
from splitter.options import RunPart
from splitter.storage.folder_files import FolderRunFiles
from splitter.storage.folder_publishing import FolderPublishing
from splitter.storage.folder_steps import unwritable
from splitter.storage.layout import OWN_FOLDER, RECORDS
from splitter.storage.locks import FolderLock
from splitter.system.durability import sync_folder


class LocalStorage(FolderLock, FolderRunFiles, FolderPublishing):
    """An output folder on a local or a shared file system.

    The folder that the user names may be a link. Its contents may come from a stranger, so they are reached
    by descriptors, and links among them are never followed (see `splitter.storage.tree`).
    """

    def __init__(self, root: str, part: RunPart | None = None) -> None:
        super().__init__(root, part)
        self._made: list[str] = []

    # -- taking the output

    def refuse_strange(self) -> None:
        try:
            found = self.tree.names("")
        except FileNotFoundError:
            return
        except NotADirectoryError:
            if not os.path.lexists(self.root):
                # a folder above it is a file, which `prepare` reports
                return
            raise Refused(f"{self.root}: is a file, not a folder; choose another --output") from None
        except OSError as error:
            raise Refused(f"{self.root}: cannot be read: {error.strerror}; choose another --output") from None
        if found and OWN_FOLDER not in found:
            raise Refused(
                f"{self.root}: contains something else ({min(found)}); choose an empty or new folder as "
                "--output"
            )
        for folder in (OWN_FOLDER, RECORDS):
            with self.refusing(), contextlib.suppress(FileNotFoundError):
                self.tree.refuse_strangers(folder)

    def prepare(self) -> None:
        self.refuse_strange()
        try:
            self._made += _missing(self.root)
            os.makedirs(self.root, exist_ok=True)
            for name in (RECORDS, self.staging):
                self._made += _missing(self.path(name))
                self.tree.make_folder(name)
            # sync the new folders themselves: otherwise a power cut could take them with all they contain
            for folder in dict.fromkeys(map(os.path.dirname, self._made)):
                sync_folder(folder)
        except OSError as error:
            self.leave_nothing()
            raise unwritable(self.root, error) from None

    def leave_nothing(self) -> None:
        made, self._made = self._made, []
        if not self.withdraw_lock(with_files=self.path(OWN_FOLDER) in made):
            return
        for folder in sorted(made, reverse=True):
            with contextlib.suppress(OSError):
                os.rmdir(folder)

    # -- inspecting the output, when no run is at work

    def is_output(self) -> bool:
        return self.exists(OWN_FOLDER)

    def open_output(self, name: str) -> io.FileIO:
        return io.FileIO(self.tree.open(name, os.O_RDONLY))

    def output_size(self, name: str) -> int | None:
        try:
            found = self.tree.look(name)
        except OSError:
            return None
        return found.st_size if stat.S_ISREG(found.st_mode) else None

    def near(self, name: str, folder: str) -> str:
        del folder
        self.open_output(name).close()
        return self.root

    def walk(self) -> Iterator[str]:
        """Yield the names of all files and empty folders except splitter's own; follow no links."""
        folders = [""]
        while folders:
            folder = folders.pop()
            try:
                listing = self.tree.listing(folder.rstrip("/"))
                with listing as descriptor, os.scandir(descriptor) as entries:
                    empty = True
                    for entry in entries:
                        empty = False
                        name = f"{folder}{entry.name}"
                        if entry.is_dir(follow_symlinks=False):
                            if name != OWN_FOLDER:
                                folders.append(f"{name}/")
                        else:
                            yield name
                if empty:
                    yield folder
            except OSError as error:
                raise StorageError(f"cannot read {self.path(folder)}: {error.strerror}") from error


def _missing(path: str) -> list[str]:
    """Return a folder and the folders above it, as far as they do not exist, the innermost first."""
    missing = []
    while not os.path.lexists(path):
        missing.append(path)
        path = os.path.dirname(path)
    return missing
