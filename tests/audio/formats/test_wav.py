"""WAV and its relatives: where their samples are by what is there, and headers for pieces."""

import io
import shutil
import struct
import subprocess
import wave
from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st
from nightly import depth
from sounds import needs_ffmpeg, needs_sox, noise, wav, write_sound

from splitter.audio.formats.samples import find_samples
from splitter.audio.formats.wav import Extent, RawFormat

FRAMES = noise(1000, 2)
CONTENT = FRAMES.astype("<i2").tobytes()
LISTED = struct.pack("<4sI4s", b"LIST", 4, b"INFO")


def found(content: bytes, path: Path) -> Extent:
    path.write_bytes(content)
    extent = find_samples(str(path))
    assert extent is not None
    return extent


def there(content: bytes, path: Path) -> bytes:
    """The bytes that are taken for samples."""
    extent = found(content, path)
    return content[extent.start : extent.start + extent.there]


# -- each kind of file --------------------------------------------------------------------------------------

KINDS = {
    "WAV": ("PCM_U8", "PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE", "ALAW", "ULAW"),
    "WAVEX": ("PCM_U8", "PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE", "ALAW", "ULAW"),
    "RF64": ("PCM_16", "PCM_24", "FLOAT", "ULAW"),
    "W64": ("PCM_U8", "PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE", "ALAW", "ULAW"),
    "AIFF": ("PCM_S8", "PCM_U8", "PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE", "ALAW", "ULAW"),
    "CAF": ("PCM_S8", "PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE", "ALAW", "ULAW"),
    "AU": ("PCM_S8", "PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE", "ALAW", "ULAW"),
}


@pytest.mark.parametrize(
    ("container", "subtype"), [(kind, subtype) for kind, subtypes in KINDS.items() for subtype in subtypes]
)
def test_what_libsndfile_writes(tmp_path, container, subtype):
    """Encoding, channels, rate and number of frames are found without libsndfile, which would agree."""
    path = write_sound(tmp_path / "a", noise(777, 3, subtype), 44_100, subtype, container)
    extent = find_samples(str(path))
    assert extent is not None
    assert extent.raw is not None
    assert extent.raw.subtype == subtype
    assert extent.raw.container == ("WAV" if container == "WAVEX" else container)
    assert (extent.raw.channels, extent.raw.rate, extent.frames) == (3, 44_100, 777)
    assert extent.stated == extent.there == 777 * extent.raw.frame_bytes
    assert not extent.is_cut_short


@pytest.mark.parametrize("endian", ["LITTLE", "BIG"])
@pytest.mark.parametrize("container", ["WAV", "AIFF", "CAF"])
def test_both_orders_of_bytes(tmp_path, container, endian):
    """RIFX is WAV with its bytes the other way round, as are `sowt` in AIFF, and a bit in CAF."""
    with soundfile.SoundFile(tmp_path / "a", "w", 8000, 2, "PCM_16", endian, container) as sound:
        sound.write(FRAMES)
    content = (tmp_path / "a").read_bytes()
    extent = found(content, tmp_path / "b")
    assert extent.raw is not None
    assert extent.raw.order == {"LITTLE": "<", "BIG": ">"}[endian]
    samples = np.frombuffer(content[extent.start : extent.start + extent.there], f"{extent.raw.order}i2")
    assert np.array_equal(samples.reshape(-1, 2), FRAMES)


