"""One annotation file, read in one call."""

import os
from typing import Any

from splitter.annotations import Annotation, AnnotationFile


def read_annotations(
    path: str | os.PathLike[str], recording: str | os.PathLike[str] | None = None, **options: Any
) -> list[Annotation]:
    """The annotations of a recording, or of the only one, by start, end and position in the file."""
    return AnnotationFile(path, **options).of(recording)
