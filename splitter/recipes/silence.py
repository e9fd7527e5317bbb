"""The recipe `silence`: recordings cut where they are silent."""

from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from splitter.audio.decoders import Truncated
from splitter.audio.sources import DecodedSource, SoundSource
from splitter.audio.target import Channels, FileFormat, Lossy, Target
from splitter.errors import Refused
from splitter.recipes.sound import LabelledRecipe, Span, exactly, refuse_negative
from splitter.records import InputFile

# as librosa measures levels: frames of 2048 samples every 512, each around its place
HOP = 512
BLOCKS_IN_FRAME = 4
QUIETEST = 1e-10
AT_ONCE = 1 << 20


class Silence(LabelledRecipe):
    """Cut recordings where they are silent, and leave the silence out.

    Args:
        threshold_db: What is more than this below the loudest place is silence.
        min_silence: Seconds; a shorter silence does not cut.
        min_seconds: A shorter piece is left out.
        max_seconds: A longer piece is cut at its quietest place. Default: it stays whole.
        pad: Seconds of silence that are kept at both ends of a piece.
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
        threshold_db: float = 40.0,
        min_silence: float = 0.3,
        min_seconds: float = 0.0,
        max_seconds: float | None = None,
        pad: float = 0.1,
        sample_rate: int | None = None,
        channels: Channels = "keep",
        format: FileFormat = "same",  # noqa: A002 - a word of the contract
        subtype: str | None = None,
        lossy: Lossy = "copy",
        truncated: Truncated = "error",
        annotations: str | None = None,
        min_overlap: str = "0",
    ) -> None:
        """Take the inputs, what silence is, and what the pieces are to be."""
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
        if not 0 < threshold_db < float("inf"):
            raise Refused(f"--threshold-db {threshold_db:g}: must be more than 0")
        refuse_negative(min_silence=min_silence, min_seconds=min_seconds, pad=pad)
        if max_seconds is not None and not max(0.1, min_seconds) <= max_seconds < float("inf"):
            raise Refused(f"--max-seconds {max_seconds:g}: must be at least 0.1, and --min-seconds")
        self.threshold_db = threshold_db
        self.min_silence, self.pad = exactly(min_silence), exactly(pad)
        self.least, self.most = exactly(min_seconds), exactly(max_seconds) if max_seconds else None

    def spans(self, source: SoundSource, input_file: InputFile) -> Iterator[Span]:
        """Measure the whole recording, then name the places that are not silent."""
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


def measure(blocks: Iterable[np.ndarray]) -> np.ndarray:
    """The mean square of each frame, of its loudest channel; frame k is around sample k * HOP."""
    levels: list[np.ndarray] = []
    sums: np.ndarray = np.empty((0, 0))
    rest: np.ndarray = np.empty((0, 0), np.float32)
    for block in blocks:
        if not levels:
            # before the recording, and after it, is silence
            sums, rest = np.zeros((2, block.shape[1])), rest.reshape(0, block.shape[1])
        rest = np.concatenate((rest, block))
        whole = len(rest) // HOP * HOP
        sums = np.concatenate((sums, _squares(rest[:whole].reshape(-1, HOP, block.shape[1]))))
        rest = rest[whole:]
        levels.append(_levels(sums))
        sums = sums[len(levels[-1]) :]
    if not levels:
        return np.zeros(1)
    last = np.concatenate((sums, _squares(rest[np.newaxis]), np.zeros((1, rest.shape[1]))))
    return np.concatenate((*levels, _levels(last)))


def _levels(sums: np.ndarray) -> np.ndarray:
    """The mean square of each frame of so many blocks, of which these are the sums."""
    count = max(0, len(sums) - BLOCKS_IN_FRAME + 1)
    total = np.sum([sums[shift : shift + count] for shift in range(BLOCKS_IN_FRAME)], axis=0)
    levels = np.nan_to_num(total, nan=np.inf, posinf=np.inf).max(axis=1) / (BLOCKS_IN_FRAME * HOP)
    # a day has many of them
    with np.errstate(over="ignore"):
        small: np.ndarray = levels.astype(np.float32)
    return small


def _squares(blocks: np.ndarray) -> np.ndarray:
    """The sum of squares of each block and channel."""
    sums: np.ndarray = np.einsum("bfc,bfc->bc", blocks, blocks, dtype=np.float64)
    return sums


def sounding(levels: np.ndarray, frames: int, threshold_db: float) -> list[tuple[int, int]]:
    """The places that are not silent, in samples: librosa.effects.split's, with its way of rounding."""
    # what is no number, or infinite, is no silence, and says nothing of the rest
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
    """The pieces, with those in one that have too short a silence between them."""
    result: list[tuple[int, int]] = []
    for start, stop in pieces:
        if result and start - result[-1][1] < least_silence:
            result[-1] = result[-1][0], stop
        else:
            result.append((start, stop))
    return result


def padded(pieces: list[tuple[int, int]], pad: int, frames: int) -> list[tuple[int, int]]:
    """The pieces with some of the silence around them; two neighbours share what is between them."""
    result = []
    for index, (start, stop) in enumerate(pieces):
        before = start - pieces[index - 1][1] if index else 2 * start
        after = pieces[index + 1][0] - stop if index + 1 < len(pieces) else 2 * (frames - stop)
        result.append((start - min(pad, before - before // 2), stop + min(pad, after // 2)))
    return result


def shortened(piece: tuple[int, int], most: int, levels: np.ndarray) -> Iterator[tuple[int, int]]:
    """A piece in parts of at most so many samples, cut at the quietest place of each one's second half."""
    start, stop = piece
    while stop - start > most:
        first, last = (start + most // 2) // HOP + 1, (start + most) // HOP
        cut = start + most if first > last else (first + int(np.argmin(levels[first : last + 1]))) * HOP
        yield start, cut
        start = cut
    yield start, stop
