"""How sound is stored, and what there is to say of a format, beside what its readers know."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

# what an array must hold so that no encoding loses anything; what is not here is lossy
DTYPES = {
    **dict.fromkeys(("PCM_S8", "PCM_U8", "PCM_16", "ALAW", "ULAW", "ALAC_16", "DWVW_16"), "int16"),
    **dict.fromkeys(("DPCM_16", "IMA_ADPCM", "MS_ADPCM", "GSM610"), "int16"),
    **dict.fromkeys(("PCM_24", "PCM_32", "ALAC_20", "ALAC_24", "ALAC_32", "DWVW_24"), "int32"),
    "DOUBLE": "float64",
}
SAMPLES_AT_ONCE = 1 << 19
SECONDS_AT_ONCE = 2


@dataclass(frozen=True)
class SoundFormat:
    """How sound is stored.

    Attributes:
        container: libsndfile's name of the kind of file.
        subtype: libsndfile's name of the encoding.
        channels: How many samples a frame has.
        rate: Frames in a second.
        holding: The encoding, in libsndfile's words, that holds the samples exactly, where it has no name
            for their own.
    """

    container: str
    subtype: str
    channels: int
    rate: int
    holding: str = field(default="", kw_only=True)

    @property
    def dtype(self) -> str:
        """The kind of array that holds its samples exactly."""
        return DTYPES.get(self.holding or self.subtype, "float32")

    @property
    def frames_at_once(self) -> int:
        """How many frames to read at a time: some seconds, but not because a header says so."""
        return max(1, min(self.rate * SECONDS_AT_ONCE, SAMPLES_AT_ONCE // self.channels))


@dataclass(frozen=True)
class AudioFormat:
    """A kind of sound file.

    Attributes:
        name: libsndfile's name, if it has one.
        ending: What the names of such files end with.
        magic: The first bytes, where more bytes stand, and these; each is one way to begin.
        is_exact: Whether libsndfile takes the exact length from a header, or from the last page.
        lossy: The usual encoding, if that is a lossy one.
        rates: The only sample rates that an encoding has; None is the usual one.
        largest_rates: The largest sample rate that an encoding has.
        not_written: Encodings that libsndfile reads but does not write, though it says that it could.
        wrapper: What takes out of a file what libsndfile leaves to chance, or takes from the clock.
        open_decoder: Opens a file that neither libsndfile nor PyAV reads, by its path and `truncated`.
    """

    name: str
    ending: str = ""
    magic: tuple[tuple[bytes, int, bytes], ...] = ()
    is_exact: bool = False
    lossy: str = ""
    rates: Mapping[str | None, tuple[int, ...]] = field(default_factory=dict)
    largest_rates: Mapping[str | None, int] = field(default_factory=dict)
    not_written: frozenset[str] = frozenset()
    wrapper: Callable[[Any], Any] | None = None
    open_decoder: Callable[[str, Any], Any] | None = None

    def begins(self, start: bytes) -> bool:
        """Return whether a file with these first bytes is of this kind."""
        return any(start.startswith(first) and start.startswith(then, at) for first, at, then in self.magic)
