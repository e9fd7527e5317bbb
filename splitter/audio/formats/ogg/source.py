"""Cut Opus by copying packets: a piece is decoded to the same sound as that part of the recording.

    recording | k-34 | k-33 | ... |  k-1  |   k   |  k+1  |  k+2  |    each of 2.5 to 120 ms
    cut                                       [===|=======|====]
    written   head, tags  | k-34 | ... |  k-1  |   k   |  k+1  |  k+2  |
               |           |                                      the position of the last page: where it ends
               |           preroll: the influence of earlier packets fades in it
               how many samples to leave out at the start: the preroll, and the start of packet k

A decoder that starts with the preroll does not know what came before. CELT, the coder for music, forgets:
a frame takes the level of each band from the frame before, times 0.5 to 0.9, and up to 0.75 of the sound from
one period before, of at most 21 ms. In SILK, the coder for speech, traces of the past may last for a second.
"""

from collections.abc import Iterator
from itertools import takewhile
from typing import BinaryIO

import numpy as np

from splitter.audio.formats.ogg.index import OpusIndex, Packet
from splitter.audio.formats.ogg.opus import RATE, OpusHead, tags
from splitter.audio.formats.ogg.pages import FIRST, LAST, page_of

# 660 ms: if there is more to leave out, libsndfile, going back to the start, leaves out the preroll as well
MOST_SKIPPED = 31_680
# the largest difference that may come from another past: -120 dB of full scale
INAUDIBLE = 2.0**-20
# how much earlier to start a decoder that knows the past, and how much of both decoders' sound to compare
_EARLIER, _COMPARED = RATE // 2, RATE // 20
_SEGMENTS = 255


class OpusSource(OpusIndex):
    """An Ogg Opus file to cut from. Cuts may overlap, and come in any order."""

    @property
    def cuttable(self) -> bool:
        """Whether pieces can be made of it: the first sample must be one of those that libsndfile gives."""
        return self.is_regular and not self.head.skipped % self.head.factor

    def _between(self, start: int, stop: int) -> tuple[int, int]:
        """Return the positions of two samples in the stream."""
        skipped, factor = self.head.skipped, self.head.factor
        return skipped + start * factor, skipped + stop * factor

    def least_preroll(self, start: int) -> int:
        """Return the samples of 48 kHz between the start of a packet and a sample in it."""
        first, _ = self._between(start, start)
        at, _, _ = next(self.packets(first))
        return first - at

    def can_cut(self, start: int, stop: int) -> bool:
        """Return whether all decoders can agree on a piece of these samples.

        ffmpeg cannot leave out samples at both ends of one packet. For frames that were not sent, each
        decoder makes up something different, from all that it has decoded.
        """
        first, last = self._between(start, stop)
        at, duration, _ = next(self.packets(first))
        has_all = first <= MOST_SKIPPED
        return last > at + duration and (has_all or not self.unsent.meets(first - MOST_SKIPPED, last))

    def forgets_the_past(self, start: int, stop: int) -> bool:
        """Return whether a piece of these samples surely sounds like the recording, without decoding it all.

        Two decoders reach the first sample: one has started with the preroll, the other earlier. In CELT,
        differences only fade, so if the two agree once, they always agree. For SILK this proves nothing.
        """
        first, last = self._between(start, stop)
        if first <= MOST_SKIPPED:
            return True
        earlier, heard = max(0, first - MOST_SKIPPED - _EARLIER), min(last, first + _COMPARED)
        if self.lasting.meets(earlier, last):
            return False
        try:
            from splitter.audio.formats.ogg.decoder import PacketDecoder
        except ImportError:
            return False
        with_past, without = PacketDecoder(self.head), PacketDecoder(self.head)
        for at, duration, packet in self._packets_between(earlier, heard):
            if at + duration > first:
                compared = slice(max(0, first - at), heard - at)
                with_past.decode(packet)
                without.decode(packet)
                difference = with_past.read()[compared] - without.read()[compared]
                if np.abs(difference).max() > INAUDIBLE:
                    return False
            else:
                with_past.skip(packet)
                if at >= first - MOST_SKIPPED:
                    without.skip(packet)
        return True

    def cut(self, start: int, stop: int, file: BinaryIO, preroll: int = MOST_SKIPPED) -> None:
        """Write samples [start, stop) as Ogg Opus; the preroll has at most `preroll` samples of 48 kHz."""
        if not 0 <= start < stop <= self.samples:
            raise ValueError(f"[{start}, {stop}) is not a part of a recording of {self.samples} samples")
        first, last = self._between(start, stop)
        packets = self._packets_between(max(0, first - preroll), last)
        heard = ((at, min(duration, last - at), packet) for at, duration, packet in packets)
        file.writelines(pages_with(self.head, first, heard))

    def _packets_between(self, first: int, last: int) -> Iterator[Packet]:
        """Yield the packets that begin between two positions."""
        packets = takewhile(lambda packet: packet[0] < last, self.packets(first))
        return (packet for packet in packets if packet[0] >= first)


def pages_with(head: OpusHead, first: int, packets: Iterator[Packet]) -> Iterator[bytes]:
    """Yield the pages of a file with these packets, heard from position `first` to the end of the last."""
    begin, duration, packet = next(packets)
    yield page_of([head.packet(skipped=first - begin)], 0, 0, FIRST)
    yield page_of([tags()], 1, 0)
    # the first page gets a single packet: if it were also the last page, ffmpeg would leave out too much
    page, opened, segments, number = [packet], begin, _SEGMENTS, 2
    for at, following, packet in packets:
        needed = len(packet) // _SEGMENTS + 1
        if segments + needed > _SEGMENTS or at - opened >= RATE:
            yield page_of(page, number, at - begin)
            page, opened, segments, number = [], at, 0, number + 1
        page.append(packet)
        segments += needed
        duration = at + following - begin
    yield page_of(page, number, duration, LAST)
