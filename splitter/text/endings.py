"""The endings of sound files, and of other files that are often in the same folder."""

import os

# formats that libsndfile reads
READABLE = frozenset("aif aifc aiff au caf flac mp3 oga ogg opus rf64 snd w64 wav wave".split())  # noqa: SIM905
SOUND = READABLE | frozenset("aac ac3 amr ape m4a m4b mka mp2 mp4 ra sph spx weba wma wv".split())  # noqa: SIM905
NOT_SOUND = {
    ending: kind
    for kind, endings in {
        "annotation file": "textgrid rttm ctm eaf lab srt vtt lrc",
        "document": "pdf doc docx odt xls xlsx ods ppt pptx",
        "image": "jpg jpeg png gif bmp tif tiff webp svg ico",
        "table": "csv tsv",
        "text file": "txt md rst log nfo cue m3u m3u8 json jsonl xml html htm yaml yml toml ini py sh ipynb",
    }.items()
    for ending in endings.split()
}


def ending_of(name: str) -> str:
    """Return the ending of a name in lower case, without its dot; empty if there is none."""
    return os.path.splitext(name)[1][1:].lower()
