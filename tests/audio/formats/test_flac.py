"""FLAC is cut by copying frames: the samples are the recording's, whoever decodes them, or it is an error."""

import io
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import soundfile
from flac_streams import Coding, coded, crc8, crc16, frame, frames_of, head, stream
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from nightly import depth

from splitter.audio.formats.flac import FlacError, FlacSource
from splitter.audio.formats.flac import source as cutting
from splitter.audio.formats.flac import stream as reading
from splitter.audio.formats.flac.stream import NotCuttable

pytestmark = pytest.mark.slow

needs_flac = pytest.mark.skipif(not shutil.which("flac"), reason="needs Debian's flac")
needs_ffmpeg = pytest.mark.skipif(not shutil.which("ffmpeg"), reason="needs Debian's ffmpeg")

CODINGS = [
    Coding(),
    Coding(8000, 8, size_in="bytes"),
    Coding(96000, 24),
    Coding(44100, 24, rate_in="hz"),
    Coding(255000, 16, rate_in="khz"),
    Coding(655350, 8, rate_in="10hz", size_in="bytes"),
    Coding(11025, 16, rate_in="hz", bits_in_header=False, size_in="bytes"),
    Coding(96001, 24, rate_in="streaminfo", bits_in_header=False),
]


def made(seed: int, length: int, channels: int, bits: int) -> np.ndarray:
    """Noise, with some stretches of silence and some of full scale."""
    random = np.random.default_rng(seed)
    limit = 1 << bits - 1
    samples = random.integers(-limit, limit, (length, channels))
    for _ in range(random.integers(0, 4)):
        at, size = random.integers(0, length), random.integers(0, length)
        samples[at : at + size] = random.choice([0, -limit, limit - 1])
    return samples


def decoded(data: bytes, bits: int) -> np.ndarray:
    samples, _ = soundfile.read(io.BytesIO(data), dtype="int32", always_2d=True)
    return samples >> 32 - bits


def cut(source: FlacSource, start: int, stop: int) -> bytes:
    file = io.BytesIO()
    source.cut(start, stop, file)
    return file.getvalue()


