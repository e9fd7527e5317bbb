"""What the tests of annotations share."""

from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def write(folder: Path) -> Callable[..., Path]:
    """Writes an annotation file into the folder with the odd name."""

    def write(name: str, text: str | bytes) -> Path:
        path = folder / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write
