"""Count the frames of an MP3 file, since every third file states a wrong number of them.

| ID3 | frame without sound: how many frames follow, what to leave out | frame | frame | ... | frame | TAG |
"""

import fcntl
import io
import mmap
import os
import re
import select
import struct
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from splitter.audio.formats.mp3.layout import HEADER_BYTES, MPEG1, FrameLayout, frame, frames_from
from splitter.audio.formats.mp3.tag import LATE

if TYPE_CHECKING:
    from array import array

_TAG_BYTES = 10
END_TAGS = (b"TAG", b"APE", b"ID3")
_HAS_FOOTER = 0x10
# the first bytes of the tag that LAME and others put into the first frame
TAGS = (b"Info", b"Xing")
_STATES_FRAMES, _STATES_BYTES, _STATES_PLACES, _STATES_QUALITY = 1, 2, 4, 8
# Fraunhofer's tag is in a frame of silence, always at the same offset
_VBRI, _VBRI_AT = b"VBRI", 36
_UNKNOWN = (1 << 32) - 1
# the extension of LAME and others, and where it states what they added at both ends
_EXTENSION_BYTES, _ADDED_AT = 24, 21
# between the header of a frame and its side information, if it has one
_CHECKSUM_BYTES = 2
# stated numbers are not exact: less than this, in frames or in seconds, does not count as missing
_FEW_FRAMES, _SHORT_SECONDS = 2, 0.1
# how many frames must follow one that is unlike those before it, so that nothing else is taken for sound
_PROOF = 3
# eleven ones, a version, and layer III
_SYNC = re.compile(rb"\xff[\xe2\xe3\xf2\xf3\xfa\xfb]")
# the most bytes before the first frame, in a stream recorded from the middle
MOST_BEFORE = 1 << 16
_SEND_AT_ONCE = 1 << 18
# how large a pipe is to be, since a user may have 256 of them, and how long to wait when it is full: not so
# long that a decoder could empty it
_LARGE_PIPE, _SECONDS_PER_BYTE = 1 << 18, 5e-9
_SEEN_AT_ONCE = 1 << 23


