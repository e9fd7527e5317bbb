"""The recipe `silence`: recordings cut where they are silent."""

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from splitter.audio.base import SoundSource
from splitter.audio.decoded import DecodedSource
from splitter.audio.levels import HOP, QUIETEST, measure
from splitter.audio.target import Target
from splitter.errors import Refused
from splitter.recipes.sound import LabelledRecipe
from splitter.recipes.spans import Span, exactly, refuse_negative
from splitter.records import InputFile

AT_ONCE = 1 << 20


class Silence(LabelledRecipe):
    """Cut recordings at silences, and leave the silence out.

    Args:
        threshold_db: Treat sound more than this many decibels below the loudest point as silence.
        min_silence: Do not cut at silences shorter than this, in seconds.
        min_seconds: Leave out pieces shorter than this.
        max_seconds: Cut longer pieces at their quietest point. Default: keep them whole.
        pad: Seconds of silence to keep before and after each piece.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - each is an option of the command line
        self,
        inputs: Any,  # noqa: ANN401 - a path, a list, a table
        threshold_db: float = 40.0,
        min_silence: float = 0.3,
        min_seconds: float = 0.0,
        max_seconds: float | None = None,
        pad: float = 0.1,
        **shared: Any,  # noqa: ANN401 - see the base class
    ) -> None:
        super().__init__(inputs, **shared)
        if not 0 < threshold_db < float("inf"):
            raise Refused(f"--threshold-db {threshold_db:g}: must be more than 0")
        refuse_negative(min_silence=min_silence, min_seconds=min_seconds, pad=pad)
        if max_seconds is not None and not max(0.1, min_seconds) <= max_seconds < float("inf"):
            raise Refused(f"--max-seconds {max_seconds:g}: must be at least 0.1, and at least --min-seconds")
        self.threshold_db = threshold_db
        self.min_silence, self.pad = exactly(min_silence), exactly(pad)
        self.least, self.most = exactly(min_seconds), exactly(max_seconds) if max_seconds else None

    def spans(self, source: SoundSource, input_file: InputFile) -> Iterator[Span]:
        """Measure the whole recording, then yield what is not silent."""
        rate = source.recorded.rate
        target = Target(format="wav", subtype="FLOAT")
        with DecodedSource.open(input_file.local_path, target, self.truncated) as sound:
            levels = measure(sound.blocks())
            frames = sound.recorded_frames
        pieces = joined(sounding(levels, frames, self.threshold_db), round(self.min_silence * rate))
        pieces = padded(pieces, round(self.pad * rate), frames)
        if self.most:
            most = max(1, int(self.most * rate))
            pieces = [part for piece in pieces for part in shortened(piece, most, levels)]
        for start, stop in pieces:
            if stop - start >= self.least * rate:
                yield Span(Fraction(start, rate), Fraction(stop, rate))


def sounding(levels: np.ndarray, frames: int, threshold_db: float) -> list[tuple[int, int]]:
    """Return the pieces that are not silent, in samples, rounded as librosa.effects.split rounds them."""
    # NaN and infinite samples have infinite levels: these are not silent, and do not count as the loudest
    loudest = levels.max(initial=0.0, where=np.isfinite(levels))
    if levels.max() <= QUIETEST or not frames:
        return []
    sounds = np.zeros(len(levels) + 2, np.bool_)
    for at in range(0, len(levels), AT_ONCE):
        some = np.maximum(levels[at : at + AT_ONCE], QUIETEST) / max(loudest, QUIETEST)
        sounds[at + 1 : at + 1 + len(some)] = 10 * np.log10(some) > -threshold_db
    edges = np.flatnonzero(sounds[1:] != sounds[:-1]) * HOP
    starts, stops = edges[::2], np.minimum(edges[1::2], frames)
    return [
        (start, stop) for start, stop in zip(starts.tolist(), stops.tolist(), strict=True) if start < stop
    ]


def joined(pieces: list[tuple[int, int]], least_silence: int) -> list[tuple[int, int]]:
    """Join pieces if the silence between them is too short."""
    result: list[tuple[int, int]] = []
    for start, stop in pieces:
        if result and start - result[-1][1] < least_silence:
            result[-1] = result[-1][0], stop
        else:
            result.append((start, stop))
    return result


def padded(pieces: list[tuple[int, int]], pad: int, frames: int) -> list[tuple[int, int]]:
    """Add some of the silence around each piece; two neighbors share the silence between them."""
    result = []
    for index, (start, stop) in enumerate(pieces):
        before = start - pieces[index - 1][1] if index else 2 * start
        after = pieces[index + 1][0] - stop if index + 1 < len(pieces) else 2 * (frames - stop)
        result.append((start - min(pad, before - before // 2), stop + min(pad, after // 2)))
    return result


def shortened(piece: tuple[int, int], most: int, levels: np.ndarray) -> Iterator[tuple[int, int]]:
    """Cut a piece into parts of at most `most` samples, each at the quietest point of its second half."""
    start, stop = piece
    while stop - start > most:
        first, last = (start + most // 2) // HOP + 1, (start + most) // HOP
        cut = start + most if first > last else (first + int(np.argmin(levels[first : last + 1]))) * HOP
        yield start, cut
        start = cut
    yield start, stop
