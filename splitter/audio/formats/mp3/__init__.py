"""MP3 frame by frame: the true number of frames, and pieces made of a recording's own frames.

counted   the true number of frames, since every third file states a wrong one
index     where each frame is, and whether pieces can be made of the frames
layers    frames of MPEG's layers I, II and III
layout    the header and side information of a frame, and where its sound is
source    a file to cut from, and how it is cut
tag       the first frame, which says how many follow
"""

from splitter.audio.formats.base import AudioFormat
from splitter.audio.formats.mp3.counted import CountedMp3, lacks_bytes, seems_mp3
from splitter.audio.formats.mp3.layers import bit_rate_of
from splitter.audio.formats.mp3.layout import frame
from splitter.audio.formats.mp3.source import Mp3Source

__all__ = ["FORMAT", "CountedMp3", "Mp3Source", "bit_rate_of", "frame", "lacks_bytes", "seems_mp3"]

_RATES = (8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000)
FORMAT = AudioFormat(
    "MP3",
    "mp3",
    ((b"ID3", 0, b""),),
    lossy="MPEG_LAYER_III",
    rates=dict.fromkeys((None, "MPEG_LAYER_III"), _RATES),
    not_written=frozenset({"MPEG_LAYER_I", "MPEG_LAYER_II"}),
)
