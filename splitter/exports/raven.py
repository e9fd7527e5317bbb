"""Raven: selection tables."""

from collections.abc import Iterator

from splitter.exports.annotation import AnnotationExport, MarkedRecording, seconds

_HEADER = (
    *("Selection", "View", "Channel", "Begin Time (s)", "End Time (s)", "Low Freq (Hz)", "High Freq (Hz)"),
)


class RavenExport(AnnotationExport):
    """A Raven selection table for each recording."""

    name = "raven"
    ending = ".Table.1.selections.txt"
    cannot_hold = r"[\t\r\n]"
    holds_empty = True
    names_speakers = True

    def lines(self, recording: MarkedRecording) -> Iterator[str]:
        """Yield the names of the columns, then a line for each selection; Raven does not know quotes."""
        has_speakers = any(mark.speaker for mark in recording.marks)
        label = "Text" if self.content == "text" else "Annotation"
        yield "\t".join((*_HEADER, label, *(["Speaker"] if has_speakers else []))) + "\n"
        for number, mark in enumerate(recording.marks, 1):
            # a selection also spans frequencies: all of them, unless it was read from a Raven table
            low = mark.piece["annotation_low_freq_hz"] or "0.0"
            high = mark.piece["annotation_high_freq_hz"] or str(mark.piece.number("source_rate") / 2)
            about = (str(number), "Spectrogram 1", str(mark.channel + 1))
            fields = (*about, seconds(mark.start), seconds(mark.end), low, high, mark.label)
            yield "\t".join((*fields, *([mark.speaker] if has_speakers else []))) + "\n"
