"""Ogg: what was lost of it is seen, and streams get another serial number."""

import io
import os
import re
import shutil
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest
import soundfile
from sounds import chunks_of, encoded_by_ffmpeg, needs_ffmpeg, noise, tone

from splitter.audio.formats.ogg import CountedOgg
from splitter.audio.formats.ogg.pages import with_serial_number
from splitter.audio.sniff import open_decoder
from splitter.errors import AudioError

pytestmark = pytest.mark.slow


def checksum(page: bytes) -> int:
    """The CRC of a page bit by bit, its own field taken as zero, as RFC 3533 has it."""
    crc = 0
    for at, byte in enumerate(page):
        crc ^= (0 if 22 <= at < 26 else byte) << 24
        for _ in range(8):
            crc = (crc << 1 ^ (0x04C11DB7 if crc & 0x80000000 else 0)) & 0xFFFFFFFF
    return crc


def pages(content: bytes) -> list[bytes]:
    found, at = [], 0
    while at < len(content):
        assert content[at : at + 4] == b"OggS"
        segments = content[at + 26]
        end = at + 27 + segments + sum(content[at + 27 : at + 27 + segments])
        found.append(content[at:end])
        at = end
    return found


@pytest.fixture(scope="module", params=["VORBIS", "OPUS"])
def stream(request) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, tone(2.5, 16_000, 2), 16_000, request.param, format="OGG")
    return file.getvalue()


@pytest.mark.parametrize("number", [0, 1, 0x80000001, 2**32 - 1])
def test_every_page_has_the_number(stream, number):
    """And a checksum that is right, and all else as it was."""
    changed = with_serial_number(stream, number)
    assert len(changed) == len(stream)
    assert len(pages(changed)) > 2
    for before, after in zip(pages(stream), pages(changed), strict=True):
        assert checksum(before) == int.from_bytes(before[22:26], "little")
        assert checksum(after) == int.from_bytes(after[22:26], "little")
        assert int.from_bytes(after[14:18], "little") == number
        assert (after[:14], after[18:22], after[26:]) == (before[:14], before[18:22], before[26:])


def test_others_decode_it(stream):
    """libsndfile, and ffmpeg where it is, with checksums checked."""
    changed = with_serial_number(stream)
    before, after = (soundfile.read(io.BytesIO(content))[0] for content in (stream, changed))
    assert np.array_equal(before, after)
    if shutil.which("ffmpeg"):
        command = ["ffmpeg", "-v", "warning", "-err_detect", "crccheck+explode", "-i", "-", "-f", "null", "-"]
        said = subprocess.run(command, input=changed, capture_output=True, check=True)
        assert not said.stderr


def test_two_files_are_one(stream):
    """What libsndfile wrote twice differs by its number only."""
    twice = []
    for _ in range(2):
        file = io.BytesIO()
        soundfile.write(file, tone(0.5, 16_000), 16_000, "VORBIS", format="OGG")
        twice.append(file.getvalue())
    assert twice[0] != twice[1]
    assert with_serial_number(twice[0]) == with_serial_number(twice[1])
    # and what is cut in its last page stays so
    whole = len(stream) - len(pages(stream)[-1])
    cut = with_serial_number(stream[:-10])
    assert cut[:whole] == with_serial_number(stream)[:whole]
    assert cut[whole:] == stream[whole:-10]


# -- what is lost of a file ----------------------------------------------------------------------------------

RATE = 16_000


def recorded(pieces: list[bytes], scratch: Path, truncated: str = "error") -> int:
    """How many samples are read of a file."""
    (scratch / "a.ogg").write_bytes(b"".join(pieces))
    return chunks_of(scratch / "a.ogg", truncated=truncated)[1]["source_frames"]


def check_lost(pieces: list[bytes], scratch: Path, said: str) -> None:
    """It is an error that says how much is there, and with --truncated keep just that is done."""
    with pytest.raises(AudioError) as refused:
        recorded(pieces, scratch)
    found = re.fullmatch(
        f"{said}: ([0-9,]+)(?: of ([0-9,]+))? samples exist; use --truncated keep .*",
        str(refused.value).partition("a.ogg: ")[2],
    )
    assert found, refused.value
    there = int(found[1].replace(",", ""))
    assert there == recorded(pieces, scratch, "keep") < int((found[2] or "999,999").replace(",", ""))


@pytest.fixture(scope="module", params=["libvorbis", "libopus"])
def parts(request, tmp_path_factory) -> list[bytes]:
    """The pages of twelve seconds as ffmpeg writes them: head, head, sound, ..."""
    path = tmp_path_factory.mktemp("ogg") / "a.ogg"
    sound = noise(12 * RATE)
    content = encoded_by_ffmpeg(
        sound, RATE, path, "-c:a", request.param, "-page_duration", "500000"
    ).read_bytes()
    found = pages(content)
    assert len(found) > 10
    return found


