"""The recipe `segments`: recordings cut where annotations say."""

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from splitter.annotations import Annotation, annotation_files_among, annotations_of_rows, has_times
from splitter.audio.base import SoundSource
from splitter.errors import AudioError, Refused, Skip
from splitter.recipes.sound import BESIDE, IN_COLUMN, SoundRecipe, Span
from splitter.records import Expected, InputFile


class Segments(SoundRecipe):
    """Cut recordings at annotations.

    Args:
        annotations: Where to find annotations: in a file, 'beside' each recording, or in files named by a
            column, as column=NAME. Default: the rows of the dataset list if they have a start and an end
            (several rows may name the same recording), else beside.
    """

    group_rows = True

    def __init__(
        self,
        inputs: Any,  # noqa: ANN401 - a path, a list, a table
        annotations: str | None = None,
        **shared: Any,  # noqa: ANN401 - see the base class
    ) -> None:
        super().__init__(inputs, annotations=annotations, **shared)
        if annotations is None:
            # a folder has no rows with a start and an end
            self.inputs = self.inputs.with_options(companions=annotation_files_among)

    def check_columns(self, columns: Sequence[str]) -> None:
        """Refuse also a column of labels where the rows of the list are the annotations."""
        super().check_columns(columns)
        if self.label_column is not None and self._are_rows(columns):
            raise Refused(
                f"--label-column {self.label_column!r}: is for annotation files, but the rows of the dataset "
                "list have a start and an end; add --annotations, or leave it out"
            )

    def metadata_keys(self, columns: Sequence[str]) -> set[str]:
        """Return also the key of labels from a file."""
        return super().metadata_keys(columns) | {*(() if self._are_rows(columns) else ("label",))}

    def _are_rows(self, columns: Iterable[str]) -> bool:
        """Return whether the rows of the list are the annotations."""
        return self.annotations is None and has_times(columns)

    def _annotations_file_of(self, input_file: InputFile) -> Path | None:
        return None if self._are_rows(input_file.columns) else super()._annotations_file_of(input_file)

    def expect(self, input_file: InputFile) -> Expected | None:
        """Return what will come of an input, by the length that its header states."""
        return self.expected(input_file)

    def spans(self, source: SoundSource, input_file: InputFile) -> Iterator[Span]:
        """Yield one span for each annotation, in order of their starts, up to the end of the recording."""
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
        """Return why a recording without annotations is left out, and where they were looked for."""
        if self.annotations is None:
            where = "the list has no columns start and end, and no annotation file is beside it"
            return f"it has no annotations: {where}; use --annotations to name them"
        if self.annotations == BESIDE:
            return "it has no annotations: no annotation file is beside it"
        if self.annotations.startswith(IN_COLUMN):
            return f"it has no annotations in column {self.annotations.removeprefix(IN_COLUMN)!r}"
        return f"it has no annotations in {self.annotations}"

    def _annotated(self, input_file: InputFile) -> Iterator[tuple[int, Annotation, dict[str, str]]]:
        """Yield each annotation with its row of the list, and with what else is known of it."""
        if self._are_rows(input_file.columns):
            found = annotations_of_rows(input_file.rows, source=input_file.input)
            order = sorted(range(len(found)), key=lambda row: (found[row].start, found[row].end))
            yield from ((row, found[row], {}) for row in order)
            return
        for annotation in self.annotations_of(input_file):
            more = {f"annotation_{key}": value for key, value in annotation.columns.items()}
            yield 0, annotation, {"label": annotation.label, **more}
