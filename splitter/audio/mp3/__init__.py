"""MP3 frame by frame: how many there are in truth, and pieces that are made of a recording's own frames.

layout    what headers and side information of frames say
counted   the frames of a file, counted; a file to be read from a pipe to its true end
index     where each of them is, and whether pieces can be made of them
tag       the first frame of a file, which says what to leave out
source    a file to cut from, without decoding it
layers    frames of all layers, also of a bit rate that they do not name: whether there are any
"""

from splitter.audio.mp3.counted import CountedMp3, lacks_bytes, seems_mp3
from splitter.audio.mp3.layers import bit_rate_of
from splitter.audio.mp3.layout import frame
from splitter.audio.mp3.source import Mp3Source

__all__ = ["CountedMp3", "Mp3Source", "bit_rate_of", "frame", "lacks_bytes", "seems_mp3"]
