"""JSON of transcription programs: Whisper, WhisperX, faster-whisper, whisper.cpp, Transformers."""

from collections.abc import Iterator, Mapping
from typing import Any

from splitter.annotations.rows import Malformed, Row, in_milliseconds, shown
from splitter.annotations.transcribed import WrittenWord, joined_tokens, words_in
from splitter.text.csv import json_text, json_value

_LISTS = ("segments", "transcription", "chunks")
# fields that become no column: the times and the text themselves, and what only the program understands
_NO_COLUMNS = frozenset(("id", "seek", "start", "end", "text", "word", "timestamp", "timestamps", "offsets"))


def read_transcript(text: str) -> Iterator[Row]:
    """Yield the segments, with their texts as the labels."""
    for number, segment in enumerate(_segments(text), 1):
        try:
            row = _row(segment)
            row.times()
        except ValueError as error:
            raise Malformed(None, f"segment {number}: {error}") from None
        yield row


def looks_like_transcript(text: str) -> bool:
    """Return whether a text is JSON with a segment that has times."""
    try:
        return next(read_transcript(text), None) is not None
    except Malformed:
        return False


def _segments(text: str) -> list[Any]:
    """Return the list of segments, which may be the whole document."""
    try:
        value = json_value(text)
    except (ValueError, RecursionError) as error:
        raise Malformed(getattr(error, "lineno", 1), f"is not JSON ({error})") from None
    lists = [value.get(name) for name in _LISTS] if isinstance(value, dict) else [value]
    found = next((one for one in lists if isinstance(one, list)), None)
    if found is None:
        names = ", ".join(map(repr, _LISTS))
        raise Malformed(1, f"is not a transcript: expected a list, or an object with a list {names}")
    return found


def _row(segment: Any) -> Row:  # noqa: ANN401 - whatever JSON holds
    """Return a segment as a row; the number of its line is not known."""
    if not isinstance(segment, Mapping):
        raise ValueError("is not an object with a start and an end")  # noqa: TRY004 - an error in the file
    start, end = _times(segment)
    others = {
        name: json_text(value)
        for name, value in segment.items()
        if name not in _NO_COLUMNS and not isinstance(value, (list, dict))
    }
    label = json_text(segment.get("text", segment.get("word"))).strip()
    words = words_in(label, _words(segment))
    return Row(0, start, end, label, tuple(others), tuple(others.values()), called="text", words=words)


def _words(segment: Mapping[str, Any]) -> Iterator[WrittenWord]:
    """Return the words as Whisper, WhisperX and faster-whisper write them, or from tokens of whisper.cpp."""
    match segment:
        case {"words": [*words]}:
            return (
                (json_text(one.get("word")), *_written_times(one)) for one in words if isinstance(one, dict)
            )
        case {"tokens": [*tokens]}:
            found = (one for one in tokens if isinstance(one, dict))
            return joined_tokens((json_text(one.get("text")), *_written_times(one)) for one in found)
    return iter(())


def _written_times(word: Mapping[str, Any]) -> tuple[str, str]:
    """Return the times of a word; empty if it has none."""
    try:
        return _times(word)
    except ValueError:
        return "", ""


def _times(segment: Mapping[str, Any]) -> tuple[str, str]:
    """Return the start and end as most programs write them, as whisper.cpp does, or as Transformers does."""
    match segment:
        case {"start": str(start), "end": str(end)}:
            return start, end
        case {"offsets": {"from": str(start), "to": str(end)}}:
            return in_milliseconds(start), in_milliseconds(end)
        case {"timestamp": [str(start), str(end)]}:
            return start, end
        case {"timestamp": [str(), None]}:
            raise ValueError("has a start and no end (null); write its end in seconds")
    raise ValueError(f"has no start and end; it has {', '.join(map(shown, segment))}")
