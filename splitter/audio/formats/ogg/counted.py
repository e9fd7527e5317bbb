"""Check the pages of an Ogg file, since decoders skip damaged ones without a word."""

import os
from dataclasses import dataclass

from splitter.audio.formats.ogg.pages import FIRST, HEAD_BYTES, LAST, NO_POSITION, PAGE, pages_of

# the first bytes of the streams that are sound
_SOUND = (b"\x01vorbis", b"OpusHead", b"Speex   ", b"\x7fFLAC")
# the positions of pages with the head of a stream, and of pages in which no packet ends
_NO_SAMPLES = (0, NO_POSITION)


@dataclass
class _Stream:
    """The progress of one stream of pages."""

    number: int
    has_sound: bool = False
    has_ended: bool = False


class CountedOgg:
    """An Ogg file whose pages have been checked.

    Attributes:
        begins: Where each stream begins; interleaved streams count as one.
        loss: A text that says how sound is missing; empty if none seems to be.
    """

    def __init__(self, descriptor: int) -> None:
        self.begins: list[int] = []
        self.loss = ""
        self._streams: dict[int, _Stream] = {}
        self._beginning = False
        end = 0
        for at, page in pages_of(descriptor):
            self._look_at(at, page, after_others=at > end)
            end = at + len(page)
        rest = os.pread(descriptor, 4, end)
        # after the end of a stream, a tag may follow
        if rest == b"OggS" or (rest and self._are_open()):
            self.loss = self.loss or "ends early"

    def _look_at(self, at: int, page: bytes, *, after_others: bool) -> None:
        """Check a page; `after_others` says whether it follows bytes that are not a whole page."""
        _, _, flags, samples, serial, number, _, segments = PAGE.unpack_from(page)
        if flags & FIRST:
            if not self._beginning:
                self.begins.append(at)
                if after_others and self._are_open():
                    self.loss = self.loss or "is damaged in the middle"
                self._streams = {}
            if page[HEAD_BYTES + segments :].startswith(_SOUND):
                self._streams[serial] = _Stream(number)
        elif stream := self._streams.get(serial):
            # a stream recorded from the middle has its head, and continues with a later page
            if number > stream.number + 1 and (after_others or stream.has_sound):
                self.loss = self.loss or "is damaged in the middle"
            stream.number = number
            stream.has_sound = stream.has_sound or samples not in _NO_SAMPLES
            stream.has_ended = bool(flags & LAST)
        # interleaved streams begin together
        self._beginning = bool(flags & FIRST)

    def _are_open(self) -> bool:
        return not all(stream.has_ended for stream in self._streams.values())
