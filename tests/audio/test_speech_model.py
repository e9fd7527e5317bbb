"""How probable speech is: many windows at once give what the package's own model gives one by one."""

import numpy as np
import pytest
import silero_vad
import soundfile
import soxr
import torch
from doors import CHECKOUT

from splitter.audio.speech_model import SpeechModel

SAMPLES = CHECKOUT / "data_samples/speech"
# both are off by as much from the same layers in double precision, the package's model more than ours
ROUNDING = 2e-4
NAMES = sorted(path.name for path in SAMPLES.iterdir() if path.suffix in {".wav", ".flac", ".mp3", ".ogg"})
SHORT = {"greeting.wav", "story.ogg", "telephone.wav"}


@pytest.fixture(scope="module")
def model():
    return SpeechModel()


def by_the_package(sound: np.ndarray) -> list[float]:
    """What silero-vad's own model says of one window after the other."""
    theirs = silero_vad.load_silero_vad()
    windows = np.pad(sound, (0, -len(sound) % 512)).reshape(-1, 512)
    with torch.no_grad():
        return [theirs(torch.from_numpy(window), 16_000).item() for window in windows]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in SHORT else pytest.mark.slow) for name in NAMES]
)
def test_it_hears_what_the_package_hears(model, name):
    """But for rounding, over every recording of the corpus, one after the other in one model."""
    sound, rate = soundfile.read(SAMPLES / name, dtype="float32", always_2d=True)
    mono = soxr.resample(sound.mean(axis=1), rate, 16_000)
    found, samples = model.probabilities([mono[:, None]])
    assert samples == len(mono)
    assert model.takes_sequences
    assert np.abs(np.array(found) - by_the_package(mono)).max() < ROUNDING


@pytest.mark.slow
def test_a_long_recording_is_read_in_blocks(model):
    """The state goes on from one block to the next."""
    sound, _ = soundfile.read(SAMPLES / "lecture.flac", dtype="float32")
    long = np.tile(sound, -(-3 * 512 * 512 // len(sound)))
    found, _ = model.probabilities([long[:, None]])
    assert len(found) > 3 * 512
    assert np.abs(np.array(found) - by_the_package(long)).max() < ROUNDING


@pytest.mark.parametrize("cuts", [[1], [511, 513], [0, 0, 262_144], [262_143, 262_145, 299_999]])
def test_the_blocks_of_a_decoder_change_nothing(model, cuts):
    """Not one bit: what is decoded in other pieces has the same probabilities."""
    sound = np.random.default_rng(5).normal(0, 0.1, (300_000, 1)).astype(np.float32)
    assert model.probabilities(np.split(sound, cuts)) == model.probabilities([sound])


@pytest.mark.parametrize("samples", [0, 1, 511, 512, 513])
def test_short_recordings(model, samples):
    """The last window is filled with silence, as the package fills it."""
    sound = np.linspace(-0.5, 0.5, samples, dtype=np.float32)
    found, counted = model.probabilities([sound[:, None]])
    assert counted == samples
    assert found == pytest.approx(by_the_package(sound), abs=ROUNDING)


class OtherInsides:
    """A release of the package whose model has other layers."""

    def __init__(self, real):
        self.reset_states, self.call = real.reset_states, real

    def __call__(self, window, rate):
        return self.call(window, rate)


def test_a_package_with_other_layers_is_used_as_it_is(monkeypatch):
    """One window after the other, by its own code."""
    load = silero_vad.load_silero_vad
    monkeypatch.setattr(silero_vad, "load_silero_vad", lambda: OtherInsides(load()))
    other = SpeechModel()
    sound = np.random.default_rng(6).normal(0, 0.1, 16_000).astype(np.float32)
    assert not other.takes_sequences
    assert other.probabilities([sound[:, None]])[0] == by_the_package(sound)


def test_layers_that_mean_something_else_are_not_used(monkeypatch):
    """The same names, another computation: the comparison at the start finds it."""
    load = silero_vad.load_silero_vad

    def changed():
        model = load()
        with torch.no_grad():
            # the model's own code gets back what the layers alone have not
            weight = model._model.decoder.rnn.weight_hh
            weight.copy_(torch.zeros_like(weight))
        return Skewed(model)

    class Skewed:
        def __init__(self, model):
            self._model, self.real = model._model, load()
            self.reset_states = self.real.reset_states

        def __call__(self, window, rate):
            return self.real(window, rate)

    monkeypatch.setattr(silero_vad, "load_silero_vad", changed)
    assert not SpeechModel().takes_sequences
