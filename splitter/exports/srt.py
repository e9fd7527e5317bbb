"""SubRip: subtitles without styles."""

from collections.abc import Iterator

from splitter.exports.annotation import NOT_IN_CUES, AnnotationExport, MarkedRecording, clock


class SrtExport(AnnotationExport):
    """SRT subtitles for each recording, to the millisecond."""

    name = "srt"
    ending = ".srt"
    # SRT cannot escape what players take for tags
    cannot_hold = rf"{NOT_IN_CUES}|-->|</?(?:[a-zA-Z]|\d[\d:.]*>|>)|\{{\\"

    def lines(self, recording: MarkedRecording) -> Iterator[str]:
        """Yield the cues, counted from 1."""
        for number, mark in enumerate(recording.marks, 1):
            yield f"{number}\n{clock(mark.start, ',')} --> {clock(mark.end, ',')}\n{mark.label}\n\n"
