"""A piece of a recording, to be cut later, and the text that says how to cut it.

160000:320000                                              the first sample, and the one after the last
0:80000+4000 channel=2 sample_rate=16000 channels=split    samples of silence; which channel; how to store it
"""

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, cast, get_args

from splitter.audio.base import SoundSource
from splitter.audio.decoders import Truncated
from splitter.audio.target import Channels, FileFormat, Lossy, Target
from splitter.errors import Refused
from splitter.records import Content, Deferred

_TEXT = re.compile(
    r"(\d{1,18}):(\d{1,18})(?:\+(\d{1,18}))?(?: channel=(\d{1,4}))?((?: [a-z_]+=\w+)*)", re.ASCII
)
_OPTIONS = tuple(one.name for one in fields(Target) if one.name not in ("device", "amplified", "only_files"))
_CHOICES = {
    "channels": get_args(Channels),
    "format": get_args(FileFormat),
    "lossy": get_args(Lossy),
    "truncated": get_args(Truncated),
}


class Storing(NamedTuple):
    """The options for opening a recording and storing its pieces: the same for all pieces."""

    target: Target = Target()
    truncated: Truncated = "error"

    def __str__(self) -> str:
        """Return the options that differ from the default, as text."""
        usual = Target()
        given = {name: getattr(self.target, name) for name in _OPTIONS}
        told = [f" {name}={value}" for name, value in given.items() if value != getattr(usual, name)]
        return "".join(told) + (f" truncated={self.truncated}" if self.truncated != "error" else "")

    @classmethod
    @functools.lru_cache(maxsize=64)
    def parse(cls, text: str) -> "Storing":
        """Parse text that `str` wrote; raise ValueError or Refused for any other text."""
        given: dict[str, Any] = dict(option.split("=") for option in text.split())
        for name, value in given.items():
            if name not in (*_OPTIONS, "truncated") or (name in _CHOICES and value not in _CHOICES[name]):
                raise ValueError(f"{name}={value}")
        if "sample_rate" in given:
            given["sample_rate"] = int(given["sample_rate"])
        truncated = cast("Truncated", given.pop("truncated", "error"))
        return cls(Target(**given), truncated)


class Cut(NamedTuple):
    """The bounds of a piece, and how it is stored.

    Attributes:
        start: Its first sample, at the rate of the pieces.
        stop: The one after its last.
        silence: How many samples of silence come after it.
        channel: Which of the recording's channels it is; None for all that are kept.
        storing: How it is stored.
    """

    start: int
    stop: int
    silence: int = 0
    channel: int | None = None
    storing: Storing = Storing()

    def __str__(self) -> str:
        """Return the text that `parse` reads."""
        silence = f"+{self.silence}" if self.silence else ""
        channel = "" if self.channel is None else f" channel={self.channel + 1}"
        return f"{self.start}:{self.stop}{silence}{channel}{self.storing}"

    @classmethod
    def parse(cls, text: str) -> "Cut":
        """Parse text that `str` wrote; raise ValueError for any other text."""
        match = _TEXT.fullmatch(text)
        if not match:
            raise ValueError(f"{text!r:.100} is not a piece of a recording")
        start, stop, silence, channel = (int(number or 0) for number in match.groups()[:4])
        try:
            storing = Storing.parse(match[5])
        except (ValueError, Refused) as error:
            raise ValueError(f"{text!r:.100} is not a piece of a recording: {error}") from None
        if start + (not silence) > stop or (match[4] and not channel):
            raise ValueError(f"{text!r:.100} is not a piece of a recording")
        return cls(start, stop, silence, channel - 1 if channel else None, storing)

    @property
    def samples(self) -> int:
        """How many samples each of its channels has."""
        return self.stop - self.start + self.silence

    def content(self, source: SoundSource) -> Content:
        """Return the content of the piece, cut from `source`."""
        return source.content(self.start, self.stop, self.silence, self.channel)


@dataclass(frozen=True, slots=True)
class UncutPiece(Deferred):
    """A piece of an open recording, to be cut when it is stored.

    Attributes:
        source: The recording.
        cut: What to cut.
    """

    source: SoundSource
    cut: Cut

    def made(self) -> Content:
        return self.cut.content(self.source)

    def encoder(self) -> Callable[[], Content] | None:
        """Return a function that makes the content at any time in any thread; None if only `made` can."""
        cut = self.cut
        return self.source.encoder(cut.start, cut.stop, cut.silence, cut.channel)
