"""The pieces of a run, one by one, with what a format needs to know about each, from its manifest row.

If a run made only metadata, such as transcripts, its inputs are the pieces. Columns with the prefix `from_`
hold what the stage before says about them.
"""

import os
import re
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import cast

from splitter.annotations import has_times
from splitter.annotations.transcribed import SPEAKERS, TEXTS
from splitter.errors import Refused
from splitter.exports.keys import UniqueKeys
from splitter.exports.piece import IN_SOURCE, LABELS, Piece
from splitter.ledger.keeping import is_left_out
from splitter.ledger.records import OUTPUT_COLUMNS, SKIPPED_COLUMN
from splitter.ledger.run_files import LISTED
from splitter.ledger.splits import COLUMN as SPLIT
from splitter.outputs.files import files_at
from splitter.outputs.reader import OutputReader
from splitter.outputs.stats import path_column
from splitter.outputs.tables import column_index, keep_column, location_of, open_table, schema_of
from splitter.storage.checked_file import json_of
from splitter.storage.layout import Layout, shard_of
from splitter.storage.names import is_output
from splitter.text.conditions import condition
from splitter.text.csv import Row
from splitter.text.labels import EARLIER
from splitter.text.urls import is_url, without_secrets

# the split of a piece that is not in a split yet, if the manifest has splits
UNASSIGNED = "unassigned"
_PLAIN_SPLIT = re.compile(r"\w[\w.-]*")


