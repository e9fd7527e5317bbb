"""How sound is stored, and the facts about a format that are not in the code that reads it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

# the type of array that holds the samples of an encoding exactly; float32 holds those of all other encodings
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
        holding: libsndfile's name of an encoding that holds the samples exactly, if it has no name for
            theirs; else empty.
    """

    container: str
    subtype: str
    channels: int
    rate: int
    holding: str = field(default="", kw_only=True)

    @property
    def dtype(self) -> str:
        """The type of array that holds the samples exactly."""
        return DTYPES.get(self.holding or self.subtype, "float32")

    @property
    def frames_at_once(self) -> int:
        """How many frames to read at a time: two seconds, but bounded, since a header may state any rate."""
        return max(1, min(self.rate * SECONDS_AT_ONCE, SAMPLES_AT_ONCE // self.channels))


@dataclass(frozen=True)
class AudioFormat:
    """A kind of sound file.

    Attributes:
        name: libsndfile's name, if it has one.
        ending: What the names of such files end with.
        magic: The ways in which such files begin: their first bytes, and an offset with the bytes there.
        is_exact: Whether libsndfile takes the exact length from a header, or from the last page.
        lossy: The usual encoding, if it is lossy; else empty.
        rates: The only sample rates that an encoding allows; the key None is the usual encoding.
        largest_rates: The largest sample rate that an encoding allows.
        not_written: Encodings that libsndfile reads but does not write, although it says that it can.
        wrapper: A class for the file that is written, which removes random numbers and times from it.
        open_decoder: A function that opens a file that neither libsndfile nor PyAV reads, from its path and
            `truncated`.
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
