"""Open a recording with the reader that knows it, whatever its name says it is."""

from contextlib import suppress

import soundfile

from splitter.audio.decoders import Decoder, RawDecoder, SndfileDecoder, Truncated, check_whole
from splitter.audio.formats.mp3 import frame
from splitter.audio.formats.wav import find_samples
from splitter.errors import AudioError

_KIND_BYTES = 512
_REMEDY = "pip install 'splitter-ml[av]' brings a reader of many more formats"

# kinds of files by their first bytes, and by more bytes at some place
_OF_LIBSNDFILE = (
    (b"RIFF", 8, b"WAVE", "WAV"),
    (b"RIFX", 8, b"WAVE", "WAV"),
    (b"RF64", 8, b"WAVE", "WAV"),
    (b"riff", 0, b"", "W64"),
    (b"FORM", 8, b"AIF", "AIFF"),
    (b"caff", 0, b"", "CAF"),
    (b".snd", 0, b"", "AU"),
    (b"fLaC", 0, b"", "FLAC"),
    (b"OggS", 0, b"", "OGG"),
    (b"ID3", 0, b"", "MP3"),
)
_OTHERS = (
    (b"", 4, b"ftyp", "MP4 or M4A"),
    (b"\x1aE\xdf\xa3", 0, b"", "WebM or Matroska"),
    (b"0&\xb2u", 0, b"", "WMA"),
    (b"RIFF", 8, b"AVI ", "AVI"),
    (b"FLV\x01", 0, b"", "FLV"),
    (b"wvpk", 0, b"", "WavPack"),
    (b"MAC ", 0, b"", "Monkey's Audio"),
    (b"TTA1", 0, b"", "True Audio"),
    (b"#!AMR", 0, b"", "AMR"),
    (b"\xff\xf1", 0, b"", "AAC"),
    (b"\xff\xf9", 0, b"", "AAC"),
)
_SHARDS = (
    (b"", 257, b"ustar", "a tar archive"),
    (b"\x1f\x8b", 0, b"", "packed with gzip"),
    (b"PAR1", 0, b"", "Parquet"),
)


def open_decoder(path: str, truncated: Truncated = "error") -> Decoder:
    """Open a recording."""
    extent = find_samples(path)
    if extent:
        check_whole(path, extent, truncated)
        if extent.raw:
            return RawDecoder(path, extent, extent.raw)
    try:
        return SndfileDecoder(path, truncated)
    except soundfile.LibsndfileError as error:
        return _open_with_av(path, truncated, error)


def _open_with_av(path: str, truncated: Truncated, error: soundfile.LibsndfileError) -> Decoder:
    """What libsndfile cannot read."""
    with open(path, "rb") as file:
        start = file.read(_KIND_BYTES)
    known = _kind_of(start, _OF_LIBSNDFILE) or ("MP3" if frame(start[:4])[0] else "")
    kind = known or _kind_of(start, _OTHERS)
    if not kind and (not start or _is_text(start)):
        raise AudioError(f"{path}: is not sound: it is {'text' if start else 'empty'}")
    shard = "" if kind else _kind_of(start, _SHARDS)
    if shard:
        advice = "if it holds inputs, name it as DATASET itself, such as splitter run 'shards-*.tar'"
        raise AudioError(f"{path}: is not sound: it is {shard}; {advice}")
    if not kind:
        with suppress(soundfile.LibsndfileError):
            return SndfileDecoder(path, truncated, maybe_mp3=True)
    reason = "there is no whole frame of sound in it" if known == "MP3" else error.error_string.strip(". ")
    if len(start) < _KIND_BYTES:
        reason = f"{reason}; there are only {len(start)} bytes"
    try:
        from splitter.audio.formats.av import AvDecoder

        return AvDecoder(path, truncated)
    except ImportError:
        reason = f"{reason}; {_REMEDY}" if known else _REMEDY
    except AudioError as other:
        if not known:
            reason = str(other) if kind else ""
    kind = kind or f"of no known format (it starts with {start[:8].hex(' ')})"
    raise AudioError(f"{path}: cannot be read: it is {kind}{reason and ': '}{reason}")


def _kind_of(start: bytes, kinds: tuple[tuple[bytes, int, bytes, str], ...]) -> str:
    for first, at, then, kind in kinds:
        if start.startswith(first) and start.startswith(then, at):
            return kind
    return ""


def _is_text(start: bytes) -> bool:
    """Whether the first bytes of a file are text in UTF-8."""
    try:
        text = start.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if error.start < len(start) - 3:
            return False
        # a letter may have been cut
        text = start[: error.start].decode()
    return all(letter.isprintable() or letter in "\t\r\n\f" for letter in text)