class Corpus:
    """The pieces of a run.

    Attributes:
        folder: The folder or URL that contains the files of the pieces.
        header: The columns of the manifest.
        types: The types of columns: `int`, `float` or `bool`; columns without a type are text.
        columns: The columns that come from the dataset list.
        has_splits: Whether the manifest has a column `split`.
        text_at: The index of the column that holds what is spoken in each piece, if `has_texts`.
        speaker_at: The index of the column that holds who speaks, if `has_speakers`.
        label_column: The name of the column with the labels of each piece; empty if there is none.
        count: The number of pieces, once all of them were read.
        repeated: How many of them have the text of the piece before, since it is that of the whole recording.
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
        with self._opened() as (self.header, rows):
            self._at = {name: at for at, name in enumerate(self.header)}
            # usually, one of the first rows has an output
            has_outputs = any(row[self._at["output"]] for row in rows)
        self.has_splits = SPLIT in self._at
        self.count = self.repeated = 0
        self._skipped = self._at.get(SKIPPED_COLUMN)
        self._kept = None if all_rows else keep_column(self._files, self.header)
        self._where = None if where is None else condition(where, self.header)
        input_column = path_column(self._files, self.header)
        root = _root_of(self.output)
        self._prefix = prefix = "" if has_outputs else EARLIER
        before = {name.removeprefix(prefix): at for name, at in self._at.items() if name.startswith(prefix)}
        self._found = {**self._at, **before}
        self._name_at = self._at[input_column if self._prefix else "output"]
        self.folder = (root or "") if self._prefix else self.output
        self._reader = OutputReader(self.folder)
        self._source_column, self.sources = input_column, Layout(root or "")
        if self._prefix:
            # the recordings are the inputs of the stage before
            self._source_column, self.sources = EARLIER + "input", Layout(_root_of(self.folder) or "")
        self.text_at = self._chosen("text", text, TEXTS[:-1])
        self.speaker_at = self._chosen(
            "speaker", speaker, [*SPEAKERS, *(EARLIER + name for name in SPEAKERS)]
        )
        self.has_texts, self.has_speakers = self.text_at is not None, self.speaker_at is not None
        self.label_column = next((name for name in LABELS if self.index_of(name) is not None), "")
        in_list = self.text_at is not None and self.header[self.text_at] in self.columns
        # a list with times has a text for each piece
        is_of_all = in_list and not self._prefix and not has_times(self.columns)
        self._text_of_all = self.text_at if is_of_all else None

    @contextmanager
    def _opened(self) -> Iterator[tuple[Row, Iterator[Row]]]:
        """Open the manifest; yield its header and its rows."""
        header, rows = open_table(self._files, self._name, OUTPUT_COLUMNS, self.columns)
        with closing(cast("Generator[Row]", rows)):
            yield header, rows

    def _chosen(self, option: str, asked: str | None, usual: Sequence[str]) -> int | None:
        """Return the index of the column that was asked for, or else of the first usual one, if any."""
        if asked is not None:
            return column_index(self.header, asked, f"--{option}")
        names = [*usual, *(self._prefix + name for name in usual)]
        return next((self._at[name] for name in names if name in self._at), None)

    def index_of(self, column: str) -> int | None:
        """Return the index of a column, if there is one.

        If the run made only metadata, a column that has this name after `from_` comes first.
        """
        return self._found.get(column)

    def need(self, who: str, *columns: str, advice: str) -> None:
        """Refuse a manifest without these columns; `advice` says what to do."""
        missing = [name for name in columns if self.index_of(name) is None]
        if missing:
            raise Refused(f"{who}: the manifest has no column {missing[0]!r}; {advice}")

    def need_sound(self, who: str, *, virtual: bool = False) -> None:
        """Refuse a manifest without the lengths of pieces or, if `virtual`, their places in recordings."""
        advice = "export the outputs of a recipe for sound, such as chunk, which count samples"
        self.need(who, "sample_rate", "frames", "channels", advice=advice)
        if virtual:
            self.need(f"{who} --virtual", *IN_SOURCE, advice="leave --virtual out")

    def pieces(self) -> Iterator[Piece]:
        """Yield the pieces, in the order of the manifest; each call starts at the first one."""
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
        """Yield the recording of each piece, as the dataset list names it."""
        with self._opened() as (_, rows):
            yield from map(self.source_name_of, filter(self._is_meant, rows))

    def _is_meant(self, row: Row) -> bool:
        """Return whether a row is a piece to export."""
        if not (row[self._at["output"]] or self._prefix):
            return False
        if self._skipped is not None and row[self._skipped]:
            return False
        if self._kept is not None and is_left_out(row[self._kept]):
            return False
        return self._where is None or self._where(row)

    def location(self, name: str) -> str:
        """Return the path or URL of the file that holds a piece: its own file, or its shard."""
        name = shard_of(name)[0] or name
        return f"{self.folder}/{name}" if is_output(name) else Layout(self.folder).location(name)

    def read(self, piece: Piece) -> bytes:
        """Return the content of a piece."""
        row = {name: piece.values[at] for name, at in self._found.items()}
        return self._reader.read(self._reader.address({**row, "output": piece.name}))

    def check_file(self, piece: Piece) -> None:
        """Refuse a piece that is an input of the run but not a file, such as a member of an archive."""
        if (
            self._prefix
            and not is_url(location := self.location(piece.name))
            and not os.path.isfile(location)
        ):
            raise Refused(
                f"{location}: does not exist as a file; export the outputs of the run that made it, or leave "
                "it out with --where"
            )

    def plain_path(self, piece: Piece) -> str | None:
        """Return the local path of a loose file; None if the piece is virtual, in a shard or at a URL."""
        if is_url(self.folder) or piece.shard or piece.is_virtual:
            return None
        self.check_file(piece)
        return self._reader.plain_path(piece.name) if is_output(piece.name) else self.location(piece.name)

    def shard_path(self, piece: Piece) -> str:
        """Return the local path of the shard that a piece is in."""
        return self._reader.plain_path(piece.shard)

    def source_name_of(self, row: Row) -> str:
        """Return the recording that a piece comes from, as the dataset list names it; empty if unknown."""
        at = self._at.get(self._source_column)
        return "" if at is None else row[at]

    def split_of(self, row: Row) -> str:
        """Return the split of a piece; refuse one that cannot be part of a file name."""
        if not self.has_splits:
            return ""
        text = row[self._at[SPLIT]]
        if text and not _PLAIN_SPLIT.fullmatch(text):
            raise Refused(f"the split {text!r:.100} cannot be part of a file name; rename it")
        return text or UNASSIGNED


def _root_of(folder: str) -> str | None:
    """Return the folder that contains the inputs of a run, if the run recorded it."""
    files = files_at(folder)
    if not files.exists(LISTED.name):
        return None
    try:
        return str(json_of(files.read(LISTED.name))["root"])
    except (ValueError, KeyError, TypeError) as error:
        shown = without_secrets(files.location(LISTED.name))
        raise Refused(f"{shown}: cannot be read ({error}); {LISTED.remedy}") from None
