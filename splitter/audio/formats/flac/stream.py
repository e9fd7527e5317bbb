"""Find the frames of a FLAC file, stretch by stretch.

A frame does not state how many bytes it has: it ends where the next one begins. But sound may look like a
header. So a file is read in stretches, and a frame is taken only after everything within the longest possible
frame has been searched: the true next header is then among the candidates, each with a right CRC-8. If their
numbers count up one by one, none is false; if not, decoding decides.

The CRC-16 of every frame is checked as well.
"""

# ruff: noqa: PLR2004 - a file format is made of numbers

import io
import os
from array import array
from bisect import bisect_left
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import numpy.typing as npt

from splitter.audio.formats.flac.checksums import HEADER, Array, crc_table, is_sound
from splitter.audio.formats.flac.frames import BITS, RATE_BYTES, RATES, Frames, Heads, header_rows, parsed
from splitter.audio.formats.flac.header import beginning, unpacked
from splitter.errors import InputError

STEP = 1 << 21  # bytes read at a time
MANY = 1 << 13  # headers parsed at a time: in silence they are so close that memory would grow otherwise
SMALLEST_BLOCK = 16  # samples; only the last block of a stream may have fewer
NO_MD5 = bytes(16)  # as the format allows
SYNC = 0xF8FF  # how frames begin if blocks have one size, as a little-endian word
SUBTYPES = {8: "PCM_S8", 16: "PCM_16", 24: "PCM_24"}  # the depths that libsndfile can decode


class FlacError(InputError):
    """Error: a FLAC file is damaged, or ends early, after some sample.

    Attributes:
        samples: How many intact samples per channel there are before the fault.
    """

    def __init__(self, message: str, samples: int = 0) -> None:
        super().__init__(message)
        self.samples = samples


class NotCuttable(FlacError):
    """Error: the frames of this file cannot be copied, although it may be possible to decode them."""


