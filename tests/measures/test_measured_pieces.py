"""`--measure`: columns of each piece, whichever way it is cut, and measured on what it holds."""

import io
import os
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile
from doors import CHECKOUT, here, read_table
from sounds import chunks_of, encoded_by_ffmpeg, needs_ffmpeg, tone, write_sound

from splitter.errors import Refused
from splitter.measures.base import Measure, Sound
from splitter.recipes.chunk import Chunk
from splitter.recipes.pauses import Pauses
from splitter.recipes.segments import Segments
from splitter.recipes.silence import Silence
from splitter.recipes.speech import Speech
from splitter.registry import MEASURES

SPEECH = CHECKOUT / "data_samples" / "speech"
QUICK = ("levels", "loudness", "clipping", "snr", "bandwidth")
COLUMNS = ("rms", "peak", "loudness", "clipping", "snr", "bandwidth")


def measured_again(content: bytes) -> dict[str, float]:
    """Measure a piece as its file is decoded."""
    samples, rate = soundfile.read(io.BytesIO(content), dtype="float32", always_2d=True)
    sound = Sound(lambda: [samples], len(samples), samples.shape[1], rate)
    measures = (MEASURES.load_object(name, Measure) for name in QUICK)
    return {column: value for one in measures for column, value in one.of(sound).items()}


def content_of(output) -> bytes:
    if isinstance(output.content, bytes):
        return output.content
    file = io.BytesIO()
    output.content(file)
    return file.getvalue()


