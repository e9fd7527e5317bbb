"""What the recipes for sound share: their parameters, and the way from spans of time to output files."""

import os
import stat
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

from splitter.annotations import Annotation, AnnotationFile, Labels, MinOverlap, find_annotations
from splitter.audio.decoders import Truncated
from splitter.audio.probe import probed_length
from splitter.audio.sources import SoundSource, UnreadSource, open_source
from splitter.audio.target import Channels, FileFormat, Lossy, Target, made_format
from splitter.dataset import ProcessorDataset, Result
from splitter.errors import AudioError, Refused, Skip
from splitter.records import Expected, InputFile, OutputFile, Scalar

BESIDE = "beside"
IN_COLUMN = "column="


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of a recording: from `start` to before `stop`, in exact seconds, then some silence.

    Both ends are rounded to samples of whatever rate is asked for, halves to even.

    Attributes:
        about: More that is known of the piece.
        row: Which of the input's rows it comes from.
    """

    start: Fraction
    stop: Fraction
    silence: Fraction = Fraction(0)
    about: Mapping[str, Scalar] = field(default_factory=dict)
    row: int = 0

    def frames(self, rate: int) -> tuple[int, int]:
        """The first sample, and the one after the last."""
        return _nearest(self.start, rate), _nearest(self.stop, rate)


def _nearest(seconds: Fraction, rate: int) -> int:
    """`round(seconds * rate)`, in a tenth of the time that Fraction takes."""
    divisor = seconds.denominator
    whole, rest = divmod(seconds.numerator * rate, divisor)
    return whole + (2 * rest > divisor or (2 * rest == divisor and whole & 1))


def exactly(seconds: float) -> Fraction:
    """The number as it was written: 7.3 is 73/10."""
    return Fraction(repr(float(seconds)))


def refuse_negative(**seconds: float) -> None:
    """Refuse an option, by its name, that is less than nothing, or no number."""
    for name, value in seconds.items():
        if not 0 <= value < float("inf"):
            raise Refused(f"--{name.replace('_', '-')} {value:g}: must be at least 0")


class SoundRecipe(ProcessorDataset):
    """A recipe that cuts recordings; a subclass says where."""

    def __init__(  # noqa: PLR0913 - each is an option of the command line
        self,
        inputs: Any,  # noqa: ANN401 - a path, a list, a table
        *,
        sample_rate: int | None,
        channels: Channels,
        format: FileFormat,  # noqa: A002 - a word of the contract
        subtype: str | None,
        lossy: Lossy,
        truncated: Truncated,
        annotations: str | None,
    ) -> None:
        """Take the inputs, what the pieces are to be, and where annotations are."""
        super().__init__(inputs)
        self.target = Target(
            sample_rate=sample_rate, channels=channels, format=format, subtype=subtype, lossy=lossy
        )
        if lossy == "copy":
            # what an earlier version has done, which had no choice, is not done again because there is one
            self.parameters = {name: value for name, value in self.parameters.items() if name != "lossy"}
        self.truncated: Truncated = truncated
        self.annotations = annotations
        self._annotation_file: AnnotationFile | None = None
        if annotations and annotations != BESIDE and not annotations.startswith(IN_COLUMN):
            # another content is another parameter: what is finished is then done again
            self.parameters = {**self.parameters, "annotations file": _state_of(annotations)}

    def setup(self) -> None:
        """Read a file of annotations that is about many recordings once."""
        if "annotations file" in self.parameters and self.annotations:
            self._annotation_file = AnnotationFile(self.annotations)

    def check_columns(self, columns: Sequence[str]) -> None:
        """Refuse a list without the column that names the annotations."""
        where = self.annotations or ""
        if where.startswith(IN_COLUMN) and where.removeprefix(IN_COLUMN) not in columns:
            column, there = where.removeprefix(IN_COLUMN), ", ".join(map(repr, columns[:10]))
            raise Refused(f"--annotations {where}: the dataset list has no column {column!r}; it has {there}")

    @abstractmethod
    def spans(self, source: SoundSource, input_file: InputFile) -> Iterator[Span]:
        """Where to cut, in order; `source.reach` tells how far the recording goes."""

    def process(self, input_file: InputFile) -> Result:
        """Cut one recording."""
        about: dict[str, Scalar] = {}
        return self._pieces(input_file, about), about

    def expected(self, input_file: InputFile) -> Expected | None:
        """How many pieces `spans` will give and how large they are, by what the header says of the length."""
        path = input_file.local_path
        known = probed_length(path, self.truncated)
        if known is None:
            return None
        source = UnreadSource(known, made_format(known.format, self.target, path), self.target)
        files = size = content = 0
        try:
            for span in self.spans(source, input_file):
                start, stop = span.frames(source.made.rate)
                silence = _nearest(span.stop + span.silence, source.made.rate) - stop if span.silence else 0
                frames = stop - start + silence
                if frames:
                    files += source.files
                    size += source.files * source.size_of(frames)
                    content += source.files * source.made.channels * frames
        except Skip:
            return Expected(0, 0)
        return Expected(files, size if source.is_sized else None, known.exact, content)

    def annotations_of(self, input_file: InputFile) -> list[Annotation]:
        """The annotations of a recording, from wherever they were said to be."""
        if self._annotation_file:
            return self._annotation_file.of(input_file.input)
        where = self.annotations or ""
        if where.startswith(IN_COLUMN):
            name = input_file.columns[where.removeprefix(IN_COLUMN)]
            found = Path(_home(input_file), name) if name else None
        else:
            found = find_annotations(input_file.local_path)
        if not found:
            return []
        file = AnnotationFile(found)
        # what is about one recording only is about this one, whatever it calls it
        return file.of(input_file.input if len(file.recordings) > 1 else None)

    def _pieces(self, input_file: InputFile, about: dict[str, Scalar]) -> Iterator[OutputFile]:
        target = self.target
        if self.device != target.device:
            target = replace(target, device=self.device)
        folder = partial(getattr, input_file, "scratch")
        with open_source(input_file.local_path, target, self.truncated, folder) as source:
            for number, span in enumerate(self.spans(source, input_file)):
                yield from _files(source, span, number)
            source.finish()
            recorded = source.recorded
            about.update(
                source_rate=recorded.rate,
                source_channels=recorded.channels,
                source_frames=source.recorded_frames,
                source_format=recorded.container,
                source_subtype=recorded.subtype,
                source_seconds=source.recorded_frames / recorded.rate,
            )
            if target.sample_rate is not None:
                about["source_resampler"] = source.resampler


class LabelledRecipe(SoundRecipe):
    """A recipe whose pieces carry the labels that they overlap."""

    def __init__(self, inputs: Any, *, min_overlap: str, **shared: Any) -> None:  # noqa: ANN401
        """Take what every recipe for sound takes, and how much of a label a piece must hold to have it."""
        super().__init__(inputs, **shared)
        self._min_overlap = MinOverlap.parse(min_overlap)

    def _pieces(self, input_file: InputFile, about: dict[str, Scalar]) -> Iterator[OutputFile]:
        pieces = super()._pieces(input_file, about)
        if not self.annotations:
            yield from pieces
            return
        labels: Labels | None = None
        with open_source(input_file.local_path, self.target, self.truncated) as source:
            rate = source.recorded.rate
        labels = Labels(self.annotations_of(input_file), rate=rate, min_overlap=self._min_overlap)
        for piece in pieces:
            yield piece._replace(metadata={**piece.metadata, **_labels_of(piece, labels)})


def _labels_of(piece: OutputFile, labels: Labels) -> dict[str, Scalar]:
    """A piece's labels and when they start and end in it, each as one text."""
    start, stop = piece.metadata["start_sample"], piece.metadata["stop_sample"]
    assert isinstance(start, int) and isinstance(stop, int)  # noqa: S101, PT018 - made by _files
    found = labels.of(start, stop)
    return {
        "labels": "|".join(label.annotation.label.replace("|", "\\|") for label in found),
        "label_starts": "|".join(str(float(label.start)) for label in found),
        "label_ends": "|".join(str(float(label.end)) for label in found),
    }


