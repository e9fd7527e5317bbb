"""Recordings for the tests, and ways to read them that share no code with splitter."""

import io
import shutil
import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from splitter import OutputFile
from splitter.recipes.chunk import Chunk

needs_ffmpeg = pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="needs ffmpeg (Debian: ffmpeg)")
needs_sox = pytest.mark.skipif(shutil.which("sox") is None, reason="needs sox (Debian: sox)")


def noise(frames: int, channels: int = 1, subtype: str = "PCM_16", seed: int = 0) -> np.ndarray:
    """Return samples that use all bits of an encoding, including the largest and the smallest value."""
    chance = np.random.default_rng(seed)
    if subtype in {"FLOAT", "DOUBLE"}:
        kind = np.float32 if subtype == "FLOAT" else np.float64
        return chance.uniform(-1.5, 1.5, (frames, channels)).astype(kind)
    bits = {"PCM_S8": 8, "PCM_U8": 8, "PCM_24": 24, "PCM_32": 32}.get(subtype, 16)
    numbers = chance.integers(-(1 << bits - 1), 1 << bits - 1, (frames, channels))
    numbers[: 2 * channels : 2], numbers[1 : 2 * channels : 2] = -(1 << bits - 1), (1 << bits - 1) - 1
    kind, size = (np.int16, 16) if bits <= 16 else (np.int32, 32)
    return (numbers << (size - bits)).astype(kind)


def tone(seconds: float, rate: int, channels: int = 1, hertz: float = 440.0) -> np.ndarray:
    """Return an audible tone, in 16 bits."""
    time = np.arange(round(seconds * rate)) / rate
    columns = [np.sin(2 * np.pi * hertz * (1 + number) * time) for number in range(channels)]
    return (np.stack(columns, axis=1) * 12000).astype(np.int16)


def write_sound(
    path: Path, frames: np.ndarray, rate: int = 8000, subtype: str = "PCM_16", container: str = "WAV"
) -> Path:
    """Write a file with libsndfile; its name need not match its format."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        soundfile.write(file, frames, rate, subtype, format=container)
    return path


def wav(  # noqa: PLR0913 - each is a word of the header
    content: bytes,
    *,
    code: int = 1,
    channels: int = 1,
    rate: int = 8000,
    bits: int = 16,
    frame_bytes: int | None = None,
    stated: int | None = None,
    before: bytes = b"",
    after: bytes = b"",
) -> bytes:
    """Return a WAV file made by hand, whose header states what the arguments say."""
    size = channels * bits // 8 if frame_bytes is None else frame_bytes
    head = struct.pack("<HHIIHH", code, channels, rate, min(rate * size, 2**32 - 1), size, bits)
    data = struct.pack("<4sI", b"data", len(content) if stated is None else stated) + content
    chunks = struct.pack("<4sI", b"fmt ", len(head)) + head + before + data + after
    return struct.pack("<4sI4s", b"RIFF", 4 + len(chunks), b"WAVE") + chunks


def chunks_of(path: Path | str, **parameters: Any) -> tuple[list[OutputFile], dict[str, Any]]:
    """Return what the recipe `chunk` makes of one recording, and its metadata; write nothing."""
    outputs, about = Chunk([str(path)], **parameters)[0]
    return list(outputs), about


def samples_of(content: bytes, dtype: str = "int32") -> np.ndarray:
    """Return the samples of a file, as libsndfile decodes them."""
    return soundfile.read(io.BytesIO(content), dtype=dtype, always_2d=True)[0]


def ffmpeg(*arguments: str | Path, stdin: bytes | None = None) -> bytes:
    """Run ffmpeg, and return what it writes to its standard output."""
    command = ["ffmpeg", "-nostdin", "-v", "error", "-y", *map(str, arguments)]
    if stdin is not None:
        command.remove("-nostdin")
    done = subprocess.run(command, input=stdin, capture_output=True, check=False, timeout=60)
    assert not done.returncode, done.stderr.decode(errors="replace")
    return done.stdout


def decoded_by_ffmpeg(
    paths: Sequence[Path], channels: int, scratch: Path, kind: str = "s32"
) -> list[np.ndarray]:
    """Return the samples of files, all decoded by one ffmpeg: 32-bit integers (s32) or floats (f64, f32)."""
    arguments: list[str | Path] = []
    for path in paths:
        arguments += ["-i", f"file:{path}"]
    for number in range(len(paths)):
        arguments += [
            "-map",
            str(number),
            "-f",
            f"{kind}le",
            "-c:a",
            f"pcm_{kind}le",
            scratch / f"{number}.raw",
        ]
    ffmpeg(*arguments)
    dtype = {"s32": "<i4", "f64": "<f8", "f32": "<f4"}[kind]
    return [
        np.fromfile(scratch / f"{number}.raw", dtype).reshape(-1, channels) for number in range(len(paths))
    ]


def encoded_by_ffmpeg(frames: np.ndarray, rate: int, target: Path, *options: str) -> Path:
    """Write 16-bit samples to a file with ffmpeg."""
    channels = str(frames.shape[1])
    raw = ["-f", "s16le", "-ar", str(rate), "-ac", channels, "-i", "-"]
    ffmpeg(*raw, *options, target, stdin=frames.astype("<i2").tobytes())
    return target


def half_even(number: int, by: int) -> int:
    """Return a quotient rounded to a whole number, halves to even, computed with integers only."""
    whole, rest = divmod(number, by)
    return whole + (2 * rest > by or (2 * rest == by and whole % 2 == 1))
