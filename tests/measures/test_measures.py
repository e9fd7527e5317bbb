"""Each measure beside an independent reference: another package, ffmpeg, or a plain loop."""

import itertools
import math
import re
import subprocess
import sys
import tracemalloc
import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import soundfile
import soxr
from doors import CHECKOUT
from sounds import needs_ffmpeg

from splitter.measures import base
from splitter.measures.base import Measure, Sound
from splitter.registry import MEASURES

SPEECH = CHECKOUT / "data_samples" / "speech"


def recorded(name: str = "lecture.flac", rate: int | None = None) -> np.ndarray:
    """Return real speech as a single column, at its own rate or another."""
    found, own = soundfile.read(SPEECH / name, dtype="float32", always_2d=True)
    mono = found[:, :1]
    return mono if rate is None else soxr.resample(mono, own, rate).astype("f4")


def values(name: str, samples: np.ndarray, rate: int, block: int | None = None) -> dict[str, float]:
    """Measure samples that come in blocks."""
    size = block or len(samples)
    sound = Sound(
        lambda: (samples[at : at + size] for at in range(0, len(samples), size)),
        frames=len(samples),
        channels=samples.shape[1],
        rate=rate,
    )
    return MEASURES.load_object(name, Measure).of(sound)


def value(name: str, samples: np.ndarray, rate: int) -> float:
    """Return the value of a measure with one column."""
    return values(name, samples, rate)[name]


