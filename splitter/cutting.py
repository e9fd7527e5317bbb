"""What the recipes for sound share: their parameters, and the way from spans of time to output files."""

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from splitter.audio import AudioError, Channels, FileFormat, Source, Target, Truncated, open_source
from splitter.dataset import ProcessorDataset, Result
from splitter.records import InputFile, OutputFile, Scalar


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of a recording: from `start` to before `stop`, in exact seconds, then some silence.

    Both ends are rounded to samples of whatever rate is asked for, halves to even.
    """

    start: Fraction
    stop: Fraction
    silence: Fraction = Fraction(0)

    def frames(self, rate: int) -> tuple[int, int]:
        """The first sample, and the one after the last."""
        return round(self.start * rate), round(self.stop * rate)


def exactly(seconds: float) -> Fraction:
    """The number as it was written: 7.3 is 73/10."""
    return Fraction(repr(float(seconds)))


class SoundRecipe(ProcessorDataset):
    """A recipe that cuts recordings; a subclass says where."""

    def __init__(  # noqa: PLR0913 - each is an option of the command line
        self,
        inputs: Any,  # noqa: ANN401 - a path, a list, a table
        *,
        sample_rate: int | None = None,
        channels: Channels = "keep",
        format: FileFormat = "same",  # noqa: A002 - a word of the contract
        subtype: str | None = None,
        truncated: Truncated = "error",
    ) -> None:
        """Take the inputs, and what the pieces are to be."""
        super().__init__(inputs)
        self.target = Target(sample_rate=sample_rate, channels=channels, format=format, subtype=subtype)
        self.truncated: Truncated = truncated

    @abstractmethod
    def spans(self, source: Source, input_file: InputFile) -> Iterator[Span]:
        """Where to cut, in order; `source.reach` tells how far the recording goes."""

    def process(self, input_file: InputFile) -> Result:
        """Cut one recording."""
        about: dict[str, Scalar] = {}
        return self._pieces(input_file, about), about

    def _pieces(self, input_file: InputFile, about: dict[str, Scalar]) -> Iterator[OutputFile]:
        with open_source(input_file.local_path, self.target, self.truncated) as source:
            for number, span in enumerate(self.spans(source, input_file)):
                yield from _files(source, span, number)
            source.reach(1 << 62)
            recorded = source.recorded
            about.update(
                source_rate=recorded.rate,
                source_channels=recorded.channels,
                source_frames=source.recorded_frames,
                source_format=recorded.container,
                source_subtype=recorded.subtype,
                source_seconds=source.recorded_frames / recorded.rate,
            )


def _files(source: Source, span: Span, number: int) -> Iterator[OutputFile]:
    """The files of one span: one, or one for each channel."""
    rate = source.made.rate
    start, stop = span.frames(rate)
    if source.reach(stop) < stop:
        raise AudioError(f"a piece ends at {float(span.stop):g} s, after the end of the recording")
    silence = round((span.stop + span.silence) * rate) - stop
    first, last = span.frames(source.recorded.rate)
    contents = source.contents(start, stop, silence)
    for channel, content in enumerate(contents, 1):
        suffix = f"_channel{channel}" if len(contents) > 1 else ""
        name = f"{number:06d}_{float(span.start):.3f}s{suffix}.{source.made.ending}"
        yield OutputFile(
            name,
            content,
            {
                "start_seconds": float(span.start),
                "end_seconds": float(span.stop),
                "start_sample": first,
                "stop_sample": last,
                "sample_rate": rate,
                "channels": source.made.channels,
                "frames": stop - start + silence,
            },
        )
    source.forget(start)
