"""SubRip (SRT) and WebVTT subtitles."""

import html
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

from splitter.annotations.rows import CLOCK, Malformed, Row, lines, shown

Line = tuple[int, str]

_ARROW = "-->"
_timing = re.compile(rf"\s*({CLOCK})\s*-->\s*({CLOCK})(?:\s.*)?", re.ASCII).fullmatch
_looks_like_timing = re.compile(rf"\s*{CLOCK}[^\w:]+{CLOCK}\b", re.ASCII).match
_TAG = re.compile(r"</?(?:[a-zA-Z][^>]*|\d[\d:.]*)?>")
_OVERRIDE = re.compile(r"\{\\[^}]*\}")
_VOICE = re.compile(r"<v(?:\.[^\s>]*)?[ \t]+([^>]+)>")
_is_head = re.compile(r"WEBVTT(?:[ \t].*)?").fullmatch
_is_note = re.compile(r"(?:NOTE|STYLE|REGION)(?:\s.*)?").fullmatch


def read_srt(text: str) -> Iterator[Row]:
    """Yield the cues: each is a number, times, and lines of text, some of which may be empty."""
    timing: Line | None = None
    name = ""
    body: list[Line] = []
    for number, line in lines(text):
        if _ARROW not in line:
            body.append((number, line))
            continue
        has_name = bool(body) and _is_cue_number(body, len(body) - 1)
        next_name = body.pop()[1].strip() if has_name else ""
        yield from _srt_cue(timing, name, body)
        timing, name, body = (number, line), next_name, []
    yield from _srt_cue(timing, name, body)


def read_vtt(text: str) -> Iterator[Row]:
    """Yield the cues among the blocks between empty lines; skip notes and styles."""
    blocks = _blocks(text)
    (number, first), *head = next(blocks, [(1, "")])
    if not _is_head(first):
        raise Malformed(number, f"{shown(first)} is not the header of a WebVTT file; expected WEBVTT")
    if any(_ARROW in line for _, line in head):
        raise Malformed(number, "needs an empty line between it and the first cue")
    for block in blocks:
        number, first = block[0]
        if _is_note(first):
            continue
        at = next((at for at, (_, line) in enumerate(block[:2]) if _ARROW in line), None)
        if at is None:
            raise Malformed(number, f"the cue {shown(first)} has no times")
        yield from _cue(block[at], first.strip() if at else "", block[at + 1 :], html.unescape)


def _is_cue_number(body: Sequence[Line], at: int) -> bool:
    return body[at][1].strip().isdecimal() and (at == 0 or not body[at - 1][1].strip())


def _srt_cue(timing: Line | None, name: str, body: list[Line]) -> Iterator[Row]:
    if timing:
        # the line right below the times is text, even if it is a number
        for at in range(1, len(body)):
            if _is_cue_number(body, at):
                number, line = body[at]
                raise Malformed(number, f"the cue {shown(line.strip())} has no times")
        yield from _cue(timing, name, body, lambda said: _OVERRIDE.sub("", said))
        return
    for number, line in body:
        if line.strip():
            raise Malformed(number, f"{shown(line)} is where a cue's times should be")


def _blocks(text: str) -> Iterator[list[Line]]:
    for is_empty, block in groupby(lines(text), lambda numbered: not numbered[1].strip()):
        if not is_empty:
            yield list(block)


def _cue(timing: Line, name: str, body: Sequence[Line], clean: Callable[[str], str]) -> Iterator[Row]:
    """Yield a cue of either format, unless it has no text."""
    number, line = timing
    times = _timing(line)
    if not times:
        raise Malformed(number, f"{shown(line)} is not of the form start --> end")
    for below, said in body:
        if _ARROW in said or _looks_like_timing(said):
            raise Malformed(below, f"{shown(said)} looks like times, but is in the text of a cue")
    text = "\n".join(said for _, said in body)
    speakers = "|".join(dict.fromkeys(clean(voice).strip() for voice in _VOICE.findall(text)))
    parts = (part.strip() for part in clean(_TAG.sub("", text)).split("\n"))
    label = " ".join(part for part in parts if part)
    if label:
        others = ("cue", "speaker"), (name or None, speakers or None)
        yield Row(number, times[1], times[2], label, *others, called="text")
