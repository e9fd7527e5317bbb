"""MP3 is read to its true end, whatever its first frame states, and whatever stands around its frames."""

import io
import json
import struct
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import soundfile
from doors import CHECKOUT, here, program, read_table
from hypothesis import given, settings
from hypothesis import strategies as st
from nightly import depth
from sounds import encoded_by_ffmpeg, needs_ffmpeg, noise, tone

from splitter.audio.decoders import KEEP_THEM
from splitter.audio.formats.mp3 import CountedMp3, frame
from splitter.audio.sniff import open_decoder
from splitter.errors import AudioError

pytestmark = [needs_ffmpeg, pytest.mark.slow]

RATE = 44_100
SOUND = tone(3.3, RATE, 2)
# a whole frame of 128 kbit/s as any picture may hold it, many times
FALSE_FRAMES = (b"\xff\xfb\x90\x64" + bytes(413)) * 800


@pytest.fixture(scope="module")
def scratch(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("mp3")


class Mp3(bytes):
    """The content of a file, which is too long to be shown."""

    def __repr__(self) -> str:
        return f"<{len(self)} bytes>"


@pytest.fixture(scope="module")
def plain(scratch) -> Mp3:
    """As LAME writes it: a first frame that states all rightly, and no tags."""
    return Mp3(encoded(scratch, "-b:a", "128k", "-id3v2_version", "0"))


def encoded(scratch: Path, *options: str, sound: np.ndarray = SOUND, rate: int = RATE) -> bytes:
    return encoded_by_ffmpeg(sound, rate, scratch / "encoded.mp3", *options).read_bytes()


def read(content: bytes, scratch: Path, truncated: str = "error") -> np.ndarray:
    """All samples, in blocks of an odd size."""
    (scratch / "read.mp3").write_bytes(content)
    decoder = open_decoder(str(scratch / "read.mp3"), truncated)
    try:
        assert decoder.format.container == "MP3"
        blocks = [np.empty((0, decoder.format.channels), np.float32)]
        while len(block := decoder.read(7001)):
            blocks.append(block)
        assert decoder.frames == sum(map(len, blocks))
        return np.concatenate(blocks)
    finally:
        decoder.close()


def read_by_ffmpeg(content: bytes, scratch: Path, channels: int = 2) -> np.ndarray:
    (scratch / "witness.mp3").write_bytes(content)
    command = ["ffmpeg", "-nostdin", "-v", "quiet", "-i", scratch / "witness.mp3", "-f", "f32le", "-"]
    raw = subprocess.run(command, capture_output=True, check=False).stdout
    return np.frombuffer(raw, "<f4").reshape(-1, channels)


def check_same(found: np.ndarray, expected: np.ndarray) -> None:
    """As many samples, each the same but for how decoders round."""
    assert found.shape == expected.shape
    assert np.abs(found - expected).max(initial=0) < 1e-4


def tagged(body: bytes, version: int = 3, *, footer: bool = False) -> bytes:
    size = bytes(len(body) >> shift & 127 for shift in (21, 14, 7, 0))
    head = bytes([version, 0, 0x10 * footer]) + size
    return b"ID3" + head + body + (b"3DI" + head) * footer


def stating(content: bytes, frames: int, *, size: bool = True) -> bytes:
    """The same, but for the number of frames that the first one states, and whether it states a size."""
    at = max(content.find(b"Info", 0, 64), content.find(b"Xing", 0, 64))
    assert at > 0
    first, rest = content[:417], content[417:]
    number = struct.pack(">I", frames)
    if size:
        return first[: at + 8] + number + first[at + 12 :] + rest
    flags = bytes([first[at + 7] & ~2])
    return first[: at + 7] + flags + number + first[at + 16 :] + bytes(4) + rest


# -- what encoders write ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        ("-b:a", "128k"),
        ("-b:a", "320k", "-id3v2_version", "4", "-write_id3v1", "1", "-metadata", "title=Ä" * 300),
        ("-q:a", "4"),
        ("-q:a", "4", "-write_xing", "0"),
        ("-b:a", "64k", "-write_xing", "0"),
        ("-b:a", "128k", "-abr", "1"),
    ],
)
def test_constant_and_variable_bit_rates(scratch, options):
    """With a first frame that states a number or without: as many samples as ffmpeg has."""
    content = encoded(scratch, *options)
    found = read(content, scratch)
    check_same(found, read_by_ffmpeg(content, scratch))
    if "-write_xing" not in options:
        # what the encoder added at both ends is gone
        assert len(found) == len(SOUND)


