"""The recipe `speech`: what silero-vad hears in the whole file, with its model loaded once."""

import io
import os
from itertools import pairwise
from pathlib import Path

import librosa
import numpy as np
import pytest
import silero_vad
import soundfile
import soxr
import torch
from doors import CHECKOUT, here, read_table, write_list
from hypothesis import given
from hypothesis import strategies as st

from splitter.errors import Refused
from splitter.recipes.speech import Speech, merged, padded

pytestmark = pytest.mark.slow

SAMPLES = CHECKOUT / "data_samples/speech"
# one of each kind that all readers read alike; with and without a change of rate, mono and stereo
HEARD = [
    "lecture.flac",
    "greeting.wav",
    "studio.wav",
    "telephone.wav",
    "interview.aiff",
    "L'été à Montréal.flac",
]


@pytest.fixture(scope="module")
def model():
    return silero_vad.load_silero_vad()


def by_silero(model, path: Path, **options) -> list[tuple[int, int]]:
    """What silero-vad finds in a whole recording at 16 kHz, in its own samples."""
    sound, rate = soundfile.read(path, dtype="float32", always_2d=True)
    mono = sound.mean(axis=1, dtype=np.float64).astype(np.float32)
    if rate != 16000:
        mono = soxr.resample(mono, rate, 16000, "HQ")[: round(len(mono) * 16000 / rate)]
    found = silero_vad.get_speech_timestamps(torch.from_numpy(mono), model, **options)
    return [(piece["start"], piece["end"]) for piece in found]


def heard(outputs) -> list[tuple[int, int]]:
    """The pieces that came out, in samples at 16 kHz."""
    return [
        (round(output.metadata["start_seconds"] * 16000), round(output.metadata["end_seconds"] * 16000))
        for output in outputs
    ]


@pytest.mark.parametrize("name", HEARD)
def test_the_pieces_are_those_of_silero(model, name):
    """With its own defaults, and each piece is a slice of the recording as it is."""
    (outputs, about), *_ = Speech([str(SAMPLES / name)])
    assert heard(outputs) == by_silero(model, SAMPLES / name)
    assert outputs
    whole, rate = soundfile.read(SAMPLES / name, always_2d=True)
    assert (about["source_frames"], about["source_rate"]) == (len(whole), rate)
    for output in outputs:
        start, stop = output.metadata["start_sample"], output.metadata["stop_sample"]
        # half a sample, and what floats add to it
        assert abs(start / rate - output.metadata["start_seconds"]) < 0.5001 / rate
        assert abs(stop / rate - output.metadata["end_seconds"]) < 0.5001 / rate
        piece, _ = soundfile.read(io.BytesIO(output.content), always_2d=True)
        assert np.array_equal(piece, whole[start:stop])
        assert (output.metadata["frames"], output.metadata["sample_rate"]) == (stop - start, rate)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ({"threshold": 0.9}, {"threshold": 0.9}),
        ({"min_silence": 0.5}, {"min_silence_duration_ms": 500}),
        ({"min_seconds": 2.0}, {"min_speech_duration_ms": 2000}),
        ({"pad": 0.2, "min_silence": 0.0}, {"speech_pad_ms": 200, "min_silence_duration_ms": 0}),
    ],
)
def test_the_options_are_those_of_silero(model, ours, theirs):
    """In seconds instead of milliseconds."""
    path = SAMPLES / "podcast.mp3"
    (outputs, _), *_ = Speech([str(path)], **ours)
    found = by_silero(model, path, **theirs)
    assert len(found) >= 1
    assert heard(outputs) == found
    assert found != by_silero(model, path)


@pytest.mark.parametrize("most", [1.0, 3.0, 8.0, 1000.0])
def test_pieces_are_merged_up_to_a_length(model, most):
    """As many neighbours in one as there is room for, one after the other; none is longer, pads included."""
    path = SAMPLES / "podcast.mp3"
    (outputs, _), *_ = Speech([str(path)], max_seconds=most, min_seconds=0.0)
    left = by_silero(model, path, max_speech_duration_s=most, min_speech_duration_ms=0)
    expected = []
    while left:
        room = [number for number, piece in enumerate(left) if piece[1] - left[0][0] <= most * 16000]
        last = max(room, default=0)
        expected.append((left[0][0], left[last][1]))
        left = left[last + 1 :]
    assert heard(outputs) == expected
    assert all(stop - start <= most * 16000 for start, stop in expected)
    assert (len(expected) == 1) == (most == 1000)


