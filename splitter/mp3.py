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
_STATES_FRAMES = 1
_SEND_AT_ONCE = 1 << 18


class CountedMp3:
    """An MP3 file to be read from a pipe, whose first frame is made to state the true number of frames.

    libsndfile reads from a file only as many samples as that frame states, or as it guesses without one;
    from a pipe it reads to the end, and still knows from that frame what the encoder has added at both ends.
    """

    def __init__(self, path: str) -> None:
        """Count the frames of a file."""
        self._path = path
        self._stated_at, self.frames = _count(path)

    def open(self) -> int:
        """A descriptor to read the file from; a thread feeds it until it is closed."""
        reader, writer = os.pipe()
        threading.Thread(target=self._feed, args=(writer,), daemon=True).start()
        return reader

    def _feed(self, writer: int) -> None:
        try:
            with open(self._path, "rb") as file:
                if self._stated_at:
                    _send(writer, file.read(self._stated_at) + struct.pack(">I", self.frames))
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


def _count(path: str) -> tuple[int, int]:
    """The place where the first frame states a number of frames, or 0; and how many frames of sound there are."""
    stated_at = count = 0
    with open(path, "rb") as file:
        if os.fstat(file.fileno()).st_size <= _HEADER_BYTES:
            return 0, 0
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            for at in _frames(content):
                if not count and not stated_at:
                    stated_at = _states_frames_at(content, at)
                    count = 0 if stated_at else 1
                else:
                    count += 1
    return stated_at, count


def _frames(content: mmap.mmap) -> Iterator[int]:
    """Where each frame starts."""
    at, last = _after_tag(content), len(content) - _HEADER_BYTES
    while 0 <= at <= last:
        size = frame_bytes(content[at : at + _HEADER_BYTES])
        if size:
            yield at
            at += size
        else:
            at = content.find(b"\xff", at + 1)


def _after_tag(content: mmap.mmap) -> int:
    """Where the sound starts, behind an ID3 tag."""
    start = content[:_TAG_BYTES]
    if start[:3] != b"ID3" or len(start) < _TAG_BYTES:
        return 0
    return _TAG_BYTES + (start[6] << 21 | start[7] << 14 | start[8] << 7 | start[9])


def _states_frames_at(content: mmap.mmap, at: int) -> int:
    """Where a first frame that holds no sound states the number of frames; 0 if it is not such a frame."""
    for name in (b"Xing", b"Info"):
        tag = content.find(name, at, at + 64)
        if tag > 0 and content[tag + 7] & _STATES_FRAMES:
            return tag + 8
    return 0


def frame_bytes(header: bytes) -> int:
    """The length of the frame that starts with these four bytes; 0 if none does."""
    if header[0] != 0xFF or header[1] & 0xE6 != 0xE2:  # noqa: PLR2004 - eleven bits of sync, and layer III
        return 0
    version, low = header[1] >> 3 & 3, header[1] >> 3 & 3 != _MPEG1
    rate = _RATES[header[2] >> 2 & 3] >> (0 if not low else 1 if version == _MPEG2 else 2)
    bitrate = _BITRATES[low][header[2] >> 4]
    if not rate or not bitrate or version == _NO_VERSION:
        return 0
    return (72 if low else 144) * bitrate * 1000 // rate + (header[2] >> 1 & 1)
