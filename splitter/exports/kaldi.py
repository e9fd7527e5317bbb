"""Kaldi: data folders with wav.scp, utt2spk, spk2utt, text and segments."""

import re

from splitter.errors import Refused
from splitter.exports.base import Export
from splitter.exports.corpus import Corpus
from splitter.exports.piece import Piece, SampleSpan
from splitter.exports.target import ExportTarget
from splitter.storage.layout import key_hash

# the folder of a corpus without splits
WHOLE = "all"
UNKNOWN = "unknown"
# these characters sort after the hyphen between the speaker and the rest of an utterance's name, so that
# utterances and speakers are in the same order
_PLAIN_SPEAKER = re.compile(r"[A-Za-z0-9_.]+")
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9_.]+")


class KaldiExport(Export):
    """Data folders for Kaldi and ESPnet: wav.scp, segments, utt2spk, spk2utt, text.

    Args:
        virtual: Describe the pieces as segments of the original recordings, which Kaldi then reads.
    """

    def __init__(self, corpus: Corpus, virtual: bool = False) -> None:  # noqa: FBT001, FBT002 - an option
        super().__init__(corpus)
        self._virtual = virtual
        corpus.need_sound("kaldi", virtual=virtual)

    def write(self, target: ExportTarget) -> None:
        """Write the lines of each piece; then, from the sorted lines, the utterances of each speaker."""
        written: set[tuple[str, str]] = set()
        folders: dict[str, None] = {}
        for piece in self.corpus.pieces():
            folder = piece.split or WHOLE
            folders[folder] = None
            span = self._span(piece)
            speaker = self._speaker(piece)
            utterance = f"{speaker}-{piece.key}" if speaker else piece.key
            recording = span.key if self._virtual else utterance
            lines = self._lines(piece, span, utterance, recording, speaker)
            if not self._virtual or (folder, recording) not in written:
                path = target.source_path(piece) if self._virtual else target.path_of(piece)
                lines["wav.scp"] = [recording, _checked(path)]
                lines["reco2dur"] = [recording, _seconds(span.file_frames, span.rate)]
                if self._virtual:
                    written.add((folder, recording))
            for name, words in lines.items():
                target.open(f"{folder}/{name}", ordered=True).write(f"{' '.join(words)}\n")
        for folder in folders:
            _write_spk2utt(target, folder)

    def _span(self, piece: Piece) -> SampleSpan:
        span = piece.span(virtual=self._virtual)
        if span.file_channels > 1:
            file = piece.source if self._virtual else piece.name
            raise Refused(
                f"{file}: has {span.file_channels} channels, and kaldi reads one; cut with --channels mono "
                "or split, and export without --virtual"
            )
        return span

    def _lines(
        self, piece: Piece, span: SampleSpan, utterance: str, recording: str, speaker: str
    ) -> dict[str, list[str]]:
        """Return the line of a piece in each file, as a list of words."""
        start, stop = (_seconds(at, span.rate) for at in (span.start, span.start + span.frames))
        lines = {
            "utt2spk": [utterance, speaker or utterance],
            "utt2dur": [utterance, _seconds(span.frames, span.rate)],
            "segments": [utterance, recording, start, stop],
        }
        if self.corpus.has_texts:
            # white space other than a single space would add fields, or end the line
            lines["text"] = [utterance, *piece.text.encode("utf-8", "replace").decode().split()]
        return lines

    def _speaker(self, piece: Piece) -> str:
        """Return a name that only this speaker has; empty if the manifest has no speakers."""
        if not self.corpus.has_speakers:
            return ""
        speaker = piece.speaker
        if _PLAIN_SPEAKER.fullmatch(speaker):
            return speaker
        if not speaker:
            return UNKNOWN
        return f"{_NOT_PLAIN.sub('_', speaker).strip('_')}.{key_hash(speaker):016x}"


def _write_spk2utt(target: ExportTarget, folder: str) -> None:
    """Write each speaker's utterances; once sorted, they are consecutive, as they begin with its name."""
    path = target.finish(f"{folder}/utt2spk")
    spk2utt = target.open(f"{folder}/spk2utt")
    before = ""
    with open(path, encoding="utf-8") as file:
        for line in file:
            utterance, speaker = line.split()
            if speaker != before:
                spk2utt.write(f"\n{speaker}" if before else speaker)
                before = speaker
            spk2utt.write(f" {utterance}")
    spk2utt.write("\n")


def _checked(path: str) -> str:
    """Return a path; refuse one that Kaldi would run as a command, or cut short."""
    if path != path.strip().lstrip("|~-").rstrip("|") or "\n" in path or "\r" in path:
        raise Refused(
            f"{path!r:.500}: Kaldi would not read such a path as a file; rename it, or leave it out with "
            "--where"
        )
    return path


def _seconds(samples: int, rate: int) -> str:
    """Return samples as seconds, with enough digits to be exact to the sample."""
    return f"{samples / rate:.9f}".rstrip("0").rstrip(".")
