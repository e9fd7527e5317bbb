"""The head of a stream of Opus, and the first byte of each packet (RFC 6716).

| configuration: coder, bandwidth, duration of a frame | stereo | frames: 1, 2, 2 of two sizes, any number |
"""

# ruff: noqa: PLR2004 - a file format is made of numbers

import struct
from dataclasses import dataclass

# positions in a stream are in samples of this rate, whatever the recording had
RATE = 48_000
MAGIC = b"OpusHead"
TAGS = b"OpusTags"
_HEAD = struct.Struct("<8sBBHihB")
# samples of a frame: of SILK, of SILK and CELT together, of CELT
_SILK, _HYBRID, _CELT = (480, 960, 1920, 2880), (480, 960), (120, 240, 480, 960)
_FRAMES = tuple(
    _SILK[code & 3] if code < 12 else _HYBRID[code & 1] if code < 16 else _CELT[code & 3]
    for code in range(32)
)
_FIRST_CELT = 16
_LONGEST_PACKET, _LARGEST_FRAME = 5760, 1275


@dataclass(frozen=True)
class OpusHead:
    """The first packet of a stream, with one or two channels.

    Attributes:
        channels: One or two.
        skipped: How many samples of 48 kHz to leave out at the start.
        recorded_rate: The sample rate before encoding, as far as it is known.
        gain: How much louder to make it, in 1/256 dB.
    """

    channels: int
    skipped: int
    recorded_rate: int
    gain: int

    @classmethod
    def of(cls, packet: bytes) -> "OpusHead":
        """Parse the packet; raise ValueError if it is another one, or has more channels."""
        if len(packet) != _HEAD.size:
            raise ValueError("no head of one or two channels")
        magic, version, channels, skipped, rate, gain, mapping = _HEAD.unpack(packet)
        if magic != MAGIC or version != 1 or channels not in (1, 2) or mapping:
            raise ValueError("no head of one or two channels")
        return cls(channels, skipped, rate, gain)

    def packet(self, skipped: int) -> bytes:
        """Return the first packet of a stream that leaves out `skipped` samples instead."""
        return _HEAD.pack(MAGIC, 1, self.channels, skipped, self.recorded_rate, self.gain, 0)

    @property
    def factor(self) -> int:
        """How many samples of 48 kHz make one at libsndfile's rate, the lowest Opus rate that suffices."""
        rate = self.recorded_rate
        return 1 if rate > 24_000 else 2 if rate > 16_000 else 3 if rate > 12_000 else 4 if rate > 8000 else 6


def skipped_by(start: bytes) -> int:
    """Return how many samples of 48 kHz to leave out, by the start of a file; -1 if it is not Ogg Opus."""
    at = start.find(MAGIC, 0, 64)
    return -1 if at < 0 or len(start) < at + _HEAD.size else int(_HEAD.unpack_from(start, at)[3])


def tags() -> bytes:
    """Return the second packet of a stream, without tags."""
    vendor = b"splitter"
    return TAGS + struct.pack("<I", len(vendor)) + vendor + bytes(4)


def look_at(packet: bytes) -> tuple[int, bool, bool]:
    """Return how many samples a packet gives, whether by CELT alone, and whether all frames were sent.

    In CELT, the coder for music, the influence of earlier frames fades. In SILK, the coder for speech, it
    may last. For frames that were not sent, each decoder makes up something different.
    Raises ValueError if this is not a packet.
    """
    if not packet:
        raise ValueError("an empty packet")
    first, size = packet[0], len(packet)
    duration, is_celt = _FRAMES[first >> 3], first >> 3 >= _FIRST_CELT
    if not first & 3 and 2 < size <= _LARGEST_FRAME + 1:
        return duration, is_celt, True
    sizes = _sizes(packet)
    if len(sizes) * duration > _LONGEST_PACKET or max(sizes) > _LARGEST_FRAME:
        raise ValueError("a packet that is too long")
    return len(sizes) * duration, is_celt, min(sizes) > 1


def _sizes(packet: bytes) -> list[int]:
    """Return the bytes of each frame of a packet."""
    kind, at, padding = packet[0] & 3, 1, 0
    count, are_stated = 1 if kind == 0 else 2, kind == 2
    if kind == 3:
        if len(packet) == 1 or not packet[1] & 63:
            raise ValueError("a packet without frames")
        count, are_stated, at = packet[1] & 63, packet[1] & 128 > 0, 2
        more = 255 if packet[1] & 64 else 0
        while more == 255:
            if at == len(packet):
                raise ValueError("a packet of padding")
            more = packet[at]
            padding += min(more, 254)
            at += 1
    sizes = []
    for _ in range(count - 1 if are_stated else 0):
        size, at = _size_at(packet, at)
        sizes.append(size)
    rest = len(packet) - at - padding - sum(sizes)
    if rest < 0 or (rest % count and not are_stated):
        raise ValueError("frames that do not fit")
    return [*sizes, rest] if are_stated else [rest // count] * count


def _size_at(packet: bytes, at: int) -> tuple[int, int]:
    """Return a size of one byte or two, and the index after it."""
    if at == len(packet):
        raise ValueError("a frame without a size")
    if packet[at] < 252:
        return packet[at], at + 1
    if at + 1 == len(packet):
        raise ValueError("a frame without a size")
    return packet[at] + 4 * packet[at + 1], at + 2
