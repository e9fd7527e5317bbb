"""The recipe `silence`: librosa's places where its settings are the same, and plain searches for the rest."""

import warnings
from itertools import pairwise

import librosa
import numpy as np
import pytest
import soundfile
from doors import here, read_table, write_list
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from nightly import depth

from splitter.audio.levels import HOP, measure
from splitter.errors import Refused
from splitter.recipes.silence import Silence, joined, padded, shortened, sounding

LEVELS = [0.0, 1e-6, 1e-4, 0.003, 0.02, 0.1, 0.9]


@st.composite
def sounds(draw, longest: int = 6000):
    """Stretches of noise of some level, in one or more channels; any length, also less than a frame."""
    channels = draw(st.integers(1, 3))
    generator = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    parts = [np.empty((0, channels))]
    for length in draw(st.lists(st.integers(1, longest), min_size=1, max_size=6)):
        levels = [draw(st.sampled_from(LEVELS)) for _ in range(channels)]
        parts.append(generator.uniform(-1, 1, (length, channels)) * levels)
    return np.concatenate(parts).astype(np.float32)


def by_librosa(sound: np.ndarray, threshold_db: float) -> list[tuple[int, int]]:
    """The places that librosa gives."""
    frames = sound[:, 0] if sound.shape[1] == 1 else sound.T
    return [(int(start), int(stop)) for start, stop in librosa.effects.split(frames, top_db=threshold_db)]


def is_clear(sound: np.ndarray, threshold_db: float) -> bool:
    """Whether no frame is so near to the threshold that librosa's 32 bits may decide otherwise."""
    levels = librosa.feature.rms(y=sound.T)[:, 0, :]
    decibels = librosa.amplitude_to_db(levels, ref=np.max, top_db=None)
    return levels.max() > 2e-5 and np.abs(decibels + threshold_db).min() > 0.01


@settings(max_examples=depth(50))
@given(sounds(), st.sampled_from([3.0, 20.0, 40.0, 60.0, 77.7]), st.lists(st.integers(1, 5000), min_size=1))
def test_the_places_are_those_of_librosa(sound, threshold_db, sizes):
    """Whatever the blocks that the recording is read in, the channels, and the length."""
    assume(is_clear(sound, threshold_db))
    blocks, start = [], 0
    while start < len(sound):
        blocks.append(sound[start : start + sizes[len(blocks) % len(sizes)]])
        start += len(blocks[-1])
    assert sounding(measure(blocks), len(sound), threshold_db) == by_librosa(sound, threshold_db)


def test_a_recording_without_sound_has_no_places():
    """Also where librosa, which compares with the loudest there is, gives all of it."""
    assert sounding(measure([]), 0, 40) == []
    for length in (1, 511, 512, 5000):
        assert sounding(measure([np.zeros((length, 2), np.float32)]), length, 40) == []


@st.composite
def places(draw):
    """Places in a recording that do not touch, and how long it is."""
    edges = sorted(draw(st.sets(st.integers(0, 120), max_size=16)))
    pieces = list(zip(edges[::2], edges[1::2], strict=False))
    return pieces, (pieces[-1][1] if pieces else 0) + draw(st.integers(0, 30))


def runs(flags: np.ndarray) -> list[tuple[int, int]]:
    """Where flags are set, found one by one."""
    found, start = [], None
    for at, flag in enumerate([*flags, False]):
        if flag and start is None:
            start = at
        elif not flag and start is not None:
            found.append((start, at))
            start = None
    return found


@given(places(), st.integers(0, 40))
def test_short_silences_do_not_cut(found, least):
    """Every silence between two places that is too short counts as sound; sample by sample."""
    pieces, frames = found
    sound = np.zeros(frames, bool)
    for start, stop in pieces:
        sound[start:stop] = True
    between = [(start, stop) for start, stop in runs(~sound) if start > 0 and stop < frames]
    first = pieces[0][0] if pieces else 0
    for start, stop in between:
        if stop - start < least and start >= first:
            sound[start:stop] = True
    assert joined(pieces, least) == runs(sound)


@given(places(), st.integers(0, 40))
def test_padding_takes_what_is_nearest(found, pad):
    """A silent sample comes to the nearest place, if that is near enough; halfway to the later one."""
    pieces, frames = found
    owners: list[list[int]] = [[] for _ in pieces]
    for at in range(frames):
        near = []
        for number, (start, stop) in enumerate(pieces):
            distance = max(start - at, at - stop + 1, 0)
            near.append((distance, -number))
        if near and min(near)[0] <= pad:
            owners[-min(near)[1]].append(at)
    assert padded(pieces, pad, frames) == [(samples[0], samples[-1] + 1) for samples in owners]
    assert all(len(samples) == samples[-1] + 1 - samples[0] for samples in owners)


