"""The format that the pieces of a recording are stored in."""

import functools
from dataclasses import dataclass
from typing import Literal, get_args

import soundfile

from splitter.audio.formats.base import SoundFormat
from splitter.audio.formats.registry import BY_NAME, LOSSY, OF_LIBSNDFILE
from splitter.audio.resampling import LARGEST_RATIO
from splitter.errors import AudioError, Refused

Channels = Literal["keep", "mono", "split", "first"]
FileFormat = Literal["same", "wav", "flac", "ogg", "mp3"]
Lossy = Literal["copy", "encode"]

INTEGERS = {"PCM_S8": 8, "PCM_U8": 8, "PCM_16": 16, "PCM_24": 24, "PCM_32": 32}
# the bits that an encoding holds exactly; the encodings not listed are lossy, and have no depth
_DEPTHS = INTEGERS | {
    "ALAW": 14,
    "ULAW": 14,
    "ALAC_16": 16,
    "DWVW_12": 12,
    "DWVW_16": 16,
    "ALAC_20": 20,
    "ALAC_24": 24,
    "DWVW_24": 24,
    "ALAC_32": 32,
    "FLOAT": 33,
    "DOUBLE": 65,
}
_LEAST_RATE, _MOST_RATE = 1000, 1_000_000
# what users mean by a rate in kHz: one of these, else a thousand times as much, up to a limit
_OFTEN_MEANT, _MOST_MEANT = {11: 11_025, 22: 22_050, 44: 44_100}, 400_000
# libsndfile cannot read back more of either
_MOST_CHANNELS, _MOST_HERTZ = 1024, 2**31 - 1
# FFmpeg's name of Matroska and WebM; packets of Opus with more channels are not copied
MATROSKA, _OPUS_CHANNELS = "MATROSKA", 2
_MISWRITTEN = {("VOC", "ALAW"), ("VOC", "ULAW"), ("PAF", "PCM_24")}
_CHOICES = {one.ending: one for one in OF_LIBSNDFILE if one.ending in get_args(FileFormat)}


@dataclass(frozen=True, kw_only=True)
class Target:
    """The sample rate, channels and format that are asked for.

    Attributes:
        sample_rate: Samples in a second; None keeps the recording's.
        channels: Keep them, mix them to one, put each in a separate file, or take the first.
        format: The kind of file; `same` is that of the recording.
        subtype: libsndfile's name of the encoding; None is one that loses nothing, or the usual one of a
            lossy format.
        lossy: Whether pieces of MP3 and Opus that need no change are copied, or encoded again.
        amplified: Whether pieces get a gain, so that nothing can be copied.
        only_files: Whether nothing but files is made of the samples, which can be rounded for these at once.
        device: Where resampling is done: the CPU, or a device of torch.
    """

    sample_rate: int | None = None
    channels: Channels = "keep"
    format: FileFormat = "same"
    subtype: str | None = None
    lossy: Lossy = "copy"
    amplified: bool = False
    only_files: bool = False
    device: str = "cpu"

    def __post_init__(self) -> None:
        """Refuse values that are wrong for every recording."""
        if self.sample_rate is not None and not _LEAST_RATE <= self.sample_rate <= _MOST_RATE:
            meant = _OFTEN_MEANT.get(self.sample_rate, self.sample_rate * 1000)
            hint = f"; did you mean {meant}?" if _LEAST_RATE < meant <= _MOST_MEANT else ""
            raise Refused(
                f"--sample-rate {self.sample_rate}: must be from {_LEAST_RATE:,} to {_MOST_RATE:,} Hz{hint}"
            )
        chosen = _CHOICES.get(self.format)
        rates = chosen.rates.get(self.subtype) if chosen else None
        if rates and self.sample_rate is not None and self.sample_rate not in rates:
            there = ", ".join(map(str, rates))
            what = self.format if self.subtype != "OPUS" else "OPUS"
            raise Refused(f"--sample-rate {self.sample_rate}: {what} supports only {there}")
        most = chosen.largest_rates.get(self.subtype) if chosen else None
        if most and self.sample_rate is not None and self.sample_rate > most:
            raise Refused(f"--sample-rate {self.sample_rate}: {self.format} supports at most {most}")
        if self.subtype is None:
            return
        known = soundfile.available_subtypes()
        if self.subtype not in known:
            raise Refused(f"--subtype {self.subtype}: is unknown; choose from {', '.join(sorted(known))}")
        if chosen and not _can_hold(chosen.name, self.subtype):
            there = f"choose from {_subtypes_of(chosen.name)}"
            raise Refused(f"--subtype {self.subtype}: cannot be used in {self.format}; {there}")