@contextmanager
def small_steps() -> Iterator[None]:
    """Read and write little at a time, so that a small file is read and written in many steps."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "STEP", 1)
        patch.setattr(cutting, "SEGMENT", 300)
        for module in (reading, cutting):
            patch.setattr(module, "MANY", 5)
        yield


@pytest.fixture
def written(folder: Path):
    """Writes bytes to a file, and opens it to cut from."""
    opened = []

    def write(data: bytes) -> FlacSource:
        path = folder / f"{len(opened)}.flac"
        path.write_bytes(data)
        opened.append(FlacSource(path))
        return opened[-1]

    yield write
    for source in opened:
        source.close()


# what is cut


@dataclass(frozen=True)
class Job:
    """A recording made by hand, and where to cut it."""

    seed: int
    coding: Coding
    channels: int
    block: int
    length: int
    total_known: bool
    cuts: list[tuple[int, int]]


@st.composite
def jobs(draw) -> Job:
    coding = draw(st.sampled_from(CODINGS))
    channels = draw(st.integers(1, 8))
    block = draw(st.sampled_from([16, 17, 31, 100, 192, 256, 257, 576, 1000]))
    most = 30_000 // (channels * coding.bits // 8)
    length = draw(
        st.one_of(st.integers(1, most), st.integers(1, most // block or 1).map(lambda n: n * block))
    )
    near = st.integers(0, length // block).flatmap(
        lambda n: st.integers(max(0, n * block - 17), min(length, n * block + 17))
    )
    position = st.one_of(
        st.integers(0, length), near, st.integers(0, length // block).map(lambda n: n * block)
    )
    pairs = st.tuples(position, position).map(sorted).filter(lambda pair: pair[0] < pair[1]).map(tuple)
    cuts = draw(st.lists(pairs, min_size=1, max_size=4))
    return Job(draw(st.integers(0, 99)), coding, channels, block, length, draw(st.booleans()), cuts)


@given(jobs())
@settings(max_examples=depth(100))
def test_a_cut_has_exactly_the_samples(folder, job):
    """Any cut of any stream decodes to the samples asked for; frames within it are the recording's own."""
    coding, block = job.coding, job.block
    samples = made(job.seed, job.length, job.channels, coding.bits)
    path = folder / "source.flac"
    path.write_bytes(stream(samples, block, coding, total=None if job.total_known else 0))
    with small_steps(), FlacSource(path) as source:
        assert (source.rate, source.channels, source.bits) == (coding.rate, job.channels, coding.bits)
        assert source.declared == (job.length if job.total_known else None)
        for start, stop in job.cuts:
            assert source.reach(stop) == stop
            result = cut(source, start, stop)
            np.testing.assert_array_equal(decoded(result, coding.bits), samples[start:stop])
            info = soundfile.info(io.BytesIO(result))
            assert (info.frames, info.samplerate) == (stop - start, coding.rate)
            first, last = -(-start // block), stop // block
            if stop == job.length:
                last = -(-stop // block)
            if first >= last:
                continue
            if start % block == 0:
                copied = b"".join(frames_of(samples[start:stop], block, coding)[: last - first])
            elif -start % block >= 16 and stop - first * block >= block:
                copied = b"".join(
                    frame(samples[at : at + block], at - start, coding, variable=True)
                    for at in range(first * block, min(last * block, stop), block)
                )
            else:
                continue  # too small a first frame was joined to the next; or there are but two, and counted
            assert copied in result
        assert source.reach(job.length + 1) == job.length


@pytest.mark.parametrize("coding", CODINGS, ids=str)
@pytest.mark.parametrize("channels", [1, 2, 5, 8])
def test_a_cut_at_frames_is_the_stream_of_these_frames(written, coding, channels):
    """Where no frame is divided the result is what an encoder of the same frames would have written."""
    samples = made(1, 3000, channels, coding.bits)
    source = written(stream(samples, 192, coding))
    assert cut(source, 192 * 5, 192 * 9) == stream(samples[192 * 5 : 192 * 9], 192, coding)
    assert cut(source, 192 * 5, 3000) == stream(samples[192 * 5 :], 192, coding)
    assert cut(source, 0, 3000) == stream(samples, 192, coding)


@pytest.mark.parametrize("block", [4095, 4096, 4097, 4608, 16384, 65535])
def test_large_blocks(written, block):
    """A border of more samples than libsndfile puts into one frame is as exact."""
    samples = made(2, block * 3 + 5, 1, 16)
    source = written(stream(samples, block, Coding()))
    for start, stop in [(0, block - 1), (1, block), (block + 4, 3 * block + 4), (block, 2 * block - 1)]:
        np.testing.assert_array_equal(decoded(cut(source, start, stop), 16), samples[start:stop])


def test_numbers_of_every_length(written):
    """Frame and sample numbers of one to four bytes become one another."""
    values = np.arange(70_000) % 251 - 125
    samples = np.repeat(values, 16)[:, None]
    source = written(stream(samples, 16, Coding(8000, 8)))
    for start, stop in [
        (127 * 16, 129 * 16),
        (2047 * 16, 2049 * 16),
        (65_535 * 16, 65_537 * 16),
        (16, 65_540 * 16),
        (24, 140_000),
        (1_000_000, 1_100_001),
        (3, 69_999 * 16),
    ]:
        result = cut(source, start, stop)
        np.testing.assert_array_equal(decoded(result, 8), samples[start:stop])


def constant(block: int, value: int, number: int, *, variable: bool = False) -> bytes:
    """A frame in which all samples are the same."""
    header = bytes([0xFF, 0xF8 + variable, 0x74, 0x02]) + coded(number) + (block - 1).to_bytes(2, "big")
    content = header + crc8(header) + bytes([0, value & 0xFF])
    return content + crc16(content)


def constants(values: Sequence[int], block: int) -> bytes:
    """A stream of such frames, with each value in turn; quickly made, however long."""
    assert constant(block, 3, 9, variable=True) == frame(
        np.full((block, 1), 3), 9, Coding(8000, 8, size_in="bytes"), variable=True
    )
    frames = b"".join(constant(block, value, number) for number, value in enumerate(values))
    return head(Coding(8000, 8), 1, len(values) * block, (block, block)) + frames


def test_positions_that_need_more_than_32_bits(written):
    """More than 2^32 samples, which are a megabyte where each frame has one value; also as sample numbers."""
    block, count = 65_535, 65_600
    values = np.arange(count) % 251 - 125
    source = written(constants(values, block))
    for start, stop in [
        ((1 << 31) - 7, (1 << 31) + 3 * block),
        ((1 << 32) - 2 * block, (1 << 32) + 9),
        ((count - 2) * block, count * block),
    ]:
        result = decoded(cut(source, start, stop), 8)[:, 0]
        np.testing.assert_array_equal(result, values[np.arange(start, stop) // block])
    # from within a frame on, headers have the number of a sample: up to seven bytes
    long = cut(source, 5, count * block)
    at = len(long)
    for number in reversed(range(count - 3, count)):
        expected = constant(block, values[number], number * block - 5, variable=True)
        assert long[at - len(expected) : at] == expected
        at -= len(expected)


@pytest.mark.parametrize(
    "more", [b"\0", bytes(3), b"APETAGEX" + bytes(2000), b"\xff\xf8" * 300, bytes(100_000)], ids=len
)
@pytest.mark.parametrize("length", [3000, 2880, 100])
def test_what_follows_the_last_frame(written, more, length):
    """Taggers leave things there that FLAC does not know: the recording is whole all the same."""
    samples = made(15, length, 2, 16)
    whole = stream(samples, 192, Coding())
    silent = stream(samples, 192, Coding(), total=0)
    # with no number of samples in the header only zeros are known to be none
    for content in (whole, silent) if more in (b"\0", bytes(3)) else (whole,):
        for steps in (nullcontext(), small_steps()):
            with steps:
                source = written(content + more)
                assert source.reach(10**9) == length
                assert cut(source, 0, length) == whole
                np.testing.assert_array_equal(decoded(cut(source, 7, length), 16), samples[7:])
    # but not if it is cut off, or damaged at its end
    for bad in (whole[:-1] + more[1:], whole[:-3] + b"\1\2\3" + more):
        with pytest.raises(FlacError, match="samples are intact"):
            written(bad).reach(10**9)


@pytest.mark.parametrize("length", [1, 15, 16, 17, 191, 192])
def test_a_recording_of_one_frame(written, length):
    """A recording shorter than a block, or just as long, is cut like any other."""
    samples = made(3, length, 2, 16)
    source = written(stream(samples, 192, Coding()))
    assert cut(source, 0, length) == stream(samples, 192, Coding())
    for start in range(length):
        np.testing.assert_array_equal(decoded(cut(source, start, length), 16), samples[start:])


def test_a_recording_of_no_frames(written):
    """A header and nothing else is a recording of no samples."""
    source = written(head(Coding(), 2, 0, (4096, 4096)))
    assert source.reach(1) == 0
    with pytest.raises(ValueError, match="ends before sample 1"):
        cut(source, 0, 1)


@pytest.mark.parametrize(("start", "stop"), [(-1, 5), (5, 5), (6, 5), (0, 1001), (1000, 1001)])
def test_what_is_no_part_of_the_recording_is_refused(written, start, stop):
    """A range that is empty or goes beyond the ends is the caller's error, and nothing is written."""
    source = written(stream(made(4, 1000, 1, 16), 100, Coding()))
    file = io.BytesIO()
    with pytest.raises(ValueError):
        source.cut(start, stop, file)
    assert not file.getvalue()


def test_tags_around_the_stream(written):
    """ID3 tags before and behind, pictures and comments are passed over."""
    samples = made(5, 1000, 2, 16)
    blocks = [(4, b"a comment, fLaC"), (6, bytes(70_000)), (1, b"")]
    content = head(Coding(), 2, 1000, (100, 100), blocks) + b"".join(frames_of(samples, 100, Coding()))
    tag = b"ID3\4\0\0" + bytes([0, 0, 2, 1]) + bytes(257)
    footed = b"ID3\4\0\x10" + bytes([0, 0, 0, 3]) + bytes(3) + b"3DI\4\0\x10\0\0\0\3"
    source = written(tag + footed + content + b"TAG" + bytes(125))
    np.testing.assert_array_equal(decoded(cut(source, 250, 1000), 16), samples[250:])


def test_a_name_that_is_not_utf_8(folder):
    """The name of a recording may be any bytes."""
    samples = made(6, 500, 1, 16)
    path = bytes(folder) + b"/\xff\xfe.FLAC"
    with open(path, "wb") as file:
        file.write(stream(samples, 100, Coding()))
    with FlacSource(path) as source:
        np.testing.assert_array_equal(decoded(cut(source, 99, 301), 16), samples[99:301])


# witnesses


@dataclass(frozen=True)
class Recording:
    """A file that an encoder made, its samples, and their depth."""

    path: Path
    samples: np.ndarray
    bits: int


MADE_BY = {
    "libsndfile": None,
    "libsndfile 24 bit": None,
    "flac -8": ["flac", "-8"],
    "flac -0": ["flac", "-0"],
    "flac 8 bit": ["flac", "-5"],
    "flac 24 bit, 6 channels": ["flac", "-5", "-b", "1152", "--channel-map=none"],
    "flac 24 bit, large blocks": ["flac", "--lax", "-b", "16384"],
    "flac, tiny blocks": ["flac", "--lax", "-b", "16", "-l", "4"],
    "flac, largest blocks": ["flac", "--lax", "-b", "65535"],
    "flac, odd rate": ["flac", "--lax", "-b", "1000"],
    "ffmpeg": ["ffmpeg"],
    "ffmpeg 24 bit": ["ffmpeg", "-sample_fmt", "s32", "-bits_per_raw_sample", "24"],
}
RATES = {"flac 8 bit": 8000, "flac, odd rate": 96001, "flac 24 bit, large blocks": 192000}
CHANNELS = {"flac 24 bit, 6 channels": 6, "flac 8 bit": 1, "flac, odd rate": 1}
LENGTHS = {"flac, tiny blocks": 5000, "flac, largest blocks": 150_000}


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Recording]:
    """Something like music, in the files of several encoders; of those that are installed."""
    folder = tmp_path_factory.mktemp("it's a naïve folder")
    recordings = {}
    for name, tool in MADE_BY.items():
        if tool and not shutil.which(tool[0]):
            continue
        bits = int(found[1]) if (found := re.search(r"(\d+) bit", name)) else 16
        rate, channels = RATES.get(name, 44100), CHANNELS.get(name, 2)
        time = np.arange(LENGTHS.get(name, 60_000))[:, None] / rate
        random = np.random.default_rng(7)
        tones = np.sin(2 * np.pi * time * (220 + 500 * time) + np.arange(channels)) * 0.4
        sound = tones + random.normal(0, 0.01, tones.shape) * (time % 0.3 > 0.2)
        if channels > 1:  # of mono silence ffmpeg 5.1 loses the tiny frames, whoever wrote them
            sound[20_000:30_000] = 0
        samples = (sound * (1 << bits - 1)).astype(np.int32)
        path, wav = folder / f"{name}.flac", folder / f"{name}.wav"
        subtype = {8: "PCM_U8", 16: "PCM_16", 24: "PCM_24"}[bits]
        soundfile.write(wav, samples << 32 - bits, rate, subtype, format="WAVEX")
        if tool is None:
            soundfile.write(path, samples << 32 - bits, rate, subtype)
        elif tool[0] == "flac":
            subprocess.run([*tool, "-s", "-o", path, wav], check=True)
        else:
            subprocess.run(["ffmpeg", "-v", "error", "-i", wav, "-c:a", "flac", *tool[1:], path], check=True)
        recordings[name] = Recording(path, samples, bits)
    return recordings


@given(st.data())
@settings(max_examples=depth(50))
def test_recordings_of_every_encoder(recordings, data):
    """Whoever encoded a recording, its cuts have exactly its samples, and a decoder can seek in them."""
    recording = recordings[data.draw(st.sampled_from(sorted(recordings)))]
    length = len(recording.samples)
    start = data.draw(st.integers(0, length - 1))
    stop = data.draw(st.integers(start + 1, length))
    with FlacSource(recording.path) as source:
        result = cut(source, start, stop)
    expected = recording.samples[start:stop]
    np.testing.assert_array_equal(decoded(result, recording.bits), expected)
    with soundfile.SoundFile(io.BytesIO(result)) as sound:
        for position in data.draw(st.lists(st.integers(0, stop - start - 1), max_size=3)):
            assert sound.seek(position) == position
            some = sound.read(100, dtype="int32", always_2d=True) >> 32 - recording.bits
            np.testing.assert_array_equal(some, expected[position : position + 100])


def test_joined_pieces_are_the_recording(recordings):
    """Pieces of any length, one after the other, have every sample once."""
    for recording in recordings.values():
        length = len(recording.samples)
        with FlacSource(recording.path) as source:
            bounds = [0, 1, *range(7000, length, 9000), length]
            pieces = [cut(source, *pair) for pair in pairwise(bounds)]
        joined = np.concatenate([decoded(piece, recording.bits) for piece in pieces])
        np.testing.assert_array_equal(joined, recording.samples)


@pytest.fixture(scope="module")
def pieces(recordings, tmp_path_factory: pytest.TempPathFactory) -> list[Recording]:
    """Files cut from every recording: at frames, between them, within one, over the end."""
    folder = tmp_path_factory.mktemp("pieces")
    pieces = []
    for name, recording in recordings.items():
        with FlacSource(recording.path) as source:
            block, length = source.block, len(recording.samples)
            for start, stop in [
                (0, length),
                (0, min(length, 2 * block + 100)),
                (5, length),
                (block - 3, length - 1),
                (length - 7, length),
                (block // 2, block // 2 + 9),
            ]:
                path = folder / f"{name} {start} {stop}.flac"
                with open(path, "wb") as file:
                    source.cut(start, stop, file)
                pieces.append(Recording(path, recording.samples[start:stop], recording.bits))
    return pieces


@needs_flac
def test_flac_accepts_every_piece(pieces):
    """`flac -t` finds no fault but that an MD5 is not given; in a whole recording it is, and right."""
    done = subprocess.run(
        ["flac", "-t", "-s", *(piece.path for piece in pieces)], capture_output=True, text=True, check=False
    )
    said = done.stderr.splitlines()
    assert (done.returncode, [line for line in said if "cannot check MD5" not in line]) == (0, [])
    assert not [line for line in said if " 0 60000.flac" in line and "ffmpeg" not in line]


@needs_flac
def test_flac_decodes_every_piece(pieces):
    """The reference decoder gets the samples that were asked for."""
    paths = [piece.path for piece in pieces]
    subprocess.run(["flac", "-d", "-s", "-f", *paths], capture_output=True, check=True)
    for piece in pieces:
        samples, _ = soundfile.read(piece.path.with_suffix(".wav"), dtype="int32", always_2d=True)
        np.testing.assert_array_equal(samples >> 32 - piece.bits, piece.samples)


@needs_ffmpeg
def test_ffmpeg_accepts_every_piece(pieces):
    """The decoder of ffmpeg, which shares no code with libFLAC, gets them too, without a word."""
    command: list[str | Path] = ["ffmpeg", "-v", "error"]
    for piece in pieces:
        command += ["-i", piece.path]
    for number, piece in enumerate(pieces):
        command += ["-map", str(number), "-f", "s32le", piece.path.with_suffix(".raw")]
    done = subprocess.run(command, capture_output=True, check=True)
    assert not done.stderr
    for piece in pieces:
        samples = np.fromfile(piece.path.with_suffix(".raw"), "<i4").reshape(piece.samples.shape)
        np.testing.assert_array_equal(samples >> 32 - piece.bits, piece.samples)


# sound that looks like headers


@pytest.mark.parametrize("total_known", [True, False])
@pytest.mark.parametrize("shift", [0, 1, 3, 200])
def test_a_recording_of_a_flac_file(written, shift, total_known):
    """Frames within the sound of a frame, with right checksums and the very next numbers, are not taken."""
    inner = stream(np.repeat(np.arange(100) - 50, 1000)[:, None], 1000, Coding(8000, 8))
    content = bytes(shift) + inner * 9
    samples = np.frombuffer(content, np.int8).astype(int)[:, None]
    with small_steps():
        source = written(stream(samples, 1000, Coding(8000, 8), total=None if total_known else 0))
        for start, stop in [(0, 1000), (500, 5500), (3000, len(samples)), (0, len(samples))]:
            np.testing.assert_array_equal(decoded(cut(source, start, stop), 8), samples[start:stop])
        assert source.reach(1 << 40) == len(samples)


@pytest.mark.parametrize("total_known", [True, False])
def test_the_last_frame_seems_to_have_followers(written, total_known):
    """What looks like frames behind the last one, within its sound, does not lengthen the recording."""
    coding = Coding(8000, 8)
    followers = b"".join(frame(np.full((100, 1), number), number, coding) for number in range(3, 8))
    samples = np.zeros((300, 1), int)
    samples[-len(followers) - 2 : -2, 0] = np.frombuffer(followers, np.int8)
    source = written(stream(samples, 100, coding, total=None if total_known else 0))
    assert source.reach(1 << 40) == 300
    np.testing.assert_array_equal(decoded(cut(source, 50, 300), 8), samples[50:])


# faults


def small_stream(*, total: int | None = None) -> tuple[np.ndarray, bytes, list[int]]:
    """A recording of six frames of 20 samples, its bytes, and where each frame begins and the last ends."""
    samples = made(8, 115, 1, 8)
    frames = frames_of(samples, 20, Coding(8000, 8))
    content = stream(samples, 20, Coding(8000, 8), total=total)
    begin = len(content) - sum(map(len, frames))
    return samples, content, [begin, *(begin + np.cumsum([len(each) for each in frames])).tolist()]


def whole_before_the_fault(source: FlacSource, samples: np.ndarray) -> int:
    """How many samples are whole by the error that reading on raises; these can be cut, and are right."""
    file = io.BytesIO()
    with pytest.raises(FlacError) as caught:
        source.cut(0, len(samples), file)
    assert not file.getvalue()
    there = caught.value.samples
    assert str(there) in str(caught.value)
    assert source.reach(there) == there
    if there:
        np.testing.assert_array_equal(decoded(cut(source, 0, there), source.bits), samples[:there])
    with pytest.raises(FlacError):
        source.reach(there + 1)
    return there


@pytest.mark.parametrize("total_known", [True, False])
def test_a_recording_that_ends_anywhere(written, total_known):
    """A file cut off at any byte is an error that says how many samples are whole."""
    samples, content, bounds = small_stream(total=None if total_known else 0)
    for length in range(bounds[0], len(content)):
        whole = sum(bound <= length for bound in bounds) - 1
        within = length - bounds[whole]
        if within == 1 and whole == 0:
            continue
        try:
            source = written(content[:length])
        except NotCuttable:
            assert whole == 0
            assert within < 8
            continue
        if not total_known and within == 0:
            assert source.reach(115) == whole * 20
            continue
        there = whole_before_the_fault(source, samples)
        # Behind a frame there may be less than a header, which is not told from the end of the frame.
        assert there == whole * 20 or (0 < within < 8 and there == (whole - 1) * 20)


@pytest.mark.parametrize("total_known", [True, False])
@pytest.mark.parametrize("bit", [0, 3, 7])
def test_a_bit_that_turned_over_anywhere(written, bit, total_known):
    """Damage is found, wherever it is, and what comes before is kept but for a frame whose end it hides."""
    samples, content, bounds = small_stream(total=None if total_known else 0)
    for place in range(bounds[0], len(content)):
        damaged = bytearray(content)
        damaged[place] ^= 1 << bit
        number = sum(bound <= place for bound in bounds) - 1
        try:
            source = written(bytes(damaged))
        except NotCuttable:
            assert number == 0
            continue
        there = whole_before_the_fault(source, samples)
        assert there == number * 20 or (place - bounds[number] < 8 and there == (number - 1) * 20)


@given(st.data())
@settings(max_examples=depth(60))
def test_a_recording_that_was_mangled(folder, data):
    """Bytes lost, doubled, swapped or overwritten: an error, and never other samples."""
    block = data.draw(st.sampled_from([16, 50, 100]))
    channels = data.draw(st.integers(1, 2))
    samples = made(data.draw(st.integers(0, 9)), 1990, channels, 8)
    content = stream(samples, block, Coding(8000, 8))
    begin = 42
    first = data.draw(st.integers(begin, len(content) - 1))
    last = data.draw(st.integers(first, min(len(content), first + 400)))
    part = content[first:last]
    part = data.draw(
        st.sampled_from([b"", part * 2, bytes(len(part)), b"\xff\xf8" * (len(part) // 2), part[::-1]])
    )
    mangled = content[:first] + part + content[last:]
    assume(mangled != content)
    path = folder / "mangled.flac"
    path.write_bytes(mangled)
    with small_steps():
        try:
            source = FlacSource(path)
        except NotCuttable:
            return
        with source:
            try:
                there = source.reach(1 << 40)
            except FlacError as error:
                there = error.samples
            if there:
                result = cut(source, 0, there)
                np.testing.assert_array_equal(decoded(result, 8), samples[:there])
                assert len(result) <= len(content)


@pytest.mark.parametrize("lost", [1, 3, 4])
def test_a_lost_frame(written, lost):
    """A frame that is missing between others is found by their numbers."""
    samples, content, bounds = small_stream()
    source = written(content[: bounds[lost]] + content[bounds[lost + 1] :])
    assert whole_before_the_fault(source, samples) == lost * 20


@pytest.mark.parametrize(
    ("total", "says"), [(116, "ends after 115 of 116"), (10_000, "ends after 115 of 10,000")]
)
def test_a_header_that_promises_too_much(written, total, says):
    """A recording that ends before its header says so is an error that says how much is there."""
    samples, content, _ = small_stream(total=total)
    source = written(content)
    with pytest.raises(FlacError, match=says) as caught:
        source.reach(total)
    assert caught.value.samples == 115
    np.testing.assert_array_equal(decoded(cut(source, 0, 115), 8), samples)


@pytest.mark.parametrize("total", [1, 20, 99, 114])
def test_a_header_that_promises_too_little(written, total):
    """A recording that goes on after its header says it ends is an error."""
    samples, content, _ = small_stream(total=total)
    source = written(content)
    with pytest.raises(FlacError, match=f"holds 115 samples, but its header says {total}"):
        source.reach(116)
    np.testing.assert_array_equal(decoded(cut(source, 0, 115), 8), samples)


@pytest.mark.parametrize("total", [0, 110])
def test_a_short_frame_that_is_not_the_last(written, total):
    """Blocks of several sizes in a stream that says they are of one size are an error."""
    samples = made(9, 110, 1, 8)
    parts = [samples[:40], samples[40:50], samples[50:90], samples[90:110]]
    frames = b"".join(frame(part, number, Coding(8000, 8)) for number, part in enumerate(parts))
    source = written(head(Coding(8000, 8), 1, total, (40, 40)) + frames)
    assert whole_before_the_fault(source, samples) == 50


def test_a_frame_that_nobody_can_decode(written):
    """A border frame with right checksums around nonsense is an error, and nothing is written."""
    samples = made(10, 300, 1, 8)
    frames = frames_of(samples, 100, Coding(8000, 8))
    begin = frames[1][:4] + b"\x01" + frames[1][5:6]
    begin += crc8(begin)
    frames[1] = begin + b"\x7e" + frames[1][len(begin) + 1 : -2]
    frames[1] += crc16(frames[1])
    source = written(head(Coding(8000, 8), 1, 300, (100, 100)) + b"".join(frames))
    np.testing.assert_array_equal(decoded(cut(source, 0, 100), 8), samples[:100])
    file = io.BytesIO()
    with pytest.raises(FlacError, match="does not decode"):
        source.cut(50, 150, file)
    assert not file.getvalue()


def test_a_file_that_is_cut_off_while_it_is_read(folder):
    """A recording that becomes shorter meanwhile is an error."""
    samples = made(11, 2000, 1, 8)
    path = folder / "shrinking.flac"
    path.write_bytes(stream(samples, 16, Coding(8000, 8)))
    with small_steps(), FlacSource(path) as source:
        source.reach(100)
        with path.open("r+b") as file:
            file.truncate(2500)
        with pytest.raises(FlacError):
            source.reach(2000)


def wav() -> bytes:
    file = io.BytesIO()
    soundfile.write(file, np.zeros(100), 8000, format="WAV")
    return file.getvalue()


HEAD_8 = head(Coding(8000, 8), 1, 100, (20, 20))


def other_header(coding: Coding, sizes: tuple[int, int], **changes: int) -> bytes:
    samples = made(12, 100, 1, 8)
    return head(coding, changes.get("channels", 1), 100, sizes) + b"".join(
        frames_of(samples, 20, Coding(8000, 8))
    )


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "does not begin as a FLAC file"),
        (b"ID3", "does not begin as a FLAC file"),
        (b"hello, world" * 100, "does not begin as a FLAC file"),
        (wav(), "does not begin as a FLAC file"),
        (b"OggS\0\2" + bytes(22) + b"\1\x33\x7fFLAC\1\0\0\1fLaC", "does not begin as a FLAC file"),
        (b"fLaC\x81\0\0\x04\0\0\0\0", "no STREAMINFO"),
        (b"fLaC\x80\0\0\x04\0\0\0\0", "no STREAMINFO"),
        (other_header(Coding(8000, 20), (20, 20)), "20 bits"),
        (other_header(Coding(8000, 16), (20, 20)), "first frame"),
        (other_header(Coding(8000, 8), (20, 20), channels=2), "first frame"),
        (other_header(Coding(8000, 8), (16, 20)), "blocks of 16 to 20"),
        (other_header(Coding(8000, 8), (15, 15)), "blocks of 15 to 15"),
        (other_header(Coding(8000, 8), (16, 16)), "first frame"),
        (other_header(Coding(0, 8), (20, 20)), "at 0 Hz"),
        (HEAD_8 + b"what is this? " * 9, "first frame"),
        (
            head(Coding(8000, 8), 1, 100, (20, 20))
            + frame(made(1, 20, 1, 8), 0, Coding(8000, 8), variable=True),
            "block size varies",
        ),
        (
            head(Coding(8000, 8), 1, 100, (20, 20)) + frame(made(1, 20, 1, 8), 5, Coding(8000, 8)),
            "first frame",
        ),
    ],
)
def test_what_cannot_be_cut_is_refused_when_opened(written, content, says):
    """Everything but FLAC in blocks of one size, from its beginning on, is left to a decoder."""
    with pytest.raises(NotCuttable, match=says):
        written(content)


@pytest.mark.parametrize("length", [4, 6, 8, 30, 41, 45, 60])
def test_a_file_that_ends_within_its_header(written, length):
    """Of a recording without sound nothing can be cut."""
    content = head(Coding(), 2, 1000, (100, 100), [(4, b"a comment " * 9)])
    with pytest.raises(FlacError, match="ends within its header"):
        written(content[:length])


def test_pieces_of_pieces(written):
    """A cut between frames has blocks of several sizes, so it is left to a decoder; one at frames is not."""
    samples = made(13, 1000, 2, 16)
    source = written(stream(samples, 100, Coding()))
    again = written(cut(source, 300, 1000))
    np.testing.assert_array_equal(decoded(cut(again, 50, 650), 16), samples[350:950])
    with pytest.raises(NotCuttable):
        written(cut(source, 350, 1000))


MEASURE = """
import resource, sys, soundfile
from splitter.audio.formats.flac import FlacSource
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> (20 if sys.platform == "darwin" else 10)
with FlacSource(sys.argv[1]) as source, open("/dev/null", "wb") as file:
    source.cut(1, 200_000, file)
    before = peak()
    end = source.reach(1 << 40)
    for start in range(1, end - 1_000_000, 1_000_000):
        source.cut(start, start + 1_000_000, file)
    source.cut(3, end, file)
    print(end, peak() - before)
"""


@pytest.mark.parametrize("kind", ["silence", "noise"])
@pytest.mark.slow
def test_memory_does_not_grow_with_the_recording(folder, kind):
    """A long recording takes a few megabytes, in short pieces and in one; silent frames are many and tiny."""
    path = folder / "long.flac"
    length = 30_000_000
    if kind == "noise":
        noise = np.random.default_rng(14).integers(-20_000, 20_000, length, np.int16)
        soundfile.write(path, noise, 8000, "PCM_16")
    else:
        length = 73_000 * 4096
        path.write_bytes(constants([0] * 73_000, 4096))
    done = subprocess.run([sys.executable, "-c", MEASURE, path], capture_output=True, text=True, check=True)
    end, megabytes = map(int, done.stdout.split())
    assert end == length
    assert megabytes < 40
