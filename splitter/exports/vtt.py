"""WebVTT: subtitles with speakers, for the web."""

import html
from collections.abc import Iterator

from splitter.exports.annotation import (
    NOT_IN_CUES,
    AnnotationExport,
    MarkedRecording,
    clock,
    milliseconds_of,
)


class VttExport(AnnotationExport):
    """WebVTT subtitles with speakers for each recording, to the millisecond."""

    name = "vtt"
    ending = ".vtt"
    cannot_hold = NOT_IN_CUES
    names_speakers = True

    def lines(self, recording: MarkedRecording) -> Iterator[str]:
        """Yield the head and the cues."""
        yield "WEBVTT\n"
        for mark in recording.marks:
            if milliseconds_of(mark.start) == milliseconds_of(mark.end):
                self.refuse(mark.label, mark.piece, "lasts less than a millisecond, which no cue can")
            times = f"{clock(mark.start, '.')} --> {clock(mark.end, '.')}"
            voice = f"<v {_escaped(mark.speaker)}>" if mark.speaker else ""
            yield f"\n{times}\n{voice}{_escaped(mark.label)}\n"


def _escaped(text: str) -> str:
    return html.escape(text, quote=False)
