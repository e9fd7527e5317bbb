"""What FFmpeg reads: files that say how long they are must not end before that, others may."""

import random
import re
import struct
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import av
import av.error
import numpy as np
import pytest
from sounds import chunks_of, decoded_by_ffmpeg, encoded_by_ffmpeg, ffmpeg, needs_ffmpeg, samples_of, tone

from splitter.audio.formats.mp4 import seconds_of_plain_edit
from splitter.audio.formats.whole_stream import can_be_rounded
from splitter.audio.sniff import open_decoder
from splitter.errors import AudioError

pytestmark = [needs_ffmpeg, pytest.mark.slow]

RATE = 48_000
SECONDS = 8
SOUND = tone(SECONDS, RATE, 2) + np.random.default_rng(0).integers(-900, 900, (SECONDS * RATE, 2), np.int16)
FAST = ("-movflags", "faststart")


def encoded(path: Path, *options: str) -> Path:
    return encoded_by_ffmpeg(SOUND, RATE, path, *options)


def frames_of(path: Path, truncated: str = "error") -> int:
    return int(chunks_of(path, truncated=truncated)[1]["source_frames"])


def check_lost(path: Path, said: str) -> None:
    """It is an error that says how much is there, and with --truncated keep just that is done."""
    with pytest.raises(AudioError) as refused:
        frames_of(path)
    about = chunks_of(path, truncated="keep")[1]
    assert about["source_truncated"] is True
    kept = about["source_frames"]
    pattern = rf"{said}: {kept:,} of 38\d,\d\d\d samples exist; use --truncated keep to keep them"
    assert re.search(pattern, str(refused.value)), refused.value
    assert 0 < kept < SECONDS * RATE


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("a.m4a", FAST),
        ("low.m4a", (*FAST, "-b:a", "24k", "-ar", "48000")),
        ("a.mov", (*FAST, "-c:a", "aac")),
        ("alac.m4a", (*FAST, "-c:a", "alac")),
        ("opus.mp4", (*FAST, "-c:a", "libopus")),
        (
            "dash.mp4",
            ("-movflags", "empty_moov+default_base_moof+dash+global_sidx", "-frag_duration", "500000"),
        ),
        ("a.webm", ()),
        ("vorbis.mka", ("-c:a", "libvorbis")),
        ("mp3.mka", ("-c:a", "libmp3lame")),
        ("aac.mka", ("-c:a", "aac")),
        ("a.wma", ()),
    ],
)
def test_a_file_that_was_cut(tmp_path, name, options):
    """Whole it is done; without its end it is an error, but for what nobody would hear."""
    path = encoded(tmp_path / name, *options)
    assert abs(frames_of(path) - SECONDS * RATE) < 2200
    content = path.read_bytes()
    path.write_bytes(content[:-20])
    if "alac" not in name:
        assert abs(frames_of(path) - SECONDS * RATE) < 4400
    for share in (0.4, 0.9):
        path.write_bytes(content[: int(len(content) * share)])
        check_lost(path, "ends early")


@pytest.mark.parametrize("at", [0.2, 0.5, 0.8])
def test_what_cannot_be_decoded(tmp_path, at):
    """A packet in the middle that is damaged so that it is left out."""
    path = encoded(tmp_path / "a.m4a", *FAST)
    content = bytearray(path.read_bytes())
    place = int(len(content) * at)
    content[place : place + 600] = bytes(byte ^ 0x5A for byte in content[place : place + 600])
    path.write_bytes(content)
    check_lost(path, "is damaged in the middle")


@pytest.mark.parametrize("name", ["a.m4a", "a.mkv", "a.flv", "a.avi"])
def test_tags_that_are_not_utf_8(tmp_path, name):
    """Old files have tags in any encoding; their sound is what it is."""
    path = encoded(tmp_path / name, "-c:a", "aac", "-metadata", "title=Bon voyage")
    expected = frames_of(path)
    content = path.read_bytes()
    assert b"Bon voyage" in content
    path.write_bytes(content.replace(b"Bon voyage", "\xc9t\xe9 \xe0 Orl".encode("latin-1").ljust(10)))
    assert frames_of(path) == expected


