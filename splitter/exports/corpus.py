"""The pieces of a run, one by one: what a format needs to know of each, from its row of the manifest.

If a run made metadata only, as one that transcribes pieces, its inputs are the pieces, and what the stage
before says of them has the prefix `from_`.
"""

import os
import re
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple, cast

from splitter.annotations import has_times
from splitter.annotations.transcribed import SPEAKERS, TEXTS
from splitter.errors import Refused
from splitter.exports.keys import ENDING, UniqueKeys, key_of
from splitter.inputs.pieces import CUT
from splitter.ledger.keeping import is_left_out
from splitter.ledger.records import OUTPUT_COLUMNS, SKIPPED_COLUMN
from splitter.ledger.run_files import LISTED
from splitter.ledger.splits import COLUMN as SPLIT
from splitter.outputs.files import files_at
from splitter.outputs.reader import OutputReader
from splitter.outputs.stats import path_column
from splitter.outputs.tables import keep_column, location_of, open_table, schema_of
from splitter.storage.checked_file import json_of
from splitter.storage.layout import Layout, shard_of
from splitter.storage.names import is_output
from splitter.text.conditions import condition
from splitter.text.csv import Row
from splitter.text.labels import EARLIER, labels_in
from splitter.text.spelling import nearest
from splitter.text.urls import is_url, without_secrets

# the split of a piece that has none yet, where others have one
UNASSIGNED = "unassigned"
_PLAIN_SPLIT = re.compile(r"\w[\w.-]*")
_IN_SOURCE = ("start_sample", "stop_sample", "source_rate", "source_frames", "source_channels")
_RATES = ("sample_rate", "source_rate")
_LABEL = ("labels", "label")


class PieceLabel(NamedTuple):
    """A label of a piece, with its start and end in the piece in seconds, where they are known."""

    name: str
    start: float | None = None
    end: float | None = None


class SampleSpan(NamedTuple):
    """The samples of a piece, in its own file or in the recording that it comes from.

    Attributes:
        key: The key of the file.
        start: The first sample.
        frames: The number of samples per channel.
        channels: The channels of the file that it has, counted from 0.
        rate: The sample rate of the file.
        file_frames: The samples per channel of the whole file.
        file_channels: The channels of the file.
        of_source: Whether the file is the recording.
    """

    key: str
    start: int
    frames: int
    channels: list[int]
    rate: int
    file_frames: int
    file_channels: int
    of_source: bool


