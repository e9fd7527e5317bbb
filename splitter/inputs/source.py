"""The seam for kinds of input: what DATASET may name, and how that becomes a header and rows."""

import contextlib
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from splitter.errors import Refused
from splitter.inputs.labels import RowTally
from splitter.inputs.listing import InputList
from splitter.inputs.shards.index import MemberIndex
from splitter.stores.listings import ListedFiles
from splitter.text.conditions import matching
from splitter.text.csv import Row

# the options that only some kinds of input take, each with those kinds, for messages
USES = {
    "from_": "files and folders that other tools wrote",
    "member": "tar archives and Parquet files with contents",
    "delimiter": "a list in a CSV file",
    "pattern": "a folder",
    "folder_label": "a folder",
    "root": "a dataset list",
    "all_rows": "the outputs of a run: its folder, or its manifest with --column output",
}


@dataclass
class ListReading:
    """What is learned while sources are read; complete when all rows have been read.

    Attributes:
        leave_out: The output folder, whose files are not inputs.
        group_rows: Whether the recipe takes all rows of one path together.
        tell: Called with messages about the rows.
        known: The sizes and versions of files, from the listings of stores.
        tally: How many rows were left out, have no labels, and so on.
        held: Keeps files open until all rows are read.
        members: The inputs in shards, and where they are.
        items: Dataset objects whose items are inputs.
        unnamed: New names for columns that no list has; the file of labels may have them.
    """

    leave_out: str = ""
    group_rows: bool = False
    tell: Callable[[str], None] = lambda _: None
    known: ListedFiles = field(default_factory=ListedFiles)
    tally: RowTally = field(default_factory=RowTally)
    held: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    members: MemberIndex = field(default_factory=MemberIndex)
    items: list[Any] = field(default_factory=list)
    unnamed: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Close what `held` keeps open when this object is deleted, also after an error."""
        weakref.finalize(self, self.held.close)


@dataclass(frozen=True)
class SourceRows:
    """The header and the rows of a source.

    Attributes:
        header: The names of the columns.
        rows: The rows, as texts; they are read once.
        home: The folder or URL that relative paths start from, unless --root names another.
        rename: New names of columns; None to use those that the user asks for.
        column: The column that holds the paths, if the source determines it.
        size_column: For the outputs of an earlier stage, the column with their sizes, which saves looking at
            each file; empty if there is no such column. None for any other source.
    """

    header: Row
    rows: Iterable[Row]
    home: str
    rename: Mapping[str, str] | None = None
    column: str | None = None
    size_column: str | None = None


class InputSource(ABC):
    """A kind of input that DATASET may name, such as a list or a folder.

    Attributes:
        takes: Which of the options in `USES` it takes.
        looks_inside: Whether `read` may find that the input is of another kind, and return None.
    """

    takes: ClassVar[frozenset[str]] = frozenset()
    looks_inside: ClassVar[bool] = False

    @abstractmethod
    def is_meant(self, location: Any, listing: InputList) -> bool:  # noqa: ANN401 - whatever a user has
        """Return whether this kind reads what DATASET names: an absolute path, a URL, or a Python object."""

    @abstractmethod
    def read(self, location: Any, listing: InputList, reading: ListReading) -> SourceRows | None:  # noqa: ANN401
        """Return the header and the rows; refuse a source that cannot be read."""

    def options(self, location: Any) -> set[str]:  # noqa: ARG002, ANN401 - for what may be told from a name
        """Return the options that make sense for this source when several are read together."""
        return {"column", *self.takes}


def refuse_option(value: object, option: str, use: str) -> None:
    """Refuse an option that was given for another kind of source; a flag that is False was not given."""
    if value is not None and value is not False:
        given = option if value is True else f"{option} {value!r}"
        raise Refused(f"{given} is only for {use}; leave it out")


def refuse_others(listing: InputList, takes: frozenset[str]) -> None:
    """Refuse the options that were given but are not in `takes`."""
    for name, use in USES.items():
        if name not in takes and name != "pattern":
            refuse_option(getattr(listing, name), f"--{name.strip('_').replace('_', '-')}", use)
    if "pattern" not in takes and listing.patterns:
        pattern = listing.patterns[0]
        # with --column output, that column is called input
        column = "input" if listing.column == "output" else listing.column
        like = matching(column, pattern, many="*", one="?", start="(^|/)")
        raise Refused(
            f"--pattern {pattern!r} is only for a folder; leave it out, or choose rows of a list: "
            f'--where "{like}"'
        )
