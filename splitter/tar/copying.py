"""`cat` and `split`: samples from archives to archives, in order."""

import contextlib
import itertools
import queue
import random
import re
import threading
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass

from splitter.archives.sources import ArchiveSource, is_url
from splitter.errors import Refused
from splitter.tar.samples import SampleWriter, TarSample, read_samples, samples_of
from splitter.tar.targets import check_target, exists, finding_shards, names_beside, writing

HELD_AHEAD = 16  # samples of one archive that a reader may read ahead
_NUMBER = re.compile(r"\{shard(?::0?(\d{0,2})d)?\}")


def write_archive(samples: Iterable[TarSample], target: str, *, number_same: bool = False) -> None:
    """Write samples to one archive."""
    with writing(target) as file:
        writer = SampleWriter(file, "standard output" if target == "-" else target, number_same=number_same)
        for sample in samples:
            writer.add(sample)
        writer.finish()


def shuffled(samples: Iterable[TarSample], held: int, seed: int) -> Iterator[TarSample]:
    """Yield samples in random order from a buffer of `held`; the same order for the same seed."""
    chance = random.Random(seed)  # noqa: S311 - not a secret
    waiting: list[TarSample] = []
    for sample in samples:
        if len(waiting) < held:
            waiting.append(sample)
            continue
        at = chance.randrange(held)
        waiting[at], sample = sample, waiting[at]  # noqa: PLW2901 - the one that waited goes
        yield sample
    chance.shuffle(waiting)
    while waiting:
        yield waiting.pop()


# -- several archives at a time ---------------------------------------------------------------------------

_Ready = TarSample | BaseException | None


class _ReaderThread:
    """A thread that reads an archive ahead, as far as its queue allows."""

    def __init__(self, source: ArchiveSource, archive: int) -> None:
        self._source, self._archive = source, archive
        self._ready: queue.Queue[_Ready] = queue.Queue(HELD_AHEAD)
        self._unwanted = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        end: BaseException | None = None
        try:
            for sample in read_samples(self._source, archive=self._archive):
                if not self._put(sample):
                    return
        except BaseException as error:  # noqa: BLE001 - raised where the samples are taken
            end = error
        self._put(end)

    def _put(self, ready: _Ready) -> bool:
        while not self._unwanted.is_set():
            with contextlib.suppress(queue.Full):
                self._ready.put(ready, timeout=0.1)
                return True
        return False

    def samples(self) -> Iterator[TarSample]:
        """Yield the samples of the archive; raise errors of the thread here."""
        while (ready := self._ready.get()) is not None:
            if isinstance(ready, BaseException):
                raise ready
            yield ready

    def end(self) -> None:
        """Stop reading."""
        self._unwanted.set()


def read_together(sources: Sequence[ArchiveSource], workers: int) -> Generator[TarSample, None, None]:
    """Yield the samples of archives in order, reading up to `workers` of them at a time."""
    if workers == 1:
        yield from samples_of(sources)
        return
    waiting = iter(enumerate(sources))
    readers: list[_ReaderThread] = []
    try:
        readers += (_ReaderThread(source, number) for number, source in itertools.islice(waiting, workers))
        while readers:
            yield from readers[0].samples()
            readers.pop(0)
            readers += (_ReaderThread(source, number) for number, source in itertools.islice(waiting, 1))
    finally:
        for reader in readers:
            reader.end()


# -- split ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Shards:
    """Names and sizes of shards.

    Attributes:
        pattern: Their names, with `{shard:06d}` for the number.
        size: Maximum bytes of a shard; a single sample may be larger.
        count: Maximum samples of a shard.
        start: Number of the first shard.
        most: Maximum number of shards.
        number_same: Whether a sample whose key is taken gets a number instead of an error.
    """

    pattern: str
    size: int
    count: int | None = None
    start: int = 0
    most: int | None = None
    number_same: bool = False

    def name_of(self, number: int) -> str:
        """Return the name of a shard."""
        return _NUMBER.sub(lambda match: f"{number:0{match[1] or 0}d}", self.pattern)

    def check(self) -> None:
        """Refuse names that would mix shards or overwrite some."""
        rest = _NUMBER.sub("", self.pattern)
        if rest == self.pattern or "{" in rest or "}" in rest:
            raise Refused(f"-o {self.pattern}: has no number in it; write prefix-{{shard:06d}}.tar")
        check_target(self.name_of(self.start))
        for number, name in self._there():
            if number >= self.start:
                raise Refused(
                    f"{name}: already exists; remove it, choose another name, or use a later --start"
                )

    def _there(self) -> Iterator[tuple[int, str]]:
        """Yield existing shards of such names, with their numbers."""
        folder, slash, name = self.pattern.rpartition("/")
        first = self.name_of(self.start)
        if "{" in folder:
            if not is_url(self.pattern):
                raise Refused(
                    f"-o {self.pattern}: the number must be in the name of the file, not of a folder"
                )
            # later shards could be in any number of folders
            with finding_shards(first):
                is_there = exists(first)
            if is_there:
                yield self.start, first
            return
        parts = _NUMBER.sub("\0", name).split("\0")
        known = re.compile(r"(\d+)".join(map(re.escape, parts)), re.DOTALL)
        for found in names_beside(first, parts[0]):
            match = known.fullmatch(found)
            if match:
                yield int(match[1]), f"{folder}{slash}{found}"


def split(samples: Iterable[TarSample], shards: Shards) -> tuple[list[str], int, bool]:
    """Write samples to shards, each of which appears when it is whole.

    Return the shards, the number of samples in them, and whether any samples are left.
    """
    waiting = iter(samples)
    locations: list[str] = []
    total = 0
    sample = next(waiting, None)
    while sample is not None and len(locations) != shards.most:
        location = shards.name_of(shards.start + len(locations))
        with writing(location) as file:
            writer = SampleWriter(file, location, number_same=shards.number_same)
            while sample is not None and (
                not writer.count
                or (writer.count != shards.count and writer.size + sample.size <= shards.size)
            ):
                writer.add(sample)
                sample = next(waiting, None)
            writer.finish()
        locations.append(location)
        total += writer.count
    return locations, total, sample is not None
