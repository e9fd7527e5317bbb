"""Copy the packets of Opus in WebM and Matroska to pages of Ogg, from which pieces can be cut."""

import struct
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any, BinaryIO

import av.error

from splitter.audio.formats.av import SeekableFile, lacks_sound, open_container, packets_of, seconds_stated
from splitter.audio.formats.ogg.index import Packet
from splitter.audio.formats.ogg.opus import RATE, OpusHead, look_at
from splitter.audio.formats.ogg.source import pages_with
from splitter.errors import AudioError

_SKIPPED = struct.Struct("<II")


def write_as_ogg(path: str, file: BinaryIO, wanted: Callable[[int], bool]) -> bool:
    """Write an Ogg file with the same packets, if `wanted` accepts the number of channels.

    Return False if it does not, or if the file is damaged or has no Opus: decoding shows what is wrong.
    """
    try:
        with SeekableFile(path) as opened, closing(open_container(opened)) as container:
            stream = container.streams.audio[0]
            # pieces have this rate, whatever the recording had before
            head = replace(OpusHead.of(bytes(stream.codec_context.extradata or b"")), recorded_rate=RATE)
            if not wanted(head.channels):
                return False
            seconds = seconds_stated(container, stream)
            packets = _packets(packets_of(path, container, stream), head.skipped, seconds)
            file.writelines(pages_with(head, head.skipped, packets))
    except (av.error.FFmpegError, AudioError, AttributeError, IndexError, ValueError):
        return False
    return True


def _packets(packets: Iterator[Any], skipped: int, seconds: float) -> Iterator[Packet]:
    """Yield the packets; raise ValueError if samples are left out in the middle, or missing at the end."""
    position, left_out, reached, duration = 0, 0, 0.0, 0
    for packet in packets:
        if packet is None:
            break
        content = bytes(packet)
        duration, _, _ = look_at(content)
        in_front, behind = _left_out_of(packet)
        if in_front != (0 if position else skipped) or left_out or behind >= duration:
            raise ValueError("samples are left out in the middle")
        left_out = behind
        if packet.pts is not None:
            reached = float(packet.pts * packet.time_base) + (duration - behind) / RATE
        yield position, duration - behind, content
        position += duration
    if not position or lacks_sound(seconds, reached, duration / RATE):
        raise ValueError("ends early")


def _left_out_of(packet: Any) -> tuple[int, int]:  # noqa: ANN401 - PyAV's
    """Return how many samples to leave out at the start and at the end of a packet."""
    found = next((bytes(one) for one in packet.iter_sidedata() if one.data_type == "skip_samples"), b"")
    return _SKIPPED.unpack_from(found) if found else (0, 0)