def test_a_stream_that_begins_late(tmp_path):
    """A picture that begins after seconds of sound is an error in one line, or costs no sound.

    PyAV looks past the end of its list of streams there, and goes by what the memory happens to hold.
    """
    content = encoded(tmp_path / "a.flv", "-c:a", "aac", "-ar", "44100").read_bytes()
    whole = frames_of(tmp_path / "a.flv")
    at = len(content) * 9 // 10
    at = content.index(b"\x08", at)
    while content[at + 8 : at + 11] != bytes(3):
        at = content.index(b"\x08", at + 1)
    picture = b"\x09" + (21).to_bytes(3, "big") + content[at + 4 : at + 11] + b"\x22" + bytes(20)
    late = content[:at] + picture + (32).to_bytes(4, "big") + content[at:]
    (tmp_path / "a.flv").write_bytes(late)
    try:
        found: object = frames_of(tmp_path / "a.flv")
    except AudioError as error:
        found = str(error)
    refused = r".*a\.flv: another stream begins in the middle of it, which .+ffmpeg"
    assert found == whole or re.fullmatch(refused, str(found)), found


def test_damage_within_the_header_of_wma(tmp_path, capfd):
    """Where FFmpeg is led to seek to nowhere: done or an error in one line, and nothing is printed."""
    content = encoded_by_ffmpeg(tone(0.5, 8000), 8000, tmp_path / "whole.wma").read_bytes()
    errors = []
    for seed in range(300):
        chance = random.Random(seed)
        damaged = bytearray(content)
        for _ in range(8):
            damaged[chance.randrange(1500)] = chance.randrange(256)
        (tmp_path / "a.wma").write_bytes(damaged)
        try:
            frames_of(tmp_path / "a.wma")
        except AudioError as error:
            errors.append(str(error))
    assert errors
    assert not any("\n" in error for error in errors)
    assert capfd.readouterr() == ("", "")


WHOLE: dict[str, Callable[[Path, Path], object]] = {
    # written to a pipe: no length, or one that FFmpeg guesses
    "live.mkv": lambda mp3, to: to.write_bytes(
        ffmpeg("-i", mp3, "-c", "copy", "-f", "matroska", "-live", "1", "-")
    ),
    "pipe.mkv": lambda mp3, to: to.write_bytes(ffmpeg("-i", mp3, "-c", "copy", "-f", "matroska", "-")),
    "a.aac": lambda mp3, to: ffmpeg("-i", mp3, "-c:a", "aac", to),
    "pipe.wma": lambda mp3, to: to.write_bytes(ffmpeg("-i", mp3, "-f", "asf", "-")),
    # a picture that goes on when the sound has ended, and sound that begins late, or in its middle
    "video.mp4": lambda mp3, to: ffmpeg(
        *("-f", "lavfi", "-i", "testsrc=d=12:s=64x64:r=5", "-i", mp3, "-c:v", "mpeg4", "-c:a", "aac", to)
    ),
    "video.mkv": lambda mp3, to: ffmpeg(
        *("-f", "lavfi", "-i", "testsrc=d=12:s=64x64:r=5", "-i", mp3, "-c:v", "mpeg4", "-c:a", "aac", to)
    ),
    "late.mkv": lambda mp3, to: ffmpeg("-itsoffset", "3", "-i", mp3, "-c:a", "aac", to),
    "late.m4a": lambda mp3, to: ffmpeg("-itsoffset", "3", "-i", mp3, "-c:a", "aac", to),
    "middle.m4a": lambda mp3, to: ffmpeg("-i", mp3, "-ss", "3.3", "-t", "4", "-c:a", "aac", to),
}


