"""The recipe `chunk`: recordings in windows of a fixed length.

|--------- 0 ---------|                 seconds = 4, overlap = 1, so hop = 3
                |--------- 1 ---------|
                                |--------- 2 ---------|
======================================================.    the recording
"""

from collections.abc import Iterator
from fractions import Fraction
from itertools import islice, pairwise
from typing import Any, Literal

from splitter.audio.base import SoundSource
from splitter.errors import AudioError, Refused
from splitter.recipes.sound import LabelledRecipe
from splitter.recipes.spans import Span, exactly
from splitter.records import InputFile

Tail = Literal["keep", "drop", "pad", "shift", "merge"]

FIRST = 32


class Chunk(LabelledRecipe):
    """Cut recordings into windows of a fixed length.

    Args:
        seconds: The length of a window, in seconds.
        overlap: Overlap between windows, in seconds.
        tail: What to do with a last window that is not full: keep it, drop it, pad it with silence, shift it
            back until it is full, or merge it into the one before.
        min_seconds: Drop or merge a last window shorter than this. Default: with merge, any window that is
            not full; otherwise none.
    """

    def __init__(
        self,
        inputs: Any,  # noqa: ANN401 - a path, a list, a table
        seconds: float = 10.0,
        overlap: float = 0.0,
        tail: Tail = "keep",
        min_seconds: float | None = None,
        **shared: Any,  # noqa: ANN401 - see the base class
    ) -> None:
        super().__init__(inputs, **shared)
        if not 0 < seconds < float("inf"):
            raise Refused(f"--seconds {seconds:g}: must be more than 0")
        if not 0 <= overlap < seconds:
            raise Refused(
                f"--overlap {overlap:g}: must be at least 0 and less than --seconds, which is {seconds:g}"
            )
        if min_seconds is not None and not 0 <= min_seconds <= seconds:
            raise Refused(f"--min-seconds {min_seconds:g}: must be from 0 to --seconds, which is {seconds:g}")
        self.length, self.hop = exactly(seconds), exactly(seconds) - exactly(overlap)
        self._first: dict[int, tuple[Span, ...]] = {}
        self.tail: Tail = tail
        self.least = exactly(min_seconds) if min_seconds is not None else None

    expect = LabelledRecipe.expected

    def spans(self, source: SoundSource, input_file: InputFile) -> Iterator[Span]:
        """Yield windows until they cover the whole recording."""
        rate = source.made.rate
        if self.hop * rate < 1:
            raise AudioError(f"{input_file.input}: windows would be less than a sample apart at {rate} Hz")
        for window, following in pairwise(self._windows(rate)):
            _, stop = window.frames(rate)
            # merge and shift have to know now whether the next window will be full
            ahead = following.frames(rate)[1] if self.tail in ("merge", "shift") else stop + 1
            end = source.reach(ahead)
            if end <= stop:
                yield from self._last(window, end, source)
                return
            if self.tail == "merge" and end < ahead and self._is_little(following.start, end, rate):
                yield Span(window.start, _true_end(source))
                return
            yield window
            if self.tail == "shift" and end < ahead:
                if not self._is_dropped(following.start, end, rate):
                    yield Span(_true_end(source) - self.length, _true_end(source))
                return

    def _windows(self, rate: int) -> Iterator[Span]:
        """Yield windows without end, except those with no samples beyond the one before."""
        # the first are the same for every recording, and all that a short one has
        if rate not in self._first:
            self._first[rate] = tuple(islice(self._windows_from(Fraction(0), 0, rate), FIRST))
        yield from self._first[rate]
        last = self._first[rate][-1]
        yield from self._windows_from(last.start + self.hop, last.frames(rate)[1], rate)

    def _windows_from(self, start: Fraction, reached: int, rate: int) -> Iterator[Span]:
        while True:
            window = Span(start, start + self.length)
            _, stop = window.frames(rate)
            if stop > reached:
                yield window
            start, reached = start + self.hop, stop

    def _last(self, window: Span, end: int, source: SoundSource) -> Iterator[Span]:
        """Yield the last window, full or not, unless the recording is empty or the window is dropped."""
        rate = source.made.rate
        stop = min(window.stop, _true_end(source))
        if end == window.frames(rate)[1]:
            yield Span(window.start, stop)
        elif end and self.tail != "drop" and not self._is_dropped(window.start, end, rate):
            yield Span(window.start, stop, window.stop - stop if self.tail == "pad" else Fraction(0))

    def _is_little(self, start: Fraction, end: int, rate: int) -> bool:
        """Return whether a last window is short enough to be merged into the one before."""
        return self.least is None or end - round(start * rate) < round(self.least * rate)

    def _is_dropped(self, start: Fraction, end: int, rate: int) -> bool:
        return self.least is not None and end - round(start * rate) < round(self.least * rate)


def _true_end(source: SoundSource) -> Fraction:
    """Return the length of a recording whose end has been reached, in exact seconds."""
    return Fraction(source.recorded_frames, source.recorded.rate)
