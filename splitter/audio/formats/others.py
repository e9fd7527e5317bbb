"""Formats that only PyAV reads, by their first bytes, for messages."""

from splitter.audio.formats.base import AudioFormat

EBML = b"\x1aE\xdf\xa3"
FORMATS = (
    AudioFormat("MP4 or M4A", magic=((b"", 4, b"ftyp"),)),
    AudioFormat("WebM or Matroska", magic=((EBML, 0, b""),)),
    AudioFormat("WMA", magic=((b"0&\xb2u", 0, b""),)),
    AudioFormat("AVI", magic=((b"RIFF", 8, b"AVI "),)),
    AudioFormat("FLV", magic=((b"FLV\x01", 0, b""),)),
    AudioFormat("WavPack", magic=((b"wvpk", 0, b""),)),
    AudioFormat("Monkey's Audio", magic=((b"MAC ", 0, b""),)),
    AudioFormat("True Audio", magic=((b"TTA1", 0, b""),)),
    AudioFormat("AMR", magic=((b"#!AMR", 0, b""),)),
    AudioFormat("AAC", magic=((b"\xff\xf1", 0, b""), (b"\xff\xf9", 0, b""))),
)