@needs_ffmpeg
@pytest.mark.parametrize(
    ("container", "codec"),
    [
        *(("wav", f"pcm_{name}") for name in ("u8", "s16le", "s24le", "s32le", "f32le", "alaw")),
        *(("w64", f"pcm_{name}") for name in ("s16le", "s24le", "f64le")),
        *(("aiff", f"pcm_{name}") for name in ("s8", "s16be", "s24be", "s32be", "f32be", "mulaw")),
        *(("caf", f"pcm_{name}") for name in ("s16be", "s16le", "s24le", "f32le", "alaw")),
        *(("au", f"pcm_{name}") for name in ("s8", "s16be", "s24be", "f64be", "mulaw")),
    ],
)
@pytest.mark.slow
def test_what_ffmpeg_writes_to_a_pipe(tmp_path, container, codec):
    """It cannot go back to state a size: whatever it leaves there, all samples are found."""
    source = write_sound(tmp_path / "a.wav", FRAMES)
    command = ["ffmpeg", "-nostdin", "-v", "error", "-i", source, "-c:a", codec, "-f", container, "-"]
    content = subprocess.run(command, capture_output=True, check=True).stdout
    extent = found(content, tmp_path / "b")
    assert extent.raw is not None
    assert (extent.raw.channels, extent.raw.rate, extent.frames) == (2, 8000, 1000)
    assert not extent.is_cut_short
    assert extent.start + extent.there == len(content)


@needs_ffmpeg
def test_rf64_to_a_pipe(tmp_path):
    """Its two sizes are left at nothing."""
    source = write_sound(tmp_path / "a.wav", FRAMES)
    command = ["ffmpeg", "-nostdin", "-v", "error", "-i", source, "-rf64", "always", "-f", "wav", "-"]
    content = subprocess.run(command, capture_output=True, check=True).stdout
    assert content[:4] == b"RF64"
    assert there(content, tmp_path / "b") == CONTENT


@needs_sox
@pytest.mark.parametrize(("kind", "bits"), [("wav", 16), ("wav", 24), ("wav", 8), ("aiff", 16), ("au", 16)])
def test_what_sox_writes_to_a_pipe(tmp_path, kind, bits):
    """It states what is nearly the largest size there is, rounded down to whole frames."""
    write_sound(tmp_path / "a.wav", noise(1000, 3))
    # from a pipe too, so that it cannot know the length
    raw = "-t raw -r 8000 -e signed -b 16 -c 3 -"
    line = f"sox '{tmp_path}/a.wav' -t raw - | sox {raw} -b {bits} -t {kind} - | cat"
    content = subprocess.run(["sh", "-c", line], capture_output=True, check=True).stdout
    extent = found(content, tmp_path / "b")
    assert (extent.frames, extent.stated) == (1000, None)


# -- what headers state -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "stated",
    [
        *(0, 2**32 - 1, 2**31 - 1, 2**31, 0x7FFFF000, 0x7FFFFF00, 2**32 - 4),
        *(0xFFFFFFD4, 0xFFFFFFDB, 0xFFFFFFB0, 0x7FFFFFD3),
    ],
)
def test_sizes_that_say_nothing(tmp_path, stated):
    """As streaming writers leave them, also rounded down, or without a header: all that is there counts."""
    content = wav(CONTENT, channels=2, stated=stated)
    extent = found(content, tmp_path / "a")
    assert (extent.stated, extent.there, extent.is_cut_short) == (None, len(CONTENT), False)


@pytest.mark.parametrize("stated", [len(CONTENT) + 4, 10**9, 2**31 - 1000, 2**32 - 1000])
def test_sizes_that_are_too_large(tmp_path, stated):
    """The file has been cut, and there is only what is there."""
    extent = found(wav(CONTENT, channels=2, stated=stated), tmp_path / "a")
    assert (extent.stated, extent.there, extent.is_cut_short) == (stated, len(CONTENT), True)


def test_sizes_that_are_smaller(tmp_path):
    """What comes after is no sound, whether it is chunks or not."""
    for after in (LISTED, b"\xff" * 99):
        assert there(wav(CONTENT, channels=2, after=after), tmp_path / "a") == CONTENT


def test_silence_with_no_size(tmp_path):
    """Zeros look like chunks of no size, and are samples."""
    assert there(wav(bytes(5000), stated=0), tmp_path / "a") == bytes(5000)


@pytest.mark.parametrize(
    "after", [b"", LISTED, LISTED * 3, LISTED + b"id3 \x01\0\0\0x", LISTED + b"id3 \x01\0\0\0x\0"]
)
def test_a_file_without_samples(tmp_path, after):
    """A size of nothing is meant where only chunks follow, or nothing."""
    extent = found(wav(b"", after=after), tmp_path / "a")
    assert (extent.stated, extent.there) == (0, 0)


