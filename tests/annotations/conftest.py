"""What the tests of annotations share."""

from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def write(folder: Path) -> Callable[..., Path]:
    """Return a function that writes an annotation file into `folder`."""

    def write(name: str, text: str | bytes) -> Path:
        path = folder / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write
