"""The recipe `pauses`: the best of all sequences of borders, and a recording of which nothing is lost."""

import math
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import soundfile
from doors import CHECKOUT, here, read_table, write_list
from hypothesis import given, settings
from hypothesis import strategies as st
from nightly import depth

from splitter.audio import borders
from splitter.audio.borders import (
    AVOIDED,
    CHOICES,
    REACH,
    PieceLengths,
    best_borders,
    border_prices,
    relative,
)
from splitter.audio.levels import LevelMeter
from splitter.errors import Refused
from splitter.recipes.pauses import Pauses
from splitter.testing.recipes import RecipeConformance

SAMPLES = CHECKOUT / "data_samples/speech"
RATE = 8000


# -- the best borders ----------------------------------------------------------------------------------------


def sequences(end: float, least: int, most: int, start: int = 0):
    """Yield all borders whose pieces are within the bounds, but for the last; each with its last piece."""
    yield [], end - start
    for border in range(start + least, min(start + most, math.ceil(end) - 1) + 1):
        for more, last in sequences(end, least, most, border):
            yield [border, *more], last


def price(chosen, prices, avoided, end, lengths) -> float:
    """Return what the page of the recipe says that borders cost."""
    total = 0.0
    for start, stop in pairwise([0, *chosen, end]):
        length = stop - start
        side = lengths.wanted - lengths.least if length < lengths.wanted else lengths.most - lengths.wanted
        of_length = 0.1 * ((length - lengths.wanted) / max(side, 1)) ** 2
        of_border = 0 if stop == end else prices[stop]
        total += length / lengths.wanted * (of_length + of_border)
        total += 0 if stop == end else AVOIDED * avoided[stop]
    return total


@settings(max_examples=depth(150))
@given(st.data())
def test_the_borders_are_the_best_of_all(data):
    """Beside all sequences of a short recording; also of one that cannot be divided within the bounds."""
    end = data.draw(st.integers(1, 22)) + data.draw(st.sampled_from([0.0, 0.25, 0.9]))
    least = data.draw(st.integers(2, 8))
    most = least + data.draw(st.integers(0, 8))
    lengths = PieceLengths(data.draw(st.integers(least, most)) + 0.0, least, most)
    count = math.floor(end) + 1
    shares = st.sampled_from([0.0, 0.1, 0.13, 0.5, 0.77, 1.0])
    prices = np.array(data.draw(st.lists(shares, min_size=count, max_size=count)), np.float32)
    avoided = np.array(data.draw(st.lists(st.booleans(), min_size=count, max_size=count)))
    possible = list(sequences(end, least, most))
    allowed = [borders for borders, last in possible if least <= last <= most]
    if not allowed:
        allowed = [borders for borders, last in possible if last < least]
    found = best_borders(prices, avoided, end, lengths)
    assert found in allowed
    lowest = min(price(borders, prices, avoided, end, lengths) for borders in allowed)
    assert price(found, prices, avoided, end, lengths) == pytest.approx(lowest, abs=1e-4)


def test_of_long_pieces_the_borders_are_the_best_of_neighbours():
    """A border that is the best of its neighbours is found wherever it is; the cost does not grow."""
    lengths = PieceLengths(3000.0, 1000, 1000 + 20 * CHOICES)
    prices = np.ones(20_000, np.float32)
    pauses = [2013, 5555, 8019, 11_000, 14_999, 17_500]
    prices[pauses] = 0
    assert best_borders(prices, np.zeros(20_000, bool), 20_000, lengths) == pauses


def test_a_bound_that_no_piece_comes_near_costs_nothing():
    """The work grows with the recording, and not with the longest piece that is allowed."""
    prices = np.ones(3000, np.float32)
    prices[[970, 1980]] = 0
    found = best_borders(prices, np.zeros(3000, np.bool_), 3000.0, PieceLengths(1000.0, 500, 10**14))
    assert {*found} <= {970, 1980}


