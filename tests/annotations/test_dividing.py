"""What is spoken in each piece of a recording, beside a plain search through all pieces; no word is lost."""

import time
from collections import Counter
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from splitter.annotations import Annotation
from splitter.annotations.dividing import Shares, Upcoming
from splitter.annotations.rows import Word
from splitter.annotations.transcribed import joined_tokens, words_in

moments = st.integers(0, 60).map(lambda tenths: Fraction(tenths, 10)) | st.fractions(
    0, 6, max_denominator=999
)


@st.composite
def cues(draw) -> list[Annotation]:
    """Cues whose words may be without length, in any order, or outside of the cue."""
    found = []
    for number in range(draw(st.integers(1, 4))):
        start, end = sorted(draw(st.tuples(moments, moments)))
        spans = [sorted(draw(st.tuples(moments, moments))) for _ in range(draw(st.integers(0, 4)))]
        words = tuple(Word(*span, f"{number}.{index} ") for index, span in enumerate(spans))
        text = "".join(word.text for word in words) or f"{number}.0"
        found.append(Annotation(start, end, text.strip(), {}, text.strip(), words=words))
    return sorted(found, key=lambda one: (one.start, one.end))


@st.composite
def partitions(draw, rate: int, *, gaps: bool) -> list[tuple[int, int]]:
    edges = sorted(draw(st.sets(st.integers(1, 6 * rate), max_size=6)))
    pieces = list(pairwise([0, *edges, 6 * rate + 1]))
    pieces = [piece for piece in pieces if piece[0] < piece[1]]
    return [piece for piece in pieces if draw(st.integers(0, 3))] if gaps else pieces


def texts_of(annotations, pieces, rate, **options) -> list[list[str]]:
    upcoming = Upcoming(pieces, lambda piece: piece)
    shares = Shares(annotations, upcoming, rate=rate, **options)
    return [[word for share in shares.of(*piece) for word in share.text.split()] for piece in upcoming]


def overlap(unit, piece, rate) -> Fraction:
    """How much of it, from 0 to 1."""
    opens, closes = (Fraction(edge, rate) for edge in piece)
    if unit.start == unit.end:
        return Fraction(opens <= unit.start < closes)
    return max(Fraction(0), min(unit.end, closes) - max(unit.start, opens)) / (unit.end - unit.start)


def reaches(units, piece, rate) -> bool:
    """Whether a piece has any of what is between the first and the last, or a point at the end."""
    start, end = min(one.start for one in units), max(one.end for one in units)
    return any(overlap(one, piece, rate) for one in (Word(start, end, ""), *units[1:]))


@given(data=st.data(), rate=st.sampled_from([1, 7, 10, 8000]), annotations=cues())
def test_a_word_is_in_the_piece_that_has_most_of_it(data, rate, annotations):
    """Beside all pieces at once: no word is lost or doubled, also where sound is left out."""
    pieces = data.draw(partitions(rate, gaps=True))
    found = texts_of(annotations, pieces, rate)
    counts = Counter(word for words in found for word in words)
    for annotation in annotations:
        units = annotation.words or (Word(annotation.start, annotation.end, annotation.text),)
        any_of_it = any(reaches([annotation, *annotation.words], piece, rate) for piece in pieces)
        for index, unit in enumerate(units):
            word = unit.text.strip()
            assert counts[word] == any_of_it
            most = max((overlap(unit, piece, rate) for piece in pieces), default=0)
            if most:
                best = next(at for at, piece in enumerate(pieces) if overlap(unit, piece, rate) == most)
                assert word in found[best]
            elif any_of_it and index:
                before = units[index - 1].text.strip()
                assert next(words for words in found if word in words).count(before) == 1


@given(data=st.data(), rate=st.sampled_from([10, 44_100]), annotations=cues())
def test_without_gaps_a_cue_is_all_there(data, rate, annotations):
    """Of all ways to assign, each text once; to both, once for each piece; and labels as texts."""
    pieces = data.draw(partitions(rate, gaps=False))
    everything = Counter(word for one in annotations for word in one.text.split())
    for cross in ("divide", "assign"):
        found = texts_of(annotations, pieces, rate, cross=cross)
        assert Counter(word for words in found for word in words) == everything
    both = texts_of(annotations, pieces, rate, cross="both")
    for piece, words in zip(pieces, both, strict=True):
        inside = [one for one in annotations if overlap(one, piece, rate)]
        assert Counter(words) == Counter(word for one in inside for word in one.text.split())


