"""Cut FLAC files by copying whole frames: sound is decoded and encoded at the two ends of a cut only.

    source    | frame 0 | frame 1 | frame 2 | frame 3 | frame 4 |     each of `block` samples, but the last
    cut            [====|=========|=========|===]
    written        | new| frame 1 | frame 2 |new|

A frame begins with a header: a sync code, how its samples are stored, its number, a CRC-8. It ends with a
CRC-16. A copied frame keeps all that lies between; only the number and the two CRCs change. The frames at the
ends of a cut are decoded, and what belongs to the cut is encoded anew.

A cut that begins where a frame begins is again a stream of blocks of one size, whose frames are counted. Any
other has a first block of another size, so its headers carry the number of their first sample instead (the
"variable block size" of the format).

Where a frame ends is written nowhere: it ends where the next begins. What looks like a header may be sound,
so a file is read in stretches, and a frame is taken only when all that follows within the longest possible
frame has been looked at: the true next header is then among the candidates, each with a right CRC-8. If their
numbers count up one by one, none is false; where they do not, decoding decides.

The CRC-16 of every frame is checked before it is copied. Its polynomial (x + 1)(x^15 + x + 1) divides
x^32767 + 1, hence two bytes 32767 bytes apart count alike, and a stretch of any length folds by XOR, at the
speed of memory, into 32767 bytes with the same CRC. A frame with its own CRC behind it has the CRC zero, so
many in a row have it, too.
"""

# ruff: noqa: PLR2004 - a file format is made of numbers

import io
import os
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

from splitter.errors import InputError

if TYPE_CHECKING:
    from types import TracebackType

Array = npt.NDArray[Any]

STEP = 1 << 21  # bytes read at a time
SEGMENT = 1 << 22  # bytes of frames written at a time
MANY = 1 << 13  # frames handled at a time: those of silence are so short that memory would grow otherwise
HEADER = 16  # the longest frame header
ORDER = 32767  # x^ORDER = 1 modulo the polynomial of CRC-16
SMALLEST_BLOCK = 16  # samples; only the last block of a stream may have less
ENCODED_BLOCK = 4096  # the most samples that libsndfile puts into one frame
NO_MD5 = bytes(16)  # as the format allows
SYNC = 0xF8FF  # how the frames of blocks of one size begin, as a little-endian word
OTHER_RATE = 48000  # to encode with, where frames do not name their rate
SUBTYPES = {8: "PCM_S8", 16: "PCM_16", 24: "PCM_24"}  # the depths that libsndfile can decode

RATES = (0, 88200, 176400, 192000, 8000, 16000, 22050, 24000, 32000, 44100, 48000, 96000)
BITS = (0, 8, 12, 0, 16, 20, 24, 32)
BLOCK_SIZES = np.array([0, 192, *(576 << n for n in range(4)), 0, 0, *(256 << n for n in range(8))])
SIZE_BYTES = np.array([0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0])
RATE_BYTES = np.array([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 2, 0])
KINDS = np.zeros((256, 256), np.bool_)  # which third and fourth bytes a header may have
KINDS[16:, : 11 << 4] = np.arange(11 << 4) % 16 % 2 == 0  # not size 0, channels from 11 on, the reserved bit
KINDS[15::16] = False  # nor rate 15
KINDS[:, 6::16] = False  # nor depth 3
# A number is coded as in UTF-8. By the first byte: in how many bytes (0: it cannot be the first).
CODED_BYTES = np.repeat([1, 0, 2, 3, 4, 5, 6, 7, 0], [128, 64, 32, 16, 8, 4, 2, 1, 1])
LEAD_BITS = np.array([0, 0x7F, 0x1F, 0x0F, 0x07, 0x03, 0x01, 0x00])
LEAD_MARKS = np.array([0, 0x00, 0xC0, 0xE0, 0xF0, 0xF8, 0xFC, 0xFE])
LARGEST_CODED = np.array([(1 << bits) - 1 for bits in (7, 11, 16, 21, 26, 31)])
COLUMNS = np.arange(HEADER)