class Corpus:
    """The pieces of a run.

    Attributes:
        folder: The folder or URL that the files of the pieces are in.
        header: The columns of the manifest.
        types: The types of columns: `int`, `float`, `bool`; all others are text.
        columns: The columns that come from the dataset list.
        has_splits: Whether the manifest has a column `split`.
        label_column: The column that holds the labels of each piece; nothing if there is none.
        count: The number of pieces, after the last of them was read.
        repeated: How many of them have a text that the dataset list has for their whole recording.
    """

    def __init__(
        self,
        output: str,
        *,
        where: str | None = None,
        all_rows: bool = False,
        text: str | None = None,
        speaker: str | None = None,
    ) -> None:
        location = location_of(output, "splitter export")
        self._files, self._name = location.files, location.name
        self.output = self._files.folder
        self.types, self.columns = schema_of(self._files)
        with self._opened() as (self.header, _):
            pass
        self._at = {name: at for at, name in enumerate(self.header)}
        self._found: dict[str, int | None] = {}
        self.has_splits = SPLIT in self._at
        self.count = self.repeated = 0
        self._skipped = self._at.get(SKIPPED_COLUMN)
        self._kept = None if all_rows else keep_column(self._files, self.header)
        self._where = None if where is None else condition(where, self.header)
        input_column = path_column(self._files, self.header)
        root = _root_of(self.output)
        self._prefix = "" if self._has_outputs() else EARLIER
        self._name_at = self._at[input_column if self._prefix else "output"]
        self.folder = (root or "") if self._prefix else self.output
        self._reader = OutputReader(self.folder)
        self._source_column, self.sources = input_column, Layout(root or "")
        if self._prefix:
            # the recordings are those of the stage before
            self._source_column, self.sources = EARLIER + "input", Layout(_root_of(self.folder) or "")
        self._text = self._chosen("text", text, TEXTS[:-1])
        self._speaker = self._chosen("speaker", speaker, [*SPEAKERS, *(EARLIER + name for name in SPEAKERS)])
        self._split_names: dict[str, str] = {}
        self.label_column = next((name for name in _LABEL if self.index_of(name) is not None), "")
        in_list = self._text is not None and self.header[self._text] in self.columns
        # rows with times have a text of their own
        is_of_all = in_list and not self._prefix and not has_times(self.columns)
        self._text_of_all = self._text if is_of_all else None

    @contextmanager
    def _opened(self) -> Iterator[tuple[Row, Iterator[Row]]]:
        """Open the manifest: its header, and its rows."""
        header, rows = open_table(self._files, self._name, OUTPUT_COLUMNS, self.columns)
        try:
            yield header, rows
        finally:
            cast("Generator[Row]", rows).close()

    def _has_outputs(self) -> bool:
        """Return whether any row has an output file; most often it is one of the first."""
        at = self._at["output"]
        with self._opened() as (_, rows):
            return any(row[at] for row in rows)

    def _chosen(self, option: str, asked: str | None, usual: Sequence[str]) -> int | None:
        """Return the index of the column of texts, or of speakers."""
        if asked is not None and asked not in self._at:
            hint = nearest(asked, self.header) or f"; it has {', '.join(self.header)}"
            raise Refused(f"--{option} {asked}: the manifest has no such column{hint}")
        names = [asked] if asked is not None else [*usual, *(self._prefix + name for name in usual)]
        return next((self._at[name] for name in names if name in self._at), None)

    @property
    def has_texts(self) -> bool:
        """Whether a column holds what is spoken in each piece."""
        return self._text is not None

    @property
    def has_speakers(self) -> bool:
        """Whether a column holds who speaks."""
        return self._speaker is not None

    def has(self, *columns: str) -> bool:
        """Return whether the manifest has these columns, by the names that recipes for sound give them."""
        return all(self.index_of(name) is not None for name in columns)

    def index_of(self, column: str) -> int | None:
        """Return the index of a column that a recipe for sound has written."""
        try:
            return self._found[column]
        except KeyError:
            found = self._at.get(self._prefix + column, self._at.get(column) if self._prefix else None)
            self._found[column] = found
            return found

    def need(self, who: str, *columns: str, advice: str) -> None:
        """Refuse a manifest without these columns; `advice` says what to do."""
        missing = [name for name in columns if self.index_of(name) is None]
        if missing:
            raise Refused(f"{who}: the manifest has no column {missing[0]!r}; {advice}")

    def need_sound(self, who: str, *, virtual: bool = False) -> None:
        """Refuse pieces whose length the manifest does not say, or not where they are in their recordings."""
        advice = "export the outputs of a recipe for sound, such as chunk, which count samples"
        self.need(who, "sample_rate", "frames", "channels", advice=advice)
        if virtual:
            self.need(f"{who} --virtual", *_IN_SOURCE, advice="leave --virtual out")

    def pieces(self) -> Iterator["Piece"]:
        """Yield the pieces, in the order of the manifest; each call begins with the first."""
        count = repeated = 0
        unique = UniqueKeys()
        before: tuple[str, str] | None = None
        with self._opened() as (_, rows):
            for row in filter(self._is_meant, rows):
                name = row[self._name_at]
                if not (self._prefix or is_output(name)):
                    why = "the name leads out of the output folder"
                    raise Refused(f"{name!r:.200}: cannot be an output file: {why}")
                count += 1
                if self._text_of_all is not None:
                    spoken = self.source_name_of(row), row[self._text_of_all]
                    repeated += bool(spoken[1]) and spoken == before
                    before = spoken
                yield Piece(self, row, name, unique.key(name))
        self.count, self.repeated = count, repeated

    def source_names(self) -> Iterator[str]:
        """Yield the recording of each piece, as the dataset list has it."""
        with self._opened() as (_, rows):
            yield from map(self.source_name_of, filter(self._is_meant, rows))

    def _is_meant(self, row: Row) -> bool:
        """Return whether a row is that of a piece, and one to export."""
        if not (row[self._at["output"]] or self._prefix):
            return False
        if self._skipped is not None and row[self._skipped]:
            return False
        if self._kept is not None and is_left_out(row[self._kept]):
            return False
        return self._where is None or self._where(row)

    def location(self, name: str) -> str:
        """Return the path or URL of the file that holds a piece; of a shard, if it is in one."""
        name = shard_of(name)[0] or name
        return f"{self.folder}/{name}" if is_output(name) else Layout(self.folder).location(name)

    def read(self, piece: "Piece") -> bytes:
        """Return the content of a piece."""
        row, prefix = piece.row, self._prefix
        before = {name.removeprefix(prefix): value for name, value in row.items() if name.startswith(prefix)}
        return self._reader.read(self._reader.address({**row, **before, "output": piece.name}))

    def check_file(self, piece: "Piece") -> None:
        """Refuse a piece that is an input of the run and not there, as one in an archive."""
        if (
            self._prefix
            and not is_url(location := self.location(piece.name))
            and not os.path.isfile(location)
        ):
            raise Refused(
                f"{location}: is not there as a file; export the outputs of the run that made it, or leave "
                "it out with --where"
            )

    def plain_path(self, piece: "Piece") -> str | None:
        """Return the local path of a loose file, which is one and no link; None if it is elsewhere."""
        if is_url(self.folder) or piece.shard or piece.is_virtual:
            return None
        self.check_file(piece)
        return self._reader.plain_path(piece.name) if is_output(piece.name) else self.location(piece.name)

    def shard_path(self, piece: "Piece") -> str:
        """Return the local path of the shard that a piece is in."""
        return self._reader.plain_path(piece.shard)

    def source_of(self, row: Row) -> str:
        """Return the path or URL of the recording that a piece comes from; nothing if it is unknown."""
        name = self.source_name_of(row)
        return self.sources.location(name) if name and self.sources.root else name

    def source_name_of(self, row: Row) -> str:
        """Return the same as the dataset list has it."""
        at = self._at.get(self._source_column)
        return "" if at is None else row[at]

    def text_of(self, row: Row) -> str:
        """Return what is spoken in a piece."""
        return "" if self._text is None else row[self._text]

    def speaker_of(self, row: Row) -> str:
        """Return who speaks in a piece."""
        return "" if self._speaker is None else row[self._speaker]

    def split_of(self, row: Row) -> str:
        """Return the split of a piece, as part of a file name."""
        if not self.has_splits:
            return ""
        text = row[self._at[SPLIT]]
        if text not in self._split_names:
            if text and not _PLAIN_SPLIT.fullmatch(text):
                raise Refused(f"the split {text!r:.100} cannot be part of a file name; rename it")
            self._split_names[text] = text or UNASSIGNED
        return self._split_names[text]


