"""The recipe `chunk`: recordings in windows of a fixed length.

|--------- 0 ---------|                 seconds = 4, overlap = 1, so hop = 3
                |--------- 1 ---------|
                                |--------- 2 ---------|
======================================================.    the recording
"""

from collections.abc import Iterator
from fractions import Fraction
from itertools import islice
from typing import Any, Literal

from splitter.audio.decoders import Truncated
from splitter.audio.sources import SoundSource
from splitter.audio.target import Channels, FileFormat, Lossy
from splitter.errors import AudioError, Refused
from splitter.recipes.sound import LabelledRecipe, Span, exactly
from splitter.records import Expected, InputFile

Tail = Literal["keep", "drop", "pad", "shift", "merge"]

FIRST = 32


class Chunk(LabelledRecipe):
    """Cut recordings into windows of a fixed length.

    Args:
        seconds: The length of a window.
        overlap: Seconds that each window shares with the one before.
        tail: What becomes of a last window that the recording does not fill: it is kept as it is, dropped,
            padded with silence, shifted back until it is full, or merged into the one before.
        min_seconds: A last window with less than this is dropped, or merged. Default: with merge, any that
            is not full; else none.
        sample_rate: Samples in a second. Default: as recorded.
        channels: Keep them, mix them to mono, split them into files of their own, or take the first.
        format: The kind of file to write; same is that of the recording.
        subtype: The encoding, in libsndfile's words, such as PCM_16. Default: one that loses nothing.
        lossy: With the same format, copy the frames of an MP3, which loses nothing, or encode it again.
        truncated: What to do with a recording that ends before it should: an error, or keep what is there.
        annotations: Where annotations are: a file, 'beside' each recording, or the column that names a file
            for each, as column=NAME. Each piece then has the labels that it overlaps. Default: none.
        min_overlap: How much of a label a piece must hold to have it: seconds, or a share such as 50%.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - each is an option of the command line
        self,
        inputs: Any,  # noqa: ANN401 - a path, a list, a table
        seconds: float = 10.0,
        overlap: float = 0.0,
        tail: Tail = "keep",
        min_seconds: float | None = None,
        sample_rate: int | None = None,
        channels: Channels = "keep",
        format: FileFormat = "same",  # noqa: A002 - a word of the contract
        subtype: str | None = None,
        lossy: Lossy = "copy",
        truncated: Truncated = "error",
        annotations: str | None = None,
        min_overlap: str = "0",
    ) -> None:
        """Take the inputs, where to cut, and what the pieces are to be."""
        super().__init__(
            inputs,
            sample_rate=sample_rate,
            channels=channels,
            format=format,
            subtype=subtype,
            lossy=lossy,
            truncated=truncated,
            annotations=annotations,
            min_overlap=min_overlap,
        )
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

    def expect(self, input_file: InputFile) -> Expected | None:
        """By the length that the header says."""
        return self.expected(input_file)

    def spans(self, source: SoundSource, input_file: InputFile) -> Iterator[Span]:
        """One window after the other, until all of the recording stands in one."""
        rate = source.made.rate
        if self.hop * rate < 1:
            raise AudioError(f"{input_file.input}: windows would be less than a sample apart at {rate} Hz")
        windows = self._windows(rate)
        window = next(windows)
        for following in windows:
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
            window = following

    def _windows(self, rate: int) -> Iterator[Span]:
        """All windows that hold something the one before does not hold, without end."""
        # the first are those of each recording, and of a short one they are all
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
        """The last window, full or not; none of a recording that is empty."""
        rate = source.made.rate
        stop = min(window.stop, _true_end(source))
        if end == window.frames(rate)[1]:
            yield Span(window.start, stop)
        elif end and self.tail != "drop" and not self._is_dropped(window.start, end, rate):
            yield Span(window.start, stop, window.stop - stop if self.tail == "pad" else Fraction(0))

    def _is_little(self, start: Fraction, end: int, rate: int) -> bool:
        """Whether a last window has so little that it is merged into the one before."""
        return self.least is None or end - round(start * rate) < round(self.least * rate)

    def _is_dropped(self, start: Fraction, end: int, rate: int) -> bool:
        return self.least is not None and end - round(start * rate) < round(self.least * rate)


def _true_end(source: SoundSource) -> Fraction:
    """How long the recording is, in exact seconds; its end has been reached."""
    return Fraction(source.recorded_frames, source.recorded.rate)
