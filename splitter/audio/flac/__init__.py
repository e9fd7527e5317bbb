"""FLAC files: read as far as they are asked for, and cut by copying whole frames.

source      a file to cut from, and how it is cut
stream      its frames, found one stretch after the other
frames      headers of frames: found, read, and made anew with other numbers
checksums   the two CRCs of a frame, of many at a time
header      what a file says of itself
"""

from splitter.audio.flac.header import beginning, header_of_flac, rate_of
from splitter.audio.flac.source import FlacSource
from splitter.audio.flac.stream import FlacError, NotCuttable

__all__ = ["FlacError", "FlacSource", "NotCuttable", "beginning", "header_of_flac", "rate_of"]
