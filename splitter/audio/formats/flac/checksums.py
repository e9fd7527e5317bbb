"""The checksums of many FLAC frames at a time: a CRC-8 over each header, a CRC-16 over each frame.

The polynomial of the CRC-16, (x + 1)(x^15 + x + 1), divides x^32767 + 1. So two bytes that are 32767 bytes
apart count alike, and XOR folds a stretch of any length, at the speed of memory, into 32767 bytes with the
same CRC. A frame followed by its CRC has the CRC zero, and so do many such frames in a row.
"""

# ruff: noqa: PLR2004 - a file format is made of numbers

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

HEADER = 16  # the longest frame header
COLUMNS = np.arange(HEADER)
POLYNOMIALS = {8: 0x07, 16: 0x8005}  # of the CRC-8 of a header, and of the CRC-16 of a frame
ORDER = 32767  # x^ORDER = 1 modulo the polynomial of CRC-16


def checksums(bits: int, rows: Array, lengths: Array) -> Array:
    """Return the CRC of the first `lengths` bytes of each row."""
    following = np.maximum(lengths[:, None] - 1 - COLUMNS, -1)
    return np.bitwise_xor.reduce(crc_table(bits)[following, rows], axis=1)


@cache
def crc_table(bits: int) -> Array:
    """Return the CRC of each byte, by how many bytes follow it (last row: zeros, for bytes to ignore)."""
    polynomial, top = POLYNOMIALS[bits], 1 << bits
    table = np.zeros((HEADER + 1, 256), np.uint8 if bits == 8 else np.uint16)
    crcs = np.arange(256) << bits - 8
    for row in range(HEADER):
        for _ in range(8):
            crcs = crcs << 1 ^ np.where(crcs & top >> 1, polynomial | top, 0)
        table[row] = crcs
    return table


@cache
def _powers() -> Array:
    """Return x^i modulo the polynomial of CRC-16, for i below ORDER."""
    powers = np.empty(ORDER, np.uint16)
    power = 1
    for exponent in range(ORDER):
        powers[exponent] = power
        power <<= 1
        if power >> 16:
            power ^= 0x18005
    return powers


@cache
def _logarithms() -> tuple[Array, Array]:
    """Return (x + 1) x^i modulo the polynomial of CRC-16, and for each of these its i."""
    powers = _powers()
    multiples = powers ^ np.roll(powers, -1)
    logarithms = np.zeros(1 << 16, np.int64)
    logarithms[multiples] = np.arange(ORDER)
    return multiples, logarithms


def moved_on(differences: Array, count: Array) -> Array:
    """Return what differences between two checksums of headers become when `count` more bytes follow.

    The polynomials of CRC-8 and CRC-16 are multiples of x + 1. So is a header with its CRC-8, and therefore
    the difference of two. All of these but zero have the form (x + 1) x^i, so exponents can be added.
    """
    multiples, logarithms = _logarithms()
    return np.where(differences, multiples[(logarithms[differences] + 8 * count) % ORDER], 0)


def is_sound(data: Array) -> bool:
    """Return whether frames in a row, each followed by its CRC-16, have the CRC-16 zero."""
    rest = len(data) % ORDER
    folded = np.zeros(ORDER, np.uint8)
    if rest < len(data):
        folded = np.bitwise_xor.reduce(data[rest:].reshape(-1, ORDER), axis=0)
    folded[ORDER - rest :] ^= data[:rest]
    # Bits fold as bytes do.
    bits = np.bitwise_xor.reduce(np.unpackbits(folded).reshape(8, ORDER), axis=0)
    return not np.bitwise_xor.reduce(_powers()[::-1] * bits)