class FlacStream(AbstractContextManager[Any]):
    """The frames of a FLAC file. Opening a file that cannot be cut raises `NotCuttable`.

    The file is read once, only as far as needed, and a part of it stays in memory.

    Attributes:
        rate: Samples per second.
        channels: How many channels.
        bits: Bits per sample.
        block: Samples per channel in a frame; the last may have fewer.
        declared: Samples per channel that the header states, or None if it states none.
        md5: The MD5 sum of all samples, as the header states it.
        assignment: The fourth byte of the first frame: how its channels and bits are coded.
        coded_rate: The rate that frames state; 0 if they state none.
        samples: Samples per channel in the frames found so far.
        is_read: Whether no more frames can be found.
        offsets: Where in the file each of these frames begins, and the last of them ends.
    """

    def __init__(self, path: str | bytes | os.PathLike[str]) -> None:
        self._file = open(path, "rb", buffering=0)  # noqa: SIM115 - closed with the source
        try:
            self._open()
        except BaseException:
            self._file.close()
            raise

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def reach(self, stop: int) -> int:
        """Read on to sample `stop` or the end; return how many samples per channel exist, at most `stop`.

        Raises:
            FlacError: There is a fault before `stop`.
        """
        while self.samples < stop and not self.is_read:
            self._scan()
        if self._fault is not None and stop > self._fault.samples:
            raise FlacError(str(self._fault), self._fault.samples)
        return min(stop, self.samples)

    def frames(self, first: int, last: int) -> Frames:
        """Return the frames [first, last), from memory if they are still there."""
        offsets = np.frombuffer(self.offsets[first : last + 1], np.int64)
        begin, end = int(offsets[0]), int(offsets[-1])
        if self._base <= begin:
            data = self._buffer[begin - self._base : end - self._base]
        else:
            data = np.frombuffer(self._pread(begin, end - begin), np.uint8)
            if len(data) < end - begin:
                raise FlacError("the file was cut while it was read", self.samples)
        samples = np.full(last - first, self.block)
        samples[-1] = min(self.block, self.samples - (last - 1) * self.block)
        return Frames(data, offsets - begin, samples)

    def decoded(self, frame: Array, samples: int) -> npt.NDArray[np.int32]:
        """Decode one frame, from a file made of it alone."""
        import soundfile

        file = io.BytesIO(self.header_of(self.block, self.block, samples, NO_MD5) + frame.tobytes())
        try:
            with soundfile.SoundFile(file) as sound:
                return sound.read(samples, dtype="int32", always_2d=True)
        except soundfile.SoundFileError as error:
            raise FlacError(f"a frame does not decode: {error}", self.samples) from error

    def header_of(self, smallest: int, largest: int, samples: int, md5: bytes) -> bytes:
        """Return what precedes the first frame, without the sizes of frames, as the format allows."""
        sizes = max(smallest, SMALLEST_BLOCK) << 16 | max(largest, SMALLEST_BLOCK)
        packed = self.rate << 44 | (self.channels - 1) << 41 | (self.bits - 1) << 36 | samples
        return b"fLaC\x80\0\0\x22" + sizes.to_bytes(4, "big") + bytes(6) + packed.to_bytes(8, "big") + md5

    # opening

    def _open(self) -> None:
        size = os.fstat(self._file.fileno()).st_size
        begin = self._read_metadata(size)
        tag = size - 128  # an ID3v1 tag after the last frame
        self._end = tag if tag >= begin and self._pread(tag, 3) == b"TAG" else size
        # Frames are hardly longer than their raw samples; the end of a longer one would not be found.
        self._longest = self.block * self.channels * self.bits // 4 + 1024
        self._step = max(STEP, self._longest)
        self._buffer = np.zeros(min(4 * self._step, self._end - begin) + HEADER, np.uint8)
        self._hits = np.zeros((2, len(self._buffer) // 2), np.bool_)  # made once: new pages take time
        self._base = begin  # where in the file the buffer begins
        self._filled = 0  # bytes in the buffer
        self.offsets = array("q", [begin])  # where each frame begins, and the last of them ends
        self.samples = 0  # in these frames
        self.is_read = False
        self._fault: FlacError | None = None
        if begin == self._end:
            self._finish()
            return
        heads = parsed(
            header_rows(np.frombuffer(self._pread(begin, HEADER), np.uint8), np.zeros(1, np.int64))
        )
        self._size_and_rate, self.assignment = (int(byte) for byte in heads.kind[0])
        self._check_first(heads)

    def _read_metadata(self, size: int) -> int:
        """Read the metadata; return where the frames begin."""
        at = beginning(self._file.fileno())
        if at is None:
            raise NotCuttable("it does not begin as a FLAC file")
        at, last, info = at + 4, False, b""
        while not last:
            head = self._pread(at, 4)
            length = int.from_bytes(head[1:], "big")
            if len(head) < 4 or at + 4 + length > size:
                raise FlacError("the file ends within its header")
            last, kind = head[0] >= 0x80, head[0] & 0x7F
            if kind == 0 and not info:
                info = self._pread(at + 4, length)
            at += 4 + length
        if len(info) < 34:
            raise NotCuttable("it has no STREAMINFO")
        smallest, self.block = int.from_bytes(info[:2], "big"), int.from_bytes(info[2:4], "big")
        self.bits, self.channels, self.rate, samples = unpacked(info[10:18])
        self.declared, self.md5 = samples or None, info[18:34]
        if self.bits not in SUBTYPES:
            raise NotCuttable(f"libsndfile does not decode FLAC of {self.bits} bits")
        if smallest != self.block or self.block < SMALLEST_BLOCK or not self.rate:
            raise NotCuttable(f"it has blocks of {smallest} to {self.block} samples at {self.rate} Hz")
        return at

    def _check_first(self, heads: Heads) -> None:
        """Refuse a stream if its blocks vary in size, or its first frame contradicts its header."""
        rate, bits = self._size_and_rate & 15, BITS[self.assignment >> 1 & 7]
        if heads.variable[0]:
            raise NotCuttable("its block size varies")
        if not self._fits(heads)[0] or heads.number[0] != 0 or bits not in {0, self.bits}:
            raise NotCuttable("its first frame is not where its header ends")
        if rate < len(RATES):
            self.coded_rate = RATES[rate]  # 0: STREAMINFO states it
        else:
            given = heads.tail[0, : heads.tail_length[0]][-RATE_BYTES[rate] :].tobytes()
            self.coded_rate = int.from_bytes(given, "big") * {12: 1000, 13: 1, 14: 10}[rate]
            if not self.coded_rate:
                raise NotCuttable("its frames have a sample rate of 0")

    def _fits(self, heads: Heads) -> npt.NDArray[np.bool_]:
        """Return which headers could belong to this stream."""
        assignment = heads.kind[:, 1] >> 4
        return (
            heads.valid
            & ~heads.variable
            & (heads.size <= self.block)
            & (np.where(assignment < 8, assignment + 1, 2) == self.channels)  # above: mid and side
            & ((heads.kind[:, 0] ^ self._size_and_rate) & 15 == 0)
            & ((heads.kind[:, 1] ^ self.assignment) & 15 == 0)
        )

    # reading on

    def _scan(self) -> None:
        """Read one stretch, and take the frames whose end is certain."""
        self._fill()
        begin, end = self.offsets[-1] - self._base, self._filled
        ended = self._base + end == self._end
        count = len(self.offsets) - 1
        starts, numbers, sizes = self._candidates(begin, end)
        fault = None
        ends = np.append(starts[1:], end)
        plain = np.array_equal(numbers, count + np.arange(len(numbers))) and (sizes[:-1] == self.block).all()
        if not (plain and len(starts) and starts[0] == begin):
            is_first = bool(len(starts)) and starts[0] == begin and numbers[0] == count
            chain, behind = self._chain(starts, numbers, sizes) if is_first else ([], None)
            ends = np.append(starts[chain[1:]], end if behind is None else starts[behind])
            starts, sizes = starts[chain], sizes[chain]
            if behind is not None and (ended or starts[-1] + self._longest <= end):
                fault = "the numbers or sizes of frames are out of order"
        promised = self.declared == self.samples + int(sizes.sum()) and bool(len(starts))
        if promised and (ended or starts[-1] + self._longest <= end) and self._trim(starts, ends, sizes):
            fault, self.is_read = None, True
        elif fault is None and not ended:
            certain = starts[:-1] + self._longest <= end
            if not len(starts) or starts[-1] + self._longest <= end:
                fault = "the header of a frame is damaged or missing"
            starts, ends, sizes = starts[:-1][certain], ends[:-1][certain], sizes[:-1][certain]
        elif fault is None and self.declared != self.samples + int(sizes.sum()):
            starts, ends, sizes = self._proven(starts, ends, sizes)
            if not len(ends) or ends[-1] != end:
                fault = "the next frame is cut off or damaged"
            elif is_sound(self._buffer[starts[-1] : end]):
                # only zeros: anything else after it might be the beginning of another frame
                self._trim(starts, ends, sizes)
        self._take(starts, ends, sizes, fault)
        if ended and not self.is_read:
            self._finish()

    def _trim(self, starts: Array, ends: Array, sizes: Array) -> bool:
        """Set the last of `ends` to the true end of that frame; return whether something else follows it."""
        start, end = int(starts[-1]), int(ends[-1])
        # zeros after a frame do not change its checksum
        if is_sound(self._buffer[start:end]) and self._buffer[end - 1]:
            return False
        table, checksum = crc_table(16)[0].tolist(), 0
        frame = self._buffer[start : min(end, start + self._longest)].tolist()
        for at, byte in enumerate(frame, start + 1):
            checksum = (checksum << 8 & 0xFFFF) ^ table[checksum >> 8 ^ byte]
            if not checksum and self._is_whole(start, at, int(sizes[-1])):
                ends[-1] = at
                return at < end
        return False

    def _fill(self) -> None:
        """Read the bytes after those in the buffer; drop its older part if it is full."""
        needed = min(self._step, self._end - self._base - self._filled)
        if self._filled + needed > len(self._buffer) - HEADER:
            recent = 2 * self._step
            gone = self._filled - recent
            self._buffer[:recent] = self._buffer[gone : self._filled]
            self._base += gone
            self._filled = recent
        while needed:
            self._file.seek(self._base + self._filled)
            got = self._file.readinto(self._buffer.data[self._filled : self._filled + needed])
            if not got:
                self._end = self._base + self._filled  # the file has become shorter meanwhile
                break
            self._filled += got
            needed -= got

    def _candidates(self, begin: int, end: int) -> tuple[Array, Array, Array]:
        """Return where in the buffer headers of this stream seem to be, and their numbers and sizes."""
        words = (end - begin) // 2
        hits, odd = self._hits[:, :words]
        np.equal(self._buffer[begin : begin + 2 * words].view("<u2"), SYNC, out=hits)
        np.equal(self._buffer[begin + 1 : begin + 1 + 2 * words].view("<u2"), SYNC, out=odd)
        hits |= odd
        positions = begin + 2 * np.flatnonzero(hits)
        positions += self._buffer[positions + 1] != SYNC >> 8
        found = []
        for first in range(0, max(len(positions), 1), MANY):
            some = positions[first : first + MANY]
            heads = parsed(header_rows(self._buffer, some))
            good = self._fits(heads) & (some + heads.length <= end)
            found.append((some[good], heads.number[good], heads.size[good]))
        starts, numbers, sizes = (np.concatenate(column) for column in zip(*found, strict=True))
        return starts, numbers, sizes

    def _chain(self, starts: Array, numbers: Array, sizes: Array) -> tuple[list[int], int | None]:
        """Follow the candidates from the first, and decode where it is not clear which is next.

        Returns:
            The indexes of the frames, and of the candidate where the last of them ends, although its number
            or size is wrong; None if there is no such candidate.
        """
        chain = [0]
        while True:
            at = chain[-1]
            near = range(at + 1, int(np.searchsorted(starts, starts[at] + self._longest, "right")))
            following = [each for each in near if numbers[each] == numbers[at] + 1]
            if following == [at + 1] and sizes[at] == self.block:
                chain.append(at + 1)
                continue
            behind = next(
                (each for each in near if self._is_whole(starts[at], starts[each], sizes[at])), None
            )
            if behind not in following or sizes[at] < self.block:
                return chain, behind
            chain.append(behind)

    def _proven(self, starts: Array, ends: Array, sizes: Array) -> tuple[Array, Array, Array]:
        """Find the true last frame by decoding, because the header does not say which it is."""
        first = int(np.searchsorted(starts, self._filled - self._longest))
        for at in range(max(0, min(first, len(starts) - 1)), len(starts)):
            if not self._is_whole(starts[at], ends[at], sizes[at]):
                last = self._is_whole(starts[at], self._filled, sizes[at])
                ends[at] = self._filled
                return starts[: at + last], ends[: at + last], sizes[: at + last]
        return starts, ends, sizes

    def _is_whole(self, start: int, end: int, samples: int) -> bool:
        """Return whether the buffer from `start` to `end` holds at least one frame that decodes."""
        try:
            return len(self.decoded(self._buffer[start:end], int(samples))) == samples
        except FlacError:
            return False

    def _take(self, starts: Array, ends: Array, sizes: Array, fault: str | None) -> None:
        """Add the frames before the first with a wrong checksum to the index."""
        if len(starts) and not is_sound(self._buffer[starts[0] : ends[-1]]):
            bad = bisect_left(ends, 1, key=lambda end: not is_sound(self._buffer[starts[0] : end]))
            starts, ends, sizes = starts[:bad], ends[:bad], sizes[:bad]
            fault = "the next frame is damaged"
        self.offsets.frombytes((ends + self._base).astype(np.int64).tobytes())
        self.samples += int(sizes.sum())
        if fault is not None:
            self._finish(fault)

    def _finish(self, fault: str | None = None) -> None:
        """Stop reading, and store what is wrong, if anything, for callers that ask for more."""
        self.is_read = True
        declared = "" if self.declared is None else f" of {self.declared:,}"
        if fault is not None:
            fault = f"only {self.samples:,}{declared} samples are intact: {fault}"
        elif self.declared is not None and self.samples < self.declared:
            fault = f"it ends after {self.samples:,}{declared} samples"
        elif self.declared is not None and self.samples > self.declared:
            fault = f"it holds {self.samples:,} samples, but its header says {self.declared:,}"
        if fault is not None:
            self._fault = FlacError(fault, self.samples)

    def _pread(self, begin: int, length: int) -> bytes:
        """Read from anywhere in the file; return fewer bytes than `length` only at its end."""
        parts = []
        while length and (part := os.pread(self._file.fileno(), length, begin)):
            parts.append(part)
            begin, length = begin + len(part), length - len(part)
        return b"".join(parts)
