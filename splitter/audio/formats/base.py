"""What there is to say of a format, beside what its readers know."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


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
