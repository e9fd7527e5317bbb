"""Frames of FLAC, and their headers, many at a time."""

# ruff: noqa: PLR2004 - a file format is made of numbers

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from splitter.audio.formats.flac.checksums import COLUMNS, HEADER, Array, checksums

RATES = (0, 88200, 176400, 192000, 8000, 16000, 22050, 24000, 32000, 44100, 48000, 96000)
BITS = (0, 8, 12, 0, 16, 20, 24, 32)
BLOCK_SIZES = np.array([0, 192, *(576 << n for n in range(4)), 0, 0, *(256 << n for n in range(8))])
SIZE_BYTES = np.array([0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0])
RATE_BYTES = np.array([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 2, 0])
KINDS = np.zeros((256, 256), np.bool_)  # which third and fourth bytes a header may have
KINDS[16:, : 11 << 4] = np.arange(11 << 4) % 16 % 2 == 0  # not size 0, channels from 11 on, the reserved bit
KINDS[15::16] = False  # nor rate 15
KINDS[:, 6::16] = False  # nor depth 3
# Numbers are coded as in UTF-8: the bytes of a number, by its first byte (0: this cannot be a first byte).
CODED_BYTES = np.repeat([1, 0, 2, 3, 4, 5, 6, 7, 0], [128, 64, 32, 16, 8, 4, 2, 1, 1])
LEAD_BITS = np.array([0, 0x7F, 0x1F, 0x0F, 0x07, 0x03, 0x01, 0x00])
LEAD_MARKS = np.array([0, 0x00, 0xC0, 0xE0, 0xF0, 0xF8, 0xFC, 0xFE])
LARGEST_CODED = np.array([(1 << bits) - 1 for bits in (7, 11, 16, 21, 26, 31)])


class Frames(NamedTuple):
    """Frames one after the other in `data`: where each begins and the last ends; the samples in each."""

    data: Array
    offsets: Array
    samples: Array


class Heads(NamedTuple):
    """Frame headers, one per row.

    Attributes:
        rows: Their bytes and those that follow, HEADER columns.
        valid: Whether it is a header.
        variable: Whether the number counts samples, not frames.
        kind: The third and fourth byte: codes of size and rate, of channels and depth.
        number: The number of the frame, or of its first sample.
        tail: The bytes between number and CRC: size and rate, if the codes say so; padded with zeros.
        tail_length: How many bytes the tail has.
        size: Samples per channel.
        length: The bytes of the header.
    """

    rows: Array
    valid: npt.NDArray[np.bool_]
    variable: npt.NDArray[np.bool_]
    kind: Array
    number: Array
    tail: Array
    tail_length: Array
    size: Array
    length: Array


def header_rows(data: Array, starts: Array) -> Array:
    """Return the bytes after each start, as many as a header may have."""
    return data.take(starts[:, None] + COLUMNS, mode="clip")


def parsed(rows: Array) -> Heads:
    """Parse frame headers; `valid` says which rows are headers."""
    size_code, rate_code = rows[:, 2] >> 4, rows[:, 2] & 15
    coded = CODED_BYTES[rows[:, 4]]
    valid = (rows[:, 0] == 0xFF) & (rows[:, 1] & 0xFE == 0xF8) & KINDS[rows[:, 2], rows[:, 3]] & (coded > 0)
    number = rows[:, 4] & LEAD_BITS[coded]
    for index in range(1, max(coded, default=0)):
        byte = rows[:, 4 + index].astype(np.int64)
        number = np.where(index < coded, number << 6 | byte & 0x3F, number)
        valid &= (index >= coded) | (byte & 0xC0 == 0x80)
    tail_length = SIZE_BYTES[size_code] + RATE_BYTES[rate_code]
    tail = np.take_along_axis(rows, (4 + coded)[:, None] + COLUMNS[:4], axis=1)
    tail[COLUMNS[:4] >= tail_length[:, None]] = 0
    first = tail[:, 0].astype(np.int64)
    size = BLOCK_SIZES[size_code]
    size = np.where(size_code == 6, first + 1, size)
    size = np.where(size_code == 7, (first << 8 | tail[:, 1]) + 1, size)
    length = 5 + coded + tail_length
    valid &= checksums(8, rows, length) == 0
    variable = rows[:, 1] & 1 == 1
    return Heads(rows, valid, variable, rows[:, 2:4].copy(), number, tail, tail_length, size, length)


def built(heads: Heads, numbers: Array, *, variable: bool) -> tuple[Array, Array]:
    """Return headers like these with other numbers: their bytes as rows, and their lengths."""
    each = np.arange(len(numbers))
    rows = np.zeros((len(numbers), HEADER), np.uint8)
    rows[:, 0] = 0xFF
    rows[:, 1] = 0xF9 if variable else 0xF8
    rows[:, 2:4] = heads.kind
    coded = 1 + np.searchsorted(LARGEST_CODED, numbers)
    rows[:, 4] = LEAD_MARKS[coded] | numbers >> 6 * (coded - 1)
    for index in range(1, max(coded)):
        shift = 6 * np.maximum(coded - 1 - index, 0)
        rows[:, 4 + index] = np.where(index < coded, 0x80 | numbers >> shift & 0x3F, 0)
    for index in range(max(heads.tail_length)):
        rows[each, 4 + coded + index] = heads.tail[:, index]
    length = 5 + coded + heads.tail_length
    rows[each, length - 1] = checksums(8, rows, length - 1)
    return rows, length


def footers_of(frames: Frames) -> Array:
    """Return the CRC-16 at the end of each frame."""
    high, low = (frames.data[frames.offsets[1:] - back].astype(np.uint16) for back in (2, 1))
    return high << 8 | low


def slices_of(data: Array, begins: Array, ends: Array) -> list[memoryview]:
    """Return parts of the data without copying them."""
    view = data.data
    return [view[begin:end] for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)]
