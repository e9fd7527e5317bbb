"""The values that pass between a user's code and splitter: input files, output files."""

import os
import tempfile
from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO, NamedTuple

READ_AT_ONCE = 1 << 16
LONGEST_SHOWN = 60

Scalar = str | int | float | bool | None
Content = bytes | bytearray | memoryview | str | PathLike[str] | Callable[[BinaryIO], object] | None


class Scratch:
    """A temporary folder that is made when it is first asked for."""

    __slots__ = ("_folder", "_parent")

    def __init__(self, parent: str | None = None) -> None:
        """Make the folder below `parent`, or in the system's temporary folder."""
        self._parent = parent
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    @property
    def path(self) -> Path:
        """The folder, made now if it was not there."""
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(
                prefix="splitter-", dir=self._parent, ignore_cleanup_errors=True
            )
        return Path(self._folder.name)

    def holds(self, path: str) -> bool:
        """Whether a path lies in this folder, wherever links and `..` in it lead."""
        if self._folder is None:
            return False
        return os.path.realpath(path).startswith(os.path.realpath(self._folder.name) + "/")

    def remove(self) -> None:
        """Delete the folder and all that is in it."""
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None


class InputFile(NamedTuple):
    """One path of the dataset list, with the other columns of its row.

    Attributes:
        input: The path or URL as it is written in the list.
        local_path: Where the file is on this machine, as text.
        columns: The whole row, column name to text, nothing converted.
        rows: Every row that names this file; more than one only with `group_rows`.
        scratch_folder: What `scratch` is made from.
    """

    # like OutputFile a tuple, since a run makes one for each input
    input: str
    local_path: str
    columns: dict[str, str]
    rows: tuple[dict[str, str], ...]
    scratch_folder: Scratch

    @property
    def path(self) -> Path:
        """The file's place on this machine."""
        return Path(self.local_path)

    @property
    def scratch(self) -> Path:
        """A temporary folder for tools that must write; it is gone when the input is done."""
        return self.scratch_folder.path

    def open(self) -> BinaryIO:
        """Open the file for reading bytes."""
        return open(self.local_path, "rb")

    def read_bytes(self) -> bytes:
        """The whole content."""
        # a small file in the fewest calls: a buffered file object costs more than reading it
        descriptor = os.open(self.local_path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            parts = []
            while part := os.read(descriptor, READ_AT_ONCE):
                parts.append(part)
        finally:
            os.close(descriptor)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def read_text(self, encoding: str = "utf-8") -> str:
        """The whole content as text; line ends are kept as they are."""
        return self.read_bytes().decode(encoding)


class Expected(NamedTuple):
    """What will come of an input file, as far as that can be told without processing it.

    Attributes:
        outputs: How many output files.
        bytes: Their bytes; None if only a trial can tell.
        exact: Whether the numbers are certain, not only likely.
        content: Where `bytes` is None, how much they will hold, such as the number of samples: their bytes
            are taken to go by that.
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
            writes to the binary file it is given. None: there is metadata only, and no file.
        metadata: Scalars that stand in this output's row of the manifest.
        row: With `group_rows`, which of the input's rows this output comes from.
    """

    # a tuple, since making it is a good part of what an output without a file costs
    name: str = ""
    content: Content = None
    metadata: Mapping[str, Scalar] = MappingProxyType({})
    row: int = 0

    def __repr__(self) -> str:
        """Without the content, which may be long: a line of it, or how much there is."""
        content = self.content
        if isinstance(content, (bytes, bytearray, memoryview)):
            shown = f"<{memoryview(content).nbytes:,} bytes>"
        else:
            text = repr(content)
            shown = text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"
        row = f", row={self.row}" if self.row else ""
        return f"OutputFile({self.name!r}, {shown}, {dict(self.metadata)}{row})"
