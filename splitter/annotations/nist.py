"""RTTM and CTM, the line formats of NIST: who speaks when, and which word."""

import re
import sys
from collections.abc import Iterable, Iterator

from splitter.annotations.rows import Malformed, Row, lines, shown

_COMMENT = ";;"
_UNKNOWN = frozenset(("<NA>", "NA"))
_OTHER_RTTM = frozenset(
    (
        *("SEGMENT", "NOSCORE", "NO_RT_METADATA", "LEXEME", "NON-LEX", "NON-SPEECH"),
        *("FILLER", "EDIT", "SU", "IP", "CB", "A/P", "SPKR-INFO"),
    )
)
_RTTM_FIELDS = (9, 10)
_RTTM_NAMES = ("channel", "text", "speaker_type", "confidence", "lookahead")
_CTM_FIELDS = range(5, 9)
_CTM_NAMES = ("channel", "confidence", "type", "speaker")


def read_rttm(text: str) -> Iterator[Row]:
    """Yield the SPEAKER lines, with the speaker as the label; skip other types of lines."""
    for number, fields in _fields(text):
        if fields[0] in _OTHER_RTTM:
            continue
        if fields[0] != "SPEAKER":
            raise Malformed(number, f"{shown(fields[0])} is not a type of RTTM line; expected SPEAKER")
        if len(fields) not in _RTTM_FIELDS:
            raise Malformed(number, f"has {len(fields)} fields where RTTM has 10, with no space in any")
        _, recording, channel, start, duration, spoken, kind, speaker, *rest = fields
        columns = _columns(_RTTM_NAMES, (channel, spoken, kind, *rest))
        speaker, recording = sys.intern(speaker), sys.intern(recording)
        yield Row(number, start, duration, speaker, *columns, recording, lasts=True, called="speaker")


def read_ctm(text: str) -> Iterator[Row]:
    """Yield one word per line."""
    for number, fields in _fields(text):
        if len(fields) not in _CTM_FIELDS:
            raise Malformed(number, f"has {len(fields)} fields where CTM has 5 to 8")
        recording, channel, start, duration, word, *rest = fields
        columns = _columns(_CTM_NAMES, (channel, *rest))
        word, recording = sys.intern(word), sys.intern(recording)
        yield Row(number, start, duration, word, *columns, recording, lasts=True, called="word")


def _fields(text: str) -> Iterator[tuple[int, list[str]]]:
    for number, line in lines(text):
        if (line := line.strip(" \t")) and not line.startswith(_COMMENT):
            yield number, re.split("[ \t]+", line)


def _columns(names: tuple[str, ...], values: Iterable[str]) -> tuple[tuple[str, ...], tuple[str | None, ...]]:
    # store repeated values only once, since one file may hold the words of ten thousand recordings
    known = tuple(None if value in _UNKNOWN else sys.intern(value) for value in values)
    return names[: len(known)], known