@given(
    st.integers(0, 3000),
    st.integers(1, 40_000),
    st.integers(1, 9000),
    st.lists(st.floats(0, 1), min_size=90, max_size=90),
)
def test_long_pieces_are_cut_at_the_quietest_place(start, length, most, levels):
    """Of the second half of what a part may hold, and nothing is lost between the parts."""
    parts = list(shortened((start, start + length), most, np.array(levels)))
    assert parts[0][0] == start
    assert parts[-1][1] == start + length
    for (begin, cut), (following, _) in pairwise(parts):
        assert cut == following
        assert begin + most / 2 < cut <= begin + most
        there = [at for at in range(0, begin + most + 1, HOP) if at > begin + most // 2]
        if there:
            assert levels[cut // HOP] == min(levels[at // HOP] for at in there)
            assert cut % HOP == 0
        else:
            assert cut == begin + most
    assert parts[-1][1] - parts[-1][0] <= most


# -- runs ----------------------------------------------------------------------------------------------------

RATE = 8000


@pytest.fixture
def speech(folder):
    """Bursts of noise with pauses of many lengths, one and two channels; a silent and an empty recording."""
    generator = np.random.default_rng(5)
    parts = []
    for burst, pause in [(0.4, 0.25), (0.7, 0.35), (0.2, 1.0), (2.5, 0.31), (0.05, 0.6), (1.0, 0.4)]:
        parts += [generator.uniform(-0.6, 0.6, (int(burst * RATE), 2)), np.zeros((int(pause * RATE), 2))]
    sound = np.concatenate(parts)
    sound[: int(0.3 * RATE), 1] = 0
    soundfile.write(folder / "two.flac", sound, RATE, "PCM_16")
    soundfile.write(folder / "one.wav", sound[:-4001, 0], RATE, "PCM_16")
    soundfile.write(folder / "none.wav", np.zeros(RATE * 2), RATE, "PCM_16")
    soundfile.write(folder / "empty.wav", np.zeros(0), RATE, "PCM_16")
    names = ["two.flac", "one.wav", "none.wav", "empty.wav"]
    return write_list(folder / "list.csv", [["input"], *([name] for name in names)])


def by_recording(folder) -> dict[str, list[dict[str, str]]]:
    rows: dict[str, list[dict[str, str]]] = {}
    for row in read_table(folder / "manifest.csv"):
        rows.setdefault(row["input"], []).append(row)
    return rows


def places_of(rows) -> list[tuple[int, int]]:
    return [(int(row["start_sample"]), int(row["stop_sample"])) for row in rows if row["output"]]


@pytest.mark.slow
@pytest.mark.parametrize("threshold_db", [20.0, 40.0])
def test_a_run_agrees_with_librosa(speech, tmp_path, capfd, threshold_db):
    """Through the command line; the pieces are the samples of the recording, bit for bit."""
    options = ["--threshold-db", str(threshold_db), "--min-silence", "0", "--pad", "0", "--workers", "1"]
    said = here(capfd, "run", speech, "--recipe", "silence", "-o", tmp_path / "out", *options)
    assert said.code == 0, said.err
    rows = by_recording(tmp_path / "out")
    for name in ("two.flac", "one.wav"):
        sound, _ = soundfile.read(speech.parent / name, dtype="float32", always_2d=True)
        assert places_of(rows[name]) == by_librosa(sound, threshold_db)
        assert len(rows[name]) > 4
        whole, _ = soundfile.read(speech.parent / name, dtype="int16", always_2d=True)
        for number, row in enumerate(rows[name]):
            start, stop = int(row["start_sample"]), int(row["stop_sample"])
            piece, rate = soundfile.read(tmp_path / "out" / row["output"], dtype="int16", always_2d=True)
            assert np.array_equal(piece, whole[start:stop])
            assert row["output"].endswith(f"{number:06d}_{start / RATE:.3f}s.{name[-4:].strip('.')}")
            assert (float(row["start_seconds"]), float(row["end_seconds"])) == (start / RATE, stop / RATE)
            assert (int(row["frames"]), int(row["sample_rate"]), rate) == (stop - start, RATE, RATE)
            assert int(row["channels"]) == int(row["source_channels"]) == whole.shape[1]
            assert int(row["source_frames"]) == len(whole)
            assert float(row["source_seconds"]) == len(whole) / RATE


def test_recordings_without_sound_make_no_output(speech, tmp_path):
    """They stand in the manifest with what is known of them."""
    Silence(speech).run(tmp_path / "out", workers=1, quiet=True)
    rows = by_recording(tmp_path / "out")
    for name, frames in (("none.wav", "16000"), ("empty.wav", "0")):
        (row,) = rows[name]
        assert (row["output"], row["start_sample"], row["source_frames"]) == ("", "", frames)


def pieces_of(dataset) -> list[list[tuple[int, int]]]:
    return [
        [(output.metadata["start_sample"], output.metadata["stop_sample"]) for output in outputs]
        for outputs, _ in dataset
    ]


@pytest.mark.slow
def test_the_options_mean_what_they_say(speech):
    """Pauses, lengths and padding, seen from the places that librosa finds."""
    for index, name in enumerate(("two.flac", "one.wav")):
        sound, _ = soundfile.read(speech.parent / name, dtype="float32", always_2d=True)
        raw = by_librosa(sound, 40)

        def made(index=index, **options):
            defaults = {"min_silence": 0.0, "pad": 0.0, **options}
            return pieces_of(Silence(speech, **defaults))[index]

        apart = made(min_silence=0.3)
        assert 1 < len(apart) < len(raw)
        assert {edge for piece in apart for edge in piece} <= {edge for piece in raw for edge in piece}
        assert all(following - stop >= 0.3 * RATE for (_, stop), (following, _) in pairwise(apart))
        assert made(min_seconds=0.5) == [piece for piece in raw if piece[1] - piece[0] >= 0.5 * RATE]
        near = made(pad=0.02)
        assert [(max(0, start - 160), min(len(sound), stop + 160)) for start, stop in raw] == near
        for most in (0.1, 0.6, 1.1):
            short = made(max_seconds=most)
            assert max(stop - start for start, stop in short) <= most * RATE
            assert joined(short, 1) == raw


def test_low_rates_are_cut_short_enough(folder):
    """A piece is no longer than asked for where that is less than a frame of the measure."""
    soundfile.write(folder / "slow.wav", np.random.default_rng(6).uniform(-1, 1, 5000), 1000, "PCM_16")
    (found,) = pieces_of(Silence([str(folder / "slow.wav")], max_seconds=0.1))
    assert max(stop - start for start, stop in found) <= 100
    assert joined(found, 1) == [(0, 5000)]


def test_at_another_rate_the_places_stay(speech):
    """They are measured in the recording as it is, and cut from what it was resampled to."""
    places_at_once = pieces_of(Silence(speech))
    dataset = Silence(speech, sample_rate=11025, channels="mono", format="wav")
    assert pieces_of(dataset) == places_at_once
    for outputs, _ in dataset:
        for output in outputs:
            about = output.metadata
            expected = round(about["stop_sample"] * 11025 / RATE) - round(
                about["start_sample"] * 11025 / RATE
            )
            assert about["frames"] == expected
            assert (about["sample_rate"], about["channels"]) == (11025, 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"threshold_db": 0.0}, "--threshold-db 0: must be more than 0"),
        ({"pad": -1.0}, "--pad -1: must be at least 0"),
        ({"min_silence": float("nan")}, "--min-silence nan: must be at least 0"),
        ({"max_seconds": 0.01}, "--max-seconds 0.01: must be at least 0.1, and at least --min-seconds"),
        (
            {"max_seconds": 2.0, "min_seconds": 3.0},
            "--max-seconds 2: must be at least 0.1, and at least --min-seconds",
        ),
    ],
)
def test_options_without_sense(speech, options, message):
    with pytest.raises(Refused, match=f"^{message}$"):
        Silence(speech, **options)


def test_levels_of_odd_numbers(folder):
    """NaN, infinities and the smallest numbers end in an answer, without a warning."""
    sound = np.zeros(20_000, np.float32)
    sound[6000:9000], sound[12_000], sound[15_000] = 0.5, np.nan, np.inf
    soundfile.write(folder / "odd.wav", sound, RATE, "FLOAT")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (found,) = pieces_of(Silence([str(folder / "odd.wav")]))
    assert any(start <= 6000 and stop >= 9000 for start, stop in found)
