"""Ogg streams with another serial number."""

import io
import shutil
import subprocess

import numpy as np
import pytest
import soundfile
from sounds import tone

from splitter.ogg import with_serial_number


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
    assert with_serial_number(stream[:-10])[:-4000] == with_serial_number(stream)[: len(stream) - 4010]
