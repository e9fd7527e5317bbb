"""A piece of a run: its row of the manifest, and what follows from it."""

import os
import re
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from splitter.errors import Refused
from splitter.exports.keys import ENDING, key_of
from splitter.inputs.pieces import CUT
from splitter.storage.layout import shard_of
from splitter.text.csv import Row
from splitter.text.labels import labels_in

if TYPE_CHECKING:
    from splitter.exports.corpus import Corpus

IN_SOURCE = ("start_sample", "stop_sample", "source_rate", "source_frames", "source_channels")
_RATES = ("sample_rate", "source_rate")
LABELS = ("labels", "label")


class PieceLabel(NamedTuple):
    """A label of a piece, with its start and end in seconds within the piece, if known."""

    name: str
    start: float | None = None
    end: float | None = None


class SampleSpan(NamedTuple):
    """The samples of a piece, in its own file or in the recording that it comes from.

    Attributes:
        key: The key of the file.
        start: The first sample.
        frames: The number of samples per channel.
        channels: The channels of the file that the piece has, counted from 0.
        rate: The sample rate of the file.
        file_frames: The samples per channel of the whole file.
        file_channels: The channels of the file.
    """

    key: str
    start: int
    frames: int
    channels: list[int]
    rate: int
    file_frames: int
    file_channels: int


class Piece:
    """A piece: its row of the manifest, and what follows from it.

    Attributes:
        values: The row.
        name: Its file below the folder of the corpus.
        key: A name for it that no other piece has, of ASCII letters, digits, `_`, `-` and `.`.
    """

    __slots__ = ("_corpus", "key", "name", "values")

    def __init__(self, corpus: "Corpus", values: Row, name: str, key: str) -> None:
        self._corpus, self.values, self.name, self.key = corpus, values, name, key

    def __getitem__(self, column: str) -> str:
        """Return a value of the row as text; empty if the manifest has no such column."""
        at = self._corpus.index_of(column)
        return "" if at is None else self.values[at]

    @property
    def row(self) -> dict[str, str]:
        """The row of the manifest."""
        return dict(zip(self._corpus.header, self.values, strict=True))

    def number(self, column: str) -> int:
        """Return a value of the row as a number; refuse any value that cannot be a count, or a rate."""
        text = self[column]
        # the folder may come from someone else, so its values cannot be trusted
        if not (text.isascii() and text.isdecimal()) or (column in _RATES and not int(text)):
            raise Refused(
                f"{self.name}: its {column} is {text!r:.40}, which is impossible; leave the piece out with "
                "--where, or run again with the same output folder"
            )
        return int(text)

    @property
    def ending(self) -> str:
        """The ending of its file, with the dot."""
        found = ENDING.search(self.name)
        return found[0] if found else ""

    @property
    def shard(self) -> str:
        """The shard that it is in; empty for a loose file."""
        return shard_of(self.name)[0]

    @property
    def is_virtual(self) -> bool:
        """Whether it is not a file, but is cut from its recording each time it is read."""
        return not self["size"] and self[CUT] != ""

    @property
    def size(self) -> int:
        """The size of its content, in bytes."""
        if self["size"]:
            return self.number("size")
        # a virtual piece, or an input of a run that made only metadata
        path = self._corpus.plain_path(self)
        return os.path.getsize(path) if path else len(self._corpus.read(self))

    def span(self, *, virtual: bool = False) -> SampleSpan:
        """Return its samples in its own file or, with `virtual`, in the recording that it comes from."""
        if not virtual:
            count, frames, rate = map(self.number, ("channels", "frames", "sample_rate"))
            return SampleSpan(self.key, 0, frames, [*range(count)], rate, frames, count)
        start, stop, rate, frames, count = map(self.number, IN_SOURCE)
        one = self.source_channel
        if one is None and (own := self.number("channels")) != count:
            raise Refused(
                f"{self.name}: has {own} of the {count} channels of its recording, mixed or chosen, "
                "so it cannot be read from there; leave --virtual out, or cut with --channels keep or split"
            )
        channels = [*range(count)] if one is None else [one]
        # a piece may end in silence that the recording does not have
        frames_there = min(stop, frames) - start
        return SampleSpan(self.source_key, start, frames_there, channels, rate, frames, count)

    @property
    def source(self) -> str:
        """The path or URL of the recording that it comes from; empty if unknown."""
        name, sources = self._corpus.source_name_of(self.values), self._corpus.sources
        return sources.location(name) if name and sources.root else name

    @property
    def source_key(self) -> str:
        """A key for its recording, made of the same characters as `key`."""
        return key_of(self._corpus.source_name_of(self.values), whole=True)

    @property
    def source_channel(self) -> int | None:
        """The channel of the recording that it was split off from, counted from 0; None if it was not."""
        found = _OF_CHANNEL.search(self["output_name"] or self.name)
        return int(found[1]) - 1 if found else None

    @property
    def text(self) -> str:
        """What is spoken in it; empty if unknown."""
        at = self._corpus.text_at
        return "" if at is None else self.values[at]

    @property
    def speaker(self) -> str:
        """Who speaks in it; empty if unknown."""
        at = self._corpus.speaker_at
        return "" if at is None else self.values[at]

    @property
    def split(self) -> str:
        """Its split; empty if the manifest has no splits."""
        return self._corpus.split_of(self.values)

    @property
    def labels(self) -> list[PieceLabel]:
        """Its labels, with their times in the piece if these are known."""
        column = self._corpus.label_column
        if not column:
            return []
        names = labels_in(column, self[column])
        starts, ends = (self[name].split("|") for name in ("label_starts", "label_ends"))
        if column == LABELS[0] and len(names) == len(starts) == len(ends):
            with suppress(ValueError):
                times = zip(map(float, starts), map(float, ends), strict=True)
                return [PieceLabel(name, *pair) for name, pair in zip(names, times, strict=True)]
        return [PieceLabel(name) for name in names]


# how recipes for sound name the file of a channel
_OF_CHANNEL = re.compile(r"_channel(\d+)\.\w+\Z")
