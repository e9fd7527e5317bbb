"""Samples: members of an archive whose names are the same up to the first dot."""

import bisect
import hashlib
import heapq
import itertools
from array import array
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import BinaryIO

from splitter.archives.members import END, Member
from splitter.archives.reader import read_members
from splitter.archives.sources import ArchiveSource
from splitter.archives.writer import ArchiveWriter, size_in_archive
from splitter.errors import TarError

SOME_KEYS = 1 << 17


@dataclass(frozen=True)
class TarSample:
    """Members of an archive that belong together.

    Attributes:
        key: The common part of their names.
        members: The members, in the order of the archive.
        location: The archive it comes from.
        archive: The number of that archive among the inputs.
    """

    key: str
    members: tuple[Member, ...]
    location: str = ""
    archive: int = 0

    def field(self, alternatives: str) -> Member | None:
        """Return the member of the first of these fields that exists, as in `cls;json`; None if none does."""
        found = {member.field: member for member in self.members}
        return next((found[name] for name in alternatives.split(";") if name in found), None)

    def text(self, alternatives: str) -> str | None:
        """Return the text of the first of these fields that exists; None if none does."""
        member = self.field(alternatives)
        if member is None:
            return None
        try:
            return member.read().decode()
        except UnicodeDecodeError:
            raise TarError(f"{self.location}: {member.name!r} is not text: it is not UTF-8") from None

    @property
    def size(self) -> int:
        """The number of bytes that it takes in an archive."""
        return sum(map(size_in_archive, self.members))

    def renamed(self, key: str) -> "TarSample":
        """Return a copy with another key."""
        members = tuple(one._replace(name=key + one.name[len(self.key) :]) for one in self.members)
        return replace(self, key=key, members=members)

    def joined(self, other: "TarSample") -> "TarSample":
        """Return a copy with the members of another sample of the same key."""
        names = {member.name for member in self.members}
        for member in other.members:
            if member.name in names:
                raise TarError(f"{self.location}: member {member.name!r} occurs twice")
        return replace(self, members=self.members + other.members)


class Keys:
    """A set of keys that stores 64 bits of each, most of them in sorted arrays to save memory."""

    def __init__(self) -> None:
        self._last: set[int] = set()
        self._earlier: list[Sequence[int]] = []

    def add(self, key: str) -> bool:
        """Add a key; return whether it is new."""
        digest = hashlib.blake2b(key.encode("utf-8", "surrogateescape"), digest_size=8).digest()
        number = int.from_bytes(digest, "big")
        if number in self._last or any(_holds(numbers, number) for numbers in self._earlier):
            return False
        self._last.add(number)
        if len(self._last) == SOME_KEYS:
            self._put_away()
        return True

    def _put_away(self) -> None:
        """Move collected keys to a sorted array; merge arrays of about the same length."""
        numbers: Sequence[int] = array("Q", sorted(self._last))
        self._last.clear()
        while self._earlier and len(self._earlier[-1]) <= len(numbers):
            numbers = array("Q", heapq.merge(self._earlier.pop(), numbers))
        self._earlier.append(numbers)


def _holds(numbers: Sequence[int], number: int) -> bool:
    at = bisect.bisect_left(numbers, number)
    return at < len(numbers) and numbers[at] == number


def read_samples(source: ArchiveSource, *, archive: int = 0) -> Iterator[TarSample]:
    """Yield the samples of an archive."""
    with source.open() as stream:
        yield from samples_in(stream, source.name, archive=archive)


def samples_in(
    stream: BinaryIO, location: str, *, archive: int = 0, fragments: bool = False
) -> Iterator[TarSample]:
    """Yield the samples of an open archive, in the order of its members.

    With `fragments`, yield a sample with scattered members in pieces; otherwise, it is an error.
    """
    keys = Keys()
    for sample in _neighbours(stream, location, archive):
        if not fragments and not keys.add(sample.key):
            raise TarError(
                f"{location}: sample {sample.key!r} comes a second time; if its members are only scattered, "
                f"'splitter tar sort' brings them together"
            )
        yield sample


def _neighbours(stream: BinaryIO, location: str, archive: int) -> Iterator[TarSample]:
    for key, members in itertools.groupby(read_members(stream, location), lambda member: member.key):
        held: dict[str, Member] = {}
        for member in members:
            if member.name in held:
                raise TarError(f"{location}: member {member.name!r} occurs twice")
            held[member.name] = member
        yield TarSample(key, tuple(held.values()), location, archive)


def samples_of(sources: Sequence[ArchiveSource]) -> Generator[TarSample, None, None]:
    """Yield the samples of several archives, one after the other."""
    for number, source in enumerate(sources):
        yield from read_samples(source, archive=number)


class SampleWriter:
    """A writer of samples to an archive, in which each key occurs once.

    With `number_same`, a sample whose key is taken becomes `key-2`, or the next free number.
    """

    def __init__(self, file: BinaryIO, location: str, *, number_same: bool = False) -> None:
        self._archive = ArchiveWriter(file)
        self._location, self._number_same = location, number_same
        self._keys = Keys()
        self.count = 0

    @property
    def size(self) -> int:
        """The size of the archive in bytes if it ended here."""
        return self._archive.size + len(END)

    def add(self, sample: TarSample) -> None:
        """Append a sample."""
        if not self._keys.add(sample.key):
            if not self._number_same:
                raise TarError(
                    f"{sample.location}: sample {sample.key!r} would be in {self._location} twice; "
                    f"with --same-keys number it becomes {sample.key + '-2'!r}"
                )
            number = 2
            while not self._keys.add(f"{sample.key}-{number}"):
                number += 1
            sample = sample.renamed(f"{sample.key}-{number}")
        for member in sample.members:
            self._archive.add(member)
        self.count += 1

    def finish(self) -> None:
        """Write the end of the archive."""
        self._archive.finish()
