"""The values that pass between a user's code and splitter: input files, output files."""

import io
import os
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO, NamedTuple

from splitter.errors import InputError

READ_AT_ONCE = 1 << 16
LONGEST_SHOWN = 60

Scalar = str | int | float | bool | None
Content = bytes | bytearray | memoryview | str | PathLike[str] | Callable[[BinaryIO], object] | None


class Deferred(ABC):
    """The content of an output, made only when it is stored; a sink may store instead how to make it."""

    __slots__ = ()

    @abstractmethod
    def made(self) -> Content:
        """Make the content."""

    def __call__(self, file: BinaryIO) -> None:
        """Make the content and write it to a file, as any content that is a callable does."""
        write_to(file, self.made())


def write_to(file: BinaryIO, content: Content) -> None:
    """Write content, which is bytes or a callable, to a file."""
    if callable(content):
        content(file)
    else:
        file.write(content)  # type: ignore[arg-type]


def content_bytes(content: Content) -> bytes:
    """Return content, which is bytes or a callable, as bytes."""
    if isinstance(content, bytes):
        return content
    file = io.BytesIO()
    write_to(file, content)
    return file.getvalue()


class Scratch:
    """A temporary folder that is created when it is first used."""

    __slots__ = ("_folder", "_parent")

    def __init__(self, parent: str | None = None) -> None:
        """Create the folder below `parent`, or in the system's temporary folder."""
        self._parent = parent
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    @property
    def path(self) -> Path:
        """The folder, created now if it does not exist."""
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(
                prefix="splitter-", dir=self._parent, ignore_cleanup_errors=True
            )
        return Path(self._folder.name)

    def holds(self, path: str) -> bool:
        """Return whether a path is in this folder, after links and `..` in it are resolved."""
        if self._folder is None:
            return False
        return os.path.realpath(path).startswith(os.path.realpath(self._folder.name) + "/")

    def remove(self) -> None:
        """Delete the folder and everything in it."""
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None


class InputFile(NamedTuple):
    """One path of the dataset list, with the other columns of its row.

    Attributes:
        input: The path or URL as written in the list.
        local_path: The location of the file on this machine, as text.
        columns: The whole row: the text of each column by its name, unconverted.
        rows: Every row that names this file; more than one only with `group_rows`.
        scratch_folder: The folder behind `scratch`.
    """

    # a tuple like OutputFile, because a run makes one for each input
    input: str
    local_path: str
    columns: dict[str, str]
    rows: tuple[dict[str, str], ...]
    scratch_folder: Scratch

    @property
    def path(self) -> Path:
        """The location of the file on this machine."""
        return Path(self.local_path)

    @property
    def name(self) -> str:
        """The name of the file, without its folder."""
        # not by `local_path`, which raises in an UnopenedFile: its input may be remote, or in a shard
        return os.path.basename(self[1])

    @property
    def scratch(self) -> Path:
        """A temporary folder for tools that must write; it is deleted when the input is done."""
        return self.scratch_folder.path

    def open(self) -> BinaryIO:
        """Open the file for reading bytes."""
        return open(self.local_path, "rb")

    def read_bytes(self) -> bytes:
        """Return the whole content."""
        # read a small file in few calls: a buffered file object costs more than the reading
        descriptor = os.open(self.local_path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            parts = []
            while part := os.read(descriptor, READ_AT_ONCE):
                parts.append(part)
        finally:
            os.close(descriptor)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def read_text(self, encoding: str = "utf-8") -> str:
        """Return the whole content as text; line endings stay unchanged."""
        return self.read_bytes().decode(encoding)


class UnopenedFile(InputFile):
    """An input of a recipe that opens no files: it is left where it is."""

    @property
    def local_path(self) -> str:
        """Refuse to give a path: nothing has been fetched."""
        raise InputError(
            f"{self.input}: cannot be opened, since the recipe says opens_files = False; leave that line out"
        )


class Expected(NamedTuple):
    """The result that is expected of an input file before it is processed.

    Attributes:
        outputs: Number of output files.
        bytes: Their size in bytes; None if only a trial can tell.
        exact: Whether the numbers are certain, not only likely.
        content: If `bytes` is None, another measure of their content, such as the number of samples; their
            size is estimated from it.
    """

    outputs: int
    bytes: int | None = None
    exact: bool = True
    content: int = 0


class OutputFile(NamedTuple):
    """One file made from an input.

    Attributes:
        name: One path component, such as `0.wav`.
        content: Bytes, text (stored as UTF-8), the Path of a finished file, or a callable that
            writes to the binary file it is called with. None: metadata only, without a file.
        metadata: Scalars for this output's row of the manifest.
        row: With `group_rows`, which of the input's rows this output comes from.
    """

    # a tuple, because creating it is a good part of the cost of an output without a file
    name: str = ""
    content: Content = None
    metadata: Mapping[str, Scalar] = MappingProxyType({})
    row: int = 0

    def __repr__(self) -> str:
        """Describe the output; of its content, which may be long, show only the size or the beginning."""
        content = self.content
        if isinstance(content, (bytes, bytearray, memoryview)):
            shown = f"<{memoryview(content).nbytes:,} bytes>"
        else:
            text = repr(content)
            shown = text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"
        row = f", row={self.row}" if self.row else ""
        return f"OutputFile({self.name!r}, {shown}, {dict(self.metadata)}{row})"
