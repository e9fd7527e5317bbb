"""An item of a dataset object -> the bytes of a file, without loss, and labels as text."""

import io
import struct
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from splitter.inputs.shards.index import LONGEST_LABEL
from splitter.text.csv import python_text

LABEL, CLASS_INDEX = "label", "class_index"
# modes of Pillow images that PNG can hold without conversion
_PNG_MODES = frozenset(("1", "L", "LA", "P", "RGB", "RGBA", "I;16"))
_COLOR_TYPES = {1: 0, 3: 2, 4: 6}
_IMAGE_DIMENSIONS = 3


def is_content(value: Any) -> bool:  # noqa: ANN401 - whatever a user has
    """Return whether a value can become a file: an image, an array, a tensor, bytes."""
    return isinstance(value, bytes) or _is_image(value) or (_as_array(value) is not None)


def divided(item: Any, classes: Sequence[Any] | None) -> tuple[Any, dict[str, str]]:  # noqa: ANN401
    """Return the content of an item, and its labels: the target, or the other values of a dict."""
    if isinstance(item, Mapping):
        name = next((name for name, value in item.items() if is_content(value)), None)
        labels = {str(other): _text(value) for other, value in item.items() if other != name}
        content = None if name is None else item[name]
    elif isinstance(item, (tuple, list)) and item:
        content, *targets = item
        labels = {f"{LABEL}_{at}": _text(value) for at, value in enumerate(targets[1:], 2)}
        labels = {**(labels_of(targets[0], classes) if targets else {}), **labels}
    else:
        content, labels = item, {}
    if not is_content(content):
        kind = type(item).__name__
        raise ValueError(f"is a {kind}; expected an image, an array or a tensor, alone or before its target")
    return content, labels


def labels_of(target: Any, classes: Sequence[Any] | None) -> dict[str, str]:  # noqa: ANN401 - as above
    """Return the columns of a target: for the number of a class, its name and the number."""
    number = _plain(target)
    if classes and isinstance(number, int) and not isinstance(number, bool) and 0 <= number < len(classes):
        return {LABEL: python_text(classes[number]), CLASS_INDEX: str(number)}
    return {LABEL: _text(target)}


def _plain(value: Any) -> Any:  # noqa: ANN401 - whatever a user has
    """Return the Python number of a tensor or array without dimensions."""
    return value.item() if hasattr(value, "item") and getattr(value, "ndim", 1) == 0 else value


def _text(value: Any) -> str:  # noqa: ANN401 - whatever a user has
    if _is_image(value):
        raise ValueError("has an image as target, which no column can hold; put both into one array")
    text = python_text(_plain(value))
    if len(text) > LONGEST_LABEL:
        raise ValueError(
            f"has a target of {len(text):,} characters, too long for a column; put both into one array"
        )
    return text


def encoded(content: Any) -> tuple[str, bytes]:  # noqa: ANN401 - whatever a user has
    """Return the ending of a file and its bytes: PNG for images, NumPy's format for other arrays."""
    if isinstance(content, bytes):
        return ".bin", content
    buffer = io.BytesIO()
    is_image = _is_image(content)
    if is_image and content.mode in _PNG_MODES:
        content.save(buffer, "PNG")
        return ".png", buffer.getvalue()
    array = np.asarray(content) if is_image else _as_array(content)
    assert array is not None  # noqa: S101 - it is content
    if (
        # the channels of an image in any other mode are not RGB
        not is_image
        and array.dtype == np.uint8
        and array.ndim == _IMAGE_DIMENSIONS
        and array.shape[2] in _COLOR_TYPES
        and array.size
    ):
        return ".png", png_of(array)
    # loading a pickle can run code
    np.save(buffer, array, allow_pickle=False)
    return ".npy", buffer.getvalue()


def reason_of(error: Exception) -> str:
    """Return what is wrong with an item."""
    return str(error) if type(error) is ValueError else f"{type(error).__name__}: {error}"


def _is_image(value: Any) -> bool:  # noqa: ANN401 - whatever a user has
    return any(kind.__module__ == "PIL.Image" and kind.__name__ == "Image" for kind in type(value).__mro__)


def _as_array(value: Any) -> np.ndarray | None:  # noqa: ANN401 - whatever a user has
    if isinstance(value, np.ndarray):
        return value
    if hasattr(value, "detach") and hasattr(value, "numpy"):
        array: np.ndarray = value.detach().cpu().numpy()
        return array
    return None


def png_of(array: np.ndarray, comment: str = "") -> bytes:
    """Return an array of height, width and 1, 3 or 4 channels as PNG."""
    height, width, channels = array.shape

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, _COLOR_TYPES[channels], 0, 0, 0)
    # each line begins with the number of its filter: 0, none
    lines = np.zeros((height, 1 + width * channels), np.uint8)
    lines[:, 1:] = array.reshape(height, -1)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + (chunk(b"tEXt", f"Comment\0{comment}".encode()) if comment else b"")
        + chunk(b"IDAT", zlib.compress(lines.tobytes()))
        + chunk(b"IEND", b"")
    )