@pytest.mark.parametrize("options", [(), ("-write_xing", "0")])
@pytest.mark.parametrize(
    ("rate", "channels"),
    [(48_000, 1), (32_000, 2), (24_000, 1), (22_050, 2), (16_000, 1), (11_025, 2), (8000, 1)],
)
def test_mpeg_1_2_and_2_5(scratch, rate, channels, options):
    """Every rate there is, with the frames of each version."""
    sound = tone(1.7, rate, channels)
    content = encoded(scratch, *options, sound=sound, rate=rate)
    found = read(content, scratch)
    check_same(found, read_by_ffmpeg(content, scratch, channels))
    assert options or 0 <= len(found) - len(sound) <= 2


@pytest.mark.parametrize("samples", [1, 2, 1000, 1152, 1153])
def test_short_recordings(scratch, samples):
    """One sample, and around one frame."""
    content = encoded(scratch, sound=SOUND[:samples])
    check_same(read(content, scratch), read_by_ffmpeg(content, scratch))


# -- first frames that lie ----------------------------------------------------------------------------------


@pytest.mark.parametrize("lie", [0, 1, 64, 127, 129, 130, 256, 2**31, 2**32 - 1])
def test_a_wrong_number_of_frames(scratch, plain, lie):
    """Too few, too many, with the first one counted or not: the samples are those that were encoded.

    ffmpeg would leave out samples in the middle for a number that is too small.
    """
    assert stating(plain, 128) == plain
    check_same(read(stating(plain, lie), scratch), read(plain, scratch))


def test_a_wrong_number_and_no_size(scratch, plain):
    """Then nothing tells a lie from a cut: an error; what may be sound is kept at the end, as by ffmpeg."""
    content = stating(plain, 200, size=False)
    with pytest.raises(AudioError, match=r"ends early: .* of 228,474 samples exist; use --truncated"):
        read(content, scratch)
    found = read(content, scratch, "keep")
    check_same(found, read_by_ffmpeg(content, scratch))
    check_same(found[: len(SOUND)], read(plain, scratch))


@settings(max_examples=depth(10))
@given(lie=st.integers(0, 2**32 - 1), size=st.booleans())
def test_no_number_hides_sound(scratch, plain, lie, size):
    """Whatever is stated: all that was encoded is there."""
    found = read(stating(plain, lie, size=size), scratch, "keep")
    assert len(SOUND) <= len(found) < len(SOUND) + 1152
    check_same(found[: len(SOUND)], read(plain, scratch))


# -- what stands around frames ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "before",
    [
        tagged(b"APIC" + struct.pack(">IH", len(FALSE_FRAMES), 0) + FALSE_FRAMES),
        tagged(bytes(300)) + tagged(FALSE_FRAMES),
        tagged(bytes(300), version=4, footer=True),
        tagged(bytes(300)) + bytes(1000),
        tagged(b""),
    ],
    ids=["picture", "two tags", "footer", "padding behind", "empty"],
)
def test_tags_in_front(scratch, plain, before):
    """A picture in a tag is no sound, even if it looks like frames."""
    check_same(read(before + plain, scratch), read(plain, scratch))


@pytest.mark.parametrize(
    "after",
    [
        b"TAG" + bytes(125),
        b"APETAGEX" + struct.pack("<IIII", 2000, 1700, 1, 0) + bytes(8) + b"\xff\xfb" * 850,
        tagged(bytes(200)),
        bytes(5000),
        b"\xff" * 3000,
        b"\xff\xfb\x90\x64abc" * 50,
        np.random.default_rng(1).integers(0, 256, 100_000, np.uint8).tobytes(),
    ],
    ids=["ID3v1", "APE", "ID3v2", "zeros", "ones", "false headers", "noise"],
)
def test_garbage_at_the_end(scratch, plain, after):
    """It is not decoded, and does not hide where the sound ends; ffmpeg makes sound of some of it."""
    check_same(read(plain + after, scratch), read(plain, scratch))


@pytest.mark.parametrize("size", [1, 300, 60_000])
def test_a_stream_that_was_caught_somewhere(scratch, plain, size):
    """Whatever stands before the first whole frame is left out; but not more than a tag would have to say."""
    other = np.random.default_rng(size).integers(0, 256, size, np.uint8).tobytes()
    check_same(read(other + plain, scratch), read(plain, scratch))


def test_garbage_in_the_middle(scratch, plain):
    """It is left out, and nothing of what stands around it."""
    at = sum(sizes(plain)[:60])
    other = np.random.default_rng(3).integers(0, 256, 5000, np.uint8).tobytes()
    check_same(read(plain[:at] + other + plain[at:], scratch), read(plain, scratch))


