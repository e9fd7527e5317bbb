"""The recipe `segments`: recordings cut where annotations say."""

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from splitter.annotations import Annotation, annotations_of_rows, has_times
from splitter.annotations.dividing import Share
from splitter.annotations.merging import Merge
from splitter.audio.base import SoundSource
from splitter.errors import AudioError, Refused, Skip
from splitter.recipes.sound import BESIDE, IN_COLUMN, LABEL_KEYS, SoundRecipe, label_columns, spoken_columns
from splitter.recipes.spans import Span, exactly, refuse_negative
from splitter.records import InputFile

DEFAULT_GAP = 2.0
# the number of a row of the input, its annotation, and other metadata of the piece
Annotated = tuple[int, Annotation, dict[str, str]]


class Segments(SoundRecipe):
    """Cut recordings at annotations.

    Args:
        annotations: Where to find annotations: in a file, 'beside' each recording, or in files named by a
            column, as column=NAME. Default: the rows of the dataset list if they have a start and an end
            (several rows may name the same recording), else beside.
        merge: Merge neighbouring annotations into pieces of MIN:MAX seconds, such as 5:15. Default: one piece
            for each annotation.
        merge_gap: Do not merge annotations with more seconds between them than this. Default: 2.
        merge_speakers: Merge annotations of different speakers, too.
    """

    group_rows = True

    def __init__(
        self,
        inputs: Any,  # noqa: ANN401 - a path, a list, a table
        annotations: str | None = None,
        merge: str | None = None,
        merge_gap: float | None = None,
        merge_speakers: bool = False,  # noqa: FBT001, FBT002 - an option of the command line
        **shared: Any,  # noqa: ANN401 - see the base class
    ) -> None:
        super().__init__(inputs, annotations=annotations, **shared)
        if merge is None and (merge_gap is not None or merge_speakers):
            name = "--merge-speakers" if merge_gap is None else f"--merge-gap {merge_gap:g}"
            raise Refused(f"{name}: needs --merge, such as --merge 5:15")
        gap = DEFAULT_GAP if merge_gap is None else merge_gap
        refuse_negative(merge_gap=gap)
        self.merge = None if merge is None else Merge.parse(merge, gap=exactly(gap), speakers=merge_speakers)

    def check_columns(self, columns: Sequence[str]) -> None:
        """Also refuse --label-column if the rows of the list are the annotations."""
        try:
            super().check_columns(columns)
        except Refused as error:
            if self.annotations is not None or has_times(columns) or "label" not in columns:
                raise
            hint = "if its rows are the annotations, name their times start and end: --rename OLD=start"
            raise Refused(f"{error}; {hint}") from None
        if self.label_column is not None and self._are_rows(columns):
            raise Refused(
                f"--label-column {self.label_column!r}: is for annotation files, but the rows of the dataset "
                "list have a start and an end; add --annotations, or leave it out"
            )

    def metadata_keys(self, columns: Sequence[str]) -> set[str]:
        """Add the key of labels from a file, or the keys of merged labels."""
        keys = super().metadata_keys(columns)
        if self.merge is None:
            return keys | {*(() if self._are_rows(columns) else ("label",))}
        # a merged piece has the text and the speakers of all its rows, not those of the first
        merged = {"text", "speaker"} if self.merge.speakers and self._are_rows(columns) else {"text"}
        return keys | {*LABEL_KEYS, *(merged & {*columns})}

    def _are_rows(self, columns: Iterable[str]) -> bool:
        """Return whether the rows of the list are the annotations."""
        return self.annotations is None and has_times(columns)

    def _annotations_file_of(self, input_file: InputFile) -> Path | None:
        return None if self._are_rows(input_file.columns) else super()._annotations_file_of(input_file)

    expect = SoundRecipe.expected

    def spans(self, source: SoundSource, input_file: InputFile) -> Iterator[Span]:
        """Yield one span for each annotation, in order of their starts, up to the end of the recording."""
        annotated = list(self._annotated(input_file))
        if not annotated:
            raise Skip(self._reason(input_file))
        if self.merge is not None:
            yield from self._merged(self.merge, source, input_file, annotated)
            return
        for row, annotation, about in annotated:
            start, stop = _within(source, input_file, annotation.start, annotation.end, annotation.start)
            yield Span(start, stop, about=about, row=row)

    def _merged(
        self, merge: Merge, source: SoundSource, input_file: InputFile, annotated: Sequence[Annotated]
    ) -> Iterator[Span]:
        """Yield a span for each run of neighboring annotations; its row is that of the first."""
        # only annotations with text, if there are any: a TextGrid may have tiers without
        annotated = [one for one in annotated if one[1].text is not None] or annotated
        annotations = [annotation for _, annotation, _ in annotated]
        for piece in merge.pieces(annotations):
            cues = annotations[piece.first : piece.last]
            start, stop = _within(source, input_file, piece.start, piece.stop, cues[-1].start)
            shares = [Share(one, one.start - start, min(one.end, stop) - start, one.text) for one in cues]
            spoken = spoken_columns(shares, annotations)
            about = {name: value for name, value in spoken.items() if name not in input_file.columns}
            yield Span(start, stop, row=annotated[piece.first][0], labels={**label_columns(shares), **about})

    def _reason(self, input_file: InputFile) -> str:
        """Return why a recording without annotations is skipped, and where annotations were looked for."""
        if self.annotations is None:
            if self._are_rows(input_file.columns):
                return "it has no annotations: start and end are empty"
            where = "the list has no columns start and end, and no annotation file is beside it"
            return f"it has no annotations: {where}; use --annotations to name them"
        if self.annotations == BESIDE:
            return "it has no annotations: no annotation file is beside it"
        if self.annotations.startswith(IN_COLUMN):
            return f"it has no annotations in column {self.annotations.removeprefix(IN_COLUMN)!r}"
        return f"it has no annotations in {self.annotations}"

    def _annotated(self, input_file: InputFile) -> Iterator[Annotated]:
        """Yield each annotation with the number of its row, and with other metadata of the piece."""
        if self._are_rows(input_file.columns):
            # leave out rows without times, as a recording that nobody has annotated may have
            numbers = [
                at for at, row in enumerate(input_file.rows) if row.get("start", "-") or row.get("end", "-")
            ]
            rows = [input_file.rows[at] for at in numbers]
            found = zip(numbers, annotations_of_rows(rows, source=input_file.input), strict=True)
            order = sorted(found, key=lambda one: (one[1].start, one[1].end))
            yield from ((row, annotation, {}) for row, annotation in order)
            return
        for annotation in self.annotations_of(input_file):
            more = {f"annotation_{key}": value for key, value in annotation.columns.items()}
            yield 0, annotation, {"label": annotation.label, **more}


def _within(
    source: SoundSource, input_file: InputFile, start: Fraction, stop: Fraction, annotated: Fraction
) -> tuple[Fraction, Fraction]:
    """Cut off a piece at the end of its recording; refuse an annotation that starts after the end."""
    first, last = Span(start, stop).frames(source.made.rate)
    at, _ = Span(annotated, stop).frames(source.made.rate)
    source.forget(first)
    end = source.reach(max(last, 1))
    if end < max(at, 1):
        raise AudioError(
            f"{input_file.input}: an annotation starts at {float(annotated):g} s, "
            f"after the end of the recording at {end / source.made.rate:g} s; "
            "correct its times, or remove it"
        )
    if end < last:
        stop = Fraction(source.recorded_frames, source.recorded.rate)
        start = min(start, stop)
    return start, stop
