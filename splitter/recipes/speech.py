"""The recipe `speech`: recordings cut where somebody speaks, as silero-vad hears it."""

from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from splitter.audio.base import SoundSource
from splitter.audio.decoded import DecodedSource
from splitter.audio.target import Target
from splitter.errors import Refused
from splitter.recipes.sound import LabelledRecipe
from splitter.recipes.spans import Span, exactly, refuse_negative
from splitter.records import InputFile

if TYPE_CHECKING:
    from splitter.audio.speech_model import SpeechModel

# the sample rate of the model
RATE = 16_000


class Speech(LabelledRecipe):
    """Extract the speech from recordings.

    Args:
        threshold: How sure the model must be that it hears speech, from 0 to 1.
        min_silence: Do not cut at pauses shorter than this, in seconds.
        min_seconds: Leave out pieces shorter than this, after merging.
        max_seconds: Merge consecutive pieces up to this length; cut a longer piece at a pause, or anywhere
            if it has none. Default: leave each piece as it is.
        pad: Seconds to keep before and after each piece.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - each is an option of the command line
        self,
        inputs: Any,  # noqa: ANN401 - a path, a list, a table
        threshold: float = 0.5,
        min_silence: float = 0.1,
        min_seconds: float = 0.25,
        max_seconds: float | None = None,
        pad: float = 0.03,
        **shared: Any,  # noqa: ANN401 - see the base class
    ) -> None:
        super().__init__(inputs, **shared)
        if not 0 < threshold < 1:
            raise Refused(f"--threshold {threshold:g}: must be between 0 and 1")
        refuse_negative(min_silence=min_silence, min_seconds=min_seconds, pad=pad)
        if max_seconds is not None and not 1 <= max_seconds < float("inf"):
            raise Refused(f"--max-seconds {max_seconds:g}: must be at least 1")
        if max_seconds is not None and max_seconds <= 2 * pad:
            raise Refused(f"--pad {pad:g}: twice this must be less than --max-seconds, {max_seconds:g}")
        self.threshold, self.min_silence, self.pad = threshold, min_silence, pad
        self.min_seconds, self.max_seconds = min_seconds, max_seconds
        self._model: SpeechModel

    def setup(self) -> None:
        """Load the model, which comes with its package."""
        from splitter.audio.speech_model import SpeechModel

        super().setup()
        self._model = SpeechModel(self.device)

    def spans(self, source: SoundSource, input_file: InputFile) -> Iterator[Span]:  # noqa: ARG002 - the seam's
        """Listen to the whole recording, then yield the pieces with speech."""
        target = Target(sample_rate=RATE, channels="mono", format="wav", subtype="FLOAT")
        with DecodedSource.open(input_file.local_path, target, self.truncated) as sound:
            probabilities, samples = self._model.probabilities(sound.blocks())
            end = Fraction(sound.recorded_frames, sound.recorded.rate)
        for start, stop in self._speech(probabilities, samples):
            yield Span(Fraction(start, RATE), min(Fraction(stop, RATE), end))

    def _speech(self, probabilities: list[float], samples: int) -> list[tuple[int, int]]:
        """Return the pieces with speech, in samples: merged, then without those too short, then padded."""
        import silero_vad.utils_vad as silero

        if not probabilities:
            return []
        longest = None if self.max_seconds is None else self.max_seconds - 2 * self.pad
        found = silero.get_speech_timestamps_from_probs(
            probabilities,
            sampling_rate=RATE,
            threshold=self.threshold,
            min_speech_duration_ms=0,
            max_speech_duration_s=float("inf") if longest is None else longest,
            min_silence_duration_ms=self.min_silence * 1000,
            speech_pad_ms=0,
            audio_length_samples=samples,
        )
        speech = [(piece["start"], piece["end"]) for piece in found]
        if longest is not None:
            speech = merged(speech, int(exactly(longest) * RATE))
        shortest = self.min_seconds * RATE
        return padded([piece for piece in speech if piece[1] - piece[0] > shortest], self.pad * RATE, samples)


def merged(pieces: list[tuple[int, int]], most: int) -> list[tuple[int, int]]:
    """Merge neighbors, as long as the result has at most `most` samples."""
    result: list[tuple[int, int]] = []
    for start, stop in pieces:
        if result and stop - result[-1][0] <= most:
            result[-1] = result[-1][0], stop
        else:
            result.append((start, stop))
    return result


def padded(pieces: list[tuple[int, int]], pad: float, samples: int) -> list[tuple[int, int]]:
    """Widen pieces at both ends; two with less than two pads between them share that pause."""
    pauses = [after[0] - before[1] for before, after in pairwise(pieces)]
    shares = [pad, *(pad if pause >= 2 * pad else pause // 2 for pause in pauses), pad]
    return [
        (int(max(0, start - left)), int(min(samples, stop + right)))
        for (start, stop), (left, right) in zip(pieces, pairwise(shares), strict=False)
    ]