def damaged(page: bytes, at: int = 100) -> bytes:
    return page[:at] + bytes(byte ^ 0x55 for byte in page[at : at + 40]) + page[at + 40 :]


@needs_ffmpeg
@pytest.mark.parametrize("at", [0, 10, 24, 100], ids=["name", "number", "checksum", "sound"])
@pytest.mark.parametrize("which", [3, 8, -2])
def test_a_damaged_page(parts, tmp_path, which, at):
    """Decoders pass over it, and all that follows would be too early: that is an error."""
    which %= len(parts)
    check_lost(
        [*parts[:which], damaged(parts[which], at), *parts[which + 1 :]], tmp_path, "is damaged in the middle"
    )


@needs_ffmpeg
def test_lost_pages(parts, tmp_path):
    """One, or some, in the middle or at the end."""
    check_lost([*parts[:8], *parts[9:]], tmp_path, "is damaged in the middle")
    check_lost([*parts[:5], b"something else", *parts[9:]], tmp_path, "is damaged in the middle")
    check_lost([*parts[:-1], damaged(parts[-1])], tmp_path, "ends early")
    check_lost([*parts[:-1], damaged(parts[-1], 0)], tmp_path, "ends early")
    for size in (1, 20, 27, 500):
        check_lost([*parts[:8], parts[8][:size]], tmp_path, "ends early")


@needs_ffmpeg
@pytest.mark.parametrize("codec", ["flac", "libspeex"])
def test_lost_pages_of_what_only_ffmpeg_decodes(codec, tmp_path):
    """It passes over a hole without a word, and no header states a length."""
    options = ("-c:a", codec, "-page_duration", "200000", "-f", "ogg")
    content = encoded_by_ffmpeg(noise(2 * 16_000), 16_000, tmp_path / "b.ogg", *options).read_bytes()
    parts = pages(content)
    assert recorded(parts, tmp_path) == 32_000
    check_lost([*parts[:5], *parts[6:]], tmp_path, "is damaged in the middle")
    check_lost([*parts[:5], parts[5][:200]], tmp_path, "ends early")


@needs_ffmpeg
def test_lost_of_streams_that_follow_each_other(parts, tmp_path):
    """In the first or in the last, and one that was cut before the other was put behind it."""
    broken = [*parts[:8], damaged(parts[8]), *parts[9:]]
    check_lost([*broken, *parts[:6]], tmp_path, "is damaged in the middle")
    check_lost([*parts[:6], *broken], tmp_path, "is damaged in the middle")
    check_lost([*parts[:6], parts[6][:300], *parts[:4]], tmp_path, "is damaged in the middle")


@needs_ffmpeg
def test_what_looks_strange_and_lacks_nothing(parts, tmp_path):
    """Streams caught somewhere, pages that nobody numbered anew, tags, and bytes between pages."""
    whole = recorded(parts, tmp_path)
    other = np.random.default_rng(0).integers(0, 256, 70_000, np.uint8).tobytes()
    for pieces in (
        [*parts, b"TAG", bytes(125)],
        [*parts, other],
        [*parts[:8], other, *parts[8:]],
        [*parts[:8], b"OggS", *parts[8:]],
    ):
        assert recorded(pieces, tmp_path) == whole
    assert recorded([*parts, *parts], tmp_path) == 2 * whole
    assert recorded([*parts, b"TAG", bytes(125), *parts], tmp_path) == 2 * whole
    # a stream that was caught after it began, and one that nobody ended
    assert 0 < recorded([*parts[:2], *parts[8:]], tmp_path) < whole
    assert 0 < recorded(parts[:8], tmp_path) < whole
    assert 0 < recorded([*parts[:8], *parts], tmp_path) < 2 * whole


def test_a_day_of_radio_needs_few_descriptors(stream, tmp_path):
    """Each title begins a stream, and only the one that is read is open."""
    (tmp_path / "a.ogg").write_bytes(stream * 20)
    before = len(os.listdir("/dev/fd"))
    decoder = open_decoder(str(tmp_path / "a.ogg"))
    while len(decoder.read(100_000)):
        assert len(os.listdir("/dev/fd")) <= before + 4
    assert decoder.frames == 20 * 40_000
    decoder.close()


@needs_ffmpeg
@pytest.mark.parametrize("kind", [b"\x80theora", b"\x01vorbis"])
def test_pages_of_streams_side_by_side(parts, tmp_path, kind):
    """What a picture has lost is no lost sound."""
    others = pages(with_serial_number(b"".join(parts), 77))
    first = others[0][:28] + kind + others[0][28 + len(kind) :]
    first = first[:22] + struct.pack("<I", checksum(first)) + first[26:]
    lost = [first, *others[1:6], *others[7:]]
    beside = [page for pair in zip(parts, lost, strict=False) for page in pair]
    (tmp_path / "a.ogg").write_bytes(b"".join(beside))
    with (tmp_path / "a.ogg").open("rb") as file:
        assert bool(CountedOgg(file.fileno()).loss) == kind.endswith(b"vorbis")
