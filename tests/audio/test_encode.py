"""Samples that are stored with fewer bits: rounded to the nearest, as exact arithmetic rounds them."""

import io
from collections.abc import Callable

import numpy as np
import pytest
import soundfile
from sounds import chunks_of, samples_of

from splitter.audio.decoders import SoundFormat
from splitter.audio.encode import encode, encode_blocks
from splitter.audio.sniff import open_decoder

EXTREME = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    np.nan,
    np.inf,
    -np.inf,
    3e38,
    1e-40,
    *(np.array([0.5, 1.5, -32768.5]) / 32768),
]
# libsndfile's own way for integers of 32 bits is taken where 24 are stored
CASES = [
    *((kind, subtype) for kind in ("float32", "float64") for subtype in ("PCM_U8", "PCM_16", "PCM_24")),
    *((kind, "PCM_U8") for kind in ("int16", "int32")),
    ("int32", "PCM_16"),
]
BITS = {"PCM_U8": 8, "PCM_16": 16, "PCM_24": 24}


def exactly_rounded(frames: np.ndarray, bits: int) -> np.ndarray:
    """The nearest integers, ties to even; the loudest for what is too loud, zero for what is no number."""
    if frames.dtype.kind == "i":
        frames = frames.astype(np.longdouble) / 2.0 ** (8 * frames.itemsize - 1)
    wide = np.rint(frames.astype(np.longdouble) * 2.0 ** (bits - 1))
    largest = 2 ** (bits - 1)
    return np.clip(np.where(np.isnan(wide), 0, wide), -largest, largest - 1).astype(np.int64)


@pytest.mark.parametrize("container", ["WAV", "FLAC"])
@pytest.mark.parametrize(("kind", "subtype"), CASES)
def test_samples_are_rounded_to_the_nearest(container, kind, subtype):
    """With any kind of array, however loud, and with no warning."""
    generator = np.random.default_rng(3)
    if kind.startswith("float"):
        frames = (generator.normal(0, 0.5, 2000)).astype(kind)
        frames[: len(EXTREME)] = EXTREME
    else:
        limits = np.iinfo(kind)
        frames = generator.integers(limits.min, limits.max, 2000, dtype=kind, endpoint=True)
    subtype = subtype if container == "WAV" else subtype.replace("U8", "S8")
    bits = BITS.get(subtype, 8)
    content = encode(lambda: [frames[:, None]], len(frames), SoundFormat(container, subtype, 1, 16_000))
    assert np.array_equal(numbers_in(content, bits), exactly_rounded(frames, bits))


def numbers_in(content: bytes | Callable[[io.BytesIO], None], bits: int) -> np.ndarray:
    """The integers that a file holds."""
    file = io.BytesIO(b"" if callable(content) else content)
    if callable(content):
        content(file)
    file.seek(0)
    return soundfile.read(file, dtype="int32")[0].astype(np.int64) >> (32 - bits)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("subtype", ["PCM_16", "PCM_24"])
def test_many_samples_in_blocks(order, subtype):
    """Whether a decoder gives them frame after frame or channel after channel, and wherever blocks end."""
    frames = np.random.default_rng(5).normal(0, 0.5, (100_000, 2)).astype(np.float32, order=order)
    frames[40_000] = np.nan
    # the nearest number is one more than there is
    frames[50_000] = 1 - 2.0**-17
    blocks, made = [frames[:70_001], frames[70_001:]], SoundFormat("WAV", subtype, 2, 16_000)
    for way in (encode, encode_blocks):
        content = way(lambda: blocks, len(frames), made)
        assert np.array_equal(numbers_in(content, BITS[subtype]), exactly_rounded(frames, BITS[subtype]))


@pytest.mark.parametrize("order", ["C", "F"])
def test_each_sample_between_two_numbers(order):
    """Halfway between two numbers of 16 bits, and next to that: to the even one, and to the nearest."""
    halves = (np.arange(-32_768, 32_767, dtype=np.float32) + 0.5) / 32_768
    columns = [np.nextafter(halves, towards) for towards in (np.float32(-2), halves, np.float32(2))]
    frames = np.asarray(np.stack(columns, axis=1), order=order)
    content = encode(lambda: [frames], len(frames), SoundFormat("WAV", "PCM_16", 3, 16_000))
    assert np.array_equal(numbers_in(content, 16), exactly_rounded(frames, 16))


@pytest.mark.slow
@pytest.mark.parametrize("blocks", [1, 3])
def test_a_long_piece_of_vorbis(blocks):
    """What libvorbis is given at once must fit the stack: three million frames ended the process."""
    sound = np.random.default_rng(4).normal(0, 0.1, (3_000_000, 1)).astype(np.float32)
    made = SoundFormat("OGG", "VORBIS", 1, 48_000)
    contents = [
        way(lambda: np.array_split(sound, blocks), len(sound), made) for way in (encode, encode_blocks)
    ]
    for content in contents:
        file = io.BytesIO()
        content(file)
        file.seek(0)
        assert soundfile.info(file).frames == len(sound)


@pytest.mark.parametrize(
    ("container", "subtype"), [("SDS", "PCM_16"), ("XI", "DPCM_16"), ("PAF", "PCM_24"), ("PAF", "PCM_16")]
)
def test_pieces_of_rare_formats_can_be_read_back(tmp_path, container, subtype):
    """What libsndfile reads but cannot write again becomes WAV."""
    sound = np.random.default_rng(0).standard_normal(1000) * 0.2
    soundfile.write(tmp_path / "a", sound, 8000, subtype, format=container)
    decoder = open_decoder(str(tmp_path / "a"))
    whole = decoder.read(100_000)
    decoder.close()
    outputs, about = chunks_of(tmp_path / "a", seconds=0.0291)
    pieces = [samples_of(output.content, whole.dtype.name) for output in outputs]
    assert [*map(len, pieces)] == [output.metadata["frames"] for output in outputs]
    assert about["source_frames"] == len(whole)
    assert np.array_equal(np.concatenate(pieces), whole)
