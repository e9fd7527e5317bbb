"""NIST SPHERE, the format of TIMIT and the LDC: lines of text that describe the samples, then the samples.

| NIST_1A | how many bytes come before the samples | name -type value | ... | end_head | spaces | samples |
"""

import re
from typing import BinaryIO

from splitter.audio.formats.base import AudioFormat
from splitter.audio.formats.wav import Extent, Order, RawFormat

_MOST_BEFORE = 1 << 20
_SIZE = re.compile(rb"NIST_1A\r?\n *(\d{1,9})\r?\n")
_FIELD = re.compile(r"(?m)^(\w+) -\w+ (.*?)\r?$")
_PCM = {1: "PCM_S8", 2: "PCM_16", 3: "PCM_24", 4: "PCM_32"}
_LAWS = {"ulaw": "ULAW", "mu-law": "ULAW", "alaw": "ALAW"}
_ORDERS: dict[str, Order] = {"01": "<", "10": ">"}


def find_in_nist(file: BinaryIO, size: int) -> Extent | None:
    """Return where the samples are; None if they are compressed, or the header is unusable."""
    file.seek(0)
    head = file.read(_MOST_BEFORE)
    begin = _SIZE.match(head)
    if not begin:
        return None
    start = int(begin[1])
    fields = dict(_FIELD.findall(head[:start].partition(b"end_head")[0].decode("latin-1")))
    raw = _described(fields)
    if size < start:
        return Extent(start, None, 0, raw, ends_in_header=True)
    if raw is None:
        return None
    stated = _number(fields, "sample_count") * raw.frame_bytes or None
    return Extent(start, stated, min(stated or size, size - start), raw)


def _described(fields: dict[str, str]) -> RawFormat | None:
    """Return the format of the samples; None if they have no fixed number of bytes."""
    coding, width = fields.get("sample_coding", "pcm"), _number(fields, "sample_n_bytes")
    subtype = _PCM.get(width) if coding == "pcm" else _LAWS.get(coding)
    order = "<" if width == 1 else _ORDERS.get(fields.get("sample_byte_format", ""))
    channels, rate = _number(fields, "channel_count"), _number(fields, "sample_rate")
    if subtype is None or order is None or not channels or not rate or (coding != "pcm" and width != 1):
        return None
    return RawFormat("NIST", subtype, channels, rate, order)


def _number(fields: dict[str, str], name: str) -> int:
    value = fields.get(name, "")
    return int(value) if re.fullmatch(r"\d{1,12}", value) else 0


FORMAT = AudioFormat("NIST", "sph", ((b"NIST_1A", 0, b""),), is_exact=True)
