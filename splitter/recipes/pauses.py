"""The recipe `pauses`: all of each recording, cut where it is quiet, in pieces of about the same length."""

import math
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from splitter.annotations import Annotation
from splitter.audio.base import SoundSource
from splitter.audio.borders import (
    FRAMES_IN_SECOND,
    HALFWAY,
    LEAST_REACH,
    PieceLengths,
    best_borders,
    border_prices,
    relative,
)
from splitter.audio.decoded import DecodedSource
from splitter.audio.levels import LevelMeter, decibels
from splitter.audio.target import Target
from splitter.errors import Refused
from splitter.recipes.sound import LabelledRecipe
from splitter.recipes.spans import Span, exactly
from splitter.records import InputFile

if TYPE_CHECKING:
    from splitter.audio.speech_model import SpeechModel

By = Literal["level", "speech", "labels"]

# the sample rate of the speech model, and the length of its windows in samples
RATE, WINDOW = 16_000, 512
LEAST_CHOICE = 0.1
# in Hz: in the search for pauses, higher tones count more
EMPHASIS = 1250


class Pauses(LabelledRecipe):
    """Cut recordings at pauses, into pieces of about the same length, and leave nothing out.

    Args:
        seconds: How long pieces should be, in seconds.
        min_seconds: No piece is shorter than this, unless its recording is, or cannot be divided so.
        max_seconds: No piece is longer than this.
        by: How to find pauses: by the level of the sound; by its level and the speech that silero-vad hears;
            or between the annotations, where it is quietest.
    """

    def __init__(
        self,
        inputs: Any,  # noqa: ANN401 - a path, a list, a table
        seconds: float = 10.0,
        min_seconds: float = 5.0,
        max_seconds: float = 15.0,
        by: By = "level",
        **shared: Any,  # noqa: ANN401 - see the base class
    ) -> None:
        super().__init__(inputs, **shared)
        if not LEAST_CHOICE <= min_seconds < float("inf"):
            raise Refused(f"--min-seconds {min_seconds:g}: must be at least {LEAST_CHOICE:g}")
        if not max_seconds < float("inf"):
            raise Refused(f"--max-seconds {max_seconds:g}: must be a finite number")
        if exactly(max_seconds) - exactly(min_seconds) < exactly(LEAST_CHOICE):
            raise Refused(
                f"--max-seconds {max_seconds:g}: must be at least {LEAST_CHOICE:g} more than --min-seconds, "
                f"which is {min_seconds:g}"
            )
        if not min_seconds <= seconds <= max_seconds:
            raise Refused(
                f"--seconds {seconds:g}: must be from --min-seconds to --max-seconds, "
                f"which are {min_seconds:g} and {max_seconds:g}"
            )
        if by == "labels" and not self.annotations:
            raise Refused("--by labels: needs --annotations, such as --annotations beside")
        self.wanted, self.least, self.most = exactly(seconds), exactly(min_seconds), exactly(max_seconds)
        self.by: By = by
        self._model: SpeechModel

    def metadata_keys(self, columns: Sequence[str]) -> set[str]:
        """Add the keys that say how a piece ends."""
        return super().metadata_keys(columns) | {"cut", "cut_level"}

    def setup(self) -> None:
        """Load the speech model, if it is needed."""
        super().setup()
        if self.by == "speech":
            from splitter.audio.speech_model import SpeechModel

            self._model = SpeechModel(self.device)

    def spans(self, source: SoundSource, input_file: InputFile) -> Iterator[Span]:  # noqa: ARG002 - the seam's
        """Measure the whole recording, then yield all of it, from border to border."""
        target = Target(format="wav", subtype="FLOAT")
        if self.by == "speech":
            target = Target(sample_rate=RATE, channels="mono", format="wav", subtype="FLOAT")
        with DecodedSource.open(input_file.local_path, target, self.truncated) as sound:
            rate = sound.made.rate
            frame = Fraction(max(1, round(rate / FRAMES_IN_SECOND)), rate)
            levels, loudness = self._listen(sound.blocks(), int(frame * rate), rate)
            end = Fraction(sound.recorded_frames, sound.recorded.rate)
        cues = Cues(self.annotations_of(input_file) if self.by == "labels" else [], len(levels), frame)
        borders = self._borders(border_prices(loudness), cues, end, frame)
        for start, stop in pairwise([Fraction(0), *borders, end] if end else []):
            if stop == end:
                yield Span(start, stop, about={"cut": "end", "cut_level": None})
                continue
            at = min(round(stop / frame), len(levels) - 1)
            around = slice(max(0, at - LEAST_REACH), at + LEAST_REACH + 1)
            is_forced = cues.inside[at] if cues.are_any else loudness[around].max() > HALFWAY
            level = round(float(levels[around].max()), 1)
            yield Span(start, stop, about={"cut": "forced" if is_forced else "pause", "cut_level": level})

    def _listen(self, blocks: Iterator[np.ndarray], hop: int, rate: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the level of each frame in decibels, and its loudness from 0 to 1.

        With `--by speech`, the loudness is averaged with the probability of speech.
        """
        meter, emphasised = LevelMeter(hop, blocks_in_frame=2), LevelMeter(hop, blocks_in_frame=2)
        heard = _measured(blocks, meter, emphasised, rate)
        probabilities: list[float] = []
        if self.by == "speech":
            probabilities, _ = self._model.probabilities(heard)
        for _ in heard:
            pass
        # rounded, so that processors that round logarithms differently give the same borders
        levels, high = (np.round(decibels(one.levels()), 2) for one in (meter, emphasised))
        loudness = relative(high)
        if probabilities:
            at = np.arange(len(levels)) * (hop / WINDOW) - 0.5
            loudness += np.interp(at, np.arange(len(probabilities)), probabilities)
            loudness /= 2
        return levels, loudness

    def _borders(self, prices: np.ndarray, cues: "Cues", end: Fraction, frame: Fraction) -> list[Fraction]:
        """Return the borders, in seconds."""
        # the edge of a cue is up to half a frame from its frame
        margin = 1 if cues.edges else 0
        lengths = PieceLengths(
            float(self.wanted / frame),
            math.ceil(self.least / frame) + margin,
            math.floor(self.most / frame) - margin,
        )
        found = best_borders(prices, cues.inside, float(end / frame), lengths)
        borders = [cues.edges.get(at, at * frame) for at in found]
        pieces = [stop - start for start, stop in pairwise([Fraction(0), *borders, end])]
        parts = max(1, math.ceil(end / self.most))
        if not all(self.least <= piece <= self.most for piece in pieces) and end / parts >= self.least:
            # cut into equal parts, since no borders at frames give allowed lengths
            return [end * part / parts for part in range(1, parts)]
        return borders


class Cues:
    """Stretches of time that no border should be in, on the grid of frames.

    Attributes:
        are_any: Whether there are any stretches.
        inside: Which frames are inside a stretch, and not at one of its ends.
        edges: Exact times at which a stretch starts or ends, by the nearest frame, if that would otherwise
            be inside.
    """

    def __init__(self, annotations: Iterable[Annotation], frames: int, frame: Fraction) -> None:
        """Join annotations that overlap, but not those that only touch."""
        self.inside = np.zeros(frames, np.bool_)
        self.edges: dict[int, Fraction] = {}
        cues: list[tuple[Fraction, Fraction]] = []
        for one in sorted(annotations, key=lambda one: (one.start, one.end)):
            if cues and one.start < cues[-1][1]:
                cues[-1] = cues[-1][0], max(cues[-1][1], one.end)
            elif one.start < one.end:
                cues.append((one.start, one.end))
        self.are_any = bool(cues)
        for start, end in cues:
            self.inside[math.floor(start / frame) + 1 : math.ceil(end / frame)] = True
        for edge in (edge for cue in cues for edge in cue):
            at = round(edge / frame)
            if 0 < at < frames and (self.inside[at] or at in self.edges):
                self.inside[at] = False
                self.edges[at] = edge


def _measured(
    blocks: Iterable[np.ndarray], meter: LevelMeter, emphasised: LevelMeter, rate: int
) -> Iterator[np.ndarray]:
    """Measure blocks as they are and with high tones emphasized, and yield them unchanged.

    Consonants are high and soft; much of the noise in a pause is low and loud.
    """
    factor = np.float32(math.exp(-2 * math.pi * EMPHASIS / rate))
    last = None
    for block in blocks:
        meter.add(block)
        before = np.concatenate((np.zeros_like(block[:1]) if last is None else last, block[:-1]))
        emphasised.add(block - factor * before)
        last = block[-1:]
        yield block
