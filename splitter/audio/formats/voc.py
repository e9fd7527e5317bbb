"""Creative Voice, block by block: libsndfile takes all that follows the first header for sound, even headers.

| Creative Voice File | size of this | kind, size | encoding, samples | kind, size | samples | ... | 0 |
"""

# ruff: noqa: PLR2004 - a file format is made of numbers

import io
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

from splitter.audio.formats.base import AudioFormat
from splitter.audio.formats.wav import SILENCE, Extent, RawFormat

# kinds of blocks; the others have no sound: a marker, a text, and the two ends of a part to be repeated
_END, _SOUND, _MORE, _SILENCE, _STEREO, _NEW_SOUND = 0, 1, 2, 3, 8, 9
_OTHERS = (4, 5, 6, 7)
_KINDS = range(1, 10)
# bytes of a block before its samples
_BEFORE = {_SOUND: 2, _NEW_SOUND: 12}
_HEAD_BYTES = 4
_SIZES = 1 << 24
_MOST_BLOCKS = 1 << 20
# encodings by bits and code
_ENCODINGS = {(8, 0): "PCM_U8", (16, 4): "PCM_16", (8, 6): "ALAW", (8, 7): "ULAW"}
_NOWHERE = -1
# how many of the bytes before the samples sox omits from the size of a block
_BY_SOX = 8

Blocks = list[tuple[int, int]]


@dataclass(frozen=True)
class BlocksExtent(Extent):
    """The location of samples in several blocks.

    Attributes:
        blocks: The offset and size of each block of samples; the offset of silence is `_NOWHERE`.
    """

    blocks: tuple[tuple[int, int], ...] = ()

    def open(self, path: str) -> io.RawIOBase:
        """Open the samples as one stream."""
        return _Joined(path, list(self.blocks), SILENCE.get(self.raw.subtype, b"\0") if self.raw else b"")


class _Joined(io.RawIOBase):
    """The samples of all blocks, one after the other."""

    def __init__(self, path: str, blocks: Blocks, silence: bytes) -> None:
        self.name, self._silence = path, silence
        self._left = blocks[::-1]
        self._file = open(path, "rb", buffering=0)  # noqa: SIM115 - closed by close()

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 - a buffer
        """Read, but not beyond the end of a block."""
        while self._left:
            at, size = self._left.pop()
            view = memoryview(buffer).cast("B")[:size]
            if not view:
                continue
            if at == _NOWHERE:
                view[:] = self._silence * len(view)
                self._left.append((at, size - len(view)))
                return len(view)
            self._file.seek(at)
            count = self._file.readinto(view) or 0
            self._left.append((at + count, size - count))
            return count
        return 0

    def close(self) -> None:
        self._file.close()
        super().close()


def find_in_voc(file: BinaryIO, size: int) -> Extent | None:
    """Return where the samples are, and their format unless they need a decoder; None if there are none."""
    raw: RawFormat | None = None
    stereo = b""
    blocks: Blocks = []
    start = int.from_bytes(_read(file, 20, 2), "little")
    is_cut = False
    for kind, at, length in _blocks(file, start, size):
        is_cut = at + _BEFORE.get(kind, 0) > size
        if is_cut:
            break
        if kind == _STEREO:
            stereo = _read(file, at, 4)
        elif kind in _BEFORE:
            before = _BEFORE[kind]
            described = _described(_read(file, at, before), kind, stereo)
            # if the encoding changes, the samples need a decoder
            raw = described if not blocks or raw == described else None
            stereo = b""
            blocks.append((at + before, max(0, length - before)))
        elif kind == _MORE and blocks:
            blocks.append((at, length))
        elif kind == _SILENCE and raw:
            blocks.append((_NOWHERE, _silence(_read(file, at, 3), raw)))
        elif kind not in _OTHERS:
            return None
    if not blocks and not is_cut:
        return None
    there = tuple((at, length if at == _NOWHERE else max(0, min(length, size - at))) for at, length in blocks)
    stated, exist = (sum(length for _, length in each) for each in (blocks, there))
    return BlocksExtent(start, stated, exist, raw, is_cut, there)


def _read(file: BinaryIO, at: int, count: int) -> bytes:
    file.seek(at)
    return file.read(count)


def _blocks(file: BinaryIO, at: int, size: int) -> Iterator[tuple[int, int, int]]:
    """Yield the kind of each block, and the offset and stated size of its content."""
    for _ in range(_MOST_BLOCKS):
        head = _read(file, at, _HEAD_BYTES)
        if not head or head[0] == _END:
            return
        length = int.from_bytes(head[1:], "little")
        at += _HEAD_BYTES
        beyond = size - at - length - 1
        if beyond > 0 and _read(file, size - 1, 1)[0] == _END:
            by_sox = head[0] == _NEW_SOUND and not _is_small(_read(file, at + length, _HEAD_BYTES))
            # 24 bits may be too few for the true size
            length += beyond if beyond % _SIZES in {0, _BY_SOX if by_sox else 0} else 0
        yield head[0], at, length
        at += length


def _is_small(head: bytes) -> bool:
    """Return whether this is the head of a block with exactly as many bytes as sox omits."""
    return (
        head[:1] != b"" and head[0] in _KINDS and int.from_bytes(head[1:], "little") == _BY_SOX - _HEAD_BYTES
    )


def _described(head: bytes, kind: int, stereo: bytes) -> RawFormat | None:
    """Return the format of the samples of a block, from its head or the block `_STEREO` before it."""
    if kind == _NEW_SOUND:
        rate, bits, channels, code = struct.unpack("<IBBH4x", head)
    elif len(stereo) == 4:
        divisor, code, channels = struct.unpack("<HBB", stereo)
        bits, channels = 8, channels + 1
        rate = 256_000_000 // (65_536 - divisor) // channels
    else:
        divisor, code = head
        bits, channels, rate = 8, 1, 1_000_000 // (256 - divisor)
    subtype = _ENCODINGS.get((bits, code))
    return RawFormat("VOC", subtype, channels, rate) if subtype and channels and rate else None


def _silence(block: bytes, raw: RawFormat) -> int:
    """Return how many bytes of samples a block of silence stands for: it states its own rate."""
    if len(block) < 3:
        return 0
    count, divisor = int.from_bytes(block[:2], "little") + 1, block[2]
    return round(count * raw.rate * (256 - divisor) / 1_000_000) * raw.frame_bytes


FORMAT = AudioFormat("VOC", "voc", ((b"Creative Voice File\x1a", 0, b""),), is_exact=True)
