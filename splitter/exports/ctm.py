"""CTM: when each word is spoken."""

from collections.abc import Iterator

from splitter.exports.annotation import AnnotationExport, MarkedRecording, seconds


class CtmExport(AnnotationExport):
    """CTM for Kaldi, NeMo and scoring: when each word is spoken, in a file for each recording."""

    name = "ctm"
    ending = ".ctm"
    # labels read from a CTM are its words, with their times
    contents = ("labels", "text", "name")
    cannot_hold = r"\s"

    def lines(self, recording: MarkedRecording) -> Iterator[str]:
        """Yield a line for each word."""
        name = recording.word
        for mark in recording.marks:
            times = f"{seconds(mark.start)} {seconds(mark.end - mark.start)}"
            yield f"{name} {mark.channel + 1} {times} {mark.label}\n"
