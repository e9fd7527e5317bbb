"""Decode the content of an output: sound to a tensor, images, text."""

import io
from typing import Any, cast

from splitter.errors import StorageError
from splitter.text.endings import READABLE

IMAGES = frozenset({"png", "jpg", "jpeg", "gif", "bmp", "webp", "tif", "tiff"})
TEXTS = frozenset(
    {"txt", "json", "jsonl", "csv", "tsv", "srt", "vtt", "lab", "xml", "html", "md", "textgrid"}
)
REMEDY = "open it with decode=False, or with your own decode function"


def decoded(output: str, content: bytes) -> tuple[Any, int | None]:
    """Return the decoded content and, for sound, its sample rate; unknown types stay bytes."""
    kind = output.rpartition(".")[2].lower()
    try:
        if kind in READABLE:
            return _sound(content)
        if kind in IMAGES:
            return _image(content), None
        return content.decode() if kind in TEXTS else content, None
    except (ValueError, OSError, RuntimeError) as error:
        raise StorageError(f"{output}: cannot be decoded: {error}; {REMEDY}") from error


def _sound(content: bytes) -> tuple[Any, int]:
    """Return a float32 tensor with the shape [channels, frames]."""
    import soundfile
    import torch

    frames, rate = soundfile.read(io.BytesIO(content), dtype="float32", always_2d=True)
    return torch.from_numpy(frames.T.copy()), cast("int", rate)


def _image(content: bytes) -> Any:  # noqa: ANN401 - an image of Pillow, if that is installed
    try:
        from PIL import Image
    except ImportError:
        return content
    image = Image.open(io.BytesIO(content))
    image.load()
    return image