def _files(source: SoundSource, span: Span, number: int) -> Iterator[OutputFile]:
    """The files of one span: one, or one for each channel."""
    rate = source.made.rate
    start, stop = span.frames(rate)
    source.forget(start)
    if source.reach(stop) < stop:
        raise AudioError(f"a piece ends at {float(span.stop):g} s, after the end of the recording")
    silence = _nearest(span.stop + span.silence, rate) - stop if span.silence else 0
    recorded_rate = source.recorded.rate
    first, last = (start, stop) if recorded_rate == rate else span.frames(recorded_rate)
    start_seconds = float(span.start)
    # a point makes no file, but its row
    contents = source.contents(start, stop, silence) if stop - start + silence else [None]
    for channel, content in enumerate(contents, 1):
        suffix = f"_channel{channel}" if len(contents) > 1 else ""
        metadata = {
            "start_seconds": start_seconds,
            "end_seconds": float(span.stop),
            "start_sample": first,
            "stop_sample": last,
            "sample_rate": rate,
            "channels": source.made.channels,
            "frames": stop - start + silence,
            **span.about,
        }
        if content is not None and (way := source.way_of_cutting(start, stop, silence)):
            metadata["source_cut"] = way
        name = f"{number:06d}_{start_seconds:.3f}s{suffix}.{source.made.ending}"
        yield OutputFile("" if content is None else name, content, metadata, span.row)


def _home(input_file: InputFile) -> str:
    """The folder that the recording's path in the list starts from; its own if that is absolute."""
    path = input_file.local_path
    below = path.removesuffix(f"/{input_file.input}")
    return below if below != path else os.path.dirname(path)


def _state_of(path: str) -> list[int]:
    try:
        found = os.stat(path)
    except OSError as error:
        raise Refused(f"--annotations {path}: cannot be read: {error.strerror}") from None
    if stat.S_ISDIR(found.st_mode):
        raise Refused(
            f"--annotations {path}: is a folder, not a file; put its files beside the recordings and say "
            "--annotations beside, or name them in a column"
        )
    return [found.st_size, found.st_mtime_ns]
