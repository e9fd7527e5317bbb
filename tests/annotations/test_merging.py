"""Annotations put together to pieces, beside all ways to divide them; each is in one piece."""

from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from splitter.annotations import Annotation
from splitter.annotations.merging import Merge
from splitter.errors import Refused

moments = st.integers(0, 100).map(lambda tenths: Fraction(tenths, 10)) | st.fractions(
    0, 10, max_denominator=99
)


@st.composite
def cues(draw) -> list[Annotation]:
    found = []
    for _ in range(draw(st.integers(0, 7))):
        start = draw(moments)
        end = start + draw(moments) / 4
        found.append(Annotation(start, end, "", speaker=draw(st.sampled_from(["", "", "a"]))))
    return sorted(found, key=lambda one: (one.start, one.end))


def divisions(count: int):
    """Yield all ways to divide so many cues."""
    for number in range(2 ** max(0, count - 1)):
        cuts = [at + 1 for at in range(count - 1) if number >> at & 1]
        yield list(pairwise([0, *cuts, count])) if count else []


def gap_after(annotations, at) -> Fraction:
    """The silence after a cue: negative if the next one starts before all have ended."""
    return annotations[at + 1].start - max(one.end for one in annotations[: at + 1])


def edges(annotations, first, last, merge) -> tuple[Fraction, Fraction]:
    """What the page says of borders, for a piece of more than one cue."""
    start, stop = annotations[first].start, max(one.end for one in annotations[first:last])
    silence = 2 * start if first == 0 else gap_after(annotations, first - 1)
    before = max(Fraction(0), min(silence, merge.gap)) / 2
    others = max(one.end for one in annotations[:last])
    after = (
        merge.gap / 2 if last == len(annotations) else min(gap_after(annotations, last - 1), merge.gap) / 2
    )
    return start - (min(start, merge.gap / 2) if first == 0 else before), stop + (
        max(Fraction(0), after) if stop == others else 0
    )


def may_be_one(annotations, first, last, merge) -> bool:
    inner = range(first, last - 1)
    if any(gap_after(annotations, at) > merge.gap for at in inner):
        return False
    if not merge.speakers and len({one.speaker for one in annotations[first:last]}) > 1:
        return False
    start, stop = edges(annotations, first, last, merge)
    return last - first == 1 or stop - start <= merge.most


def length(annotations, first, last, merge) -> Fraction:
    start, stop = edges(annotations, first, last, merge)
    if last - first > 1:
        return stop - start
    bare = annotations[first].end - annotations[first].start
    return max(bare, min(stop - start, merge.most))


def cost(annotations, division, merge):
    through = gaps = 0
    for _, last in division[:-1]:
        gap = gap_after(annotations, last - 1)
        alike = merge.speakers or annotations[last - 1].speaker == annotations[last].speaker
        through += gap < 0 and alike
        gaps += max(Fraction(0), gap)
    short = sum(length(annotations, *piece, merge) < merge.least for piece in division)
    return through, short, len(division), -gaps


merges = st.builds(
    lambda least, more, gap, speakers: Merge(least, least + more, gap, speakers),
    st.sampled_from([Fraction(0), Fraction(1, 3), Fraction(2)]),
    st.sampled_from([Fraction(1, 10), Fraction(2), Fraction(5)]),
    st.sampled_from([Fraction(0), Fraction(1, 2), Fraction(1)]),
    st.booleans(),
)


@given(cues(), merges)
def test_the_pieces_are_the_best_of_all(annotations, merge):
    """No cue is lost or doubled; the rules of the page hold, in exact fractions."""
    found = merge.pieces(annotations)
    division = [(piece.first, piece.last) for piece in found]
    assert [at for piece in division for at in range(*piece)] == list(range(len(annotations)))
    assert all(may_be_one(annotations, *piece, merge) for piece in division)
    possible = [
        one for one in divisions(len(annotations)) if all(may_be_one(annotations, *p, merge) for p in one)
    ]
    assert cost(annotations, division, merge) == min(cost(annotations, one, merge) for one in possible)
    for piece in found:
        if piece.last - piece.first > 1:
            assert (piece.start, piece.stop) == edges(annotations, piece.first, piece.last, merge)
        else:
            cue, (start, stop) = annotations[piece.first], edges(annotations, piece.first, piece.last, merge)
            assert start <= piece.start <= cue.start <= cue.end <= piece.stop <= stop
            assert abs(piece.stop - piece.start - length(annotations, piece.first, piece.last, merge)) < 1


def spans(merge: str, gap: str, *times: str) -> list[tuple[str, str]]:
    annotations = [Annotation(*map(Fraction, time.split("-")), "") for time in times]
    found = Merge.parse(merge, gap=Fraction(gap)).pieces(annotations)
    return [(str(float(piece.start)), str(float(piece.stop))) for piece in found]


def test_borders_are_in_the_middle_of_gaps():
    """But not further than half of the longest gap from a cue."""
    cues = ["0.5-3", "3.2-6", "6.8-9", "15-17"]
    assert spans("4:8", "1", *cues) == [("0.0", "6.4"), ("6.4", "9.5"), ("14.5", "17.5")]
    assert spans("4:10", "1", *cues) == [("0.0", "9.5"), ("14.5", "17.5")]


def test_a_cue_that_is_too_long_stays_whole():
    """A single one has around it what there is room for."""
    assert spans("1:5", "2", "3-9") == [("3.0", "9.0")]
    assert spans("1:5", "2", "3-7.5") == [("2.75", "7.75")]
    assert spans("1:5", "2", "0.1-4.5") == [("0.0", "5.0")]


@pytest.mark.parametrize("text", ["5", "5:", ":5", "15:5", "-1:5", "0:0", "a:b", "5:15:20", ""])
def test_lengths_that_are_none(text):
    with pytest.raises(Refused, match=r"^--merge '.*': expected MIN:MAX in seconds, such as 5:15$"):
        Merge.parse(text, gap=Fraction(1))