def sizes(content: bytes) -> list[int]:
    """The bytes of each frame, from one to the next."""
    found, at = [], 0
    while at < len(content):
        size, _ = frame(content[at : at + 4])
        assert size
        found.append(size)
        at += size
    return found


@pytest.mark.parametrize("off", [1, 2, 100, 416])
def test_a_file_that_was_cut(scratch, plain, off):
    """Its whole frames are there if they are asked for, and nothing is taken off its new end.

    ffmpeg adds what it guesses of half a frame.
    """
    frames = sizes(plain)
    for kept in (5, 60, len(frames)):
        content = plain[: sum(frames[:kept]) - off]
        # a first frame without sound, a last one that is not whole, and what the encoder put in front
        expected = (kept - 2) * 1152 - 1105
        found = read(content, scratch, "keep")
        assert len(found) == expected
        if kept == len(frames):
            # one frame less than is stated is nothing
            check_same(read(content, scratch), found)
        else:
            check_refused(content, scratch, f"ends early: {expected:,} of 145,530 samples exist")
        check_same(found, read_by_ffmpeg(content, scratch)[:expected])


def check_refused(content: bytes, scratch: Path, said: str) -> None:
    with pytest.raises(AudioError) as refused:
        read(content, scratch)
    assert str(refused.value) == f"{scratch}/read.mp3: {said}; {KEEP_THEM}"


@pytest.mark.parametrize(
    ("rate", "channels", "options"),
    [(48_000, 1, ()), (RATE, 2, ("-q:a", "4")), (22_050, 2, ()), (16_000, 1, ("-q:a", "5")), (8000, 1, ())],
)
def test_how_much_was_cut(scratch, rate, channels, options):
    """Of any kind of file: what there is, and what the encoder was given."""
    content = encoded(scratch, *options, sound=tone(20, rate, channels), rate=rate)
    stated = len(read(content, scratch))
    for share in (0.1, 0.5, 0.9):
        short = content[: int(len(content) * share)]
        there = len(read(short, scratch, "keep"))
        check_refused(short, scratch, f"ends early: {there:,} of {stated:,} samples exist")


@pytest.mark.parametrize("lost", [1, 2, 30])
@pytest.mark.parametrize("put_in", [b"", b"no frame" * 20], ids=["overwritten", "and shorter"])
def test_damage_within(scratch, plain, lost, put_in):
    """What stands in the place of frames is left out: an error, since all that follows is too early."""
    frames = sizes(plain)
    start, stop = sum(frames[:60]), sum(frames[: 60 + lost])
    content = plain[:start] + (put_in or bytes(stop - start)) + plain[stop:]
    there = len(read(content, scratch, "keep"))
    assert there < len(SOUND)
    check_refused(content, scratch, f"is damaged in the middle: {there:,} of 145,530 samples exist")


@pytest.mark.parametrize("number", [1, 2, 3])
@pytest.mark.parametrize("share", [1, 0.5], ids=["whole", "half"])
def test_damage_at_the_start(scratch, plain, number, share):
    """The first frame is believed what it states though one of the next is no frame any more."""
    frames = sizes(plain)
    start = sum(frames[:number])
    content = plain[:start] + bytes(frames[number]) + plain[start + frames[number] : int(len(plain) * share)]
    there = len(read(content, scratch, "keep"))
    assert there < len(SOUND) * share
    check_refused(content, scratch, f"is damaged in the middle: {there:,} of 145,530 samples exist")


def with_vbri(plain: bytes) -> bytes:
    """The same, but as Fraunhofer's encoder says how much there is."""
    frames = len(sizes(plain)) - 1
    tag = b"VBRI" + struct.pack(">HHHII", 1, 0, 75, len(plain), frames)
    return plain[:4] + bytes(32) + tag + bytes(417 - 36 - len(tag)) + plain[417:]


def test_fraunhofers_way_to_say_it(scratch, plain):
    """Its first frame is one of silence, and a cut is seen."""
    content = with_vbri(plain)
    found = read(content, scratch)
    assert len(found) == len(sizes(plain)) * 1152
    there = len(read(content[:20_000], scratch, "keep"))
    check_refused(content[:20_000], scratch, f"ends early: {there:,} of {len(found) - 1152:,} samples exist")