def test_short_pieces_are_left_out_after_merging(model):
    """Words that are short alone, but not with their neighbours, are kept."""
    path = SAMPLES / "podcast.mp3"
    alone = by_silero(model, path, min_speech_duration_ms=2000)
    (merged_first, _), *_ = Speech([str(path)], max_seconds=1000.0, min_seconds=2.0)
    (all_of_it, _), *_ = Speech([str(path)], max_seconds=1000.0, min_seconds=0.0)
    assert heard(merged_first) == heard(all_of_it)
    assert sum(stop - start for start, stop in alone) < sum(stop - start for start, stop in heard(all_of_it))
    (none, _), *_ = Speech([str(path)], max_seconds=1000.0, min_seconds=1000.0)
    assert heard(none) == []


@given(
    st.lists(st.integers(1, 60), max_size=30),
    st.integers(0, 40),
    st.floats(0, 2, allow_nan=False),
)
def test_pads_are_those_of_silero(lengths, windows_after, pad):
    """For any speech and pauses, given as probabilities, its own function pads alike."""
    probabilities = [float(number % 2) for number, count in enumerate(lengths) for _ in range(count)]
    probabilities += [0.0] * windows_after
    samples = len(probabilities) * 512
    options = {"audio_length_samples": samples, "min_speech_duration_ms": 0, "min_silence_duration_ms": 0}
    from_probabilities = silero_vad.utils_vad.get_speech_timestamps_from_probs
    plain, expected = (
        [
            (piece["start"], piece["end"])
            for piece in from_probabilities(probabilities, speech_pad_ms=milliseconds, **options)
        ]
        for milliseconds in (0, pad * 1000)
    )
    assert padded(plain, pad * 1000 * 16, samples) == expected


@given(st.sets(st.integers(0, 200), max_size=30).map(sorted), st.integers(0, 80))
def test_merging_is_greedy_and_loses_nothing(edges, most):
    """Every piece stands in one, no two of the result would fit together, and none grew too long."""
    pieces = list(zip(edges[::2], edges[1::2], strict=False))
    result = merged(pieces, most)
    for start, stop in result:
        inside = [piece for piece in pieces if start <= piece[0] and piece[1] <= stop]
        assert (inside[0][0], inside[-1][1]) == (start, stop)
        assert stop - start <= most or len(inside) == 1
    assert sum(sum(start <= piece[0] < stop for start, stop in result) for piece in pieces) == len(pieces)
    for (start, _), (following, _) in pairwise(result):
        first = next(piece for piece in pieces if piece[0] == following)
        assert first[1] - start > most


@pytest.fixture
def quiet(folder):
    """Recordings without speech."""
    generator = np.random.default_rng(7)
    soundfile.write(folder / "silence.wav", np.zeros(32_000), 16_000, "PCM_16")
    soundfile.write(folder / "noise.wav", generator.normal(0, 0.05, 48_000), 16_000, "PCM_16")
    soundfile.write(folder / "short.wav", generator.normal(0, 0.05, 100), 16_000, "PCM_16")
    soundfile.write(folder / "one.wav", [0.5], 44_100, "PCM_16")
    soundfile.write(folder / "empty.wav", np.zeros(0), 16_000, "PCM_16")
    names = ["silence.wav", "noise.wav", "short.wav", "one.wav", "empty.wav"]
    return write_list(folder / "list.csv", [["input"], *([name] for name in names)])


def test_without_speech_there_is_no_output(quiet, model, tmp_path):
    """But a row for each recording; silero hears nothing there either."""
    manifest = Speech(quiet).run(tmp_path / "out", workers=1, quiet=True)
    assert not len(manifest.failed)
    rows = read_table(tmp_path / "out/manifest.csv")
    assert [(row["input"], row["output"], row["source_frames"]) for row in rows] == [
        ("silence.wav", "", "32000"),
        ("noise.wav", "", "48000"),
        ("short.wav", "", "100"),
        ("one.wav", "", "1"),
        ("empty.wav", "", "0"),
    ]
    for name in ("silence.wav", "noise.wav", "short.wav"):
        assert by_silero(model, quiet.parent / name) == []


