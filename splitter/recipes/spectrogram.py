"""The recipe `spectrogram`: pictures of the windows of `chunk`, and their numbers."""

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Literal

import numpy as np

from splitter.audio.base import SoundSource
from splitter.audio.encode import scaled
from splitter.audio.spectra import SILENT, Spectra
from splitter.errors import Refused
from splitter.inputs.item_content import encoded, png_of
from splitter.recipes.chunk import Chunk
from splitter.recipes.sound import PieceFile
from splitter.records import Expected, InputFile, Scalar

Format = Literal["png", "npy", "both"]
Scale = Literal["mel", "linear"]

_KEYS = ("height", "width", "db_low", "db_high")
WHITE = 255


class Spectrogram(Chunk):
    """Make spectrograms of windows of a fixed length, as PNG pictures and NumPy arrays.

    Args:
        scale: Mel bands, or the bins of the Fourier transform.
        n_fft: Samples in each Fourier transform.
        hop_length: Samples from one Fourier transform to the next: one column of the picture.
        n_mels: Number of mel bands.
        fmin: The lowest frequency, in Hz.
        fmax: The highest frequency, in Hz. Default: half the sample rate.
        top_db: Raise values that are more than this many decibels below the loudest of their window to
            exactly that many below it.
        format: Pictures (png), arrays of 32-bit floats (npy), or both.
        channels: Mix all channels to mono, make a spectrogram of each, or take the first.
    """

    not_shared: ClassVar[frozenset[str]] = frozenset({"subtype", "lossy"})

    def __init__(  # noqa: PLR0913, PLR0917 - each is an option of the command line
        self,
        inputs: Any,  # noqa: ANN401 - a path, a list, a table
        scale: Scale = "mel",
        n_fft: int = 2048,
        hop_length: int = 512,
        n_mels: int = 128,
        fmin: float = 0.0,
        fmax: float | None = None,
        top_db: float = 80.0,
        format: Format = "both",  # noqa: A002 - a word of the contract
        channels: Literal["mono", "split", "first"] = "mono",
        **shared: Any,  # noqa: ANN401 - see the base class
    ) -> None:
        super().__init__(inputs, format="wav", subtype="FLOAT", channels=channels, **shared)
        for name, value in (("n-fft", n_fft), ("hop-length", hop_length), ("n-mels", n_mels)):
            if value < 1:
                raise Refused(f"--{name} {value}: must be at least 1")
        if n_fft % 2:
            raise Refused(f"--n-fft {n_fft}: must be even")
        if not 0 <= fmin < float("inf"):
            raise Refused(f"--fmin {fmin:g}: must be at least 0")
        if fmax is not None and not fmin < fmax < float("inf"):
            raise Refused(f"--fmax {fmax:g}: must be more than --fmin, which is {fmin:g}")
        if not 0 < top_db <= -SILENT:
            raise Refused(f"--top-db {top_db:g}: must be more than 0, at most {-SILENT:g}")
        self.spectra = Spectra(n_fft, hop_length, n_mels if scale == "mel" else 0, fmin, fmax)
        self.top_db = top_db
        self.kinds = ("npy", "png") if format == "both" else (format,)

    def metadata_keys(self, columns: Sequence[str]) -> set[str]:
        """Add the keys about the picture."""
        return super().metadata_keys(columns) | {*_KEYS}

    def expect(self, input_file: InputFile) -> Expected | None:
        """Return the expected number of files, without sizes, which are unknown until the files are made."""
        found = self.expected(input_file)
        return found and found._replace(outputs=found.outputs * len(self.kinds), bytes=None)

    def contents(self, source: SoundSource, start: int, stop: int, silence: int) -> list[list[PieceFile]]:
        """Return the spectrograms of a window: one for each channel that gets its own files."""
        channels = source.recorded.channels if self.target.channels == "split" else 1
        return [self._made(source, start, stop, silence, channel) for channel in range(channels)]

    def _made(
        self, source: SoundSource, start: int, stop: int, silence: int, channel: int
    ) -> list[PieceFile]:
        values = self.spectra.decibels(_samples(source, start, stop, silence, channel), source.made.rate)
        loudest = float(values.max())
        np.maximum(values, np.float32(loudest - self.top_db), out=values)
        # silence is black
        high = round(max(loudest, SILENT + self.top_db), 4)
        scale = {"db_low": round(high - self.top_db, 4), "db_high": high}
        about: dict[str, Scalar] = {"height": values.shape[0], "width": values.shape[1], **scale}
        files: list[PieceFile] = []
        for kind in self.kinds:
            content = encoded(values)[1] if kind == "npy" else _picture(values, **scale)
            files.append((kind, content, about))
            # count the sound of a window only once, however many files it has
            about = about | {"frames": None}
        return files


def _samples(source: SoundSource, start: int, stop: int, silence: int, channel: int) -> Iterator[np.ndarray]:
    for block in source.frames(start, stop):
        yield np.nan_to_num(scaled(block[:, channel], "<f4"))
    yield np.zeros(silence, np.float32)


def _picture(values: np.ndarray, db_low: float, db_high: float) -> bytes:
    """Return a gray PNG: black is the lowest value, white the highest; high frequencies at the top."""
    grey = np.rint((values[::-1] - db_low) * (WHITE / (db_high - db_low))).clip(0, WHITE).astype(np.uint8)
    return png_of(grey[..., np.newaxis], f"from {db_low:g} dB (black) to {db_high:g} dB (white)")
