"""Sizes as people write them."""

import re

from splitter.errors import Refused

_UNITS = {
    "": 1,
    "k": 10**3,
    "m": 10**6,
    "g": 10**9,
    "t": 10**12,
    "ki": 2**10,
    "mi": 2**20,
    "gi": 2**30,
    "ti": 2**40,
}
LARGEST_NUMBER = 2**63


def parse_size(option: str, text: int | str) -> int:
    """Return the number of bytes that `500MB`, `2GiB` or `1e8` means."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?(?:e\d+)?)\s*([kmgt]i?)?b?", str(text).strip().lower())
    size = float(match[1]) * _UNITS[match[2] or ""] if match else 0
    if not 1 <= size < LARGEST_NUMBER:
        raise Refused(f"{option} {text!r}: write a size such as 500MB, 2GB or 1e9")
    return int(size)
