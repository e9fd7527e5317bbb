"""TextGrids, as Praat writes them: in the long text format or the short one."""

import re
from bisect import bisect_left
from collections.abc import Iterator
from typing import Literal

from splitter.annotations.rows import Malformed, Row, is_number, shown

# as in Praat itself, only quoted texts, numbers and flags count; everything else is for people to read
_TOKEN = re.compile(r'"(?P<text>(?:[^"]|"")*)"|(?P<open>")|(?P<comment>!.*)|(?P<word>[^\s"]+)')
_is_flag = re.compile("<[a-z]+>").fullmatch
_INTERVALS, _POINTS = "IntervalTier", "TextTier"
# tiers as the Montreal Forced Aligner, WebMAUS and people name them: with several speakers, `NAME - words`;
# `text 2` has the texts that overlap those of `text`
_is_of_words = re.compile(r"(?:(?P<speaker>.+) - )?(?:words?|ort-mau)(?: \d+)?", re.IGNORECASE).fullmatch
_is_of_texts = re.compile(
    r"(?:(?P<speaker>.+) - )?(?:text|transcript(?:ion)?|sentences?|utterances?|ort|orthography)(?: \d+)?",
    re.IGNORECASE,
).fullmatch


def read_textgrid(text: str) -> Iterator[Row]:
    """Yield the points of all tiers, and the intervals that have a text.

    Tiers of words are marked as spoken or, if there are none, tiers of texts.
    """
    rows = list(_rows(text))
    for is_spoken in (_is_of_words, _is_of_texts):
        tiers = {row.values[0]: found for row in rows if (found := is_spoken(row.values[0] or ""))}
        if tiers:
            break
    for row in rows:
        tier = tiers.get(row.values[0])
        speaker = tier["speaker"] if tier else None
        names, values = (("tier", "speaker"), (*row.values, speaker)) if speaker else (row.names, row.values)
        yield row._replace(names=names, values=values, spoken=tier is not None)


def _rows(text: str) -> Iterator[Row]:
    if text.startswith("ooBinaryFile"):
        raise Malformed(1, "is the header of a binary TextGrid; save it as a text file in Praat")
    tokens = _Tokens(text)
    if not tokens.take("text").startswith("ooTextFile") or tokens.take("text") != "TextGrid":
        raise Malformed(tokens.line, "is not the header of a TextGrid")
    tokens.take_span()
    if tokens.take("flag") == "<exists>":
        for _ in range(tokens.take_count()):
            yield from _tier(tokens)


def _tier(tokens: "_Tokens") -> Iterator[Row]:
    kind = tokens.take("text")
    if kind not in (_INTERVALS, _POINTS):
        raise Malformed(
            tokens.line, f"{shown(kind)} is not a kind of tier; expected {_INTERVALS} or {_POINTS}"
        )
    columns = ("tier",), (tokens.take("text"),)
    tokens.take_span()
    for _ in range(tokens.take_count()):
        start = tokens.take("number")
        line = tokens.line
        end = tokens.take("number") if kind == _INTERVALS else start
        label = tokens.take("text").strip()
        if label or kind == _POINTS:
            yield Row(line, start, end, label, *columns)


class _Tokens:
    """The tokens that count in the text of a TextGrid."""

    def __init__(self, text: str) -> None:
        text = text.replace("\r\n", "\n").replace("\r", "\n").rstrip()
        self._line_ends = [match.start() for match in re.finditer("\n", text)]
        self._matches = _TOKEN.finditer(text)
        self._at = 0
        self._size = len(text)

    @property
    def line(self) -> int:
        """The line that the last token starts in."""
        return bisect_left(self._line_ends, self._at) + 1

    def take(self, kind: Literal["text", "number", "flag"]) -> str:
        """Return the next token, which must be of this kind."""
        found, token = self._next()
        if not found:
            raise Malformed(self.line, f"is the last, and a {kind} is missing after it")
        if found != kind:
            raise Malformed(self.line, f"has the {found} {shown(token)} where a {kind} should be")
        return token

    def take_span(self) -> None:
        """Skip the start and end of a tier or file."""
        self.take("number")
        self.take("number")

    def take_count(self) -> int:
        """Return the next token, which must be a count of what follows."""
        number = self.take("number")
        if not number.isdecimal() or not is_number(number):
            raise Malformed(self.line, f"has {shown(number)} where a count should be")
        return int(number)

    def _next(self) -> tuple[str, str]:
        for match in self._matches:
            kind, token = match.lastgroup, match.group()
            self._at = match.start()
            if kind == "open":
                raise Malformed(self.line, "has a quote that opens a text and is never closed")
            if kind == "text":
                return "text", match["text"].replace('""', '"')
            # a number with more digits than a time can have is still a number, not text for people
            if kind == "word" and (is_number(token) or token.isdecimal()):
                return "number", token
            if kind == "word" and _is_flag(token):
                return "flag", token
        self._at = self._size
        return "", ""
