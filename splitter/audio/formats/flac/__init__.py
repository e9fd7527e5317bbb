"""FLAC files: read only as far as needed, and cut by copying whole frames.

header      what the header of a file states
stream      the frames of a file, found stretch by stretch
frames      headers of frames: parsed, and built again with other numbers
checksums   the CRCs of headers and of frames, of many at a time
source      a file to cut from, and how it is cut
"""

from splitter.audio.formats.base import AudioFormat
from splitter.audio.formats.flac.header import beginning, header_of_flac, unpacked
from splitter.audio.formats.flac.source import FlacSource
from splitter.audio.formats.flac.stream import FlacError

__all__ = ["FORMAT", "FlacError", "FlacSource", "beginning", "header_of_flac", "unpacked"]

FORMAT = AudioFormat(
    "FLAC",
    "flac",
    ((b"fLaC", 0, b""),),
    is_exact=True,
    largest_rates=dict.fromkeys((None, "PCM_S8", "PCM_16", "PCM_24"), 655_350),
)
