"""RTTM: who speaks when."""

from collections.abc import Iterator

from splitter.exports.annotation import AnnotationExport, MarkedRecording, seconds


class RttmExport(AnnotationExport):
    """RTTM for pyannote, NeMo and scoring: who speaks when, in a file for each recording."""

    name = "rttm"
    ending = ".rttm"
    contents = ("speaker", "labels", "text", "name")
    cannot_hold = r"\s"

    def lines(self, recording: MarkedRecording) -> Iterator[str]:
        """Yield a line for each turn."""
        name = recording.word
        for mark in recording.marks:
            times = f"{seconds(mark.start)} {seconds(mark.end - mark.start)}"
            about = f"{name} {mark.channel + 1} {times}"
            yield f"SPEAKER {about} <NA> <NA> {mark.label} <NA> <NA>\n"