class CountedMp3:
    """An MP3 file to be read from a pipe: its whole frames and nothing else, with their true number.

    From a file, libsndfile reads only as many samples as the first frame states, or as it guesses; from a
    pipe it reads to the end, and still learns from that frame what the encoder added at both ends.

    Attributes:
        frames: How many whole frames of sound there are.
        samples: How many samples they give.
        stated: How many samples the first frame states, if frames are missing; else 0.
        loss: A text that says how sound is missing; empty if none seems to be.
        changes: Whether frames of another rate or number of channels follow, which are not read.
        runs: The byte ranges [start, stop) of frames that follow each other: several if there are gaps.
        is_tagged: Whether the first frame holds no sound, but says what follows.
        left_out: How many samples a decoder leaves out at the start.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self.runs: list[list[int]] = []
        self._stated_at = self._to_state = 0
        self.frames = self.samples = self.stated = 0
        self.loss, self.changes, self.is_tagged, self.left_out = "", False, False, 0
        with open(path, "rb") as file:
            if os.fstat(file.fileno()).st_size > HEADER_BYTES:
                with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                    self._look_at(content)

    def _look_at(self, content: mmap.mmap) -> None:
        at = _next_frame(content, start := after_tags(content), before=start + MOST_BEFORE)
        _, kind = _frame_at(content, at)
        while at >= 0 and _frame_at(content, at)[1] == kind:
            offsets, after = frames_from(content, at, kind, at + _SEEN_AT_ONCE)
            # the last frame may be cut off
            end = after if after <= len(content) else offsets.pop()
            if self.runs and self.runs[-1][1] == at:
                self.runs[-1][1] = end
            elif offsets:
                self.runs.append([at, end])
            self.frames += len(offsets)
            self.note(content, offsets)
            # otherwise all of the file would stay in memory, which others may need
            seen = at // mmap.PAGESIZE * mmap.PAGESIZE
            content.madvise(mmap.MADV_DONTNEED, seen, end - seen)
            at = after if _frame_at(content, after)[1] == kind else _next_frame(content, after, kind)
        self.changes = at >= 0
        if not self.runs:
            return
        there = sum(stop - start for start, stop in self.runs)
        self._compare(_stated_by(content, self.runs[0][0]), there)

    def note(self, content: mmap.mmap, offsets: "array[int]") -> None:
        """Take note of the next frames, which begin at these offsets, if a subclass needs them."""

    def _compare(self, stated: "Stated", there: int) -> None:
        """Compare the numbers that the first frame states with the frames found, which have `there` bytes."""
        self._stated_at, self.is_tagged, self.left_out = stated.at, bool(stated.at), stated.late
        self.frames -= self.is_tagged
        is_whole = 0 < stated.size <= there
        # if the end is missing, so is what the encoder added there
        self._to_state = self.frames if is_whole else max(self.frames, stated.frames)
        if stated.size_at:
            self._stated_at, self._to_state = stated.size_at, _UNKNOWN
        whole = self.frames * stated.samples_of_frame
        self.samples = whole
        if stated.late:
            last = self._to_state * stated.samples_of_frame - max(stated.added_after - LATE, 0)
            self.samples = max(0, min(whole, last) - stated.late)
        missing = stated.frames - self.frames
        if missing > 0 and not is_whole and not self.changes:
            self.stated = stated.samples
            # a gap is certain; a stated number may be slightly wrong
            if len(self.runs) > 1:
                self.loss = "is damaged in the middle"
            elif missing > max(_FEW_FRAMES, _SHORT_SECONDS * stated.rate / stated.samples_of_frame):
                self.loss = "ends early"

    def open(self) -> int:
        """Return a descriptor to read the file from; a thread feeds it until it is closed."""
        reader, writer = os.pipe()
        threading.Thread(target=self._feed, args=(writer,), daemon=True).start()
        return reader

    def _feed(self, writer: int) -> None:
        # the reader may close its end; if the file cannot be read, the reader gets less
        with suppress(OSError), _Pipe(writer) as pipe, open(self._path, "rb", buffering=0) as file:
            for start, stop in self.runs or [[0, os.fstat(file.fileno()).st_size]]:
                file.seek(start)
                if start < self._stated_at < stop:
                    pipe.send(file.read(self._stated_at - start) + struct.pack(">I", self._to_state))
                    file.seek(self._stated_at + 4)
                while block := file.read(min(_SEND_AT_ONCE, stop - file.tell())):
                    pipe.send(block)


class _Pipe(io.FileIO):
    """The end of a pipe that is written to; a full one is filled again when much of it has been read.

    The system wakes a writer at each page that is read, and that takes a twentieth of the time of decoding.
    """

    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor, "wb")
        self._has_room = select.poll()
        self._has_room.register(descriptor, select.POLLOUT)
        self._pause = 0.0
        # other systems than Linux have no such option, and a user may have too many pipes: then, writes block
        with suppress(AttributeError, OSError):
            self._pause = _SECONDS_PER_BYTE * fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, _LARGE_PIPE)
            os.set_blocking(descriptor, False)

    def send(self, content: bytes) -> None:
        """Write all of the content."""
        rest = memoryview(content)
        while rest:
            written = self.write(rest)
            if written is None:
                self._has_room.poll()
                time.sleep(self._pause)
            rest = rest[written or 0 :]


def _next_frame(content: mmap.mmap, at: int, kind: int = 0, before: int | None = None) -> int:
    """Return the offset of the next frame that others follow; -1 if there is none."""
    end = len(content) if before is None else before + 1
    while sync := _SYNC.search(content, at, end):
        at = sync.start()
        size, found = _frame_at(content, at)
        if found and (
            _are_frames(content, at, 1 if found == kind else _PROOF)
            or (not kind and _is_tag(content[at : at + size]))
        ):
            return at
        at += 1
    return -1


def _is_tag(first: bytes) -> bool:
    """Return whether a frame states what follows: proof that it is one, even if the next ones are damaged."""
    at = FrameLayout.of(first[:HEADER_BYTES]).head
    return first[at : at + 4] in TAGS and not any(first[HEADER_BYTES:at])


def _are_frames(content: mmap.mmap, at: int, count: int) -> bool:
    """Return whether `count` frames of one kind follow the one at this offset, or fewer and then the end."""
    _, kind = _frame_at(content, at)
    for _ in range(count):
        at += _frame_at(content, at)[0]
        if at == len(content) or content[at : at + 3] in END_TAGS:
            return True
        if _frame_at(content, at)[1] != kind:
            return False
    return True


def _frame_at(content: mmap.mmap, at: int) -> tuple[int, int]:
    return frame(content[at : at + HEADER_BYTES])


def after_tags(content: mmap.mmap) -> int:
    """Return where the sound starts, after ID3 tags, whose pictures may look like frames."""
    at = 0
    while content[at : at + 3] == b"ID3" and at + _TAG_BYTES <= len(content):
        head = content[at : at + _TAG_BYTES]
        footer = _TAG_BYTES if head[5] & _HAS_FOOTER else 0
        at += _TAG_BYTES + (head[6] << 21 | head[7] << 14 | head[8] << 7 | head[9]) + footer
    return at


@dataclass(frozen=True)
class Stated:
    """The numbers that a first frame states about all frames.

    Attributes:
        rate: Samples in a second.
        samples_of_frame: How many samples each frame gives.
        at: The offset of the number of frames, if the first frame holds no sound; else 0.
        frames: That number; 0 if it is not stated.
        size: The bytes of all frames; 0 if that is not stated.
        late: How many samples at the start are not of the recording: those that the encoder states to
            have added, and those that a decoder adds.
        added_after: How many samples the encoder added at the end.
        size_at: The offset of the bytes of all frames if their number is not stated, since libmpg123 would
            guess the end from them; else 0.
    """

    rate: int
    samples_of_frame: int
    at: int = 0
    frames: int = 0
    size: int = 0
    late: int = 0
    added_after: int = 0
    size_at: int = 0

    @property
    def samples(self) -> int:
        """How many samples there should be, without those that were added."""
        added = self.late + max(self.added_after - LATE, 0)
        return max(0, self.frames * self.samples_of_frame - added)


def _stated_by(content: mmap.mmap, at: int) -> Stated:
    """Return the numbers that the first frame states, if it does."""
    _, kind = _frame_at(content, at)
    rate, samples = kind >> 1, 1152 if content[at + 1] >> 3 & 3 == MPEG1 else 576
    vbri = content[at + _VBRI_AT : at + _VBRI_AT + 18]
    if vbri.startswith(_VBRI) and len(vbri) == 18:  # noqa: PLR2004
        size, frames = struct.unpack(">II", vbri[10:])
        return Stated(rate, samples, frames=frames % _UNKNOWN, size=size)
    for name in TAGS:
        tag = content.find(name, at, at + 64)
        if 0 <= tag <= len(content) - 16:
            return _stated_in_tag(content, at, tag, Stated(rate, samples))
    return Stated(rate, samples)


def _stated_in_tag(content: mmap.mmap, at: int, tag: int, of_frame: Stated) -> Stated:
    """Return the numbers in the tag of LAME and others, as far as libmpg123 reads it."""
    header = content[at : at + HEADER_BYTES]
    flags = content[tag + 7]
    is_read = tag == at + FrameLayout.of(header).head and not any(
        content[at + HEADER_BYTES + _CHECKSUM_BYTES : tag]
    )
    if not flags & _STATES_FRAMES:
        return replace(of_frame, size_at=tag + 8 if is_read and flags & _STATES_BYTES else 0)
    frames, size = struct.unpack(">II", content[tag + 8 : tag + 16])
    found = replace(of_frame, frames=frames % _UNKNOWN, size=size if flags & _STATES_BYTES else 0)
    if not is_read:
        return found
    more = ((_STATES_BYTES, 4), (_STATES_PLACES, 100), (_STATES_QUALITY, 4))
    extension = tag + 12 + sum(length for flag, length in more if flags & flag)
    added = 0
    if extension + _EXTENSION_BYTES <= at + frame(header)[0] and content[extension]:
        added = int.from_bytes(content[extension + _ADDED_AT : extension + _EXTENSION_BYTES], "big")
    return replace(found, at=tag + 8, late=(added >> 12) + LATE, added_after=added & 0xFFF)


def seems_mp3(path: str) -> bool:
    """Return whether a file begins like an MP3 file."""
    with open(path, "rb") as file:
        start = file.read(HEADER_BYTES)
    return start.startswith(b"ID3") or bool(frame(start)[0])


def lacks_bytes(path: str) -> bool:
    """Return whether the first frame states more bytes than there are, or only a number of frames."""
    with open(path, "rb") as file:
        if os.fstat(file.fileno()).st_size <= HEADER_BYTES:
            return False
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            start = after_tags(content)
            at = _next_frame(content, start, before=start + MOST_BEFORE)
            stated = _stated_by(content, at) if at >= 0 else None
            return bool(stated and stated.frames and not 0 < stated.size <= len(content) - at)
