"""The labels of windows, against a slow and plain computation; exact at every boundary."""

from fractions import Fraction
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from splitter.annotations import Annotation, MinOverlap
from splitter.annotations.dividing import Shares, Upcoming
from splitter.annotations.labels import AnnotationIndex
from splitter.errors import Refused

Expected = list[tuple[Annotation, Fraction, Fraction]]


class Label(NamedTuple):
    annotation: Annotation
    start: Fraction
    end: Fraction


class Labels:
    """The labels of windows: an annotation that crosses a border is in both."""

    def __init__(self, annotations, **options):
        self._shares = Shares(annotations, Upcoming((), tuple), cross="both", **options)

    def of(self, start, stop):
        return [Label(*share[:3]) for share in self._shares.of(start, stop)]


def slow(annotations, start, stop, rate, min_overlap) -> Expected:
    """What the words say: every annotation, looked at by itself."""
    opens, closes = Fraction(start, rate), Fraction(stop, rate)
    expected = []
    for entry in annotations:
        if entry.start == entry.end:
            belongs = opens <= entry.start < closes
        else:
            overlap = min(entry.end, closes) - max(entry.start, opens)
            enough = min_overlap.seconds or min_overlap.share * (entry.end - entry.start)
            belongs = overlap > 0 and overlap >= enough
        if belongs:
            expected.append((entry, max(entry.start, opens) - opens, min(entry.end, closes) - opens))
    return expected


# coarse times meet the boundaries of windows often, fine ones lie between two samples
moments = st.integers(0, 40).map(lambda tenths: Fraction(tenths, 10)) | st.fractions(0, 4)


@st.composite
def annotated(draw, at=moments):
    spans = draw(st.lists(st.tuples(at, at), max_size=12))
    ordered = sorted((min(span), max(span)) for span in spans)
    return [Annotation(start, end, str(number)) for number, (start, end) in enumerate(ordered)]


overlaps = st.one_of(
    st.builds(MinOverlap),
    moments.map(lambda seconds: MinOverlap(seconds=seconds)),
    st.sampled_from(["1%", "50%", "100%", "33.3%"]).map(MinOverlap.parse),
)


@given(
    annotations=annotated(),
    rate=st.sampled_from([1, 10, 11, 44100]),
    min_overlap=overlaps,
    windows=st.lists(st.tuples(moments, moments), min_size=1, max_size=8),
)
def test_labels_are_those_of_a_plain_search(annotations, rate, min_overlap, windows):
    """Any annotations, windows in any order: who is in, and where, as when each is looked at by itself."""
    labels = Labels(annotations, rate=rate, min_overlap=min_overlap)
    for window in windows:
        start, stop = (round(moment * rate) for moment in sorted(window))
        expected = slow(annotations, start, stop, rate, min_overlap) if start < stop else []
        assert list(map(tuple, labels.of(start, stop))) == expected


@given(annotations=annotated(), rate=st.sampled_from([8, 10, 44100]), hop=st.integers(1, 30))
def test_windows_without_gap_share_all_annotations(annotations, rate, hop):
    """Over windows that follow each other, lengths add up, and a point is in exactly one window."""
    labels = Labels(annotations, rate=rate)
    size = max(1, hop * rate // 10)
    found = [label for start in range(0, 5 * rate, size) for label in labels.of(start, start + size)]
    for annotation in annotations:
        parts = [label for label in found if label.annotation is annotation]
        assert sum(part.end - part.start for part in parts) == annotation.end - annotation.start
        assert len(parts) == 1 if annotation.start == annotation.end else parts


def test_a_label_across_a_boundary_stands_in_both_windows():
    """It ends with the first window and begins with the second; the annotation itself stays whole."""
    word = Annotation(Fraction("9.5"), Fraction("10.25"), "word")
    labels = Labels([word], rate=44100)
    assert labels.of(0, 441000) == [(word, Fraction("9.5"), 10)]
    assert labels.of(441000, 882000) == [(word, 0, Fraction("0.25"))]


def test_an_overlap_that_just_suffices():
    """The least overlap counts as enough, in seconds and as a share; a hair less does not."""
    word = Annotation(Fraction("9.5"), Fraction("10.5"), "word")
    hair = Annotation(Fraction("9.5"), Fraction("10.500000000000000000001"), "hair")
    for text in ("0.5", "50%"):
        labels = Labels([word, hair], rate=10, min_overlap=MinOverlap.parse(text))
        assert [label.annotation.label for label in labels.of(100, 200)] == ["word", "hair"]
        assert [label.annotation.label for label in labels.of(0, 100)] == (
            ["word", "hair"] if text == "0.5" else ["word"]
        )


def test_a_touch_is_no_overlap():
    """What ends where a window starts is not in it, nor what starts where it stops."""
    before, after = (Annotation(Fraction(s), Fraction(s + 1), str(s)) for s in (0, 2))
    labels = Labels([before, after], rate=1000)
    assert labels.of(1000, 2000) == []
    whole = Annotation(Fraction(0), Fraction(3), "whole")
    assert Labels([whole, before, after], rate=1000).of(1000, 2000) == [(whole, 0, 1)]
    assert labels.of(999, 2001) == [
        (before, 0, Fraction("0.001")),
        (after, Fraction("1.001"), Fraction("1.002")),
    ]


def test_points_need_no_overlap():
    """A point has no length, so any least overlap leaves it in its one window."""
    point = Annotation(Fraction(10), Fraction(10), "click")
    labels = Labels([point], rate=44100, min_overlap=MinOverlap.parse("0.25"))
    assert labels.of(0, 441000) == []
    assert labels.of(441000, 882000) == [(point, 0, 0)]


def test_many_windows_over_many_annotations():
    """A day with twenty thousand annotations, one of which lasts all day, in two thousand windows."""
    rate, day = 48000, 86400
    whole = Annotation(Fraction(0), Fraction(day), "day")
    short = [Annotation(Fraction(n * day, 20_000), Fraction(n * day + 1, 20_000), "") for n in range(20_000)]
    labels = AnnotationIndex([whole, *short], rate=rate)
    size = day * rate // 2000
    counts = {len(labels.of(start, start + size)) for start in range(0, day * rate, size)}
    assert counts == {11}


@pytest.mark.parametrize(
    ("text", "overlap"),
    [
        ("0", MinOverlap()),
        ("0.25", MinOverlap(seconds=Fraction(1, 4))),
        (0.1, MinOverlap(seconds=Fraction(1, 10))),
        (2, MinOverlap(seconds=Fraction(2))),
        (Fraction(1, 3), MinOverlap(seconds=Fraction(1, 3))),
        (" 50% ", MinOverlap(share=Fraction(1, 2))),
        ("100%", MinOverlap(share=Fraction(1))),
        ("0.1%", MinOverlap(share=Fraction(1, 1000))),
    ],
)
def test_least_overlaps(text, overlap):
    """Seconds, or a share with a percent sign, both exact."""
    assert MinOverlap.parse(text) == overlap


@pytest.mark.parametrize(
    "text", ["-1", "101%", "half", "", "%", "50%%", "nan", -0.5, Fraction(-1), "5 %%", "1e99"]
)
def test_least_overlaps_that_are_none(text):
    """The message repeats what was given and says what is expected."""
    with pytest.raises(Refused, match=r"^--min-overlap '.*': expected seconds \(0\.25\) or a share \(50%\)$"):
        MinOverlap.parse(text)