@given(rate=st.sampled_from([10, 100]), annotations=cues(), hop=st.integers(3, 9))
def test_windows_that_overlap_both_have_what_is_in_both(rate, annotations, hop):
    pieces = [(at * rate // 10, at * rate // 10 + rate) for at in range(0, 70, hop)]
    found = texts_of(annotations, pieces, rate)
    for unit in (word for one in annotations for word in one.words):
        for piece, words in zip(pieces, found, strict=True):
            if overlap(unit, piece, rate) == 1:
                assert unit.text.strip() in words
        most = max(overlap(unit, piece, rate) for piece in pieces)
        holders = [piece for piece, words in zip(pieces, found, strict=True) if unit.text.strip() in words]
        assert len(holders) == 1 or all(overlap(unit, piece, rate) == most for piece in holders)


def test_a_tie_is_for_the_first():
    word = Annotation(Fraction("9.5"), Fraction("10.5"), "word", {}, "word")
    assert texts_of([word], [(0, 10), (10, 20)], 1) == [["word"], []]
    later = Annotation(Fraction("9.5"), Fraction("10.500000000000000000001"), "word", {}, "word")
    assert texts_of([later], [(0, 10), (10, 20)], 1) == [[], ["word"]]


def test_pieces_are_looked_at_only_as_far_as_a_cue_goes():
    """A recording is read on for what crosses the border, and for nothing else."""
    taken = []

    def pieces():
        for at in range(0, 100, 10):
            taken.append(at)
            yield at, at + 10

    cue = Annotation(Fraction(5), Fraction(31), "long", {}, "long")
    upcoming = Upcoming(pieces(), lambda piece: piece)
    shares = Shares([cue], upcoming, rate=1)
    assert shares.of(*next(upcoming)) == []
    assert taken == [0, 10, 20, 30, 40]
    assert [share.text for share in shares.of(*next(upcoming))] == ["long"]
    assert taken == [0, 10, 20, 30, 40]


words = st.text(st.characters(categories=["L", "P"]), min_size=1, max_size=4)


@given(
    st.lists(st.tuples(words, st.sampled_from(["", " ", "  "]), st.booleans()), min_size=1, max_size=8),
    st.sampled_from(["", " "]),
)
def test_joined_the_words_are_the_text(drawn, before):
    """Whatever is between them, with or without times."""
    text = "".join(word + space for word, space, _ in drawn).strip()
    written = [
        (before + word, str(number), str(number + 1)) if timed else (word, "", "")
        for number, (word, _, timed) in enumerate(drawn)
    ]
    found = words_in(text, written)
    assert "".join(word.text for word in found) == (text if any(timed for *_, timed in drawn) else "")
    starts = [number for number, (*_, timed) in enumerate(drawn) if timed]
    assert [word.start for word in found] == starts
    for word, number in zip(found[1:], starts[1:], strict=True):
        assert word.text.startswith(drawn[number][0])


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("one two", [("one", "0", "1")]),
        ("one two", [("two", "0", "1")]),
        ("one two", [("one", "0", "1"), ("three", "1", "2")]),
        ("one two", [("one", "1", "0"), ("two", "x", "2")]),
        ("", [("one", "0", "1")]),
    ],
)
def test_words_of_another_text_divide_nothing(text, written):
    assert words_in(text, written) == ()


def test_tokens_are_joined_to_words():
    tokens = [
        ("[_BEG_]", "0", "0"),
        (" And", "0", "1"),
        (" Amer", "1", "2"),
        ("ican", "2", "3"),
        (".", "3", "4"),
    ]
    assert list(joined_tokens(tokens)) == [(" And", "0", "1"), (" American.", "1", "4")]


def test_a_cue_of_many_words_takes_no_more_time_than_many_cues():
    """A monologue that is one cue: what it costs is by words and pieces, not by their product."""
    words = tuple(Word(Fraction(at), Fraction(at + 1), f"{at} ") for at in range(4000))
    text = "".join(word.text for word in words).strip()
    one = Annotation(Fraction(0), Fraction(4000), text, {}, text, words=words)
    began = time.process_time()
    found = texts_of([one], [(at, at + 8) for at in range(0, 4000, 8)], 1)
    assert [word for piece in found for word in piece] == text.split()
    assert time.process_time() - began < 2
