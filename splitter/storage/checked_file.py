"""Small files of a run that contain their own checksum, so that damage is noticed.

{"size": 1000, "checksum": "xxh128:..."}        JSON, on one line or on several
bytes                                           then, optionally, any bytes
"""

import json
from collections.abc import Mapping
from typing import Any

import xxhash

from splitter.errors import StorageError
from splitter.storage.content import checksum_of

CHECKSUM = "checksum"


class HollowFile(StorageError):
    """A sparse file: it takes little room on disk, but could fill all memory when read.

    Attributes:
        why: What is wrong, without a remedy, for callers that know a better one.
    """

    def __init__(self, path: str, size: int) -> None:
        self._given = path, size
        self.why = f"{size:,} bytes, most of which were never written"
        super().__init__(f"{path}: is damaged ({self.why}); remove it, and start over with --fresh")

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how to make it again: a pool of processes waits forever for an error that it cannot."""
        return type(self), self._given


def sealed(content: Mapping[str, Any], rest: bytes | None = None, *, pretty: bool = False) -> bytes:
    """Return a JSON object and bytes, with the checksum of both; `pretty` writes the JSON on many lines."""
    text = json.dumps(content, indent=1 if pretty else None).encode()
    digest = xxhash.xxh3_128(text)
    if rest is not None:
        rest = b"\n" + rest
        digest.update(rest)
    last = b"\n}" if pretty else b"}"
    stated = f'"{CHECKSUM}": "{checksum_of(digest)}"'.encode()
    seal = text.removesuffix(last) + (b",\n " if pretty else b", ") + stated + last
    return seal + (rest or b"")


def json_of(text: bytes | str) -> Any:  # noqa: ANN401 - whatever JSON holds
    """Parse JSON that may come from a stranger; raise ValueError if it is invalid or nested too deeply."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def unsealed(text: bytes, *, strict: bool = False) -> tuple[dict[str, Any], bytes]:
    """Return what `sealed` was given; raise ValueError if the text is damaged.

    A text without a checksum comes from an earlier version, and is accepted unless `strict`.
    """
    pretty = text.startswith(b"{\n")
    end = b"\n}" if pretty else b"}"
    head, _, rest = text.partition(end + b"\n")
    more = len(head) < len(text)
    if more:
        head += end
    content = json_of(head)
    if not isinstance(content, dict):
        raise ValueError("it holds no JSON object")  # noqa: TRY004 - as for text that is not JSON
    stated = content.pop(CHECKSUM, None)
    if (stated is not None or strict) and sealed(content, rest if more else None, pretty=pretty) != text:
        raise ValueError("its checksum does not match")
    return content, rest
