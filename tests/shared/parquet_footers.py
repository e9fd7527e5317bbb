"""Make footers of Parquet files lie: change one number, and leave everything else as it is.

A footer is a struct in Thrift's compact protocol, followed by its length.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

# the types of the compact protocol
TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(1, 13)
# paths of fields by their numbers; the index in a list is left out
ROWS_OF_FILE = (3,)
SIZE_OF_GROUP, ROWS_OF_GROUP = (4, 2), (4, 3)
VALUES, UNPACKED, PACKED, PAGES_AT = ((4, 1, 3, field) for field in (5, 6, 7, 9))


class Number(NamedTuple):
    """A number in a footer: the fields that lead to it, its position, and its value."""

    path: tuple[int, ...]
    start: int
    stop: int
    value: int


def lie(path: Path, field: tuple[int, ...], value: int) -> None:
    """Change the first number of a field in the footer of a file."""
    content = path.read_bytes()
    length = int.from_bytes(content[-8:-4], "little")
    footer = content[-8 - length : -8]
    number = next(one for one in _Footer(footer).numbers(()) if one.path == field)
    footer = footer[: number.start] + _varint(_zigzag(value)) + footer[number.stop :]
    end = len(footer).to_bytes(4, "little") + content[-4:]
    path.write_bytes(content[: -8 - length] + footer + end)


def _zigzag(value: int) -> int:
    return (value << 1) ^ (value >> 63)


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    some = bytearray()
    while value > 0x7F:
        some.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*some, value])


class _Footer:
    def __init__(self, text: bytes) -> None:
        self._text, self._at = text, 0

    def numbers(self, path: tuple[int, ...]) -> Iterator[Number]:
        """Yield the numbers of a struct."""
        field = 0
        while head := self._byte():
            field = field + (head >> 4) if head >> 4 else self._number() >> 1
            yield from self._value(head & 0x0F, (*path, field))

    def _value(self, kind: int, path: tuple[int, ...]) -> Iterator[Number]:
        start = self._at
        if kind in (I16, I32, I64):
            raw = self._number()
            yield Number(path, start, self._at, (raw >> 1) ^ -(raw & 1))
        elif kind == BINARY:
            length = self._number()
            self._at += length
        elif kind in (LIST, SET):
            head = self._byte()
            count = head >> 4 if head >> 4 < 15 else self._number()
            for _ in range(count):
                yield from self._value(head & 0x0F, path)
        elif kind == STRUCT:
            yield from self.numbers(path)
        elif kind in (BYTE, DOUBLE):
            self._at += 1 if kind == BYTE else 8
        else:
            assert kind in (TRUE, FALSE), kind

    def _byte(self) -> int:
        self._at += 1
        return self._text[self._at - 1]

    def _number(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value
