"""Choose how to cut a recording: copy it if that loses nothing, else decode it."""

from collections.abc import Iterator
from contextlib import ExitStack
from fractions import Fraction
from tempfile import gettempdir

import numpy as np

from splitter.audio.base import SoundSource, keeps_samples, wav_header
from splitter.audio.copying import FlacFramesSource, FramesSource, Mp3FramesSource, RawSource
from splitter.audio.decoded import DecodedSource
from splitter.audio.decoders import Truncated, check_whole
from splitter.audio.encode import plain_wav
from splitter.audio.formats.base import SoundFormat
from splitter.audio.formats.flac import header_of_flac
from splitter.audio.formats.samples import find_samples_in
from splitter.audio.packets import OpusPacketsSource
from splitter.audio.probe import ProbedSound
from splitter.audio.target import Target, made_format
from splitter.audio.window import Folder
from splitter.records import Content


def open_source(
    path: str, target: Target, truncated: Truncated = "error", folder: Folder = gettempdir
) -> SoundSource:
    """Open a recording in the cheapest way that loses nothing; `folder` is for temporary files."""
    with open(path, "rb") as file:
        extent = find_samples_in(file)
        if extent:
            check_whole(path, extent, truncated)
            if extent.raw and extent.raw.description:
                made = made_format(extent.raw, target, path)
                if made.container == "WAV" and keeps_samples(extent.raw, made, target):
                    return RawSource(file, extent, extent.raw, made)
        _, _, rate, _ = header_of_flac(file.fileno())
    copied: FramesSource | None = None
    if rate and target.sample_rate in (None, rate) and target.format in ("same", "flac"):
        copied = FlacFramesSource.open(path, truncated)
    elif not rate and target.lossy == "copy":
        copied = Mp3FramesSource.open(path, target, truncated) or OpusPacketsSource.open(path, target, folder)
    if copied:
        with ExitStack() as opened:
            opened.enter_context(copied)
            if keeps_samples(copied.recorded, made_format(copied.recorded, target, path), target):
                opened.pop_all()
                return copied
    return DecodedSource.open(path, target, truncated, folder)


class UnreadSource(SoundSource):
    """A recording of which only the probed length is used, to find out what will be made of it."""

    def __init__(self, probed: ProbedSound, made: SoundFormat, target: Target) -> None:
        self.recorded, self.made = probed.format, made
        self._recorded_frames = probed.frames
        # rounded as the resamplers do: halves to even
        self._frames = round(Fraction(probed.frames * made.rate, probed.format.rate))
        self.files = probed.format.channels if target.channels == "split" else 1
        is_copied = made.container == "WAV" and keeps_samples(probed.format, made, target)
        self._raw = (probed.raw if is_copied else None) or plain_wav(made)

    @property
    def is_sized(self) -> bool:
        """Whether the size of a piece follows from its length."""
        return self._raw is not None

    def size_of(self, frames: int) -> int:
        """Return the size of a piece with `frames` frames, in bytes; 0 if only encoding it shows that."""
        if self._raw is None:
            return 0
        size = frames * self._raw.frame_bytes
        return len(wav_header(self._raw, frames)) + size + (size & 1)

    def reach(self, frame: int) -> int:
        return min(frame, self._frames)

    @property
    def recorded_frames(self) -> int:
        """How many frames the header states."""
        return self._recorded_frames

    def content(self, start: int, stop: int, silence: int = 0, channel: int | None = None) -> Content:
        """Raise NotImplementedError: nothing is read."""
        raise NotImplementedError

    def frames(self, start: int, stop: int) -> Iterator[np.ndarray]:
        """Raise NotImplementedError: nothing is read."""
        raise NotImplementedError

    def close(self) -> None:
        """Do nothing: no file is open."""