def test_more_than_a_header_can_state(tmp_path):
    """A size that went past 32 bits and began again is known by what is there."""
    for beyond in (0, 2**32, 2 * 2**32):
        head = wav(b"", channels=2, stated=1_000_000)
        with (tmp_path / "a").open("wb") as file:
            file.write(head)
            # a hole in the file: no disk is needed
            file.truncate(len(head) + 1_000_000 + beyond)
        extent = find_samples(str(tmp_path / "a"))
        assert extent is not None
        assert extent.there == 1_000_000 + beyond


@pytest.mark.parametrize("stated", [2**32 - 4, 2**32 - 36, 2**31 - 44])
@pytest.mark.parametrize("after", [b"", LISTED])
def test_a_recording_as_long_as_the_sizes_of_streams(tmp_path, stated, after):
    """It is no stream if all of it is there, and nothing else but chunks: they are no sound."""
    head = wav(b"", channels=2, stated=stated)
    with (tmp_path / "a").open("wb") as file:
        file.write(head)
        file.truncate(len(head) + stated)
        file.seek(0, 2)
        file.write(after)
    extent = find_samples(str(tmp_path / "a"))
    assert extent is not None
    assert (extent.stated, extent.there) == (stated, stated)


def test_a_long_stream(tmp_path):
    """Twelve hours, of which the header says nothing."""
    head = wav(b"", channels=2, rate=48_000, stated=2**32 - 1)
    with (tmp_path / "a").open("wb") as file:
        file.write(head)
        file.truncate(len(head) + 12 * 3600 * 48_000 * 4)
    extent = find_samples(str(tmp_path / "a"))
    assert extent is not None
    assert extent.frames == 12 * 3600 * 48_000


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"RIFF",
        b"RIFF\0\0\0\0WAVE",
        b"RIFF\0\0\0\0WAVEfmt ",
        wav(b"")[:40],
        b"FORM\0\0\0\0AIFF",
        b"FORM\0\0\0\0AIFFSSND\0\0\0\x08",
        b"FORM\0\0\0\0AIFC" + b"COMM\xff\xff\xff\xff" + bytes(30),
        b"caff\0\1\0\0",
        b"caff\0\1\0\0" + b"desc" + b"\xff" * 8 + bytes(32),
        b"caff\0\1\0\0" + b"data" + b"\xff" * 8,
        b"riff" + bytes(100),
        b".snd",
        b".snd" + b"\xff" * 20,
        b"RIFF\0\0\0\0WAVE" + b"fmt \xff\xff\xff\xff" + bytes(100),
        b"RIFF\0\0\0\0WAVE" + b"junk\0\0\0\0" * 50_000,
        b"RIFF\0\0\0\0WAVE" + bytes(100_000),
        b"RF64\xff\xff\xff\xffWAVE" + b"ds64" + b"\xff" * 8 + wav(CONTENT)[12:],
        b"fLaC\0\0\0\x22",
    ],
)
def test_headers_of_no_use(tmp_path, content):
    """They are no samples that could be taken as they are, and nothing breaks over them."""
    (tmp_path / "a").write_bytes(content)
    extent = find_samples(str(tmp_path / "a"))
    assert extent is None or extent.raw is None or not extent.frames


@pytest.mark.parametrize(
    "lie",
    [
        {"channels": 0, "frame_bytes": 0},
        {"rate": 0},
        {"frame_bytes": 3},
        {"bits": 12},
        {"code": 2},
        {"bits": 0},
    ],
)
def test_descriptions_that_are_wrong(tmp_path, lie):
    """What cannot be true is left to a decoder to judge, and is never divided by."""
    extent = found(wav(bytes(100), **lie), tmp_path / "a")
    assert extent.raw is None
    assert extent.frames == 0


