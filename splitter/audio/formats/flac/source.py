"""Cut FLAC files by copying whole frames: sound is decoded and encoded only at the two ends of a cut.

    source    | frame 0 | frame 1 | frame 2 | frame 3 | frame 4 |     each of `block` samples, but the last
    cut            [====|=========|=========|===]
    written        | new| frame 1 | frame 2 |new|

A frame begins with a header: a sync code, how its samples are stored, its number, a CRC-8. It ends with a
CRC-16. In a copied frame, only the number and the two CRCs change. The frames at the ends of a cut are
decoded, and the samples that belong to the cut are encoded again.

A cut that begins where a frame begins is again a stream of blocks of one size, whose frames are counted. Any
other cut has a first block of another size, so its headers state the number of their first sample instead
(the "variable block size" of the format).
"""

import io
import os
from bisect import bisect_right
from collections.abc import Iterator
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from splitter.audio.formats.flac.checksums import HEADER, Array, checksums, moved_on
from splitter.audio.formats.flac.frames import Frames, built, footers_of, header_rows, parsed, slices_of
from splitter.audio.formats.flac.stream import NO_MD5, SMALLEST_BLOCK, SUBTYPES, FlacStream

SEGMENT = 1 << 22  # bytes of frames written at a time
MANY = 1 << 13  # frames written at a time: those of silence are so short that memory would grow otherwise
ENCODED_BLOCK = 4096  # the most samples that libsndfile puts into one frame
OTHER_RATE = 48000  # to encode with, if frames do not state their rate


class FlacSource(FlacStream):
    """A FLAC file to cut from.

    Cuts may overlap, and come in any order; those that follow each other find what they need in memory.
    """

    def __init__(self, path: str | bytes | os.PathLike[str]) -> None:
        super().__init__(path)
        self._decoded: tuple[int, Array] | None = None

    def cut(self, start: int, stop: int, file: BinaryIO) -> None:
        """Write a FLAC file of the samples [start, stop).

        Raises:
            FlacError: There is a fault before `stop`; nothing is written.
        """
        if not 0 <= start < stop:
            raise ValueError(f"[{start}, {stop}) is not a part of a recording")
        if self.reach(stop) < stop:
            raise ValueError(f"the recording ends before sample {stop}: it has {self.samples}")
        whole_start, whole_stop = self._whole(start, stop)
        first, last = -(-whole_start // self.block), -(-whole_stop // self.block)
        head, tail = self._encoded(start, whole_start), self._encoded(whole_stop, stop)
        sizes = [int(frames.samples[0]) for frames in head]
        if first < last:
            # the frames between the first and the last all have the same size
            sizes += [self.block] * min(last - first - 1, 1) + [
                min(self.block, stop - (last - 1) * self.block)
            ]
        sizes += [int(frames.samples[0]) for frames in tail]
        counted = all(size == sizes[0] for size in sizes[:-1]) and sizes[-1] <= sizes[0]
        if len(sizes) == 1:
            sizes = [max(self.block, *sizes)]
        md5 = self.md5 if start == 0 and stop == self.declared else NO_MD5
        file.write(self.header_of(min(sizes[:-1], default=sizes[0]), max(sizes), stop - start, md5))

        number = position = 0
        for run in self._runs(head, first, last, tail):
            samples = np.concatenate([frames.samples for frames in run])
            numbers = number + np.arange(len(samples)) if counted else position + np.cumsum(samples) - samples
            file.write(self._renumbered(run, numbers, variable=not counted))
            number += len(samples)
            position += int(samples.sum())

    def _whole(self, start: int, stop: int) -> tuple[int, int]:
        """Return the bounds of the whole frames of a cut, which are copied; the rest is encoded."""
        block = self.block
        whole_start, whole_stop = start, stop
        if start % block:
            whole_start = min(stop, start - start % block + block)
            if whole_start - start < SMALLEST_BLOCK:
                whole_start = min(stop, whole_start + block)
        if stop % block and not (self.is_read and stop == self.samples):
            whole_stop = max(whole_start, stop - stop % block)
        return whole_start, whole_stop

    def _runs(self, head: list[Frames], first: int, last: int, tail: list[Frames]) -> Iterator[list[Frames]]:
        """Yield all frames of a cut, as many at a time as memory should hold."""
        run = list(head)
        while first < last:
            most = min(first + MANY, last)
            following = bisect_right(self.offsets, self.offsets[first] + SEGMENT, first + 2, most + 1) - 1
            run.append(self.frames(first, following))
            first = following
            if first < last:
                yield run
                run = []
        yield run + tail

    def _encoded(self, start: int, stop: int) -> list[Frames]:
        """Return the samples [start, stop), encoded in frames that a stream of any block size may hold."""
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
            rate = self.coded_rate or OTHER_RATE
            soundfile.write(stream, piece, rate, SUBTYPES[self.bits], format="FLAC")
            encoded = np.frombuffer(stream.getbuffer(), np.uint8)
            offsets = np.array([_metadata_end(encoded), len(encoded)])
            frames.append(Frames(encoded, offsets, np.array([len(piece)])))
        return frames

    def _block(self, number: int) -> npt.NDArray[np.int32]:
        """Return the samples of a frame; they are kept, since two adjacent cuts need the same frame."""
        if self._decoded is None or self._decoded[0] != number:
            frames = self.frames(number, number + 1)
            self._decoded = number, self.decoded(frames.data, int(frames.samples[0]))
        return self._decoded[1]

    def _renumbered(self, run: list[Frames], numbers: Array, *, variable: bool) -> bytes:
        """Return the bytes of frames with other numbers."""
        heads = parsed(np.concatenate([header_rows(frames.data, frames.offsets[:-1]) for frames in run]))
        heads.kind[:, 1] = heads.kind[:, 1] & 0xF0 | self.assignment & 0x0F
        if not self.coded_rate:
            heads.kind[:, 0] &= 0xF0
        rows, lengths = built(heads, numbers, variable=variable)

        # To replace the header in a checksum, XOR it with the difference of both, moved to the frame's end.
        footers = np.concatenate([footers_of(frames) for frames in run])
        between = np.concatenate([np.diff(frames.offsets) for frames in run]) - heads.length - 2
        old = checksums(16, heads.rows, heads.length)
        new = checksums(16, rows, lengths)
        footers ^= moved_on(old ^ new, between)

        # The end of each frame is written together with the header of the next.
        joints = np.zeros((len(rows) + 1, 2 + HEADER), np.uint8)
        joints[1:, :2] = footers.astype(">u2").view(np.uint8).reshape(-1, 2)
        joints[:-1, 2:] = rows
        begins = np.arange(len(joints)) * joints.shape[1]
        ends = begins + 2
        ends[:-1] += lengths
        begins[0] += 2
        parts: list[memoryview] = [memoryview(b"")] * (2 * len(rows) + 1)
        parts[::2] = slices_of(joints.reshape(-1), begins, ends)
        bodies = []
        at = 0
        for frames in run:
            count = len(frames.samples)
            begins = frames.offsets[:-1] + heads.length[at : at + count]
            bodies += slices_of(frames.data, begins, frames.offsets[1:] - 2)
            at += count
        parts[1::2] = bodies
        return b"".join(parts)


def _metadata_end(data: Array) -> int:
    """Return where the first frame begins in a FLAC file that libsndfile wrote."""
    at, last = 4, False
    while not last:
        last = bool(data[at] & 0x80)
        at += 4 + int.from_bytes(data[at + 1 : at + 4].tobytes(), "big")
    return at
