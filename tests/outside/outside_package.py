"""What another package may bring, found by the entry points beside it."""

import os
from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any

from splitter import InputFile, OutputFile, ProcessorDataset
from splitter.dataset import Result
from splitter.errors import Refused
from splitter.executors.base import Cluster, Limits
from splitter.executors.local import LocalExecutor
from splitter.exports.base import Export
from splitter.exports.corpus import Corpus
from splitter.exports.target import ExportTarget
from splitter.inputs.dialects.base import Dialect, Entry, Written
from splitter.inputs.dialects.files import lines
from splitter.inputs.listing import InputList
from splitter.inputs.source import InputSource, ListReading, SourceRows
from splitter.measures.base import Sound, measure
from splitter.records import Content, Scalar, Scratch
from splitter.sinks.base import StoredOutput
from splitter.sinks.files import FilesSink, FilesWriter
from splitter.sinks.shards import ShardSink
from splitter.storage.base import Storage


class Shout(ProcessorDataset):
    """Write each text in capital letters.

    Args:
        mark: What each text ends with.
    """

    def __init__(self, inputs: Any = (), mark: str = "!") -> None:
        super().__init__(inputs)
        self.mark = mark

    def process(self, input_file: InputFile) -> Result:
        text = input_file.read_text()
        return [OutputFile("loud.txt", text.upper() + self.mark)], {"letters": len(text)}


@measure("zeros")
def zeros(sound: Sound) -> Iterator[Scalar]:
    """Count the samples that are zero."""
    yield sum(int((block == 0).sum()) for block in sound.blocks())


class KindsSink(FilesSink):
    """Loose files, and a column of the manifest that says what kind each is of."""

    columns = (("kind", "str"),)

    def open(self, storage: Storage, batch: str, stale: Collection[str] = (), group: int = 0) -> FilesWriter:
        return KindsWriter(storage, batch, stale)


class KindsWriter(FilesWriter):
    def store(self, folder: str, name: str, content: Content, scratch: Scratch) -> StoredOutput:
        stored = super().store(folder, name, content, scratch)
        return replace(stored, more=(os.path.splitext(name)[1].lower(),))


class ZipSink(ShardSink):
    """Shards of a kind that no reader knows."""

    suffix = ".zip"


class LinesSource(InputSource):
    """A list with a path and a speaker in each line, and a colon between them."""

    takes = frozenset({"root"})

    def is_meant(self, location: Any, listing: InputList) -> bool:
        return True

    def read(self, location: Any, listing: InputList, reading: ListReading) -> SourceRows:
        with open(location, encoding="utf-8") as file:
            rows = [line.rstrip("\n").split(":") for line in file]
        return SourceRows(["input", "speaker"], rows, os.path.dirname(location))


class Notes(Dialect):
    """What another tool wrote: a path and a speaker on each line."""

    shape = "lines of a path and a speaker"

    def is_written(self, there: Written) -> bool:
        return there.head.startswith("# notes")

    def entries(self, there: Written) -> Iterator[Entry]:
        for number, line in lines(there.path, there.name):
            if number > 1:
                path, _, speaker = line.partition(" by ")
                yield {"input": path, "speaker": speaker}


class ColoursSource(InputSource):
    """The files that a URL such as colours://FOLDER?red+blue names."""

    def is_meant(self, location: Any, listing: InputList) -> bool:
        return True

    def read(self, location: Any, listing: InputList, reading: ListReading) -> SourceRows:
        folder, _, colours = location.removeprefix("colours://").partition("?")
        return SourceRows(["input"], [[f"{one}.txt"] for one in colours.split("+")], folder)


class NamesExport(Export):
    """The names of the pieces, a line each.

    Args:
        most: Fail after so many.
        linked: Make their files part of the export.
    """

    def __init__(self, corpus: Corpus, most: int = 1000, linked: bool = False) -> None:
        super().__init__(corpus)
        self.most, self.linked = most, linked

    def write(self, target: ExportTarget) -> None:
        for number, piece in enumerate(self.corpus.pieces()):
            if number == self.most:
                raise Refused("names: too many pieces; give a larger --most")
            path = (
                target.add(piece, f"files/{piece.key}{piece.ending}")
                if self.linked
                else target.path_of(piece)
            )
            line = f"{piece.key}\t{path}\t{piece.text}\t{piece.speaker}"
            target.open("names.txt", split=piece.split, ordered=True).write(f"{line}\n")


class OneWorker(LocalExecutor):
    """One worker on this machine, however many are asked for."""

    def __init__(self, limits: Limits, cluster: Cluster) -> None:
        super().__init__(replace(limits, workers=1), cluster)
