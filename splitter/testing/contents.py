"""Output contents of every kind, each with the bytes that must be stored."""

import array
import contextlib
import io
import os
import subprocess
import sys
import wave
import zipfile
from collections.abc import Callable
from typing import Any, BinaryIO

import numpy as np

MEGABYTE = 1 << 20
BIG = bytes(range(256)) * (3 * MEGABYTE // 256) + b"the end"
TEXT = "naïve 🎈\r\n\0"


# -- callables that write, and what they must have written -----------------------------------------------


def nothing(file: BinaryIO) -> None:
    """Write nothing at all."""


def in_sequence(file: BinaryIO) -> int:
    return sum(file.write(BIG[start : start + 99_999]) for start in range(0, len(BIG), 99_999))


def in_tiny_pieces(file: BinaryIO) -> None:
    file.writelines(b"%d," % number for number in range(5000))


def patched(file: BinaryIO) -> None:
    """Fill in the header at the end, as writers of most audio formats do."""
    file.write(b"length ????\n" + BIG)
    file.seek(7)
    file.write(b"%04d" % 1234)


def patched_and_continued(file: BinaryIO) -> None:
    patched(file)
    file.seek(0, os.SEEK_END)
    file.write(b"more")


def overwritten(file: BinaryIO) -> None:
    for letter in (b"a", b"b", b"c"):
        file.seek(0)
        file.write(letter * 10)


def with_a_hole(file: BinaryIO) -> None:
    file.write(b"before")
    file.seek(100_000)
    file.write(b"behind")


def cut(file: BinaryIO) -> None:
    file.write(BIG)
    file.truncate(10)


def cut_and_rewritten(file: BinaryIO) -> None:
    file.write(b"first try")
    file.seek(0)
    file.truncate()
    file.write(b"second")


def lengthened(file: BinaryIO) -> None:
    file.write(b"short")
    file.truncate(50)


def read_back(file: BinaryIO) -> None:
    file.write(b"hello")
    file.seek(0)
    content = file.read()
    file.write(content.upper())


def closed(file: BinaryIO) -> None:
    file.write(BIG)
    file.close()


def as_text(file: BinaryIO) -> None:
    with io.TextIOWrapper(file, encoding="utf-8", newline="\n") as text:
        text.write(TEXT)


def numbers(file: BinaryIO) -> None:
    """Write a buffer whose items have more than one byte."""
    file.write(array.array("i", range(MEGABYTE)))


def by_descriptor(file: BinaryIO) -> None:
    os.write(file.fileno(), b"past the file object")


def partly_by_descriptor(file: BinaryIO) -> None:
    file.write(b"from here, ")
    file.flush()
    os.write(file.fileno(), b"and from there")


def by_a_program(file: BinaryIO) -> None:
    subprocess.run([sys.executable, "-c", "print('from a program', end='')"], stdout=file, check=True)


def by_numpy(file: BinaryIO) -> None:
    """Write with NumPy, which uses a copy of the descriptor."""
    np.arange(1000, dtype="<i4").tofile(file)


def a_wav(file: BinaryIO) -> None:
    with wave.open(file, "wb") as audio:
        audio.setnchannels(1)
        audio.setsampwidth(2)
        audio.setframerate(8000)
        audio.writeframes(b"\1\2" * 8000)


def an_archive(file: BinaryIO) -> None:
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(zipfile.ZipInfo("member"), b"content" * 1000)


def made_in_memory(write: Callable[[BinaryIO], object]) -> bytes:
    file = io.BytesIO()
    write(file)
    return file.getvalue()


CALLABLES: dict[Callable[[BinaryIO], object], bytes] = {
    nothing: b"",
    in_sequence: BIG,
    in_tiny_pieces: b"".join(b"%d," % number for number in range(5000)),
    patched: b"length 1234\n" + BIG,
    patched_and_continued: b"length 1234\n" + BIG + b"more",
    overwritten: b"c" * 10,
    with_a_hole: b"before" + bytes(100_000 - 6) + b"behind",
    cut: BIG[:10],
    cut_and_rewritten: b"second",
    lengthened: b"short" + bytes(45),
    read_back: b"helloHELLO",
    closed: BIG,
    as_text: TEXT.encode(),
    numbers: array.array("i", range(MEGABYTE)).tobytes(),
    by_descriptor: b"past the file object",
    partly_by_descriptor: b"from here, and from there",
    by_a_program: b"from a program",
    by_numpy: np.arange(1000, dtype="<i4").tobytes(),
    a_wav: made_in_memory(a_wav),
    an_archive: made_in_memory(an_archive),
}


class Text(str):
    """A subclass of str, as some libraries make."""

    __slots__ = ()


VALUES: dict[str, tuple[Any, bytes]] = {
    "bytes": (b"content", b"content"),
    "no bytes": (b"", b""),
    "many bytes": (BIG, BIG),
    "bytearray": (bytearray(BIG), BIG),
    "memoryview": (memoryview(array.array("i", [1, 2, 3])), array.array("i", [1, 2, 3]).tobytes()),
    "str": (TEXT, TEXT.encode()),
    "no text": ("", b""),
    "a subclass of str": (Text(TEXT), TEXT.encode()),
}


# -- callables that fail ---


def boom(file: BinaryIO) -> None:
    file.write(BIG)
    raise ZeroDivisionError("in the middle of writing")


def swallowing(file: BinaryIO) -> None:
    with contextlib.suppress(OSError):
        in_sequence(file)


def renaming(file: BinaryIO) -> None:
    try:
        in_sequence(file)
    except OSError as error:
        raise ValueError("it did not work") from error
