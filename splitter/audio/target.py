"""The format that the pieces of a recording are stored in."""

import functools
from dataclasses import dataclass
from typing import Literal

import soundfile

from splitter.audio.decoders import SoundFormat
from splitter.audio.formats.wav import (
    LARGEST_SIZE,
)
from splitter.audio.resampling import LARGEST_RATIO
from splitter.errors import AudioError, Refused

Channels = Literal["keep", "mono", "split", "first"]
FileFormat = Literal["same", "wav", "flac", "ogg", "mp3"]
Lossy = Literal["copy", "encode"]
# with room for a header
LARGEST_WAV = LARGEST_SIZE - 4096

# bits that an encoding holds exactly; what is not here is lossy, and has no depth
_DEPTHS = {
    "PCM_S8": 8,
    "PCM_U8": 8,
    "PCM_16": 16,
    "ALAW": 14,
    "ULAW": 14,
    "ALAC_16": 16,
    "DWVW_12": 12,
    "DWVW_16": 16,
    "PCM_24": 24,
    "ALAC_20": 20,
    "ALAC_24": 24,
    "DWVW_24": 24,
    "PCM_32": 32,
    "ALAC_32": 32,
    "FLOAT": 33,
    "DOUBLE": 65,
}
_MP3_RATES = (8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000)
_LEAST_RATE, _MOST_RATE = 1000, 1_000_000
# of kilohertz: what is made of the rest is a thousand times as much
_OFTEN_MEANT, _MOST_MEANT = {11: 11_025, 22: 22_050, 44: 44_100}, 400_000
_OPUS_RATES = (8000, 12000, 16000, 24000, 48000)
# what some formats are limited to
_RATES = {
    ("mp3", None): _MP3_RATES,
    ("mp3", "MPEG_LAYER_III"): _MP3_RATES,
    ("ogg", "OPUS"): _OPUS_RATES,
}
# with more of either, libvorbis ends the process
LARGEST_VORBIS_RATE, MOST_VORBIS_CHANNELS = 200_000, 255
_LARGEST_RATES = {
    ("flac", None): 655_350,
    ("flac", "PCM_S8"): 655_350,
    ("flac", "PCM_16"): 655_350,
    ("flac", "PCM_24"): 655_350,
    ("ogg", None): LARGEST_VORBIS_RATE,
    ("ogg", "VORBIS"): LARGEST_VORBIS_RATE,
}
# what libsndfile reads but does not write, though it says that it could
_NOT_WRITTEN = {("MP3", "MPEG_LAYER_I"), ("MP3", "MPEG_LAYER_II"), ("WAV", "MPEG_LAYER_III")}
_CONTAINERS = {"wav": "WAV", "flac": "FLAC", "ogg": "OGG", "mp3": "MP3"}
LOSSY = {"OGG": "VORBIS", "MP3": "MPEG_LAYER_III"}
INTEGERS = {"PCM_S8": 8, "PCM_U8": 8, "PCM_16": 16, "PCM_24": 24, "PCM_32": 32}


