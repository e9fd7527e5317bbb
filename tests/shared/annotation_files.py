"""Read one annotation file in one call."""

import os
from typing import Any

from splitter.annotations import Annotation, AnnotationFile


def read_annotations(
    path: str | os.PathLike[str], recording: str | os.PathLike[str] | None = None, **options: Any
) -> list[Annotation]:
    """Return the annotations of a recording, or of the only one, sorted by start, end and line."""
    return AnnotationFile(path, **options).of(recording)
