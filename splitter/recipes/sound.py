"""The base classes of the recipes for sound: shared parameters, and how spans of time become output files."""

import os
import stat
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from splitter.annotations import Annotation, AnnotationFile, MinOverlap, advice_on_labels, find_annotations
from splitter.annotations.corpora import state_of_folder
from splitter.annotations.dividing import Cross, Share, Shares, Upcoming
from splitter.audio.ahead import encoded_ahead
from splitter.audio.base import SoundSource
from splitter.audio.decoders import Truncated
from splitter.audio.formats.registry import usual_ending
from splitter.audio.pieces import Cut, Storing, UncutPiece
from splitter.audio.probe import probed_length
from splitter.audio.sources import UnreadSource
from splitter.audio.target import Channels, FileFormat, Lossy, Target, made_format
from splitter.dataset import ProcessorDataset, Result, refuse_hidden
from splitter.errors import AnnotationError, AudioError, InputError, Refused, Skip, UnknownColumn
from splitter.measures.base import Sound
from splitter.measures.chosen import chosen_measures, columns_of
from splitter.recipes.normalising import GAIN_KEYS, TRUE_PEAK, Loudness, NormalisedSource, open_sound
from splitter.recipes.parameters import take_parameters_of_base
from splitter.recipes.spans import Span, nearest
from splitter.records import Content, Expected, InputFile, OutputFile, Scalar
from splitter.system.cpus import own_cpus
from splitter.text.endings import NOT_SOUND
from splitter.text.labels import join_labels
from splitter.text.urls import is_url

BESIDE = "beside"
IN_COLUMN = "column="
# metadata keys of each piece, then of each recording
_KEYS = (
    *("start_seconds", "end_seconds", "start_sample", "stop_sample", "sample_rate", "channels", "frames"),
    *("source_rate", "source_channels", "source_frames", "source_format", "source_subtype", "source_seconds"),
)
# the extension of a file, its content, and metadata that other files of its piece do not have
PieceFile = tuple[str, Content | None, Mapping[str, Scalar]]
_NO_FILE: PieceFile = ("", None, {})
LABEL_KEYS = ("labels", "label_starts", "label_ends")


