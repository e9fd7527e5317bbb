"""How much of a piece is speech, as silero-vad hears it."""

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING

from splitter.measures.base import Sound, measure
from splitter.records import Scalar

if TYPE_CHECKING:
    from splitter.audio.speech_model import SpeechModel

PROBABLE = 0.5


@functools.lru_cache(maxsize=1)
def _model(device: str) -> "SpeechModel":
    from splitter.audio.speech_model import SpeechModel

    return SpeechModel(device)


@measure("speech", prepare=_model)
def speech(sound: Sound) -> Iterator[Scalar]:
    """Yield the share of windows of 32 ms that are speech with a probability of at least 50 %."""
    probabilities, _ = _model(sound.device).probabilities(sound.speech_blocks())
    heard = sum(probability >= PROBABLE for probability in probabilities)
    yield round(heard / len(probabilities), 4) if probabilities else None
