"""Open a recording with the decoder for its content, whatever its name is."""

import codecs
from contextlib import suppress

import soundfile

from splitter.audio.decoders import Decoder, RawDecoder, SndfileDecoder, Truncated, check_whole
from splitter.audio.formats.base import AudioFormat
from splitter.audio.formats.headerless import advice_about
from splitter.audio.formats.mp3 import frame
from splitter.audio.formats.ogg.index import OpusIndex, seems_opus
from splitter.audio.formats.registry import FORMATS, OF_LIBSNDFILE
from splitter.audio.formats.samples import find_samples
from splitter.errors import AudioError

_KIND_BYTES = 512
_REMEDY = "PyAV, which may read it, cannot be imported; install it again: pip install --force-reinstall av"

_SHARDS = (
    AudioFormat("a tar archive", magic=((b"", 257, b"ustar"),)),
    AudioFormat("packed with gzip", magic=((b"\x1f\x8b", 0, b""),)),
    AudioFormat("Parquet", magic=((b"PAR1", 0, b""),)),
)


def open_decoder(path: str, truncated: Truncated = "error") -> Decoder:
    """Open a recording with the decoder for its content."""
    extent = find_samples(path)
    if extent:
        check_whole(path, extent, truncated)
        if extent.raw:
            return RawDecoder(path, extent, extent.raw)
    try:
        decoder = _open_opus(path) or SndfileDecoder(path, truncated)
    except soundfile.LibsndfileError as error:
        decoder = _open_with_av(path, truncated, error)
    if extent and extent.is_cut_short:
        decoder.lacks_sound = True
    return decoder


def _open_opus(path: str) -> Decoder | None:
    """Open intact Ogg Opus at 48 kHz, which PyAV decodes in half the time of libsndfile; None for others."""
    if not seems_opus(path):
        return None
    index = OpusIndex(path)
    if index.is_regular and index.head.factor == 1:
        with suppress(ImportError):
            from splitter.audio.formats.ogg.decoder import OpusDecoder

            return OpusDecoder(path, index)
    index.close()
    return None


def _open_with_av(path: str, truncated: Truncated, error: soundfile.LibsndfileError) -> Decoder:
    """Open a file that libsndfile cannot read; if nothing can, raise an error that says what the file is."""
    with open(path, "rb") as file:
        start = file.read(_KIND_BYTES)
    about = next((one for one in FORMATS if one.begins(start)), None)
    if about and about.open_decoder:
        return about.open_decoder(path, truncated)
    known = about.name if about in OF_LIBSNDFILE else "MP3" if frame(start[:4])[0] else ""
    kind = known or (about.name if about else "")
    if not kind and (not start or _is_text(start)):
        raise AudioError(f"{path}: is not sound: it is {'text' if start else 'empty'}")
    shard = next((one.name for one in _SHARDS if one.begins(start)), "")
    if shard and not kind:
        advice = "if it contains inputs, pass it as DATASET itself, such as splitter run 'shards-*.tar'"
        raise AudioError(f"{path}: is not sound: it is {shard}; {advice}")
    if not kind:
        with suppress(soundfile.LibsndfileError):
            return SndfileDecoder(path, truncated, maybe_mp3=True)
    reason = "it contains no whole frame of sound" if known == "MP3" else error.error_string.strip(". ")
    if len(start) < _KIND_BYTES:
        reason = f"{reason}; there are only {len(start)} bytes"
    try:
        from splitter.audio.formats.av import AvDecoder

        return AvDecoder(path, truncated)
    except ImportError:
        reason = f"{reason}; {_REMEDY}" if known else _REMEDY
    except AudioError as other:
        if not known:
            reason = str(other).removeprefix(f"{path}: ") if kind else ""
    if not kind:
        kind = f"in an unknown format (it starts with {start[:8].hex(' ')})"
        reason = advice_about(path) or reason
    raise AudioError(f"{path}: cannot be read: it is {kind}{reason and ': '}{reason}")


def _is_text(start: bytes) -> bool:
    """Return whether the first bytes of a file are text in UTF-8; the last letter may be cut off."""
    try:
        text = codecs.getincrementaldecoder("utf-8-sig")().decode(start)
    except UnicodeDecodeError:
        return False
    return all(letter.isprintable() or letter in "\t\r\n\f" for letter in text)