class SoundRecipe(ProcessorDataset):
    """A recipe that cuts recordings; a subclass says where, in `spans`.

    An `__init__` that ends with `**shared` gets these parameters after its own, except those in `not_shared`.

    Args:
        sample_rate: Samples per second. Default: as recorded.
        channels: Keep all channels, mix them to mono, write each to a separate file, or take the first.
        format: The format of the output files; 'same' is the format of the recording.
        subtype: libsndfile subtype, such as PCM_16. Default: lossless.
        lossy: If the format stays the same, copy MP3 frames and Opus packets without loss, or encode again.
        truncated: What to do with a recording that ends early: report an error, or keep the part that exists.
        annotations: Where to find annotations: in a file, 'beside' each recording, or in files named by a
            column, as column=NAME.
        label_column: The column or field of annotation files that holds the labels. Default: label, text,
            species or another usual name.
        measure: What to measure in each piece, as columns of the manifest: levels, loudness, true_peak,
            clipping, snr, bandwidth, speech, dnsmos; separate several by commas. Default: nothing.
        loudness: Bring each piece to this integrated loudness, in LUFS, such as -23. Default: as recorded.
        true_peak: With --loudness, the highest true peak allowed in a piece, in dBTP; the gain of the piece
            is reduced if necessary.
    """

    not_shared: ClassVar[frozenset[str]] = frozenset()

    def __init_subclass__(cls, **options: Any) -> None:  # noqa: ANN401 - Python's
        super().__init_subclass__(**options)
        take_parameters_of_base(cls)

    def __init__(  # noqa: PLR0913, PLR0917 - each is an option of the command line
        self,
        inputs: Any,  # noqa: ANN401 - a path, a list, a table
        sample_rate: int | None = None,
        channels: Channels = "keep",
        format: FileFormat = "same",  # noqa: A002 - a word of the contract
        subtype: str | None = None,
        lossy: Lossy = "copy",
        truncated: Truncated = "error",
        annotations: str | None = None,
        label_column: str | None = None,
        measure: str | None = None,
        loudness: float | None = None,
        true_peak: float = TRUE_PEAK,
    ) -> None:
        super().__init__(inputs)
        self.loudness = Loudness(loudness, true_peak) if loudness is not None else None
        if loudness is None and true_peak != TRUE_PEAK:
            raise Refused(f"--true-peak {true_peak:g}: needs --loudness, such as --loudness -23")
        self.target = Target(
            sample_rate=sample_rate,
            channels=channels,
            format=format,
            subtype=subtype,
            lossy=lossy,
            amplified=loudness is not None,
            only_files=not measure and loudness is None and self._only_cuts(),
        )
        # without their defaults, so that outputs of versions that lacked these parameters are not redone
        later: dict[str, Any] = {"lossy": "copy", "label_column": None, "cross": None, "measure": None}
        later |= {"loudness": None, "true_peak": TRUE_PEAK}
        later |= {"merge": None, "merge_gap": None, "merge_speakers": False}
        self.parameters = dict(one for one in self.parameters.items() if one not in later.items())
        self.measures = chosen_measures(measure)
        self.truncated: Truncated = truncated
        self.annotations = annotations
        self.inputs = self.inputs.with_options(not_inputs=NOT_SOUND)
        self.label_column = label_column
        self._annotation_file: AnnotationFile | None = None
        if annotations and annotations != BESIDE and not annotations.startswith(IN_COLUMN):
            # counts as a parameter: if the file changes, finished inputs are redone
            self.parameters = {**self.parameters, "annotations file": _state_of(annotations)}

    def _only_cuts(self) -> bool:
        """Return whether no method looks at samples; those of a recipe from elsewhere may."""
        is_shipped = type(self).__module__.startswith(f"{__package__}.")
        return is_shipped and type(self).contents is SoundRecipe.contents

    def setup(self) -> None:
        """Read an annotation file that all recordings share, and load the models of measures."""
        if "annotations file" in self.parameters and self.annotations:
            self._annotation_file = AnnotationFile(self.annotations, label_column=self.label_column)
        for measure in self.measures:
            if measure.prepare:
                measure.prepare(self.device)

    def check_columns(self, columns: Sequence[str]) -> None:
        """Refuse a list that lacks the column of annotation files, or has one that metadata would hide."""
        refuse_hidden(columns, self.metadata_keys(columns))
        where = self.annotations or ""
        if where.startswith(IN_COLUMN) and where.removeprefix(IN_COLUMN) not in columns:
            column, there = where.removeprefix(IN_COLUMN), ", ".join(map(repr, columns[:10]))
            missing = f"the dataset list has no column {column!r}; it has {there}"
            raise UnknownColumn(f"--annotations {where}: {missing}")

    def metadata_keys(self, columns: Sequence[str]) -> set[str]:  # noqa: ARG002 - some look at them
        """Return the metadata keys that every recording will have with these parameters."""
        keys = {*_KEYS, *columns_of(self.measures), *(GAIN_KEYS if self.loudness else ())}
        resampled = {"source_resampler"} if self.target.sample_rate is not None else set()
        cut = {"source_cut"} if self.target.format in {"mp3", "ogg"} else set()
        return keys | resampled | cut | ({"source_truncated"} if self.truncated == "keep" else set())

    def advise_before_work(self, input_files: Iterable[InputFile]) -> str:
        """Return advice on the labels in the first annotation file; refuse a shared file that is faulty."""
        first, advice = list(input_files), ""
        if "annotations file" in self.parameters:
            try:
                shared = AnnotationFile(self.annotations or "", label_column=self.label_column)
            except InputError as error:
                raise Refused(f"--annotations {error}") from None
            if shared.fits_any and len(first) > 1:
                advice = (
                    f"--annotations {self.annotations}: names no recordings, so each input gets all of its "
                    f"annotations; if there is a file for each, use --annotations {BESIDE}"
                )
        if self.label_column is not None:
            return advice
        local = (one for one in first if not is_url(one.local_path))
        try:
            found = next(filter(None, map(self._annotations_file_of, local)), None)
        except AnnotationError:
            return advice
        return "; ".join(filter(None, (advice, advice_on_labels(found) if found else "")))

    @abstractmethod
    def spans(self, source: SoundSource, input_file: InputFile) -> Iterator[Span]:
        """Return the pieces to cut, in order; `source.reach` says how far the recording goes."""

    def labelled_spans(self, source: SoundSource, input_file: InputFile) -> Iterator[Span]:
        """Return the pieces to cut, with metadata from annotations."""
        return self.spans(source, input_file)

    def process(self, input_file: InputFile) -> Result:
        """Cut one recording."""
        about: dict[str, Scalar] = {}
        pieces, cpus = self._pieces(input_file, about), own_cpus()
        return (encoded_ahead(pieces, cpus) if cpus > 1 else pieces), about

    def expected(self, input_file: InputFile) -> Expected | None:
        """Return the number and size of the pieces that `spans` gives for the length stated in the header."""
        path = input_file.local_path
        probed = probed_length(path, self.truncated)
        if probed is None:
            return None
        source = UnreadSource(probed, made_format(probed.format, self.target, path), self.target)
        files = size = content = 0
        try:
            for span in self.spans(source, input_file):
                start, stop = span.frames(source.made.rate)
                silence = nearest(span.stop + span.silence, source.made.rate) - stop if span.silence else 0
                frames = stop - start + silence
                if frames:
                    files += source.files
                    size += source.files * source.size_of(frames)
                    content += source.files * source.made.channels * frames
        except Skip:
            return Expected(0, 0)
        return Expected(files, size if source.is_sized else None, probed.exact, content)

    def annotations_of(self, input_file: InputFile) -> list[Annotation]:
        """Return the annotations of a recording, from where the parameter `annotations` says."""
        if self._annotation_file:
            return self._annotation_file.of(input_file.input)
        found = self._annotations_file_of(input_file)
        if not found:
            return []
        file = AnnotationFile(found, label_column=self.label_column)
        # a file about a single recording is about this one, whatever name it has there
        return file.of(input_file.input if len(file.recordings) > 1 else None)

    def _annotations_file_of(self, input_file: InputFile) -> Path | None:
        """Return the annotation file of a recording, if it has one."""
        where = self.annotations or ""
        if "annotations file" in self.parameters:
            return Path(where)
        if where.startswith(IN_COLUMN):
            name = input_file.columns[where.removeprefix(IN_COLUMN)]
            return Path(_home(input_file), name) if name else None
        return find_annotations(input_file.local_path)

    def _pieces(self, input_file: InputFile, about: dict[str, Scalar]) -> Iterator[OutputFile]:
        target = self.target
        if self.device != target.device:
            target = replace(target, device=self.device)
        folder = partial(getattr, input_file, "scratch")
        with open_sound(input_file.local_path, target, self.truncated, folder, self.loudness) as source:
            source.path = input_file.local_path
            for number, span in enumerate(self.labelled_spans(source, input_file)):
                yield from self._files(source, span, number)
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
            if self.truncated == "keep":
                about["source_truncated"] = source.lacks_sound

    def _files(self, source: SoundSource, span: Span, number: int) -> Iterator[OutputFile]:
        """Yield the files of one span, with all channels together or one channel after the other."""
        rate = source.made.rate
        start, stop = span.frames(rate)
        source.forget(start)
        if source.reach(stop) < stop:
            raise AudioError(f"a piece ends at {float(span.stop):g} s, after the end of the recording")
        silence = nearest(span.stop + span.silence, rate) - stop if span.silence else 0
        recorded_rate = source.recorded.rate
        first, last = (start, stop) if recorded_rate == rate else span.frames(recorded_rate)
        start_seconds = float(span.start)
        # a point in time gets a row, but no file
        files = self.contents(source, start, stop, silence) if stop - start + silence else [[_NO_FILE]]
        for channel, contents in enumerate(files, 1):
            suffix = f"_channel{channel}" if len(files) > 1 else ""
            metadata = {
                "start_seconds": start_seconds,
                "end_seconds": float(span.stop),
                "start_sample": first,
                "stop_sample": last,
                "sample_rate": rate,
                "channels": source.made.channels,
                "frames": stop - start + silence,
                **span.about,
                **self._measured(source, start, stop, channel - 1 if len(files) > 1 else None),
            }
            if files[0][0] is not _NO_FILE and (way := source.way_of_cutting(start, stop, silence)):
                metadata["source_cut"] = way
            metadata |= span.labels
            for ending, content, about in contents:
                name = f"{number:06d}_{start_seconds:.3f}s{suffix}.{ending}"
                yield OutputFile("" if content is None else name, content, {**metadata, **about}, span.row)

    def contents(self, source: SoundSource, start: int, stop: int, silence: int) -> list[list[PieceFile]]:
        """Return a list of the files of a piece for all channels together, or one for each channel."""
        channels = range(source.files) if source.files > 1 else (None,)
        storing = Storing(self.target, self.truncated)
        pieces = (UncutPiece(source, Cut(start, stop, silence, channel, storing)) for channel in channels)
        return [[(usual_ending(source.made.container), piece, {})] for piece in pieces]

    def _measured(self, source: SoundSource, start: int, stop: int, channel: int | None) -> dict[str, Scalar]:
        """Return the gain and the measured values of a piece, or of one of its channels."""
        gain = source.about_gain(start, stop, channel) if isinstance(source, NormalisedSource) else {}
        if not self.measures or start == stop:
            return gain | dict.fromkeys(columns_of(self.measures))
        columns = slice(None) if channel is None else slice(channel, channel + 1)
        sound = Sound(
            lambda: (block[:, columns] for block in source.frames(start, stop)),
            frames=stop - start,
            channels=source.made.channels,
            rate=source.made.rate,
            device=self.device,
        )
        values = (measure.of(sound) for measure in self.measures)
        return gain | {name: value for measured in values for name, value in measured.items()}