def by_ffmpeg(path: Path, samples: np.ndarray, rate: int, filters: str) -> str:
    """Return what filters of ffmpeg say of samples."""
    soundfile.write(path, samples, rate, "FLOAT")
    command = ["ffmpeg", "-nostats", "-i", path, "-af", filters, "-f", "null", "-"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stderr


def sine(hertz: float, seconds: float, rate: int, amplitude: float = 1.0) -> np.ndarray:
    time = np.arange(round(seconds * rate)) / rate
    return (amplitude * np.sin(2 * np.pi * hertz * time)).astype("f4")[:, np.newaxis]


# -- levels and clipping -------------------------------------------------------------------------------------


def test_levels_are_those_of_a_plain_loop():
    samples = recorded()[:4000] * 0.7
    power = math.fsum(float(one) ** 2 for one in samples[:, 0]) / len(samples)
    peak = max(abs(float(one)) for one in samples[:, 0])
    found = values("levels", samples, 22050)
    assert found["rms"] == pytest.approx(10 * math.log10(power), abs=0.006)
    assert found["peak"] == pytest.approx(20 * math.log10(peak), abs=0.006)


@pytest.mark.parametrize(
    ("samples", "rms", "peak"),
    [
        (sine(440, 1, 8000), -3.01, 0.0),
        (sine(440, 1, 8000, 0.1), -23.01, -20.0),
        (np.zeros((800, 2), "f4"), -100.0, -100.0),
        ((sine(440, 1, 8000) * 2**15).astype("i4") << 15, -9.03, -6.02),
    ],
)
def test_levels_of_what_is_known(samples, rms, peak):
    assert values("levels", samples, 8000) == {
        "rms": pytest.approx(rms, abs=0.011),
        "peak": pytest.approx(peak, abs=0.011),
    }


def clipped_by_a_loop(samples: np.ndarray) -> float:
    """Count as the page says: beyond full scale, or three equal ones at 98 % of it."""
    count = 0
    for channel in samples.T.tolist():
        for _, run in itertools.groupby(channel):
            run = list(run)  # noqa: PLW2901
            count += len(run) * (abs(run[0]) > 1 or (len(run) >= 3 and abs(run[0]) >= 0.98))
    return round(count / samples.size, 6)


@pytest.mark.parametrize("seed", range(20))
def test_clipping_is_that_of_a_plain_loop(seed):
    """Wherever a block ends, and however short it is."""
    chance = np.random.default_rng(seed)
    kinds = np.array([0.5, 0.97, 0.99, 1.0, -1.0, -1.25], "f4")
    samples = np.repeat(kinds[chance.integers(0, 6, (40, 2))], 1 + chance.integers(0, 4, 40), axis=0)
    expected = clipped_by_a_loop(samples)
    assert expected > 0
    for block in (1, 2, 3, 7, len(samples)):
        assert values("clipping", samples, 8000, block) == {"clipping": expected}


def test_speech_is_clipped_when_it_is_too_loud_and_not_before():
    assert value("clipping", recorded(), 22050) == 0
    loud = (recorded() * 4).clip(-1, 1)
    assert 0.005 < value("clipping", loud, 22050) == clipped_by_a_loop(loud)


# -- true peak -----------------------------------------------------------------------------------------------


def between(samples: np.ndarray, factor: int = 32) -> float:
    """Return the true peak by a Fourier transform of all of it, in dBTP; it starts and ends with silence."""
    padded = np.pad(samples.astype("f8"), ((200, 200), (0, 0)))
    spectra = np.fft.rfft(padded, axis=0)
    return 20 * math.log10(np.abs(np.fft.irfft(spectra, len(padded) * factor, axis=0)).max() * factor)


def test_true_peak_is_that_of_a_fourier_transform():
    """Of speech, and of noise up to 20 kHz; wherever a block ends."""
    rng = np.random.default_rng(1)
    noise = rng.normal(0, 0.1, (4096, 2))
    spectra = np.fft.rfft(noise, axis=0)
    spectra[round(len(spectra) * 20 / 24) :] = 0
    noise = np.fft.irfft(spectra, axis=0).astype("f4")
    for samples in (recorded()[:9000], noise):
        for block in (1000, len(samples)):
            # four times as many values can miss the highest by this much
            assert values("true_peak", samples, 48000, block)["true_peak"] == pytest.approx(
                between(samples), abs=0.2
            )


def test_true_peak_between_two_samples():
    """A sine at a quarter of the rate whose samples all miss its peak by 3 dB."""
    samples = np.sin(np.pi / 2 * np.arange(4000) + np.pi / 4).astype("f4")[:, np.newaxis]
    samples *= np.hanning(4000)[:, np.newaxis].astype("f4") ** 0.1
    assert value("true_peak", samples, 48000) == pytest.approx(0, abs=0.02)
    assert values("levels", samples, 48000)["peak"] == pytest.approx(-3.01, abs=0.02)
    assert value("true_peak", np.zeros((500, 1), "f4"), 48000) == -100


@needs_ffmpeg
def test_true_peak_is_that_of_ffmpeg(tmp_path):
    samples = np.concatenate(
        (recorded(rate=48000)[: 3 * 48000], recorded(rate=48000)[1 : 3 * 48000 + 1]), axis=1
    )
    said = by_ffmpeg(tmp_path / "sound.wav", samples, 48000, "ebur128=peak=true")
    expected = float(re.findall(r"Peak:\s+(-?[\d.]+) dBFS", said)[-1])
    assert value("true_peak", samples, 48000) == pytest.approx(expected, abs=0.15)


# -- loudness ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [8000, 11025, 16000, 44100, 48000])
@pytest.mark.parametrize("channels", [1, 2, 5])
def test_loudness_is_that_of_pyloudnorm(rate, channels):
    import pyloudnorm

    mono = np.concatenate((recorded(rate=rate)[: 4 * rate], 0.01 * recorded(rate=rate)[: 3 * rate]))
    samples = np.concatenate([mono * (0.5 + number / 4) for number in range(channels)], axis=1)
    expected = pyloudnorm.Meter(rate).integrated_loudness(samples)
    assert value("loudness", samples, rate) == pytest.approx(expected, abs=0.1)


@needs_ffmpeg
@pytest.mark.parametrize(("rate", "channels"), [(8000, 1), (44100, 2), (48000, 6)])
def test_loudness_is_that_of_ffmpeg(tmp_path, rate, channels):
    mono = recorded(rate=rate)[: 6 * rate] * 0.5
    samples = np.concatenate([np.roll(mono, 50 * number) for number in range(channels)], axis=1)
    # at other rates its filters are others
    said = by_ffmpeg(tmp_path / "sound.wav", samples, rate, "aresample=48000,ebur128")
    expected = float(re.findall(r"I:\s+(-?[\d.]+) LUFS", said)[-1])
    # which has one digit
    assert value("loudness", samples, rate) == pytest.approx(expected, abs=0.1)


@pytest.mark.parametrize(
    ("samples", "rate"),
    [(sine(440, 0.39, 16000), 16000), (np.zeros((16000, 1), "f4"), 16000), (sine(440, 1, 3999), 3999)],
    ids=["too short", "silent", "too low a rate"],
)
def test_what_has_no_loudness(samples, rate):
    assert value("loudness", samples, rate) is None


# -- noise and bandwidth -------------------------------------------------------------------------------------


@pytest.mark.parametrize("decibels", [0, 5, 10, 15, 20, 30, 40])
@pytest.mark.parametrize("colour", ["white", "pink"])
def test_snr_of_speech_in_noise(decibels, colour):
    """Within some 2 dB where the ratio is known, for speech with pauses in noise that stays the same."""
    speech = np.concatenate((recorded()[: 22050 * 8], np.zeros((22050, 1), "f4")))
    noise = np.random.default_rng(1).normal(size=speech.shape)
    if colour == "pink":
        spectrum = np.fft.rfft(noise, axis=0)
        hertz = np.arange(len(spectrum)) * 22050 / len(noise)
        spectrum /= np.sqrt(hertz.clip(50))[:, np.newaxis]
        noise = np.fft.irfft(spectrum, len(noise), axis=0)
    noise *= math.sqrt((speech**2).mean() / (noise**2).mean() / 10 ** (decibels / 10))
    assert value("snr", (speech + noise).astype("f4"), 22050) == pytest.approx(decibels, abs=2.1)


def test_snr_of_what_has_none():
    assert value("snr", np.zeros((16000, 1), "f4"), 16000) is None
    assert value("snr", sine(440, 0.1, 16000), 16000) is None
    assert value("snr", sine(50, 1, 16000), 16000) == -20
    paused = np.concatenate((sine(440, 1, 16000), np.zeros((16000, 1), "f4")))
    assert value("snr", paused, 16000) == 100


@pytest.mark.parametrize("rate", [16000, 22050, 44100])
def test_bandwidth_shows_what_was_sampled_up(rate):
    """Telephone speech has nothing above 4 kHz, whatever rate it is stored at."""
    telephone = recorded(rate=8000)
    up = soxr.resample(telephone, 8000, rate)
    stored = np.rint(up * 32767).astype(np.int16)
    assert 3000 < value("bandwidth", stored, rate) <= 4100
    assert value("bandwidth", np.random.default_rng(1).normal(size=(rate, 1)) / 8, rate) == rate / 2


@pytest.mark.parametrize("name", ["lecture.flac", "podcast.mp3", "greeting.wav"])
def test_bandwidth_is_that_of_a_plain_loop(name):
    """Of the mean power spectrum by another Fourier transform."""
    from scipy.signal import stft

    samples, rate = soundfile.read(SPEECH / name, dtype="float64", always_2d=True)
    size = next(size for size in (1 << power for power in range(20)) if size > rate / 20)
    whole = {"noverlap": 0, "boundary": None, "padded": False}
    spectra = stft(samples, rate, "hann", size, axis=0, **whole)[2]
    power = (np.abs(spectra) ** 2).sum(axis=(1, 2))
    power[:2] = 0
    expected = max(index for index, one in enumerate(power) if one > power.max() / 1e7) * rate / size
    assert value("bandwidth", samples.astype("f4"), rate) == pytest.approx(expected, abs=1.01 * rate / size)


@pytest.mark.parametrize("hertz", [500, 3000, 7000])
def test_bandwidth_of_a_tone(hertz):
    assert value("bandwidth", sine(hertz, 1, 16000, 0.5), 16000) == pytest.approx(hertz, abs=400)
    assert value("bandwidth", np.zeros((4000, 1), "f4"), 16000) is None
    # an offset is no sound
    assert value("bandwidth", np.full((4096, 1), 0.5, "f4"), 16000) is None


# -- models --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [16000, 22050])
def test_speech_is_what_the_package_hears(rate):
    """The model of silero-vad, window after window."""
    import silero_vad
    import torch

    samples = np.concatenate((recorded(rate=rate)[: 6 * rate], np.zeros((2 * rate, 1), "f4")))
    model = silero_vad.load_silero_vad()
    mono = samples[:, 0] if rate == 16000 else soxr.resample(samples[:, 0], rate, 16000)
    windows = torch.from_numpy(np.pad(mono, (0, -len(mono) % 512))).reshape(-1, 512)
    heard = [model(window, 16000).item() >= 0.5 for window in windows]
    assert 0.3 < sum(heard) / len(heard) < 0.9
    assert value("speech", np.repeat(samples, 2, axis=1), rate) == pytest.approx(
        sum(heard) / len(heard), abs=1.01 / len(heard)
    )


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0.3, 11.3])
def test_dnsmos_is_that_of_its_package(seconds):
    dnsmos = pytest.importorskip("speechmos.dnsmos")
    samples = np.resize(recorded(rate=16000), (int(seconds * 16000), 1)) * 0.9
    samples += np.random.default_rng(1).normal(0, 0.003, samples.shape).astype("f4")
    samples = samples.clip(-1, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = dnsmos.run(samples[:, 0], 16000)
    found = values("dnsmos", samples, 16000, 20_000)
    for ours, theirs in {
        "dnsmos": "ovrl_mos",
        "dnsmos_speech": "sig_mos",
        "dnsmos_noise": "bak_mos",
        "dnsmos_p808": "p808_mos",
    }.items():
        assert found[ours] == pytest.approx(float(expected[theirs]), abs=1e-4)


@pytest.mark.parametrize("frames", [1, 4000, 72_080, 144_159, 144_160, 160_000, 175_999, 176_000, 400_000])
def test_dnsmos_hears_what_its_package_hears(frames, monkeypatch):
    """What is short is repeated, what is long is heard in steps of a second; some the package rounds away."""
    package = pytest.importorskip("speechmos.dnsmos")
    heard, expected = [], []
    reference = object.__new__(package.DNSMOS)
    reference.audio_melspec = lambda audio: audio[:, np.newaxis]
    reference.p808_onnx_sess = SimpleNamespace(run=lambda *_: [[[1]]])
    reference.onnx_sess = SimpleNamespace(
        run=lambda _, features: (expected.append(features["input_1"][0]), [[[1, 1, 1]]])[1]
    )
    module = sys.modules[MEASURES.load_object("dnsmos", Measure).function.__module__]
    models = (lambda one: (heard.append(one), [1, 1, 1])[1]), (lambda _: [1])
    monkeypatch.setattr(module, "_models", lambda: models)
    monkeypatch.setattr(module, "_mel_levels", lambda _: None)
    samples = np.random.default_rng(1).uniform(-1, 1, (frames, 1)).astype("f4")
    reference(samples[:, 0], 16000, False)
    values("dnsmos", samples, 16000, 30_011)
    assert len(heard) == len(expected) > 0
    assert all(np.array_equal(one, other) for one, other in zip(heard, expected, strict=True))


# -- pieces of any length ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["levels", "loudness", "clipping", "snr", "bandwidth", "speech"])
@pytest.mark.parametrize("channels", [1, 2])
def test_a_long_piece_is_measured_like_a_short_one(name, channels, monkeypatch):
    """It comes block after block, is read again for each measure, and its values are the same."""
    samples = np.repeat(recorded(), channels, axis=1)
    expected = values(name, samples, 22050)
    monkeypatch.setattr(base, "MANY_SAMPLES", 1000)
    assert values(name, samples, 22050, 7919) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("name", ["levels", "loudness", "clipping", "snr", "bandwidth"])
def test_a_piece_of_hours_does_not_stand_in_memory(name):
    """Ten minutes are 19 MB of samples."""
    block = recorded(rate=8000)[:16000]

    def blocks() -> Iterator[np.ndarray]:
        for _ in range(300):
            yield block.copy()

    MEASURES.load_object(name, Measure).of(Sound(lambda: [block], len(block), 1, 8000))
    tracemalloc.start()
    MEASURES.load_object(name, Measure).of(Sound(blocks, 300 * len(block), 1, 8000))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8_000_000


@pytest.mark.parametrize("name", MEASURES.own)
@pytest.mark.parametrize("frames", [1, 2, 100])
def test_a_piece_of_a_few_samples(name, frames):
    """It has values or none, and is no error."""
    if name == "dnsmos" and (frames > 1 or not find_spec("speechmos")):
        pytest.skip("takes long, and another test has it")
    for rate in (8000, 48000) if name != "dnsmos" else (48000,):
        found = values(name, np.full((frames, 2), np.nan, "f4"), rate)
        assert all(one is None or math.isfinite(one) for one in found.values())


@pytest.mark.parametrize("name", ["levels", "loudness", "clipping", "snr", "bandwidth", "speech"])
def test_samples_that_are_far_too_loud(name):
    """A damaged float file has values or none, and no warning."""
    samples = np.full((8000, 1), 1e300)
    samples[::2] *= -1
    samples[:4, 0] = np.nan, np.inf, -np.inf, 0
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        found = values(name, samples, 8000)
    assert all(one is None or math.isfinite(one) for one in found.values())
    assert found != {"bandwidth": None}


def test_each_measure_is_a_file_with_its_function():
    """The registry names it, and no column is there twice."""
    measures = {name: MEASURES.load_object(name, Measure) for name in MEASURES.own}
    columns = [column for measure in measures.values() for column in measure.columns]
    assert len(columns) == len({*columns})
    folder = Path(base.__file__).parent
    assert {*measures} == {path.stem for path in folder.glob("*.py")} - {"__init__", "base", "chosen"}
