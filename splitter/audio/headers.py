"""Read the header of an output from its first bytes, to compare it with the manifest."""

import struct
from contextlib import suppress
from functools import cache
from typing import BinaryIO, NamedTuple

from splitter.audio.formats.wav import LARGEST_SIZE
from splitter.ledger.records import OUTPUT_COLUMNS, RowColumns
from splitter.system.stderr import silenced_stderr
from splitter.text.csv import Row
from splitter.text.endings import READABLE

HEADER_COLUMNS = ("sample_rate", "channels", "frames")
_WHOLE_SAMPLES = frozenset({1, 3, 6, 7, 0xFFFE})


class SoundHeader(NamedTuple):
    """The sample rate, channels and length that a header states.

    Attributes:
        sample_rate: Samples in a second.
        channels: How many channels.
        frames: Samples of each channel; None if the header does not state them exactly.
    """

    sample_rate: int
    channels: int
    frames: int | None


def header_of(name: str, start: bytes | memoryview, size: int, file: BinaryIO) -> SoundHeader | None:
    """Return the header of a recording, from its first bytes and size, or from the file; else None."""
    ending = name.rpartition(".")[2].lower()
    found = None
    if ending in ("wav", "wave"):
        found = _of_wav(bytes(start[: 1 << 16]), size)
    elif ending == "flac":
        found = _of_flac(bytes(start[:42]))
    if found or ending not in READABLE:
        return found
    return _of_libsndfile(file, exact=ending != "mp3")


def _of_wav(start: bytes, size: int) -> SoundHeader | None:
    """Return the header of a WAV file if its samples have a fixed number of bytes."""
    # the reader of inputs would take four times as long, and verify looks at each output
    if start[:4] not in (b"RIFF", b"RF64") or start[8:12] != b"WAVE":
        return None
    at, large = 12, 0
    code = channels = rate = frame = 0
    while at + 8 <= len(start):
        kind, stated = struct.unpack_from("<4sI", start, at)
        at += 8
        if kind == b"data":
            there = large if stated == LARGEST_SIZE and large else stated
            if code not in _WHOLE_SAMPLES or not frame:
                return None
            return SoundHeader(rate, channels, min(there, size - at) // frame)
        if kind == b"fmt " and at + 16 <= len(start):
            code, channels, rate, _, frame = struct.unpack_from("<HHIIH", start, at)
        elif kind == b"ds64" and at + 16 <= len(start):
            (large,) = struct.unpack_from("<Q", start, at + 8)
        at += stated + (stated & 1)
    return None


def _of_flac(start: bytes) -> SoundHeader | None:
    if start[:4] != b"fLaC" or len(start) < 42:  # noqa: PLR2004 - the first block is always that long
        return None
    from splitter.audio.formats.flac import unpacked

    _, channels, rate, samples = unpacked(start[18:26])
    return SoundHeader(rate, channels, samples or None)


def _of_libsndfile(file: BinaryIO, *, exact: bool) -> SoundHeader | None:
    import soundfile

    file.seek(0)
    with suppress(soundfile.LibsndfileError), silenced_stderr(), soundfile.SoundFile(file) as sound:
        return SoundHeader(sound.samplerate, sound.channels, sound.frames if exact else None)
    return None


@cache
def header_columns(head: RowColumns) -> tuple[tuple[str, int], ...]:
    """Return the columns of a row that a header states, too: their names and indexes."""
    first = len(head.columns) + len(OUTPUT_COLUMNS)
    types = head.types
    return tuple(
        (key, index)
        for index, key in enumerate(head.keys, first)
        if key in HEADER_COLUMNS and types[key] == "int"
    )


def header_fault(header: SoundHeader, row: Row, sound: tuple[tuple[str, int], ...]) -> tuple[str, str] | None:
    """Return the kind and text of a fault if the header contradicts the row of its recording; else None."""
    for key, index in sound:
        there = getattr(header, key)
        if there is not None and row[index] and row[index] != str(there):
            return "header", f"its header says {there:,} for {key} where the manifest says {row[index]}"
    return None