class LabelledRecipe(SoundRecipe):
    """A recipe whose pieces carry the labels that they overlap.

    Args:
        annotations: Where to find annotations: in a file, 'beside' each recording, or in files named by a
            column, as column=NAME. Each piece gets the labels that it overlaps. Default: none.
        min_overlap: How much of a label a piece must contain to get it: seconds, or a share such as 50%.
        cross: What to do with an annotation that crosses a border: assign it to the piece with more of it,
            list it in both, or divide its text by the times of its words, or assign it if its words have no
            times. Default: list labels in both, and divide the text.
    """

    def __init__(  # noqa: PLR0913 - each is an option of the command line
        self,
        inputs: Any,  # noqa: ANN401 - a path, a list, a table
        *,
        annotations: str | None = None,
        label_column: str | None = None,
        min_overlap: str = "0",
        cross: Cross | None = None,
        measure: str | None = None,
        **shared: Any,  # noqa: ANN401 - see SoundRecipe
    ) -> None:
        super().__init__(
            inputs, annotations=annotations, label_column=label_column, measure=measure, **shared
        )
        self.cross: Cross | None = cross
        self._min_overlap = MinOverlap.parse(min_overlap)
        for name, value in (("label-column", label_column), ("cross", cross)):
            if value is not None and not annotations:
                raise Refused(f"--{name} {value!r}: needs --annotations; add it, or leave it out")

    def advise_before_work(self, input_files: Iterable[InputFile]) -> str:
        """Return advice on the labels, if pieces will get any."""
        return super().advise_before_work(input_files) if self.annotations else ""

    def metadata_keys(self, columns: Sequence[str]) -> set[str]:
        """Add the keys of labels."""
        return super().metadata_keys(columns) | {*(LABEL_KEYS if self.annotations else ())}

    def labelled_spans(self, source: SoundSource, input_file: InputFile) -> Iterator[Span]:
        """Yield the pieces to cut, with the labels and the text of each."""
        if not self.annotations:
            yield from self.spans(source, input_file)
            return
        annotations, rate = self.annotations_of(input_file), source.recorded.rate
        pieces = Upcoming(self.spans(source, input_file), lambda span: span.frames(rate))
        labels = Shares(
            annotations, pieces, rate=rate, cross=self.cross or "both", min_overlap=self._min_overlap
        )
        spoken = [one for one in annotations if one.text is not None]
        texts = Shares(spoken, pieces, rate=rate, cross=self.cross or "divide")
        for span in pieces:
            edges = span.frames(rate)
            shares = labels.of(*edges)
            columns = label_columns(shares)
            if spoken:
                shares = texts.of(*edges)
            columns |= spoken_columns(shares, annotations)
            # columns of the list, about the whole recording, stay as they are
            about = {name: value for name, value in columns.items() if name not in input_file.columns}
            yield replace(span, labels=about)


