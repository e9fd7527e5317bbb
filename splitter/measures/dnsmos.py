"""How good speech sounds, from 1 to 5, as listeners would rate it: DNSMOS (P.835 and P.808).

The models come with the package speechmos. They rate stretches of 9.01 seconds that start a second apart; a
shorter piece is repeated until it is long enough, as the package does.
"""

import functools
import os
import warnings
from collections.abc import Callable, Iterator
from importlib.util import find_spec

import numpy as np

from splitter.measures.base import SPEECH_RATE, Sound, measure
from splitter.records import Scalar

SECONDS = 9.01
HEARD = int(SECONDS * SPEECH_RATE)
WINDOW, HOP, BANDS = 321, 160, 120
# polynomials from the values of the model to the ratings of listeners
_FITS = (
    (-0.06766283, 1.11546468, 0.04602535),
    (-0.08397278, 1.22083953, 0.0052439),
    (-0.13166888, 1.60915514, -0.39604546),
)

Model = Callable[[np.ndarray], np.ndarray]


@functools.lru_cache(maxsize=1)
def _models() -> tuple[Model, Model]:
    """Return the model of the three ratings of P.835, and that of the overall rating of P.808."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    # each worker uses one CPU
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    spec = find_spec("speechmos")
    assert spec and spec.origin  # noqa: S101, PT018 - `needs` was asked for
    folder = os.path.join(os.path.dirname(spec.origin), "dnsmos_models")

    def model(name: str) -> Model:
        session = onnxruntime.InferenceSession(os.path.join(folder, name), options)
        return lambda features: np.asarray(session.run(None, {"input_1": features[np.newaxis]})[0][0])

    return model("sig_bak_ovr.onnx"), model("model_v8.onnx")


@measure(
    *("dnsmos", "dnsmos_speech", "dnsmos_noise", "dnsmos_p808"),
    needs=("speechmos", "onnxruntime"),
    prepare=lambda _: _models(),
)
def dnsmos(sound: Sound) -> Iterator[Scalar]:
    """Yield the ratings of the whole, of the speech, of the background, and of the whole by P.808."""
    rate, rate_p808 = _models()
    found = []
    for heard in _stretches(sound):
        speech, noise, whole = rate(heard)
        ratings = (np.polyval(fit, value) for fit, value in zip(_FITS, (whole, speech, noise), strict=True))
        found.append([*ratings, *rate_p808(_mel_levels(heard[:-HOP]))])
    if not found:
        yield from (None,) * 4
        return
    yield from (round(float(value), 4) for value in np.mean(found, axis=0))


def _stretches(sound: Sound) -> Iterator[np.ndarray]:
    """Yield the stretches that the models rate."""
    frames = sound.speech_frames
    blocks = (block[:, 0].clip(-1, 1) for block in sound.speech_blocks())
    if 0 < frames < HEARD:
        times = 1 << (-(-HEARD // frames) - 1).bit_length()
        blocks = (part for part in [np.tile(np.concatenate([*blocks]), times)])
        frames *= times
    rest, hop = np.empty(0, np.float32), 0
    # as the package counts and rounds
    hops = int(frames // SPEECH_RATE - SECONDS) + 1
    for block in blocks:
        rest = np.concatenate((rest, block))
        while len(rest) >= HEARD and hop < hops:
            if int((hop + SECONDS) * SPEECH_RATE) - hop * SPEECH_RATE == HEARD:
                yield rest[:HEARD]
            rest, hop = rest[SPEECH_RATE:], hop + 1


def _mel_levels(sound: np.ndarray) -> np.ndarray:
    """Return the levels of 120 bands, every 10 ms, as librosa computes them and the model takes them."""
    window, bands = _mel_filters()
    padded = np.pad(sound, WINDOW // 2)
    frames = np.lib.stride_tricks.sliding_window_view(padded, WINDOW)[::HOP]
    spectra = np.fft.rfft(frames * window, axis=1)
    powers = (spectra.real**2 + spectra.imag**2) @ bands
    levels = 10 * np.log10(np.maximum(1e-10, powers))
    return ((np.maximum(levels - levels.max(), -80) + 40) / 40).astype(np.float32)


@functools.cache
def _mel_filters() -> tuple[np.ndarray, np.ndarray]:
    import librosa

    with warnings.catch_warnings():
        # a warning that some bands are empty: there are too many for this window
        warnings.simplefilter("ignore")
        bands = librosa.filters.mel(sr=SPEECH_RATE, n_fft=WINDOW, n_mels=BANDS)
    return np.hanning(WINDOW + 1)[:-1].astype(np.float32), bands.T
