"""The recipe `speech`: recordings cut where somebody speaks, as silero-vad hears it."""

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

# what the model takes: 32 ms at 16 kHz
RATE = 16_000
WINDOW = 512


class Speech(LabelledRecipe):
    """Cut recordings where somebody speaks, and leave the rest out.

    Args:
        threshold: How sure the model must be that it hears speech, from 0 to 1.
        min_silence: Seconds; a shorter pause does not end a piece.
        min_seconds: Shorter speech is left out.
        max_seconds: Pieces that follow each other are merged as long as they stay within this; a longer
            one is cut at a pause, or where it must be. Default: each piece stays as it is.
        pad: Seconds that are kept at both ends of a piece.
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
        threshold: float = 0.5,
        min_silence: float = 0.1,
        min_seconds: float = 0.25,
        max_seconds: float | None = None,
        pad: float = 0.03,
        sample_rate: int | None = None,
        channels: Channels = "keep",
        format: FileFormat = "same",  # noqa: A002 - a word of the contract
        subtype: str | None = None,
        lossy: Lossy = "copy",
        truncated: Truncated = "error",
        annotations: str | None = None,
        min_overlap: str = "0",
    ) -> None:
        """Take the inputs, what speech is, and what the pieces are to be."""
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
        if not 0 < threshold < 1:
            raise Refused(f"--threshold {threshold:g}: must be between 0 and 1")
        refuse_negative(min_silence=min_silence, min_seconds=min_seconds, pad=pad)
        if max_seconds is not None and not 1 <= max_seconds < float("inf"):
            raise Refused(f"--max-seconds {max_seconds:g}: must be at least 1")
        self.threshold, self.min_silence, self.min_seconds, self.pad = (
            threshold,
            min_silence,
            min_seconds,
            pad,
        )
        self.max_seconds = max_seconds
        self._model: Any = None

    def setup(self) -> None:
        """Load the model, which comes with its package."""
        import silero_vad

        super().setup()
        self._model = silero_vad.load_silero_vad()

    def spans(self, source: SoundSource, input_file: InputFile) -> Iterator[Span]:  # noqa: ARG002 - the seam's
        """Listen to the whole recording, then name the places where there is speech."""
        target = Target(sample_rate=RATE, channels="mono", format="wav", subtype="FLOAT")
        with DecodedSource.open(input_file.local_path, target, self.truncated) as sound:
            probabilities, samples = self._listen(sound.blocks())
            end = Fraction(sound.recorded_frames, sound.recorded.rate)
        pieces = self._heard(probabilities, samples)
        if self.max_seconds is not None:
            pieces = merged(pieces, int(exactly(self.max_seconds) * RATE))
        for start, stop in pieces:
            yield Span(Fraction(start, RATE), min(Fraction(stop, RATE), end))

    def _listen(self, blocks: Iterable[np.ndarray]) -> tuple[list[float], int]:
        """How probable speech is in each window, and how many samples there are."""
        import torch

        self._model.reset_states()
        probabilities: list[float] = []
        rest, samples = np.empty(0, np.float32), 0
        with torch.no_grad():
            for block in blocks:
                samples += len(block)
                rest = np.concatenate((rest, block[:, 0]))
                whole = len(rest) // WINDOW * WINDOW
                windows = torch.from_numpy(rest[:whole]).reshape(-1, WINDOW)
                probabilities += [self._model(window, RATE).item() for window in windows]
                rest = rest[whole:]
            if len(rest):
                window = torch.from_numpy(np.pad(rest, (0, WINDOW - len(rest))))
                probabilities.append(self._model(window, RATE).item())
        return probabilities, samples

    def _heard(self, probabilities: list[float], samples: int) -> list[tuple[int, int]]:
        import silero_vad.utils_vad as silero

        if not probabilities:
            return []
        found = silero.get_speech_timestamps_from_probs(
            probabilities,
            sampling_rate=RATE,
            threshold=self.threshold,
            min_speech_duration_ms=self.min_seconds * 1000,
            max_speech_duration_s=self.max_seconds or float("inf"),
            min_silence_duration_ms=self.min_silence * 1000,
            speech_pad_ms=self.pad * 1000,
            audio_length_samples=samples,
        )
        return [(piece["start"], piece["end"]) for piece in found]


def merged(pieces: list[tuple[int, int]], most: int) -> list[tuple[int, int]]:
    """Neighbours in one, as long as that has at most so many samples."""
    result: list[tuple[int, int]] = []
    for start, stop in pieces:
        if result and stop - result[-1][0] <= most:
            result[-1] = result[-1][0], stop
        else:
            result.append((start, stop))
    return result