def label_columns(shares: Sequence[Share]) -> dict[str, Scalar]:
    """Return a piece's labels, and their starts and ends within it, each joined into one text."""
    return {
        "labels": join_labels(share.label for share in shares),
        "label_starts": "|".join(str(float(share.start)) for share in shares),
        "label_ends": "|".join(str(float(share.end)) for share in shares),
    }


def spoken_columns(shares: Sequence[Share], annotations: Sequence[Annotation]) -> dict[str, Scalar]:
    """Return the text and the speakers of a piece, if the annotations of its recording have any."""
    columns: dict[str, Scalar] = {}
    if any(one.text is not None for one in annotations):
        columns["text"] = " ".join(filter(None, (share.text for share in shares)))
    if any(one.speaker for one in annotations):
        found = (share.annotation.speaker for share in shares if share.annotation.speaker)
        columns["speaker"] = "|".join(dict.fromkeys(found))
    return columns


def _home(input_file: InputFile) -> str:
    """Return the folder that a recording's path in the list starts from; its own if the path is absolute."""
    path = input_file.local_path
    below = path.removesuffix(f"/{input_file.input}")
    return below if below != path else os.path.dirname(path)


def _state_of(path: str) -> list[int]:
    try:
        found = os.stat(path)
    except OSError as error:
        raise Refused(f"--annotations {path}: cannot be read: {error.strerror}") from None
    if stat.S_ISDIR(found.st_mode):
        state = state_of_folder(path)
        if state is not None:
            return state
        raise Refused(
            f"--annotations {path}: is a folder, not a file; put its files next to the recordings "
            "and use --annotations beside, or name them in a column"
        )
    return [found.st_size, found.st_mtime_ns]