class Piece:
    """A piece: its row of the manifest, and what follows from it.

    Attributes:
        values: The row.
        name: Its file below the folder of the corpus.
        key: A name for it that no other piece has, of ASCII letters, digits, `_`, `-` and `.`.
    """

    __slots__ = ("_corpus", "key", "name", "values")

    def __init__(self, corpus: Corpus, values: Row, name: str, key: str) -> None:
        self._corpus, self.values, self.name, self.key = corpus, values, name, key

    def __getitem__(self, column: str) -> str:
        """Return a value of the row as text; nothing if the manifest has no such column."""
        at = self._corpus.index_of(column)
        return "" if at is None else self.values[at]

    @property
    def row(self) -> dict[str, str]:
        """The row of the manifest."""
        return dict(zip(self._corpus.header, self.values, strict=True))

    def number(self, column: str) -> int:
        """Return a count of the row; refuse another value."""
        text = self[column]
        # an output folder may come from anybody
        if not (text.isascii() and text.isdecimal()) or (column in _RATES and not int(text)):
            raise Refused(
                f"{self.name}: its {column} is {text!r:.40}, which cannot be; leave the piece out with "
                "--where, or run again with the same output folder"
            )
        return int(text)

    def seconds(self, column: str) -> float | None:
        """Return a number of the row; None if there is none."""
        try:
            return float(self[column])
        except ValueError:
            return None

    @property
    def ending(self) -> str:
        """The ending of its file, with the dot."""
        found = ENDING.search(self.name)
        return found[0] if found else ""

    @property
    def shard(self) -> str:
        """The shard that it is in; nothing for a file of its own."""
        return shard_of(self.name)[0]

    @property
    def is_virtual(self) -> bool:
        """Whether it is no file, but cut out of its recording when it is read."""
        return not self["size"] and self[CUT] != ""

    @property
    def size(self) -> int:
        """The bytes of its content."""
        if self["size"]:
            return self.number("size")
        # a virtual piece, or an input of a run that made metadata only
        path = self._corpus.plain_path(self)
        return os.path.getsize(path) if path else len(self._corpus.read(self))

    @property
    def rate(self) -> int:
        """Its sample rate."""
        return self.number("sample_rate")

    @property
    def frames(self) -> int:
        """Its samples per channel."""
        return self.number("frames")

    @property
    def channels(self) -> int:
        """The channels of its file: one if each has a file of its own."""
        return self.number("channels")

    @property
    def duration(self) -> float:
        """Its length in seconds."""
        return self.frames / self.rate

    def span(self, *, virtual: bool = False) -> SampleSpan:
        """Return its samples in its own file, or with `virtual` in the recording that it comes from."""
        if not virtual:
            count, frames = self.channels, self.frames
            return SampleSpan(self.key, 0, frames, [*range(count)], self.rate, frames, count, of_source=False)
        start, stop, rate, frames, count = map(self.number, _IN_SOURCE)
        one = self.source_channel
        if one is None and self.channels != count:
            raise Refused(
                f"{self.name}: has {self.channels} of the {count} channels of its recording, mixed or "
                "chosen, so it is no stretch of it; leave --virtual out, or cut with --channels keep or split"
            )
        channels = [*range(count)] if one is None else [one]
        # a piece may end in silence that the recording does not have
        frames_there = min(stop, frames) - start
        return SampleSpan(self.source_key, start, frames_there, channels, rate, frames, count, of_source=True)

    @property
    def source(self) -> str:
        """The path or URL of the recording that it comes from."""
        return self._corpus.source_of(self.values)

    @property
    def source_key(self) -> str:
        """A name for that recording, as `key` is one for the piece."""
        return key_of(self._corpus.source_name_of(self.values), whole=True)

    @property
    def source_channel(self) -> int | None:
        """Which channel of the recording it is, counted from 0; None if it has as many as the recording."""
        found = _OF_CHANNEL.search(self["output_name"] or self.name)
        return int(found[1]) - 1 if found else None

    @property
    def text(self) -> str:
        """What is spoken in it."""
        return self._corpus.text_of(self.values)

    @property
    def speaker(self) -> str:
        """Who speaks."""
        return self._corpus.speaker_of(self.values)

    @property
    def split(self) -> str:
        """Its split; nothing if the manifest has no splits."""
        return self._corpus.split_of(self.values)

    @property
    def labels(self) -> list[PieceLabel]:
        """Its labels, with their times in the piece."""
        column = self._corpus.label_column
        if not column:
            return []
        names = labels_in(column, self[column])
        starts, ends = (self[name].split("|") for name in ("label_starts", "label_ends"))
        if column == _LABEL[0] and len(names) == len(starts) == len(ends):
            with suppress(ValueError):
                times = zip(map(float, starts), map(float, ends), strict=True)
                return [PieceLabel(name, *pair) for name, pair in zip(names, times, strict=True)]
        return [PieceLabel(name) for name in names]


# as recipes for sound name the file of a channel
_OF_CHANNEL = re.compile(r"_channel(\d+)\.\w+\Z")


def _root_of(folder: str) -> str | None:
    """Return the folder that the inputs of a run are below, if it says so."""
    files = files_at(folder)
    if not files.exists(LISTED.name):
        return None
    try:
        return str(json_of(files.read(LISTED.name))["root"])
    except (ValueError, KeyError, TypeError) as error:
        shown = without_secrets(files.location(LISTED.name))
        raise Refused(f"{shown}: cannot be read ({error}); {LISTED.remedy}") from None
