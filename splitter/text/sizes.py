"""Sizes as people write them."""

import re

from splitter.errors import Refused

_UNITS = {"": 1} | {
    letter + binary: base**power
    for power, letter in enumerate("kmgt", 1)
    for binary, base in (("", 1000), ("i", 1024))
}
LARGEST_NUMBER = 2**63


def parse_size(option: str, text: int | str) -> int:
    """Return the bytes in `500MB`, `2GiB` or `1e8`."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?(?:e\d+)?)\s*([kmgt]i?)?b?", str(text).strip().lower())
    size = float(match[1]) * _UNITS[match[2] or ""] if match else 0
    if not 1 <= size < LARGEST_NUMBER:
        raise Refused(f"{option} {text!r}: write a size such as 500MB, 2GB or 1e9")
    return int(size)
