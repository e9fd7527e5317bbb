"""Read outputs and source recordings, as many at a time as there are CPUs, block after block."""

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
from splitter.outputs.reader import Address, OutputReader, number_of, offset_of
from splitter.report.levels import Levels, measure, preview
from splitter.report.table import ReportTable, hash_of, kind_of
from splitter.storage.layout import Layout, shard_of
from splitter.system.cpus import usable_cpus
from splitter.system.temporary_folders import temporary_folder
from splitter.text.content_types import type_of
from splitter.text.urls import is_url

POINTS, SOURCE_POINTS = 96, 600
# sources are read for their outline only: so many bytes are seconds of work
SOURCE_BYTES, MOST_SOURCES = 1 << 30, 500
# so many inputs tell whether inputs are there
AFEW = 20
TEXT_BYTES = 600
TEXTS_AT_MOST = 1 << 20
# what decodes to exactly as many samples as were encoded, or with padding to more
EXACT = (".wav", ".flac", ".aiff", ".aif", ".au", ".w64", ".rf64")
MOST_IMAGE_BYTES = 200_000
WORTH_A_LISTEN = 8
AT_ONCE = 256

Item = TypeVar("Item")
Result = TypeVar("Result")
Tell = Callable[[int, int], None]


def unheard(_done: int, _of: int) -> None:
    """For those who do not want to know how far it is."""


@dataclass(frozen=True)
class Effort:
    """How much to look at.

    Attributes:
        sample: At most so many outputs are read.
        previews: At most so many bytes of sound and images go into the page.
        tell: Hears how many of how many have been read.
    """

    sample: int
    previews: int
    tell: Tell = unheard


