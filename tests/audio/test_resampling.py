"""Another rate, by soxr and by julius: each is checked against what is true, and one against the other."""

import io
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
import soundfile
import torch
from doors import here, read_table, write_list
from hypothesis import given, settings
from hypothesis import strategies as st
from nightly import depth

from splitter.audio.decoders import SoundFormat
from splitter.audio.resampling import JuliusResampler, Resampler, SoxrResampler, resampler
from splitter.recipes.chunk import Chunk

RATES = [(44100, 16000), (16000, 44100), (48000, 44100), (44100, 48000), (48000, 16000), (22050, 44100)]
MULTIPLES = [(48000, 16000), (22050, 44100), (16000, 8000)]
SUBTYPES = {"int16": "PCM_16", "int32": "PCM_32", "float32": "FLOAT", "float64": "DOUBLE"}
FULL = {"int16": 1 << 15, "int32": 1 << 31, "float32": 1, "float64": 1}

Kind = Callable[..., Resampler]


def julius(*arguments, at_once: int = 1 << 24) -> Resampler:
    return JuliusResampler(*arguments, "cpu", at_once)


BOTH = pytest.mark.parametrize("kind", [SoxrResampler, julius])


def resampled(kind: Kind, frames: np.ndarray, old: int, new: int, most: int = 1 << 40, **options):
    """All that a resampler makes of frames it is given, at most so many at a time."""
    taken = 0

    def read(wanted: int) -> np.ndarray:
        nonlocal taken
        start, taken = taken, min(len(frames), taken + min(wanted, most))
        return frames[start:taken]

    recorded = SoundFormat("WAV", SUBTYPES[frames.dtype.name], frames.shape[1], old)
    stream, parts = kind(read, recorded, new, frames.shape[1], **options), []
    while len(part := stream.read(1000)):
        parts.append(part)
    return np.concatenate(parts) if parts else np.empty((0, frames.shape[1]), frames.dtype)


def decibels(difference: np.ndarray) -> float:
    return 20 * np.log10(max(np.abs(difference).max(), 1e-30))


def faded(sound: np.ndarray) -> np.ndarray:
    """A sound that fades in and out: one that begins at once holds all frequencies."""
    return (sound * np.blackman(len(sound)))[:, np.newaxis]


def tone(share: float, old: int, new: int, rate: int, seconds: int = 1) -> np.ndarray:
    """A tone at a share of half the lower rate, written down at some rate."""
    frequency = share * min(old, new) / 2
    # the window is stretched in time, not in samples, so that both rates hold the same sound
    at = np.arange(seconds * rate) / rate
    window = 0.42 - 0.5 * np.cos(2 * np.pi * at / seconds) + 0.08 * np.cos(4 * np.pi * at / seconds)
    return (np.sin(2 * np.pi * frequency * at) * window)[:, np.newaxis]


def sweep(share: float, old: int, new: int) -> np.ndarray:
    at = np.arange(old) / old
    return faded(np.sin(np.pi * share * 0.95 * min(old, new) / 2 * at**2))


def noise(share: float, old: int, new: int) -> np.ndarray:
    """Noise with nothing above a share of half the lower rate."""
    spectrum = np.fft.rfft(np.random.default_rng(1).standard_normal(old))
    spectrum[np.fft.rfftfreq(old, 1 / old) > 0.99 * share * min(old, new) / 2] = 0
    sound = np.fft.irfft(spectrum, old)
    return faded(sound / np.abs(sound).max())


