"""Samples: the members of an archive whose names are alike up to the first dot."""

import hashlib
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO

from splitter.archives.members import END, Member
from splitter.archives.reader import read_members
from splitter.archives.sources import ArchiveSource
from splitter.archives.writer import ArchiveWriter, size_in_archive
from splitter.errors import TarError

SOME_KEYS = 1 << 17


@dataclass(frozen=True)
class TarSample:
    """Members that belong together.

    Attributes:
        key: What their names have in common.
        members: In the order of the archive.
        location: The archive it comes from.
        archive: The number of that archive among the inputs.
    """

    key: str
    members: tuple[Member, ...]
    location: str = ""
    archive: int = 0

    def field(self, alternatives: str) -> Member | None:
        """The member of the first of several fields, as in `cls;json`, that there is."""
        found = {member.field: member for member in self.members}
        return next((found[name] for name in alternatives.split(";") if name in found), None)

    def text(self, alternatives: str) -> str | None:
        """The text of such a field; None if there is none."""
        member = self.field(alternatives)
        if member is None:
            return None
        try:
            return member.read().decode()
        except UnicodeDecodeError:
            raise TarError(f"{self.location}: {member.name!r} is not text: it is not UTF-8") from None

    @property
    def size(self) -> int:
        """Bytes it takes in an archive."""
        return sum(map(size_in_archive, self.members))

    def renamed(self, key: str) -> "TarSample":
        """The same with another key."""
        members = tuple(one._replace(name=key + one.name[len(self.key) :]) for one in self.members)
        return TarSample(key, members, self.location, self.archive)

    def joined(self, other: "TarSample") -> "TarSample":
        """With the members of another one that has its key."""
        names = {member.name for member in self.members}
        for member in other.members:
            if member.name in names:
                raise TarError(f"{self.location}: member {member.name!r} is there twice")
        return TarSample(self.key, self.members + other.members, self.location, self.archive)


class Keys:
    """Keys that were seen: 64 bits of each, and those of large archives in sorted arrays."""

    def __init__(self) -> None:
        """None yet."""
        self._last: set[int] = set()
        self._earlier: list[Sequence[int]] = []

    def add(self, key: str) -> bool:
        """Remember a key; says whether it is new."""
        digest = hashlib.blake2b(key.encode("utf-8", "surrogateescape"), digest_size=8).digest()
        number = int.from_bytes(digest, "big")
        if number in self._last or any(_holds(array, number) for array in self._earlier):
            return False
        self._last.add(number)
        if len(self._last) == SOME_KEYS:
            self._put_away()
        return True

    def _put_away(self) -> None:
        """Sort what is at hand into an array; of two of about one length one is made."""
        from array import array

        numbers: Sequence[int] = array("Q", sorted(self._last))
        self._last.clear()
        while self._earlier and len(self._earlier[-1]) <= len(numbers):
            numbers = _merged(self._earlier.pop(), numbers)
        self._earlier.append(numbers)


def _holds(numbers: Sequence[int], number: int) -> bool:
    from bisect import bisect_left

    at = bisect_left(numbers, number)
    return at < len(numbers) and numbers[at] == number


def _merged(one: Sequence[int], other: Sequence[int]) -> Sequence[int]:
    from array import array
    from heapq import merge

    return array("Q", merge(one, other))


def read_samples(source: ArchiveSource, *, archive: int = 0, fragments: bool = False) -> Iterator[TarSample]:
    """The samples of an archive; with `fragments` also pieces of samples, as their members stand.

    Otherwise a sample whose members do not stand together is an error.
    """
    with source.open() as stream:
        yield from samples_in(stream, source.name, archive=archive, fragments=fragments)


def samples_in(
    stream: BinaryIO, location: str, *, archive: int = 0, fragments: bool = False
) -> Iterator[TarSample]:
    """The same, of an archive that is open."""
    keys = Keys()
    for sample in _neighbours(stream, location, archive):
        if not fragments and not keys.add(sample.key):
            raise TarError(
                f"{location}: sample {sample.key!r} comes a second time; if its members only stand apart, "
                f"'splitter tar sort' puts them together"
            )
        yield sample


def _neighbours(stream: BinaryIO, location: str, archive: int) -> Iterator[TarSample]:
    held: list[Member] = []
    key, names = "", set[str]()
    for member in read_members(stream, location):
        if held and member.key != key:
            yield TarSample(key, tuple(held), location, archive)
            held, names = [], set()
        key = member.key
        if member.name in names:
            raise TarError(f"{location}: member {member.name!r} is there twice")
        names.add(member.name)
        held.append(member)
    if held:
        yield TarSample(key, tuple(held), location, archive)


def samples_of(sources: Sequence[ArchiveSource]) -> Generator[TarSample, None, None]:
    """The samples of several archives, one after the other."""
    for number, source in enumerate(sources):
        yield from read_samples(source, archive=number)


class SampleWriter:
    """Writes samples into an archive; a key can only be there once.

    With `number_same` a sample whose key is taken becomes `key-2`, or the next that is free.
    """

    def __init__(self, file: BinaryIO, location: str, *, number_same: bool = False) -> None:
        """Write into a file that is open."""
        self._archive = ArchiveWriter(file)
        self._location, self._number_same = location, number_same
        self._keys = Keys()
        self.count = 0

    @property
    def size(self) -> int:
        """Bytes of the archive, should it end here."""
        return self._archive.size + len(END)

    def add(self, sample: TarSample) -> None:
        """Append a sample."""
        if not self._keys.add(sample.key):
            if not self._number_same:
                raise TarError(
                    f"{sample.location}: sample {sample.key!r} would be in {self._location} a second time; "
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
        """Mark the end of the archive."""
        self._archive.finish()
