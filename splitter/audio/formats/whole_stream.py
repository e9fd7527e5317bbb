"""Let FFmpeg read and decode sound by itself, in blocks of seconds.

A second of AAC has 43 packets, and handling each of them in Python takes a third as long as decoding it. But
only decoding packet by packet shows which of them cannot be decoded.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from fractions import Fraction
from functools import cache
from typing import Any

import av
import numpy as np
from av.filter import Graph

# FFmpeg's sample formats -> types of arrays
_TYPES = {"u8": "u1", "s16": "i2", "s32": "i4", "flt": "f4", "dbl": "f8"}
# the square of any sample that FFmpeg would round wrongly is larger
_LARGEST_SUM = 2.0**31


def blocks_of(  # noqa: PLR0913 - what to read, and how
    path: str, kind: str, stream: int, frames: int, options: Mapping[str, str], *, rounded: bool
) -> Iterator[tuple[av.AudioFrame, av.AudioFrame]]:
    """Yield the sound of a stream, `frames` frames at a time; raise FFmpegError at a fault.

    Each block comes as it was decoded, and then, if `rounded`, as 16-bit integers.
    """
    with open(path, "rb", buffering=0) as file:
        graph = Graph()
        graph.threads = 1
        # FFmpeg can open no other file, whatever this one says
        only = {**options, "fd": str(file.fileno()), "protocol_whitelist": "fd"}
        opening = ":".join(f"{name}={value}" for name, value in only.items())
        source = graph.add(
            "amovie", filename="fd:", f=kind, si=str(stream), dec_threads="1", format_opts=opening
        )
        blocks, both = graph.add("asetnsamples", n=str(frames), p="0"), graph.add("asplit")
        sinks: Any = graph.add("abuffersink"), graph.add("abuffersink")
        both.link_to(sinks[0], 1)
        graph.link_nodes(source, blocks, both, *([_rounding(graph)] if rounded else []), sinks[1]).configure()
        with suppress(EOFError):
            while True:
                yield sinks[0].pull(), sinks[1].pull()


def _rounding(graph: Graph) -> Any:  # noqa: ANN401 - PyAV's
    return graph.add("aresample", out_sample_fmt="s16")


def can_be_rounded(block: av.AudioFrame) -> bool:
    """Return whether FFmpeg rounds a block of floats correctly: none is NaN, and none as large as 65,536."""
    return all(np.einsum("i,i", samples, samples) < _LARGEST_SUM for samples in planes_of(block))


def planes_of(block: av.AudioFrame) -> list[np.ndarray]:
    """Return the samples of each channel, or of all channels if they are interleaved, without a copy."""
    planar, channels = block.format.is_planar, block.layout.nb_channels
    count = block.samples * (1 if planar else channels)
    kind = _TYPES[block.format.name.removesuffix("p")]
    # of eight channels and more, PyAV finds too many planes, so that its to_ndarray crashes
    planes: list[Any] = [*block.planes[: channels if planar else 1]]
    return [np.frombuffer(plane, kind, count) for plane in planes]


@cache
def rounds_to_even() -> bool:
    """Return whether FFmpeg rounds halves to even numbers, as NumPy does; it depends on the processor."""
    halves = np.arange(-99.5, 100, dtype=np.float32).reshape(2, -1)
    block = av.AudioFrame.from_ndarray(halves / 32_768, "fltp", "stereo")
    block.sample_rate = 8000
    graph = Graph()
    source = graph.add_abuffer(
        format="fltp", sample_rate=block.sample_rate, layout="stereo", time_base=Fraction(1, 8000)
    )
    sink: Any = graph.add("abuffersink")
    graph.link_nodes(source, _rounding(graph), sink).configure()
    source.push(block)
    (found,) = planes_of(sink.pull())
    return np.array_equal(found.reshape(-1, 2).T, np.rint(halves))
