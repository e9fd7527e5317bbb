"""Make pieces of an Opus recording from its own packets, if they are proven to sound the same."""

import functools
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from tempfile import NamedTemporaryFile

import numpy as np

from splitter.audio.base import keeps_samples
from splitter.audio.copying import FramesSource
from splitter.audio.decoded import DecodedSource
from splitter.audio.encode import in_parts
from splitter.audio.formats.base import SoundFormat
from splitter.audio.formats.ogg.index import seems_opus
from splitter.audio.formats.ogg.opus import RATE
from splitter.audio.formats.ogg.source import INAUDIBLE, MOST_SKIPPED, OpusSource
from splitter.audio.formats.others import EBML
from splitter.audio.sniff import open_decoder
from splitter.audio.target import MATROSKA, Target, made_format
from splitter.audio.window import Folder
from splitter.records import Content

# tried in steps of 60 ms: a shorter preroll may begin in a pause, and therefore lead to the same sound
_PREROLLS = range(MOST_SKIPPED, 0, -2880)
# compare a fifth of a second at a time, up to the first difference
_PARTS_OF_SECOND = 5


class OpusPacketsSource(FramesSource):
    """An Opus file whose pieces are made of its own packets.

    Unless a piece is sure to sound the same, it is decoded and compared with the decoded recording.
    """

    is_decoded = True
    _cutter: OpusSource

    def __init__(
        self, path: str, opus: OpusSource, recorded: SoundFormat, target: Target, folder: Folder
    ) -> None:
        """Cut from `opus`, the file at `path`."""
        super().__init__(opus, recorded)
        self.made = replace(recorded, container="OGG")
        self._decode = functools.partial(DecodedSource.open, path, target, "error", folder)
        self._folder, self._opened = folder, ExitStack()
        self._decoded: DecodedSource | None = None
        self._forgotten = 0
        # cached: `content` needs it, then `way_of_cutting` for the same piece
        self._preroll_of = functools.lru_cache(maxsize=1)(self._find_preroll)

    @classmethod
    def open(cls, path: str, target: Target, folder: Folder) -> "OpusPacketsSource | None":
        """Open a file; return None unless it is Opus whose packets can be copied as they are."""
        if target.format not in ("same", "ogg"):
            return None
        with ExitStack() as opened:
            container = "OGG"
            if not seems_opus(path):
                container, path = MATROSKA, _as_ogg(path, target, folder, opened)
            if not path:
                return None
            opus = opened.enter_context(closing(OpusSource(path)))
            if not opus.cuttable:
                return None
            recorded = SoundFormat(container, "OPUS", opus.head.channels, opus.rate)
            source = cls(path, opus, recorded, target, folder)
            source._opened = opened.pop_all()
        return source

    def is_exact(self, start: int, stop: int) -> bool:
        """Return whether the piece sounds like the recording after some preroll."""
        return self._preroll_of(start, stop) > 0

    def content(self, start: int, stop: int, silence: int = 0, channel: int | None = None) -> Content:
        """Return content that copies the packets, or encodes the piece if it cannot be made of them."""
        if not silence and (preroll := self._preroll_of(start, stop)):
            return functools.partial(self._cutter.cut, start, stop, preroll=preroll)
        return self._whole(start, stop).content(start, stop, silence, channel)

    def frames(self, start: int, stop: int) -> Iterator[np.ndarray]:
        """Yield the frames, decoded in sequence from the start of the recording."""
        return self._whole(start, stop).frames(start, stop)

    def forget(self, frame: int) -> None:
        self._forgotten = frame
        if self._decoded:
            self._decoded.forget(frame)

    def _find_preroll(self, start: int, stop: int) -> int:
        """Return how many samples of preroll make a piece sound the same; 0 if no number tried does."""
        if not self._cutter.can_cut(start, stop):
            return 0
        if self._cutter.forgets_the_past(start, stop):
            return MOST_SKIPPED
        # a packet of 120 ms may begin before the shortest of them
        least = self._cutter.least_preroll(start)
        lengths = (length for length in _PREROLLS if length >= least)
        return next((length for length in lengths if self._sounds_the_same(start, stop, length)), 0)

    def _sounds_the_same(self, start: int, stop: int, preroll: int) -> bool:
        """Write a piece; return whether it is decoded like that part of the recording."""
        parts = in_parts(self._whole(start, stop).frames(start, stop), self.made.rate // _PARTS_OF_SECOND)
        with NamedTemporaryFile(dir=self._folder()) as named:
            with open(named.name, "wb") as file:
                self._cutter.cut(start, stop, file, preroll)
            with closing(open_decoder(named.name)) as decoder:
                return all(_are_alike(decoder.read(len(part)), part) for part in parts)

    def _whole(self, start: int, stop: int) -> DecodedSource:
        """Return the recording, decoded in sequence from its start to `stop`."""
        if not self._decoded:
            self._decoded = self._decode()
            self._decoded.forget(min(start, self._forgotten))
        self._decoded.reach(stop)
        return self._decoded

    def close(self) -> None:
        self._opened.close()
        if self._decoded:
            self._decoded.close()


def _as_ogg(path: str, target: Target, folder: Folder, opened: ExitStack) -> str:
    """Return a temporary Ogg file with the Opus of a Matroska file; an empty path if it cannot be copied."""
    with open(path, "rb") as file:
        if file.read(len(EBML)) != EBML:
            return ""
    try:
        from splitter.audio.formats.matroska import write_as_ogg
    except ImportError:
        return ""

    def is_copied(channels: int) -> bool:
        recorded = SoundFormat(MATROSKA, "OPUS", channels, RATE)
        return keeps_samples(recorded, made_format(recorded, target, path), target)

    named = opened.enter_context(NamedTemporaryFile(dir=folder()))  # noqa: SIM115 - by the stack
    with open(named.name, "wb") as ogg:
        return named.name if write_as_ogg(path, ogg, is_copied) else ""


def _are_alike(one: np.ndarray, other: np.ndarray) -> bool:
    return len(one) == len(other) and bool(np.abs(one - other).max() <= INAUDIBLE)
