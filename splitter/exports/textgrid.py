"""TextGrid: tiers for Praat."""

from collections.abc import Iterator

from splitter.exports.annotation import AnnotationExport, Mark, MarkedRecording, seconds

_TIERS = {"text": "text", "labels": "labels", "speaker": "speakers", "name": "pieces"}


class TextGridExport(AnnotationExport):
    """A Praat TextGrid for each recording; annotations that overlap are in different tiers."""

    name = "textgrid"
    ending = ".TextGrid"
    cannot_hold = r"\r"
    names_speakers = True

    def lines(self, recording: MarkedRecording) -> Iterator[str]:
        """Yield the head and the tiers, in Praat's long format."""
        tiers = self._tiers(recording)
        length = seconds(recording.length)
        yield f'File type = "ooTextFile"\nObject class = "TextGrid"\n\nxmin = 0.0\nxmax = {length}\n'
        yield f"tiers? <exists>\nsize = {len(tiers)}\nitem []:\n"
        for number, (name, marks) in enumerate(tiers.items(), 1):
            are_points = marks[0].start == marks[0].end
            yield f"    item [{number}]:\n"
            yield f'        class = "{"TextTier" if are_points else "IntervalTier"}"\n'
            yield f"        name = {_quoted(name)}\n        xmin = 0.0\n        xmax = {length}\n"
            yield from _points(marks) if are_points else _intervals(marks, recording.length)

    def _tiers(self, recording: MarkedRecording) -> dict[str, list[Mark]]:
        """Return the annotations by tier; within a tier, none overlap."""
        tiers: dict[str, list[Mark]] = {}
        for mark in recording.marks:
            name = self.checked(mark.piece["annotation_tier"], mark.piece) or _TIERS[self.content]
            if self.content == "text" and mark.speaker:
                name = f"{mark.speaker} - {name}"
            if mark.start == mark.end:
                name += " points"
            tier, number = name, 1
            while tier in tiers and not _follows(tiers[tier][-1], mark):
                number += 1
                tier = f"{name} {number}"
            tiers.setdefault(tier, []).append(mark)
        return tiers


def _follows(before: Mark, mark: Mark) -> bool:
    """Return whether a mark fits into the tier of the one before; points and intervals never share a tier."""
    kinds_differ = (before.start == before.end) != (mark.start == mark.end)
    return not kinds_differ and before.end <= mark.start and before.start < mark.start


def _quoted(text: str) -> str:
    doubled = text.replace('"', '""')
    return f'"{doubled}"'


def _intervals(marks: list[Mark], length: int) -> Iterator[str]:
    """Yield the intervals of a tier, with empty ones in the gaps."""
    found: list[tuple[int, int, str]] = []
    at = 0
    for mark in marks:
        if at < mark.start:
            found.append((at, mark.start, ""))
        found.append((mark.start, mark.end, mark.label))
        at = mark.end
    if at < length:
        found.append((at, length, ""))
    yield f"        intervals: size = {len(found)}\n"
    for number, (start, end, label) in enumerate(found, 1):
        times = f"            xmin = {seconds(start)}\n            xmax = {seconds(end)}\n"
        yield f"        intervals [{number}]:\n{times}            text = {_quoted(label)}\n"


def _points(marks: list[Mark]) -> Iterator[str]:
    yield f"        points: size = {len(marks)}\n"
    for number, mark in enumerate(marks, 1):
        yield f"        points [{number}]:\n            number = {seconds(mark.start)}\n"
        yield f"            mark = {_quoted(mark.label)}\n"
