"""webdataset, wids, energon: tar shards of each split, with the indices that these tools need."""

import itertools
import json
import os
import struct
from collections.abc import Iterable
from typing import Any, ClassVar

from splitter.archives.members import BLOCK, Member, split_name
from splitter.archives.reader import CountedStream, read_heads, read_members
from splitter.archives.sources import ArchiveSource
from splitter.archives.writer import ArchiveWriter
from splitter.exports.base import Export, json_line
from splitter.exports.corpus import Corpus
from splitter.exports.piece import Piece
from splitter.exports.target import ExportTarget
from splitter.ledger.formats import typed_values
from splitter.storage.layout import shard_of
from splitter.text.csv import ENCODING, ESCAPE
from splitter.text.urls import is_url

SHARD_BYTES = 500 << 20


class WebdatasetExport(Export):
    """Tar shards of each split for webdataset, such as `train-000000.tar`."""

    unused: ClassVar[frozenset[str]] = frozenset({"absolute", "speaker"})

    def __init__(self, corpus: Corpus) -> None:
        super().__init__(corpus)
        self._new: dict[str, _SplitShard] = {}
        # the names of the shards of each split
        self.shards: dict[str, list[str]] = {}

    def write(self, target: ExportTarget) -> None:
        """Link each tar shard whose samples all go to one split; write all other samples to new shards."""
        for shard, pieces in itertools.groupby(self.corpus.pieces(), lambda piece: piece.shard):
            if shard.endswith(".tar"):
                self._take_shard([*pieces], target)
            else:
                for piece in pieces:
                    self._add(piece.split, _members(piece, self.corpus), target)
        for new in self._new.values():
            new.close()
        if self.shards:
            self.describe(target)

    def describe(self, target: ExportTarget) -> None:
        """Write an index of the shards; webdataset needs none, since the names of shards have numbers."""

    def _take_shard(self, pieces: list[Piece], target: ExportTarget) -> None:
        splits = {_key(piece): piece.split for piece in pieces}
        location = self.corpus.location(pieces[0].name)
        if not is_url(location) and len({*splits.values()}) == 1:
            path = self.corpus.shard_path(pieces[0])
            if {*_samples(path)[0]} == splits.keys():
                target.link(path, target.path(self._next_name(pieces[0].split)))
                return
        with ArchiveSource(location).open() as stream:
            members = read_members(stream, location)
            for key, sample in itertools.groupby(members, lambda member: member.key):
                if key in splits:
                    self._add(splits[key], sample, target)

    def _add(self, split: str, members: Iterable[Member], target: ExportTarget) -> None:
        """Write a sample into the newest shard of its split that is not a link."""
        new = self._new.get(split)
        if new is None or new.archive.size >= SHARD_BYTES:
            if new is not None:
                new.close()
            new = self._new[split] = _SplitShard(target.path(self._next_name(split)))
        for member in members:
            new.archive.add(member)
            target.copied += member.size

    def _next_name(self, split: str) -> str:
        names = self.shards.setdefault(split, [])
        names.append(f"{split or 'shard'}-{len(names):06}.tar")
        return names[-1]


class WidsExport(WebdatasetExport):
    """Tar shards of each split with an index, such as `train.json`, so that wids can read any sample."""

    def describe(self, target: ExportTarget) -> None:
        """Write an index for each split."""
        for split, names in self.shards.items():
            shards = []
            for name in names:
                path = target.path(name)
                count = len(_samples(path)[0])
                shards.append({"url": name, "nsamples": count, "filesize": os.path.getsize(path)})
            index = {"__kind__": "wids-shard-index-v1", "wids_version": 1, "name": split, "shardlist": shards}
            target.open(f"{split or 'index'}.json").write(json.dumps(index, indent=2) + "\n")


class EnergonExport(WebdatasetExport):
    """Tar shards of each split, prepared for Megatron Energon: with `.nv-meta` and indices."""

    def describe(self, target: ExportTarget) -> None:
        """Write the offsets of samples, and what `energon prepare` asks for; as JSON, which is valid YAML."""
        counts = {}
        parts: dict[str, list[str]] = {"train": [], "val": [], "test": []}
        for split, names in self.shards.items():
            parts[{"": "train", "validation": "val", "valid": "val"}.get(split, split)] = names
            for name in names:
                keys, starts = _samples(target.path(name))
                counts[name] = len(keys)
                with open(target.path(f"{name}.idx"), "xb") as file:
                    file.write(struct.pack(f"<{len(starts)}Q", *starts))
        crude = {"__module__": "megatron.energon", "__class__": "CrudeWebdataset"}
        for name, content in (
            (".info.json", {"shard_counts": counts}),
            ("split.yaml", {"split_parts": parts, "exclude": []}),
            ("dataset.yaml", crude),
        ):
            target.open(f".nv-meta/{name}").write(json.dumps(content, indent=2) + "\n")


class _SplitShard:
    """A tar archive that is being written."""

    def __init__(self, path: str) -> None:
        self._file = open(path, "xb", buffering=1 << 16)  # noqa: SIM115 - until it is closed
        self.archive = ArchiveWriter(self._file)

    def close(self) -> None:
        self.archive.finish()
        self._file.close()


def _key(piece: Piece) -> str:
    """Return the key of a piece's sample in its shard."""
    return split_name(shard_of(piece.name)[1])[0]


def _members(piece: Piece, corpus: Corpus) -> list[Member]:
    """Return a piece as a sample: its content, its row, and its text."""
    # a dot would end the key
    key = piece.key.replace(".", ",")
    contents = {
        piece.ending[1:].lower() or "bin": corpus.read(piece),
        "json": _encoded(json_line(_typed(piece.row, corpus))),
    }
    if corpus.has_texts:
        contents["txt"] = _encoded(piece.text)
    return [Member(f"{key}.{field}", len(content), content) for field, content in contents.items()]


def _typed(row: dict[str, str], corpus: Corpus) -> dict[str, Any]:
    kinds = corpus.types
    return {name: typed_values([text], kinds.get(name, "str"))[0] for name, text in row.items()}


def _encoded(text: str) -> bytes:
    return text.encode(ENCODING, ESCAPE)


def _samples(path: str) -> tuple[list[str], list[int]]:
    """Return the keys of a shard's samples, and the offsets where each begins and the last one ends."""
    keys: list[str] = []
    starts = [0]
    with open(path, "rb", buffering=BLOCK) as file:
        stream = CountedStream(file, path, os.fstat(file.fileno()).st_size)
        for head in read_heads(stream):
            key = split_name(head.name)[0]
            if not keys or key != keys[-1]:
                keys.append(key)
                starts.append(0)
            starts[-1] = stream.at + head.size + -head.size % BLOCK
    return keys, starts