def test_each_worker_loads_the_model_once(tmp_path, monkeypatch):
    """Two processes, eight inputs in batches of their own: each process that hears has loaded it once."""
    loaded, used = tmp_path / "loaded", tmp_path / "used"
    load, listen = silero_vad.load_silero_vad, Speech.spans

    def note(path: Path) -> None:
        with path.open("a") as file:
            file.write(f"{os.getpid()}\n")

    def counted_load():
        note(loaded)
        return load()

    def counted_spans(self, source, input_file):
        note(used)
        return listen(self, source, input_file)

    monkeypatch.setattr(silero_vad, "load_silero_vad", counted_load)
    monkeypatch.setattr(Speech, "spans", counted_spans)
    dataset = Speech(str(CHECKOUT / "data_samples/dataset.csv"))
    manifest = dataset.run(tmp_path / "out", workers=2, batch_size=1, quiet=True)
    assert not len(manifest.failed)
    loaders, users = loaded.read_text().split(), used.read_text().split()
    assert len(users) == 8
    assert sorted(loaders) == sorted(set(users))
    assert len(loaders) <= 2
    assert str(os.getpid()) not in loaders


def test_the_order_of_recordings_changes_nothing(tmp_path):
    """The model starts anew with each: forwards, backwards and alone they give the same pieces."""
    names = ["podcast.mp3", "greeting.wav", "lecture.flac", "telephone.wav"]
    paths = [str(SAMPLES / name) for name in names]
    forwards, backwards = Speech(paths), Speech(paths[::-1])
    there = [forwards[index] for index in range(4)]
    back = [backwards[index] for index in range(4)][::-1]
    alone = [Speech([path])[0] for path in paths]
    assert there == back == alone


def test_a_run_from_the_command_line(tmp_path, capfd):
    """Merged, resampled and mixed; the pieces follow each other and are as long as they say."""
    options = ["--max-seconds", "8", "--sample-rate", "16000", "--channels", "mono", "--format", "flac"]
    said = here(
        capfd, "run", CHECKOUT / "data_samples/dataset.csv", "--recipe", "speech", "--workers", "2",
        *options, "-o", tmp_path / "out",
    )  # fmt: skip
    assert said.code == 0, said.err
    rows = read_table(tmp_path / "out/manifest.csv")
    assert len({row["input"] for row in rows}) == 8
    for row in rows:
        piece, rate = soundfile.read(tmp_path / "out" / row["output"], always_2d=True)
        assert (rate, piece.shape) == (16000, (int(row["frames"]), 1))
        assert len(piece) <= 8 * 16000 + 1
    for row, following in pairwise(rows):
        if row["input"] == following["input"]:
            assert float(following["start_seconds"]) >= float(row["end_seconds"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"threshold": 0.0}, "--threshold 0: must be between 0 and 1"),
        ({"threshold": 1.0}, "--threshold 1: must be between 0 and 1"),
        ({"pad": -0.1}, "--pad -0.1: must be at least 0"),
        ({"max_seconds": 0.5}, "--max-seconds 0.5: must be at least 1"),
        (
            {"max_seconds": 1.0, "pad": 0.5},
            "--pad 0.5: twice this must be less than --max-seconds, 1",
        ),
    ],
)
def test_options_without_sense(quiet, options, message):
    with pytest.raises(Refused, match=f"^{message}$"):
        Speech(quiet, **options)


def test_librosa_would_give_the_model_the_same(model):
    """The recording as librosa loads it, mono at 16 kHz, has the same places of speech."""
    sound, _ = librosa.load(SAMPLES / "studio.wav", sr=16000, mono=True)
    found = silero_vad.get_speech_timestamps(torch.from_numpy(sound), model)
    (outputs, _), *_ = Speech([str(SAMPLES / "studio.wav")])
    assert heard(outputs) == [(piece["start"], piece["end"]) for piece in found]
