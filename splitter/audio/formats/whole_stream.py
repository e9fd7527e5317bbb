"""Let FFmpeg read and decode sound by itself, in blocks of seconds.

A second of AAC has 43 packets, and handling each of them in Python takes a third as long as decoding it. But
only decoding packet by packet shows which of them cannot be decoded.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, cast

import av
import numpy as np
from av.filter import Graph

# FFmpeg's sample formats -> types of arrays
_TYPES = {"u8": "u1", "s16": "i2", "s32": "i4", "flt": "f4", "dbl": "f8"}


def blocks_of(
    path: str, kind: str, stream: int, frames: int, options: Mapping[str, str]
) -> Iterator[av.AudioFrame]:
    """Yield the sound of a stream, `frames` frames at a time; raise FFmpegError at a fault."""
    with open(path, "rb", buffering=0) as file:
        graph = Graph()
        graph.threads = 1
        # FFmpeg can open no other file, whatever this one says
        only = {**options, "fd": str(file.fileno()), "protocol_whitelist": "fd"}
        opening = ":".join(f"{name}={value}" for name, value in only.items())
        source = graph.add(
            "amovie", filename="fd:", f=kind, si=str(stream), dec_threads="1", format_opts=opening
        )
        blocks = graph.add("asetnsamples", n=str(frames), p="0")
        sink = graph.add("abuffersink")
        graph.link_nodes(source, blocks, sink).configure()
        with suppress(EOFError):
            while True:
                yield cast("av.AudioFrame", sink.pull())


def planes_of(block: av.AudioFrame) -> list[np.ndarray]:
    """Return the samples of each channel, or of all channels if they are interleaved, without a copy."""
    planar, channels = block.format.is_planar, block.layout.nb_channels
    count = block.samples * (1 if planar else channels)
    kind = _TYPES[block.format.name.removesuffix("p")]
    # of eight channels and more, PyAV finds too many planes, so that its to_ndarray crashes
    planes: list[Any] = [*block.planes[: channels if planar else 1]]
    return [np.frombuffer(plane, kind, count) for plane in planes]
