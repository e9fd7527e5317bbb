"""The seam for sinks: stage the output files of a batch, then publish them."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from splitter.options import RunOptions
from splitter.records import Content, Scratch
from splitter.sinks.columns import OutputColumns
from splitter.storage.base import Storage
from splitter.text.csv import Row

if TYPE_CHECKING:
    from splitter.ledger.records import RowColumns


@dataclass(frozen=True, slots=True)
class StoredOutput:
    """What the manifest says about an output file.

    Attributes:
        output: Its path relative to the manifest; empty if that is known only at the end of the batch.
        size: Its size in bytes; None if it is not made yet.
        checksum: The kind of checksum, a colon, and its value in hexadecimal; empty if it is not made yet.
        more: The values of the sink's own columns, unless they are known only at the end of the batch.
    """

    output: str
    size: int | None
    checksum: str
    more: tuple[str, ...] = ()


@dataclass(slots=True)
class OutputOwner:
    """The input that outputs belong to, as a shard sees it.

    Attributes:
        rank: Its position among the inputs that share a shard.
        number: The number in the names of its samples, padded so that keys sort like the manifest.
        head: The columns of its rows.
        rows: Its rows of the manifest, in which a shard fills in the address of each output.
    """

    rank: int
    number: str
    head: "RowColumns"
    rows: list[Row]

    @property
    def at(self) -> int:
        """The index of the column that names the output."""
        return len(self.head.columns)


class SinkWriter(ABC):
    """A writer that stages the output files of one batch, input by input.

    For each input, a worker calls `store` for each output, `rename` if there is --name, then `keep_input`; or
    `drop_input` at any time, also after `store` has raised an error. At the end of the batch, it calls
    `names`, `publish` and `close`. `store` may use `splitter.storage.content.write_content`.
    """

    @abstractmethod
    def store(self, folder: str, name: str, content: Content, scratch: Scratch) -> StoredOutput:
        """Stage one output of the input that owns `folder`; without one, `rename` sets its path later."""

    def rename(self, names: Sequence[str]) -> None:  # noqa: B027 - only loose files are renamed
        """Give the outputs of the current input these paths, in the order in which they were stored."""

    @abstractmethod
    def drop_input(self) -> None:
        """Drop the outputs of the current input, which failed."""

    @abstractmethod
    def keep_input(self, owner: OutputOwner | None = None) -> None:
        """Keep the outputs of the current input, which is done; shards need its owner."""

    @abstractmethod
    def names(self) -> list[str]:
        """Return the names that `publish` will make visible."""

    @abstractmethod
    def publish(self) -> None:
        """Give everything that is staged its final name."""

    def close(self) -> None:  # noqa: B027 - loose files are closed one by one
        """Close open files, also after a batch that failed."""


class Sink(ABC):
    """The way in which output files are stored.

    Attributes:
        divisible: Whether inputs of a batch may be published separately. If not, a batch is a group of inputs
            that share a shard.
        columns: Columns that the sink adds to the manifest, and their types; see `StoredOutput.more`.
        suffix: The extension of its shards, if it makes any.
        needs_columns: Whether all outputs must have the same columns, known before the work begins.
        own_columns: Names that neither dataset columns nor metadata may have.
        makes_files: Whether outputs are stored; if not, reading them cuts them out of the recordings.
    """

    divisible: ClassVar[bool] = True
    columns: ClassVar[tuple[tuple[str, str], ...]] = ()
    suffix: ClassVar[str] = ""
    needs_columns: ClassVar[bool] = False
    own_columns: ClassVar[tuple[str, ...]] = ()
    makes_files: ClassVar[bool] = True

    def __init__(self, options: RunOptions) -> None:  # noqa: B027 - loose files have none
        """Take the sink's options from those of the run."""

    @abstractmethod
    def open(self, storage: Storage, batch: str, stale: Collection[str] = (), group: int = 0) -> SinkWriter:
        """Begin a batch; `stale` names earlier outputs that are removed before it is published."""

    @property
    def types(self) -> Mapping[str, type]:
        """Return the types that metadata must have, if outputs have typed columns."""
        return {}

    def with_columns(
        self, columns: OutputColumns, header: Sequence[str], *, are_earlier: bool = False
    ) -> "Sink":
        """Return the same sink for these columns of metadata and of the dataset.

        With `are_earlier`, the columns are those of older shards, because no input of this run decides them.
        """
        raise NotImplementedError

    def options(self) -> dict[str, Any]:
        """Return the options that belong in a fingerprint, since they change the outputs."""
        return {}
