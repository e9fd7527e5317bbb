"""Ogg page by page, and pieces of Opus made of a recording's own packets.

counted  a check for missing and damaged pages
decoder  packets of Opus -> samples, through PyAV
index    where each packet of an Opus file is, and whether pieces can be made of the packets
opus     the head of a stream of Opus, and the first byte of its packets
pages    pages, read and written
source   an Opus file to cut from, and how it is cut
"""

from splitter.audio.formats.base import AudioFormat
from splitter.audio.formats.ogg.counted import CountedOgg
from splitter.audio.formats.ogg.pages import Numbered

__all__ = ["FORMAT", "CountedOgg"]

# with more of either, libvorbis ends the process
LARGEST_VORBIS_RATE, MOST_VORBIS_CHANNELS = 200_000, 255
FORMAT = AudioFormat(
    "OGG",
    "ogg",
    ((b"OggS", 0, b""),),
    is_exact=True,
    lossy="VORBIS",
    rates={"OPUS": (8000, 12000, 16000, 24000, 48000)},
    largest_rates=dict.fromkeys((None, "VORBIS"), LARGEST_VORBIS_RATE),
    wrapper=Numbered,
)
