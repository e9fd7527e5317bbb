"""lhotse: recordings, supervisions and cuts, as its `CutSet` opens them."""

from typing import Any

from splitter.exports.base import Export, json_of
from splitter.exports.corpus import Corpus
from splitter.exports.piece import Piece, SampleSpan
from splitter.exports.target import ExportTarget
from splitter.text.labels import join_labels


class LhotseExport(Export):
    """Recordings, supervisions and cuts for lhotse and icefall, as `.jsonl.gz`.

    Args:
        virtual: Describe the pieces as stretches of the original recordings, which lhotse then reads.
    """

    def __init__(self, corpus: Corpus, virtual: bool = False) -> None:  # noqa: FBT001, FBT002 - an option
        super().__init__(corpus)
        self._virtual = virtual
        corpus.need_sound("lhotse", virtual=virtual)
        # columns of the list that lhotse has no field for
        self._more = [name for name in corpus.columns if name not in ("input", "text", "speaker")]

    def write(self, target: ExportTarget) -> None:
        """Write a line for each cut, for its supervision, and for its recording if that has none yet."""
        written: set[tuple[str, str]] = set()
        key = recording = ""
        for piece in self.corpus.pieces():
            split = piece.split
            span = piece.span(virtual=self._virtual)
            if span.key != key:
                key, recording = span.key, json_of(self._recording(piece, span, target))
            if not self._virtual or (split, key) not in written:
                target.open("recordings.jsonl.gz", split=split).write(f"{recording}\n")
                if self._virtual:
                    written.add((split, key))
            supervision = self._supervision(piece, span)
            text = json_of(supervision)
            target.open("supervisions.jsonl.gz", split=split).write(f"{text}\n")
            if span.start:
                # in a cut, times count from its start
                text = json_of({**supervision, "start": 0.0})
            head = {name: supervision[name] for name in ("id", "start", "duration", "channel")}
            kind = "MonoCut" if len(span.channels) == 1 else "MultiCut"
            cut = json_of({**head, "type": kind}).rstrip("}")
            line = f'{cut}, "supervisions": [{text}], "recording": {recording}}}\n'
            target.open("cuts.jsonl.gz", split=split).write(line)

    def _supervision(self, piece: Piece, span: SampleSpan) -> dict[str, Any]:
        found: dict[str, Any] = {
            "id": piece.key,
            "recording_id": span.key,
            "start": span.start / span.rate,
            "duration": span.frames / span.rate,
            "channel": span.channels[0] if len(span.channels) == 1 else span.channels,
        }
        if self.corpus.has_texts:
            found["text"] = piece.text
        if piece.speaker:
            found["speaker"] = piece.speaker
        custom = {name: piece[name] for name in self._more}
        if labels := piece.labels:
            custom["labels"] = join_labels(label.name for label in labels)
        return {**found, "custom": custom} if custom else found

    def _recording(self, piece: Piece, span: SampleSpan, target: ExportTarget) -> dict[str, Any]:
        channels = [*range(span.file_channels)]
        path = target.source_path(piece) if self._virtual else target.path_of(piece)
        return {
            "id": span.key,
            "sources": [{"type": "file", "channels": channels, "source": path}],
            "sampling_rate": span.rate,
            "num_samples": span.file_frames,
            "duration": span.file_frames / span.rate,
            "channel_ids": channels,
        }
