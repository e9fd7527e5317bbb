"""The seam for files of other tools: how to recognize them, and how they become rows."""

import contextlib
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from splitter.errors import Refused
from splitter.inputs.listing import InputList
from splitter.inputs.source import ListReading, SourceRows
from splitter.storage.layout import key_hash
from splitter.text.csv import Row
from splitter.text.show import show_count

# a row as text by column: the recording as `input`, then everything about it
Entry = dict[str, str]
INPUT, START, END, TEXT, SPEAKER = "input", "start", "end", "text", "speaker"


@dataclass(frozen=True)
class Written:
    """A file or folder on this machine that another tool may have written.

    Attributes:
        path: Its path; for a URL, the path of the copy.
        name: The name that messages use.
        head: The text that a file begins with.
        fields: The first line of a file, if it is a JSON object.
    """

    path: str
    name: str
    head: str = ""
    fields: dict[str, Any] | None = None

    @property
    def is_folder(self) -> bool:
        return os.path.isdir(self.path)

    def file(self, name: str) -> "Written":
        """Return a file in this folder; messages use its whole path."""
        path = os.path.join(self.path, name)
        return Written(path, path)

    def holds(self, *names: str) -> bool:
        """Return whether this is a folder that contains all of these names."""
        return all(os.path.exists(os.path.join(self.path, name)) for name in names)

    def fault(self, line: int | str, why: str) -> Refused:
        """Return the refusal of a line, by its number, or of another part, by its name."""
        where = f"line {line}" if isinstance(line, int) else line
        return Refused(f"{self.name}: {where}: {why}")

    @contextlib.contextmanager
    def naming(self, line: int | str) -> Iterator[None]:
        """Turn errors into refusals that name the line, also errors from values of an unexpected type."""
        try:
            yield
        except ValueError as error:
            raise self.fault(line, str(error)) from None
        except (TypeError, AttributeError, KeyError):
            raise self.fault(line, "has values of an unexpected type; fix or remove it") from None


class Dialect(ABC):
    """The format of another tool.

    Attributes:
        takes: The options of `InputList` that it takes.
        shape: What the format looks like, for messages.
        reads_folder: Whether it is a folder rather than a file; None if it can be either.
    """

    takes: ClassVar[frozenset[str]] = frozenset({"root", "from_"})
    shape: ClassVar[str]
    reads_folder: ClassVar[bool | None] = False

    @abstractmethod
    def is_written(self, there: Written) -> bool:
        """Return whether the content shows that this tool wrote the file or folder."""

    @abstractmethod
    def entries(self, there: Written) -> Iterator[Entry]:
        """Yield the rows, with times in `start` and `end`; refuse a bad row, naming its line."""

    def read(self, there: Written, home: str, listing: InputList, reading: ListReading) -> SourceRows:  # noqa: ARG002
        """Return the rows, with paths relative to `home`; call `entries` twice, first to find all columns."""
        names: dict[str, None] = {}
        marks = np.fromiter(_marks(self.entries(there), names), "u8")
        if not len(marks):
            raise Refused(f"{there.name}: names no recording; check DATASET")
        header = [*names]
        rows = ([entry.get(name, "") for name in header] for entry in self.entries(there))
        if START in names and not reading.group_rows and len(np.unique(marks)) < len(marks):
            return _each_once(header, rows, home, reading)
        return SourceRows(header, rows, home)


def _marks(entries: Iterator[Entry], names: dict[str, None]) -> Iterator[int]:
    for entry in entries:
        names.update(dict.fromkeys(entry))
        yield key_hash(entry[INPUT])


def _each_once(header: Row, rows: Iterable[Row], home: str, reading: ListReading) -> SourceRows:
    """Return each recording once, with only the columns that are the same in all rows of a recording."""
    first: dict[str, Row] = {}
    differs = {header.index(name) for name in (START, END) if name in header}
    for row in rows:
        other = first.setdefault(row[0], row)
        if other is not row:
            differs.update(at for at, value in enumerate(row) if value != other[at])
    stay = [at for at in range(len(header)) if at not in differs]
    left = ", ".join(header[at] for at in sorted(differs))
    recordings = show_count(len(first), "recording")
    reading.tell(
        f"the rows are parts of {recordings}: each is one input, without {left}; --recipe segments "
        "cuts at the times, and --annotations with the name of DATASET gives pieces their labels"
    )
    return SourceRows([header[at] for at in stay], ([row[at] for at in stay] for row in first.values()), home)