def test_a_file_larger_than_the_pipe_that_it_is_read_from(scratch):
    """It arrives whole, whether the reader is slower or faster than the thread that feeds the pipe."""
    content = encoded(scratch, "-write_xing", "0", "-id3v2_version", "0")
    content *= 3_000_000 // len(content)
    path = scratch / "large.mp3"
    path.write_bytes(content)
    with open(CountedMp3(str(path)).open(), "rb") as pipe:
        first = pipe.read(1)
        time.sleep(0.05)
        assert first + pipe.read() == content


def test_a_size_without_a_number_of_frames(scratch):
    """All of it is read: from the size, libsndfile would guess an end, in the middle of the sound."""
    content = encoded(scratch, "-q:a", "4", "-id3v2_version", "0")
    at = content.index(b"Xing")
    changed = content[: at + 7] + b"\x0e" + content[at + 12 : at + 156] + bytes(4) + content[at + 156 :]
    assert len(read(changed, scratch)) == (len(sizes(content)) - 1) * 1152


@pytest.mark.parametrize("options", [(), ("-q:a", "4")], ids=["CBR", "VBR"])
def test_what_no_header_states(scratch, options):
    """A file that says nothing of its length is what it is, wherever it begins or ends."""
    content = encoded(scratch, *options, "-write_xing", "0", "-id3v2_version", "0")
    for part in (content[len(content) // 3 :], content[: len(content) // 3]):
        assert 0 < len(read(part, scratch)) < len(SOUND)


def test_frames_behind_each_other(scratch, plain):
    """Two files in one: the sound of both."""
    found = read(plain + plain, scratch)
    once = read(plain, scratch)
    check_same(found[: len(once)], once)
    assert len(found) > 2 * len(once)


@pytest.mark.parametrize(("rate", "channels"), [(48_000, 2), (22_050, 2), (RATE, 1)])
def test_a_file_that_changes(scratch, plain, rate, channels):
    """Frames of another rate, or with other channels: an error that says how much is alike, or only that."""
    other = encoded(scratch, "-id3v2_version", "0", sound=tone(1, rate, channels), rate=rate)
    with pytest.raises(AudioError) as refused:
        read(plain + other, scratch)
    said = "changes its sample rate or channels: 145,530 samples exist; use --truncated keep to keep"
    assert said in str(refused.value)
    check_same(read(plain + other, scratch, "keep"), read(plain, scratch))


@pytest.mark.parametrize("size", [4, 10, 100, 417, 430])
def test_no_whole_frame(scratch, plain, size):
    """There is no sound in it, which is said in words."""
    with pytest.raises(
        AudioError, match=r"read\.mp3: cannot be read: it is MP3: it contains no whole frame of sound"
    ):
        read(plain[:size], scratch)


@pytest.mark.parametrize("loudness", [1, 3, 30])
def test_samples_without_a_header_are_no_frames(scratch, loudness):
    """What begins like a frame of layer I, at no stated bit rate, as samples near zero do."""
    for seed in range(12):
        samples = np.random.default_rng(seed).normal(0, loudness, 80_000).astype("<i2")
        samples[:2] = -1, 25 + seed
        with pytest.raises(AudioError, match=r"read\.mp3: .*unknown format \(it starts with ff ff"):
            read(samples.tobytes(), scratch)


@pytest.mark.parametrize("rate", [48_000, 22_050])
def test_layer_2(scratch, rate):
    """The frames of another layer follow each other just as well; garbage may stand before them."""
    sound = tone(2, rate, 2)
    content = encoded_by_ffmpeg(sound, rate, scratch / "two.mp2", "-c:a", "mp2", "-b:a", "96k").read_bytes()
    assert len(read(content, scratch)) >= len(sound)
    assert len(read(b"\xff\xe0garbage" + content, scratch)) >= len(sound)


def test_frames_that_state_no_bit_rate_are_all_read(scratch):
    """Their size has to be found out by going back, which cannot be done in a pipe."""
    content = encoded(scratch, "-b:a", "128k", "-write_xing", "0", "-id3v2_version", "0", rate=48_000)
    expected = read(content, scratch)
    # at 48 kHz no frame is padded
    free = bytearray(content)
    for at in range(0, len(free), 384):
        free[at + 2] &= 0x0F
    check_same(read(bytes(free), scratch), expected)


def test_a_name_says_nothing(scratch, plain):
    """FLAC behind an ID3 tag is FLAC."""
    from sounds import write_sound

    flac = write_sound(scratch / "a.flac", SOUND, RATE, "PCM_16", "FLAC").read_bytes()
    (scratch / "a.mp3").write_bytes(tagged(FALSE_FRAMES) + flac)
    decoder = open_decoder(str(scratch / "a.mp3"))
    try:
        assert decoder.format.container == "FLAC"
        assert np.array_equal(decoder.read(10**6), SOUND)
    finally:
        decoder.close()


damages = st.lists(st.tuples(st.integers(0, 54_000), st.binary(max_size=100)), min_size=1, max_size=5)


@settings(max_examples=depth(15))
@given(damages, st.integers(1000, 54_500))
def test_damage_anywhere(scratch, plain, damage, size):
    """Some samples or a clear error, never more than there were, and no end without one."""
    content = bytearray(plain)
    for at, other in damage:
        content[at : at + 50] = other
    try:
        found = read(bytes(content[:size]), scratch)
    except AudioError:
        return
    assert len(found) <= 130 * 1152


MEASURE = """
import sys
from splitter.audio.formats.mp3 import CountedMp3

def peak():
    with open("/proc/self/status") as file:
        return int(dict(line.split(":", 1) for line in file)["VmHWM"].split()[0]) >> 10

before = peak()
print(CountedMp3(sys.argv[1]).frames, peak() - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is read from /proc")
def test_memory_does_not_grow_with_the_file(tmp_path):
    """The frames of a long file are counted without all of it being in memory, as if it were mapped."""
    content = io.BytesIO()
    soundfile.write(content, tone(30, 16_000, 2), 16_000, "MPEG_LAYER_III", format="MP3")
    times = 80_000_000 // len(content.getvalue())
    with (tmp_path / "long.mp3").open("wb") as file:
        file.writelines(content.getvalue() for _ in range(times))
    command = [sys.executable, "-c", MEASURE, tmp_path / "long.mp3"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=CHECKOUT)
    frames, megabytes = map(int, done.stdout.split())
    assert frames > 30 * times * 16_000 // 576
    assert megabytes < 30


# -- at the user's door -------------------------------------------------------------------------------------


def test_a_cut_file_is_foretold(tmp_path, capfd):
    """`plan` counts it among what will fail; with --truncated keep, it counts by what there is of it."""
    encoded_by_ffmpeg(tone(60, 16_000), 16_000, tmp_path / "whole.mp3")
    content = (tmp_path / "whole.mp3").read_bytes()
    (tmp_path / "in").mkdir()
    (tmp_path / "in/cut.mp3").write_bytes(content[: len(content) // 10])
    (tmp_path / "in/whole.mp3").write_bytes(content)
    choice = (tmp_path / "in", "--output", tmp_path / "out", "--seconds", "1")
    plan = json.loads(here(capfd, "plan", *choice, "--json").out)
    assert (plan["outputs"], plan["faulty"], plan["tried_failed"]) == (60, 1, 0)
    assert "cut.mp3: ends early: " in plan["faulty_first"][0]
    assert "of 960,000 samples exist; use --truncated keep" in plan["faulty_first"][0]
    plan = json.loads(here(capfd, "plan", *choice, "--truncated", "keep", "--json").out)
    assert plan["faulty"] == 0
    assert here(capfd, "run", *choice, "--truncated", "keep").code == 0
    assert len(read_table(tmp_path / "out/manifest.csv")) == plan["outputs"] == 66


def test_nobody_talks_between(tmp_path):
    """What libmpg123 says of damage names no file, and is not shown; the run's own words are."""
    encoded_by_ffmpeg(tone(20, RATE, 2) + noise(20 * RATE, 2) // 9, RATE, tmp_path / "whole.mp3")
    content = bytearray((tmp_path / "whole.mp3").read_bytes())
    (tmp_path / "in").mkdir()
    (tmp_path / "in/cut.mp3").write_bytes(content[:32_000])
    (tmp_path / "in/zeros.mp3").write_bytes(b"ID3\4\0\0\0\0\0\0" + bytes(4000))
    for at in range(10_000, len(content) - 50, 10_000):
        content[at : at + 40] = content[at + 1 : at + 41]
    (tmp_path / "in/damaged.mp3").write_bytes(content)
    # the witness: it is said, where nothing is done about it
    loud = program(python=("-c", f"import soundfile; soundfile.read({str(tmp_path / 'in/damaged.mp3')!r})"))
    assert "mpg123" in loud.err or "Note: " in loud.err
    choice = (tmp_path / "in", "--output", tmp_path / "out", "--truncated", "keep")
    assert program("plan", *choice).err == ""
    said = program("run", *choice, "--quiet")
    (line,) = said.err.splitlines()
    assert line.startswith("splitter: 1 of 3 inputs failed")
    assert program("verify", tmp_path / "out").err == ""
