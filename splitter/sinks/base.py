"""The seam for sinks: how the output files of a batch are staged, and then published."""

from abc import ABC, abstractmethod
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from splitter.records import Content, Scratch
from splitter.storage import LocalStorage


@dataclass(frozen=True, slots=True)
class Stored:
    """An output file as the manifest names it.

    Attributes:
        output: Its place, relative to the manifest.
        size: Its bytes.
        checksum: The kind of the checksum, a colon, and its value in hexadecimal.
    """

    output: str
    size: int
    checksum: str


class SinkWriter(ABC):
    """Takes the output files of one batch, input after input, into staging."""

    @abstractmethod
    def store(self, folder: str, name: str, content: Content, scratch: Scratch) -> Stored:
        """Stage one output of the input that owns `folder`."""

    @abstractmethod
    def drop_input(self) -> None:
        """Forget what was stored since the last input was kept: it failed, and leaves no trace."""

    @abstractmethod
    def keep_input(self) -> None:
        """The input is done: what was stored for it will be published."""

    @abstractmethod
    def names(self) -> list[str]:
        """The names that `publish` will make visible."""

    @abstractmethod
    def publish(self) -> None:
        """Give everything its final name, whole."""


class Sink(ABC):
    """Where output files go.

    Attributes:
        divisible: Whether the inputs of a batch may be published apart from each other.
    """

    divisible = True

    @abstractmethod
    def open(self, storage: LocalStorage, batch: str, stale: Collection[str] = ()) -> SinkWriter:
        """Begin a batch; `stale` names earlier outputs, which are removed before it is published."""

    def options(self) -> dict[str, Any]:
        """What belongs in a fingerprint, since it changes the outputs."""
        return {}
