"""The recipe `segments`: recordings cut where annotations say."""

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from splitter.annotations import Annotation, annotations_of_rows, has_times
from splitter.audio.decoders import Truncated
from splitter.audio.sources import SoundSource
from splitter.audio.target import Channels, FileFormat, Lossy
from splitter.errors import AudioError, Skip
from splitter.recipes.sound import BESIDE, IN_COLUMN, SoundRecipe, Span
from splitter.records import Expected, InputFile


class Segments(SoundRecipe):
    """Cut recordings where annotations say.

    Args:
        annotations: Where annotations are: a file, 'beside' each recording, or the column that names a file
            for each, as column=NAME. Default: the rows of the dataset list, if they say start and end
            (several rows may name the same recording), else beside.
        sample_rate: Samples in a second. Default: as recorded.
        channels: Keep them, mix them to mono, split them into files of their own, or take the first.
        format: The kind of file to write; same is that of the recording.
        subtype: The encoding, in libsndfile's words, such as PCM_16. Default: one that loses nothing.
        lossy: With the same format, copy the frames of an MP3, which loses nothing, or encode it again.
        truncated: What to do with a recording that ends before it should: an error, or keep what is there.
    """

    group_rows = True

    def __init__(  # noqa: PLR0913, PLR0917 - each is an option of the command line
        self,
        inputs: Any,  # noqa: ANN401 - a path, a list, a table
        annotations: str | None = None,
        sample_rate: int | None = None,
        channels: Channels = "keep",
        format: FileFormat = "same",  # noqa: A002 - a word of the contract
        subtype: str | None = None,
        lossy: Lossy = "copy",
        truncated: Truncated = "error",
    ) -> None:
        """Take the inputs, where their annotations are, and what the pieces are to be."""
        super().__init__(
            inputs,
            sample_rate=sample_rate,
            channels=channels,
            format=format,
            subtype=subtype,
            lossy=lossy,
            truncated=truncated,
            annotations=annotations,
        )

    def expect(self, input_file: InputFile) -> Expected | None:
        """By the length that the header says."""
        return self.expected(input_file)

    def spans(self, source: SoundSource, input_file: InputFile) -> Iterator[Span]:
        """One span for each annotation, in order of their starts; no further than the recording goes."""
        annotated = list(self._annotated(input_file))
        if not annotated:
            raise Skip(self._reason())
        for row, annotation, about in annotated:
            start, stop = Span(annotation.start, annotation.end).frames(source.made.rate)
            source.forget(start)
            end = source.reach(max(stop, 1))
            if end < max(start, 1):
                raise AudioError(
                    f"{input_file.input}: an annotation starts at {float(annotation.start):g} s, "
                    f"after the end of the recording at {end / source.made.rate:g} s"
                )
            true_start, true_stop = annotation.start, annotation.end
            if end < stop:
                true_stop = Fraction(source.recorded_frames, source.recorded.rate)
                true_start = min(true_start, true_stop)
            yield Span(true_start, true_stop, about=about, row=row)

    def _reason(self) -> str:
        """Why a recording without annotations is left out, and where they were looked for."""
        if self.annotations is None:
            where = "the list has no columns start and end, and no annotation file is beside it"
            return f"there are no annotations of it: {where}; --annotations says where they are"
        if self.annotations == BESIDE:
            return "there are no annotations of it: no annotation file is beside it"
        if self.annotations.startswith(IN_COLUMN):
            return f"there are no annotations of it in column {self.annotations.removeprefix(IN_COLUMN)!r}"
        return f"there are no annotations of it in {self.annotations}"

    def _annotated(self, input_file: InputFile) -> Iterator[tuple[int, Annotation, dict[str, str]]]:
        """Each annotation with its row of the list, and with what is known of it beside that row."""
        if self.annotations is None and has_times(input_file.columns):
            found = annotations_of_rows(input_file.rows, source=input_file.input)
            order = sorted(range(len(found)), key=lambda row: (found[row].start, found[row].end))
            yield from ((row, found[row], {}) for row in order)
            return
        for annotation in self.annotations_of(input_file):
            more = {f"annotation_{key}": value for key, value in annotation.columns.items()}
            yield 0, annotation, {"label": annotation.label, **more}