@pytest.mark.slow
@pytest.mark.parametrize(("old", "new"), RATES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_julius_keeps_what_is_in_the_pass_band(old, new, dtype):
    """A tone comes out as the same tone, written down at the new rate: to -90 dB up to 0.91 of the band."""
    for share in (0.003, 0.3, 0.7, 0.91):
        made = resampled(julius, tone(share, old, new, old).astype(dtype), old, new)
        assert made.dtype == dtype
        assert decibels(made - tone(share, old, new, new)) < -90


@pytest.mark.parametrize(("old", "new"), RATES)
@pytest.mark.parametrize("signal", [sweep, noise])
def test_julius_and_soxr_agree(old, new, signal):
    """To -90 dB where soxr's own gain is flat: the whole pass band for multiples, else up to 0.58 of it."""
    share = 0.9 if (old, new) in MULTIPLES else 0.58
    frames = signal(share, old, new).astype(np.float32)
    made, expected = (resampled(kind, frames, old, new) for kind in (julius, SoxrResampler))
    assert len(made) == len(expected)
    assert np.abs(expected).max() > 0.1
    assert decibels(made - expected) < -90


@pytest.mark.slow
@pytest.mark.parametrize(("old", "new"), RATES)
def test_julius_and_soxr_agree_but_for_the_gain_of_soxr(old, new):
    """Up to the end of the pass band soxr gives up to 0.01 dB less; nothing else differs by -90 dB."""
    for share in (0.6, 0.75, 0.9):
        frames = tone(share, old, new, old)
        made, expected = (resampled(kind, frames, old, new) for kind in (julius, SoxrResampler))
        gain = np.vdot(made, expected) / np.vdot(made, made)
        assert -0.011 < 20 * np.log10(gain) < 0.001
        assert decibels(expected - gain * made) < -90


@pytest.mark.parametrize(("old", "new"), [(old, new) for old, new in RATES if old > new])
@BOTH
def test_what_the_new_rate_cannot_hold_is_gone(kind, old, new):
    """Nothing of a tone above the band comes out as another tone."""
    for share in (1.001, 1.05, 0.99 * old / new):
        assert decibels(resampled(kind, tone(share, old, new, old), old, new)) < -90


@settings(max_examples=depth(20))
@given(
    shape=st.tuples(st.integers(0, 3000), st.integers(1, 3)),
    rates=st.sampled_from([*RATES, *MULTIPLES, (44100, 44099), (8000, 400), (3, 7), (11025, 96000)]),
    dtype=st.sampled_from(list(SUBTYPES)),
    most=st.integers(50, 4000),
    at_once=st.integers(2000, 20_000),
)
def test_lengths_follow_one_rule(shape, rates, dtype, most, at_once):
    """So many samples become round(n * new / old), halves to even, whatever is read and made at a time."""
    old, new = rates
    sound = np.zeros(shape, dtype)
    expected = round(Fraction(shape[0] * new, old)), shape[1]
    for kind in (SoxrResampler, lambda *arguments: julius(*arguments, at_once=at_once)):
        if kind is SoxrResampler or JuliusResampler.takes(old, new):
            made = resampled(kind, sound, old, new, most)
            assert (made.shape, made.dtype) == (expected, dtype)
            assert not made.any()


@pytest.mark.parametrize(("old", "new"), RATES)
def test_julius_in_blocks_is_julius_at_once(old, new):
    """A recording that does not go to the device at once has no seams where its blocks meet."""
    frames = np.random.default_rng(2).uniform(-1, 1, (20_011, 2)).astype(np.float32)
    whole = resampled(julius, frames, old, new)
    for at_once, most in ((900, 1 << 40), (5000, 701), (17_000, 10)):
        made = resampled(julius, frames, old, new, most, at_once=at_once)
        assert made.shape == whole.shape
        assert decibels(made - whole) < -110


@pytest.mark.parametrize("channels", [2, 7, 33])
@BOTH
def test_channels_do_not_touch_each_other(kind, channels):
    """Each of many is what it is alone."""
    frames = np.random.default_rng(3).uniform(-1, 1, (4000, channels)).astype(np.float32)
    made = resampled(kind, frames, 44100, 16000)
    for channel in range(channels):
        alone = resampled(kind, np.ascontiguousarray(frames[:, [channel]]), 44100, 16000)
        assert decibels(made[:, [channel]] - alone) < -110


@pytest.mark.parametrize("dtype", ["int16", "int32"])
@BOTH
def test_integers(kind, dtype):
    """They are the nearest to what numbers would be: with 16 bits within a step, with more below -90 dB."""
    sound = noise(0.58, 44100, 16000) * 0.9
    frames = np.rint(sound * (FULL[dtype] - 1)).astype(dtype)
    made = resampled(kind, frames, 44100, 16000)
    expected = resampled(SoxrResampler, frames.astype(np.float64), 44100, 16000)
    assert made.dtype == dtype
    if dtype == "int16":
        assert np.abs(made - np.rint(expected)).max() <= 1
    assert decibels((made - expected) / FULL[dtype]) < -90


@pytest.mark.parametrize("dtype", ["int16", "int32"])
@BOTH
def test_integers_do_not_wrap_around(kind, dtype):
    """What a filter lifts above full scale stays at full scale."""
    limits = np.iinfo(dtype)
    frames = np.where(np.arange(20_000) // 1000 % 2, limits.max, limits.min).astype(dtype)[:, np.newaxis]
    made = resampled(kind, frames, 16000, 44100).astype(np.float64) / FULL[dtype]
    same = made[
        np.sign(made[:, 0]) == np.sign(np.where(np.arange(len(made)) * 16000 // 44100 // 1000 % 2, 1, -1))
    ]
    assert np.abs(made).max() <= 1
    assert (np.abs(made) == 1).any() or np.abs(made).max() > 0.99999
    # only samples right beside a jump may have the other sign
    assert len(made) - len(same) <= 2 * 20


def test_the_device_says_who_resamples():
    """On the CPU it is soxr, julius on any other; but not for rates that would need too many filters."""
    recorded = SoundFormat("WAV", "PCM_16", 1, 44100)
    names = {
        (rate, device): resampler(lambda count: np.empty((0, 1), "int16"), recorded, rate, 1, device).name
        for rate in (16000, 44101)
        for device in ("cpu", "cpu:0")
    }
    assert names == {
        (16000, "cpu"): "soxr HQ",
        (16000, "cpu:0"): "julius",
        (44101, "cpu"): "soxr HQ",
        (44101, "cpu:0"): "soxr HQ",
    }


def test_no_convolution_takes_fewer_bits():
    """A GPU would take TF32, which is good to -60 dB only; whoever else wants it has it back after."""
    allowed = []
    note = torch.nn.modules.module.register_module_forward_pre_hook(
        lambda module, given: allowed.append(torch.backends.cudnn.allow_tf32)
    )
    before = torch.backends.cudnn.allow_tf32
    try:
        resampled(julius, np.zeros((100, 1), np.float32), 44100, 16000)
    finally:
        note.remove()
    assert allowed == [False]
    assert torch.backends.cudnn.allow_tf32 == before


class OnTorch(Chunk):
    """As with --device cuda, on the only device that every machine has."""

    def setup(self) -> None:
        super().setup()
        self.device = "cpu:0"


@pytest.fixture
def recordings(folder):
    """One that is resampled, in stereo, and one that has the new rate already."""
    generator = np.random.default_rng(4)
    soundfile.write(folder / "a.wav", generator.uniform(-0.5, 0.5, (44100 * 2 + 77, 2)), 44100, "PCM_24")
    soundfile.write(folder / "b.wav", generator.uniform(-0.5, 0.5, 16000), 16000, "PCM_16")
    return write_list(folder / "list.csv", [["input"], ["a.wav"], ["b.wav"]])


@pytest.mark.parametrize(
    ("recipe", "name", "kind"), [(OnTorch, "julius", julius), (Chunk, "soxr HQ", SoxrResampler)]
)
def test_pieces_are_slices_of_the_whole_resampled_recording(recordings, tmp_path, recipe, name, kind):
    """On a device as on the CPU; the manifest says who did it, and nothing where there was nothing to do."""
    recipe(recordings, seconds=0.7, sample_rate=16000).run(tmp_path / "out", workers=1, quiet=True)
    rows = read_table(tmp_path / "out/manifest.csv")
    assert {(row["input"], row["source_resampler"]) for row in rows} == {("a.wav", name), ("b.wav", "")}
    for recording in ("a.wav", "b.wav"):
        source, rate = soundfile.read(recordings.parent / recording, dtype="int32", always_2d=True)
        expected = source if rate == 16000 else resampled(kind, source, rate, 16000)
        if rate != 16000:
            # the pieces have the 24 bits of the recording
            expected = np.clip((expected.astype(np.int64) + 128) >> 8, -(1 << 23), (1 << 23) - 1) << 8
        pieces = [
            soundfile.read(tmp_path / "out" / row["output"], dtype="int32", always_2d=True)[0]
            for row in rows
            if row["input"] == recording
        ]
        assert len(pieces[0]) == 11_200
        joined = np.concatenate(pieces).astype(np.int64)
        assert joined.shape == expected.shape
        assert np.abs(joined - expected).max() <= (256 if rate != 16000 else 0)


def test_floats_are_not_rounded_on_the_way(recordings):
    """With --subtype FLOAT, 16 bits that are mixed and resampled become numbers between their steps."""
    frames, rate = soundfile.read(recordings.parent / "b.wav", dtype="float32", always_2d=True)
    dataset = Chunk([str(recordings.parent / "b.wav")], sample_rate=11025, format="wav", subtype="FLOAT")
    (output,), _ = dataset[0]
    made, _ = soundfile.read(io.BytesIO(output.content), dtype="float32", always_2d=True)
    assert decibels(made - resampled(SoxrResampler, frames, rate, 11025)) < -120
    assert np.abs(made * 32768 - np.rint(made * 32768)).max() > 0.4


def test_without_a_new_rate_nobody_is_named(recordings, tmp_path, capfd):
    """The column comes with --sample-rate."""
    assert here(capfd, "run", recordings, "--workers", "1", "-o", tmp_path / "out").code == 0
    assert "source_resampler" not in read_table(tmp_path / "out/manifest.csv")[0]