def beginning(descriptor: int) -> int | None:
    """Where FLAC begins in a file, behind any ID3 tags; None if it is no FLAC."""
    at = 0
    while (tag := os.pread(descriptor, 10, at))[:3] == b"ID3" and len(tag) == 10:
        at += 10 + sum((byte & 0x7F) << 7 * place for place, byte in enumerate(reversed(tag[6:])))
        at += 10 if tag[5] & 0x10 else 0
    return at if tag[:4] == b"fLaC" else None


def rate_of(descriptor: int) -> int:
    """How many samples a second a FLAC file says it has; 0 of anything else."""
    begin = beginning(descriptor)
    return 0 if begin is None else int.from_bytes(os.pread(descriptor, 3, begin + 18), "big") >> 4


def header_of_flac(descriptor: int) -> tuple[int, int, int, int] | None:
    """The bits, channels, rate and samples that a FLAC file says it has; None if it does not say so."""
    begin = beginning(descriptor)
    said = b"" if begin is None else os.pread(descriptor, 8, begin + 18)
    if len(said) < 8:
        return None
    packed = int.from_bytes(said, "big")
    rate, samples = packed >> 44, packed & (1 << 36) - 1
    return ((packed >> 36 & 31) + 1, (packed >> 41 & 7) + 1, rate, samples) if rate and samples else None


class FlacError(InputError):
    """A FLAC file does not hold what it should, from some sample on.

    Attributes:
        samples: How many samples per channel are there, and whole, before the fault.
    """

    def __init__(self, message: str, samples: int = 0) -> None:
        """Say what is wrong, and how much came before it."""
        super().__init__(message)
        self.samples = samples


class NotCuttable(FlacError):
    """The frames of this file cannot be copied; it may well be decoded."""


