"""Annotations of recordings: read them, find them beside a recording, assign them to windows and pieces.

files       annotation files: their formats, and how one is found beside a recording
labels      the annotations that overlap a window
rows        the kind of row that every format is read into
audacity    label tracks of Audacity
nist        RTTM and CTM
praat       TextGrids
corpora     files of other tools: lhotse, Kaldi, Label Studio, NeMo
subtitles   SRT and WebVTT
tables      CSV, TSV, JSONL and Raven's selection tables
transcripts JSON of Whisper and similar programs
transcribed the spoken text, its speaker, and the times of its words
dividing    the part of each annotation that is in each piece of a recording
merging     neighboring annotations, merged into pieces
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
