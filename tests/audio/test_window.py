"""A stream that is read once, and looked back on: in memory, and beyond it in files."""

import gc
import os
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile
from doors import program, read_table, write_files, write_list
from hypothesis import given, settings
from hypothesis import strategies as st
from nightly import depth
from sounds import chunks_of, samples_of, tone, wav, write_sound

from splitter.audio import decoded, window
from splitter.audio.window import Tape


def stream(sizes: list[int], channels: int) -> tuple[np.ndarray, list[np.ndarray]]:
    """Some frames, and the blocks in which they come, with none at last."""
    frames = np.arange(sum(sizes) * channels, dtype=np.int32).reshape(-1, channels)
    return frames, [*np.split(frames, np.cumsum(sizes))[:-1], frames[:0]]


@settings(max_examples=depth(100))
@given(
    st.lists(st.integers(1, 40), max_size=60),
    st.integers(1, 3),
    st.lists(st.tuples(st.integers(0, 500), st.integers(0, 300), st.integers(0, 80)), max_size=20),
    st.sampled_from([0, 100, 2000, 10**6]),
    st.sampled_from([1, 700, 10**6]),
)
def test_what_was_read_is_there_until_it_is_forgotten(sizes, channels, steps, in_memory, file_bytes):
    """Wherever it lies: any stretch after what was forgotten is that of the stream, at once and in blocks."""
    frames, blocks = stream(sizes, channels)
    read = iter(blocks)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(window, "IN_MEMORY", in_memory)
        patch.setattr(window, "FILE_BYTES", file_bytes)
        held = Tape(lambda _: next(read), 0, lambda: None)
        held.reach(1)
        start = 0
        for on, length, forgotten in steps:
            start += forgotten
            held.forget(start)
            stop = held.reach(start + length + on)
            assert stop == min(start + length + on, len(frames))
            for first, last in ((start, start + length), (start + on, start + length + on)):
                if last <= stop:
                    assert np.array_equal(held.take(first, last), frames[first:last])
                    parts = [frames[:0], *held.blocks(first, last)]
                    assert np.array_equal(np.concatenate(parts), frames[first:last])


def open_files() -> int:
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="open files are counted in /proc")
@pytest.mark.slow
def test_files_go_when_their_frames_are_forgotten(tmp_path, monkeypatch):
    """No file has a name, and the disk is free again as soon as nothing in a file will be asked for."""
    monkeypatch.setattr(window, "IN_MEMORY", 1000)
    monkeypatch.setattr(window, "FILE_BYTES", 1000)
    _, blocks = stream([10] * 1000, 1)
    read = iter(blocks)
    before = open_files()
    held = Tape(lambda _: next(read), 0, lambda: tmp_path)
    held.reach(10_000)
    assert open_files() > before + 20
    assert not list(tmp_path.iterdir())
    held.forget(5000)
    half = open_files()
    held.forget(9990)
    assert before == open_files() < half


PEAK = """
from splitter.recipes.chunk import Chunk

def megabytes(field):
    with open("/proc/self/status") as file:
        return int(dict(line.split(":", 1) for line in file)[field].split()[0]) >> 10

class Measured(Chunk):
    def process(self, input_file):
        outputs, about = super().process(input_file)
        return self.measured(outputs, about), about

    def measured(self, outputs, about):
        before = megabytes("VmRSS")
        yield from outputs
        about["peak"] = megabytes("VmHWM") - before
"""
MINUTES = 30
LOSSY = {"ogg", "mp3"}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is read from /proc")
@pytest.mark.parametrize(
    "options",
    [
        ("--format", "flac", "--seconds", "86400"),
        ("--format", "ogg", "--channels", "split", "--sample-rate", "8000", "--seconds", "750"),
        ("--subtype", "PCM_24", "--seconds", "850", "--tail", "merge"),
        ("--seconds", "2400", "--tail", "pad"),
    ],
    ids=" ".join,
)
@pytest.mark.slow
def test_memory_does_not_grow_with_a_window(folder, tmp_path, options):
    """Half an hour at 48 kHz, decoded: each window is longer than memory may hold, and every frame comes."""
    write_files(folder, {"measured.py": PEAK})
    path = wav_without_samples(folder / "long.wav", MINUTES * 60 * 48_000)
    write_list(folder / "l.csv", [["input"], [path.name]])
    recipe = ("--recipe", f"{folder}/measured.py:Measured", "--workers", "1", "--quiet")
    said = program("run", folder / "l.csv", *recipe, *options, "--output", tmp_path / "out")
    assert said.code == 0, said.err
    rows = read_table(tmp_path / "out/manifest.csv")
    assert int(rows[0]["peak"]) < 150
    for row in rows:
        made = soundfile.info(tmp_path / "out" / row["output"])
        assert made.frames == int(row["frames"])
    if "--tail" not in options:
        split = 2 if "split" in options else 1
        seconds = sum(int(row["frames"]) / int(row["sample_rate"]) for row in rows)
        assert seconds == MINUTES * 60 * split


def wav_without_samples(path: Path, frames: int) -> Path:
    """Zeros that take no room on disk."""
    header = wav(b"", channels=2, rate=48_000, stated=frames * 4)
    with path.open("wb") as file:
        file.write(header)
        file.truncate(len(header) + frames * 4)
    return path


@pytest.mark.parametrize("in_memory", [0, 1 << 26])
@pytest.mark.parametrize(
    "options",
    [
        {"format": "flac"},
        {"format": "wav", "subtype": "FLOAT"},
        {"format": "wav", "subtype": "PCM_U8"},
        {"format": "wav", "channels": "split"},
        {"format": "ogg"},
        {"format": "mp3"},
        {"sample_rate": 11_025},
        {"tail": "pad", "format": "flac"},
    ],
    ids=str,
)
def test_long_windows_are_like_short_ones(tmp_path, monkeypatch, options, in_memory):
    """The same frames, whether a piece is made at once or block after block, from memory or from files."""
    path = write_sound(tmp_path / "a.aiff", tone(9.3, 8000, 2), 8000, container="AIFF")
    outputs, about = chunks_of(path, seconds=4, **options)
    monkeypatch.setattr(decoded, "MANY_SAMPLES", 2)
    monkeypatch.setattr(window, "IN_MEMORY", in_memory)
    again, about_again = chunks_of(path, seconds=4, **options)
    assert [output.metadata for output in again] == [output.metadata for output in outputs]
    assert about_again == about
    for output, same in zip(outputs, again, strict=True):
        if options.get("format") not in LOSSY:
            assert same.content == output.content
            continue
        # what these encoders do depends a little on how much they get at once
        frames, others = samples_of(same.content, "float64"), samples_of(output.content, "float64")
        assert frames.shape == others.shape
        assert np.abs(frames - others).max() < 0.05