@pytest.mark.parametrize("name", WHOLE)
def test_what_looks_strange_and_lacks_nothing(tmp_path, name):
    mp3 = encoded(tmp_path / "a.mp3")
    WHOLE[name](mp3, tmp_path / name)
    assert frames_of(tmp_path / name) > 3.9 * RATE


@pytest.mark.parametrize("name", ["a.m4a", "a.webm"])
def test_a_part_that_was_cut_out(tmp_path, name):
    """Without encoding anew: an edit list, or a length, says what is to be heard."""
    path = encoded(tmp_path / f"whole{name}")
    ffmpeg("-ss", "3.3", "-t", "4", "-i", path, "-c", "copy", tmp_path / name)
    assert frames_of(tmp_path / name) > 3.9 * RATE


def test_a_stream_without_a_length(tmp_path):
    """A stream that was caught somewhere begins with what cannot be decoded, and ends anywhere."""
    path = encoded(tmp_path / "a.aac")
    content = path.read_bytes()
    path.write_bytes(content[3000:-200])
    assert frames_of(path) > 7 * RATE


# -- M4A, which FFmpeg reads on its own until something is wrong ---------------------------------------------


def check_against_packets(path: Path) -> np.ndarray:
    """The pieces hold what is left when each packet is decoded, and those that cannot be are skipped."""
    outputs, _ = chunks_of(path, seconds=1.7, truncated="keep", format="wav", subtype="FLOAT")
    found = np.concatenate([samples_of(output.content, "float32") for output in outputs])
    blocks = []
    with av.open(str(path)) as container:
        for packet in container.demux(audio=0):
            with suppress(av.error.FFmpegError):
                blocks += [block.to_ndarray().T for block in packet.decode()]
    assert np.array_equal(found, np.concatenate(blocks))
    return found


@pytest.fixture(scope="module")
def m4a(tmp_path_factory) -> bytes:
    """M4A whose edit list leaves out the encoder's delay, and nothing else."""
    return encoded(tmp_path_factory.mktemp("m4a") / "a.m4a").read_bytes()


