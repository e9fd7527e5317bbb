"""NeMo: manifests of JSON lines, and tarred data sets made of existing shards."""

from typing import Any

from splitter.errors import Refused
from splitter.exports.base import Export, json_line
from splitter.exports.corpus import Corpus
from splitter.exports.piece import Piece
from splitter.exports.target import ExportTarget
from splitter.storage.layout import shard_of
from splitter.text.labels import join_labels
from splitter.text.urls import is_url

# keys that mean something to NeMo, and are written below
_OWN = {
    "input",
    "audio_filepath",
    "duration",
    "offset",
    "sampling_rate",
    "shard_id",
    "text",
    "speaker",
    "label",
}


class NemoExport(Export):
    """Manifests for NeMo, one for each split; with `--tarred`, of the tar shards.

    Args:
        virtual: Describe the pieces as stretches of the original recordings, which NeMo then reads.
        tarred: Make a tarred data set of hard links to the tar shards, and a manifest for each of them.
    """

    def __init__(self, corpus: Corpus, virtual: bool = False, tarred: bool = False) -> None:  # noqa: FBT001, FBT002
        super().__init__(corpus)
        self._virtual, self._tarred = virtual, tarred
        if virtual and tarred:
            raise Refused("nemo --tarred: reads the pieces from their shards; leave --virtual out")
        if tarred and is_url(corpus.folder):
            raise Refused(
                f"nemo --tarred: {corpus.output}: links shards of this machine; copy the folder first"
            )
        corpus.need_sound("nemo", virtual=virtual)
        self._more = [name for name in corpus.columns if name not in _OWN]

    def write(self, target: ExportTarget) -> None:
        """Write a line for each piece."""
        shards: dict[tuple[str, str], int] = {}
        counts: dict[str, int] = {}
        for piece in self.corpus.pieces():
            if not self._tarred:
                target.open("manifest.json", split=piece.split).write(json_line(self._entry(piece, target)))
                continue
            split = piece.split or "all"
            number = shards.get((split, piece.shard))
            if number is None:
                # NeMo wants the numbers of a data set to be 0, 1, 2 and so on
                number = shards[split, piece.shard] = counts.get(split, 0)
                counts[split] = number + 1
                self._link(piece, target, f"{split}/audio_{number}.tar")
            line = json_line({**self._entry(piece, target), "shard_id": number})
            target.open(f"{split}/sharded_manifests/manifest_{number}.json").write(line)
            target.open(f"{split}/tarred_audio_manifest.json").write(line)

    def _link(self, piece: Piece, target: ExportTarget, name: str) -> None:
        if not piece.shard.endswith(".tar"):
            raise Refused(
                f"{piece.name}: is not in a tar shard; run with --sink webdataset, or leave --tarred out"
            )
        target.link(self.corpus.shard_path(piece), target.path(name))

    def _entry(self, piece: Piece, target: ExportTarget) -> dict[str, Any]:
        span = piece.span(virtual=self._virtual)
        if self._tarred:
            path = shard_of(piece.name)[1]
        else:
            path = target.source_path(piece) if self._virtual else target.path_of(piece)
        entry: dict[str, Any] = {
            "audio_filepath": path,
            "duration": span.frames / span.rate,
            "text": piece.text,
        }
        if self._virtual:
            entry["offset"] = span.start / span.rate
        elif span.file_channels == 1:
            # with several channels, or a part of a file, NeMo must look at the file itself
            entry["sampling_rate"] = span.rate
        if piece.speaker:
            entry["speaker"] = piece.speaker
        if labels := piece.labels:
            entry["label"] = join_labels(label.name for label in labels)
        entry |= {name: piece[name] for name in self._more}
        if "language" in entry:
            entry.setdefault("lang", entry["language"])
        return entry
