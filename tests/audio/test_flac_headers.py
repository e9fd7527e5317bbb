"""Headers of FLAC as RFC 9639 has them, to the bit: decoders also play what the format forbids."""

import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from flac_streams import Coding, crc8, crc_table, stream

from splitter.audio.formats.flac import FlacSource

SMALLEST = 16
SIZES = {1: 192, **{code: 144 << code for code in range(2, 6)}, **{code: 1 << code for code in range(8, 16)}}
# how many bytes a coded number has by its first one, and the smallest that needs so many
CODED = [
    (0x80, 0x00, 0),
    (0xE0, 0xC0, 1 << 7),
    (0xF0, 0xE0, 1 << 11),
    (0xF8, 0xF0, 1 << 16),
    (0xFC, 0xF8, 1 << 21),
]
CODED += [(0xFE, 0xFC, 1 << 26), (0xFF, 0xFE, 1 << 31)]


@dataclass(frozen=True)
class Header:
    """What a frame says of itself.

    Attributes:
        variable: Whether its number is that of its first sample.
        number: Of the frame, or of its first sample.
        size: Samples per channel.
        length: Of the header, in bytes.
    """

    variable: bool
    number: int
    size: int
    length: int


def header(data: bytes) -> Header:
    """The frame header that the data begins with; an AssertionError says what is wrong with it."""
    assert data[0] == 0xFF, "no sync code"
    assert data[1] & 0xFE == 0xF8, "no sync code"
    size_code, rate_code = data[2] >> 4, data[2] & 15
    assert size_code, "a reserved size"
    assert rate_code != 15, "a forbidden rate"
    assert data[3] >> 4 <= 10, "reserved channels"
    assert data[3] >> 1 & 7 != 3, "a reserved depth"
    assert not data[3] & 1, "the reserved bit is set"
    more, least = next(
        (more, least) for more, (mask, mark, least) in enumerate(CODED) if data[4] & mask == mark
    )
    number = data[4] & ~CODED[more][0] & 0xFF
    for byte in data[5 : 5 + more]:
        assert byte & 0xC0 == 0x80, "a number that is not coded"
        number = number << 6 | byte & 0x3F
    assert number >= least, f"{number} is coded in {more + 1} bytes, and needs fewer"
    at = 5 + more
    size = SIZES.get(size_code, 0)
    for code, length in ((6, 1), (7, 2)):
        if size_code == code:
            size = int.from_bytes(data[at : at + length], "big") + 1
            at += length
    at += {12: 1, 13: 2, 14: 2}.get(rate_code, 0)
    assert data[at] == crc8(data[:at])[0], "the checksum of the header is wrong"
    return Header(bool(data[1] & 1), number, size, at + 1)


def frames(data: bytes) -> list[Header]:
    """The headers of frames one behind the other: each ends where its CRC-16 is right and the next begins."""
    found = []
    table = crc_table(0x8005, 16)
    while data:
        first = header(data)
        found.append(first)
        value = 0
        following = first.number + (first.size if first.variable else 1)
        for end, byte in enumerate(data, 1):
            value = value << 8 & 0xFFFF ^ table[value >> 8 ^ byte]
            if not value and end > first.length + 2 and _begins(data[end:], following):
                data = data[end:]
                break
        else:
            raise AssertionError(f"frame {len(found)} has no end")
    return found


def _begins(data: bytes, number: int) -> bool:
    if not data:
        return True
    try:
        return header(data).number == number
    except (AssertionError, StopIteration, IndexError):
        return False


