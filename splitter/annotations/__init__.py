"""Annotations of recordings: read, found beside a recording, and given to the windows that they overlap.

files       the annotation file of a recording, and its format
labels      the annotations that a window has
rows        what every format is read into
audacity    label tracks of Audacity
nist        RTTM and CTM
praat       TextGrids
corpora     what other tools wrote: lhotse, Kaldi, Label Studio, NeMo
subtitles   SRT and WebVTT
tables      CSV, TSV, JSONL and Raven's selection tables
transcripts JSON of Whisper and the like
transcribed what is spoken, and the times of its words
dividing    what is spoken in each of a recording's pieces
merging     neighbouring annotations, put together to pieces
"""

from splitter.annotations.files import (
    KINDS,
    Annotation,
    AnnotationFile,
    advice_on_labels,
    annotations_of_rows,
    find_annotations,
)
from splitter.annotations.labels import MinOverlap
from splitter.annotations.tables import has_times

__all__ = [
    "KINDS",
    "Annotation",
    "AnnotationFile",
    "MinOverlap",
    "advice_on_labels",
    "annotations_of_rows",
    "find_annotations",
    "has_times",
]
