"""Read outputs and original recordings block by block, as many at a time as there are CPUs."""

import base64
import contextlib
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from splitter.errors import SplitterError, StorageError
from splitter.inputs.pieces import CUT
from splitter.outputs.pieces import have_virtual
from splitter.outputs.reader import Address, OutputReader, number_of, offset_of
from splitter.report.levels import Levels, measure, preview
from splitter.report.table import ReportTable, kind_of
from splitter.report.worth import worth_a_listen
from splitter.storage.layout import Layout, key_hash, shard_of
from splitter.system.cpus import usable_cpus
from splitter.system.temporary_folders import temporary_folder
from splitter.text.content_types import type_of
from splitter.text.urls import is_url

POINTS, SOURCE_POINTS = 96, 600
# original recordings are only read for their waveform: this many bytes take seconds
SOURCE_BYTES, MOST_SOURCES = 1 << 30, 500
# this many inputs are enough to tell whether inputs exist
AFEW = 20
TEXT_BYTES = 600
TEXTS_AT_MOST = 1 << 20
# formats that decode to exactly the encoded number of samples, or with padding to more
EXACT = (".wav", ".flac", ".aiff", ".aif", ".au", ".w64", ".rf64")
MOST_IMAGE_BYTES = 200_000
COPIED_AT_ONCE = 8
AT_ONCE = 256

Item = TypeVar("Item")
Result = TypeVar("Result")
Tell = Callable[[int, int], None]


def unheard(_done: int, _of: int) -> None:
    """Ignore the progress."""


@dataclass(frozen=True)
class Effort:
    """Limits on how much to read.

    Attributes:
        sample: Maximum number of outputs to read.
        previews: Maximum bytes of sound and images in the page.
        tell: Is called with the number of outputs read so far, and the number of all to read.
        all_rows: Whether to show outputs that `--keep` left out, too.
    """

    sample: int
    previews: int
    tell: Tell = unheard
    all_rows: bool = False


@dataclass
class Looks:
    """Findings about outputs.

    Attributes:
        chosen: The rows that were read.
        levels: Measured levels, by row.
        previews: Copies for the page, by row: the type of the file, and its bytes in base64.
        texts: Beginnings of texts, by row.
        sources: Waveforms of the original recordings, by the name of the input.
        unread: Why outputs could not be read, by row.
        odd: Problems of outputs that could be read, by row.
        beside: Whether inputs are where the list says.
        worth: What to listen to first, and why, by row.
    """

    chosen: np.ndarray
    levels: dict[int, Levels] = field(default_factory=dict)
    previews: dict[int, tuple[str, str]] = field(default_factory=dict)
    texts: dict[int, str] = field(default_factory=dict)
    sources: dict[str, np.ndarray] = field(default_factory=dict)
    unread: dict[int, str] = field(default_factory=dict)
    odd: dict[int, str] = field(default_factory=dict)
    beside: bool = False
    worth: list[tuple[int, str]] = field(default_factory=list)


class Outputs:
    """The output files of a table, by their rows."""

    def __init__(self, folder: str, table: ReportTable) -> None:
        self.folder, self._rows = folder, table.rows
        self.names = table.texts("output")
        self.kinds = [kind_of(name) if name else "" for name in self.names]
        self._virtual = np.zeros(len(self.names), bool)
        if have_virtual(self._rows.columns):
            self._virtual = (self._rows[CUT].fillna("") != "").to_numpy() & self._rows[
                "size"
            ].isna().to_numpy()
        # each thread has its own reader
        self._own = threading.local()
        self._copies = ""

    def read(self, row: int) -> bytes:
        """Return the content of an output."""
        values, reader = self._rows.iloc[row], self._reader()
        if self._virtual[row]:
            return reader.read(reader.address({str(name): value for name, value in values.items()}))
        return reader.read(address(self.names[row], values.get("shard_offset"), values["size"]))

    def _reader(self) -> OutputReader:
        if not hasattr(self._own, "reader"):
            self._own.reader = OutputReader(self.folder)
        return self._own.reader

    def least_frames(self, row: int, rate: int) -> int:
        """Return how many frames an output has at this rate, according to the manifest; 0 if unknown."""
        if not self.names[row].lower().endswith(EXACT):
            return 0
        values = self._rows.iloc[row]
        frames, stated = (number_of(values.get(name)) for name in ("frames", "sample_rate"))
        # columns of the dataset list are text, and belong to the input
        return frames or 0 if stated == rate and not isinstance(values["frames"], str) else 0

    @contextlib.contextmanager
    def at_hand(self) -> Iterator[None]:
        """Give outputs local paths inside the block; those that are not loose files are copied."""
        if not any(self._is_copied(row) for row, name in enumerate(self.names) if name):
            yield
            return
        with temporary_folder() as self._copies:
            yield

    @property
    def has_virtual(self) -> bool:
        """Return whether there are virtual pieces, which are cut when they are read."""
        return bool(self._virtual.any())

    def _is_copied(self, row: int) -> bool:
        return is_url(self.folder) or bool(shard_of(self.names[row])[0] or self._virtual[row])

    @contextlib.contextmanager
    def path(self, row: int) -> Iterator[str]:
        """Give an output a local path inside the block."""
        name = self.names[row]
        if not self._is_copied(row):
            yield self._reader().plain_path(name)
            return
        copy = f"{self._copies}/{row}{os.path.splitext(name)[1]}"
        try:
            with open(copy, "wb") as file:
                file.write(self.read(row))
            yield copy
        except SplitterError as error:
            # messages about the copy apply to the output
            raise StorageError(str(error).replace(copy, name)) from error
        finally:
            with contextlib.suppress(OSError):
                os.remove(copy)


