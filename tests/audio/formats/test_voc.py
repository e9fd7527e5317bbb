"""Creative Voice: all blocks with sound, and nothing else; libsndfile would take their headers for sound."""

import io
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest
import soundfile
from sounds import (
    chunks_of,
    decoded_by_ffmpeg,
    ffmpeg,
    needs_ffmpeg,
    needs_sox,
    noise,
    samples_of,
    write_sound,
)

from splitter.audio.formats.samples import find_samples
from splitter.errors import AudioError

FRAMES = noise(3000)
HEAD = b"Creative Voice File\x1a" + struct.pack("<HHH", 26, 0x114, 0x111F)


def block(kind: int, content: bytes) -> bytes:
    return bytes([kind]) + len(content).to_bytes(3, "little") + content


def sound(frames: np.ndarray, rate: int = 8000) -> bytes:
    """A block of 16-bit samples."""
    return block(9, struct.pack("<IBBHI", rate, 16, frames.shape[1], 4, 0) + frames.astype("<i2").tobytes())


def read(path: Path, **options) -> np.ndarray:
    outputs, about = chunks_of(path, seconds=0.1, format="wav", **options)
    frames = np.concatenate([samples_of(output.content, "int16") for output in outputs])
    assert len(frames) == about["source_frames"]
    return frames


def test_blocks_that_follow_each_other(tmp_path):
    """More sound, texts and markers; silence has a rate of its own."""
    more = block(2, FRAMES[1000:2000].astype("<i2").tobytes())
    others = block(5, b"a text\0") + block(4, b"\1\0")
    # 100 samples at 1,000,000 / (256 - 6) Hz are 200 at 8,000
    silence = block(3, struct.pack("<HB", 99, 6))
    content = HEAD + sound(FRAMES[:1000]) + others + more + silence + sound(FRAMES[2000:]) + b"\0"
    for end in (content, content[:-1], content + b"\0\0garbage"):
        (tmp_path / "a.voc").write_bytes(end)
        expected = np.concatenate([FRAMES[:2000], np.zeros((200, 1), np.int16), FRAMES[2000:]])
        assert np.array_equal(read(tmp_path / "a.voc"), expected)


@pytest.mark.slow
def test_a_cut_anywhere_in_blocks(tmp_path):
    """Each block states its size, so only a cut between two of them is not seen."""
    content = HEAD + sound(FRAMES[:100]) + sound(FRAMES[100:150]) + b"\0"
    between = {26 + 4 + 12 + 200, len(content) - 1}
    for size in range(len(content)):
        (tmp_path / "a").write_bytes(content[:size])
        if size in between:
            assert len(read(tmp_path / "a")) in {100, 150}
            continue
        with pytest.raises(AudioError) as refused:
            read(tmp_path / "a")
        assert "\n" not in str(refused.value)
        if size > 100:
            assert " samples exist; use --truncated keep" in str(refused.value)
            assert len(read(tmp_path / "a", truncated="keep")) == max(0, min(100, (size - 42) // 2)) + max(
                0, (size - 258) // 2
            )


@pytest.mark.slow
@needs_ffmpeg
@pytest.mark.parametrize("codec", ["pcm_s16le", "pcm_u8", "pcm_alaw", "pcm_mulaw"])
@pytest.mark.parametrize("channels", [1, 2])
def test_what_ffmpeg_writes(tmp_path, codec, channels):
    """It divides a recording into many blocks."""
    source = write_sound(tmp_path / "a.wav", noise(9000, channels))
    ffmpeg("-i", source, "-c:a", codec, tmp_path / "a.voc")
    [expected] = decoded_by_ffmpeg([tmp_path / "a.voc"], channels, tmp_path)
    assert len(expected) == 9000
    assert np.array_equal(read(tmp_path / "a.voc"), expected >> 16)


@needs_sox
@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("channels", [1, 2])
def test_what_sox_writes(tmp_path, bits, channels):
    """Of 16 bits it states eight bytes less than there are, and loses them when it reads."""
    expected = noise(9000, channels)
    source = write_sound(tmp_path / "a.wav", expected)
    subprocess.run(["sox", "-D", source, "-b", str(bits), tmp_path / "a.voc"], check=True)
    if bits == 8:
        subprocess.run(["sox", "-D", tmp_path / "a.voc", "-b", "16", tmp_path / "back.wav"], check=True)
        expected = soundfile.read(tmp_path / "back.wav", dtype="int16", always_2d=True)[0]
    assert np.array_equal(read(tmp_path / "a.voc"), expected)


@pytest.mark.parametrize("subtype", ["PCM_U8", "PCM_16", "ALAW", "ULAW"])
@pytest.mark.parametrize("channels", [1, 2])
def test_pieces_have_as_many_samples_as_they_should(tmp_path, subtype, channels):
    """Of A-law and u-law libsndfile writes one too many into VOC, so their pieces are WAV."""
    path = write_sound(tmp_path / "a.voc", noise(1001, channels), 8000, subtype, "VOC")
    outputs, about = chunks_of(path, seconds=0.05)
    lengths = [soundfile.info(io.BytesIO(output.content)).frames for output in outputs]
    assert lengths == [output.metadata["frames"] for output in outputs]
    assert sum(lengths) == about["source_frames"]
    assert about["source_subtype"] == subtype
    assert {output.name[-4:] for output in outputs} == {".wav" if subtype.endswith("LAW") else ".voc"}


def test_more_than_a_block_can_state(tmp_path):
    """24 bits are too few for 18 MB: libsndfile writes it, and it is all there."""
    path = write_sound(tmp_path / "a.voc", FRAMES, 8000, "PCM_16", "VOC")
    head = path.read_bytes()[:42]
    stated = (18_000_000 + 12) % 2**24
    with path.open("wb") as file:
        file.write(head[:27] + stated.to_bytes(3, "little") + head[30:])
        file.truncate(42 + 18_000_000 + 1)
    extent = find_samples(str(path))
    assert extent is not None
    assert extent.frames == 9_000_000


def test_a_rate_that_changes(tmp_path):
    """What is not one recording is left to others to judge."""
    (tmp_path / "a.voc").write_bytes(HEAD + sound(FRAMES) + sound(FRAMES, 16_000) + b"\0")
    extent = find_samples(str(tmp_path / "a.voc"))
    assert extent is not None
    assert extent.raw is None
