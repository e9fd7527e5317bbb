"""The interface of recordings to cut: frames at the rate of the pieces, with their channels."""

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import ClassVar, TypeVar

import numpy as np

from splitter.audio.formats.base import SoundFormat
from splitter.audio.formats.registry import LOSSY
from splitter.audio.formats.wav import RawFormat
from splitter.audio.probe import LONGEST
from splitter.audio.target import Target
from splitter.records import Content

# a piece with more samples is written in blocks
MANY_SAMPLES = 1 << 22

AnySource = TypeVar("AnySource", bound="SoundSource")


class SoundSource(ABC):
    """A recording to cut pieces from: at the target's rate, with the target's channels.

    Attributes:
        recorded: How the recording is stored.
        made: How the pieces will be stored.
        resampler: The name of the resampler; None if the rate stays the same.
        files: How many files a piece makes: one, or one for each channel.
        path: The local path of the recording, which virtual pieces refer to.
        is_decoded: Whether the recording may have to be decoded up to a piece.
        lacks_sound: Whether the recording is one that `truncated` keeps; known once `finish` has read it.
    """

    recorded: SoundFormat
    made: SoundFormat
    resampler: str | None = None
    files: int = 1
    path: str = ""
    is_decoded: ClassVar[bool] = False
    lacks_sound: bool = False

    @abstractmethod
    def reach(self, frame: int) -> int:
        """Read on until `frame` frames are known to exist; return how many do, at most `frame`."""

    @abstractmethod
    def content(self, start: int, stop: int, silence: int = 0, channel: int | None = None) -> Content:
        """Return the frames [start, stop) and then silent ones as a file; of one channel, or of all."""

    def encoder(
        self,
        start: int,  # noqa: ARG002 - as for `content`
        stop: int,  # noqa: ARG002
        silence: int,  # noqa: ARG002
        channel: int | None,  # noqa: ARG002
    ) -> Callable[[], Content] | None:
        """Return a function that makes this content at any time in any thread; None if only `content` can."""
        return None

    @abstractmethod
    def frames(self, start: int, stop: int) -> Iterator[np.ndarray]:
        """Yield the frames [start, stop) in parts: decoded, as they are before encoding."""

    @property
    def recorded_frames(self) -> int:
        """How many frames the recording has; correct once `reach` has met its end."""
        return self.reach(LONGEST)

    def way_of_cutting(self, start: int, stop: int, silence: int = 0) -> str:  # noqa: ARG002 - some copy
        """Return how a piece in a lossy format is made, `copied` or `encoded`; empty for any other format."""
        return "encoded" if self.made.container in LOSSY else ""

    def forget(self, frame: int) -> None:  # noqa: B027 - only some have to
        """Drop what is before a frame: the caller will not ask for it again."""

    def finish(self) -> None:
        """Read on to the end: some faults, and the number of frames, are known only there."""
        self.reach(LONGEST)

    @abstractmethod
    def close(self) -> None:
        """Close the file."""

    def __enter__(self: AnySource) -> AnySource:  # noqa: PYI019 - Self came with Python 3.11
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def keeps_samples(recorded: SoundFormat, made: SoundFormat, target: Target) -> bool:
    """Return whether pieces store the samples exactly as the recording does."""
    same = (recorded.subtype, recorded.channels, recorded.rate) == (made.subtype, made.channels, made.rate)
    return same and not target.amplified and (target.channels == "keep" or recorded.channels == 1)


# cached, because all pieces but the last have the same length
wav_header = functools.lru_cache(maxsize=64)(RawFormat.header)
