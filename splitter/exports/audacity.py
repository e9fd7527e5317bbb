"""Audacity: label tracks, as File > Import > Labels reads them."""

from collections.abc import Iterator

from splitter.exports.annotation import AnnotationExport, MarkedRecording, seconds


class AudacityExport(AnnotationExport):
    """An Audacity label track for each recording."""

    name = "audacity"
    ending = ".txt"
    cannot_hold = r"[\t\r\n]"
    holds_empty = True

    def lines(self, recording: MarkedRecording) -> Iterator[str]:
        """Yield a line for each label: start, end and text, separated by tabs."""
        for mark in recording.marks:
            yield f"{seconds(mark.start)}\t{seconds(mark.end)}\t{mark.label}\n"
