"""`sort`: samples by key, by the value of a field, or in random order, even more than fit in memory.

Runs that fit in memory are sorted and written to temporary files, then merged. Equal samples keep their
order.
"""

import functools
import hashlib
import heapq
import itertools
import math
import re
import struct
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Literal

from splitter.archives.members import BLOCK, FilePart, Member, SharedFile
from splitter.archives.sources import ArchiveSource
from splitter.errors import TarError
from splitter.tar.samples import TarSample, samples_in, samples_of

MOST_RUNS = 64  # merged at a time
A_SAMPLE, A_MEMBER = 500, 300  # bytes of memory without the contents
_SAMPLE = struct.Struct("<QII")
_MEMBER = struct.Struct("<IQ")
_INT = re.compile(r"[+-]?\d+")

Kind = Literal["text", "int", "float"]


# the position of a sample, and the sample
_Numbered = tuple[int, TarSample]


@dataclass(frozen=True)
class Order:
    """A sort order.

    Attributes:
        by: A field, or alternatives such as `cls;json`; None to sort by key.
        kind: The type of its value.
        reverse: Whether to sort in descending order.
        seed: The seed of a random order, instead of sorting.
    """

    by: str | None = None
    kind: Kind = "text"
    reverse: bool = False
    seed: int | None = None

    def value(self, one: _Numbered) -> Any:  # noqa: ANN401 - a text, a number, or bytes
        """Return the value that a sample is sorted by."""
        at, sample = one
        if self.seed is not None:
            return hashlib.blake2b(f"{self.seed} {at}".encode(), digest_size=16).digest()
        return sample.key if self.by is None else value_of(sample, self.by, self.kind)


def value_of(sample: TarSample, field: str, kind: Kind) -> str | int | float:
    """Return the value of a field; raise TarError if a sample lacks it, or has a value of another kind."""
    text = sample.text(field)
    if text is None:
        raise TarError(f"{sample.location}: sample {sample.key!r} has no field {field!r} to sort by")
    if kind == "text":
        return text
    text = text.strip()
    try:
        if kind == "float" and not math.isnan(number := float(text)):
            return number
        if kind == "int" and _INT.fullmatch(text):
            return int(text)
    except ValueError:
        pass
    named = {"int": "a whole number", "float": "a number"}[kind]
    raise TarError(f"{sample.location}: sample {sample.key!r}: its {field!r} is {text[:50]!r}, not {named}")


def ordered(sources: Sequence[ArchiveSource], order: Order, memory: int) -> Iterator[TarSample]:
    """Return the samples of archives in order, with about `memory` bytes of them in memory.

    Sorting by key also brings scattered members of a sample together.
    """
    if order.by is None and order.seed is None:
        folders: set[int] = set()
        pieces = (
            piece for number, source in enumerate(sources) for piece in _pieces(source, number, folders)
        )
        return _joined(_sorted(pieces, order, memory), folders)
    return _sorted(samples_of(sources), order, memory)


def gathered(
    sources: Sequence[ArchiveSource], memory: int, *, always: bool | None = None
) -> Iterator[TarSample]:
    """Yield the samples of archives; those of an archive that begins with a folder are sorted by key.

    `tar -cf - FOLDER` makes such archives, with files in the order of the folder. If `always` is given, it
    decides for all archives.
    """
    for number, source in enumerate(sources):
        with source.open() as stream:
            apart = _begins_with_folder(stream) if always is None else always
            samples = samples_in(stream, source.name, archive=number, fragments=apart)
            yield from _joined(_sorted(samples, Order(), memory), {number}) if apart else samples


def _pieces(source: ArchiveSource, number: int, folders: set[int]) -> Iterator[TarSample]:
    """Yield pieces of the samples of an archive; add it to `folders` if it begins with a folder."""
    with source.open() as stream:
        if _begins_with_folder(stream):
            folders.add(number)
        yield from samples_in(stream, source.name, archive=number, fragments=True)


def _begins_with_folder(stream: Any) -> bool:  # noqa: ANN401 - a buffered or a gzip file
    beginning = stream.peek(8 * BLOCK)
    at = 0
    while beginning[at + 156 : at + 157] in (b"x", b"g"):
        digits = beginning[at + 124 : at + 135]
        size = int(digits, 8) if digits.isdigit() else 0
        at += BLOCK + size + -size % BLOCK
    return bool(beginning[at + 156 : at + 157] == b"5")


def _joined(samples: Iterable[TarSample], folders: AbstractSet[int]) -> Iterator[TarSample]:
    """Join neighboring pieces of the same sample, with fields sorted by name.

    A sample in one piece keeps the order of its fields, unless its archive is among `folders`: the files of a
    folder are in any order, and the result must not depend on that.
    """
    for (_, archive), group in itertools.groupby(samples, lambda piece: (piece.key, piece.archive)):
        pieces = list(group)
        sample = functools.reduce(TarSample.joined, pieces)
        if len(pieces) > 1 or archive in folders:
            members = tuple(sorted(sample.members, key=lambda member: member.name))
            sample = TarSample(sample.key, members, sample.location, sample.archive)
        yield sample


# -- larger than memory -----------------------------------------------------------------------------------


def _sorted(samples: Iterable[TarSample], order: Order, memory: int) -> Iterator[TarSample]:
    held: list[_Numbered] = []
    runs: list[_Run] = []
    room = memory
    for at, sample in enumerate(samples):
        held.append((at, sample))
        room -= A_SAMPLE + sum(A_MEMBER + member.size for member in sample.members)
        if room < 0:
            runs.append(_Run(_in_memory(held, order)))
            held, room = [], memory
            if len(runs) == MOST_RUNS:
                runs = [_Run(_merged(runs, order))]
    last = _in_memory(held, order)
    found = _merged([*runs, last], order) if runs else last
    return (sample for _, sample in found)


def _in_memory(held: list[_Numbered], order: Order) -> list[_Numbered]:
    return sorted(held, key=order.value, reverse=order.reverse)


def _merged(runs: Sequence[Iterable[_Numbered]], order: Order) -> Iterator[_Numbered]:
    return heapq.merge(*runs, key=order.value, reverse=order.reverse)


class _Run:
    """Sorted samples in a temporary file; their contents are not in memory."""

    def __init__(self, samples: Iterable[_Numbered]) -> None:
        self._archives: dict[int, str] = {}
        self._file = SharedFile.of(self._packed(samples))

    def _packed(self, samples: Iterable[_Numbered]) -> Iterator[bytes]:
        for at, sample in samples:
            self._archives[sample.archive] = sample.location
            yield _SAMPLE.pack(at, sample.archive, len(sample.members))
            for member in sample.members:
                name = member.name.encode("utf-8", "surrogateescape")
                yield _MEMBER.pack(len(name), member.size) + name
                yield from member.pieces()

    def __iter__(self) -> Iterator[_Numbered]:
        position = 0
        while head := self._file.read(_SAMPLE.size, position):
            at, archive, count = _SAMPLE.unpack(head)
            position += _SAMPLE.size
            members = []
            for _ in range(count):
                length, size = _MEMBER.unpack(self._file.read(_MEMBER.size, position))
                position += _MEMBER.size
                name = self._file.read(length, position).decode("utf-8", "surrogateescape")
                position += length
                members.append(Member(name, size, FilePart(self._file, position, size)))
                position += size
            yield at, TarSample(members[0].key, tuple(members), self._archives[archive], archive)
