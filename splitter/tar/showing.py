"""`first` and `show`: the content of samples, for people to read."""

import importlib
import io
import re
import struct
from collections.abc import Callable, Iterator
from typing import Any

from splitter.archives.members import Member
from splitter.errors import Refused
from splitter.system.stderr import silenced_stderr
from splitter.tar.samples import TarSample
from splitter.text.conditions import condition_over
from splitter.text.endings import READABLE
from splitter.text.show import show_count

LONGEST_TEXT = 100
_SHORT = re.compile(r"([^=~]*[^=~<>!])([=~])(?!=)(.*)", re.DOTALL)
_JPEG_SIZES = {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}

Test = Callable[[TarSample], bool]


def condition(text: str) -> Test:
    """Return a test of samples from a condition, whose columns are the fields of a sample, and `key`.

    `FIELD=VALUE` and `FIELD~EXPRESSION` without a space before the sign are short forms.
    """
    short = _SHORT.fullmatch(text)
    if short is None or any(map(str.isspace, short[1])):
        try:
            return condition_over(text, _column)
        except Refused:
            # a field may have a space in its name
            if short is None:
                raise
    field, sign, wanted = short.groups()
    if sign == "=":
        return lambda sample: _text(sample, field) in (wanted, f"{wanted}\n", f"{wanted}\r\n")
    try:
        expression = re.compile(wanted)
    except (re.error, RecursionError) as error:
        raise Refused(f"{text!r}: is not a regular expression: {error}") from None
    return lambda sample: bool(expression.search(_text(sample, field) or ""))


def _column(field: str) -> Callable[[TarSample], str]:
    return lambda sample: (_text(sample, field) or "").removesuffix("\n").removesuffix("\r")


def _text(sample: TarSample, field: str) -> str | None:
    return sample.key if field == "key" else sample.text(field)


def described(sample: TarSample, *, preview: int = 0) -> Iterator[str]:
    """Yield lines that describe a sample; with `preview`, draw its images that many characters wide."""
    yield printable(sample.key)
    wide = max(len(printable(member.field)) for member in sample.members)
    for member in sample.members:
        yield f"  {printable(member.field):{wide}}  {member.size:>9,}  {_about(member)}".rstrip()
        if preview and image_size(member.read()[: 1 << 20]):
            yield from drawn(member.read(), preview)


def printable(text: str, longest: int | None = None) -> str:
    """Return a text on one line, without control characters."""
    shown = "".join(one if one.isprintable() else repr(one)[1:-1] for one in text)
    return shown if longest is None or len(shown) <= longest else f"{shown[:longest]}..."


def _about(member: Member) -> str:
    sort = member.field.rpartition(".")[2].lower()
    if sort in READABLE:
        return _sound(member)
    beginning = next(member.pieces(), b"")
    image = image_size(beginning)
    if image:
        return "{} {} x {}".format(*image)
    try:
        text = beginning[: 4 * LONGEST_TEXT].decode()
    except UnicodeDecodeError as error:
        # the beginning may end in the middle of a character
        if error.start < min(len(beginning), 4 * LONGEST_TEXT) - 3:
            return ""
        text = beginning[: error.start].decode()
    steering = sum(not one.isprintable() and not one.isspace() for one in text)
    return "" if steering else printable(text.rstrip("\r\n"), LONGEST_TEXT)


def _sound(member: Member) -> str:
    import soundfile

    try:
        with silenced_stderr():
            found: Any = soundfile.info(io.BytesIO(member.read()))
    except (soundfile.SoundFileError, RuntimeError, OSError):
        return "cannot be read as sound"
    seconds = found.frames / found.samplerate
    return f"{found.samplerate} Hz, {show_count(found.channels, 'channel')}, {seconds:.3f} s"


def image_size(data: bytes) -> tuple[str, int, int] | None:
    """Return type, width and height of an image, from its first bytes."""
    try:
        if data[:8] == b"\x89PNG\r\n\x1a\n":
            return ("PNG", *struct.unpack(">II", data[16:24]))
        if data[:6] in (b"GIF87a", b"GIF89a"):
            return ("GIF", *struct.unpack("<HH", data[6:10]))
        if data[:2] == b"BM" and data[6:10] == bytes(4):
            width, height = struct.unpack("<ii", data[18:26])
            return "BMP", width, abs(height)
        if data[:3] == b"\xff\xd8\xff":
            return _jpeg_size(data)
    except struct.error:
        pass
    return None


def _jpeg_size(data: bytes) -> tuple[str, int, int] | None:
    at = 2
    while data[at : at + 1] == b"\xff":
        kind, length = struct.unpack(">BH", data[at + 1 : at + 4])
        if kind in _JPEG_SIZES:
            height, width = struct.unpack(">HH", data[at + 5 : at + 9])
            return "JPEG", width, height
        at += 2 + length
    return None


def drawn(data: bytes, wide: int) -> Iterator[str]:
    """Yield the lines of an image, drawn with colored half blocks."""
    try:
        Image = importlib.import_module("PIL.Image")  # noqa: N806 - its own name
    except ImportError:
        raise Refused("--preview needs the package Pillow; run: pip install pillow") from None
    try:
        with Image.open(io.BytesIO(data)) as image:
            high = max(2, round(wide * image.height / image.width / 2) * 2)
            small = image.convert("RGB").resize((wide, high))
    except Exception:  # noqa: BLE001 - whatever a damaged image makes its decoder raise
        yield "    (cannot be drawn)"
        return
    for row in range(0, high, 2):
        cells = [(small.getpixel((x, row)), small.getpixel((x, row + 1))) for x in range(wide)]
        yield "    " + "".join(map(_half_block, cells)) + "\x1b[0m"


def _half_block(colours: tuple[Any, Any]) -> str:
    (red, green, blue), (red2, green2, blue2) = colours
    return f"\x1b[38;2;{red};{green};{blue};48;2;{red2};{green2};{blue2}m\u2580"
