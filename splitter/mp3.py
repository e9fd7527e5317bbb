"""MP3 as it really is: the frames are counted, since every third file states a wrong number of them."""

import mmap
import os
import struct
import threading
from collections.abc import Iterator

# kbit/s by the code in a frame's header, for layer III of MPEG 1, and of MPEG 2 and 2.5
_BITRATES = (
    (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 0),
    (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160, 0),
)
_RATES = (44100, 48000, 32000, 0)
_MPEG1, _MPEG2, _NO_VERSION = 3, 2, 1
_HEADER_BYTES, _TAG_BYTES = 4, 10
# what all frames of a file have in common: version, layer and rate
_IN_COMMON = 0xFFFE0C00
_TAGS = (b"TAG", b"APE", b"ID3")
_STATES_FRAMES, _HAS_FOOTER = 1, 0x10
_SEND_AT_ONCE = 1 << 18


class CountedMp3:
    """An MP3 file to be read from a pipe, whose first frame is made to state no less than what is there.

    libsndfile reads from a file only as many samples as that frame states, or as it guesses without one;
    from a pipe it reads to the end, and still knows from that frame what the encoder has added at both ends.
    If fewer frames are there than it states, the end is missing, and with it what was added there.

    Attributes:
        frames: How many frames of sound there are; None if nothing needs to be counted.
    """

    def __init__(self, path: str) -> None:
        """Look at the frames of a file."""
        self._path = path
        self._start = self._stated_at = 0
        self.frames: int | None = None
        with open(path, "rb") as file:
            if os.fstat(file.fileno()).st_size > _HEADER_BYTES:
                with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                    self._look_at(content)

    def _look_at(self, content: mmap.mmap) -> None:
        frames = _frames(content)
        self._start = next(frames, 0)
        self._stated_at = _states_frames_at(content, self._start)
        if self._stated_at:
            stated = int.from_bytes(content[self._stated_at : self._stated_at + 4], "big")
            self.frames = max(stated, sum(1 for _ in frames))

    def open(self) -> int:
        """A descriptor to read the file from; a thread feeds it until it is closed."""
        reader, writer = os.pipe()
        threading.Thread(target=self._feed, args=(writer,), daemon=True).start()
        return reader

    def _feed(self, writer: int) -> None:
        try:
            with open(self._path, "rb") as file:
                # tags come before the start, and pictures in them may look like frames
                file.seek(self._start)
                if self.frames is not None:
                    _send(writer, file.read(self._stated_at - self._start) + struct.pack(">I", self.frames))
                    file.seek(self._stated_at + 4)
                while block := file.read(_SEND_AT_ONCE):
                    _send(writer, block)
        except OSError:
            # the reader has closed its end; if the file cannot be read, what it gets is cut short
            pass
        finally:
            os.close(writer)


def _send(writer: int, block: bytes) -> None:
    rest = memoryview(block)
    while rest:
        rest = rest[os.write(writer, rest) :]


def _frames(content: mmap.mmap) -> Iterator[int]:
    """Where each whole frame starts."""
    at = _next_frame(content, _after_tags(content))
    like = _common(content, at)
    while at >= 0:
        size = frame_bytes(content[at : at + _HEADER_BYTES])
        if size and _common(content, at) == like:
            if at + size <= len(content):
                yield at
            at += size
        else:
            at = _next_frame(content, at + 1, like)


def _next_frame(content: mmap.mmap, at: int, like: int | None = None) -> int:
    """The next place where a frame starts, with another one or the end behind it; -1 if there is none."""
    while (at := content.find(b"\xff", at)) >= 0:
        size = frame_bytes(content[at : at + _HEADER_BYTES])
        common = _common(content, at)
        if size and like in (None, common) and _may_follow(content, at + size, common):
            return at
        at += 1
    return -1


def _may_follow(content: mmap.mmap, at: int, common: int) -> bool:
    """Whether a frame may end here: where another one starts, or a tag, or at the end of the file."""
    return at == len(content) or content[at : at + 3] in _TAGS or _common(content, at) == common


def _common(content: mmap.mmap, at: int) -> int:
    """What the header of a frame has in common with all others of its file."""
    return int.from_bytes(content[at : at + _HEADER_BYTES], "big") & _IN_COMMON


def _after_tags(content: mmap.mmap) -> int:
    """Where the sound starts, behind ID3 tags."""
    at = 0
    while content[at : at + 3] == b"ID3" and at + _TAG_BYTES <= len(content):
        head = content[at : at + _TAG_BYTES]
        footer = _TAG_BYTES if head[5] & _HAS_FOOTER else 0
        at += _TAG_BYTES + (head[6] << 21 | head[7] << 14 | head[8] << 7 | head[9]) + footer
    return at


def _states_frames_at(content: mmap.mmap, at: int) -> int:
    """Where a first frame that holds no sound states the number of frames; 0 if it is not such a frame."""
    for name in (b"Xing", b"Info"):
        tag = content.find(name, at, at + 64)
        if 0 < tag <= len(content) - 12 and content[tag + 7] & _STATES_FRAMES:
            return tag + 8
    return 0


def frame_bytes(header: bytes) -> int:
    """The length of the frame that starts with these four bytes; 0 if none does."""
    if len(header) < _HEADER_BYTES or header[0] != 0xFF or header[1] & 0xE6 != 0xE2:  # noqa: PLR2004
        # not eleven bits of sync and then layer III
        return 0
    version, low = header[1] >> 3 & 3, header[1] >> 3 & 3 != _MPEG1
    rate = _RATES[header[2] >> 2 & 3] >> (0 if not low else 1 if version == _MPEG2 else 2)
    bitrate = _BITRATES[low][header[2] >> 4]
    if not rate or not bitrate or version == _NO_VERSION:
        return 0
    return (72 if low else 144) * bitrate * 1000 // rate + (header[2] >> 1 & 1)