@dataclass(frozen=True, kw_only=True)
class Target:
    """What the pieces are to be.

    Attributes:
        sample_rate: Samples in a second; None keeps the recording's.
        channels: Keep them, mix them to one, put each in a file of its own, or take the first.
        format: The kind of file; `same` is that of the recording.
        subtype: libsndfile's name of the encoding; None is one that loses nothing.
        lossy: Whether pieces of an MP3 with nothing to change are copied, or encoded again.
        device: Where resampling is done: the CPU, or a device of torch.
    """

    sample_rate: int | None = None
    channels: Channels = "keep"
    format: FileFormat = "same"
    subtype: str | None = None
    lossy: Lossy = "copy"
    device: str = "cpu"

    def __post_init__(self) -> None:
        """Refuse what no recording could be made into."""
        if self.sample_rate is not None and not _LEAST_RATE <= self.sample_rate <= _MOST_RATE:
            wanted = _OFTEN_MEANT.get(self.sample_rate, self.sample_rate * 1000)
            hint = f"; did you mean {wanted}?" if _LEAST_RATE < wanted <= _MOST_MEANT else ""
            raise Refused(
                f"--sample-rate {self.sample_rate}: is in Hz, from {_LEAST_RATE:,} to {_MOST_RATE:,}{hint}"
            )
        rates = _RATES.get((self.format, self.subtype))
        if rates and self.sample_rate is not None and self.sample_rate not in rates:
            there = ", ".join(map(str, rates))
            what = self.format if self.subtype != "OPUS" else "OPUS"
            raise Refused(f"--sample-rate {self.sample_rate}: {what} has {there} only")
        most = _LARGEST_RATES.get((self.format, self.subtype))
        if most and self.sample_rate is not None and self.sample_rate > most:
            raise Refused(f"--sample-rate {self.sample_rate}: {self.format} has at most {most}")
        if self.subtype is None:
            return
        known = soundfile.available_subtypes()
        if self.subtype not in known:
            raise Refused(f"--subtype {self.subtype}: is unknown; choose from {', '.join(sorted(known))}")
        container = _CONTAINERS.get(self.format)
        if container and not _can_hold(container, self.subtype):
            subtypes = sorted(soundfile.available_subtypes(container))
            there = ", ".join(subtype for subtype in subtypes if _can_hold(container, subtype))
            raise Refused(f"--subtype {self.subtype}: cannot stand in {self.format}; there is {there}")


# asked once: libsndfile's answers take longer to put together than a short recording takes to cut
_formats = functools.cache(soundfile.available_formats)


@functools.cache
def _can_hold(container: str, subtype: str) -> bool:
    """Whether there is a writer for it."""
    return (container, subtype) not in _NOT_WRITTEN and soundfile.check_format(container, subtype)


def made_format(recorded: SoundFormat, target: Target, path: str) -> SoundFormat:
    """How the pieces of a recording are to be stored; an error where that would lose bits unasked."""
    container = _CONTAINERS.get(target.format) or _same_container(recorded)
    channels = recorded.channels if target.channels == "keep" else 1
    rate = target.sample_rate or recorded.rate
    subtype = target.subtype or _usual_subtype(container, recorded, path)
    if not _can_hold(container, subtype):
        raise AudioError(f"{path}: {container} cannot hold {subtype}; choose another --format or --subtype")
    if not 1 / LARGEST_RATIO <= rate / recorded.rate <= LARGEST_RATIO:
        raise AudioError(f"{path}: cannot be resampled from {recorded.rate} Hz to {rate} Hz")
    return SoundFormat(container, subtype, channels, rate)


def _same_container(recorded: SoundFormat) -> str:
    """That of the recording; WAV where it would lose something, or come out with other bytes each time."""
    known = recorded.container in _formats()
    lossless_in_lossy = recorded.container in LOSSY and bool(recorded.holding)
    changing = recorded.container in {"RF64", "MAT5"}
    return "WAV" if not known or lossless_in_lossy or changing else recorded.container


def _usual_subtype(container: str, recorded: SoundFormat, path: str) -> str:
    """The encoding that holds the recording's samples exactly, if the container has one."""
    if container in LOSSY:
        return "OPUS" if (container, recorded.subtype) == ("OGG", "OPUS") else LOSSY[container]
    depth = _DEPTHS.get(recorded.holding or recorded.subtype)
    if depth is None:
        return "PCM_16"
    for subtype in (recorded.subtype, recorded.holding):
        if _can_hold(container, subtype):
            return subtype
    for subtype, bits in INTEGERS.items():
        if bits >= depth and _can_hold(container, subtype):
            return subtype
    raise AudioError(
        f"{path}: {container} cannot hold all of {recorded.subtype}; choose what it can with --subtype, "
        "or --format wav"
    )
