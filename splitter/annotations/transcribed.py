"""The spoken text of an annotation, its speaker, and the times of its words."""

import functools
import re
from collections.abc import Iterable, Iterator
from fractions import Fraction
from itertools import pairwise

from splitter.annotations.rows import Row, Word, seconds

TEXTS = ("text", "transcript", "transcription", "sentence", "word")
SPEAKERS = ("speaker", "speaker_id")
# a text, its start and its end, as they were written
WrittenWord = tuple[str, str, str]


def text_and_speaker(row: Row) -> tuple[str | None, str]:
    """Return the spoken text, None if the file does not have it, and the speaker, or an empty text."""
    text, speaker = _positions(row.called, row.names)
    fields = (row.label, *row.values)
    return (row.label if row.spoken else None if text is None else fields[text]), (
        "" if speaker is None else fields[speaker] or ""
    )


@functools.lru_cache
def _positions(called: str, names: tuple[str, ...]) -> tuple[int | None, int | None]:
    """Return the positions of the text and the speaker among the label and the other fields."""
    plain = [re.sub(r"\W+", "_", name.strip().lower()) for name in (called, *names)]
    text, speaker = (
        next((plain.index(name) for name in candidates if name in plain), None)
        for candidates in (TEXTS, SPEAKERS)
    )
    return text, speaker


def words_in(text: str, words: Iterable[WrittenWord]) -> tuple[Word, ...]:
    """Divide a text at its words, or return () if they differ; a word without times joins the one before.

    >>> [word.text for word in words_in("Oh, I do.", [("Oh,", "1", "2"), ("I", "", ""), ("do.", "3", "4")])]
    ['Oh, I ', 'do.']
    """
    starts: list[int] = []
    times: list[tuple[Fraction, Fraction]] = []
    at = 0
    for written, start, end in words:
        word = written.strip()
        position = text.find(word, at)
        if position < 0 or text[at:position].strip():
            return ()
        at = position + len(word)
        if word and (time := _times(start, end)):
            starts.append(position)
            times.append(time)
    if text[at:].strip() or not starts:
        return ()
    edges = [0, *starts[1:], len(text)]
    return tuple(
        Word(*time, text[first:last]) for time, (first, last) in zip(times, pairwise(edges), strict=True)
    )


def _times(start: str, end: str) -> tuple[Fraction, Fraction] | None:
    try:
        first, last = seconds(start), seconds(end)
    except ValueError:
        return None
    return (first, last) if 0 <= first <= last else None


def joined_tokens(tokens: Iterable[WrittenWord]) -> Iterator[WrittenWord]:
    """Join tokens to words, each of which begins with a space; leave out control tokens, such as [_BEG_]."""
    word: WrittenWord | None = None
    for text, start, end in tokens:
        if text.startswith("[_"):
            continue
        if word is not None and not text.startswith(" "):
            word = word[0] + text, word[1], end
            continue
        if word is not None:
            yield word
        word = text, start, end
    if word is not None:
        yield word