@pytest.fixture(scope="module")
def encoded(tmp_path_factory) -> Path:
    """The same speech in stereo, in formats that are copied and formats that are decoded."""
    folder = tmp_path_factory.mktemp("encoded")
    mono, rate = soundfile.read(SPEECH / "lecture.flac", dtype="int16", always_2d=True)
    frames = np.concatenate((mono, mono[::-1] // 3), axis=1)[: 6 * rate]
    for name, subtype in (("WAV", "PCM_16"), ("FLAC", "PCM_24"), ("AIFF", "PCM_16")):
        soundfile.write(folder / f"a.{name.lower()}", frames, rate, subtype, format=name)
    soundfile.write(folder / "law.wav", frames, 8000, "ULAW")
    encoded_by_ffmpeg(frames, rate, folder / "a.mp3", "-b:a", "128k")
    encoded_by_ffmpeg(frames, rate, folder / "a.opus", "-b:a", "96k")
    return folder


@needs_ffmpeg
@pytest.mark.parametrize("name", ["a.wav", "law.wav", "a.flac", "a.aiff", "a.mp3", "a.opus"])
def test_a_piece_is_measured_as_it_is_stored(encoded, name):
    """Also where its frames are copied: that is what a player hears."""
    outputs, _ = chunks_of(encoded / name, seconds=2.5, measure=",".join(QUICK))
    assert len(outputs) >= 3
    for output in outputs:
        expected = measured_again(content_of(output))
        assert [*output.metadata][-len(COLUMNS) :] == [*COLUMNS] or "source_cut" in output.metadata
        found = {column: output.metadata[column] for column in COLUMNS}
        assert found["bandwidth"] == pytest.approx(expected.pop("bandwidth"), rel=0.05)
        del found["bandwidth"]
        assert found == pytest.approx(expected, abs=0.05)


@pytest.mark.parametrize(
    "parameters",
    [{"sample_rate": 8000}, {"channels": "mono"}, {"channels": "first"}, {"channels": "split"}],
)
def test_what_is_changed_on_the_way_is_measured_after_it(encoded, parameters):
    """At the rate and with the channels of the piece; each channel by itself where each is a file."""
    outputs, _ = chunks_of(encoded / "a.wav", seconds=2.5, measure=",".join(QUICK), **parameters)
    for output in outputs:
        expected = measured_again(content_of(output))
        assert {column: output.metadata[column] for column in COLUMNS} == pytest.approx(expected, abs=0.05)
    if parameters["channels" if "channels" in parameters else "sample_rate"] == "split":
        assert outputs[0].metadata["rms"] > outputs[1].metadata["rms"] + 6


def test_silence_that_pads_a_piece_is_not_measured(tmp_path):
    """It would be taken for a background without noise."""
    path = write_sound(tmp_path / "a.wav", tone(1, 8000))
    (plain,), _ = chunks_of(path, seconds=1, measure="levels,snr")
    (padded,), _ = chunks_of(path, seconds=3, tail="pad", measure="levels,snr")
    assert padded.metadata["frames"] == 3 * plain.metadata["frames"]
    assert (padded.metadata["rms"], padded.metadata["snr"]) == (plain.metadata["rms"], plain.metadata["snr"])


def test_on_the_command_line(tmp_path, capfd):
    """The columns are in the manifest, typed, for every recipe of sound; workers make no difference."""
    recordings = tmp_path / "in"
    recordings.mkdir()
    for name in ("lecture.flac", "podcast.mp3"):
        os.link(SPEECH / name, recordings / name)
    (recordings / "lecture.csv").write_text("start,end,label\n0.5,2.25,a\n3,3,point\n")
    measure = ("--measure", "levels,speech", "--quiet")
    for recipe in ("chunk", "silence", "pauses", "speech"):
        said = here(capfd, "run", recordings, "--pattern=*.flac", "--recipe", recipe, *measure, "--workers=0",
                    "--output", tmp_path / recipe)  # fmt: skip
        assert said.code == 0, said.err
        rows = read_table(tmp_path / recipe / "manifest.csv")
        assert rows
        assert all(-60 < float(row["rms"]) < float(row["peak"]) <= 0 for row in rows)
        assert all(0 <= float(row["speech"]) <= 1 for row in rows)
    said = here(capfd, "run", recordings, "--recipe=segments", *measure, "--workers=2", "--output",
                tmp_path / "segments")  # fmt: skip
    assert said.code == 0, said.err
    cut, point, _ = read_table(tmp_path / "segments" / "manifest.csv")
    assert (float(cut["rms"]) < 0, point["rms"], point["speech"]) == (True, "", "")
    assert here(capfd, "verify", tmp_path / "segments").code == 0


@pytest.mark.parametrize("recipe", [Chunk, Silence, Pauses, Speech, Segments])
def test_what_was_made_before_is_not_made_again(recipe):
    """Without the option the parameters, and so the fingerprints, are those of an earlier version."""
    assert "measure" not in recipe("list.csv").parameters
    assert recipe("list.csv", measure="snr").parameters["measure"] == "snr"


@pytest.mark.parametrize(
    ("measure", "words"),
    [
        ("snr,sn", "--measure 'sn': is unknown; did you mean 'snr'?"),
        ("volume", "--measure 'volume': is unknown; choose from levels, loudness, true_peak, clipping, snr"),
        ("snr,snr", "--measure snr,snr: 'snr' is given twice"),
        ("", "--measure '': is unknown"),
    ],
)
def test_refused_measures(measure, words):
    with pytest.raises(Refused) as refused:
        Chunk("list.csv", measure=measure)
    assert words in str(refused.value)


def test_a_column_that_would_be_hidden_is_refused(tmp_path, capfd):
    write_sound(tmp_path / "a.wav", tone(1, 8000))
    (tmp_path / "list.csv").write_text("input,snr\na.wav,high\n")
    said = here(capfd, "run", tmp_path / "list.csv", "--measure=snr", "--output", tmp_path / "out")
    assert (said.code, "'snr'" in said.err, "--rename snr=" in said.err) == (2, True, True), said.err


def test_a_package_that_is_missing_is_named(monkeypatch):
    monkeypatch.setattr("splitter.measures.chosen.find_spec", lambda _: None)
    with pytest.raises(Refused, match=r"--measure dnsmos: needs speechmos and .*'splitter-ml\[dnsmos\]'"):
        Chunk("list.csv", measure="dnsmos")


def test_a_measure_of_another_package(tmp_path, monkeypatch, capfd):
    """It is found by its entry point."""
    write_sound(tmp_path / "a.wav", tone(2, 8000))
    monkeypatch.syspath_prepend(CHECKOUT / "tests" / "outside")
    monkeypatch.delitem(sys.modules, "outside_package", raising=False)
    monkeypatch.chdir(tmp_path)
    options = ("--pattern=*.wav", "--seconds=1", "--measure=zeros,levels", "--workers=0")
    said = here(capfd, "run", tmp_path, *options)
    assert said.code == 0, said.err
    samples, _ = soundfile.read(tmp_path / "a.wav", dtype="int16")
    rows = read_table(tmp_path / "outputs" / "manifest.csv")
    counted = [int((samples[at : at + 8000] == 0).sum()) for at in (0, 8000)]
    assert [int(row["zeros"]) for row in rows] == counted