@settings(max_examples=depth(100))
@given(st.data())
def test_damage_anywhere(tmp_path_factory, data):
    """Whatever stands in a header: there is never more than the file has."""
    kind = data.draw(st.sampled_from(sorted(KINDS)))
    file = io.BytesIO()
    soundfile.write(file, FRAMES[:100], 8000, "PCM_16", format=kind)
    content = bytearray(file.getvalue())
    edge = min(len(content), content.index(b"data") + 60 if b"data" in content else 120)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, edge - 1))
        content[at : at + 4] = data.draw(
            st.sampled_from([b"\xff" * 4, bytes(4), b"\x7f\xff\xff\xff", b"\x80\0\0\0"])
        )
    path = tmp_path_factory.mktemp("damage") / "a"
    path.write_bytes(content[: data.draw(st.integers(0, len(content)))])
    extent = find_samples(str(path))
    if extent is not None:
        size = path.stat().st_size
        assert 0 <= extent.there <= max(0, size - extent.start)
        assert extent.frames * (extent.raw.frame_bytes if extent.raw else 1) <= size


# -- headers for pieces -------------------------------------------------------------------------------------


@pytest.mark.parametrize("frames", [0, 1, 1000])
@pytest.mark.parametrize(("channels", "bits"), [(1, 8), (2, 16), (3, 24), (6, 32)])
def test_headers_as_others_read_them(tmp_path, frames, channels, bits):
    """Python's wave module and libsndfile find what the header says."""
    subtype = {8: "PCM_U8"}.get(bits, f"PCM_{bits}")
    description = struct.pack(
        "<HHIIHH", 1, channels, 8000, 8000 * channels * bits // 8, channels * bits // 8, bits
    )
    raw = RawFormat("WAV", subtype, channels, 8000, "<", description)
    content = bytes(frames * raw.frame_bytes)
    whole = raw.header(frames) + content + b"\0" * (len(content) & 1)
    assert int.from_bytes(whole[4:8], "little") == len(whole) - 8
    with wave.open(io.BytesIO(whole)) as sound:
        assert (sound.getnchannels(), sound.getsampwidth(), sound.getframerate()) == (
            channels,
            bits // 8,
            8000,
        )
        assert sound.getnframes() == frames
    about = soundfile.info(io.BytesIO(whole))
    assert (about.channels, about.subtype, about.frames) == (channels, subtype, frames)
    extent = found(whole, tmp_path / "a")
    assert (extent.frames, extent.stated, extent.raw) == (frames, len(content), raw)


def test_a_piece_beyond_four_gigabytes(tmp_path):
    """Its header is that of RF64, which others read, too."""
    description = struct.pack("<HHIIHH", 1, 2, 48_000, 192_000, 4, 16)
    raw = RawFormat("WAV", "PCM_16", 2, 48_000, "<", description)
    frames = 12 * 3600 * 48_000
    path = tmp_path / "long.wav"
    with path.open("wb") as file:
        header = raw.header(frames)
        file.write(header)
        file.truncate(len(header) + frames * 4)
    about = soundfile.info(path)
    assert (about.format, about.subtype, about.frames) == ("RF64", "PCM_16", frames)
    assert int.from_bytes(header[20:28], "little") == path.stat().st_size - 8
    extent = find_samples(str(path))
    assert extent is not None
    assert (extent.frames, extent.stated) == (frames, frames * 4)
    if shutil.which("ffprobe"):
        show = ["-show_entries", "stream=duration_ts", "-of", "csv=p=0", path]
        said = subprocess.run(
            ["ffprobe", "-v", "error", *show], capture_output=True, check=True, text=True
        ).stdout
        assert int(said) == frames


def test_the_largest_ordinary_piece():
    """One sample less than RF64 needs."""
    raw = RawFormat("WAV", "PCM_U8", 1, 8000, "<", bytes(16))
    most = 2**32 - 1 - 36 - 1
    assert raw.header(most)[:4] == b"RIFF"
    assert raw.header(most + 2)[:4] == b"RF64"
