"""Cut MP3 by copying frames: a piece is decoded to the same samples as that part of the recording.

    recording |  k-3  |  k-2  |  k-1  |   k   |  k+1  |  k+2  |    each of 1152 samples (MPEG 2: 576)
    cut                                  [====|=======|===]
    written     | Info | filler |  k-1  |   k   |  k+1  |  k+2  |
                   |       |        |
                   |       |        preroll: what a decoder remembers when it comes to frame k
                   |       no sound; it ends with those bytes of frame k-2 that k-1 refers to (bit reservoir)
                   how many samples to leave out at the start and at the end

Decoders leave out `delay + 529` samples at the start and `padding - 529` at the end; 529 is their own delay.
This also holds for what a recording states: its sample 0 is the first that is not left out.
"""

from typing import BinaryIO

from splitter.audio.formats.mp3.index import Mp3Index
from splitter.audio.formats.mp3.layout import HEADER_BYTES
from splitter.audio.formats.mp3.tag import LATE, MOST_LEFT_OUT, info_frame

# bytes copied at a time
COPY_AT_ONCE = 1 << 20
# with fewer, ffmpeg may take the file for something else
LEAST_FRAMES = 7


class Mp3Source(Mp3Index):
    """An MP3 file to cut from. Cuts may overlap, and come in any order."""

    def is_within_a_frame(self, start: int, stop: int) -> bool:
        """Return whether all samples are in one frame: ffmpeg cannot drop samples at both ends of a frame."""
        samples = self.layout.samples
        return (start + self.left_out) // samples == (stop - 1 + self.left_out) // samples

    def cut(self, start: int, stop: int, file: BinaryIO) -> None:
        """Write an MP3 file of the samples [start, stop)."""
        if not 0 <= start < stop <= self.samples:
            raise ValueError(f"[{start}, {stop}) is not a part of a recording of {self.samples} samples")
        layout, samples = self.layout, self.layout.samples
        start, stop = start + self.left_out, stop + self.left_out
        first, last = start // samples, -(-stop // samples)
        # before the first frame there is silence
        copied = max(0, first - layout.preroll)
        at, end = self.offset_of(copied), self.offset_of(last)
        header = self.read(at, at + HEADER_BYTES + 2)
        silent = layout.silent(header)
        head = self._filler(copied, header) + silent * (layout.preroll - first + copied)
        before = 1 + layout.preroll
        padding = LATE + last * samples - stop
        room = (MOST_LEFT_OUT - padding) // samples
        more = max(0, min(LEAST_FRAMES - 1 - before - (last - first), room))
        tail = silent * more
        anchors = [
            (before + number - first, len(head) + offset - at)
            for number, offset in [*self.offsets_between(copied, last), (last, end)]
        ]
        if more:
            anchors.append((anchors[-1][0] + more, anchors[-1][1] + len(tail)))
        info = info_frame(
            layout,
            header,
            constant=self.is_constant,
            delay=before * samples + start % samples - LATE,
            padding=padding + more * samples,
            anchors=anchors,
        )
        file.write(info + head)
        file.writelines(
            self.read(block, min(block + COPY_AT_ONCE, end)) for block in range(at, end, COPY_AT_ONCE)
        )
        file.write(tail)

    def _filler(self, number: int, header: bytes) -> bytes:
        """Return a frame without sound whose main data ends with the earlier data that a frame uses."""
        needed = self.layout.begin(header)
        filler = bytearray(self.layout.silent(header, needed))
        found = b""
        while len(found) < needed:
            number -= 1
            found = self.read(self.offset_of(number) + self.layout.head, self.offset_of(number + 1)) + found
        filler[len(filler) - needed :] = found[len(found) - needed :]
        return bytes(filler)