# cached, because libsndfile's answer takes longer than cutting a short recording
_formats = functools.cache(soundfile.available_formats)


@functools.cache
def _can_hold(container: str, subtype: str) -> bool:
    """Return whether libsndfile writes an encoding in a container."""
    about = BY_NAME.get(container)
    return not (about and subtype in about.not_written) and soundfile.check_format(container, subtype)


def _subtypes_of(container: str) -> str:
    """Return the encodings that a container can hold, for a message."""
    subtypes = sorted(soundfile.available_subtypes(container))
    return ", ".join(subtype for subtype in subtypes if _can_hold(container, subtype))


def made_format(recorded: SoundFormat, target: Target, path: str) -> SoundFormat:
    """Return how to store the pieces of a recording; refuse what is impossible or loses bits unasked."""
    chosen = _CHOICES.get(target.format)
    container = chosen.name if chosen else _same_container(recorded)
    channels = recorded.channels if target.channels == "keep" else 1
    rate = target.sample_rate or recorded.rate
    subtype = target.subtype or _usual_subtype(container, recorded)
    if subtype is None and not chosen:
        container, subtype = "WAV", _usual_subtype("WAV", recorded)
    if subtype is None:
        raise AudioError(
            f"{path}: {container} cannot hold {recorded.holding or recorded.subtype} without loss; "
            f"choose a --subtype of {_subtypes_of(container)}, or --format wav"
        )
    _check_readable(channels, rate, path)
    if not _can_hold(container, subtype):
        there = f"choose from {_subtypes_of(container)}, or another --format"
        raise AudioError(f"{path}: {container} cannot hold --subtype {subtype}; {there}")
    if not 1 / LARGEST_RATIO <= rate / recorded.rate <= LARGEST_RATIO:
        raise AudioError(f"{path}: cannot be resampled from {recorded.rate} Hz to {rate} Hz")
    return SoundFormat(container, subtype, channels, rate)


def _check_readable(channels: int, rate: int, path: str) -> None:
    """Refuse pieces with more channels or a higher rate than libsndfile reads back."""
    if channels > _MOST_CHANNELS:
        raise AudioError(
            f"{path}: has {channels:,} channels, and pieces with more than {_MOST_CHANNELS:,} cannot be read "
            "back; choose --channels mono, first or split"
        )
    if rate > _MOST_HERTZ:
        raise AudioError(
            f"{path}: has {rate:,} Hz, and pieces with more than {_MOST_HERTZ:,} cannot be read back; "
            "correct the sample rate in its header"
        )


def _same_container(recorded: SoundFormat) -> str:
    """Return the recording's container; another if libsndfile cannot write that exactly and reproducibly."""
    if (recorded.container, recorded.subtype) == (MATROSKA, "OPUS") and recorded.channels <= _OPUS_CHANNELS:
        return "OGG"
    known = recorded.container in _formats()
    lossless_in_lossy = recorded.container in LOSSY and bool(recorded.holding)
    changing = recorded.container in {"RF64", "MAT5"}
    # libsndfile reads other samples back than it has written, or more
    miswritten = (recorded.container, recorded.subtype) in _MISWRITTEN or recorded.container in {"SDS", "XI"}
    return "WAV" if not known or lossless_in_lossy or changing or miswritten else recorded.container


def _usual_subtype(container: str, recorded: SoundFormat) -> str | None:
    """Return an encoding that holds the samples exactly, or the usual lossy one; None if there is neither."""
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
    return None