class FlacSource:
    """A FLAC file to cut from. What it cannot cut it refuses when it is opened, with `NotCuttable`.

    The file is read as far as it is asked for, once; cuts that follow each other find what they need in
    memory. Cuts may overlap, and come in any order.

    Attributes:
        rate: Samples per second.
        channels: How many.
        bits: Of a sample.
        block: Samples per channel in a frame; the last may have less.
        declared: Samples per channel that the header promises, or None where it promises nothing.
    """

    def __init__(self, path: str | bytes | os.PathLike[str]) -> None:
        """Read the header, and the first frame."""
        self._file = open(path, "rb", buffering=0)  # noqa: SIM115 - closed with the source
        try:
            self._open()
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> "FlacSource":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: "TracebackType | None"
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def reach(self, stop: int) -> int:
        """Read on until sample `stop` or the end: the samples per channel there are, at most `stop`.

        Raises:
            FlacError: There is a fault before `stop`.
        """
        while self._samples < stop and not self._done:
            self._scan()
        if self._fault is not None and stop > self._fault.samples:
            raise FlacError(str(self._fault), self._fault.samples)
        return min(stop, self._samples)

    def cut(self, start: int, stop: int, file: BinaryIO) -> None:
        """Write a FLAC file of the samples [start, stop).

        Raises:
            FlacError: There is a fault before `stop`. Nothing was written then.
        """
        if not 0 <= start < stop:
            raise ValueError(f"[{start}, {stop}) is no part of a recording")
        if self.reach(stop) < stop:
            raise ValueError(f"the recording ends before sample {stop}: it has {self._samples}")
        block = self.block
        head_stop, tail_start = start, stop
        if start % block:
            head_stop = min(stop, start - start % block + block)
            if head_stop - start < SMALLEST_BLOCK:
                head_stop = min(stop, head_stop + block)
        if stop % block and not (self._done and stop == self._samples):
            tail_start = max(head_stop, stop - stop % block)
        first, last = -(-head_stop // block), -(-tail_start // block)
        head, tail = self._encoded(start, head_stop), self._encoded(tail_start, stop)

        sizes = [int(frames.samples[0]) for frames in head]
        if first < last:
            sizes += [block] * min(last - first - 1, 1) + [min(block, stop - (last - 1) * block)]
        sizes += [int(frames.samples[0]) for frames in tail]
        counted = all(size == sizes[0] for size in sizes[:-1]) and sizes[-1] <= sizes[0]
        if len(sizes) == 1:
            sizes = [max(block, *sizes)]
        smallest, largest = min(sizes[:-1], default=sizes[0]), max(sizes)
        md5 = self._md5 if start == 0 and stop == self.declared else NO_MD5
        file.write(self._header(smallest, largest, stop - start, md5))

        number = position = 0
        for run in self._runs(head, first, last, tail):
            samples = np.concatenate([frames.samples for frames in run])
            numbers = number + np.arange(len(samples)) if counted else position + np.cumsum(samples) - samples
            file.write(self._renumbered(run, numbers, variable=not counted))
            number += len(samples)
            position += int(samples.sum())

    # opening

    def _open(self) -> None:
        size = os.fstat(self._file.fileno()).st_size
        begin = self._read_metadata(size)
        tag = size - 128  # an ID3v1 tag behind the last frame
        self._end = tag if tag >= begin and self._pread(tag, 3) == b"TAG" else size
        # Frames are hardly longer than their samples as they are; of a longer one the end would not be found.
        self._longest = self.block * self.channels * self.bits // 4 + 1024
        self._step = max(STEP, self._longest)
        self._buffer = np.zeros(min(4 * self._step, self._end - begin) + HEADER, np.uint8)
        self._hits = np.zeros((2, len(self._buffer) // 2), np.bool_)  # made once: new pages are dear
        self._base = begin  # where in the file the buffer begins
        self._filled = 0  # bytes in the buffer
        self._offsets = array("q", [begin])  # where each frame begins, and the last of them ends
        self._samples = 0  # in these frames
        self._done = False
        self._fault: FlacError | None = None
        self._decoded: tuple[int, Array] | None = None
        if begin == self._end:
            self._finish()
            return
        heads = _parse(_rows(np.frombuffer(self._pread(begin, HEADER), np.uint8), np.zeros(1, np.int64)))
        self._size_and_rate, self._assignment = (int(byte) for byte in heads.kind[0])
        self._check_first(heads)

    def _read_metadata(self, size: int) -> int:
        """Read what stands before the frames; return where they begin."""
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
        packed = int.from_bytes(info[10:18], "big")
        smallest, self.block = int.from_bytes(info[:2], "big"), int.from_bytes(info[2:4], "big")
        self.rate, self.channels, self.bits = packed >> 44, (packed >> 41 & 7) + 1, (packed >> 36 & 31) + 1
        self.declared = packed & ((1 << 36) - 1) or None
        self._md5 = info[18:34]
        if self.bits not in SUBTYPES:
            raise NotCuttable(f"libsndfile does not decode FLAC of {self.bits} bits")
        if smallest != self.block or self.block < SMALLEST_BLOCK or not self.rate:
            raise NotCuttable(f"it has blocks of {smallest} to {self.block} samples at {self.rate} Hz")
        return at

    def _check_first(self, heads: "_Heads") -> None:
        """Refuse what is not a stream of blocks of one size, or contradicts its own header."""
        rate, bits = self._size_and_rate & 15, BITS[self._assignment >> 1 & 7]
        if heads.variable[0]:
            raise NotCuttable("its block size varies")
        if not self._fits(heads)[0] or heads.number[0] != 0 or bits not in {0, self.bits}:
            raise NotCuttable("its first frame is not where its header ends")
        if rate < len(RATES):
            self._coded_rate = RATES[rate]  # 0: see STREAMINFO
        else:
            given = heads.tail[0, : heads.tail_length[0]][-RATE_BYTES[rate] :].tobytes()
            self._coded_rate = int.from_bytes(given, "big") * {12: 1000, 13: 1, 14: 10}[rate]
            if not self._coded_rate:
                raise NotCuttable("its frames have a sample rate of 0")

    def _fits(self, heads: "_Heads") -> npt.NDArray[np.bool_]:
        """Which headers could belong to this stream."""
        assignment = heads.kind[:, 1] >> 4
        fits: npt.NDArray[np.bool_] = (
            heads.valid
            & ~heads.variable
            & (heads.size <= self.block)
            & (np.where(assignment < 8, assignment + 1, 2) == self.channels)  # above: mid and side
            & ((heads.kind[:, 0] ^ self._size_and_rate) & 15 == 0)
            & ((heads.kind[:, 1] ^ self._assignment) & 15 == 0)
        )
        return fits

    # reading on

    def _scan(self) -> None:
        """Read one stretch, and take the frames of which the end is certain."""
        self._fill()
        begin, end = self._offsets[-1] - self._base, self._filled
        ended = self._base + end == self._end
        count = len(self._offsets) - 1
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
        promised = self.declared == self._samples + int(sizes.sum()) and bool(len(starts))
        if promised and (ended or starts[-1] + self._longest <= end) and self._trim(starts, ends, sizes):
            fault, self._done = None, True
        elif fault is None and not ended:
            certain = starts[:-1] + self._longest <= end
            if not len(starts) or starts[-1] + self._longest <= end:
                fault = "the header of a frame is damaged or missing"
            starts, ends, sizes = starts[:-1][certain], ends[:-1][certain], sizes[:-1][certain]
        elif fault is None and self.declared != self._samples + int(sizes.sum()):
            starts, ends, sizes = self._proven(starts, ends, sizes)
            if not len(ends) or ends[-1] != end:
                fault = "the next frame is cut off or damaged"
            elif _is_sound(self._buffer[starts[-1] : end]):
                # anything else behind it might be the beginning of another
                self._trim(starts, ends, sizes)
        self._take(starts, ends, sizes, fault)
        if ended and not self._done:
            self._finish()

    def _trim(self, starts: Array, ends: Array, sizes: Array) -> bool:
        """Set the last of `ends` to where that frame ends; whether something else follows it."""
        start, end = int(starts[-1]), int(ends[-1])
        # zeros behind a frame do not change its checksum
        if _is_sound(self._buffer[start:end]) and self._buffer[end - 1]:
            return False
        table, checksum = _crc16_table()[0].tolist(), 0
        frame = self._buffer[start : min(end, start + self._longest)].tolist()
        for at, byte in enumerate(frame, start + 1):
            checksum = (checksum << 8 & 0xFFFF) ^ table[checksum >> 8 ^ byte]
            if not checksum and self._is_whole(start, at, int(sizes[-1])):
                ends[-1] = at
                return at < end
        return False

    def _fill(self) -> None:
        """Read the next bytes behind those in the buffer, and forget its older part if it is full."""
        wanted = min(self._step, self._end - self._base - self._filled)
        if self._filled + wanted > len(self._buffer) - HEADER:
            kept = 2 * self._step
            gone = self._filled - kept
            self._buffer[:kept] = self._buffer[gone : self._filled]
            self._base += gone
            self._filled = kept
        while wanted:
            self._file.seek(self._base + self._filled)
            got = self._file.readinto(self._buffer.data[self._filled : self._filled + wanted])
            if not got:
                self._end = self._base + self._filled  # the file was cut meanwhile
                break
            self._filled += got
            wanted -= got

    def _candidates(self, begin: int, end: int) -> tuple[Array, Array, Array]:
        """Where in the buffer headers of this stream stand, or seem to; their numbers and sizes."""
        words = (end - begin) // 2
        hits, odd = self._hits[:, :words]
        np.equal(self._buffer[begin : begin + 2 * words].view("<u2"), SYNC, out=hits)
        np.equal(self._buffer[begin + 1 : begin + 1 + 2 * words].view("<u2"), SYNC, out=odd)
        hits |= odd
        places = begin + 2 * np.flatnonzero(hits)
        places += self._buffer[places + 1] != SYNC >> 8
        found = []
        for first in range(0, max(len(places), 1), MANY):
            some = places[first : first + MANY]
            heads = _parse(_rows(self._buffer, some))
            good = self._fits(heads) & (some + heads.length <= end)
            found.append((some[good], heads.number[good], heads.size[good]))
        starts, numbers, sizes = (np.concatenate(column) for column in zip(*found, strict=True))
        return starts, numbers, sizes

    def _chain(self, starts: Array, numbers: Array, sizes: Array) -> tuple[list[int], int | None]:
        """Go from candidate to candidate, from the first, and decode where it is not clear which is next.

        Returns:
            Which are frames, and which stands behind the last of them but is not its follower.
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
        """Find the true last frame by decoding, where the header does not say which it is."""
        first = int(np.searchsorted(starts, self._filled - self._longest))
        for at in range(max(0, min(first, len(starts) - 1)), len(starts)):
            if not self._is_whole(starts[at], ends[at], sizes[at]):
                last = self._is_whole(starts[at], self._filled, sizes[at])
                ends[at] = self._filled
                return starts[: at + last], ends[: at + last], sizes[: at + last]
        return starts, ends, sizes

    def _is_whole(self, start: int, end: int, samples: int) -> bool:
        """Whether the bytes of the buffer from `start` to `end` hold at least one frame that decodes."""
        try:
            return len(self._decode(self._buffer[start:end], int(samples))) == samples
        except FlacError:
            return False

    def _take(self, starts: Array, ends: Array, sizes: Array, fault: str | None) -> None:
        """Add frames to the index, as far as their checksums are right."""
        if len(starts) and not _is_sound(self._buffer[starts[0] : ends[-1]]):
            bad = bisect_left(ends, 1, key=lambda end: not _is_sound(self._buffer[starts[0] : end]))
            starts, ends, sizes = starts[:bad], ends[:bad], sizes[:bad]
            fault = "the next frame is damaged"
        self._offsets.frombytes((ends + self._base).astype(np.int64).tobytes())
        self._samples += int(sizes.sum())
        if fault is not None:
            self._finish(fault)

    def _finish(self, fault: str | None = None) -> None:
        """Nothing more can be read; keep what is wrong for who asks for more."""
        self._done = True
        declared = "" if self.declared is None else f" of {self.declared}"
        if fault is not None:
            fault = f"only {self._samples}{declared} samples are whole: {fault}"
        elif self.declared is not None and self._samples < self.declared:
            fault = f"it ends after {self._samples}{declared} samples"
        elif self.declared is not None and self._samples > self.declared:
            fault = f"it holds {self._samples} samples, but its header says {self.declared}"
        if fault is not None:
            self._fault = FlacError(fault, self._samples)

    def _pread(self, begin: int, length: int) -> bytes:
        """Read from anywhere in the file, less than `length` only at its end."""
        parts = []
        while length and (part := os.pread(self._file.fileno(), length, begin)):
            parts.append(part)
            begin, length = begin + len(part), length - len(part)
        return b"".join(parts)

    # cutting

    def _frames(self, first: int, last: int) -> "_Frames":
        """The frames [first, last), from memory if they are still there."""
        offsets = np.frombuffer(self._offsets[first : last + 1], np.int64)
        begin, end = int(offsets[0]), int(offsets[-1])
        if self._base <= begin:
            data = self._buffer[begin - self._base : end - self._base]
        else:
            data = np.frombuffer(self._pread(begin, end - begin), np.uint8)
            if len(data) < end - begin:
                raise FlacError("the file was cut while it was read", self._samples)
        samples = np.full(last - first, self.block)
        samples[-1] = min(self.block, self._samples - (last - 1) * self.block)
        return _Frames(data, offsets - begin, samples)

    def _runs(
        self, head: list["_Frames"], first: int, last: int, tail: list["_Frames"]
    ) -> Iterator[list["_Frames"]]:
        """All frames of a cut, as many at a time as memory should hold."""
        run = list(head)
        while first < last:
            most = min(first + MANY, last)
            following = bisect_right(self._offsets, self._offsets[first] + SEGMENT, first + 2, most + 1) - 1
            run.append(self._frames(first, following))
            first = following
            if first < last:
                yield run
                run = []
        yield run + tail

    def _encoded(self, start: int, stop: int) -> list["_Frames"]:
        """The samples [start, stop), encoded in frames that a stream of any block size may hold."""
        import soundfile

        if start == stop:
            return []
        block = self.block
        parts = [
            self._block(number)[max(start - number * block, 0) : stop - number * block]
            for number in range(start // block, -(-stop // block))
        ]
        frames = []
        for piece in np.array_split(np.concatenate(parts), -(-(stop - start) // ENCODED_BLOCK)):
            stream = io.BytesIO()
            rate = self._coded_rate or OTHER_RATE
            soundfile.write(stream, piece, rate, SUBTYPES[self.bits], format="FLAC")
            encoded = np.frombuffer(stream.getbuffer(), np.uint8)
            offsets = np.array([_metadata_end(encoded), len(encoded)])
            frames.append(_Frames(encoded, offsets, np.array([len(piece)])))
        return frames

    def _block(self, number: int) -> npt.NDArray[np.int32]:
        """The samples of a frame; neighbouring cuts ask for the same one."""
        if self._decoded is None or self._decoded[0] != number:
            frames = self._frames(number, number + 1)
            self._decoded = number, self._decode(frames.data, int(frames.samples[0]))
        return self._decoded[1]

    def _decode(self, frame: Array, samples: int) -> npt.NDArray[np.int32]:
        """Decode one frame, by way of a file that holds no other."""
        import soundfile

        file = io.BytesIO(self._header(self.block, self.block, samples, NO_MD5) + frame.tobytes())
        try:
            with soundfile.SoundFile(file) as sound:
                decoded: npt.NDArray[np.int32] = sound.read(samples, dtype="int32", always_2d=True)
        except soundfile.SoundFileError as error:
            raise FlacError(f"a frame does not decode: {error}", self._samples) from error
        return decoded

    def _header(self, smallest: int, largest: int, samples: int, md5: bytes) -> bytes:
        """What stands before the first frame; the sizes of frames are left out, as the format allows."""
        sizes = max(smallest, SMALLEST_BLOCK) << 16 | max(largest, SMALLEST_BLOCK)
        packed = self.rate << 44 | (self.channels - 1) << 41 | (self.bits - 1) << 36 | samples
        return b"fLaC\x80\0\0\x22" + sizes.to_bytes(4, "big") + bytes(6) + packed.to_bytes(8, "big") + md5

    def _renumbered(self, run: list["_Frames"], numbers: Array, *, variable: bool) -> bytes:
        """Frames with other numbers, one behind the other."""
        heads = _parse(np.concatenate([_rows(frames.data, frames.offsets[:-1]) for frames in run]))
        heads.kind[:, 1] = heads.kind[:, 1] & 0xF0 | self._assignment & 0x0F
        if not self._coded_rate:
            heads.kind[:, 0] &= 0xF0
        rows, lengths = _build(heads, numbers, variable=variable)

        # The old header goes out of a checksum and the new one in: one difference, moved to the frame's end.
        footers = np.concatenate([_footers(frames) for frames in run])
        between = np.concatenate([np.diff(frames.offsets) for frames in run]) - heads.length - 2
        old = _checksums(_crc16_table(), heads.rows, heads.length)
        new = _checksums(_crc16_table(), rows, lengths)
        footers ^= _moved(old ^ new, between)

        # The end of each frame and the header of the next are neighbours in what is written.
        joints = np.zeros((len(rows) + 1, 2 + HEADER), np.uint8)
        joints[1:, :2] = footers.astype(">u2").view(np.uint8).reshape(-1, 2)
        joints[:-1, 2:] = rows
        begins = np.arange(len(joints)) * joints.shape[1]
        ends = begins + 2
        ends[:-1] += lengths
        begins[0] += 2
        parts: list[memoryview] = [memoryview(b"")] * (2 * len(rows) + 1)
        parts[::2] = _slices(joints.reshape(-1), begins, ends)
        bodies = []
        at = 0
        for frames in run:
            count = len(frames.samples)
            begins = frames.offsets[:-1] + heads.length[at : at + count]
            bodies += _slices(frames.data, begins, frames.offsets[1:] - 2)
            at += count
        parts[1::2] = bodies
        return b"".join(parts)


class _Frames(NamedTuple):
    """Frames one behind the other in `data`: where each begins and the last ends; the samples in each."""

    data: Array
    offsets: Array
    samples: Array


class _Heads(NamedTuple):
    """Frame headers, one a row.

    Attributes:
        rows: Their bytes, and what follows, HEADER columns.
        valid: Whether it is one.
        variable: Whether the numbers count samples.
        kind: The third and fourth byte: codes of size and rate, of channels and depth.
        number: Of the frame, or of its first sample.
        tail: What stands between number and CRC: size and rate, if the codes say so; padded with zeros.
        tail_length: How many bytes that are.
        size: Samples per channel.
        length: Of the header, in bytes.
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


def _rows(data: Array, starts: Array) -> Array:
    """The bytes from each start on, as many as a header may have."""
    rows: Array = data.take(starts[:, None] + COLUMNS, mode="clip")
    return rows


def _parse(rows: Array) -> _Heads:
    """Read frame headers; what is none is marked so."""
    size_code, rate_code = rows[:, 2] >> 4, rows[:, 2] & 15
    coded = CODED_BYTES[rows[:, 4]]
    valid = (rows[:, 0] == 0xFF) & (rows[:, 1] & 0xFE == 0xF8) & KINDS[rows[:, 2], rows[:, 3]] & (coded > 0)
    number = rows[:, 4] & LEAD_BITS[coded]
    for place in range(1, max(coded, default=0)):
        byte = rows[:, 4 + place].astype(np.int64)
        number = np.where(place < coded, number << 6 | byte & 0x3F, number)
        valid &= (place >= coded) | (byte & 0xC0 == 0x80)
    tail_length = SIZE_BYTES[size_code] + RATE_BYTES[rate_code]
    tail = np.take_along_axis(rows, (4 + coded)[:, None] + COLUMNS[:4], axis=1)
    tail[COLUMNS[:4] >= tail_length[:, None]] = 0
    first = tail[:, 0].astype(np.int64)
    size = BLOCK_SIZES[size_code]
    size = np.where(size_code == 6, first + 1, size)
    size = np.where(size_code == 7, (first << 8 | tail[:, 1]) + 1, size)
    length = 5 + coded + tail_length
    valid &= _checksums(_crc8_table(), rows, length) == 0
    variable = rows[:, 1] & 1 == 1
    return _Heads(rows, valid, variable, rows[:, 2:4].copy(), number, tail, tail_length, size, length)


def _build(heads: _Heads, numbers: Array, *, variable: bool) -> tuple[Array, Array]:
    """Make headers like these with other numbers: their bytes as rows, and their lengths."""
    each = np.arange(len(numbers))
    rows = np.zeros((len(numbers), HEADER), np.uint8)
    rows[:, 0] = 0xFF
    rows[:, 1] = 0xF9 if variable else 0xF8
    rows[:, 2:4] = heads.kind
    coded = 1 + np.searchsorted(LARGEST_CODED, numbers)
    rows[:, 4] = LEAD_MARKS[coded] | numbers >> 6 * (coded - 1)
    for place in range(1, max(coded)):
        shift = 6 * np.maximum(coded - 1 - place, 0)
        rows[:, 4 + place] = np.where(place < coded, 0x80 | numbers >> shift & 0x3F, 0)
    for place in range(max(heads.tail_length)):
        rows[each, 4 + coded + place] = heads.tail[:, place]
    length = 5 + coded + heads.tail_length
    rows[each, length - 1] = _checksums(_crc8_table(), rows, length - 1)
    return rows, length


def _footers(frames: _Frames) -> Array:
    """The CRC-16 at the end of each frame."""
    high, low = (frames.data[frames.offsets[1:] - back].astype(np.uint16) for back in (2, 1))
    footers: Array = high << 8 | low
    return footers


def _slices(data: Array, begins: Array, ends: Array) -> list[memoryview]:
    """Parts of the data, not copied."""
    view = data.data
    return [view[begin:end] for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)]


def _metadata_end(data: Array) -> int:
    """Where the first frame begins in a FLAC file that libsndfile wrote."""
    at, last = 4, False
    while not last:
        last = bool(data[at] & 0x80)
        at += 4 + int.from_bytes(data[at + 1 : at + 4].tobytes(), "big")
    return at


# checksums


def _checksums(table: Array, rows: Array, lengths: Array) -> Array:
    """The CRC of the first bytes of each row: of a byte it depends on how many bytes follow."""
    following = np.maximum(lengths[:, None] - 1 - COLUMNS, -1)
    checksums: Array = np.bitwise_xor.reduce(table[following, rows], axis=1)
    return checksums


def _table(polynomial: int, bits: int) -> Array:
    """By the number of bytes that follow (last of all: the byte does not count), and by the byte."""
    top = 1 << bits
    table = np.zeros((HEADER + 1, 256), np.uint8 if bits == 8 else np.uint16)
    crcs = np.arange(256) << bits - 8
    for row in range(HEADER):
        for _ in range(8):
            crcs = crcs << 1 ^ np.where(crcs & top >> 1, polynomial | top, 0)
        table[row] = crcs
    return table


@cache
def _crc8_table() -> Array:
    return _table(0x07, 8)


@cache
def _crc16_table() -> Array:
    return _table(0x8005, 16)


@cache
def _powers() -> Array:
    """x^i modulo the polynomial of CRC-16, for i below ORDER."""
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
    """(x + 1) x^i modulo the polynomial of CRC-16, and for each of these its i."""
    powers = _powers()
    multiples = powers ^ np.roll(powers, -1)
    logarithms = np.zeros(1 << 16, np.int64)
    logarithms[multiples] = np.arange(ORDER)
    return multiples, logarithms


def _moved(differences: Array, count: Array) -> Array:
    """What differences of two checksums of headers become when `count` more bytes follow.

    The polynomial of CRC-8 is a multiple of x + 1, as is that of CRC-16. So is then a header with its CRC-8,
    and the difference of two. All of these but zero are of the form (x + 1) x^i: multiplying is adding.
    """
    multiples, logarithms = _logarithms()
    moved: Array = np.where(differences, multiples[(logarithms[differences] + 8 * count) % ORDER], 0)
    return moved


def _is_sound(data: Array) -> bool:
    """Whether frames one behind the other have the CRC-16 zero, each with its own behind it."""
    rest = len(data) % ORDER
    folded = np.zeros(ORDER, np.uint8)
    if rest < len(data):
        folded = np.bitwise_xor.reduce(data[rest:].reshape(-1, ORDER), axis=0)
    folded[ORDER - rest :] ^= data[:rest]
    # Bits fold as bytes do.
    bits = np.bitwise_xor.reduce(np.unpackbits(folded).reshape(8, ORDER), axis=0)
    return not np.bitwise_xor.reduce(_powers()[::-1] * bits)