@pytest.mark.parametrize(
    ("milliseconds", "start", "is_plain"),
    [
        (8000, 1024, True),
        (8000, 4000, True),
        (8000, 3 * RATE, False),
        (5000, 1024, False),
        (5000, RATE, False),
    ],
)
def test_edit_lists(tmp_path, m4a, milliseconds, start, is_plain):
    """What is left out is the same at both ends, whether FFmpeg follows them with more memory or less."""
    at = m4a.index(b"elst") + 12
    assert struct.unpack(">Ii", m4a[at : at + 8]) == (8000, 1024)
    path = tmp_path / "a.m4a"
    path.write_bytes(m4a[:at] + struct.pack(">Ii", milliseconds, start) + m4a[at + 8 :])
    expected = min(milliseconds * RATE // 1000, SECONDS * RATE + 1024 - start)
    assert len(check_against_packets(path)) == pytest.approx(expected, abs=1024)
    assert bool(seconds_of_plain_edit(str(path))) == is_plain


def test_what_is_wrong_with_an_edit_list(tmp_path, m4a):
    """Wherever the description is damaged: there is no plain edit list then, or the damage is elsewhere."""
    at = m4a.index(b"moov")
    for seed in range(300):
        chance, damaged = random.Random(seed), bytearray(m4a)
        for _ in range(4):
            damaged[chance.randrange(at - 4, len(m4a))] = chance.randrange(256)
        (tmp_path / "a.m4a").write_bytes(damaged)
        assert seconds_of_plain_edit(str(tmp_path / "a.m4a")) >= 0


def test_a_recording_without_its_index(tmp_path, m4a):
    """As a recorder leaves it that died, or a copy that ended early: the message says what is missing."""
    assert m4a.index(b"mdat") < m4a.index(b"moov")
    for end in (m4a.index(b"moov") - 4, len(m4a) // 2):
        (tmp_path / "a.m4a").write_bytes(m4a[:end])
        with pytest.raises(AudioError, match=r"a\.m4a: cannot .+: it ends before its index \(moov\)"):
            open_decoder(str(tmp_path / "a.m4a"))
    # damage elsewhere is not taken for that
    (tmp_path / "a.m4a").write_bytes(m4a.replace(b"stsd", b"xxxx").replace(b"stco", b"xxxx"))
    with pytest.raises(AudioError) as refused:
        open_decoder(str(tmp_path / "a.m4a"))
    assert "moov" not in str(refused.value)


@pytest.mark.parametrize("at", [0.2, 0.5, 0.8])
def test_what_is_left_of_damaged_sound(tmp_path, m4a, at):
    """Packets that cannot be decoded are left out, and nothing else is, twice or never."""
    place = int(len(m4a) * at)
    (tmp_path / "a.m4a").write_bytes(
        m4a[:place] + bytes(byte ^ 0x5A for byte in m4a[place:][:600]) + m4a[place + 600 :]
    )
    assert len(check_against_packets(tmp_path / "a.m4a")) < SECONDS * RATE


@pytest.mark.parametrize("loudest", [2.0, 1e5])
def test_samples_far_beyond_full_scale(tmp_path, loudest):
    """Rounded to 16 bits as each sample alone is, though FFmpeg would take the loudest for the lowest."""
    fade = np.linspace(0, 1, SECONDS * RATE) ** 8 * loudest
    waves = np.sin(np.arange(SECONDS * RATE) / 20)[:, np.newaxis] * np.stack([fade, fade[::-1]], axis=1)
    raw = ["-f", "f32le", "-ar", str(RATE), "-ac", "2", "-i", "-"]
    ffmpeg(*raw, "-t", "7.9", tmp_path / "a.m4a", stdin=waves.astype("<f4").tobytes())
    exact, _ = chunks_of(tmp_path / "a.m4a", seconds=1.7, format="wav", subtype="FLOAT")
    rounded, _ = chunks_of(tmp_path / "a.m4a", seconds=1.7, format="wav")
    assert len(exact) == len(rounded) == 5
    for floats, integers in zip(exact, rounded, strict=True):
        samples = samples_of(floats.content, "float32")
        expected = np.rint(samples.astype(np.float64) * 32_768).clip(-32_768, 32_767)
        assert np.array_equal(samples_of(integers.content, "int16"), expected)
    peak = max(np.abs(samples_of(one.content, "float32")).max() for one in exact)
    assert peak > loudest * 0.9


def test_a_sample_that_is_no_number():
    """FFmpeg would take it for the lowest sample, so it may not round its block."""
    for odd in (np.nan, np.inf, -1e5, 65_536):
        samples = np.zeros((2, 1000), np.float32)
        assert can_be_rounded(av.AudioFrame.from_ndarray(samples, "fltp", "stereo"))
        samples[1, 999] = odd
        assert not can_be_rounded(av.AudioFrame.from_ndarray(samples, "fltp", "stereo"))


@pytest.mark.parametrize("name", ["a.m4a", "a.mka"])
def test_eight_channels(tmp_path, name):
    """For which PyAV's own way to an array crashes."""
    columns = [tone(1, RATE, 1, 200.0 * number) for number in range(1, 9)]
    layout = ("-channel_layout", "7.1", "-c:a", "aac", "-b:a", "512k")
    path = encoded_by_ffmpeg(np.concatenate(columns, axis=1), RATE, tmp_path / name, *layout)
    ((piece,), _) = chunks_of(path, format="wav", subtype="FLOAT")
    (expected,) = decoded_by_ffmpeg([path], 8, tmp_path, "f32")
    found = samples_of(piece.content, "float32")
    assert np.allclose(found[:RATE], expected[:RATE], atol=1e-4)
