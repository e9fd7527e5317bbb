"""NIST SPHERE, as TIMIT and the LDC have it: its header states how many samples there are."""

import subprocess
from pathlib import Path

import numpy as np
import pytest
import soundfile
from sounds import chunks_of, needs_sox, noise, samples_of, tone, write_sound

from splitter.audio.formats.samples import find_samples
from splitter.errors import AudioError

FRAMES = noise(1000, 2)
CONTENT = FRAMES.astype("<i2").tobytes()


def sphere(content: bytes = CONTENT, size: int = 1024, **changed: str | None) -> bytes:
    """A file as TIMIT has them, with some fields changed or left out."""
    fields = {
        "database_id": "-s5 TIMIT",
        "utterance_id": "-s8 mdab0_si",
        "channel_count": "-i 2",
        "sample_count": "-i 1000",
        "sample_rate": "-i 16000",
        "sample_min": "-i -1414",
        "sample_n_bytes": "-i 2",
        "sample_byte_format": "-s2 01",
        "sample_sig_bits": "-i 16",
        **changed,
    }
    lines = "".join(f"{name} {value}\n" for name, value in fields.items() if value is not None)
    return f"NIST_1A\n{size:7}\n{lines}end_head\n".encode().ljust(size) + content


def read(path: Path, **options) -> np.ndarray:
    outputs, about = chunks_of(path, seconds=0.01, format="wav", **options)
    frames = np.concatenate([samples_of(output.content, "int16") for output in outputs])
    assert len(frames) == about["source_frames"]
    assert about["source_format"] == "NIST"
    return frames


@pytest.mark.parametrize("subtype", ["PCM_S8", "PCM_16", "PCM_24", "PCM_32", "ALAW", "ULAW"])
@pytest.mark.parametrize("endian", ["LITTLE", "BIG"])
def test_what_libsndfile_writes(tmp_path, subtype, endian):
    """Its samples are those that libsndfile reads, taken without it."""
    with soundfile.SoundFile(tmp_path / "a.sph", "w", 8000, 2, subtype, endian, "NIST") as sound:
        sound.write(noise(1000, 2, subtype if subtype.startswith("PCM") else "PCM_16"))
    extent = find_samples(str(tmp_path / "a.sph"))
    assert extent is not None
    assert extent.raw is not None
    assert (extent.raw.subtype, extent.frames, extent.is_cut_short) == (subtype, 1000, False)
    outputs, about = chunks_of(tmp_path / "a.sph", format="wav")
    assert about["source_subtype"] == subtype
    expected = soundfile.read(tmp_path / "a.sph", dtype="int32")[0]
    assert np.array_equal(samples_of(outputs[0].content), expected)


@needs_sox
@pytest.mark.parametrize(
    "options", [("-b", "16"), ("-b", "8", "-e", "u-law"), ("-b", "32"), ("-b", "16", "-B")]
)
def test_what_sox_writes(tmp_path, options):
    """In either order of bytes."""
    source = write_sound(tmp_path / "a.wav", FRAMES)
    subprocess.run(["sox", "-D", source, *options, tmp_path / "a.sph"], check=True)
    subprocess.run(
        ["sox", "-D", tmp_path / "a.sph", "-b", "16", "-e", "signed", tmp_path / "back.wav"], check=True
    )
    expected = soundfile.read(tmp_path / "back.wav", dtype="int16", always_2d=True)[0]
    assert np.array_equal(read(tmp_path / "a.sph"), expected)


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"size": 2048},
        {"sample_coding": "-s3 pcm"},
        {"sample_count": None},
        {"sample_count": "-i 0"},
        {"sample_byte_format": "-s2 10", "content": FRAMES.astype(">i2").tobytes()},
        {"content": CONTENT + b"what follows"},
    ],
)
def test_fields_that_say_it_in_other_ways(tmp_path, changed):
    """A header may be longer, or state no number of samples; what follows them is none."""
    (tmp_path / "a.sph").write_bytes(sphere(**changed))
    frames = read(tmp_path / "a.sph")
    assert np.array_equal(frames, FRAMES)


def test_a_file_that_was_cut(tmp_path):
    """It is an error that says how much there is, and `truncated` keeps that."""
    (tmp_path / "a.sph").write_bytes(sphere(CONTENT[: 4 * 400 + 1]))
    said = r"a\.sph: ends early: 400 of 1,000 samples exist; use --truncated keep to keep them"
    with pytest.raises(AudioError, match=said):
        read(tmp_path / "a.sph")
    assert np.array_equal(read(tmp_path / "a.sph", truncated="keep"), FRAMES[:400])


@pytest.mark.parametrize(
    "changed",
    [
        {"channel_count": "-i 0"},
        {"sample_rate": "-i 0"},
        {"sample_coding": "-s7 unknown"},
        {"channel_count": "-i 99999999999999999999"},
    ],
)
def test_headers_of_no_use(tmp_path, changed):
    """An error in one line."""
    (tmp_path / "a.sph").write_bytes(sphere(**changed))
    with pytest.raises(AudioError, match=r"a\.sph: cannot be read: it is NIST: .+") as refused:
        read(tmp_path / "a.sph")
    assert "\n" not in str(refused.value)


def shortened(samples: np.ndarray, block: int = 256) -> bytes:
    """Samples as Shorten compresses them, in its simplest way: one channel, no prediction."""
    bits: list[str] = []

    def rice(value: int, low: int) -> None:
        bits.append("0" * (value >> low) + "1" + (f"{value & (1 << low) - 1:0{low}b}" if low else ""))

    def number(value: int) -> None:
        rice(value.bit_length(), 2)
        rice(value, value.bit_length())

    # 16 bits, one channel, and neither linear prediction, nor means, nor bytes to skip
    for value in (5, 1, block, 0, 0, 0):
        number(value)
    for at in range(0, len(samples), block):
        part = samples[at : at + block].tolist()
        if len(part) < block:
            rice(5, 2)
            number(len(part))
        rice(0, 2)
        rice(11, 3)
        for sample in part:
            rice(2 * sample if sample >= 0 else -2 * sample - 1, 12)
    rice(4, 2)
    text = "".join(bits)
    text += "0" * (-len(text) % 32)
    return b"ajkg\2" + int(text, 2).to_bytes(len(text) // 8, "big")


def test_compressed_with_shorten(tmp_path):
    """As most of the LDC's are: FFmpeg reads it, to the sample, and a file that was cut is an error."""
    pytest.importorskip("av")
    coding = "-s26 pcm,embedded-shorten-v2.00"
    frames = tone(1.3, 16_000)
    content = sphere(
        shortened(frames[:, 0]), channel_count="-i 1", sample_count="-i 20800", sample_coding=coding
    )
    (tmp_path / "a.sph").write_bytes(content)
    outputs, about = chunks_of(tmp_path / "a.sph", seconds=0.5)
    assert np.array_equal(np.concatenate([samples_of(each.content, "int16") for each in outputs]), frames)
    assert (about["source_format"], about["source_subtype"]) == ("NIST", "SHORTEN")
    assert {output.name[-4:] for output in outputs} == {".sph"}
    (tmp_path / "a.sph").write_bytes(content[: len(content) // 2])
    with pytest.raises(AudioError, match=r"a\.sph: ends early: [\d,]+ of 20,800 samples exist; use --trunc"):
        chunks_of(tmp_path / "a.sph")
