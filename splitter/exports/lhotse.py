"""lhotse: recordings, supervisions and cuts, as its `CutSet` opens them."""

from typing import Any

from splitter.exports.base import Export, json_line
from splitter.exports.corpus import Corpus, Piece, SampleSpan
from splitter.exports.target import ExportTarget
from splitter.text.labels import join_labels


class LhotseExport(Export):
    """Recordings, supervisions and cuts for lhotse and icefall, as `.jsonl.gz`.

    Args:
        virtual: Describe the pieces as stretches of the original recordings, whose files are then read.
    """

    def __init__(self, corpus: Corpus, virtual: bool = False) -> None:  # noqa: FBT001, FBT002 - an option
        super().__init__(corpus)
        self._virtual = virtual
        corpus.need_sound("lhotse", virtual=virtual)
        # what the list says of a piece, beyond what lhotse has a name for
        self._more = [name for name in corpus.columns if name not in ("input", "text", "speaker")]

    def write(self, target: ExportTarget) -> None:
        """Write a line for each cut, its supervision, and its recording unless that is written."""
        recordings: set[tuple[str, str]] = set()
        for piece in self.corpus.pieces():
            split = piece.split
            span = piece.span(virtual=self._virtual)
            recording = _recording(piece, span, target)
            if not self._virtual or (split, span.key) not in recordings:
                target.open("recordings.jsonl.gz", split=split).write(json_line(recording))
                if self._virtual:
                    recordings.add((split, span.key))
            supervision = self._supervision(piece, span)
            target.open("supervisions.jsonl.gz", split=split).write(json_line(supervision))
            cut = {
                "id": piece.key,
                "start": span.start / span.rate,
                "duration": span.frames / span.rate,
                "channel": supervision["channel"],
                # counted from the start of the cut
                "supervisions": [{**supervision, "start": 0.0}],
                "recording": recording,
                "type": "MonoCut" if len(span.channels) == 1 else "MultiCut",
            }
            target.open("cuts.jsonl.gz", split=split).write(json_line(cut))

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


def _recording(piece: Piece, span: SampleSpan, target: ExportTarget) -> dict[str, Any]:
    channels = [*range(span.file_channels)]
    path = target.source_path(piece) if span.of_source else target.path_of(piece)
    return {
        "id": span.key,
        "sources": [{"type": "file", "channels": channels, "source": path}],
        "sampling_rate": span.rate,
        "num_samples": span.file_frames,
        "duration": span.file_frames / span.rate,
        "channel_ids": channels,
    }
