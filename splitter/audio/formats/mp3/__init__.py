"""MP3 frame by frame: how many there are in truth, and pieces that are made of a recording's own frames.

counted   the frames of a file, counted, since every third file states a wrong number
index     where each frame is, and whether pieces can be made of them
layers    frames of MPEG's layers I, II and III
layout    the header and side information of a frame, and where its sound is
source    a file to cut from, and how it is cut
tag       the first frame, which says how many follow
"""

from splitter.audio.formats.mp3.counted import CountedMp3, lacks_bytes, seems_mp3
from splitter.audio.formats.mp3.layers import bit_rate_of
from splitter.audio.formats.mp3.layout import frame
from splitter.audio.formats.mp3.source import Mp3Source

__all__ = ["CountedMp3", "Mp3Source", "bit_rate_of", "frame", "lacks_bytes", "seems_mp3"]
