"""The recipe `spectrogram`: arrays that are librosa's, pictures that say what their greys are."""

import io
import re

import librosa
import numpy as np
import pytest
import soundfile
from doors import CHECKOUT, here, read_table
from PIL import Image
from sounds import write_sound

import splitter
from splitter.audio.spectra import Spectra
from splitter.errors import AudioError, Refused
from splitter.recipes.spectrogram import Spectrogram

SPEECH = CHECKOUT / "data_samples" / "speech"


def made(path, **parameters):
    outputs, _ = Spectrogram([str(path)], **parameters)[0]
    return outputs


def array_of(output) -> np.ndarray:
    return np.load(io.BytesIO(output.content))


def by_librosa(samples, rate, top_db=80.0, **parameters):
    power = librosa.feature.melspectrogram(y=samples, sr=rate, **parameters)
    return librosa.power_to_db(power, top_db=top_db)


@pytest.mark.slow
@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"n_fft": 1024, "hop_length": 160, "n_mels": 80, "fmin": 50.0, "fmax": 8000.0},
        {"n_fft": 512, "hop_length": 700, "n_mels": 24, "top_db": 60.0},
    ],
)
def test_mel_spectrograms_are_those_of_librosa(parameters):
    """Of each window by itself, overlapping ones too; the last is shorter."""
    samples, rate = soundfile.read(SPEECH / "lecture.flac", dtype="float32")
    outputs = made(SPEECH / "lecture.flac", seconds=10, overlap=2, format="npy", **parameters)
    assert len(outputs) == 3
    for output in outputs:
        about = output.metadata
        window = samples[about["start_sample"] : about["stop_sample"]]
        # without parameters: the defaults are librosa's, too
        expected = by_librosa(window, rate, **parameters)
        found = array_of(output)
        assert (found.dtype, found.shape) == (np.float32, expected.shape)
        assert (about["height"], about["width"]) == expected.shape
        assert np.abs(found - expected).max() < 1e-4


@pytest.mark.slow
def test_linear_spectrograms_are_those_of_librosa():
    """All bins, or those from one frequency to another; of each channel by itself."""
    samples, rate = soundfile.read(SPEECH / "studio.wav", dtype="float32")
    outputs = made(SPEECH / "studio.wav", scale="linear", format="npy", channels="split")
    assert [output.name for output in outputs] == [
        "000000_0.000s_channel1.npy",
        "000000_0.000s_channel2.npy",
    ]
    for output, channel in zip(outputs, samples.T, strict=True):
        power = np.abs(librosa.stft(channel)) ** 2
        assert np.abs(array_of(output) - librosa.power_to_db(power)).max() < 1e-4
    (some,) = made(SPEECH / "studio.wav", scale="linear", format="npy", channels="first", fmin=100, fmax=4000)
    power = np.abs(librosa.stft(samples[:, 0])) ** 2
    frequencies = librosa.fft_frequencies(sr=rate)
    expected = librosa.power_to_db(power[(frequencies >= 100) & (frequencies <= 4000)])
    assert np.abs(array_of(some) - expected).max() < 1e-4


@pytest.mark.parametrize("hop_length", [100, 512, 3000])
def test_it_makes_no_difference_where_blocks_end(hop_length):
    # more than the frames that are made at once
    samples = np.random.default_rng(1).normal(0, 0.1, max(60_000, 70 * hop_length)).astype("f4")
    spectra = Spectra(2048, hop_length, 16, 0.0, None)
    whole = spectra.decibels([samples], 16_000)
    # with the longest hop, the last ends behind the frames made at once, and before the next frame begins
    for size in (4099, 38_100):
        parts = (samples[at : at + size] for at in range(0, len(samples), size))
        assert np.array_equal(spectra.decibels(parts, 16_000), whole)
    assert whole.shape == (16, 1 + len(samples) // hop_length)


def test_a_picture_says_what_its_greys_are():
    """High frequencies are at the top, and the numbers come back to half a grey."""
    array, picture = made(SPEECH / "lecture.flac", seconds=30)
    assert (array.name, picture.name) == ("000000_0.000s.npy", "000000_0.000s.png")
    about = picture.metadata
    with Image.open(io.BytesIO(picture.content)) as image:
        image.load()
        assert (image.mode, image.size) == ("L", (about["width"], about["height"]))
        low, high = map(float, re.findall(r"(-?[\d.]+) dB", image.text["Comment"]))
        grey = np.asarray(image, np.float64)[::-1]
    assert (low, high) == pytest.approx((about["db_low"], about["db_high"]), abs=0.001)
    step = (about["db_high"] - about["db_low"]) / 255
    assert np.abs(about["db_low"] + grey * step - array_of(array)).max() < step * 0.51
    assert grey.max() == 255


def test_silence_is_black(tmp_path):
    path = write_sound(tmp_path / "a.wav", np.zeros((8000, 1), "i2"), 8000)
    array, picture = made(path)
    assert set(array_of(array).flat) == {-100}
    with Image.open(io.BytesIO(picture.content)) as image:
        assert image.getextrema() == (0, 0)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"n_fft": 1023}, "--n-fft 1023: must be even"),
        ({"hop_length": 0}, "--hop-length 0: must be at least 1"),
        ({"fmin": 100.0, "fmax": 50.0}, "--fmax 50: must be more than --fmin"),
        ({"fmin": -1.0}, "--fmin -1: must be at least 0"),
        ({"top_db": 0.0}, "--top-db 0: must be more than 0"),
    ],
)
def test_refused(options, said):
    with pytest.raises(Refused, match=re.escape(said)):
        Spectrogram([], **options)


def test_frequencies_that_a_recording_does_not_have():
    with pytest.raises(
        AudioError, match="--fmax 20000: is more than half the sample rate, which is 22050 Hz"
    ):
        made(SPEECH / "lecture.flac", fmax=20_000)
    with pytest.raises(AudioError, match="--fmin 12000: is not below 11025 Hz"):
        made(SPEECH / "lecture.flac", fmin=12_000)


@pytest.mark.parametrize(
    "sink",
    [
        "files",
        pytest.param("webdataset", marks=pytest.mark.slow),
        pytest.param("parquet", marks=pytest.mark.slow),
    ],
)
def test_every_sink_takes_them(tmp_path, capfd, sink):
    """And the length of a window counts once, however many files it becomes."""
    out = tmp_path / "out"
    said = here(capfd, "run", SPEECH, "--pattern=lecture.flac", "--recipe=spectrogram", "--sink", sink,
                "--sample-rate=16000", "--measure=levels", "--workers=0", "--quiet", "--output",
                out)  # fmt: skip
    assert said.code == 0, said.err
    rows = read_table(out / "manifest.csv")
    assert [row["frames"] != "" for row in rows] == [True, False] * 3
    assert sum(int(row["frames"] or 0) for row in rows) == round(float(rows[0]["source_seconds"]) * 16_000)
    assert all(float(row["rms"]) < 0 for row in rows)
    kinds = {sample["content"][:6] for sample in splitter.open(out, decode=False)}
    assert kinds == {b"\x93NUMPY", b"\x89PNG\r\n"}
    assert here(capfd, "verify", out, "--deep").code == 0
    if sink == "files":
        said = here(capfd, "run", "--help", "--recipe=spectrogram")
        assert "--subtype" not in said.out
        assert "--lossy" not in said.out
        assert "--hop-length" in said.out
