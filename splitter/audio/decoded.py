"""A recording that is decoded, mixed, resampled and encoded."""

import functools
import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from tempfile import gettempdir
from typing import TypeVar

import numpy as np

from splitter.audio.base import MANY_SAMPLES, SoundSource
from splitter.audio.decoders import Decoder, Truncated
from splitter.audio.encode import AS_IN_MEMORY, encode, encode_blocks, rounded, scaled, silent, writable
from splitter.audio.formats.base import SoundFormat
from splitter.audio.probe import LONGEST
from splitter.audio.resampling import resampler
from splitter.audio.sniff import open_decoder
from splitter.audio.target import Target, made_format
from splitter.audio.window import Folder, Tape
from splitter.records import Content

AnyDecoded = TypeVar("AnyDecoded", bound="DecodedSource")
_FLOATS = ("FLOAT", "DOUBLE")


def _mixer(target: Target, channels: int) -> Callable[[np.ndarray], np.ndarray]:
    """Return a function that takes or mixes the target's channels from a block."""
    if channels == 1 or target.channels in ("keep", "split"):
        return lambda block: block
    if target.channels == "first":
        return lambda block: block[:, :1]
    return _mean


def _mean(block: np.ndarray) -> np.ndarray:
    """Return the mean of all channels; adding columns is much faster than a mean over rows."""
    wide = np.float32 if block.dtype in (np.int16, np.float32) else np.float64
    total = block[:, 0].astype(wide)
    for channel in range(1, block.shape[1]):
        total += block[:, channel]
    total /= block.shape[1]
    if np.issubdtype(block.dtype, np.integer):
        np.rint(total, out=total)
    return total.astype(block.dtype, copy=False)[:, np.newaxis]


class DecodedSource(SoundSource):
    """A recording that is decoded, mixed, resampled and encoded."""

    is_decoded = True

    def __init__(self, decoder: Decoder, made: SoundFormat, target: Target, folder: Folder) -> None:
        """Set up mixing and resampling; `folder` returns the folder for frames that memory cannot hold."""
        self._decoder, self.recorded, self.made = decoder, decoder.format, made
        self.files = decoder.format.channels if target.channels == "split" else 1
        is_mixed = target.channels == "mono" and decoder.format.channels > 1 and decoder.mixes()
        mix = _mixer(target, 1 if is_mixed else decoder.format.channels)
        channels = decoder.format.channels if target.channels in ("keep", "split") else 1
        read: Callable[[int], np.ndarray] = lambda frames: mix(decoder.read(frames))  # noqa: E731
        computed = decoder.format
        if made.subtype in _FLOATS:
            # so that no step in between rounds to the bits of the recording
            kind = AS_IN_MEMORY[made.subtype]
            read = lambda frames: mix(scaled(decoder.read(frames), kind))  # noqa: E731
            computed = replace(computed, subtype=made.subtype, holding="")
        if made.rate != decoder.format.rate:
            resample = resampler(read, computed, made.rate, channels, target.device)
            read, self.resampler = resample.read, resample.name
        unmixed = (decoder.format.rate, decoder.format.channels)
        if target.only_files and made.subtype == "PCM_16" and (made.rate, channels) == unmixed:
            decoder.may_round = True
            read = lambda frames: rounded(decoder.read(frames), made.subtype)  # noqa: E731
        self._tape = Tape(read, decoder.format.frames_at_once, folder)

    @classmethod
    def open(  # noqa: PYI019 - Self came with Python 3.11
        cls: type[AnyDecoded], path: str, target: Target, truncated: Truncated, folder: Folder = gettempdir
    ) -> AnyDecoded:
        """Open a recording to decode it, even if its pieces could be copied."""
        decoder = open_decoder(path, truncated)
        try:
            return cls(decoder, writable(made_format(decoder.format, target, path), path), target, folder)
        except BaseException:
            decoder.close()
            raise

    def blocks(self) -> Iterator[np.ndarray]:
        """Yield the whole recording as numbers from -1 to 1, channels in columns; it cannot be cut then."""
        stop = 0
        while self._tape.reach(stop + 1) > stop:
            start, stop = stop, self._tape.stop
            yield scaled(self._tape.take(start, stop), "<f4")
            self._tape.forget(stop)

    def reach(self, frame: int) -> int:
        return self._tape.reach(frame)

    def forget(self, frame: int) -> None:
        self._tape.forget(frame)

    @property
    def lacks_sound(self) -> bool:  # type: ignore[override]
        """Whether the decoder has found that sound is missing."""
        return self._decoder.lacks_sound

    def frames(self, start: int, stop: int) -> Iterator[np.ndarray]:
        return self._tape.blocks(start, stop)

    def finish(self) -> None:
        """Decode the rest without keeping it."""
        self._tape.forget(LONGEST)
        self._tape.reach(LONGEST)

    def content(self, start: int, stop: int, silence: int = 0, channel: int | None = None) -> Content:
        """Return the file of a piece, or a function that encodes it."""
        count = stop - start + silence
        write = encode_blocks if self._is_long(count) else encode
        return write(functools.partial(self._blocks, start, stop, silence, channel), count, self.made)

    def encoder(
        self, start: int, stop: int, silence: int, channel: int | None
    ) -> Callable[[], Content] | None:
        """Return a function that encodes a piece, whose frames are decoded now; None if the piece is long."""
        count = stop - start + silence
        if self._is_long(count):
            return None
        blocks = list(self._blocks(start, stop, silence, channel))
        return functools.partial(encode, lambda: blocks, count, self.made)

    def _is_long(self, frames: int) -> bool:
        return frames * self.recorded.channels > MANY_SAMPLES

    def _blocks(self, start: int, stop: int, silence: int, channel: int | None) -> Iterator[np.ndarray]:
        """Yield a piece and its silence in parts, of one channel or of all."""
        columns = slice(None) if channel is None else slice(channel, channel + 1)
        none = self._tape.take(stop, stop)
        for block in itertools.chain(self.frames(start, stop), silent(silence, none, self.made)):
            yield block[:, columns]

    @property
    def recorded_frames(self) -> int:
        """How many frames were decoded."""
        return self._decoder.frames

    def close(self) -> None:
        self._decoder.close()
