"""ljspeech, piper, coqui: a `metadata.csv` with a line for each piece and its text, to train a voice."""

import csv
from typing import Any, ClassVar

from splitter.errors import Refused
from splitter.exports.base import Export
from splitter.exports.corpus import Corpus
from splitter.exports.piece import Piece
from splitter.exports.target import ExportTarget
from splitter.text.urls import is_url

NAME = "metadata.csv"


class LinesExport(Export):
    """A CSV file for each split, with `|` between the values."""

    name: str
    header: tuple[str, ...] = ()

    def __init__(self, corpus: Corpus) -> None:
        super().__init__(corpus)
        if not corpus.has_texts:
            raise Refused(
                f"{self.name}: the manifest has no texts; name their column with --text, or transcribe the "
                "pieces"
            )

    def write(self, target: ExportTarget) -> None:
        """Write a line for each piece."""
        writers: dict[str, Any] = {}
        for piece in self.corpus.pieces():
            split = piece.split
            if split not in writers:
                file: Any = target.open(NAME, split=split)
                writers[split] = csv.writer(file, delimiter="|", lineterminator="\n")
                if self.header:
                    writers[split].writerow(self.header)
            writers[split].writerow(self.values(piece, target))

    def values(self, piece: Piece, target: ExportTarget) -> list[str]:
        """Return the values of a line; add the file of the piece to the export if the line needs it there."""
        raise NotImplementedError


class LjspeechExport(LinesExport):
    """Voices in the layout of LJSpeech: `wavs/ID.wav`, and `ID|text|normalised text` in metadata.csv.

    Args:
        normalised: The column that holds the text as read aloud, without digits. Default: the text itself.
    """

    unused: ClassVar[frozenset[str]] = frozenset({"absolute", "speaker"})

    name = "ljspeech"

    def __init__(self, corpus: Corpus, normalised: str = "") -> None:
        super().__init__(corpus)
        if normalised:
            corpus.need("ljspeech --normalised", normalised, advice="name one of its columns")
        self._normalised = normalised

    def values(self, piece: Piece, target: ExportTarget) -> list[str]:
        """Return the key and the texts; refuse a `|` in them, as no reader of this layout knows quotes."""
        if piece.ending.lower() != ".wav":
            raise Refused(f"{piece.name}: is not WAV, which ljspeech needs; run again with --format wav")
        text = spoken(piece, piece.text)
        read = spoken(piece, piece[self._normalised]) if self._normalised else text
        if "|" in text or "|" in read:
            raise Refused(
                f"{piece.name}: its text has a |, which ljspeech cannot hold; leave it out with --where, or "
                "export to piper or coqui"
            )
        target.add(piece, f"wavs/{piece.key}.wav")
        return [piece.key, text, read]

    def write(self, target: ExportTarget) -> None:
        """Write a line for each piece, without quotes."""
        for piece in self.corpus.pieces():
            line = "|".join(self.values(piece, target))
            target.open(NAME, split=piece.split).write(f"{line}\n")


class PiperExport(LinesExport):
    """Voices for Piper: `wavs`, and `file|text` or `file|speaker|text` in metadata.csv."""

    unused: ClassVar[frozenset[str]] = frozenset({"absolute"})

    name = "piper"

    def values(self, piece: Piece, target: ExportTarget) -> list[str]:
        """Return the file below `wavs`, the folder that `--data.audio_dir` names, then speaker and text."""
        speaker = [one_line(piece.speaker)] if self.corpus.has_speakers else []
        text = spoken(piece, piece.text)
        file = f"{piece.key}{piece.ending}"
        target.add(piece, f"wavs/{file}")
        return [file, *speaker, text]


class CoquiExport(LinesExport):
    """Voices for Coqui's TTS, formatter `coqui`: paths, texts and speakers in metadata.csv."""

    name = "coqui"

    def __init__(self, corpus: Corpus) -> None:
        super().__init__(corpus)
        self.header = ("audio_file", "text", *(("speaker_name",) if corpus.has_speakers else ()))

    def values(self, piece: Piece, target: ExportTarget) -> list[str]:
        """Return the path, which cannot be a URL, then text and speaker."""
        path = target.path_of(piece)
        if is_url(path):
            path = target.add(piece, f"wavs/{piece.key}{piece.ending}")
        return [path, spoken(piece, piece.text), *([one_line(piece.speaker)] * self.corpus.has_speakers)]


def one_line(text: str) -> str:
    """Return a text without line breaks."""
    return " ".join(text.split()) if "\n" in text or "\r" in text else text


def spoken(piece: Piece, text: str) -> str:
    """Return the text of a piece on one line; refuse a piece without text."""
    text = one_line(text)
    if not text.strip():
        raise Refused(f"{piece.name}: has no text to learn a voice from; leave it out with --where")
    return text