def address(output: str, offset: Any, size: Any) -> Address:  # noqa: ANN401 - cells, which may be missing
    """Return the address of an output. A loose file is read as it is now, whatever its recorded size."""
    size, offset = number_of(size), offset_of(output, offset)
    return Address(output) if size is None or offset is None else Address(output, size, shard_offset=offset)


def look(outputs: Outputs, table: ReportTable, layout: Layout | None, effort: Effort) -> Looks:
    """Look at all outputs, or at a number of them chosen by the hashes of their names."""
    there = np.flatnonzero([bool(name) for name in outputs.names])
    if len(there) > effort.sample:
        hashes = np.array([key_hash(outputs.names[row]) for row in there], "u8")
        there = np.sort(there[np.argsort(hashes, kind="stable")[: effort.sample]])
    looks = Looks(there)
    with outputs.at_hand():
        _measure(outputs, looks, effort.tell)
        _read_texts(outputs, looks)
        looks.worth = worth_a_listen(looks.levels, table)
        _copy(outputs, looks, effort.previews)
    if layout:
        _outline_sources(table, layout, looks)
    return looks


def in_parallel(work: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[tuple[Item, Result | str]]:
    """Yield each item and its result, or why it cannot be read, in order.

    Threads do the work, because most of it releases Python's lock.
    """

    def tried(item: Item) -> Result | str:
        try:
            return work(item)
        except (SplitterError, OSError) as error:
            # the name of an output is shown next to this
            return getattr(error, "strerror", None) or str(error).removeprefix("cannot read ")

    pool = ThreadPoolExecutor(usable_cpus())
    try:
        for start in range(0, len(items), AT_ONCE):
            some = items[start : start + AT_ONCE]
            yield from zip(some, pool.map(tried, some), strict=True)
    finally:
        # start nothing more after an interruption
        pool.shutdown(cancel_futures=True)


def _measure(outputs: Outputs, looks: Looks, tell: Tell) -> None:
    def work(row: int) -> Levels:
        with outputs.path(row) as path:
            found = measure(path, POINTS)
        stated = outputs.least_frames(row, found.rate)
        if found.frames < stated:
            raise StorageError(f"{found.frames:,} of {stated:,} samples can be read")
        return found

    rows = [row for row in looks.chosen.tolist() if outputs.kinds[row] == "sound"]
    for number, (row, found) in enumerate(in_parallel(work, rows), 1):
        if isinstance(found, str):
            looks.unread[row] = found
        else:
            looks.levels[row] = found
            if found.odd:
                are = "sample is" if found.odd == 1 else "samples are"
                looks.odd[row] = (
                    f"{found.odd:,} {are} not numbers (NaN or infinite); levels count them as silence"
                )
        tell(number, len(rows))


def _read_texts(outputs: Outputs, looks: Looks) -> None:
    """Read the beginnings of texts, as long as there is room."""

    def work(row: int) -> bytes:
        with outputs.path(row) as path, open(path, "rb") as file:
            return file.read(TEXT_BYTES + 1)

    room = TEXTS_AT_MOST
    rows = [row for row in looks.chosen.tolist() if outputs.kinds[row] == "text"]
    for row, found in in_parallel(work, rows):
        if isinstance(found, str):
            looks.unread[row] = found
            continue
        more = "…" if len(found) > TEXT_BYTES else ""
        looks.texts[row] = found[:TEXT_BYTES].decode("utf-8", "replace") + more
        room -= len(found)
        if room <= 0:
            return


def _copy(outputs: Outputs, looks: Looks, room: int) -> None:
    """Make copies for the page, first of outliers, then of others, until the room is used up."""

    def work(row: int) -> tuple[str, bytes] | None:
        if outputs.kinds[row] == "image":
            content = outputs.read(row)
            return (type_of(outputs.names[row]), content) if len(content) <= MOST_IMAGE_BYTES else None
        with outputs.path(row) as path:
            return "audio/mpeg", preview(path, looks.levels[row].rate)

    first = dict(looks.worth)
    others = [row for row in looks.levels if row not in first]
    # loose images are shown directly
    others += [
        row
        for row in looks.chosen.tolist()
        if outputs.kinds[row] == "image" and shard_of(outputs.names[row])[0]
    ]
    rows = [*first, *sorted(others, key=lambda row: key_hash(outputs.names[row]))]
    for start in range(0, len(rows), COPIED_AT_ONCE):
        for row, copy in in_parallel(work, rows[start : start + COPIED_AT_ONCE]):
            if copy is None or isinstance(copy, str):
                continue
            text = base64.b64encode(copy[1]).decode()
            room -= len(text)
            if room < 0:
                return
            looks.previews[row] = copy[0], text


def _outline_sources(table: ReportTable, layout: Layout, looks: Looks) -> None:
    """Measure the waveforms of the original recordings, unless they are too large to read."""
    names = table.rows[table.listed].to_numpy(object)
    some = sorted({str(name) for name in names}, key=key_hash)[:AFEW]
    looks.beside = any(_size_of(layout, name) is not None for name in some)
    room = SOURCE_BYTES
    chosen: list[str] = []
    wanted = dict.fromkeys(str(names[row]) for row in looks.levels)
    for name in sorted(wanted, key=key_hash):
        size = _size_of(layout, name)
        if size is None or size > room:
            continue
        room -= size
        chosen.append(name)
        if len(chosen) == MOST_SOURCES:
            break
    for name, found in in_parallel(lambda name: measure(layout.location(name), SOURCE_POINTS), chosen):
        if not isinstance(found, str):
            looks.sources[name] = np.abs(found.wave).max(0)


def _size_of(layout: Layout, name: str) -> int | None:
    path = layout.location(name)
    try:
        return os.stat(path).st_size if not is_url(path) and os.path.isfile(path) else None
    except (OSError, ValueError):
        return None
