"""Annotations of recordings: read, found beside a recording, and given to the windows that they overlap."""

from splitter.annotations.files import (
    KINDS,
    Annotation,
    AnnotationFile,
    Kind,
    annotations_of_rows,
    find_annotations,
    read_annotations,
)
from splitter.annotations.labels import Label, Labels, MinOverlap
from splitter.annotations.tables import has_times

__all__ = [
    "KINDS",
    "Annotation",
    "AnnotationFile",
    "Kind",
    "Label",
    "Labels",
    "MinOverlap",
    "annotations_of_rows",
    "find_annotations",
    "has_times",
    "read_annotations",
]
