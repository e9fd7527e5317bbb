"""The sink of WebDataset shards: tar archives, a sample for each output file."""

import contextlib
from collections.abc import Mapping
from typing import Any

from splitter.archives.members import END, Member
from splitter.archives.writer import ArchiveWriter, header, size_in_archive
from splitter.errors import BadResult
from splitter.options import RunOptions
from splitter.records import Scalar
from splitter.sinks.shards import OFFSET, NewShard, ShardSample, ShardSink, as_json
from splitter.text.csv import ENCODING, ESCAPE

JSON = "json"


class WebDatasetSink(ShardSink):
    """A sink that makes each output a sample: its content, its manifest row as JSON, and --field members."""

    suffix = ".tar"

    def __init__(self, options: RunOptions) -> None:
        super().__init__(options)
        self.fields = options.fields_asked
        self.taken = (JSON, *self.fields)

    def options(self) -> dict[str, Any]:
        return {**super().options(), "field": self.fields}

    def check(self, row: Mapping[str, Scalar]) -> None:
        """Refuse an output that lacks the column of a --field member."""
        for name, column in self.fields.items():
            if column not in row:
                raise BadResult(f"--field {name}={column}: is neither a column of the dataset nor metadata")


class TarShard(NewShard):
    """A tar archive, in which the members of a sample are next to each other."""

    def __init__(self, path: str, name: str, sink: WebDatasetSink) -> None:
        self._file = open(path, "wb", buffering=1 << 16)  # noqa: SIM115 - until it is closed
        self._archive = ArchiveWriter(self._file)
        self._name, self._fields = name, sink.fields
        self._made: tuple[ShardSample, list[Member]] | None = None

    @property
    def size(self) -> int:
        return self._archive.size

    def takes(self, sample: ShardSample) -> int:
        """Return the number of bytes of its members, and of the end of the archive."""
        return sum(size_in_archive(member) for member in self._members(sample)) + len(END)

    def add(self, sample: ShardSample) -> int:
        """Write a sample; return the byte at which its content begins."""
        offset = self._offset(sample)
        for member in self._members(sample):
            self._archive.add(member)
        self._made = None
        return offset

    def _offset(self, sample: ShardSample) -> int:
        return self._archive.size + len(header(sample.member.name, sample.member.size))

    def _members(self, sample: ShardSample) -> list[Member]:
        """Return the content, the manifest row and the fields; made once for `takes` and `add`."""
        if self._made is None or self._made[0] is not sample:
            row = {**sample.row, "output": f"{self._name}/{sample.member.name}", OFFSET: self._offset(sample)}
            contents = {JSON: as_json(row)}
            for name, column in self._fields.items():
                if column not in row:
                    # the sample is from an older shard, which was made without this column
                    continue
                text = "" if row[column] is None else str(row[column])
                contents[name] = text.encode(ENCODING, ESCAPE)
            others = (Member(f"{sample.key}.{name}", len(text), text) for name, text in contents.items())
            self._made = sample, [sample.member, *others]
        return self._made[1]

    def close(self) -> None:
        self._archive.finish()
        self._file.close()

    def discard(self) -> None:
        with contextlib.suppress(OSError):
            # closing writes the rest of the buffer, for which there may be no room
            self._file.close()


WebDatasetSink.shard = TarShard