def check(data: bytes, samples: int) -> list[Header]:
    """A file of FLAC is as the format says; returns its frame headers."""
    assert data[:4] == b"fLaC"
    assert data[4:8] == b"\x80\0\0\x22"
    smallest, largest = (int.from_bytes(data[at : at + 2], "big") for at in (8, 10))
    assert SMALLEST <= smallest <= largest
    assert int.from_bytes(data[18:26], "big") & (1 << 36) - 1 == samples
    found = frames(data[42:])
    sizes = [one.size for one in found]
    assert sum(sizes) == samples
    assert all(smallest <= size <= largest for size in sizes[:-1]), sizes
    assert sizes[-1] <= largest
    assert len({one.variable for one in found}) == 1
    if found[0].variable:
        assert [one.number for one in found] == [sum(sizes[:at]) for at in range(len(sizes))]
    else:
        assert [one.number for one in found] == [*range(len(sizes))]
        assert smallest == largest
        assert len({*sizes[:-1], largest}) == 1 or len(sizes) == 1
    return found


def cut(folder: Path, block: int, length: int, start: int, stop: int) -> list[Header]:
    """The checked headers of a cut from a recording of noise."""
    path = folder / "noise.flac"
    noise = np.random.default_rng(7).integers(-128, 128, (length, 1))
    path.write_bytes(stream(noise, block, Coding(8000, 8)))
    file = io.BytesIO()
    with FlacSource(path) as source:
        source.cut(start, stop, file)
    return check(file.getvalue(), stop - start)


def test_the_parser_finds_what_a_decoder_forgives():
    """A number coded in two bytes where one is enough."""
    right = bytes([0xFF, 0xF8, 0x64, 0x02, 0x7F, 0xFF])
    assert header(right + crc8(right)).number == 127
    wrong = bytes([0xFF, 0xF8, 0x64, 0x02, 0xC1, 0xBF, 0xFF])
    with pytest.raises(AssertionError, match="127 is coded in 2 bytes"):
        header(wrong + crc8(wrong))


@pytest.mark.parametrize("first", [1, 2, 14, 15, 16, 17, 31])
@pytest.mark.parametrize("block", [16, 17, 32, 100])
def test_a_cut_that_begins_so_many_samples_before_a_frame(folder: Path, block: int, first: int):
    """Only the last block of a stream may have fewer than 16 samples."""
    if first < block:
        cut(folder, block, 6 * block, 2 * block - first, 5 * block)
        cut(folder, block, 6 * block, 2 * block - first, 5 * block + 7)


@pytest.mark.parametrize("last", [1, 15, 16, 17])
def test_a_cut_that_ends_so_many_samples_behind_a_frame(folder: Path, last: int):
    cut(folder, 32, 200, 32, 96 + last)
    cut(folder, 32, 200, 30, 96 + last)


@pytest.mark.parametrize("length", [1, 15, 16, 17])
def test_a_cut_of_a_few_samples(folder: Path, length: int):
    """A single block, which is the last."""
    cut(folder, 100, 300, 50, 50 + length)
    cut(folder, 100, 300, 100, 100 + length)


@pytest.mark.parametrize("first", [16, 50, 99, 100])
def test_a_cut_of_two_blocks(folder: Path, first: int):
    """The first may be the shorter one only where blocks may differ."""
    for last in (15, first - 1, first, min(first + 1, 100), 100):
        assert len(cut(folder, 100, 300, 100 - first, 100 + last)) == 2


@pytest.mark.parametrize("count", [127, 128, 129, 2047, 2048, 2049])
def test_frames_are_counted_in_as_few_bytes_as_can_be(folder: Path, count: int):
    """The number of the last frame is one less."""
    found = cut(folder, 16, 16 * (count + 3), 32, 16 * (count + 2))
    assert [one.number for one in found] == [*range(count)]
    assert not found[0].variable


@pytest.mark.parametrize(("number", "block"), [(127, 100), (2047, 1000), (65535, 32000)])
def test_samples_are_counted_in_as_few_bytes_as_can_be(folder: Path, number: int, block: int):
    """Blocks of a cut that begins within one have the number of their first sample."""
    for wanted in (number, number + 1):
        found = cut(folder, block, 4 * block, block - wanted % block, 4 * block - 10)
        assert wanted in {one.number for one in found}
        assert found[0].variable