def test_a_column_that_it_would_hide_is_refused_before_work(recordings, tmp_path, capfd):
    dataset = write_list(tmp_path / "list.csv", [["input", "cut"], ["none.wav", "x"]])
    said = here(capfd, "run", dataset, "--recipe", "pauses", "--output", tmp_path / "out")
    assert (said.code, len(said.lines)) == (2, 1)
    assert "a column 'cut', which metadata of the recipe would hide" in said.err


@given(st.lists(st.floats(0, 1, width=32), min_size=1, max_size=90))
def test_the_price_of_a_border_is_what_the_page_says(monkeypatch, loudness):
    """Also where the work is divided."""
    monkeypatch.setattr(borders, "STRETCH", 40)
    found = border_prices(np.array(loudness, np.float32))
    for at, share in enumerate(found):
        loudest = [max(loudness[max(0, at - far) : at + far + 1]) for far in range(REACH + 1)]
        assert share == pytest.approx(np.mean(loudest), abs=1e-5)


def test_loudness_is_relative_to_what_is_around():
    """A soft half and a loud one have the same; noise alone is quiet, and so is silence."""
    generator = np.random.default_rng(3)
    speech = np.where(generator.random(12_000) < 0.3, -50.0, -25.0) + generator.uniform(-1, 1, 12_000)
    loudness = relative(np.concatenate((speech, speech - 30)))
    assert (loudness[:9000] > 0.5).tolist() == (speech[:9000] > -37).tolist()
    assert loudness[3000:9000] == pytest.approx(loudness[15_000:21_000], abs=0.06)
    assert relative(np.full(5000, -100.0)).max() == 0
    assert relative(generator.uniform(-31, -30, 5000)).max() < 0.2


@given(
    st.integers(1, 9),
    st.sampled_from([2, 4]),
    st.lists(st.integers(1, 40), max_size=8),
    st.integers(1, 2),
)
def test_levels_are_mean_squares_around_each_frame(hop, in_frame, sizes, channels):
    """Whatever the blocks; what is before the recording and after it is silence."""
    sound = np.random.default_rng(1).uniform(-1, 1, (sum(sizes), channels)).astype(np.float32)
    meter = LevelMeter(hop, in_frame)
    for stop, size in zip(np.cumsum(sizes), sizes, strict=True):
        meter.add(sound[stop - size : stop])
    levels = meter.levels()
    half = in_frame // 2 * hop
    padded = np.pad(sound.astype(np.float64), ((half, half + hop), (0, 0)))
    assert len(levels) == sum(sizes) // hop + 1
    for number, level in enumerate(levels):
        frame = padded[number * hop : number * hop + 2 * half]
        assert level == pytest.approx(np.mean(frame**2, axis=0).max(), rel=1e-5)


# -- recordings ----------------------------------------------------------------------------------------------


def bursts(seconds: float, rate: int = RATE, seed: int = 5) -> tuple[np.ndarray, list[tuple[float, float]]]:
    """Return noise with pauses of 0.15 to 0.7 s, and where they are; soft noise stays, and gaps of 50 ms."""
    generator = np.random.default_rng(seed)
    sound = generator.uniform(-0.5, 0.5, round(seconds * rate))
    pauses, at = [], 0.0
    while at < seconds:
        at += generator.uniform(0.4, 1.8)
        length = generator.uniform(0.15, 0.7)
        for gap in (at - 0.3, at - 0.15):
            sound[round(gap * rate) : round((gap + 0.05) * rate)] *= 0.001
        sound[round(at * rate) : round((at + length) * rate)] *= 0.03
        pauses.append((at, at + length))
        at += length
    return sound, pauses


def pieces_of(dataset, index: int = 0) -> list[dict[str, object]]:
    return [output.metadata for output in dataset[index][0]]


def edges_of(pieces) -> list[tuple[int, int]]:
    return [(piece["start_sample"], piece["stop_sample"]) for piece in pieces]


