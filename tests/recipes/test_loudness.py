"""`--loudness`: each piece as loud as asked for, below a true peak, and the manifest says by which gain."""

import re
import subprocess

import numpy as np
import pytest
import soundfile
from doors import CHECKOUT, here, read_table
from sounds import chunks_of, encoded_by_ffmpeg, needs_ffmpeg, tone, write_sound

from splitter.audio import base, decoded
from splitter.errors import Refused
from splitter.recipes.chunk import Chunk

SPEECH = CHECKOUT / "data_samples" / "speech"
RATE = 48_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The same speech in stereo, its halves not equally loud, in formats that are copied or decoded."""
    found, rate = soundfile.read(SPEECH / "lecture.flac", dtype="float32")
    mono = np.interp(np.arange(6 * RATE) * rate / RATE, np.arange(len(found)), found)
    mono[3 * RATE :] /= 8
    frames = np.stack((mono, np.roll(mono, 99) / 2), axis=1)
    folder = tmp_path_factory.mktemp("speech")
    for name, subtype in (("a.wav", "PCM_16"), ("a.flac", "PCM_24"), ("a.aiff", "FLOAT")):
        soundfile.write(folder / name, frames, RATE, subtype)
    encoded_by_ffmpeg((frames * 32767).astype("i2"), RATE, folder / "a.mp3", "-b:a", "192k")
    return folder


def samples_of(output, path) -> np.ndarray:
    if isinstance(output.content, bytes):
        path.write_bytes(output.content)
    else:
        with path.open("wb") as file:
            output.content(file)
    return soundfile.read(path, dtype="float64", always_2d=True)[0]


def pieces(path, tmp_path, **parameters):
    """Return the metadata and the samples of each piece."""
    outputs, _ = chunks_of(path, seconds=3, **parameters)
    return [(one.metadata, samples_of(one, tmp_path / one.name)) for one in outputs]


def lufs(samples: np.ndarray) -> float:
    import pyloudnorm

    return pyloudnorm.Meter(RATE).integrated_loudness(samples)


@needs_ffmpeg
@pytest.mark.parametrize("name", ["a.wav", "a.flac", "a.aiff", "a.mp3"])
def test_each_piece_is_as_loud_as_asked_for(folder, tmp_path, name):
    """By pyloudnorm; and it is the recording times the gain that the manifest states."""
    plain = pieces(folder / name, tmp_path)
    louder = pieces(folder / name, tmp_path, loudness=-26, measure="loudness,true_peak")
    assert len(louder) == 2
    for (_, before), (about, after) in zip(plain, louder, strict=True):
        assert lufs(after) == pytest.approx(-26, abs=0.1)
        assert about["loudness"] == pytest.approx(-26, abs=0.02)
        assert about["gain_set_by"] == "loudness"
        assert about["gain_db"] == pytest.approx(-26 - lufs(before), abs=0.1)
        assert about.get("source_cut", "encoded") == "encoded"
        if name != "a.mp3":
            expected = before * 10 ** (about["gain_db"] / 20)
            # half a step of its 16 or 24 bits, or what floats round
            assert (
                np.abs(after - expected).max() <= {"a.wav": 2**-16, "a.flac": 2**-24}.get(name, 1e-6) * 1.01
            )
    assert louder[1][0]["gain_db"] > louder[0][0]["gain_db"] + 10


@needs_ffmpeg
def test_the_true_peak_bounds_the_gain(folder, tmp_path):
    """By ffmpeg: no piece is beyond it, and its loudness is then less than asked for."""
    for about, samples in pieces(folder / "a.wav", tmp_path, loudness=-5, true_peak=-2):
        path = tmp_path / "again.wav"
        soundfile.write(path, samples, RATE, "FLOAT")
        command = ["ffmpeg", "-nostats", "-i", path, "-af", "ebur128=peak=true", "-f", "null", "-"]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
        peak = float(re.findall(r"Peak:\s+(-?[\d.]+) dBFS", said)[-1])
        assert peak == pytest.approx(-2, abs=0.15)
        assert about["gain_set_by"] == "peak"
        assert lufs(samples) < -8


def test_what_has_no_loudness_is_not_changed(tmp_path):
    """Less than 400 ms, and silence: to the bit."""
    sound = tone(3.3, RATE)
    sound[: 3 * RATE] = 0
    path = write_sound(tmp_path / "a.wav", sound, RATE)
    plain = pieces(path, tmp_path)
    for (_, before), (about, after) in zip(plain, pieces(path, tmp_path, loudness=-10), strict=True):
        assert (about["gain_db"], about["gain_set_by"]) == (0, "none")
        assert np.array_equal(before, after)


def test_each_channel_that_is_a_file_has_its_own_gain(folder, tmp_path):
    found = pieces(folder / "a.wav", tmp_path, loudness=-26, channels="split")
    assert len(found) == 4
    assert all(lufs(samples) == pytest.approx(-26, abs=0.1) for _, samples in found)
    assert found[1][0]["gain_db"] == pytest.approx(found[0][0]["gain_db"] + 6.02, abs=0.1)


def test_a_long_piece_is_the_same_part_after_part(folder, tmp_path, monkeypatch):
    """It is read again for its peak, and again to be written; never in memory at once."""
    whole = pieces(folder / "a.flac", tmp_path, loudness=-10)
    for module in (base, decoded):
        monkeypatch.setattr(module, "MANY_SAMPLES", 1000)
    monkeypatch.setattr("splitter.measures.base.MANY_SAMPLES", 1000)
    parts = pieces(folder / "a.flac", tmp_path, loudness=-10)
    for (about, expected), (again, samples) in zip(whole, parts, strict=True):
        assert about == again
        assert np.array_equal(samples, expected)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"loudness": 23.0}, "--loudness 23: must be in LUFS, more than -70, at most 0; did you mean -23?"),
        ({"loudness": -90.0}, "--loudness -90: must be in LUFS"),
        ({"loudness": -23.0, "true_peak": 1.0}, "--true-peak 1: must be in dBTP"),
        ({"true_peak": -2.0}, "--true-peak -2: needs --loudness"),
        ({"loudness": float("nan")}, "--loudness nan: must be in LUFS"),
    ],
)
def test_what_no_piece_can_be(options, said):
    with pytest.raises(Refused, match=re.escape(said)):
        Chunk([], **options)


def test_on_the_command_line(folder, tmp_path, capfd):
    """For every recipe of sound; what was made without stays finished."""
    assert "loudness" not in Chunk([]).parameters
    source = ("--pattern=a.wav", "--quiet", "--workers=0")
    for recipe in ("chunk", "silence", "pauses", "speech"):
        said = here(capfd, "run", folder, *source, "--recipe", recipe, "--loudness", "-30",
                    "--measure=loudness", "--output", tmp_path / recipe)  # fmt: skip
        assert said.code == 0, said.err
        rows = read_table(tmp_path / recipe / "manifest.csv")
        assert rows
        for row in rows:
            if row["gain_set_by"] == "loudness":
                assert float(row["loudness"]) == pytest.approx(-30, abs=0.05)
        assert any(row["gain_set_by"] == "loudness" for row in rows)
    assert here(capfd, "verify", tmp_path / "chunk", "--deep").code == 0
