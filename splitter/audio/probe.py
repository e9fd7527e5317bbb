"""The length of a recording, from its header."""

from dataclasses import dataclass

import soundfile

from splitter.audio.decoders import Truncated, check_mp3, check_whole
from splitter.audio.formats.base import SoundFormat
from splitter.audio.formats.flac import header_of_flac
from splitter.audio.formats.flac.stream import SUBTYPES
from splitter.audio.formats.mp3 import CountedMp3, lacks_bytes
from splitter.audio.formats.registry import BY_NAME
from splitter.audio.formats.samples import find_samples_in
from splitter.audio.formats.wav import RawFormat
from splitter.audio.sniff import open_decoder
from splitter.system.stderr import silenced_stderr

# more samples than any recording has
LONGEST = 1 << 62


@dataclass(frozen=True)
class ProbedSound:
    """The format and length of a recording, according to its header.

    Attributes:
        format: How it is stored.
        frames: How many frames it has.
        exact: Whether that number is certain.
        raw: The format of its samples, if WAV pieces can be made of its bytes; else None.
    """

    format: SoundFormat
    frames: int
    exact: bool = True
    raw: RawFormat | None = None


def probed_length(path: str, truncated: Truncated = "error") -> ProbedSound | None:
    """Return the length of a recording without decoding it; None if no header states it."""
    with open(path, "rb") as file:
        extent = find_samples_in(file)
        if extent and extent.raw:
            check_whole(path, extent, truncated)
            raw = extent.raw if extent.raw.description else None
            return ProbedSound(extent.raw, extent.frames, raw=raw)
        bits, channels, rate, frames = header_of_flac(file.fileno())
    if rate and frames:
        is_deep = bits > 24  # noqa: PLR2004
        subtype, holding = ("FLAC", "PCM_32") if is_deep else (SUBTYPES.get(bits, "PCM_24"), "")
        return ProbedSound(SoundFormat("FLAC", subtype, channels, rate, holding=holding), frames)
    return _length_of(path, truncated)


def _length_of(path: str, truncated: Truncated) -> ProbedSound | None:
    """Return the length that libsndfile states, corrected if an MP3 was cut off; None if it states none."""
    try:
        with silenced_stderr():
            found = soundfile.info(path)
    except soundfile.LibsndfileError:
        # another decoder can read it, or raises an error that says what it is
        open_decoder(path, truncated).close()
        return None
    frames = found.frames
    if found.format == "MP3" and lacks_bytes(path):
        # a file that was cut off still states its old length
        mp3 = CountedMp3(path)
        check_mp3(path, mp3, truncated)
        frames = mp3.samples
    if frames <= 0 or frames >= LONGEST:
        return None
    recorded = SoundFormat(found.format, found.subtype, found.channels, found.samplerate)
    about = BY_NAME.get(recorded.container)
    return ProbedSound(recorded, frames, exact=bool(about and about.is_exact))