@pytest.fixture(scope="module")
def recordings(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("pauses")
    sound, _ = bursts(40)
    both = np.stack((sound, np.roll(sound, 40)), 1)
    soundfile.write(folder / "one.wav", sound, RATE, "PCM_16")
    soundfile.write(folder / "two.flac", both, RATE, "PCM_24")
    soundfile.write(folder / "three.mp3", both, RATE)
    soundfile.write(folder / "short.wav", sound[: RATE // 2], RATE, "PCM_16")
    soundfile.write(folder / "empty.wav", sound[:0], RATE, "PCM_16")
    names = ["one.wav", "two.flac", "three.mp3", "short.wav", "empty.wav"]
    write_list(folder / "list.csv", [["input"], *([name] for name in names)])
    return folder


def test_joined_the_pieces_are_the_recording(recordings, tmp_path, capfd):
    """Through the command line, bit for bit: WAV, FLAC and MP3, whose frames are copied."""
    options = ["--seconds", "3", "--min-seconds", "1.5", "--max-seconds", "5", "--workers", "1"]
    said = here(capfd, "run", recordings / "list.csv", "--recipe", "pauses", "-o", tmp_path / "out", *options)
    assert said.code == 0, said.err
    rows: dict[str, list[dict[str, str]]] = {}
    for row in read_table(tmp_path / "out/manifest.csv"):
        rows.setdefault(row["input"], []).append(row)
    for name in ("one.wav", "two.flac", "three.mp3", "short.wav"):
        whole, _ = soundfile.read(recordings / name, dtype="int32", always_2d=True)
        parts = [
            soundfile.read(tmp_path / "out" / row["output"], dtype="int32", always_2d=True)[0]
            for row in rows[name]
        ]
        joined = np.concatenate(parts)
        # libsndfile rounds the last bits of an MP3 at a low rate by how many frames it has decoded before
        assert joined.shape == whole.shape
        assert np.abs(joined.astype("i8") - whole).max() <= (2**9 if name.endswith("mp3") else 0)
        assert [row["cut"] for row in rows[name]][-1] == "end"
        assert rows[name][-1]["cut_level"] == ""
        assert {row["source_cut"] for row in rows[name]} == {"copied"} or not name.endswith("mp3")
        if name != "short.wav":
            assert len(rows[name]) > 8
            assert all(1.5 * RATE <= len(part) <= 5 * RATE for part in parts)
            assert {row["cut"] for row in rows[name][:-1]} == {"pause"}
            # uniform noise of 0.5 has -10.8 dB, and its pauses -41.2
            assert all(float(row["cut_level"]) < -30 for row in rows[name][:-1])
    assert len(rows["short.wav"]) == 1
    assert [row["output"] for row in rows["empty.wav"]] == [""]


def test_borders_are_in_the_middle_of_pauses(recordings):
    """Neither in short gaps, however quiet, nor near the ends of a pause."""
    _, pauses = bursts(40)
    found = edges_of(pieces_of(Pauses([str(recordings / "one.wav")], 3, 1.5, 5)))
    for _, stop in found[:-1]:
        start, end = min(pauses, key=lambda pause: abs(sum(pause) / 2 - stop / RATE))
        middle = abs((start + end) / 2 - stop / RATE)
        # half of a pause that is longer than 0.5 s is as good as its middle
        assert middle <= max(0.02, (end - start) / 2 - 0.24)


@settings(max_examples=depth(40))
@given(
    rate=st.sampled_from([441, 1000, 1103]),
    samples=st.integers(1, 9000),
    least=st.sampled_from([0.1, 0.5, 0.57, 1.0]),
    more=st.sampled_from([0.1, 0.3, 1.0, 2.2]),
    share=st.floats(0, 1),
    noise=st.booleans(),
)
def test_any_recording_is_divided_within_the_bounds(  # noqa: PLR0913, PLR0917 - each is drawn
    tmp_path_factory, rate, samples, least, more, share, noise
):
    """If it can be; else the rule of the page holds, and in any case nothing is lost."""
    path = tmp_path_factory.mktemp("any") / "r.wav"
    sound = bursts(samples / rate, rate)[0][:samples]
    sound = sound if noise else np.zeros(samples)
    soundfile.write(path, sound, rate, "PCM_16")
    most = round(least + more, 2)
    seconds = min(max(least + share * more, least), most)
    pieces = pieces_of(Pauses([str(path)], seconds, least, most))
    edges = edges_of(pieces)
    assert edges[0][0] == 0
    assert edges[-1][1] == samples
    assert all(before[1] == after[0] for before, after in pairwise(edges))
    low, high = Fraction(str(least)) * rate, Fraction(str(most)) * rate
    lengths = [stop - start for start, stop in edges]
    can_be_divided = math.ceil(samples / high) * low <= samples
    # a border is rounded to a sample
    assert all(low - 1 <= length <= high + 1 for length in (lengths if can_be_divided else lengths[:-1]))
    assert can_be_divided or lengths[-1] < low
    assert [piece["cut"] for piece in pieces][-1] == "end"
    assert {piece["cut"] for piece in pieces[:-1]} <= {"pause", "forced"}


def test_a_border_without_a_pause_is_marked(folder):
    """Loud noise for longer than a piece may be."""
    generator = np.random.default_rng(8)
    sound = generator.uniform(-0.5, 0.5, 20 * RATE)
    sound[4 * RATE : 5 * RATE] = sound[17 * RATE : 18 * RATE] = 0
    soundfile.write(folder / "r.wav", sound, RATE, "PCM_16")
    pieces = pieces_of(Pauses([str(folder / "r.wav")], 5, 4, 6))
    cuts = [(piece["cut"], piece["cut_level"]) for piece in pieces]
    assert [cut for cut, _ in cuts] == ["pause", "forced", "forced", "end"] or cuts[0] == ("pause", -100.0)
    assert ("forced", pytest.approx(-10.8, abs=0.5)) in cuts
    assert cuts[-1] == ("end", None)


def test_a_low_hum_is_no_speech_and_a_soft_consonant_is_no_pause(folder):
    """By the level alone, a pause with hum is louder than a soft, high sound."""
    rate = 22050
    time = np.arange(10 * rate) / rate
    sound = 0.1 * np.sin(2 * np.pi * 300 * time)
    pause, consonant = (
        slice(round(4.3 * rate), round(4.7 * rate)),
        slice(round(5.3 * rate), round(5.7 * rate)),
    )
    sound[pause] = 0.04 * np.sin(2 * np.pi * 60 * time[pause])
    sound[consonant] = 0.03 * np.sin(2 * np.pi * 4000 * time[consonant])
    soundfile.write(folder / "r.wav", sound, rate, "PCM_16")
    first, _ = pieces_of(Pauses([str(folder / "r.wav")], 5, 3, 7))
    assert 4.4 < first["end_seconds"] < 4.6
    # the level in the manifest is that of the sound as it is
    assert first["cut_level"] == pytest.approx(20 * math.log10(0.04) - 3, abs=0.5)


# -- speech and labels ---------------------------------------------------------------------------------------


def test_speech_is_heard_where_the_level_tells_nothing(folder):
    """The pauses of a lecture are filled with noise as loud as the speech."""
    sound, rate = soundfile.read(SAMPLES / "lecture.flac")
    soft = (np.abs(sound[: len(sound) // 441 * 441]) < 0.003).reshape(-1, 441).all(1)
    edges = np.flatnonzero(np.diff(np.r_[False, soft, False])).reshape(-1, 2) * 441
    gaps = [(start, stop) for start, stop in edges if stop - start > 0.1 * rate]
    generator = np.random.default_rng(9)
    for start, stop in gaps:
        sound[start:stop] = generator.normal(0, 0.08, stop - start)
    soundfile.write(folder / "r.wav", sound, rate, "PCM_16")
    in_gaps = {}
    for by in ("level", "speech"):
        pieces = pieces_of(Pauses([str(folder / "r.wav")], 5, 2, 8, by=by))
        borders = [stop for _, stop in edges_of(pieces)[:-1]]
        near = [any(start - 441 < border < stop + 441 for start, stop in gaps) for border in borders]
        in_gaps[by] = sum(near) / len(near)
    assert in_gaps["speech"] == 1
    assert in_gaps["level"] < 0.5


def write_cues(path: Path, cues) -> str:
    lines = [f"{start}\t{end}\t{number}" for number, (start, end) in enumerate(cues)]
    path.write_text("\n".join(["start\tend\tlabel", *lines]) + "\n")
    return str(path)


def test_no_border_is_inside_a_cue(recordings, folder):
    """Where cues touch, a border is exactly between them, though no frame is there; labels go along."""
    cues = [("0.3", "1.9"), ("1.9", "3.3333"), ("3.3333", "6.0047"), ("6.0047", "8.0"), ("8.5", "40")]
    notes = write_cues(folder / "notes.tsv", cues)
    pieces = pieces_of(
        Pauses([str(recordings / "one.wav")], 3, 1.2, 4, "labels", annotations=notes, min_overlap="0.001")
    )
    stops = [piece["end_seconds"] for piece in pieces]
    assert {3.3333, 6.0047} <= set(stops)
    assert any(8.0 <= stop <= 8.5 for stop in stops)
    for piece in pieces[:-1]:
        inside = any(float(start) < piece["end_seconds"] < float(end) for start, end in cues)
        assert piece["cut"] == ("forced" if inside else "pause")
    # the last cue is too long for one piece, and the others are not
    assert {piece["cut"] for piece in pieces if piece["end_seconds"] <= 8.5} == {"pause"}
    assert "|".join(piece["labels"] for piece in pieces[:3]) == "0|1|2"


@settings(max_examples=depth(25))
@given(st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 300)), max_size=12))
def test_cues_are_cut_only_if_they_must_be(recordings, tmp_path_factory, drawn):
    """Beside all borders on a grid: if any sequence of them spares the cues, so does the recipe."""
    cues = [(start / 100, (start + length) / 100) for start, length in drawn]
    notes = write_cues(tmp_path_factory.mktemp("cues") / "notes.tsv", cues)
    found = pieces_of(Pauses([str(recordings / "one.wav")], 3, 1, 4, by="labels", annotations=notes))
    free = [not any(a * 100 < at * 5 < b * 100 for a, b in cues) for at in range(801)]
    reached = [True]
    for at in range(1, 801):
        reached.append((free[at] or at == 800) and any(reached[max(0, at - 79) : max(0, at - 20)]))
    if reached[800] and any(length for _, length in drawn):
        assert "forced" not in {piece["cut"] for piece in found}
        for piece in found[:-1]:
            assert not any(start < piece["end_seconds"] < end for start, end in cues)


def test_a_recording_without_annotations_is_cut_by_its_level(recordings, folder):
    path = str(recordings / "one.wav")
    notes = folder / "notes.csv"
    notes.write_text("recording,start,end,label\nother.wav,1,2,a\nanother.wav,1,2,a\n")
    by_labels = pieces_of(Pauses([path], 3, 1.5, 5, by="labels", annotations=str(notes)))
    assert edges_of(by_labels) == edges_of(pieces_of(Pauses([path], 3, 1.5, 5)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"min_seconds": 0.0}, "--min-seconds 0: must be at least 0.1"),
        ({"min_seconds": float("nan")}, "--min-seconds nan: must be at least 0.1"),
        (
            {"max_seconds": 5.05},
            "--max-seconds 5.05: must be at least 0.1 more than --min-seconds, which is 5",
        ),
        ({"max_seconds": float("inf")}, "--max-seconds inf: must be a finite number"),
        (
            {"seconds": 20.0},
            "--seconds 20: must be from --min-seconds to --max-seconds, which are 5 and 15",
        ),
        ({"by": "labels"}, "--by labels: needs --annotations, such as --annotations beside"),
    ],
)
def test_options_without_sense(recordings, options, message):
    with pytest.raises(Refused, match=f"^{message}$"):
        Pauses(recordings / "list.csv", **options)


class TestPauses(RecipeConformance):
    recipe = Pauses
    parameters = {"seconds": 2.0, "min_seconds": 1.0, "max_seconds": 3.0}  # noqa: RUF012 - the suite's

    def inputs(self, folder):
        for number in range(4):
            soundfile.write(folder / f"{number}.wav", bursts(4 + number, seed=number)[0], RATE, "PCM_16")
