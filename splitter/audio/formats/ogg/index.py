"""Find where each packet of an Ogg Opus file is, and whether pieces can be made of the packets.

They can if the file is a single stream, nothing is missing, and the pages state the positions that the
packets add up to. An hour has 180,000 packets; the offset of one page per second is kept.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from splitter.audio.formats.ogg.counted import CountedOgg
from splitter.audio.formats.ogg.opus import MAGIC, RATE, TAGS, OpusHead, look_at
from splitter.audio.formats.ogg.pages import CONTINUED, FIRST, HEAD_BYTES, LAST, NO_POSITION, PAGE, pages_of
from splitter.errors import InputError

# stretches are merged if they are no further apart
_CLOSE = RATE


# its position and its duration, in samples of 48 kHz, and its bytes
Packet = tuple[int, int, bytes]


class Stretches:
    """Parts of a stream, from one position to before another, in order."""

    def __init__(self) -> None:
        self._starts, self._stops = array("q"), array("q")

    def add(self, start: int, stop: int) -> None:
        """Add a part after the others; extend the last part instead if the two are close."""
        if self._stops and start <= self._stops[-1] + _CLOSE:
            self._stops[-1] = stop
        else:
            self._starts.append(start)
            self._stops.append(stop)

    def __bool__(self) -> bool:
        return bool(self._starts)

    def meets(self, start: int, stop: int) -> bool:
        """Return whether a part overlaps [start, stop)."""
        after = bisect_left(self._starts, stop)
        return after > 0 and self._stops[after - 1] > start


class OpusIndex(CountedOgg):
    """An Ogg Opus file as a stream of packets, by their positions in samples of 48 kHz.

    Attributes:
        head: The head of the stream.
        is_regular: Whether it is a single intact stream of one or two channels.
        samples: How many samples the recording has, at `rate`.
        rate: The sample rate that libsndfile decodes it to.
        lasting: Where decoding may depend on sound from long before: packets that are not of CELT alone.
        unsent: Where frames were not sent.
    """

    head: OpusHead

    def __init__(self, path: str) -> None:
        self._path = path
        self._file = open(path, "rb", buffering=0)  # noqa: SIM115 - closed by close()
        self.is_regular = True
        self._packets, self._rest, self._page, self._has_ended = 0, b"", -1, False
        # where the next packet begins, and where the sound ends
        self._position = self._end = self._offset = 0
        self._offsets, self._positions = array("q"), array("q")
        self.lasting, self.unsent = Stretches(), Stretches()
        super().__init__(self._file.fileno())
        self.is_regular = (
            self.is_regular and not self.loss and not self._rest and self._packets > 1 and self._length > 0
        )
        if self.is_regular:
            self.rate, self.samples = RATE // self.head.factor, self._length // self.head.factor

    @property
    def _length(self) -> int:
        return self._end - self.head.skipped

    def _look_at(self, at: int, page: bytes, *, after_others: bool) -> None:
        super()._look_at(at, page, after_others=after_others)
        if self.is_regular:
            try:
                self._note(at, page)
            except ValueError:
                self.is_regular = False

    def _note(self, at: int, page: bytes) -> None:
        """Add the packets of a page; raise ValueError if it is not regular."""
        _, _, flags, position, _, number, _, _ = PAGE.unpack_from(page)
        if bool(flags & FIRST) != (not self._packets) or number != self._page + 1 or self._has_ended:
            raise ValueError("not the next page of one stream")
        if bool(flags & CONTINUED) != bool(self._rest):
            raise ValueError("half a packet")
        self._page, self._has_ended = number, bool(flags & LAST)
        is_far = not self._positions or self._position >= self._positions[-1] + RATE
        if self._packets > 1 and not flags & CONTINUED and is_far:
            self._offsets.append(at)
            self._positions.append(self._position)
        before = self._packets
        packets, self._rest = split(page, self._rest)
        for packet in packets:
            self._add(packet)
        if before < 2 and (self._packets > before + 1 or (self._packets > before and self._rest)):  # noqa: PLR2004
            raise ValueError("sound on a page of the head")
        if self._packets > max(before, 2):
            self._check(position)
        elif position not in (0, NO_POSITION):
            raise ValueError("a position without sound")

    def _add(self, packet: bytes) -> None:
        self._packets += 1
        if self._packets == 1:
            self.head = OpusHead.of(packet)
        elif self._packets == 2:  # noqa: PLR2004
            if not packet.startswith(TAGS):
                raise ValueError("no tags")
        else:
            duration, is_celt, is_sent = look_at(packet)
            if not is_celt:
                self.lasting.add(self._position, self._position + duration)
            if not is_sent:
                self.unsent.add(self._position, self._position + duration)
            self._position += duration

    def _check(self, position: int) -> None:
        """Compare the position that a page states with the sum of its packets: only the last may end earlier.

        Positions need not begin with 0: in files converted from WebM, they begin a little later.
        """
        if position == NO_POSITION:
            raise ValueError("no position")
        if not self._end and not self._has_ended and self.head.factor == 1:
            self._offset = max(0, position - self._position)
        position -= self._offset
        before, self._end = self._end, position
        if position != self._position and not (self._has_ended and before <= position < self._position):
            raise ValueError("another position than that of its packets")

    def packets(self, position: int = 0) -> Iterator[Packet]:
        """Yield the packets from the one that contains `position` to the end."""
        kept = bisect_right(self._positions, position) - 1
        at, rest, number = self._positions[kept], b"", None
        for _, page in pages_of(self._file.fileno(), self._offsets[kept]):
            found = PAGE.unpack_from(page)[5]
            if number is not None and found != number + 1:
                break
            packets, rest = split(page, rest)
            number = found
            for packet in packets:
                duration, _, _ = look_at(packet)
                if at + duration > position:
                    yield at, duration, packet
                at += duration
        if at != self._position:
            raise InputError(f"{self._path}: has changed while it was read")

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def split(page: bytes, rest: bytes) -> tuple[list[bytes], bytes]:
    """Return the packets that end on a page, and the start of the next; `rest` is from the page before."""
    segments = page[HEAD_BYTES - 1]
    packets, start = [], HEAD_BYTES + segments
    stop = start
    for size in page[HEAD_BYTES:start]:
        stop += size
        if size < 255:  # noqa: PLR2004 - a packet continues after a full segment
            packets.append(rest + page[start:stop])
            start, rest = stop, b""
    return packets, rest + page[start:stop]


def seems_opus(path: str) -> bool:
    """Return whether a file begins like Ogg Opus."""
    with open(path, "rb") as file:
        start = file.read(HEAD_BYTES + 1 + len(MAGIC))
    return start.startswith(b"OggS") and start.endswith(MAGIC)
