"""The seam for sinks: how the output files of a batch are staged, and then published."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from splitter.options import RunOptions
from splitter.records import Content, Scratch
from splitter.sinks.columns import OutputColumns
from splitter.storage.base import Move, Storage
from splitter.text.csv import Row


@dataclass(frozen=True, slots=True)
class StoredOutput:
    """An output file as the manifest names it.

    Attributes:
        output: Its place, relative to the manifest; empty if that is known only when the batch is finished.
        size: Its bytes.
        checksum: The kind of the checksum, a colon, and its value in hexadecimal.
    """

    output: str
    size: int
    checksum: str


@dataclass(slots=True)
class OutputOwner:
    """The input that outputs are of, as a shard tells of it.

    Attributes:
        rank: Its place among the inputs that share a shard.
        number: What its samples are called by.
        names: The columns of its rows.
        types: The types of its metadata, by name.
        at: Which column names the output.
        rows: Its rows of the manifest; a shard fills in where the output of each is.
    """

    rank: int
    number: int
    names: Row
    types: Mapping[str, str]
    at: int
    rows: list[Row]


class SinkWriter(ABC):
    """Takes the output files of one batch, input after input, into staging."""

    @abstractmethod
    def store(self, folder: str, name: str, content: Content, scratch: Scratch) -> StoredOutput:
        """Stage one output of the input that owns `folder`."""

    @abstractmethod
    def drop_input(self) -> None:
        """Forget what was stored since the last input was kept: it failed, and leaves no trace."""

    @abstractmethod
    def keep_input(self, owner: OutputOwner | None = None) -> None:
        """The input is done: what was stored for it will be published. Shards ask for its owner."""

    @abstractmethod
    def names(self) -> list[str]:
        """The names that `publish` will make visible."""

    @abstractmethod
    def publish(self) -> None:
        """Give everything its final name, whole."""

    def close(self) -> None:  # noqa: B027 - loose files are closed one by one
        """Let go of what is open, also when the batch has come to nothing."""


class GroupWriter(SinkWriter):
    """Takes the outputs of inputs that share a shard, those of an earlier shard among them."""

    @abstractmethod
    def carry(self, owner: OutputOwner, contents: list[bytes]) -> None:
        """Take along what an input has in an older shard, which this batch replaces."""

    @abstractmethod
    def advance(self, rank: int) -> None:
        """Inputs up to this place of the group are settled, one way or another."""

    @abstractmethod
    def finish(self) -> None:
        """Stage what is left: from now on all names are known, and the rows of owners are complete."""

    @abstractmethod
    def moves(self) -> list[Move]:
        """What `publish` moves, where to, and what that holds."""


class Sink(ABC):
    """Where output files go.

    Attributes:
        divisible: Whether the inputs of a batch may be published apart from each other. If not, a batch is
            a group of inputs that share a shard.
        columns: Columns that the sink adds to the manifest, and their types.
        suffix: Of its shards, if it makes any.
        needs_columns: Whether all outputs have the same columns, which are then given before the work begins.
        own_columns: Names that neither columns of the dataset nor metadata may have.
    """

    divisible: ClassVar[bool] = True
    columns: ClassVar[tuple[tuple[str, str], ...]] = ()
    suffix: ClassVar[str] = ""
    needs_columns: ClassVar[bool] = False
    own_columns: ClassVar[tuple[str, ...]] = ()

    def __init__(self, options: RunOptions) -> None:  # noqa: B027 - loose files have none
        """Take from the options of the run what is the sink's."""

    @abstractmethod
    def open(self, storage: Storage, batch: str, stale: Collection[str] = (), group: int = 0) -> SinkWriter:
        """Begin a batch; `stale` names earlier outputs, which are removed before it is published."""

    @property
    def types(self) -> Mapping[str, type]:
        """What metadata has to be, where outputs have columns."""
        return {}

    def with_columns(self, columns: OutputColumns, header: Sequence[str]) -> "Sink":
        """The same sink, when the columns are known: those of metadata, and of the dataset."""
        raise NotImplementedError

    def with_earlier_columns(self, columns: OutputColumns, header: Sequence[str]) -> "Sink":
        """The same sink where no input decides the columns: in these stands what is there already."""
        raise NotImplementedError

    def options(self) -> dict[str, Any]:
        """What belongs in a fingerprint, since it changes the outputs."""
        return {}
