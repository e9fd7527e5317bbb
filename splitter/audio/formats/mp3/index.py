"""Find where each frame of an MP3 file is, and whether pieces can be made of the frames.

They can if all frames follow each other, are of one kind, have no checksums, and refer only to data that
exists and that no other frame uses. An hour has 137,000 frames; the offsets of 2,000 are kept.
"""

from array import array
from functools import lru_cache
from mmap import mmap
from typing import BinaryIO

import numpy as np

from splitter.audio.formats.mp3.counted import TAGS, CountedMp3
from splitter.audio.formats.mp3.layout import HEADER_BYTES, Bytes, FrameLayout, frames_from
from splitter.errors import InputError

# only the offset of every 64th frame is kept
STRIDE = 64
_UNPROTECTED = 1


class Mp3Index(CountedMp3):
    """The frames of an MP3 file, by number; a first frame without sound has no number.

    Attributes:
        cuttable: Whether pieces can be made of them.
        layout: What they have in common.
        is_constant: Whether they all have the same bit rate.
    """

    layout: FrameLayout

    def __init__(self, path: str) -> None:
        self.cuttable, self.is_constant = True, True
        self._tagged, self._seen = False, 0
        self._kept = array("q")
        # bytes of main data so far, and how many bits of it frames have used
        self._main = self._taken = 0
        self._code: int | None = None
        super().__init__(path)
        self.cuttable = (
            self.cuttable and self.samples > 0 and not self.changes and self._tagged == self.is_tagged
        )
        self.end = self.runs[-1][1] if self.runs else 0
        self._file: BinaryIO = open(path, "rb", buffering=0)  # noqa: SIM115 - closed by close()
        self._path = path
        self._group = lru_cache(maxsize=4)(self._offsets_of_group)

    def note(self, content: mmap, offsets: "array[int]") -> None:
        """Check the next frames, and keep some of their offsets."""
        self.cuttable = self.cuttable and len(self.runs) == 1
        if not self.cuttable or not offsets:
            return
        if not hasattr(self, "layout"):
            header = content[offsets[0] : offsets[0] + HEADER_BYTES]
            self.layout = FrameLayout.of(header)
            self.cuttable = bool(header[1] & _UNPROTECTED)
            at = offsets[0] + self.layout.head
            self._tagged = content[at : at + 4] in TAGS
            if self._tagged:
                del offsets[0]
        self._kept.extend(offsets[-self._seen % STRIDE :: STRIDE])
        self._seen += len(offsets)
        if offsets and self.cuttable:
            self.cuttable = self._are_whole(np.frombuffer(content, np.uint8), np.array(offsets))

    def _are_whole(self, data: Bytes, offsets: np.ndarray) -> bool:
        """Return whether frames are of the first one's kind, and use existing data that no other uses."""
        layout = self.layout
        codes = data[offsets + 2]
        if self._code is None:
            self._code = int(codes[0] >> 4)
        self.is_constant = self.is_constant and bool((codes >> 4 == self._code).all())
        main = layout.sizes[codes] - layout.head
        begins, bits, valid = layout.side_information(data, offsets)
        ends = self._main + np.cumsum(main)
        first = (ends - main - begins) * 8
        last = first + bits
        before = np.concatenate(([self._taken], last[:-1]))
        self._main, self._taken = int(ends[-1]), int(last[-1])
        alike = (data[offsets + 1] == layout.start[1]).all()
        return bool(alike and valid.all() and (first >= before).all() and (last <= ends * 8).all())

    def offset_of(self, number: int) -> int:
        """Return where a frame begins; for the number after the last one, where the last one ends."""
        if number == self.frames:
            return self.end
        group, index = divmod(number, STRIDE)
        return self._group(group)[index]

    def _offsets_of_group(self, group: int) -> list[int]:
        """Return the offsets of the frames from one whose offset is kept to before the next."""
        start = self._kept[group]
        end = self._kept[group + 1] if group + 1 < len(self._kept) else self.end
        content = self.read(start, end)
        offsets, after = frames_from(content, 0, self.layout.kind, len(content))
        if after != len(content):
            raise InputError(f"{self._path}: has changed while it was read")
        return [start + offset for offset in offsets]

    def offsets_between(self, first: int, last: int) -> list[tuple[int, int]]:
        """Return the frames in [first, last) whose offsets are kept, with these offsets."""
        groups = range(-(-first // STRIDE), -(-last // STRIDE))
        return [(group * STRIDE, self._kept[group]) for group in groups]

    def read(self, at: int, end: int) -> bytes:
        """Return the bytes [at, end) of the file."""
        self._file.seek(at)
        content = self._file.read(end - at)
        if len(content) != end - at:
            raise InputError(f"{self._path}: became shorter while it was read")
        return content

    def close(self) -> None:
        """Close the file."""
        self._file.close()
