"""Small files of the run's own that say whether they are whole: their checksum stands in them.

{"size": 1000, "checksum": "xxh128:..."}        JSON, on one line or on several
bytes                                           and what else there is
"""

import json
from collections.abc import Mapping
from typing import Any

import xxhash

from splitter.errors import StorageError
from splitter.storage.content import checksum_of

CHECKSUM = "checksum"


class HollowFile(StorageError):
    """A file with a gap, where a few bytes on disk could take all memory.

    Attributes:
        why: What is wrong; a caller who knows the file may have a better remedy.
    """

    def __init__(self, path: str, size: int) -> None:
        self.why = f"{size:,} bytes, most of which were never written"
        super().__init__(f"{path}: is damaged ({self.why}); remove it, and start over with --fresh")


def sealed(content: Mapping[str, Any], rest: bytes | None = None, *, pretty: bool = False) -> bytes:
    """Return a JSON object and some bytes with the checksum of both; `pretty`, on many lines."""
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
    """Return what stands in JSON that may come from anybody; a ValueError says that it is none."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def unsealed(text: bytes, *, strict: bool = False) -> tuple[dict[str, Any], bytes]:
    """Return what `sealed` was given; a ValueError says that it is not whole.

    What has no checksum, since it was written before there were any, is taken as it is, unless `strict`.
    """
    pretty = text.startswith(b"{\n")
    end = b"\n}" if pretty else b"}"
    head, _, rest = text.partition(end + b"\n")
    more = len(head) < len(text)
    if more:
        head += end
    content = json_of(head)
    if not isinstance(content, dict):
        raise ValueError("it holds no JSON object")  # noqa: TRY004 - as of what is no JSON
    stated = content.pop(CHECKSUM, None)
    if (stated is not None or strict) and sealed(content, rest if more else None, pretty=pretty) != text:
        raise ValueError("its checksum does not match")
    return content, rest