@dataclass
class Looks:
    """What was found in outputs.

    Attributes:
        chosen: Which rows were looked at.
        levels: What was measured, by row.
        previews: Copies that go into the page, by row: the kind of file, and its bytes in base64.
        texts: How texts begin, by row.
        sources: What the recordings look like, by the name of the input.
        unread: What could not be read, by row, and why.
        odd: What was read, by row, and is not as sound should be.
        beside: Whether inputs are where the list says.
        worth: Rows that stand out, and in what.
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
        """Open nothing yet; each thread has a reader of its own."""
        self.folder, self._rows = folder, table.rows
        self.names = table.texts("output")
        self.kinds = [kind_of(name) if name else "" for name in self.names]
        self._own = threading.local()
        self._copies = ""

    def read(self, row: int) -> bytes:
        """The content of one."""
        values = self._rows.iloc[row]
        return self._reader().read(address(self.names[row], values.get("shard_offset"), values["size"]))

    def _reader(self) -> OutputReader:
        if not hasattr(self._own, "reader"):
            self._own.reader = OutputReader(self.folder)
        reader: OutputReader = self._own.reader
        return reader

    def least_frames(self, row: int, rate: int) -> int:
        """How many frames of this rate one must have, as the manifest says; 0 if that cannot be told."""
        if not self.names[row].lower().endswith(EXACT):
            return 0
        values = self._rows.iloc[row]
        frames, stated = (number_of(values.get(name)) for name in ("frames", "sample_rate"))
        # a column of the dataset list is text, and of the input
        return frames or 0 if stated == rate and not isinstance(values["frames"], str) else 0

    @contextlib.contextmanager
    def at_hand(self) -> Iterator[None]:
        """Within this they have paths; those that are no files of their own are copied."""
        if not any(map(self._is_copied, filter(None, self.names))):
            yield
            return
        with temporary_folder() as self._copies:
            yield

    def _is_copied(self, name: str) -> bool:
        return is_url(self.folder) or bool(shard_of(name)[0])

    @contextlib.contextmanager
    def path(self, row: int) -> Iterator[str]:
        """Where one is, as long as it is needed."""
        name = self.names[row]
        if not self._is_copied(name):
            yield self._reader().plain_path(name)
            return
        copy = f"{self._copies}/{row}{os.path.splitext(name)[1]}"
        try:
            with open(copy, "wb") as file:
                file.write(self.read(row))
            yield copy
        except SplitterError as error:
            # what is said of the copy holds for the output
            raise StorageError(str(error).replace(copy, name)) from error
        finally:
            with contextlib.suppress(OSError):
                os.remove(copy)


def address(output: str, offset: Any, size: Any) -> Address:  # noqa: ANN401 - cells, which may be missing
    """Where an output is. One that is a file of its own is read as it is now, whatever its size was."""
    size, offset = number_of(size), offset_of(output, offset)
    return Address(output) if size is None or offset is None else Address(output, size, shard_offset=offset)


def look(outputs: Outputs, table: ReportTable, layout: Layout | None, effort: Effort) -> Looks:
    """Look at all outputs, or at as many as are asked for, chosen by the hashes of their names."""
    there = np.flatnonzero([bool(name) for name in outputs.names])
    if len(there) > effort.sample:
        hashes = np.array([hash_of(outputs.names[row]) for row in there], "u8")
        there = np.sort(there[np.argsort(hashes, kind="stable")[: effort.sample]])
    looks = Looks(there)
    with outputs.at_hand():
        _measure(outputs, looks, effort.tell)
        _read_texts(outputs, looks)
        looks.worth = outliers(looks)
        _copy(outputs, looks, effort.previews)
    if layout:
        _outline_sources(table, layout, looks)
    return looks


def in_parallel(work: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[tuple[Item, Result]]:
    """What becomes of each item, in their order; most of the work is done where Python lets threads run."""
    pool = ThreadPoolExecutor(usable_cpus())
    try:
        for start in range(0, len(items), AT_ONCE):
            some = items[start : start + AT_ONCE]
            yield from zip(some, pool.map(work, some), strict=True)
    finally:
        # after an interruption nothing more is begun
        pool.shutdown(cancel_futures=True)


def _measure(outputs: Outputs, looks: Looks, tell: Tell) -> None:
    def work(row: int) -> Levels | str:
        try:
            with outputs.path(row) as path:
                found = measure(path, POINTS)
        except (SplitterError, OSError) as error:
            return _why(error)
        stated = outputs.least_frames(row, found.rate)
        if found.frames < stated:
            return f"{found.frames:,} of {stated:,} samples can be read"
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
                    f"{found.odd:,} {are} no number (NaN or infinite); levels take that for silence"
                )
        tell(number, len(rows))


def _why(error: SplitterError | OSError) -> str:
    """Why an output cannot be read, which is named beside it."""
    return getattr(error, "strerror", None) or str(error).removeprefix("cannot read ")


def _read_texts(outputs: Outputs, looks: Looks) -> None:
    """How texts begin, as long as there is room."""

    def work(row: int) -> bytes | str:
        try:
            with outputs.path(row) as path, open(path, "rb") as file:
                return file.read(TEXT_BYTES + 1)
        except (SplitterError, OSError) as error:
            return _why(error)

    room = TEXTS_AT_MOST
    for row, found in in_parallel(
        work, [row for row in looks.chosen.tolist() if outputs.kinds[row] == "text"]
    ):
        if isinstance(found, str):
            looks.unread[row] = found
            continue
        more = "…" if len(found) > TEXT_BYTES else ""
        looks.texts[row] = found[:TEXT_BYTES].decode("utf-8", "replace") + more
        room -= len(found)
        if room <= 0:
            return


_Choice = tuple[str, Callable[[Levels], float], Callable[[Levels], bool]]
_OUTLIERS: tuple[_Choice, ...] = (
    ("most clipped", lambda one: -one.clipped, lambda one: one.clipped > 0),
    ("loudest", lambda one: -one.rms_db, lambda _: True),
    ("quietest", lambda one: one.rms_db, lambda _: True),
    ("most silence", lambda one: -one.silence, lambda one: one.silence > 0),
    ("shortest", lambda one: one.seconds, lambda _: True),
    ("longest", lambda one: -one.seconds, lambda _: True),
)


def outliers(looks: Looks) -> list[tuple[int, str]]:
    """Rows to listen to first: the extremes, and some others by chance that is the same each time."""
    found: dict[int, str] = {}
    for reason, key, counts in _OUTLIERS:
        keys = {row: key(levels) for row, levels in looks.levels.items()}
        # where all are alike none stands out
        if len({*keys.values()}) > 1:
            row = min(keys, key=lambda row: (keys[row], row))
            if counts(looks.levels[row]):
                found[row] = f"{found[row]}, {reason}" if row in found else reason
    for row in sorted(looks.levels, key=lambda row: hash_of(str(row))):
        if len(found) >= min(WORTH_A_LISTEN, len(looks.levels)):
            break
        found.setdefault(row, "by chance")
    return list(found.items())


def _copy(outputs: Outputs, looks: Looks, room: int) -> None:
    """Copies for the page, first of what stands out, then of others, until the room is used."""

    def work(row: int) -> tuple[str, bytes] | None:
        try:
            if outputs.kinds[row] == "image":
                content = outputs.read(row)
                return (type_of(outputs.names[row]), content) if len(content) <= MOST_IMAGE_BYTES else None
            with outputs.path(row) as path:
                return "audio/mpeg", preview(path, looks.levels[row].rate)
        except (SplitterError, OSError):
            return None

    first = [row for row, _ in looks.worth]
    others = [row for row in looks.levels if row not in dict(looks.worth)]
    # a loose image is shown from where it is
    others += [
        row
        for row in looks.chosen.tolist()
        if outputs.kinds[row] == "image" and shard_of(outputs.names[row])[0]
    ]
    rows = first + sorted(others, key=lambda row: hash_of(outputs.names[row]))
    for start in range(0, len(rows), WORTH_A_LISTEN):
        for row, copy in in_parallel(work, rows[start : start + WORTH_A_LISTEN]):
            if copy is None:
                continue
            text = base64.b64encode(copy[1]).decode()
            room -= len(text)
            if room < 0:
                return
            looks.previews[row] = copy[0], text


def _outline_sources(table: ReportTable, layout: Layout, looks: Looks) -> None:
    """What the recordings look like that outputs were cut from, as long as they are not too much to read."""

    def work(name: str) -> Any:  # noqa: ANN401 - an array or nothing
        try:
            return np.abs(measure(layout.location(name), SOURCE_POINTS).wave).max(0)
        except (SplitterError, OSError):
            return None

    names = table.rows[table.listed].to_numpy(object)
    some = sorted({str(name) for name in names}, key=hash_of)[:AFEW]
    looks.beside = any(_size_of(layout, name) is not None for name in some)
    room = SOURCE_BYTES
    chosen: list[str] = []
    wanted = dict.fromkeys(str(names[row]) for row in looks.levels)
    for name in sorted(wanted, key=hash_of):
        size = _size_of(layout, name)
        if size is None or size > room:
            continue
        room -= size
        chosen.append(name)
        if len(chosen) == MOST_SOURCES:
            break
    for name, found in in_parallel(work, chosen):
        if found is not None:
            looks.sources[name] = found


def _size_of(layout: Layout, name: str) -> int | None:
    path = layout.location(name)
    try:
        return os.stat(path).st_size if not is_url(path) and os.path.isfile(path) else None
    except (OSError, ValueError):
        return None
