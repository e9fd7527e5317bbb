"""The header and the side information of a frame of layer III, and where its sound is.

| header 4 | side information 9 to 32 | main data ...                |
                                      ^ not of this frame: its own begins `main_data_begin` bytes before,
                                        among the main data of earlier frames (the bit reservoir)
"""

# ruff: noqa: PLR2004 - a file format is made of numbers

from array import array
from dataclasses import dataclass
from functools import cached_property, lru_cache
from mmap import mmap

import numpy as np
import numpy.typing as npt

# kbit/s by the code in a header, for layers I, II and III of MPEG 1, then of MPEG 2 and 2.5
_BITRATES = {
    (True, 1): (0, *range(32, 449, 32)),
    (True, 2): (0, 32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384),
    (True, 3): (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    (False, 1): (0, 32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256),
    (False, 2): (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
    (False, 3): (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
}
_RATES = (44100, 48000, 32000)
_DIVISORS = {3: 1, 2: 2, 0: 4}
MPEG1, _MONO = 3, 3
_HERTZ = (1 << 17) - 1
HEADER_BYTES = 4
_LARGEST_BIG_VALUES = 288

Bytes = npt.NDArray[np.uint8]
Integers = npt.NDArray[np.int64]


@lru_cache(maxsize=4096)
def any_frame(header: bytes) -> tuple[int, int, int]:
    """Return the size of a frame (0: it states no bit rate), its possible padding, its kind (0: no frame)."""
    if len(header) < HEADER_BYTES or header[0] != 0xFF or header[1] < 0xE0:
        return 0, 0, 0
    version, layer = header[1] >> 3 & 3, 4 - (header[1] >> 1 & 3)
    code, rate = header[2] >> 4, header[2] >> 2 & 3
    if version not in _DIVISORS or layer > 3 or code > 14 or rate > 2:
        return 0, 0, 0
    hertz = _RATES[rate] // _DIVISORS[version]
    bits = _BITRATES[version == 3, layer][code] * 1000
    slot = 4 if layer == 1 else 1
    slots = (12 if layer == 1 else 72 if layer == 3 and version != 3 else 144) * bits // hertz
    size = (slots + (header[2] >> 1 & 1)) * slot if bits else 0
    return size, slot, version << 20 | layer << 18 | (not bits) << 17 | hertz


@lru_cache(maxsize=4096)
def frame(header: bytes) -> tuple[int, int]:
    """Return the size and the kind of the frame of layer III with this header; zeros if there is none."""
    size, _, kind = any_frame(header)
    if not size or kind >> 18 & 3 != 3:
        return 0, 0
    return size, (kind & _HERTZ) * 2 + (header[3] >> 6 == _MONO)


def frames_from(content: bytes | mmap, at: int, kind: int, before: int) -> tuple["array[int]", int]:
    """Return the offsets of frames of one kind that follow each other, and where the next would begin."""
    offsets = array("q")
    while at < before:
        size, found = frame(content[at : at + HEADER_BYTES])
        if found != kind:
            break
        offsets.append(at)
        at += size
    return offsets, at


@dataclass(frozen=True)
class FrameLayout:
    """What all frames of a recording have in common.

    Attributes:
        start: The first two bytes of each frame.
        rate: Samples in a second.
        channels: One or two.
        samples: How many samples a frame gives.
        side: The bytes of its side information.
        preroll: How many frames a decoder must see before it decodes one exactly: two granules, because of
            the overlap with the last granule and the memory of the filter bank.
    """

    start: bytes
    rate: int
    channels: int
    samples: int
    side: int
    preroll: int

    @classmethod
    def of(cls, header: bytes) -> "FrameLayout":
        """Return the layout of a frame without a checksum, by its header."""
        _, kind = frame(header)
        mono, first = kind & 1, header[1] >> 3 & 3 == MPEG1
        side = (17 if mono else 32) if first else (9 if mono else 17)
        return cls(header[:2], kind >> 1, 2 - mono, 1152 if first else 576, side, 1 if first else 2)

    @property
    def kind(self) -> int:
        """The kind of each frame, as `frame` returns it."""
        return self.rate * 2 + (self.channels == 1)

    @property
    def head(self) -> int:
        """The bytes before the main data."""
        return HEADER_BYTES + self.side

    @cached_property
    def sizes(self) -> Integers:
        """The bytes of a frame by the third byte of its header; 0 if no frame has that byte."""
        codes = [frame(bytes((*self.start, code, 0)))[0] for code in range(256)]
        return np.array(codes, np.int64)

    def begin(self, content: bytes) -> int:
        """Return how many bytes before its main data the sound of a frame begins."""
        at = HEADER_BYTES
        return content[at] if self.preroll > 1 else content[at] << 1 | content[at + 1] >> 7

    def silent(self, like: bytes, least: int = 0) -> bytes:
        """Return the smallest silent frame with `least` bytes of main data: its side information is zero."""
        for code in range(1, 15):
            third = code << 4 | like[2] & 0x0C
            size = int(self.sizes[third])
            if size >= self.head + least:
                return bytes((*self.start, third, like[3])) + bytes(size - HEADER_BYTES)
        raise ValueError(f"no frame has {least} bytes of main data")

    def side_information(
        self, data: Bytes, offsets: Integers
    ) -> tuple[Integers, Integers, npt.NDArray[np.bool_]]:
        """Return how many bytes before its main data the sound of each frame begins, and the bits it takes.

        The last result says whether a decoder accepts the numbers of each frame.
        """
        low, mono = self.samples == 576, self.channels == 1
        at = offsets + HEADER_BYTES
        begins = data[at].astype(np.int64)
        if not low:
            begins = begins << 1 | data[at + 1] >> 7
        # in bits: what comes before the first granule, and the length of each part
        skipped, length = ((9 if mono else 10), 63) if low else ((18 if mono else 20), 59)
        bits, valid = np.zeros(len(offsets), np.int64), np.ones(len(offsets), np.bool_)
        for part in range(self.channels * self.samples // 576):
            byte, bit = divmod(skipped + part * length, 8)
            word = data[at + byte].astype(np.int64)
            for more in range(1, 4):
                word = word << 8 | data[at + byte + more]
            bits += word >> 20 - bit & 0xFFF
            valid &= (word >> 11 - bit & 0x1FF) <= _LARGEST_BIG_VALUES
        return begins, bits, valid
