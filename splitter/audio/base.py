"""The seam for recordings that are cut: a stream at the rate of the pieces, with their channels."""

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

# a piece with more samples is written block after block
MANY_SAMPLES = 1 << 22

AnySource = TypeVar("AnySource", bound="SoundSource")


class SoundSource(ABC):
    """A recording as the pieces see it: at the target's rate, with the target's channels.

    Attributes:
        recorded: How the recording is stored.
        made: How the pieces are to be stored.
        resampler: What brings it to another rate, if anything has to.
        files: How many files a piece is: one, or one for each channel.
        path: Where the recording is, for those who cut it again.
        is_decoded: Whether what comes before a piece may have to be decoded, too.
    """

    recorded: SoundFormat
    made: SoundFormat
    resampler: str | None = None
    files: int = 1
    path: str = ""
    is_decoded: ClassVar[bool] = False

    @abstractmethod
    def reach(self, frame: int) -> int:
        """Read on until so many frames are known to be there; return how many of them there are."""

    @abstractmethod
    def content(self, start: int, stop: int, silence: int = 0, channel: int | None = None) -> Content:
        """Return the frames from `start` to `stop`, then silence, as a file; of a channel, or of all."""

    def encoder(
        self,
        start: int,  # noqa: ARG002 - as for `content`
        stop: int,  # noqa: ARG002
        silence: int,  # noqa: ARG002
        channel: int | None,  # noqa: ARG002
    ) -> Callable[[], Content] | None:
        """Return what makes this content at any time, in any thread; None if only `content` does."""
        return None

    @abstractmethod
    def frames(self, start: int, stop: int) -> Iterator[np.ndarray]:
        """Yield the frames from `start` to `stop`, decoded, part after part; as they are before encoding."""

    @property
    def recorded_frames(self) -> int:
        """How many frames the recording has; known when `reach` has met its end."""
        return self.reach(LONGEST)

    def way_of_cutting(self, start: int, stop: int, silence: int = 0) -> str:  # noqa: ARG002 - some copy
        """Return how a piece in a lossy format is made, `copied` or `encoded`; empty in any other format."""
        return "encoded" if self.made.container in LOSSY else ""

    def forget(self, frame: int) -> None:  # noqa: B027 - only some have to
        """Say that nothing before a frame will be asked for again."""

    def finish(self) -> None:
        """Read on to the end, for what is known only there."""
        self.reach(LONGEST)

    @abstractmethod
    def close(self) -> None:
        """Close the file."""

    def __enter__(self: AnySource) -> AnySource:  # noqa: PYI019 - Self came with Python 3.11
        """Return the source, which the block closes."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close the file."""
        self.close()


def keeps_samples(recorded: SoundFormat, made: SoundFormat, target: Target) -> bool:
    """Return whether the samples of the pieces are to be stored just as the recording's are."""
    same = (recorded.subtype, recorded.channels, recorded.rate) == (made.subtype, made.channels, made.rate)
    return same and not target.amplified and (target.channels == "keep" or recorded.channels == 1)


# pieces are of one length, but for the last
wav_header = functools.lru_cache(maxsize=64)(RawFormat.header)
