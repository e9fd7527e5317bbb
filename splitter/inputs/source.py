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

# the options that only some kinds of input take, and which these are, for a message
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
    """What comes up while sources are read; whole when all rows have been gone through.

    Attributes:
        leave_out: The output folder.
        group_rows: Whether the recipe takes all rows of one path together.
        tell: Called with what there is to say of the rows.
        known: What stores have told of files.
        tally: What became of rows.
        held: Keeps open what must be until all are read.
        members: Where inputs are that stand in shards.
        items: Dataset objects whose items are inputs.
        unnamed: New names for columns that no list has; labels may have them.
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
        """Close what is held when this is no longer needed, also after an error."""
        weakref.finalize(self, self.held.close)


@dataclass(frozen=True)
class SourceRows:
    """What a source names.

    Attributes:
        header: The names of the columns.
        rows: The rows, as texts; they are gone through once.
        home: The folder or URL that relative paths start from, unless --root says another.
        rename: New names of columns; None for those that the user asks for.
        column: The column that holds the paths, if the source tells.
        size_column: Of the outputs of an earlier stage, the column that says how large they are, so that
            nobody looks; empty if none does. None for any other source.
    """

    header: Row
    rows: Iterable[Row]
    home: str
    rename: Mapping[str, str] | None = None
    column: str | None = None
    size_column: str | None = None


class InputSource(ABC):
    """A kind of what DATASET may name, such as lists or folders.

    Attributes:
        takes: The options of `InputList` that it takes, of those that only some kinds take.
        looks_inside: Whether `read` may find that it is another kind, and returns None.
    """

    takes: ClassVar[frozenset[str]] = frozenset()
    looks_inside: ClassVar[bool] = False

    @abstractmethod
    def is_meant(self, location: Any, listing: InputList) -> bool:  # noqa: ANN401 - whatever a user has
        """Return whether this kind reads what DATASET names: a whole path, a URL, or an object of Python."""

    @abstractmethod
    def read(self, location: Any, listing: InputList, reading: ListReading) -> SourceRows | None:  # noqa: ANN401
        """Return the header and the rows; refuse what cannot be read."""

    def options(self, location: Any) -> set[str]:  # noqa: ARG002, ANN401 - for what may be told from a name
        """Return the options that make sense for it, where several sources are read together."""
        return {"column", *self.takes}


def refuse_option(value: object, option: str, use: str) -> None:
    """Refuse an option that was given for another kind of source."""
    if value is not None:
        given = option if value is True else f"{option} {value!r}"
        raise Refused(f"{given} is only for {use}; leave it out")


def refuse_others(listing: InputList, takes: frozenset[str]) -> None:
    """Refuse the options that were given and are not taken."""
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
